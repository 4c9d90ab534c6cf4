//! `make install`, and what is there afterwards.

use pvm_tests::built::make_options;
use pvm_tests::install::{target, workspace};
use pvm_tests::program::Program;
use pvm_tests::{Installation, wait};
use std::process::Command;

#[test]
fn an_installation_has_all_that_its_users_need_and_can_be_removed() {
    check_by("check-install");
}

#[test]
fn a_tarball_and_debian_packages_can_be_used_and_removed() {
    check_by("check-packages");
}

/// A script of `packaging`, on what is built here.
fn check_by(script: &str) {
    if !Installation::is_built_here() {
        return eprintln!("not checked: {script} (something installed is tested)");
    }
    // Builds what the script installs.
    Installation::ours();
    let mut command = Command::new(workspace().join("packaging").join(script).with_extension("sh"));
    command.args(make_options()).env("CARGO_TARGET_DIR", target()).env_remove("LD_LIBRARY_PATH");
    let ended = Program::start(&mut command).end_within(wait::PATIENCE * 20);
    ended.expect_success();
    assert!(ended.stdout.ends_with(&format!("{script}: all right\n")), "{ended:#?}");
}

#[test]
fn every_program_says_what_it_is() {
    let Some(ours) = Installation::ours_only("the help of the programs") else { return };
    for program in [ours.pvm(), ours.pvmd(), ours.pvmd().with_file_name("pvm-task-manager")] {
        for (word, expected) in [("--help", "Usage: "), ("--version", "0.")] {
            let ended = Program::run(Command::new(&program).arg(word));
            ended.expect_success();
            assert!(ended.stdout.contains(expected), "{} {word}: {ended:#?}", program.display());
        }
        let ended = Program::run(Command::new(&program).arg("--no-such-option"));
        assert!(!ended.status.success(), "{}: {ended:#?}", program.display());
        assert!(ended.stderr.contains("--no-such-option"), "{ended:#?}");
    }
}
