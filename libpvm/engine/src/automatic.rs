//! Automatic routes: direct routes for which this task asks by itself, with tasks of other hosts to which it sends again.
//!
//! The task first asks its daemon which library the other has: only this one keeps the order where a route opens while messages are
//! sent, and seals what it sends. Nothing waits: neither for that answer nor for the route.
//!
//! A task has no more than [`AUTOMATIC_ROUTES`]. One more replaces the one that was used least lately, if that has not been used for long.
//!
//! The program does not see these routes. If it polls the descriptors itself, their sockets are behind the first one.

use super::Engine;
use super::direct::ALLOW_DIRECT;
use super::peers::Peer;
use super::route::Route;
use crate::Result;
use pvm_shm::unacknowledged;
use pvm_wire::calls::tasks::ListTasks;
use pvm_wire::calls::{Call, Request};
use pvm_wire::codes::{CONTEXT_TC, EXTENSION_VERSION, task_flags};
use pvm_wire::limits::AUTOMATIC_ROUTES;
use pvm_wire::{Message, MessageHeader, Tid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The message from which on a task has a use for a route.
const FIRST_USE: u32 = 2;

/// A route may be replaced when this task has sent this number of messages since the route was last used. A route that has ended is asked
/// for again after the same number of messages to its task.
const UNUSED: u32 = 1024;

/// Most tasks without a route whose messages are counted. At one more all counts begin anew: their routes open later.
const USES_MAX: usize = 4096;

/// How long nothing may come on the route of a task that has ended, before it counts as read to its end.
const SILENCE: Duration = Duration::from_secs(1);

/// How long a task that leaves waits for other hosts to have what it has sent.
const LINGER: Duration = Duration::from_secs(2);
/// The first of the pauses between two looks, which double, and the longest.
const PAUSE: Duration = Duration::from_micros(50);
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// Candidates for a route, and tasks that have ended while their routes were open.
#[derive(Debug, Default)]
pub(super) struct Automatic {
    uses: HashMap<Tid, Use>,
    /// Questions to the daemon about libraries, by their wait ids.
    questions: HashMap<i32, Tid>,
    /// Tasks that have ended, and whose routes were not read to their ends.
    ended: BTreeMap<Tid, Ended>,
}

/// Messages to a task without a route.
#[derive(Debug, Clone, Copy)]
struct Use {
    sent: u32,
    /// At how many a route is asked for.
    next: u32,
}

#[derive(Debug)]
struct Ended {
    /// Readable when nothing has come on the route for [`SILENCE`].
    timer: OwnedFd,
    /// Notices of its end, for the program.
    notices: Vec<Message>,
}

impl Ended {
    fn new() -> Option<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).ok()?;
        let ended = Self { timer, notices: Vec::new() };
        ended.restart().then_some(ended)
    }

    fn restart(&self) -> bool {
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec { tv_sec: SILENCE.as_secs() as i64, tv_nsec: SILENCE.subsec_nanos().into() };
        let time = Itimerspec { it_interval: none, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &time).is_ok()
    }
}

impl Automatic {
    /// Counts a message by the daemon; whether a route is to be asked for now. Where none comes of it, it is asked for again after twice as
    /// many.
    fn count(&mut self, dst: Tid) -> bool {
        if self.uses.len() >= USES_MAX {
            self.uses.clear();
        }
        let used = self.uses.entry(dst).or_insert(Use { sent: 0, next: FIRST_USE });
        used.sent = used.sent.saturating_add(1);
        let is_now = used.sent >= used.next;
        if is_now {
            used.next = used.next.saturating_mul(2);
        }
        is_now
    }

    /// A route has ended, or will not open: it is not asked for again soon. Returns the notices of the other's end.
    pub(super) fn forget(&mut self, tid: Tid) -> Vec<Message> {
        self.uses.insert(tid, Use { sent: 0, next: UNUSED });
        self.ended.remove(&tid).map_or_else(Vec::new, |ended| {
            self.uses.remove(&tid);
            ended.notices
        })
    }

    /// A task without a route has ended.
    pub(super) fn drop_use(&mut self, tid: Tid) {
        self.uses.remove(&tid);
    }

    /// This task has left.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    /// What is readable when the routes of tasks that have ended have been silent.
    pub(super) fn timers(&self) -> impl Iterator<Item = (Tid, BorrowedFd<'_>)> {
        self.ended.iter().map(|(&tid, ended)| (tid, ended.timer.as_fd()))
    }

