//! Where two tasks meet for a direct route: addresses, the socket that will call, and the one that is called.
//!
//! On one host these are Unix-domain sockets, named in the file system. A name is removed as soon as the socket has
//! it, so that nothing stays behind however a task ends: the caller's name is only compared, and the one that is
//! called is reached through its owner's descriptor in `/proc`.

use super::connect::{tcp_address, tmp_dir};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// One caller is expected; others must not keep it out.
const BACKLOG: i32 = 8;

type Result<T> = std::result::Result<T, Errno>;

/// Where a socket is, as PVM writes it: a path, or `%08x:%04x`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// On this host.
    Path(PathBuf),
    /// On any host.
    Ip(SocketAddrV4),
}

impl Address {
    /// Parses an address that another task has sent; `None` if it is invalid.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.starts_with('/') { Some(Self::Path(text.into())) } else { tcp_address(text).map(Self::Ip) }
    }

    fn of(name: SocketAddrAny) -> Option<Self> {
        if let Ok(ip) = SocketAddrV4::try_from(name.clone()) {
            return Some(Self::Ip(ip));
        }
        let name = SocketAddrUnix::try_from(name).ok()?;
        Some(Self::Path(PathBuf::from(name.path()?.to_str().ok()?)))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Ip(address) => write!(f, "{:08x}:{:04x}", u32::from(*address.ip()), address.port()),
        }
    }
}

/// The socket from which a task that has asked for a route will call.
#[derive(Debug)]
pub(super) struct Caller {
    socket: OwnedFd,
    address: Address,
}

impl Caller {
    /// For a task on the same host.
    pub(super) fn local() -> Result<Self> {
        let (socket, path) = bind_path()?;
        remove(&path);
        Ok(Self { socket, address: Address::Path(path) })
    }

    /// For a task elsewhere: from this host's address, if it is one.
    pub(super) fn remote(host: Ipv4Addr) -> Result<Self> {
        let (socket, address) = bind_ip(SocketAddrV4::new(host, 0))
            .or_else(|_| bind_ip(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)))?;
        Ok(Self { socket, address })
    }

    /// The address from which it calls.
    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// Calls. The connection is made when the socket is writable.
    pub(super) fn call(self, to: &Address) -> Result<OwnedFd> {
        let Self { mut socket, address } = self;
        let begun = match (address, to) {
            (_, Address::Path(path)) => net::connect(&socket, &SocketAddrUnix::new(path)?),
            (Address::Ip(own), Address::Ip(to)) if own.ip().is_loopback() && is_unknown(own, *to) => {
                // The port says who calls, and belongs to one socket at a time.
                drop(socket);
                socket = bind_ip(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, own.port()))?.0;
                net::connect(&socket, to)
            }
            (_, Address::Ip(to)) => net::connect(&socket, to),
        };
        match begun {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(error) => Err(error),
        }
    }
}

/// A socket that waits for one caller.
#[derive(Debug)]
pub(super) struct Listener {
    socket: OwnedFd,
    address: Address,
    caller: Address,
    /// Keeps the way in through `/proc` open; closed if no other descriptor is left for the caller.
    reserve: Option<OwnedFd>,
    /// A name to be removed.
    name: Option<PathBuf>,
}

impl Listener {
    /// Waits for a caller at that address; `host` is this host's own, for callers from elsewhere.
    pub(super) fn new(caller: Address, host: Ipv4Addr) -> Result<Self> {
        match caller {
            Address::Path(_) => Self::local(caller),
            Address::Ip(from) => {
                let (socket, address) = bind_ip(SocketAddrV4::new(reachable(host, *from.ip())?, 0))?;
                net::listen(&socket, BACKLOG)?;
                let reserve = rustix::io::fcntl_dupfd_cloexec(&socket, 0).ok();
                Ok(Self { socket, address, caller, reserve, name: None })
            }
        }
    }

    fn local(caller: Address) -> Result<Self> {
        let (socket, path) = bind_path()?;
        let mut listener =
            Self { socket, address: Address::Path(path.clone()), caller, reserve: None, name: Some(path) };
        net::listen(&listener.socket, BACKLOG)?;
        listener.hide();
        Ok(listener)
    }

    /// Moves from the name in the file system to one that ends with this process.
    fn hide(&mut self) {
        let Some(name) = &self.name else { return };
        let Ok(inode) = rustix::fs::open(name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) else { return };
        let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), inode.as_raw_fd()));
        if path.symlink_metadata().is_ok() {
            remove(name);
            (self.name, self.reserve, self.address) = (None, Some(inode), Address::Path(path));
        }
    }

    /// The address at which it waits.
    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// The socket, readable when a peer connects.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether a connection waits. Until it is accepted it counts as made at the other end.
    pub(super) fn is_called(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&now)) != Ok(0)
    }

    /// The connection to the expected caller, if it has called. Connections of others are closed.
    pub(super) fn accept(&mut self) -> Option<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let mut called = net::acceptfrom_with(&self.socket, flags);
        if matches!(called, Err(Errno::MFILE)) && self.reserve.take().is_some() {
            called = net::acceptfrom_with(&self.socket, flags);
        }
        let (socket, name) = called.ok()?;
        let expected = match (&self.caller, &self.address, name.and_then(Address::of)) {
            (Address::Ip(caller), Address::Ip(own), Some(Address::Ip(found))) => {
                caller.port() == found.port() && (caller.ip() == found.ip() || is_unknown(*caller, *own))
            }
            (Address::Path(caller), _, Some(Address::Path(found))) => *caller == found && same_user(&socket),
            _ => false,
        };
        expected.then_some(socket)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            remove(name);
        }
    }
}

