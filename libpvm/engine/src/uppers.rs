//! Warns the sender of 64-bit integers if the receiver's library drops their upper halves: PVM's XDR has 32 bits for a
//! `long`, and only this library reads the other 32 behind the message.

use super::Engine;
use crate::Result;
use pvm_wire::calls::tasks::ListTasks;
use pvm_wire::codes::{EXTENSION_VERSION, task_flags};
use pvm_wire::{MessageHeader, Tid};
use std::collections::BTreeSet;

/// The receivers whose libraries are known.
#[derive(Debug, Default)]
pub(super) struct Receivers {
    /// Receivers that were checked.
    settled: BTreeSet<Tid>,
    /// The sender was warned that the original daemon does not report libraries.
    warned_of_daemon: bool,
}

/// The library of a task.
enum Library {
    Ours,
    Originals,
    /// It has not enrolled yet, or has exited.
    Unknown,
}

impl Engine {
    /// Before a message leaves in the form that every library reads: warns once if the receiver drops upper halves.
    pub(super) fn check_uppers(&mut self, dst: Tid, header: &MessageHeader) -> Result<()> {
        let carries_all = header.checksum == 0 || dst == self.tid() || !dst.is_task();
        if carries_all || self.receivers.settled.contains(&dst) {
            return Ok(());
        }
        if self.extension.is_none() {
            let warned = std::mem::replace(&mut self.receivers.warned_of_daemon, true);
            if !warned {
                self.warn("if a receiver has the original library, it");
            }
            return Ok(());
        }
        match self.library_of(dst)? {
            Library::Unknown => return Ok(()),
            Library::Ours => {}
            Library::Originals => self.warn(&format!("t{:x} has the original library, which", dst.raw())),
        }
        self.receivers.settled.insert(dst);
        Ok(())
    }

    fn library_of(&mut self, task: Tid) -> Result<Library> {
        let answer = self.answer(&ListTasks { which: task, version: Some(EXTENSION_VERSION) })?;
        let known = answer.map_or_else(|_| Vec::new(), |list| list.tasks);
        let flags = known.iter().find(|record| record.tid == task).map_or(0, |record| record.flags);
        Ok(match flags {
            _ if flags & task_flags::EXTENDED != 0 => Library::Ours,
            _ if flags & task_flags::CONNECTED != 0 => Library::Originals,
            _ => Library::Unknown,
        })
    }

    fn warn(&self, who: &str) {
        if self.options.auto_err > 0 {
            let own = self.tid().raw();
            eprintln!(
                "libpvm [t{own:x}]: pvm_send(): Value too large: {who} takes 32 bits of a long; PvmDataRaw keeps all"
            );
        }
    }
}
