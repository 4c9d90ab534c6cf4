//! Small trees, compared with all that could have been done.

use super::super::testing::Bench;
use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A tree whose workers in `busy`, bit by bit, have something to do, which their managers have heard.
fn tree(workers: usize, fan_out: usize, busy: u32) -> Hierarchical {
    let mut tree = Hierarchical::new(workers, fan_out);
    let mut bench = Bench::new(&vec![0; workers]);
    for worker in (0..workers).filter(|&worker| busy >> worker & 1 > 0) {
        tree.load[worker] = 1;
        tree.free.remove(worker);
        tree.report(worker, -1, &mut bench);
    }
    tree
}

/// The lowest level at which one manager is above all of these workers.
fn height(fan_out: usize, workers: impl IntoIterator<Item = usize>) -> usize {
    let mut numbers: BTreeSet<usize> = workers.into_iter().collect();
    let mut level = 0;
    while numbers.len() > 1 || level == 0 {
        numbers = numbers.into_iter().map(|number| number / fan_out).collect();
        level += 1;
    }
    level
}

/// The lowest level that has room for so many processes near the one who asks: all ways to choose the workers.
fn lowest(fan_out: usize, free: &[usize], origin: usize, count: usize) -> Option<usize> {
    let chosen = |set: u32| (0..free.len()).filter(move |&at| set >> at & 1 > 0).map(|at| free[at]);
    (0..1_u32 << free.len())
        .filter(|set| set.count_ones() as usize == count)
        .map(|set| height(fan_out, chosen(set).chain([origin])))
        .min()
}

/// As long as no manager has so many workers below it that an eighth of them goes untold, all is known: then as many
/// processes get a worker of their own as there are free ones, and no further away than where R of them are free.
#[test]
fn known_machines_are_used_nearest_first() {
    for (workers, fan_out) in [(1, 2), (4, 2), (7, 2), (7, 3)] {
        for busy in 0..1_u32 << workers {
            let free: Vec<usize> = (0..workers).filter(|&worker| busy >> worker & 1 == 0).collect();
            for origin in 0..workers {
                for count in 1..=workers + 1 {
                    let mut tree = tree(workers, fan_out, busy);
                    let mut bench = Bench::new(&vec![0; workers]);
                    let hosts = bench.create(&mut tree, 1, origin, count as u32);
                    let what = format!(
                        "{count} from {origin} of {workers}, {fan_out} each, busy {busy:b}: {hosts:?}"
                    );
                    let alone: BTreeSet<usize> =
                        hosts.iter().copied().filter(|host| free.contains(host)).collect();
                    assert_eq!(alone.len(), count.min(free.len()), "{what}");
                    assert!(hosts.iter().all(|host| alone.contains(host) || *host == origin), "{what}");
                    let Some(least) = lowest(fan_out, &free, origin, count) else { continue };
                    let reserve = count + count / RESERVE as usize + 1;
                    let most = lowest(fan_out, &free, origin, reserve).unwrap_or(tree.levels.len());
                    let ours = height(fan_out, hosts.into_iter().chain([origin]));
                    assert!((least..=most).contains(&ours), "{what}: {ours} is not in {least} to {most}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// In trees of any size a manager is told late, but of no more than an eighth at each level: of the best there is, all
    /// that ask or all that are free, at least 8/9 for each level above those who hear at once.
    #[test]
    fn rough_counts_hide_few_workers(
        workers in 1..600_usize,
        fan_out in 2..20_usize,
        steps in proptest::collection::vec((any::<bool>(), any::<prop::sample::Index>(), 1..60_u32), 1..60),
    ) {
        let mut tree = Hierarchical::new(workers, fan_out);
        let mut bench = Bench::new(&vec![0; workers]);
        let levels = tree.levels.len() as i32;
        for (id, (creates, index, count)) in (0..).zip(steps) {
            let host = index.index(workers);
            if creates {
                let free: BTreeSet<usize> = (0..workers).filter(|&worker| bench.loads[worker] == 0).collect();
                let hosts = bench.create(&mut tree, id, host, count);
                let used: BTreeSet<usize> = hosts.into_iter().filter(|host| free.contains(host)).collect();
                let best = free.len().min(count as usize) as f64;
                let bound = best * (8.0_f64 / 9.0).powi((levels - 2).max(0));
                prop_assert!(used.len() as f64 >= bound.floor(), "{} of {best}, at least {bound}", used.len());
            } else {
                // Those from there on end, some of them.
                for host in (host..workers).take(count as usize) {
                    while bench.loads[host] > 0 {
                        bench.end(&mut tree, host);
                    }
                }
            }
        }
    }
}
