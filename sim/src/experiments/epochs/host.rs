//! A node of several processors: its kernel, its processes, its daemon, and what each processor does.

use super::Policy;
use crate::kernel::{FAVOURED, Kernel, NORMAL, Nanos, Setting, TaskId};
use pvm_sched::coscheduling::{Coscheduler, Reading, TwoPhase, Work};
use pvm_wire::tuned::{YIELD_BACKOFF_MAX, YIELD_LONG};
use std::collections::VecDeque;
use std::time::Duration;

/// The slice that a daemon asks for while tasks are held, ns.
const SHORT: Nanos = 100_000;
/// A yield that finds no other task takes this long at least, ns.
const YIELD: Nanos = 200;

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has this long to compute.
    Ready(Nanos),
    /// It waits for messages, and spins until then.
    Spins(Nanos),
    /// It waits for messages, and has blocked then.
    Blocked(Nanos),
}

/// A process of a job.
#[derive(Clone, Debug)]
pub struct Process {
    pub state: State,
    pub step: u64,
    /// Messages for this step and, as neighbours may be one ahead, the next: by the last bit of the step.
    pub got: [u8; 2],
    pub wait: TwoPhase,
    /// The process on another node to which it has sent, without an answer yet, while teams take turns.
    pub awaits: Option<usize>,
    sleeps: u64,
    /// For how long the wait that it is in may spin.
    budget: Nanos,
    /// Since when it yields.
    yields: Option<Nanos>,
    /// Waits that are to block at once, as yields have taken long, and as many as it was the last time.
    unyielding: (u32, u32),
}

impl Process {
    fn new(wait: TwoPhase) -> Self {
        Self {
            state: State::Ready(0),
            step: 0,
            got: [0; 2],
            wait,
            awaits: None,
            sleeps: 0,
            budget: 0,
            yields: None,
            unyielding: (0, 0),
        }
    }

    /// For how long a wait that begins now spins; `Nanos::MAX` for as long as it may.
    fn spin(&mut self, policy: Policy) -> Nanos {
        match policy {
            Policy::Blocking => 0,
            Policy::Implicit | Policy::Demand if self.unyielding.0 > 0 => {
                self.unyielding.0 -= 1;
                0
            }
            Policy::Implicit | Policy::Demand => self.wait.spin,
            Policy::Local | Policy::DemandSpinning | Policy::Gang => Nanos::MAX,
        }
    }

    /// A wait that was allowed to spin is over.
    fn end_spin(&mut self, now: Nanos, is_found: bool) {
        self.end_yields(now);
        if !matches!(std::mem::take(&mut self.budget), 0 | Nanos::MAX) {
            let spin = self.wait.spin();
            self.wait.spun(spin, is_found);
        }
    }

    /// A wait that has yielded is over: yields that take long become rare, as they do in live tasks with few peers.
    fn end_yields(&mut self, now: Nanos) {
        let Some(since) = self.yields.take() else { return };
        let last = self.unyielding.1;
        let is_long = u128::from(now - since) >= YIELD_LONG.as_nanos();
        let next = if is_long { (last * 2 + 1).min(YIELD_BACKOFF_MAX) } else { last / 2 };
        self.unyielding = (next, next);
    }
}

/// What a processor does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Processor {
    running: Option<TaskId>,
    /// What is left of the switch to it.
    switching: Nanos,
    since: Nanos,
    /// When it will have done what it does, and the number of the event for that.
    end: Option<Nanos>,
    pub plan: u64,
}

/// What a processor has come to the end of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Nothing that matters.
    Nothing,
    /// A process's work.
    Work(TaskId),
    /// The daemon's work for a message.
    Message,
}

/// What a switch costs.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// From one process to another.
    pub switch: Nanos,
    /// From idleness to a process.
    pub wake: Nanos,
    /// The daemon's work for a message.
    pub daemon: Nanos,
}

