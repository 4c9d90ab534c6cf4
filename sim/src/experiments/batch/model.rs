//! A machine of equal nodes that runs rigid jobs, and whose nodes fail.

use crate::engine::{Engine, Time, seconds, to_seconds};
use crate::experiments::{Busy, IN_VAIN, plan_submission};
use crate::random::Random;
use crate::stats::{Summary, bounded_slowdown, jain};
use crate::workload::Job;
use pvm_sched::queues::{Demand, Host, Limits, Queue, Rules, Scheduler, Width};
use slab::Slab;
use std::collections::{BTreeSet, HashMap};

/// The order in which jobs start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// In the order of submission; a job that does not fit holds up the others.
    Fcfs,
    /// EASY backfilling.
    Easy,
    /// The same, with queues for short and long jobs, and admission control.
    Queues,
    /// The same, and within a queue up-down between users.
    FairShare,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Fcfs, Self::Easy, Self::Queues, Self::FairShare];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fcfs => "FCFS",
            Self::Easy => "EASY",
            Self::Queues => "queues",
            Self::FairShare => "fair share",
        }
    }
}

/// The machine.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The order in which jobs start.
    pub policy: Policy,
    /// Nodes.
    pub nodes: u32,
    /// Mean time between failures of a node, in seconds; infinite for never.
    pub mtbf: f64,
    /// How long a node is down, in seconds.
    pub repair: f64,
    /// Jobs of one user that may wait in a queue.
    pub per_user: usize,
}

/// The results of a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// When the last job ended, in seconds.
    pub makespan: f64,
    /// Mean part of the nodes that worked on jobs.
    pub utilisation: f64,
    /// Mean waiting time, in seconds.
    pub wait: f64,
    /// Mean slowdown.
    pub slowdown: f64,
    /// Mean slowdown where runs below 10 s count as that long.
    pub bounded: f64,
    /// Jain's index over the users' mean bounded slowdowns.
    pub fairness: f64,
    /// Mean bounded slowdown of the half of the users that submit least, each counted once.
    pub light: f64,
    /// Jobs that ended.
    pub ended: u64,
    /// Jobs that were refused.
    pub refused: u64,
    /// Runs that failed with their host, and began again.
    pub restarts: u64,
    /// Most jobs that waited or ran at a time.
    pub active: u64,
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
    Repair,
}

struct Running {
    id: u64,
    job: Job,
    started: Time,
    estimate: Time,
    plan: u64,
}

struct Machine {
    setting: Setting,
    engine: Engine<Event>,
    /// One host, which has a slot for each node that is up.
    scheduler: Scheduler<()>,
    /// The jobs that wait.
    waiting: HashMap<u64, Job>,
    running: Slab<Running>,
    /// By their estimated ends.
    ends: BTreeSet<(Time, usize, u32)>,
    busy: Busy,
    down: u32,
    submitted: u64,
    plans: u64,
    more: bool,
    failures: Random,
    /// Failures since a job ended.
    in_vain: u32,
    waits: Summary,
    slowdowns: Summary,
    bounded: Summary,
    users: Vec<Summary>,
    outcome: Outcome,
}

/// The longest run time of the queue for short jobs, in the scheduler's measure.
const HOUR: u64 = 3_600_000;

/// Runs the jobs, which come in the order of submission, to their end.
pub fn simulate(setting: &Setting, seed: u64, jobs: impl IntoIterator<Item = Job>) -> Outcome {
    let mut machine = Machine::new(setting, seed);
    let mut jobs = jobs.into_iter().peekable();
    machine.expect(jobs.peek());
    if machine.more {
        machine.plan_failure();
    }
    while let Some(event) = machine.engine.next_event() {
        machine.busy.count(machine.engine.now());
        match event {
            Event::Submit => {
                if let Some(job) = jobs.next() {
                    machine.submit(job);
                }
                machine.expect(jobs.peek());
            }
            Event::End { slot, plan } => machine.end(slot, plan),
            Event::Fail => machine.fail(),
            Event::Repair => {
                machine.down -= 1;
                machine.note_nodes();
            }
        }
        machine.schedule();
        machine.outcome.stuck = machine.in_vain >= IN_VAIN;
        if machine.is_over() || machine.outcome.stuck {
            break;
        }
    }
    machine.finish()
}

impl Machine {
    fn new(setting: &Setting, seed: u64) -> Self {
        let mut machine = Self {
            setting: *setting,
            engine: Engine::new(),
            scheduler: Scheduler::new(queues(setting), rules(setting.policy)),
            waiting: HashMap::new(),
            running: Slab::new(),
            ends: BTreeSet::new(),
            busy: Busy::default(),
            down: 0,
            submitted: 0,
            plans: 0,
            more: false,
            failures: Random::part(seed, 9),
            in_vain: 0,
            waits: Summary::default(),
            slowdowns: Summary::default(),
            bounded: Summary::default(),
            users: Vec::new(),
            outcome: Outcome::default(),
        };
        machine.note_nodes();
        machine
    }

