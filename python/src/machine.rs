//! The virtual machine: its hosts and its tasks.

use crate::handle::tid;
use crate::task::Task;
use pvm3::{HostState, PvmError, Scope};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// A host of the virtual machine.
#[pyclass(module = "pvm", frozen, eq, get_all)]
#[derive(PartialEq)]
pub struct Host {
    /// Its id.
    tid: i32,
    /// Its name.
    name: String,
    /// Its architecture.
    arch: String,
    /// Its speed, as the hostfile gives it.
    speed: i32,
}

/// Why a host was not added or removed.
#[pyclass(module = "pvm", frozen, get_all)]
pub struct HostFailure {
    /// The host as it was asked for.
    name: String,
    /// PVM's code.
    code: i32,
    /// The reason.
    reason: String,
}

/// A task of the virtual machine.
#[pyclass(module = "pvm", frozen, get_all)]
pub struct TaskInfo {
    /// Its id.
    tid: i32,
    /// The task that spawned it.
    parent: Option<i32>,
    /// Its host's id.
    host: i32,
    /// Its program, empty if not known.
    name: String,
    /// Its process id.
    pid: i32,
}

impl From<pvm3::HostInfo> for Host {
    fn from(host: pvm3::HostInfo) -> Self {
        Self { tid: host.tid.raw(), name: host.name, arch: host.arch, speed: host.speed }
    }
}

impl From<pvm3::TaskInfo> for TaskInfo {
    fn from(task: pvm3::TaskInfo) -> Self {
        Self {
            tid: task.tid.raw(),
            parent: task.parent.map(pvm3::Tid::raw),
            host: task.host.raw(),
            name: task.name.to_string_lossy().into_owned(),
            pid: task.pid,
        }
    }
}

#[pymethods]
impl Host {
    fn __repr__(&self) -> String {
        format!("<pvm.Host {}>", self.name)
    }
}

#[pymethods]
impl HostFailure {
    fn __repr__(&self) -> String {
        format!("<pvm.HostFailure: {}: {}>", self.name, self.reason)
    }
}

#[pymethods]
impl TaskInfo {
    fn __repr__(&self) -> String {
        format!("<pvm.TaskInfo {} {}>", pvm3::Tid::from_raw(self.tid), self.name)
    }
}

#[pymethods]
impl Task {
    /// The hosts, in the order in which they joined.
    fn hosts(&self, py: Python<'_>) -> PyResult<Vec<Host>> {
        Ok(self.handle.call(py, pvm3::Task::hosts)?.into_iter().map(Host::from).collect())
    }

    /// The tasks of the machine, those of a host, or one task; none if there is no such task.
    #[pyo3(signature = (of = None))]
    fn tasks(&self, py: Python<'_>, of: Option<i64>) -> PyResult<Vec<TaskInfo>> {
        let scope = match of.map(tid).transpose()? {
            None => Scope::All,
            Some(task) if task.is_task() => Scope::Task(task),
            Some(host) => Scope::Host(host),
        };
        Ok(self.handle.call(py, |task| task.tasks(scope))?.into_iter().map(TaskInfo::from).collect())
    }

    /// Adds hosts, each given by a name and options as in a hostfile. The results are in the same order: a `Host`, or a
    /// `HostFailure`.
    fn add_hosts<'py>(&self, py: Python<'py>, hosts: Vec<String>) -> PyResult<Bound<'py, PyList>> {
        let results = PyList::empty(py);
        for result in self.handle.call(py, |task| task.add_hosts(&hosts))? {
            match result {
                Ok(host) => results.append(Bound::new(py, Host::from(host))?)?,
                Err(failure) => {
                    let code = failure.code.code();
                    let failure = HostFailure { name: failure.name, code, reason: failure.reason };
                    results.append(Bound::new(py, failure)?)?;
                }
            }
        }
        Ok(results)
    }

    /// Removes hosts by name and ends their tasks. For each there is `None`, or a `HostFailure`.
    fn delete_hosts(&self, py: Python<'_>, hosts: Vec<String>) -> PyResult<Vec<Option<HostFailure>>> {
        let results = self.handle.call(py, |task| task.delete_hosts(&hosts))?;
        let failure = |(result, name): (Result<(), PvmError>, &String)| {
            let code = result.err()?;
            Some(HostFailure { name: name.clone(), code: code.code(), reason: code.text().to_owned() })
        };
        Ok(results.into_iter().zip(&hosts).map(failure).collect())
    }

    /// How the host of this name is: `"running"`, `"unknown"` or `"failed"`; `"."` is this task's own.
    fn host_status(&self, py: Python<'_>, name: &str) -> PyResult<&'static str> {
        Ok(match self.handle.call(py, |task| task.host_status(name))? {
            HostState::Running => "running",
            HostState::Unknown => "unknown",
            HostState::Failed => "failed",
        })
    }

    /// Ends a task (SIGTERM).
    fn kill(&self, py: Python<'_>, task: i64) -> PyResult<()> {
        let of = tid(task)?;
        self.handle.call(py, |task| task.kill(of))
    }

    /// Sends a signal to a task; one that has ended gets nothing.
    fn signal(&self, py: Python<'_>, task: i64, signal: i32) -> PyResult<()> {
        let of = tid(task)?;
        if !(1..=64).contains(&signal) {
            return Err(PyValueError::new_err(format!("{signal} is no signal")));
        }
        self.handle.call(py, |task| task.signal(of, signal))
    }

    /// Whether a task runs.
    fn is_running(&self, py: Python<'_>, task: i64) -> PyResult<bool> {
        let of = tid(task)?;
        self.handle.call(py, |task| task.is_running(of))
    }

    /// Ends the virtual machine, this task included unless it ignores SIGTERM.
    fn halt(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.call(py, pvm3::Task::halt)
    }
}
