//! Hierarchical allocation, as in MICROS: workers, managers above them, and a committee on top.
//!
//! A manager tracks roughly how many workers below it are free: it is notified of each change right below, and notifies its own
//! superior only when the number has changed by enough. A request for S processes is granted by reserving R > S, or
//! passed up; the level that has enough splits it and sends the parts down, where less may turn up than was thought.

use super::set::HostSet;
use super::simulated::{Algorithm, Machines, Request, Step, here};
use std::collections::BTreeSet;

/// A manager: its level, from 1 just above the workers, and its number within the level.
type Post = (usize, usize);

/// A manager's knowledge.
#[derive(Clone, Debug)]
struct Manager {
    /// The worker that does the job.
    host: usize,
    /// Free workers below, as far as it knows.
    free: i64,
    /// The number that it has reported to its superior.
    told: i64,
}

/// A dead manager's successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The level of the post, from 1.
    pub level: usize,
    /// Its number within the level.
    pub number: usize,
    /// The subordinate that takes over.
    pub successor: usize,
}

/// The policy: one process to a worker; what the whole tree has no room for stays where it was created.
#[derive(Clone, Debug)]
pub struct Hierarchical {
    fan_out: usize,
    free: HostSet,
    dead: BTreeSet<usize>,
    /// Level by level from 1; the last is the committee, which has one chair.
    levels: Vec<Vec<Manager>>,
    /// Processes on each worker.
    load: Vec<u32>,
}

/// `R = S + S / RESERVE + 1`: more is reserved than asked for, as some of it may not be there.
const RESERVE: u32 = 8;

impl Hierarchical {
    /// A tree over `workers` workers, each manager with up to `fan_out` subordinates (at least 2).
    pub fn new(workers: usize, fan_out: usize) -> Self {
        let fan_out = fan_out.max(2);
        let mut levels = Vec::new();
        let mut below = workers;
        let mut span = 1_usize;
        while below > 1 || levels.is_empty() {
            below = below.div_ceil(fan_out).max(1);
            span = span.saturating_mul(fan_out);
            let manager = |number: usize| {
                let first = (number * span).min(workers);
                let free = span.min(workers - first) as i64;
                Manager { host: first, free, told: free }
            };
            levels.push((0..below).map(manager).collect());
        }
        Self { fan_out, free: HostSet::full(workers), dead: BTreeSet::new(), levels, load: vec![0; workers] }
    }

    /// The worker that does a manager's job.
    pub fn manager(&self, level: usize, number: usize) -> Option<usize> {
        Some(self.levels.get(level.checked_sub(1)?)?.get(number)?.host)
    }

    /// A host has died. Each post that it held goes to one of its subordinates, which counts anew; the dead host gets no
    /// more processes.
    pub fn died(&mut self, host: usize) -> Vec<Repair> {
        if host >= self.load.len() || !self.dead.insert(host) {
            return Vec::new();
        }
        self.free.remove(host);
        self.load[host] = 0;
        let mut repairs = Vec::new();
        let mut number = host;
        // Whoever holds a post is below it, so this finds all.
        for level in 1..=self.levels.len() {
            number /= self.fan_out;
            if self.levels[level - 1][number].host == host {
                let below = self.count((level, number));
                let successor = self.successor((level, number));
                let manager = &mut self.levels[level - 1][number];
                (manager.free, manager.told) = (below, below);
                if let Some(successor) = successor {
                    manager.host = successor;
                    repairs.push(Repair { level, number, successor });
                }
            }
        }
        repairs
    }

    /// A dead host is back, as a worker. If all of its department had died, it is also in charge there.
    pub fn revived(&mut self, host: usize) {
        if !self.dead.remove(&host) {
            return;
        }
        self.free.insert(host);
        let mut number = host;
        for level in &mut self.levels {
            number /= self.fan_out;
            if self.dead.contains(&level[number].host) {
                level[number].host = host;
            }
        }
    }

