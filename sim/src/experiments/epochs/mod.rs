//! `pvm sim epochs`: local, implicit, demand-based and gang scheduling over the grain of the jobs.
//!
//! Every node has a process of every job. A job's processes compute for about a grain, exchange messages with their two
//! neighbours on a ring, and go on when both have answered.

mod order;

use super::{Runs, cell, series, text};
use crate::engine::{Engine, Time, seconds, to_seconds};
use crate::random::Random;
use crate::report::{Plot, Report, Table};
use crate::settings;
use crate::stats::jain;
use order::{gang_slice, local_next};
use pvm_sched::coscheduling::{Arrival, Epoch, Node, TwoPhase};
use std::time::Duration;

/// What can be set.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Nodes
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=4096))]
    pub nodes: u32,
    /// Jobs that share them
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub jobs: u32,
    /// Grains to try: computation between two exchanges, ms
    #[arg(long, value_delimiter = ',', default_values_t = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0], value_parser = settings::positive)]
    pub grain: Vec<f64>,
    /// How unequal the processes compute: each grain is up to this part longer or shorter
    #[arg(long, default_value_t = 0.1, value_parser = settings::not_negative)]
    pub variation: f64,
    /// A message's way, ms
    #[arg(long, default_value_t = 0.05, value_parser = settings::not_negative)]
    pub latency: f64,
    /// A context switch, ms
    #[arg(long, default_value_t = 0.05, value_parser = settings::not_negative)]
    pub switch: f64,
    /// A time slice, ms
    #[arg(long, default_value_t = 100.0, value_parser = settings::positive)]
    pub slice: f64,
    /// Context switches that a waiting process spins for before it blocks
    #[arg(long, default_value_t = TwoPhase::FACTOR)]
    pub spin: u32,
    /// Simulated time, s
    #[arg(long, default_value_t = 20.0, value_parser = settings::positive)]
    pub time: f64,
    /// Mean time that a node is idle between two visits of its owner, s, who has the processor to himself. 0 for no owners
    #[arg(long, default_value_t = 0.0, value_parser = settings::not_negative)]
    pub idle: f64,
    /// How long an owner stays, s
    #[arg(long, default_value_t = 1.0, value_parser = settings::positive)]
    pub visit: f64,
}

/// How nodes schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Each node by itself; a process that waits for a message looks for it until its slice ends.
    Local,
    /// Each node by itself; a process that waits blocks, and has to queue when it wakes.
    Blocking,
    /// Two-phase blocking, and who wakes is preferred.
    Implicit,
    /// Two-phase blocking, and messages switch by the epoch rule.
    Demand,
    /// All nodes run the same job in the same slice.
    Gang,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Local, Self::Blocking, Self::Implicit, Self::Demand, Self::Gang];

    fn name(self) -> &'static str {
        match self {
            Self::Local => "local, spinning",
            Self::Blocking => "local, blocking",
            Self::Implicit => "implicit",
            Self::Demand => "demand-based, epochs",
            Self::Gang => "gang",
        }
    }
}

/// One simulation.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// How nodes schedule.
    pub policy: Policy,
    /// Computation between two exchanges, ms.
    pub grain: f64,
}

/// What a simulation gives.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The time that the jobs would have needed one after the other on a machine of their own, into the time they had.
    pub slowdown: f64,
    /// Jain's index over the jobs' steps.
    pub fairness: f64,
    /// Context switches per node and second.
    pub switches: f64,
    /// Steps that all jobs took.
    pub steps: u64,
    /// Events that happened.
    pub events: u64,
}

enum Event {
    /// What a processor does at present ends.
    Done {
        node: usize,
        plan: u64,
    },
    /// A time slice ends.
    Slice {
        node: usize,
    },
    Message {
        node: usize,
        job: usize,
        step: u64,
        epoch: Epoch,
    },
    /// An owner comes, or goes.
    Owner {
        node: usize,
    },
}

#[derive(Clone, Copy)]
enum State {
    /// It has to compute for so long.
    Ready(Time),
    Waiting,
}

#[derive(Clone, Copy)]
struct Process {
    state: State,
    step: u64,
    /// Messages for this step and, as neighbours may be one ahead, the next: by the last bit of the step.
    got: [u8; 2],
}

#[derive(Clone, Copy, PartialEq)]
enum Doing {
    Nothing,
    Switching,
    Computing,
    Spinning,
}

