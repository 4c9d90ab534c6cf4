//! A batch in which messages, starts and tasks take time.

use super::execution::{Execution, Happened, Plan, Process, Step};
use super::parties::{Ask, Cause, Messages, Parties, index, number};
use super::{Costs, Handout, Outcome, Workload, agents};
use crate::engine::{Engine, Time, to_seconds};
use crate::random::Random;
use pvm_sched::policy::Policy;
use pvm_sched::pulling::{RETRY_MS, Ticket};
use pvm_wire::batch::BatchMsg;
use pvm_wire::{HostIndex, Tid};
use std::time::Duration;

enum Event {
    /// The batch arrives at its home.
    Place,
    /// A node's application arrives at the home.
    Ask(Ask),
    /// It arrives at the manager.
    Asked(Ask),
    /// The home sends a message of the manager on.
    Sent(Tid, BatchMsg),
    /// A message of the manager arrives at a daemon.
    Delivered(Tid, BatchMsg),
    /// A node is to start tasks.
    Exec { host: usize, n: u64 },
    /// A step of a task.
    Step(Step),
    /// The daemon of a host sees that a task has ended.
    Ended { host: usize },
    /// A node that had no room checks again.
    Retry { host: usize, ticket: Ticket },
    /// The parent receives the message that a task has done its work.
    Done,
}

impl Event {
    /// The process that handles it.
    fn handler(&self) -> Option<Process> {
        let host = match *self {
            Self::Asked(_) => return Some(Process::Manager),
            Self::Step(_) => return None,
            Self::Place | Self::Ask(_) | Self::Sent(..) | Self::Done => 0,
            Self::Delivered(to, _) => to.host().map_or(0, number),
            Self::Exec { host, .. } | Self::Ended { host } | Self::Retry { host, .. } => host,
        };
        Some(Process::Daemon(host))
    }
}

struct Simulation<'a> {
    workload: &'a Workload,
    costs: &'a Costs,
    engine: Engine<Event>,
    parties: Parties,
    random: Random,
    execution: Execution<'a>,
    done: u64,
    outcome: Outcome,
}

/// Runs a batch by a policy; the seed is that of what is random: the nodes' waits, the agents' choices.
pub fn simulate(workload: &Workload, policy: Policy, costs: &Costs, seed: u64) -> Outcome {
    if policy.has_agents() {
        return agents::simulate(workload, policy, costs, seed);
    }
    let mut simulation = Simulation {
        workload,
        costs,
        engine: Engine::new(),
        parties: Parties::new(workload, policy),
        random: Random::part(seed, 21),
        execution: Execution::new(workload, costs, seed),
        done: 0,
        outcome: Outcome::default(),
    };
    simulation.engine.after(costs.local, Event::Place);
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
            Event::Place => {
                let wait = self.wait();
                let (ask, messages) = self.parties.place(self.workload.tasks, wait);
                // The home's own application is part of the batch's message.
                self.note(&ask);
                self.send(messages, self.costs.local);
            }
            Event::Ask(ask) => self.engine.after(self.costs.local, Event::Asked(ask)),
            Event::Asked(ask) => {
                let messages = self.parties.ask(&ask);
                self.send(messages, 0);
            }
            Event::Sent(to, message) => {
                let latency = self.costs.beyond_home(to.host().map_or(0, number));
                self.engine.after(latency, Event::Delivered(to, message));
            }
            Event::Delivered(to, message) => self.deliver(to, &message),
            Event::Exec { host, n } => {
                let plan = self.execution.start(host, n, self.engine.now());
                self.plan(plan);
                self.look(host, Cause::Given(n));
            }
            Event::Step(step) => self.on_step(step),
            // It has room again.
            Event::Ended { host } => {
                self.look(host, Cause::Ended(1));
                self.engine.after(2 * self.costs.local + self.costs.beyond_home(host), Event::Done);
            }
            Event::Retry { host, ticket } => self.look(host, Cause::Retry(ticket)),
            Event::Done => {
                self.done += 1;
                self.outcome.makespan = to_seconds(self.engine.now());
            }
        }
    }

    fn on_step(&mut self, step: Step) {
        let (happened, plan) = self.execution.on_step(step, self.engine.now());
        self.plan(plan);
        for happened in happened {
            if let Happened::Ended { host } = happened {
                self.engine.after(0, Event::Ended { host });
            }
        }
    }

    fn plan(&mut self, plan: Plan) {
        for (at, step) in plan {
            self.engine.at(at, Event::Step(step));
        }
    }

    fn wait(&mut self) -> Duration {
        Duration::from_millis(RETRY_MS.start) + Duration::from_micros(self.random.below(60_000) as u64)
    }

    fn look(&mut self, host: usize, cause: Cause) {
        let wait = self.wait();
        if let Some(ask) = self.parties.look(host, cause, wait) {
            self.note(&ask);
            self.count(host);
            self.engine.after(self.costs.beyond_home(host), Event::Ask(ask));
        }
    }

    /// A message between the manager, which is on the home's host, and a host.
    fn count(&mut self, host: usize) {
        self.outcome.messages += 1;
        self.outcome.between += u64::from(host != 0);
    }

    fn note(&mut self, ask: &Ask) {
        self.outcome.asks += 1;
        if let Some((wait, ticket)) = ask.retry {
            self.engine.after(wait.as_micros() as Time, Event::Retry { host: ask.host, ticket });
        }
    }

    fn send(&mut self, messages: Messages, later: Time) {
        for (to, message) in messages {
            self.count(to.host().map_or(0, number));
            self.engine.after(later + self.costs.local, Event::Sent(to, message));
        }
    }

    fn deliver(&mut self, to: Tid, message: &BatchMsg) {
        let at = to.host().map_or(0, number);
        match *message {
            BatchMsg::Grant { host, n, .. } => {
                let host = number(host);
                self.outcome.handouts.push(Handout { host, n });
                let latency = if index(host) == HostIndex::MASTER { 0 } else { self.costs.between };
                self.engine.after(latency, Event::Exec { host, n });
            }
            BatchMsg::TasksHave { .. } => self.look(at, Cause::TasksHave),
            BatchMsg::TasksNo { .. } => self.parties.tasks_no(at),
            _ => {}
        }
    }
}
