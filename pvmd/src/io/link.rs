//! Links to other daemons: QUIC, both ends proved by certificate, one ordered stream each way.

use crate::io::driver::Input;
use crate::io::endpoints::Endpoints;
use crate::io::fair_queue::FairQueue;
use crate::io::outlet::{Outgoing, Outlet, frame};
use crate::io::tls::{self, Credentials, TlsError};
use crate::io::udp_socket::{PACKET_USUAL, longest_packet};
use bytes::{Buf, Bytes, BytesMut};
use pvm_wire::HostIndex;
use pvm_wire::copy::append;
use pvm_wire::daemon::{DaemonMsg, HostEntry};
use pvm_wire::limits::PEER_FRAME_MAX;
use pvm_wire::tuned::{
    LINK_ACK_DELAY, LINK_AHEAD, LINK_EXPECTED_MAX, LINK_FAR_RATE, LINK_FIRST_WINDOW, LINK_PIECES,
    LINK_UNACKNOWLEDGED,
};
use pvmd_core::event::Event;
use quinn::congestion::CubicConfig;
use quinn::{
    AckFrequencyConfig, ClientConfig, Connecting, Connection, ConnectionError, Endpoint, IdleTimeout,
    MtuDiscoveryConfig, RecvStream, SendStream, ServerConfig, TransportConfig, VarInt,
};
use std::collections::HashMap;
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};
use tracing::{info, warn};

