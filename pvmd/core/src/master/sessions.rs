//! The master's end of the exchange with each host.
//!
//! Both ends number what they say, keep it until the other has heard it, and hear each number once, in order. As the master's end is
//! part of its state, the exchange goes on where it was when another host becomes the master: what the old master has said and the
//! host has not heard is said again, and what the host has said twice is heard once.

use pvm_wire::HostIndex;
use pvm_wire::daemon::{DaemonMsg, FromMaster};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Messages that may be heard before the sender is told so, if nothing else is to be said.
pub(crate) const UNTOLD_MAX: u64 = 32;

/// One host.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Session {
    /// Number of the last message to the host.
    said: u64,
    /// Those that the host may not have heard.
    unheard: VecDeque<(u64, FromMaster)>,
    /// Number of the last message of the host.
    heard: u64,
    /// The last number that the host was told.
    told: u64,
}

/// All hosts that the master talks to: the members, and newcomers that are linked.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Sessions(BTreeMap<HostIndex, Session>);

impl Sessions {
    pub fn open(&mut self, host: HostIndex) {
        self.0.insert(host, Session::default());
    }

    pub fn close(&mut self, host: HostIndex) {
        self.0.remove(&host);
    }

    pub fn has(&self, host: HostIndex) -> bool {
        self.0.contains_key(&host)
    }

    pub fn hosts(&self) -> impl Iterator<Item = HostIndex> {
        self.0.keys().copied()
    }

    /// Numbers a message to a host, if there is such a host.
    pub fn say(&mut self, host: HostIndex, what: FromMaster) -> Option<DaemonMsg> {
        let session = self.0.get_mut(&host)?;
        session.said += 1;
        session.told = session.heard;
        session.unheard.push_back((session.said, what.clone()));
        Some(DaemonMsg::FromMaster { number: session.said, heard: session.heard, what })
    }

    /// Whether the message with this number counts: it is the next one.
    pub fn hear(&mut self, host: HostIndex, number: u64) -> bool {
        let Some(session) = self.0.get_mut(&host) else { return false };
        let is_next = number == session.heard + 1;
        session.heard += u64::from(is_next);
        is_next
    }

    /// A host has heard the messages up to this number.
    pub fn heard_by(&mut self, host: HostIndex, number: u64) {
        if let Some(session) = self.0.get_mut(&host) {
            while session.unheard.front().is_some_and(|(said, _)| *said <= number) {
                session.unheard.pop_front();
            }
        }
    }

    /// What a host is to be told that has said much and was told nothing.
    pub fn owed(&mut self, host: HostIndex) -> Option<DaemonMsg> {
        let session = self.0.get_mut(&host)?;
        (session.heard - session.told >= UNTOLD_MAX).then(|| {
            session.told = session.heard;
            DaemonMsg::MasterHeard { number: session.heard }
        })
    }

    /// What a host may not have heard.
    pub fn unheard(&self, host: HostIndex) -> Vec<DaemonMsg> {
        let Some(session) = self.0.get(&host) else { return Vec::new() };
        let again = |(number, what): &(u64, FromMaster)| DaemonMsg::FromMaster {
            number: *number,
            heard: session.heard,
            what: what.clone(),
        };
        session.unheard.iter().map(again).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_heard_once_and_kept_until_then() {
        let host = HostIndex::MASTER;
        let mut sessions = Sessions::default();
        assert!(sessions.say(host, FromMaster::Ping { id: 1 }).is_none() && !sessions.hear(host, 1));
        sessions.open(host);
        for id in 1..=3 {
            let said = sessions.say(host, FromMaster::Ping { id });
            assert_eq!(
                said,
                Some(DaemonMsg::FromMaster { number: id, heard: 0, what: FromMaster::Ping { id } })
            );
        }
        assert!(sessions.hear(host, 1) && !sessions.hear(host, 1) && !sessions.hear(host, 3));
        sessions.heard_by(host, 2);
        let again = DaemonMsg::FromMaster { number: 3, heard: 1, what: FromMaster::Ping { id: 3 } };
        assert_eq!(sessions.unheard(host), [again]);
        assert_eq!(sessions.owed(host), None);
        (2..=UNTOLD_MAX).for_each(|number| assert!(sessions.hear(host, number)));
        assert_eq!(sessions.owed(host), Some(DaemonMsg::MasterHeard { number: UNTOLD_MAX }));
        assert_eq!(sessions.owed(host), None);
    }
}
