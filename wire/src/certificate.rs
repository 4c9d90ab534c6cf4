//! Certificates that the machine's authority signs for servers that tasks run, as `pvm web` is one.

use crate::limits::{CERTIFICATE_KEY_MAX, CERTIFICATE_NAME_MAX, CERTIFICATE_NAMES_MAX};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The end of the names in the certificates of daemons.
const OF_DAEMONS: &str = ".pvm";
/// Longest part of a name between dots, bytes (RFC 1035, section 2.3.4).
const LABEL_MAX: usize = 63;

/// What a certificate is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateRequest {
    /// Names and addresses of the server.
    pub names: Vec<String>,
    /// Its public key: a SubjectPublicKeyInfo in DER.
    pub key: Vec<u8>,
}

/// A certificate, as a task gets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certified {
    /// The certificate, DER.
    pub certificate: Vec<u8>,
    /// That of the authority which has signed it, DER.
    pub authority: Vec<u8>,
}

impl CertificateRequest {
    /// Whether the authority may sign it, as far as that can be seen without looking into the key; the error is the reason for people.
    pub fn check(&self) -> Result<(), String> {
        let (names, key) = (self.names.len(), self.key.len());
        if !(1..=CERTIFICATE_NAMES_MAX).contains(&names) {
            return Err(format!("a certificate has 1 to {CERTIFICATE_NAMES_MAX} names, not {names}"));
        }
        if !(1..=CERTIFICATE_KEY_MAX).contains(&key) {
            return Err(format!("a public key has 1 to {CERTIFICATE_KEY_MAX} bytes, not {key}"));
        }
        self.names.iter().try_for_each(|name| check_name(name))
    }
}

/// Whether a certificate for a server may have this name: an IP address, or a name of the DNS that is none of daemons. The error is the
/// reason for people.
///
/// ```
/// use pvm_wire::certificate::check_name;
///
/// assert!(["node1", "node1.example.org", "10.0.0.1", "::1"].iter().all(|name| check_name(name).is_ok()));
/// assert!(["h1.pvm", "*.example.org", "10.0.0", ""].iter().all(|name| check_name(name).is_err()));
/// ```
pub fn check_name(name: &str) -> Result<(), String> {
    if name.len() > CERTIFICATE_NAME_MAX {
        return Err(format!("a name of {} bytes is too long: at most {CERTIFICATE_NAME_MAX}", name.len()));
    }
    if name.parse::<IpAddr>().is_ok() {
        return Ok(());
    }
    // A last part that is a number would be taken for the end of an IPv4 address.
    let is_numeric = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    if !name.split('.').all(is_label) || name.rsplit('.').next().is_some_and(is_numeric) {
        return Err(format!("{name:?} is neither a name of the DNS nor an IP address"));
    }
    if name.to_ascii_lowercase().ends_with(OF_DAEMONS) {
        return Err(format!("{name}: names that end in {OF_DAEMONS} are those of daemons"));
    }
    Ok(())
}

/// Whether this may stand between two dots. Names of hosts with an underscore exist, although the DNS has none.
fn is_label(label: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=LABEL_MAX).contains(&label.len())
        && label.bytes().all(is_allowed)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(names: &[&str], key: usize) -> CertificateRequest {
        CertificateRequest { names: names.iter().map(|&name| name.to_owned()).collect(), key: vec![1; key] }
    }

    #[test]
    fn names_and_addresses_of_servers_are_accepted() {
        let label = "a".repeat(63);
        let long = [&label[..]; 4].join(".")[..253].to_owned();
        for name in
            ["node1", "Node-1.example.ORG", "my_host", "10.0.0.1", "::1", "fe80::1", "1a", "4.com", "pvm"]
        {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        assert_eq!((check_name(&label), check_name(&long)), (Ok(()), Ok(())));
        assert_eq!(request(&["a"; 16], 1024).check(), Ok(()));
    }

    #[test]
    fn what_is_no_name_of_a_server_is_refused() {
        let long = ["a".repeat(64), "a.".repeat(127), "a.".repeat(1000)];
        for name in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "-a",
            "a-",
            "a.-b",
            "*",
            "*.example.org",
            "a b",
            "a/b",
            "a\0",
            "a\n",
            "ä",
            "(none)",
            "10.0.0",
            "10.0.0.256",
            "1",
            "a.1",
            "10.0.0.1:80",
            "[::1]",
            "fe80::1%eth0",
            "user@a",
            &long[0],
            &long[1],
            &long[2],
        ] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn names_of_daemons_are_refused() {
        for name in ["h1.pvm", "h4095.pvm", "H1.PVM", "a.b.pvm", "x.Pvm", ".pvm", "h1.pvm."] {
            assert!(check_name(name).is_err(), "{name}");
            assert!(request(&["a", name], 91).check().is_err(), "{name}");
        }
    }

    #[test]
    fn numbers_of_names_and_sizes_of_keys_are_bounded() {
        assert!(request(&[], 91).check().is_err() && request(&["a"; 17], 91).check().is_err());
        assert!(request(&["a"], 0).check().is_err() && request(&["a"], 1025).check().is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_check_panic(name in ".{0,300}") {
            if check_name(&name).is_ok() {
                prop_assert!(name.is_ascii() && !name.to_lowercase().ends_with(OF_DAEMONS));
            }
        }
    }
}
