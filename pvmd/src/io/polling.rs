//! How the daemon waits while messages go to other hosts and come from them: it spins, then parks, as tasks do.
//!
//! Waking a processor that sleeps costs more than all that a daemon does with a small message. So for some time after one has come or
//! gone the daemon polls, and yields the processor between two polls. If other programs compute there, it parks at once.

use crate::io::link::Links;
use pvm_shm::wait::{Kind, Next, Spin, SpinThenPark};
use pvm_wire::tuned::REMOTE_WAKINGS;
use std::thread;
use std::time::{Duration, Instant};

/// Whether the daemon polls, or is parked.
#[derive(Debug, Default)]
pub struct Polling {
    wait: SpinThenPark,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    /// Parked until something comes; no time was spent on polls.
    #[default]
    Idle,
    /// Parked since then, after polls in vain.
    Parked(Instant),
    /// Polls.
    Polls(Spin),
}

impl Polling {
    /// Where waking a process takes `wake_time`. With one processor no peer could answer while the daemon polls.
    pub fn new(wake_time: Duration, cores: u32) -> Self {
        let wait =
            if cores > 1 { SpinThenPark::new(wake_time * REMOTE_WAKINGS) } else { SpinThenPark::default() };
        Self { wait, state: State::Idle }
    }

    /// For how long it polls at present.
    pub fn budget(&self) -> Duration {
        self.wait.budget()
    }

    /// A message of another host has come, or one for it was sent: the next may come soon.
    pub fn note_message(&mut self) {
        self.note_message_at(Instant::now());
    }

    fn note_message_at(&mut self, now: Instant) {
        match &self.state {
            State::Idle => {}
            State::Parked(since) => self.wait.slept(now.duration_since(*since)),
            State::Polls(spin) => self.wait.end(spin, true),
        }
        let mut spin = self.wait.start(Kind::YIELDING, now);
        let parks = self.wait.next(&mut spin, now) == Next::Park;
        self.state = if parks { State::Idle } else { State::Polls(spin) };
    }

    /// The daemon has yielded, and had the processor back after this time.
    pub fn yielded(&mut self, time: Duration) {
        if let State::Polls(spin) = &mut self.state {
            spin.yielded(time);
        }
    }

    /// Whether to poll once more.
    pub fn is_due(&mut self) -> bool {
        matches!(self.state, State::Polls(_)) && self.is_due_at(Instant::now())
    }

    fn is_due_at(&mut self, now: Instant) -> bool {
        let State::Polls(spin) = &mut self.state else { return false };
        if self.wait.next(spin, now) != Next::Park {
            return true;
        }
        self.wait.end(spin, false);
        self.state = State::Parked(now);
        false
    }
}

/// Yields: first to the daemon's other tasks, through some of which a message of a link passes before it gets here, and if no message has
/// come then, to other processes. Returns the time until the processor came back.
pub async fn yield_once(links: &Links) -> Duration {
    loop {
        let before = links.arrivals();
        tokio::task::yield_now().await;
        if links.arrivals() == before {
            break;
        }
    }
    let start = Instant::now();
    thread::yield_now();
    start.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAKE: Duration = Duration::from_micros(20);

    /// For how long it is looked if nothing comes.
    fn look(polling: &mut Polling, now: &mut Instant) -> Duration {
        let begin = *now;
        while polling.is_due_at(*now) {
            *now += Duration::from_nanos(250);
        }
        now.duration_since(begin)
    }

    /// A message comes a second after the last, and nothing follows.
    fn look_once(polling: &mut Polling, now: &mut Instant) -> Duration {
        *now += Duration::from_secs(1);
        polling.note_message_at(*now);
        look(polling, now)
    }

    #[test]
    fn it_looks_after_messages_as_long_as_it_pays() {
        let (mut polling, mut now) = (Polling::new(WAKE, 2), Instant::now());
        assert!(!polling.is_due_at(now), "nothing has come");
        for part in [1, 2, 4, 8, 16, 16] {
            assert_eq!(look_once(&mut polling, &mut now), WAKE * 25 / part);
        }
        // What comes while it looks brings its patience back, and so does what comes soon afterwards.
        now += Duration::from_secs(1);
        for _ in 0..4 {
            polling.note_message_at(now);
        }
        assert_eq!(look(&mut polling, &mut now), WAKE * 25 / 2);
        now += WAKE;
        polling.note_message_at(now);
        assert_eq!(look(&mut polling, &mut now), WAKE * 25);
    }

    #[test]
    fn it_sleeps_where_nobody_else_could_run() {
        let (mut polling, now) = (Polling::new(WAKE, 1), Instant::now());
        polling.note_message_at(now);
        assert!(!polling.is_due_at(now));
    }

    #[test]
    fn beside_those_who_compute_it_sleeps_at_once() {
        let (mut polling, mut now) = (Polling::new(WAKE, 2), Instant::now());
        polling.note_message_at(now);
        assert!(polling.is_due_at(now));
        // The processor was given away, and comes back a slice later.
        polling.yielded(Duration::from_millis(3));
        now += Duration::from_millis(3);
        assert!(!polling.is_due_at(now));
        polling.note_message_at(now);
        assert!(!polling.is_due_at(now));
        polling.note_message_at(now);
        assert!(polling.is_due_at(now), "it is tried again");
    }
}
