//! Real links over loopback addresses.

use super::*;
use crate::io::calling::close_reason;
use crate::io::polling::yield_once;
use crate::io::tls::Authority;
use crate::io::udp_socket::PACKET_MAX;
use std::net::SocketAddr;
use std::time::Instant;
use tokio::net::UdpSocket;

pub(super) struct End {
    pub(super) links: Links,
    pub(super) events: mpsc::Receiver<Input>,
}

pub(super) fn host(index: u32) -> HostIndex {
    HostIndex::new(index).unwrap()
}

pub(super) fn open(authority: &Authority, own: u32, certificate_of: u32) -> End {
    open_with(TIMES, authority, own, certificate_of)
}

/// As [`open`], with times of its own.
pub(super) fn open_with(times: Times, authority: &Authority, own: u32, certificate_of: u32) -> End {
    let (input, events) = mpsc::channel(100);
    let credentials = authority.issue(host(certificate_of)).unwrap();
    let clock = Clock::start().unwrap();
    let links =
        Links::open(host(own), Ipv4Addr::LOCALHOST.into(), &credentials, times, clock, input).unwrap();
    End { links, events }
}

impl End {
    pub(super) fn entry(&self) -> HostEntry {
        let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), self.links.port().unwrap());
        HostEntry {
            index: self.links.own,
            name: String::new(),
            arch: String::new(),
            speed: 1000,
            capability: 1.0,
            task_limit: 1,
            signature: 0,
            cluster: None,
            address: Some(address),
        }
    }

    pub(super) async fn next(&mut self) -> Event {
        loop {
            let input = tokio::time::timeout(PATIENCE, self.events.recv()).await;
            match input.expect("in time").expect("an event") {
                Input::Event(event) => return event,
                Input::Link(link) => {
                    if let Some(event) = self.links.take(link) {
                        return event;
                    }
                }
                Input::LinkEnded(end) => {
                    if let Some(event) = self.links.ended(end) {
                        return event;
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }

    pub(super) async fn linked(&mut self, to: u32) {
        assert!(matches!(self.next().await, Event::PeerLinked { host: h } if h == host(to)));
    }
}

/// How long daemons wait for each other.
pub(super) const TIMES: Times = Times { silence: Duration::from_secs(3), patience: Duration::from_secs(30) };

/// Time limit of one step, generous for a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

async fn pair() -> (End, End) {
    let authority = Authority::mint().unwrap();
    let (mut master, mut slave) = (open(&authority, 1, 1), open(&authority, 2, 2));
    master.links.dial(&slave.entry());
    tokio::join!(master.linked(2), slave.linked(1));
    (master, slave)
}

#[tokio::test]
async fn messages_arrive_in_order_both_ways() {
    let (mut master, mut slave) = pair().await;
    for serial in 0..1000 {
        master.links.send(host(2), DaemonMsg::HostHeard { number: serial }, serial % 3 < 2);
        slave.links.send(host(1), DaemonMsg::HostHeard { number: serial }, false);
    }
    for end in [&mut master, &mut slave] {
        for expected in 0..1000 {
            let Event::PeerMessage { message: DaemonMsg::HostHeard { number: serial }, .. } =
                end.next().await
            else {
                panic!("a message")
            };
            assert_eq!(serial, expected);
        }
    }
}

/// Who looks for messages and lets others have the processor meanwhile does not do so with a packet in its hands.
#[tokio::test]
async fn a_message_is_heard_of_before_others_have_their_turn() {
    const COUNT: u64 = 100;
    let (master, mut slave) = pair().await;
    // As the daemon's loop does, which is a task among others.
    let looking = tokio::spawn(async move {
        let mut others_first = 0;
        for serial in 0..COUNT {
            master.links.send(host(2), DaemonMsg::HostHeard { number: serial }, true);
            let before = slave.links.arrivals();
            while slave.events.try_recv().is_err() {
                others_first += u64::from(slave.links.arrivals() > before);
                yield_once(&slave.links).await;
            }
        }
        others_first
    });
    let others_first = looking.await.unwrap();
    // What the ends of a link have to say to each other comes, too, and brings no message.
    assert!(others_first < COUNT / 2, "{others_first}");
}

#[tokio::test]
async fn what_was_sent_before_the_end_arrives() {
    let (mut master, mut slave) = pair().await;
    let data = Bytes::from(vec![7; 700_000]);
    let message = DaemonMsg::Data { src: pvm_wire::Tid::ANY, dsts: Vec::new(), flags: 3, data };
    master.links.send(host(2), message.clone(), true);
    master.links.send(host(2), DaemonMsg::Bye, true);
    master.links.finish_all().await;
    assert!(matches!(slave.next().await, Event::PeerMessage { message: said, .. } if said == message));
    assert!(matches!(slave.next().await, Event::PeerMessage { message: DaemonMsg::Bye, .. }));
    assert!(matches!(slave.next().await, Event::PeerLost { .. }));
}

/// A piece of its number's length, which its data repeat.
fn piece(number: usize) -> DaemonMsg {
    let data = Bytes::from(vec![number as u8; 1 + number * 997 % 64_000]);
    DaemonMsg::Data { src: pvm_wire::Tid::ANY, dsts: Vec::new(), flags: 3, data }
}

#[tokio::test]
async fn what_goes_at_once_and_what_waits_arrive_in_order_and_count_once() {
    const COUNT: usize = 300;
    let (mut master, mut slave) = pair().await;
    let (mut at_once, mut drained, mut sent) = (0, 0, 0);
    for number in 0..COUNT {
        let message = piece(number);
        sent += message.data().len();
        if let Some(Event::PeerDrained { bytes, .. }) = master.links.send(host(2), message, number % 4 > 0) {
            at_once += 1;
            drained += bytes;
        }
        if number % 50 < 3 {
            // Some come alone.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    assert!((1..COUNT * 3 / 4).contains(&at_once), "{at_once}: there is room for some");
    let arrival = async {
        for number in 0..COUNT {
            let Event::PeerMessage { message, .. } = slave.next().await else { panic!("a message") };
            assert!(message == piece(number), "message {number}");
        }
    };
    let room = async {
        while drained < sent {
            let Event::PeerDrained { bytes, .. } = master.next().await else { panic!("room") };
            drained += bytes;
        }
    };
    tokio::join!(arrival, room);
    assert_eq!(drained, sent);
}

/// Two ends of a link that nobody has taken yet.
async fn bare_pair() -> (NewLink, NewLink, (End, End)) {
    let authority = Authority::mint().unwrap();
    let (mut caller, mut called) = (open(&authority, 1, 1), open(&authority, 2, 2));
    let calls = connect(caller.links.call(&called.entry()), host(1), host(2), 1);
    let answers = async {
        let Some(Input::Link(mut there)) = called.events.recv().await else { panic!("a call") };
        there.send.write_all(&greeting(host(2))).await.unwrap();
        there
    };
    let (here, there) = tokio::join!(calls, answers);
    let here = here.unwrap();
    (here, there, (caller, called))
}

#[tokio::test]
async fn an_answer_takes_the_acknowledgement_of_many_packets_along() {
    let (mut here, mut there, _ends) = bare_pair().await;
    let (sent, mut received) = (vec![7; 40_000], vec![0; 40_000]);
    let (mut fewest, end) = (u64::MAX, Instant::now() + PATIENCE);
    // The answer alone, if nothing delays it: what else runs here does so now and then.
    while fewest > 1 && Instant::now() < end {
        let before = here.connection.stats().udp_rx.datagrams;
        here.send.write_all(&sent).await.unwrap();
        there.recv.read_exact(&mut received).await.unwrap();
        there.send.write_all(b"answer").await.unwrap();
        here.recv.read_exact(&mut [0; 6]).await.unwrap();
        fewest = fewest.min(here.connection.stats().udp_rx.datagrams - before);
    }
    assert_eq!(fewest, 1);
}

#[tokio::test]
async fn packets_become_as_long_as_the_way_takes_them() {
    let (mut here, mut there, _ends) = bare_pair().await;
    let (sent, mut received) = (vec![7; 40_000], vec![0; 40_000]);
    let end = Instant::now() + PATIENCE;
    let length = |link: &NewLink| link.connection.stats().path.current_mtu;
    while (length(&here), length(&there)) != (PACKET_MAX, PACKET_MAX) {
        assert!(Instant::now() < end, "{} and {} bytes", length(&here), length(&there));
        here.send.write_all(&sent).await.unwrap();
        there.recv.read_exact(&mut received).await.unwrap();
        there.send.write_all(&sent).await.unwrap();
        here.recv.read_exact(&mut received).await.unwrap();
    }
}

#[tokio::test]
async fn a_stranger_is_refused() {
    let mut slave = open(&Authority::mint().unwrap(), 2, 2);
    let mut stranger = open(&Authority::mint().unwrap(), 1, 1);
    stranger.links.dial(&slave.entry());
    assert!(matches!(stranger.next().await, Event::LinkFailed { .. }));
    assert!(slave.events.try_recv().is_err(), "the daemon hears nothing of it");
}

#[tokio::test]
async fn nobody_passes_for_another_host() {
    let authority = Authority::mint().unwrap();
    let mut slave = open(&authority, 2, 2);
    // Host 3's certificate, but it says that it is the master.
    let mut liar = open(&authority, 1, 3);
    liar.links.dial(&slave.entry());
    assert!(matches!(liar.next().await, Event::LinkFailed { .. }));
    assert!(slave.events.try_recv().is_err());
    // And whoever is dialled must be who was meant.
    let mut master = open(&authority, 1, 1);
    let impostor = open(&authority, 3, 3);
    master.links.dial(&HostEntry { index: host(2), ..impostor.entry() });
    assert!(matches!(master.next().await, Event::LinkFailed { .. }));
    slave.links.close(host(1));
}

/// A host of this machine that greets with a version of its own, and what it is told.
async fn greet_with(version: u32, caller: &mut End, called: &End) -> String {
    let connection = caller.links.call(&called.entry()).unwrap().await.unwrap();
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    let mut bytes = greeting(caller.links.own);
    bytes[..4].copy_from_slice(&version.to_be_bytes());
    send.write_all(&bytes).await.unwrap();
    assert!(recv.read_exact(&mut bytes).await.is_err(), "it is greeted");
    close_reason(&connection).expect("a reason")
}

#[tokio::test]
async fn another_version_is_refused_and_both_are_named() {
    let authority = Authority::mint().unwrap();
    let (mut older, mut slave) = (open(&authority, 1, 1), open(&authority, 2, 2));
    let ours = pvm_wire::codes::DAEMON_PROTOCOL;
    let told = greet_with(ours - 1, &mut older, &slave).await;
    assert!(told.contains(&format!("it speaks protocol {}, this daemon {ours}", ours - 1)), "{told}");
    assert!(slave.events.try_recv().is_err(), "the daemon hears nothing of it");
}

#[tokio::test]
async fn random_bytes_on_the_port_change_nothing() {
    let authority = Authority::mint().unwrap();
    let (mut master, mut slave) = (open(&authority, 1, 1), open(&authority, 2, 2));
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let target = slave.entry().address.unwrap();
    let mut state = 88_172_645_463_325_252_u64;
    for length in 0..1400 {
        let mut junk = vec![0; length];
        for byte in &mut junk {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = state as u8;
        }
        socket.send_to(&junk, target).await.unwrap();
    }
    master.links.dial(&slave.entry());
    tokio::join!(master.linked(2), slave.linked(1));
}

#[tokio::test]
async fn silence_is_noticed() {
    let (mut master, slave) = pair().await;
    // The other end stops answering: its socket is there, nobody reads it.
    let End { links, events } = slave;
    let endpoint = links.endpoints.called().unwrap();
    endpoint.rebind(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
    drop(events);
    let silent = master.next().await;
    assert!(matches!(silent, Event::PeerSilent { host: h } if h == host(2)), "{silent:?}");
    let lost = master.next().await;
    let Event::PeerLost { reason, .. } = lost else { panic!("{lost:?}") };
    assert_eq!(reason, "it has been silent for 3 s (PVM_HOST_TIMEOUT)");
}

#[tokio::test]
async fn a_link_that_is_looked_at_less_often_is_lost_later_and_at_once_when_it_is_looked_at_closely() {
    let authority = Authority::mint().unwrap();
    let times = Times { silence: Duration::from_millis(400), ..TIMES };
    let (mut master, mut slave) = (open_with(times, &authority, 1, 1), open_with(times, &authority, 2, 2));
    master.links.dial(&slave.entry());
    tokio::join!(master.linked(2), slave.linked(1));
    for end in [(&master, 2), (&slave, 1)] {
        end.0.links.watch(host(end.1), SLOWEST);
    }
    tokio::time::sleep(times.silence).await;
    let endpoint = slave.links.endpoints.called().unwrap();
    endpoint.rebind(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
    tokio::time::sleep(times.silence * 4).await;
    assert!(master.events.try_recv().is_err(), "the next look is after {:?}", times.silence / 4 * SLOWEST);
    master.links.watch(host(2), 1);
    let begin = Instant::now();
    let lost = loop {
        match master.next().await {
            Event::PeerSilent { .. } => {}
            other => break other,
        }
    };
    assert!(matches!(lost, Event::PeerLost { .. }), "{lost:?}");
    assert!(begin.elapsed() < times.silence * SLOWEST / 2, "{:?}", begin.elapsed());
}

/// A daemon in a thread and a runtime of its own, which can end as if it were killed.
struct Doomed {
    entry: HostEntry,
    /// Whom it is to call; closed when it is to end.
    calls: mpsc::UnboundedSender<HostEntry>,
    thread: std::thread::JoinHandle<()>,
}

impl Doomed {
    fn start(open: impl FnOnce() -> End + Send + 'static) -> Self {
        let (calls, mut called) = mpsc::unbounded_channel::<HostEntry>();
        let (entry, opened) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let end = runtime.block_on(async {
                let mut end = open();
                entry.send(end.entry()).unwrap();
                loop {
                    tokio::select! {
                        call = called.recv() => match call {
                            Some(entry) => end.links.dial(&entry),
                            None => return end,
                        },
                        Some(input) = end.events.recv() => if let Input::Link(link) = input {
                            end.links.take(link);
                        },
                    }
                }
            });
            // The tasks that could close the connection in order are dropped before its socket.
            drop(runtime);
            drop(end);
        });
        Self { entry: opened.recv().unwrap(), calls, thread }
    }

    fn kill(self) {
        drop(self.calls);
        self.thread.join().unwrap();
    }
}

/// Silence is noticed after six seconds at the earliest.
const LONG_SILENCE: Times = Times { silence: Duration::from_secs(8), patience: Duration::from_secs(30) };

async fn expect_proof(end: &mut End, of: u32) {
    let begin = Instant::now();
    let lost = end.next().await;
    let Event::PeerLost { host: dead, reason, has_ended } = lost else { panic!("{lost:?}") };
    assert_eq!((dead, &*reason, has_ended), (host(of), "its daemon has ended", true));
    assert!(begin.elapsed() < LONG_SILENCE.silence * 7 / 8, "{:?}", begin.elapsed());
}

#[tokio::test]
async fn the_end_of_a_daemon_that_was_called_is_noticed_before_its_silence() {
    let authority = Authority::mint().unwrap();
    let mut master = open_with(LONG_SILENCE, &authority, 1, 1);
    let slave = Doomed::start(move || open_with(LONG_SILENCE, &authority, 2, 2));
    master.links.dial(&slave.entry);
    master.linked(2).await;
    slave.kill();
    expect_proof(&mut master, 2).await;
}

#[tokio::test]
async fn the_end_of_a_daemon_that_has_called_is_noticed_before_its_silence() {
    let authority = Authority::mint().unwrap();
    let mut slave = open_with(LONG_SILENCE, &authority, 2, 2);
    let master = Doomed::start(move || open_with(LONG_SILENCE, &authority, 1, 1));
    master.calls.send(slave.entry()).unwrap();
    slave.linked(1).await;
    // Its port is tried meanwhile.
    tokio::time::sleep(probe::PATIENCE * 2).await;
    master.kill();
    expect_proof(&mut slave, 1).await;
}

#[tokio::test]
async fn nothing_is_proved_of_daemons_that_live() {
    let times = Times { silence: Duration::from_secs(1), ..TIMES };
    let authority = Authority::mint().unwrap();
    let (mut master, mut slave) = (open_with(times, &authority, 1, 1), open_with(times, &authority, 2, 2));
    master.links.dial(&slave.entry());
    tokio::join!(master.linked(2), slave.linked(1));
    // Many looks, some of them in vain; the links are idle.
    for _ in 0..4 {
        tokio::time::sleep(times.silence).await;
    }
    assert!(master.events.try_recv().is_err() && slave.events.try_recv().is_err());
}

#[tokio::test]
async fn hosts_that_a_deputy_certifies_are_linked_with_those_of_its_master() {
    let original = Authority::mint().unwrap();
    let imported = Authority::import(&original.export().unwrap()).unwrap();
    for (calling, called) in [(&original, &imported), (&imported, &original)] {
        let (mut lower, mut higher) = (open(calling, 2, 2), open(called, 3, 3));
        lower.links.dial(&higher.entry());
        tokio::join!(lower.linked(3), higher.linked(2));
    }
}

#[tokio::test]
async fn two_that_call_each_other_have_one_link() {
    let authority = Authority::mint().unwrap();
    for round in 0..20 {
        let (mut lower, mut higher) = (open(&authority, 2, 2), open(&authority, 3, 3));
        let (to_lower, to_higher) = (lower.entry(), higher.entry());
        lower.links.dial(&to_higher);
        // At the same time, or while the first call is under way.
        tokio::time::sleep(Duration::from_micros(round % 5 * 700)).await;
        higher.links.dial(&to_lower);
        tokio::join!(lower.linked(3), higher.linked(2));
        for serial in 0..3 {
            lower.links.send(host(3), DaemonMsg::HostHeard { number: serial }, true);
            higher.links.send(host(2), DaemonMsg::HostHeard { number: serial }, true);
        }
        for end in [&mut lower, &mut higher] {
            for expected in 0..3 {
                let next = end.next().await;
                let Event::PeerMessage { message: DaemonMsg::HostHeard { number: serial }, .. } = next else {
                    panic!("round {round}: {next:?}")
                };
                assert_eq!(serial, expected);
            }
        }
    }
}

#[tokio::test]
async fn a_call_waits_until_the_link_before_is_left() {
    let authority = Authority::mint().unwrap();
    let (mut lower, mut higher) = (open(&authority, 2, 2), open(&authority, 3, 3));
    lower.links.dial(&higher.entry());
    tokio::join!(lower.linked(3), higher.linked(2));
    higher.links.send(host(2), DaemonMsg::LeaveAnswer { agreed: true }, true);
    higher.links.close(host(2));
    higher.links.dial(&lower.entry());
    // The call comes before the lower one has heard the answer, or after; either way the answer is heard first.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let answer = lower.next().await;
    assert!(
        matches!(answer, Event::PeerMessage { message: DaemonMsg::LeaveAnswer { .. }, .. }),
        "{answer:?}"
    );
    lower.links.close(host(3));
    tokio::join!(lower.linked(3), higher.linked(2));
    higher.links.send(host(2), DaemonMsg::Bye, true);
    assert!(matches!(lower.next().await, Event::PeerMessage { message: DaemonMsg::Bye, .. }));
}

/// Passes packets on between a caller and this address, or loses all while the way is cut.
async fn way_to(to: SocketAddr, is_cut: Arc<AtomicBool>) -> SocketAddr {
    let (near, far) =
        (UdpSocket::bind("127.0.0.1:0").await.unwrap(), UdpSocket::bind("127.0.0.1:0").await.unwrap());
    let address = near.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut there, mut back) = (vec![0; 10_000], vec![0; 10_000]);
        let mut caller = None;
        loop {
            let passes = || !is_cut.load(Ordering::Relaxed);
            tokio::select! {
                Ok((length, from)) = near.recv_from(&mut there) => {
                    caller = Some(from);
                    if passes() {
                        far.send_to(&there[..length], to).await.unwrap();
                    }
                }
                Ok((length, _)) = far.recv_from(&mut back) => {
                    if let Some(caller) = caller.filter(|_| passes()) {
                        near.send_to(&back[..length], caller).await.unwrap();
                    }
                }
            }
        }
    });
    address
}

/// As [`way_to`], cut at first for some time.
async fn deaf_at_first(to: SocketAddr, time: Duration) -> SocketAddr {
    let is_cut = Arc::new(AtomicBool::new(true));
    let way = way_to(to, is_cut.clone()).await;
    tokio::spawn(async move {
        tokio::time::sleep(time).await;
        is_cut.store(false, Ordering::Relaxed);
    });
    way
}

/// Its computer may be busy, and what is lost then is repeated late.
#[tokio::test]
async fn a_caller_that_has_not_taken_the_link_may_be_silent_as_long_as_links_may_take_to_be_made() {
    let authority = Authority::mint().unwrap();
    let times = Times { silence: Duration::from_millis(500), patience: Duration::from_secs(30) };
    let (mut master, mut slave) = (open_with(times, &authority, 1, 1), open_with(times, &authority, 2, 2));
    let (entry, is_cut) = (slave.entry(), Arc::new(AtomicBool::new(false)));
    let way = way_to(entry.address.unwrap(), is_cut.clone()).await;
    master.links.dial(&HostEntry { address: Some(way), ..entry });
    let Some(Input::Link(link)) = slave.events.recv().await else { panic!("a call") };
    is_cut.store(true, Ordering::Relaxed);
    assert!(slave.links.take(link).is_some());
    tokio::time::sleep(times.silence * 3).await;
    is_cut.store(false, Ordering::Relaxed);
    master.linked(2).await;
    slave.links.send(host(1), DaemonMsg::Bye, true);
    assert!(matches!(master.next().await, Event::PeerMessage { message: DaemonMsg::Bye, .. }));
}

#[tokio::test]
async fn patience_in_making_a_link_is_not_that_with_a_silent_one() {
    let authority = Authority::mint().unwrap();
    let times = Times { silence: Duration::from_millis(500), patience: Duration::from_secs(30) };
    let (mut master, mut slave) = (open_with(times, &authority, 1, 1), open_with(times, &authority, 2, 2));
    let entry = slave.entry();
    let way = deaf_at_first(entry.address.unwrap(), Duration::from_secs(2)).await;
    master.links.dial(&HostEntry { address: Some(way), ..entry });
    tokio::join!(master.linked(2), slave.linked(1));
}

#[tokio::test]
async fn patience_ends_and_says_where_it_is_set() {
    let authority = Authority::mint().unwrap();
    let times = Times { silence: Duration::from_secs(3), patience: Duration::from_millis(300) };
    let (mut master, slave) = (open_with(times, &authority, 1, 1), open(&authority, 2, 2));
    let entry = slave.entry();
    let way = deaf_at_first(entry.address.unwrap(), Duration::from_secs(3600)).await;
    master.links.dial(&HostEntry { address: Some(way), ..entry });
    let failed = master.next().await;
    let Event::LinkFailed { reason, .. } = failed else { panic!("{failed:?}") };
    assert_eq!(reason, "no answer within 0.3 s (PVM_CONNECT_TIMEOUT)");
}

#[test]
fn frames_that_cannot_be_are_refused() {
    let mut buffer = BytesMut::from(&[0xff, 0xff, 0xff, 0xff, 0][..]);
    assert!(next_frame(&mut buffer).unwrap_err().contains("frame"));
    let mut buffer = BytesMut::from(&[0, 0, 0, 2, 0xee, 0xee][..]);
    assert!(next_frame(&mut buffer).is_err());
    let mut buffer = BytesMut::from(&[0, 0, 0, 9, 1][..]);
    assert!(next_frame(&mut buffer).unwrap().is_none());
}

#[test]
fn far_links_have_more_under_way() {
    assert_eq!(ahead(Duration::from_micros(200)), LINK_AHEAD);
    assert_eq!(ahead(Duration::from_millis(20)), 5_000_000);
    assert_eq!(ahead(Duration::from_secs(9)), u64::from(WINDOW));
}
