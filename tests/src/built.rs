//! What cargo has built beside the tests of a crate, and the C libraries in the same profile.

use rustix::fs::{FlockOperation, flock};
use std::env;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::install::{target, workspace};
use crate::peers;

/// The target of the libraries that are built with a sanitizer.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

const FOLDER: &str = if cfg!(debug_assertions) { "debug" } else { "release" };

/// What the tests of a whole workspace are built of.
const ALL: [&str; 5] = ["--workspace", "--lib", "--bins", "--tests", "--examples"];

/// Whether all tests of the workspace run, and the product is to be that which is built with them: `PVM_TEST_SHARED_BUILD=1`. With the
/// features that everything has there nothing is built twice. By default the product has a build of its own.
pub(crate) fn is_shared() -> bool {
    env::var_os("PVM_TEST_SHARED_BUILD").is_some()
}

/// The options of `make` for the product.
pub fn make_options() -> Vec<String> {
    if !is_shared() {
        return Vec::new();
    }
    let profile = if cfg!(debug_assertions) { "dev" } else { "release" };
    vec![format!("PROFILE={profile}"), format!("PACKAGES={}", ALL.join(" "))]
}

/// The folder of the product's programs and libraries.
pub(crate) fn product() -> PathBuf {
    target().join(if is_shared() { FOLDER } else { "release" })
}

/// Builds targets of one of the workspace's packages, or all targets with all features, where those are built already.
fn cargo_build(package: &str, targets: &[&str]) -> Command {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--locked"]).current_dir(workspace());
    if is_shared() && !is_sanitized() {
        build.args(ALL);
    } else {
        build.args(["--package", package]).args(targets);
    }
    if FOLDER == "release" {
        build.arg("--release");
    }
    build
}

/// An example of the workspace's packages that is a shared library, built beside the tests.
pub fn example(package: &str, name: &str) -> PathBuf {
    run_outside(cargo_build(package, &["--example", name]).arg("--target-dir").arg(target()));
    target().join(FOLDER).join(format!("examples/lib{name}.so"))
}

/// Whether C libraries and programs are built with AddressSanitizer: `PVM_TEST_SANITIZER=address`.
pub fn is_sanitized() -> bool {
    let wanted = env::var_os("PVM_TEST_SANITIZER");
    assert!(wanted.as_ref().is_none_or(|wanted| wanted == "address"), "PVM_TEST_SANITIZER can be: address");
    wanted.is_some()
}

/// The daemon, which has its helper beside it, in the folder that has the `deps` of the test that runs.
#[track_caller]
pub(crate) fn daemon() -> Option<PathBuf> {
    let test = env::current_exe().expect("a test knows its program");
    let folder = test.parent().and_then(Path::parent).expect("cargo has a folder for tests");
    let [daemon, helper] = ["pvmd", "pvm-task-manager"].map(|name| folder.join(name));
    if let Some(missing) = [&daemon, &helper].into_iter().find(|program| !program.is_file()) {
        peers::unchecked("this project's daemon", &format!("{} is not built", missing.display()));
        return None;
    }
    Some(daemon)
}

/// Where the libraries are built: apart from the folder that cargo is testing in, unless features are the same. There the library may be
/// built with other features of what it uses, and under the same name, so that what was built on it would not fit it any more.
fn library_target() -> PathBuf {
    if is_shared() && !is_sanitized() { target() } else { target().join("tmp/libraries") }
}

/// The folder of [`libraries`]. It has links only: beside the libraries may be others with the same names, which `make` builds.
pub(crate) fn library_folder() -> PathBuf {
    target().join(if is_sanitized() { "tmp/sanitized-links" } else { "tmp/links" })
}

/// Builds what all tests share, in one process at a time.
///
/// Cargo takes half a second to find that nothing is to be built. Under nextest, which runs each test in a process of its own, the first
/// process of a run builds for all.
pub fn once(what: &str, build: impl FnOnce()) {
    let folder = target().join("tmp");
    fs::create_dir_all(&folder).expect("the target folder can be made");
    let lock = File::create(folder.join(format!("{what}.lock"))).expect("the lock can be made");
    flock(&lock, FlockOperation::LockExclusive).expect("the lock can be had");
    let built = folder.join(format!("{what}.run"));
    let run = env::var("NEXTEST_RUN_ID").ok();
    if run.is_some() && fs::read_to_string(&built).ok() == run {
        return;
    }
    build();
    if let Some(run) = run {
        fs::write(built, run).expect("the run can be noted");
    }
}

/// The folder with the shared library and the archive as they are now, under all names that programs are linked with.
#[track_caller]
pub fn libraries() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        once(if is_sanitized() { "sanitized-libraries" } else { "libraries" }, build_libraries);
        library_folder()
    })
}

fn build_libraries() {
    let mut build = cargo_build("libpvm-c", &[]);
    build.arg("--target-dir").arg(library_target());
    if is_sanitized() {
        // Only code for a target that is named is instrumented, and build scripts are not.
        build.args(["--target", TRIPLE]).env("RUSTC_BOOTSTRAP", "1");
        build.env("RUSTFLAGS", "-Zsanitizer=address");
    }
    run_outside(&mut build);
    let triple = if is_sanitized() { TRIPLE } else { "" };
    link_libraries(&library_target().join(triple).join(FOLDER));
}

/// The folder of the programs in Rust that tests have (package `pvm-test-programs`), which link this project's library for Rust.
pub fn rust_programs() -> PathBuf {
    // Of the whole workspace: with one package's features alone, dependencies would be built once more.
    once("rust-programs", || {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--locked"]).args(ALL);
        run_outside(build.current_dir(workspace()));
    });
    target().join("debug")
}

/// Runs a command that builds, which must succeed. With cargo's variables for this test the inner cargo would build everything again: build
/// scripts depend on some of them.
pub(crate) fn run_outside(command: &mut Command) {
    let is_cargos = |name: &str| {
        ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.starts_with(prefix))
            || ["LD_LIBRARY_PATH", "OUT_DIR"].contains(&name)
    };
    for (name, _) in env::vars_os().filter(|(name, _)| is_cargos(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    let output = command.output().expect("what builds can be started");
    assert!(output.status.success(), "{command:?}:\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Each library under all names that programs are linked with.
fn link_libraries(built: &Path) {
    let built = built.canonicalize().expect("the libraries have a folder");
    let names = [
        ("libpvm3.so", "libpvm3.so"),
        ("libpvm3.a", "libpvm3.a"),
        ("libpvm3.so.3", "libpvm3.so"),
        ("libgpvm3.so", "libpvm3.so"),
        ("libfpvm3.so", "libpvm3.so"),
        ("libgpvm3.a", "libpvm3.a"),
        ("libfpvm3.a", "libpvm3.a"),
    ];
    let folder = library_folder();
    fs::create_dir_all(&folder).expect("the folder of links can be made");
    for (name, library) in names {
        let (link, file) = (folder.join(name), built.join(library));
        if fs::read_link(&link).ok().as_deref() != Some(&file) {
            let _ = fs::remove_file(&link);
            symlink(&file, &link).unwrap_or_else(|error| panic!("{}: {error}", link.display()));
        }
    }
}
