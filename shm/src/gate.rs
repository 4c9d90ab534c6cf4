//! A barrier in shared memory: one word in the segment of one of the tasks.
//!
//! It counts arrivals and rounds. The last task to arrive begins the next round and wakes the others. Each step is one
//! exchange, so a task may end at any instruction: it has arrived, or it has not. A task that stops waiting closes
//! the gate, unless the round is over; then no task passes it any more, and all waiting tasks know that none has.

use crate::loan::{Offset, OutOfBounds};
use crate::mapping::Mapping;
use crate::memory::Memory;
use crate::wait::{Kind, SpinThenPark};
use pvm_wire::tuned::GATE_POLLS;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most tasks at one gate.
pub const SIZE_MAX: u32 = COUNT;

/// Bytes of a gate.
const WORD: u64 = 4;

/// No more rounds.
const CLOSED: u32 = 1 << 31;
/// A task sleeps at the gate.
const SLEEPERS: u32 = 1 << 30;
/// A task waits elsewhere.
const ABSENT: u32 = 1 << 29;
/// Number of arrivals.
const COUNT: u32 = (1 << 12) - 1;
/// One round.
const ROUND: u32 = COUNT + 1;
/// The number of the round. It is never 0, so that empty memory is no gate.
const ROUNDS: u32 = (ABSENT - 1) & !COUNT;

/// The result of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// All have arrived. Tasks that wait elsewhere have to be notified.
    Complete {
        /// A task waits elsewhere.
        are_absent: bool,
    },
    /// Others have not arrived yet; this is the round to wait for.
    Early(Round),
    /// The gate is closed.
    Closed,
}

/// A round at a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round(u32);

/// The state of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not all have arrived.
    Open,
    /// All have arrived.
    Over,
    /// The gate is closed, and the round was not over.
    Closed,
}

/// Makes a gate of a word.
pub fn set(memory: &impl Memory, at: u64) {
    memory.store(at, ROUND);
}

fn next_round(word: u32) -> u32 {
    match word.wrapping_add(ROUND) & ROUNDS {
        0 => ROUND,
        round => round,
    }
}

/// Arrives, as one of `size`; the word's old value if that was the last one.
fn arrive(memory: &impl Memory, at: u64, size: u32) -> Result<u32, Arrival> {
    let mut word = memory.load(at);
    loop {
        if word & CLOSED != 0 || word & ROUNDS == 0 {
            return Err(Arrival::Closed);
        }
        let is_last = (word & COUNT) + 1 >= size;
        let next = if is_last { next_round(word) } else { word + 1 };
        match memory.exchange(at, word, next) {
            Ok(()) if is_last => return Ok(word),
            Ok(()) => return Err(Arrival::Early(Round(word & ROUNDS))),
            Err(found) => word = found,
        }
    }
}

fn state_of(word: u32, round: Round) -> State {
    match word & ROUNDS {
        0 => State::Closed,
        now if now != round.0 => State::Over,
        _ if word & CLOSED != 0 => State::Closed,
        _ => State::Open,
    }
}

/// Sets a mark while the round is open; the word then, or the state of the round.
fn mark(memory: &impl Memory, at: u64, round: Round, mark: u32) -> Result<u32, State> {
    let mut word = memory.load(at);
    loop {
        match state_of(word, round) {
            State::Open => {}
            other => return Err(other),
        }
        match memory.exchange(at, word, word | mark) {
            Ok(()) => return Ok(word | mark),
            Err(found) => word = found,
        }
    }
}

/// A gate, for one of its tasks.
#[derive(Clone, Debug)]
pub struct Gate {
    memory: Arc<Mapping>,
    at: u64,
    size: u32,
    polls: u32,
    wait: Arc<SpinThenPark>,
}

