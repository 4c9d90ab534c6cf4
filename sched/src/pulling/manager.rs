//! The side that hands out: the manager of a batch (algorithm 1, section 2.1).

use super::{Terms, mean_capability};
use crate::placement::{Candidate, Portion, proportional, sane_capability};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// A decision of the manager; decisions are carried out in their order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decision<H> {
    /// Tell this node that tasks wait (step 1, `DM_TASKSHAVE`).
    TasksHave(H),
    /// Give this node `n` tasks (step 3).
    Grant {
        /// The node.
        host: H,
        /// `N`, at least 1.
        n: u64,
        /// What `N` was computed from, beyond which there may be what the soft rule adds; `None` if all is by that.
        terms: Option<Terms>,
    },
    /// Tell this node that no tasks are left (step 5, `DM_TASKSNO`).
    TasksNo(H),
    /// These tasks cannot be placed: there is no node, or the soft rule has met every node's limit. The manager has
    /// given them up.
    NoNodes {
        /// How many.
        rest: u64,
    },
}

/// The manager of a batch: takes events, answers with decisions.
///
/// A driver calls [`place`](Self::place) first; then, in any order, [`on_apply`](Self::on_apply) for applications of nodes,
/// [`node_joined`](Self::node_joined), [`node_gone`](Self::node_gone) and [`more`](Self::more) for what the batch's home
/// says; and [`done`](Self::done) when every task is known to be started or failed. It can then place another batch.
///
/// **Promise.** Tasks that are granted and given up add up to those that were placed, in [`place`](Self::place) and
/// [`more`](Self::more), as soon as nodes have asked for it: no task twice, none forgotten. Tasks granted to a node that
/// dies come back through [`more`](Self::more), since only the home knows which had been started.
///
/// **Rounds** (section 1). `N_c` counts the nodes that have not applied in this round, and the applicant. When all have,
/// and tasks are left, a new round begins, with `N_c = N_n`. A node may apply again before the round is over; but
/// until every node has applied, it gets no more than its part, and waits: the node that is nearest must not take
/// the whole batch by asking often before the others have asked at all. A node that declines twice in a row is full for
/// long: it leaves the round, and later rounds do not wait for it, until it applies.
///
/// **The soft rule.** In a soft batch, when every node has declined (applied with `N_a ≤ 0`) since the last grant, the
/// rest is handed out all the same: so that the nodes' totals of this batch are as near to proportion to capability as
/// can be, up to each node's limit. A node without others need not decline: when it asks, the rest goes with what it gets by
/// the formula, as it would come to it whatever it said. In a firm batch tasks wait until a node has drained.
#[derive(Clone, Debug)]
pub struct Manager<H> {
    nodes: BTreeMap<H, Record>,
    /// Those that have not applied in this round; `N_c` but for the applicant.
    silent: BTreeSet<H>,
    /// Those that have declined since the last grant.
    declined: BTreeSet<H>,
    /// Those that have applied again and wait, with what they asked for, in their order.
    held: Vec<(H, i64)>,
    /// `T_c`.
    t_c: u64,
    /// Tasks of the whole batch.
    batch: u64,
    /// Capability of all nodes when it last got tasks.
    capability: f64,
    soft: bool,
}

/// The state of a node.
#[derive(Clone, Copy, Debug)]
struct Record {
    capability: f64,
    limit: u64,
    /// Tasks of this batch given to it.
    granted: u64,
    /// It has applied or declined.
    has_applied: bool,
    /// Its last word was that it has no room.
    is_full: bool,
    /// Its last message was `TasksHave`.
    told: bool,
}

impl<H> Default for Manager<H> {
    fn default() -> Self {
        Self {
            nodes: BTreeMap::new(),
            silent: BTreeSet::new(),
            declined: BTreeSet::new(),
            held: Vec::new(),
            t_c: 0,
            batch: 0,
            capability: 0.0,
            soft: false,
        }
    }
}

impl<H: Copy + Ord + Debug> Manager<H> {
    /// A manager without a batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Places a batch of `count` tasks on these nodes. The state of an earlier batch is dropped.
    pub fn place(
        &mut self,
        count: u64,
        nodes: impl IntoIterator<Item = Candidate<H>>,
        soft: bool,
    ) -> Vec<Decision<H>> {
        *self = Self { soft, ..Self::default() };
        self.nodes = nodes.into_iter().map(|node| (node.host, Record::new(&node))).collect();
        self.more(count)
    }

