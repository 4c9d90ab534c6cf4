//! What a host reaches without PVM: copies in memory, words between threads, starts of processes.

use super::line::Stop;
use super::pingpong::{content, warm_up};
use super::usage::processors;
use std::collections::VecDeque;
use std::hint::{black_box, spin_loop};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Processes per processor that run at a time.
const PER_PROCESSOR: usize = 4;
/// How often a word goes there and back in a stretch.
const STRETCH: u64 = 256;
/// The longest time of all stretches but the first ones.
const FLIPS: Duration = Duration::from_millis(100);
/// The value of the word that ends the other thread.
const END: u64 = u64::MAX;
/// Looks at a word before the processor is given to another thread.
const SPINS: u32 = 200;

/// Copies bytes twice, as packing and unpacking do.
pub fn copies(bytes: u64, count: u64) -> Duration {
    let from = content(bytes);
    let (mut between, mut to) = (vec![0; from.len()], vec![0; from.len()]);
    let mut copy = |times: u64| {
        for _ in 0..times {
            between.copy_from_slice(black_box(&from));
            to.copy_from_slice(black_box(&between));
            black_box(&to);
        }
    };
    copy(warm_up(count));
    let start = Instant::now();
    copy(count);
    start.elapsed()
}

/// Two threads hand a word to each other. The time is that of the fastest stretch, for all of them: where other programs have the processors, the
/// threads wait for whole time slices, which says nothing about the processors.
pub fn flips(count: u64) -> Result<Duration, Stop> {
    let word = AtomicU64::new(0);
    thread::scope(|scope| {
        thread::Builder::new().spawn_scoped(scope, || answer(&word))?;
        let (start, mut done, mut best) = (Instant::now(), 0, Duration::MAX);
        while done < count.max(2 * STRETCH) && (done < 2 * STRETCH || start.elapsed() < FLIPS) {
            let stretch = Instant::now();
            for number in done..done + STRETCH {
                word.store(2 * number + 1, Ordering::Release);
                wait(&word, |value| value == 2 * number + 2);
            }
            best = best.min(stretch.elapsed());
            done += STRETCH;
        }
        word.store(END, Ordering::Release);
        Ok(best.mul_f64(count as f64 / STRETCH as f64))
    })
}

/// The other thread: makes each odd number even.
fn answer(word: &AtomicU64) {
    loop {
        let value = wait(word, |value| value % 2 == 1);
        if value == END {
            return;
        }
        word.store(value + 1, Ordering::Release);
    }
}

fn wait(word: &AtomicU64, is_wanted: impl Fn(u64) -> bool) -> u64 {
    let mut looks: u32 = 0;
    loop {
        let value = word.load(Ordering::Acquire);
        if is_wanted(value) {
            return value;
        }
        looks = looks.wrapping_add(1);
        // Both threads may share a processor.
        if looks.is_multiple_of(SPINS) { thread::yield_now() } else { spin_loop() }
    }
}

/// Starts processes of this program that exit at once: one at a time, or four per processor. Then each processor has a thread that starts them, since
/// a thread waits while the kernel replaces the program of a process.
pub fn execs(count: u64, many: bool) -> Result<Duration, Stop> {
    let program = std::env::current_exe()?;
    let threads = if many { u64::from(processors()).min(count) } else { 1 };
    let at_once = if many { PER_PROCESSOR } else { 1 };
    let start = Instant::now();
    thread::scope(|scope| {
        let part = |number: u64| count / threads + u64::from(number < count % threads);
        let begin = |number| {
            let (part, program) = (part(number), &program);
            thread::Builder::new().spawn_scoped(scope, move || start_all(program, part, at_once))
        };
        let started: Vec<_> = (0..threads).map(begin).collect::<Result<_, _>>()?;
        let failed = |_| Err(Stop::Failed("a thread has failed".into()));
        started.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(failed))
    })?;
    Ok(start.elapsed())
}

fn start_all(program: &Path, count: u64, at_once: usize) -> Result<(), Stop> {
    let mut running: VecDeque<Child> = VecDeque::new();
    for _ in 0..count {
        if running.len() >= at_once {
            end(running.pop_front())?;
        }
        let mut command = Command::new(program);
        command.args(["bench", "--worker", "nothing"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        running.push_back(command.spawn()?);
    }
    running.into_iter().try_for_each(|child| end(Some(child)))
}

fn end(child: Option<Child>) -> Result<(), Stop> {
    let Some(mut child) = child else { return Ok(()) };
    let status = child.wait()?;
    if status.success() { Ok(()) } else { Err(Stop::Failed(format!("a process has ended with {status}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_and_flips_take_time() {
        assert!(copies(4096, 10) > Duration::ZERO);
        assert!(flips(10).unwrap() > Duration::ZERO);
    }
}
