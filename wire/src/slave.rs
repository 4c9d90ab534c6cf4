//! What a starter tells a new daemon on its standard input, and the line with which the daemon answers.

use crate::codec::{self, CodecError};
use crate::encoding::DataSignature;
use crate::limits::SLAVE_CONFIG_MAX;
use crate::owner::Ownership;
use crate::tid::HostIndex;
use crate::turn_rules::Means;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// All that a slave needs to take its place; secret, because of the key (design D4).
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct SlaveConfig {
    /// The starter's protocol version, [`crate::codes::DAEMON_PROTOCOL`].
    pub protocol: u32,
    /// Its place in the host table.
    pub index: HostIndex,
    /// The host that starts it, which is the master.
    pub master: HostIndex,
    /// Its name in the virtual machine.
    pub name: String,
    /// The machine's certificate authority, DER.
    pub authority: Vec<u8>,
    /// Its own certificate, DER.
    pub certificate: Vec<u8>,
    /// Its own private key, PKCS#8 DER.
    pub key: Vec<u8>,
    /// IP address by which the others reach it; it binds to it if it is a loopback address.
    pub address: std::net::IpAddr,
    /// `PVM_VMID` to use.
    pub vmid: Option<String>,
    /// Executable search path (`ep=`).
    pub exec_path: Option<String>,
    /// Working directory (`wd=`).
    pub working_directory: Option<String>,
    /// Debugger script (`bx=`).
    pub debugger: Option<String>,
    /// Speed (`sp=`).
    pub speed: Option<u32>,
    /// Debug mask.
    pub debug_mask: u32,
    /// Seconds without a sign of life after which a host is lost.
    pub host_timeout_seconds: f64,
    /// Seconds that the making of a link may take.
    pub connect_timeout_seconds: f64,
    /// Name of the machine's placement policy.
    pub policy: String,
    /// Milliseconds for which a team has its processors (`slice=`).
    pub slice_milliseconds: Option<u32>,
    /// `slots=` of the hostfile.
    pub slots: Option<u32>,
    /// `owner=` and `held=`.
    pub owner: Ownership,
    /// Whether its network is private (`net=`).
    pub private_network: bool,
    /// Hosts up to which the master checks each other host at the full rate.
    pub watched_max: u32,
    /// Whether, as one of two hosts, it takes the place of a master that is silent and may live (`succession=silent`).
    pub takes_silent: bool,
    /// `coscheduling=` of the hostfile: by what means teams take turns there.
    pub means: Option<Means>,
    /// Whether all teams take turns by the rows of a matrix (`PVM_COSCHEDULING=dasic` at the master).
    pub has_rows: bool,
}

impl std::fmt::Debug for SlaveConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SlaveConfig")
            .field("index", &self.index)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Why a line is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum SlaveConfigError {
    /// Not hexadecimal, or of odd or excessive length.
    #[error("the configuration line is not hexadecimal or longer than {SLAVE_CONFIG_MAX} bytes")]
    Hex,
    /// Not a configuration.
    #[error("the configuration cannot be read")]
    Codec(#[from] CodecError),
    /// Another protocol version.
    #[error("the starting daemon speaks protocol {0}, this one {ours}", ours = crate::codes::DAEMON_PROTOCOL)]
    Version(u32),
}

impl SlaveConfig {
    /// One line of hexadecimal digits, newline included.
    pub fn to_line(&self) -> Result<String, CodecError> {
        let bytes = codec::encode(self)?;
        let mut line = String::with_capacity(bytes.len() * 2 + 12);
        // The version stands outside the coded part, so that other versions can tell.
        let _ = write!(line, "{:08x}", self.protocol);
        for byte in bytes {
            let _ = write!(line, "{byte:02x}");
        }
        line.push('\n');
        Ok(line)
    }

    /// The configuration in a line.
    pub fn from_line(line: &str) -> Result<Self, SlaveConfigError> {
        let line = line.trim_end();
        if line.len() < 8 || line.len() > 2 * SLAVE_CONFIG_MAX || line.len() % 2 == 1 || !line.is_ascii() {
            return Err(SlaveConfigError::Hex);
        }
        let (version, rest) = line.split_at(8);
        let version = u32::from_str_radix(version, 16).map_err(|_| SlaveConfigError::Hex)?;
        if version != crate::codes::DAEMON_PROTOCOL {
            return Err(SlaveConfigError::Version(version));
        }
        let bytes = (0..rest.len() / 2)
            .map(|i| u8::from_str_radix(&rest[2 * i..2 * i + 2], 16).map_err(|_| SlaveConfigError::Hex))
            .collect::<Result<Vec<u8>, _>>()?;
        Ok(codec::decode(&bytes)?)
    }
}

/// The line with which a new daemon answers: `pvmd-ready <protocol> <arch> <port> <signature> <capability>
/// <task limit>`.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadyLine {
    /// Its protocol version.
    pub protocol: u32,
    /// Its architecture.
    pub arch: String,
    /// The UDP port on which it waits for the others.
    pub port: u16,
    /// Its data signature.
    pub signature: DataSignature,
    /// `C_i`, its capability; 1000 is a reference core.
    pub capability: f64,
    /// Tasks above which it starts none; 0 if it speaks another protocol and does not say.
    pub task_limit: u32,
}

