//! Receiver-initiated: a host that has too little to do asks others at random for work, a limited number of times.

use super::agent::{Agent, Event, Scene};
use super::promises::Promises;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};

/// For this time hosts ask for work after they have heard that there is some, in milliseconds; a host on which processes wait says so
/// again when half of it is over.
const OPEN: u64 = 60_000;

/// The hosts that have given work of late, the latest first: a history of the chronically overloaded, asked before random ones.
#[derive(Clone, Debug, Default)]
struct History {
    hosts: VecDeque<usize>,
    limit: usize,
}

impl History {
    /// A host was asked: it had, or had not, work to give.
    fn note(&mut self, host: usize, had: bool) {
        self.hosts.retain(|&other| other != host);
        if had {
            self.hosts.push_front(host);
            self.hosts.truncate(self.limit);
        }
    }
}

/// The policy. Processes for which their home has no processor wait there. A host that has finished a process and has room asks others for
/// such processes. After some probes it stops, and asks again after its next end or a fixed time.
#[derive(Clone, Debug)]
pub struct ReceiverInitiated {
    probes: u32,
    /// The fixed time, in milliseconds.
    interval: u64,
    history: History,
    /// Processes that wait here, by request.
    waiting: VecDeque<(u64, u32)>,
    /// The search under way.
    search: Option<Search>,
    /// Until when there may be work; `None` for always.
    open: Option<u64>,
    /// When this host said last that processes wait here.
    said: Option<u64>,
    /// Processes that were given to this host and have not come yet, by their homes.
    coming: Promises,
}

#[derive(Clone, Debug)]
struct Search {
    asked: usize,
    left: u32,
    /// All that were asked in it.
    done: BTreeSet<usize>,
}

/// What hosts say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// Processes wait here.
    Waiting,
    /// Have you a process for me?
    Ask,
    /// The answer: one comes, or none.
    Gives(bool),
}

impl ReceiverInitiated {
    /// With this number of probes, this size of the history (0 for none), and this time after which a host asks again, in milliseconds.
    pub fn new(probes: u32, history: usize, interval: u64) -> Self {
        Self {
            probes,
            interval,
            history: History { limit: history, ..History::default() },
            waiting: VecDeque::new(),
            search: None,
            open: Some(0),
            said: None,
            coming: Promises::default(),
        }
    }

    /// Hosts ask for ever, without having heard that there is work, as in the source. A machine on which nothing runs is not silent then.
    #[must_use]
    pub fn unasked(mut self) -> Self {
        self.open = None;
        self
    }

    fn is_open(&self, now: u64) -> bool {
        self.open.is_none_or(|until| now < until)
    }

    /// The first of those that wait here.
    fn take(&mut self) -> Option<u64> {
        let (request, count) = self.waiting.front_mut()?;
        let request = *request;
        *count -= 1;
        if *count == 0 {
            self.waiting.pop_front();
        }
        Some(request)
    }

    /// This host has room again: its own processes come first.
    fn use_room(&mut self, scene: &mut Scene<'_, Message>) {
        let mut free = self.coming.left(scene);
        while free > 0
            && let Some(request) = self.take()
        {
            scene.start(request, scene.own, 1);
            free -= 1;
        }
        if free > 0 && self.search.is_none() && self.is_open(scene.now) {
            self.ask(Search { asked: scene.own, left: self.probes, done: BTreeSet::new() }, scene);
        }
    }

    fn ask(&mut self, mut search: Search, scene: &mut Scene<'_, Message>) {
        let is_new = |host: &&usize| !search.done.contains(host) && **host != scene.own;
        let known = self.history.hosts.iter().find(is_new).copied();
        let Some(asked) = known.or_else(|| scene.random_other()).filter(|_| search.left > 0) else { return };
        search.done.insert(asked);
        self.search = Some(Search { asked, left: search.left - 1, ..search });
        scene.send(asked, Message::Ask);
    }

    fn answered(&mut self, from: usize, gives: bool, scene: &mut Scene<'_, Message>) {
        let Some(search) = self.search.take_if(|search| search.asked == from) else { return };
        self.history.note(from, gives);
        if gives {
            self.coming.add(from, scene.now);
            self.use_room(scene);
        } else if self.coming.left(scene) > 0 {
            self.ask(search, scene);
        }
    }

    /// All hosts hear that processes wait here, unless they have heard it of late.
    fn say(&mut self, scene: &mut Scene<'_, Message>) {
        let lately = self.said.is_some_and(|said| scene.now < said + OPEN / 2);
        if self.waiting.is_empty() || lately || self.open.is_none() {
            return;
        }
        self.said = Some(scene.now);
        self.open_here(scene);
        let (hosts, own) = (scene.hosts, scene.own);
        for &host in hosts.iter().filter(|&&host| host != own) {
            scene.send(host, Message::Waiting);
        }
    }