    /// Something has come on a route.
    pub(super) fn heard(&self, tid: Tid) {
        if let Some(ended) = self.ended.get(&tid) {
            ended.restart();
        }
    }

    /// Whether a task has ended and its route has been silent since.
    pub(super) fn is_silent(&self, tid: Tid) -> bool {
        self.ended.get(&tid).is_some_and(|ended| rustix::io::read(&ended.timer, &mut [0; 8]).is_ok())
    }
}

impl Engine {
    /// A message goes by the daemon: asks for a route if that is worth while.
    pub(super) fn consider_route(&mut self, dst: Tid, header: &MessageHeader) {
        let is_candidate = self.options.route == ALLOW_DIRECT
            && (dst.is_task() && dst.host() != self.tid().host() && self.tid().is_task())
            && header.context != CONTEXT_TC
            && self.peers.get(dst).is_none();
        if is_candidate && self.takes_automatic_routes() && self.automatic.count(dst) {
            let wait_id = self.new_wait_id();
            self.automatic.questions.insert(wait_id, dst);
            let question = ListTasks { which: dst, version: Some(EXTENSION_VERSION) };
            let message = Message { src: self.tid(), ..question.message(wait_id) };
            self.inbox.deferred.push_back(message);
        }
    }

    /// Whether routes that the program does not see are possible: not if the program would miss what comes there.
    pub(super) fn takes_automatic_routes(&self) -> bool {
        self.direct && self.daemon_is_ours() && self.neighbours.shows_all()
    }

    /// The daemon's answer about a library; `false` if it is something else.
    pub(super) fn hear_of_library(&mut self, message: &Message) -> bool {
        let wait_id = message.header.wait_id;
        if message.src != Tid::MY_DAEMON || message.header.tag != ListTasks::TAG {
            return false;
        }
        let Some(dst) = self.automatic.questions.remove(&wait_id) else { return false };
        let Ok(Ok(list)) = ListTasks::decode_answer(&message.body) else { return true };
        let flags = list.tasks.iter().find(|record| record.tid == dst).map_or(0, |record| record.flags);
        let is_original = flags & (task_flags::EXTENDED | task_flags::CONNECTED) == task_flags::CONNECTED;
        if self.peers.get(dst).is_some() {
            // The other was faster.
        } else if is_original {
            self.peers.set(dst, Peer::Refused);
        } else if flags & task_flags::EXTENDED != 0 && self.makes_room_for_route() {
            let requests = self.route_request(dst, false);
            self.inbox.deferred.extend(requests);
        }
        true
    }

    /// Leaves a route that was not used for long if there are as many as may be; whether there is room for one more.
    pub(super) fn makes_room_for_route(&mut self) -> bool {
        if self.peers.hidden() < AUTOMATIC_ROUTES {
            return true;
        }
        let now = self.sent.messages;
        let hidden = self.peers.open_routes().filter(|(_, route)| route.is_hidden());
        let unused = hidden.map(|(tid, route)| (route.used_at(), tid)).min();
        let Some((used, tid)) = unused else { return true };
        now.saturating_sub(used) >= u64::from(UNUSED) && self.leave_route(tid)
    }

    /// Sends by the daemon from now on, and reads what the other has sent on the route; `false` if that is not possible yet.
    pub(super) fn leave_route(&mut self, tid: Tid) -> bool {
        if !self.peers.is_open_there(tid) || !self.peers.route(tid).is_some_and(Route::is_marked) {
            return false;
        }
        if let Some(Peer::Open(route)) = self.peers.take(tid) {
            route.end();
            self.peers.set(tid, Peer::Left(route));
        }
        true
    }

    /// Marks a message by the daemon on the open route to its receiver; `false` if the route cannot be used so.
    pub(super) fn mark_on_route(&mut self, dst: Tid) -> Result<bool> {
        let is_possible =
            self.peers.is_open_there(dst) && self.peers.route(dst).is_some_and(Route::is_marked);
        if !is_possible {
            return Ok(false);
        }
        let mark = super::order::mark(self.tid(), dst, 1);
        // Where the route breaks, what goes by the daemon needs no mark.
        self.write_directly(dst, mark.header, &[&mark.body])?;
        Ok(true)
    }

