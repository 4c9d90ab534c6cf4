//! A host that holds the master's state: the master itself, and the deputies that can take its place.
//!
//! Commands are put into one order by the deputies of a *configuration* ([`Agreement`]), and each of them carries out the same
//! commands. The master alone proposes commands, and acts on what follows from them. A configuration ends with the command that
//! appoints the deputies of the next one; those that are new get the state as it is then. A configuration of one deputy needs no
//! agreement.

use super::agreement::Agreement;
use super::master::{Command, Master};
use bytes::Bytes;
use pvm_wire::HostIndex;
use pvm_wire::codec::{self, CodecError};
use pvm_wire::daemon::{Blob, DaemonMsg};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use tracing::{error, info, warn};

/// Bytes of a piece of the state on its way to a new deputy.
const PIECE: usize = 4 * 1024 * 1024;

/// A command on its way into the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Proposal {
    by: HostIndex,
    /// Counts the proposals of that host.
    number: u64,
    command: Command,
}

/// The master's state, and this host's part in keeping it.
#[derive(Debug)]
pub(crate) struct Deputy {
    own: HostIndex,
    master: Master,
    /// Counts the configurations of deputies.
    configuration: u64,
    /// `None` if this is the only deputy.
    agreement: Option<Agreement>,
    /// Whether this host is the master.
    is_master: bool,
    /// Whether this host, which leads, has proposed to be the master.
    claims: bool,
    /// Whether the next deputies are proposed.
    appoints: bool,
    /// Proposals of this host that have not been decided.
    proposed: VecDeque<Proposal>,
    proposals: u64,
    /// Commands that have been decided and not been carried out.
    decided: VecDeque<Command>,
    /// What is still to be said about the log of the configuration before.
    parting: Vec<(HostIndex, DaemonMsg)>,
    /// Deputies that were sent the state because they had not heard of this configuration.
    caught_up: BTreeSet<HostIndex>,
    /// Deputies that have lost the master.
    witnesses: BTreeSet<HostIndex>,
    /// Deputies whose daemons are proved to have ended.
    dead: BTreeSet<HostIndex>,
}

impl Deputy {
    /// The first master, alone.
    pub fn first(master: Master) -> Self {
        Self { is_master: true, ..Self::with(master.seat(), 1, master) }
    }

    fn with(own: HostIndex, configuration: u64, master: Master) -> Self {
        Self {
            own,
            agreement: Agreement::new(own, configuration, master.deputies()),
            master,
            configuration,
            is_master: false,
            claims: false,
            appoints: false,
            proposed: VecDeque::new(),
            proposals: 0,
            decided: VecDeque::new(),
            parting: Vec::new(),
            caught_up: BTreeSet::new(),
            witnesses: BTreeSet::new(),
            dead: BTreeSet::new(),
        }
    }

    pub fn master(&self) -> &Master {
        &self.master
    }

    /// Whether this host is the master.
    pub fn is_master(&self) -> bool {
        self.is_master
    }

    pub fn configuration(&self) -> u64 {
        self.configuration
    }

    pub fn deputies(&self) -> &[HostIndex] {
        self.master.deputies()
    }

    /// Whether this host is a member of the machine, as far as it knows the log.
    pub fn is_member(&self) -> bool {
        self.master.members().contains(self.own)
    }

    /// Puts a command on its way. Only the master's host does, or one that is to be it.
    pub fn propose(&mut self, command: Command) {
        self.proposals += 1;
        let proposal = Proposal { by: self.own, number: self.proposals, command };
        if self.agreement.is_none() {
            return self.decided.push_back(proposal.command);
        }
        self.append(&proposal);
        self.proposed.push_back(proposal);
    }

    fn append(&mut self, proposal: &Proposal) {
        match (codec::encode(proposal), &mut self.agreement) {
            (Ok(bytes), Some(agreement)) => agreement.append(Blob(bytes.into())),
            (Err(error), _) => error!(%error, "a command cannot be written into the log: lost"),
            (_, None) => {}
        }
    }

