//! The `pvm` command: PVM's console, `pvm run`, `pvm demo`, and every other program of the system by another name.
#![forbid(unsafe_code)]

pub mod shell;
