//! Contexts: messages sent in one are received in no other.

use super::state::Failure;
use super::tracepoints::{argument, nothing, result, traced};
use pvm_wire::calls::tasks::Context;
use pvm_wire::events::{Datum, Event};
use std::ffi::c_int;

/// A new context.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_newcontext() -> c_int {
    traced("pvm_newcontext", Event::Newcontext, nothing, result(Datum::CXN), |state| {
        state.ask(&Context { context: 0 })
    })
}

/// Gives a context back.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_freecontext(context: c_int) -> c_int {
    traced("pvm_freecontext", Event::Freecontext, argument(Datum::CXF, context), result(Datum::CC), |state| {
        state.ask(&Context { context })
    })
}

/// The current context.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_getcontext() -> c_int {
    traced("pvm_getcontext", Event::Getcontext, nothing, result(Datum::CXC), |state| {
        Ok::<_, Failure>(state.context)
    })
}

/// Changes the current context and returns the one before.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_setcontext(context: c_int) -> c_int {
    traced("pvm_setcontext", Event::Setcontext, argument(Datum::CXS, context), result(Datum::CC), |state| {
        if let Some(engine) = &mut state.engine {
            engine.set_context(context);
        }
        Ok(std::mem::replace(&mut state.context, context))
    })
}
