//! Links to other daemons: QUIC, both ends proved by certificate, one ordered stream each way.

use crate::io::calling::{CROSSED, NewLink, Times, WINDOW, connect, greeting, listen, transport};
use crate::io::clock::Clock;
use crate::io::driver::Input;
use crate::io::endpoints::Endpoints;
use crate::io::fair_queue::FairQueue;
use crate::io::outlet::{Outgoing, Outlet, frame};
use crate::io::probe::{self, Target};
use crate::io::tls::{self, Credentials, TlsError};
use crate::io::udp_socket::longest_packet;
use bytes::{Buf, Bytes, BytesMut};
use pvm_wire::HostIndex;
use pvm_wire::copy::append;
use pvm_wire::daemon::{DaemonMsg, HostEntry};
use pvm_wire::limits::PEER_FRAME_MAX;
use pvm_wire::tuned::{LINK_AHEAD, LINK_EXPECTED_MAX, LINK_FAR_RATE, LINK_PIECES};
use pvmd_core::event::Event;
use quinn::{ClientConfig, Connecting, Connection, ConnectionError, RecvStream, ServerConfig, VarInt};
use std::collections::HashMap;
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle};
use tracing::info;

/// How long a link that is being closed may take to deliver what was sent.
const FLUSH: Duration = Duration::from_secs(1);
/// A link is looked at this often in the time that a host may be silent. Each look wakes an idle daemon.
const LOOKS: u32 = 4;
/// A look may be late by this part of the interval, to share its wake-up with others.
const LATENESS: u32 = 8;
/// The largest factor by which the interval between looks at a link is longer in a large machine.
pub(super) const SLOWEST: u32 = 16;
/// Content of the datagrams that keep an idle link alive. Nobody reads them; the other end acknowledges them.
const SIGN: &[u8] = &[0];
/// By which a connection is closed that is not needed.
const SURPLUS: VarInt = VarInt::from_u32(1);
/// By which a link is closed on which nothing comes.
const SILENT: VarInt = VarInt::from_u32(4);

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
    clock: Clock,
    endpoints: Endpoints,
    client: ClientConfig,
    times: Times,
    open: HashMap<HostIndex, LinkHandle>,
    dials: HashMap<HostIndex, Dial>,
    /// Calls of hosts that have left a link, before this daemon has come to that.
    early: HashMap<HostIndex, NewLink>,
    /// Calls and links so far.
    count: u64,
    input: mpsc::Sender<Input>,
}

/// A call that has no answer yet.
#[derive(Debug)]
struct Dial {
    number: u64,
    task: AbortHandle,
}

#[derive(Debug)]
struct LinkHandle {
    number: u64,
    queue: mpsc::UnboundedSender<Outgoing>,
    outlet: Arc<Outlet>,
    reader: AbortHandle,
    writer: JoinHandle<()>,
    watcher: AbortHandle,
    /// The factor by which the interval between looks at it is longer.
    pace: watch::Sender<u32>,
}

impl LinkHandle {
    /// Reads nothing more, and queues nothing: the writer, which ends when it has written what is queued.
    fn into_writer(self) -> JoinHandle<()> {
        self.reader.abort();
        self.watcher.abort();
        self.writer
    }
}

/// A link has ended or could not be made.
#[derive(Debug)]
pub struct LinkEnd {
    host: HostIndex,
    number: u64,
    reason: String,
    /// Whether it is proved that the other daemon has ended.
    has_ended: bool,
}

