//! What the exchange of one machine and the `pvm peer serve` of another say to each other: frames, each a length (four bytes, most
//! significant first) and a value in bincode.

use anyhow::{Context, Result, bail};
use pvm_wire::codec;
use pvm3::{JobId, JobRecord, JobRequest};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Read, Write};

/// Changes with the words. Both sides must have the same.
pub const VERSION: u32 = 1;
/// Longest frame, in bytes.
const FRAME_MAX: usize = pvm_wire::limits::PEER_FRAME_MAX;

/// Asked by the exchange.
#[derive(Debug, Serialize, Deserialize)]
pub enum Question {
    /// First of all.
    Hello {
        /// [`VERSION`].
        version: u32,
    },
    /// How many slots are free.
    Room,
    /// Take this job.
    Submit(Box<JobRequest>),
    /// How are these, of which each was taken?
    Jobs(Vec<JobId>),
    /// End these.
    Cancel(Vec<JobId>),
}

/// Answered by the other machine.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// To `Hello`.
    Welcome,
    /// To `Room`.
    Room(u32),
    /// To `Submit`: the job's number.
    Taken(JobId),
    /// To `Jobs`: those that are known there.
    Jobs(Vec<JobRecord>),
    /// To `Cancel`.
    Cancelled,
    /// To any: the reason.
    Refused(String),
}

/// Says something.
pub fn say<T: Serialize>(what: &T, to: &mut impl Write) -> Result<()> {
    let bytes = codec::encode_large(what)?;
    let length = u32::try_from(bytes.len()).ok().filter(|&length| length as usize <= FRAME_MAX);
    let length = length.context("the message is too long")?;
    to.write_all(&length.to_be_bytes())?;
    to.write_all(&bytes)?;
    Ok(to.flush()?)
}

/// Hears what the other side says; `None` when it has ended.
pub fn hear<T: DeserializeOwned>(from: &mut impl Read) -> Result<Option<T>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > FRAME_MAX {
        bail!("a message of {length} bytes: the other side is no \"pvm peer serve\"");
    }
    let mut bytes = Vec::new();
    // Memory only for what comes.
    from.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        bail!("the other side has ended within a message");
    }
    Ok(Some(codec::decode_large(&bytes)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard() {
        let mut pipe = Vec::new();
        say(&Question::Hello { version: 7 }, &mut pipe).unwrap();
        say(&Question::Jobs(vec![JobId(3)]), &mut pipe).unwrap();
        let mut from = &pipe[..];
        assert!(matches!(hear(&mut from).unwrap(), Some(Question::Hello { version: 7 })));
        assert!(matches!(hear(&mut from).unwrap(), Some(Question::Jobs(ids)) if ids == [JobId(3)]));
        assert!(hear::<Question>(&mut from).unwrap().is_none());
    }

    #[test]
    fn what_is_no_message_is_refused() {
        // The first words of a shell that greets.
        let said = hear::<Answer>(&mut &b"Welcome to node7"[..]).unwrap_err();
        assert!(said.to_string().contains("is no \"pvm peer serve\""), "{said}");
        assert!(hear::<Answer>(&mut &[0, 0, 0, 9, 1][..]).is_err());
        assert!(hear::<Answer>(&mut &[0, 0, 0, 1, 200][..]).is_err());
    }
}