/// What both ends say first: the protocol's version and who they are.
const GREETING: usize = 8;
/// Bytes that a daemon takes in from a link ahead of what it has read.
const WINDOW: u32 = 8 * 1024 * 1024;
/// Bytes that may come before they are acknowledged.
const UNACKNOWLEDGED: u32 = LINK_UNACKNOWLEDGED * PACKET_USUAL as u32;
/// How long a link that is being closed may take to deliver what was sent.
const FLUSH: Duration = Duration::from_secs(1);
/// Links that may be in the making at the same time, at a stranger's will.
const HANDSHAKES_MAX: usize = 256;

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// Certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The UDP socket.
    #[error("cannot open the UDP socket at {address}")]
    Socket {
        /// Where.
        address: IpAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// All links of this daemon.
#[derive(Debug)]
pub struct Links {
    own: HostIndex,
    endpoints: Endpoints,
    client: ClientConfig,
    timeout: Duration,
    open: HashMap<HostIndex, LinkHandle>,
    dials: HashMap<HostIndex, AbortHandle>,
    input: mpsc::Sender<Input>,
}

#[derive(Debug)]
struct LinkHandle {
    queue: mpsc::UnboundedSender<Outgoing>,
    outlet: Arc<Outlet>,
    reader: AbortHandle,
    writer: JoinHandle<()>,
}

/// A link that stands, on its way to the driver.
#[derive(Debug)]
pub struct NewLink {
    host: HostIndex,
    connection: Connection,
    send: SendStream,
    recv: RecvStream,
}

impl Links {
    /// A slave opens a UDP socket at this address and lets others link up.
    pub fn open(
        own: HostIndex,
        address: IpAddr,
        credentials: &Credentials,
        timeout: Duration,
        input: mpsc::Sender<Input>,
    ) -> Result<Self, LinkError> {
        let (server, client) = credentials.configs()?;
        let server = ServerConfig::with_crypto(Arc::new(server));
        let client = ClientConfig::new(Arc::new(client));
        // The master dials and is never dialled: it has no port that answers anybody.
        let endpoints = if own == HostIndex::MASTER {
            Endpoints::default()
        } else {
            let called = Endpoints::called_at(address, server.clone());
            called.map_err(|source| LinkError::Socket { address, source })?
        };
        if let Some(endpoint) = endpoints.called() {
            tokio::spawn(listen(endpoint.clone(), server, own, timeout, input.clone()));
        }
        let (open, dials) = (HashMap::new(), HashMap::new());
        Ok(Self { own, endpoints, client, timeout, open, dials, input })
    }

    /// How often packets of other daemons have come ([`Endpoints::arrivals`]).
    pub fn arrivals(&self) -> usize {
        self.endpoints.arrivals()
    }

    /// Where others reach this daemon; 0 if they do not.
    pub fn port(&self) -> io::Result<u16> {
        self.endpoints.called().map_or(Ok(0), |endpoint| Ok(endpoint.local_addr()?.port()))
    }

    /// Makes a link; [`Input::Link`] or [`Event::LinkFailed`] follows.
    pub fn dial(&mut self, entry: &HostEntry) {
        let host = entry.index;
        let (own, timeout, input) = (self.own, self.timeout, self.input.clone());
        let called = self.call(entry);
        let dial = tokio::spawn(async move {
            // Lost packets and a busy host deserve some patience, but never more than the caller's.
            let attempt = tokio::time::timeout(timeout * 3, connect(called, own, host)).await;
            let result = attempt.unwrap_or_else(|_| Err("no answer in time".to_owned()));
            let said = match result {
                Ok(link) => Input::Link(link),
                Err(reason) => Event::LinkFailed { host, reason }.into(),
            };
            let _ = input.send(said).await;
        });
        self.dials.insert(host, dial.abort_handle());
    }

    /// Begins a link; it is made when that is awaited.
    fn call(&mut self, entry: &HostEntry) -> Result<Connecting, String> {
        let address = entry.address.ok_or("it has no address")?;
        let mut client = self.client.clone();
        client.transport_config(transport(self.timeout, longest_packet(address)));
        let endpoint = self.endpoints.to_call(address).map_err(|error| format!("no UDP socket: {error}"))?;
        let called = endpoint.connect_with(client, address, &tls::host_name(entry.index));
        called.map_err(|error| error.to_string())
    }

    /// Takes a new link in, and says what the core is to hear. A second link to the same host is refused: the first one is
    /// in use.
    pub fn take(&mut self, link: NewLink) -> Option<Event> {
        let NewLink { host, connection, send, recv } = link;
        self.dials.remove(&host);
        if self.open.contains_key(&host) {
            warn!(%host, "a second link to the same host: refused");
            connection.close(VarInt::from_u32(1), b"linked already");
            return None;
        }
        connection.set_send_window(ahead(connection.rtt()));
        let (queue, queued) = mpsc::unbounded_channel();
        let outlet = Arc::new(Outlet::new(send));
        let writer = tokio::spawn(write(connection, outlet.clone(), host, queued, self.input.clone()));
        let reader = tokio::spawn(read(recv, host, self.input.clone())).abort_handle();
        self.open.insert(host, LinkHandle { queue, outlet, reader, writer });
        Some(Event::PeerLinked { host })
    }

    /// Sends a message, at once if that is wanted, nothing is queued and there is room; else it is queued. What has gone at once
    /// is to be said to the core. The queue is bounded by the core, which stops those who fill it.
    pub fn send(&self, host: HostIndex, message: DaemonMsg, at_once: bool) -> Option<Event> {
        let link = self.open.get(&host)?;
        let bytes = message.data().len();
        let rest =
            if at_once { link.outlet.send_now(host, message) } else { Some(Outgoing::Message(message)) };
        if let Some(rest) = rest {
            link.outlet.behind.fetch_add(1, Ordering::Release);
            // A writer that is gone leaves the report of the loss to the reader.
            let _ = link.queue.send(rest);
            return None;
        }
        (bytes > 0).then_some(Event::PeerDrained { host, bytes })
    }

    /// A link is broken: forgotten, if it is still ours.
    pub fn lost(&mut self, host: HostIndex) -> bool {
        self.open.remove(&host).inspect(|link| link.reader.abort()).is_some()
    }

    /// Closes a link after what was sent, or gives up making it.
    pub fn close(&mut self, host: HostIndex) {
        if let Some(dial) = self.dials.remove(&host) {
            dial.abort();
        }
        if let Some(link) = self.open.remove(&host) {
            link.reader.abort();
        }
    }

    /// Whether there are links.
    pub fn are_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Closes all links and waits, not for long, until what was sent has arrived.
    pub async fn finish_all(&mut self) {
        let writers: Vec<_> = self.open.drain().map(|(_, link)| (link.reader, link.writer)).collect();
        for (reader, writer) in writers {
            reader.abort();
            let _ = tokio::time::timeout(FLUSH, writer).await;
        }
        self.endpoints.close(FLUSH / 4).await;
    }
}

/// How a link works whose packets may be so long.
fn transport(timeout: Duration, packet: u16) -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(IdleTimeout::try_from(timeout).ok());
    transport.keep_alive_interval(Some(timeout / 6));
    transport.max_concurrent_bidi_streams(VarInt::from_u32(1));
    transport.max_concurrent_uni_streams(VarInt::from_u32(0));
    transport.stream_receive_window(VarInt::from_u32(WINDOW));
    transport.receive_window(VarInt::from_u32(WINDOW));
    transport.send_window(LINK_AHEAD);
    let mut acks = AckFrequencyConfig::default();
    let unacknowledged = UNACKNOWLEDGED / u32::from(packet.max(PACKET_USUAL));
    acks.ack_eliciting_threshold(VarInt::from_u32(unacknowledged)).max_ack_delay(Some(LINK_ACK_DELAY));
    transport.ack_frequency_config(Some(acks));
    let mut congestion = CubicConfig::default();
    congestion.initial_window(LINK_FIRST_WINDOW);
    transport.congestion_controller_factory(Arc::new(congestion));
    let mut lengths = MtuDiscoveryConfig::default();
    lengths.upper_bound(packet);
    transport.mtu_discovery_config(Some(lengths));
    Arc::new(transport)
}

