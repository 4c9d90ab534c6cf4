//! What uses the Rust API has no C function of PVM's: it would stand in for those of a `libpvm3.so.3` in the same process.

use std::path::PathBuf;
use std::process::Command;

/// A library in Rust that uses this one, as cargo builds it beside the tests.
fn plugin() -> PathBuf {
    let exe = std::env::current_exe().expect("this program");
    let built = exe.parent().and_then(|deps| deps.parent()).expect("the folder of the profile");
    let target = built.parent().expect("the target folder");
    let mut build = Command::new(env!("CARGO"));
    build
        .args(["build", "--quiet", "--package", "libpvm", "--example", "plugin", "--target-dir"])
        .arg(target);
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    let status = build.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo");
    assert!(status.success(), "the library cannot be built");
    built.join("examples/libplugin.so")
}

#[test]
fn a_library_in_rust_exports_its_own_functions_only() {
    let mut names = Command::new("nm");
    let Ok(output) = names.args(["--dynamic", "--defined-only", "--format=posix"]).arg(plugin()).output()
    else {
        return pvm_tests::peers::unchecked("what a library in Rust exports", "nm is missing");
    };
    let text = String::from_utf8(output.stdout).expect("names");
    let names: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["parent"]);
}
