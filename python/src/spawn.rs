//! Spawning tasks.

use crate::errors::of;
use crate::handle::numbers;
use crate::task::Task;
use pvm3::{PvmError, Spawn};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList};
use std::collections::HashMap;
use std::ffi::OsString;

/// The terms of a spawn. The package's `spawn` and `queue` set all of them.
#[derive(FromPyObject)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the call")]
#[pyo3(from_item_all)]
struct Terms {
    program: OsString,
    args: Vec<OsString>,
    count: i64,
    host: Option<String>,
    arch: Option<String>,
    others: bool,
    directory: Option<OsString>,
    env: HashMap<OsString, OsString>,
    policy: Option<String>,
    traffic: Vec<(u32, u32, u64)>,
    team: Option<String>,
    debug: bool,
    without_parent: bool,
    tied: bool,
}

impl Terms {
    fn apply(self, task: &mut pvm3::Task) -> Spawn<'_> {
        // The library's error names an invalid count.
        let count = usize::try_from(self.count).unwrap_or(0);
        let mut spawn = task.spawn(self.program).args(self.args).count(count);
        if let Some(host) = self.host {
            spawn = spawn.on_host(&host);
        }
        if let Some(arch) = self.arch {
            spawn = spawn.on_arch(&arch);
        }
        if self.others {
            spawn = spawn.others();
        }
        if let Some(directory) = self.directory {
            spawn = spawn.directory(directory);
        }
        for (name, value) in self.env {
            spawn = spawn.env(name, value);
        }
        if let Some(policy) = self.policy {
            spawn = spawn.policy(&policy);
        }
        spawn = spawn.traffic(self.traffic);
        if let Some(team) = self.team {
            spawn = spawn.team(&team);
        }
        if self.debug {
            spawn = spawn.debug();
        }
        if self.tied {
            spawn = spawn.tied();
        }
        if self.without_parent {
            spawn = spawn.without_parent();
        }
        spawn
    }
}

/// The result of a spawn: a sequence of the ids of the tasks that were started.
#[pyclass(module = "pvm", frozen, sequence)]
pub struct Spawned {
    /// The tasks that were started.
    #[pyo3(get)]
    tids: Vec<i32>,
    /// PVM's codes of those that were not.
    #[pyo3(get)]
    failed: Vec<i32>,
    /// Name of the placement policy that has chosen their hosts; empty if a host was given.
    #[pyo3(get)]
    policy: String,
    reasons: Vec<Refused>,
}

/// Why tasks were not started: one reason, on one host.
#[pyclass(module = "pvm", frozen, get_all)]
#[derive(Clone)]
pub struct Refused {
    /// The host, if it was one's doing.
    host: Option<i32>,
    /// PVM's code.
    code: i32,
    /// How many tasks.
    count: u32,
    /// The reason, with its object.
    reason: String,
}

#[pymethods]
impl Spawned {
    /// Why the others were not started: one entry per reason and host.
    #[getter]
    fn reasons(&self) -> Vec<Refused> {
        self.reasons.clone()
    }

    fn __len__(&self) -> usize {
        self.tids.len()
    }

    fn __getitem__(&self, index: usize) -> PyResult<i32> {
        let found = self.tids.get(index).copied();
        found.ok_or_else(|| PyIndexError::new_err(format!("{} tasks were started", self.tids.len())))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyList::new(py, &self.tids)?.try_iter()
    }

    fn __repr__(&self) -> String {
        format!("<pvm.Spawned: {} started, {} not>", self.tids.len(), self.failed.len())
    }
}

#[pymethods]
impl Refused {
    fn __repr__(&self) -> String {
        format!("<pvm.Refused: {} tasks: {}>", self.count, self.reason)
    }
}

#[pymethods]
impl Task {
    fn _spawn(&self, py: Python<'_>, terms: Terms) -> PyResult<Spawned> {
        let program = terms.program.clone();
        let spawned = self.handle.call(py, |task| terms.apply(task).start())?;
        if let ([], Some(&first)) = (&*spawned.tids, spawned.failed.first()) {
            let reason = spawned.reasons.first().map_or_else(|| first.text(), |refused| &refused.reason);
            return Err(of(py, first, format!("{}: {reason}", program.display())));
        }
        let refused = |refused: pvm3::Refused| Refused {
            host: refused.host.map(pvm3::Tid::raw),
            code: refused.code.code(),
            count: refused.count,
            reason: refused.reason,
        };
        Ok(Spawned {
            tids: numbers(&spawned.tids),
            failed: spawned.failed.into_iter().map(PvmError::code).collect(),
            reasons: spawned.reasons.into_iter().map(refused).collect(),
            policy: spawned.policy,
        })
    }

    fn _queue(&self, py: Python<'_>, terms: Terms, notices: Option<i32>, restarts: u32) -> PyResult<i32> {
        if let Some(tag @ ..0) = notices {
            return Err(of(py, PvmError::BadParam, format!("{tag} is no tag: tags are not negative")));
        }
        self.handle.call(py, |task| {
            let queued = terms.apply(task).queued().restarts(restarts);
            match notices {
                Some(tag) => queued.notices(tag).start(),
                None => queued.start(),
            }
        })
    }
}
