//! Names that the original exports though no manual page has them, as far as programs and Debian's libraries use
//! them.

use super::memory::{Out, Text, TimeVal};
use super::state::call;
use super::{control, mailbox};
use pvm_wire::calls::mailbox::Reset;
use pvm_wire::{PvmError, Tid};
use std::ffi::{CString, c_char, c_int};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// This task's id, -1 while it has none.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static pvmmytid: AtomicI32 = AtomicI32::new(-1);

/// 1: calls of the program are at the top level, where they would be traced.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static pvmtoplvl: AtomicI32 = AtomicI32::new(1);

/// The current context, for programs that look here instead of calling `pvm_getcontext`.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static pvmmyctx: AtomicI32 = AtomicI32::new(0);

/// Tells programs which context is current.
pub fn show_context(context: c_int) {
    pvmmyctx.store(context, Ordering::Relaxed);
}

/// Sets the task's id for libraries on top of this one.
pub fn set_own_tid(tid: c_int) {
    pvmmytid.store(tid, Ordering::Relaxed);
}

/// The task's id, -1 while it has none.
pub fn own_tid() -> c_int {
    pvmmytid.load(Ordering::Relaxed)
}

/// Enrols, if this process is not a task yet.
#[unsafe(no_mangle)]
pub extern "C" fn pvmbeatask() -> c_int {
    call("pvmbeatask", |state| state.engine().map(|_| 0))
}

/// Leaves the machine without waiting for anything.
#[unsafe(no_mangle)]
pub extern "C" fn pvmendtask() -> c_int {
    call("pvmendtask", |state| {
        state.leave();
        Ok(0)
    })
}

/// Sets the name under which task lists show this task; it must not be one yet.
#[unsafe(no_mangle)]
pub extern "C" fn pvmsettaskname(name: Text<'_>) -> c_int {
    let name = name.os_text();
    call("pvmsettaskname", |state| {
        let name = name?;
        if state.engine.is_some() {
            return Err(PvmError::Exists.into());
        }
        state.task_name = Some(name.to_owned());
        Ok(0)
    })
}

/// Resets the machine for the console: ends all tasks but `tid` and those that are spared, if `kill` says so, and
/// cleans the mailbox, wholly (no class) or of one entry.
#[unsafe(no_mangle)]
pub extern "C" fn pvmreset(tid: c_int, kill: c_int, class: Text<'_>, index: c_int) -> c_int {
    let class = class.os_text_or_empty();
    call("pvmreset", |state| {
        let class = class?;
        let mut keep = mailbox::spared(state)?;
        if kill != 0 {
            control::end_all_but(state, Tid::from_raw(tid), &keep)?;
        }
        keep.push(Tid::from_raw(tid));
        let (tid, class) = (state.tid()?, class.to_owned());
        state.order(&Reset { tid, class, index, kill: kill != 0, keep })
    })
}

/// Does nothing: the library keeps no list of its memory blocks.
#[unsafe(no_mangle)]
pub extern "C" fn i_dump(_all: c_int) {}

/// Sleeps for some seconds.
#[unsafe(no_mangle)]
pub extern "C" fn pvmsleep(seconds: c_int) -> c_int {
    std::thread::sleep(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)));
    0
}

/// The time of day.
#[unsafe(no_mangle)]
pub extern "C" fn pvmgetclock(clock: Out<'_, TimeVal>) {
    clock.set(now());
}

/// The time of day.
pub fn now() -> TimeVal {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TimeVal { seconds: since.as_secs() as i64, micros: i64::from(since.subsec_micros()) }
}

/// A name for a temporary file in PVM's folder, which no file has yet.
///
/// # Safety
/// `name` is NULL, or has room for 128 characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvmtmpnam(name: *mut c_char) -> *mut c_char {
    static COUNTER: AtomicI32 = AtomicI32::new(0);
    static OWN: OnceLock<Room> = OnceLock::new();
    let folder = pvm_engine::tmp_dir();
    let path = std::iter::repeat_with(|| COUNTER.fetch_add(1, Ordering::Relaxed))
        .take(100_000)
        .map(|number| folder.join(format!("pvmtmp{:06}.{number}", std::process::id())))
        .find(|path| !path.exists());
    let Some(path) = path.and_then(|path| CString::new(path.into_os_string().into_encoded_bytes()).ok())
    else {
        return std::ptr::null_mut();
    };
    let bytes = path.as_bytes_with_nul();
    if bytes.len() > ROOM {
        return std::ptr::null_mut();
    }
    let target = if name.is_null() { OWN.get_or_init(Room::new).0 } else { name };
    // SAFETY: both have room for 128 characters, and the path is not longer.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), target, bytes.len()) };
    target
}

