//! Owners of hosts: whether this host's is there, and what is known of the others'.
//!
//! A workstation belongs first to its owner (*A Model for Adaptive Migration and Coscheduling*). While the owner is there, the host is
//! given no tasks, and those that it has are held.

use crate::event::{Now, OwnerSign};
use pvm_wire::HostIndex;
use pvm_wire::owner::{Held, OwnerRule, OwnerSaid, OwnerState, Ownership};
use std::collections::BTreeSet;
use std::time::Duration;

/// What is known of owners.
#[derive(Debug)]
pub(crate) struct Owners {
    host: HostIndex,
    ownership: Ownership,
    /// What a person has said of this host's owner, for as long as it counts.
    said: Option<bool>,
    signs: Signs,
    is_here: bool,
    /// What the master was told.
    told: Option<bool>,
    /// The hosts whose owners are there, this one left out: as they have said to the master, or as the master has said.
    others: BTreeSet<HostIndex>,
    /// As the master: all are still to be told.
    is_news: bool,
}

/// What has been told last of this host's owner.
#[derive(Debug, Default)]
struct Signs {
    /// Until when the last input counts.
    input_counts_until: Option<Now>,
    session: bool,
    busy: bool,
    /// By the command of the rule.
    says: bool,
}

impl Signs {
    /// Whether the owner is there, by a rule.
    fn show_owner(&self, rule: &OwnerRule, now: Now) -> bool {
        match rule {
            OwnerRule::None => false,
            OwnerRule::Idle(_) => {
                self.session || self.busy || self.input_counts_until.is_some_and(|until| now < until)
            }
            OwnerRule::Run(_) => self.says,
        }
    }
}

impl Owners {
    pub fn new(host: HostIndex, ownership: Ownership) -> Self {
        Self {
            host,
            ownership,
            said: None,
            signs: Signs::default(),
            is_here: false,
            told: None,
            others: BTreeSet::new(),
            is_news: false,
        }
    }

    /// Whether the owner of a host is there, as far as this host knows.
    pub fn is_here(&self, host: HostIndex) -> bool {
        if host == self.host { self.is_here } else { self.others.contains(&host) }
    }

    /// Whether the owner of this host is there.
    pub fn is_own_here(&self) -> bool {
        self.is_here
    }

    /// How tasks of this host are held.
    pub fn held(&self) -> Held {
        self.ownership.held
    }

    pub fn state(&self, tasks: u32) -> OwnerState {
        OwnerState {
            is_here: self.is_here,
            is_said: self.said.is_some(),
            ownership: self.ownership.clone(),
            tasks: if self.is_here { tasks } else { 0 },
        }
    }

    /// Something tells of the owner. After how long to decide anew if nothing else tells of the owner.
    pub fn sign(&mut self, sign: OwnerSign, now: Now) -> Option<Duration> {
        match sign {
            OwnerSign::Input { ago } => {
                let OwnerRule::Idle(seconds) = self.ownership.rule else { return None };
                let left = Duration::from_secs(seconds.into()).checked_sub(ago)?;
                let until = self.signs.input_counts_until.unwrap_or_default().max(now + left);
                self.signs.input_counts_until = Some(until);
                return until.checked_sub(now);
            }
            OwnerSign::Session(is_used) => self.signs.session = is_used,
            OwnerSign::Busy(is_busy) => self.signs.busy = is_busy,
            OwnerSign::Says(is_here) => self.signs.says = is_here,
        }
        None
    }

    /// A person says whether the owner is there, or that the rule decides.
    pub fn say(&mut self, said: OwnerSaid) {
        self.said = match said {
            OwnerSaid::Here => Some(true),
            OwnerSaid::Gone => Some(false),
            OwnerSaid::Auto => None,
        };
    }

    /// Decides anew whether the owner is there; the answer if it is another one.
    pub fn decide(&mut self, now: Now) -> Option<bool> {
        let is_here = self.said.unwrap_or_else(|| self.signs.show_owner(&self.ownership.rule, now));
        (std::mem::replace(&mut self.is_here, is_here) != is_here).then_some(is_here)
    }

    /// What the master is to be told, if it does not know.
    pub fn take_report(&mut self) -> Option<bool> {
        // A new master assumes that all owners are away until their hosts say otherwise.
        let is_known = self.told.unwrap_or(false) == self.is_here;
        self.told = Some(self.is_here);
        (!is_known).then_some(self.is_here)
    }

