//! Records receive calls for `pvm run --trace`.

use super::state::{Failure, State, locked};
use pvm_engine::Begun;
use pvm_wire::{MessageHeader, Tid};
use std::ffi::c_int;

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