    /// The next command that all deputies carry out.
    pub fn next(&mut self) -> Option<Command> {
        if let Some(agreement) = &mut self.agreement {
            let decided = agreement.take_decided();
            self.note_decided(&decided);
        }
        self.decided.pop_front()
    }

    fn note_decided(&mut self, entries: &[Blob]) {
        for entry in entries {
            // What comes behind an appointment in the log is proposed again, in the next configuration.
            if matches!(self.decided.back(), Some(Command::Appoint { .. })) {
                return;
            }
            match codec::decode::<Proposal>(&entry.0) {
                Ok(Proposal { by, number, command }) => {
                    if by == self.own {
                        self.proposed.retain(|own| own.number > number);
                    }
                    self.decided.push_back(command);
                }
                Err(error) => error!(%error, "an entry of the log cannot be read: skipped"),
            }
        }
    }

    /// Carries out the next command. What follows is for the master's host.
    pub fn carry_out(&mut self, command: Command) -> super::effect::Effects {
        match &command {
            Command::TakeOver { by, .. } => {
                // The last master may have dismissed that host, which learns it from the log only now.
                self.is_master = *by == self.own && self.is_member();
                self.claims = false;
                if !self.is_master {
                    // It was to be the master itself.
                    self.proposed.clear();
                }
                self.witnesses.clear();
            }
            Command::Appoint { .. } => self.appoints = false,
            _ => {}
        }
        self.master.carry_out(command)
    }

    /// The next configuration begins, whose deputies were just appointed. Whether this host is one of them.
    pub fn begin_configuration(&mut self) -> bool {
        // The others are still to hear that they were appointed.
        self.parting = self.take_messages();
        self.configuration += 1;
        let was_alone = self.agreement.is_none();
        let rest = std::mem::take(&mut self.decided);
        self.witnesses.clear();
        // A daemon that ended before its appointment has not voted in the new configuration, and never will.
        let deputies = self.master.deputies();
        self.dead.retain(|host| deputies.contains(host));
        self.caught_up.clear();
        self.agreement = Agreement::new(self.own, self.configuration, self.master.deputies());
        info!(configuration = self.configuration, deputies = ?self.master.deputies(), "deputies");
        if self.is_master {
            self.stand();
            self.propose_again();
        }
        if was_alone {
            for command in rest {
                self.propose(command);
            }
        }
        self.master.deputies().contains(&self.own)
    }

    fn propose_again(&mut self) {
        if self.agreement.is_some() {
            for proposal in self.proposed.clone() {
                self.append(&proposal);
            }
        } else {
            self.decided.extend(self.proposed.drain(..).map(|proposal| proposal.command));
        }
    }

    /// The state, for a new deputy of this configuration.
    pub fn state(&self) -> Result<Vec<DaemonMsg>, CodecError> {
        let bytes = Bytes::from(codec::encode_large(&self.master)?);
        let configuration = self.configuration;
        // All that was given out has been carried out, but for what waits here.
        let applied = self.agreement.as_ref().map_or(0, Agreement::applied);
        let applied = applied.saturating_sub(self.decided.len() as u64);
        let count = bytes.len().div_ceil(PIECE).max(1);
        let pieces = (0..count).map(|n| DaemonMsg::State {
            configuration,
            applied,
            more: n + 1 < count,
            bytes: Blob(bytes.slice(n * PIECE..((n + 1) * PIECE).min(bytes.len()))),
        });
        Ok(pieces.collect())
    }

    /// Stands for election.
    pub fn stand(&mut self) {
        if let Some(agreement) = &mut self.agreement {
            agreement.stand();
        }
    }

