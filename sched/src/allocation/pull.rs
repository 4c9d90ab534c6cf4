//! Active pulling behind the same interface: [`crate::pulling`]'s formula decides, as it does in the task manager.

use super::{Machines, Policy, Request, Step};
use crate::pulling::{application, share};
use std::collections::{BTreeSet, VecDeque};

/// The hosts are told of each batch, apply in random order, and are given `N` tasks each. Hosts are of equal capability.
/// Tasks for which nobody has room wait until a host has drained.
#[derive(Clone, Debug)]
pub struct Pull {
    /// `P`, each host's threshold.
    threshold: u64,
    /// Batches with tasks left: request and `T_c`.
    batches: VecDeque<(u64, u64)>,
    /// Hosts that do not apply.
    away: BTreeSet<usize>,
}

impl Pull {
    /// With this threshold.
    pub fn new(threshold: u64) -> Self {
        Self { threshold, batches: VecDeque::new(), away: BTreeSet::new() }
    }

    /// A host applies to the oldest batch: what it is given.
    fn apply(&mut self, host: usize, load: u32, silent: u64, machines: &mut dyn Machines) -> Vec<Step> {
        let Some((request, t_c)) = self.batches.front_mut() else { return Vec::new() };
        let n = share(application(self.threshold, load.into()), *t_c, silent, 1.0, 1.0);
        if n == 0 {
            return Vec::new();
        }
        machines.send(2);
        *t_c -= n;
        let steps = vec![Step::Start { request: *request, host }; n as usize];
        if *t_c == 0 {
            machines.send(machines.count() as u64);
            self.batches.pop_front();
        }
        steps
    }
}

impl Default for Pull {
    /// One task to a processor.
    fn default() -> Self {
        Self::new(1)
    }
}

impl Policy for Pull {
    fn name(&self) -> &'static str {
        "active pulling"
    }

    fn created(&mut self, request: Request, machines: &mut dyn Machines) -> Vec<Step> {
        if request.count == 0 {
            return Vec::new();
        }
        let hosts = machines.count();
        machines.send(hosts as u64);
        self.batches.push_back((request.id, request.count.into()));
        let mut steps = Vec::new();
        if self.batches.len() > 1 {
            // Whoever has room has applied to the batch before.
            return steps;
        }
        // A random order without a list of all: a random start, and a stride that has no divisor in common with the
        // number of hosts.
        let (start, stride) = (machines.random(hosts), coprime(1 + machines.random(hosts), hosts));
        for n in 0..hosts {
            let host = (start + n * stride) % hosts;
            if self.away.contains(&host) {
                continue;
            }
            let load = machines.own_load(host);
            steps.extend(self.apply(host, load, (hosts - n) as u64, machines));
            if self.batches.is_empty() {
                break;
            }
        }
        steps
    }

    fn ended(&mut self, host: usize, machines: &mut dyn Machines) -> Vec<Step> {
        let (mut steps, mut load) = (Vec::new(), machines.own_load(host));
        loop {
            let given = self.apply(host, load, machines.count() as u64, machines);
            if given.is_empty() {
                return steps;
            }
            load += given.len() as u32;
            steps.extend(given);
        }
    }

    fn left(&mut self, host: usize, _: &mut dyn Machines) {
        self.away.insert(host);
    }

    fn returned(&mut self, host: usize, machines: &mut dyn Machines) -> Vec<Step> {
        self.away.remove(&host);
        self.ended(host, machines)
    }
}

/// The first number from `from` on that has no divisor in common with `n`.
fn coprime(from: usize, n: usize) -> usize {
    let gcd = |mut a: usize, mut b: usize| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    // Of n consecutive numbers one has none; if n is 0, no number is needed.
    (from..from + n).find(|&candidate| gcd(candidate, n) == 1).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::*;

    #[test]
    fn hosts_with_room_share_a_batch() {
        let mut bench = Bench::new(&[0, 0, 4, 0]);
        let mut hosts = bench.create(&mut Pull::new(4), 1, 0, 9);
        hosts.sort_unstable();
        assert!(!hosts.contains(&2), "it is full");
        assert_eq!(hosts.len(), 9);
        assert!(bench.loads.iter().all(|&load| load <= 4), "{:?}", bench.loads);
        assert_eq!(bench.messages, 4 + 2 * 3 + 4);
    }

    #[test]
    fn the_rest_waits_for_a_host_to_drain() {
        let mut bench = Bench::new(&[0, 0]);
        let mut policy = Pull::new(1);
        assert_eq!(bench.create(&mut policy, 1, 0, 3).len(), 2);
        assert_eq!(bench.create(&mut policy, 2, 0, 1), [0; 0]);
        assert_eq!(bench.end(&mut policy, 1), [Step::Start { request: 1, host: 1 }]);
        assert_eq!(bench.end(&mut policy, 0), [Step::Start { request: 2, host: 0 }]);
        assert_eq!(bench.end(&mut policy, 0), []);
    }
}
