//! Buffers, packing, sending and receiving.

use super::{Number, answer, numbers};
use crate::memory::{Out, TimeVal};
use crate::pack::{Arguments, Kind, pack, unpack};
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
    tid: Number<'_>,
    tag: Number<'_>,
    seconds: Number<'_>,
    micros: Number<'_>,
    id: Out<'_, c_int>,
) {
    // SAFETY: NULL, or the time above.
    unsafe {
        answer(id, || {
            let time = TimeVal { seconds: seconds.get()?.into(), micros: micros.get()?.into() };
            let timeout = if time.seconds == -1 { std::ptr::null() } else { &raw const time };
            Ok(receive::pvm_trecv(tid.get()?, tag.get()?, timeout))
        });
    }
}

/// `pvm_bufinfo`.
#[unsafe(no_mangle)]
pub extern "C" fn pvmfbufinfo_(
    id: Number<'_>,
    length: Out<'_, c_int>,
    tag: Out<'_, c_int>,
    tid: Out<'_, c_int>,
    info: Out<'_, c_int>,
) {
    answer(info, || Ok(buffer_calls::pvm_bufinfo(id.get()?, length, tag, tid)));
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

/// The pack calls, the element type as an argument. A CHARACTER array adds a length, which is not used.
///
/// # Safety
/// There are `count` elements of the type at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvmfpack_(
    what: Number<'_>,
    data: *mut c_void,
    count: Number<'_>,
    stride: Number<'_>,
    info: Out<'_, c_int>,
) {
    // SAFETY: `count` elements of the kind, each a stride behind the other.
    let pack = |state: &mut State, kind, arguments| unsafe { pack(state, kind, arguments) };
    array_call("pvmfpack", what, (data, count, stride), info, pack);
}

/// The unpack calls, the element type as an argument.
///
/// # Safety
/// There is room for `count` elements of the type at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvmfunpack_(
    what: Number<'_>,
    data: *mut c_void,
    count: Number<'_>,
    stride: Number<'_>,
    info: Out<'_, c_int>,
) {
    // SAFETY: room for `count` elements of the kind, each a stride behind the other.
    let unpack = |state: &mut State, kind, arguments| unsafe { unpack(state, kind, arguments) };
    array_call("pvmfunpack", what, (data, count, stride), info, unpack);
}

/// A call about an array, with its type as an argument.
fn array_call(
    name: &str,
    what: Number<'_>,
    (pointer, count, stride): (*mut c_void, Number<'_>, Number<'_>),
    info: Out<'_, c_int>,
    act: impl FnOnce(&mut State, Kind, Arguments) -> Result<(), PvmError>,
) {
    info.set(call(name, |state| {
        let kind = kind(what.get()?)?;
        act(state, kind, Arguments { pointer, count: count.get()?, stride: stride.get()? })?;
        Ok(0)
    }));
}

/// `pvm_mcast`, with the number of tasks first.
///
/// # Safety
/// There are `count` ids at `tids`; `info` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvmfmcast_(
    count: Number<'_>,
    tids: *const c_int,
    tag: Number<'_>,
    info: Out<'_, c_int>,
) {
    // SAFETY: NULL, or `count` numbers.
    unsafe { answer(info, || Ok(send::pvm_mcast(tids, count.get()?, tag.get()?))) };
}

/// `pvm_psend`.
///
/// # Safety
/// There are `count` elements of the type at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvmfpsend_(
    tid: Number<'_>,
    tag: Number<'_>,
    data: *const c_void,
    count: Number<'_>,
    kind: Number<'_>,
    info: Out<'_, c_int>,
) {
    // SAFETY: `count` elements of the kind.
    unsafe {
        answer(info, || Ok(send::pvm_psend(tid.get()?, tag.get()?, data, count.get()?, kind.get()?)));
    }
}

/// `pvm_precv`.
///
/// # Safety
/// There is room for `count` elements of the type at `data`; the last four arguments are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvmfprecv_(
    tid: Number<'_>,
    tag: Number<'_>,
    data: *mut c_void,
    count: Number<'_>,
    kind: Number<'_>,
    sender: Out<'_, c_int>,
    its_tag: Out<'_, c_int>,
    length: Out<'_, c_int>,
    info: Out<'_, c_int>,
) {
    // SAFETY: room for `count` elements of the kind.
    unsafe {
        answer(info, || {
            let (tid, tag, count, kind) = (tid.get()?, tag.get()?, count.get()?, kind.get()?);
            Ok(receive::pvm_precv(tid, tag, data, count, kind, sender, its_tag, length))
        });
    }
}
