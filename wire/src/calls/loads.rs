//! The loads of hosts. The answer is a list of [`LoadRecord`] in bincode, behind int 0.

use super::{answers, requests, values};
use crate::codes::Tmx;
use crate::loads::LoadRecord;
use serde::{Deserialize, Serialize};

requests! {
    /// Asks for the loads of all hosts, as far as the caller's daemon knows them.
    ListLoads = Tmx::Loads; {}
}

answers! {
    ListLoads => 0, LoadList, |_| "the loads of hosts";
}

/// The loads of all hosts, in the order of the host table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadList(pub Vec<LoadRecord>);

values! { LoadList }
