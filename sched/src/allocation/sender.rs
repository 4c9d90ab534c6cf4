//! Sender-initiated: a host that has enough to do asks others at random whether they have room, a limited number of times.

use super::agent::{Agent, Event, Scene};
use super::promises::Promises;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Processes of one host that look for a host at the same time; others wait for their turn.
const AT_ONCE: usize = 64;

/// The policy. A host with room keeps a new process. Otherwise it probes a random host, and gives the process to that if it has room;
/// after some probes it keeps it.
///
/// A host that answers a probe with yes sets a processor aside until the process comes, or it would promise the same one to all that ask
/// at the same time.
#[derive(Clone, Debug)]
pub struct SenderInitiated {
    probes: u32,
    /// Processes that look for a host, by the number of the search.
    searches: BTreeMap<u64, Search>,
    /// Searches so far.
    count: u64,
    /// Processes that have not begun to look, by request.
    backlog: VecDeque<(u64, u32)>,
    promised: Promises,
}

#[derive(Clone, Copy, Debug)]
struct Search {
    request: u64,
    /// The host that was asked last.
    asked: usize,
    /// Probes that may follow.
    left: u32,
}

/// What hosts say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// Have you room for a process?
    Probe {
        /// The number of the search.
        search: u64,
    },
    /// The answer.
    Answer {
        /// The number of the search.
        search: u64,
        /// Whether a processor is set aside.
        has_room: bool,
    },
    /// The process does not come.
    Release,
}

impl SenderInitiated {
    /// With this number of probes for a process.
    pub fn new(probes: u32) -> Self {
        let (searches, backlog, promised) = (BTreeMap::new(), VecDeque::new(), Promises::default());
        Self { probes, searches, count: 0, backlog, promised }
    }

    /// As many of those that wait begin to look as may at the same time.
    fn begin(&mut self, scene: &mut Scene<'_, Message>) {
        while self.searches.len() < AT_ONCE
            && let Some((request, count)) = self.backlog.pop_front()
        {
            if count > 1 {
                self.backlog.push_front((request, count - 1));
            }
            self.count += 1;
            self.probe(self.count, Search { request, asked: scene.own, left: self.probes }, scene);
        }
    }

    fn probe(&mut self, number: u64, search: Search, scene: &mut Scene<'_, Message>) {
        match scene.random_other().filter(|_| search.left > 0) {
            Some(asked) => {
                self.searches.insert(number, Search { asked, left: search.left - 1, ..search });
                scene.send(asked, Message::Probe { search: number });
            }
            None => scene.start(search.request, scene.own, 1),
        }
    }

    fn heard(&mut self, from: usize, message: Message, scene: &mut Scene<'_, Message>) {
        match message {
            Message::Probe { search } => {
                let has_room = self.promised.left(scene) > 0;
                if has_room {
                    self.promised.add(from, scene.now);
                }
                scene.send(from, Message::Answer { search, has_room });
            }
            Message::Answer { search: number, has_room } => {
                let Some(search) = self.searches.remove(&number) else {
                    if has_room {
                        scene.send(from, Message::Release);
                    }
                    return;
                };
                if has_room {
                    scene.start(search.request, from, 1);
                } else {
                    self.probe(number, search, scene);
                }
                self.begin(scene);
            }
            Message::Release => self.promised.settle(from, 1),
        }
    }

    /// A host does not answer: it has no room.
    fn gone(&mut self, host: usize, scene: &mut Scene<'_, Message>) {
        self.promised.gone(host);
        let lost: Vec<u64> = self
            .searches
            .iter()
            .filter(|(_, search)| search.asked == host)
            .map(|(&number, _)| number)
            .collect();
        for number in lost {
            if let Some(search) = self.searches.remove(&number) {
                self.probe(number, search, scene);
            }
        }
        self.begin(scene);
    }
}

impl Default for SenderInitiated {
    /// Three probes.
    fn default() -> Self {
        Self::new(3)
    }
}

impl Agent for SenderInitiated {
    type Message = Message;