fn same_user(socket: &OwnedFd) -> bool {
    net::sockopt::socket_peercred(socket).is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}

fn socket(family: AddressFamily) -> Result<OwnedFd> {
    net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

/// A socket with a new name in PVM's folder.
fn bind_path() -> Result<(OwnedFd, PathBuf)> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let (socket, folder, pid) = (socket(AddressFamily::UNIX)?, tmp_dir(), std::process::id());
    loop {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed) % 10_000;
        let path = folder.join(format!("pvmtmp{pid:06}.{number}"));
        match net::bind(&socket, &SocketAddrUnix::new(&path)?) {
            Ok(()) => return Ok((socket, path)),
            Err(Errno::ADDRINUSE) if number < 9_999 => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether a caller does not know the address by which it is seen where it calls: its host has only a loopback address, as where
/// `/etc/hosts` has the host's own name with one, or none.
fn is_unknown(caller: SocketAddrV4, called: SocketAddrV4) -> bool {
    caller.ip().is_unspecified() || caller.ip().is_loopback() && !called.ip().is_loopback()
}

fn bind_ip(at: SocketAddrV4) -> Result<(OwnedFd, Address)> {
    let socket = socket(AddressFamily::INET)?;
    net::sockopt::set_tcp_nodelay(&socket, true)?;
    net::bind(&socket, &at)?;
    let address = Address::of(net::getsockname(&socket)?).ok_or(Errno::AFNOSUPPORT)?;
    Ok((socket, address))
}

/// This host's address as a caller from there can reach it: its own, unless only this host can use that. A caller
/// that has a loopback address is on this host, or nowhere.
fn reachable(host: Ipv4Addr, from: Ipv4Addr) -> Result<Ipv4Addr> {
    if !host.is_unspecified() && (!host.is_loopback() || from.is_loopback() || from.is_unspecified()) {
        return Ok(host);
    }
    if from.is_loopback() || from.is_unspecified() {
        return Err(Errno::ADDRNOTAVAIL);
    }
    let towards = || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        // Nothing is sent: the system only chooses the address that it would send from.
        socket.connect((from, 9))?;
        socket.local_addr()
    };
    match towards() {
        Ok(std::net::SocketAddr::V4(address)) => Ok(*address.ip()),
        _ => Err(Errno::ADDRNOTAVAIL),
    }
}

fn remove(name: &Path) {
    // There is no caller to return an error to; a name left behind does no harm.
    let _ = std::fs::remove_file(name);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;

    /// Time limit of one step, generous for a busy machine.
    const LIMIT: Duration = Duration::from_secs(60);

    fn names() -> usize {
        let own = format!("pvmtmp{:06}.", std::process::id());
        let names = std::fs::read_dir(tmp_dir()).unwrap().flatten();
        names.filter(|entry| entry.file_name().to_string_lossy().starts_with(&own)).count()
    }

    fn meet(caller: Caller) -> Option<OwnedFd> {
        let told = Address::parse(&caller.address().to_string()).unwrap();
        let mut listener = Listener::new(told, HERE).unwrap();
        assert!(listener.accept().is_none(), "nobody has called");
        let to = Address::parse(&listener.address().to_string()).unwrap();
        caller.call(&to).unwrap();
        let end = Instant::now() + LIMIT;
        loop {
            let met = listener.accept();
            if met.is_some() || Instant::now() > end {
                return met;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn addresses_are_written_as_pvm_does() {
        for text in ["7f000001:bfa9", "/tmp/pvmtmp000012.3"] {
            assert_eq!(Address::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Address::parse(""), None);
        assert_eq!(Address::parse("host:1"), None);
    }

    #[test]
    fn each_caller_gets_an_address_that_it_can_reach() {
        let [wide, other] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];
        let (second, unknown) = (Ipv4Addr::new(127, 80, 0, 2), Ipv4Addr::UNSPECIFIED);
        for (host, from) in
            [(wide, other), (wide, second), (wide, unknown), (second, HERE), (second, unknown)]
        {
            assert_eq!(reachable(host, from), Ok(host), "{host} for {from}");
        }
        for from in [HERE, unknown] {
            assert!(reachable(unknown, from).is_err());
        }
    }

    #[test]
    fn callers_are_met() {
        assert!(meet(Caller::remote(HERE).unwrap()).is_some());
        let nowhere = Caller::remote(Ipv4Addr::new(192, 0, 2, 1)).unwrap();
        assert!(meet(nowhere).is_some(), "a host that does not know its address is known by its port");
    }

    #[test]
    fn no_name_stays_in_the_file_system() {
        let caller = Caller::local().unwrap();
        let mut listener = Listener::new(caller.address().clone(), HERE).unwrap();
        let to = listener.address().clone();
        let socket = caller.call(&to).unwrap();
        assert!(listener.accept().is_some());
        drop(socket);
        // Another test of this process may hold a file of this kind for a moment.
        let end = Instant::now() + LIMIT;
        while names() > 0 {
            assert!(Instant::now() < end, "there are names of this process all the time");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn strangers_are_sent_away() {
        let expected = Caller::local().unwrap();
        let mut listener = Listener::new(expected.address().clone(), HERE).unwrap();
        let _stranger = Caller::local().unwrap().call(&listener.address().clone()).unwrap();
        assert!(listener.accept().is_none());
        let _expected = expected.call(&listener.address().clone()).unwrap();
        assert!(listener.accept().is_some());
    }
}
