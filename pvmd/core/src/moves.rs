//! Tasks of this host that move to others, and tasks of others that move here: how far each is.
//!
//! A task leaves in steps: its *successor* is started on the other host; the task is told, and goes on until its library can leave; it is
//! *frozen* when nothing for it is on its way any more; and it has gone when the master says so. Up to then it can stay. Once the master
//! was asked for its consent, only the master ends the attempt.

use super::addresses::{PeerTo, ReplyTo};
use super::holding::Piece;
use pvm_wire::calls::notify::NotifyRequest;
use pvm_wire::daemon::{Attempt, Luggage};
use pvm_wire::{HostIndex, PvmError, Tid};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long a task may take to a call in which it can move.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Attempts for one wish, as another task may open a route to it at the last moment.
const TRIES: u32 = 3;

/// Why a task does not move.
pub(crate) type Refusal = (PvmError, String);

/// A task of this host that is to move.
#[derive(Debug)]
pub(crate) struct Departure {
    pub attempt: Attempt,
    pub to: HostIndex,
    pub stage: Stage,
    /// The id of its successor, once that runs.
    pub successor: Option<Tid>,
    /// What wants to know how it ends.
    pub askers: Vec<PeerTo>,
    /// Its process has ended: the status.
    pub ended: Option<i32>,
    /// Signals that came when it was to be frozen.
    pub signals: Vec<i32>,
    /// Why it does not move, if that is decided.
    pub refusal: Option<Refusal>,
    /// Attempts for the same wish before this one.
    pub tried: u32,
    /// Another attempt may have more luck.
    pub again: bool,
}

/// How far the departure of a task is.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Its successor is being started.
    Starting,
    /// It has been told to move.
    Told,
    /// Hosts are asked to keep what is for it, and the master for its consent.
    Freezing(Freeze),
    /// It and its successor have all there is.
    Frozen { hosts: BTreeSet<HostIndex> },
}

/// What a task waits for before it is frozen.
#[derive(Debug)]
pub(crate) struct Freeze {
    pub reply: ReplyTo,
    /// The hosts that are asked.
    pub hosts: BTreeSet<HostIndex>,
    /// Those that have not answered.
    pub missing: BTreeSet<HostIndex>,
    /// The master has consented.
    pub has_consent: bool,
    /// This host kept messages that the task itself has sent when the others were asked.
    pub is_held_back: bool,
}

/// A task that is to live here, or lives here and may still be sent something by its old host.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub attempt: Attempt,
    /// The id of its process until then.
    pub successor: Tid,
    pub way: Way,
    /// What its old daemon knew of it, and the hosts that keep what is for it.
    pub frozen: Option<(Luggage, Vec<HostIndex>)>,
    /// The process has all that its predecessor had.
    pub reply: Option<ReplyTo>,
    /// The process has ended since: its status.
    pub ended: Option<i32>,
    /// What the old host has kept for it.
    pub kept: Vec<Piece>,
    /// There is no more of that.
    pub has_all: bool,
    /// What concerns its subscriptions and has come since it lives here: its old host may have told it of some of them until then.
    pub since: Vec<Since>,
    /// Requests to move it on, and the hosts they name.
    pub asked: Vec<(PeerTo, Option<HostIndex>)>,
}

/// What waits until a task's subscriptions are known on its new host.
#[derive(Debug)]
pub(crate) enum Since {
    /// The task subscribes, or cancels.
    Asked(NotifyRequest),
    /// Hosts have joined.
    Added(Vec<HostIndex>),
}

/// How far the arrival of a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Its successor is here.
    Coming,
    /// The master was told that the task can live here.
    Proposed,
    /// It lives here.
    Here,
}

/// The tasks that leave, and those that come.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    pub departures: BTreeMap<Tid, Departure>,
    pub arrivals: BTreeMap<Tid, Arrival>,
    /// Tasks for which the master looks for a host, and what wants to know how their moves end.
    pub seeking: BTreeMap<Tid, Vec<PeerTo>>,
    attempts: u64,
}