    /// A live subordinate: a worker, or the holder of a post below.
    fn successor(&self, (level, number): Post) -> Option<usize> {
        let range = number * self.fan_out..(number + 1) * self.fan_out;
        let alive = |host: &usize| !self.dead.contains(host);
        if level == 1 {
            range.take_while(|&host| host < self.load.len()).find(alive)
        } else {
            range.filter_map(|child| self.manager(level - 1, child)).find(alive)
        }
    }

    /// The sum of the subordinates of a manager, if it asks them.
    fn count(&self, (level, number): Post) -> i64 {
        let range = number * self.fan_out..(number + 1) * self.fan_out;
        if level == 1 {
            range.filter(|&worker| self.free.contains(worker)).count() as i64
        } else {
            let below = &self.levels[level - 2];
            range.filter_map(|child| below.get(child)).map(|manager| manager.free).sum()
        }
    }

    /// A worker has become free or busy: its manager is notified, and those above as far as it matters.
    fn report(&mut self, worker: usize, change: i64, machines: &mut dyn Machines) {
        let (mut number, mut change) = (worker, change);
        for level in &mut self.levels {
            machines.send(1);
            number /= self.fan_out;
            let manager = &mut level[number];
            manager.free += change;
            change = manager.free - manager.told;
            // A change by an eighth is reported.
            if change.abs() <= manager.told.abs() / 8 {
                return;
            }
            manager.told = manager.free;
        }
    }

    /// Up to `count` free workers below a manager, which are busy from now on.
    fn grant(&mut self, (level, number): Post, count: u32, machines: &mut dyn Machines) -> Vec<usize> {
        let children = number * self.fan_out..(number + 1) * self.fan_out;
        if level == 1 {
            let mut workers = Vec::new();
            while workers.len() < count as usize
                && let Some(worker) =
                    self.free.next(children.start).filter(|worker| children.contains(worker))
            {
                self.free.remove(worker);
                self.report(worker, -1, machines);
                workers.push(worker);
            }
            return workers;
        }
        let mut workers = Vec::new();
        let below = self.levels[level - 2].len();
        for child in children.take_while(|&child| child < below) {
            let left = count - workers.len() as u32;
            if left == 0 {
                break;
            }
            let has = self.levels[level - 2][child].free.max(0);
            let part = left.min(u32::try_from(has).unwrap_or(u32::MAX));
            if part > 0 {
                machines.send(2);
                workers.extend(self.grant((level - 1, child), part, machines));
            }
        }
        workers
    }
}

impl Algorithm for Hierarchical {
    fn name(&self) -> &'static str {
        "hierarchical"
    }

    fn created(&mut self, request: Request, machines: &mut dyn Machines) -> Vec<Step> {
        if request.origin >= self.load.len() {
            return here(&request).collect();
        }
        let reserve = request.count.saturating_add(request.count / RESERVE).saturating_add(1);
        let mut workers = Vec::new();
        let mut number = request.origin;
        for level in 1..=self.levels.len() {
            machines.send(1);
            number /= self.fan_out;
            let top = level == self.levels.len();
            let left = request.count - workers.len() as u32;
            if left > 0 && (top || self.levels[level - 1][number].free >= i64::from(reserve)) {
                workers.extend(self.grant((level, number), left, machines));
            }
            if workers.len() == request.count as usize {
                break;
            }
        }
        workers.resize(request.count as usize, request.origin);
        for &worker in &workers {
            self.load[worker] += 1;
            if self.free.remove(worker) {
                self.report(worker, -1, machines);
            }
        }
        workers.into_iter().map(|host| Step::asked(&request, host)).collect()
    }

    fn ended(&mut self, host: usize, machines: &mut dyn Machines) -> Vec<Step> {
        if let Some(load) = self.load.get_mut(host) {
            *load = load.saturating_sub(1);
            if *load == 0 && !self.dead.contains(&host) && self.free.insert(host) {
                self.report(host, 1, machines);
            }
        }
        Vec::new()
    }

    fn left(&mut self, host: usize, machines: &mut dyn Machines) -> Vec<Step> {
        if self.free.remove(host) {
            self.report(host, -1, machines);
        }
        let subordinates = self.fan_out as u64;
        for _ in self.died(host) {
            // The successor asks all its new subordinates, and notifies its superior.
            machines.send(2 * subordinates + 1);
        }
        Vec::new()
    }

    fn returned(&mut self, host: usize, machines: &mut dyn Machines) -> Vec<Step> {
        if self.dead.contains(&host) {
            self.revived(host);
            self.report(host, 1, machines);
        }
        Vec::new()
    }
}

