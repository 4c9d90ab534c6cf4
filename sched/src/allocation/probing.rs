//! Sender-initiated and receiver-initiated: hosts ask each other at random, a limited number of times.

use super::{Machines, Policy, Request, Step, here};
use std::collections::VecDeque;

/// The hosts that were found in a certain state of late, the latest first: a history of the chronically over- or
/// underloaded, asked before random ones.
#[derive(Clone, Debug, Default)]
pub struct History {
    hosts: VecDeque<usize>,
    limit: usize,
}

impl History {
    /// A history of up to `limit` hosts. With 0 there is none.
    pub fn new(limit: usize) -> Self {
        Self { hosts: VecDeque::new(), limit }
    }

    /// A host was asked: it is, or is not, in that state.
    pub fn note(&mut self, host: usize, is_so: bool) {
        self.hosts.retain(|&other| other != host);
        if is_so {
            self.hosts.push_front(host);
            self.hosts.truncate(self.limit);
        }
    }
}

/// Asks up to `probes` hosts other than `own`, known ones first, until one is as wanted.
fn search(
    own: usize,
    probes: u32,
    history: &mut History,
    machines: &mut dyn Machines,
    wanted: impl Fn(u32) -> bool,
) -> Option<usize> {
    let hosts = machines.count();
    if hosts < 2 {
        return None;
    }
    let mut known: VecDeque<usize> = history.hosts.iter().take(probes as usize).copied().collect();
    for _ in 0..probes {
        // Any host but the own one, each equally likely.
        let random = (own + 1 + machines.random(hosts - 1)) % hosts;
        let host = known.pop_front().filter(|&host| host != own).unwrap_or(random);
        // A host that does not answer is neither idle nor overloaded.
        let found = machines.probe(host).is_some_and(&wanted);
        history.note(host, found);
        if found {
            return Some(host);
        }
    }
    None
}

/// Sender-initiated: a host that has enough to do asks others whether they have less than a threshold, and gives a new
/// process to the first that has; after some probes it keeps it.
#[derive(Clone, Debug)]
pub struct SenderInitiated {
    threshold: u32,
    probes: u32,
    history: History,
}

impl SenderInitiated {
    /// With these parameters. A history is not in the source for this side; 0 for none.
    pub fn new(threshold: u32, probes: u32, history: usize) -> Self {
        Self { threshold, probes, history: History::new(history) }
    }
}

impl Default for SenderInitiated {
    /// Three probes for a host with nothing to do.
    fn default() -> Self {
        Self::new(1, 3, 0)
    }
}

impl Policy for SenderInitiated {
    fn name(&self) -> &'static str {
        "sender-initiated"
    }

    fn created(&mut self, request: Request, machines: &mut dyn Machines) -> Vec<Step> {
        let own = machines.own_load(request.origin);
        let keeps = self.threshold.saturating_sub(own).min(request.count);
        let mut steps: Vec<Step> = here(&Request { count: keeps, ..request }).collect();
        // Loads do not include the processes of this request before the steps are carried out.
        let mut given: Vec<usize> = Vec::new();
        for _ in keeps..request.count {
            let threshold = self.threshold;
            let found =
                search(request.origin, self.probes, &mut self.history, machines, |load| load < threshold);
            let host = found.filter(|host| !given.contains(host)).unwrap_or(request.origin);
            if host != request.origin {
                machines.send(1);
                given.push(host);
            }
            steps.push(Step::Start { request: request.id, host });
        }
        steps
    }

    fn ended(&mut self, _: usize, _: &mut dyn Machines) -> Vec<Step> {
        Vec::new()
    }
}

/// Receiver-initiated: a host that has finished a process and has too little to do asks others for work. After some
/// probes it stops, and asks again after its next end or a fixed time.
#[derive(Clone, Debug)]
pub struct ReceiverInitiated {
    threshold: u32,
    probes: u32,
    history: History,
}

impl ReceiverInitiated {
    /// With these parameters: a host with fewer than `threshold` processes asks, one with more than that gives.
    pub fn new(threshold: u32, probes: u32, history: usize) -> Self {
        Self { threshold, probes, history: History::new(history) }
    }

