//! What tasks write to their standard output: to whoever collects it, else to the master's log.

use pvm_wire::Tid;
use pvm_wire::spawn::Sink;

/// The output of one child; may outlive the task, when grandchildren hold the pipe.
#[derive(Debug)]
pub(crate) struct OutputStream {
    pub tid: Tid,
    pub sink: Sink,
    pub parent: i32,
    /// The beginning of a line for the log.
    pub line: Vec<u8>,
}

impl OutputStream {
    pub fn new(tid: Tid, sink: Sink, parent: i32) -> Self {
        Self { tid, sink, parent, line: Vec::new() }
    }
}
