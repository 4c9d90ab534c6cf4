//! Parts of the daemons' work that a task takes over, and the mailbox's entries about that.

use super::Engine;
use crate::Result;
use pvm_wire::body::BodyWriter;
use pvm_wire::calls::Field;
use pvm_wire::calls::mailbox::{Flags, Put, Remove};
use pvm_wire::calls::nested::Nested;
use pvm_wire::calls::roles::{
    BecomeHoster, BecomeManager, BecomeTasker, BecomeTracer, ManagerReply, TracerTerms,
};
use pvm_wire::{Encoding, Message, MessageHeader, Tid};
use std::mem::discriminant;

/// The mailbox's class of resource managers.
const MANAGER_CLASS: &str = "###_PVM_RM_###";
/// That of the tracer.
pub(super) const TRACER_CLASS: &str = "###_PVM_TRACER_###";

/// A part of the daemons' work, which one task can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Starting daemons on new hosts.
    Hoster,
    /// Starting this host's tasks.
    Tasker,
    /// Getting the trace and output of tasks.
    Tracer(TracerTerms),
}

impl Role {
    fn class(&self) -> &'static str {
        match self {
            Self::Hoster => "###_PVM_HOSTER_###",
            Self::Tasker => "###_PVM_TASKER_###",
            Self::Tracer(_) => TRACER_CLASS,
        }
    }
}

/// The roles that this task has, each with the index of its entry.
pub(super) type Roles = Vec<(Role, i32)>;

impl Engine {
    /// Takes a role, or gives it back if this task has it.
    pub fn toggle_role(&mut self, role: &Role) -> Result<()> {
        let held = self.roles.iter().position(|(held, _)| discriminant(held) == discriminant(role));
        let register = held.is_none();
        match role {
            Role::Hoster => self.call(&BecomeHoster { register })?,
            Role::Tasker => self.call(&BecomeTasker { register })?,
            Role::Tracer(terms) => {
                self.call(&BecomeTracer { terms: register.then(|| terms.clone()) })?;
            }
        }
        if let Some(held) = held {
            let (role, index) = self.roles.remove(held);
            return self.call(&Remove { tid: self.tid(), class: role.class().into(), index }).map(drop);
        }
        let index = self.register(role.class(), |tid| match role {
            Role::Hoster | Role::Tasker => tid,
            Role::Tracer(terms) => terms.write(tid),
        })?;
        self.roles.push((role.clone(), index));
        Ok(())
    }

    /// Becomes the resource manager: from now on it is asked in the daemon's place, and asks the daemon itself.
    pub fn become_manager(&mut self) -> Result<ManagerReply> {
        let reply = self.call(&BecomeManager {})?;
        self.bypass_manager();
        self.register(MANAGER_CLASS, |tid| tid)?;
        Ok(reply)
    }

    /// Puts this task's id, and fields behind it, into the mailbox under a name that may have several entries. Returns its index.
    pub fn register(&mut self, class: &str, fields: impl FnOnce(BodyWriter) -> BodyWriter) -> Result<i32> {
        let (tid, class) = (self.tid(), class.into());
        let header = MessageHeader { encoding: Encoding::Xdr.word(), ..MessageHeader::default() };
        let body = fields(BodyWriter::new().int(tid.raw())).finish().into();
        let message = Nested::new(&Message { src: tid, dst: Tid::NONE, header, body });
        self.call(&Put { tid, class, index: -1, flags: Flags::MULTI_INSTANCE, message })
    }
}
