//! Files in a folder that other users can write to, such as `/tmp`.
//!
//! Anybody can put anything there under a name that is known in advance: a symbolic link, a FIFO, a device, a file or socket of
//! their own. Daemon and library therefore open such files by this crate alone. It accepts a regular file of this user,
//! never follows a link in the last component, never blocks, and reads a bounded number of bytes.
#![forbid(unsafe_code)]

mod folder;
mod kind;

pub use folder::{Folder, Identity, PrivateFolder};
pub use kind::Kind;

use rustix::fs::{self, CWD, FileType, Mode, OFlags, Stat};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Why a file is not used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It belongs to another user.
    #[error(
        "{path} ({kind}) belongs to uid {owner}, not to uid {own}: remove it, or set PVM_TMP to a folder of your own",
        path = path.display()
    )]
    Foreign {
        /// Which.
        path: PathBuf,
        /// What it is.
        kind: Kind,
        /// Whose it is.
        owner: u32,
        /// This process's user.
        own: u32,
    },
    /// It is not of the kind expected.
    #[error(
        "{path} is {found}, not {expected}: remove it, or set PVM_TMP to a folder of your own",
        path = path.display()
    )]
    Kind {
        /// Which.
        path: PathBuf,
        /// What it is.
        found: Kind,
        /// What it would have to be.
        expected: Kind,
    },
    /// It has other names, by which it may be something else.
    #[error("{path} has other names (hard links): remove it, or set PVM_TMP to a folder of your own", path = path.display())]
    Linked {
        /// Which.
        path: PathBuf,
    },
    /// It is longer than such a file can be.
    #[error("{path} is longer than {most} bytes: remove it, or set PVM_TMP to a folder of your own", path = path.display())]
    TooLong {
        /// Which.
        path: PathBuf,
        /// The limit, bytes.
        most: usize,
    },
    /// The system refuses.
    #[error("{path}: {reason}", path = path.display(), reason = pvm_wire::plain(reason))]
    System {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: io::Error,
    },
}

impl FileError {
    fn system(path: &Path, reason: impl Into<io::Error>) -> Self {
        Self::System { path: path.to_owned(), reason: reason.into() }
    }

    /// Whether there is no such file.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::System { reason, .. } if reason.kind() == io::ErrorKind::NotFound)
    }
}

/// Reads a regular file of this user, which has at most `most` bytes.
pub fn read(path: &Path, most: usize) -> Result<Vec<u8>, FileError> {
    read_open(&open(path, OFlags::RDONLY)?, path, most)
}

/// Opens a regular file of this user with no other name for writing, or makes it, readable for this user only. What is
/// there already stays.
pub fn create(path: &Path) -> Result<File, FileError> {
    let file = match open(path, OFlags::WRONLY) {
        Err(error) if error.is_not_found() => {
            let flags = OFlags::CREATE | OFlags::WRONLY | SAFELY;
            let file = fs::open(path, flags, Mode::RUSR | Mode::WUSR);
            file.map_err(|error| FileError::system(path, error))?.into()
        }
        other => other?,
    };
    check_alone(&file, path)?;
    Ok(file)
}

/// Writes into a regular file of this user with no other name, which is empty: PVM's proof that both sides are the same user.
pub fn mark(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let file = open(path, OFlags::WRONLY)?;
    if check_alone(&file, path)?.st_size != 0 {
        return Err(FileError::TooLong { path: path.to_owned(), most: 0 });
    }
    rustix::io::write(&file, bytes).map_err(|error| FileError::system(path, error))?;
    Ok(())
}

/// Checks that a path names a socket of this user, without following a link.
pub fn check_socket(path: &Path) -> Result<(), FileError> {
    let stat = look(CWD, path, path)?;
    check(&stat, path, FileType::Socket)
}

/// How every file is opened: no link is followed, nothing is waited for, no terminal becomes this process's own.
const SAFELY: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

/// A regular file of this user, with the access given.
fn open(path: &Path, access: OFlags) -> Result<File, FileError> {
    open_at(CWD, path, path, access)
}

/// The same, by its name in a folder; `shown` is what errors call it.
fn open_at(folder: impl AsFd, name: &Path, shown: &Path, access: OFlags) -> Result<File, FileError> {
    // Before it is opened: opening a device can have effects of its own.
    check(&look(&folder, name, shown)?, shown, FileType::RegularFile)?;
    let file = fs::openat(&folder, name, access | SAFELY, Mode::empty());
    let file = File::from(file.map_err(|error| FileError::system(shown, error))?);
    // Again: another file may have taken its place.
    check(&stat_of(&file, shown)?, shown, FileType::RegularFile)?;
    Ok(file)
}

/// All of a file that was opened, if it has at most `most` bytes.
fn read_open(file: &File, path: &Path, most: usize) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    let length = file.take(most as u64 + 1).read_to_end(&mut bytes);
    if length.map_err(|error| FileError::system(path, error))? > most {
        return Err(FileError::TooLong { path: path.to_owned(), most });
    }
    Ok(bytes)
}

fn look(folder: impl AsFd, name: &Path, shown: &Path) -> Result<Stat, FileError> {
    fs::statat(folder, name, fs::AtFlags::SYMLINK_NOFOLLOW).map_err(|error| FileError::system(shown, error))
}

fn stat_of(file: &File, path: &Path) -> Result<Stat, FileError> {
    fs::fstat(file).map_err(|error| FileError::system(path, error))
}

/// The owner is checked first: it is the most important reason.
fn check(stat: &Stat, path: &Path, expected: FileType) -> Result<(), FileError> {
    let (path, found) = (path.to_owned(), FileType::from_raw_mode(stat.st_mode));
    let own = rustix::process::geteuid().as_raw();
    if stat.st_uid != own {
        return Err(FileError::Foreign { path, kind: Kind(found), owner: stat.st_uid, own });
    }
    if found != expected {
        return Err(FileError::Kind { path, found: Kind(found), expected: Kind(expected) });
    }
    Ok(())
}

/// A user who may make hard links can give any file on the same disk a name in the folder.
fn check_alone(file: &File, path: &Path) -> Result<Stat, FileError> {
    let stat = stat_of(file, path)?;
    check(&stat, path, FileType::RegularFile)?;
    if stat.st_nlink > 1 {
        return Err(FileError::Linked { path: path.to_owned() });
    }
    Ok(stat)
}

#[cfg(test)]
mod tests;
