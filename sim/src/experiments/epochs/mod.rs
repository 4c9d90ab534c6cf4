//! `pvm sim epochs`: local, implicit, demand-based and gang scheduling over the grain of the jobs.
//!
//! Every node has a process of every job. A job's processes compute for about a grain, exchange messages with their two
//! neighbours on a ring, or with the one that there is on two nodes, and go on when all have answered.
//!
//! Demand-based scheduling is the daemon's: each node runs its [`pvm_sched::coscheduling::Coscheduler`], which holds processes by
//! priorities. The kernel's treatment of the others is a model: round robin on one processor (`processor.rs`), or with `--processors`
//! Linux's scheduler ([`crate::kernel`], `nodes.rs`).

mod host;
mod model;
mod nodes;
mod order;
mod processor;

use super::{Runs, cell, series, text};
use crate::report::{Plot, Report, Table};
use crate::settings;
use pvm_sched::coscheduling::TwoPhase;

/// The settings.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Nodes; one is possible with --processors
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub nodes: u32,
    /// Processors of each node, under a model of Linux's scheduler (EEVDF). Default: one processor, and round robin
    #[arg(long, conflicts_with_all = ["interrupt", "idle", "visit"], value_parser = clap::value_parser!(u32).range(1..=256))]
    pub processors: Option<u32>,
    /// Processes of each job on a node with --processors; default: as many as processors
    #[arg(long, requires = "processors", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub tasks: Option<u32>,
    /// With --processors, time between two ticks of the kernel, ms: 1000 by its CONFIG_HZ
    #[arg(long, requires = "processors", default_value_t = 4.0, value_parser = settings::positive)]
    pub tick: f64,
    /// With --processors, the slice that the kernel means to give a process (base_slice_ns), ms; default: the kernel's own, 0.7 on one processor
    #[arg(long, requires = "processors", value_parser = settings::positive)]
    pub base: Option<f64>,
    /// With --processors, time until an idle processor runs a process that wakes, ms; default: a context switch
    #[arg(long, requires = "processors", value_parser = settings::not_negative)]
    pub wake: Option<f64>,
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
    /// Processor time of a node's daemon for each message that leaves or comes, ms
    #[arg(long, default_value_t = 0.0, value_parser = settings::not_negative)]
    pub daemon: f64,
    /// How long a daemon waits for the processor of a process that never blocks while no turns are taken, ms
    #[arg(long, default_value_t = 0.0, value_parser = settings::not_negative)]
    pub interrupt: f64,
    /// A context switch, ms
    #[arg(long, default_value_t = 0.05, value_parser = settings::not_negative)]
    pub switch: f64,
    /// A time slice, ms; with --processors only that of gang scheduling
    #[arg(long, default_value_t = 100.0, value_parser = settings::positive)]
    pub slice: f64,
    /// A turn of the daemons' coscheduler, ms; default: a time slice
    #[arg(long, value_parser = settings::positive)]
    pub turn: Option<f64>,
    /// Context switches that a waiting process spins for before it blocks
    #[arg(long, default_value_t = TwoPhase::FACTOR)]
    pub spin: u32,
    /// Simulated time, s
    #[arg(long, default_value_t = 20.0, value_parser = settings::positive)]
    pub time: f64,
    /// Mean time that a node is idle between two visits of its owner, s. The owner has the processor alone. 0 for no owners
    #[arg(long, default_value_t = 0.0, value_parser = settings::not_negative)]
    pub idle: f64,
    /// How long an owner stays, s
    #[arg(long, default_value_t = 1.0, value_parser = settings::positive)]
    pub visit: f64,
}

/// The settings in force without options.
impl Default for Settings {
    fn default() -> Self {
        settings::defaults()
    }
}

/// How nodes schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// No coordination between nodes; a process that waits for a message polls until its slice ends.
    Local,
    /// No coordination between nodes; a process that waits blocks, and has to queue when it wakes.
    Blocking,
    /// Two-phase blocking, and the kernel favours processes that wake.
    Implicit,
    /// The same under the daemons' coscheduler.
    Demand,
    /// Waiting processes spin, under the daemons' coscheduler.
    DemandSpinning,
    /// All nodes run the same job in the same slice.
    Gang,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Local, Self::Blocking, Self::Implicit, Self::Demand, Self::DemandSpinning, Self::Gang];

    fn name(self) -> &'static str {
        match self {
            Self::Local => "local, spinning",
            Self::Blocking => "local, blocking",
            Self::Implicit => "implicit",
            Self::Demand => "demand-based",
            Self::DemandSpinning => "demand-based, spinning",
            Self::Gang => "gang",
        }
    }

    /// Whether the daemons' coscheduler decides which processes are held.
    fn is_demand(self) -> bool {
        matches!(self, Self::Demand | Self::DemandSpinning)
    }

    /// Whether a process that waits keeps the processor until another one is to run.
    fn spins(self) -> bool {
        matches!(self, Self::Local | Self::DemandSpinning | Self::Gang)
    }

    /// Whether the kernel favours processes that wake over those that run.
    fn favours_waking(self) -> bool {
        matches!(self, Self::Implicit | Self::Demand)
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

/// The results of a simulation.
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

/// Why the settings make no sense together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Round robin is for one process of each job on a node.
    #[error("one node is possible with --processors only; otherwise --nodes must be at least 2")]
    OneNode,
    /// No task to exchange messages with.
    #[error("a job needs two processes to exchange messages: more --nodes, or more --tasks on each")]
    OneProcess,
}

impl Settings {
    fn check(&self) -> Result<(), Error> {
        let Some(processors) = self.processors else {
            return if self.nodes > 1 { Ok(()) } else { Err(Error::OneNode) };
        };
        let tasks = self.tasks.unwrap_or(processors);
        if self.nodes > 1 || tasks > 1 { Ok(()) } else { Err(Error::OneProcess) }
    }
}

/// Runs one case.
pub fn simulate(settings: &Settings, case: Case, seed: u64) -> Outcome {
    if settings.processors.is_some() {
        nodes::simulate(settings, case, seed)
    } else {
        model::simulate(settings, case, seed)
    }
}

/// Runs the experiment.
pub fn run(settings: &Settings, runs: &Runs) -> Result<Report, Error> {
    settings.check()?;
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
        let axes = ("computation between exchanges (ms)", y);
        Plot { log_x: true, ..Plot::new(name, title, axes, Policy::ALL.iter().map(curve).collect()) }
    };
    let slowdown =
        plot("epochs-slowdown", "Slowdown over grain", "time / time on an own machine", |o| o.slowdown);
    let switches =
        plot("epochs-switches", "Context switches", "per node and second", |o| o.switches.max(1.0));
    let plots = vec![Plot { log_y: true, ..slowdown }, Plot { log_y: true, ..switches }];
    Ok(Report { tables: vec![table], plots, ..Report::default() })
}

#[cfg(test)]
mod tests;
