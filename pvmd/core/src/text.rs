//! Lists for people.

use std::fmt::Display;

/// One after the other.
pub(crate) fn listed<T: Display>(all: impl IntoIterator<Item = T>) -> String {
    all.into_iter().map(|one| one.to_string()).collect::<Vec<_>>().join(", ")
}
