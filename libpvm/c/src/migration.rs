//! Tasks that move to other hosts: `pvm_migratable`, `pvm_maymove` and `pvm_move` of pvm3x.h.
//!
//! The program's functions are called with nothing locked, as they call the library. Between the call that saves and the departure
//! signal handlers may have called it, too: the engine looks again whether the task can go.

use super::memory::Text;
use super::nested;
use super::output::File;
use super::state::{Failure, Outcome, Reporting, State, call, locked};
use super::{errors, output};
use pvm_engine::{Departure, Engine, Luggage};
use pvm_wire::body::{BodyError, BodyReader, BodyWriter};
use pvm_wire::calls::hosts::Config;
use pvm_wire::{HostIndex, Message, MessageHeader, PvmError, Tid};
use std::ffi::c_int;
use std::ptr::null_mut;

/// A function of the program that saves its state, or restores it.
pub type Function = unsafe extern "C" fn() -> c_int;

unsafe extern "C" {
    fn fflush(stream: *mut File) -> c_int;
    safe fn _exit(status: c_int) -> !;
}

/// What the program has said about moves.
#[derive(Default)]
pub struct Migration {
    save: Option<Function>,
    /// A function of the program runs in which the task does not move.
    is_busy: bool,
}

/// The buffers to go back to when a function of the program has returned.
struct Selected {
    send: c_int,
    receive: c_int,
}

impl Selected {
    fn now(state: &State) -> Self {
        Self { send: state.buffers.send_id(), receive: state.buffers.receive_id() }
    }

    /// Frees what was selected since, and selects these.
    fn restore(&self, state: &mut State) {
        for id in [state.buffers.send_id(), state.buffers.receive_id()] {
            if ![0, self.send, self.receive].contains(&id) {
                // It is one of the program's, as the library has just named it.
                let _ = state.discard(id);
            }
        }
        state.buffers.reselect(self.send, self.receive);
    }
}

impl State {
    /// Whether this task is to move, and may in a call that receives.
    #[inline]
    pub fn is_to_move(&self) -> bool {
        self.engine.as_ref().is_some_and(Engine::is_moving)
            && self.migration.save.is_some()
            && !self.migration.is_busy
            && !self.handlers.running()
    }

    /// A function of the program runs, or has returned, in which the task does not move. Whether that was so before.
    pub fn set_busy(&mut self, is_busy: bool) -> bool {
        std::mem::replace(&mut self.migration.is_busy, is_busy)
    }
}

/// Moves, if that is due and possible. Whether the task was about to, and stays: then messages may have come.
pub fn attempt() -> Result<bool, Failure> {
    let Some((save, selected)) = locked(begin)? else { return Ok(false) };
    // SAFETY: the program gave this function to `pvm_migratable`; nothing of the library is locked here.
    let code = unsafe { save() };
    match locked(|state| end(state, &selected, code))? {
        Departure::NotYet => Ok(false),
        Departure::Stays => Ok(true),
        Departure::Gone => {
            // SAFETY: NULL stands for all streams. What cannot be written now could not have been written later.
            unsafe { fflush(null_mut()) };
            _exit(0)
        }
    }
}

fn begin(state: &mut State) -> Result<Option<(Function, Selected)>, Failure> {
    // What waits for a handler is in no queue that is taken along.
    if !state.is_to_move() || state.handlers.are_due() {
        return Ok(None);
    }
    let Some(save) = state.migration.save else { return Ok(None) };
    if !state.engine()?.can_move() {
        return Ok(None);
    }
    let selected = Selected::now(state);
    let id = state.buffers.make(super::buffers::Format::default())?;
    state.buffers.set_send(id)?;
    state.set_busy(true);
    Ok(Some((save, selected)))
}

fn end(state: &mut State, selected: &Selected, code: c_int) -> Result<Departure, Failure> {
    state.set_busy(false);
    let saved = state.buffers.sending().and_then(nested::whole);
    selected.restore(state);
    let interface = interface_state(state);
    let Some(engine) = &mut state.engine else { return Ok(Departure::Stays) };
    match saved {
        Ok(message) if code >= 0 => Ok(engine.depart(&Luggage { program: to_bytes(message), interface })?),
        Ok(_) => {
            engine.refuse_to_move(format!("its program cannot save its state (error {code})"));
            Ok(Departure::Stays)
        }
        Err(error) => {
            engine.refuse_to_move(format!("its program has packed nothing that can be sent: {error}"));
            Ok(Departure::Stays)
        }
    }
}

/// Bytes behind a body: how it is encoded. There they need no copy of a long one.
const ENCODING: usize = 8;

/// What the program has packed, as bytes.
fn to_bytes(Message { header, body, .. }: Message) -> Vec<u8> {
    let mut bytes = Vec::from(body.into_bytes());
    let encoding = [header.encoding as c_int, header.checksum as c_int];
    bytes.extend(BodyWriter::new().ints(encoding).finish());
    bytes
}

fn from_bytes(mut bytes: Vec<u8>) -> Result<Message, Failure> {
    let end = bytes.len().checked_sub(ENCODING).ok_or(BodyError::Short)?;
    let mut reader = BodyReader::new(&bytes[end..]);
    let (encoding, checksum) = (reader.int()?.cast_unsigned(), reader.int()?.cast_unsigned());
    let header = MessageHeader { encoding, checksum, ..MessageHeader::default() };
    bytes.truncate(end);
    Ok(Message { src: Tid::NONE, dst: Tid::NONE, header, body: bytes.into() })
}

