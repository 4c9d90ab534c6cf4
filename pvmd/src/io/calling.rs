//! How links come about: one daemon calls, the other is called, and each proves which host it is.
//!
//! Of two daemons that call each other at the same time, the one with the higher index makes the link: it refuses the other's call,
//! and the other waits for its own to be called. A daemon that is called answers when its driver has taken the link, so both ends
//! agree on which connection that is.

use crate::io::driver::Input;
use crate::io::link::SLOWEST;
use crate::io::tls;
use crate::io::udp_socket::{PACKET_USUAL, longest_packet};
use pvm_wire::HostIndex;
use pvm_wire::tuned::{LINK_ACK_DELAY, LINK_AHEAD, LINK_FIRST_WINDOW, LINK_UNACKNOWLEDGED};
use quinn::congestion::CubicConfig;
use quinn::{
    AckFrequencyConfig, Connecting, Connection, ConnectionError, Endpoint, IdleTimeout, MtuDiscoveryConfig,
    RecvStream, SendStream, ServerConfig, TransportConfig, VarInt,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tracing::warn;

/// Bytes that both ends send first: the protocol's version and their host.
pub(super) const GREETING: usize = 8;
/// Bytes that a daemon takes in from a link ahead of what it has read.
pub(super) const WINDOW: u32 = 8 * 1024 * 1024;
/// Bytes that may come before they are acknowledged.
const UNACKNOWLEDGED: u32 = LINK_UNACKNOWLEDGED * PACKET_USUAL as u32;
/// Bytes of unread datagrams that are kept.
const DATAGRAMS: usize = 256;
/// Links that may be in the making at the same time, at a stranger's will.
const HANDSHAKES_MAX: usize = 256;
/// By which a call is refused that has crossed one of the daemon that refuses it.
pub(super) const CROSSED: VarInt = VarInt::from_u32(3);

/// How long daemons wait for each other.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// A host of which no packet comes for that long is lost (`PVM_HOST_TIMEOUT`).
    pub silence: Duration,
    /// How long the making of a link may take (`PVM_CONNECT_TIMEOUT`).
    pub patience: Duration,
}

impl Times {
    /// The patience, and where it is set.
    pub(super) fn patience_text(self) -> String {
        format!("{} s (PVM_CONNECT_TIMEOUT)", self.patience.as_secs_f64())
    }

    /// The silence, and where it is set.
    pub(super) fn silence_text(self) -> String {
        format!("{} s (PVM_HOST_TIMEOUT)", self.silence.as_secs_f64())
    }
}

/// A link on its way to the driver.
#[derive(Debug)]
pub struct NewLink {
    pub(super) host: HostIndex,
    /// The number of this daemon's own call; `None` if the other has called, and has no answer yet.
    pub(super) dial: Option<u64>,
    pub(super) connection: Connection,
    pub(super) send: SendStream,
    pub(super) recv: RecvStream,
}

impl NewLink {
    /// Ends it without having used it.
    pub(super) fn refuse(&self, code: VarInt, reason: &str) {
        self.connection.close(code, reason.as_bytes());
    }
}

/// How a link works whose packets may be that long.
pub(super) fn transport(times: Times, packet: u16) -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    // Later than the link's own limits: QUIC has one limit for handshakes, of which a busy host is slow, and for silence.
    let longest = times.patience.max(times.silence * SLOWEST);
    transport.max_idle_timeout(IdleTimeout::try_from(longest * 2).ok());
    // Nobody reads the datagrams that keep a link alive.
    transport.datagram_receive_buffer_size(Some(DATAGRAMS));
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

/// Accepts calls, and passes those on whose callers have proved their identity.
pub(super) async fn listen(
    endpoint: Endpoint,
    server: ServerConfig,
    times: Times,
    input: mpsc::Sender<Input>,
) {
    let places = Arc::new(tokio::sync::Semaphore::new(HANDSHAKES_MAX));
    while let Some(incoming) = endpoint.accept().await {
        let Ok(place) = places.clone().try_acquire_owned() else {
            // Without an answer: no host of this machine calls that often.
            incoming.ignore();
            continue;
        };
        let (from, input) = (incoming.remote_address(), input.clone());
        let mut server = server.clone();
        server.transport_config(transport(times, longest_packet(from)));
        let accepted = incoming.accept_with(Arc::new(server));
        tokio::spawn(async move {
            match tokio::time::timeout(times.patience, welcome(accepted)).await {
                Ok(Ok(link)) => drop(input.send(Input::Link(link)).await),
                Ok(Err(reason)) => warn!(%from, reason, "connection refused"),
                Err(_) => warn!(%from, "connection given up: no greeting within {}", times.patience_text()),
            }
            drop(place);
        });
    }
}

/// Calls another daemon; the link stands when that is answered.
pub(super) async fn connect(
    called: Result<Connecting, String>,
    own: HostIndex,
    host: HostIndex,
    number: u64,
) -> Result<NewLink, String> {
    let called = called?;
    let address = called.remote_address();
    let connection = called.await.map_err(|error| format!("{address}: {error}"))?;
    let (mut send, mut recv) = connection.open_bi().await.map_err(|error| error.to_string())?;
    send.write_all(&greeting(own)).await.map_err(|error| error.to_string())?;
    let said = match read_greeting(&mut recv).await {
        Ok(said) => said,
        // Its own call is on the way, and that is the one that counts.
        Err(_) if is_crossed(&connection) => return std::future::pending().await,
        Err(error) => return Err(close_reason(&connection).unwrap_or(error)),
    };
    if said == host {
        Ok(NewLink { host, dial: Some(number), connection, send, recv })
    } else {
        Err(format!("it says that it is host {said}"))
    }
}

/// Whether the other has refused a call because it calls, too.
fn is_crossed(connection: &Connection) -> bool {
    let closed = connection.close_reason();
    matches!(closed, Some(ConnectionError::ApplicationClosed(close)) if close.error_code == CROSSED)
}

/// What the other said when it closed the connection.
pub(super) fn close_reason(connection: &Connection) -> Option<String> {
    let ConnectionError::ApplicationClosed(close) = connection.close_reason()? else { return None };
    let words = String::from_utf8_lossy(&close.reason);
    (!words.is_empty()).then(|| format!("it refuses, saying {words:?}"))
}

async fn welcome(accepted: Result<Connecting, ConnectionError>) -> Result<NewLink, String> {
    let connection = accepted.map_err(|error| error.to_string())?.await.map_err(|error| error.to_string())?;
    let (send, mut recv) = connection.accept_bi().await.map_err(|error| error.to_string())?;
    let host = match named(&connection, &mut recv).await {
        Ok(host) => host,
        Err(reason) => {
            // The caller has a log, too.
            connection.close(VarInt::from_u32(2), reason.as_bytes());
            return Err(reason);
        }
    };
    Ok(NewLink { host, dial: None, connection, send, recv })
}

/// The host that has called, if its certificate proves that.
async fn named(connection: &Connection, recv: &mut RecvStream) -> Result<HostIndex, String> {
    let host = read_greeting(recv).await?;
    if tls::is_host(connection, host) {
        Ok(host)
    } else {
        Err(format!("it says that it is host {host}, its certificate does not"))
    }
}

/// What a daemon says first.
pub(super) fn greeting(own: HostIndex) -> [u8; GREETING] {
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
