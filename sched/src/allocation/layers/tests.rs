//! Requests over clusters on simulated hosts, deaths of each role, and what hosts say out of place.

use super::super::agent::Action;
use super::super::clusters::Clusters;
use super::super::simulated::Agents;
use super::super::testing::{self, Bench};
use super::*;

/// Clusters of four hosts with one processor each, two clusters in each domain.
fn policy(hosts: usize) -> (Agents<Layers>, Bench) {
    let policy = Agents::new("coallocation", hosts, None, Layers::new).within(Clusters::blocks(hosts, 4, 2));
    (policy, Bench::new(&vec![0; hosts]))
}

/// The clusters, and processes there.
fn by_cluster(hosts: &[usize]) -> BTreeMap<usize, usize> {
    let mut clusters = BTreeMap::new();
    for host in hosts {
        *clusters.entry(host / 4).or_default() += 1;
    }
    clusters
}

#[test]
fn the_cluster_with_the_most_free_hosts_of_the_own_domain_comes_first() {
    let (mut policy, mut bench) = policy(16);
    assert_eq!(bench.create(&mut policy, 1, 5, 1).len(), 1, "somewhere in the first domain");
    let taken = bench.loads.iter().position(|&load| load > 0).expect("one") / 4;
    let rest = 1 - taken;
    let hosts = bench.create(&mut policy, 2, 5, 4);
    assert_eq!(by_cluster(&hosts), BTreeMap::from([(rest, 4)]), "the other cluster has four");
    // Three are left in the domain, where two more would need another one.
    assert_eq!(by_cluster(&bench.create(&mut policy, 3, 5, 3)), BTreeMap::from([(taken, 3)]));
    let hosts = bench.create(&mut policy, 4, 5, 5);
    assert_eq!(by_cluster(&hosts), BTreeMap::from([(2, 4), (3, 1)]), "in the second domain");
    assert!(bench.loads.iter().all(|&load| load <= 1));
}

#[test]
fn a_request_that_its_domain_cannot_hold_spans_domains() {
    let (mut policy, mut bench) = policy(16);
    let hosts = bench.create(&mut policy, 1, 9, 11);
    assert_eq!(by_cluster(&hosts).values().sum::<usize>(), 11);
    assert_eq!(by_cluster(&hosts).len(), 3, "in as few clusters as can be: {hosts:?}");
}

#[test]
fn all_processes_start_at_once_or_none_and_smaller_requests_pass() {
    let (mut policy, mut bench) = policy(8);
    assert_eq!(bench.create(&mut policy, 1, 0, 6).len(), 6);
    assert_eq!(bench.create(&mut policy, 2, 3, 3), [], "two are free");
    assert_eq!(bench.create(&mut policy, 3, 7, 2).len(), 2, "a smaller one passes");
    let busy: Vec<usize> = (0..8).filter(|&host| bench.loads[host] > 0).collect();
    assert_eq!(bench.end(&mut policy, busy[0]), []);
    assert_eq!(bench.end(&mut policy, busy[1]), []);
    let steps = bench.end(&mut policy, busy[2]);
    assert!(steps.len() == 3 && steps.iter().all(|step| step.request == 2), "{steps:?}");
}

#[test]
fn what_is_wider_than_the_machine_starts_in_proportion() {
    let (mut policy, mut bench) = policy(8);
    bench.create(&mut policy, 1, 0, 8);
    assert_eq!(bench.create(&mut policy, 2, 2, 16).len(), 16);
    assert!(bench.loads.iter().all(|&load| load == 3), "{:?}", bench.loads);
}

#[test]
fn each_role_is_replaced_when_its_host_dies() {
    // 0 is the executor, the scheduler of the first domain and a head; 8 is the scheduler of the second, 12 the head of the last cluster.
    for dead in [0, 8, 12, 4, 15] {
        let (mut policy, mut bench) = policy(16);
        bench.create(&mut policy, 1, 9, 3);
        bench.leave(&mut policy, dead);
        let free = bench.loads.iter().filter(|&&load| load == 0).count() - 1;
        let hosts = bench.create(&mut policy, 2, 9, free as u32);
        assert_eq!(hosts.len(), free, "without {dead}");
        assert!(!hosts.contains(&dead) && bench.loads.iter().all(|&load| load <= 1), "without {dead}");
        assert_eq!(bench.create(&mut policy, 3, 9, 1), [], "all are busy");
        let steps = bench.come_back(&mut policy, dead);
        assert!(matches!(steps[..], [step] if step.host == dead), "{dead} is back: {steps:?}");
    }
}

