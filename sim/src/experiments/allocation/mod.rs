//! `pvm sim allocation`: the live policies of agents and active pulling, over the load and over the number of hosts. Some hosts create processes, in batches whose master waits for all its workers; each host runs one process at a
//! time.

mod model;
mod state;

pub use model::{Outcome, simulate};

use super::{Runs, cell, series, text};
use crate::report::{Plot, Report, Table};
use crate::settings;
use pvm_sched::allocation::{
    Agents, Algorithm, Bidding, Clusters, GraphTheoretic, Hierarchical, Layers, Local, Managed,
    ReceiverInitiated, SenderInitiated, UpDown,
};
use pvm_sched::policy::Policy;

/// The settings.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Numbers of hosts to try; active pulling and co-allocation on no more than 1000
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
    /// A message's way, ms. A host that probes waits for each answer; a process that goes to another host arrives later
    #[arg(long, default_value_t = 0.0, value_parser = settings::not_negative)]
    pub delay: f64,
    /// Mean time between failures of a host, s; its processes begin again somewhere. 0 for never
    #[arg(long, default_value_t = 0.0, value_parser = settings::not_negative)]
    pub mtbf: f64,
    /// How long a host is down after a failure, s
    #[arg(long, default_value_t = 60.0, value_parser = settings::not_negative)]
    pub repair: f64,
    /// Mean time that a host is idle between two visits of its owner, s; its processes go on somewhere else. 0 for no owners
    #[arg(long, default_value_t = 0.0, value_parser = settings::not_negative)]
    pub idle: f64,
    /// How long an owner stays, s
    #[arg(long, default_value_t = 60.0, value_parser = settings::not_negative)]
    pub visit: f64,
}

/// The settings in force without options.
impl Default for Settings {
    fn default() -> Self {
        settings::defaults()
    }
}

/// Active pulling and co-allocation are simulated on this number of hosts at most: the manager of a batch asks all nodes, and the executor
/// goes through all clusters for each request, so the work grows with the square of the hosts.
const CENTRAL_HOSTS_MAX: u64 = 1000;

/// Clusters of this number of hosts, and this number of clusters in a domain, for co-allocation.
const CLUSTERS: (usize, usize) = (16, 4);

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[error("hosts fail or are taken back so often that no process ends")]
pub struct Stuck;

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
    /// Co-allocation over clusters.
    Coallocation,
    /// Active pulling.
    Pull,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Local,
        Self::Sender,
        Self::Receiver,
        Self::Bidding,
        Self::UpDown,
        Self::Hierarchical,
        Self::Graph,
        Self::Coallocation,
        Self::Pull,
    ];

    /// Whether one host goes through all others for each request.
    fn is_central(self) -> bool {
        matches!(self, Self::Pull | Self::Coallocation)
    }

    fn policy(self, hosts: usize) -> Box<dyn Algorithm> {
        match self {
            Self::Local => Box::new(Agents::new("local", hosts, None, Local::default)),
            Self::Sender => Box::new(Agents::new("sender-initiated", hosts, None, SenderInitiated::default)),
            Self::Receiver => {
                Box::new(Agents::new("receiver-initiated", hosts, Some(RECEIVER_INTERVAL), || {
                    ReceiverInitiated::new(3, 8, RECEIVER_INTERVAL).unasked()
                }))
            }
            Self::Bidding => Box::new(Agents::new("bidding", hosts, None, Bidding::new)),
            Self::UpDown => Box::new(Agents::new("up-down", hosts, None, UpDown::new)),
            Self::Hierarchical => {
                Box::new(Agents::new("hierarchical", hosts, None, || Hierarchical::default().staying()))
            }
            Self::Graph => Box::new(Agents::new("graph-theoretic", hosts, None, GraphTheoretic::default)),
            Self::Coallocation => {
                let clusters = Clusters::blocks(hosts, CLUSTERS.0, CLUSTERS.1);
                Box::new(Agents::new("coallocation", hosts, None, Layers::new).within(clusters))
            }
            Self::Pull => {
                Box::new(Agents::new("active pulling", hosts, None, || Managed::new(Policy::ActivePulling)))
            }
        }
    }
}

/// After this time a host with nothing to do asks again for work, in milliseconds.
const RECEIVER_INTERVAL: u64 = 5000;

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
    /// A single case.
    pub fn new(kind: Kind, hosts: usize, load: f64, processes: u64) -> Self {
        Self { kind, hosts, load, processes, over_hosts: false }
    }
}

/// Runs the experiment.
pub fn run(settings: &Settings, runs: &Runs) -> Result<Report, Stuck> {
    let mut cases = Vec::new();
    for kind in Kind::ALL {
        let case = |hosts: u64, load, over_hosts| {
            // On few hosts there are as many processes as on five hundred, or the numbers would be noise.
            let processes = settings.processes.saturating_mul(hosts.max(500));
            Case { kind, hosts: hosts as usize, load, processes, over_hosts }
        };
        let is_tried = |hosts: u64| !kind.is_central() || hosts <= CENTRAL_HOSTS_MAX;
        if is_tried(settings.load_hosts) {
            cases.extend(settings.load.iter().map(|&load| case(settings.load_hosts, load, false)));
        }
        let hosts = settings.hosts.iter().filter(|&&hosts| is_tried(hosts));
        cases.extend(hosts.map(|&hosts| case(hosts, settings.hosts_load, true)));
    }
    let outcomes = runs.all(&cases, |case, seed| simulate(settings, case, seed));
    if outcomes.iter().flatten().any(|outcome| outcome.stuck) {
        return Err(Stuck);
    }
    Ok(report(&cases, &outcomes))
}

