//! Small trees, compared with all that could have been done, and what hosts say to each other.

use super::super::agent::Action;
use super::super::simulated::Agents;
use super::super::testing::{self, Bench};
use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Agents of one processor each under a single manager at the top.
fn agents<const FAN_OUT: usize>(workers: usize) -> Agents<Hierarchical> {
    Agents::new("hierarchical", workers, None, || Hierarchical::new(FAN_OUT, 1).staying())
}

/// The same in which those workers in `busy`, bit by bit, have something to do, which their managers have heard.
fn busy<const FAN_OUT: usize>(workers: usize, busy: u32) -> (Agents<Hierarchical>, Bench) {
    let mut policy = agents::<FAN_OUT>(workers);
    let mut bench = Bench::new(&vec![0; workers]);
    assert_eq!(bench.create(&mut policy, 0, 0, workers as u32).len(), workers);
    for worker in (0..workers).filter(|&worker| busy >> worker & 1 == 0) {
        bench.end(&mut policy, worker);
    }
    (policy, bench)
}

/// The lowest level at which one manager is above all of these workers.
fn height(fan_out: usize, workers: impl IntoIterator<Item = usize>) -> u32 {
    let mut numbers: BTreeSet<usize> = workers.into_iter().collect();
    let mut level = 0;
    while numbers.len() > 1 || level == 0 {
        numbers = numbers.into_iter().map(|number| number / fan_out).collect();
        level += 1;
    }
    level
}

/// The lowest level at which one manager has room for `count` processes and is above `origin`, by trying every choice of workers.
fn lowest(fan_out: usize, free: &[usize], origin: usize, count: usize) -> Option<u32> {
    let chosen = |set: u32| (0..free.len()).filter(move |&at| set >> at & 1 > 0).map(|at| free[at]);
    (0..1_u32 << free.len())
        .filter(|set| set.count_ones() as usize == count)
        .map(|set| height(fan_out, chosen(set).chain([origin])))
        .min()
}

/// With fewer than eight workers below each manager, every change is reported. Then as many processes get a worker of their own as
/// workers are free, and none is further away than the lowest level at which R workers are free.
fn is_nearest_first<const FAN_OUT: usize>(workers: usize) {
    let top = Tree { hosts: &(0..workers).collect::<Vec<_>>(), fan_out: FAN_OUT, committee: 1 }.top();
    for set in 0..1_u32 << workers {
        let free: Vec<usize> = (0..workers).filter(|&worker| set >> worker & 1 == 0).collect();
        for origin in 0..workers {
            for count in 1..=workers + 1 {
                let (mut policy, mut bench) = busy::<FAN_OUT>(workers, set);
                let hosts = bench.create(&mut policy, 1, origin, count as u32);
                let what =
                    format!("{count} from {origin} of {workers}, {FAN_OUT} each, busy {set:b}: {hosts:?}");
                let alone: BTreeSet<usize> =
                    hosts.iter().copied().filter(|host| free.contains(host)).collect();
                assert_eq!(alone.len(), count.min(free.len()), "{what}");
                assert!(hosts.iter().all(|host| alone.contains(host) || *host == origin), "{what}");
                let Some(least) = lowest(FAN_OUT, &free, origin, count) else { continue };
                let reserve = count + count / RESERVE as usize + 1;
                let most = lowest(FAN_OUT, &free, origin, reserve).unwrap_or(top);
                let ours = height(FAN_OUT, hosts.into_iter().chain([origin]));
                assert!((least..=most).contains(&ours), "{what}: {ours} is not in {least} to {most}");
            }
        }
    }
}

#[test]
fn known_machines_are_used_nearest_first() {
    is_nearest_first::<2>(1);
    is_nearest_first::<2>(4);
    is_nearest_first::<2>(6);
    is_nearest_first::<3>(7);
}

