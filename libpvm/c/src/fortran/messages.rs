//! Buffers, packing, sending and receiving.

use super::{answer, number, numbers};
use crate::memory::{TimeVal, store};
use crate::pack::{Kind, pack, unpack};
use crate::state::{State, call};
use crate::{buffer_calls, receive, send};
use pvm_wire::PvmError;
use std::ffi::{c_int, c_void};

numbers! {
    /// `pvm_initsend`.
    pvmfinitsend_(style) = buffer_calls::pvm_initsend;
    /// `pvm_mkbuf`.
    pvmfmkbuf_(style) = buffer_calls::pvm_mkbuf;
    /// `pvm_freebuf`.
    pvmffreebuf_(id) = buffer_calls::pvm_freebuf;
    /// `pvm_getsbuf`.
    pvmfgetsbuf_() = buffer_calls::pvm_getsbuf;
    /// `pvm_getrbuf`.
    pvmfgetrbuf_() = buffer_calls::pvm_getrbuf;
    /// `pvm_setsbuf`.
    pvmfsetsbuf_(id) = buffer_calls::pvm_setsbuf;
    /// `pvm_setrbuf`.
    pvmfsetrbuf_(id) = buffer_calls::pvm_setrbuf;
    /// `pvm_send`.
    pvmfsend_(tid, tag) = send::pvm_send;
    /// `pvm_recv`.
    pvmfrecv_(tid, tag) = receive::pvm_recv;
    /// `pvm_nrecv`.
    pvmfnrecv_(tid, tag) = receive::pvm_nrecv;
    /// `pvm_probe`.
    pvmfprobe_(tid, tag) = receive::pvm_probe;
}

/// `pvm_trecv`; -1 seconds are for ever.
///
/// # Safety
/// All arguments are numbers, the last one writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvmftrecv_(
    tid: *const c_int,
    tag: *const c_int,
    seconds: *const c_int,
    micros: *const c_int,
    id: *mut c_int,
) {
    // SAFETY: as promised.
    unsafe {
        answer(id, || {
            let time = TimeVal { seconds: number(seconds)?.into(), micros: number(micros)?.into() };
            let timeout = if time.seconds == -1 { std::ptr::null() } else { &raw const time };
            Ok(receive::pvm_trecv(number(tid)?, number(tag)?, timeout))
        });
    }
}

/// `pvm_bufinfo`.
///
/// # Safety
/// All arguments are numbers, all but the first writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvmfbufinfo_(
    id: *const c_int,
    length: *mut c_int,
    tag: *mut c_int,
    tid: *mut c_int,
    info: *mut c_int,
) {
    // SAFETY: as promised.
    unsafe { answer(info, || Ok(buffer_calls::pvm_bufinfo(number(id)?, length, tag, tid))) };
}

/// The element type with this number of `fpvm3.h`; strings travel as plain bytes.
fn kind(what: c_int) -> Result<Kind, PvmError> {
    Ok(match what {
        0 | 1 => Kind::Byte,
        2 => Kind::Short,
        3 => Kind::Int,
        4 => Kind::Float,
        5 => Kind::Complex,
        6 => Kind::Double,
        7 => Kind::DoubleComplex,
        8 => Kind::Long,
        _ => return Err(PvmError::BadParam),
    })
}

/// The pack calls, the element type as an argument. A CHARACTER array adds a length that nobody needs.
///
/// # Safety
/// There are so many elements of the type at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvmfpack_(
    what: *const c_int,
    data: *mut c_void,
    count: *const c_int,
    stride: *const c_int,
    info: *mut c_int,
) {
    let work = |state: &mut State| {
        // SAFETY: as promised.
        unsafe { pack(state, kind(number(what)?)?, data, number(count)?, number(stride)?) }?;
        Ok(0)
    };
    // SAFETY: as promised.
    unsafe { store(info, call("pvmfpack", work)) };
}

/// The unpack calls, the element type as an argument.
///
/// # Safety
/// There is room for so many elements of the type at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvmfunpack_(
    what: *const c_int,
    data: *mut c_void,
    count: *const c_int,
    stride: *const c_int,
    info: *mut c_int,
) {
    let work = |state: &mut State| {
        // SAFETY: as promised.
        unsafe { unpack(state, kind(number(what)?)?, data, number(count)?, number(stride)?) }?;
        Ok(0)
    };
    // SAFETY: as promised.
    unsafe { store(info, call("pvmfunpack", work)) };
}

/// `pvm_mcast`, with the number of tasks first.
///
/// # Safety
/// There are `count` ids at `tids`; `info` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvmfmcast_(
    count: *const c_int,
    tids: *const c_int,
    tag: *const c_int,
    info: *mut c_int,
) {
    // SAFETY: as promised.
    unsafe { answer(info, || Ok(send::pvm_mcast(tids, number(count)?, number(tag)?))) };
}

/// `pvm_psend`.
///
/// # Safety
/// There are so many elements of the type at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvmfpsend_(
    tid: *const c_int,
    tag: *const c_int,
    data: *const c_void,
    count: *const c_int,
    kind: *const c_int,
    info: *mut c_int,
) {
    // SAFETY: as promised.
    unsafe {
        answer(info, || Ok(send::pvm_psend(number(tid)?, number(tag)?, data, number(count)?, number(kind)?)));
    }
}

/// `pvm_precv`.
///
/// # Safety
/// There is room for so many elements of the type at `data`; the last four arguments are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvmfprecv_(
    tid: *const c_int,
    tag: *const c_int,
    data: *mut c_void,
    count: *const c_int,
    kind: *const c_int,
    sender: *mut c_int,
    its_tag: *mut c_int,
    length: *mut c_int,
    info: *mut c_int,
) {
    // SAFETY: as promised.
    unsafe {
        answer(info, || {
            let (tid, tag, count, kind) = (number(tid)?, number(tag)?, number(count)?, number(kind)?);
            Ok(receive::pvm_precv(tid, tag, data, count, kind, sender, its_tag, length))
        });
    }
}
