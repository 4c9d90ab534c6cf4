//! Tasks that take over a part of the daemons' work: resource manager, tasker, hoster, tracer.
//!
//! | request | body | answer |
//! |---|---|---|
//! | [`BecomeManager`], TM_SCHED | – | [`ManagerReply`] |
//! | [`BecomeTasker`], TM_TASKER | int 1, or 0 to give it back | int 0 |
//! | [`BecomeHoster`], TM_HOSTER | the same | int 0 |
//! | [`BecomeTracer`], TM_TRACER | int 1, [`TracerTerms`]; or int 0 | int 0 |

use super::hosts::HostRecord;
use super::{Field, Request, answers, fields, requests};
use crate::body::{BodyError, BodyReader, BodyWriter};
use crate::codes::Tm;
use crate::tid::Tid;

requests! {
    /// Register the caller as the resource manager (`pvm_reg_rm`).
    BecomeManager = Tm::Sched; {}

    /// Register the caller as the one who starts its host's tasks (`pvm_reg_tasker`), or take that back.
    BecomeTasker = Tm::Tasker; {
        /// Whether it registers.
        register: bool,
    }

    /// Register the caller as the one who starts daemons on other hosts (`pvm_reg_hoster`), or take that back.
    BecomeHoster = Tm::Hoster; {
        /// Whether it registers.
        register: bool,
    }
}

answers! {
    BecomeManager => ManagerReply, |_| "registering a resource manager";
    BecomeTasker => 0, (), |_| "registering a tasker";
    BecomeHoster => 0, (), |_| "registering a hoster";
    BecomeTracer => 0, (), |_| "registering a tracer";
}

fields! {
    /// What a new resource manager learns.
    ManagerReply {
        /// The one before; [`Tid::NONE`] if there was none.
        before: Tid,
        /// The host of the machine's master.
        master: HostRecord,
    }

    /// Where tasks send trace and output for a tracer, and what it wants to be told.
    TracerTerms {
        /// Context of trace messages.
        trace_context: i32,
        /// Their tag.
        trace_tag: i32,
        /// Context of messages with output.
        output_context: i32,
        /// Their tag.
        output_tag: i32,
        /// Which events are traced.
        mask: String,
        /// Bytes of events that a task keeps before it sends them.
        buffer: i32,
        /// How much an event tells.
        options: i32,
    }
}

/// Register the caller as the one who gets trace and output of tasks (`pvm_reg_tracer`), or take that back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BecomeTracer {
    /// On which terms; `None` to take it back.
    pub terms: Option<TracerTerms>,
}

impl Request for BecomeTracer {
    const TAG: i32 = Tm::Tracer.tag();
}

impl Field for BecomeTracer {
    fn write(&self, body: BodyWriter) -> BodyWriter {
        self.terms.write(self.terms.is_some().write(body))
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let terms = if bool::read(reader)? { Some(Field::read(reader)?) } else { None };
        Ok(Self { terms })
    }
}
