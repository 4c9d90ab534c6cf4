//! Memory that tasks of one host, and their daemon, share. Nothing of it is answered.

use super::requests;
use crate::codes::Tmx;
use crate::tid::Tid;

requests! {
    /// Descriptors of the caller's memory and of its bell come with this.
    Share = Tmx::Share; {}

    /// The caller and another task of its host, or the daemon, are to be told of each other.
    Meet = Tmx::Meet; {
        /// The other.
        other: Tid,
    }

    /// The caller can read what its daemon writes in the memory that it was given.
    Known = Tmx::Known; {}
}
