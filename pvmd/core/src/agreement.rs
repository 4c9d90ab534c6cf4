//! The deputies' consensus on the order of commands, by OmniPaxos.
//!
//! The library keeps the log and its ballots, and does no I/O. Its own election, which works by heartbeats, is not used: a daemon's
//! links notice by themselves when the master is lost, so an idle machine sends nothing. A deputy stands for election when it has
//! reason to ([`crate::deputy`]); whether it leads is decided by ballots.

use omnipaxos::messages::Message;
use omnipaxos::storage::{Entry, NoSnapshot};
use omnipaxos::util::LogEntry;
use omnipaxos::{ClusterConfig, OmniPaxos, ServerConfig};
use omnipaxos_storage::memory_storage::MemoryStorage;
use pvm_wire::HostIndex;
use pvm_wire::codec;
use pvm_wire::daemon::Blob;
use serde::{Deserialize, Serialize};
use std::fmt;
use tracing::warn;

/// Entries, and bytes, from which on a log is long. The library can drop entries that all have accepted, but a deputy that has not
/// heard that they are decided may then miss them (0.2.4), so a long log ends with its configuration.
const LONG: usize = 4096;
const LONG_BYTES: usize = 16 * 1024 * 1024;

/// An entry of the log: a command, encoded.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Logged(Blob);

impl Entry for Logged {
    type Snapshot = NoSnapshot;
}

/// One deputy's part in the consensus of one configuration.
pub(crate) struct Agreement {
    own: HostIndex,
    /// At least two, by ascending index; a deputy's number in the library is its place here, from 1 on.
    deputies: Vec<HostIndex>,
    paxos: OmniPaxos<Logged, MemoryStorage<Logged>>,
    /// Entries that were given out.
    read: usize,
    bytes: usize,
}

impl fmt::Debug for Agreement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { own, deputies, read, .. } = self;
        write!(out, "Agreement {{ own: {own}, deputies: {deputies:?}, read: {read} }}")
    }
}

impl Agreement {
    /// The begin of a configuration; `None` if this host is none of its deputies, or the only one.
    pub fn new(own: HostIndex, configuration: u64, deputies: &[HostIndex]) -> Option<Self> {
        let pid = number_of(deputies, own)?;
        let cluster = ClusterConfig {
            configuration_id: u32::try_from(configuration).unwrap_or(u32::MAX),
            nodes: (1..=deputies.len() as u64).collect(),
            flexible_quorum: None,
        };
        let server = ServerConfig {
            pid,
            // Of deputies that stand with the same ballot, the one with the smallest index leads.
            leader_priority: u32::MAX - pid as u32,
            election_tick_timeout: u64::MAX,
            resend_message_tick_timeout: 1,
            flush_batch_tick_timeout: u64::MAX,
            // Set aside by the library at once.
            buffer_size: 16,
            ..ServerConfig::default()
        };
        let paxos = cluster.build_for_server(server, MemoryStorage::default()).ok()?;
        let mut agreement = Self { own, deputies: deputies.to_vec(), paxos, read: 0, bytes: 0 };
        // The heartbeats of an election that never is.
        agreement.take_messages();
        Some(agreement)
    }

    /// Stands for election.
    pub fn stand(&mut self) {
        self.paxos.try_become_leader();
    }

    /// Whether this deputy leads, and its log is that of a majority.
    pub fn leads(&self) -> bool {
        let own = number_of(&self.deputies, self.own);
        matches!(self.paxos.get_current_leader(), Some((leader, true)) if Some(leader) == own)
    }

    /// Whether this deputy has given its vote to another.
    pub fn follows_another(&self) -> bool {
        let own = number_of(&self.deputies, self.own);
        matches!(self.paxos.get_current_leader(), Some((leader, _)) if Some(leader) != own)
    }

    /// Puts a command behind all others. Only a leader does.
    pub fn append(&mut self, command: Blob) {
        if self.paxos.append(Logged(command)).is_err() {
            warn!("the log takes no more commands");
        }
    }

    /// What another deputy's library says to this one's.
    pub fn hear(&mut self, from: HostIndex, message: &Blob) {
        match codec::decode::<Message<Logged>>(&message.0) {
            // The library indexes its tables by the sender, and does not look at the receiver.
            Ok(message) if self.is_between(from, &message) => self.paxos.handle_incoming(message),
            Ok(_) => warn!(host = %from, "a message of the log by a host that is not its sender: ignored"),
            Err(error) => warn!(host = %from, %error, "a message of the log that cannot be read: ignored"),
        }
    }

    fn is_between(&self, from: HostIndex, message: &Message<Logged>) -> bool {
        let [sender, receiver] = [from, self.own].map(|host| number_of(&self.deputies, host));
        sender == Some(message.get_sender()) && receiver == Some(message.get_receiver())
    }

    /// Entries that were given out.
    pub fn applied(&self) -> u64 {
        self.read as u64
    }

    /// These entries need not be given out: the state contains them.
    pub fn skip(&mut self, applied: u64) {
        self.read = usize::try_from(applied).unwrap_or(usize::MAX);
    }

