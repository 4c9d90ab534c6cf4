//! Message handlers of the program: functions that take messages before they reach the queue.

use super::state::{Failure, locked};
use super::timeline;
use super::tracepoints::{self, argument, result, traced};
use pvm_wire::codes::{CONTEXT_TC, Tc};
use pvm_wire::events::{Datum, Event};
use pvm_wire::{Message, MessageHeader, PvmError};
use std::collections::VecDeque;
use std::ffi::c_int;

/// A message handler.
pub type Function = unsafe extern "C" fn(c_int) -> c_int;

/// Ids below this are the library's own handlers'.
const FIRST_ID: c_int = 9;

/// A handler of messages from a sender, with a tag and in a context (-1: any).
#[derive(Clone, Copy)]
pub struct Handler {
    src: c_int,
    tag: c_int,
    context: c_int,
    function: Function,
}

fn overlap(a: c_int, b: c_int) -> bool {
    a == -1 || b == -1 || a == b
}

impl Handler {
    fn takes(&self, src: c_int, tag: c_int, context: c_int) -> bool {
        overlap(self.src, src) && overlap(self.tag, tag) && overlap(self.context, context)
    }
}

/// The handlers by id, and messages that wait for theirs.
#[derive(Default)]
pub struct Handlers {
    slots: Vec<Option<Handler>>,
    free: Vec<usize>,
    due: VecDeque<(c_int, Handler)>,
    running: bool,
}

impl Handlers {
    /// Whether there is none.
    #[inline]
    pub fn are_none(&self) -> bool {
        self.slots.is_empty() && self.due.is_empty() && !self.running
    }

    /// Whether a handler is being run.
    #[inline]
    pub fn running(&self) -> bool {
        self.running
    }

    /// Whether messages wait for their handlers, and these can be called.
    #[inline]
    pub fn are_due(&self) -> bool {
        !self.running && !self.due.is_empty()
    }

    /// The handler that takes this message, if there is one.
    #[inline]
    pub fn find(&self, message: &Message) -> Option<Handler> {
        let (src, MessageHeader { tag, context, .. }) = (message.src.raw(), message.header);
        self.slots.iter().flatten().find(|handler| handler.takes(src, tag, context)).copied()
    }

    /// Queues a call of this handler for a message in a buffer.
    pub fn call_later(&mut self, handler: Handler, id: c_int) {
        self.due.push_back((id, handler));
    }

    /// Id, source, tag and context of each.
    pub fn list(&self) -> Vec<(c_int, c_int, c_int, c_int)> {
        let named = (FIRST_ID..).zip(&self.slots);
        named
            .filter_map(|(id, slot)| slot.map(|handler| (id, handler.src, handler.tag, handler.context)))
            .collect()
    }

    /// Removes all of them.
    pub fn clear(&mut self) {
        *self = Self { running: self.running, ..Self::default() };
    }

    fn add(&mut self, handler: Handler) -> Result<c_int, PvmError> {
        let own = [
            Tc::ConReq,
            Tc::ConAck,
            Tc::TaskExit,
            Tc::Noop,
            Tc::Output,
            Tc::SetTrace,
            Tc::SetTmask,
            Tc::SetTrcBuf,
            Tc::SetTrcOpt,
            Tc::Siblings,
        ];
        let clashes = own.iter().any(|kind| handler.takes(-1, kind.tag(), CONTEXT_TC))
            || self
                .slots
                .iter()
                .flatten()
                .any(|other| other.takes(handler.src, handler.tag, handler.context));
        if clashes {
            return Err(PvmError::Exists);
        }
        let index = self.free.pop().unwrap_or(self.slots.len());
        if index == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[index] = Some(handler);
        Ok(FIRST_ID + index as c_int)
    }

    fn remove(&mut self, id: c_int) -> Result<(), PvmError> {
        if id < 0 {
            return Err(PvmError::BadParam);
        }
        let index = usize::try_from(id - FIRST_ID).map_err(|_| PvmError::NotFound)?;
        self.slots.get_mut(index).and_then(Option::take).ok_or(PvmError::NotFound)?;
        self.free.push(index);
        Ok(())
    }
}

