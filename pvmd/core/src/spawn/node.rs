//! As node: starting tasks that a spawn's home, or the resource manager, orders here.

use super::refusals::Refusals;
use super::split_place;
use crate::addresses::{PeerTo, ServiceTo};
use crate::event::Program;
use pvm_wire::batch::BatchId;
use pvm_wire::spawn::{SpawnRequest, flags};
use std::ffi::OsStr;

/// Tasks being started here for some spawn.
#[derive(Debug)]
pub(crate) struct Exec {
    pub to: ExecTo,
    pub batch: Option<BatchId>,
    /// Per task its tid or an error code, once known.
    pub results: Vec<Option<i32>>,
    /// Tasks whose fate is not known.
    pub open: usize,
    pub refusals: Refusals,
    pub stage: Stage,
}

/// How far an order is.
#[derive(Debug)]
pub(crate) enum Stage {
    /// No more processes are to be asked for.
    Begun,
    /// Those beyond the host's limit wait until the ones before them run: the first may have ended when the last of those has been
    /// started.
    Partly(Box<Order>),
    /// A tasker starts them.
    Handed(Box<Order>),
}

/// What is to be started.
#[derive(Debug)]
pub(crate) struct Order {
    /// The number of the next, in the order.
    pub next: usize,
    /// The number in the spawn of the order's first.
    pub first: u32,
    pub parent: i32,
    pub spawn: SpawnRequest,
}

/// The receiver of an order's result.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ExecTo {
    /// The daemon that asked.
    Peer(PeerTo),
    /// The resource manager.
    Service(ServiceTo),
}

/// Tasks that a tasker is to start.
#[derive(Debug)]
pub(crate) struct Handed<'a> {
    /// Number of the first in the spawn.
    pub first: u32,
    /// How many here.
    pub count: u32,
    /// What they are.
    pub spawn: &'a SpawnRequest,
}

impl Exec {
    /// Processes whose fate is not known.
    pub fn under_way(&self) -> usize {
        self.open
    }

    /// What a tasker is to start of it.
    pub fn handed(&self) -> Option<Handed<'_>> {
        let Stage::Handed(order) = &self.stage else { return None };
        Some(Handed { first: order.first, count: self.results.len() as u32, spawn: &order.spawn })
    }

    /// The rest of the order, if what was begun of it is settled.
    pub fn take_rest(&mut self) -> Option<Box<Order>> {
        match std::mem::replace(&mut self.stage, Stage::Begun) {
            Stage::Partly(order) if self.open == self.results.len() - order.next => Some(order),
            stage => {
                self.stage = stage;
                None
            }
        }
    }
}

pub(crate) fn program(spawn: &SpawnRequest) -> Program {
    Program {
        directory: split_place(&spawn.place).1.map(OsStr::to_owned),
        debug: spawn.flags & flags::DEBUG != 0,
        file: spawn.file.clone(),
        args: spawn.args.clone(),
        env: spawn.env.clone(),
        manager: false,
    }
}
