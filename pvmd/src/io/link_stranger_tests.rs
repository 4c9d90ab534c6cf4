//! What others on the network can try: no certificate, one of another machine, packets that somebody has recorded.

use super::tests::{End, PATIENCE, TIMES, host, open, open_with};
use super::*;
use crate::io::captured_log::CapturedLog;
use crate::io::tls::Authority;
use quinn::Endpoint;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use std::net::SocketAddr;
use std::sync::Mutex;
use tokio::net::UdpSocket;

/// Waits until this has been log.
async fn await_text(log: &CapturedLog, text: &str) {
    assert!(log.has_within(text, PATIENCE).await, "{text} is not logged:\n{}", log.text());
}

/// A message that is told from all others.
fn numbered(serial: u64) -> DaemonMsg {
    DaemonMsg::HostHeard { number: serial }
}

async fn expect_numbers(end: &mut End, numbers: std::ops::Range<u64>) {
    for expected in numbers {
        let event = end.next().await;
        let Event::PeerMessage { message: DaemonMsg::HostHeard { number: serial }, .. } = event else {
            panic!("message {expected}, not {event:?}")
        };
        assert_eq!(serial, expected);
    }
}

/// A caller who can do TLS and knows the authority's certificate, but has none of its own.
fn without_certificate(authority: &Authority) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(authority.issue(host(2)).unwrap().authority)).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut client = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![b"pvm/1".to_vec()];
    ClientConfig::new(Arc::new(quinn::crypto::rustls::QuicClientConfig::try_from(client).unwrap()))
}

#[tokio::test]
async fn a_caller_without_a_certificate_is_refused_with_the_reason() {
    let (log, _guard) = CapturedLog::start();
    let authority = Authority::mint().unwrap();
    let (mut master, mut slave) = (open(&authority, 1, 1), open(&authority, 2, 2));
    let client = without_certificate(&authority);
    let address = slave.entry().address.unwrap();
    let endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let called = endpoint.connect_with(client, address, "h2.pvm").unwrap();
    // It takes the connection for made until it hears what the other thinks of it.
    if let Ok(connection) = called.await {
        let refusal = tokio::time::timeout(PATIENCE, connection.closed()).await.unwrap();
        assert!(refusal.to_string().contains("certificate"), "{refusal}");
    }
    await_text(&log, "connection refused").await;
    assert!(log.text().contains("certificate"), "{}", log.text());
    assert!(slave.events.try_recv().is_err(), "the daemon hears nothing of it");
    master.links.dial(&slave.entry());
    tokio::join!(master.linked(2), slave.linked(1));
}

#[tokio::test]
async fn a_certificate_of_another_machine_is_refused_with_the_reason() {
    let (log, _guard) = CapturedLog::start();
    let (authority, other) = (Authority::mint().unwrap(), Authority::mint().unwrap());
    let (mut master, mut slave) = (open(&authority, 1, 1), open(&authority, 2, 2));
    // Even one that would believe anybody.
    let mut stranger = open(&other, 1, 1);
    stranger.links.client = {
        let mut credentials = other.issue(host(1)).unwrap();
        credentials.authority = authority.issue(host(1)).unwrap().authority;
        ClientConfig::new(Arc::new(credentials.configs().unwrap().1))
    };
    stranger.links.dial(&slave.entry());
    assert!(matches!(stranger.next().await, Event::LinkFailed { .. }));
    await_text(&log, "connection refused").await;
    assert!(slave.events.try_recv().is_err(), "the daemon hears nothing of it");
    master.links.dial(&slave.entry());
    tokio::join!(master.linked(2), slave.linked(1));
}

/// Somebody on the way between two hosts, who passes on what comes and keeps what goes to the called one.
struct OnTheWay {
    address: SocketAddr,
    to: SocketAddr,
    back: Arc<UdpSocket>,
    recorded: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl OnTheWay {
    async fn to(to: SocketAddr) -> Self {
        let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
        let (front, back) = (bind().await.unwrap(), Arc::new(bind().await.unwrap()));
        let recorded = Arc::new(Mutex::new(Vec::new()));
        let relay = Self { address: front.local_addr().unwrap(), to, back: back.clone(), recorded };
        let recorded = relay.recorded.clone();
        tokio::spawn(async move {
            let (mut out, mut home) = (vec![0; 65_536], vec![0; 65_536]);
            let mut caller = None;
            loop {
                tokio::select! {
                    Ok((length, from)) = front.recv_from(&mut out) => {
                        caller = Some(from);
                        recorded.lock().unwrap().push(out[..length].to_vec());
                        let _ = back.send_to(&out[..length], to).await;
                    }
                    Ok((length, _)) = back.recv_from(&mut home) => {
                        if let Some(caller) = caller {
                            let _ = front.send_to(&home[..length], caller).await;
                        }
                    }
                }
            }
        });
        relay
    }

    /// Sends all of it again: from where it came from, and from elsewhere.
    async fn replay(&self) -> usize {
        let packets = self.recorded.lock().unwrap().clone();
        let elsewhere = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        for packet in &packets {
            self.back.send_to(packet, self.to).await.unwrap();
            elsewhere.send_to(packet, self.to).await.unwrap();
        }
        packets.len()
    }
}

#[tokio::test]
async fn packets_that_are_sent_again_do_nothing() {
    let (log, _guard) = CapturedLog::start();
    let authority = Authority::mint().unwrap();
    let times = Times { patience: Duration::from_secs(3), ..TIMES };
    let (mut master, mut slave) = (open(&authority, 1, 1), open_with(times, &authority, 2, 2));
    let way = OnTheWay::to(slave.entry().address.unwrap()).await;
    master.links.dial(&HostEntry { address: Some(way.address), ..slave.entry() });
    tokio::join!(master.linked(2), slave.linked(1));
    let mut serial = 0;
    for round in 0..3 {
        for _ in 0..20 {
            master.links.send(host(2), numbered(serial), true);
            serial += 1;
        }
        expect_numbers(&mut slave, serial - 20..serial).await;
        assert!(way.replay().await > round);
    }
    // While the link stands and when it has ended: nothing comes twice, and nobody is let in by it.
    master.links.finish_all().await;
    let lost = slave.next().await;
    assert!(matches!(lost, Event::PeerLost { .. }), "{lost:?}");
    // A handshake that cannot go on is given up when the patience ends. What comes while the old link is
    // being forgotten has no effect at all.
    let end = Instant::now() + PATIENCE;
    loop {
        way.replay().await;
        if log.has_within("connection given up", times.patience * 2).await {
            break;
        }
        assert!(Instant::now() < end, "{}", log.text());
    }
    assert!(slave.events.try_recv().is_err(), "the daemon hears nothing of it");
    let mut again = open(&authority, 1, 1);
    again.links.dial(&slave.entry());
    tokio::join!(again.linked(2), slave.linked(1));
    again.links.send(host(2), numbered(serial), true);
    expect_numbers(&mut slave, serial..serial + 1).await;
}
