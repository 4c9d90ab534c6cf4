//! Hosts that run one process at a time, fail, and belong to owners; and the processes that a policy places on them.

use super::state::{Arrival, Hosts, Open, Process, Requests};
use super::{Case, Settings};
use crate::engine::{Engine, SECOND, Time, seconds, to_seconds};
use crate::random::Random;
use crate::stats::Summary;
use pvm_sched::allocation::{Algorithm, Machines, Request, Step};
use slab::Slab;
use std::hint::black_box;

/// The results of a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Mean time from creation to end, over the mean run time.
    pub slowdown: f64,
    /// Mean time from a batch's creation to its last end, over the mean run time: what a master waits for.
    pub batch: f64,
    /// Messages per process.
    pub messages: f64,
    /// How often a process had to be placed again as its host had left, per process.
    pub again: f64,
    /// Processes that ended.
    pub ended: u64,
    /// Events that happened.
    pub events: u64,
    /// Whether it was given up, as hosts left again and again and no process ended.
    pub stuck: bool,
}

/// The simulation is given up when this many hosts, per host, have left since a process ended.
const IN_VAIN: u64 = 1000;

/// Host numbers have 32 bits and rare data is stored elsewhere: an event is 8 bytes, since there are as many pending events as
/// hosts.
enum Event {
    Create,
    /// A host's process has run, if the host has not left since that was planned.
    End(u32),
    Timer(u32),
    /// A decision takes effect.
    Carry(u32),
    Fail,
    Visit,
    Return(u32),
}

struct World {
    hosts: Hosts,
    random: Random,
    messages: u64,
    now: Time,
}

impl Machines for World {
    fn send(&mut self, messages: u64) {
        self.messages += messages;
    }

    fn now(&self) -> u64 {
        self.now / 1000
    }
}

struct Simulation<'a> {
    settings: &'a Settings,
    engine: Engine<Event>,
    world: World,
    policy: Box<dyn Algorithm>,
    runs: Random,
    departures: Random,
    requests: Requests,
    /// Decisions that have not taken effect yet.
    steps: Slab<Step>,
    batches_left: u64,
    present: usize,
    slowdowns: Summary,
    batches: Summary,
    again: u64,
    /// Hosts that have left since a process ended.
    in_vain: u64,
}

/// Runs one case.
pub fn simulate(settings: &Settings, case: &Case, seed: u64) -> Outcome {
    let world = World { hosts: Hosts::new(case.hosts), random: Random::part(seed, 3), messages: 0, now: 0 };
    let mut simulation = Simulation {
        settings,
        engine: Engine::new(),
        world,
        policy: case.kind.policy(case.hosts),
        runs: Random::part(seed, 4),
        departures: Random::part(seed, 11),
        requests: Requests::default(),
        steps: Slab::new(),
        batches_left: case.processes.div_ceil(settings.batch.into()).max(1),
        present: case.hosts,
        slowdowns: Summary::default(),
        batches: Summary::default(),
        again: 0,
        in_vain: 0,
    };
    let stuck = simulation.run(case, &mut Random::part(seed, 5));
    Outcome { stuck, ..simulation.finish() }
}

