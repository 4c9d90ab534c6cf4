//! Calls to the machine's queues. Their types are [`crate::jobs`]'s: the master and the console use them, too.
//!
//! | request | body | answer |
//! |---|---|---|
//! | [`AskJobs`], TMX | a [`JobCall`] in bincode | int 0, a [`JobAnswer`] in bincode |

use super::{Request, answers, values};
use crate::codes::Tmx;
use crate::jobs::{JobAnswer, JobCall};
use serde::{Deserialize, Serialize};

/// A call to the queues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskJobs(pub JobCall);

impl Request for AskJobs {
    const TAG: i32 = Tmx::Jobs.tag();
}

answers! {
    AskJobs => 0, JobAnswer, |_| "the queues";
}

values! { AskJobs, JobAnswer }
