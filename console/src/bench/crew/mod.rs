//! The workers, as their parent sees them: orders, answers, losses.

mod connecting;

use super::order::{self, Hello, Job, Order, Outcome, Ran, Reply, tag};
use crate::losses;
use crate::supervise::Interrupts;
use anyhow::{Context, Result};
use indicatif::ProgressBar;
use pvm3::{Any, HostInfo, Incident, Pack, Received, Spawned, Task, Tid};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::time::{Duration, Instant};

/// Between two looks for signals.
const LOOK: Duration = Duration::from_millis(50);
/// How long a worker may take to start.
const START: Duration = Duration::from_secs(30);
/// How long one order may take. Most take milliseconds; those that would take long are not given.
const ORDER: Duration = Duration::from_secs(120);
/// How long the others may take to notice that one of them has failed, and to end.
const SETTLE: Duration = Duration::from_secs(3);

/// Why something was not measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It cannot be or need not be: no failure.
    LeftOut(String),
    /// It failed.
    Failed(String),
    /// A worker of this host, or the host, is not there; [`Crew::trouble`] has the reason.
    Gone(usize),
    /// A signal has ended the run.
    Interrupted,
}

impl From<pvm3::Error> for Problem {
    fn from(error: pvm3::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Workers of one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Takes part in everything.
    Main,
    /// Talks to the main one.
    Mate,
    /// Talks to those of other hosts by the daemons.
    ByDaemons,
}

/// A host, with what its main worker has told.
#[derive(Debug)]
pub struct Host {
    /// As the virtual machine lists it.
    pub info: HostInfo,
    /// What its first worker has told.
    pub hello: Option<Hello>,
    /// Why nothing more can be measured there.
    trouble: Option<String>,
}

/// All workers.
#[derive(Debug)]
pub struct Crew {
    /// This process as a task.
    pub task: Task,
    /// The hosts, in the order of the list.
    pub hosts: Vec<Host>,
    program: OsString,
    interrupts: Interrupts,
    /// The signal that has ended the run.
    pub signal: Option<i32>,
    bar: ProgressBar,
    workers: BTreeMap<(usize, Role), Tid>,
    owners: BTreeMap<Tid, usize>,
    greeted: BTreeSet<Tid>,
    exited: BTreeSet<Tid>,
    replies: BTreeMap<Tid, Reply>,
    serial: u32,
    /// Exits of tasks of a batch.
    exits: usize,
    /// Lost hosts whose reasons have not been printed.
    unreported: usize,
    wires: BTreeMap<(usize, usize), Result<(), Problem>>,
}

impl Crew {
    /// Without workers.
    pub fn new(mut task: Task, interrupts: Interrupts, bar: ProgressBar) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find out which program this is")?.into();
        let hosts: Vec<HostInfo> = task.hosts()?;
        let tids: Vec<Tid> = hosts.iter().map(|host| host.tid).collect();
        task.notify_host_delete(&tids, tag::HOST_LOST)?;
        if task.daemon_is_ours() {
            task.report_incidents(false)?;
        }
        let hosts = hosts.into_iter().map(|info| Host { info, hello: None, trouble: None }).collect();
        Ok(Self {
            task,
            hosts,
            program,
            interrupts,
            signal: None,
            bar,
            workers: BTreeMap::new(),
            owners: BTreeMap::new(),
            greeted: BTreeSet::new(),
            exited: BTreeSet::new(),
            replies: BTreeMap::new(),
            serial: 0,
            exits: 0,
            unreported: 0,
            wires: BTreeMap::new(),
        })
    }

