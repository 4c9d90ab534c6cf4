//! `cargo bench -p benches`.

use benches::cli::{self, Cli};
use benches::lab::Programs;
use clap::Parser;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let programs = Programs {
        rust: Path::new(env!("CARGO_BIN_EXE_pvm-bench-rust")),
        makespan: Path::new(env!("CARGO_BIN_EXE_pvm-bench-makespan")),
        pulling: Path::new(env!("CARGO_BIN_EXE_pvm-bench-pulling")),
        manager: Path::new(env!("CARGO_BIN_EXE_pvm-bench-manager")),
        scale: Path::new(env!("CARGO_BIN_EXE_pvm-bench-scale")),
        jobs: Path::new(env!("CARGO_BIN_EXE_pvm-bench-jobs")),
        moves: Path::new(env!("CARGO_BIN_EXE_pvm-bench-moves")),
        dasic: Path::new(env!("CARGO_BIN_EXE_pvm-bench-dasic")),
        coallocation: Path::new(env!("CARGO_BIN_EXE_pvm-bench-coallocation")),
    };
    match cli::run(&Cli::parse(), programs) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("benches: {error:#}");
            ExitCode::FAILURE
        }
    }
}
