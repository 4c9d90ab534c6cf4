//! Policies by name, and the one interface through which a task manager runs any of them.

use crate::allocation::agent::{Coded, Party};
use crate::allocation::{
    Bidding, GraphTheoretic, Hierarchical, Layers, Local, ReceiverInitiated, SenderInitiated, UpDown,
};
use crate::divided::Divided;
use crate::placement::{Candidate, Proportional, RoundRobin};
use crate::pulling::{Decision, Manager};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Debug, Display};
use std::str::FromStr;

/// A policy that hands out the tasks of a batch: takes events, answers with decisions.
///
/// A driver calls [`place`](Self::place) first, then the others in any order, and [`done`](Self::done) when every task is
/// known to be started or failed. Tasks that are granted and given up add up to those that were placed, as soon as nodes have
/// asked for it.
pub trait Handout<H>: Debug + Send {
    /// Places a batch of `count` tasks on these nodes. In a `soft` one every task is to be handed out whether or not nodes have
    /// room; in a firm one tasks wait for it.
    fn place(&mut self, count: u64, nodes: Vec<Candidate<H>>, soft: bool) -> Vec<Decision<H>>;
    /// A node asks for up to `n_a` tasks, or declines for now; `c` is its capability.
    fn on_apply(&mut self, host: H, n_a: i64, c: f64) -> Vec<Decision<H>>;
    /// A node has joined.
    fn node_joined(&mut self, node: Candidate<H>) -> Vec<Decision<H>>;
    /// A node has left; what it had been granted and has not started comes back through [`more`](Self::more).
    fn node_gone(&mut self, host: H) -> Vec<Decision<H>>;
    /// So many tasks are to be placed in addition.
    fn more(&mut self, count: u64) -> Vec<Decision<H>>;
    /// Nothing is left to do.
    fn done(&mut self) -> Vec<Decision<H>>;
}

impl<H: Copy + Ord + Debug + Send> Handout<H> for Manager<H> {
    fn place(&mut self, count: u64, nodes: Vec<Candidate<H>>, soft: bool) -> Vec<Decision<H>> {
        Manager::place(self, count, nodes, soft)
    }

    fn on_apply(&mut self, host: H, n_a: i64, c: f64) -> Vec<Decision<H>> {
        Manager::on_apply(self, host, n_a, c)
    }

    fn node_joined(&mut self, node: Candidate<H>) -> Vec<Decision<H>> {
        Manager::node_joined(self, node)
    }

    fn node_gone(&mut self, host: H) -> Vec<Decision<H>> {
        Manager::node_gone(self, host)
    }

    fn more(&mut self, count: u64) -> Vec<Decision<H>> {
        Manager::more(self, count)
    }

    fn done(&mut self) -> Vec<Decision<H>> {
        Manager::done(self)
    }
}

/// A placement policy, as a person chooses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum Policy {
    /// Nodes ask for tasks: [`crate::pulling`].
    #[default]
    ActivePulling,
    /// PVM's own rule: [`RoundRobin`].
    RoundRobin,
    /// Divided by capability at once: [`Proportional`].
    Proportional,
    /// The same, where a host counts by how long a task would take there: the caller divides its capability by the processes that
    /// want to run on it and one more ([`crate::loads`]).
    LightlyLoaded,
    /// On the spawner's host: [`Local`].
    Local,
    /// The spawner's host asks others for room: [`SenderInitiated`].
    SenderInitiated,
    /// Hosts with room ask others for tasks: [`ReceiverInitiated`].
    ReceiverInitiated,
    /// Tasks buy room on hosts: [`Bidding`].
    Bidding,
    /// A coordinator gives each host a fair share of the others: [`UpDown`].
    UpDown,
    /// A tree of managers knows roughly where there is room: [`Hierarchical`].
    Hierarchical,
    /// Tasks that talk to each other come to the same host: [`GraphTheoretic`].
    GraphTheoretic,
    /// All tasks at once, on as few clusters of hosts as can be: [`Layers`].
    Coallocation,
}

