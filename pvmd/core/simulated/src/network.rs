//! Links between daemons as QUIC makes them seem: in order and whole while they stand, held back while packets do not
//! get through, and at some time broken, which each end notices at a time of its own.

use pvm_wire::HostIndex;
use pvm_wire::daemon::DaemonMsg;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What travels over a link.
#[derive(Debug)]
pub enum Packet {
    /// A message.
    Message(DaemonMsg),
    /// The sender has closed the link.
    Close,
}

/// One host's end of a link, and what it sends.
#[derive(Debug, Default)]
pub struct End {
    /// It sends and hears.
    pub open: bool,
    /// Its daemon has been told that the link stands.
    pub known: bool,
    /// What it sends does not get through, since the cut with this number.
    pub cut: Option<u64>,
    held: Vec<Packet>,
    /// When the last packet arrives.
    last: Duration,
    /// The link's number, which no other link has.
    pub number: u64,
}

/// All links. Ends are named by their own host and the other.
#[derive(Debug, Default)]
pub struct Network {
    ends: BTreeMap<(HostIndex, HostIndex), End>,
    /// Hosts that cannot reach each other.
    parted: BTreeSet<(HostIndex, HostIndex)>,
    /// Links in the making: who dials whom.
    pub dials: BTreeSet<(HostIndex, HostIndex)>,
    cuts: u64,
    established: u64,
}

impl Network {
    /// The first host's end of its link with the second.
    pub fn end(&mut self, own: HostIndex, other: HostIndex) -> &mut End {
        self.ends.entry((own, other)).or_default()
    }

    /// The number of the link of which the first host's end is open.
    pub fn open_link(&self, own: HostIndex, other: HostIndex) -> Option<u64> {
        self.ends.get(&(own, other)).filter(|end| end.open).map(|end| end.number)
    }

    /// Whether that end is open.
    pub fn is_open(&self, own: HostIndex, other: HostIndex) -> bool {
        self.ends.get(&(own, other)).is_some_and(|end| end.open)
    }

    /// Hosts whose end of a link with this one is open.
    pub fn others(&self, host: HostIndex) -> Vec<HostIndex> {
        self.ends
            .iter()
            .filter(|((_, to), end)| *to == host && end.open)
            .map(|(&(from, _), _)| from)
            .collect()
    }

    /// Both ends stand. Nothing arrives at one before it is known there.
    pub fn establish(&mut self, a: (HostIndex, Duration), b: (HostIndex, Duration)) {
        self.established += 1;
        let number = self.established;
        for ((own, _), (other, known_there)) in [(a, b), (b, a)] {
            let end = self.end(own, other);
            *end = End { open: true, last: known_there, number, ..End::default() };
        }
    }

    /// Sends a packet: when it arrives, and the packet itself; `None` if it is held back or lost.
    pub fn send(
        &mut self,
        from: HostIndex,
        to: HostIndex,
        packet: Packet,
        earliest: Duration,
    ) -> Option<(Duration, Packet)> {
        let end = self.ends.get_mut(&(from, to)).filter(|end| end.open)?;
        if end.cut.is_some() {
            end.held.push(packet);
            return None;
        }
        Some((self.arrival(from, to, earliest), packet))
    }

    /// When a packet arrives that is on its way now.
    pub fn arrival(&mut self, from: HostIndex, to: HostIndex, earliest: Duration) -> Duration {
        let end = self.end(from, to);
        end.last = end.last.max(earliest);
        end.last
    }

    /// From now on nothing gets through from the first to the second; gives the number of the cut.
    pub fn cut(&mut self, from: HostIndex, to: HostIndex) -> Option<u64> {
        self.cuts += 1;
        let number = self.cuts;
        let end = self.ends.get_mut(&(from, to)).filter(|end| end.open && end.cut.is_none())?;
        end.cut = Some(number);
        Some(number)
    }

    /// Whether what the first sends the second does not get through.
    pub fn is_cut(&self, from: HostIndex, to: HostIndex) -> bool {
        self.ends.get(&(from, to)).is_some_and(|end| end.cut.is_some())
    }

    /// From now on no link can be made between two hosts.
    pub fn part(&mut self, a: HostIndex, b: HostIndex) {
        self.parted.extend([(a, b), (b, a)]);
    }

    /// Whether no link can be made between two hosts.
    pub fn is_parted(&self, a: HostIndex, b: HostIndex) -> bool {
        self.parted.contains(&(a, b))
    }

    /// Packets get through again (if that cut still holds); those that were held back.
    pub fn heal(&mut self, from: HostIndex, to: HostIndex, number: Option<u64>) -> Vec<Packet> {
        match self.ends.get_mut(&(from, to)) {
            Some(end) if end.cut.is_some() && (number.is_none() || end.cut == number) => {
                end.cut = None;
                std::mem::take(&mut end.held)
            }
            _ => Vec::new(),
        }
    }

    /// A host is gone, with its ends of all links.
    pub fn remove(&mut self, host: HostIndex) {
        self.ends.retain(|(own, _), _| *own != host);
        self.dials.retain(|(own, _)| *own != host);
    }

    /// All ends.
    pub fn pairs(&self) -> Vec<(HostIndex, HostIndex)> {
        self.ends.keys().copied().collect()
    }
}
