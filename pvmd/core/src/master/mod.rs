//! What only the master knows and decides: which hosts are added and which are leaving, the mailbox, and the groups.
//!
//! Each method takes what has happened, and the host table as it is at that moment, and leaves effects behind. It looks at nothing
//! else, so the same calls in the same order lead to the same state.

mod add;
mod departures;
mod groups;
mod mailbox;
mod newcomer;

use crate::addresses::{PeerTo, ReplyTo};
use crate::answers::start_up_results;
use crate::config::Config;
use crate::effect::Effects;
use crate::event::ConnId;
use add::AddOperation;
pub(crate) use departures::{Departures, END};
use groups::Groups;
use mailbox::Mailbox;
use pvm_wire::calls::CallError;
use pvm_wire::calls::hosts::StartUp;
use pvm_wire::daemon::{AddResult, Blob, DaemonMsg, PeerReply};
use pvm_wire::{HostIndex, PvmError, Tid};
use tracing::warn;

/// The master's state.
#[derive(Debug)]
pub(crate) struct Master {
    adding: Option<AddOperation>,
    /// Operations that have added hosts so far.
    adds: u64,
    next_host: u32,
    table_serial: u64,
    start_up: HostfileStart,
    pub departures: Departures,
    /// The task that starts daemons on other hosts.
    pub hoster: Option<Tid>,
    mailbox: Mailbox<PeerTo>,
    pub groups: Groups,
}

/// How the start of the hostfile's hosts went.
#[derive(Debug)]
enum HostfileStart {
    /// It has not ended; these want to know how it went.
    Running(Vec<ReplyTo>),
    Over(Vec<AddResult>),
}

/// The sizes of the master's tables.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Whether hosts are being added, requests that wait for the hostfile's, and daemons that are ending.
    pub adding: usize,
    pub hosters: usize,
    /// Entries, and gets that wait for one.
    pub mailbox: (usize, usize),
    /// Groups, and answers about them that are held back.
    pub groups: (usize, usize),
    /// Requests about groups that have begun and not ended.
    pub partial: usize,
}

impl Master {
    pub fn new(config: &Config) -> Self {
        let limits = &config.limits;
        Self {
            adding: None,
            adds: 0,
            next_host: 2,
            table_serial: 0,
            start_up: HostfileStart::Over(Vec::new()),
            departures: Departures::default(),
            hoster: None,
            mailbox: Mailbox::with_keeper(limits.mailbox_entries, limits.mailbox_bytes),
            groups: Groups::new(),
        }
    }

    pub fn counts(&self) -> Counts {
        let waiting = if let HostfileStart::Running(waiters) = &self.start_up { waiters.len() } else { 0 };
        Counts {
            adding: usize::from(self.adding.is_some()) + waiting + self.departures.len(),
            hosters: usize::from(self.hoster.is_some()),
            mailbox: self.mailbox.counts(),
            groups: self.groups.counts(),
            partial: self.groups.partial(),
        }
    }

    /// The addition of hosts that is under way, for people.
    pub fn adding(&self) -> Option<&impl std::fmt::Display> {
        self.adding.as_ref()
    }

    /// Whether hosts of the hostfile are being started.
    pub fn is_starting_up(&self) -> bool {
        matches!(self.start_up, HostfileStart::Running(_))
    }

    /// Answers when the hostfile's hosts are settled.
    pub fn on_start_up(&mut self, to: ReplyTo, out: &mut Effects) {
        match &mut self.start_up {
            HostfileStart::Running(waiters) => waiters.push(to),
            HostfileStart::Over(results) => out.reply::<StartUp>(to, &start_up_results(results)),
        }
    }

    /// A connection whose task may have waited is gone.
    pub fn forget_conn(&mut self, conn: ConnId) {
        if let HostfileStart::Running(waiters) = &mut self.start_up {
            waiters.retain(|to| to.conn != conn);
        }
    }

    /// A request for the mailbox.
    pub fn on_mailbox(&mut self, to: PeerTo, from: Tid, body: &[u8], out: &mut Effects) {
        match self.mailbox.handle(from, body, to) {
            Ok(outcome) => {
                if let Some(owner) = outcome.watch {
                    watch(owner, out);
                }
                for (to, body) in outcome.answers {
                    out.answer(to, PeerReply::Mailbox { body: Blob(body.into()) });
                }
            }
            Err(error) => {
                warn!(%from, %error, "malformed mailbox request");
                let body = CallError::from(PvmError::BadParam).encode();
                out.answer(to, PeerReply::Mailbox { body: Blob(body.into()) });
            }
        }
    }

    /// A get waits no more.
    pub fn withdraw(&mut self, request: PeerTo) {
        self.mailbox.forget_waiters(|to| *to == request);
    }

    /// A task has ended: its entries go unless they are persistent, and it is in no group any more.
    pub fn task_gone(&mut self, tid: Tid, out: &mut Effects) {
        self.mailbox.owner_gone(tid);
        self.groups.task_gone(tid, out);
    }

    /// A host is out, with all its tasks.
    pub fn host_gone(&mut self, host: HostIndex, out: &mut Effects) {
        self.mailbox.hosts_tasks_gone(|tid| tid.host() == Some(host));
        self.mailbox.forget_waiters(|to| to.host == host);
        self.groups.host_gone(host, out);
    }
}

/// Has the end of a task reported, which owns an entry or is in a group.
fn watch(owner: Tid, out: &mut Effects) {
    if let Some(host) = owner.host().filter(|&host| host != HostIndex::MASTER) {
        out.tell(host, DaemonMsg::WatchTask { tid: owner });
    }
}
