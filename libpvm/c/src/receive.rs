//! Receiving.

use super::memory::{Out, TimeVal, copy_bytes};
use super::search::{Finder, Until, Wanted};
use super::send::array_length;
use super::state::{Failure, State, try_fast};
use super::{errors, timeline, tracepoints};
use pvm_engine::{Begun, Spinner, Wait};
use pvm_wire::events::{Datum, Event, Writer};
use pvm_wire::{MessageHeader, PvmError, Tid};
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Receives a message into a buffer of its own, which becomes the one to unpack from.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_recv(tid: c_int, tag: c_int) -> c_int {
    receive("pvm_recv", Event::Recv, Wanted { tid, tag }, Until::Forever, None)
}

/// As [`pvm_recv`], but 0 at once if there is no such message.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_nrecv(tid: c_int, tag: c_int) -> c_int {
    receive("pvm_nrecv", Event::Nrecv, Wanted { tid, tag }, Until::POLL, None)
}

/// As [`pvm_recv`], but 0 if no such message comes in time; a NULL time is for ever.
///
/// # Safety
/// `timeout` is NULL or can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_trecv(tid: c_int, tag: c_int, timeout: *const TimeVal) -> c_int {
    // SAFETY: NULL, or a time that does not change during the call.
    let time = unsafe { timeout.as_ref() };
    let until = match time {
        None => Ok(Until::Forever),
        Some(time) => deadline(time),
    };
    match until {
        Ok(until) => receive("pvm_trecv", Event::Trecv, Wanted { tid, tag }, until, time.copied()),
        Err(failure) => errors::finish("pvm_trecv", Err(failure)),
    }
}

fn deadline(time: &TimeVal) -> Result<Until, Failure> {
    let seconds = u64::try_from(time.seconds).map_err(|_| PvmError::BadParam)?;
    let micros = u64::try_from(time.micros).map_err(|_| PvmError::BadParam)?;
    let span = Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros));
    if span.is_zero() {
        return Ok(Until::Now(Wait::For(span)));
    }
    // A time beyond the clock's end is for ever.
    Ok(Instant::now().checked_add(span).map_or(Until::Forever, |end| Until::Deadline(end, span)))
}

/// The id of a message that has arrived and stays unreceived, or 0.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_probe(tid: c_int, tag: c_int) -> c_int {
    let wanted = Wanted { tid, tag };
    let mut search = Finder::default();
    let begin = |state: &mut State| {
        wanted.announce(state, Event::Probe, |_| ());
        Ok(())
    };
    let outcome = search
        .find(wanted, Until::POLL, begin, |state, (), number| state.show(number))
        .map(|id| id.unwrap_or(0));
    search.end(Event::Probe, &outcome, tracepoints::result(Datum::CC));
    errors::finish("pvm_probe", outcome)
}

#[inline]
fn receive(name: &str, event: Event, wanted: Wanted, until: Until, time: Option<TimeVal>) -> c_int {
    receive_fast(wanted, until).unwrap_or_else(|| search(name, event, wanted, until, time))
}

/// What most calls come to: the next message that a neighbour has written, or is about to write, is the wanted one, and nobody
/// else wants to know. Everything else is left to [`search`].
#[inline(always)]
fn receive_fast(wanted: Wanted, until: Until) -> Option<c_int> {
    let mut looked: Option<(Arc<Spinner>, bool)> = None;
    loop {
        // One closure for the attempts before and after the look, so that the compiler makes one copy of the receive.
        let step = try_fast(|state| {
            let is_first = looked.is_none();
            if let Some((spinner, is_there)) = looked.take() {
                state.spinner = Some(spinner);
                if !is_there {
                    return None;
                }
            } else if !state.engine.as_ref()?.has_none() {
                return None;
            } else {
                state.buffers.begin_receive().ok()?;
            }
            match take_near(state, wanted) {
                Some(id) => Some(Ok(id)),
                None if is_first && matches!(until, Until::Forever) => state.take_spinner().map(Err),
                None => None,
            }
        });
        match step? {
            Ok(id) => return Some(id),
            Err(spinner) => {
                let is_there = spinner.spin_at_once();
                looked = Some((spinner, is_there));
            }
        }
    }
}

