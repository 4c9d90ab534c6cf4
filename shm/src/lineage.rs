//! Whether this process is the one that made its mappings, or was forked from it and must leave them alone.

use crate::mapping::ForkMark;
use std::sync::OnceLock;

static MARK: OnceLock<Option<ForkMark>> = OnceLock::new();

/// From now on forks are noticed; `false` if the system has no means for it.
pub fn watch() -> bool {
    MARK.get_or_init(ForkMark::new).is_some()
}

/// Whether this process was forked from the one that called [`watch`].
pub fn is_forked() -> bool {
    MARK.get().is_some_and(|mark| mark.as_ref().is_some_and(ForkMark::is_wiped))
}