#[test]
fn requests_of_all_homes_and_ends_in_the_same_moment_come_to_rest() {
    for hosts in [3, 9, 24, 40] {
        let clusters = Clusters::blocks(hosts, 16, 4);
        let mut policy = Agents::new("coallocation", hosts, None, Layers::new).within(clusters);
        let mut bench = Bench::new(&vec![0; hosts]);
        let (mut created, mut started) = (0, 0);
        for turn in 0..400_u64 {
            bench.now += turn % 3 * 400;
            let home = (turn * 7 % hosts as u64) as usize;
            let count = 1 + (turn * 5 % 9) as u32;
            created += count as usize;
            started += bench.create(&mut policy, turn, home, count).len();
            for host in 0..hosts {
                if bench.loads[host] > 0 && (turn + host as u64).is_multiple_of(2) {
                    started += bench.end(&mut policy, host).len();
                }
            }
        }
        while let Some(host) = bench.loads.iter().position(|&load| load > 0) {
            started += bench.end(&mut policy, host).len();
        }
        assert_eq!((started, hosts), (created, hosts));
    }
}

#[test]
fn small_requests_of_many_homes_take_no_processor_twice() {
    let (mut policy, mut bench) = policy(32);
    for home in 0..32 {
        assert_eq!(bench.create(&mut policy, home as u64, home, 1).len(), 1);
    }
    assert_eq!(bench.loads, [1; 32]);
    assert!(bench.messages <= 32 * 20, "{} messages", bench.messages);
}

/// The actions of the agent of a host of four processors among hosts 1 and 2, where 1 is the centre.
fn hear(agent: &mut Layers, own: usize, now: u64, event: Event<Message>) -> Vec<Action<Message>> {
    testing::hear(agent, (own, 1), (0, 4), &[1, 2], now, event)
}

fn says(message: Message) -> Event<Message> {
    Event::Heard { from: 2, message }
}

fn sent(to: usize, message: Message) -> Action<Message> {
    Action::Send { to, message }
}

#[test]
fn a_request_that_may_wait_starts_in_parts() {
    let mut agent = Layers::new();
    hear(&mut agent, 1, 0, Event::Known { request: 5, traffic: Vec::new(), may_wait: true });
    hear(&mut agent, 1, 0, Event::Created { request: 5, count: 20 });
    // The executor has found room for six.
    let search = Search { home: 1, request: 5, round: 1, count: 6, is_divisible: true };
    let started = hear(&mut agent, 1, 1, says(Message::Found(search, vec![(1, 4), (2, 3)])));
    let next = Search { count: 14, round: 2, ..search };
    let expected = [
        Action::Start { request: 5, host: 1, count: 4 },
        Action::Start { request: 5, host: 2, count: 2 },
        sent(2, Message::Release(vec![(2, 1)])),
        sent(1, Message::Wanted(next)),
    ];
    assert_eq!(started[..4], expected);
}