#[cfg(test)]
#[path = "hierarchy_small.rs"]
mod small;

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::*;

    #[test]
    fn the_tree_covers_all_workers() {
        let tree = Hierarchical::new(100, 4);
        assert_eq!(tree.levels.iter().map(Vec::len).collect::<Vec<_>>(), [25, 7, 2, 1]);
        assert_eq!(tree.levels[3][0].free, 100);
        assert_eq!(Hierarchical::new(0, 4).levels[0][0].free, 0);
        assert_eq!(Hierarchical::new(1, 0).levels.len(), 1);
    }

    #[test]
    fn a_small_request_stays_in_its_department_and_a_large_one_goes_up() {
        let mut tree = Hierarchical::new(64, 8);
        let mut bench = Bench::new(&[0; 64]);
        assert_eq!(bench.create(&mut tree, 1, 20, 3), [16, 17, 18]);
        // Five are left there; five and the reserve are more than that.
        let hosts = bench.create(&mut tree, 2, 20, 30);
        assert!(hosts.iter().any(|host| !(16..24).contains(host)));
        assert!(bench.loads.iter().all(|&load| load <= 1));
        assert_eq!(
            bench.create(&mut tree, 3, 5, 40).iter().filter(|&&host| host == 5).count(),
            9,
            "31 were free"
        );
    }

    #[test]
    fn a_dead_manager_is_replaced_by_a_subordinate() {
        let mut tree = Hierarchical::new(64, 8);
        let mut bench = Bench::new(&[0; 64]);
        // Worker 0 heads its department and the committee.
        let repairs = tree.died(0);
        assert_eq!(
            repairs,
            [Repair { level: 1, number: 0, successor: 1 }, Repair { level: 2, number: 0, successor: 1 }]
        );
        assert_eq!(tree.died(0), []);
        assert_eq!(tree.manager(2, 0), Some(1));
        assert_eq!(tree.died(9), [], "a worker with no post");
        let hosts = bench.create(&mut tree, 1, 30, 62);
        assert!(!hosts.contains(&0) && !hosts.contains(&9));
        assert!(bench.loads.iter().all(|&load| load <= 1), "all others are used");
    }

    #[test]
    fn a_returned_host_works_again_and_replaces_managers_that_all_died() {
        let mut tree = Hierarchical::new(8, 2);
        let mut bench = Bench::new(&[0; 8]);
        assert_eq!(bench.leave(&mut tree, 0).0, 0);
        assert_eq!(bench.messages, 3 + 3 * 5, "all levels hear of it, and three posts are filled");
        assert_eq!((tree.manager(1, 0), tree.manager(3, 0)), (Some(1), Some(1)));
        bench.leave(&mut tree, 1);
        assert_eq!(tree.manager(3, 0), Some(2), "the last of the department hands on what it held");
        assert_eq!(bench.come_back(&mut tree, 0), []);
        assert_eq!((tree.manager(1, 0), tree.manager(2, 0), tree.manager(3, 0)), (Some(0), Some(2), Some(2)));
        let mut hosts = bench.create(&mut tree, 1, 4, 7);
        hosts.sort_unstable();
        assert_eq!(hosts, [0, 2, 3, 4, 5, 6, 7], "all but the one that is away");
    }

    #[test]
    fn with_all_of_a_department_dead_the_post_is_void() {
        let mut tree = Hierarchical::new(8, 2);
        for host in 0..8 {
            tree.died(host);
        }
        let mut bench = Bench::new(&[0; 8]);
        assert_eq!(bench.create(&mut tree, 1, 3, 2), [3, 3], "nobody is left but who asks");
    }
}
