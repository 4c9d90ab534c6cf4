//! The daemon's timers: each costs one wake-up of the process, and those that may go off late share one.
//!
//! tokio keeps timers in a wheel of slots. A timer that is 64 ms or more away wakes the process at the beginning of its slot, which is 64 ms
//! long, and again when it is due; one of more than 4 s wakes it three times. An idle daemon does hardly anything but wait, so half of its
//! wake-ups were of that kind. Here all timers share one of the system's (timerfd_create(2)).

use crate::io::watched::{Watched, watch};
use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tracing::error;

/// The longest time by which a timer may be late.
const LATENESS_MAX: Duration = Duration::from_secs(1);

/// Where timers are set. Clones are the same clock.
#[derive(Clone, Debug)]
pub struct Clock(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    system: Watched<OwnedFd>,
    timers: Mutex<Timers>,
}

/// The timers that are set, and when the system wakes the process for them.
#[derive(Debug, Default)]
struct Timers {
    /// By the time at which each goes off at the latest.
    set: BTreeMap<Key, Entry>,
    count: u64,
    /// The earliest time that the system was told. It is not told that a timer is not wanted any more: most are set again.
    armed: Option<Instant>,
}

type Key = (Instant, u64);

#[derive(Debug)]
struct Entry {
    due: Instant,
    waker: Waker,
}

/// Whether the system has to be told another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arm {
    Keep,
    At(Instant),
}

impl Timers {
    fn insert(&mut self, due: Instant, lateness: Duration, waker: Waker) -> (Key, Arm) {
        self.count += 1;
        let key = (due + lateness.min(LATENESS_MAX), self.count);
        self.set.insert(key, Entry { due, waker });
        (key, self.arm())
    }

    /// The system has woken the process. Takes all timers that are due, whether or not they could be later.
    fn take_due(&mut self, now: Instant) -> (Vec<Waker>, Arm) {
        let end = (now + LATENESS_MAX, u64::MAX);
        let is_due = |(key, entry): (&Key, &Entry)| (entry.due <= now).then_some(*key);
        let due: Vec<Key> = self.set.range(..=end).filter_map(is_due).collect();
        let wakers = due.iter().filter_map(|key| self.set.remove(key)).map(|entry| entry.waker).collect();
        self.armed = None;
        (wakers, self.arm())
    }

    fn arm(&mut self) -> Arm {
        let first = self.set.keys().next().map(|&(latest, _)| latest);
        match first.filter(|&first| self.armed.is_none_or(|armed| first < armed)) {
            None => Arm::Keep,
            Some(first) => {
                self.armed = Some(first);
                Arm::At(first)
            }
        }
    }
}

impl Clock {
    /// Starts it, in this runtime of tokio.
    pub fn start() -> io::Result<Self> {
        let system =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        let shared = Shared { system: watch(system, Interest::READABLE)?, timers: Mutex::default() };
        let clock = Self(Arc::new(shared));
        tokio::spawn(run(clock.clone()));
        Ok(clock)
    }

    /// Ends at this time, or as much later at the most.
    pub fn sleep_until(&self, due: Instant, lateness: Duration) -> Sleep {
        Sleep { clock: self.clone(), due, lateness, set: None }
    }

    fn timers(&self) -> MutexGuard<'_, Timers> {
        self.0.timers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arm(&self, arm: Arm) {
        let Arm::At(time) = arm else { return };
        let after = time.saturating_duration_since(Instant::now());
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Zero would turn it off.
        let nanoseconds = i64::from(after.subsec_nanos()).max(1);
        let value = Timespec { tv_sec: after.as_secs() as i64, tv_nsec: nanoseconds };
        let once = Itimerspec { it_interval: never, it_value: value };
        if let Err(error) = timerfd_settime(self.0.system.get_ref(), TimerfdTimerFlags::empty(), &once) {
            error!(%error, "a timer cannot be set");
        }
    }
}

