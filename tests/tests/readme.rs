//! The programs that README.md shows, taken from its text, compiled and run as it says.

use pvm_tests::Installation;
use pvm_tests::install::{target, workspace};
use pvm_tests::program::{Ended, Program};
use pvm_tests::programs::{Linking, Programs};
use pvm_tests::run::run;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// The program below the marker of this name.
fn shown(name: &str) -> String {
    let readme = fs::read_to_string(workspace().join("README.md")).expect("README.md can be read");
    let marker = format!("<!-- tested: {name} -->\n```");
    let (_, rest) = readme.split_once(&marker).unwrap_or_else(|| panic!("README.md has no {name}"));
    let (_, code) = rest.split_once('\n').expect("the program begins on a line of its own");
    let (code, _) = code.split_once("\n```").expect("the program ends");
    format!("{code}\n")
}

fn write(folder: &Path, file: &str, text: &str) -> std::path::PathBuf {
    let path = folder.join(file);
    fs::write(&path, text).expect("a temporary file can be written");
    path
}

/// Four different tasks greeted.
#[track_caller]
fn expect_four_greetings(ended: &Ended) {
    ended.expect_success();
    let greeted: BTreeSet<&str> =
        ended.stdout.lines().filter_map(|line| line.strip_prefix("hello from t")).collect();
    assert_eq!(greeted.len(), 4, "{ended:#?}");
    assert_eq!(ended.stdout.lines().count(), 4, "{ended:#?}");
}

#[track_caller]
fn compiled(name: &str, file: &str) {
    let Some(ours) = Installation::ours_only("the programs in README.md") else { return };
    let folder = TempDir::new().expect("a temporary folder can be made");
    let source = write(folder.path(), file, &shown(name));
    let Some(programs) = Programs::of_files(&[source], &ours, Linking::Shared) else { return };
    expect_four_greetings(&run(&ours, &["--hosts", "3"], &programs.path("hello")));
}

#[test]
fn the_c_program_runs() {
    compiled("readme_c", "hello.c");
}

#[test]
fn the_fortran_program_runs() {
    compiled("readme_fortran", "hello.f90");
}

#[test]
fn the_rust_program_runs() {
    let Some(ours) = Installation::ours_only("the Rust program in README.md") else { return };
    let folder = TempDir::new().expect("a temporary folder can be made");
    fs::create_dir(folder.path().join("src")).expect("a temporary folder can be made");
    write(folder.path(), "src/main.rs", &shown("readme_rust"));
    let manifest = shown("readme_manifest").replace("../pvm", &workspace().display().to_string());
    write(folder.path(), "Cargo.toml", &manifest);
    // The versions that everything else is built with.
    fs::copy(workspace().join("Cargo.lock"), folder.path().join("Cargo.lock"))
        .expect("Cargo.lock can be copied");
    let built = target().join("readme");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--offline", "--quiet"]).current_dir(folder.path()).env("CARGO_TARGET_DIR", &built);
    Program::start(&mut cargo).end_within(Duration::from_secs(300)).expect_success();
    expect_four_greetings(&run(&ours, &["--hosts", "3"], &built.join("debug/hello")));
}
