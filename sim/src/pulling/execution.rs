//! What becomes of tasks that a host has been told to start, and when.

use super::waits::Turns;
use super::{Costs, Processors, Workload};
use crate::engine::{Engine, Time};
use crate::random::Random;

/// A process besides the tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// The daemon of a host.
    Daemon(usize),
    /// The task manager, on the home.
    Manager,
}

/// Something that happens to a task at a time that was planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Its program begins.
    Begins { host: usize },
    /// It ends.
    Ends { host: usize },
    /// A start or a task of a host may be at its end, if nothing has happened there since this plan.
    Due { host: usize, plan: u64 },
}

/// The same, when it has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    Begun { host: usize, number: u64 },
    Ended { host: usize },
}

/// Steps, and when they will happen.
pub type Plan = Vec<(Time, Step)>;

/// The starts and tasks of all hosts.
pub struct Execution<'a> {
    workload: &'a Workload,
    start: Time,
    hosts: Hosts,
    begun: u64,
}

enum Hosts {
    /// They are one computer: when each of its processors has finished its pending starts, and when each slot of each host is free.
    OneComputer { processors: Vec<Time>, slots: Vec<Vec<Time>> },
    /// What runs on each.
    Own(Vec<Shared>),
}

impl<'a> Execution<'a> {
    /// The seed is that of the times for which daemons wait.
    pub fn new(workload: &'a Workload, costs: &Costs, seed: u64) -> Self {
        let hosts = match costs.processors {
            Processors::OneComputer(processors) => Hosts::OneComputer {
                processors: vec![0; processors.max(1)],
                slots: vec![vec![0; workload.slots.max(1) as usize]; workload.speeds.len()],
            },
            Processors::Own { waits } => {
                let mut random = Random::part(seed, 22);
                let shared = |&speed: &u32| {
                    let mut turns = || Turns::new(waits, random.below(usize::MAX));
                    Shared::new(workload.slots.max(1), speed, [turns(), turns()])
                };
                Hosts::Own(workload.speeds.iter().map(shared).collect())
            }
        };
        Self { workload, start: costs.start, hosts, begun: 0 }
    }

    /// A host starts tasks.
    pub fn start(&mut self, host: usize, count: u64, now: Time) -> Plan {
        let mut plan = Plan::new();
        match &mut self.hosts {
            Hosts::OneComputer { processors, .. } => {
                for _ in 0..count {
                    if let Some(free) = processors.iter_mut().min() {
                        *free = now.max(*free) + self.start;
                        plan.push((*free, Step::Begins { host }));
                    }
                }
            }
            Hosts::Own(hosts) => {
                hosts[host].pending += count;
                hosts[host].start_next(self.start, now);
            }
        }
        plan.extend(self.next_due(host));
        plan
    }

    /// The next event whose process, if any, runs. One for a process that waits comes again when that runs.
    pub fn next_event<E>(
        &mut self,
        engine: &mut Engine<E>,
        handler: impl Fn(&E) -> Option<Process>,
    ) -> Option<E> {
        loop {
            let event = engine.next_event()?;
            match self.delay(handler(&event), engine.now()) {
                Some(delay) => engine.after(delay, event),
                None => return Some(event),
            }
        }
    }

    /// The delay until a process handles what reaches it now; `None`: it is about none, or it runs.
    fn delay(&mut self, process: Option<Process>, now: Time) -> Option<Time> {
        let Hosts::Own(hosts) = &mut self.hosts else { return None };
        let (host, turns): (_, fn(&mut Shared) -> &mut Turns) = match process? {
            Process::Daemon(host) => (host, |shared| &mut shared.daemon),
            Process::Manager => (0, |shared| &mut shared.manager),
        };
        let shared = hosts.get_mut(host)?;
        let beside = shared.running.len();
        let at = turns(shared).next(now, beside);
        (at > now).then(|| at - now)
    }