impl Policy {
    /// All there are.
    pub const ALL: [Self; 12] = [
        Self::ActivePulling,
        Self::RoundRobin,
        Self::Proportional,
        Self::LightlyLoaded,
        Self::Local,
        Self::SenderInitiated,
        Self::ReceiverInitiated,
        Self::Bidding,
        Self::UpDown,
        Self::Hierarchical,
        Self::GraphTheoretic,
        Self::Coallocation,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ActivePulling => "active-pulling",
            Self::RoundRobin => "round-robin",
            Self::Proportional => "proportional",
            Self::LightlyLoaded => "lightly-loaded",
            Self::Local => "local",
            Self::SenderInitiated => "sender-initiated",
            Self::ReceiverInitiated => "receiver-initiated",
            Self::Bidding => "bidding",
            Self::UpDown => "up-down",
            Self::Hierarchical => "hierarchical",
            Self::GraphTheoretic => "graph-theoretic",
            Self::Coallocation => "coallocation",
        }
    }

    /// Something that hands out one batch by this policy; `last` is the host that was given tasks last.
    ///
    /// A policy of [agents](Self::agent) has none of its own. Agents place tasks on any host; a batch that is confined to some is handed
    /// out by active pulling instead.
    pub fn handout<H: Copy + Ord + Debug + Send + 'static>(self, last: H) -> Box<dyn Handout<H>> {
        match self {
            Self::RoundRobin => Box::new(Divided::new(RoundRobin::new(last))),
            Self::Proportional | Self::LightlyLoaded => Box::new(Divided::new(Proportional)),
            _ => Box::new(Manager::new()),
        }
    }

    /// A host's agent, if this is a policy of agents on all hosts.
    pub fn agent(self) -> Option<Box<dyn Party>> {
        Some(match self {
            Self::ActivePulling | Self::RoundRobin | Self::Proportional | Self::LightlyLoaded => return None,
            Self::Local => Box::new(Coded(Local)),
            Self::SenderInitiated => Box::new(Coded(SenderInitiated::default())),
            Self::ReceiverInitiated => Box::new(Coded(ReceiverInitiated::default())),
            Self::Bidding => Box::new(Coded(Bidding::new())),
            Self::UpDown => Box::new(Coded(UpDown::new())),
            Self::Hierarchical => Box::new(Coded(Hierarchical::default())),
            Self::GraphTheoretic => Box::new(Coded(GraphTheoretic::default())),
            Self::Coallocation => Box::new(Coded(Layers::new())),
        })
    }

    /// Whether this is a policy of agents on all hosts.
    pub fn has_agents(self) -> bool {
        !matches!(self, Self::ActivePulling | Self::RoundRobin | Self::Proportional | Self::LightlyLoaded)
    }
}

impl Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no policy of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown policy {name:?}; choose one of {}", names())]
pub struct UnknownPolicy {
    /// The name.
    pub name: String,
}

fn names() -> String {
    Policy::ALL.map(Policy::name).join(", ")
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == name);
        found.ok_or_else(|| UnknownPolicy { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn names_lead_to_policies_and_an_error_tells_them() {
        for policy in Policy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
            assert_eq!(policy.has_agents(), policy.agent().is_some());
        }
        assert_eq!(
            "fifo".parse::<Policy>().unwrap_err().to_string(),
            "unknown policy \"fifo\"; choose one of active-pulling, round-robin, proportional, lightly-loaded, local, sender-initiated, \
             receiver-initiated, bidding, up-down, hierarchical, graph-theoretic, coallocation"
        );
    }

    /// Lets nodes with this room each ask until all is handed out; returns what each was given.
    fn run(policy: Policy, count: u64, room: i64, soft: bool, gone: Option<u32>) -> BTreeMap<u32, u64> {
        let mut handout = policy.handout(1_u32);
        let nodes = (1..5).map(|host| Candidate { host, capability: f64::from(host), limit: u64::MAX });
        let mut given = BTreeMap::new();
        let mut decisions = handout.place(count, nodes.collect(), soft);
        let mut dying = gone;
        for _ in 0..10_000 {
            let Some(decision) = decisions.pop() else { break };
            match decision {
                Decision::TasksHave(host) => decisions.extend(handout.on_apply(host, room, f64::from(host))),
                // Decided before the node went: the home gives it back.
                Decision::Grant { host, n, .. } if dying.is_none() && gone == Some(host) => {
                    decisions.extend(handout.more(n));
                }
                Decision::Grant { host, n, .. } => {
                    assert!(
                        soft || n <= u64::try_from(room).unwrap(),
                        "{policy} gives more than there is room for"
                    );
                    *given.entry(host).or_default() += n;
                    if let Some(host) = dying.take() {
                        decisions.extend(handout.node_gone(host));
                        decisions.extend(given.remove(&host).map(|n| handout.more(n)).unwrap_or_default());
                    }
                    if !soft || policy == Policy::ActivePulling || policy.has_agents() {
                        decisions.extend(handout.on_apply(host, room, f64::from(host)));
                    }
                }
                Decision::TasksNo(_) => {}
                Decision::NoNodes { rest } => panic!("{policy} gives {rest} up"),
            }
        }
        given
    }

    proptest! {
        #[test]
        fn every_policy_hands_out_every_task_once(count in 1..200_u64, room in 1..9_i64, soft: bool, gone in proptest::option::of(2..5_u32)) {
            for policy in Policy::ALL {
                let given = run(policy, count, room, soft, gone);
                prop_assert_eq!(given.values().sum::<u64>(), count, "{} {:?}", policy, given);
                prop_assert!(gone.is_none_or(|gone| !given.contains_key(&gone)));
            }
        }
    }
}
