//! Owners of workstations: what tells that the owner of a host is there, and what becomes of its tasks meanwhile.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Longest command of an owner rule, in bytes.
pub const COMMAND_MAX: usize = 4096;
/// The longest time without input that a rule may want, in seconds: a week.
pub const IDLE_MAX: u32 = 7 * 24 * 3600;

/// What tells that the owner of a host is there (`owner=` of the hostfile).
///
/// ```
/// use pvm_wire::owner::OwnerRule;
///
/// assert_eq!("idle:10m".parse(), Ok(OwnerRule::Idle(600)));
/// assert_eq!("run:/usr/local/bin/is-owner-here".parse(), Ok(OwnerRule::Run("/usr/local/bin/is-owner-here".into())));
/// assert!("idle:10".parse::<OwnerRule>().is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OwnerRule {
    /// `none`: nothing but `pvm owner`.
    #[default]
    None,
    /// `idle:TIME`: a terminal or a session had input within this number of seconds, or others' work keeps the host busy.
    Idle(u32),
    /// `run:COMMAND`: what this program says.
    Run(String),
}

/// What is done with tasks that cannot leave while the owner is there (`held=` of the hostfile).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Held {
    /// `stopped`: they do not run at all.
    #[default]
    Stopped,
    /// `least`: they have what the owner's programs leave.
    Least,
}

/// What a hostfile says of the owner of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ownership {
    /// What tells that the owner is there.
    pub rule: OwnerRule,
    /// What is done with tasks meanwhile.
    pub held: Held,
}

/// What a person says of the owner (`pvm owner`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OwnerSaid {
    /// The owner is there.
    Here,
    /// The owner is not there.
    Gone,
    /// The rule decides again.
    Auto,
}

/// What is known of the owner of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerState {
    /// Whether the owner is there.
    pub is_here: bool,
    /// Whether a person has said so, and not the rule.
    pub is_said: bool,
    /// What the hostfile says.
    pub ownership: Ownership,
    /// Tasks that are held now.
    pub tasks: u32,
}

impl FromStr for OwnerRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "none" => Ok(Self::None),
            Some(("idle", time)) => seconds(time).map(Self::Idle).ok_or_else(|| {
                "the time without input is a number from 1 on and `s`, `m` or `h`, at most a week: `idle:10m`"
                    .to_owned()
            }),
            Some(("run", command)) if !command.is_empty() && command.len() <= COMMAND_MAX => {
                Ok(Self::Run(command.to_owned()))
            }
            Some(("run", _)) => Err(format!("a command has from 1 to {COMMAND_MAX} bytes")),
            _ => Err("a rule is `none`, `idle:TIME` or `run:COMMAND`".to_owned()),
        }
    }
}

/// The seconds of a time such as `90s`, `10m` or `1h`.
fn seconds(time: &str) -> Option<u32> {
    let number = time.strip_suffix(['s', 'm', 'h'])?;
    let each = match time.as_bytes().last()? {
        b's' => 1,
        b'm' => 60,
        _ => 3600,
    };
    // The parser would take a sign.
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u32 = number.parse().ok().filter(|_| digits)?;
    number.checked_mul(each).filter(|seconds| (1..=IDLE_MAX).contains(seconds))
}

/// As a hostfile has it.
impl fmt::Display for OwnerRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Idle(seconds) if seconds % 3600 == 0 => write!(f, "idle:{}h", seconds / 3600),
            Self::Idle(seconds) if seconds % 60 == 0 => write!(f, "idle:{}m", seconds / 60),
            Self::Idle(seconds) => write!(f, "idle:{seconds}s"),
            Self::Run(command) => write!(f, "run:{command}"),
        }
    }
}

impl Held {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Stopped, Self::Least];

    /// Its name in a hostfile.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Least => "least",
        }
    }
}

impl OwnerSaid {
    /// All that can be said.
    pub const ALL: [Self; 3] = [Self::Here, Self::Gone, Self::Auto];

    /// Its name at the shell.
    pub fn name(self) -> &'static str {
        match self {
            Self::Here => "here",
            Self::Gone => "gone",
            Self::Auto => "auto",
        }
    }

    /// Its number in a request.
    pub fn number(self) -> i32 {
        self as i32 + 1
    }

    /// That of a number.
    pub fn numbered(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|said| said.number() == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_and_written() {
        for text in ["none", "idle:90s", "idle:10m", "idle:2h", "run:/a:b"] {
            assert_eq!(text.parse::<OwnerRule>().unwrap().to_string(), text);
        }
        assert_eq!("idle:3600s".parse::<OwnerRule>().unwrap().to_string(), "idle:1h");
        for text in [
            "",
            "no",
            "idle",
            "idle:",
            "idle:m",
            "idle:0s",
            "idle:+1s",
            "idle:1d",
            "idle:169h",
            "idle:99999999h",
            "run:",
        ] {
            assert!(text.parse::<OwnerRule>().is_err(), "{text}");
        }
        assert!(format!("run:{}", "x".repeat(COMMAND_MAX + 1)).parse::<OwnerRule>().is_err());
    }

    #[test]
    fn what_is_said_has_numbers() {
        for said in OwnerSaid::ALL {
            assert_eq!(OwnerSaid::numbered(said.number()), Some(said));
        }
        assert_eq!(OwnerSaid::numbered(0), None);
    }
}
