//! The UDP socket of the links, with as few calls of the system as can be: it is waited for when it has nothing to read, and
//! only then, and for being writable only when it was not. An event for each packet that has left would wake the daemon twice
//! as often. And how long packets can be, since each costs time.

use crate::io::packet_filter::PacketFilter;
use crate::io::watched::{Watched, watch};
use pvm_wire::tuned::UDP_RECEIVE_BATCH;
use quinn::udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use quinn::{AsyncUdpSocket, UdpPoller};
use rustix::net::sockopt::{ip_mtu, ipv6_mtu, set_ipv6_v6only, set_socket_recv_buffer_size};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use tokio::io::Interest;

/// Bytes of packets that the system is to keep until they are read, while the processor is somebody else's. It gives as many as it
/// is set up for, mostly twice what sockets have that do not ask. What has no place is lost, and slows the link down for long.
const KEPT: usize = 4 * 1024 * 1024;

/// Bytes of the headers of IPv6 and UDP; those of IPv4 are shorter.
const HEADERS: u16 = 48;
/// Bytes of the longest packets of links: what the "jumbo frames" of a local network take, 9000 bytes.
pub const PACKET_MAX: u16 = 9000 - HEADERS;
/// Bytes of the longest packets where nothing else is known: Ethernet's.
pub const PACKET_USUAL: u16 = 1500 - HEADERS;
/// Bytes that the system takes at once to be cut into packets (`UDP_SEGMENT`, udp(7)): as many as a single one could have.
const GSO_MAX: usize = 65_507;

/// Bytes of the longest packets that could get to this address, as far as this host knows. Where others on the way take less, links
/// find that out.
pub fn longest_packet(to: SocketAddr) -> u16 {
    let Ok(mtu) = way_mtu(to) else { return PACKET_USUAL };
    u16::try_from(mtu).unwrap_or(u16::MAX).saturating_sub(HEADERS).min(PACKET_MAX)
}

/// The MTU of the way to an address (`IP_MTU`, ip(7)).
fn way_mtu(to: SocketAddr) -> io::Result<u32> {
    let any = if to.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    // Nothing is sent by that.
    socket.connect(to)?;
    Ok(if to.is_ipv6() { ipv6_mtu(&socket) } else { ip_mtu(&socket) }?)
}

/// What is sent, in batches that the system cuts into packets (GSO), each not longer than one call may take.
fn gso_batches<'t>(transmit: &Transmit<'t>) -> impl Iterator<Item = Transmit<'t>> {
    let packet = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
    let whole = transmit.clone();
    let batches = transmit.contents.chunks((GSO_MAX / packet).max(1) * packet);
    batches.map(move |contents| Transmit { contents, ..whole.clone() })
}

/// A socket for QUIC.
#[derive(Debug)]
pub struct LinkSocket {
    socket: Watched<UdpSocket>,
    state: UdpSocketState,
    filter: PacketFilter,
    /// How often packets have come.
    arrivals: AtomicUsize,
    /// Its last packet did not leave: there was no room.
    full: AtomicBool,
    /// The same socket, to be waited for until there is room.
    again: Arc<UdpSocket>,
    /// While somebody waits.
    waits: Mutex<Weak<Writable>>,
}

type Writable = Watched<Arc<UdpSocket>>;

impl LinkSocket {
    /// Opens one at this address, with what is to be heard there.
    pub fn open(address: SocketAddr, filter: PacketFilter) -> io::Result<Self> {
        let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
        let socket = rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        if address.is_ipv6() {
            // Hosts with IPv4 addresses are reached through it, too. A system that will not have that has none.
            let _ = set_ipv6_v6only(&socket, false);
        }
        let _ = set_socket_recv_buffer_size(&socket, KEPT);
        rustix::net::bind(&socket, &address)?;
        let socket = UdpSocket::from(socket);
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let socket = watch(socket, Interest::READABLE)?;
        let again = Arc::new(socket.get_ref().try_clone()?);
        let (arrivals, full) = (AtomicUsize::new(0), AtomicBool::new(false));
        Ok(Self { socket, state, filter, arrivals, full, again, waits: Mutex::default() })
    }