    /// A planned step: what has happened then, and what will.
    pub fn on_step(&mut self, step: Step, now: Time) -> (Vec<Happened>, Plan) {
        match step {
            Step::Begins { host } => {
                let number = self.next_number();
                let work = self.workload.time(number, host).as_micros() as Time;
                let mut plan = Plan::new();
                if let Hosts::OneComputer { slots, .. } = &mut self.hosts {
                    plan.push((occupy(&mut slots[host], number, now, work), Step::Ends { host }));
                }
                (vec![Happened::Begun { host, number }], plan)
            }
            Step::Ends { host } => (vec![Happened::Ended { host }], Plan::new()),
            Step::Due { host, plan } => {
                let Hosts::Own(hosts) = &mut self.hosts else { return Default::default() };
                if hosts[host].plan != plan {
                    return Default::default();
                }
                let finished = hosts[host].finished(now);
                let happened = finished.into_iter().map(|phase| self.finish(phase, host, now)).collect();
                (happened, self.next_due(host).into_iter().collect())
            }
        }
    }

    fn finish(&mut self, phase: Phase, host: usize, now: Time) -> Happened {
        match phase {
            Phase::Start => {
                let number = self.next_number();
                let length = self.workload.length(number).as_micros() as f64;
                if let Hosts::Own(hosts) = &mut self.hosts {
                    hosts[host].add(Phase::Work, length, now);
                    hosts[host].start_next(self.start, now);
                }
                Happened::Begun { host, number }
            }
            Phase::Work => Happened::Ended { host },
        }
    }

    /// Tasks are numbered in the order in which they begin.
    fn next_number(&mut self) -> u64 {
        self.begun += 1;
        self.begun - 1
    }

    fn next_due(&mut self, host: usize) -> Option<(Time, Step)> {
        let Hosts::Own(hosts) = &mut self.hosts else { return None };
        let (at, plan) = hosts[host].next()?;
        Some((at, Step::Due { host, plan }))
    }
}

/// When a task has slept that begins now. Without a free slot it waits for one of them.
fn occupy(slots: &mut [Time], number: u64, now: Time, work: Time) -> Time {
    let free = slots.iter().position(|&free| free <= now);
    let at = free.unwrap_or((number % slots.len() as u64) as usize);
    slots[at] = slots[at].max(now) + work;
    slots[at]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Start,
    Work,
}

/// A host whose processors are shared equally by all that runs there.
struct Shared {
    /// Microseconds of work, as a host of speed 1000 does it in one slot, that all slots do in a microsecond.
    rate: f64,
    /// Until when its progress is counted.
    at: Time,
    /// Processes that are to be started after the one that is.
    pending: u64,
    /// What runs, and what is left of it.
    running: Vec<(Phase, f64)>,
    /// The number of the last plan: earlier ones count no more.
    plan: u64,
    daemon: Turns,
    manager: Turns,
}

/// Less than this is rounding, µs.
const NOTHING: f64 = 1e-6;

impl Shared {
    fn new(slots: u32, speed: u32, [daemon, manager]: [Turns; 2]) -> Self {
        let rate = f64::from(slots) * f64::from(speed) / f64::from(Workload::REFERENCE);
        Self { rate, at: 0, pending: 0, running: Vec::new(), plan: 0, daemon, manager }
    }

    /// A daemon has one thread that starts processes, one after the other.
    fn start_next(&mut self, start: Time, now: Time) {
        if self.pending > 0 && self.running.iter().all(|&(phase, _)| phase != Phase::Start) {
            self.pending -= 1;
            self.add(Phase::Start, start as f64, now);
        }
    }

    fn add(&mut self, phase: Phase, work: f64, now: Time) {
        self.progress(now);
        self.running.push((phase, work));
    }

    fn progress(&mut self, now: Time) {
        let each = (now - self.at) as f64 * self.rate / self.running.len().max(1) as f64;
        self.running.iter_mut().for_each(|(_, left)| *left -= each);
        self.at = now;
    }

    /// Takes out what is at its end.
    fn finished(&mut self, now: Time) -> Vec<Phase> {
        self.progress(now);
        self.running.extract_if(.., |(_, left)| *left <= NOTHING).map(|(phase, _)| phase).collect()
    }

    /// When the next is at its end if nothing changes: a new plan.
    fn next(&mut self) -> Option<(Time, u64)> {
        self.plan += 1;
        let least = self.running.iter().map(|&(_, left)| left).min_by(f64::total_cmp)?;
        let time = least.max(0.0) * self.running.len() as f64 / self.rate;
        Some((self.at + libm::ceil(time) as Time, self.plan))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Lengths, Waits};
    use super::*;
    use crate::engine::Engine;

