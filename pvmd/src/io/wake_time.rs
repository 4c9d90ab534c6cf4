//! What it takes to wake another process, measured once at the start: tasks that wait for each other spin for some times as
//! long before they sleep.

use pvm_wire::tuned::{WAKE_MAX, WAKE_ROUNDS};
use rustix::io::{read, write};
use rustix::pipe::pipe;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

/// If it cannot be measured.
const USUAL: Duration = Duration::from_micros(20);

/// The time from one thread's writing to the other's having read. The lower quartile, so that other work counts little.
pub fn measure() -> Duration {
    rounds().map_or(USUAL, |mut times| {
        times.sort_unstable();
        (times[times.len() / 4] / 2).min(WAKE_MAX)
    })
}

/// Round trips between two threads. They have a processor each, if there are two: on one of them together, where the system
/// would put those that wake each other, they would not see what it takes to wake a processor.
fn rounds() -> rustix::io::Result<Vec<Duration>> {
    let (here, there) = two_processors(&sched_getaffinity(None)?);
    let ((hear, answer), (listen, ask)) = (pipe()?, pipe()?);
    thread::scope(|scope| {
        scope.spawn(move || echo(there, &listen, &answer));
        let asking = scope.spawn(move || ask_times(here, &ask, &hear));
        asking.join().unwrap_or(Err(rustix::io::Errno::IO))
    })
}

fn ask_times(processor: CpuSet, ask: &OwnedFd, hear: &OwnedFd) -> rustix::io::Result<Vec<Duration>> {
    sched_setaffinity(None, &processor)?;
    let mut times = Vec::with_capacity(WAKE_ROUNDS);
    for _ in 0..WAKE_ROUNDS {
        let begin = Instant::now();
        write(ask, &[1])?;
        read(hear, &mut [0])?;
        times.push(begin.elapsed());
    }
    Ok(times)
}

/// Until the pipe ends.
fn echo(processor: CpuSet, listen: &OwnedFd, answer: &OwnedFd) {
    // Where it runs decides how good the measurement is, not whether there is one.
    let _ = sched_setaffinity(None, &processor);
    let mut byte = [0];
    while matches!(read(listen, &mut byte), Ok(1)) && write(answer, &byte).is_ok() {}
}

/// Two different ones of these, as far as there are two.
fn two_processors(allowed: &CpuSet) -> (CpuSet, CpuSet) {
    let mut numbers = (0..CpuSet::MAX_CPU).filter(|&number| allowed.is_set(number));
    let first = numbers.next().unwrap_or(0);
    let second = numbers.next().unwrap_or(first);
    [first, second]
        .map(|number| {
            let mut one = CpuSet::new();
            one.set(number);
            one
        })
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_some_time() {
        let time = measure();
        assert!(!time.is_zero() && time < Duration::from_secs(1), "{time:?}");
    }

    #[test]
    fn processors_differ_where_there_are_two() {
        let mut allowed = CpuSet::new();
        allowed.set(3);
        let of = |(a, b): (CpuSet, CpuSet)| (a.is_set(3), b.is_set(5));
        assert_eq!(of(two_processors(&allowed)), (true, false));
        allowed.set(5);
        assert_eq!(of(two_processors(&allowed)), (true, true));
    }
}
