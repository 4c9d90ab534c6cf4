//! A library in Rust that a program in another language loads: `tests/exports.rs` looks at what it exports.

/// The id of this process's parent, 0 if it has none or is no task.
#[unsafe(no_mangle)]
pub extern "C" fn parent() -> i32 {
    pvm3::Task::enrol().ok().and_then(|task| task.parent()).map_or(0, pvm3::Tid::raw)
}
