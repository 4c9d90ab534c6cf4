//! What uses the Rust API has no C function of PVM's: it would stand in for those of a `libpvm3.so.3` in the same process.

use std::process::Command;

#[test]
fn a_library_in_rust_exports_its_own_functions_only() {
    let mut names = Command::new("nm");
    let Ok(output) = names
        .args(["--dynamic", "--defined-only", "--format=posix"])
        .arg(pvm_tests::built::example("libpvm", "plugin"))
        .output()
    else {
        return pvm_tests::peers::unchecked("what a library in Rust exports", "nm is missing");
    };
    let text = String::from_utf8(output.stdout).expect("names");
    let names: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["parent"]);
}
