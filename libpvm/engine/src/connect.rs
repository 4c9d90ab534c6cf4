//! Finds the daemon, and proves this process's identity to it.

use super::options;
use crate::{Error, Result};
use pvm_files::FileError;
use pvm_wire::calls::Call;
use pvm_wire::calls::enrolment::{Admission, Enrol, EnrolReply};
use pvm_wire::channel::Channel;
use pvm_wire::{PvmError, codes};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Number of attempts at a connection that is refused, and the time between them.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// Longest daemon address, bytes.
const ADDRESS_MAX: usize = 128;

/// The folder for the machine's sockets and address files: `PVM_TMP`, else `/tmp`.
pub fn tmp_dir() -> PathBuf {
    std::env::var_os("PVM_TMP").filter(|dir| !dir.is_empty()).map_or_else(|| "/tmp".into(), PathBuf::from)
}

/// The file into which the daemon of this user and `PVM_VMID` writes its address.
pub fn address_file() -> PathBuf {
    let mut name = format!("pvmd.{}", rustix::process::geteuid().as_raw());
    if let Some(vmid) = std::env::var("PVM_VMID").ok().filter(|vmid| !vmid.is_empty()) {
        name = format!("{name}.{vmid}");
    }
    tmp_dir().join(name)
}

/// Where the daemon listens: `PVMSOCK`, else the content of the address file.
pub(super) fn daemon_address() -> Result<String> {
    if let Some(address) = std::env::var("PVMSOCK").ok().filter(|address| !address.is_empty()) {
        return Ok(address);
    }
    let path = address_file();
    match pvm_files::read(&path, ADDRESS_MAX) {
        Ok(text) => Ok(String::from_utf8_lossy(&text).trim_end().to_owned()),
        Err(error) if error.is_not_found() => Err(Error::new(
            PvmError::SysErr,
            format!(
                "no daemon runs here (no address file {}): start one with `pvm` or `pvmd`",
                path.display()
            ),
        )),
        Err(error) => {
            Err(Error::new(PvmError::SysErr, format!("cannot use the daemon's address file: {error}")))
        }
    }
}

/// Whether each end sees the other's user id: at a Unix socket it does.
pub(super) fn shows_credentials(address: &str) -> bool {
    address.starts_with('/')
}

/// Whether one request is enough to enrol: the daemon at this address says so in the environment of the processes that it starts.
pub(super) fn takes_all_at_once(address: &str) -> bool {
    let value = std::env::var(codes::ENROL_VARIABLE);
    shows_credentials(address) && value.is_ok_and(|value| codes::is_enrol_value(&value, address))
}

/// This process, or the one that it was forked from, has enrolled on the channel that the daemon made when it started the task.
static HAS_INHERITED_CHANNEL: AtomicBool = AtomicBool::new(false);

/// The channel that this process inherited from its daemon, and the reply to its enrolment, which is already in it. `None` if there
/// is no channel, or another process has taken it.
pub(super) fn inherited_channel() -> Option<(OwnedFd, EnrolReply)> {
    let channel = Channel::decode(&std::env::var(codes::CHANNEL_VARIABLE).ok()?)?;
    let (socket, greeting) = pvm_shm::inherited::take(channel)?;
    let Admission(identity) = Enrol::decode_answer(&greeting).ok()?.ok()?;
    let identity = identity?;
    HAS_INHERITED_CHANNEL.store(true, Ordering::Relaxed);
    Some((socket, identity))
}

/// The number by which the daemon recognizes a process that it has started, 0 for none. A process that has enrolled on its channel is
/// another task on a new connection: the daemon may read that before the channel, and would take the one for the other.
pub(super) fn cookie() -> i32 {
    if HAS_INHERITED_CHANNEL.load(Ordering::Relaxed) { 0 } else { environment_cookie() }
}

/// The same, for the enrolment on the channel.
pub(super) fn environment_cookie() -> i32 {
    options::number("PVMEPID")
}

/// Connects to a daemon; `quick` gives up at the first refusal.
pub(super) fn connect(address: &str, quick: bool) -> Result<OwnedFd> {
    let mut tries = if quick { 1 } else { TRIES };
    loop {
        tries -= 1;
        match open(address) {
            Ok(socket) => return Ok(socket),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                return Err(Error::system(
                    PvmError::SysErr,
                    &format!("no daemon of this user at {address}"),
                    error,
                ));
            }
            Err(_) if tries > 0 => std::thread::sleep(PAUSE),
            Err(error) => {
                let text = format!(
                    "no daemon answers at {address} (if none runs any more, remove {} and start one with `pvm`)",
                    address_file().display()
                );
                return Err(Error::system(PvmError::SysErr, &text, error));
            }
        }
    }
}

