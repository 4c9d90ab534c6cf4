//! Two and three teams that share the two processors of one host, over the work between two of their exchanges.
//!
//! The simulator has the model of Linux's scheduler (`sim/src/kernel`). A team has two tasks, which exchange messages by shared memory.

use super::comparison::{Comparison, Point};
use super::teams::{FEW_GRAINS, GRAINS, LEAST, TRIES, TURN, slowdowns};
use crate::coscheduling::{Hosts, Mode, NO_TURNS, TURNS, Values, parse};
use crate::lab::Trial;
use anyhow::{Context, Result, ensure};
use pvm_sim::experiments::epochs::{Case, Policy, Settings};
use pvm_sim::stats::median;

/// The word by which it is chosen.
pub const NAME: &str = "live-cores";

/// The processors of the host, and the tasks of a team.
const PROCESSORS: u32 = 2;

/// How long a run counts, s.
const SECONDS: f64 = 1.0;
/// Simulated seconds of a run.
const SIMULATED_SECONDS: f64 = 2.0;

/// Which teams share the host, and how: the policy of the live host, and that of the simulator's.
#[derive(Clone, Copy, Debug)]
struct Way {
    name: &'static str,
    teams: u32,
    argument: &'static str,
    waits: &'static str,
    means: &'static str,
    policy: Policy,
}

impl Way {
    fn mode(&self) -> Mode {
        Mode { name: self.name, waits: self.waits, means: self.means }
    }
}

/// Two teams, then three. A live task that waits spins for a while before it blocks: two-phase waiting.
const WAYS: [Way; 8] = [
    way("two, the kernel alone", 2, ("block", NO_TURNS, Policy::Implicit)),
    way("two, turns", 2, ("block", TURNS, Policy::Demand)),
    way("two, the kernel alone, tasks spin", 2, ("spin", NO_TURNS, Policy::Local)),
    way("two, turns, tasks spin", 2, ("spin", TURNS, Policy::DemandSpinning)),
    way("three, the kernel alone", 3, ("block", NO_TURNS, Policy::Implicit)),
    way("three, turns", 3, ("block", TURNS, Policy::Demand)),
    way("three, the kernel alone, tasks spin", 3, ("spin", NO_TURNS, Policy::Local)),
    way("three, turns, tasks spin", 3, ("spin", TURNS, Policy::DemandSpinning)),
];

const fn way(
    name: &'static str,
    teams: u32,
    (waits, means, policy): (&'static str, &'static str, Policy),
) -> Way {
    let argument = if teams == 2 { "copies:2" } else { "copies:3" };
    Way { name, teams, argument, waits, means, policy }
}

/// The costs of an exchange and of the kernel on this computer, µs.
#[derive(Clone, Copy, Debug)]
struct Costs {
    /// Of a task's processor, for the exchange itself.
    task: f64,
    /// From one process to another.
    switch: f64,
    /// From idleness to a process, as the daemon measures it at its start.
    wake: f64,
    /// The kernel's time slice, which is a tick.
    tick: f64,
    /// Context switches that a wait spins for.
    spin: u32,
}

impl Costs {
    /// Measured with one team that has the host to itself, and without any.
    fn measure(hosts: &Hosts) -> Result<Self> {
        let (blocks, spins) = (WAYS[0].mode(), WAYS[2].mode());
        let (mut exchanges, mut kernel) = (Vec::new(), Vec::new());
        for _ in 0..TRIES {
            exchanges.push(1e6 / parse(&hosts.output("none", &spins, SECONDS / 4.0, &[LEAST])?)?.rate);
            let printed = hosts.on_one_processor("costs", &blocks, SECONDS / 2.0)?;
            let numbers: Vec<f64> = printed.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
            ensure!(numbers.len() == 2, "{printed:?}");
            kernel.push((numbers[0], numbers[1]));
        }
        let [switch, tick] = [
            kernel.iter().map(|&(switch, _)| switch).collect::<Vec<_>>(),
            kernel.iter().map(|&(_, slice)| slice).collect::<Vec<_>>(),
        ]
        .map(|all| median(&all));
        let task = (median(&exchanges) - LEAST as f64).max(0.0);
        Ok(Self { task, switch, wake: hosts.wake_time(&blocks)?, tick, spin: 5 })
    }

    /// The simulator's settings.
    fn settings(&self, jobs: u32) -> Settings {
        Settings {
            nodes: 1,
            processors: Some(PROCESSORS),
            tasks: Some(PROCESSORS),
            tick: self.tick / 1e3,
            wake: Some(self.wake / 1e3),
            jobs,
            variation: 0.0,
            latency: 0.0,
            switch: self.switch / 1e3,
            slice: TURN,
            turn: Some(TURN),
            spin: self.spin,
            time: SIMULATED_SECONDS,
            ..Settings::default()
        }
    }

