//! The task manager's state machine, without I/O: its process and the simulator run it.

use crate::placement::Candidate;
use crate::policy::{Handout, Policy};
use crate::pulling::{self, Decision};
use pvm_wire::batch::{Application, BatchId, BatchMsg, Node, Terms};
use pvm_wire::{HostIndex, Tid};
use std::collections::BTreeMap;

/// Most batches at a time. Daemons give a manager one at a time, so only a broken one asks for more.
pub const BATCHES_MAX: usize = 1024;

/// The batches of a task manager.
#[derive(Debug, Default)]
pub struct Machine {
    batches: BTreeMap<BatchId, Placed>,
}

/// A batch being handed out.
#[derive(Debug)]
struct Placed {
    handout: Box<dyn Handout<HostIndex>>,
    /// Its tasks wait for room.
    queued: bool,
    /// `P` and `P_c` of each node when it last spoke.
    filled: BTreeMap<HostIndex, (u64, u64)>,
}

impl Machine {
    /// Handles a message from `src`; returns the messages to send, with their receivers.
    ///
    /// Only a batch's home sends messages for the batch, and only its own daemon for a node; others' messages are ignored. A
    /// manager runs on the home's host, so it hears the home as [`Tid::MY_DAEMON`]. An application for tasks of a batch that
    /// does not exist is answered, or the node would wait.
    pub fn on_message(&mut self, src: Tid, message: BatchMsg) -> Vec<(Tid, BatchMsg)> {
        match message {
            BatchMsg::Place { batch, count, nodes, soft, policy, last, own } if is_home(src) => {
                // The home takes no other names.
                let handout = policy.parse().unwrap_or(Policy::default()).handout(last);
                let placed = Placed { handout, queued: !soft, filled: BTreeMap::new() };
                self.place(batch, placed, count, &nodes, own)
            }
            BatchMsg::More { batch, count } => self.by_home(src, batch, |handout| handout.more(count)),
            BatchMsg::NodeJoined { batch, node } => {
                self.by_home(src, batch, |handout| handout.node_joined(candidate(&node)))
            }
            BatchMsg::NodeGone { batch, host } => self.by_home(src, batch, |handout| handout.node_gone(host)),
            BatchMsg::Done { batch } => {
                let told = self.by_home(src, batch, |handout| handout.done());
                if is_home(src) {
                    self.batches.remove(&batch);
                }
                told
            }
            BatchMsg::Apply { batch, host, p, p_c, n_a, capability } if is_daemon_of(src, host, batch) => {
                match self.batches.get_mut(&batch) {
                    Some(placed) => placed.on_apply(batch, host, Application { p, p_c, n_a }, capability),
                    None => vec![(host.daemon(), BatchMsg::TasksNo { batch })],
                }
            }
            _ => Vec::new(),
        }
    }

    /// Batches at the moment.
    pub fn batches(&self) -> usize {
        self.batches.len()
    }

    fn place(
        &mut self,
        batch: BatchId,
        mut placed: Placed,
        count: u64,
        nodes: &[Node],
        own: Option<Application>,
    ) -> Vec<(Tid, BatchMsg)> {
        if self.batches.len() >= BATCHES_MAX && !self.batches.contains_key(&batch) {
            return vec![(batch.home.daemon(), BatchMsg::NoNodes { batch })];
        }
        let mut decisions =
            placed.handout.place(count, nodes.iter().map(candidate).collect(), !placed.queued);
        let home = nodes.iter().find(|node| node.host == batch.home).zip(own);
        if home.is_some() {
            decisions.retain(|decision| *decision != Decision::TasksHave(batch.home));
        }
        let mut messages = placed.messages(batch, decisions);
        if let Some((node, own)) = home {
            messages.extend(placed.on_apply(batch, node.host, own, node.capability));
        }
        self.batches.insert(batch, placed);
        messages
    }