    fn on(&mut self, event: Event<Message>, scene: &mut Scene<'_, Message>) {
        match event {
            Event::Created { request, count } => {
                let rest = scene.start_here(request, count, self.promised.left(scene));
                if rest > 0 {
                    self.backlog.push_back((request, rest));
                    self.begin(scene);
                }
            }
            Event::Dropped { request } => {
                self.backlog.retain(|&(of, _)| of != request);
                self.searches.retain(|_, search| search.request != request);
                self.begin(scene);
            }
            Event::Heard { from, message } => self.heard(from, message, scene),
            Event::Began { home, count, placed: true, .. } => self.promised.settle(home, count),
            Event::Gone(host) => self.gone(host, scene),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::agent::Action;
    use super::super::simulated::Agents;
    use super::super::testing::{self, Bench};
    use super::*;

    fn policy(hosts: usize) -> Agents<SenderInitiated> {
        Agents::new("sender-initiated", hosts, None, SenderInitiated::default)
    }

    #[test]
    fn a_sender_keeps_what_it_has_room_for_and_probes_no_more_than_it_may() {
        let mut policy = policy(4);
        let mut bench = Bench::new(&[0; 4]);
        assert_eq!(bench.create(&mut policy, 1, 0, 1), [0]);
        assert_eq!(bench.messages, 0, "it had nothing to do itself");
        let host = bench.create(&mut policy, 2, 0, 1)[0];
        assert_ne!(host, 0);
        assert_eq!(bench.messages, 2, "the first had room");
        for request in 3..20 {
            bench.create(&mut policy, request, 0, 1);
        }
        let before = bench.messages;
        assert_eq!(bench.create(&mut policy, 20, 0, 1), [0], "all are busy");
        assert_eq!(bench.messages - before, 6, "three questions and answers");
    }

    #[test]
    fn a_host_that_does_not_answer_gets_nothing() {
        let mut policy = policy(2);
        let mut bench = Bench::new(&[0; 2]);
        bench.leave(&mut policy, 1);
        assert_eq!(bench.create(&mut policy, 1, 0, 2), [0, 0]);
        assert_eq!(bench.messages, 0, "there is no other to ask");
    }

    #[test]
    fn one_processor_is_promised_once() {
        let mut agent = SenderInitiated::default();
        let mut hear = |load, event| testing::hear(&mut agent, (0, 0), (load, 2), &[0, 1, 2], 0, event);
        let mut probed =
            |load, from| match hear(load, Event::Heard { from, message: Message::Probe { search: 5 } }).pop()
            {
                Some(Action::Send { to, message: Message::Answer { search: 5, has_room } }) if to == from => {
                    has_room
                }
                other => panic!("{other:?}"),
            };
        assert_eq!([probed(0, 1), probed(0, 2), probed(0, 1)], [true, true, false]);
        assert_eq!(hear(1, Event::Began { home: 1, request: 1, count: 1, placed: true }), []);
        assert_eq!(hear(1, Event::Gone(2)), [], "what it was promised is free again");
        assert_eq!(
            hear(1, Event::Heard { from: 1, message: Message::Probe { search: 6 } }),
            [Action::Send { to: 1, message: Message::Answer { search: 6, has_room: true } }]
        );
        // A home that needs it no more says so.
        assert_eq!(hear(1, Event::Heard { from: 1, message: Message::Release }), []);
        assert_eq!(
            hear(1, Event::Created { request: 1, count: 1 }),
            [Action::Start { request: 1, host: 0, count: 1 }]
        );
    }

    #[test]
    fn a_probed_host_that_is_lost_is_no_end_of_a_search() {
        let mut agent = SenderInitiated::new(2);
        let mut hear = |event| testing::hear(&mut agent, (0, 0), (1, 1), &[0, 1], 0, event);
        let probe = [Action::Send { to: 1, message: Message::Probe { search: 1 } }];
        assert_eq!(hear(Event::Created { request: 9, count: 1 }), probe);
        assert_eq!(hear(Event::Gone(1)), probe);
        assert_eq!(hear(Event::Gone(1)), [Action::Start { request: 9, host: 0, count: 1 }]);
        // The request is dropped while it is asked for: a promise is given back.
        assert_eq!(hear(Event::Created { request: 9, count: 1 }).len(), 1);
        assert_eq!(hear(Event::Dropped { request: 9 }), []);
        let answer = Message::Answer { search: 2, has_room: true };
        assert_eq!(
            hear(Event::Heard { from: 1, message: answer }),
            [Action::Send { to: 1, message: Message::Release }]
        );
    }
}
