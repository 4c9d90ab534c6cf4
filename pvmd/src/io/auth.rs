//! The files by which a task and its daemon prove to each other that they are the same user's (PVM's handshake).
//!
//! The socket's credentials have shown that already; the files are for libraries that expect them.

use pvm_files::FileError;
use rustix::fs::{self, Mode, OFlags};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use pvmd_core::event::ConnId;

/// The daemon's own files, by connection.
#[derive(Debug)]
pub struct AuthFiles {
    folder: PathBuf,
    count: u64,
    open: HashMap<ConnId, PathBuf>,
}

impl AuthFiles {
    /// Files in this folder (`PVM_TMP`).
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), count: 0, open: HashMap::new() }
    }

    /// Writes into the task's file and makes one of our own; gives its path.
    pub fn open(&mut self, conn: ConnId, task_file: &str) -> Result<String, String> {
        touch(Path::new(task_file)).map_err(|error| error.to_string())?;
        self.count += 1;
        let path = self.folder.join(format!("pvmauth.{}.{}", std::process::id(), self.count));
        create(&path).map_err(|error| format!("{}: {}", path.display(), pvm_wire::plain(error)))?;
        let text = path.display().to_string();
        self.open.insert(conn, path);
        Ok(text)
    }

    /// Whether the task has written into our file, which goes.
    pub fn check(&mut self, conn: ConnId) -> bool {
        let Some(path) = self.open.remove(&conn) else { return false };
        let written = std::fs::symlink_metadata(&path).is_ok_and(|file| file.len() > 0);
        let _ = std::fs::remove_file(&path);
        written
    }

    /// The connection is gone.
    pub fn forget(&mut self, conn: ConnId) {
        self.check(conn);
    }
}

impl Drop for AuthFiles {
    fn drop(&mut self) {
        for path in self.open.values() {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Writes one byte into an empty regular file of this user. Neither a link nor a pipe leads or holds the daemon anywhere.
fn touch(path: &Path) -> Result<(), FileError> {
    let first = path.as_os_str().as_encoded_bytes().first().copied().unwrap_or(b'/');
    pvm_files::mark(path, &[first])
}

fn create(path: &Path) -> io::Result<()> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::FileType;

    #[test]
    fn both_sides_write_into_each_others_file() {
        let folder = tempfile::tempdir().unwrap();
        let task_file = folder.path().join("t");
        std::fs::write(&task_file, "").unwrap();
        let mut files = AuthFiles::new(folder.path());
        let own = files.open(ConnId(1), task_file.to_str().unwrap()).unwrap();
        assert_eq!(std::fs::read(&task_file).unwrap().len(), 1);
        std::fs::write(&own, "x").unwrap();
        assert!(files.check(ConnId(1)));
        assert!(!files.check(ConnId(1)), "once only");
        assert!(!Path::new(&own).exists());
    }

    #[test]
    fn a_task_that_wrote_nothing_is_not_proven() {
        let folder = tempfile::tempdir().unwrap();
        let task_file = folder.path().join("t");
        std::fs::write(&task_file, "").unwrap();
        let mut files = AuthFiles::new(folder.path());
        files.open(ConnId(1), task_file.to_str().unwrap()).unwrap();
        assert!(!files.check(ConnId(1)));
    }

    #[test]
    fn links_pipes_and_nothing_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = AuthFiles::new(folder.path());
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        std::os::unix::fs::symlink("/etc/hostname", path("link")).unwrap();
        fs::mknodat(fs::CWD, path("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for name in ["link", "pipe", "nothing"] {
            assert!(files.open(ConnId(1), &path(name)).is_err(), "{name}");
        }
    }
}
