//! Two programs that share two hosts, over the work between two of their exchanges.

use super::comparison::{Comparison, Point};
use crate::coscheduling::{Hosts, Mode, NO_TURNS, TURNS, Values, parse};
use crate::lab::Trial;
use anyhow::{Result, ensure};
use pvm_sim::experiments::Runs;
use pvm_sim::experiments::epochs::{Case, Policy, Settings, simulate};
use pvm_sim::stats::median;

/// The word by which it is chosen.
pub const NAME: &str = "live-epochs";

/// Microseconds of work between two exchanges.
pub(super) const GRAINS: [u64; 7] = [10, 30, 100, 300, 1_000, 3_000, 10_000];
/// With less to do.
pub(super) const FEW_GRAINS: [u64; 2] = [100, 10_000];

/// How long a run counts, s.
const SECONDS: f64 = 0.5;
/// Simulated seconds of a run.
const SIMULATED_SECONDS: f64 = 1.0;
/// Runs for one value. Slices of two hosts keep their distance in a simulated run, and drift in a live one; and which tasks share a
/// processor at first is chance: the mean rate counts.
const SEEDS: u64 = 9;

/// Work between exchanges that are measured for their own cost, microseconds.
pub(super) const LEAST: u64 = 1;
/// How often costs are measured; the medians count.
pub(super) const TRIES: usize = 5;

/// A turn of the daemons, ms, as it is without a setting.
pub(super) const TURN: f64 = 50.0;

/// The policy of the live hosts, and that of the simulator's nodes.
const WAYS: [(Mode, Policy); 4] = [
    (Mode { name: "the kernel alone", waits: "block", means: NO_TURNS }, Policy::Blocking),
    (Mode { name: "epochs", waits: "block", means: TURNS }, Policy::Demand),
    (Mode { name: "the kernel alone, tasks spin", waits: "spin", means: NO_TURNS }, Policy::Local),
    (Mode { name: "epochs, tasks spin", waits: "spin", means: TURNS }, Policy::DemandSpinning),
];

/// The costs of an exchange and of the kernel on this computer, µs.
#[derive(Clone, Copy, Debug)]
struct Costs {
    /// Of a task's processor, for the exchange itself.
    task: f64,
    /// Of the daemon's, for a message that leaves or comes.
    daemon: f64,
    /// A message's way between daemons.
    way: f64,
    /// Until a daemon has the processor while a task spins.
    interrupt: f64,
    /// From one process to another.
    switch: f64,
    /// The kernel's time slice.
    slice: f64,
}

impl Costs {
    /// Measured with one program that has both hosts to itself, and without any.
    fn measure(hosts: &Hosts) -> Result<Self> {
        let ((blocks, _), (spins, _)) = (WAYS[0], WAYS[2]);
        let (mut blocking, mut spinning, mut kernel) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..TRIES {
            let alone = |mode| parse(&hosts.output("none", mode, SECONDS / 2.0, &[LEAST])?);
            blocking.push(alone(&blocks)?);
            spinning.push(alone(&spins)?);
            let printed = hosts.output("costs", &blocks, SECONDS / 2.0, &[])?;
            let numbers: Vec<f64> = printed.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
            ensure!(numbers.len() == 2, "{printed:?}");
            kernel.push((numbers[0], numbers[1]));
        }
        let of = |all: &[Values], get: fn(&Values) -> f64| median(&all.iter().map(get).collect::<Vec<_>>());
        let [exchange, spun] = [&blocking, &spinning].map(|all| 1e6 / of(all, |values| values.rate));
        let task = of(&blocking, |values| values.share) * exchange;
        let daemon = of(&blocking, |values| values.daemons_share) * exchange;
        let switch = median(&kernel.iter().map(|&(switch, _)| switch).collect::<Vec<_>>());
        let slice = median(&kernel.iter().map(|&(_, slice)| slice).collect::<Vec<_>>());
        // A task that spins needs no switch.
        let late = spun - exchange + switch;
        Ok(Self {
            task: task - LEAST as f64,
            // A message goes and one comes.
            daemon: daemon / 2.0,
            way: exchange - task - daemon - switch,
            interrupt: late / 2.0,
            switch,
            slice,
        }
        .sane())
    }

