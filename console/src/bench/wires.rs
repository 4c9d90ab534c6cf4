//! Plain TCP connections between workers, with which messages are compared.
//!
//! A worker listens only while another one connects. A connection counts only if its first bytes are the token that both have from the
//! parent. Afterwards it carries the bytes that are measured, and nothing else.

use super::line::Stop;
use pvm3::Tid;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(3);
/// How long a caller may take to send its token.
const GREETING: Duration = Duration::from_millis(500);
/// How long the other end may send or take nothing.
const SILENCE: Duration = Duration::from_secs(10);
/// Between two looks for a caller.
const LOOK: Duration = Duration::from_millis(2);

/// A worker's connections.
#[derive(Debug, Default)]
pub struct Wires {
    streams: BTreeMap<Tid, TcpStream>,
    listener: Option<TcpListener>,
}

impl Wires {
    /// The connection to a worker.
    pub fn to(&mut self, peer: Tid) -> Result<&mut TcpStream, Stop> {
        self.streams.get_mut(&peer).ok_or_else(|| Stop::Failed(format!("there is no connection to {peer}")))
    }

    /// The connections to these workers.
    pub fn to_all(&self, peers: &[Tid]) -> Result<Vec<&TcpStream>, Stop> {
        let wire = |peer| {
            self.streams.get(peer).ok_or_else(|| Stop::Failed(format!("there is no connection to {peer}")))
        };
        peers.iter().map(wire).collect()
    }

    /// Listens at an address that a host at `towards` can reach; `own` is this host's, unspecified if it is not known.
    pub fn listen(&mut self, own: Ipv4Addr, towards: Ipv4Addr) -> Result<SocketAddrV4, Stop> {
        let ip = reachable(own, towards)?;
        let listener = TcpListener::bind((ip, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        self.listener = Some(listener);
        Ok(SocketAddrV4::new(ip, port))
    }

    /// Waits for the worker that has the token, and stops listening.
    pub fn accept(&mut self, peer: Tid, token: &[u8; 16]) -> Result<(), Stop> {
        let listener = self.listener.take().ok_or_else(|| Stop::Failed("it does not listen".into()))?;
        let deadline = Instant::now() + CONNECT;
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    // Another caller, which has no token, is left alone.
                    if let Some(stream) = greeted(stream, token) {
                        self.streams.insert(peer, stream);
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(LOOK),
                Err(error) => return Err(error.into()),
            }
            if Instant::now() >= deadline {
                return Err(Stop::Failed(format!("no connection within {} s", CONNECT.as_secs())));
            }
        }
    }

    /// Connects to a worker that listens.
    pub fn connect(&mut self, peer: Tid, address: SocketAddrV4, token: &[u8; 16]) -> Result<(), Stop> {
        let begun = || -> std::io::Result<TcpStream> {
            let mut stream = prepared(TcpStream::connect_timeout(&SocketAddr::V4(address), CONNECT)?)?;
            stream.write_all(token)?;
            stream.read_exact(&mut [0])?;
            Ok(stream)
        };
        let stream = begun().map_err(|error| {
            Stop::Failed(pvm_wire::plain(format_args!("no connection to {address}: {error}")))
        })?;
        self.streams.insert(peer, stream);
        Ok(())
    }
}

/// The connection of a caller that has the token.
fn greeted(stream: TcpStream, token: &[u8; 16]) -> Option<TcpStream> {
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(GREETING)).ok()?;
    let mut given = [0; 16];
    (&stream).read_exact(&mut given).ok()?;
    if given != *token {
        return None;
    }
    let mut stream = prepared(stream).ok()?;
    stream.write_all(&[0]).ok()?;
    Some(stream)
}

fn prepared(stream: TcpStream) -> std::io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    Ok(stream)
}

/// This host's address as a host at `towards` can reach it: its own, unless that is a loopback address and the other one is not.
fn reachable(own: Ipv4Addr, towards: Ipv4Addr) -> Result<Ipv4Addr, Stop> {
    let is_local = |ip: Ipv4Addr| ip.is_loopback() || ip.is_unspecified();
    if !is_local(own) {
        return Ok(own);
    }
    if is_local(towards) {
        return Ok(if own.is_unspecified() { Ipv4Addr::LOCALHOST } else { own });
    }
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // Nothing is sent: the system only chooses the address that it would send from.
    socket.connect((towards, 9))?;
    match socket.local_addr()? {
        SocketAddr::V4(address) => Ok(*address.ip()),
        SocketAddr::V6(_) => Err(Stop::Failed("it has no IPv4 address".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;

    fn tid(number: i32) -> Tid {
        Tid::from_raw(0x40000 + number)
    }

    #[test]
    fn only_the_worker_with_the_token_is_connected() {
        let (mut near, mut far) = (Wires::default(), Wires::default());
        let address = near.listen(HERE, HERE).unwrap();
        let mut stranger = TcpStream::connect(address).unwrap();
        stranger.write_all(&[9; 16]).unwrap();
        // This one sends nothing.
        let silent = TcpStream::connect(address).unwrap();
        thread::scope(|scope| {
            let accepted = scope.spawn(|| near.accept(tid(2), &[7; 16]));
            far.connect(tid(1), address, &[7; 16]).unwrap();
            accepted.join().unwrap().unwrap();
        });
        far.to(tid(1)).unwrap().write_all(b"x").unwrap();
        let mut byte = [0];
        near.to(tid(2)).unwrap().read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"x");
        assert!(near.to(tid(3)).is_err() && near.to_all(&[tid(2), tid(3)]).is_err());
        assert!(near.accept(tid(2), &[7; 16]).is_err(), "it listens no more");
        drop(silent);
    }

    #[test]
    fn a_host_that_cannot_be_reached_is_named() {
        let address = TcpListener::bind((HERE, 0)).unwrap().local_addr().unwrap();
        let SocketAddr::V4(address) = address else { panic!("no IPv4 address") };
        let refused = Wires::default().connect(tid(1), address, &[0; 16]).unwrap_err().to_string();
        assert_eq!(refused, format!("no connection to {address}: Connection refused"));
    }

    #[test]
    fn hosts_give_an_address_that_the_other_can_reach() {
        let [wide, other] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];
        let second = Ipv4Addr::new(127, 80, 0, 2);
        for (own, towards, expected) in [
            (wide, other, wide),
            (wide, HERE, wide),
            (second, HERE, second),
            (Ipv4Addr::UNSPECIFIED, HERE, HERE),
        ] {
            assert_eq!(reachable(own, towards).unwrap(), expected, "{own} for {towards}");
        }
    }
}