/// Calls the handlers of received messages. Nothing is locked while they run.
pub fn run_due() {
    while let Ok(Some(run)) = begin() {
        // SAFETY: the program gave this function to `pvm_addmhf`.
        unsafe { (run.function)(run.id) };
        if end(&run).is_err() {
            return;
        }
    }
}

/// A handler at work, and what to restore after it.
struct Run {
    id: c_int,
    function: Function,
    send: c_int,
    receive: c_int,
    context: c_int,
}

fn begin() -> Result<Option<Run>, Failure> {
    locked(|state| {
        if !state.handlers.are_due() {
            return Ok(None);
        }
        let Some((id, handler)) = state.handlers.due.pop_front() else { return Ok(None) };
        let function = handler.function;
        tracepoints::enter(state, Event::MhfInvoke, |state, event| {
            event.int(Datum::RST, handler.src).int(Datum::RMC, handler.tag).int(Datum::RCX, handler.context);
            if let Ok(buffer) = state.buffers.get(id) {
                let (length, info) = (buffer.length() as c_int, buffer.info);
                event.int(Datum::MB, id).int(Datum::MNB, length).int(Datum::MC, info.tag);
                event.int(Datum::MCX, info.context).int(Datum::SRC, info.src);
            }
        });
        let begun = timeline::begin(state)?;
        timeline::received(state, begun, id);
        let message_context = state.buffers.get(id)?.info.context;
        let send = state.buffers.set_send(0)?;
        let receive = state.buffers.set_receive(id)?;
        let context = std::mem::replace(&mut state.context, message_context);
        state.handlers.running = true;
        Ok(Some(Run { id, function, send, receive, context }))
    })
}

fn end(run: &Run) -> Result<(), Failure> {
    locked(|state| {
        state.handlers.running = false;
        state.context = run.context;
        let (made, received) = (state.buffers.send_id(), state.buffers.receive_id());
        // The handler may have freed any of these itself.
        for id in [made, received, run.id] {
            let _ = state.discard(id);
        }
        state.buffers.reselect(run.send, run.receive);
        Ok(())
    })
}

/// Adds a message handler for a sender, tag and context (-1: any) and returns its id.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_addmhf(src: c_int, tag: c_int, context: c_int, function: Option<Function>) -> c_int {
    traced(
        "pvm_addmhf",
        Event::Addmhf,
        |_, event| {
            event.int(Datum::RST, src).int(Datum::RMC, tag).int(Datum::RCX, context);
        },
        result(Datum::MHI),
        |state| {
            let function = function.ok_or(PvmError::BadParam)?;
            Ok(state.handlers.add(Handler { src, tag, context, function })?)
        },
    )
}

/// Removes a message handler.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_delmhf(id: c_int) -> c_int {
    traced("pvm_delmhf", Event::Delmhf, argument(Datum::MHI, id), result(Datum::CC), |state| {
        state.handlers.remove(id)?;
        Ok(0)
    })
}

#[cfg(test)]
mod tests {
    use super::super::buffers::local_message;
    use super::*;
    use pvm_wire::Tid;

    unsafe extern "C" fn nothing(_: c_int) -> c_int {
        0
    }

    fn handler(src: c_int, tag: c_int, context: c_int) -> Handler {
        Handler { src, tag, context, function: nothing }
    }

    #[test]
    fn handlers_may_not_overlap_and_ids_are_used_again() {
        let mut handlers = Handlers::default();
        assert_eq!(handlers.add(handler(-1, 5, 0)), Ok(9));
        assert_eq!(handlers.add(handler(3, -1, 0)), Err(PvmError::Exists));
        assert_eq!(handlers.add(handler(3, 6, 0)), Ok(10));
        assert_eq!(handlers.add(handler(-1, -1, CONTEXT_TC)), Err(PvmError::Exists));
        let message = |context| local_message(Tid::from_raw(7), Tid::NONE, context, 5, Vec::new());
        assert!(handlers.find(&message(0)).is_some_and(|handler| handler.tag == 5));
        assert!(handlers.find(&message(1)).is_none());
        assert_eq!(handlers.remove(9), Ok(()));
        assert_eq!(handlers.remove(9), Err(PvmError::NotFound));
        assert_eq!(handlers.remove(-1), Err(PvmError::BadParam));
        assert_eq!(handlers.add(handler(1, 1, 1)), Ok(9));
    }
}
