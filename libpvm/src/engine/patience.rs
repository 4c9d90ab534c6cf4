//! How long a task spins for messages of its neighbours, and of others on direct routes, before it sleeps.
//!
//! Spinning as long as it would take to be woken some times over is never much worse than knowing beforehand. Where it does not
//! pay, because whoever should answer has no processor, it becomes shorter. Then it is tried again after some short sleeps: as
//! sleeping is slow because the other one sleeps, too, neither would find out otherwise. Tries that fail become rare.

use pvm_shm::pause::Pause;
use pvm_shm::ring::Reader;
use pvm_shm::{Mapping, Memory};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// In times of waking another task.
const SPINS: u64 = 5;
/// The least spin that is tried, as a part of the greatest.
const LEAST: u64 = 16;
/// The most short sleeps between two tries to spin.
const SLEEPS: u32 = 1024;
/// Whoever runs has answered by then. Who has not may wait for this processor.
const ANSWER: Duration = Duration::from_micros(2);
/// So many answers in turn that had to be waited for longer, and two tasks may share a processor while another is idle. The
/// system takes a tenth of a second to part two that run all the time, but looks for an idle processor for one that wakes.
const LATE: u32 = 8;
/// The most such answers between two sleeps for that reason.
const LATE_MOST: u32 = 1 << 16;
/// Looks at a ring between two looks at the clock.
const LOOKS: usize = 128;
/// A look at more sockets takes too long.
const SOCKETS: usize = 16;

/// Where the next record of a neighbour will be.
#[derive(Debug)]
struct Cursor {
    memory: Arc<Mapping>,
    at: AtomicU64,
    number: AtomicU32,
}

/// Where records are expected, and how long it is worth while to look. Can be used while nobody else may use the engine.
#[derive(Debug, Default)]
pub struct Spinner {
    cursors: Vec<Cursor>,
    sockets: Vec<Arc<OwnedFd>>,
    budget: Arc<Budget>,
}

/// Nanoseconds, and short sleeps until the next try.
#[derive(Debug)]
struct Budget {
    now: AtomicU64,
    most: AtomicU64,
    sleeps_left: AtomicU32,
    sleeps: AtomicU32,
    /// Late answers in turn, and how many of them are a reason to sleep.
    late: AtomicU32,
    late_most: AtomicU32,
    /// Until the processor is given away again.
    pause: Pause,
    /// Something may have come at the descriptors.
    is_sleep_over: AtomicBool,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            now: 0.into(),
            most: 0.into(),
            sleeps_left: 1.into(),
            sleeps: 1.into(),
            late: 0.into(),
            late_most: LATE.into(),
            pause: Pause::default(),
            is_sleep_over: AtomicBool::new(true),
        }
    }
}

impl Spinner {
    /// The same patience, for these rings, and these sockets unless they are too many.
    pub(super) fn renew(
        &self,
        rings: impl Iterator<Item = (Arc<Mapping>, Reader)>,
        sockets: &[Arc<OwnedFd>],
    ) -> Self {
        let sockets = if sockets.len() > SOCKETS { Vec::new() } else { sockets.to_vec() };
        let cursor = |(memory, reader): (Arc<Mapping>, Reader)| {
            let (at, number) = reader.awaited();
            Cursor { memory, at: at.into(), number: number.into() }
        };
        Self { cursors: rings.map(cursor).collect(), sockets, budget: self.budget.clone() }
    }

