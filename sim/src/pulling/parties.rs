//! The manager of a batch and the nodes that ask it for tasks, without time: the state machines that run live.

use super::Workload;
use pvm_sched::policy::Policy;
use pvm_sched::pulling::{Node, Step, Ticket};
use pvm_sched::task_manager::Machine;
use pvm_wire::batch::{Application, BatchId, BatchMsg, Node as Member};
use pvm_wire::{HostIndex, Tid};
use std::time::Duration;

/// Messages of a batch's task manager, with their receivers.
pub type Messages = Vec<(Tid, BatchMsg)>;

/// The manager and all nodes.
pub struct Parties {
    batch: BatchId,
    policy: Policy,
    manager: Machine,
    nodes: Vec<Pulling>,
}

/// A node, and what it runs.
struct Pulling {
    node: Node,
    capability: f64,
    p: u64,
    /// Tasks of the batch that run there or are about to.
    running: u64,
    /// Slots that other programs use, in tasks.
    outside: u64,
    /// The wait that ends next.
    ticket: Option<Ticket>,
}

/// A node's application to the manager.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ask {
    /// The node, from 0 on.
    pub host: usize,
    /// Its terms.
    pub terms: Application,
    /// When the node applies again, if it has no room.
    pub retry: Option<(Duration, Ticket)>,
}

/// An event at which a node checks whether it has room.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cause {
    /// Tasks are waiting.
    TasksHave,
    /// It is to start this many tasks.
    Given(u64),
    /// This many tasks have ended.
    Ended(u64),
    /// The wait is over.
    Retry(Ticket),
}

/// The index of a host.
pub fn index(host: usize) -> HostIndex {
    u32::try_from(host + 1).ok().and_then(HostIndex::new).unwrap_or(HostIndex::MAX)
}

/// The host of an index.
pub fn number(index: HostIndex) -> usize {
    index.get() as usize - 1
}

impl Parties {
    /// The state before the batch arrives. A virtual machine has at most [`HostIndex::MAX`] hosts; others are left out.
    pub fn new(workload: &Workload, policy: Policy) -> Self {
        let node = |&speed: &u32| Pulling {
            node: Node::new(),
            capability: speed.into(),
            p: workload.slots.into(),
            running: 0,
            outside: 0,
            ticket: None,
        };
        let nodes = workload.speeds.iter().take(HostIndex::MAX.get() as usize).map(node).collect();
        let batch = BatchId { home: HostIndex::MASTER, number: 1 };
        Self { batch, policy, manager: Machine::default(), nodes }
    }

    /// The batch's home gives it to the manager, and asks for tasks itself.
    pub fn place(&mut self, count: u64, wait: Duration) -> (Ask, Messages) {
        let member = |(host, node): (usize, &Pulling)| Member {
            host: index(host),
            capability: node.capability,
            limit: u32::MAX,
        };
        let nodes = self.nodes.iter().enumerate().map(member).collect();
        let (batch, last) = (self.batch, self.batch.home);
        let ask = self.look(0, Cause::TasksHave, wait);
        let own = ask.map(|ask| ask.terms);
        let policy = self.policy.name().to_owned();
        let place = BatchMsg::Place { batch, count, nodes, soft: false, policy, last, own };
        let none = Application { p: 0, p_c: 0, n_a: 0 };
        let ask = ask.unwrap_or(Ask { host: 0, terms: none, retry: None });
        (ask, self.manager.on_message(Tid::MY_DAEMON, place))
    }

    /// An event at a node; returns its application, if it makes one.
    pub fn look(&mut self, host: usize, cause: Cause, wait: Duration) -> Option<Ask> {
        let pulling = self.nodes.get_mut(host)?;
        match cause {
            Cause::Given(n) => pulling.running += n,
            Cause::Ended(n) => pulling.running = pulling.running.saturating_sub(n),
            Cause::TasksHave | Cause::Retry(_) => {}
        }
        let (p, p_c, node) = (pulling.p, pulling.running + pulling.outside, &mut pulling.node);
        let step = match cause {
            Cause::TasksHave => node.tasks_have(p, p_c, wait),
            Cause::Given(_) => node.tasks_given(p, p_c, wait),
            Cause::Ended(_) => node.room(p, p_c),
            Cause::Retry(ticket) => node.retry(ticket, p, p_c, wait),
        };
        let (n_a, retry) = match step {
            Step::Apply { n_a } => (n_a, None),
            Step::Decline { n_a, wait, ticket } => (n_a, Some((wait, ticket))),
            Step::Stay => return None,
        };
        pulling.ticket = retry.map(|(_, ticket)| ticket);
        Some(Ask { host, terms: Application { p, p_c, n_a }, retry })
    }

    /// The manager receives a node's application.
    pub fn ask(&mut self, ask: &Ask) -> Messages {
        let (batch, host) = (self.batch, index(ask.host));
        let Application { p, p_c, n_a } = ask.terms;
        let capability = self.nodes[ask.host].capability;
        self.manager.on_message(host.daemon(), BatchMsg::Apply { batch, host, p, p_c, n_a, capability })
    }

    /// A node receives the message that no tasks are left.
    pub fn tasks_no(&mut self, host: usize) {
        if let Some(pulling) = self.nodes.get_mut(host) {
            pulling.node.tasks_no();
        }
    }

    /// Other programs use this many slots of a node.
    pub fn fill(&mut self, host: usize, outside: u64) {
        if let Some(pulling) = self.nodes.get_mut(host) {
            pulling.outside = outside;
        }
    }

    /// Tasks that run at a node, and its last wait if it has no room.
    pub fn at(&self, host: usize) -> (u64, Option<Ticket>) {
        self.nodes.get(host).map_or((0, None), |node| (node.running, node.ticket))
    }
}
