//! As home: what placing tasks has cost, in messages of the policies, batch by batch and policy by policy.

use super::home::Home;
use crate::addresses::SpawnId;
use pvm_sched::policy::Policy;
use pvm_wire::HostIndex;
use pvm_wire::queue::{BatchDecision, DECISIONS_KEPT, PolicyMessages, PolicyTally};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Spawns that have ended and are still remembered: their nodes are told so afterwards, which costs messages, too.
const REMEMBERED: usize = 64;

/// The last decisions of a batch.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    /// When the batch was asked for.
    begun: Duration,
    last: VecDeque<BatchDecision>,
}

impl Decisions {
    pub fn new(begun: Duration) -> Self {
        Self { begun, last: VecDeque::new() }
    }

    /// A host has been given tasks.
    pub fn note(&mut self, host: HostIndex, count: u32, now: Duration) {
        if count == 0 {
            return;
        }
        if self.last.len() >= DECISIONS_KEPT {
            self.last.pop_front();
        }
        let after = u64::try_from(now.saturating_sub(self.begun).as_micros()).unwrap_or(u64::MAX);
        self.last.push_back(BatchDecision { after, host, count });
    }

    /// The oldest first.
    pub fn list(&self) -> Vec<BatchDecision> {
        self.last.iter().copied().collect()
    }
}

/// What policies have cost a home so far.
#[derive(Debug, Default)]
pub(crate) struct Costs {
    by_policy: BTreeMap<Policy, Tally>,
    /// The spawns that have ended last.
    ended: VecDeque<(SpawnId, Policy)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    batches: u64,
    given: u64,
    messages: PolicyMessages,
}

impl Costs {
    /// A policy is to place a spawn's tasks.
    pub fn begun(&mut self, policy: Policy) {
        self.by_policy.entry(policy).or_default().batches += 1;
    }

    /// A policy has given a host tasks.
    pub fn given(&mut self, policy: Policy, count: u32) {
        self.by_policy.entry(policy).or_default().given += u64::from(count);
    }

    /// A spawn has ended.
    pub fn ended(&mut self, id: SpawnId, policy: Policy) {
        if self.ended.len() >= REMEMBERED {
            self.ended.pop_front();
        }
        self.ended.push_back((id, policy));
    }

    fn policy_of_ended(&self, id: SpawnId) -> Option<Policy> {
        self.ended.iter().rev().find(|&&(ended, _)| ended == id).map(|&(_, policy)| policy)
    }

    /// Messages of agents are counted where they are sent, in [`super::agents::Agents`].
    fn add(&mut self, policy: Policy, messages: PolicyMessages) {
        if !policy.has_agents() {
            self.by_policy.entry(policy).or_default().messages.add(messages);
        }
    }
}

impl Home {
    /// Messages of a policy have been said for a spawn of this home, which may have ended.
    pub fn count_messages(&mut self, id: SpawnId, messages: PolicyMessages) {
        let policy = if let Some(spawn) = self.spawns.get_mut(&id) {
            spawn.placing.messages.add(messages);
            Some(spawn.placing.policy)
        } else {
            if let Some(record) = self.queues.ended_mut(id) {
                record.messages.add(messages);
            }
            self.costs.policy_of_ended(id)
        };
        if let Some(policy) = policy {
            self.costs.add(policy, messages);
        }
    }

    /// What policies have cost here. `sent` are messages of this host's agents to others, by policy.
    pub fn tallies(&self, sent: &BTreeMap<Policy, u64>) -> Vec<PolicyTally> {
        let used = |policy: &Policy| self.costs.by_policy.contains_key(policy) || sent.contains_key(policy);
        let tally = |policy: Policy| {
            let Tally { batches, given, mut messages } =
                self.costs.by_policy.get(&policy).copied().unwrap_or_default();
            messages.between_hosts += sent.get(&policy).copied().unwrap_or_default();
            PolicyTally { host: self.own, policy: policy.name().to_owned(), batches, given, messages }
        };
        Policy::ALL.into_iter().filter(used).map(tally).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_decisions_are_kept_with_their_times() {
        let mut decisions = Decisions::new(Duration::from_micros(100));
        for count in 0..=(DECISIONS_KEPT as u32 + 2) {
            decisions.note(HostIndex::MASTER, count, Duration::from_micros(100 + u64::from(count)));
        }
        let list = decisions.list();
        assert_eq!(list.len(), DECISIONS_KEPT, "one that gives nothing is none");
        assert_eq!(list[0], BatchDecision { after: 3, host: HostIndex::MASTER, count: 3 });
        assert!(list.is_sorted_by_key(|decision| decision.after));
    }

    #[test]
    fn spawns_that_have_ended_are_remembered_up_to_a_number() {
        let mut costs = Costs::default();
        for id in 0..=REMEMBERED as u64 {
            costs.ended(SpawnId(id), Policy::RoundRobin);
        }
        assert_eq!(costs.ended.len(), REMEMBERED);
        assert_eq!(costs.policy_of_ended(SpawnId(0)), None);
        assert_eq!(costs.policy_of_ended(SpawnId(1)), Some(Policy::RoundRobin));
    }
}
