//! Clusters joined by a star of links, whose nodes may fail, and rigid jobs that the frame of algorithm 1 starts.

use crate::engine::{Engine, Time, seconds, to_seconds};
use crate::experiments::{Busy, IN_VAIN, plan_submission};
use crate::random::Random;
use crate::stats::Summary;
use crate::workload::Job;
use pvm_sched::coallocation::model::{congestion_factor, execution_time, flex_factor, link_demand};
use pvm_sched::coallocation::{Line, Progress, Share, Site, Strategy};
use slab::Slab;

/// A cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cluster {
    /// Its nodes.
    pub nodes: u32,
    /// `h`.
    pub factor: f64,
    /// `BW_const` of its link, in Mbit/s.
    pub bandwidth: f64,
}

/// One simulation.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The clusters.
    pub clusters: Vec<Cluster>,
    /// How nodes are chosen.
    pub strategy: Strategy,
    /// Bandwidth between two nodes, in Mbit/s.
    pub bwbn: f64,
    /// `T_C` of a job that spans clusters on free links, as a part of its `T_0`.
    pub communication: f64,
    /// Mean time between failures of a node, in seconds; infinite for never.
    pub mtbf: f64,
    /// How long a node is down, in seconds.
    pub repair: f64,
}

/// Why a machine cannot be simulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A cluster that takes forever, or no time.
    #[error("cluster {0}: the heterogeneity factor must be a positive number")]
    Factor(usize),
    /// A link that carries nothing.
    #[error("cluster {0}: the bandwidth must be a positive number")]
    Bandwidth(usize),
    /// No nodes at all.
    #[error("there are no nodes")]
    NoNodes,
}

/// The results of a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// When the last job ended, in seconds.
    pub makespan: f64,
    /// Mean part of the nodes that had a job, until then.
    pub utilisation: f64,
    /// Mean waiting time, in seconds.
    pub wait: f64,
    /// Mean bounded slowdown.
    pub slowdown: f64,
    /// Part of the jobs that spanned clusters.
    pub spanning: f64,
    /// Jobs that ended.
    pub jobs: u64,
    /// Jobs that no machine under this strategy could ever run.
    pub refused: u64,
    /// Runs that failed with a node, and began again.
    pub restarts: u64,
    /// Nodes times seconds that jobs had.
    pub node_seconds: f64,
    /// Events that happened.
    pub events: u64,
    /// Whether it was given up, as nodes failed again and again and no job ended.
    pub stuck: bool,
}

enum Event {
    Submit,
    End { slot: usize, plan: u64 },
    Fail,
    Repair { site: usize },
}

struct Running {
    job: Job,
    /// The cluster it was submitted at.
    home: usize,
    shares: Vec<Share>,
    started: Time,
    /// When the rest was computed last.
    since: Time,
    /// What remains, in seconds.
    progress: Progress,
    /// Which of its planned ends counts.
    plan: u64,
}

struct Machine<'a> {
    setting: &'a Setting,
    engine: Engine<Event>,
    sites: Vec<Site>,
    /// The demand of the jobs on each link.
    demand: Vec<f64>,
    running: Slab<Running>,
    /// Slots of jobs that use links.
    spanning: Vec<usize>,
    plans: u64,
    /// One line, or under No-Share one per cluster.
    lines: Vec<Line<(Job, usize)>>,
    busy: Busy,
    down: u32,
    /// Whether jobs are still to be submitted.
    more: bool,
    failures: Random,
    /// Failures since a job ended.
    in_vain: u32,
    waits: Summary,
    slowdowns: Summary,
    outcome: Outcome,
}

/// Runs the jobs, which come in the order of submission, to their end.
pub fn simulate(setting: &Setting, seed: u64, jobs: impl IntoIterator<Item = Job>) -> Result<Outcome, Error> {
    check(&setting.clusters)?;
    let mut machine = Machine::new(setting, seed);
    let mut random = Random::part(seed, 2);
    let mut jobs = jobs.into_iter().peekable();
    machine.expect(jobs.peek());
    if machine.more {
        machine.plan_failure();
    }
    while let Some(event) = machine.engine.next_event() {
        match event {
            Event::Submit => {
                if let Some(job) = jobs.next() {
                    machine.submit(job, &mut random);
                }
                machine.expect(jobs.peek());
            }
            Event::End { slot, plan } => machine.end(slot, plan),
            Event::Fail => machine.fail(),
            Event::Repair { site } => machine.repair(site),
        }
        machine.outcome.stuck = machine.in_vain >= IN_VAIN;
        if machine.is_over() || machine.outcome.stuck {
            break;
        }
    }
    Ok(machine.finish())
}

