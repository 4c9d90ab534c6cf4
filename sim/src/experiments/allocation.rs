//! `pvm sim allocation`: six processor allocation algorithms and active pulling, over the load and over the number of
//! hosts. Some hosts create processes, in batches whose master waits for all its workers; each host runs one process at a
//! time.

use super::{Runs, cell, series, summary};
use crate::engine::{Engine, Time, seconds, to_seconds};
use crate::random::Random;
use crate::report::{Plot, Report, Table};
use crate::settings;
use crate::stats::Summary;
use pvm_sched::allocation::{
    Bidding, GraphTheoretic, Hierarchical, Local, Machines, Policy, Pull, ReceiverInitiated, Request,
    SenderInitiated, Step, UpDown,
};
use std::collections::{HashMap, VecDeque};

/// What can be set.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Numbers of hosts to try
    #[arg(long, value_delimiter = ',', default_values_t = [10, 100, 1000, 10_000, 100_000], value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub hosts: Vec<u64>,
    /// Loads to try, as parts of what the hosts can do
    #[arg(long, value_delimiter = ',', default_values_t = [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95], value_parser = settings::positive)]
    pub load: Vec<f64>,
    /// Hosts in the runs over the load
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub load_hosts: u64,
    /// Load in the runs over the hosts
    #[arg(long, default_value_t = 0.8, value_parser = settings::positive)]
    pub hosts_load: f64,
    /// Processes per host and run; on few hosts more
    #[arg(long, default_value_t = 20)]
    pub processes: u64,
    /// Processes in a batch
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub batch: u32,
    /// Mean run time of a process, s
    #[arg(long, default_value_t = 10.0, value_parser = settings::positive)]
    pub run: f64,
    /// Part of the hosts that create processes
    #[arg(long, default_value_t = 0.2, value_parser = settings::positive)]
    pub creators: f64,
}

/// Which algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Where it was created.
    Local,
    /// Sender-initiated.
    Sender,
    /// Receiver-initiated.
    Receiver,
    /// Bidding.
    Bidding,
    /// Up-down.
    UpDown,
    /// Hierarchical.
    Hierarchical,
    /// Graph-theoretic.
    Graph,
    /// Active pulling.
    Pull,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Local,
        Self::Sender,
        Self::Receiver,
        Self::Bidding,
        Self::UpDown,
        Self::Hierarchical,
        Self::Graph,
        Self::Pull,
    ];

    fn policy(self, hosts: usize) -> Box<dyn Policy> {
        match self {
            Self::Local => Box::new(Local),
            Self::Sender => Box::new(SenderInitiated::default()),
            Self::Receiver => Box::new(ReceiverInitiated::default()),
            Self::Bidding => Box::new(Bidding::new(hosts)),
            Self::UpDown => Box::new(UpDown::new(hosts)),
            Self::Hierarchical => Box::new(Hierarchical::new(hosts, 16)),
            Self::Graph => Box::new(GraphTheoretic),
            Self::Pull => Box::new(Pull::default()),
        }
    }
}

/// One simulation.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The algorithm.
    pub kind: Kind,
    /// The number of hosts.
    pub hosts: usize,
    /// The load.
    pub load: f64,
    /// Processes in all.
    pub processes: u64,
    over_hosts: bool,
}

impl Case {
    /// A case by itself.
    pub fn new(kind: Kind, hosts: usize, load: f64, processes: u64) -> Self {
        Self { kind, hosts, load, processes, over_hosts: false }
    }
}

/// What a simulation gives.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Mean time from creation to end, over the mean run time.
    pub slowdown: f64,
    /// Mean time from a batch's creation to its last end, over the mean run time: what a master waits for.
    pub batch: f64,
    /// Messages per process.
    pub messages: f64,
    /// Part of the processes that waited on one host and ran on another.
    pub moved: f64,
    /// Processes that ended.
    pub ended: u64,
    /// Events that happened.
    pub events: u64,
}

enum Event {
    Create,
    End(usize),
    Timer(usize),
}

/// A process: its request, and when that was made.
#[derive(Clone, Copy)]
struct Process {
    request: u64,
    created: Time,
}

struct World {
    /// Those on each host; the first runs.
    hosts: Vec<VecDeque<Process>>,
    random: Random,
    messages: u64,
    now: Time,
}

impl Machines for World {
    fn count(&self) -> usize {
        self.hosts.len()
    }

    fn probe(&mut self, host: usize) -> u32 {
        self.messages += 2;
        self.own_load(host)
    }

    fn own_load(&self, host: usize) -> u32 {
        self.hosts.get(host).map_or(0, |processes| processes.len() as u32)
    }

    fn send(&mut self, messages: u64) {
        self.messages += messages;
    }

