//! The `pvm` command: PVM's console, `pvm run`, `pvm demo`, and every other program of the system by another name.
#![forbid(unsafe_code)]

pub mod cli;
pub mod console;
pub mod daemon;
pub mod demo;
pub mod inside;
pub mod lines;
pub mod machine;
pub mod orphans;
pub mod progress;
pub mod run;
pub mod shell;
pub mod supervise;
pub mod timeline;
pub mod top;