    /// As the master: a host tells of its owner.
    pub fn heard(&mut self, host: HostIndex, is_here: bool) {
        // This host's own state says more than its message.
        let is_new =
            host == self.host || if is_here { self.others.insert(host) } else { self.others.remove(&host) };
        self.is_news |= is_new;
    }

    /// As the master: members have joined, which know nothing.
    pub fn joined(&mut self) {
        self.is_news |= self.is_here || !self.others.is_empty();
    }

    /// As the master: the hosts whose owners are there, if all are to be told.
    pub fn take_news(&mut self) -> Option<Vec<HostIndex>> {
        std::mem::take(&mut self.is_news).then(|| self.all().collect())
    }

    /// The hosts whose owners are there.
    pub fn all(&self) -> impl Iterator<Item = HostIndex> {
        let own = self.is_here.then_some(self.host);
        self.others.iter().copied().chain(own)
    }

    /// The master says which hosts' owners are there.
    pub fn sent(&mut self, hosts: Vec<HostIndex>) {
        let own = self.host;
        self.others = hosts.into_iter().filter(|&host| host != own).collect();
    }

    pub fn gone(&mut self, host: HostIndex) {
        self.is_news |= self.others.remove(&host);
    }

    /// There is another master, which may be this host: it has to hear of all owners.
    pub fn new_master(&mut self) {
        self.told = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn owners(rule: &str) -> Owners {
        let ownership = Ownership { rule: rule.parse().unwrap(), held: Held::Stopped };
        Owners::new(HostIndex::MASTER, ownership)
    }

    #[test]
    fn input_counts_for_its_time() {
        let mut owners = owners("idle:10s");
        assert_eq!(owners.decide(Now::ZERO), None);
        assert_eq!(owners.sign(OwnerSign::Input { ago: 4 * SECOND }, 20 * SECOND), Some(6 * SECOND));
        assert_eq!(owners.decide(20 * SECOND), Some(true));
        // What is heard late does not make it shorter.
        assert_eq!(owners.sign(OwnerSign::Input { ago: 8 * SECOND }, 21 * SECOND), Some(5 * SECOND));
        assert_eq!(owners.decide(Duration::from_millis(25_999)), None);
        assert_eq!(owners.decide(26 * SECOND), Some(false));
        assert_eq!(owners.sign(OwnerSign::Input { ago: 11 * SECOND }, 30 * SECOND), None);
        assert_eq!(owners.decide(30 * SECOND), None);
        owners.sign(OwnerSign::Session(true), 30 * SECOND);
        assert_eq!(owners.decide(30 * SECOND), Some(true));
        owners.sign(OwnerSign::Busy(true), 31 * SECOND);
        owners.sign(OwnerSign::Session(false), 31 * SECOND);
        assert_eq!(owners.decide(31 * SECOND), None);
        owners.sign(OwnerSign::Busy(false), 32 * SECOND);
        assert_eq!(owners.decide(32 * SECOND), Some(false));
    }

    #[test]
    fn what_a_person_says_goes_before_the_rule() {
        let mut owners = owners("run:x");
        owners.sign(OwnerSign::Input { ago: Duration::ZERO }, Now::ZERO);
        assert_eq!(owners.decide(Now::ZERO), None, "the rule does not look at input");
        owners.sign(OwnerSign::Says(true), Now::ZERO);
        assert_eq!(owners.decide(Now::ZERO), Some(true));
        owners.say(OwnerSaid::Gone);
        assert_eq!(owners.decide(Now::ZERO), Some(false));
        owners.say(OwnerSaid::Auto);
        assert_eq!(owners.decide(Now::ZERO), Some(true));
        assert_eq!((owners.state(3).tasks, owners.state(3).is_said), (3, false));
    }

    #[test]
    fn the_master_hears_what_it_does_not_know_and_tells_all() {
        let (mut owners, other) = (owners("none"), HostIndex::new(2).unwrap());
        assert_eq!(owners.take_report(), None);
        owners.say(OwnerSaid::Here);
        owners.decide(Now::ZERO);
        assert_eq!((owners.take_report(), owners.take_report()), (Some(true), None));
        owners.heard(HostIndex::MASTER, true);
        owners.heard(other, true);
        assert_eq!((owners.take_news(), owners.take_news()), (Some(vec![other, HostIndex::MASTER]), None));
        owners.new_master();
        assert_eq!(owners.take_report(), Some(true));
        owners.gone(other);
        assert!(!owners.is_here(other) && owners.take_news().is_some());
        owners.sent(vec![other]);
        assert!(owners.is_here(other) && owners.is_here(HostIndex::MASTER));
    }
}
