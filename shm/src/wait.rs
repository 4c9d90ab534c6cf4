//! Spin, then park: how tasks, the daemon and members of a barrier wait.
//!
//! A waiter polls for as long as [`TwoPhase`] allows, which is some multiple of the time that waking a process takes, and less where polling
//! has not paid off; then it parks, in a way of its own. Between two polls it yields the processor. If the process it waits for runs there, it
//! gets the processor back soon; a program that computes keeps it for far longer than waking takes. So yields that took long become rare.
//!
//! Where more processes wait than there are processors, polls keep the very process from running whose message is awaited, and waking each of
//! them takes longer than all it does with a message. A yield that hands the processor on takes longer than one that returns at once. After it
//! the processor counts as crowded: a waiter looks once between two yields. Two peers that run on two processors at the same time need no yields
//! for many messages. So that they notice it, one of some waits polls as on a processor of its own. Among many peers a yield may take as long as one
//! to a program that computes, when all of them have something to do: only several such yields in a row show such a program.
//!
//! Two processes that yield to each other on one processor stay there, since neither seems to lack a processor: each message then takes a
//! context switch, beside an idle processor. A process that is woken is put on an idle one. So a waiter whose waits keep ending with a yield
//! parks now and then.

use pvm_sched::coscheduling::TwoPhase;
use pvm_wire::tuned::{
    CROWDED_WAITS, YIELD_ALONE_MAX, YIELD_BACKOFF_MAX, YIELD_LONG, YIELD_LONG_PEERS, YIELD_LONG_TICK_PART,
    YIELD_PARK_AFTER, YIELD_PARK_AFTER_MAX,
};
use rustix::time::{ClockId, clock_getres};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The parameters of one kind of wait. All other rules are the same for all kinds.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// It polls for this long before the first yield.
    pub before_yields: Duration,
    /// While yields do not pay it polls without them, for its time divided by this; `None`: it parks at once.
    pub unyielding: Option<u32>,
}

impl Kind {
    /// The peer may need this very processor.
    pub const YIELDING: Self = Self { before_yields: Duration::ZERO, unyielding: None };
}

/// The results of earlier waits at one place. Two threads that change them at once may lose one of the changes.
#[derive(Debug)]
pub struct SpinThenPark {
    spin: AtomicU64,
    limit: AtomicU64,
    sleeps_left: AtomicU32,
    sleeps: AtomicU32,
    yields: YieldBackoff,
    shared: SharedProcessor,
    /// Waits in a row with a crowded processor.
    crowded: AtomicU32,
}

/// A wait before it parks.
#[derive(Debug)]
pub struct Spin {
    kind: Kind,
    start: Instant,
    /// The time that [`TwoPhase`] allows, and the rest of it without yields.
    budget: Duration,
    limit: Duration,
    /// Whether it yields; unknown before it could.
    yields: Option<bool>,
    /// Whether other processes wait for this processor.
    is_crowded: bool,
    /// The longest yield.
    longest: Duration,
}

/// The next action of a waiter after a poll that has found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It polls again.
    Poll,
    /// It yields the processor and polls again.
    Yield,
    /// It parks.
    Park,
}

impl Default for SpinThenPark {
    /// It parks at once, until [`Self::set_wake_time`].
    fn default() -> Self {
        Self {
            spin: 0.into(),
            limit: 0.into(),
            sleeps_left: 1.into(),
            sleeps: 1.into(),
            yields: YieldBackoff::default(),
            shared: SharedProcessor::default(),
            crowded: 0.into(),
        }
    }
}

impl Spin {
    /// Whether other processes wait for this processor, so that a poll is to look once only.
    pub fn is_crowded(&self) -> bool {
        self.is_crowded
    }

    /// The waiter has yielded, and had the processor back after this time.
    pub fn yielded(&mut self, time: Duration) {
        self.is_crowded = time > YIELD_ALONE_MAX;
        self.longest = self.longest.max(time);
    }
}

impl SpinThenPark {
    /// For waits after which a wake takes this long.
    pub fn new(wake_time: Duration) -> Self {
        let wait = Self::default();
        wait.set_wake_time(wake_time);
        wait
    }

