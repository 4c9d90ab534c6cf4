//! Tasks that move to other hosts, and keep their ids.
//!
//! | request | body | answer |
//! |---|---|---|
//! | [`Move`], TMX | int task, int host | int 0, int host; or an error and the reason |
//! | [`Movable`], TMX | – | none |
//! | [`Freeze`], TMX | – | int 0, when all has come that was sent to the task |
//! | [`Arrive`], TMX | – | int 0, [`EnrolReply`]: the caller is the task from now on |
//! | [`StayHere`], TMX | str reason | none |
//!
//! The daemon starts a *successor* on the new host, the same program again, and then tells the task
//! ([`crate::codes::Tcx::Move`]). The library waits for a call in which the task can go, leaves its direct routes, and sends what the program
//! has saved to the successor. With `Freeze` all hosts keep what is for the task. The library sends the rest, and the successor arrives.

use super::enrolment::EnrolReply;
use super::{answers, requests};
use crate::codes::Tmx;
use crate::tid::Tid;

requests! {
    /// Move a task (`pvm_move`).
    Move = Tmx::Move; {
        /// The task.
        tid: Tid,
        /// Where to; [`Tid::NONE`]: the host that has most room.
        host: Tid,
    }

    /// The caller's program can save its state, and go on from it elsewhere.
    Movable = Tmx::Movable; {}

    /// The caller sends nothing more, and wants to have all that was sent to it.
    Freeze = Tmx::Freeze; {}

    /// The caller, a successor, has all that its predecessor had.
    Arrive = Tmx::Arrive; {}

    /// The caller cannot move now.
    StayHere = Tmx::StayHere; {
        /// Why, for people.
        reason: String,
    }
}

answers! {
    Move => 0, Tid, |call| format!("the move of {}", call.tid);
    Freeze => 0, (), |_| "the move of this task";
    Arrive => 0, EnrolReply, |_| "the arrival of this task";
}