/// What this interface takes along: options, the context, and what it knows of the program's calls.
fn interface_state(state: &State) -> Vec<u8> {
    let settings = &state.settings;
    let no_reset = state.no_reset;
    let notifies = state.own_exit_notifies.iter().flat_map(|&(context, tag)| [context, tag]);
    BodyWriter::new()
        .ints([state.context, settings.route, settings.debug_mask, settings.auto_err, settings.resv_tids])
        .ints([output::show_tids(), i32::from(state.collecting)])
        .ints([i32::from(no_reset.is_some()), no_reset.unwrap_or(0)])
        .int(state.own_exit_notifies.len() as c_int)
        .ints(notifies)
        .finish()
}

/// Goes on with what another process of this task has taken along. What cannot be read is left as it is.
pub fn resume(state: &mut State, saved: &[u8]) {
    // A program in another language has taken nothing along.
    let _ = read_interface_state(state, saved);
}

fn read_interface_state(state: &mut State, saved: &[u8]) -> Result<(), BodyError> {
    let mut reader = BodyReader::new(saved);
    let head = reader.ints(9)?;
    let count = reader.count(8)?;
    let notifies = reader.ints(count.saturating_mul(2))?;
    let [context, route, debug_mask, auto_err, resv_tids, show_tids, collecting, has_no_reset, no_reset] =
        head[..]
    else {
        return Ok(());
    };
    state.context = context;
    state.settings = super::state::Settings { route, debug_mask, auto_err, resv_tids };
    output::set_show_tids(show_tids);
    state.collecting = collecting != 0;
    state.no_reset = (has_no_reset != 0).then_some(no_reset);
    state.own_exit_notifies = notifies.chunks_exact(2).map(|notify| (notify[0], notify[1])).collect();
    Ok(())
}

/// From now on this task can move. In a process that goes on with a task that has moved the state is restored.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_migratable(save: Option<Function>, restore: Option<Function>) -> c_int {
    errors::finish("pvm_migratable", register(save, restore))
}

fn register(save: Option<Function>, restore: Option<Function>) -> Outcome {
    let (Some(save), Some(restore)) = (save, restore) else { return Err(PvmError::BadParam.into()) };
    let selected = locked(begin_to_restore)?;
    if let Some(selected) = selected {
        // SAFETY: the program has just given this function; nothing of the library is locked here.
        let code = unsafe { restore() };
        locked(|state| {
            state.set_busy(false);
            selected.restore(state);
            Ok(())
        })?;
        if code < 0 {
            return Err(Failure { reporting: Reporting::None, ..Failure::code(code) });
        }
    }
    locked(|state| {
        state.engine()?.make_movable(None)?;
        state.migration.save = Some(save);
        Ok(c_int::from(state.engine()?.has_moved()))
    })
}

/// Selects what was saved as the buffer to unpack from, if this process goes on with a task that has moved.
fn begin_to_restore(state: &mut State) -> Result<Option<Selected>, Failure> {
    state.may_wait()?;
    let engine = state.engine()?;
    if engine.is_movable() {
        return Err(PvmError::Already.into());
    }
    engine.require_ours()?;
    let Some(saved) = engine.take_saved() else { return Ok(None) };
    let selected = Selected::now(state);
    let id = state.buffers.insert(nested::unpackable(from_bytes(saved)?))?;
    state.buffers.set_receive(id)?;
    state.set_busy(true);
    Ok(Some(selected))
}

/// Moves, if this task is to be moved and can be now.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_maymove() -> c_int {
    let looked = locked(|state| Ok(state.engine()?.move_here()?));
    errors::finish("pvm_maymove", looked.and_then(|()| attempt()).map(|_| 0))
}

/// Moves a task to a host, or to the one with most room; returns the host.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_move(tid: c_int, host: Text<'_>) -> c_int {
    let host = host.os_text_or_empty();
    call("pvm_move", |state| {
        state.may_wait()?;
        let name = host?.to_str().ok_or(PvmError::NoHost)?;
        if !Tid::from_raw(tid).is_task() {
            return Err(PvmError::BadParam.into());
        }
        let host = host_of_name(state, name)?;
        let moved = state.engine()?.move_task(Tid::from_raw(tid), host);
        Ok(moved.map_err(|error| Failure::explained(error.code(), error.to_string()))?.raw())
    })
}

/// The id of the host with this name; none if the name is empty.
fn host_of_name(state: &mut State, name: &str) -> Result<Option<Tid>, Failure> {
    if name.is_empty() {
        return Ok(None);
    }
    if name == "." {
        return Ok(state.engine()?.host().map(HostIndex::host_tid));
    }
    let found = state.ask(&Config {})?.hosts.into_iter().find(|host| host.name == name);
    found.map(|host| Some(Tid::from_raw(host.tid))).ok_or_else(|| PvmError::NoHost.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_a_program_has_packed_is_unpacked(numbers in prop::collection::vec(any::<i64>(), 0..50)) {
            let mut buffer = super::super::buffers::Buffer::new(super::super::buffers::Format::default());
            buffer.pack(numbers.iter().copied()).unwrap();
            let bytes = to_bytes(nested::whole(&mut buffer).unwrap());
            let mut there = nested::unpackable(from_bytes(bytes).unwrap());
            let mut found = Vec::new();
            there.unpack(numbers.len(), |_, number: i64| found.push(number)).unwrap();
            prop_assert_eq!(found, numbers);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = from_bytes(bytes).map(nested::unpackable);
        }
    }
}
