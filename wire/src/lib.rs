//! What travels between the parts of a parallel virtual machine, as pure values.
//!
//! Task ids, headers and encodings are PVM 3.4's, byte for byte, so that any libpvm3 can talk to this system's
//! daemon and this system's library to the original daemon. What only this system's own daemons say to each other
//! is serde types in bincode ([`daemon`], [`batch`], through [`codec`]).
//!
//! Nothing here does I/O, reads a clock or allocates by a size it has not checked against [`limits`].
#![forbid(unsafe_code)]

pub mod batch;
mod blob;
pub mod body;
pub mod calls;
pub mod certificate;
pub mod channel;
pub mod codec;
pub mod codes;
pub mod copy;
pub mod coscheduling;
pub mod daemon;
pub mod element;
pub mod encoding;
pub mod error;
pub mod event_reader;
pub mod events;
pub mod group;
pub mod header;
pub mod held;
mod host_table;
pub mod incident;
pub mod jobs;
pub mod lent;
pub mod limits;
pub mod loads;
pub mod message;
pub mod output;
pub mod owner;
mod plain;
pub mod quantity;
pub mod queue;
pub mod rows;
pub mod runs;
pub mod services;
pub mod slave;
pub mod spawn;
pub mod tid;
pub mod timeline;
pub mod tuned;
pub mod turn_rules;
pub mod upper;

pub use element::{Complex32, Complex64, Element};
pub use encoding::{DataSignature, Encoding};
pub use error::PvmError;
pub use header::{FragmentHeader, MessageHeader};
pub use held::Body;
pub use lent::Lent;
pub use message::{Message, Reassembler};
pub use plain::plain;
pub use runs::{Cursor, Runs};
pub use tid::{HostIndex, Tid};
pub use upper::Upper;