    /// What it takes to wake a task.
    pub(super) fn set_wake_time(&self, time: Duration) {
        let alone = std::thread::available_parallelism().is_ok_and(|cores| cores.get() == 1);
        let most = if alone { 0 } else { time.as_nanos() as u64 * SPINS };
        self.budget.most.store(most, Ordering::Relaxed);
        self.budget.now.store(most, Ordering::Relaxed);
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
    pub fn is_ready(&self) -> bool {
        self.cursors.iter().any(|cursor| {
            cursor.memory.load(cursor.at.load(Ordering::Relaxed)) == cursor.number.load(Ordering::Relaxed)
        })
    }

    /// Looks for a record, but not for long.
    #[inline]
    pub fn look(&self) -> bool {
        // A look at many rings takes long.
        (0..LOOKS.checked_div(self.cursors.len()).unwrap_or(0).max(1)).any(|_| self.is_ready())
    }

    /// Whether something may have come at the descriptors; asked once after each sleep.
    #[inline]
    pub(super) fn is_sleep_over(&self) -> bool {
        self.budget.is_sleep_over.swap(false, Ordering::Relaxed)
    }

    /// Something may have come at the descriptors.
    pub(super) fn end_sleep(&self) {
        self.budget.is_sleep_over.store(true, Ordering::Relaxed);
    }

    /// Whether something has come at the sockets; asks the system.
    fn has_come(&self, sockets: &mut [PollFd<'_>]) -> bool {
        let come = !sockets.is_empty() && matches!(poll(sockets, Some(&Timespec::default())), Ok(1..));
        if come {
            self.end_sleep();
        }
        come
    }

    /// Looks for a record, or whatever comes on direct routes, until `deadline`, or as long as it is worth while; whether there is
    /// something.
    pub fn spin(&self, deadline: Option<Instant>) -> bool {
        if self.cursors.is_empty() && self.sockets.is_empty() {
            return false;
        }
        if self.look() {
            return true;
        }
        // A look at many rings takes long.
        let looks = LOOKS.checked_div(self.cursors.len()).unwrap_or(0).max(1);
        let mut sockets: Vec<_> =
            self.sockets.iter().map(|socket| PollFd::new(&**socket, PollFlags::IN)).collect();
        if self.shares_processor() {
            return false;
        }
        let budget = Duration::from_nanos(self.budget.now.load(Ordering::Relaxed));
        let begin = Instant::now();
        let end = deadline.map_or(begin + budget, |deadline| deadline.min(begin + budget));
        let mut gives_way = None;
        let is_found = loop {
            if (0..looks).any(|_| self.is_ready() || pause_a_little()) || self.has_come(&mut sockets) {
                break true;
            }
            let now = Instant::now();
            if now >= end {
                break false;
            }
            if now.duration_since(begin) >= ANSWER
                && *gives_way.get_or_insert_with(|| self.budget.pause.is_over())
            {
                std::thread::yield_now();
            }
        };
        if gives_way == Some(true) {
            self.budget.pause.note(begin);
        }
        if is_found {
            self.change(budget * 2);
            self.budget.sleeps.store(1, Ordering::Relaxed);
            let late = self.budget.late.load(Ordering::Relaxed);
            self.budget.late.store(if gives_way.is_some() { late + 1 } else { 0 }, Ordering::Relaxed);
        } else {
            self.change(budget / 2);
        }
        is_found
    }

    /// Whether it is time to sleep once, to be woken on a processor of its own.
    fn shares_processor(&self) -> bool {
        let budget = &self.budget;
        let most = budget.late_most.load(Ordering::Relaxed);
        let is_time = budget.late.load(Ordering::Relaxed) >= most;
        if is_time {
            budget.late.store(0, Ordering::Relaxed);
            budget.late_most.store((most * 2).min(LATE_MOST), Ordering::Relaxed);
        }
        is_time
    }

    /// A sleep took so long.
    pub fn slept(&self, time: Duration) {
        let budget = &self.budget;
        let most = Duration::from_nanos(budget.most.load(Ordering::Relaxed));
        if time > most * 2 {
            return;
        }
        let left = budget.sleeps_left.load(Ordering::Relaxed).saturating_sub(1);
        if left > 0 {
            budget.sleeps_left.store(left, Ordering::Relaxed);
            return;
        }
        let sleeps = (budget.sleeps.load(Ordering::Relaxed) * 2).min(SLEEPS);
        budget.sleeps.store(sleeps, Ordering::Relaxed);
        budget.sleeps_left.store(sleeps, Ordering::Relaxed);
        self.change(most);
    }

    fn change(&self, budget: Duration) {
        let most = self.budget.most.load(Ordering::Relaxed);
        self.budget.now.store((budget.as_nanos() as u64).clamp(most / LEAST, most), Ordering::Relaxed);
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
    use pvm_wire::MessageHeader;

    fn budget(spinner: &Spinner) -> u64 {
        spinner.budget.now.load(Ordering::Relaxed)
    }

    #[test]
    fn patience_goes_where_it_does_not_pay_and_comes_back() {
        let mut outbox = Outbox::new(1 << 20).unwrap();
        let (mut ring, at) = outbox.open_ring().unwrap();
        let reader = Reader::new(&**outbox.memory(), at).unwrap();
        let spinner = Spinner::default().renew([(outbox.memory().clone(), reader)].into_iter(), &[]);
        spinner.budget.most.store(1_600_000, Ordering::Relaxed);
        spinner.budget.now.store(1_600_000, Ordering::Relaxed);
        let fail_all = || {
            for expected in [800_000, 400_000, 200_000, 100_000, 100_000] {
                assert!(!spinner.spin(None));
                assert_eq!(budget(&spinner), expected);
            }
        };
        fail_all();
        spinner.slept(Duration::from_secs(1));
        assert_eq!(budget(&spinner), 100_000);
        // The first try comes at once, the next later and later.
        for sleeps in [1, 2, 4, 8] {
            for _ in 1..sleeps {
                spinner.slept(Duration::from_micros(3200));
                assert_eq!(budget(&spinner), 100_000);
            }
            spinner.slept(Duration::from_micros(3200));
            assert_eq!(budget(&spinner), 1_600_000);
            fail_all();
        }
        assert!(outbox.send_inline(&mut ring, MessageHeader::default(), &[]));
        assert!(spinner.spin(None));
    }

    #[test]
    fn what_comes_at_a_socket_ends_the_spin() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let ours: Arc<OwnedFd> = Arc::new(ours.into());
        let spinner = Spinner::default().renew(std::iter::empty(), std::slice::from_ref(&ours));
        spinner.set_wake_time(Duration::from_secs(1));
        assert!(spinner.is_sleep_over() && !spinner.is_sleep_over());
        assert!(!spinner.spin(Some(Instant::now() + Duration::from_millis(1))), "nothing has come");
        assert!(!spinner.is_sleep_over());
        std::io::Write::write_all(&mut &theirs, b"x").unwrap();
        spinner.set_wake_time(Duration::from_secs(1));
        assert!(spinner.spin(None) && spinner.is_sleep_over());
        // A look at so many would take longer than it saves.
        let many = Spinner::default().renew(std::iter::empty(), &vec![ours; SOCKETS + 1]);
        many.set_wake_time(Duration::from_secs(1));
        assert!(!many.spin(None));
    }

    #[test]
    fn tasks_that_may_share_a_processor_sleep_now_and_then() {
        let spinner = Spinner::default();
        for late_most in [LATE, 2 * LATE, 4 * LATE] {
            spinner.budget.late.store(late_most - 1, Ordering::Relaxed);
            assert!(!spinner.shares_processor());
            spinner.budget.late.store(late_most, Ordering::Relaxed);
            assert!(spinner.shares_processor());
            assert!(!spinner.shares_processor());
        }
    }
}