    /// Nothing takes less than no time.
    fn sane(self) -> Self {
        let least = |value: f64| value.max(0.0);
        Self {
            task: least(self.task),
            daemon: least(self.daemon),
            way: least(self.way),
            interrupt: least(self.interrupt),
            ..self
        }
    }

    /// The simulator's settings.
    fn settings(&self, jobs: u32) -> Settings {
        Settings {
            nodes: 2,
            jobs,
            variation: 0.0,
            latency: self.way / 1e3,
            daemon: self.daemon / 1e3,
            interrupt: self.interrupt / 1e3,
            switch: self.switch / 1e3,
            slice: self.slice / 1e3,
            turn: Some(TURN),
            spin: 5,
            time: SIMULATED_SECONDS,
            ..Settings::default()
        }
    }

    /// The slowdown as it is measured live, `rounds` times.
    fn slowdowns(&self, policy: Policy, grain: u64, rounds: u64) -> Vec<f64> {
        let case = Case { policy, grain: (grain as f64 + self.task) / 1e3 };
        slowdowns(case, (2, rounds), |teams| self.settings(teams))
    }

    /// The same costs, of daemons as they are while both programs run with this grain.
    fn of_both(&self, live: &[Values]) -> Self {
        let daemon = live.iter().map(|values| values.daemons_share / (4.0 * values.rate / values.slowdown));
        Self { daemon: median(&daemon.collect::<Vec<_>>()) * 1e6, ..*self }
    }

    /// The same, with the time in which an exchange needs no processor as it is while one program runs alone with this grain: of
    /// messages on their way, or of daemons that wait for a task that spins.
    fn of_grain(&self, policy: Policy, grain: u64, live: &[Values]) -> Self {
        let exchange = 1e6 / median(&live.iter().map(|values| values.rate).collect::<Vec<_>>());
        let rest = exchange - (grain as f64 + self.task + 2.0 * self.daemon);
        match policy {
            Policy::Local | Policy::DemandSpinning => Self { interrupt: (rest - self.way) / 2.0, ..*self },
            _ => Self { way: rest - self.switch, ..*self },
        }
        .sane()
    }

    fn told(&self) -> String {
        format!(
            "Measured before, with one program: an exchange takes {:.1} µs of a task's processor and {:.1} µs of its daemon's for each \
             message; a message's way takes {:.1} µs; a daemon gets the processor of a task that spins after {:.1} µs; a context switch \
             takes {:.1} µs, the kernel's time slice {:.1} ms.",
            self.task,
            self.daemon,
            self.way,
            self.interrupt,
            self.switch,
            self.slice / 1e3
        )
    }
}

/// Simulated slowdowns of teams that share their hosts, one for each round. `settings` gives the settings for a number of teams.
pub(super) fn slowdowns(
    case: Case,
    (teams, rounds): (u32, u64),
    settings: impl Fn(u32) -> Settings,
) -> Vec<f64> {
    let alone = simulate(&settings(1), case, 1).steps as f64;
    let settings = settings(teams);
    let runs = Runs::quiet(1, SEEDS * rounds);
    let steps = runs.all(&[case], |&case, seed| simulate(&settings, case, seed).steps).concat();
    let mean = |steps: &[u64]| steps.iter().sum::<u64>() as f64 / steps.len() as f64;
    steps.chunks(SEEDS as usize).map(|steps| alone / (mean(steps) / f64::from(teams)).max(1.0)).collect()
}