#[test]
fn a_small_request_stays_in_its_department_and_a_large_one_goes_up() {
    let mut policy = agents::<8>(64);
    let mut bench = Bench::new(&[0; 64]);
    let small = bench.create(&mut policy, 1, 20, 3);
    assert!(small.iter().all(|host| (16..24).contains(host)), "{small:?}");
    // Five are left there; five and the reserve are more than that.
    let hosts = bench.create(&mut policy, 2, 20, 30);
    assert!(hosts.iter().any(|host| !(16..24).contains(host)));
    assert!(bench.loads.iter().all(|&load| load <= 1));
    // 31 are free, of which managers may not have told an eighth.
    let rest = bench.create(&mut policy, 3, 5, 40);
    let stay = rest.iter().filter(|&&host| host == 5).count();
    assert!((9..=13).contains(&stay), "{stay} of 40 stay");
}

#[test]
fn a_dead_manager_is_replaced_by_a_subordinate() {
    let mut policy = agents::<8>(64);
    let mut bench = Bench::new(&[0; 64]);
    bench.create(&mut policy, 1, 3, 20);
    // Host 0 heads its department and the committee.
    bench.leave(&mut policy, 0);
    bench.leave(&mut policy, 9);
    let free = bench.loads.iter().filter(|&&load| load == 0).count() - 2;
    assert!(free > 40);
    let hosts = bench.create(&mut policy, 2, 62, free as u32);
    assert!(!hosts.contains(&0) && !hosts.contains(&9));
    assert!(bench.loads.iter().all(|&load| load <= 1), "all others are used");
    assert!(bench.come_back(&mut policy, 0).is_empty());
    assert_eq!(bench.create(&mut policy, 3, 62, 1), [0], "the one that is back");
}

#[test]
fn with_all_others_dead_processes_stay() {
    let mut policy = agents::<2>(8);
    let mut bench = Bench::new(&[0; 8]);
    for host in (0..8).filter(|&host| host != 3) {
        bench.leave(&mut policy, host);
    }
    assert_eq!(bench.create(&mut policy, 1, 3, 2), [3, 3]);
}

#[test]
fn members_of_the_committee_find_room_with_each_other() {
    let mut policy = Agents::new("hierarchical", 64, None, || Hierarchical::new(4, 4).staying());
    let mut bench = Bench::new(&[0; 64]);
    let mut hosts = bench.create(&mut policy, 1, 50, 64);
    hosts.sort_unstable();
    assert_eq!(hosts, (0..64).collect::<Vec<_>>());
    bench.end(&mut policy, 7);
    assert_eq!(bench.create(&mut policy, 2, 50, 2), [7, 50], "one is free, three quarters away");
}

/// The actions of the agent of host 1, which has four processors and no load.
fn hear(agent: &mut Hierarchical, hosts: &[usize], now: u64, event: Event<Message>) -> Vec<Action<Message>> {
    testing::hear(agent, (1, 1), (0, 4), hosts, now, event)
}

#[test]
fn what_is_reserved_and_not_needed_is_released() {
    let mut agent = Hierarchical::new(2, 1);
    let asked = hear(&mut agent, &[1, 2], 0, Event::Created { request: 5, count: 16 });
    let search = Search { home: 1, request: 5, round: 1, count: 18 };
    assert_eq!(asked[0], Action::Send { to: 1, message: Message::Wanted(1, search) });
    let room = |count| Event::Heard { from: 2, message: Message::Room(Search { count, ..search }) };
    let done = hear(&mut agent, &[1, 2], 1, room(15));
    assert_eq!(done[0], Action::Start { request: 5, host: 2, count: 15 });
    let done = hear(&mut agent, &[1, 2], 1, room(3));
    assert_eq!(done[0], Action::Start { request: 5, host: 2, count: 1 });
    assert_eq!(done[1], Action::Send { to: 2, message: Message::Release(2) });
    let late = hear(&mut agent, &[1, 2], 1, room(1));
    assert_eq!(late, [Action::Send { to: 2, message: Message::Release(1) }]);
}