fn check(clusters: &[Cluster]) -> Result<(), Error> {
    for (at, cluster) in clusters.iter().enumerate() {
        if !(cluster.factor.is_finite() && cluster.factor > 0.0) {
            return Err(Error::Factor(at));
        } else if cluster.bandwidth.is_nan() || cluster.bandwidth <= 0.0 {
            return Err(Error::Bandwidth(at));
        }
    }
    if clusters.iter().all(|cluster| cluster.nodes == 0) { Err(Error::NoNodes) } else { Ok(()) }
}

impl<'a> Machine<'a> {
    fn new(setting: &'a Setting, seed: u64) -> Self {
        let site = |cluster: &Cluster| Site {
            free: cluster.nodes,
            factor: cluster.factor,
            congestion: f64::INFINITY,
        };
        let clusters = setting.clusters.len();
        let lines = if setting.strategy == Strategy::NoShare { clusters } else { 1 };
        Self {
            setting,
            engine: Engine::new(),
            sites: setting.clusters.iter().map(site).collect(),
            demand: vec![0.0; clusters],
            running: Slab::new(),
            spanning: Vec::new(),
            plans: 0,
            lines: (0..lines).map(|_| Line::new()).collect(),
            busy: Busy::default(),
            down: 0,
            more: false,
            failures: Random::part(seed, 12),
            in_vain: 0,
            waits: Summary::default(),
            slowdowns: Summary::default(),
            outcome: Outcome::default(),
        }
    }

    /// Plans the submission of the next job, if there is one.
    fn expect(&mut self, job: Option<&Job>) {
        self.more = plan_submission(&mut self.engine, job, Event::Submit);
    }

    fn is_over(&self) -> bool {
        !self.more && self.busy.nodes == 0 && self.lines.iter().all(Line::is_empty)
    }

    /// The cluster that a job is submitted at: any that is large enough. The largest if none is.
    fn home(&self, width: u32, random: &mut Random) -> usize {
        let clusters = || self.setting.clusters.iter().enumerate();
        let large: Vec<usize> = clusters().filter(|(_, c)| c.nodes >= width).map(|(home, _)| home).collect();
        let largest = clusters().max_by_key(|(_, cluster)| cluster.nodes).map_or(0, |(home, _)| home);
        large.get(random.below(large.len())).copied().unwrap_or(largest)
    }

    fn submit(&mut self, job: Job, random: &mut Random) {
        let home = self.home(job.width, random);
        let empty: Vec<Site> = self
            .sites
            .iter()
            .zip(&self.setting.clusters)
            .map(|(&site, c)| Site { free: c.nodes, ..site })
            .collect();
        if job.width == 0 || job.width > self.setting.strategy.reach(home, &empty) {
            self.outcome.refused += 1;
            return;
        }
        self.queue(job, home);
        self.walk(self.line(home));
    }

    /// The line of jobs that wait for a cluster: under No-Share its own.
    fn line(&self, site: usize) -> usize {
        if self.lines.len() > 1 { site } else { 0 }
    }

    fn queue(&mut self, job: Job, home: usize) {
        let line = self.line(home);
        self.lines[line].push(job.width, (job, home));
    }

    /// Algorithm 1: walks along the queue and starts each job that fits.
    fn walk(&mut self, line: usize) {
        let mut from = None;
        loop {
            let reach = self.setting.strategy.reach(line, &self.sites);
            let Some(at) = self.lines[line].first_fitting(from, reach) else { return };
            from = Some(at);
            let Some((job, home)) = self.lines[line].remove(at) else { return };
            if let Some(shares) = self.setting.strategy.allocate(job.width, home, &self.sites) {
                self.start(job, home, shares);
            }
        }
    }

