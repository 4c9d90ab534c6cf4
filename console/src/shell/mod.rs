//! The console's command language, without a virtual machine.

pub mod aliases;
pub mod batches;
pub mod help;
pub mod ps;
pub mod signals;
pub mod spawn_options;
pub mod tables;
pub mod words;
