//! How many barriers a task has passed in each of its groups, in its own segment, where its daemon reads it.
//!
//! Members of a group that does not change agree on barriers by messages between them. When the group changes, some may have passed a
//! barrier that others have not. So each member writes here that it passes one before it goes on, and the daemon of each member
//! *closes* its entry when it delivers the notice of the change: from then on the member passes no barrier of that epoch. What all
//! entries say then is final, whatever the members do meanwhile. A closed entry opens again with a view of a later epoch.
//!
//! A task may read a view that is out of date already, as the notice is on its way to it. So the daemon writes the epoch of the notice first,
//! and the task looks for that after it has opened its entry: either the task sees the epoch, or the daemon closes the open entry.

use crate::memory::Memory;
use pvm_wire::group::{Key, Passed, TURNS};

/// The first entry; the bell has what is before.
const START: u64 = 1024;
/// Behind the last entry.
const END: u64 = crate::bell::BELL_SIZE;
/// Bytes of an entry.
const ENTRY: u64 = 32;

/// Places in an entry: the key of the group in two words, 0 if the entry is free.
const KEY: u64 = 0;
/// The epoch of the view that opened the entry last.
const EPOCH: u64 = 8;
/// The barriers passed, and the two marks.
const WORD: u64 = 12;
/// The epoch of the latest notice.
const NOTICE: u64 = 16;

/// No barrier is passed.
const CLOSED: u32 = 1;
/// The entry was open at some time.
const OPENED: u32 = 2;
/// The barriers passed are counted from this bit on.
const TURN: u32 = 4;

/// The place of a group's entry in the segment of this task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(u64);

fn entries() -> impl Iterator<Item = u64> {
    (START..END).step_by(ENTRY as usize)
}

fn key_at(memory: &impl Memory, at: u64) -> Key {
    Key(u64::from(memory.load(at + KEY)) << 32 | u64::from(memory.load(at + KEY + 4)))
}

fn find(memory: &impl Memory, key: Key) -> Option<u64> {
    entries().find(|&at| key_at(memory, at) == key)
}

fn word_of(turn: i32) -> u32 {
    (turn.cast_unsigned() % TURNS * TURN) | OPENED
}

/// What an entry says, if it was ever open.
fn passed(memory: &impl Memory, at: u64, word: u32) -> Option<Passed> {
    let (group, epoch) = (key_at(memory, at), memory.load(at + EPOCH).cast_signed());
    (word & OPENED != 0).then(|| Passed { group, epoch, turn: (word / TURN).cast_signed() })
}

/// The task's entry for a group, which is closed if it is new; `None` if there are too many groups.
pub fn enter(own: &impl Memory, group: Key) -> Option<Entry> {
    if let Some(at) = find(own, group) {
        return Some(Entry(at));
    }
    let at = find(own, Key::NONE)?;
    for (place, word) in [(EPOCH, 0), (WORD, CLOSED), (NOTICE, 0)] {
        own.store(at + place, word);
    }
    own.store(at + KEY, (group.0 >> 32) as u32);
    own.store(at + KEY + 4, group.0 as u32);
    Some(Entry(at))
}

/// The task leaves the group, and its entry is free from now on; what it said.
pub fn leave(own: &impl Memory, group: Key) -> Option<Passed> {
    let at = find(own, group)?;
    let said = passed(own, at, own.load(at + WORD));
    own.store(at + KEY, 0);
    own.store(at + KEY + 4, 0);
    said
}

/// The task has read a view of this epoch, in which `turn` barriers are passed; `false` if the view is out of date.
pub fn open(own: &impl Memory, Entry(at): Entry, epoch: i32, turn: i32) -> bool {
    own.store(at + EPOCH, epoch.cast_unsigned());
    own.store(at + WORD, word_of(turn));
    own.fence();
    let is_valid = own.load(at + NOTICE).cast_signed() <= epoch;
    if !is_valid {
        let _ = own.exchange(at + WORD, word_of(turn), word_of(turn) | CLOSED);
    }
    is_valid
}

/// The task passes the barrier `turn` of the epoch in which it opened the entry; `false` if it must not, as the entry is closed.
pub fn pass(own: &impl Memory, Entry(at): Entry, turn: i32) -> bool {
    own.exchange(at + WORD, word_of(turn), word_of(turn.wrapping_add(1))).is_ok()
}

/// Closes the entry of a group whose epoch is this from now on; what it says then.
pub fn close(memory: &impl Memory, group: Key, epoch: i32) -> Option<Passed> {
    let at = find(memory, group)?;
    memory.store(at + NOTICE, epoch.cast_unsigned());
    memory.fence();
    let mut word = memory.load(at + WORD);
    // A task may write there without end.
    for _ in 0..1000 {
        match memory.exchange(at + WORD, word, word | CLOSED) {
            Ok(()) => return passed(memory, at, word),
            Err(found) => word = found,
        }
    }
    None
}

