//! `cargo bench -p benches`.

use benches::cli::{self, Cli};
use clap::Parser;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::run(&Cli::parse(), Path::new(env!("CARGO_BIN_EXE_pvm-bench-rust"))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("benches: {error:#}");
            ExitCode::FAILURE
        }
    }
}
