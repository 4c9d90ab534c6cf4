//! Batches that a [`Placement`] divides at once, among nodes that need not ask.

use crate::placement::{Candidate, Placement};
use crate::policy::Handout;
use crate::pulling::Decision;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Hands a batch out as a placement policy divides it.
///
/// In a soft batch every node is given its part at once. In a firm one the part is fixed at once too, but a node is given of it
/// what it has room for, when it asks. The part of a node that has never had room for any of it goes to nodes that have
/// been given theirs: what keeps the first one busy may do so for ever.
#[derive(Debug)]
pub struct Divided<H, P> {
    policy: P,
    nodes: BTreeMap<H, Part<H>>,
    soft: bool,
}

#[derive(Debug)]
struct Part<H> {
    node: Candidate<H>,
    /// Tasks that are to be this node's and have not been given yet.
    left: u64,
    state: Dealing,
    /// Its last message was `TasksHave`.
    told: bool,
}

/// What a node has done about its part of a firm batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dealing {
    /// It has been given nothing, and has not declined.
    Open,
    /// It has been given nothing, and had no room when it was asked: others may take its part.
    Declined,
    /// It has been given some: what is left waits for its room.
    Given,
}

impl<H: Copy + Ord + Debug, P: Placement<H>> Divided<H, P> {
    /// Divides by this policy.
    pub fn new(policy: P) -> Self {
        Self { policy, nodes: BTreeMap::new(), soft: false }
    }

    fn insert(&mut self, mut node: Candidate<H>) {
        if !self.soft {
            // Tasks that wait for room pass no limit.
            node.limit = u64::MAX;
        }
        let host = node.host;
        let part = Part { node, left: 0, state: Dealing::Open, told: false };
        self.nodes.entry(host).or_insert(part).node = node;
    }

    fn divide(&mut self, count: u64) -> Vec<Decision<H>> {
        let candidates: Vec<Candidate<H>> = self.nodes.values().map(|part| part.node).collect();
        let (mut rest, mut decisions) = (count, Vec::new());
        for (host, n) in self.policy.place(count, &candidates) {
            rest -= n;
            let Some(part) = self.nodes.get_mut(&host) else { continue };
            if self.soft {
                // A limit is for the whole batch.
                part.node.limit = part.node.limit.saturating_sub(n);
                decisions.push(Decision::Grant { host, n, terms: None });
                continue;
            }
            part.left += n;
        }
        if rest > 0 {
            decisions.push(Decision::NoNodes { rest });
        }
        decisions.extend(self.tell());
        decisions
    }

    /// Of what others have declined.
    fn is_declined(&self) -> bool {
        self.nodes.values().any(Part::is_declined)
    }

    /// Tells each node whether tasks wait for it, if that has changed.
    fn tell(&mut self) -> Vec<Decision<H>> {
        let is_declined = self.is_declined();
        let mut decisions = Vec::new();
        for (&host, part) in &mut self.nodes {
            let has = part.left > 0 || is_declined;
            if std::mem::replace(&mut part.told, has) != has {
                decisions.push(if has { Decision::TasksHave(host) } else { Decision::TasksNo(host) });
            }
        }
        decisions
    }

    /// Takes up to `most` tasks for a node: its own first, then what others have declined.
    fn take(&mut self, host: H, most: u64) -> u64 {
        let Some(own) = self.nodes.get_mut(&host) else { return 0 };
        let mut taken = own.left.min(most);
        own.left -= taken;
        let declined = self.nodes.values_mut().filter(|part| part.is_declined());
        for part in declined {
            let n = part.left.min(most - taken);
            part.left -= n;
            taken += n;
        }
        taken
    }
}

impl<H> Part<H> {
    fn is_declined(&self) -> bool {
        self.left > 0 && self.state == Dealing::Declined
    }
}

impl<H: Copy + Ord + Debug + Send, P: Placement<H> + Send> Handout<H> for Divided<H, P> {
    fn place(&mut self, count: u64, nodes: Vec<Candidate<H>>, soft: bool) -> Vec<Decision<H>> {
        self.soft = soft;
        self.nodes.clear();
        for node in nodes {
            self.insert(node);
        }
        self.more(count)
    }

    fn on_apply(&mut self, host: H, n_a: i64, _: f64) -> Vec<Decision<H>> {
        let n = self.take(host, u64::try_from(n_a).unwrap_or(0));
        let Some(part) = self.nodes.get_mut(&host) else { return vec![Decision::TasksNo(host)] };
        // It asks until it is told that no tasks wait.
        part.told = true;
        let mut decisions = Vec::new();
        if n > 0 {
            part.state = Dealing::Given;
            decisions.push(Decision::Grant { host, n, terms: None });
        } else if part.left > 0 && part.state == Dealing::Open {
            part.state = Dealing::Declined;
        }
        decisions.extend(self.tell());
        decisions
    }

