//! Trace masks, and the names by which the original's group library asks whether to trace: its calls are not.

use super::memory::{self, Text};
use super::state::{State, call};
use pvm_engine::Options;
use pvm_wire::PvmError;
use std::ffi::{c_char, c_int};

/// Characters of a mask, each with four bits, without the NUL.
const MASK_LENGTH: usize = 35;
/// `PvmTaskSelf`.
const SELF: c_int = 0;
/// `PvmTaskChild`.
const CHILD: c_int = 1;

/// `struct Pvmtracer`: where to send trace events. All 0: nowhere.
#[repr(C)]
pub struct Tracer {
    sinks: [c_int; 6],
    buffer: c_int,
    options: c_int,
    mask: [c_char; MASK_LENGTH + 1],
}

const _: () = assert!(size_of::<Tracer>() == 68);

/// The tracer of this task: none, for libraries on top of this one.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static pvmtrc: Tracer = Tracer { sinks: [0; 6], buffer: 0, options: 0, mask: [0; MASK_LENGTH + 1] };

/// The tracer of this task's children, likewise.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static pvmctrc: Tracer = Tracer { sinks: [0; 6], buffer: 0, options: 0, mask: [0; MASK_LENGTH + 1] };

/// Functions that encode trace events: none.
#[repr(transparent)]
pub struct Codec(*const c_int);

// SAFETY: a NULL pointer that is never followed.
unsafe impl Sync for Codec {}

/// How trace events are encoded; never used, since nothing is traced.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static pvmtrccodef: Codec = Codec(std::ptr::null());

/// Whether to trace an event, and its begin: no.
#[unsafe(no_mangle)]
pub extern "C" fn tev_begin(_kind: c_int, _entry: c_int) -> c_int {
    0
}

/// Ends the trace of an event.
#[unsafe(no_mangle)]
pub extern "C" fn tev_fin() -> c_int {
    0
}

fn mask_of(options: &mut Options, who: c_int) -> Result<&mut String, PvmError> {
    match who {
        SELF => Ok(&mut options.own_trace_mask),
        CHILD => Ok(&mut options.child_trace_mask),
        _ => Err(PvmError::BadParam),
    }
}

fn with_mask<T>(
    state: &mut State,
    who: c_int,
    work: impl FnOnce(&mut String) -> T,
) -> Result<T, super::state::Failure> {
    if who != SELF && who != CHILD {
        return Err(PvmError::BadParam.into());
    }
    Ok(work(mask_of(state.engine()?.options_mut(), who)?))
}

/// Sets which events this task or its children trace.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_settmask(who: c_int, mask: Text<'_>) -> c_int {
    let mask = mask.text();
    call("pvm_settmask", |state| {
        let mask: String = mask?.chars().take(MASK_LENGTH).collect();
        let mask = format!("{mask:@<MASK_LENGTH$}");
        with_mask(state, who, |own| *own = mask)?;
        Ok(0)
    })
}

/// Tells which events this task or its children trace.
///
/// # Safety
/// `mask` has room for 36 characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_gettmask(who: c_int, mask: *mut c_char) -> c_int {
    call("pvm_gettmask", |state| {
        let text = with_mask(state, who, |own| own.clone())?;
        let mut characters: Vec<c_char> = text.bytes().take(MASK_LENGTH).map(|byte| byte as c_char).collect();
        characters.resize(MASK_LENGTH + 1, 0);
        // SAFETY: NULL, or room for 36 characters, which these are.
        unsafe { memory::store_all(mask, &characters) };
        Ok(0)
    })
}