#[test]
fn what_has_no_answer_is_searched_for_again_and_what_comes_late_is_given_back() {
    let mut agent = Layers::new();
    let asked = hear(&mut agent, 2, 0, Event::Created { request: 5, count: 3 });
    let search = Search { home: 2, request: 5, round: 1, count: 3, is_divisible: false };
    assert_eq!(asked, [sent(1, Message::Wanted(search)), Action::Wake(PATIENCE)]);
    let part = hear(&mut agent, 2, 1, says(Message::Found(search, vec![(1, 2)])));
    assert_eq!(part, [Action::Wake(PATIENCE - 1)], "not all three");
    let again = hear(&mut agent, 2, PATIENCE, Event::Woken);
    let second = Search { round: 2, ..search };
    assert_eq!(again[..2], [sent(2, Message::Release(vec![(1, 2)])), sent(1, Message::Wanted(second))]);
    let late = hear(&mut agent, 2, PATIENCE, says(Message::Found(search, vec![(1, 1)])));
    assert_eq!(late[0], sent(2, Message::Release(vec![(1, 1)])));
    let full = hear(&mut agent, 2, PATIENCE, says(Message::Full(second)));
    assert_eq!(full[0], Action::NoRoom { request: 5 });
    assert_eq!(hear(&mut agent, 2, PATIENCE, says(Message::Full(search))).len(), 1, "of the first search");
    let dropped = hear(&mut agent, 2, PATIENCE, Event::Dropped { request: 5 });
    assert_eq!(dropped, [sent(1, Message::Withdrawn(5))]);
}

#[test]
fn a_head_that_has_less_than_was_thought_says_so_to_both_sides() {
    let mut agent = Layers::new();
    hear(&mut agent, 1, 0, says(Message::Describe(Layer::Cluster)));
    hear(&mut agent, 1, 0, Event::Heard { from: 1, message: Message::Describe(Layer::Host) });
    let room = Room { free: 3, all: 4 };
    hear(&mut agent, 1, 0, Event::Heard { from: 1, message: Message::Host(room, 0) });
    let told = hear(&mut agent, 1, 0, says(Message::Host(room, 0)));
    assert_eq!(told[0], sent(2, Message::Cluster(Room { free: 6, all: 8 })));
    let search = Search { home: 2, request: 1, round: 1, count: 7, is_divisible: false };
    let short = hear(&mut agent, 1, 0, says(Message::Allocate(search, 7, false)));
    assert_eq!(short, [sent(2, Message::Short(search)), Action::Wake(MOMENT)]);
    let again = hear(&mut agent, 1, MOMENT, Event::Woken);
    assert_eq!(
        again[0],
        sent(2, Message::Cluster(Room { free: 6, all: 8 })),
        "what was granted is there still"
    );
    let found = hear(&mut agent, 1, 5, says(Message::Allocate(search, 4, false)));
    assert_eq!(found[0], sent(2, Message::Found(search, vec![(1, 3), (2, 1)])));
    // One has begun, and the others do not come.
    hear(&mut agent, 1, 6, says(Message::Host(Room { free: 2, all: 4 }, 1)));
    let told = hear(&mut agent, 1, 8, Event::Woken);
    assert_eq!(told[0], sent(2, Message::Cluster(Room { free: 2, all: 8 })));
    let told = hear(&mut agent, 1, 8000, Event::Woken);
    assert_eq!(told[0], sent(2, Message::Cluster(Room { free: 5, all: 8 })));
}

#[test]
fn what_others_say_out_of_place_changes_nothing() {
    let mut agent = Layers::new();
    let search = Search { home: 9, request: 1, round: 9, count: u32::MAX, is_divisible: true };
    let room = Room { free: u32::MAX, all: u32::MAX };
    for message in [
        Message::Host(room, u32::MAX),
        Message::Cluster(room),
        Message::Domain(vec![(usize::MAX, room); 3]),
        Message::Granted(search, vec![(7, u32::MAX); 2], true),
        Message::Full(search),
        Message::Allocate(search, u32::MAX, true),
        Message::Allocate(Search { count: 1, ..search }, 1, false),
        Message::Found(search, vec![(1, u32::MAX); 2]),
        Message::Short(search),
        Message::Release(vec![(usize::MAX, u32::MAX)]),
        Message::Withdrawn(u64::MAX),
        Message::Consent(search, vec![(2, u32::MAX), (2, u32::MAX)]),
        Message::Wanted(search),
    ] {
        let actions = hear(&mut agent, 1, 1, says(message));
        assert!(!actions.iter().any(|action| matches!(action, Action::Start { .. })));
    }
    let rooms = agent.element.hosts_for_tests();
    assert_eq!(rooms, [(2, Room { free: PROCESSORS_MAX, all: PROCESSORS_MAX })]);
}
