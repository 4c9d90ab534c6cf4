//! `pvm_catchout`: the output of children, line by line into a stream of the C library.

use super::state::call;
use pvm_engine::{OutputEvent, OutputSink};
use pvm_wire::Tid;
use pvm_wire::spawn::Sink;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

unsafe extern "C" {
    static stdout: *mut File;
    fn fwrite(data: *const c_void, size: usize, count: usize, stream: *mut File) -> usize;
    fn fflush(stream: *mut File) -> c_int;
}

/// `PvmShowTids`: whether lines are printed with their task; read with each line, while the state is locked.
static SHOW_TIDS: AtomicI32 = AtomicI32::new(1);

/// The value of `PvmShowTids`.
pub fn show_tids() -> c_int {
    SHOW_TIDS.load(Ordering::Relaxed)
}

/// Sets `PvmShowTids` and returns the value before.
pub fn set_show_tids(value: c_int) -> c_int {
    SHOW_TIDS.swap(value, Ordering::Relaxed)
}

/// C's `FILE`, which only the C library looks into.
#[repr(C)]
pub struct File {
    _private: [u8; 0],
}

/// Collects the output of children spawned from now on into a stream. NULL ends that: what earlier children still
/// write is dropped, and `pvm_exit` does not wait for them.
///
/// # Safety
/// `stream` is NULL or an open stream, and stays open until the output of all children has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_catchout(stream: *mut File) -> c_int {
    call("pvm_catchout", |state| {
        let engine = state.engine()?;
        if stream.is_null() {
            engine.collect_output(Some(Box::new(|_, _| ())));
            engine.options_mut().child_output = Sink::default();
        } else {
            engine.collect_output(Some(Box::new(Lines::to(stream))));
        }
        state.collecting = !stream.is_null();
        Ok(0)
    })
}

/// The lines of children, on their way to a stream.
struct Lines {
    stream: *mut File,
    open: HashMap<Tid, Child>,
}

// SAFETY: streams of the C library lock themselves.
unsafe impl Send for Lines {}

/// The output of a child since its last newline.
#[derive(Default)]
struct Child {
    line: Vec<u8>,
    begun: bool,
}

impl Lines {
    fn to(stream: *mut File) -> Self {
        Self { stream, open: HashMap::new() }
    }

    /// The text that an event adds to the stream.
    fn text(&mut self, tid: Tid, what: &OutputEvent, marked: bool) -> Vec<u8> {
        let mark = if marked { format!("[{tid}] ") } else { String::new() };
        let child = self.open.entry(tid).or_default();
        let mut out = Vec::new();
        match what {
            OutputEvent::Spawned { .. } | OutputEvent::Started { .. } => {
                if marked && !child.begun {
                    out.extend_from_slice(format!("{mark}BEGIN\n").as_bytes());
                }
                child.begun = true;
            }
            OutputEvent::Bytes(bytes) => {
                child.line.extend_from_slice(bytes);
                let Some(end) = child.line.iter().rposition(|&byte| byte == b'\n') else { return out };
                for line in child.line.drain(..=end).as_slice().split_inclusive(|&byte| byte == b'\n') {
                    out.extend_from_slice(mark.as_bytes());
                    out.extend_from_slice(line);
                }
            }
            OutputEvent::End => {
                if !child.line.is_empty() {
                    out.extend_from_slice(mark.as_bytes());
                    out.append(&mut child.line);
                    out.push(b'\n');
                }
                if marked {
                    out.extend_from_slice(format!("{mark}EOF\n").as_bytes());
                }
            }
        }
        out
    }
}

impl OutputSink for Lines {
    fn event(&mut self, tid: Tid, what: OutputEvent) {
        let text = self.text(tid, &what, show_tids() != 0);
        if text.is_empty() {
            return;
        }
        // SAFETY: the program promised that the stream is open. A stream that takes nothing loses the text, as
        // it would have lost the program's own.
        unsafe {
            fwrite(text.as_ptr().cast(), 1, text.len(), self.stream);
            fflush(self.stream);
        }
    }
}

/// Writes to the program's standard output.
pub fn print(text: &str) {
    // SAFETY: the C library's stream stays open, or takes nothing.
    unsafe {
        fwrite(text.as_ptr().cast(), 1, text.len(), stdout);
        fflush(stdout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together_and_marked() {
        let tid = Tid::from_raw(0x40003);
        let mut lines = Lines::to(std::ptr::null_mut());
        let mut text = |what, marked| String::from_utf8(lines.text(tid, &what, marked)).unwrap();
        let bytes = |text: &'static str| OutputEvent::Bytes(text.into());
        assert_eq!(text(OutputEvent::Spawned { parent: 1 }, true), "[t40003] BEGIN\n");
        assert_eq!(text(OutputEvent::Started { parent: 1 }, true), "");
        assert_eq!(text(bytes("one\nt"), true), "[t40003] one\n");
        assert_eq!(text(bytes("wo\n\nthr"), true), "[t40003] two\n[t40003] \n");
        assert_eq!(text(bytes("ee"), true), "");
        assert_eq!(text(bytes("\nfour"), false), "three\n");
        assert_eq!(text(OutputEvent::End, true), "[t40003] four\n[t40003] EOF\n");
        assert_eq!(text(OutputEvent::End, false), "");
    }
}
