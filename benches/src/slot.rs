//! The slots of a host for tasks that sleep: as many of them sleep at a time as the host has slots, and the others wait for one, as tasks
//! that compute would wait for a processor.

use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io;
use std::path::Path;

/// A slot, until it is dropped.
#[derive(Debug)]
pub struct Slot {
    _file: File,
}

impl Slot {
    /// Takes a free slot of a host, whose files are in a folder of the batch; the `number`-th task of the batch waits in the line of one
    /// of them if none is free.
    pub fn take(folder: &Path, host: usize, slots: u32, number: u64) -> io::Result<Self> {
        let slots = u64::from(slots.max(1));
        let open = |slot: u64| {
            let name = format!("slot-{host}-{slot}");
            File::options().create(true).append(true).open(folder.join(name))
        };
        for slot in 0..slots {
            let file = open(slot)?;
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                return Ok(Self { _file: file });
            }
        }
        let file = open(number % slots)?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::{Duration, Instant};

    #[test]
    fn no_more_sleep_at_a_time_than_a_host_has_slots() {
        let folder = tempfile::tempdir().expect("a folder");
        let time = Duration::from_millis(60);
        let all = |hosts: usize| {
            let start = Instant::now();
            thread::scope(|scope| {
                for number in 0..6_usize {
                    let folder = folder.path();
                    scope.spawn(move || {
                        let _slot = Slot::take(folder, number % hosts, 2, number as u64).expect("a slot");
                        thread::sleep(time);
                    });
                }
            });
            start.elapsed()
        };
        assert!(all(3) < 2 * time, "every host has a slot for each of its tasks");
        assert!(all(1) >= 3 * time, "three after another in each of the two slots");
    }
}
