//! `pvm run --trace FILE`: the activities of all tasks, in one file for Perfetto and Chrome's viewer.
//!
//! Tasks linked with this system's library report their calls as messages. For other programs the collector has the reports of
//! the daemons about every collected task: when it started and when it ended. Daemons also report the turns of teams on their
//! hosts.

pub mod chrome;
pub mod rows;
mod target;
pub mod turns;

use crate::cli::RecordArgs;
use anyhow::{Context, Result};
use chrome::Picture;
use pvm_wire::codes::{CONTEXT_TC, TIMELINE_TAG};
use pvm_wire::timeline::{Report, VARIABLE};
use pvm3::{ClockAhead, HostInfo, OutputEvent, Scope, Task, Tid};
use rows::{Moment, Rows};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
pub(crate) use target::Target;
use turns::Turns;

/// The variable with the names of the environment variables that tasks of every library pass on.
const EXPORT: &str = "PVM_EXPORT";

/// Checks that a trace can be written to this file, and returns its absolute path. Neither an existing file nor its folder
/// changes.
pub fn check(path: &Path) -> Result<PathBuf> {
    Target::open(path)?;
    std::path::absolute(path).with_context(|| format!("cannot find {}", path.display()))
}

/// Nanoseconds since 1970.
fn now() -> Moment {
    i64::try_from(crate::since_1970().as_nanos()).unwrap_or(Moment::MAX)
}

/// Collects what tasks report and writes it down in the end.
#[derive(Debug)]
pub struct Collector {
    target: Target,
    hosts: BTreeMap<Tid, Host>,
    rows: Rows,
    turns: Turns,
    lifetimes: Lifetimes,
    unnamed: HashSet<Tid>,
}

/// A host, and the difference of its clock from this host's; `None` for a host that was lost before it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// How far its clock is behind.
    pub behind: Option<ClockAhead>,
}

/// Starts and ends of tasks that the daemons have reported since the last look.
#[derive(Clone, Debug, Default)]
pub struct Lifetimes(Arc<Mutex<Vec<(Tid, Change, Moment)>>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Started,
    Ended,
}

impl Lifetimes {
    /// Notes the start or the end of a task that an output event reports.
    pub fn note(&self, tid: Tid, event: &OutputEvent) {
        let change = match event {
            OutputEvent::Started { .. } | OutputEvent::Spawned { .. } => Change::Started,
            OutputEvent::End => Change::Ended,
            OutputEvent::Bytes(_) => return,
        };
        self.lock().push((tid, change, now()));
    }

    fn take(&self) -> Vec<(Tid, Change, Moment)> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(Tid, Change, Moment)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector {
    /// A collector that will write to this file, and reads the hosts' clocks now.
    pub fn new(path: &Path, wanted: &RecordArgs, task: &mut Task) -> Result<Self> {
        let mut collector = Self {
            target: Target::open(path)?,
            hosts: BTreeMap::new(),
            rows: Rows::new(wanted.calls, &wanted.programs),
            turns: Turns::default(),
            lifetimes: Lifetimes::default(),
            unnamed: HashSet::new(),
        };
        collector.learn_hosts(task)?;
        collector.turns.ask(task, &collector.hosts);
        Ok(collector)
    }

    /// Where output events are to be noted.
    pub fn lifetimes(&self) -> Lifetimes {
        self.lifetimes.clone()
    }

    /// Makes a program, and all it spawns, report to this task.
    pub fn set_environment(command: &mut Command, task: &Task) {
        command.env(VARIABLE, task.tid().raw().to_string());
        // Tasks of the original library pass on no variable of ours, but those that this one names.
        let mut names = std::env::var(EXPORT).unwrap_or_default();
        if !names.is_empty() {
            names.push(':');
        }
        command.env(EXPORT, names + VARIABLE);
    }

    /// The program was started as this task.
    pub fn begin(&mut self, tid: Tid, program: &Path) {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        self.rows.started(tid, now());
        self.rows.name(tid, &name);
    }

    /// The program has ended.
    pub fn end(&mut self, tid: Tid) {
        self.rows.ended(tid, now());
    }

    /// Handles the reports that have arrived.
    pub fn collect(&mut self, task: &mut Task) -> pvm3::Result<()> {
        let is_report = |message: &pvm3::Message| {
            (message.header.context, message.header.tag) == (CONTEXT_TC, TIMELINE_TAG)
        };
        while let Some(message) = task.poll_message(is_report)? {
            // Another task may send anything under this tag.
            let Ok(report) = pvm_wire::codec::decode::<Report>(&message.body) else { continue };
            self.learn_host_of(message.src, task)?;
            let clock = self.hosts.get(&message.src.to_host()).and_then(|host| host.behind);
            let behind = clock.map_or(0, |clock| clock.micros.saturating_mul(1000));
            self.rows.report(message.src, report, behind);
        }
        for (tid, change, moment) in self.lifetimes.take() {
            match change {
                Change::Started => {
                    self.rows.started(tid, moment);
                    self.unnamed.insert(tid);
                }
                Change::Ended => self.rows.ended(tid, moment),
            }
        }
        for tid in std::mem::take(&mut self.unnamed) {
            self.learn_host_of(tid, task)?;
            if let Some(info) = task.tasks(Scope::Task(tid))?.into_iter().find(|info| info.tid == tid) {
                let path = Path::new(&info.name);
                self.rows.name(tid, &path.file_name().unwrap_or_default().to_string_lossy());
            }
        }
        self.turns.look(task, &self.hosts);
        Ok(())
    }

    /// The run is over: asks for the turns until now.
    pub fn last_turns(&mut self, task: &mut Task) {
        self.turns.ask(task, &self.hosts);
    }

    fn learn_host_of(&mut self, tid: Tid, task: &mut Task) -> pvm3::Result<()> {
        if self.hosts.contains_key(&tid.to_host()) { Ok(()) } else { self.learn_hosts(task) }
    }

    fn learn_hosts(&mut self, task: &mut Task) -> pvm3::Result<()> {
        for HostInfo { tid, name, .. } in task.hosts()? {
            if let Entry::Vacant(place) = self.hosts.entry(tid) {
                place.insert(Host { name, behind: task.clock_ahead(tid).ok() });
            }
        }
        Ok(())
    }

    /// Writes the file.
    pub fn write(self) -> Result<()> {
        let Self { target, hosts, rows, turns, .. } = self;
        let path = target.path().to_owned();
        if rows.lost() > 0 {
            eprintln!(
                "pvm: {} is incomplete: {} calls were left out, there were too many (--trace-calls, --trace-program)",
                path.display(),
                rows.lost()
            );
        }
        let written = target.write(|file| {
            let mut writer = BufWriter::new(file);
            Picture::new(hosts, rows.finish(now()), turns.finish()).write(&mut writer)?;
            writer.flush()
        });
        written.with_context(|| format!("cannot write {}", path.display()))
    }
}