    fn note_nodes(&mut self) {
        self.scheduler.host_joined((), all_nodes(self.setting.nodes - self.down));
    }

    /// In the scheduler's measure.
    fn now(&self) -> u64 {
        self.engine.now() / 1000
    }

    /// Plans the submission of the next job, if there is one.
    fn expect(&mut self, job: Option<&Job>) {
        self.more = plan_submission(&mut self.engine, job, Event::Submit);
    }

    fn is_over(&self) -> bool {
        !self.more && self.busy.nodes == 0 && self.waiting.is_empty()
    }

    fn submit(&mut self, job: Job) {
        self.submitted += 1;
        let (id, user, now) = (self.submitted, job.user.to_string(), self.now());
        // By the nodes that there are when all are up.
        self.scheduler.host_joined((), all_nodes(self.setting.nodes));
        let admitted = self.scheduler.admit(None, &user, &demand(&job));
        self.note_nodes();
        let Ok((queue, demand)) = admitted else {
            self.outcome.refused += 1;
            return;
        };
        self.scheduler.submit(id, queue, &user, demand, job.width, now);
        self.waiting.insert(id, job);
        self.outcome.active = self.outcome.active.max((self.waiting.len() + self.ends.len()) as u64);
    }

    /// Starts the jobs that may start.
    fn schedule(&mut self) {
        for start in self.scheduler.next(self.now()) {
            if let Some(job) = self.waiting.remove(&start.job) {
                self.start(start.job, job);
            }
        }
    }

    fn start(&mut self, id: u64, job: Job) {
        let now = self.engine.now();
        self.busy.nodes += job.width;
        self.plans += 1;
        let estimate = now.saturating_add(seconds(job.estimate.max(job.run)));
        let slot = self.running.insert(Running { id, job, started: now, estimate, plan: self.plans });
        self.ends.insert((estimate, slot, job.width));
        self.engine.after(seconds(job.run), Event::End { slot, plan: self.plans });
    }

    /// A job leaves its nodes, since it has ended or is to run again.
    fn leave(&mut self, slot: usize, again: bool) -> Option<Running> {
        let running = self.running.try_remove(slot)?;
        self.ends.remove(&(running.estimate, slot, running.job.width));
        self.busy.nodes -= running.job.width;
        let ran = to_seconds(self.engine.now() - running.started);
        self.outcome.node_seconds += ran * f64::from(running.job.width);
        for _ in 0..running.job.width {
            self.scheduler.task_ended(running.id, (), None, again, self.now());
        }
        Some(running)
    }

    fn end(&mut self, slot: usize, plan: u64) {
        if self.running.get(slot).is_none_or(|running| running.plan != plan) {
            return;
        }
        let Some(Running { job, .. }) = self.leave(slot, false) else { return };
        // The time of failed runs counts as waiting.
        let wait = (to_seconds(self.engine.now()) - job.submit - job.run).max(0.0);
        let bounded = bounded_slowdown(wait, job.run, 10.0);
        self.outcome.ended += 1;
        self.in_vain = 0;
        self.outcome.makespan = to_seconds(self.engine.now());
        self.waits.add(wait);
        self.slowdowns.add((wait + job.run) / job.run);
        self.bounded.add(bounded);
        if self.users.len() <= job.user {
            self.users.resize(job.user + 1, Summary::default());
        }
        self.users[job.user].add(bounded);
    }

    fn plan_failure(&mut self) {
        let between = self.setting.mtbf / f64::from(self.setting.nodes.max(1));
        if let Some(delay) = self.failures.until_next(between) {
            self.engine.after(delay, Event::Fail);
        }
    }

    /// One of the nodes that are up fails. If it has a job, that begins again.
    fn fail(&mut self) {
        self.plan_failure();
        self.in_vain += 1;
        let up = self.setting.nodes - self.down;
        if up == 0 {
            return;
        }
        let node = self.failures.below(up as usize) as u32;
        if node < self.busy.nodes {
            let mut first = 0;
            let owner = self.ends.iter().find(|&&(_, _, width)| {
                first += width;
                node < first
            });
            let Some(&(_, slot, _)) = owner else { return };
            if let Some(running) = self.leave(slot, true) {
                self.outcome.restarts += 1;
                self.waiting.insert(running.id, running.job);
            }
        }
        self.down += 1;
        self.note_nodes();
        self.engine.after(seconds(self.setting.repair), Event::Repair);
    }

    fn finish(mut self) -> Outcome {
        let space = self.outcome.makespan * f64::from(self.setting.nodes);
        self.outcome.utilisation = if space > 0.0 { self.busy.node_seconds / space } else { 0.0 };
        self.outcome.wait = self.waits.mean();
        self.outcome.slowdown = self.slowdowns.mean();
        self.outcome.bounded = self.bounded.mean();
        self.outcome.fairness = jain(self.users.iter().filter(|user| user.count() > 0).map(Summary::mean));
        self.users.retain(|user| user.count() > 0);
        self.users.sort_by_key(Summary::count);
        let half = self.users.len().div_ceil(2);
        self.outcome.light = self.users[..half].iter().map(Summary::mean).collect::<Summary>().mean();
        self.outcome.events = self.engine.happened();
        self.outcome
    }
}

