//! Spinning for messages of neighbours, of others on direct routes, and of other hosts, before a task sleeps.
//!
//! A message of another host passes two daemons on its way, and a long message on a direct route is sealed and opened. Both take longer than
//! a message of a neighbour, so a task looks for them as daemons do: for longer, and it yields the processor between two looks. Beside a
//! program that computes, it looks for a long message no longer than for a neighbour's, and for one by the daemon not at all.

use pvm_shm::ring::{Reader, prefetch_record};
use pvm_shm::wait::{Kind, SpinThenPark, is_only_processor};
use pvm_shm::{Mapping, Memory, bell};
use pvm_wire::tuned::{ANSWER_TIME, POLLED_SOCKETS_MAX, REMOTE_WAKINGS, RING_POLLS};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Waiting for a neighbour pays also where other programs compute.
const NEAR: Kind = Kind { before_yields: ANSWER_TIME, unyielding: Some(1) };
/// Where they do, a task waits for a long message on a direct route no longer than for a neighbour.
const ROUTE: Kind = Kind { before_yields: ANSWER_TIME, unyielding: Some(REMOTE_WAKINGS) };
/// The origin of the last message: the next may have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Origin {
    /// From a task of this host, or a short one on a direct route.
    Near,
    /// From a task of another host on a direct route, and so long that one like it takes its time to be sealed, sent and opened.
    Route,
    /// From one of another host, by the daemon.
    Daemon,
}

/// Where the next record of a neighbour will be.
#[derive(Debug)]
struct Cursor {
    memory: Arc<Mapping>,
    at: AtomicU64,
    number: AtomicU32,
}

/// Where records are expected, and how long to spin for them. Usable without the engine.
#[derive(Debug, Default)]
pub struct Spinner {
    cursors: Vec<Cursor>,
    /// This task's memory, where its senders list themselves: then there are no cursors.
    list: Option<Arc<Mapping>>,
    sockets: Vec<Arc<OwnedFd>>,
    /// Where messages of other hosts come.
    daemon: Option<Arc<OwnedFd>>,
    budget: Arc<Budget>,
}

/// The results of earlier spins.
#[derive(Debug)]
struct Budget {
    near: SpinThenPark,
    /// For messages of other hosts.
    far: SpinThenPark,
    /// A [`Origin`].
    origin: AtomicU8,
    /// The descriptors may be readable.
    is_sleep_over: AtomicBool,
    /// The call has spun at its beginning, and found nothing.
    has_spun: AtomicBool,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            near: SpinThenPark::default(),
            far: SpinThenPark::default(),
            origin: AtomicU8::new(Origin::Near as u8),
            is_sleep_over: AtomicBool::new(true),
            has_spun: AtomicBool::new(false),
        }
    }
}

impl Spinner {
    /// A spinner with the results of earlier spins, for these rings, and these sockets unless they are too many.
    pub(super) fn renew(
        &self,
        rings: impl ExactSizeIterator<Item = (Arc<Mapping>, Reader)>,
        list: Option<Arc<Mapping>>,
        sockets: &[Arc<OwnedFd>],
    ) -> Self {
        let sockets = if sockets.len() > POLLED_SOCKETS_MAX { Vec::new() } else { sockets.to_vec() };
        let cursor = |(memory, reader): (Arc<Mapping>, Reader)| {
            let (at, number) = reader.awaited();
            Cursor { memory, at: at.into(), number: number.into() }
        };
        let (daemon, budget) = (self.daemon.clone(), self.budget.clone());
        budget.near.set_peers(rings.len());
        let cursors = if list.is_none() { rings.map(cursor).collect() } else { Vec::new() };
        Self { cursors, list, sockets, daemon, budget }
    }

    /// With this socket of the daemon's.
    pub(super) fn with_daemon(daemon: Arc<OwnedFd>) -> Self {
        Self { daemon: Some(daemon), ..Self::default() }
    }

    /// Sets the time that waking a task takes.
    pub(super) fn set_wake_time(&self, time: Duration) {
        self.budget.near.set_wake_time(time);
        self.budget.far.set_wake_time(time * REMOTE_WAKINGS);
    }

    /// A message had this origin: the next may have the same.
    pub(super) fn expect(&self, origin: Origin) {
        self.budget.origin.store(origin as u8, Ordering::Relaxed);
    }

    fn origin(&self) -> Origin {
        let origin = self.budget.origin.load(Ordering::Relaxed);
        [Origin::Route, Origin::Daemon]
            .into_iter()
            .find(|&known| known as u8 == origin)
            .unwrap_or(Origin::Near)
    }

    /// For how long it would look now.
    pub(super) fn in_force(&self) -> Duration {
        let origin = self.origin();
        let looks_at_daemon = origin == Origin::Daemon && self.daemon.is_some();
        if !self.has_rings() && self.sockets.is_empty() && !looks_at_daemon {
            return Duration::ZERO;
        }
        if is_only_processor() { Duration::ZERO } else { self.wait(origin).budget() }
    }

    fn has_rings(&self) -> bool {
        !self.cursors.is_empty() || self.list.is_some()
    }

