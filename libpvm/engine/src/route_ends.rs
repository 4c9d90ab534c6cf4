//! The ends of direct routes: of tasks that end while something may still come from them, and of this task.

use super::route::Condition;
use super::{Engine, xdr_header};
use pvm_shm::unacknowledged;
use pvm_wire::body::BodyWriter;
use pvm_wire::codes::{CONTEXT_TC, Tcx};
use pvm_wire::{Body, Message, Tid, group};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::getpeername;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long nothing may come on the route of a task that has ended, before it counts as read to its end.
const SILENCE: Duration = Duration::from_secs(1);

/// How long a task that leaves waits for other hosts to have what it has sent.
const LINGER: Duration = Duration::from_secs(2);
/// The first of the pauses between two looks, which double, and the longest.
const PAUSE: Duration = Duration::from_micros(50);
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// Tasks that have ended, and whose routes were not read to their ends.
#[derive(Debug, Default)]
pub(super) struct Ends {
    ended: BTreeMap<Tid, Ended>,
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

impl Ends {
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

    /// Whether a task has ended whose route was not read to the end.
    pub(super) fn has(&self, tid: Tid) -> bool {
        self.ended.contains_key(&tid)
    }

    /// The route of a task is closed: the notices of its end, if it has ended.
    pub(super) fn take(&mut self, tid: Tid) -> Option<Vec<Message>> {
        self.ended.remove(&tid).map(|ended| ended.notices)
    }
}

impl Engine {
    /// A task has ended: its route is read to the end, and then the program gets this notice.
    pub(super) fn expect_end(&mut self, tid: Tid, notice: Option<Message>) {
        if !self.ends.ended.contains_key(&tid) {
            let Some(ended) = Ended::new() else {
                self.forget_route(tid);
                return notice.into_iter().for_each(|notice| self.take(notice));
            };
            self.neighbours.add_behind_front(ended.timer.as_fd());
            self.ends.ended.insert(tid, ended);
        }
        if let Some(ended) = self.ends.ended.get_mut(&tid) {
            ended.notices.extend(notice);
        }
    }

    /// The task whose end this message of the daemon's tells the program, if more may come on its route.
    pub(super) fn ends_open_route(&mut self, message: &Message) -> Option<Tid> {
        let is_notice = message.src.is_daemon() && message.header.context < group::CONTEXT;
        let tid = Tid::from_raw(i32::from_be_bytes(*message.body.first_chunk()?));
        let is_one = is_notice && message.body.len() == 4 && tid.is_task();
        (is_one && self.peers.inward(tid).is_some()).then_some(tid)
    }

    /// Nothing more can be sent on a route: takes what has arrived on it, and forgets it.
    pub(super) fn lose_route(&mut self, tid: Tid) {
        self.read_route(tid, true);
        if self.read_route(tid, false) == Condition::Ended {
            self.forget_route(tid);
        } else {
            self.break_off_route(tid);
        }
    }

    /// Forgets a route that has broken before its end. The last messages on it may be lost, and what comes from the other by the daemons may
    /// have been sent behind them. So that waits: until the other says that it knows ([`Self::hear_of_lost_route`]), or has ended, when it is
    /// dropped: a task's messages may end early, but have no gap.
    pub(super) fn break_off_route(&mut self, tid: Tid) {
        let Some(is_marked) = self.peers.inward(tid).map(|route| route.is_marked()) else { return };
        let has_ended = self.ends.has(tid);
        let passed = self.peers.break_off(tid);
        self.follow_end(tid, true, passed);
        if is_marked && !has_ended {
            self.report_lost_route(tid, Body::new());
        }
    }

    /// The other end may not notice by itself, and its answer says that it sends by the daemon from then on.
    fn report_lost_route(&mut self, tid: Tid, body: Body) {
        let header = xdr_header(Tcx::RouteLost.tag(), CONTEXT_TC, 0);
        self.inbox.deferred.push_back(Message { src: self.tid(), dst: tid, header, body });
    }

    /// Another task has lost the route, or answers that it has heard of that. What it has sent by the daemon passes.
    pub(super) fn hear_of_lost_route(&mut self, from: Tid, is_answer: bool) {
        if !is_answer {
            self.read_route(from, true);
            if self.peers.inward(from).is_some() {
                self.forget_route(from);
            }
            self.report_lost_route(from, BodyWriter::new().int(1).finish().into());
        }
        for message in self.peers.end_broken(from) {
            self.take(message);
        }
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
            let routes = self.peers.open_routes().filter(|&(tid, _)| !self.is_near(tid));
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
                if self.read_route(tid, true) != Condition::Open {
                    self.forget_route(tid);
                }
            }
        }
    }
}

/// Waits until other hosts have taken all that was sent at these sockets; whether they have.
pub(super) fn are_acknowledged_in_time(sockets: &[Arc<OwnedFd>]) -> bool {
    // What a connection that is broken has not delivered it never will.
    let is_waited_for =
        |socket: &Arc<OwnedFd>| unacknowledged(socket.as_fd()) && getpeername(socket.as_fd()).is_ok();
    let (deadline, mut pause) = (Instant::now() + LINGER, PAUSE);
    while sockets.iter().any(is_waited_for) {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{Shutdown, shutdown};
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    const OTHER: Tid = Tid::from_bits(0x80001);

    /// A connection of which the first end has sent as much as the system takes.
    fn full_connection() -> (Arc<OwnedFd>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (theirs, _) = listener.accept().unwrap();
        ours.set_nonblocking(true).unwrap();
        while ours.write(&[0; 4096]).is_ok() {}
        (Arc::new(ours.into()), theirs)
    }

    #[test]
    fn what_is_sent_counts_when_the_other_end_has_it() {
        let (ours, mut theirs) = full_connection();
        let sockets = [ours.clone()];
        assert!(!are_acknowledged_in_time(&sockets), "nobody reads there");
        std::thread::scope(|scope| {
            scope.spawn(|| while theirs.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {});
            assert!(are_acknowledged_in_time(&sockets));
            shutdown(&ours, Shutdown::Write).unwrap();
        });
    }

    #[test]
    fn what_is_lost_is_not_waited_for() {
        let (ours, theirs) = full_connection();
        drop(theirs);
        let start = Instant::now();
        assert!(are_acknowledged_in_time(&[ours]) && start.elapsed() < LINGER);
    }

    #[test]
    fn notices_wait_until_a_route_is_silent() {
        let mut ends = Ends::default();
        ends.ended.insert(OTHER, Ended::new().unwrap());
        assert!(!ends.is_silent(OTHER));
        assert_eq!(ends.timers().count(), 1);
        let fd = ends.ended[&OTHER].timer.as_fd();
        assert_eq!(poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).unwrap(), 1);
        assert!(ends.is_silent(OTHER));
        ends.heard(OTHER);
        assert!(!ends.is_silent(OTHER), "something has come");
        assert!(ends.take(OTHER).is_some_and(|notices| notices.is_empty()));
        assert_eq!(ends.timers().count(), 0);
    }
}
