//! The `pvm` command: PVM's console, `pvm run`, `pvm demo`, `pvm bench`, and every other program of the system by another name.
#![forbid(unsafe_code)]

pub mod adding;
pub mod autoscale;
pub mod bench;
pub mod cli;
pub mod commands;
pub mod console;
pub mod daemon;
pub mod demo;
pub mod inside;
pub mod jobs;
pub mod lines;
pub mod losses;
pub mod machine;
pub mod orphans;
pub mod peer;
pub mod progress;
pub mod run;
pub mod shell;
pub mod supervise;
pub mod timeline;
pub mod top;
pub mod trace;
pub mod view;
pub mod web;

use std::time::{Duration, SystemTime};

/// What happened, with all its causes, for people: without the numbers of the system's errors.
pub fn plain(error: &anyhow::Error) -> String {
    pvm_wire::plain(format_args!("{error:#}"))
}

/// The time since 1970 by this host's clock; none if it is before.
pub fn since_1970() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn errors_have_no_numbers() {
        let error = Err::<(), _>(std::io::Error::from_raw_os_error(2)).context("cannot read x").unwrap_err();
        assert_eq!(plain(&error), "cannot read x: No such file or directory");
        let error = anyhow::anyhow!("a (os error 2): b (os error 13), c");
        assert_eq!(plain(&error), "a: b, c");
    }
}
