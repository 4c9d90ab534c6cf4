//! The certificate by which a viewer on another computer knows the server.
//!
//! The machine's authority signs it. Only the public key of the page goes to the master; its private key stays in the memory of this
//! process.

use crate::timeline::Target;
use anyhow::{Context, Result};
use pem::{EncodeConfig, LineEnding, Pem};
use pvm_wire::certificate::check_name;
use pvm3::{Certified, Task};
use rcgen::{KeyPair, PublicKeyData as _};
use rustls::ServerConfig;
use rustls::SupportedCipherSuite;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::IpAddr;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// What accepts connections, and by what viewers know it.
pub struct Identity {
    /// Accepts connections.
    pub acceptor: TlsAcceptor,
    /// SHA-256 of the page's certificate.
    pub fingerprint: String,
    /// SHA-256 of the authority's certificate.
    pub authority: String,
}

/// Has the machine's authority sign a certificate for these names and addresses. Writes the authority's certificate to a file if it is
/// wanted.
pub fn identity(task: &mut Task, names: &[String], file: Option<Target>) -> Result<Identity> {
    let key = KeyPair::generate().context("cannot make a key")?;
    let certified = task
        .certify(names, &key.subject_public_key_info())
        .context("no certificate for the page (without --listen it needs none)")?;
    if let Some(file) = file {
        write_authority(file, &certified.authority)?;
    }
    Ok(Identity {
        fingerprint: fingerprint(&certified.certificate).context("no SHA-256")?,
        authority: fingerprint(&certified.authority).context("no SHA-256")?,
        acceptor: acceptor(certified, &key).context("cannot use the certificate")?,
    })
}

/// The names of a page on this address: the host's, if a certificate can have it, those that stand behind a tunnel, and further ones.
pub fn names(host: String, address: IpAddr, more: &[String]) -> Vec<String> {
    let address = if address.is_unspecified() { "127.0.0.1".to_owned() } else { address.to_string() };
    let own = [host, "localhost".to_owned(), address].into_iter().filter(|name| check_name(name).is_ok());
    let mut names: Vec<String> = Vec::new();
    for name in own.chain(more.iter().cloned()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn acceptor(certified: Certified, key: &KeyPair) -> Result<TlsAcceptor, rustls::Error> {
    let chain = [certified.certificate, certified.authority].map(CertificateDer::from).to_vec();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// As programs and browsers read it.
fn write_authority(file: Target, certificate: &[u8]) -> Result<()> {
    let pem = Pem::new("CERTIFICATE", certificate);
    let text = pem::encode_config(&pem, EncodeConfig::new().set_line_ending(LineEnding::LF));
    let path = file.path().display().to_string();
    file.write(|mut file| file.write_all(text.as_bytes())).with_context(|| format!("cannot write {path}"))
}

/// SHA-256, as browsers show it.
fn fingerprint(certificate: &[u8]) -> Option<String> {
    let SupportedCipherSuite::Tls13(suite) = ring::cipher_suite::TLS13_AES_128_GCM_SHA256 else {
        return None;
    };
    let mut text = String::new();
    for byte in suite.common.hash_provider.hash(certificate).as_ref() {
        let separator = if text.is_empty() { "" } else { ":" };
        let _ = write!(text, "{separator}{byte:02X}");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_sha_256() {
        let text = fingerprint(b"abc").unwrap();
        assert!(text.starts_with("BA:78:16:BF:") && text.ends_with(":15:AD"), "{text}");
        assert_eq!(text.len(), 32 * 3 - 1);
    }

    #[test]
    fn names_of_a_page_are_those_that_a_certificate_can_have() {
        let of = |host: &str, address: &str, more: &[&str]| {
            let more: Vec<String> = more.iter().map(|&name| name.to_owned()).collect();
            names(host.to_owned(), address.parse().unwrap(), &more)
        };
        assert_eq!(of("node1", "10.0.0.1", &[]), ["node1", "localhost", "10.0.0.1"]);
        assert_eq!(of("(none)", "0.0.0.0", &[]), ["localhost", "127.0.0.1"]);
        assert_eq!(
            of("localhost", "::", &["a.example", "a.example"]),
            ["localhost", "127.0.0.1", "a.example"]
        );
        // What a person asks for is not left out: the master refuses it.
        assert_eq!(of("node1", "fe80::1", &["h1.pvm"]), ["node1", "localhost", "fe80::1", "h1.pvm"]);
    }

    #[test]
    fn the_authority_is_written_as_pem() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("authority.pem");
        let key = KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(Vec::new()).unwrap().self_signed(&key).unwrap();
        write_authority(Target::open(&path).unwrap(), certificate.der()).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, certificate.pem().replace("\r\n", "\n"));
        assert!(
            text.starts_with("-----BEGIN CERTIFICATE-----\n")
                && text.ends_with("-----END CERTIFICATE-----\n")
        );
    }
}
