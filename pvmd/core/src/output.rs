//! What tasks write to their standard output: to the task that collects it, else to the master's log.

use pvm_wire::Tid;
use pvm_wire::limits::OUTPUT_PIECE;
use pvm_wire::spawn::Sink;

/// The output of one child; may outlive the task, when grandchildren hold the pipe.
#[derive(Debug)]
pub(crate) struct OutputStream {
    pub tid: Tid,
    pub sink: Sink,
    pub parent: i32,
    /// The beginning of a line for the log.
    pub line: Vec<u8>,
    /// The task has moved, and writes on elsewhere.
    pub goes_on: bool,
}

impl OutputStream {
    pub fn new(tid: Tid, sink: Sink, parent: i32) -> Self {
        Self { tid, sink, parent, line: Vec::new(), goes_on: false }
    }

    /// Takes more text of a child whose output goes to the log; the lines that are complete, or long enough.
    pub fn add(&mut self, data: &[u8]) -> Vec<Vec<u8>> {
        self.line.extend_from_slice(data);
        let mut lines = Vec::new();
        while let Some(end) = self.line.iter().position(|&byte| byte == b'\n') {
            let rest = self.line.split_off(end + 1);
            lines.push(std::mem::replace(&mut self.line, rest));
        }
        if self.line.len() > OUTPUT_PIECE {
            lines.push(std::mem::take(&mut self.line));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_unless_they_are_too_long() {
        let mut stream = OutputStream::new(Tid::NONE, Sink::default(), 0);
        assert!(stream.add(b"one\ntwo\nthr").iter().eq([b"one\n", b"two\n"]));
        assert_eq!(stream.add(b"ee\n"), [b"three\n"]);
        assert_eq!(stream.add(&vec![b'x'; OUTPUT_PIECE + 1])[0].len(), OUTPUT_PIECE + 1);
        assert!(stream.line.is_empty());
    }
}