impl Links {
    /// A slave opens a UDP socket at this address and lets others link up.
    pub fn open(
        own: HostIndex,
        address: IpAddr,
        credentials: &Credentials,
        times: Times,
        clock: Clock,
        input: mpsc::Sender<Input>,
    ) -> Result<Self, LinkError> {
        let (server, client) = credentials.configs()?;
        let server = ServerConfig::with_crypto(Arc::new(server));
        let client = ClientConfig::new(Arc::new(client));
        // The master dials and is never dialled: it has no port that answers anybody.
        let endpoints = if own == HostIndex::MASTER {
            Endpoints::calling(clock.clone())
        } else {
            let called = Endpoints::called_at(clock.clone(), address, server.clone());
            called.map_err(|source| LinkError::Socket { address, source })?
        };
        if let Some(endpoint) = endpoints.called() {
            tokio::spawn(listen(endpoint.clone(), server, times, input.clone()));
        }
        let (open, dials, early) = (HashMap::new(), HashMap::new(), HashMap::new());
        Ok(Self { own, clock, endpoints, client, times, open, dials, early, count: 0, input })
    }

    /// How often packets of other daemons have come ([`Endpoints::arrivals`]).
    pub fn arrivals(&self) -> usize {
        self.endpoints.arrivals()
    }

    /// Where others reach this daemon; 0 if they do not.
    pub fn port(&self) -> io::Result<u16> {
        self.endpoints.called().map_or(Ok(0), |endpoint| Ok(endpoint.local_addr()?.port()))
    }

    /// Makes a link; [`Input::Link`] or [`Input::LinkEnded`] follows.
    pub fn dial(&mut self, entry: &HostEntry) {
        let host = entry.index;
        self.count += 1;
        let (own, number, times, input) = (self.own, self.count, self.times, self.input.clone());
        let called = self.call(entry);
        let dial = tokio::spawn(async move {
            let attempt = tokio::time::timeout(times.patience, connect(called, own, host, number)).await;
            let in_vain = |_| Err(format!("no answer within {}", times.patience_text()));
            let said = match attempt.unwrap_or_else(in_vain) {
                Ok(link) => Input::Link(link),
                Err(reason) => Input::LinkEnded(LinkEnd { host, number, reason, has_ended: false }),
            };
            let _ = input.send(said).await;
        });
        self.dials.insert(host, Dial { number, task: dial.abort_handle() });
    }

    /// Begins a link; it is made when that is awaited.
    fn call(&mut self, entry: &HostEntry) -> Result<Connecting, String> {
        let address = entry.address.ok_or("it has no address")?;
        let mut client = self.client.clone();
        client.transport_config(transport(self.times, longest_packet(address)));
        let endpoint = self.endpoints.to_call(address).map_err(|error| format!("no UDP socket: {error}"))?;
        let called = endpoint.connect_with(client, address, &tls::host_name(entry.index));
        called.map_err(|error| error.to_string())
    }

    /// Takes a new link in, and says what the core is to hear.
    pub fn take(&mut self, link: NewLink) -> Option<Event> {
        let host = link.host;
        let dial = self.dials.get(&host).map(|dial| dial.number);
        if link.dial.is_some() && link.dial != dial {
            link.refuse(SURPLUS, "given up");
            return None;
        }
        if self.open.contains_key(&host) {
            // The other end has left the link that there is.
            if let Some(older) = self.early.insert(host, link) {
                older.refuse(SURPLUS, "linked already");
            }
            return None;
        }
        if link.dial.is_none() && dial.is_some() && host < self.own {
            link.refuse(CROSSED, "called already");
            return None;
        }
        self.give_up_dial(host);
        self.count += 1;
        let address = link.connection.remote_address();
        let target = match link.dial {
            Some(_) => Target::called(address),
            None => Target::calling(address, link.connection.rtt()),
        };
        let handle = self.start(link, target);
        self.open.insert(host, handle);
        Some(Event::PeerLinked { host })
    }