    /// Sets how long waking takes, and drops the results of earlier polls.
    pub fn set_wake_time(&self, time: Duration) {
        let policy = TwoPhase::new(time, TwoPhase::FACTOR);
        self.limit.store(policy.limit, Ordering::Relaxed);
        self.store(policy);
    }

    /// Sets how many peers the waiter may have on this host. Where they are many for each processor, and all have something to do, a yield
    /// takes as long now and then as one to a program that computes.
    pub fn set_peers(&self, count: usize) {
        let allowed = count / processors() / YIELD_LONG_PEERS;
        self.yields.allowed.store(u32::try_from(allowed).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// How long the next wait may poll.
    pub fn budget(&self) -> Duration {
        Duration::from_nanos(self.spin.load(Ordering::Relaxed))
    }

    /// Whether the next wait takes the processor for crowded: a poll is to look once only.
    pub fn is_crowded(&self) -> bool {
        !self.crowded.load(Ordering::Relaxed).is_multiple_of(CROWDED_WAITS)
    }

    /// Starts a wait.
    pub fn start(&self, kind: Kind, now: Instant) -> Spin {
        let (budget, is_crowded) = (self.budget(), self.is_crowded());
        Spin { kind, start: now, budget, limit: budget, yields: None, is_crowded, longest: Duration::ZERO }
    }

    /// Returns the next action after a poll that has found nothing.
    pub fn next(&self, spin: &mut Spin, now: Instant) -> Next {
        let elapsed = now.duration_since(spin.start);
        if elapsed >= spin.limit {
            return Next::Park;
        }
        if elapsed < spin.kind.before_yields && !spin.is_crowded {
            return Next::Poll;
        }
        if spin.yields.is_none() && self.shared.is_to_be_left() {
            // This is no result for polling.
            spin.limit = Duration::ZERO;
            return Next::Park;
        }
        if *spin.yields.get_or_insert_with(|| self.yields.are_due()) {
            return Next::Yield;
        }
        // Polls would keep others from running, the peer among them.
        let part = spin.kind.unyielding.filter(|_| !spin.is_crowded);
        spin.limit = part.map_or(Duration::ZERO, |part| spin.budget / part);
        if elapsed < spin.limit { Next::Poll } else { Next::Park }
    }

    /// A wait has found something, or parks. A wait that was not allowed to poll is no result.
    pub fn end(&self, spin: &Spin, is_found: bool) {
        let is_computing = spin.yields == Some(true) && self.yields.took(spin.longest);
        self.note_crowd(spin, is_found, is_computing);
        if is_found {
            self.shared.found(spin.yields == Some(true));
        }
        if !spin.limit.is_zero() {
            let mut policy = self.load();
            policy.spun(spin.budget, is_found);
            self.store(policy);
        }
    }

    /// Keeps whether the processor is crowded. A program that computes is no crowd: beside it, polls for a peer on another processor pay.
    fn note_crowd(&self, spin: &Spin, is_found: bool, is_computing: bool) {
        let crowded = self.crowded.load(Ordering::Relaxed);
        if spin.is_crowded && !is_computing {
            self.crowded.store(crowded.wrapping_add(1), Ordering::Relaxed);
        } else if crowded != 0 && (is_found || spin.yields == Some(true)) {
            self.crowded.store(0, Ordering::Relaxed);
        }
    }

    /// The waiter was parked for this long.
    pub fn slept(&self, time: Duration) {
        let mut policy = self.load();
        policy.blocked(time);
        self.store(policy);
    }

    /// Polls until `poll` finds something, `deadline` is over, or the waiter has to park; whether something was found.
    pub fn spin(&self, kind: Kind, deadline: Option<Instant>, mut poll: impl FnMut(&Spin) -> bool) -> bool {
        let mut now = Instant::now();
        let mut spin = self.start(kind, now);
        if is_only_processor() {
            return poll(&spin);
        }
        let is_found = loop {
            if poll(&spin) {
                break true;
            }
            now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                break false;
            }
            match self.next(&mut spin, now) {
                Next::Poll => {}
                Next::Yield => {
                    std::thread::yield_now();
                    spin.yielded(now.elapsed());
                }
                Next::Park => break false,
            }
        };
        self.end(&spin, is_found);
        is_found
    }

    fn load(&self) -> TwoPhase {
        TwoPhase {
            limit: self.limit.load(Ordering::Relaxed),
            spin: self.spin.load(Ordering::Relaxed),
            sleeps_left: self.sleeps_left.load(Ordering::Relaxed),
            sleeps: self.sleeps.load(Ordering::Relaxed),
        }
    }

    fn store(&self, policy: TwoPhase) {
        self.spin.store(policy.spin, Ordering::Relaxed);
        self.sleeps_left.store(policy.sleeps_left, Ordering::Relaxed);
        self.sleeps.store(policy.sleeps, Ordering::Relaxed);
    }
}

/// Whether no peer could answer while this process polls.
pub fn is_only_processor() -> bool {
    processors() == 1
}

/// Processors that this process may use; two if that is unknown. Determined for the first peer, or the first wait that could poll: it takes
/// many system calls, which a task that never waits for others does not need.
fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| std::thread::available_parallelism().map_or(2, usize::from))
}

