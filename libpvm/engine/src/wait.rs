//! Waiting at all sockets at once, and reading those that are readable.
//!
//! Every task that waits for a message, in C, Fortran and Rust, sleeps in [`sleep`], which reports sleeps to the daemon.

use super::Engine;
use super::peers::Peer;
use super::route::{Arrival, Condition};
use super::spinner::Origin;
use crate::{Error, Result};
use pvm_wire::calls::turns::Awake;
use pvm_wire::limits::PIECE_MAX;
use pvm_wire::tuned::{ROUTE_FAR_FROM, ROUTE_TURN};
use pvm_wire::{Message, PvmError, Tid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::time::{Duration, Instant};

/// A task that waits for a message.
///
/// The calls of the C interface hold nothing while they wait, so that signal handlers can call the library: the engine is there only
/// within [`Waiter::with`], and a handler may have left the virtual machine meanwhile.
pub trait Waiter {
    /// How its calls fail.
    type Error;

    /// Does something with the engine; `None` if this process is no task any more.
    fn with<R>(
        &mut self,
        act: impl FnOnce(&mut Engine) -> Result<R>,
    ) -> std::result::Result<Option<R>, Self::Error>;

    /// Waits at the engine's descriptors until this time, for ever without one. Whether the wait has ended before: by something that has
    /// come, or a signal.
    fn await_input(&mut self, deadline: Option<Instant>) -> std::result::Result<bool, Self::Error>;
}

/// Sleeps until a message arrives or the time is over; whether one may have arrived. A long sleep is reported to the daemon, if it wants
/// that or others are to know.
pub fn sleep<W: Waiter>(waiter: &mut W, deadline: Option<Instant>) -> std::result::Result<bool, W::Error> {
    let begin = Instant::now();
    let came = match waiter.with(|engine| Ok(engine.hints.report_at(begin)))? {
        Some(Some(soon)) => sleep_and_report(waiter, soon, deadline)?,
        Some(None) => waiter.await_input(deadline)?,
        None => true,
    };
    waiter.with(|engine| {
        engine.neighbours.spinner().slept(begin.elapsed());
        Ok(())
    })?;
    Ok(came)
}

/// Sleeps where teams take turns. A sleep beyond `soon` is reported, so that daemons let others run: those that this task waits for, and
/// those that can use its turn.
fn sleep_and_report<W: Waiter>(
    waiter: &mut W,
    soon: Instant,
    deadline: Option<Instant>,
) -> std::result::Result<bool, W::Error> {
    let first = deadline.map_or(soon, |deadline| deadline.min(soon));
    let came = waiter.await_input(Some(first))?;
    if came || deadline.is_some_and(|deadline| deadline <= soon) {
        return Ok(came);
    }
    let is_asleep = waiter.with(Engine::report_sleep)?;
    let came = waiter.await_input(deadline);
    if is_asleep == Some(true) {
        waiter.with(|engine| engine.send_daemon_request(&Awake {}))?;
    }
    came
}

/// A Rust program's calls have the engine all the time.
impl Waiter for Engine {
    type Error = Error;

    fn with<R>(&mut self, act: impl FnOnce(&mut Engine) -> Result<R>) -> Result<Option<R>> {
        act(self).map(Some)
    }

    fn await_input(&mut self, deadline: Option<Instant>) -> Result<bool> {
        let ready = self.wait_ready(None, deadline)?;
        self.read(&ready)?;
        Ok(ready.is_any())
    }
}

/// The descriptors that are ready.
#[derive(Debug, Default)]
pub(super) struct Ready {
    daemon: bool,
    rung: bool,
    peers: Vec<Tid>,
    writable: bool,
}

impl Ready {
    /// Whether it is anything.
    pub(super) fn is_any(&self) -> bool {
        self.daemon || self.rung || self.writable || !self.peers.is_empty()
    }
}

impl Engine {
    /// Waits until a descriptor is readable, or the socket that leads to `sending_to` is writable. Beyond the queue's limit
    /// nothing is read: a sender only waits to write, a receiver fails.
    pub(super) fn wait_ready(&self, sending_to: Option<Tid>, deadline: Option<Instant>) -> Result<Ready> {
        let full = self.is_full();
        if full && sending_to.is_none() {
            self.check_room()?;
        }
        let daemon = self.route.as_ref().ok_or_else(Error::lost)?;
        let timers = self.ends.timers().map(|(tid, fd)| (tid, fd, false));
        let sockets = self.peers.sockets().chain(timers);
        let all = [(Tid::MY_DAEMON, daemon.fd(), false)].into_iter().chain(sockets);
        let wanted = all.filter_map(|(tid, fd, is_calling)| {
            let read = if is_calling { PollFlags::OUT } else { PollFlags::IN };
            let write = if sending_to == Some(tid) { PollFlags::OUT } else { PollFlags::empty() };
            let events = if full { write } else { read | write };
            (!events.is_empty()).then(|| (tid, read, PollFd::from_borrowed_fd(fd, events)))
        });
        let (whose, mut fds): (Vec<_>, Vec<_>) = wanted.map(|(tid, read, fd)| ((tid, read), fd)).unzip();
        let bell = self.neighbours.bell().filter(|_| !full);
        fds.extend(bell.iter().map(|bell| PollFd::from_borrowed_fd(*bell, PollFlags::IN)));
        let may_sleep = deadline.is_none_or(|end| end > Instant::now());
        let must_look = may_sleep && bell.is_some() && !self.neighbours.doze();
        let waited = wait(&mut fds, if must_look { Some(Instant::now()) } else { deadline });
        if may_sleep {
            self.neighbours.wake();
        }
        waited?;
        let rung = bell.is_some() && fds.last().is_some_and(|bell| !bell.revents().is_empty());
        let mut ready = Ready { rung: rung || must_look, ..Ready::default() };
        for ((tid, read), fd) in whose.into_iter().zip(&fds) {
            let found = fd.revents();
            let is_come = !full && found.intersects(read | PollFlags::HUP | PollFlags::ERR);
            ready.writable |= sending_to == Some(tid) && !found.is_empty();
            if tid == Tid::MY_DAEMON {
                ready.daemon = is_come;
            } else if is_come {
                ready.peers.push(tid);
            }
        }
        Ok(ready)
    }

    /// Reads from the daemon without polling; with direct routes nothing, since their sockets have to be polled.
    pub(super) fn read_now(&mut self) -> Result<bool> {
        if !self.peers.is_empty() {
            return Ok(false);
        }
        self.check_room()?;
        let (came, messages) = self.read_daemon()?;
        self.take_from_daemon(messages);
        Ok(came)
    }

    /// Reads everywhere once; whether anything came.
    pub(super) fn read_all_ready(&mut self) -> Result<bool> {
        let ready = self.wait_ready(None, Some(Instant::now()))?;
        self.read(&ready)?;
        Ok(ready.is_any())
    }

    /// Reads what is ready. What has come from the daemon is queued behind all that was on direct routes by then:
    /// so the notice of a task's end, and what it sends by the daemon after its route broke, do not overtake.
    pub(super) fn read(&mut self, ready: &Ready) -> Result<()> {
        let messages = if ready.daemon { self.read_daemon()?.1 } else { Vec::new() };
        // Only a read sees a route's end: the second loop reads as many bytes as are there.
        for &tid in &ready.peers {
            self.read_peer(tid, false);
        }
        if !messages.is_empty() {
            for tid in self.peers.tids() {
                self.read_peer(tid, true);
            }
        }
        self.take_from_daemon(messages);
        if ready.rung {
            self.neighbours.clear_bell();
            self.take_rings(usize::MAX);
        }
        Ok(())
    }

    fn read_daemon(&mut self) -> Result<(bool, Vec<Message>)> {
        let mut messages = Vec::new();
        let route = self.route.as_mut().ok_or_else(Error::lost)?;
        match route.read(&mut messages) {
            Ok(Arrival::Closed | Arrival::Broken) => Err(self.lose()),
            Ok(Arrival::Some(_)) => Ok((true, messages)),
            Ok(Arrival::None) => Ok((false, messages)),
            Err(error) => {
                self.lose();
                Err(error)
            }
        }
    }

    fn take_from_daemon(&mut self, messages: Vec<Message>) {
        // Messages of neighbours precede those that the daemon has sent later.
        if !messages.is_empty() {
            self.drain_rings();
        }
        if messages.iter().any(|message| message.body.len() >= PIECE_MAX) {
            self.long_body_came();
        }
        let mut passed = Vec::new();
        for message in messages {
            if message.src.is_task() && self.is_near(message.src) {
                self.neighbours.note_sender();
            } else if message.src.is_task() {
                self.neighbours.spinner().expect(Origin::Daemon);
            }
            if let Some(tid) = self.ends_open_route(&message) {
                self.expect_end(tid, Some(message));
                continue;
            }
            self.peers.by_daemon(message, &mut passed);
            for message in passed.drain(..) {
                self.take(message);
            }
        }
    }

    fn read_peer(&mut self, tid: Tid, to_the_end: bool) {
        match self.peers.get(tid) {
            Some(Peer::Granted(..)) => self.accept_route(tid),
            Some(Peer::Calling(..)) => self.check_call(tid),
            _ => {}
        }
        match self.read_route(tid, to_the_end) {
            Condition::Ended => {
                self.note_unacknowledged(tid);
                self.forget_route(tid);
            }
            Condition::Broken => self.break_off_route(tid),
            Condition::Open if self.ends.is_silent(tid) => self.break_off_route(tid),
            Condition::Open => {}
        }
    }

    /// Reads an open route, once or all that is there now.
    pub(super) fn read_route(&mut self, tid: Tid, to_the_end: bool) -> Condition {
        let (is_near, sent) = (self.is_near(tid), self.sent.messages);
        let Some(route) = self.peers.inward(tid) else { return Condition::Open };
        let mut messages = Vec::new();
        let mut left = if to_the_end { route.readable() } else { 1 };
        let (mut condition, mut turn) = (Condition::Open, ROUTE_TURN);
        while left > 0 {
            match route.read(&mut messages) {
                Ok(Arrival::Some(count)) => {
                    (left, turn) = (left.saturating_sub(count), turn.saturating_sub(count));
                    if left == 0 && turn > 0 && route.is_amid_long() {
                        // More of it has arrived, or is about to.
                        left = 1;
                    }
                }
                Ok(Arrival::None) => break,
                Ok(Arrival::Closed) => (condition, left) = (Condition::Ended, 0),
                // A peer that violates the protocol is not read any more on this route: it is told, and sends by the daemon.
                Ok(Arrival::Broken) | Err(_) => (condition, left) = (Condition::Broken, 0),
            }
        }
        if let Some(last) = messages.last() {
            route.note_use(sent);
            self.ends.heard(tid);
            self.hints.note_answer(tid);
            let is_far = !is_near && last.body.len() >= ROUTE_FAR_FROM;
            self.neighbours.spinner().expect(if is_far { Origin::Route } else { Origin::Near });
        }
        let mut passed = Vec::new();
        for message in messages {
            self.peers.on_route(message, &mut passed);
        }
        self.peers.count_held();
        for message in passed {
            self.take(message);
        }
        condition
    }
}

fn wait(fds: &mut [PollFd<'_>], deadline: Option<Instant>) -> Result<()> {
    loop {
        let left = deadline.map(|end| timespec(end.saturating_duration_since(Instant::now())));
        match poll(fds, left.as_ref()) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(Error::system(PvmError::SysErr, "waiting for messages", error)),
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec: seconds, tv_nsec: duration.subsec_nanos().into() }
}