    /// Starts a worker on a host; [`Crew::await_workers`] waits for all.
    pub fn hire(&mut self, host: usize, role: Role) {
        if self.check([host]).is_err() {
            return;
        }
        let kind = if role == Role::ByDaemons { "daemons" } else { "serve" };
        let name = self.hosts[host].info.name.clone();
        let spawn = self.task.spawn(&self.program).args(["bench", "--worker", kind]);
        let spawned = spawn.on_host(&name).tied().start();
        match spawned.map_err(|error| error.to_string()).and_then(|spawned| one(&spawned)) {
            Ok(tid) => {
                self.workers.insert((host, role), tid);
                self.owners.insert(tid, host);
                // If this fails the next call does, too.
                let _ = self.task.notify_exit(&[tid], tag::WORKER_EXITED);
            }
            Err(reason) => self.blame(host, format!("{name}: no worker was started: {reason}")),
        }
    }

    /// Waits until each worker has greeted. A host whose workers do not is in trouble from then on.
    pub fn await_workers(&mut self) -> Result<(), Problem> {
        let deadline = Instant::now() + START;
        let all: Vec<Tid> = self.owners.keys().copied().collect();
        let waits =
            |crew: &Self| all.iter().any(|tid| !crew.greeted.contains(tid) && !crew.exited.contains(tid));
        while waits(self) && Instant::now() < deadline {
            self.turn()?;
        }
        let silent: Vec<Tid> = all.into_iter().filter(|tid| !self.greeted.contains(tid)).collect();
        for tid in silent {
            let host = self.owners[&tid];
            let name = &self.hosts[host].info.name;
            let reason = if self.exited.contains(&tid) {
                format!("{name}: the worker has exited at once; is another version of pvm installed there?")
            } else {
                format!("{name}: the worker has not started within {} s", START.as_secs())
            };
            self.blame(host, reason);
        }
        Ok(())
    }

    /// Notes why nothing more can be measured on a host; the first reason counts.
    fn blame(&mut self, host: usize, reason: String) {
        if let Some(host) = self.hosts.get_mut(host) {
            host.trouble.get_or_insert(reason);
        }
    }

    /// Why nothing more can be measured on a host.
    pub fn trouble(&self, host: usize) -> Option<&str> {
        self.hosts.get(host)?.trouble.as_deref()
    }

    /// Fails if a host of these is in trouble.
    pub fn check(&self, hosts: impl IntoIterator<Item = usize>) -> Result<(), Problem> {
        match hosts.into_iter().find(|&host| self.hosts.get(host).is_none_or(|host| host.trouble.is_some())) {
            Some(host) => Err(Problem::Gone(host)),
            None => Ok(()),
        }
    }

    /// A worker that is there.
    pub fn worker(&self, host: usize, role: Role) -> Result<Tid, Problem> {
        self.check([host])?;
        let tid = self.workers.get(&(host, role)).copied();
        tid.filter(|tid| !self.exited.contains(tid)).ok_or(Problem::Gone(host))
    }

    /// Begins a spawn of tasks that enrol and exit.
    pub fn spawn_batch(&mut self, host: Option<usize>, count: u64) -> Result<Spawned, Problem> {
        let name = host.and_then(|host| self.hosts.get(host)).map(|host| host.info.name.clone());
        let spawn = self.task.spawn(&self.program).args(["bench", "--worker", "empty"]).count(count as usize);
        let spawned = match &name {
            Some(name) => spawn.on_host(name).start()?,
            None => spawn.start()?,
        };
        if spawned.failed.is_empty() {
            return Ok(spawned);
        }
        let failed = spawned.failed.len();
        Err(Problem::Failed(format!("{failed} of {count} tasks were not started: {}", reason(&spawned))))
    }

    /// Waits until these tasks have exited.
    pub fn await_exits(&mut self, tasks: &[Tid]) -> Result<(), Problem> {
        self.exits = 0;
        self.task.notify_exit(tasks, tag::TASK_EXITED)?;
        let deadline = Instant::now() + ORDER;
        while self.exits < tasks.len() {
            self.turn()?;
            if Instant::now() >= deadline {
                let left = tasks.len() - self.exits;
                return Err(Problem::Failed(format!(
                    "{left} tasks have not exited within {} s",
                    ORDER.as_secs()
                )));
            }
        }
        Ok(())
    }

