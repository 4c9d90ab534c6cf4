//! Hosts that leave the machine, and slaves that have lost their link.

use super::{Master, Question};
use crate::addresses::PeerTo;
use crate::effect::{Effect, Effects};
use crate::hosts::DELETED;
use crate::timers::Timer;
use pvm_wire::daemon::{DaemonMsg, FromMaster};
use pvm_wire::{HostIndex, PvmError};
use std::collections::BTreeMap;
use tracing::{info, warn};

impl Master {
    /// The link to a host has ended or cannot be made: the host is out. If its daemon was ending, it has ended.
    pub(super) fn on_host_lost(&mut self, host: HostIndex, reason: &str, has_ended: bool, out: &mut Effects) {
        self.remove(host, reason, out);
        let was_ending = self.departures.end(host, out);
        if has_ended || was_ending {
            self.jobs.note_ended(host);
        }
        if was_ending {
            self.resume_add(out);
        }
    }

    /// A host's daemon says that it ends. Its link stands until it has ended.
    pub(super) fn on_host_ended(&mut self, host: HostIndex, out: &mut Effects) {
        if self.members.contains(host) {
            self.departures.expect(host, out);
        }
        self.remove(host, "it ended", out);
    }

    /// Whether a host has left whose daemon is ending.
    pub fn is_departing(&self, host: HostIndex) -> bool {
        self.departures.contains(host)
    }

    /// A host is out whose daemon can be told to end.
    fn dismiss(&mut self, host: HostIndex, reason: &str, out: &mut Effects) {
        if self.members.contains(host) {
            out.tell(host, DaemonMsg::Halt);
            out.push(Effect::ExpectEnd(host));
            self.departures.expect(host, out);
        }
        self.remove(host, reason, out);
    }

    /// A host is out. All are told.
    fn remove(&mut self, host: HostIndex, reason: &str, out: &mut Effects) {
        // A newcomer has not "failed" as a host: for the task that asked, it could not be started.
        self.on_newcomer_failed(host, PvmError::CantStart, reason, out);
        self.release_starts(host, out);
        out.push(Effect::CloseSession(host));
        self.questions_end(host, out);
        let Some(entry) = self.members.remove(host) else {
            return out.push(Effect::DropLink(host));
        };
        info!(%host, name = entry.name, reason, "host out");
        out.push(Effect::OrderAll(FromMaster::HostGone { host, reason: reason.to_owned() }));
        let places = self.moves.places();
        self.mailbox.hosts_tasks_gone(|tid| places.find(tid) == Some(host));
        self.mailbox.forget_waiters(|to| to.host == host);
        self.groups.host_gone(host, places, out);
        self.moves.host_gone(host);
        self.jobs.host_gone(host);
        self.jobs.measure_links(out);
        self.forget_table_ack(host, out);
    }

    /// `pvm_delhosts`.
    pub(super) fn on_delete_hosts(&mut self, to: PeerTo, names: &[String], out: &mut Effects) {
        let mut results = Vec::with_capacity(names.len());
        let mut chosen = Vec::new();
        for name in names {
            let host = if name == "." { Some(to.host) } else { self.members.by_name(name) };
            results.push(match host {
                None => PvmError::NoHost.code(),
                Some(host) if host == self.seat => PvmError::BadParam.code(),
                Some(host) if chosen.contains(&host) => PvmError::DupHost.code(),
                Some(host) => {
                    chosen.push(host);
                    0
                }
            });
        }
        let is_own = chosen.contains(&to.host);
        if is_own {
            // Answered first: the task that asked is on a host that goes.
            self.departures.answer(to, results.clone(), Vec::new(), out);
        }
        for &host in &chosen {
            self.dismiss(host, DELETED, out);
        }
        if !is_own {
            self.departures.answer(to, results, chosen, out);
        }
    }

