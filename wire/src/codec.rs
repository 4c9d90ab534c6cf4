//! The one place where this system's own messages become bytes and back: bincode 2, size-limited on decode.
//!
//! bincode `2.0.1` is the last release of that library and complete; were it to be replaced, this file is what changes.

use crate::limits::PEER_FRAME_MAX;
use serde::{Serialize, de::DeserializeOwned};

/// Most bytes of a value that is sent in several messages.
pub const LARGE_MAX: usize = 1024 * 1024 * 1024;
/// More bytes than a program's state has.
const HUGE_MAX: usize = LARGE_MAX << 10;

/// Why bytes could not be read, or a value not be written.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The bytes are no value of this type.
    #[error("not a valid message: {0}")]
    Decode(#[from] bincode::error::DecodeError),
    /// The value cannot be written.
    #[error("message cannot be encoded: {0}")]
    Encode(#[from] bincode::error::EncodeError),
    /// More bytes than one message may have.
    #[error("message of {size} bytes exceeds the limit of {limit}")]
    TooLong {
        /// Size of the message, bytes.
        size: usize,
        /// What is allowed, bytes.
        limit: usize,
    },
    /// Something is named that is not there.
    #[error("a part of the message refers to another one that it does not have")]
    Reference,
    /// Bytes are left over behind the value.
    #[error("{0} stray bytes behind the message")]
    Trailing(usize),
}

fn config() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<PEER_FRAME_MAX>()
}

/// As [`config`], of values that are taken in piece by piece.
fn large() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<LARGE_MAX>()
}

/// As [`large`], where more than that is there.
fn huge() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<HUGE_MAX>()
}

/// The bytes of a value.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, CodecError> {
    Ok(bincode::serde::encode_to_vec(value, config())?)
}

/// As [`encode`], of a value that may be longer than one message.
pub fn encode_large<T: Serialize>(value: &T) -> Result<Vec<u8>, CodecError> {
    Ok(bincode::serde::encode_to_vec(value, large())?)
}

/// As [`decode`], of a value that may be longer than one message: no longer than what was taken in. A length field allocates no more than
/// [`LARGE_MAX`] where there is not more than that.
pub fn decode_large<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    let (value, used) = if bytes.len() <= LARGE_MAX {
        bincode::serde::decode_from_slice(bytes, large())?
    } else {
        bincode::serde::decode_from_slice(bytes, huge())?
    };
    if used == bytes.len() { Ok(value) } else { Err(CodecError::Trailing(bytes.len() - used)) }
}

/// Puts the bytes of a value behind others.
pub fn encode_into<T: Serialize>(value: &T, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
    bincode::serde::encode_into_std_write(value, bytes, config())?;
    Ok(())
}

/// The value in these bytes, which must be it and nothing else.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    let (value, used) = decode_first(bytes)?;
    if used == bytes.len() { Ok(value) } else { Err(CodecError::Trailing(bytes.len() - used)) }
}

/// The value at the begin of these bytes, and its length.
pub fn decode_first<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, usize), CodecError> {
    if bytes.len() > PEER_FRAME_MAX {
        return Err(CodecError::TooLong { size: bytes.len(), limit: PEER_FRAME_MAX });
    }
    Ok(bincode::serde::decode_from_slice(bytes, config())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Such is the state of a task that moves: it must be read where it comes.
    #[test]
    fn what_can_be_written_can_be_read_however_long() {
        let text = "x".repeat(LARGE_MAX);
        let bytes = encode_large(&text).unwrap();
        assert!(bytes.len() > LARGE_MAX);
        assert!(decode_large::<String>(&bytes).unwrap() == text);
        // A length alone allocates nothing like that.
        assert!(decode_large::<String>(&bytes[..16]).is_err());
    }
}
