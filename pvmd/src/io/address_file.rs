//! The file in which tasks find the daemon's socket, and the socket's own name.

use crate::io::settings::Place;
use rustix::fs::{self, Mode, OFlags};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Why a daemon cannot take its place.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// There is one.
    #[error("a daemon of this virtual machine runs already: its socket is {socket} ({file})", file = file.display())]
    Running {
        /// Its socket, as the file says.
        socket: String,
        /// The address file.
        file: PathBuf,
    },
    /// A file cannot be written.
    #[error("cannot write {path}", path = path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// The address file while it is ours. Dropping it removes the file and the socket.
#[derive(Debug)]
pub struct AddressFile {
    path: PathBuf,
    socket: PathBuf,
}

impl AddressFile {
    /// Publishes a socket that listens already. A file that leads to no daemon any more is replaced; of two daemons that
    /// try at once, one succeeds.
    pub fn publish(place: &Place, socket: &Path) -> Result<Self, AddressError> {
        let path = place.address_file();
        let fresh = place.tmp.join(format!("pvmaddr.{}", std::process::id()));
        let result = write_new(&fresh, socket)
            .map_err(|source| AddressError::File { path: fresh.clone(), source })
            .and_then(|()| claim(&fresh, &path));
        let _ = std::fs::remove_file(&fresh);
        if result.is_err() {
            // Nobody will look for it.
            let _ = std::fs::remove_file(socket);
        }
        result.map(|()| Self { path, socket: socket.to_owned() })
    }
}

impl Drop for AddressFile {
    fn drop(&mut self) {
        // Whoever took our place after a mishap keeps it.
        if std::fs::read(&self.path).is_ok_and(|text| text == self.socket.as_os_str().as_encoded_bytes()) {
            let _ = std::fs::remove_file(&self.path);
        }
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// The socket a running daemon of this place has published, if one answers there.
pub fn running(place: &Place) -> Option<String> {
    let text = std::fs::read_to_string(place.address_file()).ok()?;
    answers(&text).then_some(text)
}

fn answers(socket: &str) -> bool {
    match UnixStream::connect(socket) {
        Ok(_) => true,
        // A full backlog is a sign of life.
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

fn write_new(path: &Path, socket: &Path) -> io::Result<()> {
    let _ = std::fs::remove_file(path);
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
    // Without a newline: libpvm takes the bytes as they are.
    let text = socket.as_os_str().as_encoded_bytes();
    if rustix::io::write(&file, text)? == text.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Gives `fresh` the name `path`, unless a living daemon has it.
fn claim(fresh: &Path, path: &Path) -> Result<(), AddressError> {
    let failed = |source| AddressError::File { path: path.to_owned(), source };
    for _ in 0..10 {
        match std::fs::hard_link(fresh, path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
            Err(_) => {}
        }
        let Ok(socket) = std::fs::read_to_string(path) else { continue };
        if answers(&socket) {
            return Err(AddressError::Running { socket, file: path.to_owned() });
        }
        retire(path, &socket).map_err(failed)?;
    }
    Err(failed(io::ErrorKind::AlreadyExists.into()))
}

/// Removes a stale file; puts it back if it has become another's meanwhile.
fn retire(path: &Path, socket: &str) -> io::Result<()> {
    let aside = path.with_extension(format!("stale.{}", std::process::id()));
    match std::fs::rename(path, &aside) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    }
    if std::fs::read_to_string(&aside).is_ok_and(|text| text != socket) {
        let _ = std::fs::hard_link(&aside, path);
    } else if socket.starts_with('/') && socket.contains("/pvmtmp") {
        let _ = std::fs::remove_file(socket);
    }
    std::fs::remove_file(aside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    fn place(folder: &Path) -> Place {
        Place { tmp: folder.to_owned(), uid: 7, vmid: Some("x".into()) }
    }

    #[test]
    fn one_daemon_at_a_time_and_nothing_left() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        let socket = folder.path().join("pvmtmp1.0");
        let _listener = UnixListener::bind(&socket).unwrap();
        let file = AddressFile::publish(&place, &socket).unwrap();
        assert_eq!(
            std::fs::read(folder.path().join("pvmd.7.x")).unwrap(),
            socket.as_os_str().as_encoded_bytes()
        );
        assert_eq!(running(&place).as_deref(), socket.to_str());
        let other = folder.path().join("pvmtmp2.0");
        let _listener = UnixListener::bind(&other).unwrap();
        let error = AddressFile::publish(&place, &other).unwrap_err();
        assert!(error.to_string().contains(socket.to_str().unwrap()), "{error}");
        assert!(!other.exists(), "who cannot take its place leaves nothing");
        drop(file);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_stale_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        for stale in ["/nowhere/pvmtmp000001.0", "7f000001:0001", ""] {
            std::fs::write(place.address_file(), stale).unwrap();
            let socket = folder.path().join("pvmtmp1.0");
            let _listener = UnixListener::bind(&socket).unwrap();
            drop(AddressFile::publish(&place, &socket).unwrap());
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{stale}");
        }
    }
}
