//! The virtual machine's certificates: an authority minted by the master at its start, one certificate per daemon.

use pvm_wire::HostIndex;
use pvm_wire::certificate::Certified;
use pvm_wire::codec::{self, CodecError};
use pvm_wire::slave::Fingerprint;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm, date_time_ymd,
};
use rustls::RootCertStore;
use rustls::crypto::ring::kx_group::SECP256R1;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime, alg_id};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::public_key_to_spki;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

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
    /// A certificate is asked for another kind of key, or for none.
    #[error("not a public key on the curve P-256")]
    Key,
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

/// The subject of servers' certificates: what counts are their names.
const SERVER: &str = "server of a PVM task";
/// Bytes of a point on the curve P-256 that is not compressed.
const POINT: usize = 65;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// For how long before it is signed the certificate of a server is valid: clocks differ.
const BEFORE: Duration = DAY.saturating_mul(30);
/// For how long it is valid afterwards. Some browsers accept none that is valid for more than 825 days in all.
const AFTER: Duration = DAY.saturating_mul(790);
/// The latest time, in seconds since 1970, that a clock is believed: in the year 6140.
const CLOCK_MAX: u64 = 1 << 37;

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

    /// A certificate for a server that a task runs under these names, with its public key (a SubjectPublicKeyInfo, DER). No daemon accepts
    /// it: it is not for clients, and its names are not those of daemons, which the core has made sure of.
    pub fn certify(&self, names: &[String], key: &[u8]) -> Result<Certified, TlsError> {
        let key = PublicKey::read(key)?;
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, SERVER);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let epoch = date_time_ymd(1970, 1, 1);
        let now = UnixTime::now().as_secs().clamp(BEFORE.as_secs(), CLOCK_MAX);
        params.not_before = epoch + Duration::from_secs(now) - BEFORE;
        params.not_after = epoch + Duration::from_secs(now) + AFTER;
        let certificate = params.signed_by(&key, &self.issuer)?.der().to_vec();
        Ok(Certified { certificate, authority: self.certificate.clone() })
    }
}

/// The public key of another process, a point on the curve P-256.
struct PublicKey<'a>(&'a [u8]);

impl<'a> PublicKey<'a> {
    /// Reads a SubjectPublicKeyInfo in DER. There is one encoding of each key, so that it is compared with that of its last bytes.
    fn read(der: &'a [u8]) -> Result<Self, TlsError> {
        let point = der.last_chunk::<POINT>().ok_or(TlsError::Key)?;
        if public_key_to_spki(&alg_id::ECDSA_P256, point).as_ref() != der {
            return Err(TlsError::Key);
        }
        // A key exchange fails with a point that is not on the curve.
        SECP256R1.start()?.complete(point).map_err(|_| TlsError::Key)?;
        Ok(Self(point))
    }
}

