//! Which requests are answered: those whose address has the token, under a name that this server goes by.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;

/// Bytes of a token: 160 bits.
const TOKEN_BYTES: usize = 20;

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its address has no token, or another one.
    Token,
    /// Its `Host` is not a name of this computer's loopback interface: another site's name may point here (DNS rebinding).
    Host,
}

/// The token, and whether only this computer is served.
///
/// The token is the first part of each path, not a cookie: a browser sends the cookies of 127.0.0.1 to every port there, so also to
/// servers of other users.
#[derive(Clone, Debug)]
pub struct Guard {
    token: String,
    is_loopback: bool,
}

impl Guard {
    /// A guard with a new token from the operating system's random numbers.
    pub fn new(is_loopback: bool) -> io::Result<Self> {
        let mut bytes = [0; TOKEN_BYTES];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let mut token = String::new();
        for byte in bytes {
            let _ = write!(token, "{byte:02x}");
        }
        Ok(Self { token, is_loopback })
    }

    /// The token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Checks a request, and returns its path behind the token: it begins with a slash, or is empty.
    pub fn check<'a>(&self, host: Option<&str>, path: &'a str) -> Result<&'a str, Refused> {
        if self.is_loopback && !host.is_some_and(is_loopback_name) {
            return Err(Refused::Host);
        }
        let path = path.strip_prefix('/').ok_or(Refused::Token)?;
        let end = path.find('/').unwrap_or(path.len());
        let (token, rest) = path.split_at(end);
        if is_equal(token.as_bytes(), self.token.as_bytes()) { Ok(rest) } else { Err(Refused::Token) }
    }
}

/// Whether both are equal. The time does not depend on where they differ.
fn is_equal(given: &[u8], wanted: &[u8]) -> bool {
    let differences = given.iter().zip(wanted).fold(0, |found, (one, other)| found | (one ^ other));
    given.len() == wanted.len() && std::hint::black_box(differences) == 0
}

/// Whether a `Host` header names the loopback interface, at any port: an ssh tunnel may begin at another one.
fn is_loopback_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, port)) if is_port(port) => name,
            _ => return false,
        },
        None => match host.split_once(':') {
            Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
            Some(_) => return false,
            None => host,
        },
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn is_port(text: &str) -> bool {
    text.is_empty()
        || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|digit| digit.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(is_loopback: bool) -> Guard {
        Guard { token: "00ff".to_owned(), is_loopback }
    }

    #[test]
    fn only_the_token_opens() {
        let check = |path| guard(true).check(Some("127.0.0.1:8000"), path);
        assert_eq!(check("/00ff/"), Ok("/"));
        assert_eq!(check("/00ff/app.js"), Ok("/app.js"));
        assert_eq!(check("/00ff"), Ok(""));
        for path in
            ["/", "", "*", "00ff/", "/00f", "/00ff0/", "/00fe/", "/00FF/", "//00ff/", "/app.js", "/%300ff/"]
        {
            assert_eq!(check(path), Err(Refused::Token), "{path}");
        }
    }

    #[test]
    fn only_names_of_the_loopback_interface_are_served_there() {
        let check = |host| guard(true).check(host, "/00ff/");
        for host in ["localhost", "LOCALHOST:1", "127.0.0.1:8000", "127.1.2.3", "[::1]:80", "[::1]"] {
            assert_eq!(check(Some(host)), Ok("/"), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1:8000",
            "::1",
            "[::1",
            "[::1]x",
            "[10.0.0.1]",
            "localhost:80@evil.example",
            "0.0.0.0",
            ":",
            "[]",
        ] {
            assert_eq!(check(Some(host)), Err(Refused::Host), "{host}");
        }
        assert_eq!(check(None), Err(Refused::Host));
        assert_eq!(guard(false).check(Some("node1.example:8443"), "/00ff/"), Ok("/"));
        assert_eq!(guard(false).check(None, "/"), Err(Refused::Token));
    }

    #[test]
    fn tokens_are_long_and_differ() {
        let [one, other] = [Guard::new(true).unwrap(), Guard::new(true).unwrap()];
        assert_eq!(one.token().len(), 40);
        assert!(one.token().bytes().all(|digit| digit.is_ascii_hexdigit()));
        assert_ne!(one.token(), other.token());
    }
}