impl Simulation<'_> {
    /// Whether the simulation was given up.
    fn run(&mut self, case: &Case, arrivals: &mut Random) -> bool {
        let creators = ((case.hosts as f64 * self.settings.creators) as usize).clamp(1, case.hosts);
        let rate = case.load.max(1e-6) * case.hosts as f64 / self.settings.run;
        let between = f64::from(self.settings.batch) / rate;
        self.engine.at(0, Event::Create);
        if let Some(interval) = self.policy.interval() {
            for host in 0..case.hosts {
                // Not all at once.
                let first = self.world.random.below(interval as usize * 1000) as Time;
                self.engine.at(first, Event::Timer(host as u32));
            }
        }
        self.plan_departure(self.settings.mtbf, Event::Fail);
        self.plan_departure(self.settings.idle, Event::Visit);
        loop {
            let (hosts, requests) = (&self.world.hosts, &self.requests);
            let read = |event: &Event| {
                if let Event::End(host) = event {
                    let ends = hosts.read_ahead(*host as usize);
                    black_box(ends.map(|(request, next)| (requests.get(request), next)));
                }
            };
            let Some(event) = self.engine.next_event_with(read) else { return false };
            self.world.now = self.engine.now();
            match event {
                Event::Create => {
                    self.batches_left -= 1;
                    self.create(arrivals.below(creators));
                    if self.batches_left > 0 {
                        self.engine.after(seconds(arrivals.exponential(between)), Event::Create);
                    }
                }
                Event::End(host) => self.end(host as usize),
                Event::Timer(host) => self.timer(host as usize),
                Event::Carry(step) => {
                    let step = self.steps.remove(step as usize);
                    self.carry_out(step);
                }
                Event::Fail => {
                    self.plan_departure(self.settings.mtbf, Event::Fail);
                    self.leave(self.settings.repair, false);
                }
                Event::Visit => {
                    self.plan_departure(self.settings.idle, Event::Visit);
                    self.leave(self.settings.visit, true);
                }
                Event::Return(host) => {
                    self.world.hosts.come_back(host as usize);
                    self.present += 1;
                    let steps = self.policy.returned(host as usize, &mut self.world);
                    self.apply(&steps);
                }
            }
            if self.in_vain > IN_VAIN * case.hosts as u64 {
                return true;
            }
        }
    }

    fn is_over(&self) -> bool {
        self.batches_left == 0 && self.requests.is_empty()
    }

    fn create(&mut self, origin: usize) {
        let (made, count) = (self.engine.now(), self.settings.batch);
        let id = self.requests.open(Open { made, origin: origin as u32, left: count }).into();
        let request = Request { id, origin: self.present_from(origin), count };
        let steps = self.policy.created(request, &mut self.world);
        self.apply(&steps);
    }

    /// This host, or the next that is present. At least one is.
    fn present_from(&self, host: usize) -> usize {
        let hosts = self.world.hosts.count();
        (host..host + hosts)
            .map(|host| host % hosts)
            .find(|&host| !self.world.hosts.is_away(host))
            .unwrap_or(host)
    }

    fn timer(&mut self, host: usize) {
        if !self.world.hosts.is_away(host) {
            let steps = self.policy.timer(host, &mut self.world);
            self.apply(&steps);
        }
        if let Some(interval) = self.policy.interval().filter(|_| !self.is_over()) {
            self.engine.after(interval * 1000, Event::Timer(host as u32));
        }
    }

    fn end(&mut self, host: usize) {
        let now = self.engine.now();
        let Some((request, next)) = self.world.hosts.end(host, now) else { return };
        self.in_vain = 0;
        if let Some(open) = self.requests.ended(request) {
            let slowdown = to_seconds(now - open.made) / self.settings.run;
            self.slowdowns.add(slowdown);
            if open.left == 0 {
                self.batches.add(slowdown);
            }
        }
        if let Some(next) = next {
            self.begin(host, next);
        }
        let steps = self.policy.ended(host, &mut self.world);
        self.apply(&steps);
    }

    /// Plans the next departure of any host; `mean` is the mean time of one host.
    fn plan_departure(&mut self, mean: f64, event: Event) {
        if !self.is_over()
            && let Some(delay) = self.departures.until_next(mean / self.world.hosts.count() as f64)
        {
            self.engine.after(delay, event);
        }
    }

    /// A random host fails, or its owner returns, unless it is away or the last one present. Its processes are placed
    /// again: from the beginning, or, if an owner leaves time to save them, from their current state.
    fn leave(&mut self, time: f64, kept: bool) {
        let host = self.departures.below(self.world.hosts.count());
        self.in_vain += 1;
        if self.world.hosts.is_away(host) || self.present == 1 {
            return;
        }
        self.present -= 1;
        let lost = self.world.hosts.leave(host, self.engine.now(), kept);
        self.engine.after(seconds(time).max(1), Event::Return(host as u32));
        let steps = self.policy.left(host, &mut self.world);
        self.apply(&steps);
        for process in lost {
            self.place_again(process);
        }
    }

    fn place_again(&mut self, process: Process) {
        self.again += 1;
        let Some(open) = self.requests.get(process.request) else { return };
        self.requests.lose(process);
        let origin = self.present_from(open.origin as usize);
        let request = Request { id: process.request.into(), origin, count: 1 };
        let steps = self.policy.created(request, &mut self.world);
        self.apply(&steps);
    }

    /// Carries out the decisions of a policy: at once or, if messages take time, after those that were sent one after the other, and the
    /// order to the host.
    fn apply(&mut self, steps: &[Step]) {
        let delay = (self.settings.delay / 1000.0 * SECOND as f64) as Time;
        for &step in steps {
            let origin = self.requests.get(step.request as u32).map(|open| open.origin as usize);
            let ways = step.ways + u32::from(origin != Some(step.host));
            if delay == 0 || ways == 0 {
                self.carry_out(step);
            } else {
                let step = self.steps.insert(step) as u32;
                self.engine.after(delay * Time::from(ways), Event::Carry(step));
            }
        }
    }

    fn carry_out(&mut self, step: Step) {
        let process = self.requests.next(step.request as u32);
        self.add(step.host, process);
    }

    fn add(&mut self, host: usize, process: Process) {
        match self.world.hosts.add(host, process) {
            Arrival::First => self.begin(host, process),
            Arrival::Waits => {}
            // The host left while the process was under way.
            Arrival::Lost => self.place_again(process),
        }
    }

    /// The host's process runs now.
    fn begin(&mut self, host: usize, process: Process) {
        let run = process.left.unwrap_or_else(|| seconds(self.runs.exponential(self.settings.run)));
        let end = self.engine.now().saturating_add(run);
        self.world.hosts.begin(host, end);
        self.engine.at(end, Event::End(host as u32));
    }

    fn finish(self) -> Outcome {
        let ended = self.slowdowns.count();
        let each = 1.0 / ended.max(1) as f64;
        Outcome {
            slowdown: self.slowdowns.mean(),
            batch: self.batches.mean(),
            messages: self.world.messages as f64 * each,
            again: self.again as f64 * each,
            ended,
            events: self.engine.happened(),
            stuck: false,
        }
    }
}
