//! The same model but for one thing: a job asks for its bandwidth while it exchanges messages, and not while it computes.

use super::orders::{CLUSTERS, COMMUNICATION};
use super::predict::link;
use pvm_sched::coallocation::Progress;
use pvm_sched::coallocation::model::link_demand;
use pvm_sched::queues::Spread;
use std::collections::BTreeMap;

/// A job that spans clusters.
#[derive(Debug)]
struct Flow {
    /// Bits per second, of each cluster's link, while it exchanges messages.
    demand: Vec<f64>,
    /// How long it computes, and how long it exchanges messages on free links.
    times: (f64, f64),
    progress: Progress,
    changed: u64,
}

/// All jobs that span clusters, by their places.
#[derive(Debug, Default)]
pub struct Flows(BTreeMap<usize, Flow>);

impl Flows {
    /// A job starts that runs for `run` milliseconds in the fastest cluster.
    pub fn start(&mut self, place: usize, spread: &Spread, bandwidth: u64, run: u64, now: u64) {
        if !spread.spans() {
            return;
        }
        let tasks = |name: &str| spread.shares.get(&Some(name.to_owned())).copied().unwrap_or(0);
        let width = spread.shares.values().sum();
        let demand =
            CLUSTERS.map(|cluster| link_demand(bandwidth as f64, tasks(cluster.name), width)).to_vec();
        let times = (run as f64 * spread.factor, run as f64 * COMMUNICATION);
        let progress = Progress::new(times.0, times.1);
        self.0.insert(place, Flow { demand, times, progress, changed: now });
        self.share(now);
    }

    /// A job has ended.
    pub fn end(&mut self, place: usize, now: u64) {
        if self.0.remove(&place).is_some() {
            self.share(now);
        }
    }

    /// When a job ends as things are; `None` if it spans no clusters.
    pub fn end_of(&self, place: usize) -> Option<u64> {
        let flow = self.0.get(&place)?;
        Some(flow.changed + flow.progress.left().ceil() as u64)
    }

    /// Other jobs use the links from now on.
    fn share(&mut self, now: u64) {
        let shared: Vec<f64> = (0..CLUSTERS.len()).map(|at| self.shared(at)).collect();
        for flow in self.0.values_mut() {
            // Alone, too, it has no more than there is.
            let of = |at: usize| shared[at].min(link() as f64 / flow.demand[at]);
            let used = (0..CLUSTERS.len()).filter(|&at| flow.demand[at] > 0.0);
            let ff = used.map(of).fold(1.0, f64::min);
            flow.progress.change(now.saturating_sub(flow.changed) as f64, ff);
            flow.changed = now;
        }
    }

    /// The greatest flex factor with which all that jobs send in a long time passes a link.
    fn shared(&self, at: usize) -> f64 {
        let load = |ff: f64| -> f64 {
            let part = |flow: &Flow| flow.demand[at] * flow.times.1 / (flow.times.0 + flow.times.1 / ff);
            self.0.values().map(part).sum()
        };
        let room = link() as f64;
        if load(1.0) <= room {
            return 1.0;
        }
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..40 {
            let middle = f64::midpoint(low, high);
            if load(middle) <= room { low = middle } else { high = middle }
        }
        high
    }
}
