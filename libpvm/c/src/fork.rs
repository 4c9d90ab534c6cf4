//! Processes that fork without `exec`: the child is not the task that its parent is.

use std::ffi::c_int;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

type Hook = Option<unsafe extern "C" fn()>;

// SAFETY: as the C library declares it.
unsafe extern "C" {
    /// The C library's: calls functions before a fork, and after it in the parent and in the child.
    fn pthread_atfork(prepare: Hook, parent: Hook, child: Hook) -> c_int;
}

/// Whether this process was forked since the last call of [`is_new_child`].
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// From now on forks are detected.
pub fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: the function only sets a flag. Should there be no room for it, the child shares its parent's
        // connection, as with the original.
        let _ = unsafe { pthread_atfork(None, None, Some(in_child)) };
    });
}

unsafe extern "C" fn in_child() {
    IS_CHILD.store(true, Ordering::Relaxed);
}

/// Whether this process is a new child; does not change that.
#[inline]
pub fn may_be_new_child() -> bool {
    IS_CHILD.load(Ordering::Relaxed)
}

/// Whether this process is a new child; from then on it is none.
#[inline]
pub fn is_new_child() -> bool {
    may_be_new_child() && IS_CHILD.swap(false, Ordering::Relaxed)
}
