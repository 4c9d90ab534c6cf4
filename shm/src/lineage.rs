//! The identity of this process across forks: a forked child must not touch its parent's mappings.

use crate::mapping::ForkMark;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

static MARK: OnceLock<Option<ForkMark>> = OnceLock::new();

/// Number of processes in this line that have watched.
static WATCHED: AtomicU32 = AtomicU32::new(0);

/// From now on this process can be distinguished from its parent and its children; `false` if the system has no means for it.
pub fn watch() -> bool {
    let Some(mark) = MARK.get_or_init(ForkMark::new) else { return false };
    if mark.get() == 0 {
        mark.set(WATCHED.fetch_add(1, Ordering::Relaxed) + 1);
    }
    true
}

/// This process's number; 0 if it has not watched since it was forked.
pub(crate) fn process() -> u32 {
    MARK.get().and_then(Option::as_ref).map_or(0, ForkMark::get)
}
