//! Hints for hosts on which teams of tasks take turns.
//!
//! Messages that daemons forward carry their sender's epoch. Messages on direct routes pass no daemon: the sender reads its host's
//! epoch from a page that the daemon keeps, and sends it on the route before the first message of that epoch. A receiver whose own
//! host has a smaller epoch reports it to its daemon. A task that is held reads nothing: so a task that waits, and has had no answer on such
//! routes for some time, reports the receivers to its daemon once. Where the receivers run, answers come sooner, and no daemon has work.
//!
//! Tasks of one host have one epoch, that of the page: messages in shared memory carry none.

use super::{Engine, Payload, xdr_header};
use crate::Result;
use pvm_shm::page::View;
use pvm_wire::Tid;
use pvm_wire::body::BodyWriter;
use pvm_wire::calls::{Request, turns};
use pvm_wire::codes::{CONTEXT_TC, Tcx};
use pvm_wire::coscheduling::Turn;
use pvm_wire::tuned::{UNANSWERED, UNTOLD_SLEEP};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

/// Most receivers that are reported in one wait.
const RECEIVERS_MAX: usize = 256;

/// Whether the daemon wants hints, and the receivers to report.
#[derive(Debug, Default)]
pub(super) struct Turns {
    are_taken: bool,
    /// The daemon wants reports of this task's sleeps.
    reports_sleep: bool,
    /// Number of this task's team, 0 if it takes no turns.
    team: u32,
    page: Page,
    /// The daemon knows that this task sends on direct routes.
    is_direct: bool,
    /// Receivers on direct routes that have sent nothing since, and were not reported.
    silent: Vec<Tid>,
    /// Since when there are any.
    since: Option<Instant>,
}

/// The page in which this task reads the team that has the turn.
#[derive(Debug, Default)]
enum Page {
    /// Not needed so far.
    #[default]
    Unknown,
    /// Requested, or not available.
    Asked,
    /// Mapped into this process.
    Mapped(View),
}

impl Turns {
    /// The daemon has said whether turns are taken on any host.
    pub(super) fn set(&mut self, are_taken: bool, team: u32, reports_sleep: bool) {
        (self.are_taken, self.team, self.reports_sleep) = (are_taken, team, reports_sleep);
        self.take_silent();
    }

    /// The daemon has sent its page. If it cannot be mapped, messages on direct routes have no epoch, and all else is as before.
    pub(super) fn set_page(&mut self, descriptors: &[OwnedFd]) {
        if let Some(Ok(view)) = descriptors.first().map(|page| View::new(page.as_fd())) {
            self.page = Page::Mapped(view);
        }
    }

    /// The team that has the turn, and the host's epoch.
    fn now(&self) -> Option<Turn> {
        match &self.page {
            Page::Mapped(view) => Some(Turn::from_word(view.get())),
            Page::Unknown | Page::Asked => None,
        }
    }

    /// How many notices of changed groups the daemon has sent to tasks of this host.
    #[inline]
    pub(super) fn group_changes(&self) -> Option<u64> {
        match &self.page {
            Page::Mapped(view) => Some(view.group_changes()),
            Page::Unknown | Page::Asked => None,
        }
    }

    /// A message was sent on a direct route.
    pub(super) fn note_receiver(&mut self, dst: Tid) {
        if self.are_taken && self.silent.len() < RECEIVERS_MAX && !self.silent.contains(&dst) {
            self.silent.push(dst);
            self.since.get_or_insert_with(Instant::now);
        }
    }

    /// Messages of this task have come on a direct route: it has the turn.
    pub(super) fn note_answer(&mut self, src: Tid) {
        if !self.silent.is_empty() {
            self.silent.retain(|&dst| dst != src);
            self.since = self.since.filter(|_| !self.silent.is_empty());
        }
    }

    fn take_silent(&mut self) -> Vec<Tid> {
        self.since = None;
        std::mem::take(&mut self.silent)
    }

    /// When the daemon is to know of a sleep that begins now, if it is not over by then; `None`: never.
    pub(super) fn report_at(&self, now: Instant) -> Option<Instant> {
        let unanswered = self.since.map(|since| since + UNANSWERED);
        unanswered.or_else(|| self.reports_sleep.then(|| now + UNTOLD_SLEEP))
    }
}

impl Engine {
    /// Names this task's team: tasks that want to run at the same time. What it spawns from now on is of that team, too.
    pub fn join_team(&mut self, name: &str) -> Result<()> {
        self.call(&turns::JoinTeam { name: name.to_owned() })
    }

