//! Programs in C, C++ and Fortran, compiled against this project's headers and libraries.

use pvm_tests::install::workspace;
use pvm_tests::machine::Plan;
use pvm_tests::program::Program;
use pvm_tests::programs::{Linking, Programs};
use pvm_tests::run::run;
use pvm_tests::{Installation, wait};
use std::path::{Path, PathBuf};

/// `types` with one library, which spawns `types` with another, under a daemon: every type goes there and back in every
/// encoding, packed, unpacked and checked on both sides.
#[track_caller]
fn exchange(daemon: &Installation, first: &Path, second: &Path) {
    let machine = Plan::of(daemon).start();
    let ended = Program::start(machine.command(first).arg(second)).end_within(wait::PATIENCE * 2);
    assert!(
        ended.stdout.ends_with("all types ok\n"),
        "{} with {}: {ended:#?}",
        first.display(),
        second.display()
    );
    assert_eq!(ended.status.code(), Some(0));
    machine.finish();
}

#[test]
fn every_type_goes_from_the_shared_library_to_the_archive_and_back() {
    let installation = Installation::under_test();
    let Some(shared) = Programs::compile(&["types"], &installation, Linking::Shared) else { return };
    let Some(archive) = Programs::compile(&["types"], &installation, Linking::Archive) else { return };
    exchange(&installation, &shared.path("types"), &archive.path("types"));
    exchange(&installation, &archive.path("types"), &shared.path("types"));
}

#[test]
fn every_type_goes_to_the_original_library_and_back() {
    let Some(ours) = Installation::ours_only("all types between this library and the original") else {
        return;
    };
    let Some(original) = Installation::debian() else { return };
    let Some(new) = Programs::compile(&["types"], &ours, Linking::Fixed) else { return };
    let Some(old) = Programs::compile(&["types"], &original, Linking::Fixed) else { return };
    let Some(old_archive) = Programs::compile(&["types"], &original, Linking::Archive) else { return };
    for daemon in [&ours, &original] {
        for old in [&old, &old_archive] {
            exchange(daemon, &new.path("types"), &old.path("types"));
            exchange(daemon, &old.path("types"), &new.path("types"));
        }
    }
}

#[test]
fn a_program_in_cpp_runs_with_each_library() {
    let ours = Installation::under_test();
    let mut builds = vec![(ours.clone(), Linking::Shared), (ours.clone(), Linking::Archive)];
    if ours.is_ours {
        let Some(original) = Installation::debian() else { return };
        builds.extend([(original.clone(), Linking::Fixed), (original, Linking::Archive)]);
    }
    for (library, linking) in builds {
        let Some(programs) = Programs::compile(&["vectors.cc"], &library, linking) else { return };
        let machine = Plan::of(&ours).start();
        let ended = Program::run(machine.command(programs.path("vectors")).arg("3"));
        let expected = "sum 3000\npvm_send with a negative tag: -2\n";
        assert_eq!(ended.stdout, expected, "{linking:?}: {ended:#?}");
        assert_eq!(ended.status.code(), Some(0));
        machine.finish();
    }
}

fn examples(language: &str, files: &[&str]) -> Vec<PathBuf> {
    let folder = workspace().join("examples").join(language);
    files.iter().map(|file| folder.join(file)).collect()
}

#[test]
fn the_c_examples_run() {
    let Some(ours) = Installation::ours_only("the examples in C") else { return };
    for linking in [Linking::Shared, Linking::Archive] {
        let files = examples("c", &["hello.c", "pi.c", "notify.c"]);
        let Some(programs) = Programs::of_files(&files, &ours, linking) else { return };
        let hello = run(&ours, &[], &programs.path("hello"));
        hello.expect_success();
        assert!(hello.stdout.contains(" says: hello from "), "{hello:#?}");
        let pi = run(&ours, &["--hosts", "2"], &programs.path("pi"));
        pi.expect_success();
        assert!(pi.stdout.contains("3.14159"), "{pi:#?}");
        let notify = run(&ours, &["--hosts", "2"], &programs.path("notify"));
        notify.expect_success();
        // Eight items, each squared, though some workers die.
        for square in [0, 1, 4, 9, 16, 25, 36, 49] {
            let is_there =
                |line: &str| line.split(|c: char| !c.is_ascii_digit()).any(|word| word == square.to_string());
            assert!(notify.stdout.lines().any(is_there), "{square} is missing: {notify:#?}");
        }
    }
}

#[test]
fn the_fortran_examples_run() {
    let Some(ours) = Installation::ours_only("the examples in Fortran") else { return };
    for linking in [Linking::Shared, Linking::Archive] {
        let files = examples("fortran", &["hello.f90", "dot.f90"]);
        let Some(programs) = Programs::of_files(&files, &ours, linking) else { return };
        let hello = run(&ours, &[], &programs.path("hello"));
        hello.expect_success();
        assert!(hello.stdout.contains("hello from task t"), "{hello:#?}");
        let dot = run(&ours, &["--hosts", "2"], &programs.path("dot"));
        dot.expect_success();
        assert!(!dot.stdout.is_empty(), "{dot:#?}");
    }
}

#[test]
fn a_run_has_the_status_of_its_program() {
    let Some(ours) = Installation::ours_only("the status of `pvm run`") else { return };
    let status = |program: &str| run(&ours, &[], Path::new(program)).status.code();
    assert_eq!(status("/bin/true"), Some(0));
    assert_eq!(status("/bin/false"), Some(1));
    assert_eq!(status("/no/such/program"), Some(127));
    assert_eq!(status("/etc/passwd"), Some(126));
    assert_eq!(status("/"), Some(126));
}