/// How much is handed to a link of this round trip, measured while it was made and idle.
fn ahead(round_trip: Duration) -> u64 {
    ((round_trip.as_secs_f64() * LINK_FAR_RATE as f64) as u64).clamp(LINK_AHEAD, u64::from(WINDOW))
}

/// The address on which a daemon with this host address waits: its own if it is a loopback address, else any.
pub fn bind_address(address: IpAddr) -> IpAddr {
    match address {
        _ if address.is_loopback() => address,
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

async fn listen(
    endpoint: Endpoint,
    server: ServerConfig,
    own: HostIndex,
    timeout: Duration,
    input: mpsc::Sender<Input>,
) {
    let places = Arc::new(tokio::sync::Semaphore::new(HANDSHAKES_MAX));
    while let Some(incoming) = endpoint.accept().await {
        let Ok(place) = places.clone().try_acquire_owned() else {
            // Without an answer: whoever has sent so many is no host of this machine.
            incoming.ignore();
            continue;
        };
        let (from, input) = (incoming.remote_address(), input.clone());
        let mut server = server.clone();
        server.transport_config(transport(timeout, longest_packet(from)));
        let accepted = incoming.accept_with(Arc::new(server));
        tokio::spawn(async move {
            match tokio::time::timeout(timeout * 3, welcome(accepted, own)).await {
                Ok(Ok(link)) => drop(input.send(Input::Link(link)).await),
                Ok(Err(reason)) => warn!(%from, reason, "connection refused"),
                Err(_) => warn!(%from, "connection given up: no greeting in time"),
            }
            drop(place);
        });
    }
}

async fn connect(
    called: Result<Connecting, String>,
    own: HostIndex,
    host: HostIndex,
) -> Result<NewLink, String> {
    let called = called?;
    let address = called.remote_address();
    let connection = called.await.map_err(|error| format!("{address}: {error}"))?;
    let (mut send, mut recv) = connection.open_bi().await.map_err(|error| error.to_string())?;
    send.write_all(&greeting(own)).await.map_err(|error| error.to_string())?;
    let said = read_greeting(&mut recv).await.map_err(|error| close_reason(&connection).unwrap_or(error))?;
    if said == host {
        Ok(NewLink { host, connection, send, recv })
    } else {
        Err(format!("it says that it is host {said}"))
    }
}

/// What the other said when it closed the connection.
fn close_reason(connection: &Connection) -> Option<String> {
    let ConnectionError::ApplicationClosed(close) = connection.close_reason()? else { return None };
    let words = String::from_utf8_lossy(&close.reason);
    (!words.is_empty()).then(|| format!("it refuses, saying {words:?}"))
}

async fn welcome(accepted: Result<Connecting, ConnectionError>, own: HostIndex) -> Result<NewLink, String> {
    let connection = accepted.map_err(|error| error.to_string())?.await.map_err(|error| error.to_string())?;
    let (mut send, mut recv) = connection.accept_bi().await.map_err(|error| error.to_string())?;
    let host = match named(&connection, &mut recv).await {
        Ok(host) => host,
        Err(reason) => {
            // Whoever called has a log, too.
            connection.close(VarInt::from_u32(2), reason.as_bytes());
            return Err(reason);
        }
    };
    send.write_all(&greeting(own)).await.map_err(|error| error.to_string())?;
    Ok(NewLink { host, connection, send, recv })
}

/// Who has called, and can prove it.
async fn named(connection: &Connection, recv: &mut RecvStream) -> Result<HostIndex, String> {
    let host = read_greeting(recv).await?;
    if tls::is_host(connection, host) {
        Ok(host)
    } else {
        Err(format!("it says that it is host {host}, its certificate does not"))
    }
}

fn greeting(own: HostIndex) -> [u8; GREETING] {
    let mut bytes = [0; GREETING];
    bytes[..4].copy_from_slice(&pvm_wire::codes::DAEMON_PROTOCOL.to_be_bytes());
    bytes[4..].copy_from_slice(&own.get().to_be_bytes());
    bytes
}

async fn read_greeting(recv: &mut RecvStream) -> Result<HostIndex, String> {
    let mut bytes = [0; GREETING];
    recv.read_exact(&mut bytes).await.map_err(|error| error.to_string())?;
    let [version, index] = [0, 4].map(|at| u32::from_be_bytes([0, 1, 2, 3].map(|i| bytes[at + i])));
    if version != pvm_wire::codes::DAEMON_PROTOCOL {
        return Err(format!(
            "it speaks protocol {version}, this daemon {}",
            pvm_wire::codes::DAEMON_PROTOCOL
        ));
    }
    HostIndex::new(index).ok_or_else(|| format!("there is no host {index}"))
}

async fn write(
    connection: Connection,
    outlet: Arc<Outlet>,
    host: HostIndex,
    mut queue: mpsc::UnboundedReceiver<Outgoing>,
    input: mpsc::Sender<Input>,
) {
    let mut waiting = FairQueue::default();
    while let Some(next) = next(&mut waiting, &mut queue).await {
        let (mut frame, bytes) = match next {
            Outgoing::Message(message) => (frame(host, &message), message.data().len()),
            Outgoing::Rest(rest, bytes) => (rest, bytes),
        };
        // The reader reports the loss.
        if outlet.stream.lock().await.write_all_chunks(&mut frame).await.is_err() {
            return;
        }
        outlet.behind.fetch_sub(1, Ordering::Release);
        if bytes > 0 && input.send(Event::PeerDrained { host, bytes }.into()).await.is_err() {
            return;
        }
    }
    let mut stream = outlet.stream.lock().await;
    let _ = stream.finish();
    let _ = tokio::time::timeout(FLUSH, stream.stopped()).await;
    connection.close(VarInt::from_u32(0), b"");
}

/// What is next of all that has come by now. The rest of a message is queued only when nothing else is.
async fn next(waiting: &mut FairQueue, queue: &mut mpsc::UnboundedReceiver<Outgoing>) -> Option<Outgoing> {
    while let Ok(next) = queue.try_recv() {
        match next {
            Outgoing::Message(message) => waiting.push(message),
            Outgoing::Rest(..) => return Some(next),
        }
    }
    match waiting.pop() {
        Some(message) => Some(Outgoing::Message(message)),
        None => queue.recv().await,
    }
}

async fn read(recv: RecvStream, host: HostIndex, input: mpsc::Sender<Input>) {
    let reason = read_all(recv, host, &input).await;
    info!(%host, reason, "link ended");
    let _ = input.send(Event::PeerLost { host, reason }.into()).await;
}

/// Reads frames until the link ends; gives the reason.
async fn read_all(mut recv: RecvStream, host: HostIndex, input: &mpsc::Sender<Input>) -> String {
    let mut buffer = BytesMut::new();
    let mut pieces = [const { Bytes::new() }; LINK_PIECES];
    loop {
        match next_frame(&mut buffer) {
            Err(reason) => return reason,
            Ok(Some(message)) => {
                if input.send(Event::PeerMessage { host, message }.into()).await.is_err() {
                    return "this daemon ends".to_owned();
                }
                continue;
            }
            Ok(None) => {}
        }
        match recv.read_chunks(&mut pieces).await {
            Ok(Some(count)) => gather(&mut buffer, &mut pieces[..count]),
            Ok(None) => return "it closed the link".to_owned(),
            Err(quinn::ReadError::ConnectionLost(ConnectionError::TimedOut)) => {
                return "it has been silent for too long".to_owned();
            }
            Err(error) => return error.to_string(),
        }
    }
}

fn gather(buffer: &mut BytesMut, pieces: &mut [Bytes]) {
    buffer.reserve(pieces.iter().map(Bytes::len).sum());
    for piece in pieces {
        append(&mem::take(piece), buffer);
    }
}

fn next_frame(buffer: &mut BytesMut) -> Result<Option<DaemonMsg>, String> {
    let Some(length) = buffer.first_chunk().map(|bytes| u32::from_be_bytes(*bytes) as usize) else {
        return Ok(None);
    };
    if length > PEER_FRAME_MAX {
        return Err(format!("a frame of {length} bytes"));
    }
    let missing = (4 + length).saturating_sub(buffer.len());
    if missing > 0 {
        buffer.reserve(missing.min(LINK_EXPECTED_MAX));
        return Ok(None);
    }
    buffer.advance(4);
    let frame = buffer.split_to(length).freeze();
    DaemonMsg::decode_frame(&frame).map(Some).map_err(|error| format!("a frame that does not parse: {error}"))
}

#[cfg(test)]
#[path = "link_stranger_tests.rs"]
mod stranger_tests;
#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
