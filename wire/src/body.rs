//! Bodies of control messages: XDR integers and strings (RFC 4506), as every TM_ and TC_ message has them.

use crate::limits::STRINGS_MAX;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Why a body could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It ends in the middle of a field.
    #[error("the message ends in the middle of a field")]
    Short,
    /// A count or length is negative or larger than the rest of the message.
    #[error("a count or length of {0} cannot be right")]
    Length(i32),
    /// A string is not terminated, or not text where only text has a meaning.
    #[error("a string is not terminated or not UTF-8")]
    Text,
    /// A value of this system's own cannot be read.
    #[error("a value cannot be read")]
    Value,
}

/// Writes a body field by field.
#[derive(Debug, Default, Clone)]
pub struct BodyWriter(Vec<u8>);

impl BodyWriter {
    /// An empty body.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty body with room for this many bytes.
    pub fn with_room(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    /// An integer.
    #[must_use]
    pub fn int(mut self, value: i32) -> Self {
        self.push_int(value);
        self
    }

    /// Several integers.
    #[must_use]
    pub fn ints(mut self, values: impl IntoIterator<Item = i32>) -> Self {
        values.into_iter().for_each(|value| self.push_int(value));
        self
    }

    /// A string as `pvm_pkstr` writes it: length with the NUL, bytes, NUL, padding (zeroed here).
    #[must_use]
    pub fn str(mut self, text: impl AsRef<OsStr>) -> Self {
        self.push_str(text);
        self
    }

    /// Bytes as `pvm_pkbyte` writes them: padded to a multiple of four, no length.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self.pad();
        self
    }

    /// The last bytes of a body, as they are.
    #[must_use]
    pub fn rest(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends an integer.
    pub fn push_int(&mut self, value: i32) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    /// Appends a string.
    pub fn push_str(&mut self, text: impl AsRef<OsStr>) {
        let text = text.as_ref().as_bytes();
        let text = text.iter().position(|&b| b == 0).map_or(text, |nul| &text[..nul]);
        self.push_int(text.len() as i32 + 1);
        self.0.extend_from_slice(text);
        self.0.push(0);
        self.pad();
    }

    /// Length so far, bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is written.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The finished body.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }

    fn pad(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }
}

/// Reads a body field by field.
#[derive(Debug, Clone, Copy)]
pub struct BodyReader<'a>(&'a [u8]);

impl<'a> BodyReader<'a> {
    /// A reader at the start of `body`.
    pub fn new(body: &'a [u8]) -> Self {
        Self(body)
    }

    /// Bytes not yet read.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// An integer.
    pub fn int(&mut self) -> Result<i32, BodyError> {
        let (head, rest) = self.0.split_first_chunk::<4>().ok_or(BodyError::Short)?;
        self.0 = rest;
        Ok(i32::from_be_bytes(*head))
    }

    /// A count of things of at least `least` bytes each, which must fit into what is left.
    pub fn count(&mut self, least: usize) -> Result<usize, BodyError> {
        let raw = self.int()?;
        let count = usize::try_from(raw).map_err(|_| BodyError::Length(raw))?;
        if count.checked_mul(least.max(1)).is_none_or(|bytes| bytes > self.0.len()) {
            return Err(BodyError::Length(raw));
        }
        Ok(count)
    }

    /// `count` integers.
    pub fn ints(&mut self, count: usize) -> Result<Vec<i32>, BodyError> {
        if count.checked_mul(4).is_none_or(|bytes| bytes > self.0.len()) {
            return Err(BodyError::Short);
        }
        let mut values = Vec::with_capacity(count);
        for _ in 0..count {
            values.push(self.int()?);
        }
        Ok(values)
    }

    /// A fixed number of integers.
    pub fn int_array<const N: usize>(&mut self) -> Result<[i32; N], BodyError> {
        let mut values = [0; N];
        for value in &mut values {
            *value = self.int()?;
        }
        Ok(values)
    }

    /// A string that must be text, without its NUL.
    pub fn str(&mut self) -> Result<&'a str, BodyError> {
        self.os_str()?.to_str().ok_or(BodyError::Text)
    }

    /// A string of whatever bytes its writer has chosen, without its NUL.
    pub fn os_str(&mut self) -> Result<&'a OsStr, BodyError> {
        let length = self.count(1)?;
        let raw = self.bytes(length)?;
        let (&nul, text) = raw.split_last().ok_or(BodyError::Text)?;
        if nul != 0 || text.contains(&0) {
            return Err(BodyError::Text);
        }
        Ok(OsStr::from_bytes(text))
    }

    /// A counted list of strings that must be text.
    pub fn strings(&mut self) -> Result<Vec<String>, BodyError> {
        (0..self.list()?).map(|_| self.str().map(str::to_owned)).collect()
    }

    /// A counted list of strings of any bytes.
    pub fn os_strings(&mut self) -> Result<Vec<OsString>, BodyError> {
        (0..self.list()?).map(|_| self.os_str().map(OsStr::to_owned)).collect()
    }

    fn list(&mut self) -> Result<usize, BodyError> {
        let count = self.count(4)?;
        if count > STRINGS_MAX { Err(BodyError::Length(count as i32)) } else { Ok(count) }
    }

    /// `length` bytes and their padding (a missing padding at the very end is forgiven).
    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8], BodyError> {
        let (head, rest) = self.0.split_at_checked(length).ok_or(BodyError::Short)?;
        let padding = length.next_multiple_of(4) - length;
        self.0 = &rest[padding.min(rest.len())..];
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_string_carries_its_nul_and_padding() {
        let body = BodyWriter::new().int(1318).str("/tmp/x").finish();
        assert_eq!(body, b"\0\0\x05\x26\0\0\0\x07/tmp/x\0\0");
        let mut reader = BodyReader::new(&body);
        assert_eq!(reader.int(), Ok(1318));
        assert_eq!(reader.str(), Ok("/tmp/x"));
        assert_eq!(reader.int(), Err(BodyError::Short));
    }

    #[test]
    fn a_string_of_any_bytes_is_read_as_it_was_written() {
        let latin = OsStr::from_bytes(b"caf\xe9 \xff");
        let body = BodyWriter::new().str(latin).finish();
        assert_eq!(BodyReader::new(&body).os_str(), Ok(latin));
        assert_eq!(BodyReader::new(&body).str(), Err(BodyError::Text));
    }

    #[test]
    fn a_length_that_lies_is_refused() {
        assert_eq!(BodyReader::new(b"\x7f\xff\xff\xff").str(), Err(BodyError::Length(0x7fff_ffff)));
        assert_eq!(BodyReader::new(b"\xff\xff\xff\xff").count(1), Err(BodyError::Length(-1)));
        assert_eq!(BodyReader::new(b"\0\0\0\0").str(), Err(BodyError::Text));
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_read(ints in prop::collection::vec(any::<i32>(), 0..9), text in "[^\0]{0,40}") {
            let body = BodyWriter::new().int(ints.len() as i32).ints(ints.clone()).str(&text).finish();
            let mut reader = BodyReader::new(&body);
            let count = reader.count(4).unwrap();
            prop_assert_eq!(reader.ints(count).unwrap(), ints);
            prop_assert_eq!(reader.str().unwrap(), text);
            prop_assert!(reader.rest().is_empty());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut reader = BodyReader::new(&bytes);
            let _ = reader.strings();
            let _ = reader.os_strings();
            let _ = reader.str();
            let _ = reader.int();
            let _ = reader.bytes(7);
        }
    }
}