    /// Packets from there are to be heard.
    pub fn expect(&self, address: SocketAddr) {
        self.filter.expect(address);
    }

    /// How often packets have come. Who sees more of them than before may expect to hear of what they bring.
    pub fn arrivals(&self) -> usize {
        self.arrivals.load(Ordering::Relaxed)
    }

    /// By which all who have to wait for room do so.
    fn writable(&self) -> io::Result<Arc<Writable>> {
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waits) = waits.upgrade() {
            return Ok(waits);
        }
        let made = Arc::new(watch(self.again.clone(), Interest::WRITABLE)?);
        *waits = Arc::downgrade(&made);
        Ok(made)
    }
}

impl AsyncUdpSocket for LinkSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Room { socket: self, waiting: None })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        // If only a part has left it all is sent again, and the packets that come twice are dropped.
        let sent = gso_batches(transmit)
            .try_for_each(|batch| self.state.send(UdpSockRef::from(self.socket.get_ref()), &batch));
        if sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            self.full.store(true, Ordering::Relaxed);
        }
        sent
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let most = buffers.len().min(meta.len()).min(UDP_RECEIVE_BATCH);
        loop {
            let mut readable = ready!(self.socket.poll_read_ready(cx))?;
            let socket = UdpSockRef::from(self.socket.get_ref());
            let received = self.state.recv(socket, &mut buffers[..most], &mut meta[..most]);
            match received {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => readable.clear_ready(),
                Err(error) => return Poll::Ready(Err(error)),
                Ok(count) => {
                    self.arrivals.fetch_add(1, Ordering::Relaxed);
                    for (buffer, meta) in buffers.iter_mut().zip(meta.iter()).take(count) {
                        let length = meta.len.min(buffer.len());
                        self.filter.apply(meta.addr, &mut buffer[..length], meta.stride);
                    }
                    if count < most {
                        // It has been emptied; what comes from now on is an event of its own.
                        readable.clear_ready();
                    }
                    return Poll::Ready(Ok(count));
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.get_ref().local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.state.gro_segments()
    }

    fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }
}

/// Waits for room in the socket, for one connection.
struct Room {
    socket: Arc<LinkSocket>,
    waiting: Option<Waiting>,
}

type Waiting = Pin<Box<dyn Future<Output = io::Result<()>> + Send + Sync>>;

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").field("waits", &self.waiting.is_some()).finish_non_exhaustive()
    }
}

impl UdpPoller for Room {
    fn poll_writable(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.waiting.is_none() && !self.socket.full.load(Ordering::Relaxed) {
            return Poll::Ready(Ok(()));
        }
        let socket = self.socket.clone();
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(wait_for_room(socket)));
        let done = ready!(waiting.as_mut().poll(cx));
        self.waiting = None;
        Poll::Ready(done)
    }
}

