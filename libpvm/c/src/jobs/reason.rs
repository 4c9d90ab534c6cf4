//! Why the last call about jobs was refused, in words. Each thread has a text of its own.

use crate::errors;
use crate::memory::copy_bytes;
use pvm_wire::PvmError;
use std::cell::RefCell;
use std::ffi::{c_char, c_int};

thread_local! {
    static REASON: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps a text for the program to read.
pub fn set(text: impl Into<String>) {
    let mut text: String = text.into();
    text.retain(|character| character != '\0');
    // A signal handler that interrupts this, and a thread that is ending, leave no text behind.
    let _ = REASON.try_with(|reason| reason.try_borrow_mut().map(|mut kept| *kept = text));
}

/// The text; empty if the last call was not refused.
pub fn get() -> String {
    REASON
        .try_with(|reason| reason.try_borrow().map(|kept| kept.clone()))
        .ok()
        .and_then(Result::ok)
        .unwrap_or_default()
}

/// Stores the text, or as much of it as there is room for, and returns the length of all of it.
///
/// # Safety
/// `text` is NULL or has room for `size` characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_jobreason(text: *mut c_char, size: c_int) -> c_int {
    let room = usize::try_from(size).ok().filter(|&room| room == 0 || !text.is_null());
    let Some(room) = room else {
        return errors::finish("pvm_jobreason", Err(PvmError::BadParam.into()));
    };
    let reason = get();
    if room > 0 {
        let kept = beginning(&reason, room - 1).as_bytes();
        // SAFETY: not NULL, so room for `room` characters; what is kept, and the NUL behind it, are not more.
        unsafe {
            copy_bytes(kept, text.cast());
            text.add(kept.len()).write(0);
        }
    }
    c_int::try_from(reason.len()).unwrap_or(c_int::MAX)
}

/// The longest beginning of a text, in whole characters, that fits into `most` bytes.
fn beginning(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!((beginning("aé", 1), beginning("aé", 2), beginning("aé", 3)), ("a", "a", "aé"));
        assert_eq!((beginning("aé", 0), beginning("", 5)), ("", ""));
    }

    #[test]
    fn each_thread_has_its_own() {
        set("one\0");
        std::thread::spawn(|| set("two")).join().unwrap();
        assert_eq!(get(), "one");
    }
}
