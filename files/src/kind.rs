//! The kind of a file, as text.

use rustix::fs::FileType;
use std::fmt;

/// The kind of a file, for error messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind(pub(crate) FileType);

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            FileType::RegularFile => "a regular file",
            FileType::Directory => "a folder",
            FileType::Symlink => "a symbolic link",
            FileType::Fifo => "a FIFO",
            FileType::Socket => "a socket",
            FileType::CharacterDevice | FileType::BlockDevice => "a device",
            FileType::Unknown => "a file of an unknown kind",
        })
    }
}
