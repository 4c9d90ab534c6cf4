//! Whatever comes from outside a process, thrown at whoever reads it.
//!
//! Each module has a function `read` that takes any bytes and must neither panic, nor ask for memory that the bytes do not
//! account for, nor run for ever. `tests/short.rs` feeds them bytes of a seed on every run of the tests; with coverage to guide
//! it, and for as long as you like, `cargo fuzz` does:
//!
//! ```sh
//! cargo install cargo-fuzz
//! cargo +nightly fuzz run --features libfuzzer task_socket -- -max_total_time=600
//! ```
#![forbid(unsafe_code)]

pub mod console_line;
mod cursor;
pub mod daemon_messages;
pub mod hostfile;
pub mod ring;
pub mod task_socket;
pub mod trace;
pub mod unpack;

use pvm_wire::HostIndex;
use pvmd_core::Config;
use pvmd_simulated::daemon::{Daemon, config};
use std::time::Duration;

/// The daemon of this host, on which teams take turns.
fn daemon(index: HostIndex) -> Daemon {
    let slice = Some(Duration::from_millis(50));
    Daemon::new(Config { slice, ..config(index) }, Duration::ZERO).0
}

/// One of them.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 7] = [
    ("console_line", console_line::read),
    ("daemon_messages", daemon_messages::read),
    ("hostfile", hostfile::read),
    ("ring", ring::read),
    ("task_socket", task_socket::read),
    ("trace", trace::read),
    ("unpack", unpack::read),
];
