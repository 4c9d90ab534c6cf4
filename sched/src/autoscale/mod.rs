//! Nodes of a batch system for work that waits: when to request one, to withdraw a request, and to give a node back.
//!
//! [`Autoscaler::decide`] is the whole decision. The caller looks at the machine and at the batch system ([`Look`]), and carries out what
//! is decided ([`Decision`]). What was tried and has failed it reports by [`Autoscaler::failed`]: nothing is requested for a while then,
//! twice as long after each further failure.
//!
//! - **How many**: tasks that wait are packed into the free slots of nodes that are there, of those that are on their way, and then of
//!   further ones. Further ones are requested, within [`Terms::max_nodes`] and [`Terms::backlog`].
//! - **Requests** that are not needed any more are withdrawn after [`PATIENCE`], the latest first.
//! - **Nodes** on which no task has run for [`Terms::idle`] are given back, down to [`Terms::min_nodes`].
//! - **Work that does not run on nodes** although they are idle, such as a job for a host that does not exist, is not counted any more once
//!   nodes have been given back beside it. Else they would come and go for ever.
//!
//! Times are milliseconds since an origin of the caller's choosing.

mod pack;

use pack::Plan;
use std::collections::{BTreeMap, BTreeSet};

/// A request that is not needed stays so long, in milliseconds; and work that has waited for less time may be about to start.
pub const PATIENCE: u64 = 20_000;
/// Nothing is requested for so long after a failure, in milliseconds: at first, and at most.
pub const PAUSES: std::ops::RangeInclusive<u64> = 10_000..=600_000;

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Nodes that are kept although nothing waits.
    pub min_nodes: u32,
    /// Nodes at most, requests included.
    pub max_nodes: u32,
    /// Requests that wait at a time, at most.
    pub backlog: u32,
    /// A node without tasks is given back after this time, in milliseconds.
    pub idle: u64,
    /// Slots of a node, if they are known beforehand.
    pub slots: Option<u32>,
}

/// Work that waits for room: a job, or a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// A number that no other work has.
    pub id: u64,
    /// Tasks that might start.
    pub tasks: u32,
    /// Slots of each.
    pub slots: u32,
    /// Whether all start at once, or none.
    pub is_rigid: bool,
}

/// How far a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is requested.
    Pending,
    /// The batch system has given it, and it is not in the machine.
    Given,
    /// It is in the machine.
    Member {
        /// Tasks on it; `None` if that is not known.
        tasks: Option<u32>,
        /// Slots that no task fills.
        free: u32,
    },
    /// The batch system is ending its job.
    Ending,
}

/// A node, or the request for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// The number of its job in the batch system. Later ones are greater.
    pub job: u64,
    /// How far it is.
    pub phase: Phase,
    /// Its slots, if they are known.
    pub slots: Option<u32>,
}

/// What there is at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// What waits.
    pub work: Vec<Work>,
    /// All nodes and requests.
    pub nodes: Vec<Node>,
    /// Free slots of each other host: a parallel job may use them, too. What else waits has found no room there.
    pub others: Vec<u32>,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Request this many nodes.
    Request(u32),
    /// Withdraw the request of this number.
    Withdraw(u64),
    /// Add the node of this job to the machine.
    Add(u64),
    /// Remove the node of this job from the machine, and end the job.
    GiveBack(u64),
}

/// Decides, and remembers what a look does not show.
#[derive(Clone, Debug)]
pub struct Autoscaler {
    terms: Terms,
    /// Slots of the last node whose slots were known.
    slots: Option<u32>,
    /// Since when each node has no tasks, and each request is not needed.
    idle_since: BTreeMap<u64, u64>,
    /// When each work was seen first.
    seen: BTreeMap<u64, u64>,
    /// Work that did not start beside idle nodes, and how many of its tasks waited then.
    in_vain: BTreeMap<u64, u32>,
    failures: u32,
    /// Nothing is requested before.
    not_before: u64,
}

impl Autoscaler {
    /// Nothing is known yet.
    pub fn new(terms: Terms) -> Self {
        Self {
            terms,
            slots: terms.slots,
            idle_since: BTreeMap::new(),
            seen: BTreeMap::new(),
            in_vain: BTreeMap::new(),
            failures: 0,
            not_before: 0,
        }
    }

    /// Slots of a node, if they are known.
    pub fn slots(&self) -> Option<u32> {
        self.slots
    }

    /// A node could not be had, or not be added: until when nothing is requested.
    pub fn failed(&mut self, now: u64) -> u64 {
        let pause = PAUSES.start().saturating_mul(1 << self.failures.min(16)).min(*PAUSES.end());
        self.failures += 1;
        self.not_before = now.saturating_add(pause);
        self.not_before
    }

    /// A node was added: what has failed before does not count any more.
    pub fn succeeded(&mut self) {
        (self.failures, self.not_before) = (0, 0);
    }