    fn start(&mut self, job: Job, home: usize, shares: Vec<Share>) {
        let now = self.engine.now();
        self.busy.count(self.engine.now());
        self.busy.nodes += job.width;
        let spans = shares.len() > 1 && self.setting.strategy.has_network();
        let factors = shares.iter().map(|share| self.sites[share.site].factor);
        let execution = execution_time(job.run, 1.0, factors);
        let communication = if spans { job.run * self.setting.communication } else { 0.0 };
        for share in &shares {
            self.sites[share.site].free -= share.nodes;
        }
        let running = Running {
            job,
            home,
            shares,
            started: now,
            since: now,
            progress: Progress::new(execution, communication),
            plan: 0,
        };
        let slot = self.running.insert(running);
        if spans {
            self.spanning.push(slot);
            self.load_links(slot, 1.0);
        }
        self.plan(slot);
    }

    fn end(&mut self, slot: usize, plan: u64) {
        if self.running.get(slot).is_none_or(|running| running.plan != plan) {
            return;
        }
        let Some(Running { job, shares, started, .. }) = self.leave(slot) else { return };
        self.in_vain = 0;
        self.outcome.jobs += 1;
        self.outcome.spanning += f64::from(u8::from(shares.len() > 1));
        // A job that had to begin again has waited until its last start.
        self.waits.add(to_seconds(started) - job.submit);
        let response = to_seconds(self.engine.now()) - job.submit;
        self.slowdowns.add((response / job.run.max(10.0)).max(1.0));
        self.walk_for(&shares);
    }

    /// A job leaves its nodes, whether it has ended or not.
    fn leave(&mut self, slot: usize) -> Option<Running> {
        self.busy.count(self.engine.now());
        if let Some(at) = self.spanning.iter().position(|&other| other == slot) {
            self.spanning.swap_remove(at);
            self.load_links(slot, -1.0);
        }
        let running = self.running.try_remove(slot)?;
        for share in &running.shares {
            self.sites[share.site].free += share.nodes;
        }
        self.busy.nodes -= running.job.width;
        let ran = to_seconds(self.engine.now() - running.started);
        self.outcome.node_seconds += ran * f64::from(running.job.width);
        Some(running)
    }

    /// Starts jobs that wait for these nodes.
    fn walk_for(&mut self, shares: &[Share]) {
        if self.lines.len() > 1 {
            for share in shares {
                self.walk(share.site);
            }
        } else {
            self.walk(0);
        }
    }

    fn plan_failure(&mut self) {
        let nodes: f64 = self.setting.clusters.iter().map(|cluster| f64::from(cluster.nodes)).sum();
        if let Some(delay) = self.failures.until_next(self.setting.mtbf / nodes) {
            self.engine.after(delay, Event::Fail);
        }
    }

    /// One of the nodes that are up fails. If it has a job, that begins again, behind the waiting jobs.
    fn fail(&mut self) {
        self.plan_failure();
        self.in_vain += 1;
        let free: u32 = self.sites.iter().map(|site| site.free).sum();
        let node = self.failures.below((free + self.busy.nodes) as usize) as u32;
        let Some((site, owner)) = self.owner(node) else { return };
        let lost = owner.and_then(|slot| self.leave(slot));
        self.sites[site].free -= 1;
        self.down += 1;
        self.engine.after(seconds(self.setting.repair), Event::Repair { site });
        if let Some(Running { job, home, shares, .. }) = lost {
            self.outcome.restarts += 1;
            self.queue(job, home);
            self.walk_for(&shares);
        }
    }

    /// The site and the job of the n-th node that is up, the free ones first. `None` if there is none.
    fn owner(&self, node: u32) -> Option<(usize, Option<usize>)> {
        let free = self.sites.iter().enumerate().map(|(at, site)| (at, None, site.free));
        let busy = self.running.iter().flat_map(|(slot, running)| {
            running.shares.iter().map(move |share| (share.site, Some(slot), share.nodes))
        });
        let mut first = 0;
        let found = free.chain(busy).find(|&(_, _, nodes)| {
            first += nodes;
            node < first
        })?;
        Some((found.0, found.1))
    }

    fn repair(&mut self, site: usize) {
        self.sites[site].free += 1;
        self.down -= 1;
        self.walk(self.line(site));
    }

