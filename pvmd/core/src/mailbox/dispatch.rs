//! The master's part: requests for the mailbox, and what the end of tasks and hosts means for it.

use crate::Core;
use crate::addresses::PeerTo;
use pvm_wire::calls::CallError;
use pvm_wire::daemon::{Blob, DaemonMsg, PeerReply};
use pvm_wire::{HostIndex, PvmError, Tid};
use tracing::warn;

impl Core {
    pub(crate) fn on_mailbox(&mut self, to: PeerTo, from: Tid, body: &[u8]) {
        match self.mailbox.handle(from, body, to) {
            Ok(outcome) => {
                if let Some(owner) = outcome.watch {
                    self.watch_owner(owner);
                }
                for (to, body) in outcome.answers {
                    self.answer(to, PeerReply::Mailbox { body: Blob(body.into()) });
                }
            }
            Err(error) => {
                warn!(%from, %error, "malformed mailbox request");
                let body = CallError::from(PvmError::BadParam).encode();
                self.answer(to, PeerReply::Mailbox { body: Blob(body.into()) });
            }
        }
    }

    /// Entries that are not persistent, and memberships, go with their owner.
    pub(crate) fn watch_owner(&mut self, owner: Tid) {
        match owner.host() {
            Some(host) if host != self.config.index => self.tell(host, DaemonMsg::WatchTask { tid: owner }),
            _ => {}
        }
    }

    pub(crate) fn mailbox_owner_gone(&mut self, tid: Tid) {
        self.mailbox.owner_gone(tid);
    }

    pub(crate) fn mailbox_host_gone(&mut self, host: HostIndex) {
        self.mailbox.hosts_tasks_gone(|tid| tid.host() == Some(host));
        self.mailbox.forget_waiters(|to| to.host == host);
    }
}
