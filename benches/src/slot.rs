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
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    const SLOTS: u32 = 2;
    const TASKS: usize = 6;

    /// Runs `while_held` in the tasks of a batch on that many hosts, each while it has its slot.
    fn run(hosts: usize, while_held: impl Fn() + Sync) {
        let folder = tempfile::tempdir().expect("a folder");
        thread::scope(|scope| {
            for number in 0..TASKS {
                let (folder, while_held) = (folder.path(), &while_held);
                scope.spawn(move || {
                    let _slot = Slot::take(folder, number % hosts, SLOTS, number as u64).expect("a slot");
                    while_held();
                });
            }
        });
    }

    #[test]
    fn hosts_with_a_slot_for_each_task_keep_no_task_waiting() {
        // Ends only if all have their slots at the same time.
        let all = Barrier::new(TASKS);
        run(3, || {
            all.wait();
        });
    }

    #[test]
    fn no_more_sleep_at_a_time_than_a_host_has_slots() {
        let (asleep, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        run(1, || {
            most.fetch_max(asleep.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(20));
            asleep.fetch_sub(1, Ordering::SeqCst);
        });
        assert!(most.into_inner() <= SLOTS as usize);
    }
}