    /// A job begins or ceases to use links: congestion changes, and with it the ends of all that use them.
    fn load_links(&mut self, slot: usize, sign: f64) {
        let Some(running) = self.running.get(slot) else { return };
        for share in &running.shares {
            let demand = link_demand(self.setting.bwbn, share.nodes, running.job.width);
            let sum = &mut self.demand[share.site];
            // The rest of a sum after all jobs have left is rounding.
            *sum = if self.spanning.is_empty() { 0.0 } else { (*sum + sign * demand).max(0.0) };
            self.sites[share.site].congestion =
                congestion_factor(self.setting.clusters[share.site].bandwidth, *sum);
        }
        for at in 0..self.spanning.len() {
            let slot = self.spanning[at];
            let Some(running) = self.running.get_mut(slot) else { continue };
            let ff = flex_factor(running.shares.iter().map(|share| self.sites[share.site].congestion));
            if (ff - running.progress.flex()).abs() > 1e-12 {
                running.change(self.engine.now(), ff);
                self.plan(slot);
            }
        }
    }

    /// Plans the end of a job as things are now.
    fn plan(&mut self, slot: usize) {
        let Some(running) = self.running.get_mut(slot) else { return };
        self.plans += 1;
        running.plan = self.plans;
        let left = running.progress.left();
        self.engine.at(running.since.saturating_add(seconds(left)), Event::End { slot, plan: running.plan });
    }

    fn finish(mut self) -> Outcome {
        let total: f64 = self.setting.clusters.iter().map(|cluster| f64::from(cluster.nodes)).sum();
        self.outcome.makespan = to_seconds(self.busy.until);
        if self.busy.until > 0 {
            self.outcome.utilisation = self.busy.node_seconds / (total * self.outcome.makespan);
        }
        self.outcome.spanning /= (self.outcome.jobs.max(1)) as f64;
        self.outcome.wait = self.waits.mean();
        self.outcome.slowdown = self.slowdowns.mean();
        self.outcome.events = self.engine.happened();
        self.outcome
    }
}

