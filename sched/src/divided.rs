//! Batches that a [`Placement`] divides at once, among nodes that need not ask.

use crate::placement::{Candidate, Placement};
use crate::policy::Handout;
use crate::pulling::Decision;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Hands a batch out as a placement policy divides it.
///
/// In a soft batch every node is given its part at once. In a firm one the part is fixed at once too, but a node is given of it
/// what it has room for, when it asks.
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
        let left = self.nodes.get(&node.host).map_or(0, |part| part.left);
        self.nodes.insert(node.host, Part { node, left });
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
            if part.left == 0 {
                decisions.push(Decision::TasksHave(host));
            }
            part.left += n;
        }
        if rest > 0 {
            decisions.push(Decision::NoNodes { rest });
        }
        decisions
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
        let Some(part) = self.nodes.get_mut(&host).filter(|part| part.left > 0) else {
            return vec![Decision::TasksNo(host)];
        };
        let n = u64::try_from(n_a).unwrap_or(0).min(part.left);
        if n == 0 {
            return Vec::new();
        }
        part.left -= n;
        let mut decisions = vec![Decision::Grant { host, n, terms: None }];
        if part.left == 0 {
            decisions.push(Decision::TasksNo(host));
        }
        decisions
    }

    fn node_joined(&mut self, node: Candidate<H>) -> Vec<Decision<H>> {
        self.insert(node);
        Vec::new()
    }

    fn node_gone(&mut self, host: H) -> Vec<Decision<H>> {
        let left = self.nodes.remove(&host).map_or(0, |part| part.left);
        self.more(left)
    }

    fn more(&mut self, count: u64) -> Vec<Decision<H>> {
        if count == 0 { Vec::new() } else { self.divide(count) }
    }

    fn done(&mut self) -> Vec<Decision<H>> {
        let told = self.nodes.iter().filter(|(_, part)| part.left > 0);
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
}