    /// The slowdown as it is measured live, `rounds` times.
    fn slowdowns(&self, way: &Way, grain: u64, rounds: u64) -> Vec<f64> {
        let case = Case { policy: way.policy, grain: (grain as f64 + self.task) / 1e3 };
        slowdowns(case, (way.teams, rounds), |teams| self.settings(teams))
    }

    /// The same costs, of an exchange as it is while one team runs alone with this grain.
    fn of_grain(&self, grain: u64, live: &[Values]) -> Self {
        let exchange = 1e6 / median(&live.iter().map(|values| values.rate).collect::<Vec<_>>());
        Self { task: (exchange - grain as f64).max(0.0), ..*self }
    }

    fn point(&self, way: &Way, grain: u64, live: &[Values]) -> Point {
        let ticks = [0.5, 2.0].map(|times| Self { tick: self.tick * times, ..*self });
        let free = Self { switch: 0.0, wake: 0.0, ..*self };
        let changed = [free, Self { spin: 0, ..*self }, self.of_grain(grain, live)].into_iter().chain(ticks);
        Point {
            curve: way.name,
            x: grain as f64,
            live: live.iter().map(|values| values.slowdown).collect(),
            simulated: self.slowdowns(way, grain, live.len() as u64),
            changed: changed.flat_map(|costs| costs.slowdowns(way, grain, 1)).collect(),
        }
    }

    fn told(&self) -> String {
        format!(
            "Measured before, with one team: an exchange takes {:.1} µs of a task's processor; a context switch takes {:.1} µs, waking an \
             idle processor {:.1} µs; the kernel's time slice is {:.1} ms.",
            self.task,
            self.switch,
            self.wake,
            self.tick / 1e3
        )
    }
}

/// Changes of the model that show the cause of a difference; the page describes them.
const CHANGES: [&str; 5] =
    ["no switch cost", "waits block at once", "exchange of this grain", "half ticks", "double ticks"];

/// Slowdowns.
pub fn measure(trial: Trial) -> Result<Vec<Comparison>> {
    let Trial { ours, rounds, quick, session, .. } = trial;
    let Some(hosts) = Hosts::of_one(ours, &[TURNS, NO_TURNS], PROCESSORS as usize)? else {
        return Ok(Vec::new());
    };
    let grains: &[u64] = if quick { &FEW_GRAINS } else { &GRAINS };
    let progress = &session.progress;
    progress.inc_length((grains.len() * WAYS.len() * rounds) as u64);
    progress.set_message(format!("{NAME}: costs"));
    let costs = Costs::measure(&hosts).context("the costs of an exchange")?;
    let places = || WAYS.iter().flat_map(|way| grains.iter().map(move |&grain| (way, grain)));
    let mut all: Vec<(&Way, u64, Vec<Values>)> =
        places().map(|(way, grain)| (way, grain, Vec::new())).collect();
    for _ in 0..rounds {
        for (way, grain, live) in &mut all {
            progress.set_message(format!("{NAME}: {}, {grain} µs", way.name));
            live.push(parse(&hosts.output(way.argument, &way.mode(), SECONDS, &[*grain])?)?);
            session.step()?;
        }
    }
    Ok(vec![Comparison {
        name: NAME,
        title: "Slowdown of teams that share a host of two processors",
        unit: "time / time alone",
        curve: "teams, and who decides",
        x: "µs between two exchanges",
        changes: CHANGES.to_vec(),
        points: all.iter().map(|(way, grain, live)| costs.point(way, *grain, live)).collect(),
        costs: costs.told(),
    }])
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs { task: 3.0, switch: 2.0, wake: 16.0, tick: 4000.0, spin: 5 };

    #[test]
    fn coarse_teams_share_fairly() {
        for way in &WAYS {
            let slowdown = COSTS.slowdowns(way, 3_000, 1)[0];
            let fair = f64::from(way.teams);
            assert!((slowdown / fair - 1.0).abs() < 0.35, "{}: {slowdown}", way.name);
        }
    }

    #[test]
    fn spinning_teams_need_turns() {
        let [kernel, turns] = [2, 3].map(|way| COSTS.slowdowns(&WAYS[way], 30, 1)[0]);
        assert!(turns < kernel, "{kernel} {turns}");
    }

    #[test]
    fn the_exchange_of_a_grain() {
        let values = Values { slowdown: 2.0, share: 0.5, rate: 1e4, ..Values::default() };
        assert!((COSTS.of_grain(90, &[values]).task - 10.0).abs() < 1e-9);
    }
}