/// A yield that took this long has given the processor to a program that computes. The kernel ends the slice of such a program at a tick of
/// its clock only.
fn long_yield() -> Duration {
    static LONG: OnceLock<Duration> = OnceLock::new();
    *LONG.get_or_init(|| {
        let tick = Duration::try_from(clock_getres(ClockId::MonotonicCoarse)).unwrap_or_default();
        YIELD_LONG.max(tick * YIELD_LONG_TICK_PART / 100)
    })
}

/// Whether the peer seems to run on this very processor: waits in a row that a yield has ended.
#[derive(Debug, Default)]
struct SharedProcessor {
    yielded: AtomicU32,
    /// The limit of that, after which a wait parks; 0 means the least limit.
    most: AtomicU32,
}

impl SharedProcessor {
    /// A wait has found something, after a yield or without.
    fn found(&self, by_yield: bool) {
        if by_yield {
            self.yielded.store(self.yielded.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
        } else if self.yielded.load(Ordering::Relaxed) > 0 {
            self.yielded.store(0, Ordering::Relaxed);
            self.most.store(0, Ordering::Relaxed);
        }
    }

    /// Whether this wait parks instead of yielding. Where that does not help, since no processor is idle, it becomes rare.
    fn is_to_be_left(&self) -> bool {
        let most = self.most.load(Ordering::Relaxed).max(YIELD_PARK_AFTER);
        let is_due = self.yielded.load(Ordering::Relaxed) >= most;
        if is_due {
            self.yielded.store(0, Ordering::Relaxed);
            self.most.store((most * 2).min(YIELD_PARK_AFTER_MAX), Ordering::Relaxed);
        }
        is_due
    }
}

/// After how many waits the next one yields.
#[derive(Debug, Default)]
struct YieldBackoff {
    left: AtomicU32,
    last: AtomicU32,
    /// Yields in a row that took long, and how many the peers alone may cause.
    long: AtomicU32,
    allowed: AtomicU32,
}

impl YieldBackoff {
    /// Whether this wait yields.
    fn are_due(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        left == 0
    }

    /// The longest yield of a wait took this long; whether a program seems to compute.
    fn took(&self, time: Duration) -> bool {
        if time < long_yield() {
            self.long.store(0, Ordering::Relaxed);
            self.start(self.last.load(Ordering::Relaxed) / 2);
            return false;
        }
        let long = self.long.load(Ordering::Relaxed);
        let is_computing = long >= self.allowed.load(Ordering::Relaxed);
        if is_computing {
            self.start((self.last.load(Ordering::Relaxed) * 2 + 1).min(YIELD_BACKOFF_MAX));
        } else {
            self.long.store(long + 1, Ordering::Relaxed);
        }
        is_computing
    }

