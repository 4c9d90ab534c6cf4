//! Starting tasks.
//!
//! As [*home*](home) of a spawn, the spawner's daemon, this daemon knows what is to become of each task ([`progress`]; `queue`, if the
//! spawn has returned already), how far the spawn is ([`state`]) and which manager hands out what waits ([`managers`]).
//! As [*node*](node) it starts tasks on request, and asks the managers of other tasks' spawns for work ([`pulling`]). By some policies it
//! is no manager that finds hosts for what waits, but an agent on each host ([`agents`]).

mod agents;
mod costs;
mod home;
mod lightly;
mod managers;
mod node;
mod notices;
mod orders;
mod placing;
pub(crate) mod preset;
mod progress;
mod pulling;
mod queue;
mod refusals;
mod request;
mod state;
mod traffic;

pub(crate) use agents::{AgentAction, AgentEvent, Agents, Placed, Reaction, View, host_of, number};
pub(crate) use home::Home;
pub(crate) use node::{Exec, ExecTo, Node, Order, program};
pub(crate) use pulling::Offer;
pub(crate) use queue::Fate;
pub(crate) use request::count_of;
pub(crate) use traffic::Report as TrafficReport;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Ends a process that can put its affairs in order, and one that cannot.
pub(crate) const SIGTERM: i32 = 15;
pub(crate) const SIGKILL: i32 = 9;

/// `where` of a spawn, split at its first colon: host or architecture, and directory.
fn split_place(place: &OsStr) -> (&OsStr, Option<&OsStr>) {
    let mut parts = place.as_bytes().splitn(2, |&byte| byte == b':').map(OsStr::from_bytes);
    (parts.next().unwrap_or_default(), parts.next())
}
