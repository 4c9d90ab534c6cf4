//! Leaving a processor to another task that waits there, too.
//!
//! Two tasks that look for each other's messages on one processor answer each other only when they give it away. The system parts two that
//! run all the time after a tenth of a second, and puts one that is woken on an idle processor if it finds one; where processors are
//! virtual, it often takes those that idle for taken.

use pvm_shm::{Mapping, bell};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::fs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Between two tries: what one costs, and the caches that are left behind, is to be no more than a thousandth.
const AGAIN: Duration = Duration::from_millis(20);

/// When a task may leave a processor.
#[derive(Debug, Default)]
pub struct Parting {
    /// Of the first try.
    begun: OnceLock<Instant>,
    /// When the next try may be, nanoseconds from the begin.
    next: AtomicU64,
}

impl Parting {
    /// Goes on on another processor if one of the tasks whose memories these are looks for messages on this one.
    pub fn part_from<'a>(&self, mut others: impl Iterator<Item = &'a Mapping>) {
        let (here, now) = (sched_getcpu(), self.begun.get_or_init(Instant::now).elapsed());
        let is_time = now.as_nanos() as u64 >= self.next.load(Ordering::Relaxed);
        if is_time && others.any(|other| bell::waits_on(other, here)) {
            self.next.store((now + AGAIN).as_nanos() as u64, Ordering::Relaxed);
            leave(here);
        }
    }
}

/// The task whose memory this is goes on looking for messages where it is.
pub fn tell(own: &Mapping) {
    bell::wait_on(own, sched_getcpu());
}

/// Goes on on another processor, one that shares its last cache with this one if there is any. Afterwards this thread may run where it
/// might before.
fn leave(here: usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let file = format!("/sys/devices/system/cpu/cpu{here}/cache/index3/shared_cpu_list");
    let near = only(&allowed, &listed(&file), here);
    let others = if near.count() > 0 { near } else { only(&allowed, &all(), here) };
    if others.count() > 0 && sched_setaffinity(None, &others).is_ok() {
        // Who may run anywhere may do so on processors that come later, too.
        let online = listed("/sys/devices/system/cpu/online");
        let is_free = !online.is_empty() && online.iter().all(|&processor| allowed.is_set(processor));
        let before = if is_free { set(&all()) } else { allowed };
        let _ = sched_setaffinity(None, &before);
    }
}

fn all() -> Vec<usize> {
    (0..CpuSet::MAX_CPU).collect()
}

fn set(processors: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    for &processor in processors {
        set.set(processor);
    }
    set
}

/// Those of a set that are among these, but for one.
fn only(allowed: &CpuSet, among: &[usize], but: usize) -> CpuSet {
    let wanted = among.iter().copied().filter(|&processor| processor != but && allowed.is_set(processor));
    set(&wanted.collect::<Vec<_>>())
}

/// What a file of the system lists: numbers and ranges, as in `0-3,8`.
fn listed(file: &str) -> Vec<usize> {
    fs::read_to_string(file).map_or_else(|_| Vec::new(), |text| numbers(&text))
}

fn numbers(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?.min(CpuSet::MAX_CPU - 1))
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvm_shm::Outbox;
    use std::sync::Arc;

    fn memory() -> Arc<Mapping> {
        Outbox::new(1 << 20).unwrap().memory().clone()
    }

    #[test]
    fn who_waits_on_the_same_processor_is_left() {
        let before = sched_getaffinity(None).unwrap();
        if before.count() < 2 {
            return eprintln!("one processor: nothing to try");
        }
        let theirs = memory();
        // The system may move this thread at any time, too.
        let has_moved = (0..100).any(|_| {
            tell(&theirs);
            let here = sched_getcpu();
            Parting::default().part_from(std::iter::once(&*theirs));
            sched_getcpu() != here
        });
        assert!(has_moved);
        let after = sched_getaffinity(None).unwrap();
        assert!((0..CpuSet::MAX_CPU).all(|processor| before.is_set(processor) == after.is_set(processor)));
    }

    /// It hides what the system has mapped into a program, by which the processor is asked for.
    #[test]
    fn processors_are_told_under_valgrind() {
        let test = "engine::processors::tests::nobody_is_left_for_nothing_nor_too_often";
        let program = std::env::current_exe().unwrap();
        let valgrind = std::process::Command::new("valgrind")
            .args(["-q", "--tool=none", "--error-exitcode=9"])
            .arg(program)
            .args(["--exact", test])
            .output();
        if let Ok(output) = valgrind {
            let told = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && told.contains("1 passed"), "{output:?}");
        } else {
            let is_full = std::env::var_os("PVM_TEST_FULL").is_some_and(|value| value == "1");
            assert!(!is_full, "valgrind is missing");
            eprintln!("valgrind is missing: nothing tried");
        }
    }

    #[test]
    fn nobody_is_left_for_nothing_nor_too_often() {
        let (theirs, parting) = (memory(), Parting::default());
        let next = || {
            parting.part_from(std::iter::once(&*theirs));
            parting.next.load(Ordering::Relaxed)
        };
        assert_eq!(next(), 0, "nobody waits there");
        tell(&theirs);
        bell::wait_nowhere(&*theirs);
        assert_eq!(next(), 0, "nobody waits there any more");
        parting.next.store(u64::MAX, Ordering::Relaxed);
        tell(&theirs);
        assert_eq!(next(), u64::MAX, "it was tried a moment ago");
    }

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(numbers("0-2,5,7-7\n"), [0, 1, 2, 5, 7]);
        assert_eq!(numbers("\n"), []);
        assert_eq!(numbers("3-1,x,-2,4"), [4]);
        assert_eq!(numbers("0-99999999999").len(), CpuSet::MAX_CPU);
    }
}
