//! Which crate may use which: imports run one way, and what only decides cannot reach what does I/O.

use pvm_tests::install::workspace;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// The crates of the product, each with all crates of this workspace that it may depend on.
const MAY_USE: [(&str, &[&str]); 14] = [
    ("pvm-wire", &[]),
    ("pvm-sched", &["pvm-wire"]),
    ("pvm-sim", &["pvm-sched", "pvm-wire"]),
    ("pvm-files", &["pvm-wire"]),
    ("pvm-shm", &["pvm-wire", "pvm-sched"]),
    ("pvm-engine", &["pvm-wire", "pvm-shm", "pvm-files"]),
    ("libpvm", &["pvm-engine", "pvm-wire"]),
    ("libpvm-c", &["pvm-engine", "pvm-wire", "pvm-shm"]),
    ("pvmd-core", &["pvm-wire", "pvm-sched"]),
    ("pvmd", &["pvmd-core", "pvm-wire", "pvm-sched", "pvm-shm", "pvm-files"]),
    ("pvm-task-manager", &["libpvm", "pvm-wire", "pvm-sched"]),
    ("pvm-examples", &["libpvm"]),
    ("pvm-python", &["libpvm"]),
    (
        "pvm-console",
        &["libpvm", "pvmd", "pvm-task-manager", "pvm-examples", "pvm-sim", "pvm-sched", "pvm-wire"],
    ),
];

/// The crates around the product: nothing of it depends on them.
const AROUND: [&str; 6] =
    ["pvm-docs", "pvm-fuzz", "pvm-tests", "pvm-test-programs", "pvmd-simulated", "benches"];

/// Crates that do I/O, or by which it is done.
const IO: [&str; 13] = [
    "async-io",
    "async-std",
    "libc",
    "mio",
    "nix",
    "polling",
    "pvm-files",
    "pvm-shm",
    "quinn",
    "rustix",
    "socket2",
    "sysinfo",
    "tokio",
];

/// Crates of [`IO`] that the simulator's command has for the terminal's width and a progress bar.
const OF_TERMINAL: [&str; 2] = ["libc", "rustix"];

/// What the cargo that runs this test says.
fn cargo(arguments: &[&str]) -> String {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(workspace()).args(arguments).args(["--offline", "--locked"]);
    let output = command.output().expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {}: {errors}", arguments.join(" "));
    String::from_utf8(output.stdout).expect("cargo writes UTF-8")
}

/// The workspace's crates, each with those of them that its product depends on directly: not for its tests.
fn direct() -> BTreeMap<String, BTreeSet<String>> {
    let text = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&text).expect("cargo writes JSON");
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let name = |value: &Value| value["name"].as_str().expect("a name").to_owned();
    let packages = list(&metadata["packages"]);
    let own: BTreeSet<String> = packages.iter().map(name).collect();
    let used = |package: &Value| {
        let dependencies = list(&package["dependencies"]);
        let of_product = dependencies.iter().filter(|dependency| dependency["kind"] != "dev");
        of_product.map(name).filter(|name| own.contains(name)).collect()
    };
    packages.iter().map(|package| (name(package), used(package))).collect()
}

/// All direct and indirect dependencies of a crate's product.
fn tree(package: &str) -> BTreeSet<String> {
    let text = cargo(&["tree", "--package", package, "--edges", "normal,build", "--prefix", "none"]);
    text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn imports_run_one_way() {
    let direct = direct();
    for (package, allowed) in MAY_USE {
        for used in &direct[package] {
            assert!(allowed.contains(&used.as_str()), "{package} must not depend on {used}");
        }
    }
    let known: BTreeSet<&str> = MAY_USE.iter().map(|(package, _)| *package).chain(AROUND).collect();
    let there: BTreeSet<&str> = direct.keys().map(String::as_str).collect();
    assert_eq!(known, there, "each crate of the workspace has its place in this test");
}

#[test]
fn deciding_crates_cannot_reach_io() {
    for package in ["pvm-wire", "pvm-sched", "pvm-sim", "pvmd-core"] {
        let tree = tree(package);
        assert!(tree.contains(package), "cargo tree does not show {package} itself");
        for crate_of_io in IO {
            let is_excepted = package == "pvm-sim" && OF_TERMINAL.contains(&crate_of_io);
            assert!(is_excepted || !tree.contains(crate_of_io), "{package} reaches {crate_of_io}");
        }
    }
}