    /// Before a message on a direct route: sends the epoch of this host, if it was not sent before and this task's team has the
    /// turn here. `false` if the route has broken.
    pub(super) fn send_epoch(&mut self, dst: Tid) -> Result<bool> {
        if !self.hints.are_taken {
            return Ok(true);
        }
        self.ask_for_page(true);
        let now = self.hints.now().filter(|now| now.is_of(self.hints.team)).map(Turn::epoch);
        let Some(epoch) = now.filter(|&epoch| self.peers.must_send_epoch(dst, epoch)) else {
            return Ok(true);
        };
        let body = BodyWriter::new().int(epoch.count.cast_signed()).int(i32::from(epoch.origin)).finish();
        self.write_directly(dst, xdr_header(Tcx::Epoch.tag(), CONTEXT_TC, 0), &[&body])
    }

    /// A task of another host has sent its host's epoch. If it is greater than this host's, the daemon gets a report.
    pub(super) fn receive_epoch(&mut self, src: Tid, count: i32, origin: i32) {
        let epoch = Turn { count: count.cast_unsigned(), origin: origin as u16, team: 0 };
        self.ask_for_page(true);
        if !self.is_near(src) && self.hints.now().is_none_or(|now| epoch.is_after(now)) {
            self.defer_request(&turns::Epoch { by: src, count: count.cast_unsigned(), origin });
        }
    }

    /// Asks for the page, once, and once more when this task first sends on a direct route.
    pub(super) fn ask_for_page(&mut self, direct: bool) {
        let is_new = matches!(self.hints.page, Page::Unknown) || direct && !self.hints.is_direct;
        if !is_new || !self.daemon_is_ours() {
            return;
        }
        if let Some(route) = &mut self.route {
            route.expect_descriptors();
            if matches!(self.hints.page, Page::Unknown) {
                self.hints.page = Page::Asked;
            }
            self.hints.is_direct |= direct;
            self.defer_request(&turns::Page { direct });
        }
    }

    /// This task sleeps: reports the receivers of its last messages, and the sleep if the daemon wants to know. Whether it does.
    pub(super) fn report_sleep(&mut self) -> Result<bool> {
        let receivers = self.hints.take_silent();
        if !receivers.is_empty() {
            self.send_daemon_request(&turns::Waiting { receivers })?;
        }
        if self.hints.reports_sleep {
            self.send_daemon_request(&turns::Asleep {})?;
        }
        Ok(self.hints.reports_sleep)
    }

    /// Sends the daemon a request that has no answer, at once.
    pub(super) fn send_daemon_request<R: Request>(&mut self, request: &R) -> Result<()> {
        let header = xdr_header(R::TAG, R::CONTEXT, 0);
        self.send_by_daemon(Tid::MY_DAEMON, header, Payload::Parts(&[&request.encode()]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_are_noted_on_demand_and_once() {
        let mut turns = Turns::default();
        turns.note_receiver(Tid::from_bits(0x40001));
        assert!(turns.silent.is_empty());
        turns.set(true, 7, false);
        (0..1000).for_each(|number| turns.note_receiver(Tid::from_bits(0x40001 + number % 2)));
        assert_eq!(turns.silent.len(), 2);
        (0..1000).for_each(|number| turns.note_receiver(Tid::from_bits(0x40001 + number)));
        assert_eq!(turns.silent.len(), RECEIVERS_MAX);
        turns.set(false, 7, false);
        assert!(turns.silent.is_empty() && turns.since.is_none());
    }

    #[test]
    fn a_sleep_is_reported_when_a_receiver_has_been_silent_for_long() {
        let [one, other] = [0x40001, 0x40002].map(Tid::from_bits);
        let (mut turns, start) = (Turns::default(), Instant::now());
        turns.set(true, 7, false);
        assert_eq!(turns.report_at(start), None, "nothing was sent");
        turns.note_receiver(one);
        turns.note_receiver(other);
        turns.note_answer(one);
        let due = turns.report_at(start + UNTOLD_SLEEP).expect("the other one has not answered");
        assert!(due <= Instant::now() + UNANSWERED, "its time counts from the message on");
        turns.note_answer(other);
        assert_eq!(turns.report_at(start), None);
        turns.set(true, 7, true);
        assert_eq!(
            turns.report_at(start),
            Some(start + UNTOLD_SLEEP),
            "the daemon wants to know of all long ones"
        );
    }
}
