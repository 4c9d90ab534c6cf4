//! Names of the system's messages and of the program's message handlers, for programs that show them.

use super::memory::{Out, Text};
use super::output::print;
use super::state::call;
use std::ffi::{c_char, c_int};
use std::fmt::Write;

/// Names that begin with a word, for the tags from a first one on.
struct Names {
    first: u32,
    word: &'static str,
    endings: &'static [&'static str],
}

#[rustfmt::skip]
const NAMES: [Names; 4] = [
    Names { first: 0x8001_0001, word: "TM", endings: &[
        "CONNECT", "CONN2", "EXIT", "ADDHOST", "DELHOST", "CONFIG", "MSTAT", "HALT", "TICKLE", "SPAWN", "PSTAT",
        "SENDSIG", "TASK", "MCA", "NOTIFY", "DB", "SCHED", "TASKER", "HOSTER", "TRACER", "HOSTSYNC", "SETOPT", "GETOPT",
        "CONTEXT", "SHMCONN",
    ] },
    Names { first: 0x8002_0001, word: "DM", endings: &[
        "ADD", "ADDACK", "EXEC", "EXECACK", "SENDSIG", "HTUPD", "HTUPDACK", "HTCOMMIT", "SLCONF", "STARTACK", "TASK",
        "TASKACK", "DELHOST", "DELHOSTACK", "NULL", "TASKOUT", "PSTAT", "PSTATACK", "HALT", "MCA", "NOTIFY",
        "NOTIFYACK", "DB", "DBACK", "RESET", "RESETACK", "HTDEL", "HOSTSYNC", "HOSTSYNCACK",
    ] },
    Names { first: 0x8003_0001, word: "TC", endings: &[
        "CONREQ", "CONACK", "TASKEXIT", "NOOP", "OUTPUT", "SETTRACE", "SETTMASK", "SETTRCBUF", "SETTRCOPT", "SHMAT",
        "OUTPUTX", "SIBLINGS",
    ] },
    Names { first: 0x8004_0001, word: "SM", endings: &[
        "SPAWN", "EXEC", "EXECACK", "TASK", "CONFIG", "ADDHOST", "DELHOST", "ADD", "ADDACK", "NOTIFY", "TASKX",
        "HOSTX", "HANDOFF", "SCHED", "STHOST", "STHOSTACK", "STTASK",
    ] },
];

/// The name of a tag of the system's, such as `TM_SPAWN`.
fn name(tag: c_int) -> Option<String> {
    NAMES.iter().find_map(|list| {
        let at = tag.cast_unsigned().checked_sub(list.first)?;
        Some(format!("{}_{}", list.word, list.endings.get(at as usize)?))
    })
}

/// A text that the last call has made, for C programs to read until the next.
struct Shown(std::cell::UnsafeCell<[c_char; 32]>);

// SAFETY: written under the lock of the library's state only; a program that reads it while another thread calls again
// reads what PVM's own static buffer would give it.
unsafe impl Sync for Shown {}

static SHOWN: Shown = Shown(std::cell::UnsafeCell::new([0; 32]));

/// The name of a message tag of the system's, else the tag as a number; whether it has a name goes to `found`, if that is
/// not NULL. The text stands until the next call.
#[unsafe(no_mangle)]
pub extern "C" fn pvmnametag(tag: c_int, found: Out<'_, c_int>) -> *mut c_char {
    let name = name(tag);
    let text = name.clone().unwrap_or_else(|| tag.to_string());
    call("pvmnametag", |_| {
        // SAFETY: the state is locked, so no other thread writes.
        let shown = unsafe { &mut *SHOWN.0.get() };
        shown.fill(0);
        for (slot, byte) in shown.iter_mut().zip(text.bytes().take(31)) {
            *slot = byte as c_char;
        }
        Ok(0)
    });
    found.set(c_int::from(name.is_some()));
    SHOWN.0.get().cast()
}

/// Prints the program's message handlers on standard output, after the caller's name and a text.
#[unsafe(no_mangle)]
pub extern "C" fn pvmdisplaymhfinfo(who: Text<'_>, text: Text<'_>, tid: c_int) {
    let (who, text) = (who.text().unwrap_or_default(), text.text().unwrap_or_default());
    let mut shown = format!("\n{who} t{tid:x}: {text}\n");
    call("pvmdisplaymhfinfo", |state| {
        for (id, src, tag, context) in state.handlers.list() {
            let _ = writeln!(shown, "{who} t{tid:x}: handler {id}: src t{src:x} tag {tag} ctx {context}");
        }
        Ok(0)
    });
    print(&shown);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_have_their_names() {
        assert_eq!(name(pvm_wire::codes::Tm::Spawn.tag()).as_deref(), Some("TM_SPAWN"));
        assert_eq!(name(pvm_wire::codes::Tm::ShmConn.tag()).as_deref(), Some("TM_SHMCONN"));
        assert_eq!(name(pvm_wire::codes::Tc::Siblings.tag()).as_deref(), Some("TC_SIBLINGS"));
        assert_eq!(name(pvm_wire::codes::Sm::StTask.tag()).as_deref(), Some("SM_STTASK"));
        assert_eq!(name(pvm_wire::codes::Sm::StTask.tag() + 1), None);
        assert_eq!(name(7), None);
    }
}