    fn give_up_dial(&mut self, host: HostIndex) {
        if let Some(dial) = self.dials.remove(&host) {
            dial.task.abort();
        }
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

    /// Sets the factor by which the interval between looks at a link is longer.
    pub fn watch(&self, host: HostIndex, pace: u32) {
        if let Some(link) = self.open.get(&host) {
            let pace = pace.clamp(1, SLOWEST);
            link.pace.send_if_modified(|old| mem::replace(old, pace) != pace);
        }
    }

    /// A link has ended, or could not be made: what the core is to hear, unless it has given that link up.
    pub fn ended(&mut self, LinkEnd { host, number, reason, has_ended }: LinkEnd) -> Option<Event> {
        if self.dials.get(&host).is_some_and(|dial| dial.number == number) {
            self.dials.remove(&host);
            return Some(Event::LinkFailed { host, reason });
        }
        self.open.get(&host).filter(|link| link.number == number)?;
        self.close(host);
        Some(Event::PeerLost { host, reason, has_ended })
    }

    /// Closes a link after what was sent, or gives up making it. A call that has waited for that is taken after it.
    pub fn close(&mut self, host: HostIndex) {
        self.give_up_dial(host);
        let Some(link) = self.open.remove(&host) else { return };
        drop(link.into_writer());
        if let Some(next) = self.early.remove(&host) {
            let input = self.input.clone();
            tokio::spawn(async move { input.send(Input::Link(next)).await });
        }
    }

    /// Whether there are links.
    pub fn are_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Closes all links, and waits at most a second for each until what was sent has arrived.
    pub async fn finish_all(&mut self) {
        // Without their queues all writers end, at the same time.
        let writers: Vec<_> = self.open.drain().map(|(_, link)| link.into_writer()).collect();
        for writer in writers {
            let _ = tokio::time::timeout(FLUSH, writer).await;
        }
        self.endpoints.close(FLUSH / 4).await;
    }

    /// Starts what reads, writes and watches a link.
    fn start(&self, link: NewLink, target: Target) -> LinkHandle {
        let NewLink { host, dial, connection, send, recv } = link;
        let (own, number, times, input) = (self.own, self.count, self.times, &self.input);
        connection.set_send_window(ahead(connection.rtt()));
        let (queue, queued) = mpsc::unbounded_channel();
        let outlet = Arc::new(Outlet::new(send));
        if dial.is_none() {
            // The answer goes before all else.
            outlet.behind.fetch_add(1, Ordering::Release);
            let answer = [Bytes::copy_from_slice(&greeting(own)), Bytes::new()];
            let _ = queue.send(Outgoing::Rest(answer, 0));
        }
        let (pace, paced) = watch::channel(1);
        let watch = Watch {
            connection: connection.clone(),
            host,
            speaks_first: own < host,
            target,
            is_taken: Arc::new(AtomicBool::new(dial.is_some())),
            spoke_after: None,
            has_ended: Arc::default(),
            pace: paced,
            input: input.clone(),
        };
        let (has_ended, is_taken) = (watch.has_ended.clone(), watch.is_taken.clone());
        let watcher = tokio::spawn(watch.run(self.clock.clone(), times)).abort_handle();
        let writer = tokio::spawn(write(connection, outlet.clone(), host, queued, input.clone()));
        let input = input.clone();
        let reader = tokio::spawn(async move {
            let reason = read_all(recv, host, times, &is_taken, &input).await;
            let has_ended = has_ended.load(Ordering::Relaxed);
            let reason = if has_ended { "its daemon has ended".to_owned() } else { reason };
            info!(%host, reason, "link ended");
            let _ = input.send(Input::LinkEnded(LinkEnd { host, number, reason, has_ended })).await;
        });
        LinkHandle { number, queue, outlet, reader: reader.abort_handle(), writer, watcher, pace }
    }
}

/// Keeps a link alive, and closes it when its other end has said nothing for too long or is proved to have ended.
struct Watch {
    connection: Connection,
    host: HostIndex,
    /// Whether this end sends the datagrams that keep the link alive while it is idle.
    speaks_first: bool,
    target: Target,
    /// Whether the other end is known to have taken the link. Until then it may take as long as links may take to be made: its computer
    /// is busy with many of them, and QUIC repeats what was lost after multiples of the round trip that it has seen, which was as slow.
    is_taken: Arc<AtomicBool>,
    /// Acknowledgements that had come when this end sent its first datagram.
    spoke_after: Option<u64>,
    /// Whether that is proved.
    has_ended: Arc<AtomicBool>,
    pace: watch::Receiver<u32>,
    input: mpsc::Sender<Input>,
}

impl Watch {
    /// Looks until nothing has come for that long.
    ///
    /// Looks are counted, not the time between them: a daemon that did not have the processor finds at its next look what has come
    /// meanwhile, and does not take its own absence for the other's.
    async fn run(mut self, clock: Clock, Times { silence, patience }: Times) {
        let (mut heard, mut silent, mut looked) = (0, 0, Instant::now());
        let made = looked;
        while silent + 1 < LOOKS || !self.is_taken() && made.elapsed() < patience {
            let period = silence / LOOKS * *self.pace.borrow_and_update();
            tokio::select! {
                () = clock.sleep_until(looked + period, period / LATENESS) => looked = Instant::now(),
                Ok(()) = self.pace.changed() => {
                    (heard, silent, looked) = (self.heard(), 0, Instant::now());
                    self.speak();
                    continue;
                }
            }
            let now = self.heard();
            silent = if now == heard { silent + 1 } else { 0 };
            heard = now;
            // The other end gets a datagram between every other two looks, and sends one only when none has come.
            if silent == if self.speaks_first { 1 } else { 2 } {
                self.speak();
            }
            if silent > 1 {
                // Until the next look, as packets of QUIC may use up a refusal. The last answer comes before the other could have given up
                // this daemon, if it was that daemon that did not hear.
                let patience = if silent + 1 < LOOKS { period } else { period * 3 / 4 };
                let has_ended = self.proves_end(probe::PATIENCE.min(patience)).await;
                if self.heard() != heard {
                    (heard, silent) = (self.heard(), 0);
                } else if has_ended {
                    self.has_ended.store(true, Ordering::Relaxed);
                    break;
                }
            }
            if silent == 2 {
                let _ = self.input.send(Event::PeerSilent { host: self.host }.into()).await;
            }
        }
        self.connection.close(SILENT, b"silent");
    }

