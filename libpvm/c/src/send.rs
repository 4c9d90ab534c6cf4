//! Sending.

use super::buffers::{Buffer, Format};
use super::memory;
use super::state::{Outcome, State, try_fast};
use super::tracepoints::{result, traced};
use pvm_engine::Error;
use pvm_engine::Payload;
use pvm_wire::events::{Datum, Event};
use pvm_wire::{Complex32, Complex64, Encoding, MessageHeader, PvmError, Tid};
use std::ffi::{c_int, c_long, c_void};

/// The end of an event in a trace message.
const TRACE_END: i32 = -10;
/// The receiver and tag that stand for the program's own tracer.
const TRACER: (c_int, c_int) = (-1111, -2222);

/// A buffer's in-place data, as they are now.
pub fn parts_of(buffer: &Buffer) -> Vec<&[u8]> {
    let parts = buffer.parts().iter().filter(|part| part.length > 0);
    parts
        .map(|part| {
            let pointer = std::ptr::with_exposed_provenance::<u8>(part.address);
            // SAFETY: a program that packs data in place leaves them there until the message is sent.
            unsafe { std::slice::from_raw_parts(pointer, part.length) }
        })
        .collect()
}

/// Sends what a buffer has: its body, or the parts that are read in place.
#[inline]
fn send_buffer(
    buffer: &mut Buffer,
    send: impl FnOnce(MessageHeader, Payload<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    if buffer.is_in_place() {
        return send(buffer.header(), Payload::Parts(&parts_of(buffer)));
    }
    buffer.outgoing(send)
}

/// Sends an event to the own tracer, if there is one.
fn send_event(state: &mut State) -> Outcome {
    let (engine, buffers) = state.engine_and_buffers()?;
    let buffer = buffers.sending()?;
    let tracer = engine.options().own_trace;
    if let Some(receiver) = tracer.receiver().filter(|_| buffer.format == Format::Trace) {
        buffer.pack(std::iter::once(TRACE_END))?;
        send_buffer(buffer, |header, payload| {
            let header = MessageHeader { tag: tracer.tag, context: tracer.context, ..header };
            engine.send(receiver, header, payload)
        })?;
    }
    Ok(0)
}

/// Length of the send buffer, -1 if there is none.
fn sending_length(state: &mut State) -> c_int {
    state.buffers.sending().map_or(-1, |buffer| buffer.length() as c_int)
}

/// Sends the send buffer to a task.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_send(tid: c_int, tag: c_int) -> c_int {
    match try_fast(|state| send_at_once(state, tid, tag)) {
        Some(()) => 0,
        None => send_whole(tid, tag),
    }
}

/// Sends what was packed to another task of this host, if that takes no more than putting it where the other finds it.
#[inline(always)]
fn send_at_once(state: &mut State, tid: c_int, tag: c_int) -> Option<()> {
    state.check_address(tid, tag).ok()?;
    let (context, engine) = (state.context, state.engine.as_mut()?);
    let buffer = state.buffers.sending().ok()?;
    (buffer.info.tag, buffer.info.context) = (tag, context);
    (buffer.info.src, buffer.info.dst) = (engine.tid().raw(), tid);
    engine.send_at_once(Tid::from_raw(tid), buffer.header(), Payload::Packed(buffer.packed()?)).then_some(())
}

#[inline(never)]
fn send_whole(tid: c_int, tag: c_int) -> c_int {
    traced(
        "pvm_send",
        Event::Send,
        move |state, event| {
            event.int(Datum::MNB, sending_length(state)).int(Datum::DST, tid);
            event.int(Datum::MC, tag).int(Datum::MCX, state.context);
        },
        result(Datum::CC),
        move |state| {
            state.engine()?;
            if (tid, tag) == TRACER {
                return send_event(state);
            }
            state.check_address(tid, tag)?;
            let context = state.context;
            let (engine, buffers) = state.engine_and_buffers()?;
            let buffer = buffers.sending()?;
            (buffer.info.tag, buffer.info.context) = (tag, context);
            (buffer.info.src, buffer.info.dst) = (engine.tid().raw(), tid);
            send_buffer(buffer, |header, payload| engine.send(Tid::from_raw(tid), header, payload))?;
            Ok(0)
        },
    )
}

