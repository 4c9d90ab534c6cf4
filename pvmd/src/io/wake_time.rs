//! What it takes to wake another process, measured once at the start: tasks that wait for each other spin for some times as
//! long before they sleep.

use rustix::io::{read, write};
use rustix::pipe::pipe;
use std::thread;
use std::time::{Duration, Instant};

const ROUNDS: usize = 100;

/// If it cannot be measured.
const USUAL: Duration = Duration::from_micros(3);

/// The time from one thread's writing to the other's having read. The median: neither the luckiest round nor the first.
pub fn measure() -> Duration {
    rounds().map_or(USUAL, |mut times| {
        times.sort_unstable();
        times[times.len() / 2] / 2
    })
}

fn rounds() -> rustix::io::Result<Vec<Duration>> {
    let ((hear, answer), (listen, ask)) = (pipe()?, pipe()?);
    let other = thread::spawn(move || {
        let mut byte = [0];
        while matches!(read(&listen, &mut byte), Ok(1)) && write(&answer, &byte).is_ok() {}
    });
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        write(&ask, &[1])?;
        read(&hear, &mut [0])?;
        times.push(begin.elapsed());
    }
    drop(ask);
    // It ends with the pipe.
    let _ = other.join();
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_some_time() {
        let time = measure();
        assert!(!time.is_zero() && time < Duration::from_secs(1), "{time:?}");
    }
}
