//! The owner of a host.

use super::{answers, requests, values};
use crate::codes::Tmx;
use crate::owner::OwnerState;
use crate::tid::Tid;

requests! {
    /// Asks what is known of a host's owner, after a person has said it or not. The answer is an [`OwnerState`] in bincode, behind int 0.
    Owner = Tmx::Owner; {
        /// The host.
        host: Tid,
        /// The number of what is said ([`crate::owner::OwnerSaid::number`]); 0: nothing.
        said: i32,
    }
}

answers! {
    Owner => 0, OwnerState, |call| format!("the owner of host {}", call.host);
}

values! { OwnerState }
