//! Nodes of several processors: the same jobs and coschedulers as in `model.rs`, under the model of Linux's scheduler.
//!
//! A job has several processes on each node, on a ring that goes through the processes of one node after the other. Messages within a
//! node go by memory, those between nodes by their daemons, which are processes of the kernel like others.

use super::host::{Costs, Ended, Host, State};
use super::order::gang_slice;
use super::{Case, Outcome, Policy, Settings};
use crate::engine::Engine;
use crate::kernel::{Nanos, Setting};
use crate::random::Random;
use crate::stats::jain;
use pvm_sched::coscheduling::{Coscheduler, Decision, Epoch, Timer, TwoPhase};
use std::time::Duration;

/// Processes begin within this time, ns.
const BEGIN: usize = 1_000_000;

enum Event {
    /// A process of a node begins.
    Begin { node: usize, id: usize },
    /// The coscheduler learns of a node's processes.
    Join { node: usize },
    /// The kernel's ticks on a node.
    Tick { node: usize },
    /// A processor has done what it does.
    Done { node: usize, cpu: usize, plan: u64 },
    /// A timer of a node's coscheduler.
    Timer { node: usize, timer: Timer },
    /// All nodes change jobs.
    Gang,
    /// A message arrives at a node.
    Arrives(Message),
}

/// A message between nodes; without a step a report that a process still waits for an answer.
#[derive(Clone, Copy)]
struct Message {
    job: usize,
    /// Places on the job's ring.
    from: usize,
    to: usize,
    step: Option<u64>,
    epoch: Option<Epoch>,
    /// Whether it has left its node.
    has_left: bool,
}

struct Simulation<'a> {
    settings: &'a Settings,
    case: Case,
    engine: Engine<Event>,
    hosts: Vec<Host<Message>>,
    random: Random,
    /// Processes of a job on each node.
    tasks: usize,
    steps: Vec<u64>,
}

fn ns(ms: f64) -> Nanos {
    libm::round(ms * 1e6) as Nanos
}

/// Runs one case.
pub fn simulate(settings: &Settings, case: Case, seed: u64) -> Outcome {
    let (jobs, processors) = (settings.jobs as usize, settings.processors.unwrap_or(1));
    let tasks = settings.tasks.unwrap_or(processors) as usize;
    let switch = ns(settings.switch);
    let costs = Costs { switch, wake: settings.wake.map_or(switch, ns), daemon: ns(settings.daemon) };
    let slice = settings.base.map_or(Setting::base_slice(processors as usize), ns);
    let setting =
        Setting { processors: processors as usize, tick: ns(settings.tick).max(1), slice: slice.max(1) };
    let wait = TwoPhase::new(Duration::from_nanos(switch), settings.spin);
    let turn = Duration::from_nanos(ns(settings.turn.unwrap_or(settings.slice)).max(1));
    let turns = case.policy.is_demand().then_some(turn);
    let host = |name| {
        let scheduler = Coscheduler::new(turns, processors, name);
        Host::new((case.policy, costs), setting, (jobs * tasks, wait), scheduler)
    };
    let mut simulation = Simulation {
        settings,
        case,
        engine: Engine::new(),
        hosts: (1..=settings.nodes).map(host).collect(),
        random: Random::part(seed, 8),
        tasks,
        steps: vec![0; jobs],
    };
    simulation.run();
    simulation.finish()
}