impl Moves {
    /// A task is to move.
    pub fn depart(&mut self, tid: Tid, from: HostIndex, to: HostIndex, asker: Option<PeerTo>) -> Attempt {
        self.attempts += 1;
        let attempt = Attempt { tid, from, number: self.attempts };
        let departure = Departure {
            attempt,
            to,
            stage: Stage::Starting,
            successor: None,
            askers: asker.into_iter().collect(),
            ended: None,
            signals: Vec::new(),
            refusal: None,
            tried: 0,
            again: false,
        };
        self.departures.insert(tid, departure);
        attempt
    }

    /// Whether a task is to leave this host.
    pub fn is_to_leave(&self, tid: Tid) -> bool {
        self.departures.contains_key(&tid) || self.seeking.contains_key(&tid)
    }

    /// The departure of this attempt.
    pub fn departure(&mut self, attempt: Attempt) -> Option<&mut Departure> {
        self.departures.get_mut(&attempt.tid).filter(|departure| departure.attempt == attempt)
    }

    /// The departures that wait until nothing is on its way to the task any more.
    pub fn freezing(&self) -> Vec<Attempt> {
        let freezing =
            self.departures.values().filter(|departure| matches!(departure.stage, Stage::Freezing(_)));
        freezing.map(|departure| departure.attempt).collect()
    }

    /// The arrival of this attempt.
    pub fn arrival(&mut self, attempt: Attempt) -> Option<&mut Arrival> {
        self.arrivals.get_mut(&attempt.tid).filter(|arrival| arrival.attempt == attempt)
    }

    /// Whether a task is to live here, if the master says so.
    pub fn is_coming(&self, tid: Tid) -> bool {
        self.arrivals.get(&tid).is_some_and(|arrival| arrival.way != Way::Here)
    }

    /// The arrival of a task that lives here and whose old host has not said all.
    pub fn unsettled(&mut self, tid: Tid) -> Option<&mut Arrival> {
        self.arrivals.get_mut(&tid).filter(|arrival| arrival.way == Way::Here)
    }

    /// Hosts have joined.
    pub fn hosts_added(&mut self, added: &[HostIndex]) {
        for arrival in self.arrivals.values_mut().filter(|arrival| arrival.way == Way::Here) {
            arrival.since.push(Since::Added(added.to_vec()));
        }
    }

    /// Moves under way.
    pub fn len(&self) -> usize {
        self.departures.len() + self.arrivals.len()
    }
}

impl Departure {
    /// Whether there is to be another attempt.
    pub fn is_worth_another(&self) -> bool {
        self.again && self.tried + 1 < TRIES && self.ended.is_none()
    }

    /// Whether the master was asked: then it alone ends the attempt.
    pub fn is_asked(&self) -> bool {
        matches!(self.stage, Stage::Freezing(_) | Stage::Frozen { .. })
    }
}

impl Freeze {
    /// Whether nothing is on its way to the task any more.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty() && self.has_consent
    }
}

impl Arrival {
    pub fn new(attempt: Attempt, successor: Tid) -> Self {
        Self {
            attempt,
            successor,
            way: Way::Coming,
            frozen: None,
            reply: None,
            ended: None,
            kept: Vec::new(),
            has_all: false,
            since: Vec::new(),
            asked: Vec::new(),
        }
    }

    /// Whether the task could live here from now on: the hosts that keep what is for it, once.
    pub fn propose(&mut self) -> Option<Vec<HostIndex>> {
        let is_ready = self.way == Way::Coming && self.reply.is_some();
        let (_, hosts) = self.frozen.as_ref().filter(|_| is_ready)?;
        self.way = Way::Proposed;
        Some(hosts.clone())
    }

    /// Whether nothing more of what was kept elsewhere has to come before what is kept here.
    pub fn is_settled(&self) -> bool {
        self.way == Way::Here && self.has_all
    }
}