    /// When programs begin and end, if hosts start tasks at these times.
    fn all(workload: &Workload, costs: &Costs, starts: &[(Time, usize, u64)]) -> Vec<(Time, Happened)> {
        let mut execution = Execution::new(workload, costs, 1);
        let (mut engine, mut found) = (Engine::new(), Vec::new());
        for &(at, host, count) in starts {
            engine.at(at, Err((host, count)));
        }
        while let Some(event) = engine.next_event() {
            let now = engine.now();
            let (happened, plan) = match event {
                Err((host, count)) => (Vec::new(), execution.start(host, count, now)),
                Ok(step) => execution.on_step(step, now),
            };
            found.extend(happened.into_iter().map(|happened| (now, happened)));
            for (at, step) in plan {
                engine.at(at, Ok(step));
            }
        }
        found
    }

    fn workload() -> Workload {
        let speeds = vec![2000, 1000];
        Workload { speeds, slots: 1, tasks: 3, lengths: Lengths::Constant, mean: 1000, seed: 1 }
    }

    fn begun(at: Time, host: usize, number: u64) -> (Time, Happened) {
        (at, Happened::Begun { host, number })
    }

    fn ended(at: Time, host: usize) -> (Time, Happened) {
        (at, Happened::Ended { host })
    }

    fn costs(processors: Processors) -> Costs {
        Costs { local: 0, between: 0, start: 100, processors }
    }

    #[test]
    fn tasks_that_sleep_have_slots_and_share_only_the_processors_that_start_them() {
        let costs = costs(Processors::OneComputer(2));
        let found = all(&workload(), &costs, &[(0, 0, 2), (0, 1, 1)]);
        let expected = [
            begun(100, 0, 0),
            begun(100, 0, 1),
            begun(200, 1, 2),
            ended(600, 0),
            ended(1100, 0),
            ended(1200, 1),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn starts_and_tasks_share_the_processors_of_their_host() {
        let costs = costs(Processors::Own { waits: Waits::default() });
        // The first start takes 50, at speed 2 and alone; the second shares the processors with the first task, and both have done
        // 100 of it at 150.
        let found = all(&workload(), &costs, &[(0, 0, 2), (0, 1, 1)]);
        let both = [
            begun(50, 0, 0),
            begun(100, 1, 1),
            begun(150, 0, 2),
            ended(1050, 0),
            ended(1100, 1),
            ended(1100, 0),
        ];
        assert_eq!(found, both);
        // The first has the host for itself until the second starts, and after that has ended.
        let found = all(&workload(), &costs, &[(0, 1, 1), (600, 1, 1)]);
        let expected = [begun(100, 1, 0), begun(800, 1, 1), ended(1600, 1), ended(2200, 1)];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_daemon_and_a_manager_wait_for_the_processors_of_hosts_that_compute() {
        const MEAN: Time = 500;
        let costs = costs(Processors::Own { waits: Waits([MEAN as f64; 4]) });
        let workload = workload();
        let mut execution = Execution::new(&workload, &costs, 1);
        let first = Some(Process::Daemon(0));
        assert_eq!(execution.delay(first, 7), None, "nothing computes there");
        execution.start(0, 1, 7);
        let mut waits = Vec::new();
        for now in (10_000..).step_by(10_000).take(1000) {
            let wait = execution.delay(first, now).unwrap_or(0);
            assert!(wait < 2 * MEAN, "{wait}");
            assert_eq!(
                execution.delay(first, now + wait / 2),
                (wait > 0).then(|| wait - wait / 2),
                "with the other"
            );
            assert_eq!(execution.delay(first, now + wait), None, "it runs");
            waits.push(wait);
        }
        let mean = waits.iter().sum::<Time>() / 1000;
        assert!(mean.abs_diff(MEAN) < MEAN / 10, "{mean}");
        let others = [Some(Process::Daemon(1)), Some(Process::Daemon(9)), None];
        assert_eq!(others.map(|process| execution.delay(process, 8)), [None; 3], "nothing computes there");
        let (daemon, manager) = (execution.delay(first, 1), execution.delay(Some(Process::Manager), 1));
        assert!(manager.is_some() && manager != daemon, "each waits for itself");
    }
}
