//! The file in which tasks find the daemon's socket, and the socket's own name.

use crate::io::settings::Place;
use pvm_files::{FileError, Folder, Identity, PrivateFolder};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::path::{Path, PathBuf};

/// Longest address that tasks read, bytes.
const ADDRESS_MAX: usize = 128;
/// Times that a stale file is removed for another one, which turns out to be stale, too.
const TRIES: usize = 10;
/// Names in a folder of this process's own.
const NEW: &str = "new";
const OLD: &str = "old";

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
    /// What is in the place of the address file cannot be used or replaced.
    #[error("cannot publish the daemon's address")]
    File(#[from] FileError),
    /// Other daemons come and go all the time.
    #[error("cannot publish the daemon's address: other daemons keep taking {file}", file = file.display())]
    Taken {
        /// The address file.
        file: PathBuf,
    },
}

/// The address file while it is ours. Dropping it removes the file and the socket.
#[derive(Debug)]
pub struct AddressFile {
    folder: Folder,
    name: String,
    identity: Identity,
    socket: PathBuf,
}

impl AddressFile {
    /// Publishes a socket that listens already. A file that leads to no daemon any more is replaced; of two daemons that
    /// try at once, one succeeds.
    pub fn publish(place: &Place, socket: &Path) -> Result<Self, AddressError> {
        let folder = Folder::open(&place.tmp)?;
        match claim(&folder, place, socket) {
            Ok(identity) => {
                Ok(Self { folder, name: place.address_name(), identity, socket: socket.to_owned() })
            }
            Err(error) => {
                // Nobody will look for it.
                folder.remove_socket(socket);
                Err(error)
            }
        }
    }

    /// Whether other users can remove or rename it.
    pub fn is_exposed(&self) -> bool {
        self.folder.is_open_to_all()
    }
}

impl Drop for AddressFile {
    fn drop(&mut self) {
        // Another daemon that has taken our place after a mishap keeps it.
        let _ = self.folder.remove(&self.name, self.identity);
        self.folder.remove_socket(&self.socket);
    }
}

/// The socket a running daemon of this place has published, if one answers there.
pub fn running(place: &Place) -> Result<Option<String>, AddressError> {
    match Folder::open(&place.tmp)?.read(&place.address_name(), ADDRESS_MAX) {
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
        Ok((text, _)) => Ok(address(&text).filter(|socket| answers(socket))),
    }
}

fn address(text: &[u8]) -> Option<String> {
    String::from_utf8(text.to_vec()).ok()
}

/// Whether a daemon of this user listens at a socket. Another user may have put one there when the daemon was gone.
fn answers(socket: &str) -> bool {
    let path = Path::new(socket);
    if !path.is_absolute() || pvm_files::check_socket(path).is_err() {
        return false;
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let Ok(stream) = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None) else {
        return false;
    };
    match SocketAddrUnix::new(path).and_then(|address| rustix::net::connect(&stream, &address)) {
        Ok(()) => {
            let listener = rustix::net::sockopt::socket_peercred(&stream);
            listener.is_ok_and(|listener| listener.uid == rustix::process::geteuid())
        }
        // A full backlog is a sign of life, and the socket's file is this user's.
        Err(error) => error == rustix::io::Errno::AGAIN,
    }
}

/// Makes the address file, unless a living daemon has it.
fn claim(folder: &Folder, place: &Place, socket: &Path) -> Result<Identity, AddressError> {
    let private = folder.private("pvmaddr")?;
    // Without a newline: libpvm takes the bytes as they are.
    let new = private.write(NEW, socket.as_os_str().as_encoded_bytes())?;
    let published = publish_new(folder, &private, place);
    private.remove(NEW);
    published.map(|()| new)
}

fn publish_new(folder: &Folder, private: &PrivateFolder<'_>, place: &Place) -> Result<(), AddressError> {
    for _ in 0..TRIES {
        if private.publish(NEW, &place.address_name())? {
            return Ok(());
        }
        retire_stale(folder, private, place)?;
    }
    Err(AddressError::Taken { file: place.address_file() })
}

/// Removes the address file, and its socket, of a daemon that is gone.
fn retire_stale(folder: &Folder, private: &PrivateFolder<'_>, place: &Place) -> Result<(), AddressError> {
    let name = place.address_name();
    let (text, identity) = match folder.read(&name, ADDRESS_MAX) {
        Err(error) if error.is_not_found() => return Ok(()),
        read => read?,
    };
    let old = address(&text);
    if let Some(socket) = old.clone().filter(|socket| answers(socket)) {
        return Err(AddressError::Running { socket, file: place.address_file() });
    }
    match private.take(&name, OLD)? {
        // Another daemon has done the same meanwhile, and has its new file back.
        Some(taken) if taken != identity => drop(private.publish(OLD, &name)?),
        Some(_) => drop(old.map(|socket| folder.remove_socket(Path::new(&socket)))),
        None => {}
    }
    private.remove(OLD);
    Ok(())
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
        assert_eq!(running(&place).unwrap().as_deref(), socket.to_str());
        let other = folder.path().join("pvmtmp2.0");
        let _listener = UnixListener::bind(&other).unwrap();
        let error = AddressFile::publish(&place, &other).unwrap_err();
        assert!(error.to_string().contains(socket.to_str().unwrap()), "{error}");
        assert!(!other.exists(), "who cannot take its place leaves nothing");
        drop(file);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn other_kinds_of_files_are_neither_read_nor_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        std::os::unix::fs::symlink("/dev/zero", place.address_file()).unwrap();
        let socket = folder.path().join("pvmtmp1.0");
        let _listener = UnixListener::bind(&socket).unwrap();
        for error in [running(&place).map(drop), AddressFile::publish(&place, &socket).map(drop)] {
            let error = anyhow::Error::from(error.unwrap_err());
            assert!(format!("{error:#}").contains("pvmd.7.x is a symbolic link"), "{error:#}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "the link stays");
    }

    #[test]
    fn a_stale_file_removes_nothing_but_own_sockets_here() {
        let folder = tempfile::tempdir().unwrap();
        let (precious, tmp) = (folder.path().join("precious"), folder.path().join("tmp"));
        std::fs::write(&precious, "precious").unwrap();
        std::fs::create_dir(&tmp).unwrap();
        std::os::unix::fs::symlink(folder.path(), tmp.join("pvmtmp")).unwrap();
        let stale = tmp.join("pvmtmp0.0");
        drop(UnixListener::bind(&stale).unwrap());
        let place = place(&tmp);
        for (named, stays) in [(tmp.join("pvmtmp/precious"), true), (stale, false)] {
            std::fs::write(place.address_file(), named.to_str().unwrap()).unwrap();
            let socket = tmp.join("pvmtmp1.0");
            let _listener = UnixListener::bind(&socket).unwrap();
            drop(AddressFile::publish(&place, &socket).unwrap());
            assert_eq!(named.exists(), stays, "{}", named.display());
        }
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