/// What all entries say that were ever open, and the epochs of their latest notices.
pub fn all(memory: &impl Memory) -> impl Iterator<Item = (Passed, i32)> {
    let used = entries().filter(|&at| key_at(memory, at) != Key::NONE);
    used.filter_map(|at| {
        let passed = passed(memory, at, memory.load(at + WORD))?;
        Some((passed, memory.load(at + NOTICE).cast_signed()))
    })
}

/// Writes an entry as another process of the task has left it: closed.
pub fn resume(own: &impl Memory, Passed { group, epoch, turn }: Passed, notice: i32) {
    let Some(Entry(at)) = enter(own, group) else { return };
    own.store(at + EPOCH, epoch.cast_unsigned());
    own.store(at + WORD, word_of(turn) | CLOSED);
    own.store(at + NOTICE, notice.cast_unsigned());
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::heap::Heap;

    const G: Key = Key(7 << 32 | 9);

    fn said(epoch: i32, turn: i32) -> Passed {
        Passed { group: G, epoch, turn }
    }

    #[test]
    fn a_closed_entry_passes_nothing_until_a_later_view() {
        let memory = Heap::new(4096);
        let entry = enter(&memory, G).unwrap();
        assert_eq!(enter(&memory, G), Some(entry), "one for each group");
        assert!(!pass(&memory, entry, 0), "it is closed");
        assert_eq!((close(&memory, G, 3), all(&memory).count()), (None, 0), "it was never open");
        assert!(!open(&memory, entry, 2, 0) && !pass(&memory, entry, 0), "a view from before the notice");
        assert!(open(&memory, entry, 3, 0) && pass(&memory, entry, 0) && pass(&memory, entry, 1));
        assert!(!pass(&memory, entry, 1), "each once");
        assert_eq!(close(&memory, G, 4), Some(said(3, 2)));
        assert!(!pass(&memory, entry, 2));
        assert_eq!(all(&memory).collect::<Vec<_>>(), [(said(3, 2), 4)]);
        assert!(open(&memory, entry, 9, 5) && pass(&memory, entry, 5));
    }

    #[test]
    fn there_is_a_number_of_entries_and_they_are_used_again() {
        let memory = Heap::new(4096);
        let keys = (1..).map(Key);
        let taken = keys.clone().take_while(|&key| enter(&memory, key).is_some()).count();
        assert_eq!(taken, 96);
        assert_eq!(leave(&memory, Key(50)), None, "it was never open");
        assert_eq!(close(&memory, Key(50), 1), None);
        assert!(enter(&memory, Key(500)).is_some() && enter(&memory, Key(501)).is_none());
    }

    #[test]
    fn counts_come_round() {
        let memory = Heap::new(4096);
        let entry = enter(&memory, G).unwrap();
        let last = (TURNS - 1).cast_signed();
        assert!(open(&memory, entry, 1, last) && pass(&memory, entry, last) && pass(&memory, entry, 0));
        assert_eq!(close(&memory, G, 2), Some(said(1, 1)));
    }

    #[test]
    fn another_process_goes_on_with_it() {
        let (old, new) = (Heap::new(4096), Heap::new(4096));
        let entry = enter(&old, G).unwrap();
        assert!(open(&old, entry, 3, 8));
        close(&old, G, 5);
        let (passed, notice) = all(&old).next().unwrap();
        resume(&new, passed, notice);
        let entry = enter(&new, G).unwrap();
        assert!(!pass(&new, entry, 8) && !open(&new, entry, 4, 8) && open(&new, entry, 5, 8));
        assert_eq!((leave(&new, G), all(&new).count()), (Some(said(5, 8)), 0));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::heap::Heap;
    use loom::sync::Arc;
    use loom::thread;

    /// A member opens its entry and passes a barrier while its daemon closes the entry: what the daemon reads is what the member did.
    #[test]
    fn what_is_read_when_it_closes_is_final() {
        loom::model(|| {
            let memory = Arc::new(Heap::new(1088));
            let key = Key(1);
            let entry = enter(&*memory, key).expect("an entry");
            let theirs = memory.clone();
            let daemon = thread::spawn(move || close(&*theirs, key, 2));
            let has_passed = open(&*memory, entry, 1, 5) && pass(&*memory, entry, 5);
            let read = daemon.join().unwrap();
            assert_eq!(has_passed, read == Some(Passed { group: key, epoch: 1, turn: 6 }));
            assert!(!pass(&*memory, entry, 5) && !pass(&*memory, entry, 6));
        });
    }
}
