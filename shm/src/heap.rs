//! Memory for tests, under loom's eyes where loom runs.

use crate::memory::Memory;
#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Words on the heap. Copies are relaxed, so that loom shows them late unless they are ordered by a loaded word.
pub struct Heap(Vec<AtomicU32>);

impl Heap {
    pub fn new(size: u64) -> Self {
        Self((0..size / 4).map(|_| AtomicU32::new(0)).collect())
    }

    fn word(&self, at: u64) -> Option<&AtomicU32> {
        if at.is_multiple_of(4) { self.0.get(at as usize / 4) } else { None }
    }
}

impl Memory for Heap {
    fn size(&self) -> u64 {
        self.0.len() as u64 * 4
    }

    fn load(&self, at: u64) -> u32 {
        self.word(at).map_or(0, |word| word.load(Ordering::Acquire))
    }

    fn store(&self, at: u64, value: u32) {
        if let Some(word) = self.word(at) {
            word.store(value, Ordering::Release);
        }
    }

    fn swap(&self, at: u64, value: u32) -> u32 {
        self.word(at).map_or(0, |word| word.swap(value, Ordering::SeqCst))
    }

    fn exchange(&self, at: u64, expected: u32, value: u32) -> Result<(), u32> {
        let (done, failed) = (Ordering::AcqRel, Ordering::Acquire);
        self.word(at).map_or(Err(0), |word| word.compare_exchange(expected, value, done, failed).map(drop))
    }

    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    fn read(&self, at: u64, into: &mut [u8]) {
        for (index, chunk) in into.chunks_mut(4).enumerate() {
            let word = self.word(at + 4 * index as u64).map_or(0, |word| word.load(Ordering::Relaxed));
            chunk.copy_from_slice(&word.to_ne_bytes()[..chunk.len()]);
        }
    }

    fn write(&self, at: u64, from: &[u8]) {
        for (index, chunk) in from.chunks(4).enumerate() {
            let mut bytes = [0; 4];
            bytes[..chunk.len()].copy_from_slice(chunk);
            if let Some(word) = self.word(at + 4 * index as u64) {
                word.store(u32::from_ne_bytes(bytes), Ordering::Relaxed);
            }
        }
    }
}
