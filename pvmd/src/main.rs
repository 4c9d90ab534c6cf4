//! The daemon, as a program of its own; everything is in the library.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    pvmd::cli::main()
}
