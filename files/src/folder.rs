//! A folder that is held open, so that names in it mean the same files even if its path changes.

use crate::{FileError, check, look, open_at, read_open, stat_of};
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// A folder, such as `PVM_TMP`.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

/// The identity of a file, which differs from that of a later file with its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(stat: &Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }
}

impl Folder {
    /// Opens a folder. It may belong to any user, and its path may contain links: the path is the user's own choice.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = fs::open(path, flags, Mode::empty()).map_err(|error| FileError::system(path, error))?;
        Ok(Self { fd, path: path.to_owned() })
    }

    /// Reads a regular file of this user, which has at most `most` bytes.
    pub fn read(&self, name: &str, most: usize) -> Result<(Vec<u8>, Identity), FileError> {
        let path = self.path.join(name);
        let file = open_at(&self.fd, name.as_ref(), &path, OFlags::RDONLY)?;
        let identity = Identity::of(&stat_of(&file, &path)?);
        Ok((read_open(&file, &path, most)?, identity))
    }

    /// Removes a file if it is still this one.
    pub fn remove(&self, name: &str, identity: Identity) -> Result<bool, FileError> {
        let path = self.path.join(name);
        let is_there = look(&self.fd, name.as_ref(), &path).is_ok_and(|stat| Identity::of(&stat) == identity);
        if is_there {
            let removed = fs::unlinkat(&self.fd, name, AtFlags::empty());
            removed.map_err(|error| FileError::system(&path, error))?;
        }
        Ok(is_there)
    }

    /// Removes a socket, if the path names one of this user's in this very folder. Whether it did.
    pub fn remove_socket(&self, path: &Path) -> bool {
        let Some(name) = path.file_name().filter(|_| path.parent() == Some(&self.path)) else { return false };
        let name = Path::new(name);
        let is_ours = look(&self.fd, name, path).and_then(|stat| check(&stat, path, FileType::Socket));
        is_ours.is_ok() && fs::unlinkat(&self.fd, name, AtFlags::empty()).is_ok()
    }

    /// Whether others can remove or rename the files of this user here: since the folder is another user's, or since they can write to it
    /// and it has no sticky bit.
    pub fn is_open_to_all(&self) -> bool {
        fs::fstat(&self.fd).is_ok_and(|stat| {
            let mode = Mode::from_raw_mode(stat.st_mode);
            let is_trusted = [0, rustix::process::geteuid().as_raw()].contains(&stat.st_uid);
            !is_trusted || mode.intersects(Mode::WGRP | Mode::WOTH) && !mode.contains(Mode::SVTX)
        })
    }

    /// A new folder in this one, which other users cannot enter.
    pub fn private(&self, prefix: &str) -> Result<PrivateFolder<'_>, FileError> {
        for count in 0..10_000 {
            let name = format!("{prefix}.{}.{count}", std::process::id());
            let path = self.path.join(&name);
            match fs::mkdirat(&self.fd, &name, Mode::RWXU) {
                Err(Errno::EXIST) => {}
                Err(error) => return Err(FileError::system(&path, error)),
                Ok(()) => return PrivateFolder::open(self, name, &path),
            }
        }
        Err(FileError::system(&self.path, io::Error::from(io::ErrorKind::AlreadyExists)))
    }
}

/// A folder of this process alone, which is removed with this value. Other users cannot put files there.
#[derive(Debug)]
pub struct PrivateFolder<'f> {
    parent: &'f Folder,
    name: String,
    fd: OwnedFd,
}

impl<'f> PrivateFolder<'f> {
    fn open(parent: &'f Folder, name: String, path: &Path) -> Result<Self, FileError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let failed = |error| FileError::system(path, error);
        let fd = fs::openat(&parent.fd, &name, flags, Mode::empty()).map_err(failed)?;
        // Without the sticky bit another user may have exchanged it.
        check(&fs::fstat(&fd).map_err(failed)?, path, FileType::Directory)?;
        Ok(Self { parent, name, fd })
    }

    /// Makes a file with these contents, readable for this user only.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<Identity, FileError> {
        let path = self.parent.path.join(&self.name).join(name);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(file.map_err(|error| FileError::system(&path, error))?);
        if let Err(error) = io::Write::write_all(&mut file, bytes) {
            // Or the folder could not go.
            self.remove(name);
            return Err(FileError::system(&path, error));
        }
        Ok(Identity::of(&stat_of(&file, &path)?))
    }

    /// Gives a file a name in the parent, too; false if that is taken.
    pub fn publish(&self, name: &str, public: &str) -> Result<bool, FileError> {
        match fs::linkat(&self.fd, name, &self.parent.fd, public, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(FileError::system(&self.parent.path.join(public), error)),
        }
    }

    /// Takes a file out of the parent; what it is, if it was there.
    pub fn take(&self, public: &str, name: &str) -> Result<Option<Identity>, FileError> {
        let failed = |error| FileError::system(&self.parent.path.join(public), error);
        match fs::renameat(&self.parent.fd, public, &self.fd, name) {
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(failed(error)),
            Ok(()) => {
                let stat = fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
                Ok(Some(Identity::of(&stat)))
            }
        }
    }

    /// Removes a file from here.
    pub fn remove(&self, name: &str) {
        // Remaining files are removed with the folder, or stay with it.
        let _ = fs::unlinkat(&self.fd, name, AtFlags::empty());
    }
}

impl Drop for PrivateFolder<'_> {
    fn drop(&mut self) {
        // It is empty unless the process was interrupted in its work.
        let _ = fs::unlinkat(&self.parent.fd, &self.name, AtFlags::REMOVEDIR);
    }
}