    fn wait(&self, origin: Origin) -> &SpinThenPark {
        if origin == Origin::Near { &self.budget.near } else { &self.budget.far }
    }

    /// A record was taken: the next of this ring is expected there.
    #[inline]
    pub(super) fn advance(&self, index: usize, reader: &Reader) {
        if let Some(cursor) = self.cursors.get(index) {
            let (at, number) = reader.awaited();
            cursor.at.store(at, Ordering::Relaxed);
            cursor.number.store(number, Ordering::Relaxed);
        }
    }

    /// Whether there is a record.
    #[inline]
    pub fn is_ready(&self) -> bool {
        if let Some(own) = &self.list {
            return bell::is_listed(&**own);
        }
        self.cursors.iter().any(|cursor| {
            let at = cursor.at.load(Ordering::Relaxed);
            let is_there = cursor.memory.load(at) == cursor.number.load(Ordering::Relaxed);
            if is_there {
                prefetch_record(&*cursor.memory, at);
            }
            is_there
        })
    }

    /// Looks for a record, but not for long.
    #[inline]
    fn look(&self) -> bool {
        let looks = if self.budget.near.is_crowded() { 1 } else { self.looks() };
        let is_found = (0..looks).any(|_| self.is_ready());
        if is_found {
            self.expect(Origin::Near);
        }
        is_found
    }

    /// Looks at all rings between two looks at the clock: a look at many takes long.
    fn looks(&self) -> usize {
        RING_POLLS.checked_div(self.cursors.len().max(usize::from(self.list.is_some()))).unwrap_or(0).max(1)
    }

    /// Whether the descriptors may be readable; true once after each sleep.
    #[inline]
    pub(super) fn is_sleep_over(&self) -> bool {
        self.budget.is_sleep_over.swap(false, Ordering::Relaxed)
    }

    /// The descriptors may be readable.
    pub(super) fn end_sleep(&self) {
        self.budget.is_sleep_over.store(true, Ordering::Relaxed);
    }

    /// Whether a socket is readable; asks the system.
    fn has_come(&self, sockets: &mut [PollFd<'_>]) -> bool {
        let come = !sockets.is_empty() && matches!(poll(sockets, Some(&Timespec::default())), Ok(1..));
        if come {
            self.end_sleep();
        }
        come
    }

    /// Looks for a record, or whatever comes on direct routes or from other hosts, until `deadline`, or as long as it is worth while;
    /// whether there is something.
    pub fn spin(&self, deadline: Option<Instant>) -> bool {
        if self.look() {
            return true;
        }
        // If the call has found something in another way since, a later one sleeps early, once.
        let has_spun = self.budget.has_spun.load(Ordering::Relaxed);
        if has_spun {
            self.budget.has_spun.store(false, Ordering::Relaxed);
        }
        !has_spun && self.spin_on(deadline)
    }

    /// [`Self::spin`] at the beginning of a call that waits for ever. If it has found nothing, the call's wait need not do it again.
    #[inline]
    pub fn spin_at_once(&self) -> bool {
        let is_found = self.look() || self.spin_on(None);
        if !is_found {
            self.budget.has_spun.store(true, Ordering::Relaxed);
        }
        is_found
    }

    /// What [`Self::spin`] does after a [`Self::look`] that has found nothing.
    fn spin_on(&self, deadline: Option<Instant>) -> bool {
        let origin = self.origin();
        let daemon = self.daemon.as_ref().filter(|_| origin == Origin::Daemon);
        if !self.has_rings() && self.sockets.is_empty() && daemon.is_none() {
            return false;
        }
        let kind = match origin {
            Origin::Near => NEAR,
            Origin::Route => ROUTE,
            Origin::Daemon => Kind::YIELDING,
        };
        let mut sockets: Vec<_> =
            self.sockets.iter().chain(daemon).map(|socket| PollFd::new(&**socket, PollFlags::IN)).collect();
        self.wait(origin).spin(kind, deadline, |spin| {
            let looks = if spin.is_crowded() { 1 } else { self.looks() };
            let is_near = (0..looks).any(|_| self.is_ready() || pause_a_little());
            if is_near {
                self.expect(Origin::Near);
            }
            is_near || self.has_come(&mut sockets)
        })
    }

    /// A sleep took so long.
    pub fn slept(&self, time: Duration) {
        self.wait(self.origin()).slept(time);
    }
}

/// Between two looks; never an answer.
fn pause_a_little() -> bool {
    std::hint::spin_loop();
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvm_shm::Outbox;
    use pvm_shm::ring::Writer;
    use pvm_shm::wait::Next;
    use pvm_wire::MessageHeader;

    /// The processor was given to a program that computes.
    fn yield_for_long(spinner: &Spinner) {
        let (far, now) = (&spinner.budget.far, Instant::now());
        loop {
            let mut spin = far.start(Kind::YIELDING, now);
            if far.next(&mut spin, now) == Next::Yield {
                spin.yielded(Duration::from_secs(1));
                return far.end(&spin, true);
            }
        }
    }

    /// A ring, and a spinner that looks at it.
    fn at_a_ring() -> Option<(Outbox, Writer, Spinner)> {
        if is_only_processor() {
            eprintln!("no more than one processor may be used: nothing to try");
            return None;
        }
        let mut outbox = Outbox::new(1 << 20).unwrap();
        let (ring, at) = outbox.open_ring().unwrap();
        let reader = Reader::new(&**outbox.memory(), at.get()).unwrap();
        let spinner = Spinner::default().renew([(outbox.memory().clone(), reader)].into_iter(), None, &[]);
        spinner.set_wake_time(Duration::from_micros(320));
        Some((outbox, ring, spinner))
    }

    #[test]
    fn it_spins_less_where_it_does_not_pay() {
        let Some((mut outbox, mut ring, spinner)) = at_a_ring() else { return };
        for expected in [800, 400, 200, 100, 100] {
            assert!(!spinner.spin(None));
            assert_eq!(spinner.budget.near.budget(), Duration::from_micros(expected));
        }
        spinner.slept(Duration::from_micros(3200));
        assert_eq!(spinner.budget.near.budget(), Duration::from_micros(1600));
        outbox.send_copy(&mut ring, MessageHeader::default(), &[]).unwrap();
        assert!(spinner.spin(None));
    }

    #[test]
    fn a_call_that_has_spun_at_its_beginning_does_not_spin_again() {
        let Some((mut outbox, mut ring, spinner)) = at_a_ring() else { return };
        assert!(!spinner.spin_at_once());
        let budget = spinner.budget.near.budget();
        assert!(!spinner.spin(None));
        assert_eq!(spinner.budget.near.budget(), budget, "it has not polled");
        assert!(!spinner.spin(None));
        assert!(spinner.budget.near.budget() < budget, "the wait of another call");
        outbox.send_copy(&mut ring, MessageHeader::default(), &[]).unwrap();
        assert!(spinner.spin_at_once() && spinner.spin(None));
    }

    #[test]
    fn a_message_at_a_socket_ends_the_spin() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let ours: Arc<OwnedFd> = Arc::new(ours.into());
        let spinner = Spinner::default().renew(std::iter::empty(), None, std::slice::from_ref(&ours));
        spinner.set_wake_time(Duration::from_secs(1));
        assert!(spinner.is_sleep_over() && !spinner.is_sleep_over());
        assert!(!spinner.spin(Some(Instant::now() + Duration::from_millis(1))), "nothing has come");
        assert!(!spinner.is_sleep_over());
        std::io::Write::write_all(&mut &theirs, b"x").unwrap();
        spinner.set_wake_time(Duration::from_secs(1));
        assert!(spinner.spin(None) && spinner.is_sleep_over());
        // Polling that many would take longer than it saves.
        let many = Spinner::default().renew(std::iter::empty(), None, &vec![ours; POLLED_SOCKETS_MAX + 1]);
        many.set_wake_time(Duration::from_secs(1));
        assert!(!many.spin(None));
    }