    /// Gives each of these workers an order, and waits until all have answered.
    pub fn run(&mut self, orders: Vec<(Tid, Job)>) -> Result<Vec<Ran>, Problem> {
        let outcomes = self.order(orders)?;
        let ran = |outcome| match outcome {
            Outcome::Done(ran) => ran,
            Outcome::Bound(_) => Ran::default(),
        };
        Ok(outcomes.into_iter().map(ran).collect())
    }

    fn order(&mut self, orders: Vec<(Tid, Job)>) -> Result<Vec<Outcome>, Problem> {
        self.serial = self.serial.wrapping_add(1);
        self.replies.clear();
        let serial = self.serial;
        let workers: Vec<Tid> = orders.iter().map(|(worker, _)| *worker).collect();
        for (worker, job) in orders {
            let mut pack = Pack::new();
            pack.put_value(&Order { serial, job })?;
            self.task.send(worker, tag::ORDER, &pack)?;
        }
        let deadline = Instant::now() + ORDER;
        loop {
            if let Some(problem) = self.failure(&workers, deadline) {
                self.settle(&workers);
                // That one is gone explains what the others report.
                return Err(self.gone(&workers).unwrap_or(problem));
            }
            let outcome = |worker| self.replies.get(worker).and_then(|reply| reply.result.clone().ok());
            if let Some(outcomes) = workers.iter().map(outcome).collect() {
                return Ok(outcomes);
            }
            self.turn()?;
        }
    }

    /// One of these workers has exited.
    fn gone(&self, workers: &[Tid]) -> Option<Problem> {
        let worker = workers.iter().find(|worker| self.exited.contains(worker))?;
        self.owners.get(worker).map(|&host| Problem::Gone(host))
    }

    /// What keeps these workers from answering.
    fn failure(&self, workers: &[Tid], deadline: Instant) -> Option<Problem> {
        if let Some(problem) = self.gone(workers) {
            return Some(problem);
        }
        let mut answers = workers.iter().filter_map(|worker| self.replies.get(worker));
        if let Some(reason) = answers.find_map(|reply| reply.result.as_ref().err()) {
            return Some(Problem::Failed(reason.clone()));
        }
        (Instant::now() >= deadline)
            .then(|| Problem::Failed(format!("no answer within {} s", ORDER.as_secs())))
    }

    /// One of these has failed: the others notice it, or are killed.
    fn settle(&mut self, workers: &[Tid]) {
        let deadline = Instant::now() + SETTLE;
        let is_settled =
            |crew: &Self, worker: &Tid| crew.replies.contains_key(worker) || crew.exited.contains(worker);
        while !workers.iter().all(|worker| is_settled(self, worker)) && Instant::now() < deadline {
            if self.turn().is_err() {
                return;
            }
        }
        let stuck: Vec<Tid> = workers.iter().copied().filter(|worker| !is_settled(self, worker)).collect();
        for worker in stuck {
            // It may have exited just now.
            let _ = self.task.kill(worker);
            if let Some(&host) = self.owners.get(&worker) {
                let name = &self.hosts[host].info.name;
                self.blame(host, format!("{name}: a worker has not answered"));
            }
        }
    }

    /// Waits a moment for a message, and takes it in.
    fn turn(&mut self) -> Result<(), Problem> {
        if let Some(signal) = self.interrupts.take() {
            self.signal = Some(signal);
        }
        if self.signal.is_some() {
            return Err(Problem::Interrupted);
        }
        self.report_losses()?;
        match self.task.recv_timeout(Any, Any, LOOK)? {
            Some(message) => self.take(message),
            None => Ok(()),
        }
    }

