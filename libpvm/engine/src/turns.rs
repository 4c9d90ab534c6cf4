//! Hints for hosts on which teams of tasks take turns.
//!
//! What goes by daemons carries its sender's epoch there. What goes on direct routes passes by no daemon: so the sender reads its
//! host's epoch from a page that the daemon keeps, and tells it on the route before the first message that has it. Whoever is
//! told a greater one than its own host's tells its daemon. A task that is kept from running reads nothing: so who has to wait,
//! after it has sent on such routes, tells its daemon once to whom.
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
use std::os::fd::{AsFd, OwnedFd};

/// Receivers that are told of in one wait.
const RECEIVERS_MAX: usize = 256;

/// Whether anybody wants hints, and about whom.
#[derive(Debug, Default)]
pub(super) struct Turns {
    are_taken: bool,
    /// The daemon wants to know when this task sleeps.
    tells_sleep: bool,
    /// Number of this task's team, 0 if it takes no turns.
    team: u32,
    page: Page,
    sent: Vec<Tid>,
}

/// Where this task reads whose turn it is.
#[derive(Debug, Default)]
enum Page {
    /// It has had no use for it.
    #[default]
    Unknown,
    /// It has asked, or will never have it.
    Asked,
    /// Here.
    Seen(View),
}

impl Turns {
    /// The daemon has told whether turns are taken anywhere.
    pub(super) fn set(&mut self, are_taken: bool, team: u32, tells_sleep: bool) {
        (self.are_taken, self.team, self.tells_sleep) = (are_taken, team, tells_sleep);
        self.sent.clear();
    }

    /// The daemon has given its page. Without it messages on direct routes have no epoch, and all else is as before.
    pub(super) fn see(&mut self, descriptors: &[OwnedFd]) {
        if let Some(Ok(view)) = descriptors.first().map(|page| View::new(page.as_fd())) {
            self.page = Page::Seen(view);
        }
    }

    /// Whose turn it is, and the host's epoch.
    fn now(&self) -> Option<Turn> {
        match &self.page {
            Page::Seen(view) => Some(Turn::from_word(view.get())),
            Page::Unknown | Page::Asked => None,
        }
    }

    /// Something was sent on a direct route.
    pub(super) fn note(&mut self, dst: Tid) {
        if self.are_taken && self.sent.len() < RECEIVERS_MAX && !self.sent.contains(&dst) {
            self.sent.push(dst);
        }
    }
}

impl Engine {
    /// Names this task's team: tasks that want to run at the same time. What it spawns from now on is of that team, too.
    pub fn join_team(&mut self, name: &str) -> Result<()> {
        self.call(&turns::JoinTeam { name: name.to_owned() })
    }

    /// A message on a direct route follows: first the other is told the epoch of this host, if it has not been and this task's
    /// team has the turn here. `false` if the route has broken.
    pub(super) fn tell_epoch(&mut self, dst: Tid) -> Result<bool> {
        if !self.hints.are_taken {
            return Ok(true);
        }
        self.ask_for_page();
        let now = self.hints.now().filter(|now| now.is_of(self.hints.team)).map(Turn::epoch);
        let Some(epoch) = now.filter(|&epoch| self.peers.must_tell(dst, epoch)) else { return Ok(true) };
        let body = BodyWriter::new().int(epoch.count.cast_signed()).int(i32::from(epoch.origin)).finish();
        self.write_directly(dst, xdr_header(Tcx::Epoch.tag(), CONTEXT_TC, 0), &[&body])
    }

    /// A task of another host says its host's epoch. If it is greater than this one's the daemon is told.
    pub(super) fn hear_epoch(&mut self, src: Tid, count: i32, origin: i32) {
        let told = Turn { count: count.cast_unsigned(), origin: origin as u16, team: 0 };
        self.ask_for_page();
        if src.host() != self.tid().host() && self.hints.now().is_none_or(|now| told.is_after(now)) {
            self.tell_later(&turns::Epoch { by: src, count: count.cast_unsigned(), origin });
        }
    }

    fn ask_for_page(&mut self) {
        if !matches!(self.hints.page, Page::Unknown) || !self.daemon_is_ours() {
            return;
        }
        if let Some(route) = &mut self.route {
            route.expect_descriptors();
            self.hints.page = Page::Asked;
            self.tell_later(&turns::Page {});
        }
    }

    /// This task is about to wait.
    pub(super) fn tell_waiting(&mut self) -> Result<()> {
        if self.hints.sent.is_empty() {
            return Ok(());
        }
        let receivers = std::mem::take(&mut self.hints.sent);
        self.tell_daemon(&turns::Waiting { receivers })
    }

    /// Makes a request of the daemon that is not answered, at once.
    pub(super) fn tell_daemon<R: Request>(&mut self, request: &R) -> Result<()> {
        let header = xdr_header(R::TAG, R::CONTEXT, 0);
        self.send_by_daemon(Tid::MY_DAEMON, header, Payload::Parts(&[&request.encode()]))
    }

    /// Whether the daemon wants to know when this task sleeps.
    pub(super) fn tells_sleep(&self) -> bool {
        self.hints.tells_sleep
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_noted_while_nobody_wants_it_and_nobody_twice() {
        let mut turns = Turns::default();
        turns.note(Tid::from_bits(0x40001));
        assert!(turns.sent.is_empty());
        turns.set(true, 7, false);
        (0..1000).for_each(|number| turns.note(Tid::from_bits(0x40001 + number % 2)));
        assert_eq!(turns.sent.len(), 2);
        (0..1000).for_each(|number| turns.note(Tid::from_bits(0x40001 + number)));
        assert_eq!(turns.sent.len(), RECEIVERS_MAX);
        turns.set(false, 7, false);
        assert!(turns.sent.is_empty());
    }
}