/// The next message that a neighbour has written becomes the one to unpack from, if it is wanted.
#[inline(always)]
fn take_near(state: &mut State, wanted: Wanted) -> Option<c_int> {
    let (context, engine) = (state.context, state.engine.as_mut()?);
    let dst = engine.tid();
    let is_wanted =
        |src: Tid, header: &MessageHeader| wanted.matches(context, src.raw(), header.tag, header.context);
    if let Some(near) = engine.next_near(is_wanted) {
        return state.buffers.receive_near(&near, dst);
    }
    match state.buffers.receive_block(engine.next_block(is_wanted)?) {
        Ok(id) => Some(id),
        Err(message) => {
            engine.inject(message);
            None
        }
    }
}

/// Not inlined into the fast path, whose frame would grow by that of a search: 512 bytes took a sixth longer.
#[inline(never)]
fn search(name: &str, event: Event, wanted: Wanted, until: Until, time: Option<TimeVal>) -> c_int {
    let limit = |record: &mut Writer| {
        if event == Event::Trecv {
            let (seconds, micros) = time.map_or((-1, -1), |time| (time.seconds as i32, time.micros as i32));
            record.int(Datum::MTS, seconds).int(Datum::MTU, micros);
        }
    };
    let (mut search, mut begun) = (Finder::default(), None);
    let begin = |state: &mut State| {
        wanted.announce(state, event, limit);
        begun = begin(state)?;
        Ok(begun)
    };
    let found = search.find(wanted, until, begin, |state, begun, number| {
        let id = state.take(number)?;
        timeline::received(state, begun, id);
        state.buffers.set_receive(id)?;
        Ok(id)
    });
    let outcome = match found {
        Ok(None) => timeline::waited(begun).map(|()| 0),
        found => found.map(|id| id.unwrap_or(0)),
    };
    search.end(event, &outcome, |state, record, id| {
        let found =
            state.buffers.get(id).map(|buffer| (buffer.length() as c_int, buffer.info.tag, buffer.info.src));
        let (length, tag, src) = found.unwrap_or((-1, -1, -1));
        record.int(Datum::MB, id).int(Datum::MNB, length).int(Datum::MC, tag);
        record.int(Datum::MCX, state.context).int(Datum::SRC, src);
    });
    errors::finish(name, outcome)
}

/// A receive call begins: frees the message received before.
#[inline]
fn begin(state: &mut State) -> Result<Option<Begun>, Failure> {
    let begun = timeline::begin(state)?;
    state.discard(state.buffers.receive_id())?;
    Ok(begun)
}

/// Receives a message into an array: as many bytes as there is room for, unconverted.
///
/// # Safety
/// There is room for `count` elements of the type at `data`; each other pointer is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_precv(
    tid: c_int,
    tag: c_int,
    data: *mut c_void,
    count: c_int,
    kind: c_int,
    sender: Out<'_, c_int>,
    its_tag: Out<'_, c_int>,
    length: Out<'_, c_int>,
) -> c_int {
    let wanted = Wanted { tid, tag };
    let mut search = Finder::default();
    let begin = |state: &mut State| {
        wanted.announce(state, Event::Precv, |record| {
            record.long(Datum::PDA, data.addr() as i64).int(Datum::PC, count).int(Datum::PDT, kind);
        });
        let room = array_length(kind, count)?;
        if data.is_null() && room > 0 {
            return Err(PvmError::BadParam.into());
        }
        Ok((room, timeline::begin(state)?))
    };
    let mut received = None;
    let found = search.find(wanted, Until::Forever, begin, |state, (room, begun), number| {
        let id = state.take(number)?;
        timeline::received(state, begun, id);
        let message = state.buffers.get(id)?;
        let info = message.info;
        let bytes = message.encoded()?.0;
        received = Some((bytes.len() as c_int, info.tag, info.src));
        // SAFETY: no more bytes than the array has room for, which are not the program's.
        unsafe {
            if room > 0 {
                copy_bytes(&bytes[..bytes.len().min(room)], data.cast());
            }
            sender.set(info.src);
            its_tag.set(info.tag);
            length.set(bytes.len() as c_int);
        }
        state.buffers.free(id)?;
        Ok(0)
    });
    let outcome = found.and_then(|code| code.ok_or_else(|| PvmError::SysErr.into()));
    search.end(Event::Precv, &outcome, |state, record, code| {
        let (length, tag, src) = received.unwrap_or((-1, -1, -1));
        record.int(Datum::CC, code).int(Datum::MNB, length).int(Datum::MC, tag);
        record.int(Datum::MCX, state.context).int(Datum::SRC, src);
    });
    errors::finish("pvm_precv", outcome)
}
