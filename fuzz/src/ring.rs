//! Shared memory in which another task writes what it likes.

use crate::cursor::Cursor;
use pvm_shm::Memory;
use pvm_shm::ring::{Place, Reader, Record};
use std::cell::RefCell;

const SIZE: usize = 16 * 1024;

/// Memory that is not shared.
struct Fake(RefCell<Vec<u8>>);

impl Fake {
    fn at<T>(&self, at: u64, length: usize, act: impl FnOnce(&mut [u8]) -> T) -> Option<T> {
        let mut bytes = self.0.borrow_mut();
        let at = usize::try_from(at).ok()?;
        Some(act(bytes.get_mut(at..at.checked_add(length)?)?))
    }
}

impl Memory for Fake {
    fn size(&self) -> u64 {
        SIZE as u64
    }

    fn load(&self, at: u64) -> u32 {
        let word = self.at(at, 4, |bytes| bytes.first_chunk().map(|word| u32::from_ne_bytes(*word)));
        word.flatten().unwrap_or(0)
    }

    fn store(&self, at: u64, value: u32) {
        self.write(at, &value.to_ne_bytes());
    }

    fn swap(&self, at: u64, value: u32) -> u32 {
        let before = self.load(at);
        self.store(at, value);
        before
    }

    fn exchange(&self, at: u64, expected: u32, value: u32) -> Result<(), u32> {
        let before = self.load(at);
        if before == expected {
            self.store(at, value);
            Ok(())
        } else {
            Err(before)
        }
    }

    fn fence(&self) {}

    fn read(&self, at: u64, into: &mut [u8]) {
        self.at(at, into.len(), |bytes| into.copy_from_slice(bytes));
    }

    fn write(&self, at: u64, from: &[u8]) {
        self.at(at, from.len(), |bytes| bytes.copy_from_slice(from));
    }
}

/// Fills memory with bytes, with a well-numbered record now and then, and reads it as a ring.
pub fn read(bytes: &[u8]) {
    let mut cursor = Cursor(bytes);
    let mut filled = cursor.piece(SIZE / 2).to_vec();
    filled.resize(SIZE, 0);
    let memory = Fake(RefCell::new(filled));
    let Ok(mut reader) = Reader::new(&memory, 0) else { return };
    for _ in 0..300 {
        if let Some(kind) = cursor.byte() {
            let (at, number) = reader.awaited();
            memory.write(at + 8, cursor.piece(usize::from(kind) % 57));
            memory.store(at + 4, u32::from(kind % 6));
            memory.store(at, number);
        }
        match reader.receive(&memory) {
            Ok(Some(Record::Message(_, Place::Inline { at, length }))) => {
                assert!(memory.has(at.get(), length as u64));
            }
            Ok(Some(Record::Message(_, Place::Block(loan)))) => {
                assert!(memory.has(loan.body().get(), loan.length() as u64));
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return,
        }
    }
}
