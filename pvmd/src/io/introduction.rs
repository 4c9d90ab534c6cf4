//! How a daemon that somebody else has started (a hoster) gets its place in a virtual machine, without a secret passing
//! through anybody's hands.
//!
//! The hoster sees the command line and the daemon's answer. The command line has the fingerprint of the machine's
//! authority, the answer that of a certificate which the new daemon has made for itself. The master then connects; each
//! side shows a certificate that the other knows by fingerprint; the master hands over the configuration, with the
//! certificate and the key that are the daemon's from then on.

use crate::io::endpoints;
use crate::io::tls::{self, Authority, TlsError, fingerprint, host_name};
use pvm_wire::HostIndex;
use pvm_wire::codes::DAEMON_PROTOCOL;
use pvm_wire::limits::SLAVE_CONFIG_MAX;
use pvm_wire::slave::{Fingerprint, HostedLine, ReadyLine, SlaveConfig};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{Connection, Endpoint, Incoming, RecvStream, SendStream, VarInt};
use rcgen::{CertificateParams, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tracing::warn;

/// The protocol of an introduction, so that it is taken for no other.
const ALPN: &[u8] = b"pvm-introduction/1";
/// How long one connection may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Callers that are listened to at a time.
const CALLERS_MAX: usize = 256;
/// Longest answer of a daemon, bytes.
const ANSWER_MAX: usize = 4096;

/// Why there was none.
#[derive(Debug, thiserror::Error)]
pub enum IntroductionError {
    /// Certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The socket.
    #[error("no UDP socket")]
    Socket(#[from] std::io::Error),
    /// Nobody came, or nobody answered.
    #[error("{0}")]
    Failed(String),
}

fn failed(error: impl std::fmt::Display) -> IntroductionError {
    IntroductionError::Failed(error.to_string())
}

/// A new daemon that waits for its master.
pub struct NewDaemon {
    endpoint: Endpoint,
    fingerprint: Fingerprint,
}

/// A master that waits for the answer of the daemon it has brought a place to.
pub struct Introduced {
    send: SendStream,
    connection: Connection,
    endpoint: Endpoint,
}

impl NewDaemon {
    /// Waits on a port of its own for the master of the machine with this authority.
    pub fn open(authority: Fingerprint) -> Result<Self, IntroductionError> {
        let key = KeyPair::generate().map_err(TlsError::from)?;
        let params = CertificateParams::new([NEW_DAEMON.to_owned()]).map_err(TlsError::from)?;
        let certificate = params.self_signed(&key).map_err(TlsError::from)?.der().clone();
        let fingerprint = fingerprint(&certificate);
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = Arc::new(MasterOf { authority, provider: provider.clone() });
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .and_then(|builder| {
                builder.with_client_cert_verifier(verifier).with_single_cert(vec![certificate], key)
            })
            .map_err(TlsError::from)?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        let config = QuicServerConfig::try_from(config).map_err(TlsError::from)?;
        let config = quinn::ServerConfig::with_crypto(Arc::new(config));
        let endpoint = endpoints::called_at(Ipv4Addr::UNSPECIFIED.into(), config)?;
        Ok(Self { endpoint, fingerprint })
    }

    /// What the hoster is to pass on to the master.
    pub fn line(&self) -> Result<HostedLine, IntroductionError> {
        let port = self.endpoint.local_addr()?.port();
        Ok(HostedLine { protocol: DAEMON_PROTOCOL, port, fingerprint: self.fingerprint })
    }

    /// Waits for the master. Others are turned away, and do not keep it waiting.
    pub async fn wait(self, limit: Duration) -> Result<(SlaveConfig, Introduced), IntroductionError> {
        let waited = tokio::time::timeout(limit, first_master(&self.endpoint)).await;
        let introduction = waited.unwrap_or_else(|_| Err(failed("the master has not come")));
        let (config, send, connection) = introduction?;
        Ok((config, Introduced { send, connection, endpoint: self.endpoint }))
    }
}

/// What a master brings, and the way back.
type Introduction = (SlaveConfig, SendStream, Connection);

/// Listens to several callers at a time, until one is the master.
async fn first_master(endpoint: &Endpoint) -> Result<Introduction, IntroductionError> {
    let mut callers = JoinSet::new();
    loop {
        tokio::select! {
            Some(incoming) = endpoint.accept(), if callers.len() < CALLERS_MAX => {
                callers.spawn(async move {
                    let from = incoming.remote_address();
                    (from, tokio::time::timeout(CALL_TIMEOUT, receive(incoming)).await)
                });
            }
            Some(Ok((from, received))) = callers.join_next() => match received {
                Ok(Ok(introduction)) => return Ok(introduction),
                Ok(Err(error)) => warn!(%from, %error, "turned away"),
                Err(_) => warn!(%from, "turned away: it says nothing"),
            },
            else => return Err(failed("the socket is closed")),
        }
    }
}

impl Introduced {
    /// Tells the master where the daemon now waits for links.
    pub async fn answer(mut self, ready: &ReadyLine) -> Result<(), IntroductionError> {
        self.send.write_all(ready.to_string().as_bytes()).await.map_err(failed)?;
        self.send.finish().map_err(failed)?;
        let _ = tokio::time::timeout(CALL_TIMEOUT, self.connection.closed()).await;
        self.endpoint.close(VarInt::from_u32(0), b"");
        Ok(())
    }
}

async fn receive(incoming: Incoming) -> Result<Introduction, IntroductionError> {
    let connection = incoming.await.map_err(failed)?;
    let (send, mut recv) = connection.accept_bi().await.map_err(failed)?;
    let line = read_line(&mut recv, 2 * SLAVE_CONFIG_MAX).await?;
    let config = SlaveConfig::from_line(&line).map_err(failed)?;
    Ok((config, send, connection))
}

/// Master: brings a daemon its place, and hears where it waits for links.
pub async fn introduce(
    authority: &Authority,
    address: SocketAddr,
    daemon: Fingerprint,
    config: &SlaveConfig,
) -> Result<ReadyLine, IntroductionError> {
    let crypto = visitor(authority, daemon)?;
    let endpoint = endpoints::to_call(address)?;
    let client = quinn::ClientConfig::new(Arc::new(crypto));
    let connection =
        endpoint.connect_with(client, address, NEW_DAEMON).map_err(failed)?.await.map_err(failed)?;
    let (mut send, mut recv) = connection.open_bi().await.map_err(failed)?;
    let line = config.to_line().map_err(failed)?;
    send.write_all(line.as_bytes()).await.map_err(failed)?;
    send.finish().map_err(failed)?;
    let answer = read_line(&mut recv, ANSWER_MAX).await?;
    connection.close(VarInt::from_u32(0), b"");
    endpoint.wait_idle().await;
    ReadyLine::parse(answer.trim_end()).ok_or_else(|| failed(format!("it answers {answer:?}")))
}

async fn read_line(recv: &mut RecvStream, most: usize) -> Result<String, IntroductionError> {
    let bytes = recv.read_to_end(most).await.map_err(failed)?;
    String::from_utf8(bytes).map_err(failed)
}

/// The name in a new daemon's own certificate; it is known by its fingerprint, not by its name.
const NEW_DAEMON: &str = "new-daemon.pvm";

/// The master's side of the connection: it shows its certificate and the authority's, and wants to see just the one.
fn visitor(authority: &Authority, daemon: Fingerprint) -> Result<QuicClientConfig, TlsError> {
    let own = authority.issue(HostIndex::MASTER)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = vec![CertificateDer::from(own.certificate), CertificateDer::from(own.authority)];
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(own.key));
    let verifier = Arc::new(TheOne { fingerprint: daemon, provider: provider.clone() });
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_auth_cert(chain, key)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config.try_into()?)
}