    /// Asks the deputy that leads to begin anew with this one, which has missed what was said before.
    pub fn ask_leader(&mut self, leader: HostIndex) {
        if let Some(leader) = number_of(&self.deputies, leader) {
            self.paxos.reconnected(leader);
        }
    }

    /// Time has passed: what was not answered is said again.
    pub fn tick(&mut self) {
        self.paxos.tick();
    }

    /// What this deputy's library says to others'.
    pub fn take_messages(&mut self) -> Vec<(HostIndex, Blob)> {
        let mut messages = Vec::new();
        self.paxos.take_outgoing_messages(&mut messages);
        let addressed = messages.iter().filter_map(|message| {
            if matches!(message, Message::BLE(_)) {
                return None;
            }
            let place = usize::try_from(message.get_receiver()).ok()?.checked_sub(1)?;
            let bytes = codec::encode(message).ok()?;
            Some((*self.deputies.get(place)?, Blob(bytes.into())))
        });
        addressed.collect()
    }

    /// Commands that have been agreed on since the last call.
    pub fn take_decided(&mut self) -> Vec<Blob> {
        self.take(OmniPaxos::read_decided_suffix)
    }

    /// Whether the log is to end with this configuration.
    pub fn is_long(&self) -> bool {
        self.read >= LONG || self.bytes >= LONG_BYTES
    }

    /// The rest of the log: commands that may have been agreed on without this deputy's knowledge.
    pub fn take_accepted(&mut self) -> Vec<Blob> {
        let end = self.paxos.get_accepted_idx();
        self.take(|paxos, read| paxos.read_entries(read..end))
    }

    fn take(
        &mut self,
        read: impl Fn(&OmniPaxos<Logged, MemoryStorage<Logged>>, usize) -> Option<Vec<LogEntry<Logged>>>,
    ) -> Vec<Blob> {
        let entries = read(&self.paxos, self.read).unwrap_or_default();
        self.read += entries.len();
        let commands = entries.into_iter().filter_map(|entry| match entry {
            LogEntry::Decided(Logged(command)) | LogEntry::Undecided(Logged(command)) => Some(command),
            _ => None,
        });
        let commands: Vec<Blob> = commands.collect();
        self.bytes += commands.iter().map(|command| command.0.len()).sum::<usize>();
        commands
    }
}

fn number_of(deputies: &[HostIndex], host: HostIndex) -> Option<u64> {
    deputies.iter().position(|&deputy| deputy == host).map(|place| place as u64 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> (Vec<HostIndex>, Vec<Agreement>) {
        let hosts: Vec<HostIndex> = (2..5).filter_map(HostIndex::new).collect();
        let parts = hosts.iter().map(|&own| Agreement::new(own, 1, &hosts).unwrap()).collect();
        (hosts, parts)
    }

    /// Lets all messages arrive but those of or to a host that is lost.
    fn exchange(hosts: &[HostIndex], parts: &mut [Agreement], lost: Option<usize>) {
        loop {
            let mut said = Vec::new();
            for (at, part) in parts.iter_mut().enumerate() {
                said.extend(part.take_messages().into_iter().map(|(to, message)| (at, to, message)));
            }
            if said.is_empty() {
                return;
            }
            for (from, to, message) in said {
                let to = hosts.iter().position(|&host| host == to).unwrap();
                if lost != Some(from) && lost != Some(to) {
                    parts[to].hear(hosts[from], &message);
                }
            }
        }
    }

    fn command(text: &'static str) -> Blob {
        Blob(text.as_bytes().into())
    }

    #[test]
    fn commands_are_agreed_on_by_a_majority_and_outlive_their_leader() {
        let (hosts, mut parts) = three();
        assert!(Agreement::new(hosts[0], 1, &hosts[..1]).is_none() && !parts[0].leads());
        parts[0].stand();
        exchange(&hosts, &mut parts, None);
        assert!(parts[0].leads() && parts[1].follows_another());
        parts[0].append(command("a"));
        exchange(&hosts, &mut parts, Some(2));
        assert_eq!(
            (parts[0].take_decided(), parts[1].take_decided()),
            (vec![command("a")], vec![command("a")])
        );
        // Accepted by one deputy, and its leader is lost.
        parts[0].append(command("b"));
        let said = parts[0].take_messages();
        parts[1].hear(hosts[0], &said.iter().find(|(to, _)| *to == hosts[1]).unwrap().1);
        parts[1].take_messages();
        parts[1].stand();
        exchange(&hosts, &mut parts, Some(0));
        assert!(parts[1].leads());
        assert_eq!((parts[1].take_decided(), parts[2].take_decided().len()), (vec![command("b")], 2));
        // The old leader cannot decide anything any more.
        parts[0].append(command("c"));
        exchange(&hosts, &mut parts, None);
        assert!(parts[0].take_decided().is_empty() && parts[1].take_decided().is_empty());
    }

    #[test]
    fn nobody_speaks_for_another() {
        let (hosts, mut parts) = three();
        parts[0].stand();
        for (_, message) in parts[0].take_messages() {
            parts[1].hear(hosts[2], &message);
            parts[1].hear(hosts[0], &Blob(message.0.slice(1..)));
        }
        assert!(parts[1].take_messages().is_empty());
    }
}