    /// What is to be done now.
    pub fn decide(&mut self, look: &Look, now: u64) -> Vec<Decision> {
        self.note(look, now);
        let counted: Vec<Work> = self.counted(look);
        let plan = Plan::new(&counted, look, self.slots, self.terms.max_nodes);
        let mut decisions = Vec::new();
        let given = look.nodes.iter().filter(|node| node.phase == Phase::Given);
        decisions.extend(given.map(|node| Decision::Add(node.job)));
        let requests = self.requests(plan, look, now);
        if requests > 0 {
            decisions.push(Decision::Request(requests));
        }
        let mut spare = (look.nodes.iter().filter(|node| node.is_held()).count() as u32)
            .saturating_sub(self.terms.min_nodes);
        self.withdraw(plan, look, now, &mut spare, &mut decisions);
        self.give_back(&counted, look, now, &mut spare, &mut decisions);
        decisions
    }

    /// What a look says that has to be remembered; what is gone is forgotten.
    fn note(&mut self, look: &Look, now: u64) {
        if self.terms.slots.is_none() {
            let known =
                look.nodes.iter().filter(|node| node.is_held()).filter(|node| node.phase != Phase::Pending);
            self.slots = known.max_by_key(|node| node.job).and_then(|node| node.slots).or(self.slots);
        }
        let waits: BTreeMap<u64, u32> = look.work.iter().map(|work| (work.id, work.tasks)).collect();
        self.seen.retain(|id, _| waits.contains_key(id));
        for &id in waits.keys() {
            self.seen.entry(id).or_insert(now);
        }
        // Some of it has started meanwhile, or there is more of it.
        self.in_vain.retain(|id, tasks| waits.get(id) == Some(tasks));
        let nodes: BTreeSet<u64> = look.nodes.iter().map(|node| node.job).collect();
        self.idle_since.retain(|job, _| nodes.contains(job));
    }

    fn counted(&self, look: &Look) -> Vec<Work> {
        look.work.iter().filter(|work| !self.in_vain.contains_key(&work.id)).copied().collect()
    }

    fn requests(&self, plan: Plan, look: &Look, now: u64) -> u32 {
        if now < self.not_before {
            return 0;
        }
        let count = |is: &dyn Fn(&&Node) -> bool| look.nodes.iter().filter(is).count() as u32;
        // A job that is ending may still have its node.
        let all = count(&|_| true);
        let held = count(&|node| node.is_held());
        let pending = count(&|node| node.phase == Phase::Pending);
        let Terms { min_nodes, max_nodes, backlog, .. } = self.terms;
        let wanted = plan.more.max(min_nodes.saturating_sub(held));
        wanted.min(max_nodes.saturating_sub(all)).min(backlog.saturating_sub(pending))
    }

    fn withdraw(
        &mut self,
        plan: Plan,
        look: &Look,
        now: u64,
        spare: &mut u32,
        decisions: &mut Vec<Decision>,
    ) {
        let mut pending: Vec<&Node> = look.nodes.iter().filter(|node| node.phase == Phase::Pending).collect();
        pending.sort_by_key(|node| node.job);
        let needed = (plan.pending as usize).min(pending.len());
        for node in &pending[..needed] {
            self.idle_since.remove(&node.job);
        }
        for node in pending[needed..].iter().rev() {
            let since = *self.idle_since.entry(node.job).or_insert(now);
            if *spare > 0 && now.saturating_sub(since) >= self.terms.idle.min(PATIENCE) {
                *spare -= 1;
                decisions.push(Decision::Withdraw(node.job));
            }
        }
    }

    fn give_back(
        &mut self,
        counted: &[Work],
        look: &Look,
        now: u64,
        spare: &mut u32,
        decisions: &mut Vec<Decision>,
    ) {
        let is_coming = look.nodes.iter().any(|node| matches!(node.phase, Phase::Pending | Phase::Given));
        let members = look.nodes.iter().filter_map(|node| match node.phase {
            Phase::Member { tasks, free } => Some((node.job, tasks, free)),
            _ => None,
        });
        let members: Vec<(u64, Option<u32>, u32)> = members.collect();
        let all_idle = members.iter().all(|(_, tasks, _)| *tasks == Some(0));
        for &(job, tasks, free) in &members {
            if tasks != Some(0) {
                self.idle_since.remove(&job);
                continue;
            }
            let since = *self.idle_since.entry(job).or_insert(now);
            let fits = |work: &&Work| work.slots <= free;
            let is_new =
                |work: &&Work| now.saturating_sub(self.seen.get(&work.id).copied().unwrap_or(now)) < PATIENCE;
            // It may be given tasks soon; or waits with others until there are enough for a parallel job.
            let is_wanted =
                counted.iter().filter(fits).any(|work| is_new(&work) || work.is_rigid && is_coming);
            if *spare == 0 || is_wanted || now.saturating_sub(since) < self.terms.idle {
                continue;
            }
            *spare -= 1;
            decisions.push(Decision::GiveBack(job));
            if all_idle && !is_coming {
                let waits = counted.iter().filter(fits).map(|work| (work.id, work.tasks));
                self.in_vain.extend(waits);
            }
        }
    }
}

impl Node {
    /// Whether the batch system is not ending it.
    fn is_held(&self) -> bool {
        self.phase != Phase::Ending
    }
}

#[cfg(test)]
mod tests;
