//! Contexts: messages sent in one are received in no other.

use super::state::{Failure, call};
use pvm_wire::body::BodyWriter;
use pvm_wire::codes::Tm;
use std::ffi::c_int;

/// A context that nobody else has.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_newcontext() -> c_int {
    call("pvm_newcontext", |state| state.request_code(Tm::Context.tag(), BodyWriter::new().int(0).finish()))
}

/// Gives a context back.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_freecontext(context: c_int) -> c_int {
    call("pvm_freecontext", |state| {
        state.request_code(Tm::Context.tag(), BodyWriter::new().int(context).finish())
    })
}

/// The current context.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_getcontext() -> c_int {
    call("pvm_getcontext", |state| Ok::<_, Failure>(state.context))
}

/// Changes the current context and returns the one before.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_setcontext(context: c_int) -> c_int {
    call("pvm_setcontext", |state| {
        if let Some(engine) = &mut state.engine {
            engine.set_context(context);
        }
        Ok(std::mem::replace(&mut state.context, context))
    })
}
