//! Teams of tasks that take turns: their names, and what a host says of them.

use crate::codec::{self, CodecError};
use crate::tid::Tid;
use serde::{Deserialize, Serialize};

/// Environment variable by which a spawn says to which team its tasks belong; the daemon sets it if the spawner does not.
pub const TEAM_VARIABLE: &str = "PVM_TEAM";

/// Bytes of a team's name.
pub const TEAM_NAME_MAX: usize = 64;

/// Turns on one host, since its daemon's start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnsReport {
    /// By what means teams that have not the turn are held; `none` if they are not.
    pub means: String,
    /// Microseconds that a team has the processor; 0: no turns are ever taken.
    pub slice: u64,
    /// Nanoseconds that it takes to wake another process.
    pub wake: u64,
    /// Nanoseconds that a task spins at most before it sleeps.
    pub spin: u64,
    /// Whether turns are taken at present.
    pub is_shared: bool,
    /// Count of the host's epoch.
    pub epoch: u64,
    /// Changes of the team that has the turn.
    pub switches: u64,
    /// Messages that changed nothing, their epoch being no greater.
    pub old: u64,
    /// Messages that changed nothing, their team having had more than its share.
    pub unfair: u64,
    /// Epochs taken over from messages.
    pub adopted: u64,
    /// Microseconds that teams had the turn because of messages.
    pub boost: u64,
    /// The teams that have tasks here.
    pub teams: Vec<TeamReport>,
}

/// A team on one host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamReport {
    /// Its name.
    pub name: String,
    /// Whether its tasks may run now.
    pub runs: bool,
    /// Microseconds that its tasks wanted a processor and had none.
    pub waited: u64,
    /// Its tasks, and the microseconds of CPU time that each has used.
    pub tasks: Vec<(Tid, u64)>,
}

impl TurnsReport {
    /// As a task is told.
    pub fn encode(&self) -> Result<Vec<u8>, CodecError> {
        let mut body = 0_i32.to_be_bytes().to_vec();
        body.append(&mut codec::encode(self)?);
        Ok(body)
    }

    /// What follows the code in the answer to a task.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        codec::decode(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_arrives() {
        let team =
            TeamReport { name: "a".into(), runs: true, waited: 3, tasks: vec![(Tid::from_bits(0x40001), 7)] };
        let report = TurnsReport {
            means: "stop".into(),
            epoch: u64::MAX,
            teams: vec![team],
            ..TurnsReport::default()
        };
        let bytes = report.encode().unwrap();
        assert_eq!(bytes[..4], [0; 4]);
        assert_eq!(TurnsReport::decode(&bytes[4..]).unwrap(), report);
        assert!(TurnsReport::decode(&bytes[..9]).is_err());
    }
}