    /// A node asks for tasks, or declines for now with `n_a ≤ 0` (steps 2 and 3). `c` is its `C_i`.
    pub fn on_apply(&mut self, host: H, n_a: i64, c: f64) -> Vec<Decision<H>> {
        let Some(node) = self.nodes.get_mut(&host) else {
            // An application that cannot be granted is answered, or the node would wait.
            return vec![Decision::TasksNo(host)];
        };
        node.capability = sane_capability(c);
        if self.t_c == 0 {
            return vec![Decision::TasksNo(host)];
        }
        let mut decisions = Vec::new();
        // A node's last word counts.
        self.held.retain(|&(held, _)| held != host);
        let was_full = std::mem::replace(&mut node.is_full, n_a <= 0);
        if n_a > 0 {
            self.declined.remove(&host);
            self.held.push((host, n_a));
        } else {
            node.has_applied = true;
            self.declined.insert(host);
            if was_full {
                self.silent.remove(&host);
                self.next_round();
            }
        }
        self.settle(&mut decisions);
        decisions
    }

    /// A node has joined. One that is known already is taken to have changed.
    pub fn node_joined(&mut self, node: Candidate<H>) -> Vec<Decision<H>> {
        let record = self.nodes.entry(node.host).or_insert_with(|| Record::new(&node));
        record.capability = sane_capability(node.capability);
        record.limit = node.limit;
        if self.t_c == 0 || record.told {
            return Vec::new();
        }
        record.told = true;
        self.silent.insert(node.host);
        vec![Decision::TasksHave(node.host)]
    }

    /// A node has left; what it had been given and not started comes back through [`more`](Self::more).
    pub fn node_gone(&mut self, host: H) -> Vec<Decision<H>> {
        let mut decisions = Vec::new();
        if self.nodes.remove(&host).is_some() {
            self.silent.remove(&host);
            self.declined.remove(&host);
            self.held.retain(|&(held, _)| held != host);
            self.next_round();
            self.settle(&mut decisions);
        }
        decisions
    }

    /// So many tasks are to be placed, again or in addition (step 1).
    pub fn more(&mut self, count: u64) -> Vec<Decision<H>> {
        let mut decisions = Vec::new();
        if count == 0 {
            return decisions;
        }
        self.t_c = self.t_c.saturating_add(count);
        self.batch = self.batch.saturating_add(count);
        self.capability = self.nodes.values().map(|node| node.capability).sum();
        self.next_round();
        for (&host, node) in self.nodes.iter_mut().filter(|(_, node)| !node.told) {
            node.told = true;
            decisions.push(Decision::TasksHave(host));
        }
        self.settle(&mut decisions);
        decisions
    }

    /// Every task of the batch is started or failed: nothing is left to do (step 6, but the manager lives on).
    pub fn done(&mut self) -> Vec<Decision<H>> {
        self.t_c = 0;
        let mut decisions = Vec::new();
        self.finish(&mut decisions);
        *self = Self::default();
        decisions
    }

    /// `T_c`, tasks still to be placed.
    pub fn remaining(&self) -> u64 {
        self.t_c
    }

