//! Whether a daemon that says nothing has ended: a packet to its port, which the host of a daemon that has ended refuses (ICMP "port
//! unreachable").
//!
//! The packet is from a port of its own that is connected to the other: the system reports refusals to such ports only. It has one byte,
//! which every daemon drops. A refusal proves something only where none comes while the daemon lives. A firewall that lets answers through
//! and refuses all else may stand before a port from which a daemon calls others, so such a port is tried first while it is in use.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::time::timeout;

/// How long a refusal is waited for: a host that has refused six packets refuses one a second (`icmp_ratelimit` of Linux), and the packets
/// of QUIC to a daemon that has ended are soon more than six.
pub const PATIENCE: Duration = Duration::from_millis(1100);

/// How long a port from which a daemon calls is tried, besides the time that packets are on their way.
const TRIAL: Duration = Duration::from_millis(200);

/// How long after a packet the next one is sent: as soon as the host may refuse one again it should be this one, not one of QUIC.
const AGAIN: Duration = Duration::from_millis(20);

/// No packet of QUIC: those have the bit 0x40 in their first byte (RFC 9000, 17.2 and 17.3), and more bytes.
const PACKET: [u8; 1] = [0];

/// A port of a daemon, of which can be found out whether somebody still listens there.
#[derive(Clone, Debug)]
pub struct Target {
    address: SocketAddr,
    /// Whether a refusal there means that nobody listens.
    is_telling: Arc<AtomicBool>,
}

impl Target {
    /// The port at which others call a daemon: no firewall refuses what goes there.
    pub fn called(address: SocketAddr) -> Self {
        Self { address, is_telling: Arc::new(AtomicBool::new(true)) }
    }

    /// The port from which a daemon has just called this one, at this distance. It is tried for as short as a refusal can take: the end of
    /// a daemon in that time is not proved.
    pub fn calling(address: SocketAddr, round_trip: Duration) -> Self {
        let target = Self { address, is_telling: Arc::default() };
        let tried = target.clone();
        let patience = (TRIAL + 2 * round_trip).min(PATIENCE);
        tokio::spawn(async move {
            if !is_refused(address, patience).await {
                tried.is_telling.store(true, Ordering::Relaxed);
            }
        });
        target
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it is proved that the daemon has ended.
    pub async fn has_ended(&self, patience: Duration) -> bool {
        self.is_telling.load(Ordering::Relaxed) && is_refused(self.address, patience).await
    }
}

/// Whether the host at this address answers within that time that nobody listens there.
async fn is_refused(address: SocketAddr, patience: Duration) -> bool {
    let answer = timeout(patience, send(without_mapping(address))).await;
    matches!(answer, Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Sends the packet again and again, and waits for an answer or the refusal.
async fn send(address: SocketAddr) -> io::Result<()> {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(address).await?;
    loop {
        socket.send(&PACKET).await?;
        if let Ok(received) = timeout(AGAIN, socket.recv(&mut [0])).await {
            return received.map(drop);
        }
    }
}

/// A socket of both families shows IPv4 addresses as IPv6 ones, and a host without IPv6 cannot be asked by these.
fn without_mapping(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => (ip, address.port()).into(),
        IpAddr::V6(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// Far more than a refusal takes.
    const LONG: Duration = Duration::from_secs(60);

    fn open() -> (std::net::UdpSocket, SocketAddr) {
        let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        let address = socket.local_addr().unwrap();
        (socket, address)
    }

    fn mapped(address: SocketAddr) -> SocketAddr {
        format!("[::ffff:{}]:{}", address.ip(), address.port()).parse().unwrap()
    }

    #[tokio::test]
    async fn a_port_at_which_nobody_listens_is_told_at_once() {
        let (socket, address) = open();
        drop(socket);
        let begin = Instant::now();
        assert!(Target::called(address).has_ended(LONG).await);
        assert!(Target::called(mapped(address)).has_ended(LONG).await);
        assert!(begin.elapsed() < LONG);
    }

    #[tokio::test]
    async fn a_port_that_does_not_answer_proves_nothing() {
        let (socket, address) = open();
        let begin = Instant::now();
        assert!(!Target::called(address).has_ended(PATIENCE).await);
        assert!(begin.elapsed() >= PATIENCE, "it is waited for");
        let mut packet = [7; 2];
        assert_eq!(socket.recv(&mut packet).unwrap(), 1);
        assert_eq!(packet[0], 0);
    }

    #[tokio::test]
    async fn a_port_that_answers_proves_nothing() {
        let (socket, address) = open();
        let answering = std::thread::spawn(move || {
            let (_, from) = socket.recv_from(&mut [0; 2]).unwrap();
            socket.send_to(b"here", from).unwrap();
        });
        assert!(!Target::called(address).has_ended(LONG).await);
        answering.join().unwrap();
    }

    #[tokio::test]
    async fn an_address_without_a_way_proves_nothing() {
        // The system refuses to send there, which is no word of another host.
        assert!(!Target::called((Ipv4Addr::BROADCAST, 9).into()).has_ended(LONG).await);
    }

    #[tokio::test]
    async fn a_port_from_which_a_daemon_calls_is_tried_while_it_is_in_use() {
        let (socket, address) = open();
        let target = Target::calling(address, Duration::ZERO);
        let end = Instant::now() + LONG;
        while !target.is_telling.load(Ordering::Relaxed) && Instant::now() < end {
            tokio::time::sleep(PATIENCE / 10).await;
        }
        assert!(!target.has_ended(PATIENCE).await);
        drop(socket);
        assert!(target.has_ended(LONG).await);
    }

    #[tokio::test]
    async fn a_port_that_was_refused_while_it_was_in_use_never_tells_anything() {
        // As behind a firewall.
        let (socket, address) = open();
        drop(socket);
        let target = Target::calling(address, Duration::ZERO);
        tokio::time::sleep(PATIENCE * 2).await;
        assert!(!target.has_ended(PATIENCE).await);
    }
}