impl PublicKeyData for PublicKey<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
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
    use pvm_wire::certificate::check_name;
    use rustls::CertificateError;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier as _;

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

    /// Verifies as a viewer of a page does that knows the authority.
    fn verified(
        certified: &Certified,
        between: &[CertificateDer<'_>],
        name: &str,
    ) -> Result<(), rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(certified.authority.clone())).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let certificate = CertificateDer::from(certified.certificate.clone());
        let name = ServerName::try_from(name).unwrap();
        verifier.verify_server_cert(&certificate, between, &name, &[], UnixTime::now()).map(drop)
    }

    fn is_server(certified: &Certified, name: &str) -> bool {
        verified(certified, &[], name).is_ok()
    }

    fn certified(authority: &Authority, names: &[&str]) -> Certified {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        authority.certify(&names, &KeyPair::generate().unwrap().subject_public_key_info()).unwrap()
    }

    #[test]
    fn the_certificate_of_a_server_is_for_its_names_only() {
        let (authority, other) = (Authority::mint().unwrap(), Authority::mint().unwrap());
        let names = ["node1", "Node1.Example.org", "my_host", "10.0.0.1", "fe80::1"];
        let server = certified(&authority, &names);
        assert!(names.iter().all(|name| check_name(name).is_ok() && is_server(&server, name)));
        for name in ["node2", "example.org", "a.node1", "10.0.0.2", "::1", "h1.pvm", "localhost"] {
            assert!(!is_server(&server, name), "{name}");
        }
        assert!(
            !is_server(&Certified { authority: other.certificate, ..server }, "node1"),
            "another machine"
        );
        let imported = Authority::import(&authority.export().unwrap()).unwrap();
        let later = certified(&imported, &["node1"]);
        assert_eq!(later.authority, authority.certificate);
        assert!(is_server(&Certified { authority: authority.certificate, ..later }, "node1"), "succession");
    }

    #[test]
    fn the_certificate_of_a_server_is_none_of_a_daemon() {
        let authority = Authority::mint().unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(authority.certificate.clone())).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let verify = |certificate: &CertificateDer<'_>| {
            verifier.verify_client_cert(certificate, &[], UnixTime::now()).is_ok()
        };
        let daemon = CertificateDer::from(authority.issue(host(1)).unwrap().certificate);
        assert!(verify(&daemon) && names(&daemon, "h1.pvm"));
        let server = CertificateDer::from(certified(&authority, &["node1"]).certificate);
        assert!(!verify(&server) && !names(&server, "h1.pvm") && names(&server, "node1"));
        // Even if the core let such a name through: not as the client that every daemon has to be.
        let liar = CertificateDer::from(certified(&authority, &["h1.pvm"]).certificate);
        assert!(!verify(&liar));
        // Nor is it an authority itself.
        let key = KeyPair::generate().unwrap();
        let own = authority.certify(&["node1".to_owned()], &key.subject_public_key_info()).unwrap();
        let mut params = authority_params();
        params.distinguished_name.push(DnType::CommonName, SERVER);
        let forger = Authority { issuer: Issuer::new(params, key), certificate: authority.certificate };
        let (forged, between) = (certified(&forger, &["node2"]), CertificateDer::from(own.certificate));
        let error = verified(&forged, &[between], "node2").unwrap_err();
        assert!(matches!(error, rustls::Error::InvalidCertificate(CertificateError::Other(_))), "{error}");
    }

    #[test]
    fn the_certificate_of_a_server_has_the_key_that_was_asked_for() {
        let (authority, key) = (Authority::mint().unwrap(), KeyPair::generate().unwrap());
        let server = authority.certify(&["node1".to_owned()], &key.subject_public_key_info()).unwrap();
        let point = key.public_key_raw();
        assert!(server.certificate.windows(point.len()).any(|bytes| bytes == point));
    }

    #[test]
    fn what_is_no_public_key_is_refused() {
        let (authority, names) = (Authority::mint().unwrap(), ["node1".to_owned()]);
        let refused = |key: &[u8]| matches!(authority.certify(&names, key), Err(TlsError::Key));
        let pair = KeyPair::generate().unwrap();
        let key = pair.subject_public_key_info();
        assert!(authority.certify(&names, &key).is_ok());
        for length in 0..key.len() {
            assert!(refused(&key[..length]) && refused(&key[length + 1..]), "{length}");
        }
        assert!(refused(&[&key[..], &[0]].concat()) && refused(&pair.serialize_der()) && refused(&[0; 1024]));
        // Each bit: another algorithm, another encoding, or a point that is not on the curve.
        for bit in 0..key.len() * 8 {
            let mut other = key.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(refused(&other), "bit {bit}");
        }
        let other = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap().subject_public_key_info();
        assert!(refused(&other));
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

        #[test]
        fn every_name_that_the_core_lets_through_can_be_certified(
            name in "[a-zA-Z0-9_.-]{1,12}|[0-9.]{1,9}|[0-9a-f:]{2,9}|[a-z]{60,64}",
        ) {
            if check_name(&name).is_ok() {
                let authority = Authority::mint().unwrap();
                prop_assert!(is_server(&certified(&authority, &[&name]), &name));
            }
        }
    }
}
