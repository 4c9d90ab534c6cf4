//! Certificates of the machine's authority for servers that tasks run.
//!
//! They are no part of the master's state, so nothing of a request outlives the master that was asked: the task gets an error then, and
//! the next master has the same authority.

use crate::Core;
use crate::addresses::{PeerTo, ReplyTo, Waiter};
use crate::event::Action;
use pvm_wire::PvmError;
use pvm_wire::calls::CallError;
use pvm_wire::calls::certificate::Certify;
use pvm_wire::certificate::{CertificateRequest, Certified};
use pvm_wire::daemon::{PeerReply, PeerRequest};
use tracing::info;

/// A certificate, or PVM's code and the reason.
type Outcome = Result<Certified, (PvmError, String)>;

impl Core {
    /// As the host of the task that asks. What the master would refuse does not go there.
    pub(crate) fn on_certificate_wanted(&mut self, to: ReplyTo, request: CertificateRequest) {
        match (checked(&request), self.hosts.master()) {
            (Err(refusal), _) => self.reply_certified(to, Err(refusal)),
            (Ok(()), None) => self.reply_certified(to, Err(no_master())),
            (Ok(()), Some(master)) => {
                self.ask(master, PeerRequest::Certify(request), Waiter::Certificate(to));
            }
        }
    }

    /// As the master: a daemon asks for one of its tasks. Only the driver has the authority.
    pub(crate) fn on_certify(&mut self, to: PeerTo, request: CertificateRequest) {
        let refusal = if self.is_master() { checked(&request).err() } else { Some(no_master()) };
        if let Some(refusal) = refusal {
            info!(host = %to.host, reason = refusal.1, "certificate refused");
            return self.answer(to, PeerReply::Certified { result: Err(refusal) });
        }
        info!(host = %to.host, names = request.names.join(", "), "signs a certificate for a server");
        self.out.act(Action::Certify { host: to.host, id: to.id, request });
    }

    /// It is signed, or not.
    pub(crate) fn on_certified(&mut self, to: PeerTo, result: Outcome) {
        self.answer(to, PeerReply::Certified { result });
    }

    /// Answers the task that has asked.
    pub(crate) fn reply_certified(&mut self, to: ReplyTo, result: Outcome) {
        match result {
            Ok(certified) => self.reply_to::<Certify>(to, &certified),
            Err((error, reason)) => self.reply_error(to, CallError { code: error.code(), reason }),
        }
    }
}

fn checked(request: &CertificateRequest) -> Result<(), (PvmError, String)> {
    request.check().map_err(|reason| (PvmError::BadParam, reason))
}

/// What a task is told when no master could answer.
pub(super) fn no_master() -> (PvmError, String) {
    (PvmError::HostFail, "the master is lost, and another one takes its place: ask again".to_owned())
}
