//! Nodes on a ring, their coschedulers, and the messages between them.

use super::order::gang_slice;
use super::processor::{Doing, Processor, State};
use super::{Case, Outcome, Policy, Settings};
use crate::engine::{Engine, Time, seconds, to_seconds};
use crate::random::Random;
use crate::stats::jain;
use pvm_sched::coscheduling::{Coscheduler, Decision, Epoch, Reading, Timer, TwoPhase};
use std::time::Duration;

enum Event {
    /// The processes of a node start.
    Start { node: usize, first: usize },
    /// A processor's current activity ends.
    Done { node: usize, plan: u64 },
    /// A time slice of the kernel ends.
    Slice { node: usize },
    /// A timer of a node's coscheduler.
    Timer { node: usize, timer: Timer },
    /// A node's daemon is to send a message, and has the processor.
    Leaves(Message),
    /// A message arrives at a node.
    Arrives(Message),
    /// Its daemon has the processor.
    Handled(Message),
    /// Its daemon has handled it.
    Message(Message),
    /// An owner returns, or leaves.
    Owner { node: usize },
}

/// A message of a step; without one a report that a task still waits for an answer.
struct Message {
    from: usize,
    node: usize,
    job: usize,
    step: Option<u64>,
    epoch: Option<Epoch>,
}

struct Simulation<'a> {
    settings: &'a Settings,
    case: Case,
    engine: Engine<Event>,
    processors: Vec<Processor>,
    schedulers: Vec<Coscheduler<usize, usize>>,
    random: Random,
    owners: Random,
    plans: u64,
    switches: u64,
    steps: Vec<u64>,
}

fn ms(value: f64) -> Time {
    seconds(value / 1000.0)
}

/// Runs one case.
pub fn simulate(settings: &Settings, case: Case, seed: u64) -> Outcome {
    let jobs = settings.jobs as usize;
    let slice = Duration::from_micros(ms(settings.slice).max(1));
    let wait = TwoPhase::new(Duration::from_micros(ms(settings.switch)), settings.spin);
    let turn = settings.turn.map_or(slice, |turn| Duration::from_micros(ms(turn).max(1)));
    let turns = case.policy.is_demand().then_some(turn);
    let mut simulation = Simulation {
        settings,
        case,
        engine: Engine::new(),
        processors: (0..settings.nodes).map(|_| Processor::new(case.policy, jobs, wait, slice * 2)).collect(),
        schedulers: (1..=settings.nodes).map(|name| Coscheduler::new(turns, 1, name)).collect(),
        random: Random::part(seed, 8),
        owners: Random::part(seed, 13),
        plans: 0,
        switches: 0,
        steps: vec![0; jobs],
    };
    simulation.run();
    simulation.finish()
}