    /// Whether this host leads the agreement, and is to propose to be the master. Says so once.
    pub fn is_to_claim(&mut self) -> bool {
        let leads = self.agreement.as_ref().is_none_or(Agreement::leads);
        let claims = leads && !self.is_master && !self.claims;
        self.claims |= claims;
        claims
    }

    /// Whether another host has been elected although this one is the master.
    pub fn is_deposed(&self) -> bool {
        self.is_master && self.agreement.as_ref().is_some_and(Agreement::follows_another)
    }

    /// Whether something that was proposed is not decided, or the agreement has no leader.
    pub fn is_busy(&self) -> bool {
        let leads = self.agreement.as_ref().is_none_or(Agreement::leads);
        !self.proposed.is_empty() || self.is_master && !leads
    }

    /// What another deputy says about the log. Whether it is a deputy that has not heard of the configuration that has begun: the
    /// last one did not need its vote.
    pub fn hear(&mut self, from: HostIndex, configuration: u64, message: &Blob) -> bool {
        if configuration == self.configuration
            && let Some(agreement) = &mut self.agreement
        {
            agreement.hear(from, message);
        }
        let is_behind = configuration < self.configuration && self.deputies().contains(&from);
        self.is_master && is_behind && self.caught_up.insert(from)
    }

    /// What is to be said to other deputies about the log.
    pub fn take_messages(&mut self) -> Vec<(HostIndex, DaemonMsg)> {
        let configuration = self.configuration;
        let messages = self.agreement.as_mut().map(Agreement::take_messages).unwrap_or_default();
        let log = |message| DaemonMsg::Log { configuration, message };
        messages.into_iter().map(|(to, message)| (to, log(message))).collect()
    }

    /// What is still to be said about the log of the configuration before.
    pub fn take_parting(&mut self) -> Vec<(HostIndex, DaemonMsg)> {
        std::mem::take(&mut self.parting)
    }

    pub fn tick(&mut self) {
        if let Some(agreement) = &mut self.agreement {
            agreement.tick();
        }
    }

    /// The deputies that should be, of the hosts that can be: the master, and those with the smallest indices; an odd number, as an even
    /// one outlives no more losses. If they are others than those that are, they are proposed.
    pub fn propose_deputies(&mut self, mut live: Vec<HostIndex>) {
        if self.appoints || !self.is_master {
            return;
        }
        live.retain(|&host| host != self.own);
        let count = match (live.len() + 1).min(self.master.deputies_max().max(1)) {
            count if count > 2 && count.is_multiple_of(2) => count - 1,
            count => count,
        };
        live.truncate(count - 1);
        live.push(self.own);
        live.sort_unstable();
        // A log that is long ends with its configuration.
        if live != self.master.deputies() || self.agreement.as_ref().is_some_and(Agreement::is_long) {
            self.appoints = true;
            self.propose(Command::Appoint { deputies: live });
        }
    }

    /// A deputy has lost the master. Whether a majority has, this host among them.
    pub fn witness(&mut self, host: HostIndex) -> bool {
        if self.deputies().contains(&host) {
            self.witnesses.insert(host);
        }
        self.witnesses.contains(&self.own) && self.is_majority(self.witnesses.len())
    }

    fn is_majority(&self, count: usize) -> bool {
        2 * count > self.deputies().len()
    }

    /// Deputies other than this host and that one.
    pub fn others(&self, but: HostIndex) -> Vec<HostIndex> {
        self.deputies().iter().copied().filter(|&host| host != self.own && host != but).collect()
    }

    /// Whether the deputies to which the master has links are a majority, with itself.
    pub fn has_majority(&self, is_linked: impl Fn(HostIndex) -> bool) -> bool {
        let here = self.deputies().iter().filter(|&&host| host == self.own || is_linked(host)).count();
        self.is_majority(here)
    }

    /// A deputy's daemon is proved to have ended.
    pub fn note_dead(&mut self, host: HostIndex) {
        self.dead.insert(host);
    }