/// Sends the send buffer to several tasks: to each once, and not to the sender.
///
/// # Safety
/// There are `count` ids at `tids`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_mcast(tids: *const c_int, count: c_int, tag: c_int) -> c_int {
    // SAFETY: NULL, or `count` numbers.
    let tids = unsafe { memory::numbers(tids, count) };
    let listed = tids.as_ref().map_or(Vec::new(), Clone::clone);
    traced(
        "pvm_mcast",
        Event::Mcast,
        |state, event| {
            event.int(Datum::MNB, sending_length(state)).int(Datum::MC, tag);
            event.int(Datum::MCX, state.context).ints(Datum::MDL, &listed);
        },
        result(Datum::CC),
        |state| {
            state.engine()?;
            multicast(state, tids?, tag)
        },
    )
}

/// Sends the send buffer to several tasks.
pub fn multicast(state: &mut State, tids: Vec<c_int>, tag: c_int) -> Outcome {
    if tag < 0 && state.settings.resv_tids == 0 {
        return Err(PvmError::BadParam.into());
    }
    tids.iter().try_for_each(|&tid| state.check_task(tid))?;
    let context = state.context;
    let (engine, buffers) = state.engine_and_buffers()?;
    let buffer = buffers.sending()?;
    (buffer.info.tag, buffer.info.context) = (tag, context);
    (buffer.info.src, buffer.info.dst) = (engine.tid().raw(), engine.tid().multicast().raw());
    let tids: Vec<Tid> = tids.into_iter().map(Tid::from_raw).collect();
    send_buffer(buffer, |header, payload| engine.multicast(&tids, header, payload))?;
    Ok(0)
}

/// Bytes of `count` elements of a type of `pvm_psend`.
pub fn array_length(kind: c_int, count: c_int) -> Result<usize, PvmError> {
    let size = match kind {
        0 => return Err(PvmError::NotImpl),
        1 => 1,
        2 | 9 => 2,
        3 | 10 => size_of::<c_int>(),
        4 => size_of::<f32>(),
        5 => size_of::<Complex32>(),
        6 => size_of::<f64>(),
        7 => size_of::<Complex64>(),
        8 | 11 => size_of::<c_long>(),
        _ => return Err(PvmError::BadParam),
    };
    let count = usize::try_from(count).map_err(|_| PvmError::BadParam)?;
    count.checked_mul(size).ok_or(PvmError::BadParam)
}

/// Sends an array, in this host's format, without a buffer.
///
/// # Safety
/// There are `count` elements of the type at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_psend(
    tid: c_int,
    tag: c_int,
    data: *const c_void,
    count: c_int,
    kind: c_int,
) -> c_int {
    traced(
        "pvm_psend",
        Event::Psend,
        move |state, event| {
            event.int(Datum::DST, tid).int(Datum::MC, tag).int(Datum::MCX, state.context);
            event.long(Datum::PDA, data.addr() as i64).int(Datum::PC, count).int(Datum::PDT, kind);
        },
        result(Datum::CC),
        |state| {
            let length = array_length(kind, count)?;
            if data.is_null() && length > 0 {
                return Err(PvmError::BadParam.into());
            }
            state.engine()?;
            state.check_address(tid, tag)?;
            let (encoding, context) = (Encoding::InPlace.word(), state.context);
            let header = MessageHeader { encoding, tag, context, wait_id: 0, checksum: 0 };
            let body: &[u8] = match length {
                0 => &[],
                // SAFETY: as many bytes as the elements have.
                _ => unsafe { std::slice::from_raw_parts(data.cast(), length) },
            };
            state.engine()?.send(Tid::from_raw(tid), header, Payload::Parts(&[body]))?;
            Ok(0)
        },
    )
}