    /// The program polls the descriptors itself: the sockets of a route that it does not see are behind the first one.
    pub(super) fn show_hidden(&self, tid: Tid) {
        for (of, fd, _) in self.peers.sockets().filter(|&(of, ..)| of == tid) {
            if self.peers.is_hidden(of) {
                self.neighbours.add_behind_front(fd);
            }
        }
    }

    /// A task has ended: its route is read to the end, and then the program gets this notice.
    pub(super) fn expect_end(&mut self, tid: Tid, notice: Option<Message>) {
        if !self.automatic.ended.contains_key(&tid) {
            let Some(ended) = Ended::new() else {
                self.forget_route(tid);
                return notice.into_iter().for_each(|notice| self.take(notice));
            };
            self.neighbours.add_behind_front(ended.timer.as_fd());
            self.automatic.ended.insert(tid, ended);
        }
        if let Some(ended) = self.automatic.ended.get_mut(&tid) {
            ended.notices.extend(notice);
        }
    }

    /// The task whose end this message of the daemon's tells the program, if more may come on its route.
    pub(super) fn ends_open_route(&mut self, message: &Message) -> Option<Tid> {
        let is_notice = message.src.is_daemon() && message.header.context < pvm_wire::group::CONTEXT;
        let tid = Tid::from_raw(i32::from_be_bytes(*message.body.first_chunk()?));
        let is_one = is_notice && message.body.len() == 4 && tid.is_task();
        (is_one && self.peers.inward(tid).is_some()).then_some(tid)
    }

    /// Before this task leaves: sends no more on direct routes, and waits until other hosts have what was sent there. What they
    /// send meanwhile is read, as the system would otherwise drop what it has not delivered.
    pub fn finish_routes(&mut self) {
        for tid in self.peers.tids() {
            if let Some(route) = self.peers.route(tid) {
                route.end();
            }
        }
        let (deadline, mut pause) = (Instant::now() + LINGER, PAUSE);
        while !self.is_full() && Instant::now() < deadline {
            let routes = self.peers.open_routes().filter(|&(tid, _)| tid.host() != self.tid().host());
            let unsent: Vec<(Tid, Arc<OwnedFd>)> = routes
                .map(|(tid, route)| (tid, route.socket()))
                .filter(|(_, socket)| unacknowledged(socket.as_fd()))
                .collect();
            if unsent.is_empty() {
                break;
            }
            let mut fds: Vec<_> =
                unsent.iter().map(|(_, socket)| PollFd::new(&**socket, PollFlags::IN)).collect();
            let step = Timespec { tv_sec: 0, tv_nsec: pause.subsec_nanos().into() };
            let _ = poll(&mut fds, Some(&step));
            pause = (pause * 2).min(PAUSE_MAX);
            for (tid, _) in unsent {
                if self.read_route(tid, true) {
                    self.forget_route(tid);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: Tid = Tid::from_bits(0x80001);

    #[test]
    fn a_route_is_asked_for_with_the_second_message_and_less_often_then() {
        let mut automatic = Automatic::default();
        let asked: Vec<u32> = (1..=40).filter(|_| automatic.count(OTHER)).collect();
        assert_eq!(asked, [2, 4, 8, 16, 32]);
        automatic.forget(OTHER);
        assert!(
            (1..UNUSED).all(|_| !automatic.count(OTHER)),
            "a route that has ended is not made again at once"
        );
        assert!(automatic.count(OTHER));
    }

    #[test]
    fn tasks_that_are_sent_to_once_take_no_memory_for_ever() {
        let mut automatic = Automatic::default();
        for number in 0..100_000 {
            assert!(!automatic.count(Tid::from_bits(0x80000 + number)));
            assert!(automatic.uses.len() <= USES_MAX);
        }
    }

    #[test]
    fn notices_wait_until_a_route_is_silent() {
        let mut automatic = Automatic::default();
        automatic.ended.insert(OTHER, Ended::new().unwrap());
        assert!(!automatic.is_silent(OTHER));
        assert_eq!(automatic.timers().count(), 1);
        let fd = automatic.ended[&OTHER].timer.as_fd();
        assert_eq!(poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).unwrap(), 1);
        assert!(automatic.is_silent(OTHER));
        automatic.heard(OTHER);
        assert!(!automatic.is_silent(OTHER), "something has come");
        automatic.forget(OTHER);
        assert_eq!(automatic.timers().count(), 0);
    }
}