impl std::fmt::Display for ReadyLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { protocol, arch, port, signature, capability, task_limit } = self;
        write!(f, "pvmd-ready {protocol} {arch} {port} {} {capability} {task_limit}", signature.0)
    }
}

impl ReadyLine {
    /// The answer in a line, or `None` if the line is something else (a banner, a warning).
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("pvmd-ready ")?.split_ascii_whitespace();
        Some(Self {
            protocol: words.next()?.parse().ok()?,
            arch: words.next()?.to_owned(),
            port: words.next()?.parse().ok()?,
            signature: DataSignature(words.next()?.parse().ok()?),
            capability: words.next()?.parse().ok().filter(|c: &f64| c.is_finite() && *c > 0.0)?,
            task_limit: words.next().map_or(Some(0), |word| word.parse().ok())?,
        })
    }
}

/// The line of a daemon that somebody else has started for a master: `pvmd-hosted <protocol> <port> <fingerprint>`. It has
/// no place in a virtual machine yet; the master brings it one, over a connection on which both are known by fingerprint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostedLine {
    /// Its protocol version.
    pub protocol: u32,
    /// The UDP port on which it waits for the master.
    pub port: u16,
    /// SHA-256 of the certificate that it shows there.
    pub fingerprint: Fingerprint,
}

/// SHA-256 of a certificate: not secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::str::FromStr for Fingerprint {
    type Err = SlaveConfigError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return Err(SlaveConfigError::Hex);
        }
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).map_err(|_| SlaveConfigError::Hex)?;
        }
        Ok(Self(bytes))
    }
}

impl std::fmt::Display for HostedLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "pvmd-hosted {} {} {}", self.protocol, self.port, self.fingerprint)
    }
}

impl HostedLine {
    /// The answer in a line, or `None` if the line is something else.
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("pvmd-hosted ")?.split_ascii_whitespace();
        Some(Self {
            protocol: words.next()?.parse().ok()?,
            port: words.next()?.parse().ok()?,
            fingerprint: words.next()?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_configuration_is_one_line() {
        let config = SlaveConfig {
            protocol: crate::codes::DAEMON_PROTOCOL,
            index: HostIndex::new(2).unwrap(),
            master: HostIndex::MASTER,
            name: "node1".into(),
            authority: vec![1, 2],
            certificate: vec![3],
            key: vec![4; 99],
            address: std::net::Ipv4Addr::LOCALHOST.into(),
            vmid: None,
            exec_path: Some("/x".into()),
            working_directory: None,
            debugger: None,
            speed: Some(2000),
            debug_mask: 0,
            host_timeout_seconds: 3.0,
            connect_timeout_seconds: 30.0,
            policy: "round-robin".into(),
            slice_milliseconds: Some(20),
            slots: Some(4),
            owner: Ownership { rule: crate::owner::OwnerRule::Idle(600), ..Ownership::default() },
            private_network: true,
            watched_max: 256,
            takes_silent: true,
            means: Some(Means::Stop),
            has_rows: true,
        };
        let line = config.to_line().unwrap();
        assert_eq!(SlaveConfig::from_line(&line).unwrap(), config);
        assert!(!format!("{config:?}").contains('4'), "a key is never shown");
        assert!(matches!(SlaveConfig::from_line("00000063aa"), Err(SlaveConfigError::Version(99))));
    }

    #[test]
    fn a_ready_line_is_found_among_others() {
        let ready = ReadyLine {
            protocol: 1,
            arch: "LINUX64".into(),
            port: 4000,
            signature: DataSignature::NATIVE,
            capability: 998.5,
            task_limit: 70_000,
        };
        assert_eq!(ReadyLine::parse(&ready.to_string()), Some(ready));
        assert!(ReadyLine::parse("pvmd-ready 999 LINUX64 1 4230209 1000").is_some(), "another protocol's");
        assert_eq!(ReadyLine::parse("Welcome to node1"), None);
    }

    #[test]
    fn a_hosted_line_is_found_among_others() {
        let line = HostedLine { protocol: 1, port: 9, fingerprint: Fingerprint([0xa5; 32]) };
        assert_eq!(HostedLine::parse(&line.to_string()), Some(line));
        assert_eq!(HostedLine::parse("pvmd-hosted 1 9 zz"), None);
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(line in "\\PC{0,80}") {
            let _ = SlaveConfig::from_line(&line);
            let _ = SlaveConfig::from_line(&format!("00000001{line}"));
            let _ = ReadyLine::parse(&format!("pvmd-ready {line}"));
            let _ = HostedLine::parse(&format!("pvmd-hosted 1 2 {line}"));
        }
    }
}
