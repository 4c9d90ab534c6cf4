//! Hosts that run one process at a time, fail, and belong to owners; and the processes that a policy places on them.

use super::{Case, Settings};
use crate::engine::{Engine, SECOND, Time, seconds, to_seconds};
use crate::random::Random;
use crate::stats::Summary;
use pvm_sched::allocation::{Machines, Policy, Request, Step};
use std::collections::{HashMap, VecDeque};

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
    /// How often a process had to be placed again as its host had left, per process.
    pub again: f64,
    /// Processes that ended.
    pub ended: u64,
    /// Events that happened.
    pub events: u64,
    /// Whether it was given up, as hosts left again and again and no process ended.
    pub stuck: bool,
}

/// So many hosts leave without a process that ends, and none ever will; per host, so that it suits all sizes.
const IN_VAIN: u64 = 1000;

enum Event {
    Create,
    /// The first process of a host has run, if nothing has come between since that plan.
    End(usize, u32),
    Timer(usize),
    /// What was decided takes effect.
    Carry(Step),
    Fail,
    Visit,
    Return(usize),
}

/// A process: its request, and when that was made.
#[derive(Clone, Copy)]
struct Process {
    request: u64,
    created: Time,
    /// What it has to run yet; until it runs first, nobody knows.
    left: Option<Time>,
}

#[derive(Clone, Default)]
struct Host {
    /// Here and not in the queue, which is elsewhere in memory: most hosts have one process at a time.
    runs: Option<Process>,
    waiting: VecDeque<Process>,
    /// When the one that runs ends, and the number of that plan.
    end: Time,
    plan: u32,
    away: bool,
}

impl Host {
    fn load(&self) -> u32 {
        u32::from(self.runs.is_some()) + self.waiting.len() as u32
    }
}

struct World {
    hosts: Vec<Host>,
    random: Random,
    messages: u64,
    /// Of those, probes since the policy was asked.
    probes: u64,
    now: Time,
}

impl Machines for World {
    fn count(&self) -> usize {
        self.hosts.len()
    }

    fn probe(&mut self, host: usize) -> Option<u32> {
        self.messages += 2;
        self.probes += 1;
        self.hosts.get(host).is_some_and(|host| !host.away).then(|| self.own_load(host))
    }

    fn own_load(&self, host: usize) -> u32 {
        self.hosts.get(host).map_or(0, Host::load)
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

/// A request that has not ended.
struct Open {
    made: Time,
    origin: usize,
    /// Processes that have not ended.
    left: u32,
    /// Those that have to be placed again, by what they have to run yet.
    again: Vec<Option<Time>>,
}

struct Simulation<'a> {
    settings: &'a Settings,
    engine: Engine<Event>,
    world: World,
    policy: Box<dyn Policy>,
    runs: Random,
    departures: Random,
    open: HashMap<u64, Open>,
    batches_left: u64,
    present: usize,
    slowdowns: Summary,
    batches: Summary,
    moved: u64,
    again: u64,
    /// Hosts that have left since a process ended.
    in_vain: u64,
}

/// Runs one case.
pub fn simulate(settings: &Settings, case: &Case, seed: u64) -> Outcome {
    let world = World {
        hosts: vec![Host::default(); case.hosts],
        random: Random::part(seed, 3),
        messages: 0,
        probes: 0,
        now: 0,
    };
    let mut simulation = Simulation {
        settings,
        engine: Engine::new(),
        world,
        policy: case.kind.policy(case.hosts),
        runs: Random::part(seed, 4),
        departures: Random::part(seed, 11),
        open: HashMap::new(),
        batches_left: case.processes.div_ceil(settings.batch.into()).max(1),
        present: case.hosts,
        slowdowns: Summary::default(),
        batches: Summary::default(),
        moved: 0,
        again: 0,
        in_vain: 0,
    };
    let stuck = simulation.run(case, &mut Random::part(seed, 5));
    Outcome { stuck, ..simulation.finish() }
}

impl Simulation<'_> {
    /// Says whether it had to be given up.
    fn run(&mut self, case: &Case, arrivals: &mut Random) -> bool {
        let creators = ((case.hosts as f64 * self.settings.creators) as usize).clamp(1, case.hosts);
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
        self.plan_departure(self.settings.mtbf, Event::Fail);
        self.plan_departure(self.settings.idle, Event::Visit);
        while let Some(event) = self.engine.next_event() {
            self.world.now = self.engine.now();
            self.world.probes = 0;
            match event {
                Event::Create => {
                    made += 1;
                    self.batches_left -= 1;
                    self.create(made, arrivals.below(creators));
                    if self.batches_left > 0 {
                        self.engine.after(seconds(arrivals.exponential(between)), Event::Create);
                    }
                }
                Event::End(host, plan) => self.end(host, plan),
                Event::Timer(host) => self.timer(host),
                Event::Carry(step) => self.carry(step),
                Event::Fail => {
                    self.plan_departure(self.settings.mtbf, Event::Fail);
                    self.leave(self.settings.repair, false);
                }
                Event::Visit => {
                    self.plan_departure(self.settings.idle, Event::Visit);
                    self.leave(self.settings.visit, true);
                }
                Event::Return(host) => {
                    self.world.hosts[host].away = false;
                    self.present += 1;
                    let steps = self.policy.returned(host, &mut self.world);
                    self.apply(&steps);
                }
            }
            if self.in_vain > IN_VAIN * case.hosts as u64 {
                return true;
            }
        }
        false
    }