impl Running {
    /// The flex factor changes.
    fn change(&mut self, now: Time, ff: f64) {
        self.progress.change(to_seconds(now - self.since), ff);
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Lublin;

    fn job(submit: f64, run: f64, width: u32) -> Job {
        Job { submit, run, estimate: run, width, user: 0 }
    }

    fn setting(strategy: Strategy, bwbn: f64) -> Setting {
        let cluster = |nodes, factor| Cluster { nodes, factor, bandwidth: 1000.0 };
        let clusters = vec![cluster(8, 1.0), cluster(4, 2.0)];
        Setting { clusters, strategy, bwbn, communication: 0.5, mtbf: f64::INFINITY, repair: 600.0 }
    }

    fn makespan(strategy: Strategy, bwbn: f64, jobs: &[Job]) -> f64 {
        simulate(&setting(strategy, bwbn), 1, jobs.iter().copied()).expect("a machine").makespan
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-3
    }

    #[test]
    fn one_job_takes_the_time_of_the_model() {
        assert!(near(makespan(Strategy::Bfnp, 1.0, &[job(5.0, 100.0, 8)]), 105.0), "within the fast cluster");
        // Ten nodes span both: 100 · 2 + 50.
        assert!(near(makespan(Strategy::Bfnp, 1.0, &[job(0.0, 100.0, 10)]), 250.0));
        // Each link is asked for 100 · 8 · 2 / 9 = 178 times what two nodes want.
        let congested = 200.0 + 50.0 / (1000.0 / (1000.0 * 16.0 / 9.0));
        assert!(near(makespan(Strategy::Bfnp, 1000.0, &[job(0.0, 100.0, 10)]), congested));
        assert!(near(makespan(Strategy::Idea, 1000.0, &[job(0.0, 100.0, 10)]), 200.0), "the network is free");
    }

    #[test]
    fn congestion_comes_and_goes_with_other_jobs() {
        // Three clusters; two jobs of 2 + 2 nodes share the first one's link while both run.
        let cluster = |nodes| Cluster { nodes, factor: 1.0, bandwidth: 100.0 };
        let clusters = vec![cluster(4), cluster(2), cluster(2)];
        let setting = Setting { clusters, communication: 1.0, ..setting(Strategy::Shfp, 75.0) };
        // Width 6 takes clusters 1 and 2; a second of width 2 is alone in cluster 3. No sharing: 75 · 4 · 2 / 5 = 120.
        let alone = simulate(&setting, 1, [job(0.0, 10.0, 6)]).expect("a machine");
        assert!(near(alone.makespan, 10.0 + 10.0 * 1.2));
        let beside = simulate(&setting, 1, [job(0.0, 10.0, 6), job(1.0, 100.0, 2)]).expect("a machine");
        assert!(near(beside.makespan, 101.0) && near(beside.spanning, 0.5));
    }

    #[test]
    fn strategies_refuse_what_they_can_never_run() {
        for (strategy, refused) in [(Strategy::NoShare, 1), (Strategy::Scca, 1), (Strategy::Bfnp, 0)] {
            let outcome = simulate(&setting(strategy, 1.0), 1, [job(0.0, 1.0, 9), job(0.0, 1.0, 1)])
                .expect("a machine");
            assert_eq!((outcome.refused, outcome.jobs), (refused, 2 - refused));
        }
        let outcome = simulate(&setting(Strategy::Idea, 1.0), 1, [job(0.0, 1.0, 13), job(0.0, 1.0, 0)])
            .expect("a machine");
        assert_eq!((outcome.refused, outcome.jobs), (2, 0));
    }

    #[test]
    fn machines_that_cannot_be() {
        let with = |nodes, factor, bandwidth| {
            let clusters = vec![Cluster { nodes, factor, bandwidth }];
            simulate(&Setting { clusters, ..setting(Strategy::Bfnp, 1.0) }, 1, [])
        };
        assert_eq!(with(1, 0.0, 1.0), Err(Error::Factor(0)));
        assert_eq!(with(1, f64::NAN, 1.0), Err(Error::Factor(0)));
        assert_eq!(with(1, 1.0, 0.0), Err(Error::Bandwidth(0)));
        assert_eq!(with(0, 1.0, 1.0), Err(Error::NoNodes));
        assert_eq!(with(1, 1.0, 1.0), Ok(Outcome::default()), "an empty workload");
    }

    #[test]
    fn a_thousand_clusters_of_one_node() {
        let clusters = vec![Cluster { nodes: 1, factor: 1.0, bandwidth: 1000.0 }; 1000];
        let setting = Setting { clusters, ..setting(Strategy::Bfnp, 0.001) };
        let outcome =
            simulate(&setting, 1, (0..20).map(|at| job(f64::from(at), 50.0, 300))).expect("a machine");
        assert_eq!(outcome.jobs, 20);
        assert!(near(outcome.spanning, 1.0));
    }

    #[test]
    fn nothing_is_lost_and_node_seconds_add_up() {
        for strategy in Strategy::ALL {
            for mtbf in [f64::INFINITY, 2e6] {
                let setting = Setting { mtbf, ..setting(strategy, 40.0) };
                let jobs = || Lublin::new(3, 8, 4).offering(1.0, 8.0).take(500);
                let outcome = simulate(&setting, 3, jobs()).expect("a machine");
                assert_eq!(outcome.jobs + outcome.refused, 500, "{strategy}");
                assert_eq!(outcome.restarts > 0, mtbf.is_finite(), "{strategy}");
                assert!(outcome.utilisation <= 1.0 + 1e-9);
                let (used, had) = (outcome.utilisation * 12.0 * outcome.makespan, outcome.node_seconds);
                assert!((used - had).abs() < 1e-6 * used, "{strategy}: {used} {had}");
                assert_eq!(outcome, simulate(&setting, 3, jobs()).expect("a machine"));
            }
        }
    }

    #[test]
    fn a_job_begins_again_when_a_node_of_it_fails() {
        // All nodes are its own. It is long enough to be hit, and so ends later than a run takes; at last it does.
        let setting = Setting { mtbf: 12.0 * 60.0, repair: 10.0, ..setting(Strategy::Bfnp, 1.0) };
        let outcome = simulate(&setting, 1, [job(0.0, 100.0, 12)]).expect("a machine");
        assert!(outcome.restarts > 0 && outcome.jobs == 1, "{outcome:?}");
        assert!(outcome.makespan >= 250.0 + 10.0, "{}", outcome.makespan);
        let never = Setting { mtbf: 1.0, ..setting };
        assert!(simulate(&never, 1, [job(0.0, 100.0, 12)]).expect("a machine").stuck);
    }
}
