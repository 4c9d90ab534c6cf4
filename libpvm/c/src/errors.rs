//! `pvm_errno` and what is printed when a call fails.

use super::internals;
use super::memory::Text;
use super::state::{Failure, Outcome, Reporting, call, locked};
use pvm_wire::{PvmError, error};
use std::ffi::{CString, c_char, c_int};
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicI32, Ordering};

/// Number of texts in [`pvm_errlist`].
const TEXTS: usize = 37;

/// The code of the last call that failed.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static pvm_errno: AtomicI32 = AtomicI32::new(0);

/// Number of texts in `pvm_errlist`.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static pvm_nerr: c_int = TEXTS as c_int;

/// Pointers to constant strings, which any thread may read.
#[repr(transparent)]
pub struct Texts([*const c_char; TEXTS]);

// SAFETY: the strings are constants of the program.
unsafe impl Sync for Texts {}

macro_rules! texts {
    ($($text:literal)*) => { Texts([$(concat!($text, "\0").as_ptr().cast()),*]) };
}

/// The text of each error, at the negative of its code.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static pvm_errlist: Texts = texts! {
    "Error 0" "Error 1" "Bad parameter" "Parameter mismatch" "Value too large" "End of buffer" "No such host"
    "No such file" "Permission denied" "Error 9" "Malloc failed" "Error 11" "Can't decode message" "Error 13"
    "Can't contact local daemon" "No current buffer" "No such buffer" "Null group name" "Already in group"
    "No such group" "Not in group" "No such instance" "Host failed" "No parent task" "Not implemented"
    "Pvmd system error" "Version mismatch" "Out of resources" "Duplicate host" "Can't start pvmd"
    "Already in progress" "No such task" "Not Found" "Already Exists" "Hoster must run on master host"
    "Spawning parent set PvmNoParent" "Master Host IP Address is Loopback! (See pvm3/Readme)"
};

/// Ends a call: a failure sets `pvm_errno` and, according to `PvmAutoErr`, is printed and ends the program.
/// One that the caller expects is only returned.
#[inline]
pub fn finish(name: &str, outcome: Outcome) -> c_int {
    match outcome {
        Ok(value) => value,
        Err(failure) => fail(name, &failure),
    }
}

#[cold]
fn fail(name: &str, failure: &Failure) -> c_int {
    if failure.reporting != Reporting::None {
        pvm_errno.store(failure.code, Ordering::Relaxed);
    }
    if failure.reporting == Reporting::Printed {
        report(name, failure);
    }
    failure.code
}

fn report(name: &str, failure: &Failure) {
    let auto_err = locked(|state| Ok(state.settings.auto_err)).unwrap_or(1);
    if auto_err < 1 {
        return;
    }
    let mut text = String::new();
    if let Some(detail) = &failure.detail {
        text = format!("{}{detail}\n", prefix());
    }
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}{name}(): {}", prefix(), error::text(failure.code));
    print(&text);
    match auto_err {
        2 => {
            super::control::pvm_exit();
            std::process::exit(failure.code);
        }
        3 => std::process::abort(),
        _ => {}
    }
}

/// `libpvm [t40002]: `, or the process id before the enrolment.
pub fn prefix() -> String {
    match internals::own_tid() {
        -1 => format!("libpvm [pid{}]: ", std::process::id()),
        tid => format!("libpvm [t{tid:x}]: "),
    }
}

/// Writes to standard error. A failure of that is ignored.
pub fn print(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Prints the text of the last error behind a prefix.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_perror(text: Text<'_>) -> c_int {
    let text = text.bytes().map(String::from_utf8_lossy).unwrap_or_default();
    print(&format!("{}{text}: {}\n", prefix(), error::text(pvm_errno.load(Ordering::Relaxed))));
    0
}

/// The text of the last error.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_strerror() -> *const c_char {
    let index = pvm_errno.load(Ordering::Relaxed).checked_neg().and_then(|code| usize::try_from(code).ok());
    index.and_then(|index| pvm_errlist.0.get(index)).copied().unwrap_or(c"Unknown Error".as_ptr())
}

/// Reports an error for a library on top of this one, and returns it.
#[unsafe(no_mangle)]
pub extern "C" fn lpvmerr(name: Text<'_>, code: c_int) -> c_int {
    let name = name.bytes().map(String::from_utf8_lossy).unwrap_or_default();
    call(&name, |_| Err(Failure::code(code)))
}

/// The code of an error's name: `errnamecode("PvmNoHost")`; 0 for an unknown name.
#[unsafe(no_mangle)]
pub extern "C" fn errnamecode(name: Text<'_>) -> c_int {
    let name = name.text_or_empty().unwrap_or_default();
    PvmError::ALL.iter().find(|error| error.name() == name).map_or(0, |error| error.code())
}

/// A C string of this library's version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_version() -> *const c_char {
    c"3.4.6".as_ptr()
}

/// A Rust text as a C string; one with a NUL inside ends there.
pub fn c_string(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn the_list_has_the_texts_of_the_codes() {
        for (index, &text) in pvm_errlist.0.iter().enumerate() {
            // SAFETY: constants that end in NUL.
            let text = unsafe { CStr::from_ptr(text) }.to_str().unwrap();
            assert_eq!(text, error::text(-(index as i32)));
        }
    }
}
