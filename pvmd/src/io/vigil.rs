//! How the daemon waits while messages go to other hosts and come from them: in two phases, as tasks do.
//!
//! Waking a processor that sleeps costs more than all that a daemon does with a small message. So for some time after one has come or
//! gone it goes on looking, and lets others have the processor between two looks. If those compute, it sleeps at once.

use crate::io::link::Links;
use pvm_shm::patience::Patience;
use pvm_shm::pause::Pause;
use std::thread;
use std::time::{Duration, Instant};

/// Between a message and its answer so many are woken: the other daemon, its task, that daemon again, and this one.
const WAKINGS: u32 = 4;

/// Whether the daemon looks for what comes, or sleeps.
#[derive(Debug, Default)]
pub struct Vigil {
    patience: Patience,
    pause: Pause,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    /// Until something comes.
    #[default]
    Asleep,
    /// Since then, after it was looked in vain.
    Sleeps(Instant),
    /// Since then, for so long.
    Looks(Instant, Duration),
}

impl Vigil {
    /// Where waking takes so long. With one processor nobody could answer while the daemon looks.
    pub fn new(wake_time: Duration, cores: u32) -> Self {
        let vigil = Self::default();
        if cores > 1 {
            vigil.patience.set_wake_time(wake_time * WAKINGS);
        }
        vigil
    }

    /// For how long it looks at present.
    pub fn in_force(&self) -> Duration {
        self.patience.time()
    }

    /// A message of another host has come, or one for it was sent: the next may come soon.
    pub fn came(&mut self) {
        self.came_at(Instant::now());
    }

    fn came_at(&mut self, now: Instant) {
        match self.state {
            State::Asleep => {}
            State::Sleeps(since) => self.patience.slept(now.duration_since(since)),
            State::Looks(since, time) => self.end(now.duration_since(since), time, true),
        }
        let time = self.patience.time();
        let looks = !time.is_zero() && self.pause.is_over();
        self.state = if looks { State::Looks(now, time) } else { State::Asleep };
    }

    /// Whether to look again.
    pub fn looks(&mut self) -> bool {
        matches!(self.state, State::Looks(..)) && self.looks_at(Instant::now())
    }

    fn looks_at(&mut self, now: Instant) -> bool {
        let State::Looks(since, time) = self.state else { return false };
        if now.duration_since(since) < time {
            return true;
        }
        self.end(now.duration_since(since), time, false);
        self.state = State::Sleeps(now);
        false
    }

    fn end(&self, took: Duration, wanted: Duration, is_found: bool) {
        self.pause.took(took);
        self.patience.looked(wanted, is_found);
    }
}

/// All others have a turn: first what else this daemon has to do, and if nothing has come then, other processes. What has come on a
/// link goes through some hands before it gets here, and somebody waits for it.
pub async fn pass(links: &Links) {
    loop {
        let before = links.arrivals();
        tokio::task::yield_now().await;
        if links.arrivals() == before {
            break;
        }
    }
    thread::yield_now();
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAKE: Duration = Duration::from_micros(20);

    /// For how long it is looked if nothing comes.
    fn look(vigil: &mut Vigil, now: &mut Instant) -> Duration {
        let begin = *now;
        while vigil.looks_at(*now) {
            *now += Duration::from_nanos(250);
        }
        now.duration_since(begin)
    }

    /// A message comes a second after the last, and nothing follows.
    fn look_once(vigil: &mut Vigil, now: &mut Instant) -> Duration {
        *now += Duration::from_secs(1);
        vigil.came_at(*now);
        look(vigil, now)
    }

    #[test]
    fn it_looks_after_messages_as_long_as_it_pays() {
        let (mut vigil, mut now) = (Vigil::new(WAKE, 2), Instant::now());
        assert!(!vigil.looks_at(now), "nothing has come");
        for part in [1, 2, 4, 8, 16, 16] {
            assert_eq!(look_once(&mut vigil, &mut now), WAKE * 20 / part);
        }
        // What comes while it looks brings its patience back, and so does what comes soon afterwards.
        now += Duration::from_secs(1);
        for _ in 0..4 {
            vigil.came_at(now);
        }
        assert_eq!(look(&mut vigil, &mut now), WAKE * 10);
        now += WAKE;
        vigil.came_at(now);
        assert_eq!(look(&mut vigil, &mut now), WAKE * 20);
    }

    #[test]
    fn it_sleeps_where_nobody_else_could_run() {
        let (mut vigil, now) = (Vigil::new(WAKE, 1), Instant::now());
        vigil.came_at(now);
        assert!(!vigil.looks_at(now));
    }

    #[test]
    fn beside_those_who_compute_it_sleeps_at_once() {
        let (mut vigil, mut now) = (Vigil::new(WAKE, 2), Instant::now());
        vigil.came_at(now);
        assert!(vigil.looks_at(now));
        // The processor was given away, and comes back a slice later.
        now += Duration::from_millis(3);
        assert!(!vigil.looks_at(now));
        vigil.came_at(now);
        assert!(!vigil.looks_at(now));
        vigil.came_at(now);
        assert!(vigil.looks_at(now), "it is tried again");
    }
}