    /// Passes a message of its home to a batch's policy.
    fn by_home(
        &mut self,
        src: Tid,
        batch: BatchId,
        tell: impl FnOnce(&mut dyn Handout<HostIndex>) -> Vec<Decision<HostIndex>>,
    ) -> Vec<(Tid, BatchMsg)> {
        match self.batches.get_mut(&batch) {
            Some(placed) if is_home(src) => {
                let decisions = tell(&mut *placed.handout);
                placed.messages(batch, decisions)
            }
            _ => Vec::new(),
        }
    }
}

fn is_home(src: Tid) -> bool {
    src == Tid::MY_DAEMON
}

fn is_daemon_of(src: Tid, host: HostIndex, batch: BatchId) -> bool {
    src == host.daemon() || (is_home(src) && host == batch.home)
}

fn candidate(node: &Node) -> Candidate<HostIndex> {
    Candidate { host: node.host, capability: node.capability, limit: node.limit.into() }
}

impl Placed {
    /// A node asks for tasks, or declines for now.
    fn on_apply(
        &mut self,
        batch: BatchId,
        host: HostIndex,
        asks: Application,
        capability: f64,
    ) -> Vec<(Tid, BatchMsg)> {
        self.filled.insert(host, (asks.p, asks.p_c));
        let decisions = self.handout.on_apply(host, asks.n_a, capability);
        self.messages(batch, decisions)
    }

    /// Decisions as messages, in the same order.
    fn messages(&self, batch: BatchId, decisions: Vec<Decision<HostIndex>>) -> Vec<(Tid, BatchMsg)> {
        let home = batch.home.daemon();
        let message = |decision: Decision<HostIndex>| match decision {
            Decision::TasksHave(host) => (host.daemon(), BatchMsg::TasksHave { batch, queued: self.queued }),
            Decision::TasksNo(host) => (host.daemon(), BatchMsg::TasksNo { batch }),
            Decision::Grant { host, n, terms } => {
                let terms = terms.map(|terms| self.told(host, &terms));
                (home, BatchMsg::Grant { batch, host, n, terms })
            }
            Decision::NoNodes { .. } => (home, BatchMsg::NoNodes { batch }),
        };
        decisions.into_iter().map(message).collect()
    }

