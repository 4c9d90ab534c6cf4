//! Starts the task manager; daemons run it, users do not.

use std::process::ExitCode;

fn main() -> ExitCode {
    pvm_task_manager::run(std::env::args_os().skip(1))
}