    fn random(&mut self, below: usize) -> usize {
        self.random.below(below)
    }

    fn now(&self) -> u64 {
        self.now / 1000
    }
}

struct Simulation<'a> {
    settings: &'a Settings,
    engine: Engine<Event>,
    world: World,
    policy: Box<dyn Policy>,
    runs: Random,
    /// Of each request that has not ended: when it was made, and processes that have not ended.
    open: HashMap<u64, (Time, u32)>,
    slowdowns: Summary,
    batches: Summary,
    moved: u64,
}

/// Runs one case.
pub fn simulate(settings: &Settings, case: &Case, seed: u64) -> Outcome {
    let world = World {
        hosts: vec![VecDeque::new(); case.hosts],
        random: Random::part(seed, 3),
        messages: 0,
        now: 0,
    };
    let mut simulation = Simulation {
        settings,
        engine: Engine::new(),
        world,
        policy: case.kind.policy(case.hosts),
        runs: Random::part(seed, 4),
        open: HashMap::new(),
        slowdowns: Summary::default(),
        batches: Summary::default(),
        moved: 0,
    };
    simulation.run(case, &mut Random::part(seed, 5));
    simulation.finish()
}

impl Simulation<'_> {
    fn run(&mut self, case: &Case, arrivals: &mut Random) {
        let creators = ((case.hosts as f64 * self.settings.creators) as usize).clamp(1, case.hosts);
        let batches = case.processes.div_ceil(self.settings.batch.into());
        let rate = case.load.max(1e-6) * case.hosts as f64 / self.settings.run;
        let between = f64::from(self.settings.batch) / rate;
        let mut made = 0;
        self.engine.at(0, Event::Create);
        if let Some(interval) = self.policy.interval() {
            for host in 0..case.hosts {
                // Not all at once.
                let first = self.world.random.below(interval as usize * 1000) as Time;
                self.engine.at(first, Event::Timer(host));
            }
        }
        while let Some(event) = self.engine.next_event() {
            self.world.now = self.engine.now();
            match event {
                Event::Create => {
                    made += 1;
                    let request =
                        Request { id: made, origin: arrivals.below(creators), count: self.settings.batch };
                    self.open.insert(made, (self.engine.now(), request.count));
                    let steps = self.policy.created(request, &mut self.world);
                    self.apply(&steps);
                    if made < batches {
                        self.engine.after(seconds(arrivals.exponential(between)), Event::Create);
                    }
                }
                Event::End(host) => self.end(host),
                Event::Timer(host) => self.timer(host, made == batches),
            }
        }
    }

    fn timer(&mut self, host: usize, all_made: bool) {
        let steps = self.policy.timer(host, &mut self.world);
        self.apply(&steps);
        if let Some(interval) = self.policy.interval().filter(|_| !(all_made && self.open.is_empty())) {
            self.engine.after(interval * 1000, Event::Timer(host));
        }
    }

    fn end(&mut self, host: usize) {
        let Some(process) = self.world.hosts[host].pop_front() else { return };
        let now = self.engine.now();
        self.slowdowns.add(to_seconds(now - process.created) / self.settings.run);
        if let Some((created, left)) = self.open.get_mut(&process.request) {
            *left -= 1;
            if *left == 0 {
                self.batches.add(to_seconds(now - *created) / self.settings.run);
                self.open.remove(&process.request);
            }
        }
        if !self.world.hosts[host].is_empty() {
            self.run_first(host);
        }
        let steps = self.policy.ended(host, &mut self.world);
        self.apply(&steps);
    }

    fn apply(&mut self, steps: &[Step]) {
        for &step in steps {
            match step {
                Step::Start { request, host } => {
                    let created = self.open.get(&request).map_or(0, |open| open.0);
                    self.add(host, Process { request, created });
                }
                // The first of a host runs, and does not move.
                Step::Take { from, to } if self.world.hosts[from].len() > 1 => {
                    if let Some(process) = self.world.hosts[from].pop_back() {
                        self.moved += 1;
                        self.add(to, process);
                    }
                }
                Step::Take { .. } => {}
            }
        }
    }

    fn add(&mut self, host: usize, process: Process) {
        self.world.hosts[host].push_back(process);
        if self.world.hosts[host].len() == 1 {
            self.run_first(host);
        }
    }

    fn run_first(&mut self, host: usize) {
        let run = self.runs.exponential(self.settings.run);
        self.engine.after(seconds(run), Event::End(host));
    }

    fn finish(self) -> Outcome {
        let ended = self.slowdowns.count();
        let each = 1.0 / ended.max(1) as f64;
        Outcome {
            slowdown: self.slowdowns.mean(),
            batch: self.batches.mean(),
            messages: self.world.messages as f64 * each,
            moved: self.moved as f64 * each,
            ended,
            events: self.engine.happened(),
        }
    }
}