    fn start(&self, waits: u32) {
        self.last.store(waits, Ordering::Relaxed);
        self.left.store(waits, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const WAKE: Duration = Duration::from_micros(20);
    const BUDGET: Duration = Duration::from_micros(100);
    const PATIENT: Kind = Kind { before_yields: Duration::from_micros(2), unyielding: Some(4) };

    /// One wait of which each poll takes this long; how long it polled, and with how many yields.
    fn poll_in_vain(wait: &SpinThenPark, kind: Kind, one: Duration) -> (Duration, usize) {
        let start = Instant::now();
        let (mut spin, mut now, mut yields) = (wait.start(kind, start), start, 0);
        loop {
            match wait.next(&mut spin, now) {
                Next::Park => break,
                Next::Yield => yields += 1,
                Next::Poll => {}
            }
            now += one;
        }
        wait.end(&spin, false);
        (now.duration_since(start), yields)
    }

    #[test]
    fn a_waiter_that_finds_by_yields_alone_parks_now_and_then() {
        let wait = SpinThenPark::new(WAKE);
        let mut parks = Vec::new();
        for number in 0..YIELD_PARK_AFTER * 8 {
            let now = Instant::now();
            let mut spin = wait.start(Kind::YIELDING, now);
            match wait.next(&mut spin, now) {
                Next::Park => parks.push(number),
                next => assert_eq!(next, Next::Yield),
            }
            wait.end(&spin, spin.yields.is_some());
        }
        let first = YIELD_PARK_AFTER;
        assert_eq!(parks, [first, first * 3 + 1, first * 7 + 2], "each time after twice as many");
        // One that finds without a yield has a processor for itself.
        let now = Instant::now();
        wait.end(&wait.start(PATIENT, now), true);
        for _ in 0..YIELD_PARK_AFTER {
            let mut spin = wait.start(Kind::YIELDING, now);
            assert_eq!(wait.next(&mut spin, now), Next::Yield);
            wait.end(&spin, true);
        }
        assert_eq!(wait.next(&mut wait.start(Kind::YIELDING, now), now), Next::Park);
    }

    /// The next wait yields to a program that computes.
    fn yield_for_long(wait: &SpinThenPark) {
        let now = Instant::now();
        let mut spin = wait.start(Kind::YIELDING, now);
        assert_eq!(wait.next(&mut spin, now), Next::Yield);
        spin.yielded(long_yield());
        wait.end(&spin, true);
    }

    /// The next wait finds something after a yield that others have used for this long.
    fn find_after_yield(wait: &SpinThenPark, time: Duration) {
        let now = Instant::now();
        let mut spin = wait.start(PATIENT, now);
        assert_eq!(wait.next(&mut spin, now + PATIENT.before_yields), Next::Yield);
        spin.yielded(time);
        wait.end(&spin, true);
    }

    /// The first action of the next wait, which then finds something.
    fn first_action(wait: &SpinThenPark) -> Next {
        let now = Instant::now();
        let mut spin = wait.start(PATIENT, now);
        let next = wait.next(&mut spin, now);
        wait.end(&spin, true);
        next
    }

    #[test]
    fn on_a_crowded_processor_a_wait_yields_at_once_but_for_one_in_some() {
        let wait = SpinThenPark::new(WAKE);
        find_after_yield(&wait, YIELD_ALONE_MAX);
        assert_eq!(first_action(&wait), Next::Poll, "the yield returned at once");
        find_after_yield(&wait, YIELD_ALONE_MAX * 2);
        for number in 1..CROWDED_WAITS {
            assert_eq!(first_action(&wait), Next::Yield, "{number}");
        }
        // It finds without a yield: the peer runs on another processor.
        assert_eq!((first_action(&wait), first_action(&wait)), (Next::Poll, Next::Poll));
    }

    #[test]
    fn a_wait_that_may_not_yield_parks_in_a_crowd_and_polls_beside_a_program_that_computes() {
        let wait = SpinThenPark::new(WAKE);
        yield_for_long(&wait);
        assert_eq!(first_action(&wait), Next::Poll);
        assert!(poll_in_vain(&wait, PATIENT, WAKE / 10).0 > Duration::ZERO);
        let wait = SpinThenPark::new(WAKE);
        find_after_yield(&wait, YIELD_ALONE_MAX * 2);
        wait.yields.took(long_yield());
        assert_eq!(poll_in_vain(&wait, PATIENT, WAKE / 10), (Duration::ZERO, 0));
    }

    #[test]
    fn results_of_waits_are_kept() {
        let wait = SpinThenPark::default();
        assert_eq!(poll_in_vain(&wait, PATIENT, WAKE).0, Duration::ZERO, "unknown how long waking takes");
        wait.set_wake_time(WAKE);
        let mut policy = TwoPhase::new(WAKE, TwoPhase::FACTOR);
        for step in 0..100 {
            if step % 3 == 0 {
                wait.slept(WAKE * step);
                policy.blocked(WAKE * step);
            } else {
                let is_found = step % 10 == 1;
                let spin = wait.start(PATIENT, Instant::now());
                wait.end(&spin, is_found);
                policy.spun(policy.spin(), is_found);
            }
            assert_eq!(wait.budget(), policy.spin());
        }
    }

    #[test]
    fn a_wait_polls_then_yields_then_parks() {
        let wait = SpinThenPark::new(WAKE);
        let one = Duration::from_micros(1);
        assert_eq!(poll_in_vain(&wait, PATIENT, one), (BUDGET, 98));
        assert_eq!(poll_in_vain(&wait, Kind::YIELDING, one), (BUDGET / 2, 50));
    }

    #[test]
    fn where_yields_do_not_pay_a_wait_is_shorter_or_parks_at_once() {
        let one = Duration::from_micros(1);
        let wait = SpinThenPark::new(WAKE);
        yield_for_long(&wait);
        assert_eq!(poll_in_vain(&wait, PATIENT, one), (BUDGET / 4, 0));
        assert_eq!(wait.budget(), BUDGET / 2);
        // The second try to yield takes long again: twice as many waits do without, and one more.
        yield_for_long(&wait);
        for _ in 0..3 {
            let before = wait.budget();
            assert_eq!(poll_in_vain(&wait, Kind::YIELDING, one), (Duration::ZERO, 0));
            assert_eq!(wait.budget(), before, "a wait that did not poll shows nothing");
        }
        assert!(poll_in_vain(&wait, Kind::YIELDING, one).1 > 0);
    }

    #[test]
    fn yields_that_take_long_become_rare_and_come_back() {
        let yields = YieldBackoff::default();
        let tries = (0..100_000).filter(|_| yields.are_due() && yields.took(long_yield())).count();
        assert_eq!(tries, 8 + (100_000 - 255) / 256);
        assert!(!(0..8).any(|_| yields.took(long_yield() / 2)));
        assert!(yields.are_due() && yields.are_due());
    }

    #[test]
    fn among_many_peers_some_yields_in_a_row_may_take_long() {
        let wait = SpinThenPark::new(WAKE);
        let most = 3;
        wait.set_peers(processors() * YIELD_LONG_PEERS * most);
        (0..most).for_each(|_| yield_for_long(&wait));
        assert!(wait.is_crowded());
        find_after_yield(&wait, YIELD_ALONE_MAX * 2);
        (0..=most).for_each(|_| yield_for_long(&wait));
        assert!(!wait.is_crowded(), "one more in a row: a program computes");
        assert_eq!(poll_in_vain(&wait, Kind::YIELDING, WAKE / 10), (Duration::ZERO, 0));
    }

    #[test]
    fn a_wait_ends_when_something_is_found_and_at_its_deadline() {
        let wait = SpinThenPark::new(Duration::from_secs(1));
        let mut polls = 0;
        let found = wait.spin(PATIENT, None, |_| {
            polls += 1;
            polls == 5
        });
        assert_eq!((found, polls), if is_only_processor() { (false, 1) } else { (true, 5) });
        let start = Instant::now();
        assert!(!wait.spin(PATIENT, Some(start + Duration::from_millis(1)), |_| false));
        assert!(start.elapsed() < Duration::from_secs(1));
    }
}