    fn ask(&mut self, host: usize, machines: &mut dyn Machines) -> Vec<Step> {
        let threshold = self.threshold;
        if machines.own_load(host) >= threshold {
            return Vec::new();
        }
        let found = search(host, self.probes, &mut self.history, machines, |load| load > threshold);
        let Some(from) = found else { return Vec::new() };
        machines.send(1);
        vec![Step::Take { from, to: host }]
    }
}

impl Default for ReceiverInitiated {
    /// Three probes by a host with nothing to do, and a history of the overloaded.
    fn default() -> Self {
        Self::new(1, 3, 8)
    }
}

impl Policy for ReceiverInitiated {
    fn name(&self) -> &'static str {
        "receiver-initiated"
    }

    fn created(&mut self, request: Request, _: &mut dyn Machines) -> Vec<Step> {
        here(&request).collect()
    }

    fn ended(&mut self, host: usize, machines: &mut dyn Machines) -> Vec<Step> {
        self.ask(host, machines)
    }

    fn returned(&mut self, host: usize, machines: &mut dyn Machines) -> Vec<Step> {
        self.ask(host, machines)
    }

    fn interval(&self) -> Option<u64> {
        Some(5000)
    }

    fn timer(&mut self, host: usize, machines: &mut dyn Machines) -> Vec<Step> {
        self.ask(host, machines)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::*;

    #[test]
    fn a_sender_keeps_what_it_has_room_for_and_probes_no_more_than_it_may() {
        let mut policy = SenderInitiated::new(1, 3, 0);
        let mut bench = Bench::new(&[0, 5, 5, 5]);
        assert_eq!(bench.create(&mut policy, 1, 0, 1), [0]);
        assert_eq!(bench.messages, 0, "it had nothing to do itself");
        assert_eq!(bench.create(&mut policy, 2, 0, 1), [0], "all are busy");
        assert_eq!(bench.messages, 6, "three questions and answers");
        bench.loads = vec![9, 0, 0, 0];
        let host = bench.create(&mut policy, 3, 0, 1)[0];
        assert_ne!(host, 0);
        assert_eq!(bench.messages, 9, "the first had room");
    }

    #[test]
    fn a_receiver_takes_from_the_overloaded() {
        let mut policy = ReceiverInitiated::new(1, 3, 8);
        let mut bench = Bench::new(&[1, 4]);
        assert_eq!(bench.end(&mut policy, 0), [Step::Take { from: 1, to: 0 }]);
        assert_eq!(bench.loads, [1, 3]);
        assert_eq!(policy.timer(0, &mut bench), [], "it has enough to do");
        bench.loads = vec![0, 1];
        let before = bench.messages;
        assert_eq!(policy.timer(0, &mut bench), [], "what runs is not taken");
        assert_eq!(bench.messages - before, 6);
    }

    #[test]
    fn history_asks_the_chronically_overloaded_first() {
        let mut bench = Bench::new(&vec![0; 1000]);
        bench.loads[700] = 100;
        let mut policy = ReceiverInitiated::new(1, 20_000, 8);
        assert_eq!(policy.timer(0, &mut bench), [Step::Take { from: 700, to: 0 }]);
        let before = bench.messages;
        assert_eq!(policy.timer(1, &mut bench), [Step::Take { from: 700, to: 1 }]);
        assert_eq!(bench.messages - before, 3);
        bench.loads[700] = 0;
        assert_eq!(policy.timer(1, &mut bench), []);
        assert!(policy.history.hosts.is_empty(), "it has been found idle");
    }

    #[test]
    fn a_host_that_does_not_answer_gives_and_gets_nothing() {
        let mut bench = Bench::new(&[1, 0]);
        bench.away = vec![1];
        assert_eq!(bench.create(&mut SenderInitiated::default(), 1, 0, 1), [0]);
        bench.loads = vec![0, 9];
        assert_eq!(ReceiverInitiated::default().timer(0, &mut bench), []);
        assert_eq!(bench.messages, 12, "three questions each, without answers");
    }

    #[test]
    fn a_single_host_has_no_other_to_ask() {
        let mut bench = Bench::new(&[3]);
        assert_eq!(bench.create(&mut SenderInitiated::default(), 1, 0, 2), [0, 0]);
        bench.loads = vec![0];
        assert_eq!(ReceiverInitiated::default().timer(0, &mut bench), []);
        assert_eq!(bench.messages, 0);
    }
}