struct Processor {
    rule: Node<usize>,
    wait: TwoPhase,
    doing: Doing,
    since: Time,
    plan: u64,
    /// Whether the owner has the processor.
    owned: bool,
}

struct Simulation<'a> {
    settings: &'a Settings,
    case: Case,
    engine: Engine<Event>,
    processors: Vec<Processor>,
    /// Node by node, a process per job.
    processes: Vec<Vec<Process>>,
    jobs: Vec<usize>,
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
    let slack = Duration::from_micros(2 * ms(settings.slice));
    let processor = |_| Processor {
        rule: Node::new(slack),
        wait: TwoPhase::new(Duration::from_micros(ms(settings.switch)), settings.spin),
        doing: Doing::Nothing,
        since: 0,
        plan: 0,
        owned: false,
    };
    let waiting = Process { state: State::Ready(0), step: 0, got: [0; 2] };
    let mut simulation = Simulation {
        settings,
        case,
        engine: Engine::new(),
        processors: (0..settings.nodes).map(processor).collect(),
        processes: vec![vec![waiting; jobs]; settings.nodes as usize],
        jobs: (0..jobs).collect(),
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
        let slice = self.slice_time();
        for node in 0..self.processors.len() {
            for job in 0..self.jobs.len() {
                self.processes[node][job].state = State::Ready(self.grain());
            }
            // Only gang scheduling has the slices end everywhere at once, and begins with the same job.
            let gang = self.case.policy == Policy::Gang;
            let first = if gang { slice } else { 1 + self.random.below(slice as usize) as Time };
            let job = if gang { 0 } else { self.random.below(self.jobs.len()) };
            self.engine.at(first, Event::Slice { node });
            self.dispatch(node, Some(job), false);
            if self.settings.idle > 0.0 {
                let visit = seconds(self.owners.exponential(self.settings.idle));
                self.engine.at(visit, Event::Owner { node });
            }
        }
        let end = seconds(self.settings.time);
        while let Some(event) = self.engine.next_event() {
            if self.engine.now() > end {
                return;
            }
            match event {
                Event::Done { node, plan } if self.processors[node].plan == plan => self.done(node),
                Event::Done { .. } => {}
                Event::Slice { node } => self.slice(node),
                Event::Owner { node } => self.owner(node),
                Event::Message { node, job, step, epoch } => self.message(node, job, step, epoch),
            }
        }
    }

    fn grain(&mut self) -> Time {
        let v = self.settings.variation.clamp(0.0, 1.0);
        ms(self.case.grain * self.random.between(1.0 - v, 1.0 + v)).max(1)
    }

    fn running(&self, node: usize) -> Option<usize> {
        self.processors[node].rule.running()
    }

    fn is_ready(&self, node: usize, job: usize) -> bool {
        matches!(self.processes[node][job].state, State::Ready(_))
    }

    /// The processor is to do this until then, or for ever.
    fn plan(&mut self, node: usize, doing: Doing, time: Option<Time>) {
        self.plans += 1;
        let processor = &mut self.processors[node];
        processor.doing = doing;
        processor.since = self.engine.now();
        processor.plan = self.plans;
        if let Some(time) = time {
            self.engine.after(time, Event::Done { node, plan: self.plans });
        }
    }

    /// Settles what the processor has done so far.
    fn settle(&mut self, node: usize) {
        let elapsed = self.engine.now() - self.processors[node].since;
        self.processors[node].since = self.engine.now();
        self.processors[node].rule.charge(Duration::from_micros(elapsed));
        if let (Doing::Computing, Some(job)) = (self.processors[node].doing, self.running(node))
            && let State::Ready(left) = &mut self.processes[node][job].state
        {
            *left = left.saturating_sub(elapsed);
        }
    }

    /// A job, or none, is on the processor from now on.
    fn dispatch(&mut self, node: usize, job: Option<usize>, slice_ended: bool) {
        let before = self.running(node);
        self.settle(node);
        let rule = &mut self.processors[node].rule;
        if slice_ended {
            rule.slice_ended(job);
        } else {
            rule.dispatch(job);
        }
        self.switched(node, before);
    }

    /// The rule has another job running, or still the same.
    fn switched(&mut self, node: usize, before: Option<usize>) {
        let now = self.running(node);
        if now == before {
            return;
        }
        if now.is_none() {
            self.plan(node, Doing::Nothing, None);
            return;
        }
        self.switches += 1;
        let cost = ms(self.settings.switch);
        self.plan(node, Doing::Switching, Some(cost));
    }

    /// The running process goes on with what it has to do.
    fn go(&mut self, node: usize) {
        let Some(job) = self.running(node) else { return };
        match self.processes[node][job].state {
            State::Ready(left) => self.plan(node, Doing::Computing, Some(left)),
            State::Waiting => {
                let spin = match self.case.policy {
                    Policy::Blocking => Some(0),
                    Policy::Local | Policy::Gang => None,
                    Policy::Implicit | Policy::Demand => {
                        Some(self.processors[node].wait.spin().as_micros() as Time)
                    }
                };
                self.plan(node, Doing::Spinning, spin);
            }
        }
    }

    fn done(&mut self, node: usize) {
        self.settle(node);
        let Some(job) = self.running(node) else { return };
        match self.processors[node].doing {
            Doing::Nothing => {}
            Doing::Switching => self.go(node),
            Doing::Computing => {
                self.exchange(node, job);
                self.advance(node, job);
                self.go(node);
            }
            Doing::Spinning => {
                let next = local_next(&self.jobs, Some(job), |job| self.is_ready(node, job));
                self.dispatch(node, next, false);
            }
        }
    }

    /// An owner comes, and nothing of the jobs runs there, or goes.
    fn owner(&mut self, node: usize) {
        let owned = !self.processors[node].owned;
        let mean = if owned { self.settings.visit } else { self.settings.idle };
        let next = seconds(self.owners.exponential(mean)).max(1);
        self.engine.after(next, Event::Owner { node });
        self.processors[node].owned = owned;
        if owned {
            self.dispatch(node, None, false);
        } else {
            let next = self.next(node, None);
            self.dispatch(node, next, false);
        }
    }

    /// Whose turn it is by the time slices.
    fn next(&self, node: usize, running: Option<usize>) -> Option<usize> {
        if self.case.policy == Policy::Gang {
            let micros = Duration::from_micros;
            return gang_slice(micros(self.engine.now()), micros(self.slice_time()), self.jobs.len());
        }
        // Who waits and has not blocked takes its turn like the others.
        let spins = self.case.policy == Policy::Local;
        local_next(&self.jobs, running, |job| spins || self.is_ready(node, job)).or(running)
    }

    fn slice_time(&self) -> Time {
        ms(self.settings.slice).max(1)
    }

    /// A process has computed its step: it tells its neighbours, and waits.
    fn exchange(&mut self, node: usize, job: usize) {
        let nodes = self.processors.len();
        let epoch = self.processors[node].rule.epoch();
        let step = self.processes[node][job].step;
        self.processes[node][job].state = State::Waiting;
        for neighbour in [(node + 1) % nodes, (node + nodes - 1) % nodes] {
            self.engine
                .after(ms(self.settings.latency), Event::Message { node: neighbour, job, step, epoch });
        }
    }

    /// If both neighbours have answered, the process begins its next step.
    fn advance(&mut self, node: usize, job: usize) -> bool {
        let process = &mut self.processes[node][job];
        let parity = (process.step % 2) as usize;
        if !matches!(process.state, State::Waiting) || process.got[parity] < 2 {
            return false;
        }
        process.got[parity] = 0;
        process.step += 1;
        self.steps[job] += 1;
        let grain = self.grain();
        self.processes[node][job].state = State::Ready(grain);
        true
    }

    fn message(&mut self, node: usize, job: usize, step: u64, epoch: Epoch) {
        self.processes[node][job].got[(step % 2) as usize] += 1;
        if !self.advance(node, job) || self.processors[node].owned {
            return;
        }
        let before = self.running(node);
        if before == Some(job) {
            if self.processors[node].doing == Doing::Spinning {
                self.settle(node);
                self.go(node);
            }
            self.processors[node].rule.arrived(job, epoch, false);
        } else if before.is_none() && self.case.policy != Policy::Gang {
            self.dispatch(node, Some(job), false);
        } else if self.case.policy == Policy::Demand || self.case.policy == Policy::Implicit {
            self.settle(node);
            // Implicitly every wake-up counts as new; what remains of the rule is its fairness.
            let rule = &mut self.processors[node].rule;
            let epoch = if self.case.policy == Policy::Demand { epoch } else { rule.epoch().next(0) };
            if rule.arrived(job, epoch, false) == Arrival::Switch {
                self.switched(node, before);
            }
        }
    }

    fn slice(&mut self, node: usize) {
        self.engine.after(self.slice_time(), Event::Slice { node });
        if !self.processors[node].owned {
            let next = self.next(node, self.running(node));
            self.dispatch(node, next, true);
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

/// Runs the experiment.
pub fn run(settings: &Settings, runs: &Runs) -> Report {
    let cases: Vec<Case> = Policy::ALL
        .into_iter()
        .flat_map(|policy| settings.grain.iter().map(move |&grain| Case { policy, grain: grain.max(0.001) }))
        .collect();
    let outcomes = runs.all(&cases, |&case, seed| simulate(settings, case, seed));
    let mut table = Table::new(
        "epochs",
        "Coscheduling over the grain",
        &["policy", "grain ms", "slowdown", "fairness", "switches/s"],
    );
    for (case, outcomes) in cases.iter().zip(&outcomes) {
        table.row([
            text(&case.policy.name()),
            text(&case.grain),
            cell(outcomes, |o| o.slowdown),
            cell(outcomes, |o| o.fairness),
            cell(outcomes, |o| o.switches),
        ]);
    }
    let plot = |name: &str, title: &str, y: &str, measure: fn(&Outcome) -> f64| {
        let curve = |&policy: &Policy| {
            let place = |case: &Case| (case.policy == policy).then_some(case.grain);
            series(policy.name(), &cases, &outcomes, place, measure)
        };
        Plot {
            name: name.to_owned(),
            title: title.to_owned(),
            x: "computation between exchanges (ms)".to_owned(),
            y: y.to_owned(),
            log_x: true,
            series: Policy::ALL.iter().map(curve).collect(),
            ..Plot::default()
        }
    };
    let slowdown =
        plot("epochs-slowdown", "Slowdown over grain", "time / time on an own machine", |o| o.slowdown);
    let switches =
        plot("epochs-switches", "Context switches", "per node and second", |o| o.switches.max(1.0));
    let plots = vec![Plot { log_y: true, ..slowdown }, Plot { log_y: true, ..switches }];
    Report { tables: vec![table], plots, ..Report::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            nodes: 6,
            jobs: 2,
            grain: vec![1.0],
            variation: 0.1,
            latency: 0.05,
            switch: 0.05,
            slice: 20.0,
            spin: 5,
            time: 0.4,
            idle: 0.0,
            visit: 0.05,
        }
    }

    fn of(policy: Policy, grain: f64) -> Outcome {
        simulate(&settings(), Case { policy, grain }, 5)
    }

    #[test]
    fn all_get_on_and_repeat_themselves() {
        for policy in Policy::ALL {
            let outcome = of(policy, 1.0);
            assert!(outcome.steps > 100 && outcome.slowdown > 0.9, "{policy:?}: {outcome:?}");
            assert_eq!(outcome, of(policy, 1.0));
        }
    }

    #[test]
    fn a_job_alone_has_the_machine() {
        for policy in Policy::ALL {
            let settings = Settings { jobs: 1, ..settings() };
            let outcome = simulate(&settings, Case { policy, grain: 1.0 }, 5);
            assert!(outcome.slowdown < 1.25, "{policy:?}: {outcome:?}");
        }
    }

    #[test]
    fn an_owner_holds_up_all_who_wait_for_the_node() {
        for policy in Policy::ALL {
            let with =
                |idle| simulate(&Settings { idle, time: 2.0, ..settings() }, Case { policy, grain: 1.0 }, 5);
            let (alone, visited) = (with(0.0), with(0.5));
            // Each of six nodes is away for a tenth of the time.
            let more = visited.slowdown / alone.slowdown;
            assert!(more > 1.1 && more < 3.0, "{policy:?}: {more}");
            assert_eq!(visited, with(0.5));
        }
    }

    #[test]
    fn fine_grains_need_coscheduling() {
        let gang = of(Policy::Gang, 0.2);
        assert!(gang.slowdown < 1.3, "{gang:?}");
        assert!(gang.slowdown < of(Policy::Local, 0.2).slowdown);
        assert!(gang.fairness > 0.95);
    }

    #[test]
    fn a_report() {
        let report = run(&Settings { time: 0.05, ..settings() }, &Runs::quiet(1, 2));
        assert_eq!(report.tables[0].rows.len(), 5);
        assert!(report.plots.iter().all(|plot| plot.svg().is_ok()));
    }
}
