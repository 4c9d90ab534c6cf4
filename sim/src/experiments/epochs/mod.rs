//! `pvm sim epochs`: local, implicit, demand-based and gang scheduling over the grain of the jobs.
//!
//! Every node has a process of every job. A job's processes compute for about a grain, exchange messages with their two
//! neighbours on a ring, or with the one that there is on two nodes, and go on when all have answered.
//!
//! Demand-based scheduling is the daemon's: each node runs its [`pvm_sched::coscheduling::Coscheduler`], which holds processes by
//! priorities. The kernel's treatment of the others is a model (`processor.rs`).

mod model;
mod order;
mod processor;

pub use model::simulate;

use super::{Runs, cell, series, text};
use crate::report::{Plot, Report, Table};
use crate::settings;
use pvm_sched::coscheduling::TwoPhase;

/// The settings.
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
    /// Processor time of a node's daemon for each message that leaves or comes, ms
    #[arg(long, default_value_t = 0.0, value_parser = settings::not_negative)]
    pub daemon: f64,
    /// How long a daemon waits for the processor of a process that never blocks while no turns are taken, ms
    #[arg(long, default_value_t = 0.0, value_parser = settings::not_negative)]
    pub interrupt: f64,
    /// A context switch, ms
    #[arg(long, default_value_t = 0.05, value_parser = settings::not_negative)]
    pub switch: f64,
    /// A time slice, ms
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
            daemon: 0.0,
            interrupt: 0.0,
            switch: 0.05,
            slice: 20.0,
            turn: None,
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
    fn daemons_take_the_processor_for_messages() {
        let alone = |policy, daemon, interrupt| {
            let settings = Settings { nodes: 2, jobs: 1, daemon, interrupt, variation: 0.0, ..settings() };
            settings.time * 1000.0 * 2.0 / simulate(&settings, Case { policy, grain: 1.0 }, 5).steps as f64
        };
        // Work, a message that leaves and comes, its way, and a switch if the process has blocked.
        let near = |step: f64, expected: f64| (step - expected).abs() < 0.02 * expected;
        assert!(near(alone(Policy::Blocking, 0.0, 0.0), 1.0 + 0.05 + 0.05));
        assert!(near(alone(Policy::Blocking, 0.2, 0.5), 1.0 + 0.05 + 0.05 + 2.0 * 0.2));
        assert!(near(alone(Policy::Local, 0.2, 0.5), 1.0 + 0.05 + 2.0 * (0.2 + 0.5)), "it does not let them");
    }

    #[test]
    fn daemons_do_not_wait_while_turns_are_taken() {
        let of = |policy, interrupt| {
            let settings = Settings { nodes: 2, daemon: 0.05, interrupt, ..settings() };
            simulate(&settings, Case { policy, grain: 0.2 }, 5).steps as f64
        };
        assert!(of(Policy::Local, 0.3) < of(Policy::Local, 0.0) * 0.7);
        assert!(of(Policy::DemandSpinning, 0.3) > of(Policy::DemandSpinning, 0.0) * 0.9);
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
        assert_eq!(report.tables[0].rows.len(), 6);
        assert!(report.plots.iter().all(|plot| plot.svg().is_ok()));
    }
}