    /// A slave reports that its neighbour is silent.
    pub(super) fn on_host_silent(&mut self, from: HostIndex, host: HostIndex, out: &mut Effects) {
        if self.is_large() && self.sessions.has(from) && self.sessions.has(host) && !self.is_asked(host) {
            info!(%from, %host, "a host is silent: it is asked");
            out.push(Effect::Alarm);
            self.ask(host, Question::Silence, out);
        }
    }

    /// A slave has lost its link to another one. In a small machine the master finds out by itself whether the other host is lost. In a large one
    /// the host is lost unless it answers the master in time.
    pub(super) fn on_link_lost(
        &mut self,
        from: HostIndex,
        host: HostIndex,
        has_ended: bool,
        reason: &str,
        out: &mut Effects,
    ) {
        if !self.sessions.has(from) || !self.sessions.has(host) {
            return;
        }
        warn!(%from, %host, reason, "two hosts have lost their link");
        if !self.is_large() || host == self.seat {
            return self.ask(host, Question::LostLink(from), out);
        }
        if has_ended || self.is_asked(host) {
            return self.on_host_lost(host, reason, has_ended, out);
        }
        out.push(Effect::Alarm);
        self.ask(host, Question::LostLink(from), out);
        out.push(Effect::SetTimer(self.settings.grace, Timer::Unanswered(host)));
    }

    /// A host to which another one has lost its link has not answered in time.
    pub(super) fn on_unanswered(&mut self, host: HostIndex, out: &mut Effects) {
        if self.is_asked(host) {
            self.on_host_lost(host, "another host has lost it, and it does not answer", false, out);
        }
    }

    fn is_large(&self) -> bool {
        self.members.len() > self.settings.watched_max
    }

    /// Whether a host was asked whether it lives, and has not answered yet.
    fn is_asked(&self, host: HostIndex) -> bool {
        let is_doubt = |question: &Question| matches!(question, Question::LostLink(_) | Question::Silence);
        self.questions.values().any(|(asked, question)| *asked == host && is_doubt(question))
    }

    /// Both live. The younger one goes, for every pair of hosts must be able to talk.
    fn on_both_live(&mut self, a: HostIndex, b: HostIndex, out: &mut Effects) {
        if !self.sessions.has(a) || !self.sessions.has(b) {
            return;
        }
        let younger = match (self.members.contains(a), self.members.contains(b)) {
            (true, false) => b,
            (false, true) => a,
            // Never the master itself: its links are watched by itself.
            _ if a.max(b) == self.seat => a.min(b),
            _ => a.max(b),
        };
        let other = if younger == a { b } else { a };
        self.dismiss(younger, &format!("it cannot reach host {other}"), out);
    }

    /// Asks a host whether it is there.
    pub(super) fn ask(&mut self, host: HostIndex, question: Question, out: &mut Effects) {
        self.asked += 1;
        self.questions.insert(self.asked, (host, question));
        out.push(Effect::Order(host, FromMaster::Ping { id: self.asked }));
    }

    /// A host is there.
    pub(super) fn on_pong(&mut self, from: HostIndex, id: u64, out: &mut Effects) {
        let Some((host, question)) = self.questions.get(&id).copied().filter(|(host, _)| *host == from)
        else {
            return;
        };
        self.questions.remove(&id);
        match question {
            Question::LostLink(other) => self.on_both_live(other, host, out),
            Question::Silence => {}
            Question::GroupNotice(change) => self.groups.on_notice_heard(change, out),
        }
    }

    /// A host will not answer any more.
    fn questions_end(&mut self, gone: HostIndex, out: &mut Effects) {
        let (over, rest) =
            std::mem::take(&mut self.questions).into_iter().partition(|(_, (host, _))| *host == gone);
        self.questions = rest;
        let over: BTreeMap<u64, (HostIndex, Question)> = over;
        for (_, question) in over.into_values() {
            if let Question::GroupNotice(change) = question {
                self.groups.on_notice_heard(change, out);
            }
        }
    }
}