impl Simulation<'_> {
    fn run(&mut self) {
        self.begin();
        let end = seconds(self.settings.time);
        while let Some(event) = self.engine.next_event_until(end) {
            match event {
                Event::Start { node, first } => self.start(node, first),
                Event::Done { node, plan } if self.processors[node].plan == plan => self.done(node),
                Event::Done { .. } => {}
                Event::Slice { node } => self.slice(node),
                Event::Timer { node, timer } => {
                    let now = self.now();
                    let decisions = self.schedulers[node].timer(timer, now);
                    self.carry_out(node, decisions);
                }
                Event::Owner { node } => self.owner(node),
                Event::Leaves(message) => self.leaves(message),
                Event::Arrives(message) => self.arrives(message),
                Event::Handled(message) => self.handled(message),
                Event::Message(message) => self.message(&message),
            }
        }
    }

    fn begin(&mut self) {
        let slice = self.slice_time();
        for node in 0..self.processors.len() {
            for job in 0..self.jobs() {
                self.processors[node].processes[job].state = State::Ready(self.grain());
            }
            // With gang scheduling slices end on all nodes at once, and all nodes start with the same job.
            let gang = self.case.policy == Policy::Gang;
            let end = if gang { slice } else { 1 + self.random.below(slice as usize) as Time };
            let first = if gang { 0 } else { self.random.below(self.jobs()) };
            self.engine.at(end, Event::Slice { node });
            self.dispatch(node, Some(first));
            if self.case.policy.is_demand() {
                self.engine.at(end - 1, Event::Start { node, first });
            }
            if self.settings.idle > 0.0 {
                let visit = seconds(self.owners.exponential(self.settings.idle));
                self.engine.at(visit, Event::Owner { node });
            }
        }
    }

    /// The coscheduler learns of a node's processes.
    fn start(&mut self, node: usize, first: usize) {
        let jobs = self.jobs();
        for job in (first..first + jobs).map(|job| job % jobs) {
            let now = self.now();
            let decisions = self.schedulers[node].join(job, job as i32, now);
            self.carry_out(node, decisions);
        }
    }

    fn now(&self) -> Duration {
        Duration::from_micros(self.engine.now())
    }

    /// Neighbours of a node: one if there are two nodes.
    fn neighbours(&self) -> usize {
        2.min(self.processors.len() - 1)
    }

    fn jobs(&self) -> usize {
        self.steps.len()
    }

    fn slice_time(&self) -> Time {
        ms(self.settings.slice).max(1)
    }

    fn grain(&mut self) -> Time {
        let v = self.settings.variation.clamp(0.0, 1.0);
        ms(self.case.grain * self.random.between(1.0 - v, 1.0 + v)).max(1)
    }

    fn carry_out(&mut self, node: usize, mut decisions: Vec<Decision<usize>>) {
        let mut next = 0;
        while let Some(decision) = decisions.get(next).cloned() {
            next += 1;
            match decision {
                Decision::Dispatch { pid, runs } => {
                    self.processors[node].processes[pid as usize].held = !runs;
                }
                Decision::Read { pids } => {
                    let reading = self.read(node, &pids);
                    let now = self.now();
                    decisions.append(&mut self.schedulers[node].read(reading, now));
                }
                Decision::Timer { after, timer } => {
                    self.engine.after(after.as_micros() as Time, Event::Timer { node, timer });
                }
                Decision::TurnBegan(job) => {
                    if let Some(to) = self.processors[node].processes[job].awaits {
                        self.send(node, to, job, None);
                    }
                }
                Decision::Shared(_) | Decision::WantsSleeps => {}
            }
        }
        self.preempt_held(node);
    }

    /// Preempts a running process that is held while another one can run.
    fn preempt_held(&mut self, node: usize) {
        let processor = &self.processors[node];
        if let (Some(running), Some(next)) = (processor.running, processor.next(processor.running))
            && next != running
            && processor.processes[running].held
            && !processor.processes[next].held
        {
            self.dispatch(node, Some(next));
        }
    }

    /// A reading of CPU use. Processes that are held use what the others leave.
    fn read(&mut self, node: usize, pids: &[i32]) -> Reading {
        let now = self.engine.now();
        let processor = &mut self.processors[node];
        processor.settle(now);
        let work = pids.iter().map(|&pid| processor.processes[pid as usize].work).collect();
        Reading { work, own: std::mem::take(&mut processor.daemon), leaves_rest: true }
    }

    /// The processor starts an activity that takes this time, or does not end.
    fn plan(&mut self, node: usize, doing: Doing, time: Option<Time>) {
        let now = self.engine.now();
        let processor = &mut self.processors[node];
        processor.doing = doing;
        processor.since = now;
        processor.end = time.map(|time| now.max(processor.served).saturating_add(time));
        self.planned(node);
    }

    /// The end of the processor's activity has changed.
    fn planned(&mut self, node: usize) {
        self.plans += 1;
        let processor = &mut self.processors[node];
        processor.plan = self.plans;
        if let Some(end) = processor.end {
            self.engine.at(end, Event::Done { node, plan: self.plans });
        }
    }

    /// The daemon of a node handles a message; returns when it is done.
    fn serve(&mut self, node: usize) -> Time {
        let (now, takes) = (self.engine.now(), ms(self.settings.daemon));
        if takes > 0 {
            self.processors[node].serve(now, takes);
            self.planned(node);
        }
        now.max(self.processors[node].served)
    }

    /// A job, or none, is on the processor from now on.
    fn dispatch(&mut self, node: usize, job: Option<usize>) {
        let now = self.engine.now();
        let processor = &mut self.processors[node];
        processor.settle(now);
        if processor.running == job {
            return;
        }
        processor.stop(now);
        processor.running = job;
        if job.is_none() {
            return self.plan(node, Doing::Nothing, None);
        }
        self.switches += 1;
        self.plan(node, Doing::Switching, Some(ms(self.settings.switch)));
    }

    /// The running process continues to compute or to spin.
    fn resume(&mut self, node: usize) {
        let processor = &mut self.processors[node];
        let Some(job) = processor.running else { return };
        if let State::Ready(left) = processor.processes[job].state {
            self.plan(node, Doing::Computing, Some(left));
        } else {
            processor.processes[job].state = State::Spins;
            let spin = processor.spin(job).map(|spin| spin.as_micros() as Time);
            self.plan(node, Doing::Spinning, spin);
        }
    }

    fn done(&mut self, node: usize) {
        let now = self.engine.now();
        let processor = &mut self.processors[node];
        processor.settle(now);
        let Some(job) = processor.running else { return };
        match processor.doing {
            Doing::Nothing => {}
            Doing::Switching => self.resume(node),
            Doing::Computing => {
                self.exchange(node, job);
                self.advance(node, job);
                self.resume(node);
            }
            Doing::Spinning => {
                let spin = processor.spin(job).unwrap_or_default();
                processor.processes[job].wait.spun(spin, false);
                let next = processor.next(Some(job));
                self.dispatch(node, next);
            }
        }
    }

    /// An owner returns, and stops the jobs on the node, or leaves.
    fn owner(&mut self, node: usize) {
        let owned = !self.processors[node].owned;
        let mean = if owned { self.settings.visit } else { self.settings.idle };
        let next = seconds(self.owners.exponential(mean)).max(1);
        self.engine.after(next, Event::Owner { node });
        self.processors[node].owned = owned;
        let next = if owned { None } else { self.next(node, None) };
        self.dispatch(node, next);
    }

    /// The next job in the kernel's time slices.
    fn next(&self, node: usize, running: Option<usize>) -> Option<usize> {
        if self.case.policy == Policy::Gang {
            let micros = Duration::from_micros;
            return gang_slice(micros(self.engine.now()), micros(self.slice_time()), self.jobs());
        }
        self.processors[node].next(running).or(running)
    }

    fn slice(&mut self, node: usize) {
        self.engine.after(self.slice_time(), Event::Slice { node });
        if !self.processors[node].owned {
            let next = self.next(node, self.processors[node].running);
            self.dispatch(node, next);
        }
    }

    /// A process has computed its step: it sends to its neighbours, and waits.
    fn exchange(&mut self, node: usize, job: usize) {
        let nodes = self.processors.len();
        let process = &mut self.processors[node].processes[job];
        process.state = State::Spins;
        let step = process.step;
        for neighbour in [(node + 1) % nodes, (node + nodes - 1) % nodes].into_iter().take(self.neighbours())
        {
            if self.schedulers[node].is_shared() {
                self.processors[node].processes[job].awaits = Some(neighbour);
            }
            self.send(node, neighbour, job, Some(step));
        }
    }

    fn send(&mut self, from: usize, node: usize, job: usize, step: Option<u64>) {
        let scheduler = &self.schedulers[from];
        let epoch = scheduler.has_turn(Some(job)).then(|| scheduler.epoch());
        let message = Message { from, node, job, step, epoch };
        match self.interrupt(from) {
            0 => self.leaves(message),
            late => self.engine.after(late, Event::Leaves(message)),
        }
    }

    fn leaves(&mut self, message: Message) {
        let sent = self.serve(message.from);
        self.engine.at(sent + ms(self.settings.latency), Event::Arrives(message));
    }

    fn arrives(&mut self, message: Message) {
        match self.interrupt(message.node) {
            0 => self.handled(message),
            late => self.engine.after(late, Event::Handled(message)),
        }
    }

    fn handled(&mut self, message: Message) {
        let handled = self.serve(message.node);
        if handled > self.engine.now() {
            self.engine.at(handled, Event::Message(message));
        } else {
            self.message(&message);
        }
    }

    /// How long the daemon waits for the processor while a process that never blocks has it. While teams take turns,
    /// daemons do not wait.
    fn interrupt(&self, node: usize) -> Time {
        let is_busy = matches!(self.processors[node].doing, Doing::Computing | Doing::Spinning);
        if is_busy && self.case.policy.spins() && !self.schedulers[node].is_shared() {
            ms(self.settings.interrupt)
        } else {
            0
        }
    }

    /// If all neighbours have answered, the process has its next step to do.
    fn advance(&mut self, node: usize, job: usize) -> bool {
        let neighbours = self.neighbours();
        let process = &mut self.processors[node].processes[job];
        let parity = (process.step % 2) as usize;
        if matches!(process.state, State::Ready(_)) || usize::from(process.got[parity]) < neighbours {
            return false;
        }
        process.got[parity] = 0;
        process.step += 1;
        self.steps[job] += 1;
        let grain = self.grain();
        self.processors[node].processes[job].state = State::Ready(grain);
        true
    }

    fn message(&mut self, message: &Message) {
        let &Message { from, node, job, step, epoch } = message;
        self.hint(from, node, job, epoch);
        let Some(step) = step else { return };
        self.processors[node].settle(self.engine.now());
        let before = self.processors[node].processes[job].state;
        self.processors[node].processes[job].got[(step % 2) as usize] += 1;
        if self.advance(node, job) {
            self.note_wait(node, job, before);
            self.wake(node, job);
        }
    }

    /// The receiver's coscheduler sees every message.
    fn hint(&mut self, from: usize, node: usize, job: usize, epoch: Option<Epoch>) {
        let now = self.now();
        let scheduler = &mut self.schedulers[node];
        if scheduler.is_shared() {
            self.processors[node].processes[job].awaits = None;
            scheduler.heard(job, from);
        }
        if let Some(epoch) = epoch {
            let decisions = scheduler.arrived(Some(job), epoch, now);
            self.carry_out(node, decisions);
        }
    }

    /// How a wait ended, for the time that the next one spins.
    fn note_wait(&mut self, node: usize, job: usize, before: State) {
        let now = self.engine.now();
        let processor = &mut self.processors[node];
        let is_spinning = processor.running == Some(job) && processor.doing == Doing::Spinning;
        let spin = processor.spin(job).unwrap_or_default();
        let wait = &mut processor.processes[job].wait;
        match before {
            State::Blocked(since) => wait.blocked(Duration::from_micros(now - since)),
            State::Spins if is_spinning => wait.spun(spin, true),
            State::Spins | State::Ready(_) => {}
        }
    }

    /// A process has something to do again.
    fn wake(&mut self, node: usize, job: usize) {
        let processor = &self.processors[node];
        match processor.running {
            _ if processor.owned => {}
            Some(running) if running == job && processor.doing == Doing::Spinning => self.resume(node),
            Some(running) if running == job => {}
            Some(running) if processor.preempts(job, running) => self.dispatch(node, Some(job)),
            None if self.case.policy != Policy::Gang => self.dispatch(node, Some(job)),
            _ => {}
        }
    }

    fn finish(self) -> Outcome {
        let steps: u64 = self.steps.iter().sum();
        // A step on a machine of one's own: the slowest of the processes near by, and the messages' way.
        let step = (self.case.grain * (1.0 + self.settings.variation / 2.0) + self.settings.latency) / 1000.0;
        let done = steps as f64 / self.processors.len() as f64 * step;
        Outcome {
            slowdown: to_seconds(seconds(self.settings.time)) / done.max(1e-9),
            fairness: jain(self.steps.iter().map(|&steps| steps as f64)),
            switches: self.switches as f64 / self.processors.len() as f64 / self.settings.time.max(1e-9),
            steps,
            events: self.engine.happened(),
        }
    }
}