    fn is_over(&self) -> bool {
        self.batches_left == 0 && self.open.is_empty()
    }

    fn create(&mut self, id: u64, origin: usize) {
        let request = Request { id, origin: self.present_from(origin), count: self.settings.batch };
        let now = self.engine.now();
        let open = Open { made: now, origin, left: request.count, again: Vec::new() };
        self.open.insert(id, open);
        let steps = self.policy.created(request, &mut self.world);
        self.apply(&steps);
    }

    /// This host, or the next that is there. One always is.
    fn present_from(&self, host: usize) -> usize {
        let hosts = self.world.hosts.len();
        (host..host + hosts)
            .map(|host| host % hosts)
            .find(|&host| !self.world.hosts[host].away)
            .unwrap_or(host)
    }

    fn timer(&mut self, host: usize) {
        if !self.world.hosts[host].away {
            let steps = self.policy.timer(host, &mut self.world);
            self.apply(&steps);
        }
        if let Some(interval) = self.policy.interval().filter(|_| !self.is_over()) {
            self.engine.after(interval * 1000, Event::Timer(host));
        }
    }

    fn end(&mut self, host: usize, plan: u32) {
        if self.world.hosts[host].plan != plan {
            return;
        }
        let place = &mut self.world.hosts[host];
        let next = place.waiting.pop_front();
        let Some(process) = std::mem::replace(&mut place.runs, next) else { return };
        let now = self.engine.now();
        self.in_vain = 0;
        self.slowdowns.add(to_seconds(now - process.created) / self.settings.run);
        if let Some(open) = self.open.get_mut(&process.request) {
            open.left -= 1;
            if open.left == 0 {
                self.batches.add(to_seconds(now - open.made) / self.settings.run);
                self.open.remove(&process.request);
            }
        }
        if next.is_some() {
            self.begin(host);
        }
        let steps = self.policy.ended(host, &mut self.world);
        self.apply(&steps);
    }

    /// All hosts together leave so much more often than one.
    fn plan_departure(&mut self, mean: f64, event: Event) {
        if mean > 0.0 && !self.is_over() {
            let delay = self.departures.exponential(mean / self.world.hosts.len() as f64);
            self.engine.after(seconds(delay).max(1), event);
        }
    }

