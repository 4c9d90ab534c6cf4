//! Programs that end without `pvm_exit`.

use super::state::locked;
use std::ffi::c_int;
use std::sync::Once;

unsafe extern "C" {
    /// The C library's: calls a function when the program ends.
    safe fn atexit(function: extern "C" fn()) -> c_int;
}

/// From now on this process delivers what it has sent on direct routes, and reports what it has recorded, when it ends.
pub fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // Without room for one more function the end of the record is missing, and messages that are not delivered yet may be lost.
        let _ = atexit(end);
    });
}

/// The task stays enrolled if it has nothing to report: functions that the program has registered before are still to come.
extern "C" fn end() {
    // It fails if the program exits within a call of this library; that is ignored.
    let _ = locked(|state| {
        if let Some(engine) = &mut state.engine {
            if engine.begin_span().is_some() {
                engine.disconnect();
            } else {
                engine.report_traffic();
                engine.finish_routes();
            }
        }
        Ok(())
    });
}