#[test]
fn what_finds_no_room_or_no_answer_is_asked_for_again() {
    let mut agent = Hierarchical::new(4, 1);
    hear(&mut agent, &[1, 2], 0, Event::Created { request: 5, count: 3 });
    let search = Search { home: 1, request: 5, round: 1, count: 3 };
    let short = |round, count| {
        let message = Message::Short(1, Search { round, count, ..search });
        Event::Heard { from: 2, message }
    };
    let told = hear(&mut agent, &[1, 2], 0, short(1, 3));
    // The only level there is was the last.
    assert_eq!(told, [Action::NoRoom { request: 5 }, Action::Wake(RETRY)]);
    let wanted = |round| Action::Send { to: 1, message: Message::Wanted(1, Search { round, ..search }) };
    assert!(hear(&mut agent, &[1, 2], RETRY, Event::Woken).contains(&wanted(2)));
    assert_eq!(
        hear(&mut agent, &[1, 2], RETRY, short(1, 3)),
        [Action::Wake(PATIENCE)],
        "of the first search"
    );
    assert!(hear(&mut agent, &[1, 2], RETRY + PATIENCE, Event::Woken).contains(&wanted(3)));
    assert_eq!(hear(&mut agent, &[1, 2], 5000, Event::Dropped { request: 5 }), []);
}

#[test]
fn what_others_say_out_of_place_changes_nothing() {
    let mut agent = Hierarchical::new(2, 1);
    let hosts = [1, 2, 5];
    hear(&mut agent, &hosts, 0, Event::Load);
    let search = Search { home: 2, request: 1, round: 9, count: u32::MAX };
    for message in [
        Message::Free { level: 0, number: 5, free: u32::MAX, report: 1 },
        Message::Free { level: 1, number: 5, free: 1, report: 1 },
        Message::Free { level: u32::MAX, number: usize::MAX, free: 7, report: 1 },
        Message::Beside { number: usize::MAX, free: 3 },
        Message::Room(Search { home: 1, ..search }),
        Message::Short(u32::MAX, search),
        Message::Release(u32::MAX),
        Message::Wanted(u32::MAX, search),
        Message::Wanted(1, search),
        Message::Over(search, vec![usize::MAX; 3]),
        Message::Find { level: u32::MAX, split_at: 0, heard: 0, search },
        Message::Find { level: 0, split_at: u32::MAX, heard: 7, search },
    ] {
        hear(&mut agent, &hosts, 1, Event::Heard { from: 5, message });
    }
    assert!(agent.posts.values().all(|post| post.below.len() <= 2 && post.beside.is_empty()), "{agent:?}");
    assert_eq!(agent.promised.count(1), 4, "no more than there are");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// At each level above the lowest, a manager may not have been told of an eighth of the free workers. The result is at least 8/9 of
    /// the optimum for each of these levels, where the optimum is the lesser of the processes asked for and the free workers.
    #[test]
    fn rough_counts_hide_few_workers(
        workers in 1..600_usize,
        wide: bool,
        steps in proptest::collection::vec((any::<bool>(), any::<prop::sample::Index>(), 1..60_u32), 1..60),
    ) {
        let (mut policy, fan_out) = if wide { (agents::<11>(workers), 11) } else { (agents::<3>(workers), 3) };
        let mut bench = Bench::new(&vec![0; workers]);
        let levels = Tree { hosts: &(0..workers).collect::<Vec<_>>(), fan_out, committee: 1 }.top() as i32;
        for (id, (creates, index, count)) in (0..).zip(steps) {
            let host = index.index(workers);
            if creates {
                let free: BTreeSet<usize> = (0..workers).filter(|&worker| bench.loads[worker] == 0).collect();
                let hosts = bench.create(&mut policy, id, host, count);
                let used: BTreeSet<usize> = hosts.into_iter().filter(|host| free.contains(host)).collect();
                let best = free.len().min(count as usize) as f64;
                let bound = best * (8.0_f64 / 9.0).powi(levels - 1);
                prop_assert!(used.len() as f64 >= bound.floor(), "{} of {best}, at least {bound}", used.len());
            } else {
                // Those from there on end, some of them.
                for host in (host..workers).take(count as usize) {
                    while bench.loads[host] > 0 {
                        bench.end(&mut policy, host);
                    }
                }
            }
        }
    }
}
