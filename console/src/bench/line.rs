//! A worker's end of all messages: it waits for one, and keeps what comes meanwhile.

use super::order::{BYTES_MAX, Order, tag};
use pvm3::{Any, Received, Task, Tid};
use std::collections::{BTreeSet, VecDeque};
use thiserror::Error;

/// The most messages that are kept for later. Other workers are ahead by one order at most, and send [`super::order::FLOOD`] messages or
/// one to each worker before they wait.
const ASIDE_MAX: usize = 16_384;

/// Why a worker stops what it does.
#[derive(Debug, Error)]
pub enum Stop {
    /// The parent is gone, or has said so: the worker ends.
    #[error("the parent has exited")]
    Over,
    /// This order cannot be carried out.
    #[error("{0}")]
    Failed(String),
}

impl From<pvm3::Error> for Stop {
    fn from(error: pvm3::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(pvm_wire::plain(format_args!("{error}")))
    }
}

/// The worker as a task.
#[derive(Debug)]
pub struct Line {
    /// Its task.
    pub task: Task,
    parent: Tid,
    /// Other workers whose exits are reported.
    watched: BTreeSet<Tid>,
    exited: BTreeSet<Tid>,
    /// Those that take part in the present order.
    peers: Vec<Tid>,
    aside: VecDeque<Received>,
}

impl Line {
    /// Of a task that the parent has spawned.
    pub fn new(mut task: Task, parent: Tid) -> pvm3::Result<Self> {
        task.notify_exit(&[parent], tag::PARENT_EXITED)?;
        let (watched, exited) = (BTreeSet::new(), BTreeSet::new());
        Ok(Self { task, parent, watched, exited, peers: Vec::new(), aside: VecDeque::new() })
    }

    /// The task that spawned it.
    pub fn parent(&self) -> Tid {
        self.parent
    }

    /// The next order.
    pub fn order(&mut self) -> Result<Order, Stop> {
        Ok(self.next(self.parent, tag::ORDER)?.get_value()?)
    }

    /// Begins an order in which these take part: returns the tag of its messages. What is left of earlier orders is dropped.
    pub fn begin(&mut self, serial: u32, peers: &[Tid]) -> Result<i32, Stop> {
        let data = tag::DATA + (serial & 0xf_ffff).cast_signed();
        self.aside.retain(|message| message.tag() < tag::DATA || message.tag() >= data);
        let new: Vec<Tid> = peers.iter().copied().filter(|peer| !self.watched.contains(peer)).collect();
        self.task.notify_exit(&new, tag::PEER_EXITED)?;
        self.watched.extend(new);
        peers.clone_into(&mut self.peers);
        match peers.iter().find(|peer| self.exited.contains(peer)) {
            Some(peer) => Err(exited(*peer)),
            None => Ok(data),
        }
    }

    /// Waits for a message. Fails when a worker exits that takes part.
    pub fn next(&mut self, from: Tid, tag: i32) -> Result<Received, Stop> {
        if !self.aside.is_empty() {
            let is_wanted = |message: &Received| message.source() == from && message.tag() == tag;
            if let Some(message) =
                self.aside.iter().position(is_wanted).and_then(|place| self.aside.remove(place))
            {
                return Ok(message);
            }
        }
        loop {
            let message = self.task.recv(Any, Any)?;
            if message.tag() == tag && message.source() == from {
                return Ok(message);
            }
            self.put_aside(message, tag)?;
        }
    }

    /// Takes in a message that was not waited for; `awaited` is the tag of that which is.
    fn put_aside(&mut self, mut message: Received, awaited: i32) -> Result<(), Stop> {
        let (source, kind) = (message.source(), message.tag());
        if source == Tid::MY_DAEMON {
            if kind == tag::PARENT_EXITED {
                return Err(Stop::Over);
            }
            if kind == tag::PEER_EXITED {
                let peer = message.get_tid()?;
                self.exited.insert(peer);
                // Between two orders the exit of another worker stops nothing.
                if awaited >= tag::DATA && self.peers.contains(&peer) {
                    return Err(exited(peer));
                }
            }
            return Ok(());
        }
        let is_order = source == self.parent && kind == tag::ORDER;
        let is_data = kind >= tag::DATA && message.len() as u64 <= BYTES_MAX + 16;
        if !is_order && !is_data {
            return Ok(());
        }
        if self.aside.len() >= ASIDE_MAX {
            return Err(Stop::Failed(format!("{ASIDE_MAX} messages came that were not asked for")));
        }
        self.aside.push_back(message);
        Ok(())
    }
}

fn exited(peer: Tid) -> Stop {
    Stop::Failed(format!("the other worker ({peer}) has exited"))
}