    /// The nodes, and how many tasks of the batch each has been given.
    pub fn granted(&self) -> impl Iterator<Item = (H, u64)> + '_ {
        self.nodes.iter().map(|(&host, node)| (host, node.granted))
    }

    /// `C_A`.
    fn c_a(&self) -> f64 {
        mean_capability(self.nodes.values().map(|node| node.capability))
    }

    /// Whatever can be decided now.
    fn settle(&mut self, decisions: &mut Vec<Decision<H>>) {
        while let Some(next) = self.next_to_serve() {
            let (host, n_a) = self.held.remove(next);
            decisions.push(self.grant(host, n_a));
        }
        self.hand_out_rest(decisions);
        self.finish(decisions);
    }

    /// The first waiting node that can be given something.
    fn next_to_serve(&self) -> Option<usize> {
        if self.held.is_empty() {
            return None;
        }
        let not_applied = self.not_applied();
        self.held.iter().position(|&(host, _)| self.t_c > 0 && self.most(host, not_applied) > 0)
    }

    /// Capability of the nodes that have not applied.
    fn not_applied(&self) -> f64 {
        self.nodes.values().filter(|node| !node.has_applied).map(|node| node.capability).sum()
    }

    /// The most that a node may be given now: anything, unless it has applied before and other nodes have not;
    /// then the rest of its part of the batch, without theirs.
    fn most(&self, host: H, not_applied: f64) -> u64 {
        match self.nodes.get(&host) {
            Some(node) if node.has_applied && not_applied > 0.0 => {
                let part =
                    |capability: f64| (self.batch as f64 * capability / self.capability).round() as u64;
                let spare = self.t_c.saturating_sub(part(not_applied));
                spare.min(part(node.capability).saturating_sub(node.granted))
            }
            _ => self.t_c,
        }
    }

    /// By the formula, and no more than it may have.
    fn grant(&mut self, host: H, n_a: i64) -> Decision<H> {
        let most = self.most(host, self.not_applied());
        self.silent.insert(host);
        let n_c = self.silent.len() as u64;
        let c_a = self.c_a();
        let c_i = self.nodes.get(&host).map_or(c_a, |node| node.capability);
        let mut terms = Terms::new(n_a, self.t_c, n_c, c_i, c_a);
        terms.n = terms.n.min(most);
        if let Some(node) = self.nodes.get_mut(&host) {
            node.has_applied = true;
        }
        self.silent.remove(&host);
        self.declined.clear();
        self.count_grant(host, terms.n);
        let rest = self.rest_for_lone_node();
        self.count_grant(host, rest);
        self.next_round();
        Decision::Grant { host, n: terms.n + rest, terms: Some(terms) }
    }

    /// The number of tasks that the only node gets beyond its application.
    fn rest_for_lone_node(&self) -> u64 {
        let mut nodes = self.nodes.values();
        match (nodes.next(), nodes.next()) {
            (Some(node), None) if self.soft => self.t_c.min(node.limit.saturating_sub(node.granted)),
            _ => 0,
        }
    }

    /// When `N_c` reaches 0, `N_c := N_n`, without the nodes that are full.
    fn next_round(&mut self) {
        if self.silent.is_empty() {
            self.silent =
                self.nodes.iter().filter(|(_, node)| !node.is_full).map(|(&host, _)| host).collect();
        }
    }

    fn count_grant(&mut self, host: H, n: u64) {
        self.t_c -= n;
        if let Some(node) = self.nodes.get_mut(&host) {
            node.granted = node.granted.saturating_add(n);
        }
    }

    /// The soft rule, once all nodes have declined; and tasks that no node can take are given up.
    fn hand_out_rest(&mut self, decisions: &mut Vec<Decision<H>>) {
        let all_declined = self.declined.len() == self.nodes.len();
        if self.t_c == 0
            || !(all_declined || self.has_lone_node_applied())
            || !(self.soft || self.nodes.is_empty())
        {
            return;
        }
        let portions: Vec<Portion> = self.nodes.values().map(Record::portion).collect();
        let hosts: Vec<H> = self.nodes.keys().copied().collect();
        for (host, n) in hosts.into_iter().zip(proportional(self.t_c, &portions)).filter(|&(_, n)| n > 0) {
            self.count_grant(host, n);
            decisions.push(Decision::Grant { host, n, terms: None });
        }
        if self.t_c > 0 {
            decisions.push(Decision::NoNodes { rest: self.t_c });
            self.t_c = 0;
        }
    }

    /// Whether there is only one node, and it has applied.
    fn has_lone_node_applied(&self) -> bool {
        self.nodes.len() == 1 && self.nodes.values().all(|node| node.has_applied)
    }

    /// When no tasks are left, every node that got `TasksHave` gets `TasksNo`; later tasks are a new round.
    fn finish(&mut self, decisions: &mut Vec<Decision<H>>) {
        if self.t_c > 0 {
            return;
        }
        self.silent.clear();
        self.declined.clear();
        self.held.clear();
        for (&host, node) in self.nodes.iter_mut().filter(|(_, node)| node.told) {
            node.told = false;
            decisions.push(Decision::TasksNo(host));
        }
    }
}

impl Record {
    fn new<H>(node: &Candidate<H>) -> Self {
        Self {
            capability: sane_capability(node.capability),
            limit: node.limit,
            granted: 0,
            has_applied: false,
            is_full: false,
            told: false,
        }
    }

    fn portion(&self) -> Portion {
        Portion { capability: self.capability, has: self.granted, limit: self.limit }
    }
}

#[cfg(test)]
#[path = "manager_tests.rs"]
mod tests;
