//! What can go wrong in a call, with PVM's code for it and a text for people.

use pvm_wire::body::BodyError;
use pvm_wire::{PvmError, Tid};
use std::io;

/// Why a call failed: PVM's code, and what happened to what.
///
/// It is as small as a pointer, as every call that does not fail moves the room for it.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Cause>);

#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct Cause {
    code: PvmError,
    text: String,
}

/// The result of calls that can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error with PVM's code and a text that describes it.
    #[cold]
    pub fn new(code: PvmError, text: impl Into<String>) -> Self {
        Self(Box::new(Cause { code, text: text.into() }))
    }

    /// An error of the operating system: `text` names the operation and its object.
    pub fn system(code: PvmError, text: &str, cause: impl Into<io::Error>) -> Self {
        Self::new(code, format!("{text}: {}", pvm_wire::plain(cause.into())))
    }

    /// The memory of others is not this task's any more.
    #[cold]
    pub fn left() -> Self {
        Self::new(
            PvmError::NoData,
            "the message lay in its sender's memory when this task left the virtual machine",
        )
    }

    /// The connection to the daemon is gone.
    pub fn lost() -> Self {
        Self::new(
            PvmError::SysErr,
            "the connection to the daemon is lost: the daemon has ended or was halted",
        )
    }

    /// A tid that does not name a task.
    pub fn not_a_task(tid: Tid) -> Self {
        Self::new(PvmError::BadParam, format!("{tid} is not the id of a task"))
    }

    /// PVM's code.
    pub fn code(&self) -> PvmError {
        self.0.code
    }
}

impl From<PvmError> for Error {
    fn from(code: PvmError) -> Self {
        Self::new(code, code.text())
    }
}

impl From<BodyError> for Error {
    fn from(error: BodyError) -> Self {
        Self::new(PvmError::DSysErr, format!("the daemon's answer cannot be read: {error}"))
    }
}
