//! Blocks on their way: each is kept until its receiver has set the flag by which it releases the block.

use crate::memory::Memory;
use crate::store::Block;
use pvm_wire::Tid;
use pvm_wire::tuned::RECLAIM_LOOKS;
use std::sync::Arc;

/// A block on its way to one receiver.
#[derive(Debug)]
struct Delivery {
    to: Tid,
    flag: u64,
    length: u32,
    /// Only held.
    _block: Arc<Block>,
}

/// All deliveries of a task.
#[derive(Debug, Default)]
pub(crate) struct Deliveries {
    under_way: Vec<Delivery>,
    /// Places of unused flags.
    flags: Vec<u64>,
    look: usize,
}

impl Deliveries {
    /// A place for a flag, if there is one.
    pub fn take_flag(&mut self) -> Option<u64> {
        self.flags.pop()
    }

    /// Adds places of unused flags.
    pub fn add_flags(&mut self, places: impl Iterator<Item = u64>) {
        self.flags.extend(places);
    }

    /// A block is on its way.
    pub fn begin(&mut self, to: Tid, flag: u64, (block, length): (Arc<Block>, u32)) {
        self.under_way.push(Delivery { to, flag, length, _block: block });
    }

    /// Bytes on their way to a task.
    pub fn under_way_to(&self, receiver: Tid) -> u64 {
        let to_it = self.under_way.iter().filter(|delivery| delivery.to == receiver);
        to_it.map(|delivery| u64::from(delivery.length)).sum()
    }

    /// Ends released ones among a few, the last first: its memory is in the cache.
    pub fn reclaim_some(&mut self, memory: &impl Memory) {
        if let Some(last) = self.under_way.len().checked_sub(1) {
            self.end_if_taken(last, memory);
        }
        for _ in 0..RECLAIM_LOOKS.min(self.under_way.len()) {
            if self.look >= self.under_way.len() {
                self.look = 0;
            }
            if !self.end_if_taken(self.look, memory) {
                self.look += 1;
            }
        }
    }

    /// Ends all that have been released.
    pub fn reclaim_all(&mut self, memory: &impl Memory) {
        self.end_where(|delivery| memory.load(delivery.flag) != 0);
    }

    /// Ends those to a task.
    pub fn forget(&mut self, receiver: Tid) {
        self.end_where(|delivery| delivery.to == receiver);
    }

    /// Ends all.
    pub fn clear(&mut self) {
        self.end_where(|_| true);
    }

    fn end_where(&mut self, is_over: impl Fn(&Delivery) -> bool) {
        let mut index = 0;
        while let Some(delivery) = self.under_way.get(index) {
            if is_over(delivery) { self.end(index) } else { index += 1 }
        }
    }

    fn end_if_taken(&mut self, index: usize, memory: &impl Memory) -> bool {
        let taken = self.under_way.get(index).is_some_and(|delivery| memory.load(delivery.flag) != 0);
        if taken {
            self.end(index);
        }
        taken
    }

    fn end(&mut self, index: usize) {
        self.flags.push(self.under_way.swap_remove(index).flag);
    }
}