    fn node_joined(&mut self, node: Candidate<H>) -> Vec<Decision<H>> {
        self.insert(node);
        self.tell()
    }

    fn node_gone(&mut self, host: H) -> Vec<Decision<H>> {
        let left = self.nodes.remove(&host).map_or(0, |part| part.left);
        self.more(left)
    }

    fn more(&mut self, count: u64) -> Vec<Decision<H>> {
        if count == 0 { Vec::new() } else { self.divide(count) }
    }

    fn done(&mut self) -> Vec<Decision<H>> {
        let told = self.nodes.iter().filter(|(_, part)| part.told);
        let decisions = told.map(|(&host, _)| Decision::TasksNo(host)).collect();
        self.nodes.clear();
        decisions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::RoundRobin;

    fn node(host: u32) -> Candidate<u32> {
        Candidate { host, capability: 1000.0, limit: 2 }
    }

    fn grant(host: u32, n: u64) -> Decision<u32> {
        Decision::Grant { host, n, terms: None }
    }

    #[test]
    fn a_soft_batch_is_handed_out_at_once() {
        let mut handout = Divided::new(RoundRobin::new(1));
        let nodes = vec![node(1), node(2), node(3)];
        assert_eq!(handout.place(7, nodes, true), [grant(2, 3), grant(3, 2), grant(1, 2)]);
        assert_eq!(handout.more(1), [grant(2, 1)]);
        assert_eq!(handout.place(7, vec![], true), [Decision::NoNodes { rest: 7 }]);
    }

    #[test]
    fn a_firm_batch_waits_for_room_and_what_a_lost_node_had_left_goes_to_others() {
        let mut handout = Divided::new(RoundRobin::new(2));
        let told = [Decision::TasksHave(1), Decision::TasksHave(2)];
        assert_eq!(handout.place(10, vec![node(1), node(2)], false), told);
        assert_eq!(handout.on_apply(1, 0, 1.0), []);
        assert_eq!(handout.on_apply(1, 3, 1.0), [grant(1, 3)]);
        assert_eq!(handout.on_apply(1, 3, 1.0), [grant(1, 2), Decision::TasksNo(1)]);
        assert_eq!(handout.on_apply(1, 3, 1.0), [Decision::TasksNo(1)]);
        assert_eq!(handout.node_gone(2), [Decision::TasksHave(1)]);
        assert_eq!(handout.on_apply(1, 9, 1.0), [grant(1, 5), Decision::TasksNo(1)]);
        assert_eq!(handout.done(), []);
    }

    #[test]
    fn a_part_that_its_node_has_no_room_for_goes_to_others() {
        let mut handout = Divided::new(RoundRobin::new(2));
        handout.place(4, vec![node(1), node(2)], false);
        assert_eq!(handout.on_apply(2, 2, 1.0), [grant(2, 2), Decision::TasksNo(2)]);
        assert_eq!(
            handout.on_apply(1, 0, 1.0),
            [Decision::TasksHave(2)],
            "it may take what 1 has no room for"
        );
        assert_eq!(handout.on_apply(2, -1, 1.0), []);
        assert_eq!(handout.on_apply(1, 0, 1.0), [], "all know");
        assert_eq!(handout.on_apply(2, 1, 1.0), [grant(2, 1)]);
        assert_eq!(handout.node_joined(node(3)), [Decision::TasksHave(3)]);
        let none_left = [1, 2, 3].map(Decision::TasksNo);
        assert_eq!(handout.on_apply(3, 2, 1.0), [vec![grant(3, 1)], none_left.to_vec()].concat());
        assert_eq!(handout.done(), []);
    }

    #[test]
    fn a_node_that_has_begun_its_part_keeps_it() {
        let mut handout = Divided::new(RoundRobin::new(2));
        handout.place(4, vec![node(1), node(2)], false);
        assert_eq!(handout.on_apply(2, 2, 1.0), [grant(2, 2), Decision::TasksNo(2)]);
        assert_eq!(handout.on_apply(1, 1, 1.0), [grant(1, 1)]);
        assert_eq!(handout.on_apply(1, 0, 1.0), [], "its own tasks fill it");
        assert_eq!(handout.on_apply(2, 2, 1.0), [Decision::TasksNo(2)]);
        assert_eq!(handout.on_apply(1, 1, 1.0), [grant(1, 1), Decision::TasksNo(1)]);
    }
}
