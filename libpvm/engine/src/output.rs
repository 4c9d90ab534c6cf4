//! The output of spawned tasks, collected here (`pvm_catchout`).
//!
//! A task is complete when its spawner's daemon has reported the spawn and its own daemon the end of its output. A lost
//! daemon reports neither, so the library asks for notices about the hosts it waits for.

use super::Engine;
use crate::Result;
use bytes::Bytes;
use pvm_wire::Tid;
use pvm_wire::calls::notify::NotifyRequest;
use pvm_wire::codes::{CONTEXT_TC, Tc, notify};
use pvm_wire::output::{self, OutputFrame};
use pvm_wire::spawn::Sink;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::fmt;

/// An event of a task whose output is collected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputEvent {
    /// Its spawner's daemon reports the spawn.
    Spawned {
        /// The spawner, 0 if the program hides it.
        parent: i32,
    },
    /// Its own daemon reports the start; before or after `Spawned`.
    Started {
        /// The spawner, 0 if the program hides it.
        parent: i32,
    },
    /// It wrote this; lines may be cut anywhere.
    Bytes(Bytes),
    /// It will write no more.
    End,
}

/// The receiver of collected output.
pub trait OutputSink: Send {
    /// An event of `tid`.
    fn event(&mut self, tid: Tid, what: OutputEvent);
}

impl<F: FnMut(Tid, OutputEvent) + Send> OutputSink for F {
    fn event(&mut self, tid: Tid, what: OutputEvent) {
        self(tid, what);
    }
}

/// The tasks whose output is awaited, and the sink for it.
#[derive(Default)]
pub(super) struct Collection {
    sink: Option<Box<dyn OutputSink>>,
    open: HashMap<Tid, Seen>,
    watched: HashSet<Tid>,
}

/// A task whose output is awaited, for another process that awaits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Collected {
    tid: Tid,
    spawned: bool,
    ended: bool,
    spawner: Tid,
}

/// Which of the two frames that complete a task have arrived; their order is not fixed.
#[derive(Default)]
struct Seen {
    spawned: bool,
    ended: bool,
    spawner: Tid,
}

impl fmt::Debug for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collection").field("open", &self.open.len()).finish_non_exhaustive()
    }
}

impl Collection {
    fn take(&mut self, frame: OutputFrame) {
        let seen = self.open.entry(frame.tid).or_default();
        let what = match frame.what {
            output::OutputEvent::Text(text) => OutputEvent::Bytes(text.into()),
            output::OutputEvent::Started(parent) => {
                seen.spawner = Tid::from_raw(parent);
                OutputEvent::Started { parent }
            }
            output::OutputEvent::Spawned(parent) => {
                seen.spawned = true;
                OutputEvent::Spawned { parent }
            }
            output::OutputEvent::Eof => {
                seen.ended = true;
                OutputEvent::End
            }
        };
        if seen.spawned && seen.ended {
            self.open.remove(&frame.tid);
        }
        self.report(frame.tid, what);
    }

    /// The tasks whose output is awaited.
    pub(super) fn open_tasks(&self) -> Vec<Collected> {
        let each = |(&tid, seen): (&Tid, &Seen)| {
            let &Seen { spawned, ended, spawner } = seen;
            Collected { tid, spawned, ended, spawner }
        };
        self.open.iter().map(each).collect()
    }

    /// Awaits the output that another process has awaited.
    pub(super) fn resume(&mut self, tasks: Vec<Collected>) {
        let each = |Collected { tid, spawned, ended, spawner }| (tid, Seen { spawned, ended, spawner });
        self.open.extend(tasks.into_iter().map(each));
    }

    /// A host is lost: its tasks write no more, and it reports no more spawns of its tasks.
    fn lose_host(&mut self, host: Tid, place: impl Fn(Tid) -> Tid) {
        self.watched.remove(&host);
        let mut ended = Vec::new();
        self.open.retain(|tid, seen| {
            seen.spawned |= place(seen.spawner) == host;
            if place(*tid) == host && !seen.ended {
                seen.ended = true;
                ended.push(*tid);
            }
            !(seen.spawned && seen.ended)
        });
        for tid in ended {
            self.report(tid, OutputEvent::End);
        }
    }