    fn take(&mut self, mut message: Received) -> Result<(), Problem> {
        let source = message.source();
        if source == Tid::MY_DAEMON {
            match message.tag() {
                tag::TASK_EXITED => self.exits += 1,
                tag::WORKER_EXITED => {
                    let worker = message.get_tid()?;
                    self.exited.insert(worker);
                }
                tag::HOST_LOST => {
                    let host = message.get_tid()?;
                    self.note_loss(host);
                }
                _ => {}
            }
            return Ok(());
        }
        let Some(&host) = self.owners.get(&source) else { return Ok(()) };
        let read = match message.tag() {
            tag::HELLO => order::read_hello(&mut message).map(|hello| {
                self.greeted.insert(source);
                self.hosts[host].hello.get_or_insert(hello);
            }),
            tag::REPLY => order::read_reply(&mut message).map(|reply| {
                // Late answers to earlier orders do not matter any more.
                if reply.serial == self.serial {
                    self.replies.insert(source, reply);
                }
            }),
            _ => Ok(()),
        };
        if let Err(reason) = read {
            self.greeted.insert(source);
            let name = &self.hosts[host].info.name;
            self.blame(host, format!("{name}: the worker {reason}"));
            let _ = self.task.kill(source);
        }
        Ok(())
    }

    fn note_loss(&mut self, lost: Tid) {
        let Some(host) = self.hosts.iter().position(|host| host.info.tid == lost) else { return };
        let reason = format!("{} was lost", self.hosts[host].info.name);
        self.hosts[host].trouble = Some(reason);
        self.unreported += usize::from(self.task.daemon_is_ours());
    }

    /// Prints why hosts were lost. The report may come after the notice.
    fn report_losses(&mut self) -> Result<(), Problem> {
        if self.unreported == 0 {
            return Ok(());
        }
        for incident in self.task.incidents()? {
            self.unreported -=
                usize::from(matches!(incident, Incident::HostLost { .. })).min(self.unreported);
            if let Some(text) = losses::describe(&incident) {
                self.bar.suspend(|| eprintln!("pvm: {text}"));
            }
        }
        Ok(())
    }

    /// A worker has exited, and its host is perhaps lost, which is known a moment later.
    pub fn explain(&mut self, host: usize) -> String {
        let deadline = Instant::now() + Duration::from_millis(500);
        while self.trouble(host).is_none() && Instant::now() < deadline && self.turn().is_ok() {}
        let name = self.hosts.get(host).map_or("a host", |host| &host.info.name).to_owned();
        self.blame(host, format!("a worker on {name} has exited"));
        self.trouble(host).unwrap_or("it is gone").to_owned()
    }

    /// Ends all workers, and waits until they have exited.
    pub fn dismiss(&mut self) {
        let left: Vec<Tid> = self.owners.keys().copied().filter(|tid| !self.exited.contains(tid)).collect();
        let signal = self.signal.take();
        for &worker in &left {
            let mut pack = Pack::new();
            let order = pack.put_value(&Order { serial: 0, job: Job::End }).map(drop);
            // A worker that does not get the order ends with this task.
            let _ = match signal {
                Some(_) => self.task.kill(worker),
                None => order.and_then(|()| self.task.send(worker, tag::ORDER, &pack)),
            };
        }
        let deadline = Instant::now() + SETTLE;
        let has_exited = |crew: &Self, worker: &Tid| crew.exited.contains(worker);
        while !left.iter().all(|worker| has_exited(self, worker)) && Instant::now() < deadline {
            // The daemon is gone, or a second signal has come.
            if self.turn().is_err() {
                break;
            }
        }
        for worker in left {
            if !has_exited(self, &worker) {
                let _ = self.task.kill(worker);
            }
        }
        self.signal = self.signal.or(signal);
    }
}

/// The task of a spawn of one.
fn one(spawned: &Spawned) -> Result<Tid, String> {
    spawned.tids.first().copied().ok_or_else(|| reason(spawned))
}

/// Why tasks were not started.
fn reason(spawned: &Spawned) -> String {
    match (spawned.reasons.first(), spawned.failed.first()) {
        (Some(refused), _) => refused.reason.clone(),
        (None, Some(code)) => code.to_string(),
        (None, None) => "no reason is known".into(),
    }
}