/// Slowdowns.
pub fn measure(trial: Trial) -> Result<Vec<Comparison>> {
    let Trial { ours, rounds, quick, session, .. } = trial;
    let Some(hosts) = Hosts::open(ours, &[TURNS, NO_TURNS])? else { return Ok(Vec::new()) };
    let grains: &[u64] = if quick { &FEW_GRAINS } else { &GRAINS };
    let progress = &session.progress;
    progress.inc_length((grains.len() * WAYS.len() * rounds) as u64);
    progress.set_message(format!("{NAME}: costs"));
    let costs = Costs::measure(&hosts)?;
    let mut all: Vec<(usize, u64, Vec<Values>)> = Vec::new();
    for way in 0..WAYS.len() {
        all.extend(grains.iter().map(|&grain| (way, grain, Vec::new())));
    }
    for _ in 0..rounds {
        for (way, grain, live) in &mut all {
            let (mode, _) = &WAYS[*way];
            progress.set_message(format!("{NAME}: {}, {grain} µs", mode.name));
            live.push(parse(&hosts.output("copies:2", mode, SECONDS, &[*grain])?)?);
            session.step()?;
        }
    }
    let point = |(way, grain, live): (usize, u64, Vec<Values>)| costs.point(WAYS[way], grain, &live);
    Ok(vec![Comparison {
        name: NAME,
        title: "Slowdown of two programs that share two hosts",
        unit: "time / time alone",
        curve: "who decides",
        x: "µs between two exchanges",
        changes: CHANGES.to_vec(),
        points: all.into_iter().map(point).collect(),
        costs: costs.told(),
    }])
}

/// Changes of the model that show the cause of a difference; the page describes them.
const CHANGES: [&str; 5] =
    ["no daemon cost", "daemon cost of both", "waits of this grain", "half slices", "double slices"];

impl Costs {
    fn point(&self, (mode, policy): (Mode, Policy), grain: u64, live: &[Values]) -> Point {
        // The time of a daemon's work is part of the latency then.
        let free = Self { daemon: 0.0, way: self.way + 2.0 * self.daemon, ..*self };
        let slices = [0.5, 2.0].map(|times| Self { slice: self.slice * times, ..*self });
        let measured = [self.of_both(live), self.of_grain(policy, grain, live)];
        let changed = [free].into_iter().chain(measured).chain(slices);
        let changed = changed.flat_map(|costs| costs.slowdowns(policy, grain, 1));
        Point {
            curve: mode.name,
            x: grain as f64,
            live: live.iter().map(|values| values.slowdown).collect(),
            simulated: self.slowdowns(policy, grain, live.len() as u64),
            changed: changed.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs =
        Costs { task: 15.0, daemon: 30.0, way: 20.0, interrupt: 80.0, switch: 3.0, slice: 4000.0 };

    fn values(rate: f64, slowdown: f64, daemons_share: f64) -> Values {
        Values { slowdown, share: 0.2, daemons_share, rate, ..Values::default() }
    }

    #[test]
    fn costs_while_both_run_and_with_a_grain() {
        // Two programs of 1000 exchanges a second each, so 4000 messages at each daemon.
        let both = COSTS.of_both(&[values(2000.0, 2.0, 0.08)]);
        assert!((both.daemon - 20.0).abs() < 1e-9, "{both:?}");
        // Work takes 100 + 15 + 2 · 30 of 300.
        let alone = [values(1e6 / 300.0, 2.0, 0.0)];
        let [blocking, spinning] = [0, 2].map(|way| COSTS.of_grain(WAYS[way].1, 100, &alone));
        assert!(
            (blocking.way - 122.0).abs() < 1e-9 && (blocking.interrupt - 80.0).abs() < 1e-9,
            "{blocking:?}"
        );
        assert!(
            (spinning.interrupt - 52.5).abs() < 1e-9 && (spinning.way - 20.0).abs() < 1e-9,
            "{spinning:?}"
        );
    }

    #[test]
    fn two_coarse_programs_share_fairly() {
        for (_, policy) in WAYS {
            let slowdowns = COSTS.slowdowns(policy, 10_000, 2);
            assert!(
                slowdowns.len() == 2 && slowdowns.iter().all(|of| (of - 2.0).abs() < 0.2),
                "{slowdowns:?}"
            );
        }
    }

    #[test]
    fn spinning_fine_grained_programs_need_epochs() {
        let [kernel, epochs] = [2, 3].map(|way| COSTS.slowdowns(WAYS[way].1, 10, 1)[0]);
        assert!(kernel > 3.0 && epochs < 1.5, "{kernel} {epochs}");
    }
}
