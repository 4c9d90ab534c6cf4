//! `pvm run`: a program on a machine of its own.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::install::Installation;
use crate::program::{Ended, Program};
use crate::{machine, process, wait};

/// Runs `pvm run` with these words, and checks that nothing of the machine is left: no process, no file but logs.
#[track_caller]
pub fn run(installation: &Installation, words: &[&str], program: &Path) -> Ended {
    run_with(installation, words, program, &[])
}

/// As [`run`], for a program with arguments.
#[track_caller]
pub fn run_with(installation: &Installation, words: &[&str], program: &Path, arguments: &[&str]) -> Ended {
    let folder = TempDir::with_prefix("pvm-run-").expect("a temporary folder can be made");
    let mut command = Command::new(installation.pvm());
    command.arg("run").args(words).arg(program).args(arguments).current_dir(folder.path());
    command.env("PVM_TMP", folder.path()).env("HOME", folder.path()).env("PVM_ALLOW_ROOT", "1");
    command.env("LD_LIBRARY_PATH", installation.library()).env_remove("PVMSOCK").env_remove("PVM_VMID");
    let ended = Program::run(&mut command);
    wait::becomes_true("the end of all processes", || process::with_environment(folder.path()).is_empty());
    let left: Vec<String> =
        machine::files_in(folder.path()).into_iter().filter(|name| !name.starts_with("pvml.")).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    ended
}
