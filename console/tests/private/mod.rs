//! `pvm` with a private machine in a folder, and what is left of it.
#![allow(dead_code, reason = "each test program uses a part")]

use pvm_tests::{process, wait};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// `pvm`, with its temporary files in this folder.
pub fn pvm(tmp: &Path, args: &[&str]) -> Command {
    program(Path::new(env!("CARGO_BIN_EXE_pvm")), tmp, args)
}

pub fn program(program: &Path, tmp: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(tmp).env("TMPDIR", tmp).env("PVM_TMP", tmp).stdin(Stdio::null());
    if !rustix::process::geteuid().is_root() {
        // Or tests could not see which daemons are left.
        command.env("PVM_DUMPABLE", "1");
    }
    for name in ["PVM_VMID", "PVMSOCK", "PVMEPID", "PVM_PATH", "PVM_WD"] {
        command.env_remove(name);
    }
    command
}

pub fn run(tmp: &Path, args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = pvm(tmp, args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}

pub fn files(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

pub fn assert_nothing_left(tmp: &Path) {
    assert_nothing_left_but(tmp, &[]);
}

pub fn assert_nothing_left_but(tmp: &Path, kept: &[PathBuf]) {
    wait::becomes_true("the end of all processes", || process::with_environment(tmp).is_empty());
    assert_eq!(files(tmp), kept);
}

/// The ids of this folder's processes that have these words in their command line.
pub fn with_command(tmp: &Path, words: &str) -> Vec<i32> {
    let found = process::with_environment(tmp).into_iter();
    found.filter(|process| process.command.contains(words)).map(|process| process.pid).collect()
}
