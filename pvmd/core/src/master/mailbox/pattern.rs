//! Patterns of names.

use memchr::memmem;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Whether the pattern occurs in the name: `*` stands for anything, `\*` for a star.
pub(super) fn matches(pattern: &OsStr, name: &OsStr) -> bool {
    let mut rest = name.as_bytes();
    pieces(pattern.as_bytes()).iter().all(|piece| match memmem::find(rest, piece) {
        Some(at) => {
            rest = &rest[at + piece.len()..];
            true
        }
        None => false,
    })
}

/// What stands between the stars of a pattern.
fn pieces(pattern: &[u8]) -> Vec<Vec<u8>> {
    let (mut pieces, mut piece) = (Vec::new(), Vec::new());
    let mut bytes = pattern.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'*' => pieces.push(std::mem::take(&mut piece)),
            b'\\' if bytes.next_if_eq(&b'*').is_some() => piece.push(b'*'),
            other => piece.push(other),
        }
    }
    pieces.push(piece);
    pieces
}