/// A node. `M` is a message that its daemon handles.
pub struct Host<M> {
    pub kernel: Kernel,
    policy: Policy,
    costs: Costs,
    pub processes: Vec<Process>,
    pub processors: Vec<Processor>,
    pub scheduler: Coscheduler<usize, usize>,
    slice: Nanos,
    daemon: TaskId,
    is_favoured: bool,
    /// The messages that wait for the daemon, and what is left to do for the first.
    messages: VecDeque<M>,
    left: Nanos,
    /// The daemon's time at the last reading.
    read: Nanos,
    pub switches: u64,
}

impl<M> Host<M> {
    pub fn new(
        (policy, costs): (Policy, Costs),
        setting: Setting,
        (processes, wait): (usize, TwoPhase),
        scheduler: Coscheduler<usize, usize>,
    ) -> Self {
        let mut kernel = Kernel::new(setting);
        (0..processes).for_each(|_| _ = kernel.add());
        let daemon = kernel.add();
        Self {
            kernel,
            policy,
            costs,
            processes: vec![Process::new(wait); processes],
            processors: vec![Processor::default(); setting.processors],
            scheduler,
            slice: setting.slice,
            daemon,
            is_favoured: false,
            messages: VecDeque::new(),
            left: 0,
            read: 0,
            switches: 0,
        }
    }

    /// Accounts for what processors have done until now.
    pub fn settle(&mut self, now: Nanos) {
        for processor in &mut self.processors {
            let time = now - std::mem::replace(&mut processor.since, now);
            let switched = time.min(processor.switching);
            processor.switching -= switched;
            let time = time - switched;
            match processor.running {
                Some(id) if id == self.daemon => self.left = self.left.saturating_sub(time),
                Some(id) => {
                    if let State::Ready(left) = &mut self.processes[id].state {
                        *left = left.saturating_sub(time);
                    }
                }
                None => {}
            }
        }
    }

    /// Follows what the kernel has decided. Returns the processors that have another end than before, and when that is.
    pub fn follow(&mut self, now: Nanos) -> Vec<(usize, Nanos)> {
        let mut planned = Vec::new();
        for cpu in 0..self.processors.len() {
            let running = self.kernel.running(cpu);
            let before = self.processors[cpu].running;
            if running != before {
                let processor = &mut self.processors[cpu];
                processor.running = running;
                let cost = if before.is_none() { self.costs.wake } else { self.costs.switch };
                processor.switching = if running.is_some() { cost } else { 0 };
                self.switches += u64::from(running.is_some());
                if let Some(id) = running.filter(|&id| id != self.daemon) {
                    self.dispatched(id, now);
                }
            }
            let end = self.end(cpu, now);
            if end != self.processors[cpu].end {
                self.processors[cpu].end = end;
                self.processors[cpu].plan += 1;
                planned.extend(end.map(|end| (cpu, end)));
            }
        }
        planned
    }

    /// A process that yielded has the processor back, and finds that it has no longer to wait.
    fn dispatched(&mut self, id: TaskId, now: Nanos) {
        let process = &mut self.processes[id];
        if matches!(process.state, State::Ready(_)) {
            process.end_spin(now, true);
        }
    }

    fn end(&self, cpu: usize, now: Nanos) -> Option<Nanos> {
        let processor = &self.processors[cpu];
        let id = processor.running?;
        let begins = now + processor.switching;
        if id == self.daemon {
            return Some(begins + self.left);
        }
        match self.processes[id].state {
            State::Ready(left) => Some(begins + left),
            State::Spins(Nanos::MAX) | State::Blocked(_) => None,
            // Between two looks it lets others run.
            State::Spins(_) if self.kernel.is_wanted(cpu) => Some(begins + YIELD),
            State::Spins(end) => Some(begins.max(end)),
        }
    }

