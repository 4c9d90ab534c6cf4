//! The calls about message buffers: making, selecting, freeing, asking.

use super::buffers::{Buffer, Format};
use super::internals;
use super::memory::{MessageInfo, Out};
use super::state::{Outcome, State, try_fast};
use super::tracepoints::{argument, nothing, result, traced};
use pvm_wire::events::{Datum, Event};
use pvm_wire::{Encoding, PvmError};
use std::ffi::c_int;

/// Frees the send buffer and makes a new one.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_initsend(style: c_int) -> c_int {
    let renew = |state: &mut State| state.buffers.renew_sending(Encoding::from_style(style)?);
    try_fast(renew).unwrap_or_else(|| initsend_whole(style))
}

#[inline(never)]
fn initsend_whole(style: c_int) -> c_int {
    traced("pvm_initsend", Event::Initsend, argument(Datum::ME, style), result(Datum::MSB), move |state| {
        initsend(state, style)
    })
}

/// Frees the send buffer and makes a new one.
#[inline(always)]
pub fn initsend(state: &mut State, style: c_int) -> Outcome {
    let id = make(state, style)?;
    let old = state.buffers.set_send(id)?;
    state.discard(old)?;
    Ok(id)
}

/// Makes a message buffer.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_mkbuf(style: c_int) -> c_int {
    traced("pvm_mkbuf", Event::Mkbuf, argument(Datum::ME, style), result(Datum::MB), |state| {
        make(state, style)
    })
}

#[inline(always)]
fn make(state: &mut State, style: c_int) -> Outcome {
    let format = Format::from_style(style)?;
    let id = state.buffers.make(format)?;
    if format == Format::Trace {
        begin_trace(state.buffers.get(id)?)?;
    }
    Ok(id)
}

/// The head of a trace message: a user-defined event, now.
fn begin_trace(buffer: &mut Buffer) -> Result<(), PvmError> {
    const EVENT: i32 = -9;
    const USER_DEFINED: i32 = 108;
    let now = internals::now();
    buffer.pack([EVENT, USER_DEFINED].into_iter())?;
    buffer.pack_str(b"user_defined")?;
    buffer.pack([now.seconds as i32, now.micros as i32].into_iter())
}

/// Frees a buffer.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_freebuf(id: c_int) -> c_int {
    traced("pvm_freebuf", Event::Freebuf, argument(Datum::MB, id), result(Datum::CC), |state| {
        state.discard(id)?;
        Ok(0)
    })
}

/// The id of the buffer to pack into, or 0.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_getsbuf() -> c_int {
    traced("pvm_getsbuf", Event::Getsbuf, nothing, result(Datum::MSB), |state| Ok(state.buffers.send_id()))
}

/// The id of the buffer to unpack from, or 0.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_getrbuf() -> c_int {
    traced("pvm_getrbuf", Event::Getrbuf, nothing, result(Datum::MRB), |state| Ok(state.buffers.receive_id()))
}

/// Selects the buffer to pack into and returns the one before.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_setsbuf(id: c_int) -> c_int {
    traced("pvm_setsbuf", Event::Setsbuf, argument(Datum::MB, id), result(Datum::MSB), |state| {
        Ok(state.buffers.set_send(id)?)
    })
}

/// Selects the buffer to unpack from and returns the one before.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_setrbuf(id: c_int) -> c_int {
    traced("pvm_setrbuf", Event::Setrbuf, argument(Datum::MB, id), result(Datum::MRB), |state| {
        Ok(state.buffers.set_receive(id)?)
    })
}

/// Length, tag and sender of a message.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_bufinfo(
    id: c_int,
    length: Out<'_, c_int>,
    tag: Out<'_, c_int>,
    tid: Out<'_, c_int>,
) -> c_int {
    traced(
        "pvm_bufinfo",
        Event::Bufinfo,
        argument(Datum::MB, id),
        |state, event, code| {
            let found = state
                .buffers
                .get(id)
                .map(|buffer| (buffer.length() as c_int, buffer.info.tag, buffer.info.src));
            let (length, tag, src) = found.unwrap_or((code, code, code));
            event.int(Datum::CC, code).int(Datum::INB, length).int(Datum::IMC, tag).int(Datum::IST, src);
        },
        |state| {
            let buffer = state.buffers.get(id)?;
            length.set(buffer.length() as c_int);
            tag.set(buffer.info.tag);
            tid.set(buffer.info.src);
            Ok(0)
        },
    )
}

/// All fields of a message's header.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_getminfo(id: c_int, info: Out<'_, MessageInfo>) -> c_int {
    traced("pvm_getminfo", Event::Getminfo, argument(Datum::MB, id), result(Datum::CC), |state| {
        let found = describe(state.buffers.get(id)?);
        info.set(found);
        Ok(0)
    })
}

/// A message's header as programs see it.
pub fn describe(buffer: &Buffer) -> MessageInfo {
    MessageInfo {
        length: buffer.length() as c_int,
        context: buffer.info.context,
        tag: buffer.info.tag,
        wait_id: buffer.info.wait_id,
        encoding: buffer.format.shown() as c_int,
        checksum: buffer.info.checksum,
        src: buffer.info.src,
        dst: buffer.info.dst,
    }
}

/// Sets those fields of a message's header that can be set: all but length, encoding and checksum.
///
/// # Safety
/// `info` is NULL or can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_setminfo(id: c_int, info: *const MessageInfo) -> c_int {
    traced("pvm_setminfo", Event::Setminfo, argument(Datum::MB, id), result(Datum::CC), |state| {
        let buffer = state.buffers.get(id)?;
        // SAFETY: NULL, or a structure that nobody changes during the call.
        let new = unsafe { info.as_ref() }.ok_or(PvmError::BadParam)?;
        buffer.info.context = new.context;
        buffer.info.tag = new.tag;
        buffer.info.wait_id = new.wait_id;
        buffer.info.src = new.src;
        buffer.info.dst = new.dst;
        Ok(0)
    })
}