/// `PVMTMPNAMLEN`.
const ROOM: usize = 128;

/// Memory for the name when the program gives none; it lives as long as the process.
struct Room(*mut c_char);

impl Room {
    fn new() -> Self {
        Self(Box::leak(Box::new([0; ROOM])).as_mut_ptr())
    }
}

// SAFETY: as in C, two threads that ask at once for a name without giving memory overwrite each other's.
unsafe impl Send for Room {}
// SAFETY: the room is never freed; what two threads write there at once is as undefined as PVM's manual says.
unsafe impl Sync for Room {}

/// The command that starts daemons on other hosts: `PVM_RSH`, else `ssh`.
#[unsafe(no_mangle)]
pub extern "C" fn pvmgetrsh() -> *const c_char {
    static TEXT: OnceLock<CString> = OnceLock::new();
    constant(&TEXT, || {
        std::env::var("PVM_RSH").ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "ssh".into())
    })
}

/// The folder for temporary files: `PVM_TMP`, else `/tmp`.
#[unsafe(no_mangle)]
pub extern "C" fn pvmgettmp() -> *const c_char {
    static TEXT: OnceLock<CString> = OnceLock::new();
    constant(&TEXT, || pvm_engine::tmp_dir().to_string_lossy().into_owned())
}

/// The folder in which PVM is installed: `PVM_ROOT`, else empty.
#[unsafe(no_mangle)]
pub extern "C" fn pvmgetroot() -> *const c_char {
    static TEXT: OnceLock<CString> = OnceLock::new();
    constant(&TEXT, || std::env::var("PVM_ROOT").unwrap_or_default())
}

/// The user's home: `HOME`, else `/`.
#[unsafe(no_mangle)]
pub extern "C" fn pvmgethome() -> *const c_char {
    static TEXT: OnceLock<CString> = OnceLock::new();
    constant(&TEXT, || std::env::var("HOME").unwrap_or_else(|_| "/".into()))
}

fn constant(cell: &'static OnceLock<CString>, text: impl FnOnce() -> String) -> *const c_char {
    cell.get_or_init(|| super::errors::c_string(&text())).as_ptr()
}

/// Adds `NAME=value` to the environment.
///
/// # Safety
/// No other thread reads or writes the environment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvmputenv(entry: Text<'_>) -> c_int {
    let entry = entry.text_or_empty().unwrap_or_default();
    match entry.split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            // SAFETY: no other thread uses the environment during the call.
            unsafe { std::env::set_var(name, value) };
            0
        }
        _ => -1,
    }
}

/// A number as C writes it: decimal, `0x` hexadecimal, `0` octal.
#[unsafe(no_mangle)]
pub extern "C" fn pvmstrtoi(text: Text<'_>) -> c_int {
    parse_number(text.text_or_empty().unwrap_or_default())
}

/// A hexadecimal number.
#[unsafe(no_mangle)]
pub extern "C" fn pvmxtoi(text: Text<'_>) -> c_int {
    let text = text.text_or_empty().unwrap_or_default();
    let text = text.strip_prefix("0x").unwrap_or(text);
    let digits = text.find(|c: char| !c.is_ascii_hexdigit()).map_or(text, |end| &text[..end]);
    u32::from_str_radix(digits, 16).map_or(0, |number| number as c_int)
}

/// A number as C writes it, as far as it is one; bit patterns like `0xffffffff` are negative numbers.
pub fn parse_number(text: &str) -> c_int {
    let text = text.trim_start();
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (radix, digits) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => (16, hex),
        None if digits.starts_with('0') => (8, digits),
        None => (10, digits),
    };
    let digits = digits.chars().map_while(|c| c.to_digit(radix));
    let value = digits.fold(0_i64, |sum, digit| (sum * i64::from(radix) + i64::from(digit)) & 0xffff_ffff);
    (if negative { -value } else { value }) as c_int
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_writes_them() {
        for (text, number) in [("0x7fffe", 0x7fffe), ("017", 15), ("-12x", -12), ("0xffffffff", -1), ("", 0)]
        {
            assert_eq!(parse_number(text), number, "{text}");
        }
    }
}
