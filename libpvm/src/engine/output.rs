//! The output of spawned tasks, collected here (`pvm_catchout`).

use super::Engine;
use crate::error::Result;
use bytes::Bytes;
use pvm_wire::Tid;
use pvm_wire::codes::{CONTEXT_TC, Tc};
use pvm_wire::protocol::{self, OutputFrame};
use pvm_wire::spawn::Sink;
use std::collections::HashMap;
use std::fmt;

/// What became of a task whose output is collected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputEvent {
    /// Its spawner's daemon says that it was spawned.
    Spawned {
        /// The spawner, 0 if it is not to be known.
        parent: i32,
    },
    /// Its own daemon says that it has started; may come before or after `Spawned`.
    Started {
        /// The spawner, 0 if it is not to be known.
        parent: i32,
    },
    /// It wrote this; lines may be cut anywhere.
    Bytes(Bytes),
    /// It will write no more.
    End,
}

/// Who is told what collected tasks write.
pub trait OutputSink: Send {
    /// `tid` did this.
    fn event(&mut self, tid: Tid, what: OutputEvent);
}

impl<F: FnMut(Tid, OutputEvent) + Send> OutputSink for F {
    fn event(&mut self, tid: Tid, what: OutputEvent) {
        self(tid, what);
    }
}

/// Whose output is awaited, and who wants it.
#[derive(Default)]
pub(super) struct Collection {
    sink: Option<Box<dyn OutputSink>>,
    open: HashMap<Tid, Seen>,
}

/// Of the two frames after which a task is done with, those that have come, in whichever order.
#[derive(Default)]
struct Seen {
    spawned: bool,
    ended: bool,
}

impl fmt::Debug for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collection").field("open", &self.open.len()).finish_non_exhaustive()
    }
}

impl Collection {
    pub(super) fn take(&mut self, frame: OutputFrame) {
        let seen = self.open.entry(frame.tid).or_default();
        let what = match frame.what {
            protocol::OutputEvent::Text(text) => OutputEvent::Bytes(text.into()),
            protocol::OutputEvent::Started(parent) => OutputEvent::Started { parent },
            protocol::OutputEvent::Spawned(parent) => {
                seen.spawned = true;
                OutputEvent::Spawned { parent }
            }
            protocol::OutputEvent::Eof => {
                seen.ended = true;
                OutputEvent::End
            }
        };
        if seen.spawned && seen.ended {
            self.open.remove(&frame.tid);
        }
        if let Some(sink) = &mut self.sink {
            sink.event(frame.tid, what);
        }
    }
}

impl Engine {
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
        let (eof, spawned) =
            (frame(protocol::OutputEvent::Eof), frame(protocol::OutputEvent::Spawned(0x40001)));
        for order in [[eof.clone(), spawned.clone()], [spawned, eof]] {
            let mut collection = Collection::default();
            let [first, second] = order;
            collection.take(first);
            assert_eq!(collection.open.len(), 1);
            collection.take(second);
            assert_eq!(collection.open.len(), 0);
        }
    }
}