    /// Some host fails, or its owner is back, unless it is away anyway or the last that is there. What it had is placed
    /// again: from the beginning, or, as an owner gives it time, from where it was.
    fn leave(&mut self, time: f64, kept: bool) {
        let host = self.departures.below(self.world.hosts.len());
        self.in_vain += 1;
        if self.world.hosts[host].away || self.present == 1 {
            return;
        }
        self.present -= 1;
        let now = self.engine.now();
        let left = &mut self.world.hosts[host];
        left.away = true;
        left.plan += 1;
        let mut ran = left.runs.take();
        if let Some(process) = &mut ran {
            process.left = kept.then(|| left.end.saturating_sub(now));
        }
        let lost = ran.into_iter().chain(std::mem::take(&mut left.waiting));
        self.engine.after(seconds(time).max(1), Event::Return(host));
        self.policy.left(host, &mut self.world);
        for process in lost {
            self.place_again(process);
        }
    }

    fn place_again(&mut self, process: Process) {
        self.again += 1;
        let Some(open) = self.open.get_mut(&process.request) else { return };
        open.again.push(process.left);
        let home = open.origin;
        let request = Request { id: process.request, origin: self.present_from(home), count: 1 };
        let steps = self.policy.created(request, &mut self.world);
        self.apply(&steps);
    }

    /// What a policy has decided takes effect: at once, or if messages take time, when they have been sent. Probes are
    /// made one after the other; who does not probe asks somebody, and is answered.
    fn apply(&mut self, steps: &[Step]) {
        let delay = (self.settings.delay / 1000.0 * SECOND as f64) as Time;
        let probes = std::mem::take(&mut self.world.probes);
        for (&step, done) in steps.iter().zip(1_u64..) {
            let far = match step {
                Step::Start { request, host } => {
                    self.open.get(&request).is_some_and(|open| open.origin != host)
                }
                Step::Take { .. } => true,
            };
            let asked = if probes > 0 { 2 * (probes * done).div_ceil(steps.len() as u64) } else { 2 };
            let ways = if far {
                asked + 1
            } else if probes > 0 {
                asked
            } else {
                0
            };
            if delay * ways == 0 {
                self.carry(step);
            } else {
                self.engine.after(delay * ways, Event::Carry(step));
            }
        }
    }

    fn carry(&mut self, step: Step) {
        match step {
            Step::Start { request, host } => {
                let Some(open) = self.open.get_mut(&request) else { return };
                let process = Process { request, created: open.made, left: open.again.pop().flatten() };
                self.add(host, process);
            }
            // The one that runs does not move.
            Step::Take { from, to } => {
                if let Some(process) = self.world.hosts[from].waiting.pop_back() {
                    self.moved += 1;
                    self.add(to, process);
                }
            }
        }
    }

    fn add(&mut self, host: usize, process: Process) {
        let place = &mut self.world.hosts[host];
        if place.away {
            // It left while the process was under way.
            self.place_again(process);
        } else if place.runs.is_some() {
            place.waiting.push_back(process);
        } else {
            place.runs = Some(process);
            self.begin(host);
        }
    }

    /// The host's process runs now.
    fn begin(&mut self, host: usize) {
        let place = &mut self.world.hosts[host];
        let left = place.runs.and_then(|process| process.left);
        let run = left.unwrap_or_else(|| seconds(self.runs.exponential(self.settings.run)));
        place.plan += 1;
        place.end = self.engine.now().saturating_add(run);
        self.engine.after(run, Event::End(host, place.plan));
    }

    fn finish(self) -> Outcome {
        let ended = self.slowdowns.count();
        let each = 1.0 / ended.max(1) as f64;
        Outcome {
            slowdown: self.slowdowns.mean(),
            batch: self.batches.mean(),
            messages: self.world.messages as f64 * each,
            moved: self.moved as f64 * each,
            again: self.again as f64 * each,
            ended,
            events: self.engine.happened(),
            stuck: false,
        }
    }
}