impl Gate {
    /// The gate of `size` tasks at a place that its owner has announced. Waking a task takes `wake_time`.
    pub fn new(memory: Arc<Mapping>, at: u64, size: u32, wake_time: Duration) -> Result<Self, OutOfBounds> {
        let at = Offset::within(&*memory, at, WORD, WORD)?.get();
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let polls = if size as usize <= cores { GATE_POLLS } else { 1 };
        Ok(Self { memory, at, size, polls, wait: Arc::new(SpinThenPark::new(wake_time)) })
    }

    /// Arrives. The last task to arrive wakes the others.
    pub fn arrive(&self) -> Arrival {
        match arrive(&*self.memory, self.at, self.size) {
            Ok(word) => {
                self.wake_if(word);
                Arrival::Complete { are_absent: word & ABSENT != 0 }
            }
            Err(arrival) => arrival,
        }
    }

    /// The round that is under way.
    pub fn round(&self) -> Round {
        Round(self.memory.load(self.at) & ROUNDS)
    }

    /// The state of a round.
    pub fn state(&self, round: Round) -> State {
        state_of(self.memory.load(self.at), round)
    }

    /// Waits at the gate until a round ends, or for at most `time`.
    pub fn wait(&self, round: Round, time: Duration) -> State {
        // Without a look at the clock.
        if self.polls_over(round) {
            return self.state(round);
        }
        let end = Instant::now() + time;
        if self.wait.spin(Kind::YIELDING, Some(end), |_| self.polls_over(round)) {
            return self.state(round);
        }
        let parked = Instant::now();
        let state = self.park(round, end);
        self.wait.slept(parked.elapsed());
        state
    }

    /// Whether the round is over, or the gate closed, by one of some polls.
    fn polls_over(&self, round: Round) -> bool {
        (0..self.polls).any(|_| {
            let is_over = self.state(round) != State::Open;
            if !is_over {
                std::hint::spin_loop();
            }
            is_over
        })
    }

