//! The virtual machine's certificates: an authority minted by the master at its start, one certificate per daemon.

use pvm_wire::HostIndex;
use pvm_wire::codec::{self, CodecError};
use pvm_wire::slave::Fingerprint;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What cannot be done with certificates.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// One cannot be made.
    #[error("cannot make a certificate")]
    Mint(#[from] rcgen::Error),
    /// One cannot be used.
    #[error("cannot use a certificate")]
    Use(#[from] rustls::Error),
    /// The verifier of clients cannot be made.
    #[error("cannot verify other daemons")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
    /// The suites do not fit QUIC.
    #[error("no cipher suite for QUIC")]
    Suite(#[from] quinn::crypto::rustls::NoInitialCipherSuite),
    /// What an authority was made of cannot be read.
    #[error("no certificate authority")]
    Import(#[from] CodecError),
}

/// What an authority is made of, on its way to a deputy.
#[derive(Serialize, Deserialize)]
struct Exported {
    /// PKCS #8, DER.
    key: Vec<u8>,
    /// DER.
    certificate: Vec<u8>,
}

/// The application protocol: one version of the daemons' own.
const ALPN: &[u8] = b"pvm/1";

/// The authority of one virtual machine. Its key is in the memory of the master and of its deputies, which get it over their authenticated
/// links, and nowhere else. It ends with them.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: Vec<u8>,
}

impl Authority {
    /// A new one.
    pub fn mint() -> Result<Self, TlsError> {
        let (key, params) = (KeyPair::generate()?, authority_params());
        let certificate = params.self_signed(&key)?.der().to_vec();
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    /// Its key and its certificate, secret: all that [`Self::import`] needs.
    pub fn export(&self) -> Result<Vec<u8>, TlsError> {
        let key = self.issuer.key().serialize_der();
        Ok(codec::encode(&Exported { key, certificate: self.certificate.clone() })?)
    }

    /// The authority that was exported. Its certificate is the same, so the daemons that it has certified go on believing it.
    pub fn import(bytes: &[u8]) -> Result<Self, TlsError> {
        let Exported { key, certificate } = codec::decode(bytes)?;
        let key = KeyPair::try_from(&PrivatePkcs8KeyDer::from(key))?;
        let imported = Self { issuer: Issuer::new(authority_params(), key), certificate };
        imported.verify()?;
        Ok(imported)
    }

    /// That the key is the certificate's: else nobody would believe what it certifies.
    fn verify(&self) -> Result<(), TlsError> {
        let issued = self.issue(HostIndex::MASTER)?;
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(issued.authority))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
        verifier.verify_client_cert(&CertificateDer::from(issued.certificate), &[], UnixTime::now())?;
        Ok(())
    }

    /// By which a daemon without a place knows its master.
    pub fn fingerprint(&self) -> Fingerprint {
        fingerprint(&self.certificate)
    }

    /// A certificate, and its key, for the daemon of this host.
    pub fn issue(&self, host: HostIndex) -> Result<Credentials, TlsError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new([host_name(host)])?;
        params.distinguished_name.push(DnType::CommonName, host_name(host));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer)?.der().to_vec();
        Ok(Credentials { authority: self.certificate.clone(), certificate, key: key.serialize_der() })
    }
}

/// What all authorities have in common.
fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "pvm");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

/// What a daemon needs to prove which host of the machine it is, all in DER.
pub struct Credentials {
    /// The authority's certificate.
    pub authority: Vec<u8>,
    /// The daemon's certificate.
    pub certificate: Vec<u8>,
    /// Its key, PKCS #8.
    pub key: Vec<u8>,
}

impl Credentials {
    /// The two sides of a connection: each shows its certificate and wants to see the other's.
    pub fn configs(
        &self,
    ) -> Result<(quinn::crypto::rustls::QuicServerConfig, quinn::crypto::rustls::QuicClientConfig), TlsError>
    {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(self.authority.clone()))?;
        let roots = Arc::new(roots);
        let chain = vec![CertificateDer::from(self.certificate.clone())];
        let key = || PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.key.clone()));
        let verifier =
            WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone()).build()?;
        let mut server = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key())?;
        server.alpn_protocols = vec![ALPN.to_vec()];
        let mut client = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key())?;
        client.alpn_protocols = vec![ALPN.to_vec()];
        Ok((server.try_into()?, client.try_into()?))
    }
}

/// The fingerprint of a certificate in DER.
pub fn fingerprint(certificate: &[u8]) -> Fingerprint {
    let suite = rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
    let hash = suite.tls13().map(|suite| suite.common.hash_provider.hash(certificate));
    let bytes = hash.and_then(|hash| hash.as_ref().try_into().ok());
    // The suite is a TLS 1.3 one, and its hash has 32 bytes, by definition (RFC 8446, appendix B.4).
    Fingerprint(bytes.unwrap_or_default())
}

/// The name in a daemon's certificate. It names the host's place in this machine, not an address.
pub fn host_name(host: HostIndex) -> String {
    format!("h{}.pvm", host.get())
}

/// Whether a peer whose certificate the authority signed is this host.
pub fn is_host(connection: &quinn::Connection, host: HostIndex) -> bool {
    let identity =
        connection.peer_identity().and_then(|any| any.downcast::<Vec<CertificateDer<'static>>>().ok());
    let Some(certificate) = identity.and_then(|chain| chain.into_iter().next()) else { return false };
    names(&certificate, &host_name(host))
}

/// Whether a certificate is for this name. Who has signed it is another question.
pub fn names(certificate: &CertificateDer<'_>, name: &str) -> bool {
    match (webpki::EndEntityCert::try_from(certificate), ServerName::try_from(name)) {
        (Ok(certificate), Ok(name)) => certificate.verify_is_valid_for_subject_name(&name).is_ok(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn host(index: u32) -> HostIndex {
        HostIndex::new(index).unwrap()
    }

    #[test]
    fn an_authority_is_the_same_after_its_way_to_a_deputy() {
        let original = Authority::mint().unwrap();
        let imported = Authority::import(&original.export().unwrap()).unwrap();
        assert_eq!(imported.fingerprint(), original.fingerprint());
        assert_eq!(imported.export().unwrap(), original.export().unwrap());
        let issued = imported.issue(host(3)).unwrap();
        assert_eq!(issued.authority, original.certificate);
        issued.configs().unwrap();
    }

    fn of(key: &Authority, certificate: &Authority) -> Vec<u8> {
        let (key, certificate) = (key.issuer.key().serialize_der(), certificate.certificate.clone());
        codec::encode(&Exported { key, certificate }).unwrap()
    }

    #[test]
    fn what_is_no_authority_is_refused() {
        let (one, other) = (Authority::mint().unwrap(), Authority::mint().unwrap());
        assert!(Authority::import(&of(&one, &one)).is_ok());
        assert!(Authority::import(&of(&one, &other)).is_err(), "another's key");
        let whole = one.export().unwrap();
        for length in 0..whole.len() {
            assert!(Authority::import(&whole[..length]).is_err(), "{length} bytes of it");
        }
        let daemon = one.issue(host(2)).unwrap();
        let exported = Exported { key: daemon.key, certificate: daemon.certificate };
        assert!(Authority::import(&codec::encode(&exported).unwrap()).is_err(), "a daemon is no authority");
    }

    proptest! {
        #[test]
        fn no_bytes_make_an_authority_or_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            key in prop::collection::vec(any::<u8>(), 0..200),
            certificate in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            prop_assert!(Authority::import(&bytes).is_err());
            let parts = codec::encode(&Exported { key, certificate }).unwrap();
            prop_assert!(Authority::import(&parts).is_err());
        }
    }
}