/// What both verifiers do about signatures: what rustls does, and QUIC has no TLS 1.2.
macro_rules! tls13_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::General("QUIC has no TLS 1.2".into()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13_signature(
                message,
                certificate,
                signature,
                &self.provider.signature_verification_algorithms,
            )
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.provider.signature_verification_algorithms.supported_schemes()
        }
    };
}

/// Accepts the master of the machine whose authority has this fingerprint.
#[derive(Debug)]
struct MasterOf {
    authority: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for MasterOf {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let authority = intermediates.iter().find(|certificate| fingerprint(certificate) == self.authority);
        let authority =
            authority.ok_or_else(|| Error::General("not of the virtual machine it is meant for".into()))?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone().into_owned())?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), self.provider.clone())
            .build()
            .map_err(|error| Error::General(error.to_string()))?;
        let verified = verifier.verify_client_cert(end_entity, &[], now)?;
        if tls::names(end_entity, &host_name(HostIndex::MASTER)) {
            Ok(verified)
        } else {
            Err(Error::General("not the master".into()))
        }
    }

    tls13_signatures!();
}

/// Accepts the certificate with this fingerprint and no other.
#[derive(Debug)]
struct TheOne {
    fingerprint: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for TheOne {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if fingerprint(end_entity) == self.fingerprint {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::General("not the daemon that was started".into()))
        }
    }

    tls13_signatures!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvm_wire::encoding::DataSignature;

    fn config() -> SlaveConfig {
        SlaveConfig {
            protocol: DAEMON_PROTOCOL,
            index: HostIndex::new(2).unwrap(),
            master: HostIndex::MASTER,
            name: "node".into(),
            authority: vec![1],
            certificate: vec![2],
            key: vec![3],
            address: Ipv4Addr::LOCALHOST.into(),
            vmid: None,
            exec_path: None,
            working_directory: None,
            debugger: None,
            speed: None,
            debug_mask: 0,
            host_timeout_seconds: 3.0,
            connect_timeout_seconds: 30.0,
            policy: "round-robin".into(),
            slice_milliseconds: None,
            slots: None,
            owner: pvm_wire::owner::Ownership::default(),
            private_network: false,
            watched_max: 256,
            takes_silent: false,
            means: None,
            has_rows: false,
        }
    }

    fn ready() -> ReadyLine {
        let (arch, signature) = ("LINUX64".into(), DataSignature::NATIVE);
        ReadyLine { protocol: DAEMON_PROTOCOL, arch, port: 7, signature, capability: 1.0, task_limit: 9 }
    }

    fn address(new_daemon: &NewDaemon) -> SocketAddr {
        SocketAddr::new(Ipv4Addr::LOCALHOST.into(), new_daemon.line().unwrap().port)
    }

    const SOON: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn a_daemon_gets_its_place_from_its_master() {
        let authority = Authority::mint().unwrap();
        let new_daemon = NewDaemon::open(authority.fingerprint()).unwrap();
        let (address, fingerprint) = (address(&new_daemon), new_daemon.line().unwrap().fingerprint);
        let daemon = tokio::spawn(async move {
            let (config, introduced) = new_daemon.wait(SOON).await.unwrap();
            introduced.answer(&ready()).await.unwrap();
            config
        });
        assert_eq!(introduce(&authority, address, fingerprint, &config()).await.unwrap(), ready());
        assert_eq!(daemon.await.unwrap(), config());
    }

    /// A caller that begins and never goes on, since it hears no answer.
    async fn silent_caller(to: SocketAddr) -> Endpoint {
        let way = tokio::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (authority, address) = (Authority::mint().unwrap(), way.local_addr().unwrap());
        let client = quinn::ClientConfig::new(Arc::new(visitor(&authority, Fingerprint([7; 32])).unwrap()));
        let endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let called = endpoint.connect_with(client, address, NEW_DAEMON).unwrap();
        tokio::spawn(called);
        let mut packet = vec![0; 2000];
        let length = way.recv(&mut packet).await.unwrap();
        way.send_to(&packet[..length], to).await.unwrap();
        endpoint
    }

    #[tokio::test]
    async fn callers_that_say_nothing_do_not_keep_the_master_waiting() {
        let authority = Authority::mint().unwrap();
        let new_daemon = NewDaemon::open(authority.fingerprint()).unwrap();
        let (address, fingerprint) = (address(&new_daemon), new_daemon.line().unwrap().fingerprint);
        // One after the other they would take longer than the daemon waits.
        let mut silent = Vec::new();
        for _ in 0..9 {
            silent.push(silent_caller(address).await);
        }
        let daemon = tokio::spawn(async move {
            let (_, introduced) = new_daemon.wait(CALL_TIMEOUT * 6).await.unwrap();
            introduced.answer(&ready()).await.unwrap();
        });
        assert_eq!(introduce(&authority, address, fingerprint, &config()).await.unwrap(), ready());
        daemon.await.unwrap();
    }

    #[tokio::test]
    async fn the_master_of_another_machine_is_turned_away() {
        let (authority, other) = (Authority::mint().unwrap(), Authority::mint().unwrap());
        let new_daemon = NewDaemon::open(authority.fingerprint()).unwrap();
        let (address, fingerprint) = (address(&new_daemon), new_daemon.line().unwrap().fingerprint);
        let daemon = tokio::spawn(new_daemon.wait(Duration::from_secs(2)));
        assert!(introduce(&other, address, fingerprint, &config()).await.is_err());
        assert!(daemon.await.unwrap().is_err(), "it goes on waiting for its own");
    }

    #[tokio::test]
    async fn a_stranger_in_the_daemons_place_gets_nothing() {
        let authority = Authority::mint().unwrap();
        let stranger = NewDaemon::open(authority.fingerprint()).unwrap();
        let address = address(&stranger);
        let heard = tokio::spawn(stranger.wait(Duration::from_secs(2)));
        assert!(introduce(&authority, address, Fingerprint([7; 32]), &config()).await.is_err());
        assert!(heard.await.unwrap().is_err());
    }
}