fn open(address: &str) -> std::io::Result<OwnedFd> {
    if address.starts_with('/') {
        // Checked before connecting: at a stranger's socket a connect may never return.
        if let Err(error @ FileError::Foreign { .. }) = pvm_files::check_socket(Path::new(address)) {
            return Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, error));
        }
        let stream = UnixStream::connect(address)?;
        check_owner(&stream)?;
        stream.set_nonblocking(true)?;
        return Ok(stream.into());
    }
    let address = tcp_address(address).ok_or_else(|| {
        std::io::Error::new(std::io::ErrorKind::InvalidInput, "not the address of a daemon")
    })?;
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream.into())
}

/// The folder may be writable by every user, so another user may have put a socket there in the daemon's place.
fn check_owner(stream: &UnixStream) -> std::io::Result<()> {
    let owner = rustix::net::sockopt::socket_peercred(stream)?.uid;
    if owner == rustix::process::geteuid() {
        return Ok(());
    }
    let text = format!("the process that listens there belongs to uid {}", owner.as_raw());
    Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, text))
}

/// An address as PVM writes it, `%08x:%04x`.
pub(super) fn tcp_address(text: &str) -> Option<SocketAddrV4> {
    let (ip, port) = text.split_once(':')?;
    let ip = u32::from_str_radix(ip, 16).ok()?;
    Some(SocketAddrV4::new(Ipv4Addr::from(ip), u16::from_str_radix(port, 16).ok()?))
}

/// The file into which the daemon writes a byte, to prove that it is the user's. Removed when dropped.
pub(super) struct Proof {
    path: PathBuf,
    file: File,
}

impl Proof {
    /// Makes an empty file with a new name that only this user can write.
    pub(super) fn new() -> Result<Self> {
        let (dir, pid) = (tmp_dir(), std::process::id());
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        for counter in 0..10_000 {
            let path = dir.join(format!("pvmtmp{pid:06}.{counter}"));
            match options.open(&path) {
                Ok(file) => return Ok(Self { path, file }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    let text =
                        format!("cannot make a file in {} (PVM_TMP names another folder)", dir.display());
                    return Err(Error::system(PvmError::SysErr, &text, error));
                }
            }
        }
        Err(Error::new(PvmError::SysErr, format!("{} is full of files pvmtmp{pid:06}.*", dir.display())))
    }

    /// Its name.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the daemon has written.
    pub(super) fn is_given(&mut self) -> bool {
        self.file.rewind().is_ok() && self.file.read_exact(&mut [0]).is_ok()
    }
}

impl Drop for Proof {
    fn drop(&mut self) {
        // There is no caller to return an error to; a file left behind does no harm.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Why a daemon with this version of the protocol does not continue the handshake.
pub(super) fn refusal(version: i32, proof: Result<Proof>) -> Error {
    if version != codes::TASK_PROTOCOL {
        let text = format!("it speaks protocol {version}, this library {}", codes::TASK_PROTOCOL);
        return Error::new(PvmError::SysErr, text);
    }
    proof.map_or_else(
        |error| error,
        |proof| {
            let path = proof.path().display();
            let text = format!(
                "it refused: most likely it cannot write into {path}, by which it proves whose it is (is the disk full?); its log says more"
            );
            Error::new(PvmError::SysErr, text)
        },
    )
}

/// Writes the byte for which the daemon waits.
pub(super) fn give_proof(path: &str) -> Result<()> {
    // The user of a daemon at a TCP port is unknown: a file that has contents is not changed, whatever path the daemon names.
    pvm_files::mark(Path::new(path), b"/").map_err(|error| {
        Error::new(PvmError::SysErr, format!("no proof of this process's user for the daemon: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_hexadecimal() {
        let expected = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0xbfa9);
        assert_eq!(tcp_address("7f000001:bfa9"), Some(expected));
        assert_eq!(tcp_address("7f000001"), None);
        assert_eq!(tcp_address("x:1"), None);
    }

    #[test]
    fn proof_is_a_byte_in_the_file() {
        let mut proof = Proof::new().unwrap();
        assert!(!proof.is_given());
        give_proof(proof.path().to_str().unwrap()).unwrap();
        assert!(proof.is_given());
        let path = proof.path().to_owned();
        drop(proof);
        assert!(!path.exists());
    }
}