    /// There is work: this host asks for it from time to time.
    fn open_here(&mut self, scene: &mut Scene<'_, Message>) {
        let was_open = self.is_open(scene.now);
        self.open = self.open.map(|_| scene.now + OPEN);
        if !was_open {
            // Not all at the same time.
            let first = scene.random(self.interval as usize) as u64;
            scene.wake(first);
        }
    }

    fn heard(&mut self, from: usize, message: Message, scene: &mut Scene<'_, Message>) {
        match message {
            Message::Waiting => self.open_here(scene),
            Message::Ask => {
                let given = self.take();
                // The news comes before the process.
                scene.send(from, Message::Gives(given.is_some()));
                if let Some(request) = given {
                    scene.start(request, from, 1);
                }
            }
            Message::Gives(gives) => self.answered(from, gives, scene),
        }
    }
}

impl Default for ReceiverInitiated {
    /// Three probes by a host with nothing to do, a history of eight, and four times a second.
    fn default() -> Self {
        Self::new(3, 8, 250)
    }
}

impl Agent for ReceiverInitiated {
    type Message = Message;

    fn on(&mut self, event: Event<Message>, scene: &mut Scene<'_, Message>) {
        match event {
            Event::Created { request, count } => {
                let rest = scene.start_here(request, count, self.coming.left(scene));
                if rest > 0 {
                    self.waiting.push_back((request, rest));
                    self.say(scene);
                }
            }
            Event::Dropped { request } => self.waiting.retain(|&(of, _)| of != request),
            Event::Heard { from, message } => self.heard(from, message, scene),
            Event::Began { home, count, placed, .. } => {
                if placed && home != scene.own {
                    self.coming.settle(home, count);
                }
            }
            Event::Ended { .. } | Event::Load => self.use_room(scene),
            Event::Woken => {
                self.say(scene);
                self.use_room(scene);
                if self.is_open(scene.now) {
                    scene.wake(self.interval);
                }
            }
            Event::Gone(host) => {
                // What it had given and had not begun does not come.
                self.coming.gone(host);
                self.answered(host, false, scene);
            }
            Event::Known { .. } | Event::Joined(_) | Event::Centre => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::simulated::{Agents, Algorithm, Step};
    use super::super::testing::Bench;
    use super::*;

    fn policy(hosts: usize) -> Agents<ReceiverInitiated> {
        Agents::new("receiver-initiated", hosts, Some(5000), || ReceiverInitiated::new(3, 8, 5000).unasked())
    }

    #[test]
    fn a_receiver_takes_from_the_overloaded() {
        let mut policy = policy(2);
        let mut bench = Bench::new(&[0, 0]);
        assert_eq!(bench.create(&mut policy, 1, 1, 4), [1], "the others wait at home");
        let taken = policy.timer(0, &mut bench);
        assert_eq!(taken, [Step { request: 1, host: 0, ways: 1 }]);
        bench.apply(&taken);
        assert_eq!(policy.timer(0, &mut bench), [], "it has enough to do");
        assert_eq!(bench.end(&mut policy, 1), [Step { request: 1, host: 1, ways: 0 }]);
        assert_eq!(bench.end(&mut policy, 0), [Step { request: 1, host: 0, ways: 1 }]);
        assert_eq!(bench.end(&mut policy, 0), [], "none is left");
    }

    #[test]
    fn a_known_giver_is_asked_first_until_it_has_none() {
        let mut policy = policy(1000);
        let mut bench = Bench::new(&vec![0; 1000]);
        bench.create(&mut policy, 1, 700, 4);
        // One of the hosts finds it at last.
        let mut host = 0;
        while bench.loads.iter().sum::<u32>() == 1 {
            let steps = policy.timer(host % 1000, &mut bench);
            bench.apply(&steps);
            host += 1;
        }
        let finder = (host - 1) % 1000;
        let before = bench.messages;
        assert_eq!(bench.end(&mut policy, finder).len(), 1, "it knows where there is more");
        assert_eq!(bench.messages - before, 2);
        bench.end(&mut policy, 700);
        let before = bench.messages;
        assert_eq!(bench.end(&mut policy, finder), []);
        assert_eq!(bench.messages - before, 6, "the known one and two others");
        let before = bench.messages;
        policy.timer(finder, &mut bench);
        assert_eq!(bench.messages - before, 6);
    }

    #[test]
    fn a_single_host_has_no_other_to_ask_and_works_its_own_queue() {
        let mut policy = policy(1);
        let mut bench = Bench::new(&[0]);
        assert_eq!(bench.create(&mut policy, 1, 0, 2), [0]);
        assert_eq!(bench.end(&mut policy, 0).len(), 1);
        assert_eq!(bench.messages, 0);
    }
}
