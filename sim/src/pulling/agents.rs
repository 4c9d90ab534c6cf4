//! A batch that agents place, in which messages, starts and tasks take time. The agents are those of daemons.

use super::execution::{Execution, Happened, Plan, Process, Step};
use super::{Costs, Handout, Outcome, Workload};
use crate::engine::{Engine, Time, to_seconds};
use pvm_sched::allocation::agent::{Action, Event as AgentEvent, Party, Randomness, Scene};
use pvm_sched::placement::{Portion, proportional};
use pvm_sched::policy::Policy;
use std::collections::VecDeque;

type Told = AgentEvent<Vec<u8>>;

/// The only request, of the first host.
const REQUEST: u64 = 1;
/// The home and the centre, as agents count hosts.
const HOME: usize = 1;
/// How long a home waits at most for agents that find no host (`pvmd/core/src/spawn/agents.rs`), µs.
const PATIENCE: Time = 1_000_000;
/// How often hosts look at their load (`pvmd/src/io/load.rs`), µs.
const LOADS_APART: Time = 1_000_000;

enum Event {
    /// The batch arrives at its home.
    Created,
    /// An agent hears something.
    Hears { host: usize, what: Told },
    /// A host is to start tasks.
    Exec { host: usize, n: u32 },
    /// A step of a task.
    Step(Step),
    /// The daemon of a host sees that a task has ended.
    Ended { host: usize },
    /// An agent wanted to be woken, the number of times it has said so.
    Wakes { host: usize, wish: u64 },
    /// All hosts look at their load.
    Loads,
    /// The home has waited for long since it told the agents last.
    Impatient { since: u64 },
    /// The parent receives the message that a task has done its work.
    Done,
}

impl Event {
    /// The process that handles it.
    fn handler(&self) -> Option<Process> {
        let host = match *self {
            Self::Step(_) | Self::Loads => return None,
            Self::Created | Self::Impatient { .. } | Self::Done => 0,
            Self::Hears { host, .. }
            | Self::Exec { host, .. }
            | Self::Ended { host }
            | Self::Wakes { host, .. } => host,
        };
        Some(Process::Daemon(host))
    }
}

/// A host, and the agent that it has once something is said to it.
struct Host {
    party: Option<Box<dyn Party>>,
    random: Randomness,
    /// Tasks that run there or are about to.
    running: u32,
    wishes: u64,
}

struct Simulation<'a> {
    workload: &'a Workload,
    policy: Policy,
    costs: &'a Costs,
    engine: Engine<Event>,
    hosts: Vec<Host>,
    numbers: Vec<usize>,
    execution: Execution<'a>,
    /// Tasks that no host has been given.
    waiting: u64,
    ended: u64,
    done: u64,
    /// How often the home has told the agents of tasks.
    told: u64,
    outcome: Outcome,
}

/// Runs a batch; the seed is that of the agents' choices.
pub fn simulate(workload: &Workload, policy: Policy, costs: &Costs, seed: u64) -> Outcome {
    let host = |number: usize| Host {
        party: None,
        random: Randomness::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number as u64)),
        running: 0,
        wishes: 0,
    };
    let numbers: Vec<usize> = (HOME..=workload.speeds.len()).collect();
    let mut simulation = Simulation {
        workload,
        policy,
        costs,
        engine: Engine::new(),
        hosts: numbers.iter().map(|&number| host(number)).collect(),
        numbers,
        execution: Execution::new(workload, costs, seed),
        waiting: workload.tasks,
        ended: 0,
        done: 0,
        told: 0,
        outcome: Outcome::default(),
    };
    simulation.engine.after(costs.local, Event::Created);
    simulation.engine.after(LOADS_APART, Event::Loads);
    while simulation.done < workload.tasks
        && let Some(event) = simulation.execution.next_event(&mut simulation.engine, Event::handler)
    {
        simulation.on_event(event);
    }
    simulation.outcome
}

