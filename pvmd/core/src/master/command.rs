//! What changes the master's state: everything that happens to the machine as a whole, one after the other.
//!
//! The master's state is a function of the commands alone, so that several hosts can hold it: the deputies carry out the same
//! commands in the same order ([`crate::deputy`]).

use crate::addresses::ReplyTo;
use crate::event::{AddId, Found, StartFailure, StartedHost};
use pvm_sched::queues::Configuration;
use pvm_wire::daemon::ToMaster;
use pvm_wire::loads::LoadVector;
use pvm_wire::{HostIndex, Tid};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// One change.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Command {
    /// A host has said something, and has heard the master's messages up to this number.
    Said { host: HostIndex, number: u64, heard: u64, what: ToMaster },
    /// A host has heard the master's messages up to this number.
    Heard { host: HostIndex, number: u64 },
    /// The hosts of the hostfile are to be added.
    AddHostfileHosts,
    /// A task of the master's host wants to know how that went.
    AwaitStartUp(ReplyTo),
    /// Names have been looked up.
    Resolved { add: AddId, results: Vec<Result<Found, String>> },
    /// A host's daemon has been started, or not.
    HostStarted { index: HostIndex, result: Result<StartedHost, StartFailure> },
    /// A daemon is to be started again.
    StartAgain(HostIndex),
    /// The link to a newcomer stands.
    NewcomerLinked(HostIndex),
    /// The link to a host has ended, or cannot be made; whether its daemon is proved to have ended.
    HostLost { host: HostIndex, reason: String, has_ended: bool },
    /// A host's daemon says that it ends.
    HostEnded(HostIndex),
    /// A host to which another one has lost its link has not answered in time.
    Unanswered(HostIndex),
    /// A daemon that was to end has not ended in time.
    DepartureOverdue(HostIndex),
    /// A task of the master's host becomes the hoster, or gives that up.
    Hoster { tid: Tid, register: bool, to: ReplyTo },
    /// What the hoster says of a host that it was to start.
    Hosted { host: Tid, line: String },
    /// The hoster says something that cannot be read.
    HosterUnreadable,
    /// The hoster has said nothing of a host in time.
    HosterSilent(HostIndex),
    /// The hoster has ended.
    HosterEnded(Tid),
    /// This host is the master from now on.
    TakeOver { by: HostIndex, address: Option<IpAddr> },
    /// These hosts hold the master's state from now on. The last command of a configuration of deputies.
    Appoint { deputies: Vec<HostIndex> },
    /// The queues' next step.
    AdvanceJobs(Moment),
    /// The file of queues has been read again.
    QueuesRead { result: Result<Configuration, String> },
    /// What has changed of jobs is written to disk, at a time in milliseconds since 1970.
    SaveJobs { now: u64 },
    /// It was, or could not be: the reason.
    JobsSaved { serial: u64, failure: Option<String> },
    /// The machine ends.
    Halt,
}

/// When the queues go on, and what they go by.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Moment {
    /// Milliseconds since 1970.
    pub now: u64,
    /// By how many seconds local clocks are ahead of universal time.
    pub local_time: i32,
    /// Loads of hosts that have changed.
    pub loads: Vec<(HostIndex, LoadVector)>,
    /// The hosts whose owners are there.
    pub owners: BTreeSet<HostIndex>,
}