async fn wait_for_room(socket: Arc<LinkSocket>) -> io::Result<()> {
    socket.writable()?.writable().await?.retain_ready();
    socket.full.store(false, Ordering::Relaxed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    fn open(address: impl Into<IpAddr>) -> Arc<LinkSocket> {
        Arc::new(LinkSocket::open((address.into(), 0).into(), PacketFilter::calling()).unwrap())
    }

    fn open_two() -> (Arc<LinkSocket>, Arc<LinkSocket>) {
        let (here, there) = (open(Ipv4Addr::LOCALHOST), open(Ipv4Addr::LOCALHOST));
        there.expect(here.local_addr().unwrap());
        (here, there)
    }

    fn send(from: &LinkSocket, to: &LinkSocket, contents: &[u8]) -> io::Result<()> {
        let destination = to.local_addr().unwrap();
        from.try_send(&Transmit { destination, ecn: None, contents, segment_size: None, src_ip: None })
    }

    /// What comes in one call, packet by packet.
    async fn receive(socket: &LinkSocket) -> Vec<Vec<u8>> {
        let mut memory = vec![vec![0; 1 << 16]; 16];
        let mut meta = vec![RecvMeta::default(); 16];
        let mut buffers: Vec<_> = memory.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
        let count = poll_fn(|cx| socket.poll_recv(cx, &mut buffers, &mut meta)).await.unwrap();
        let filled = buffers.iter().zip(meta).take(count);
        filled
            .flat_map(|(buffer, meta)| {
                buffer[..meta.len].chunks(meta.stride).map(<[u8]>::to_vec).collect::<Vec<_>>()
            })
            .collect()
    }

    #[test]
    fn packets_are_as_long_as_the_way_takes_them() {
        assert_eq!(longest_packet((Ipv4Addr::LOCALHOST, 9).into()), PACKET_MAX);
        assert_eq!(longest_packet((Ipv6Addr::LOCALHOST, 9).into()), PACKET_MAX);
        // The system refuses to say: only who asks for leave may send there.
        assert_eq!(longest_packet((Ipv4Addr::BROADCAST, 9).into()), PACKET_USUAL);
    }

    #[tokio::test]
    async fn long_batches_of_long_packets_arrive() {
        let (here, there) = open_two();
        for (packet, count) in
            [(PACKET_MAX, 10), (PACKET_USUAL, 10), (1200, 1), (PACKET_MAX, 7), (PACKET_MAX, 8)]
        {
            let packet = usize::from(packet);
            // The last one is shorter.
            let contents: Vec<u8> = (0..count * packet - 100).map(|n| (n % 251) as u8).collect();
            let destination = there.local_addr().unwrap();
            let transmit = Transmit {
                destination,
                ecn: None,
                contents: &contents,
                segment_size: (count > 1).then_some(packet),
                src_ip: None,
            };
            here.try_send(&transmit).unwrap();
            let mut come = Vec::new();
            while come.len() < count {
                come.extend(receive(&there).await);
            }
            assert_eq!(come.concat(), contents);
            assert!(come[..come.len() - 1].iter().all(|come| come.len() == packet));
        }
    }

    #[tokio::test]
    async fn every_packet_comes_one_by_one_and_in_crowds() {
        let (here, there) = open_two();
        for count in [1, 1, 7, 8, 9, 1, 16, 40, 3] {
            let sent: Vec<Vec<u8>> = (0..count).map(|number| vec![number; 1 + usize::from(number)]).collect();
            for packet in &sent {
                send(&here, &there, packet).unwrap();
            }
            let mut received = Vec::new();
            while received.len() < sent.len() {
                let wait = tokio::time::timeout(std::time::Duration::from_secs(60), receive(&there));
                received.extend(wait.await.expect("all packets come"));
            }
            assert_eq!(received, sent);
        }
    }

    /// One socket has hosts of both kinds of addresses.
    #[tokio::test]
    async fn packets_come_by_ipv6_and_by_ipv4_to_the_same_socket() {
        if UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
            return eprintln!("no IPv6 here: nothing to try");
        }
        let (both, old) = (open(Ipv6Addr::UNSPECIFIED), open(Ipv4Addr::LOCALHOST));
        let port = both.local_addr().unwrap().port();
        let to = |address: IpAddr, contents: &'static [u8]| Transmit {
            destination: (address, port).into(),
            ecn: None,
            contents,
            segment_size: None,
            src_ip: None,
        };
        open(Ipv6Addr::LOCALHOST).try_send(&to(Ipv6Addr::LOCALHOST.into(), b"new")).unwrap();
        assert_eq!(receive(&both).await, [b"new"]);
        old.try_send(&to(Ipv4Addr::LOCALHOST.into(), b"old")).unwrap();
        assert_eq!(receive(&both).await, [b"old"]);
    }

    #[tokio::test]
    async fn a_full_socket_is_waited_for_by_all_who_found_it_full() {
        let (here, there) = open_two();
        let mut pollers = [here.clone().create_io_poller(), here.clone().create_io_poller()];
        for poller in &mut pollers {
            poll_fn(|cx| poller.as_mut().poll_writable(cx)).await.unwrap();
        }
        here.full.store(true, Ordering::Relaxed);
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(pollers[0].as_mut().poll_writable(&mut context).is_pending());
        for poller in &mut pollers {
            poll_fn(|cx| poller.as_mut().poll_writable(cx)).await.unwrap();
        }
        assert!(!here.full.load(Ordering::Relaxed));
        send(&here, &there, b"there is room").unwrap();
        assert_eq!(receive(&there).await, [b"there is room"]);
    }
}