impl Simulation<'_> {
    fn on_event(&mut self, event: Event) {
        match event {
            Event::Created => self.tell_agents(),
            Event::Hears { host, what } => self.tell(host, what),
            Event::Exec { host, n } => {
                let plan = self.execution.start(host, n.into(), self.engine.now());
                self.plan(plan);
                self.hosts[host].running += n;
                self.tell_known(
                    host,
                    AgentEvent::Began { home: HOME, request: REQUEST, count: n, placed: true },
                );
            }
            Event::Step(step) => {
                let (happened, plan) = self.execution.on_step(step, self.engine.now());
                self.plan(plan);
                for happened in happened {
                    self.on_happened(happened);
                }
            }
            Event::Ended { host } => self.on_ended(host),
            Event::Loads => {
                (0..self.hosts.len()).for_each(|host| self.tell_known(host, AgentEvent::Load));
                self.engine.after(LOADS_APART, Event::Loads);
            }
            Event::Wakes { host, wish } if wish == self.hosts[host].wishes => {
                self.tell_known(host, AgentEvent::Woken);
            }
            Event::Impatient { since } if since == self.told && self.waiting > 0 => {
                self.expect_agents();
                self.no_room();
            }
            Event::Wakes { .. } | Event::Impatient { .. } => {}
            Event::Done => {
                self.done += 1;
                self.outcome.makespan = to_seconds(self.engine.now());
            }
        }
    }

    fn on_happened(&mut self, happened: Happened) {
        match happened {
            Happened::Begun { number, .. } if number + 1 == self.workload.tasks => {
                self.tell(0, AgentEvent::Dropped { request: REQUEST });
            }
            Happened::Begun { .. } => {}
            Happened::Ended { host } => self.engine.after(0, Event::Ended { host }),
        }
    }

    fn on_ended(&mut self, host: usize) {
        self.ended += 1;
        self.hosts[host].running -= 1;
        self.tell_known(host, AgentEvent::Ended { home: HOME, placed: true });
        self.engine.after(2 * self.costs.local + self.costs.beyond_home(host), Event::Done);
    }

    fn plan(&mut self, plan: Plan) {
        for (at, step) in plan {
            self.engine.at(at, Event::Step(step));
        }
    }

    /// The home tells its agent of all tasks that wait.
    fn tell_agents(&mut self) {
        if let Ok(count) = u32::try_from(self.waiting)
            && count > 0
        {
            self.expect_agents();
            self.tell(0, AgentEvent::Known { request: REQUEST, traffic: Vec::new(), may_wait: true });
            self.tell(0, AgentEvent::Created { request: REQUEST, count });
        }
    }

    fn expect_agents(&mut self) {
        self.told += 1;
        self.engine.after(PATIENCE, Event::Impatient { since: self.told });
    }

    /// Only agents hear this that there are already.
    fn tell_known(&mut self, host: usize, event: Told) {
        if self.hosts[host].party.is_some() {
            self.tell(host, event);
        }
    }

    /// An agent hears something. What it says to itself follows at once.
    fn tell(&mut self, host: usize, event: Told) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let now = self.engine.now() / 1000;
            let Host { party, random, running, .. } = &mut self.hosts[host];
            if party.is_none() {
                *party = self.policy.agent();
            }
            let Some(party) = party else { return };
            let place = (host + HOME, HOME);
            let mut scene = Scene::new(place, (*running, self.workload.slots), &self.numbers, now, random);
            party.on(event, &mut scene);
            for action in scene.into_actions() {
                match action {
                    Action::Send { to, message } if to == host + HOME => {
                        events.push_back(AgentEvent::Heard { from: to, message });
                    }
                    action => self.act(host, action),
                }
            }
        }
    }

    fn act(&mut self, host: usize, action: Action<Vec<u8>>) {
        match action {
            Action::Send { to, message } => {
                self.outcome.messages += 1;
                self.outcome.between += 1;
                let what = AgentEvent::Heard { from: host + HOME, message };
                if let Some(host) = to.checked_sub(HOME).filter(|&host| host < self.hosts.len()) {
                    self.engine.after(self.costs.between, Event::Hears { host, what });
                }
            }
            Action::Start { request: REQUEST, host: to, count } if host == 0 => {
                self.give(to.saturating_sub(HOME), count);
            }
            Action::Wake(after) => {
                self.hosts[host].wishes += 1;
                let wish = self.hosts[host].wishes;
                self.engine.after(after.saturating_mul(1000), Event::Wakes { host, wish });
            }
            Action::NoRoom { .. } if host == 0 => self.no_room(),
            Action::Start { .. } | Action::NoRoom { .. } | Action::Post(_) => {}
        }
    }

    /// A host is given tasks.
    fn give(&mut self, host: usize, count: u32) {
        let n = count.min(u32::try_from(self.waiting).unwrap_or(u32::MAX));
        if n == 0 || host >= self.hosts.len() {
            return;
        }
        self.waiting -= u64::from(n);
        self.outcome.handouts.push(Handout { host, n: n.into() });
        let latency = if host == 0 { 0 } else { self.costs.between };
        self.engine.after(latency, Event::Exec { host, n });
    }

    /// No host has room: one task gets its turn if nothing else of the batch runs, and the agents begin anew.
    fn no_room(&mut self) {
        if self.waiting == 0 || self.ended + self.waiting != self.workload.tasks {
            return;
        }
        let portion = |&speed: &u32| Portion { capability: speed.into(), has: 0, limit: u64::MAX };
        let portions: Vec<Portion> = self.workload.speeds.iter().map(portion).collect();
        if let Some(host) = proportional(1, &portions).iter().position(|&n| n > 0) {
            self.give(host, 1);
        }
        self.tell(0, AgentEvent::Dropped { request: REQUEST });
        self.tell_agents();
    }
}