fn report(cases: &[Case], outcomes: &[Vec<Outcome>]) -> Report {
    let mut table = Table::new(
        "allocation",
        "Processor allocation",
        &["algorithm", "hosts", "load", "slowdown", "batch slowdown", "messages/process", "again %"],
    );
    let name = |kind: Kind| kind.policy(1).name();
    for (case, outcomes) in cases.iter().zip(outcomes) {
        table.row([
            text(&name(case.kind)),
            text(&case.hosts),
            text(&case.load),
            cell(outcomes, |o| o.slowdown),
            cell(outcomes, |o| o.batch),
            cell(outcomes, |o| o.messages),
            cell(outcomes, |o| o.again * 100.0),
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
        let x = if over_hosts { "hosts" } else { "load (part of what the hosts can do)" };
        let curves = Kind::ALL.iter().map(curve).collect();
        Plot { log_x: over_hosts, log_y: true, ..Plot::new(file, title, (x, y), curves) }
    };
    let plots = vec![
        plot("allocation-slowdown", "Slowdown over load", false, "response / run time", |o| o.slowdown),
        plot("allocation-messages", "Messages over load", false, "messages per process", |o| o.messages),
        plot("allocation-scale", "Slowdown over hosts", true, "response / run time", |o| o.slowdown),
        plot("allocation-scale-messages", "Messages over hosts", true, "messages per process", |o| {
            o.messages
        }),
    ];
    Report { tables: vec![table], plots, ..Report::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        let (hosts, load) = (vec![5], vec![0.8]);
        Settings { hosts, load, load_hosts: 40, processes: 2, batch: 4, ..Settings::default() }
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
    }

    fn with(kind: Kind, change: impl Fn(Settings) -> Settings) -> Outcome {
        simulate(&change(settings()), &Case::new(kind, 40, 0.5, 2000), 7)
    }

    #[test]
    fn processes_restart_when_their_host_fails_and_continue_elsewhere_when_its_owner_returns() {
        for kind in Kind::ALL {
            let calm = with(kind, |settings| settings);
            let failing = with(kind, |settings| Settings { mtbf: 100.0, ..settings });
            let owners = with(kind, |settings| Settings { idle: 100.0, ..settings });
            for outcome in [&failing, &owners] {
                assert_eq!(outcome.ended, 2000, "{kind:?}");
                assert!(outcome.again > 0.0 && !outcome.stuck, "{kind:?}: {outcome:?}");
            }
            assert!(calm.again.abs() < 1e-9, "{kind:?}");
            assert_eq!(failing, with(kind, |settings| Settings { mtbf: 100.0, ..settings }));
            if kind != Kind::Local {
                assert!(
                    failing.slowdown > calm.slowdown && owners.slowdown > calm.slowdown,
                    "{kind:?}: {calm:?} {failing:?} {owners:?}"
                );
            }
        }
    }

    #[test]
    fn managers_that_fail_are_replaced() {
        // Creators are not in the way: what fails often is the hierarchy, and its requests are granted nevertheless.
        let often = |settings| Settings { mtbf: 300.0, repair: 20.0, ..settings };
        let hierarchical = with(Kind::Hierarchical, often);
        assert!(hierarchical.slowdown < with(Kind::Local, often).slowdown / 2.0, "{hierarchical:?}");
        assert!(hierarchical.messages > with(Kind::Hierarchical, |settings| settings).messages);
    }

    #[test]
    fn probes_take_time() {
        for kind in Kind::ALL {
            let slow = with(kind, |settings| Settings { delay: 500.0, ..settings });
            let (fast, none) = (with(kind, |settings| Settings { delay: 1.0, ..settings }), outcome(kind));
            assert_eq!((slow.ended, fast.ended, none.ended), (2000, 2000, 2000), "{kind:?}");
            if kind == Kind::Sender || kind == Kind::UpDown {
                assert!(slow.slowdown > fast.slowdown, "{kind:?}: {} {}", slow.slowdown, fast.slowdown);
            }
        }
    }

    #[test]
    fn there_is_at_least_one_batch() {
        assert_eq!(simulate(&settings(), &Case::new(Kind::Pull, 40, 0.5, 0), 7).ended, 4);
    }

    #[test]
    fn where_nothing_ends_it_is_given_up() {
        let settings = Settings { mtbf: 0.001, hosts: vec![3], load_hosts: 3, ..settings() };
        assert!(run(&settings, &Runs::quiet(1, 1)).is_err());
    }

    #[test]
    fn a_report_on_few_hosts() {
        let report = run(&settings(), &Runs::quiet(1, 2)).expect("a report");
        assert_eq!(report.tables[0].rows.len(), 18);
        assert!(report.plots.iter().all(|plot| plot.svg().is_ok()));
    }
}
