//! Room for tasks in the memory of this host: what bounds P (papers, section 1). Beyond it processors would wait for the disk.

use crate::event::Sample;

/// A task that has begun a moment ago has little memory yet: less than this counts as this.
const LEAST: u64 = 1 << 20;

/// The memory of this host, as it was last read, and what a task needs of it.
#[derive(Debug, Default)]
pub(crate) struct TaskMemory {
    /// Bytes that a task needs, if a person says so (`PVM_TASK_MEMORY`).
    given: Option<u64>,
    /// The mean of the tasks that ran when it was last measured.
    measured: Option<u64>,
    reading: Option<Reading>,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    /// Bytes that new programs could have.
    free: u64,
    /// Tasks that ran, whose memory is not free any more.
    running: usize,
}

impl TaskMemory {
    /// With the bytes that a task needs, if that is known.
    pub fn new(given: Option<u64>) -> Self {
        Self { given, ..Self::default() }
    }

    /// The memory of the host was read. Whether that of the tasks is to be measured.
    pub fn read(&mut self, sample: &Sample, running: usize) -> bool {
        // A host of which nothing is known has no bound.
        let known = sample.memory > 0;
        self.reading = known.then_some(Reading { free: sample.free, running });
        if running == 0 {
            self.measured = None;
        }
        known && running > 0 && self.given.is_none()
    }

    /// The mean memory of the tasks that run, in bytes.
    pub fn measured(&mut self, mean: u64) {
        self.measured = Some(mean.max(LEAST));
    }

    /// For how many more tasks there is memory while this number runs; `None` if that is not known. A host without tasks has room
    /// for one.
    pub fn room(&self, running: usize) -> Option<u64> {
        let (need, Reading { free, running: counted }) = (self.given.or(self.measured)?, self.reading?);
        // Those that have begun since then have what was free.
        let begun = running.saturating_sub(counted) as u64;
        Some((free / need.max(1)).saturating_sub(begun).max(u64::from(running == 0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn free(mib: u64) -> Sample {
        Sample { memory: 1000 * MIB, free: mib * MIB, ..Sample::default() }
    }

    #[test]
    fn tasks_that_run_tell_what_the_next_need() {
        let mut memory = TaskMemory::new(None);
        assert_eq!(memory.room(3), None, "nothing is known");
        assert!(memory.read(&free(100), 3), "they are to be measured");
        assert_eq!(memory.room(3), None);
        memory.measured(30 * MIB);
        assert_eq!([3, 4, 6, 7].map(|running| memory.room(running)), [3, 2, 0, 0].map(Some));
        assert_eq!(memory.room(2), Some(3), "what an ended one had is free with the next reading");
        memory.measured(5);
        assert_eq!(memory.room(3), Some(100));
        assert!(!memory.read(&free(190), 0));
        assert_eq!(memory.room(0), None, "the next may be others");
    }

    #[test]
    fn what_a_person_says_needs_no_tasks_that_run() {
        let mut memory = TaskMemory::new(Some(40 * MIB));
        assert!(!memory.read(&free(100), 0) && !memory.read(&free(100), 2));
        assert_eq!([2, 3, 4].map(|running| memory.room(running)), [2, 1, 0].map(Some));
        memory.read(&free(10), 0);
        assert_eq!(
            [0, 1].map(|running| memory.room(running)),
            [1, 0].map(Some),
            "a queue never stands still for good"
        );
        memory.read(&Sample::default(), 0);
        assert_eq!(memory.room(0), None);
    }
}