/// All nodes are one host: it does not matter which of them a job has.
fn all_nodes(slots: u32) -> Host {
    Host { name: String::new(), arch: String::new(), capability: 1.0, slots, cluster: None }
}

fn queues(setting: &Setting) -> Vec<Queue> {
    let limits = Limits { waiting_per_user: Some(setting.per_user), ..Limits::default() };
    let long = Queue { limits, ..Queue::open("long") };
    match setting.policy {
        Policy::Fcfs | Policy::Easy => vec![Queue::open("all")],
        Policy::Queues | Policy::FairShare => {
            let width = Some((setting.nodes / 4).max(1));
            let limits = Limits { time: Some(HOUR), width, ..limits };
            vec![Queue { priority: 10, limits, ..Queue::open("short") }, long]
        }
    }
}

fn rules(policy: Policy) -> Rules {
    Rules { is_fair: policy == Policy::FairShare, backfills: policy != Policy::Fcfs }
}

fn demand(job: &Job) -> Demand {
    let time = Some(seconds(job.estimate.max(job.run)) / 1000);
    Demand {
        width: Width::Rigid(job.width),
        slots: 1,
        time,
        memory: None,
        hosts: Vec::new(),
        bandwidth: 0,
        home: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Lublin;

    fn setting(policy: Policy) -> Setting {
        Setting { policy, nodes: 32, mtbf: f64::INFINITY, repair: 600.0, per_user: 1_000_000 }
    }

    fn jobs(count: usize) -> impl Iterator<Item = Job> {
        Lublin::new(4, 32, 6).offering(0.8, 32.0).take(count)
    }

    fn job(submit: f64, run: f64, width: u32) -> Job {
        Job { submit, run, estimate: run, width, user: 0 }
    }

    #[test]
    fn nothing_is_lost_and_node_seconds_add_up() {
        for policy in Policy::ALL {
            for mtbf in [f64::INFINITY, 3e6] {
                let setting = Setting { mtbf, ..setting(policy) };
                let outcome = simulate(&setting, 4, jobs(600));
                assert_eq!((outcome.ended, outcome.refused), (600, 0), "{policy:?}");
                assert_eq!(outcome.restarts > 0, mtbf.is_finite());
                let used = outcome.utilisation * 32.0 * outcome.makespan;
                assert!((used - outcome.node_seconds).abs() < 1e-6 * used);
                assert!(
                    outcome.utilisation <= 1.0 && outcome.bounded >= 1.0 && outcome.fairness <= 1.0 + 1e-9
                );
                assert_eq!(outcome, simulate(&setting, 4, jobs(600)));
            }
        }
    }

    #[test]
    fn backfilling_fills_the_gap() {
        // Half the machine is busy for 100 s, all of it is wanted next, and a short job comes last.
        let three = [job(0.0, 100.0, 16), job(1.0, 100.0, 32), job(2.0, 50.0, 16)];
        let easy = simulate(&setting(Policy::Easy), 1, three);
        let fcfs = simulate(&setting(Policy::Fcfs), 1, three);
        assert!((easy.makespan - 200.0).abs() < 1e-6 && (fcfs.makespan - 250.0).abs() < 1e-6);
        let random = |policy| simulate(&setting(policy), 4, jobs(600)).wait;
        assert!(random(Policy::Easy) < random(Policy::Fcfs));
    }

    #[test]
    fn a_heavy_user_is_kept_in_bounds() {
        // User 0 submits 200 jobs at once, user 1 one job a little later.
        let flood = (0..200).map(|_| job(0.0, 100.0, 8));
        let light = Job { user: 1, ..job(1.0, 100.0, 8) };
        let of = |policy| simulate(&setting(policy), 1, flood.clone().chain([light])).light;
        assert!(of(Policy::FairShare) < 3.0, "{}", of(Policy::FairShare));
        assert!(of(Policy::Queues) > 30.0, "{}", of(Policy::Queues));
        let limited = Setting { per_user: 10, ..setting(Policy::Queues) };
        assert!(simulate(&limited, 1, flood.clone()).refused > 100);
    }

    #[test]
    fn impossible_jobs_and_no_jobs() {
        for policy in Policy::ALL {
            let outcome =
                simulate(&setting(policy), 1, [job(0.0, 1.0, 33), job(0.0, 1.0, 0), job(0.0, 1.0, 32)]);
            assert_eq!((outcome.ended, outcome.refused), (1, 2));
            assert_eq!(simulate(&setting(policy), 1, []), Outcome { fairness: 1.0, ..Outcome::default() });
        }
    }

    #[test]
    fn memory_follows_the_active_jobs() {
        let outcome =
            simulate(&setting(Policy::Easy), 4, Lublin::new(4, 32, 6).offering(0.3, 32.0).take(3000));
        assert!(outcome.active < 300, "{}", outcome.active);
    }
}