/// Runs the experiment.
pub fn run(settings: &Settings, runs: &Runs) -> Report {
    let mut cases = Vec::new();
    for kind in Kind::ALL {
        let case = |hosts: u64, load, over_hosts| {
            // On few hosts there are as many processes as on five hundred, or the numbers would be noise.
            let processes = settings.processes.saturating_mul(hosts.max(500));
            Case { kind, hosts: hosts as usize, load, processes, over_hosts }
        };
        cases.extend(settings.load.iter().map(|&load| case(settings.load_hosts, load, false)));
        cases.extend(settings.hosts.iter().map(|&hosts| case(hosts, settings.hosts_load, true)));
    }
    let outcomes = runs.all(&cases, |case, seed| simulate(settings, case, seed));
    report(&cases, &outcomes)
}

fn report(cases: &[Case], outcomes: &[Vec<Outcome>]) -> Report {
    let mut table = Table::new(
        "allocation",
        "Processor allocation",
        &["algorithm", "hosts", "load", "slowdown", "batch slowdown", "messages/process", "moved %"],
    );
    let name = |kind: Kind| kind.policy(1).name();
    for (case, outcomes) in cases.iter().zip(outcomes) {
        table.row([
            name(case.kind).to_owned(),
            case.hosts.to_string(),
            case.load.to_string(),
            cell(summary(outcomes, |o| o.slowdown)),
            cell(summary(outcomes, |o| o.batch)),
            cell(summary(outcomes, |o| o.messages)),
            cell(summary(outcomes, |o| o.moved * 100.0)),
        ]);
    }
    let plot = |file: &str, title: &str, over_hosts: bool, y: &str, measure: fn(&Outcome) -> f64| {
        let curve = |&kind: &Kind| {
            let place = |case: &Case| {
                let x = if over_hosts { case.hosts as f64 } else { case.load };
                (case.kind == kind && case.over_hosts == over_hosts).then_some(x)
            };
            series(name(kind), cases, outcomes, place, measure)
        };
        Plot {
            name: file.to_owned(),
            title: title.to_owned(),
            x: if over_hosts { "hosts" } else { "load (part of what the hosts can do)" }.to_owned(),
            y: y.to_owned(),
            log_x: over_hosts,
            log_y: true,
            series: Kind::ALL.iter().map(curve).collect(),
            marks: Vec::new(),
        }
    };
    let plots = vec![
        plot("allocation-slowdown", "Slowdown over load", false, "response / run time", |o| o.slowdown),
        plot("allocation-messages", "Messages over load", false, "messages per process", |o| {
            o.messages.max(0.01)
        }),
        plot("allocation-scale", "Slowdown over hosts", true, "response / run time", |o| o.slowdown),
        plot("allocation-scale-messages", "Messages over hosts", true, "messages per process", |o| {
            o.messages.max(0.01)
        }),
    ];
    Report { tables: vec![table], plots, ..Report::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            hosts: vec![5],
            load: vec![0.8],
            load_hosts: 40,
            hosts_load: 0.8,
            processes: 2,
            batch: 4,
            run: 10.0,
            creators: 0.2,
        }
    }

    fn outcome(kind: Kind) -> Outcome {
        let case = Case::new(kind, 40, 0.8, 2000);
        simulate(&settings(), &case, 7)
    }

    #[test]
    fn every_algorithm_ends_every_process_and_repeats_itself() {
        for kind in Kind::ALL {
            let first = outcome(kind);
            assert_eq!(first.ended, 2000, "{kind:?}");
            assert!(first.slowdown >= 0.8 && first.batch >= first.slowdown, "{kind:?}: {first:?}");
            assert_eq!(first, outcome(kind));
        }
    }

    #[test]
    fn allocation_pays() {
        let local = outcome(Kind::Local);
        assert!(local.messages.abs() < 1e-9);
        for kind in Kind::ALL.into_iter().filter(|&kind| kind != Kind::Local) {
            let other = outcome(kind);
            assert!(
                other.slowdown < local.slowdown / 2.0,
                "{kind:?}: {} against {}",
                other.slowdown,
                local.slowdown
            );
            assert!(other.messages > 0.5, "{kind:?}");
        }
        assert!(outcome(Kind::Receiver).moved > 0.1);
    }

    #[test]
    fn a_report_on_few_hosts() {
        let report = run(&settings(), &Runs::quiet(1, 2));
        assert_eq!(report.tables[0].rows.len(), 16);
        assert!(report.plots.iter().all(|plot| plot.svg().is_ok()));
    }
}
