//! Records receive calls for `pvm run --trace`.

use super::state::{Failure, State, locked};
use pvm_engine::{Begun, Engine};
use pvm_wire::{MessageHeader, Tid};
use std::ffi::c_int;
use std::sync::Once;

unsafe extern "C" {
    /// The C library's: calls a function when the program ends.
    safe fn atexit(function: extern "C" fn()) -> c_int;
}

/// A call begins that may wait for a message.
#[inline]
pub fn begin(state: &mut State) -> Result<Option<Begun>, Failure> {
    let engine = state.engine()?;
    let begun = engine.begin_span();
    if begun.is_some() {
        engine.report_before_wait();
    }
    Ok(begun)
}

/// The call has this message.
#[inline]
pub fn received(state: &mut State, begun: Option<Begun>, id: c_int) {
    if begun.is_none() {
        return;
    }
    let (Some(engine), Ok(buffer)) = (state.engine.as_mut(), state.buffers.get(id)) else { return };
    let header =
        MessageHeader { tag: buffer.info.tag, context: buffer.info.context, ..MessageHeader::default() };
    engine.record_receive(begun, Tid::from_raw(buffer.info.src), &header, buffer.length());
}

/// The call ends without a message.
pub fn waited(begun: Option<Begun>) -> Result<(), Failure> {
    if begun.is_none() {
        return Ok(());
    }
    locked(|state| {
        state.engine()?.record_wait(begun);
        Ok(())
    })
}

/// Lets a program that ends without `pvm_exit` report what it has recorded.
pub fn report_at_exit(engine: &Engine) {
    static REGISTERED: Once = Once::new();
    if engine.begin_span().is_some() {
        REGISTERED.call_once(|| {
            // Should there be no room for one more function, the end of the record is missing: nothing else.
            let _ = atexit(leave);
        });
    }
}

extern "C" fn leave() {
    // It fails if the program exits within a call of this library; that is ignored.
    let _ = locked(|state| {
        if let Some(engine) = &mut state.engine {
            engine.disconnect();
        }
        Ok(())
    });
}
