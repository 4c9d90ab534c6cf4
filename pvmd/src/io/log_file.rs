//! The files of the log: the one that is written, and the one before it.

use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What a log is written to.
pub trait Store: Write + Send + 'static {
    /// Goes on with nothing written, and keeps what was written last.
    fn rotate(&mut self) -> io::Result<()>;
}

impl Store for io::Sink {
    fn rotate(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A log's file.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: File,
}

impl LogFile {
    /// Begins the file. What earlier daemons left under its name, and under that of the file before it, goes.
    pub fn begin(path: &Path) -> io::Result<Self> {
        let file = open(path)?;
        file.set_len(0)?;
        let _ = std::fs::remove_file(before(path));
        Ok(Self { path: path.to_owned(), file })
    }
}

impl Store for LogFile {
    fn rotate(&mut self) -> io::Result<()> {
        let moved = std::fs::rename(&self.path, before(&self.path));
        match moved.and_then(|()| open(&self.path)) {
            Ok(file) => self.file = file,
            // Somebody has removed it, or there is no second file to be had: then one has to do.
            Err(_) => self.file.set_len(0)?,
        }
        Ok(())
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Where the file goes when it is full. No daemon's log begins under that name: between `pvml.<uid>` and a `PVM_VMID` is a dot.
pub fn before(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("~");
    name.into()
}

/// A daemon that is ending may write its last lines while another one begins, so each writes at the end.
fn open(path: &Path) -> io::Result<File> {
    let file = pvm_files::create(path).map_err(io::Error::other)?;
    rustix::fs::fcntl_setfl(&file, OFlags::APPEND)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("precious");
        std::fs::write(&target, "precious").unwrap();
        let path = folder.path().join("pvml");
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert!(LogFile::begin(&path).is_err());
        assert_eq!(std::fs::read_to_string(target).unwrap(), "precious");
    }

    #[test]
    fn a_full_file_is_kept_and_one_that_was_removed_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pvml");
        let mut log = LogFile::begin(&path).unwrap();
        log.write_all(b"one").unwrap();
        log.rotate().unwrap();
        log.write_all(b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read(before(&path)).unwrap(), b"one");
        std::fs::remove_file(&path).unwrap();
        log.rotate().unwrap();
        LogFile::begin(&path).unwrap();
        assert!(!before(&path).exists(), "an earlier daemon's");
    }
}
