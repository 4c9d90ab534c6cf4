//! A node's kernel, with one processor: which of the processes that may run is next.

use super::Policy;
use super::order::local_next;
use crate::engine::Time;
use pvm_sched::coscheduling::accounts::Accounts;
use pvm_sched::coscheduling::{TwoPhase, Work};
use std::time::Duration;

/// The state of a process.
#[derive(Clone, Copy, PartialEq)]
pub enum State {
    /// The time for which it has to compute.
    Ready(Time),
    /// It waits for messages, and spins.
    Spins,
    /// It waits for messages, and has blocked then.
    Blocked(Time),
}

/// A process of a job.
#[derive(Clone)]
pub struct Process {
    pub state: State,
    pub step: u64,
    /// Messages for this step and, as neighbours may be one ahead, the next: by the last bit of the step.
    pub got: [u8; 2],
    /// Its work as the kernel reports it.
    pub work: Work,
    pub wait: TwoPhase,
    /// The node to which it has sent, without an answer yet, while teams take turns.
    pub awaits: Option<usize>,
    /// The coscheduler holds it: it runs when nothing else wants to.
    pub held: bool,
}

/// The activity of the processor.
#[derive(Clone, Copy, PartialEq)]
pub enum Doing {
    Nothing,
    Switching,
    Computing,
    Spinning,
}

/// A node's processor, and the process of each job there.
pub struct Processor {
    policy: Policy,
    pub processes: Vec<Process>,
    jobs: Vec<usize>,
    accounts: Accounts<usize>,
    /// A process that wakes is favoured if it is at most this much ahead of the one that runs.
    slack: Duration,
    pub running: Option<usize>,
    pub doing: Doing,
    pub since: Time,
    /// Number of the plan in force, and when it ends.
    pub plan: u64,
    pub end: Option<Time>,
    /// When the daemon, which takes precedence over all processes, will have handled the messages that have arrived.
    pub served: Time,
    /// The time that this has taken.
    pub daemon: Duration,
    /// Whether the owner has the processor.
    pub owned: bool,
}

impl Processor {
    pub fn new(policy: Policy, jobs: usize, wait: TwoPhase, slack: Duration) -> Self {
        let process = Process {
            state: State::Ready(0),
            step: 0,
            got: [0; 2],
            work: Work::default(),
            wait,
            awaits: None,
            held: false,
        };
        let mut accounts = Accounts::default();
        (0..jobs).for_each(|job| accounts.open(job));
        Self {
            policy,
            processes: vec![process; jobs],
            jobs: (0..jobs).collect(),
            accounts,
            slack,
            running: None,
            doing: Doing::Nothing,
            since: 0,
            plan: 0,
            end: None,
            served: 0,
            daemon: Duration::ZERO,
            owned: false,
        }
    }

    pub fn is_ready(&self, job: usize) -> bool {
        matches!(self.processes[job].state, State::Ready(_))
    }

    /// Whether it wants the processor when it has not got it.
    fn is_runnable(&self, job: usize) -> bool {
        self.policy.spins() || self.is_ready(job)
    }

    /// Accounts for what has happened until now.
    pub fn settle(&mut self, now: Time) {
        let before = std::mem::replace(&mut self.since, now);
        let time = Duration::from_micros(now - before);
        // The daemon has had the rest.
        let elapsed = now - before.max(self.served.min(now));
        for job in 0..self.jobs.len() {
            if self.running == Some(job) {
                let time = Duration::from_micros(elapsed);
                self.accounts.charge(job, time);
                self.processes[job].work.time += time;
                if let (Doing::Computing, State::Ready(left)) = (self.doing, &mut self.processes[job].state) {
                    *left = left.saturating_sub(elapsed);
                }
            } else if self.is_runnable(job) {
                self.processes[job].work.waits += time;
            }
        }
    }

    /// The daemon handles a message; what is to be done next is put off.
    pub fn serve(&mut self, now: Time, takes: Time) {
        self.settle(now);
        self.served = self.served.max(now) + takes;
        self.daemon += Duration::from_micros(takes);
        self.end = self.end.map(|end| end + takes);
    }

    /// The next to run after that one: those that are held run when nothing else wants to.
    pub fn next(&self, ran: Option<usize>) -> Option<usize> {
        let of = |held| {
            local_next(&self.jobs, ran, |job| self.processes[job].held == held && self.is_runnable(job))
        };
        of(false).or_else(|| of(true))
    }

    /// Whether a process that wakes, or is no longer held, takes the processor from the one that runs.
    pub fn preempts(&self, job: usize, running: usize) -> bool {
        match (self.processes[job].held, self.processes[running].held) {
            (false, true) => true,
            (true, false) => false,
            _ => {
                let of = |job| self.accounts.of(job);
                self.policy.favours_waking() && of(job) <= of(running).saturating_add(self.slack)
            }
        }
    }

    /// The process that runs is preempted, or has spun for long enough: if it waits, it blocks.
    pub fn stop(&mut self, now: Time) {
        let Some(job) = self.running.filter(|_| !self.policy.spins()) else { return };
        let process = &mut self.processes[job];
        if process.state == State::Spins {
            process.state = State::Blocked(now);
            process.work.sleeps += 1;
        }
    }

    /// For how long a process that waits spins; `None` for as long as it may.
    pub fn spin(&self, job: usize) -> Option<Duration> {
        match self.policy {
            Policy::Blocking => Some(Duration::ZERO),
            Policy::Implicit | Policy::Demand => Some(self.processes[job].wait.spin()),
            Policy::Local | Policy::DemandSpinning | Policy::Gang => None,
        }
    }
}
