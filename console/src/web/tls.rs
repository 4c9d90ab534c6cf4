//! The certificate by which a viewer on another computer knows the server.
//!
//! The machine's own authority is in the memory of its master and deputies only, and no browser believes it: the certificate is signed
//! by itself, and its fingerprint is printed for comparison.

use anyhow::{Context, Result};
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::ServerConfig;
use rustls::SupportedCipherSuite;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::fmt::Write as _;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// A new certificate for these names and addresses: what accepts connections with it, and its SHA-256 fingerprint.
pub fn acceptor(names: Vec<String>) -> Result<(TlsAcceptor, String)> {
    let key = KeyPair::generate().context("cannot make a key")?;
    let mut params = CertificateParams::new(names).context("cannot make a certificate")?;
    params.distinguished_name.push(DnType::CommonName, "pvm web");
    let certificate = params.self_signed(&key).context("cannot make a certificate")?.der().to_vec();
    let fingerprint = fingerprint(&certificate).context("no SHA-256")?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| {
            let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
            config.with_no_client_auth().with_single_cert(vec![CertificateDer::from(certificate)], key)
        })
        .context("cannot use a certificate")?;
    Ok((TlsAcceptor::from(Arc::new(config)), fingerprint))
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
    fn each_server_has_a_certificate_of_its_own() {
        let [(_, one), (_, other)] =
            [(); 2].map(|()| acceptor(vec!["node1".to_owned(), "10.0.0.1".to_owned()]).unwrap());
        assert_ne!(one, other);
    }
}
