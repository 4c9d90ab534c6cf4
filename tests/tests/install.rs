//! `make install`, and what is there afterwards.

use pvm_tests::install::{target, workspace};
use pvm_tests::program::Program;
use pvm_tests::{Installation, wait};
use std::process::Command;

#[test]
fn an_installation_has_all_that_its_users_need_and_can_be_removed() {
    if !Installation::is_built_here() {
        eprintln!("not checked: installing and removing (something installed is tested)");
        return;
    }
    // Builds what the script installs.
    Installation::ours();
    let mut command = Command::new(workspace().join("packaging/check-install.sh"));
    command.env("CARGO_TARGET_DIR", target()).env_remove("LD_LIBRARY_PATH");
    let ended = Program::start(&mut command).end_within(wait::PATIENCE * 20);
    ended.expect_success();
    assert!(ended.stdout.ends_with("check-install: all right\n"), "{ended:#?}");
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
