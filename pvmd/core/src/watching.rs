//! How often this daemon checks that the other end of each link lives.
//!
//! In a machine of up to `most` hosts the master and each slave check each other at the full rate. In a larger one the hosts form a ring
//! by their indices: each host keeps a link to its predecessor and its successor, and checks these two at the full rate. The master and the
//! other slaves check each other at a rate that is lower by the factor by which the machine is larger than `most`. So the traffic of a
//! host has a bound that does not depend on the number of hosts: that of the master of `most` hosts.
//!
//! A host reports a silent neighbour to the master, which asks the silent host itself. Several hosts may be lost at once, so the master
//! then checks all links at the full rate for a while, and the reporting host its link to the master. The deputies and the master
//! check each other at the full rate always, since succession depends on it.

use super::hosts::Members;
use pvm_wire::HostIndex;
use std::collections::BTreeMap;
use std::time::Duration;

/// The rates of the checks.
#[derive(Debug)]
pub(crate) struct Watching {
    most: usize,
    silence: Duration,
    /// By which factor the interval between checks is longer, for each link.
    paces: BTreeMap<HostIndex, u32>,
    neighbours: Vec<HostIndex>,
    is_alarmed: bool,
    /// Whether members, the master, deputies or links have changed since the rates were computed.
    is_stale: bool,
}

/// What the rates depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub own: HostIndex,
    pub master: Option<HostIndex>,
    pub members: &'a Members,
    pub deputies: &'a [HostIndex],
}

/// What follows from a change.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// The successor: a link to it is made, unless there is one.
    pub next: Option<HostIndex>,
    /// Former neighbours, whose links may be left when they are idle.
    pub released: Vec<HostIndex>,
    pub paces: Vec<(HostIndex, u32)>,
}

impl Watching {
    pub fn new(most: usize, silence: Duration) -> Self {
        let (paces, neighbours) = (BTreeMap::new(), Vec::new());
        Self { most, silence, paces, neighbours, is_alarmed: false, is_stale: false }
    }

    /// Members, the master, deputies or links have changed.
    pub fn note_change(&mut self) {
        self.is_stale = true;
    }

    pub fn take_stale(&mut self) -> bool {
        std::mem::take(&mut self.is_stale)
    }

    /// A host may be lost: all links are checked at the full rate. Returns for how long, in a large machine.
    pub fn alarm(&mut self, members: &Members) -> Option<Duration> {
        self.is_large(members).then(|| {
            self.is_alarmed = true;
            self.is_stale = true;
            self.silence * 2
        })
    }

    pub fn end_alarm(&mut self) {
        self.is_alarmed = false;
        self.is_stale = true;
    }

    pub fn is_large(&self, members: &Members) -> bool {
        members.len() > self.most
    }

    /// Whether the other host is the predecessor or the successor, so that the link is kept.
    pub fn is_neighbour(&self, host: HostIndex) -> bool {
        self.neighbours.contains(&host)
    }

    pub fn neighbours(&self) -> &[HostIndex] {
        &self.neighbours
    }

    /// Computes neighbours and rates anew. `links` are the hosts to which there are links.
    pub fn settle(&mut self, view: View<'_>, links: &[HostIndex]) -> Change {
        let is_large = self.is_large(view.members);
        let around = view.members.around(view.own).filter(|_| is_large);
        let neighbours = around.map(|(before, next)| vec![before, next]).unwrap_or_default();
        let before = std::mem::replace(&mut self.neighbours, neighbours);
        let released = before.into_iter().filter(|host| !self.neighbours.contains(host)).collect();
        let mut paces = Vec::new();
        self.paces.retain(|host, _| links.contains(host));
        for &host in links {
            let pace = self.pace(host, view);
            let old = self.paces.insert(host, pace).unwrap_or(1);
            if old != pace {
                paces.push((host, pace));
            }
        }
        Change { next: around.map(|(_, next)| next), released, paces }
    }

    fn pace(&self, host: HostIndex, view: View<'_>) -> u32 {
        let is_master = view.master == Some(view.own);
        let is_of_master = is_master || view.master == Some(host);
        let are_deputies = view.deputies.contains(&host) && view.deputies.contains(&view.own);
        let is_close = self.is_alarmed
            || !self.is_large(view.members)
            || !view.members.contains(host)
            || !is_of_master
            || are_deputies
            || self.is_neighbour(host);
        if is_close { 1 } else { view.members.len().div_ceil(self.most.max(1)) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn host(index: u32) -> HostIndex {
        HostIndex::new(index).unwrap()
    }

    fn members(count: u32) -> Members {
        let mut members = Members::default();
        for index in 1..=count {
            let config = Config { index: host(index), ..Config::for_tests() };
            members.insert(config.entry());
        }
        members
    }

    fn settle(watching: &mut Watching, own: u32, members: &Members) -> Change {
        let deputies = [host(1), host(2), host(3)];
        let view = View { own: host(own), master: Some(host(1)), members, deputies: &deputies };
        let links: Vec<HostIndex> =
            if own == 1 { members.indices().skip(1).collect() } else { vec![host(1)] };
        watching.settle(view, &links)
    }

    #[test]
    fn in_a_small_machine_all_is_looked_at_closely() {
        let (mut watching, members) = (Watching::new(8, Duration::from_secs(3)), members(8));
        assert_eq!(settle(&mut watching, 1, &members), Change::default());
        assert_eq!(watching.alarm(&members), None);
    }

    #[test]
    fn in_a_large_machine_neighbours_look_at_each_other() {
        let (mut watching, members) = (Watching::new(8, Duration::from_secs(3)), members(24));
        let change = settle(&mut watching, 1, &members);
        // Deputies, and the neighbours 2 and 24, as closely as ever.
        assert_eq!(change.paces, (4..24).map(|n| (host(n), 3)).collect::<Vec<_>>());
        assert_eq!((change.next, watching.neighbours()), (Some(host(2)), &[host(24), host(2)][..]));
        assert_eq!(watching.alarm(&members), Some(Duration::from_secs(6)));
        assert_eq!(settle(&mut watching, 1, &members).paces.len(), 20);
        watching.end_alarm();
        assert_eq!(settle(&mut watching, 1, &members).paces.len(), 20);

        let mut watching = Watching::new(8, Duration::from_secs(3));
        let change = settle(&mut watching, 9, &members);
        assert_eq!((change.next, change.paces), (Some(host(10)), vec![(host(1), 3)]));
    }

    #[test]
    fn a_host_that_goes_is_followed_by_the_next() {
        let (mut watching, mut members) = (Watching::new(2, Duration::from_secs(3)), members(6));
        settle(&mut watching, 4, &members);
        assert_eq!(watching.neighbours(), [host(3), host(5)]);
        members.remove(host(5));
        let change = settle(&mut watching, 4, &members);
        assert_eq!((change.next, change.released), (Some(host(6)), vec![host(5)]));
    }

    #[test]
    fn nobody_has_more_to_do_than_the_master_of_a_small_machine() {
        for count in [256, 257, 1000, 4095] {
            let (mut watching, members) = (Watching::new(256, Duration::from_secs(3)), members(count));
            let change = settle(&mut watching, 1, &members);
            let rates = change.paces.iter().map(|(_, pace)| 1.0 / f64::from(*pace));
            let close = count as usize - 1 - change.paces.len();
            let rate = close as f64 + rates.sum::<f64>();
            assert!(rate <= 256.0 + 5.0, "{count} hosts: {rate}");
        }
    }
}