    #[test]
    fn it_looks_for_other_hosts_while_they_speak() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let spinner = Spinner::with_daemon(Arc::new(ours.into()));
        spinner.set_wake_time(Duration::from_secs(1));
        std::io::Write::write_all(&mut &theirs, b"x").unwrap();
        assert!(!spinner.spin(None), "no other host has said anything");
        spinner.expect(Origin::Daemon);
        assert!(spinner.spin(None));
        let mut outbox = Outbox::new(1 << 20).unwrap();
        let (mut ring, at) = outbox.open_ring().unwrap();
        let reader = Reader::new(&**outbox.memory(), at.get()).unwrap();
        let spinner = spinner.renew([(outbox.memory().clone(), reader)].into_iter(), None, &[]);
        outbox.send_copy(&mut ring, MessageHeader::default(), &[]).unwrap();
        assert!(spinner.spin(None) && spinner.origin() == Origin::Near, "a neighbour has spoken since");
    }

    #[test]
    fn it_looks_longer_at_direct_routes_of_other_hosts_unless_others_compute() {
        if is_only_processor() {
            return eprintln!("no more than one processor may be used: nothing to try");
        }
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let ours: Arc<OwnedFd> = Arc::new(ours.into());
        let spinner = Spinner::default().renew(std::iter::empty(), None, &[ours]);
        let looked = |origin, computes: bool| {
            spinner.expect(origin);
            spinner.set_wake_time(Duration::from_millis(4));
            if computes {
                yield_for_long(&spinner);
            }
            let begin = Instant::now();
            assert!(!spinner.spin(None));
            begin.elapsed() >= Duration::from_millis(100)
        };
        assert!(!looked(Origin::Near, false) && looked(Origin::Route, false) && !looked(Origin::Route, true));
    }

    #[test]
    fn it_sleeps_at_once_where_others_compute() {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let spinner = Spinner::with_daemon(Arc::new(ours.into()));
        spinner.set_wake_time(Duration::from_secs(1));
        spinner.expect(Origin::Daemon);
        yield_for_long(&spinner);
        let begin = Instant::now();
        assert!(!spinner.spin(None));
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "it looks for five times as long as five wakings take"
        );
    }
}
