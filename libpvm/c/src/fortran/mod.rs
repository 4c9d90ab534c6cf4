//! The Fortran interface: every function of C as a subroutine, arguments by reference, the result in the last one.
//!
//! Names are in lower case with an underscore. Each CHARACTER argument adds its length, by value, behind all others;
//! compilers pass it as an int or as a larger integer, whose lower half this reads.
//!
//! An argument that is needed and is NULL is a bad parameter, as in C; a result that is NULL is not wanted.

mod groups;
mod machine;
mod mailbox;
mod messages;
mod tasks;

use super::memory::Out;
use pvm_wire::PvmError;
use std::ffi::{CString, c_char, c_int};
use std::marker::PhantomData;

/// Longest string taken, bytes.
const TEXT_MAX: usize = 256;

/// The length of a CHARACTER argument.
type Length = c_int;

/// A CHARACTER argument as a C string: without trailing blanks, and no longer than PVM takes.
///
/// # Safety
/// There are `length` characters at `pointer`.
unsafe fn text(pointer: *const c_char, length: Length) -> Result<CString, PvmError> {
    // SAFETY: the caller's CHARACTER argument.
    unsafe { text_within(pointer, length, TEXT_MAX) }
}

/// As [`text`], with a limit of its own.
///
/// # Safety
/// As [`text`].
unsafe fn text_within(pointer: *const c_char, length: Length, most: usize) -> Result<CString, PvmError> {
    let length = usize::try_from(length).map_err(|_| PvmError::BadParam)?;
    if pointer.is_null() {
        return Err(PvmError::BadParam);
    }
    // SAFETY: not NULL, so `length` characters.
    let bytes = unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), length) };
    let bytes = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    let end = bytes.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
    if end > most {
        return Err(PvmError::BadParam);
    }
    CString::new(&bytes[..end]).map_err(|_| PvmError::BadParam)
}

/// Fills a CHARACTER argument with a text, cut or padded with blanks.
///
/// # Safety
/// `pointer` is NULL or has room for `length` characters.
unsafe fn fill(pointer: *mut c_char, length: Length, text: &[u8]) {
    let length = usize::try_from(length).unwrap_or(0);
    if pointer.is_null() || length == 0 {
        return;
    }
    // SAFETY: not NULL, so room for `length` characters.
    let target = unsafe { std::slice::from_raw_parts_mut(pointer.cast::<u8>(), length) };
    let used = text.len().min(length);
    target[..used].copy_from_slice(&text[..used]);
    target[used..].fill(b' ');
}

/// An INTEGER argument: NULL, or a number. Only the program makes one, and the caller of the subroutine promises this.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Number<'a>(*const c_int, PhantomData<&'a c_int>);

impl Number<'_> {
    /// The number; NULL is a bad parameter.
    fn get(self) -> Result<c_int, PvmError> {
        if self.0.is_null() {
            return Err(PvmError::BadParam);
        }
        // SAFETY: not NULL, so a number, aligned or not: the type's invariant.
        Ok(unsafe { self.0.read_unaligned() })
    }
}

/// The number in an argument that is both read and written; NULL is a bad parameter.
///
/// # Safety
/// `pointer` is NULL or a number.
unsafe fn number(pointer: *const c_int) -> Result<c_int, PvmError> {
    Number(pointer, PhantomData).get()
}

/// Stores what a call gave, or why its arguments allow none, in the last argument.
fn answer(out: Out<'_, c_int>, call: impl FnOnce() -> Result<c_int, PvmError>) {
    out.set(call().unwrap_or_else(PvmError::code));
}

/// Subroutines that pass numbers on, and what the C function returns into the last argument.
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident($($arg:ident),*) = $function:path;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: super::Number<'_>,)* out: crate::memory::Out<'_, c_int>) {
            super::answer(out, || Ok($function($($arg.get()?),*)));
        }
    )*};
}
use numbers;

/// The same, with a CHARACTER argument of at most this number of characters before the numbers.
macro_rules! named {
    ($most:expr; $($(#[$doc:meta])* $name:ident(text $(, $arg:ident)*) = $function:path;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The first argument is a CHARACTER argument, the others are numbers, the last one writable.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            text: *const std::ffi::c_char,
            $($arg: super::Number<'_>,)*
            out: crate::memory::Out<'_, std::ffi::c_int>,
            length: super::Length,
        ) {
            super::answer(out, || {
                // SAFETY: a CHARACTER argument: NULL, or as many characters as its length says.
                let text = unsafe { super::text_within(text, length, $most) }?;
                Ok($function((&*text).into() $(, $arg.get()?)*))
            });
        }
    )*};
}
use named;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_lose_and_gain_blanks() {
        let blanks = b"ab  c   ";
        // SAFETY: eight characters.
        let found = unsafe { text(blanks.as_ptr().cast(), 8) }.unwrap();
        assert_eq!(found.as_bytes(), b"ab  c");
        let long = [b'x'; 300];
        // SAFETY: as many characters.
        assert_eq!(unsafe { text(long.as_ptr().cast(), 300) }, Err(PvmError::BadParam));
        let mut room = *b"????";
        // SAFETY: four characters.
        unsafe { fill(room.as_mut_ptr().cast(), 4, b"ab") };
        assert_eq!(&room, b"ab  ");
        // SAFETY: four characters.
        unsafe { fill(room.as_mut_ptr().cast(), 4, b"abcdef") };
        assert_eq!(&room, b"abcd");
    }
}
