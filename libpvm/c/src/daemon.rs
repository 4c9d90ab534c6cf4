//! `pvm_start_pvmd`.

use super::errors;
use super::memory::texts;
use super::state::{Failure, locked};
use pvm_wire::PvmError;
use std::ffi::{c_char, c_int};

/// Starts a daemon on this host; with `block` it returns when each host of the hostfile is added or has failed.
///
/// # Safety
/// There are `count` strings at `args`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_start_pvmd(count: c_int, args: *const *const c_char, block: c_int) -> c_int {
    // SAFETY: NULL, or `count` strings.
    let args = unsafe { texts(args, count) };
    // Programs that start a daemon in any case become tasks of the one that runs, and their users know the one line about it.
    if args.is_ok() && locked(|state| state.engine().map(|_| ())).is_ok() {
        return errors::finish("pvm_start_pvmd", Err(PvmError::DupHost.into()));
    }
    let started = args.and_then(|args| pvm_engine::start_daemon(&args, block != 0).map_err(explained));
    errors::finish("pvm_start_pvmd", started.map(|_| 0))
}

/// Keeps the text of an error for every code: the code alone does not explain why no daemon was started.
fn explained(error: pvm_engine::Error) -> Failure {
    let code = error.code();
    Failure { detail: Some(error), ..Failure::from(code) }
}