impl Simulation<'_> {
    fn run(&mut self) {
        self.begin();
        let end = ns(self.settings.time * 1e3);
        while let Some(event) = self.engine.next_event_until(end) {
            match event {
                Event::Gang => self.gang(),
                Event::Begin { node, .. }
                | Event::Join { node }
                | Event::Tick { node }
                | Event::Done { node, .. }
                | Event::Timer { node, .. } => self.on(node, |all| all.happens(node, &event)),
                Event::Arrives(message) => {
                    let node = message.to / self.tasks;
                    self.on(node, |all| all.arrives(node, message));
                }
            }
        }
    }

    /// Something happens on a node: what has been done until now counts before, and the kernel's decisions after.
    fn on(&mut self, node: usize, happens: impl FnOnce(&mut Self)) {
        let now = self.engine.now();
        self.hosts[node].settle(now);
        happens(self);
        self.hosts[node].favour_daemon(now);
        for (cpu, end) in self.hosts[node].follow(now) {
            let plan = self.hosts[node].processors[cpu].plan;
            self.engine.at(end, Event::Done { node, cpu, plan });
        }
    }

    fn begin(&mut self) {
        let tick = ns(self.settings.tick).max(1);
        let slice = self.slice();
        for node in 0..self.hosts.len() {
            let first = self.random.below(tick as usize) as Nanos;
            self.engine.at(first, Event::Tick { node });
            for id in 0..self.hosts[node].processes.len() {
                let begins = self.random.below(BEGIN) as Nanos;
                self.engine.at(begins, Event::Begin { node, id });
            }
            let join = self.random.below(slice as usize) as Nanos;
            if self.case.policy.is_demand() {
                self.engine.at(join, Event::Join { node });
            }
        }
        if self.case.policy == Policy::Gang {
            self.engine.at(0, Event::Gang);
        }
    }

    fn happens(&mut self, node: usize, event: &Event) {
        let now = self.engine.now();
        match *event {
            Event::Begin { id, .. } => {
                let work = self.grain();
                self.hosts[node].processes[id].state = State::Ready(work);
                self.hosts[node].kernel.start(id, now);
            }
            Event::Join { .. } => self.join(node),
            Event::Tick { .. } => {
                self.hosts[node].kernel.tick(now);
                self.engine.after(ns(self.settings.tick).max(1), Event::Tick { node });
            }
            Event::Timer { timer, .. } => {
                let decisions = self.hosts[node].scheduler.timer(timer, Duration::from_nanos(now));
                self.carry_out(node, decisions);
            }
            Event::Done { cpu, plan, .. } if self.hosts[node].processors[cpu].plan == plan => {
                match self.hosts[node].done(cpu, now) {
                    Ended::Nothing => {}
                    Ended::Work(id) => self.worked(node, id, cpu),
                    Ended::Message => {
                        if let Some(message) = self.hosts[node].handled(cpu, now) {
                            self.handled(node, message, Some(cpu));
                        }
                    }
                }
            }
            Event::Done { .. } | Event::Gang | Event::Arrives(_) => {}
        }
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.engine.now())
    }

    fn slice(&self) -> Nanos {
        ns(self.settings.slice).max(1)
    }

    fn grain(&mut self) -> Nanos {
        let v = self.settings.variation.clamp(0.0, 1.0);
        ns(self.case.grain * self.random.between(1.0 - v, 1.0 + v)).max(1)
    }

    /// Jobs that fit beside each other on the processors of a node.
    fn fit(&self) -> usize {
        let processors = self.settings.processors.unwrap_or(1) as usize;
        (processors / self.tasks).clamp(1, self.steps.len())
    }

    /// All nodes run the jobs of the next row; others get what these leave.
    fn gang(&mut self) {
        let fit = self.fit();
        let slice = self.slice();
        let rows = self.steps.len().div_ceil(fit);
        let row = gang_slice(self.now(), Duration::from_nanos(slice), rows).unwrap_or_default();
        let now = self.engine.now();
        for node in 0..self.hosts.len() {
            let tasks = self.tasks;
            self.on(node, |all| {
                for runs in [true, false] {
                    for id in 0..all.hosts[node].processes.len() {
                        if (id / tasks / fit == row) == runs {
                            all.hosts[node].kernel.set_idle(id, !runs, now);
                        }
                    }
                }
            });
        }
        self.engine.after(slice, Event::Gang);
    }

    fn join(&mut self, node: usize) {
        let now = self.now();
        for id in 0..self.hosts[node].processes.len() {
            let decisions = self.hosts[node].scheduler.join(id / self.tasks, id as i32, now);
            self.carry_out(node, decisions);
        }
    }

    fn carry_out(&mut self, node: usize, mut decisions: Vec<Decision<usize>>) {
        let (now, time) = (self.engine.now(), self.now());
        let mut next = 0;
        while let Some(decision) = decisions.get(next).cloned() {
            next += 1;
            match decision {
                Decision::Dispatch { pid, runs } => {
                    self.hosts[node].kernel.set_idle(pid as usize, !runs, now);
                }
                Decision::Read { pids } => {
                    let reading = self.hosts[node].read(&pids, now);
                    decisions.append(&mut self.hosts[node].scheduler.read(reading, time));
                }
                Decision::Timer { after, timer } => {
                    self.engine.after(after.as_nanos() as Nanos, Event::Timer { node, timer });
                }
                Decision::TurnBegan(job) => self.remind(node, job),
                Decision::Shared(_) | Decision::WantsSleeps => {}
            }
        }
    }

    /// Processes that have sent to other nodes, and have had no answer, say so again.
    fn remind(&mut self, node: usize, job: usize) {
        for id in job * self.tasks..(job + 1) * self.tasks {
            if let Some(to) = self.hosts[node].processes[id].awaits {
                self.send(node, (job, self.place(node, id)), to, None, None);
            }
        }
    }

    /// A process's place on the ring of its job.
    fn place(&self, node: usize, id: usize) -> usize {
        node * self.tasks + id % self.tasks
    }

    /// The process of a job at a place.
    fn id(&self, job: usize, place: usize) -> usize {
        job * self.tasks + place % self.tasks
    }

    fn places(&self) -> usize {
        self.hosts.len() * self.tasks
    }

    fn neighbours(&self) -> usize {
        2.min(self.places() - 1)
    }

    /// A process has computed its step: it sends to its neighbours, and waits.
    fn worked(&mut self, node: usize, id: usize, cpu: usize) {
        let (job, place, all) = (id / self.tasks, self.place(node, id), self.places());
        let now = self.engine.now();
        let step = self.hosts[node].processes[id].step;
        self.hosts[node].processes[id].state = State::Spins(now);
        for other in [(place + 1) % all, (place + all - 1) % all].into_iter().take(self.neighbours()) {
            if other / self.tasks == node {
                self.deliver(node, self.id(job, other), step, Some(cpu));
                continue;
            }
            if self.hosts[node].scheduler.is_shared() {
                self.hosts[node].processes[id].awaits = Some(other);
            }
            self.send(node, (job, place), other, Some(step), Some(cpu));
        }
        if !self.advance(node, id, Some(cpu)) {
            self.hosts[node].wait(id, now);
        }
    }

    fn send(
        &mut self,
        node: usize,
        (job, from): (usize, usize),
        to: usize,
        step: Option<u64>,
        by: Option<usize>,
    ) {
        let scheduler = &self.hosts[node].scheduler;
        let epoch = scheduler.has_turn(Some(job)).then(|| scheduler.epoch());
        let message = Message { job, from, to, step, epoch, has_left: false };
        if let Some(message) = self.hosts[node].post(message, by, self.engine.now()) {
            self.handled(node, message, by);
        }
    }

    fn arrives(&mut self, node: usize, message: Message) {
        if let Some(message) = self.hosts[node].post(message, None, self.engine.now()) {
            self.handled(node, message, None);
        }
    }

    /// A daemon has handled a message, which goes to another node, or to a process.
    fn handled(&mut self, node: usize, message: Message, by: Option<usize>) {
        if !message.has_left {
            let message = Message { has_left: true, ..message };
            return self.engine.after(ns(self.settings.latency), Event::Arrives(message));
        }
        let Message { job, from, to, step, epoch, .. } = message;
        let id = self.id(job, to);
        let now = self.now();
        let host = &mut self.hosts[node];
        if host.scheduler.is_shared() {
            if host.processes[id].awaits == Some(from) {
                host.processes[id].awaits = None;
            }
            host.scheduler.heard(job, from / self.tasks);
        }
        if let Some(epoch) = epoch {
            let decisions = self.hosts[node].scheduler.arrived(Some(job), epoch, now);
            self.carry_out(node, decisions);
        }
        if let Some(step) = step {
            self.deliver(node, id, step, by);
        }
    }

    /// A process has a message.
    fn deliver(&mut self, node: usize, id: usize, step: u64, by: Option<usize>) {
        self.hosts[node].processes[id].got[(step % 2) as usize] += 1;
        self.advance(node, id, by);
    }

    /// If all neighbours have answered a process that waits, it has its next step to do.
    fn advance(&mut self, node: usize, id: usize, by: Option<usize>) -> bool {
        let neighbours = self.neighbours();
        let process = &mut self.hosts[node].processes[id];
        let parity = (process.step % 2) as usize;
        let is_ready = matches!(process.state, State::Ready(_));
        if is_ready || usize::from(process.got[parity]) < neighbours {
            return false;
        }
        process.got[parity] = 0;
        process.step += 1;
        self.steps[id / self.tasks] += 1;
        let work = self.grain();
        self.hosts[node].wake(id, work, by, self.engine.now());
        true
    }

    fn finish(self) -> Outcome {
        let Settings { variation, latency, nodes, time, .. } = *self.settings;
        let steps: u64 = self.steps.iter().sum();
        // A step on a machine of one's own: the slowest of the processes near by, and the messages' way between nodes.
        let way = if nodes > 1 { latency } else { 0.0 };
        let step = (self.case.grain * (1.0 + variation / 2.0) + way) / 1000.0;
        // As many jobs at a time as fit.
        let done = steps as f64 / self.places() as f64 / self.fit() as f64 * step;
        let switches: u64 = self.hosts.iter().map(|host| host.switches).sum();
        Outcome {
            slowdown: time / done.max(1e-9),
            fairness: jain(self.steps.iter().map(|&steps| steps as f64)),
            switches: switches as f64 / f64::from(nodes) / time.max(1e-9),
            steps,
            events: self.engine.happened(),
        }
    }
}
