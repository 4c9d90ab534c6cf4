//! Back-pressure: the sources that are stopped for full receivers (design D5).
//!
//! A receiver is a local task, a remote task whose daemon said that it is full, or a whole link (by its daemon's
//! tid). Whoever sends to a full receiver is stopped *after* the piece that hit it, until the receiver has drained. A
//! task blocked in a send keeps reading, so two tasks that flood each other drain each other.

use super::event::{ConnId, Cookie};
use super::places::Places;
use super::text::listed;
use pvm_wire::{HostIndex, Tid};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

/// Where traffic comes from, and so what can be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// A local task's connection: it is not read.
    Conn(ConnId),
    /// A child's output: its pipe is not read.
    Output(Cookie),
    /// Another host: its daemon is told which receiver is full, and stops the senders there.
    Host(HostIndex),
    /// The daemon itself, whose messages are few and bounded by what caused them.
    Daemon,
}

impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conn(conn) => write!(out, "connection {}", conn.0),
            Self::Output(cookie) => write!(out, "the output of child {}", cookie.0),
            Self::Host(host) => write!(out, "host {host}"),
            Self::Daemon => out.write_str("this daemon"),
        }
    }
}

/// A change the caller has to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowChange {
    /// Stop this source (on account of the receiver).
    Stop(Source, Tid),
    /// Let this source go on.
    Resume(Source, Tid),
}

/// Which receivers are full, and the sources stopped for each.
#[derive(Debug, Default)]
pub(super) struct Flow {
    full: BTreeMap<Tid, BTreeSet<Source>>,
    held: BTreeMap<Source, usize>,
}

impl Flow {
    /// Marks a receiver as full.
    pub fn fill(&mut self, receiver: Tid) {
        self.full.entry(receiver).or_default();
    }

    /// Whether a receiver is full.
    pub fn is_full(&self, receiver: Tid) -> bool {
        self.full.contains_key(&receiver)
    }

    /// Notes that `source` sent to `receiver`, and says whether it must stop.
    pub fn sent(&mut self, source: Source, receiver: Tid) -> Option<FlowChange> {
        if source == Source::Daemon {
            return None;
        }
        if !self.full.get_mut(&receiver)?.insert(source) {
            return None;
        }
        let held = self.held.entry(source).or_default();
        *held += 1;
        // A task is stopped once for all its receivers; a host is told about each.
        (*held == 1 || matches!(source, Source::Host(_))).then_some(FlowChange::Stop(source, receiver))
    }

    /// The receiver has drained or is gone: the sources that go on.
    pub fn clear(&mut self, receiver: Tid) -> Vec<FlowChange> {
        let sources = self.full.remove(&receiver).unwrap_or_default();
        sources
            .into_iter()
            .filter(|&source| self.release(source))
            .map(|s| FlowChange::Resume(s, receiver))
            .collect()
    }

    /// A source is gone.
    pub fn forget(&mut self, source: Source) {
        if self.held.remove(&source).is_some() {
            self.full.values_mut().for_each(|sources| {
                sources.remove(&source);
            });
        }
    }

    /// All receivers for which this holds have drained or are gone.
    pub fn clear_where(&mut self, gone: impl Fn(Tid) -> bool) -> Vec<FlowChange> {
        let receivers: Vec<Tid> = self.full.keys().copied().filter(|&tid| gone(tid)).collect();
        receivers.into_iter().flat_map(|tid| self.clear(tid)).collect()
    }

    /// Whether a receiver or a source of this host is full or stopped.
    pub fn concerns(&self, host: HostIndex, places: &Places) -> bool {
        let is_there = |tid: &Tid| places.find(*tid) == Some(host);
        self.held.contains_key(&Source::Host(host)) || self.full.keys().any(is_there)
    }

    /// Full receivers and stopped sources, for people.
    pub fn write_state(&self, out: &mut String) -> fmt::Result {
        for (receiver, sources) in &self.full {
            writeln!(out, "{receiver} is full; not read until it has taken some: {}", listed(sources))?;
        }
        Ok(())
    }

    /// Number of full receivers and of stopped sources, for consistency checks.
    pub fn counts(&self) -> (usize, usize) {
        (self.full.len(), self.held.len())
    }

    fn release(&mut self, source: Source) -> bool {
        let Some(held) = self.held.get_mut(&source) else { return false };
        *held -= 1;
        let last = *held == 0;
        if last {
            self.held.remove(&source);
        }
        last || matches!(source, Source::Host(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_to_two_full_receivers_goes_on_when_both_have_drained() {
        let mut flow = Flow::default();
        let (a, b) = (Tid::from_bits(1), Tid::from_bits(2));
        let sender = Source::Conn(ConnId(7));
        assert_eq!(flow.sent(sender, a), None, "nobody is stopped for a receiver with room");
        flow.fill(a);
        flow.fill(b);
        assert_eq!(flow.sent(sender, a), Some(FlowChange::Stop(sender, a)));
        assert_eq!(flow.sent(sender, a), None, "once is enough");
        assert_eq!(flow.sent(sender, b), None);
        assert_eq!(flow.clear(a), []);
        assert_eq!(flow.clear(b), [FlowChange::Resume(sender, b)]);
        assert_eq!(flow.counts(), (0, 0));
    }

    #[test]
    fn a_host_is_told_about_each_receiver() {
        let mut flow = Flow::default();
        let (a, b) = (Tid::from_bits(1), Tid::from_bits(2));
        let host = Source::Host(HostIndex::MASTER);
        flow.fill(a);
        flow.fill(b);
        assert!(flow.sent(host, a).is_some() && flow.sent(host, b).is_some());
        assert_eq!(flow.clear(a), [FlowChange::Resume(host, a)]);
        flow.forget(host);
        assert_eq!(flow.clear(b), []);
        assert_eq!(flow.counts(), (0, 0));
    }
}
