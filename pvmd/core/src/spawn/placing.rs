//! Which tasks of a spawn wait, for which nodes, and what each node has been given.

use super::costs::Decisions;
use crate::event::Now;
use pvm_sched::policy::Policy;
use pvm_wire::HostIndex;
use pvm_wire::batch::Terms;
use pvm_wire::queue::{NodeTally, PolicyMessages};
use pvm_wire::spawn::Pair;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The tasks of a spawn that wait, in its home daemon.
#[derive(Debug, Default)]
pub(crate) struct Placing {
    /// Nodes that may be given tasks.
    pub nodes: BTreeSet<HostIndex>,
    /// Whether hosts that join while it is placed may be given tasks too.
    pub newcomers: bool,
    /// Ranges (first, count) of tasks that no node has been given.
    unassigned: VecDeque<(u32, u32)>,
    /// Tasks that failed on a host and wait for another.
    again: Vec<(u32, HostIndex)>,
    pub policy: Policy,
    /// How much tasks are expected to talk to each other, by their numbers.
    pub traffic: Vec<Pair>,
    /// Tasks that hosts have refused, as their owners are there, and that are handed out again later.
    pub refused: u32,
    /// A manager has told the nodes that tasks wait, and none has told them that none do.
    pub is_open: bool,
    /// What each node has been given.
    tallies: BTreeMap<HostIndex, NodeTally>,
    pub decisions: Decisions,
    /// What has been said for it.
    pub messages: PolicyMessages,
}

impl Placing {
    /// This number of tasks, none of which a node has been given.
    pub fn new(nodes: Vec<HostIndex>, newcomers: bool, count: u32, policy: Policy, now: Now) -> Self {
        Self {
            nodes: nodes.into_iter().collect(),
            newcomers,
            unassigned: VecDeque::from([(0, count)]),
            again: Vec::new(),
            policy,
            traffic: Vec::new(),
            refused: 0,
            is_open: false,
            tallies: BTreeMap::new(),
            decisions: Decisions::new(now),
            messages: PolicyMessages::default(),
        }
    }

    /// Tasks that no node has been given: `T_c`.
    pub fn waiting(&self) -> u32 {
        self.unassigned.iter().map(|(_, count)| count).sum::<u32>() + self.again.len() as u32
    }

    /// Those that wait, in the order in which a host is given them that has failed none.
    pub fn order(&self) -> Vec<u32> {
        let again = self.again.iter().map(|&(number, _)| number);
        again.chain(self.unassigned.iter().flat_map(|&(first, count)| first..first + count)).collect()
    }

    /// Takes up to `n` tasks out of those that wait, for a host: one that has failed a task gets it again only if there is
    /// nothing else.
    pub fn take(&mut self, host: HostIndex, mut n: u32) -> Vec<(u32, u32)> {
        let mut taken = Vec::new();
        self.again.sort_by_key(|&(_, failed_on)| failed_on == host);
        let elsewhere = self.again.iter().filter(|&&(_, failed_on)| failed_on != host).count();
        for (number, _) in self.again.drain(..elsewhere.min(n as usize)) {
            taken.push((number, 1));
            n -= 1;
        }
        self.take_ranges(&mut n, &mut taken);
        let rest = self.again.len().min(n as usize);
        taken.extend(self.again.drain(..rest).map(|(number, _)| (number, 1)));
        taken
    }

    pub fn take_ranges(&mut self, n: &mut u32, taken: &mut Vec<(u32, u32)>) {
        while *n > 0
            && let Some((first, count)) = self.unassigned.pop_front()
        {
            let part = count.min(*n);
            taken.push((first, part));
            *n -= part;
            if part < count {
                self.unassigned.push_front((first + part, count - part));
            }
        }
    }

    /// A task that has failed on a host waits again.
    pub fn try_again(&mut self, number: u32, failed_on: HostIndex) {
        self.again.push((number, failed_on));
    }

    /// Takes one out of those that wait, whatever it waits for.
    pub fn give_up(&mut self) -> Option<u32> {
        let mut range = Vec::new();
        self.take_ranges(&mut 1, &mut range);
        let first = range.first().map(|&(number, _)| number);
        first.or_else(|| self.again.pop().map(|(number, _)| number))
    }

    /// All that wait.
    pub fn take_all(&mut self) -> VecDeque<(u32, u32)> {
        let again = self.again.drain(..).map(|(number, _)| (number, 1));
        self.unassigned.drain(..).chain(again).collect()
    }

    /// Nothing waits any more; how much did.
    pub fn clear(&mut self) -> u32 {
        let waiting = self.waiting();
        self.unassigned.clear();
        self.again.clear();
        waiting
    }

    /// What each node has been given.
    pub fn tallies(&self) -> Vec<NodeTally> {
        self.tallies.values().copied().collect()
    }

    pub fn count_grant(&mut self, host: HostIndex, n: u32, terms: Option<Terms>, now: Now) {
        self.decisions.note(host, n, now);
        let tally =
            self.tallies.entry(host).or_insert(NodeTally { host, exchanges: 0, given: 0, last: None });
        tally.exchanges += 1;
        tally.given += u64::from(n);
        tally.last = terms.or(tally.last);
    }

    /// Tasks that were given to a host which is gone wait again.
    pub fn give_back(&mut self, first: u32, count: u32) {
        self.unassigned.push_back((first, count));
    }
}