    /// A daemon has linked: it is not the one of its index that has ended. Indices are given again after 4095 additions.
    pub fn note_alive(&mut self, host: HostIndex) {
        self.dead.remove(&host);
    }

    /// Whether a daemon is proved to have ended.
    pub fn is_dead(&self, host: HostIndex) -> bool {
        self.dead.contains(&host)
    }

    /// Whether other deputies than this one, the master, can elect another. The master asks when it has no majority. A daemon
    /// that is proved to have ended did not lose this one before, so it has not voted, and never will. A host that has been removed from
    /// the machine may vote, but is never elected: the log in which a majority has its removal comes before its election. Of two, the
    /// other one succeeds alone only if it `takes_silent` masters' places.
    pub fn can_elect(&self, takes_silent: bool) -> bool {
        let voters = self.deputies().iter().filter(|&&host| host != self.own && !self.is_dead(host));
        let voters: Vec<HostIndex> = voters.copied().collect();
        let has_candidate = voters.iter().any(|&host| self.master.members().contains(host));
        let is_pair = self.deputies().len() == 2;
        has_candidate && (self.is_majority(voters.len()) || is_pair && takes_silent)
    }

    /// Without the agreement of others, which can reach none any more: this host is the only deputy from now on. What may have been
    /// agreed on is.
    pub fn go_alone(&mut self) {
        warn!(lost = ?self.others(self.own), "goes on as the only deputy");
        if let Some(mut agreement) = self.agreement.take() {
            let rest = agreement.take_accepted();
            self.note_decided(&rest);
        }
        self.decided.extend(self.proposed.drain(..).map(|proposal| proposal.command));
        self.appoints = true;
        self.decided.push_back(Command::Appoint { deputies: vec![self.own] });
    }

    /// As [`Self::go_alone`], in the place of the master, which was the other one of two.
    pub fn succeed_alone(&mut self, command: Command) {
        self.go_alone();
        self.claims = true;
        self.propose(command);
    }
}

/// The master's state on its way to this host, which is to be a deputy.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    configuration: u64,
    bytes: Vec<u8>,
}

impl Incoming {
    /// A piece; the deputy, if it was the last.
    pub fn add(
        &mut self,
        own: HostIndex,
        (configuration, applied): (u64, u64),
        more: bool,
        piece: &Blob,
    ) -> Option<Deputy> {
        if configuration != self.configuration {
            *self = Self { configuration, bytes: Vec::new() };
        }
        if self.bytes.len() + piece.0.len() > codec::LARGE_MAX {
            warn!("the master's state is longer than {} bytes: not taken", codec::LARGE_MAX);
            self.bytes = Vec::new();
            return None;
        }
        self.bytes.extend_from_slice(&piece.0);
        if more {
            return None;
        }
        match codec::decode_large::<Master>(&std::mem::take(&mut self.bytes)) {
            Ok(master) => {
                let mut deputy = Deputy::with(own, configuration, master);
                if let Some(agreement) = &mut deputy.agreement {
                    agreement.skip(applied);
                    agreement.ask_leader(deputy.master.seat());
                }
                Some(deputy)
            }
            Err(error) => {
                warn!(%error, "the master's state cannot be read: this host is no deputy");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn what_is_proved_of_a_daemon_holds_for_later_deputies_until_its_index_links_again() {
        let config = Config::for_tests();
        let own = config.entry();
        let mut deputy = Deputy::first(Master::new(&config, own));
        let [two, three] = [2, 3].map(|index| HostIndex::new(index).expect("an index"));
        for ended in [two, three] {
            deputy.note_dead(ended);
        }
        deputy.carry_out(Command::Appoint { deputies: vec![HostIndex::MASTER, two] });
        assert!(deputy.begin_configuration());
        assert!(deputy.is_dead(two) && !deputy.is_dead(three));
        deputy.note_alive(two);
        assert!(!deputy.is_dead(two));
    }
}
