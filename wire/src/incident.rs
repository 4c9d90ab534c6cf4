//! Losses that a task can ask to be told of: hosts, and tasks that end by a signal.

use crate::codec::{self, CodecError};
use crate::tid::Tid;
use serde::{Deserialize, Serialize};

/// What a daemon tells a task that has asked for it, as the body of a message with [`crate::codes::INCIDENT_TAG`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Incident {
    /// A host has left the virtual machine though nobody deleted it.
    HostLost {
        /// Its id.
        host: Tid,
        /// Its name.
        name: String,
        /// What is known of the cause.
        reason: String,
        /// Its tasks, with their programs' names, in ascending order.
        tasks: Vec<(Tid, String)>,
    },
    /// A task has ended.
    TaskEnded {
        /// The task.
        tid: Tid,
        /// Its program's name.
        name: String,
        /// What `wait` said of its process; 0 if that is not known.
        status: i32,
        /// Whether it ended by a signal that was sent through the virtual machine.
        intended: bool,
    },
}

impl Incident {
    /// The message's body.
    pub fn encode(&self) -> Result<Vec<u8>, CodecError> {
        codec::encode(self)
    }

    /// The incident in a body.
    pub fn decode(body: &[u8]) -> Result<Self, CodecError> {
        codec::decode(body)
    }
}

/// The signal in a status of `wait`, if one ended the process.
pub fn signal_of(status: i32) -> Option<i32> {
    let signal = status & 0x7f;
    (1..0x7f).contains(&signal).then_some(signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incidents_survive_the_wire() {
        let (host, task) = (Tid::from_raw(0x80000), Tid::from_raw(0x80001));
        let tasks = vec![(task, "worker".to_owned())];
        for incident in [
            Incident::HostLost { host, name: "node2".into(), reason: "silence".into(), tasks },
            Incident::TaskEnded { tid: task, name: "worker".into(), status: 11, intended: false },
        ] {
            assert_eq!(Incident::decode(&incident.encode().unwrap()).unwrap(), incident);
        }
        assert!(Incident::decode(&[9, 9]).is_err());
    }

    #[test]
    fn a_status_has_a_signal_only_if_one_ended_the_process() {
        assert_eq!(signal_of(0), None);
        assert_eq!(signal_of(0x700), None);
        assert_eq!(signal_of(11), Some(11));
        assert_eq!(signal_of(0x8b), Some(11), "with a core file");
        assert_eq!(signal_of(0x137f), None, "stopped");
    }
}