    /// A processor has done what it did.
    pub fn done(&mut self, cpu: usize, now: Nanos) -> Ended {
        self.processors[cpu].end = None;
        let Some(id) = self.processors[cpu].running else { return Ended::Nothing };
        if id == self.daemon {
            return if self.left == 0 { Ended::Message } else { Ended::Nothing };
        }
        let process = &mut self.processes[id];
        match process.state {
            State::Ready(0) => return Ended::Work(id),
            State::Spins(end) if now >= end => {
                process.end_spin(now, false);
                self.block(id, now);
            }
            State::Spins(_) => {
                process.yields.get_or_insert(now);
                self.kernel.yields(cpu, now);
            }
            State::Ready(_) | State::Blocked(_) => {}
        }
        Ended::Nothing
    }

    /// A process that has sent its messages begins to wait. If it has lost its processor by then, it does so when it has it back.
    pub fn wait(&mut self, id: TaskId, now: Nanos) {
        let process = &mut self.processes[id];
        process.budget = process.spin(self.policy);
        process.state = State::Spins(now.saturating_add(process.budget));
        if process.budget == 0 && self.kernel.runs_on(id).is_some() {
            self.block(id, now);
        }
    }

    fn block(&mut self, id: TaskId, now: Nanos) {
        let process = &mut self.processes[id];
        process.state = State::Blocked(now);
        process.sleeps += 1;
        if let Some(cpu) = self.kernel.runs_on(id) {
            self.kernel.sleep(cpu, now);
        }
    }

    /// A process has something to do again.
    pub fn wake(&mut self, id: TaskId, work: Nanos, by: Option<usize>, now: Nanos) {
        let runs = self.kernel.runs_on(id).is_some();
        let process = &mut self.processes[id];
        match process.state {
            State::Blocked(since) => process.wait.blocked(Duration::from_nanos(now - since)),
            State::Spins(_) if runs => process.end_spin(now, true),
            State::Spins(_) | State::Ready(_) => {}
        }
        let is_blocked = matches!(process.state, State::Blocked(_));
        process.state = State::Ready(work);
        if is_blocked {
            self.kernel.wake(id, by, now);
        }
    }

    /// The daemon has a message to handle; returns it if that takes no time.
    pub fn post(&mut self, message: M, by: Option<usize>, now: Nanos) -> Option<M> {
        if self.costs.daemon == 0 {
            return Some(message);
        }
        self.messages.push_back(message);
        if self.messages.len() == 1 {
            self.left = self.costs.daemon;
            self.kernel.wake(self.daemon, by, now);
        }
        None
    }

    /// The daemon has handled a message. With none left it sleeps.
    pub fn handled(&mut self, cpu: usize, now: Nanos) -> Option<M> {
        let message = self.messages.pop_front();
        if self.messages.is_empty() {
            self.kernel.sleep(cpu, now);
        } else {
            self.left = self.costs.daemon;
        }
        message
    }

    /// While tasks are held the daemon is to run at once, when there is something for it.
    pub fn favour_daemon(&mut self, now: Nanos) {
        let has_turns = self.scheduler.user().is_some();
        if std::mem::replace(&mut self.is_favoured, has_turns) != has_turns {
            let terms = if has_turns { (FAVOURED, SHORT) } else { (NORMAL, self.slice) };
            self.kernel.favour(self.daemon, terms, now);
        }
    }

    /// A reading of CPU use. Processes that are held use what the others leave.
    pub fn read(&mut self, pids: &[i32], now: Nanos) -> Reading {
        let work = |pid: &i32| {
            let id = *pid as usize;
            let (ran, waited) = self.kernel.times(id, now);
            let [time, waits] = [ran, waited].map(Duration::from_nanos);
            Work { time, waits, sleeps: self.processes[id].sleeps }
        };
        let work = pids.iter().map(work).collect();
        let (ran, _) = self.kernel.times(self.daemon, now);
        let own = Duration::from_nanos(ran - std::mem::replace(&mut self.read, ran));
        Reading { work, own, leaves_rest: true }
    }
}
