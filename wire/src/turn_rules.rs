//! How teams of tasks take turns: what a host is told of that (`PVM_COSCHEDULING`, `coscheduling=` of the hostfile), and what a queue says of
//! the teams of its jobs (`turns` in the file of queues).

use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;

/// Environment variable of the tasks of a queue's jobs, and of what these spawn: the queue's [`TurnRule`], if it has one.
pub const TURNS_VARIABLE: &str = "PVM_TURNS";

/// How the teams of a queue's jobs take turns.
///
/// ```
/// use pvm_wire::turn_rules::TurnRule;
///
/// assert_eq!("rows".parse(), Ok(TurnRule::Rows));
/// assert!("row".parse::<TurnRule>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TurnRule {
    /// `rows`: they are in the matrix, which the machine makes for them if it has none.
    Rows,
    /// `demand`: by accounts and messages. They are in no matrix.
    Demand,
    /// `none`: their tasks take no turns, and are not held for others.
    None,
}

impl TurnRule {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Rows, Self::Demand, Self::None];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Demand => "demand",
            Self::None => "none",
        }
    }

    /// The rule that an environment names, if any.
    pub fn named_in(env: &[OsString]) -> Option<Self> {
        let mut values = env.iter().filter_map(|entry| crate::spawn::split_entry(entry));
        let (_, value) = values.find(|(name, _)| *name == TURNS_VARIABLE)?;
        value.to_str()?.parse().ok()
    }

    /// Has an environment name this rule, or none.
    pub fn set_in(rule: Option<Self>, env: &mut Vec<OsString>) {
        env.retain(|entry| crate::spawn::split_entry(entry).is_none_or(|(name, _)| name != TURNS_VARIABLE));
        env.extend(rule.map(|rule| crate::spawn::entry(TURNS_VARIABLE, rule.name())));
    }
}

/// There is no such rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("teams take turns by \"rows\", by \"demand\" or not at all, \"none\"")]
pub struct NoTurnRule;

impl FromStr for TurnRule {
    type Err = NoTurnRule;

    fn from_str(name: &str) -> Result<Self, NoTurnRule> {
        Self::ALL.into_iter().find(|rule| rule.name() == name).ok_or(NoTurnRule)
    }
}

/// By what means teams take turns on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Means {
    /// Priorities, if the host allows them, else weights, else none. Stopping shows, as timeouts go on: it has to be asked for.
    #[default]
    Auto,
    /// None: waits in two phases are all there is.
    Implicit,
    /// Classes of the kernel's scheduler.
    Priorities,
    /// Weights of control groups.
    Weights,
    /// SIGSTOP and SIGCONT.
    Stop,
}

impl Means {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Auto, Self::Implicit, Self::Priorities, Self::Weights, Self::Stop];

    /// Their name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Implicit => "implicit",
            Self::Priorities => "priorities",
            Self::Weights => "weights",
            Self::Stop => "stop",
        }
    }
}

/// How teams take turns on a host.
///
/// ```
/// use pvm_wire::turn_rules::{Coscheduling, Means};
///
/// assert_eq!("dasic,stop".parse(), Ok(Coscheduling { means: Means::Stop, has_rows: true }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Coscheduling {
    /// The means.
    pub means: Means,
    /// Whether teams take turns by the rows of a matrix of the whole machine, if this host is the master.
    pub has_rows: bool,
}

/// A text names no means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be auto, priorities, weights, stop, implicit, dasic or dasic,MEANS")]
pub struct NoMeans;

impl FromStr for Means {
    type Err = NoMeans;

    fn from_str(text: &str) -> Result<Self, NoMeans> {
        let name = if text == "off" { "implicit" } else { text };
        Self::ALL.into_iter().find(|means| means.name() == name).ok_or(NoMeans)
    }
}

impl FromStr for Coscheduling {
    type Err = NoMeans;

    /// Means, or `dasic`, behind which means may follow.
    fn from_str(text: &str) -> Result<Self, NoMeans> {
        let means = match text.split_once(',') {
            Some(("dasic", means)) => means.parse()?,
            None if text == "dasic" => Means::Auto,
            _ => return Ok(Self { means: text.parse()?, has_rows: false }),
        };
        if means == Means::Implicit { Err(NoMeans) } else { Ok(Self { means, has_rows: true }) }
    }
}

impl fmt::Display for Coscheduling {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { means, has_rows: false } => out.write_str(means.name()),
            Self { means: Means::Auto, .. } => out.write_str("dasic"),
            Self { means, .. } => write!(out, "dasic,{}", means.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spawn::entry;

    #[test]
    fn what_is_written_is_what_is_read() {
        for means in Means::ALL {
            for has_rows in [false, true].into_iter().filter(|rows| !rows || means != Means::Implicit) {
                let setting = Coscheduling { means, has_rows };
                assert_eq!(setting.to_string().parse(), Ok(setting));
            }
        }
        let implicit = Coscheduling { means: Means::Implicit, has_rows: false };
        assert_eq!(["off", "implicit"].map(str::parse), [Ok(implicit); 2]);
        assert_eq!("dasic,auto".parse(), "dasic".parse::<Coscheduling>());
        for wrong in
            ["", "dasic,", "dasic,implicit", "dasic,off", "dasic,dasic", "stop,dasic", "Auto", " stop"]
        {
            assert_eq!(wrong.parse::<Coscheduling>(), Err(NoMeans), "{wrong}");
        }
    }

    #[test]
    fn an_environment_names_a_rule() {
        let mut env = vec![OsString::from("A=b")];
        assert_eq!(TurnRule::named_in(&env), None);
        for rule in TurnRule::ALL {
            TurnRule::set_in(Some(rule), &mut env);
            assert_eq!((TurnRule::named_in(&env), env.len()), (Some(rule), 2));
        }
        TurnRule::set_in(None, &mut env);
        assert_eq!(env, ["A=b"]);
        env.push(entry(TURNS_VARIABLE, "fifo"));
        assert_eq!(TurnRule::named_in(&env), None, "no rule");
    }
}