    /// Sends a datagram that the other end acknowledges. If that fails, the link is silent, and lost soon.
    fn speak(&mut self) {
        self.spoke_after.get_or_insert_with(|| self.connection.stats().frame_rx.acks);
        let _ = self.connection.send_datagram(Bytes::from_static(SIGN));
    }

    /// Whether the other end has taken the link: it has sent a message or a datagram on it, or acknowledged one.
    fn is_taken(&self) -> bool {
        let frames = self.connection.stats().frame_rx;
        let is_acknowledged = self.spoke_after.is_some_and(|acks| frames.acks > acks);
        if frames.datagram > 0 || is_acknowledged {
            self.is_taken.store(true, Ordering::Relaxed);
        }
        self.is_taken.load(Ordering::Relaxed)
    }

    /// Frames of authentic packets: no other host can make a link seem alive.
    fn heard(&self) -> u64 {
        let frames = self.connection.stats().frame_rx;
        frames.acks + frames.ping + frames.stream + frames.datagram
    }

    /// Whether the other end is proved to have ended. Nothing is known of another port of its than that of the beginning.
    async fn proves_end(&self, patience: Duration) -> bool {
        self.connection.remote_address() == self.target.address() && self.target.has_ended(patience).await
    }
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

/// Reads frames until the link ends; gives the reason.
async fn read_all(
    mut recv: RecvStream,
    host: HostIndex,
    times: Times,
    is_taken: &AtomicBool,
    input: &mpsc::Sender<Input>,
) -> String {
    let mut buffer = BytesMut::new();
    let mut pieces = [const { Bytes::new() }; LINK_PIECES];
    loop {
        match next_frame(&mut buffer) {
            Err(reason) => return reason,
            Ok(Some(message)) => {
                is_taken.store(true, Ordering::Relaxed);
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
            // By the watcher.
            Err(quinn::ReadError::ConnectionLost(ConnectionError::LocallyClosed)) => {
                return format!("it has been silent for {}", times.silence_text());
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
