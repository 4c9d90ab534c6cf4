//! The options of `pvm_setopt`, as far as the engine keeps them.

use pvm_wire::calls::enrolment::EnrolReply;
use pvm_wire::spawn::{Pair, Sink};
use serde::{Deserialize, Serialize};

/// Characters of a trace mask, each with four bits.
pub const TRACE_MASK_LENGTH: usize = 35;

/// A task's options; `pvm_setopt` and `pvm_getopt` name them by number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Largest fragment sent, bytes, headers included (`PvmFragSize`).
    pub fragment_size: usize,
    /// How messages to tasks should travel (`PvmRoute`): 1 by the daemon, 2 as the other requests, 3 directly.
    pub route: i32,
    /// The library's own debug output (`PvmDebugMask`).
    pub debug_mask: i32,
    /// The reaction to a failed call (`PvmAutoErr`).
    pub auto_err: i32,
    /// Whether calls take any tid and negative tags (`PvmResvTids`).
    pub resv_tids: bool,
    /// Whether collected output is marked with the writer's tid (`PvmShowTids`).
    pub show_tids: bool,
    /// Where the output of tasks spawned from now on goes.
    pub child_output: Sink,
    /// Where the trace of tasks spawned from now on goes.
    pub child_trace: Sink,
    /// Where this task's own output goes.
    pub own_output: Sink,
    /// Where this task's own trace goes.
    pub own_trace: Sink,
    /// Trace mask of tasks spawned from now on.
    pub child_trace_mask: String,
    /// Trace buffer of tasks spawned from now on, bytes (`PvmTraceBuffer`).
    pub child_trace_buffer: i32,
    /// Trace options of tasks spawned from now on (`PvmTraceOptions`).
    pub child_trace_options: i32,
    /// This task's own trace mask.
    pub own_trace_mask: String,
    /// This task's own trace buffer, bytes (`PvmSelfTraceBuffer`).
    pub own_trace_buffer: i32,
    /// This task's own trace options (`PvmSelfTraceOptions`).
    pub own_trace_options: i32,
    /// Tag of the notices of batches queued from now on (`PvmBatchCode`); negative for none.
    pub batch_tag: i32,
    /// How often a task of such a batch is started again (`PvmBatchRestarts`).
    pub batch_restarts: i32,
    /// Name of the policy that places tasks spawned from now on; empty for the machine's.
    pub policy: String,
    /// How much the tasks of the next spawn talk to each other.
    pub traffic: Vec<Pair>,
}

impl Options {
    /// The options with which a task begins.
    pub(super) fn new(identity: &EnrolReply) -> Self {
        let mask = std::env::var("PVMTMASK").unwrap_or_else(|_| "@".repeat(TRACE_MASK_LENGTH));
        let (buffer, options) = (number("PVMTRCBUF"), number("PVMTRCOPT"));
        Self {
            fragment_size: usize::try_from(identity.fragment_size)
                .ok()
                .filter(|size| pvm_wire::limits::FRAGMENT_SIZE_RANGE.contains(size))
                .unwrap_or(pvm_wire::limits::FRAGMENT_SIZE),
            route: 2,
            debug_mask: number("PVMTASKDEBUG"),
            auto_err: 1,
            resv_tids: false,
            show_tids: true,
            child_output: identity.output,
            child_trace: identity.trace,
            own_output: identity.output,
            own_trace: identity.trace,
            child_trace_mask: mask.clone(),
            child_trace_buffer: buffer,
            child_trace_options: options,
            own_trace_mask: mask,
            own_trace_buffer: buffer,
            own_trace_options: options,
            batch_tag: -1,
            batch_restarts: 0,
            policy: String::new(),
            traffic: Vec::new(),
        }
    }
}

/// A number in the environment as PVM writes it (`0x` hexadecimal, `0` octal, else decimal), 0 if there is none.
pub(super) fn number(name: &str) -> i32 {
    std::env::var(name).map_or(0, |text| parse_number(&text))
}

/// A number as C programs write it; 0 if it is none.
pub(super) fn parse_number(text: &str) -> i32 {
    let text = text.trim();
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => i64::from_str_radix(hex, 16),
        None if digits.len() > 1 && digits.starts_with('0') => i64::from_str_radix(digits, 8),
        None => digits.parse(),
    }
    .unwrap_or(0);
    // Contexts and masks are bit patterns: 0xffffffff is -1.
    (if negative { -value } else { value }) as i32
}

#[cfg(test)]
mod tests {
    use super::parse_number;

    #[test]
    fn numbers_are_read_as_c_writes_them() {
        let cases =
            [("12", 12), ("0x1f", 31), ("0", 0), ("010", 8), ("-5", -5), ("0xffffffff", -1), ("x", 0)];
        for (text, value) in cases {
            assert_eq!(parse_number(text), value, "{text}");
        }
    }
}
