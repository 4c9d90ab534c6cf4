//! The clusters, and the jobs that are submitted to them: a workload of the Lublin–Feitelson model, made so small that daemons can run it.

use pvm_sim::random::Random;
use pvm_sim::workload::{Job, Lublin};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A cluster.
#[derive(Clone, Copy, Debug)]
pub struct Cluster {
    /// Its name.
    pub name: &'static str,
    /// Its slots: nodes, in the terms of the paper.
    pub slots: u32,
    /// `h`.
    pub factor: f64,
}

/// The paper's nodes and links are divided by this.
const PART: f64 = 30.0;

/// The paper's clusters, with a thirtieth of their nodes.
pub const CLUSTERS: [Cluster; 3] = [
    Cluster { name: "fast", slots: 12, factor: 1.0 },
    Cluster { name: "middle", slots: 4, factor: 2.0 },
    Cluster { name: "slow", slots: 2, factor: 4.0 },
];

/// The link of each, with a thirtieth of the paper's bandwidth, in scaled Mbit/s.
pub const LINK: f64 = 1000.0 / PART;

/// Bits per second of a scaled Mbit/s.
pub const MEGABIT: f64 = 250_000.0;

/// `T_C` on free links of a job that spans clusters, as a part of its `T_0`, as in `pvm sim coallocation`.
pub const COMMUNICATION: f64 = 0.7;

/// The mean width of jobs.
const WIDTH: f64 = 2.5;
/// Jobs come so fast that they ask for this part of what the clusters can do, as in `pvm sim coallocation`.
const LOAD: f64 = 1.5;

/// The shortest run and the longest, in milliseconds: starts take time, and the longest job must not last for most of a run in the slowest
/// cluster.
const SHORTEST: f64 = 200.0;
const LONGEST: f64 = 2_000.0;

/// The file for what tasks and agents print.
pub const OUTPUT: &str = "output";

/// A job. Times are milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// When it is submitted.
    pub submit: u64,
    /// `T_0`.
    pub run: u64,
    /// Its tasks.
    pub width: u32,
    /// The number of the cluster in which it is submitted.
    pub home: usize,
}

/// A run: what is submitted, where, and how tasks find their slots.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Submissions {
    /// The queue.
    pub queue: String,
    /// The hosts at which jobs are submitted, by the number of the cluster.
    pub homes: Vec<String>,
    /// A folder with a file for each host, which has the control groups of its slots.
    pub folder: PathBuf,
    /// `BWBN` in bits per second; 0: messages between clusters are free, and not sent.
    pub bandwidth: u64,
    /// Cores of a slot of the fastest cluster.
    pub cores: f64,
    /// The jobs, in the order of their submission.
    pub orders: Vec<Order>,
}

/// A job that has ended. Times are milliseconds since 1970.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ended {
    /// Its place among the orders.
    pub place: usize,
    /// Why it has not ended well; empty if it has.
    pub failure: String,
    /// When it was submitted.
    pub submitted: u64,
    /// When its first task started.
    pub started: u64,
    /// When it ended.
    pub ended: u64,
    /// When it was to end by the model in the daemon, as it was at the end.
    pub predicted: Option<u64>,
    /// Clusters that it had slots of.
    pub clusters: usize,
}

/// What all clusters do together, in slots of the fastest.
pub fn capacity() -> f64 {
    CLUSTERS.iter().map(|cluster| f64::from(cluster.slots) / cluster.factor).sum()
}

/// All slots.
pub fn slots() -> u32 {
    CLUSTERS.iter().map(|cluster| cluster.slots).sum()
}

/// `count` jobs of a seed, which would keep all clusters busy for `busy` milliseconds if none waited, communicated or left a slot unused.
pub fn orders(seed: u64, count: usize, busy: f64) -> Vec<Order> {
    let largest = CLUSTERS.iter().map(|cluster| cluster.slots).max().unwrap_or(1);
    // Jobs for the paper's nodes: widths of few nodes would nearly all be powers of two.
    let nodes = largest * PART as u32;
    let model = Lublin::new(seed, nodes, 1).widened(WIDTH * PART, nodes).seeded(seed);
    let narrow = |job: Job| Job { width: (f64::from(job.width) / PART).round().max(1.0) as u32, ..job };
    let jobs: Vec<Job> = model.take(count).map(narrow).collect();
    let run = |job: &Job, scale: f64| (job.run * scale).clamp(SHORTEST, LONGEST);
    let work = |scale: f64| jobs.iter().map(|job| run(job, scale) * f64::from(job.width)).sum::<f64>();
    // Found by trial, as very short and very long runs are cut.
    let (mut low, mut high) = (0.0, LONGEST);
    for _ in 0..60 {
        let scale = f64::midpoint(low, high);
        if work(scale) < busy * capacity() { low = scale } else { high = scale }
    }
    let first = jobs.first().map_or(0.0, |job| job.submit);
    let span = jobs.last().map_or(1.0, |job| job.submit - first).max(1.0);
    // As the simulator chooses them with this seed.
    let mut random = Random::part(seed, 2);
    let order = |job: &Job| Order {
        submit: ((job.submit - first) / span * busy / LOAD).round() as u64,
        run: run(job, high).round() as u64,
        width: job.width,
        home: home(job.width, &mut random),
    };
    jobs.iter().map(order).collect()
}

/// Any cluster that is large enough.
fn home(width: u32, random: &mut Random) -> usize {
    let large: Vec<usize> = (0..CLUSTERS.len()).filter(|&at| CLUSTERS[at].slots >= width).collect();
    large.get(random.below(large.len())).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_ask_for_as_much_as_they_are_to() {
        let orders = orders(1, 100, 20_000.0);
        assert_eq!(orders.len(), 100);
        let work: f64 = orders.iter().map(|order| order.run as f64 * f64::from(order.width)).sum();
        assert!((work / capacity() / 20_000.0 - 1.0).abs() < 0.02, "{work}");
        let span = orders.iter().map(|order| order.submit).max();
        assert!(span.is_some_and(|span| span.abs_diff(13_333) <= 1), "{span:?}");
        assert!(orders.windows(2).all(|pair| pair[0].submit <= pair[1].submit));
        assert!(orders.iter().all(|order| order.width <= CLUSTERS[order.home].slots && order.width > 0));
        let homes = (0..CLUSTERS.len()).map(|home| orders.iter().filter(|order| order.home == home).count());
        assert!(homes.into_iter().all(|count| count > 2));
        assert!(orders.iter().filter(|order| order.width > 4).count() > 5);
    }
}