/// Wakes the tasks whose timers go off, until the runtime ends.
async fn run(clock: Clock) {
    while let Ok(mut readable) = clock.0.system.readable().await {
        // It need not be read: setting it makes it unreadable, and each time that it goes off is an event.
        readable.clear_ready();
        let (wakers, arm) = clock.timers().take_due(Instant::now());
        clock.arm(arm);
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Ends at a time, which can be set anew.
#[derive(Debug)]
pub struct Sleep {
    clock: Clock,
    due: Instant,
    lateness: Duration,
    /// Where the clock has it, once it has been polled.
    set: Option<Key>,
}

impl Sleep {
    /// When it ends.
    pub fn deadline(&self) -> Instant {
        self.due
    }

    /// It ends then instead.
    pub fn reset(&mut self, due: Instant) {
        self.due = due;
        self.forget();
    }

    fn forget(&mut self) {
        if let Some(key) = self.set.take() {
            self.clock.timers().set.remove(&key);
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.forget();
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(key) = self.set {
            let mut timers = self.clock.timers();
            // What the clock has forgotten is over.
            let Some(entry) = timers.set.get_mut(&key) else { return Poll::Ready(()) };
            entry.waker.clone_from(cx.waker());
            return Poll::Pending;
        }
        if self.due <= Instant::now() {
            return Poll::Ready(());
        }
        let (key, arm) = self.clock.timers().insert(self.due, self.lateness, cx.waker().clone());
        self.clock.arm(arm);
        self.set = Some(key);
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Sets timers, each given by its due time and its greatest lateness, in milliseconds. Returns the time of each wake-up, in milliseconds, and
    /// the number of timers that go off then.
    fn wake_ups(timers: &[(u32, u32)]) -> Vec<(u32, usize)> {
        let (begin, mut set) = (Instant::now(), Timers::default());
        for &(due, lateness) in timers {
            set.insert(begin + MS * due, MS * lateness, Waker::noop().clone());
        }
        let mut times = Vec::new();
        while let Some(armed) = set.armed {
            let (wakers, arm) = set.take_due(armed);
            assert_eq!(set.armed.map_or(Arm::Keep, Arm::At), arm);
            times.push(((armed - begin).as_millis() as u32, wakers.len()));
        }
        assert!(set.set.is_empty());
        times
    }

    #[test]
    fn each_timer_costs_one_wake_up_and_late_ones_share_it() {
        assert_eq!(wake_ups(&[(700, 0), (1000, 0), (5, 0)]), [(5, 1), (700, 1), (1000, 1)]);
        assert_eq!(wake_ups(&[(700, 50), (740, 0), (760, 0), (710, 500)]), [(740, 3), (760, 1)]);
        // Longer than any may be late.
        assert_eq!(wake_ups(&[(1, 5000), (1002, 0), (1000, 0)]), [(1000, 2), (1002, 1)]);
    }

    #[test]
    fn the_system_hears_of_earlier_times_only() {
        let (begin, mut timers) = (Instant::now(), Timers::default());
        let mut insert =
            |after: u32| timers.insert(begin + MS * after, Duration::ZERO, Waker::noop().clone()).1;
        assert_eq!(insert(20), Arm::At(begin + MS * 20));
        assert_eq!(insert(30), Arm::Keep);
        assert_eq!(insert(10), Arm::At(begin + MS * 10));
    }

    #[tokio::test]
    async fn a_sleep_ends_when_it_is_due_and_can_be_set_again() {
        let (clock, begin) = (Clock::start().unwrap(), Instant::now());
        let mut sleep = clock.sleep_until(begin + MS * 100, Duration::ZERO);
        for (due, seen) in [(MS * 100, MS * 100), (MS * 3, MS * 100), (MS * 130, MS * 130)] {
            sleep.reset(begin + due);
            (&mut sleep).await;
            assert!(begin.elapsed() >= seen);
            // It stays over.
            (&mut sleep).await;
        }
        clock.sleep_until(begin, Duration::ZERO).await;
        assert!(clock.timers().set.is_empty());
    }

    #[tokio::test]
    async fn a_sleep_that_is_dropped_or_put_off_leaves_no_timer() {
        let (clock, begin) = (Clock::start().unwrap(), Instant::now());
        let [mut put_off, mut dropped] = [(); 2].map(|()| clock.sleep_until(begin + MS * 5, Duration::ZERO));
        for sleep in [&mut put_off, &mut dropped] {
            assert!(Pin::new(sleep).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        assert_eq!(clock.timers().set.len(), 2);
        drop(dropped);
        put_off.reset(begin + MS * 40);
        assert!(clock.timers().set.is_empty());
        put_off.await;
        assert!(begin.elapsed() >= MS * 40);
    }
}