    /// The quantities of a grant, as the home gets them.
    fn told(&self, host: HostIndex, terms: &pulling::Terms) -> Terms {
        let (p, p_c) = self.filled.get(&host).copied().unwrap_or_default();
        Terms { p, p_c, n_a: terms.n_a, t_c: terms.t_c, n_c: terms.n_c, c_i: terms.c_i, c_a: terms.c_a }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(index: u32) -> HostIndex {
        HostIndex::new(index).expect("an index")
    }

    fn batch(number: u64) -> BatchId {
        BatchId { home: host(1), number }
    }

    /// The sender of its messages to its manager, and the receiver of the answers.
    const HOME: Tid = Tid::MY_DAEMON;
    const TO_HOME: Tid = Tid::from_bits(0x8004_0000);

    fn node(index: u32) -> Node {
        Node { host: host(index), capability: 1000.0, limit: 100 }
    }

    fn placed(number: u64, count: u64, nodes: Vec<Node>, soft: bool, policy: &str) -> BatchMsg {
        let (batch, policy, last) = (batch(number), policy.into(), host(1));
        BatchMsg::Place { batch, count, nodes, soft, policy, last, own: None }
    }

    fn place(number: u64, count: u64) -> BatchMsg {
        placed(number, count, vec![node(2), node(3)], true, "active-pulling")
    }

    fn apply(number: u64, index: u32, n_a: i64) -> BatchMsg {
        BatchMsg::Apply { batch: batch(number), host: host(index), p: 8, p_c: 1, n_a, capability: 1000.0 }
    }

    /// Grants as host and number.
    fn grants(said: &[(Tid, BatchMsg)]) -> Vec<(u32, u64)> {
        let grant = |(to, message): &(Tid, BatchMsg)| match message {
            BatchMsg::Grant { host, n, .. } if *to == TO_HOME => Some((host.get(), *n)),
            _ => None,
        };
        said.iter().filter_map(grant).collect()
    }

    #[test]
    fn a_batch_from_place_to_done() {
        let mut machine = Machine::default();
        let have = BatchMsg::TasksHave { batch: batch(1), queued: false };
        let no = BatchMsg::TasksNo { batch: batch(1) };
        assert_eq!(
            machine.on_message(HOME, place(1, 10)),
            [(host(2).daemon(), have.clone()), (host(3).daemon(), have)]
        );
        let said = machine.on_message(host(2).daemon(), apply(1, 2, 8));
        let terms = Some(Terms { p: 8, p_c: 1, n_a: 8, t_c: 10, n_c: 2, c_i: 1000.0, c_a: 1000.0 });
        assert_eq!(said, [(TO_HOME, BatchMsg::Grant { batch: batch(1), host: host(2), n: 5, terms })]);
        let said = machine.on_message(host(3).daemon(), apply(1, 3, 8));
        assert_eq!(grants(&said), [(3, 5)]);
        assert_eq!(said[1..], [(host(2).daemon(), no.clone()), (host(3).daemon(), no.clone())]);
        assert_eq!(machine.on_message(host(2).daemon(), apply(1, 2, 3)), [(host(2).daemon(), no.clone())]);
        assert_eq!(machine.on_message(HOME, BatchMsg::Done { batch: batch(1) }), []);
        assert_eq!(machine.batches(), 0);
        assert_eq!(machine.on_message(host(2).daemon(), apply(1, 2, 3)), [(host(2).daemon(), no)]);
    }

    #[test]
    fn the_home_asks_as_it_places() {
        let own = Some(Application { p: 8, p_c: 1, n_a: 7 });
        let by_home = |nodes, soft| match placed(1, 16, nodes, soft, "active-pulling") {
            BatchMsg::Place { batch, count, nodes, soft, policy, last, .. } => Machine::default()
                .on_message(HOME, BatchMsg::Place { batch, count, nodes, soft, policy, last, own }),
            other => panic!("{other:?}"),
        };
        let terms = Terms { p: 8, p_c: 1, n_a: 7, t_c: 16, n_c: 1, c_i: 1000.0, c_a: 1000.0 };
        let grant =
            |n, terms| (TO_HOME, BatchMsg::Grant { batch: batch(1), host: host(1), n, terms: Some(terms) });
        let no = (TO_HOME, BatchMsg::TasksNo { batch: batch(1) });
        assert_eq!(by_home(vec![node(1)], true), [grant(16, terms), no]);
        assert_eq!(by_home(vec![node(1)], false), [grant(7, terms)]);

        // Other nodes get `TasksHave`, and their parts are reserved.
        let have = (host(2).daemon(), BatchMsg::TasksHave { batch: batch(1), queued: false });
        let terms = Terms { n_c: 2, ..terms };
        assert_eq!(by_home(vec![node(1), node(2)], true), [have.clone(), grant(7, terms)]);
        // The home is no node, so it cannot apply.
        assert_eq!(by_home(vec![node(2)], true), [have]);
    }

    #[test]
    fn batches_do_not_mix() {
        let mut machine = Machine::default();
        machine.on_message(HOME, place(1, 4));
        machine.on_message(HOME, place(2, 100));
        assert_eq!(grants(&machine.on_message(host(2).daemon(), apply(2, 2, 1000))), [(2, 50)]);
        assert_eq!(grants(&machine.on_message(host(2).daemon(), apply(1, 2, 1000))), [(2, 2)]);
        machine.on_message(HOME, BatchMsg::Done { batch: batch(1) });
        assert_eq!(grants(&machine.on_message(host(3).daemon(), apply(2, 3, 1000))), [(3, 50)]);
    }

    #[test]
    fn returned_tasks_are_placed_again_and_new_nodes_help() {
        let mut machine = Machine::default();
        machine.on_message(HOME, place(1, 4));
        machine.on_message(host(2).daemon(), apply(1, 2, 9));
        machine.on_message(host(3).daemon(), apply(1, 3, 9));
        machine.on_message(HOME, BatchMsg::NodeGone { batch: batch(1), host: host(2) });
        machine.on_message(HOME, BatchMsg::NodeJoined { batch: batch(1), node: node(4) });
        let said = machine.on_message(HOME, BatchMsg::More { batch: batch(1), count: 2 });
        let told: Vec<Tid> = said.into_iter().map(|(to, _)| to).collect();
        assert_eq!(told, [host(3).daemon(), host(4).daemon()]);
        assert_eq!(grants(&machine.on_message(host(4).daemon(), apply(1, 4, 9))), [(4, 1)]);
        assert_eq!(grants(&machine.on_message(host(2).daemon(), apply(1, 2, 9))), []);
    }

    #[test]
    fn without_any_node_the_home_is_notified() {
        let mut machine = Machine::default();
        let nobody = placed(1, 3, vec![], true, "active-pulling");
        assert_eq!(machine.on_message(HOME, nobody), [(TO_HOME, BatchMsg::NoNodes { batch: batch(1) })]);
    }

    #[test]
    fn messages_of_others_about_a_batch_or_a_node_are_ignored() {
        let mut machine = Machine::default();
        let task = host(1).task(7);
        for stranger in [host(2).daemon(), task, Tid::NONE, Tid::ANY] {
            assert_eq!(machine.on_message(stranger, place(1, 4)), []);
            assert_eq!(machine.batches(), 0);
        }
        machine.on_message(HOME, place(1, 4));
        let strange = [
            BatchMsg::More { batch: batch(1), count: u64::MAX },
            BatchMsg::NodeJoined { batch: batch(1), node: node(9) },
            BatchMsg::NodeGone { batch: batch(1), host: host(2) },
            BatchMsg::Done { batch: batch(1) },
            apply(1, 3, 100),
        ];
        for message in strange {
            assert_eq!(machine.on_message(host(2).daemon(), message.clone()), [], "{message:?}");
            assert_eq!(machine.on_message(task, message), []);
        }
        assert_eq!(machine.on_message(HOME, apply(1, 3, 100)), []);
        // None of that has changed anything.
        assert_eq!(grants(&machine.on_message(host(2).daemon(), apply(1, 2, 100))), [(2, 2)]);
        assert_eq!(machine.on_message(HOME, BatchMsg::TasksHave { batch: batch(1), queued: false }), []);
    }

    #[test]
    fn a_queued_batch_by_another_policy() {
        let mut machine = Machine::default();
        let have = BatchMsg::TasksHave { batch: batch(1), queued: true };
        let said = machine.on_message(HOME, placed(1, 5, vec![node(2), node(3)], false, "round-robin"));
        assert_eq!(said, [(host(2).daemon(), have.clone()), (host(3).daemon(), have)]);
        assert_eq!(grants(&machine.on_message(host(2).daemon(), apply(1, 2, 2))), [(2, 2)]);
        assert_eq!(
            grants(&machine.on_message(host(2).daemon(), apply(1, 2, 2))),
            [(2, 1)],
            "it had three of five"
        );
        assert_eq!(grants(&machine.on_message(host(2).daemon(), apply(1, 2, 2))), []);
        assert_eq!(grants(&machine.on_message(host(3).daemon(), apply(1, 3, 0))), []);
        assert_eq!(grants(&machine.on_message(host(3).daemon(), apply(1, 3, 9))), [(3, 2)]);
    }

    #[test]
    fn no_more_batches_than_the_bound() {
        let mut machine = Machine::default();
        for number in 0..BATCHES_MAX as u64 {
            assert_eq!(machine.on_message(HOME, place(number, 1)).len(), 2);
        }
        let full = BatchId { home: host(1), number: u64::MAX };
        assert_eq!(
            machine.on_message(HOME, place(u64::MAX, 1)),
            [(TO_HOME, BatchMsg::NoNodes { batch: full })]
        );
        assert_eq!(machine.batches(), BATCHES_MAX);
    }
}
