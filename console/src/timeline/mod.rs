//! `pvm run --trace FILE`: what all tasks did when, in one file that Perfetto and Chrome's viewer open.
//!
//! Tasks linked with this system's library report their calls as messages. Of other programs the collector knows what
//! their daemons say of every collected task: when it started and when it ended. Daemons also say whose turn it was on their
//! hosts.

pub mod chrome;
pub mod rows;
mod target;
pub mod turns;

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
use std::time::{SystemTime, UNIX_EPOCH};
use target::Target;
use turns::Turns;

/// The variable that tasks of every library pass on what it names of their environment.
const EXPORT: &str = "PVM_EXPORT";

/// Checks that a trace can be written to this file, and returns its absolute path. Nothing changes, neither a file that is
/// there nor its folder.
pub fn check(path: &Path) -> Result<PathBuf> {
    Target::open(path)?;
    std::path::absolute(path).with_context(|| format!("cannot find {}", path.display()))
}

/// Nanoseconds since 1970.
fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(Moment::MAX)
}

/// Collects what tasks report and writes it down in the end.
#[derive(Debug)]
pub struct Collector {
    target: Target,
    hosts: BTreeMap<Tid, Host>,
    rows: Rows,
    turns: Turns,
    lives: Lives,
    unnamed: HashSet<Tid>,
}

/// A host, and how far this one's clock is ahead of its; nothing for one that was lost before it could say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// How far its clock is behind.
    pub behind: Option<ClockAhead>,
}

/// What the daemons have said of the begin and end of tasks since it was last looked at.
#[derive(Clone, Debug, Default)]
pub struct Lives(Arc<Mutex<Vec<(Tid, Life, Moment)>>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Started,
    Ended,
}

impl Lives {
    /// Notes what an output event says of a task's life.
    pub fn note(&self, tid: Tid, event: &OutputEvent) {
        let life = match event {
            OutputEvent::Started { .. } | OutputEvent::Spawned { .. } => Life::Started,
            OutputEvent::End => Life::Ended,
            OutputEvent::Bytes(_) => return,
        };
        self.lock().push((tid, life, now()));
    }

    fn take(&self) -> Vec<(Tid, Life, Moment)> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(Tid, Life, Moment)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector {
    /// A collector that will write to this file, and reads the hosts' clocks now.
    pub fn new(path: &Path, task: &mut Task) -> Result<Self> {
        let mut collector = Self {
            target: Target::open(path)?,
            hosts: BTreeMap::new(),
            rows: Rows::default(),
            turns: Turns::default(),
            lives: Lives::default(),
            unnamed: HashSet::new(),
        };
        collector.meet_hosts(task)?;
        collector.turns.ask(task, &collector.hosts);
        Ok(collector)
    }

    /// Where output events are to be noted.
    pub fn lives(&self) -> Lives {
        self.lives.clone()
    }

    /// Makes a program, and all it spawns, report to this task.
    pub fn put_into(command: &mut Command, task: &Task) {
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

    /// Takes in what has come.
    pub fn collect(&mut self, task: &mut Task) -> pvm3::Result<()> {
        let is_report = |message: &pvm3::Message| {
            (message.header.context, message.header.tag) == (CONTEXT_TC, TIMELINE_TAG)
        };
        while let Some(message) = task.poll_message(is_report)? {
            // Another task may send anything under this tag.
            let Ok(report) = pvm_wire::codec::decode::<Report>(&message.body) else { continue };
            self.meet_host_of(message.src, task)?;
            let clock = self.hosts.get(&message.src.to_host()).and_then(|host| host.behind);
            let behind = clock.map_or(0, |clock| clock.micros.saturating_mul(1000));
            self.rows.report(message.src, report, behind);
        }
        for (tid, life, moment) in self.lives.take() {
            match life {
                Life::Started => {
                    self.rows.started(tid, moment);
                    self.unnamed.insert(tid);
                }
                Life::Ended => self.rows.ended(tid, moment),
            }
        }
        for tid in std::mem::take(&mut self.unnamed) {
            self.meet_host_of(tid, task)?;
            if let Some(info) = task.tasks(Scope::Task(tid))?.into_iter().find(|info| info.tid == tid) {
                let path = Path::new(&info.name);
                self.rows.name(tid, &path.file_name().unwrap_or_default().to_string_lossy());
            }
        }
        self.turns.look(task, &self.hosts);
        Ok(())
    }

    /// The run is over: takes in whose turn it was until now.
    pub fn last_turns(&mut self, task: &mut Task) {
        self.turns.ask(task, &self.hosts);
    }

    fn meet_host_of(&mut self, tid: Tid, task: &mut Task) -> pvm3::Result<()> {
        if self.hosts.contains_key(&tid.to_host()) { Ok(()) } else { self.meet_hosts(task) }
    }

    fn meet_hosts(&mut self, task: &mut Task) -> pvm3::Result<()> {
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
                "pvm: {} is incomplete: {} calls were dropped, there were too many",
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
