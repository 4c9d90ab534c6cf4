//! The output of many tasks, put together into whole lines.

use pvm3::Tid;
use std::collections::HashMap;

/// A line without an end is cut here, bytes.
const LINE_MAX: usize = 64 * 1024;

/// The unfinished lines of tasks.
#[derive(Debug, Default)]
pub struct Lines {
    open: HashMap<Tid, Vec<u8>>,
}

impl Lines {
    /// The lines that a piece of a task's output completes, without their ends.
    pub fn push(&mut self, tid: Tid, piece: &[u8]) -> Vec<String> {
        let open = self.open.entry(tid).or_default();
        open.extend_from_slice(piece);
        let mut lines = Vec::new();
        while let Some(end) = open.iter().position(|&byte| byte == b'\n') {
            let rest = open.split_off(end + 1);
            lines.push(text(&std::mem::replace(open, rest)));
        }
        if open.len() > LINE_MAX {
            lines.push(text(&std::mem::take(open)));
        }
        lines
    }

    /// The task's output has ended: what is left, if anything.
    pub fn end(&mut self, tid: Tid) -> Option<String> {
        self.open.remove(&tid).filter(|rest| !rest.is_empty()).map(|rest| text(&rest))
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(line)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_become_lines() {
        let (a, b) = (Tid::from_raw(0x40001), Tid::from_raw(0x40002));
        let mut lines = Lines::default();
        assert!(lines.push(a, b"on").is_empty());
        assert_eq!(lines.push(b, b"x\n"), ["x"]);
        assert_eq!(lines.push(a, b"e\ntwo\n\nth"), ["one", "two", ""]);
        assert_eq!(lines.end(a).as_deref(), Some("th"));
        assert_eq!(lines.end(a), None);
        assert_eq!(lines.end(b), None);
    }

    #[test]
    fn endless_lines_are_cut() {
        let mut lines = Lines::default();
        let tid = Tid::from_raw(0x40001);
        assert!(lines.push(tid, &vec![b'x'; LINE_MAX]).is_empty());
        assert_eq!(lines.push(tid, b"x")[0].len(), LINE_MAX + 1);
        assert_eq!(lines.end(tid), None);
    }
}
