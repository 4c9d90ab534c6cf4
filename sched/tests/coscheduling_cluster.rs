//! The conflict of two jobs on a whole cluster: every node runs one of them, both send, exactly one prevails everywhere.

use pvm_sched::coscheduling::{Epoch, Node};
use std::collections::VecDeque;
use std::time::Duration;

const SEEDS: u64 = 1000;
const SLICE: Duration = Duration::from_millis(100);

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }
}

struct Cluster {
    nodes: Vec<Node<usize>>,
    /// On their way, per receiver, in the order of their sending: the job, the epoch.
    wires: Vec<VecDeque<(usize, Epoch)>>,
    random: Random,
    delivered: usize,
}

impl Cluster {
    /// Nodes of different age, each of which has just begun a slice of one of the jobs.
    fn new(size: usize, jobs: usize, seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let eldest = [0, 3, u64::MAX - 1][random.below(3)];
        let nodes = (0..size).map(|index| {
            let mut node = Node::new(2 * SLICE).named(index as u32 + 1);
            let age = Epoch { count: eldest.wrapping_add(random.below(3) as u64), origin: 0 };
            // A node follows any epoch that is less than half of all numbers ahead.
            node.arrived(0, Epoch::new(eldest / 2), false);
            node.arrived(0, age, false);
            node.slice_ended(Some(random.below(jobs)));
            node
        });
        Self { nodes: nodes.collect(), wires: vec![VecDeque::new(); size], random, delivered: 0 }
    }

    /// The job that runs on a node sends to both its neighbours, as a bulk-synchronous program does.
    fn send_from(&mut self, from: usize) {
        let size = self.nodes.len();
        let Some(job) = self.nodes[from].running() else { return };
        for to in [(from + 1) % size, (from + size - 1) % size] {
            self.wires[to].push_back((job, self.nodes[from].epoch()));
        }
    }

    /// Any message in flight arrives, perhaps long after others that were sent later.
    fn deliver(&mut self) -> bool {
        let waiting: Vec<usize> = (0..self.wires.len()).filter(|&to| !self.wires[to].is_empty()).collect();
        if waiting.is_empty() {
            return false;
        }
        let to = waiting[self.random.below(waiting.len())];
        let at = self.random.below(self.wires[to].len());
        let Some((job, epoch)) = self.wires[to].remove(at) else { return false };
        self.delivered += 1;
        let before = self.nodes[to].epoch();
        self.nodes[to].arrived(job, epoch, false);
        if self.nodes[to].epoch() != before {
            self.send_from(to);
        }
        true
    }

    fn is_coscheduled(&self) -> bool {
        self.nodes.iter().all(|node| node.running() == self.nodes[0].running())
    }
}

#[test]
fn exactly_one_job_prevails_on_all_nodes() {
    for seed in 0..SEEDS {
        let size = 2 + (seed as usize * 7) % 63;
        let jobs = 2 + seed as usize % 3;
        let mut cluster = Cluster::new(size, jobs, seed);
        let greatest = cluster.nodes.iter().max_by(|a, b| {
            let after = a.epoch().is_after(b.epoch());
            if after { std::cmp::Ordering::Greater } else { std::cmp::Ordering::Less }
        });
        let expected = greatest.and_then(Node::running);
        (0..size).for_each(|node| cluster.send_from(node));
        while cluster.deliver() {}
        assert!(cluster.is_coscheduled(), "seed {seed}, {size} nodes, {jobs} jobs");
        assert_eq!(cluster.nodes[0].running(), expected, "seed {seed}: the youngest order prevails");
        // A node adopts at most every order that there was, and then sends to two.
        assert!(cluster.delivered <= 2 * size * (size + 1), "seed {seed}: {} messages", cluster.delivered);
    }
}

/// Slices end everywhere on their own clocks, and the jobs still run together most of the time, in equal parts.
#[test]
fn jobs_run_together_although_no_clocks_agree() {
    for seed in 0..4 {
        let size = 2 + seed as usize * 5;
        let mut cluster = Cluster::new(size, 2, seed);
        let mut ends: Vec<usize> = (0..size).map(|_| cluster.random.below(100)).collect();
        let (mut together, mut used) = (0, [0_usize; 2]);
        let steps = 5_000;
        for now in 0..steps {
            for (node, end) in ends.iter_mut().enumerate() {
                cluster.nodes[node].charge(Duration::from_millis(1));
                let before = cluster.nodes[node].running();
                if *end <= now {
                    let next = cluster.nodes[node].turn(&[0, 1], |_| true);
                    cluster.nodes[node].slice_ended(next);
                    *end = now + 100;
                }
                used[before.unwrap_or(0)] += 1;
                if (now + node) % 4 == 0 {
                    cluster.send_from(node);
                }
            }
            let before: Vec<_> = cluster.nodes.iter().map(Node::running).collect();
            while cluster.deliver() {}
            for (node, end) in ends.iter_mut().enumerate() {
                if cluster.nodes[node].running() != before[node] {
                    *end = now + 100;
                }
            }
            together += usize::from(cluster.is_coscheduled());
        }
        assert!(together * 10 >= steps * 9, "seed {seed}, {size} nodes: together in {together} of {steps}");
        let difference = used[0].abs_diff(used[1]) * 100 / (used[0] + used[1]);
        assert!(difference <= 5, "seed {seed}: {used:?}");
    }
}