    fn park(&self, round: Round, end: Instant) -> State {
        loop {
            let word = match mark(&*self.memory, self.at, round, SLEEPERS) {
                Ok(word) => word,
                Err(state) => return state,
            };
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return State::Open;
            }
            self.memory.sleep(self.at, word, left);
        }
    }

    /// This task continues to wait elsewhere: the last task to arrive has to notify it.
    pub fn leave(&self, round: Round) -> State {
        mark(&*self.memory, self.at, round, ABSENT).err().unwrap_or(State::Open)
    }

    /// Closes the gate, if the round is not over. Returns the state, and whether tasks have to be notified that wait
    /// elsewhere.
    pub fn close(&self, round: Round) -> (State, bool) {
        match mark(&*self.memory, self.at, round, CLOSED) {
            Ok(word) => {
                self.wake_if(word);
                (State::Closed, word & ABSENT != 0)
            }
            Err(state) => (state, false),
        }
    }

    fn wake_if(&self, word: u32) {
        if word & SLEEPERS != 0 {
            self.memory.wake(self.at);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Segment;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const AT: u64 = 4096;

    fn gate(size: u32) -> Gate {
        let segment = Segment::new(1 << 20).unwrap();
        set(&**segment.mapping(), AT);
        Gate::new(segment.mapping().clone(), AT, size, Duration::from_micros(10)).unwrap()
    }

    fn early(arrival: Arrival) -> Round {
        let Arrival::Early(round) = arrival else { panic!("{arrival:?}") };
        round
    }

    #[test]
    fn no_task_passes_before_all_have_arrived() {
        const TASKS: u32 = 5;
        const ROUNDS: usize = 2000;
        let (gate, come) = (gate(TASKS), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..TASKS {
                scope.spawn(|| {
                    for round in 1..=ROUNDS {
                        come.fetch_add(1, Ordering::Relaxed);
                        if let Arrival::Early(at) = gate.arrive() {
                            while gate.wait(at, Duration::from_secs(1)) != State::Over {}
                        }
                        assert!(come.load(Ordering::Relaxed) >= round * TASKS as usize);
                    }
                });
            }
        });
        assert_eq!(come.into_inner(), ROUNDS * TASKS as usize);
    }

    #[test]
    fn no_task_passes_a_closed_gate() {
        let gate = gate(3);
        let round = early(gate.arrive());
        assert_eq!((gate.state(round), gate.close(round)), (State::Open, (State::Closed, false)));
        assert_eq!((gate.arrive(), gate.state(round)), (Arrival::Closed, State::Closed));
        assert_eq!(gate.wait(round, Duration::from_secs(60)), State::Closed);
    }

    #[test]
    fn a_round_that_is_over_cannot_be_closed() {
        let gate = gate(2);
        let round = early(gate.arrive());
        assert_eq!(gate.arrive(), Arrival::Complete { are_absent: false });
        assert_eq!((gate.close(round), gate.leave(round)), ((State::Over, false), State::Over));
        let next = early(gate.arrive());
        assert!(next != round, "the gate is open for the next round");
        assert_eq!((gate.leave(next), gate.close(next)), (State::Open, (State::Closed, true)));
        assert_eq!(gate.state(round), State::Over, "whoever has not looked yet passes that round");
    }

    #[test]
    fn the_last_to_arrive_knows_that_a_task_waits_elsewhere() {
        let gate = gate(2);
        let round = early(gate.arrive());
        assert_eq!(gate.wait(round, Duration::from_millis(1)), State::Open);
        assert_eq!(gate.leave(round), State::Open);
        assert_eq!(gate.arrive(), Arrival::Complete { are_absent: true });
        early(gate.arrive());
        assert_eq!(gate.arrive(), Arrival::Complete { are_absent: false });
    }

    #[test]
    fn sleepers_are_woken() {
        let gate = gate(2);
        for close in [false, true] {
            let round = early(gate.arrive());
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| gate.wait(round, Duration::from_secs(600)));
                while gate.memory.load(AT) & SLEEPERS == 0 {
                    std::thread::yield_now();
                }
                let expected = if close {
                    gate.close(round).0
                } else {
                    gate.arrive();
                    State::Over
                };
                assert_eq!(waiting.join().unwrap(), expected);
            });
        }
    }

    #[test]
    fn a_task_that_has_not_arrived_closes_the_gate() {
        let gate = gate(2);
        let Arrival::Early(round) = gate.arrive() else { panic!("the other has not arrived") };
        assert_eq!(gate.leave(round), State::Open);
        assert_eq!((gate.round(), gate.close(gate.round())), (round, (State::Closed, true)));
        assert_eq!((gate.state(round), gate.arrive()), (State::Closed, Arrival::Closed));
    }

    #[test]
    fn rounds_go_on_for_ever() {
        let gate = gate(1);
        gate.memory.store(AT, ROUNDS);
        assert_eq!(gate.arrive(), Arrival::Complete { are_absent: false });
        assert_eq!(gate.memory.load(AT), ROUND);
        gate.memory.store(AT, 0);
        assert_eq!(gate.arrive(), Arrival::Closed, "nothing was ever set there");
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::heap::Heap;
    use loom::sync::Arc;
    use loom::thread;

    /// One task gives up while the other arrives: both agree on whether the round is over.
    #[test]
    fn all_agree_on_whether_a_round_is_over() {
        loom::model(|| {
            let memory = Arc::new(Heap::new(64));
            set(&*memory, 0);
            let Err(Arrival::Early(round)) = arrive(&*memory, 0, 2) else { panic!() };
            let theirs = memory.clone();
            let other = thread::spawn(move || arrive(&*theirs, 0, 2));
            let closed = mark(&*memory, 0, round, CLOSED);
            let passed = other.join().unwrap().is_ok();
            assert_eq!(closed.is_err(), passed);
            assert_eq!(state_of(memory.load(0), round), if passed { State::Over } else { State::Closed });
        });
    }
}
