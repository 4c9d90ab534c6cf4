//! The per-batch process that nodes pull tasks from.
//!
//! A daemon that has a batch to place starts a task manager and tells it of the batch; nodes ask the manager for tasks,
//! and it tells the daemon who gets how many. It holds no truth of its own: if it dies, another goes on with what is
//! left. [`machine`] is all it decides.
#![forbid(unsafe_code)]

pub mod machine;