    fn report(&mut self, tid: Tid, what: OutputEvent) {
        if let Some(sink) = &mut self.sink {
            sink.event(tid, what);
        }
    }
}

impl Engine {
    pub(super) fn take_output(&mut self, frame: OutputFrame) {
        self.watch_host_of(frame.tid);
        self.output.take(frame);
    }

    fn watch_host_of(&mut self, tid: Tid) {
        let host = self.places.host_tid_of(tid);
        if !self.is_near(tid) && self.output.watched.insert(host) {
            self.watch_host(host);
        }
    }

    /// This process has the place of one that has asked for notices about the hosts of tasks whose output is awaited.
    pub(super) fn watch_collected(&mut self) {
        let tasks: Vec<Tid> = self.output.open.keys().copied().collect();
        for tid in tasks {
            self.watch_host_of(tid);
        }
    }

    pub(super) fn lose_host(&mut self, host: Tid) {
        let places = &self.places;
        self.output.lose_host(host, |tid| places.host_tid_of(tid));
    }

    /// A task lives elsewhere, whose output may be awaited: it ends with the host that it lives on.
    pub(super) fn watch_moved(&mut self, tid: Tid) {
        if self.output.open.contains_key(&tid) {
            self.watch_host_of(tid);
        }
    }

    fn watch_host(&mut self, host: Tid) {
        let tag = Tc::OutputX.tag();
        self.defer_request(&NotifyRequest::of_one(notify::HOST_DELETE, CONTEXT_TC, tag, host));
    }

    /// Collects the output of tasks spawned from now on and hands it to `sink`, while the program is in any call that
    /// sends or receives. With `None` tasks spawned later are not collected; those spawned before still are.
    pub fn collect_output(&mut self, sink: Option<Box<dyn OutputSink>>) {
        self.options.child_output = match sink {
            Some(_) => Sink { tid: self.tid().raw(), context: CONTEXT_TC, tag: Tc::Output.tag() },
            None => Sink::default(),
        };
        if sink.is_some() {
            self.output.sink = sink;
        }
    }

    /// Tasks whose output has not ended.
    pub fn collecting(&self) -> usize {
        self.output.open.len()
    }

    /// Waits until the output of all collected tasks has ended.
    pub fn wait_for_collected(&mut self) -> Result<()> {
        while self.collecting() > 0 {
            self.take_in(None)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_done_with_after_both_frames_in_either_order() {
        let tid = Tid::from_raw(0x40002);
        let frame = |what| OutputFrame { tid, what };
        let (eof, spawned) = (frame(output::OutputEvent::Eof), frame(output::OutputEvent::Spawned(0x40001)));
        for order in [[eof.clone(), spawned.clone()], [spawned, eof]] {
            let mut collection = Collection::default();
            let [first, second] = order;
            collection.take(first);
            assert_eq!(collection.open.len(), 1);
            collection.take(second);
            assert_eq!(collection.open.len(), 0);
        }
    }

    #[test]
    fn a_lost_host_ends_its_tasks_and_answers_for_its_spawners() {
        let [near, far] = [Tid::from_raw(0x40002), Tid::from_raw(0x80002)];
        let mut collection = Collection::default();
        let frame = |tid, what| OutputFrame { tid, what };
        // One there spawned from here, one here spawned from there.
        collection.take(frame(far, output::OutputEvent::Spawned(near.raw())));
        collection.take(frame(near, output::OutputEvent::Started(far.raw())));
        collection.lose_host(Tid::from_raw(0xc0000), Tid::to_host);
        assert_eq!(collection.open.len(), 2, "another host's loss is nothing to them");
        collection.lose_host(far.to_host(), Tid::to_host);
        assert_eq!(collection.open.keys().collect::<Vec<_>>(), [&near]);
        collection.take(frame(near, output::OutputEvent::Eof));
        assert_eq!(collection.open.len(), 0);
    }
}
