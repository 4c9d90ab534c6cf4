//! The resource manager: a task that answers some requests in the daemon's place. A task learns of it when it enrols.

use super::{Engine, Payload, xdr_header};
use crate::Result;
use bytes::Bytes;
use pvm_wire::calls::notify::NotifyRequest;
use pvm_wire::codes::{CONTEXT_TM, Sm, Tm, notify};
use pvm_wire::{Message, Tid};

/// The resource manager, as far as this task knows it.
#[derive(Debug, Default)]
pub(super) struct Manager {
    tid: Option<Tid>,
    /// Whether the daemon was asked for a notice of the manager's exit.
    watched: bool,
    /// Whether a call waits for its answer.
    awaited: bool,
}

impl Manager {
    pub(super) fn new(tid: i32) -> Self {
        Self { tid: Some(Tid::from_raw(tid)).filter(|tid| tid.is_task()), ..Self::default() }
    }

    /// Its id, if there is one.
    pub(super) fn tid(&self) -> Option<Tid> {
        self.tid
    }
}

impl Engine {
    /// From now on all requests go to the daemon: this task is the resource manager itself.
    pub(super) fn bypass_manager(&mut self) {
        self.manager = Manager::default();
        self.is_manager = true;
    }

    /// The manager that answers requests with this tag, and the tag it uses for them; `None` if the daemon answers.
    pub(super) fn manager_of(&self, tag: i32) -> Option<(Tid, i32)> {
        let what = match Tm::from_tag(tag)? {
            Tm::Spawn => Sm::Spawn,
            Tm::Task => Sm::Task,
            Tm::Config => Sm::Config,
            Tm::AddHost => Sm::AddHost,
            Tm::DelHost => Sm::DelHost,
            Tm::Notify => Sm::Notify,
            Tm::Sched => Sm::Sched,
            _ => return None,
        };
        Some((self.manager.tid?, what.tag()))
    }

    /// Asks the resource manager; `None` if it has ended, before or meanwhile.
    pub(super) fn ask_manager(&mut self, to: Tid, tag: i32, body: &[u8]) -> Result<Option<Bytes>> {
        self.watch_manager(to)?;
        self.manager.awaited = true;
        // Managers need not give the wait id back: each is asked one thing at a time.
        let is_answer = |message: &Message| message.src == to && message.header.tag == tag;
        let answer = self.converse(to, xdr_header(tag, 0, 0), body, None, &mut |message, _| {
            is_answer(message) || is_exit_notice(message)
        });
        self.manager.awaited = false;
        Ok(answer?.filter(is_answer).map(|message| message.body.into_bytes()))
    }

    fn watch_manager(&mut self, tid: Tid) -> Result<()> {
        if std::mem::replace(&mut self.manager.watched, true) {
            return Ok(());
        }
        let request = NotifyRequest::of_one(notify::TASK_EXIT, CONTEXT_TM, Tm::Notify.tag(), tid);
        let message = self.as_message(&request);
        self.send(message.dst, message.header, Payload::Parts(&[&message.body]))
    }

    /// Whether a message was the notice of the manager's exit, and needs no further handling. A call that waits for the manager
    /// must see the notice too.
    pub(super) fn handle_manager_exit(&mut self, message: &Message) -> bool {
        if !is_exit_notice(message) {
            return false;
        }
        self.manager.tid = None;
        !self.manager.awaited
    }
}

fn is_exit_notice(message: &Message) -> bool {
    message.src == Tid::MY_DAEMON
        && (message.header.context, message.header.tag) == (CONTEXT_TM, Tm::Notify.tag())
}
