//! Messages between the tasks of one host, through memory that they share.
//!
//! Each task has one [`Segment`]: it alone allocates there, and the receivers of its messages read there. Towards each receiver
//! there is a [`ring`] of cache lines, on which a small message is one line and a large one the place of a block. A
//! receiver gives a block back by setting a flag of its own, so no message is counted by two tasks, and a task that ends at any
//! instruction leaves nothing half done: what it had published can be read, the rest was never there.
//!
//! The protocols ([`ring`], [`bell`], [`gate`], [`ledger`]) are written over [`Memory`] and checked under loom; only [`mapping`] is unsafe.
#![deny(unsafe_code)]

pub mod arena;
pub mod bell;
mod deliveries;
pub mod gate;
#[cfg(test)]
mod heap;
pub mod inherited;
pub mod ledger;
pub mod lineage;
mod loan;
#[cfg(all(test, loom))]
mod loom_tests;
#[allow(unsafe_code)]
pub mod mapping;
mod memory;
pub mod outbox;
pub mod page;
pub mod ring;
mod store;
pub mod wait;

pub use loan::{Loan, Offset, OutOfBounds};
pub use mapping::{Body, Mapping, Segment, View, unacknowledged};
pub use memory::{LINE, Memory};
pub use outbox::{Outbox, Parcel};
pub use ring::SendError;
pub use store::{Packing, SEGMENT_SIZE};
