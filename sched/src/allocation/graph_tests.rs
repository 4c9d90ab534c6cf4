//! Graphs of which the best division is known, and what hosts say to each other.

use super::super::agent::Action;
use super::super::simulated::Agents;
use super::super::testing::{self, Bench};
use super::*;

/// An agent on host 0 of several.
struct Home {
    agent: GraphTheoretic,
    hosts: Vec<usize>,
}

impl Home {
    fn new(hosts: usize) -> Self {
        Self { agent: GraphTheoretic::default(), hosts: (0..hosts).collect() }
    }

    /// It hears something while it has this load and this number of processors.
    fn hear(&mut self, load: (u32, u32), event: Event<Message>) -> Vec<Action<Message>> {
        testing::hear(&mut self.agent, (0, 0), load, &self.hosts, 0, event)
    }

    /// A request on a host without room of its own, when the others have this room: where its processes start, in order.
    fn start(&mut self, count: u32, (traffic, may_wait): (&[Pair], bool), rooms: &[u32]) -> Vec<usize> {
        self.hear((0, 0), Event::Known { request: 7, traffic: traffic.to_vec(), may_wait });
        let full = (1, 1);
        let mut actions = self.hear(full, Event::Created { request: 7, count });
        for (host, &free) in (1..).zip(rooms) {
            let room = Room { free, load: 0, processors: free.max(1) };
            let message = Message::Answer { request: 7, room };
            actions.extend(self.hear(full, Event::Heard { from: host, message }));
        }
        let mut started = Vec::new();
        for action in actions {
            if let Action::Start { request: 7, host, count } = action {
                started.extend(std::iter::repeat_n(host, count as usize));
            }
        }
        started
    }
}

fn pair(a: u32, b: u32) -> Pair {
    Pair { a, b, traffic: 10 }
}

#[test]
fn processes_that_talk_come_to_the_same_host() {
    // Even ones talk to even ones, odd ones to odd ones.
    let traffic: Vec<Pair> = (0..6)
        .flat_map(|a| (a + 1..6).map(move |b| (a, b)))
        .filter(|(a, b)| a % 2 == b % 2)
        .map(|(a, b)| pair(a, b))
        .collect();
    let placed = Home::new(3).start(6, (&traffic, false), &[3, 3]);
    assert_eq!(placed.len(), 6);
    for (process, host) in placed.iter().enumerate() {
        assert_eq!(*host, placed[process % 2], "{placed:?}");
    }
    assert_ne!(placed[0], placed[1]);
    // Without knowledge they are a ring.
    assert_eq!(Home::new(3).start(6, (&[], false), &[3, 3]), [1, 1, 1, 2, 2, 2]);
    // Far more than are searched completely.
    for count in [60, 1200] {
        let mut placed = Home::new(5).start(count, (&[], false), &[count / 4; 4]);
        placed.dedup();
        assert_eq!(placed.len(), 4, "consecutive ones are together: {placed:?}");
    }
}

#[test]
fn the_fewest_hosts_with_room_are_enough() {
    assert_eq!(Home::new(4).start(3, (&[], false), &[1, 3, 2]), [2, 2, 2]);
    let mut own = Home::new(4);
    let here = [Action::Start { request: 7, host: 0, count: 3 }];
    assert_eq!(own.hear((1, 4), Event::Created { request: 7, count: 3 }), here);
}

#[test]
fn what_finds_no_room_waits_or_is_divided() {
    let mut home = Home::new(3);
    assert_eq!(home.start(4, (&[pair(0, 2)], true), &[2, 1]).len(), 3, "one waits");
    // It is tried again when a process ends here, now with room at home.
    assert_eq!(
        home.hear((0, 1), Event::Ended { home: 0, placed: true }),
        [Action::Start { request: 7, host: 0, count: 1 }]
    );
    assert_eq!(home.hear((0, 1), Event::Woken), [], "nothing is left");
    let placed = Home::new(3).start(12, (&[], false), &[4, 2]);
    let on = |host| placed.iter().filter(|&&other| other == host).count();
    // Six have room; of six more each host gets by its processors.
    assert_eq!((placed.len(), on(0), on(1), on(2)), (12, 1, 7, 4), "{placed:?}");
}

#[test]
fn hosts_set_processors_aside_and_take_them_back() {
    let mut host = Home::new(3);
    let answer = |free, load| Action::Send {
        to: 1,
        message: Message::Answer { request: 3, room: Room { free, load, processors: 4 } },
    };
    let ask = |count| Event::Heard { from: 1, message: Message::Ask { request: 3, count } };
    assert_eq!(host.hear((1, 4), ask(2)), [answer(2, 1)]);
    assert_eq!(host.hear((1, 4), ask(9)), [answer(1, 3)]);
    assert_eq!(host.hear((1, 4), Event::Heard { from: 1, message: Message::Release(2) }), []);
    assert_eq!(host.hear((1, 4), ask(9)), [answer(2, 2)]);
    assert_eq!(host.hear((1, 4), Event::Gone(1)), []);
    assert_eq!(host.hear((1, 4), ask(9)), [answer(3, 1)]);
    // An answer to a request that is not waited for any more.
    let late = Message::Answer { request: 9, room: Room { free: 2, load: 0, processors: 2 } };
    assert_eq!(
        host.hear((1, 4), Event::Heard { from: 2, message: late }),
        [Action::Send { to: 2, message: Message::Release(2) }]
    );
}

#[test]
fn a_host_that_is_lost_or_a_request_that_is_dropped_ends_the_search() {
    let mut home = Home::new(3);
    let asks = home.hear((1, 1), Event::Created { request: 7, count: 2 });
    assert_eq!(asks.len(), 2, "{asks:?}");
    assert_eq!(home.hear((1, 1), Event::Gone(2)), []);
    let room = Room { free: 2, load: 0, processors: 2 };
    let message = Message::Answer { request: 7, room };
    let start = [Action::Start { request: 7, host: 1, count: 2 }];
    assert_eq!(home.hear((1, 1), Event::Heard { from: 1, message }), start);
    assert_eq!(home.hear((1, 1), Event::Created { request: 8, count: 2 }).len(), 2);
    let message = Message::Answer { request: 8, room };
    assert_eq!(home.hear((1, 1), Event::Heard { from: 1, message }), []);
    assert_eq!(
        home.hear((1, 1), Event::Dropped { request: 8 }),
        [Action::Send { to: 1, message: Message::Release(2) }]
    );
}

#[test]
fn a_home_asks_few_of_many_hosts() {
    let mut policy = Agents::new("graph-theoretic", 1000, None, GraphTheoretic::default);
    let mut bench = Bench::new(&[0; 1000]);
    assert_eq!(bench.create(&mut policy, 1, 5, 4).len(), 4);
    assert!((2 * 14..=3 * 16).contains(&bench.messages), "{}", bench.messages);
    assert!(bench.loads.iter().all(|&load| load <= 1));
}
