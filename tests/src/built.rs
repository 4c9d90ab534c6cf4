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
const PROFILE: &str = if cfg!(debug_assertions) { "debug" } else { "release" };

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

/// Where [`libraries`] puts them: apart from the folder that cargo is testing in. There the library may be built with other
/// features of what it uses, and under the same name, so that what was built on it would not fit it any more.
fn library_target() -> PathBuf {
    target().join("tmp/libraries")
}

pub(crate) fn library_folder() -> PathBuf {
    let folder = library_target();
    let folder = if is_sanitized() { folder.join(TRIPLE) } else { folder };
    folder.join(PROFILE)
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
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--locked", "--package", "libpvm-c", "--target-dir"]);
    build.arg(library_target()).current_dir(workspace());
    if is_sanitized() {
        // Only code for a target that is named is instrumented, and build scripts are not.
        build.args(["--target", TRIPLE]).env("RUSTC_BOOTSTRAP", "1");
        build.env("RUSTFLAGS", "-Zsanitizer=address");
    }
    if PROFILE == "release" {
        build.arg("--release");
    }
    let status = build.status().expect("cargo can be started");
    assert!(status.success(), "the libraries cannot be built");
    let folder = library_folder();
    let names = [
        ("libpvm3.so.3", "libpvm3.so"),
        ("libgpvm3.so", "libpvm3.so"),
        ("libfpvm3.so", "libpvm3.so"),
        ("libgpvm3.a", "libpvm3.a"),
        ("libfpvm3.a", "libpvm3.a"),
    ];
    for (name, library) in names {
        let made = symlink(library, folder.join(name));
        assert!(made.is_ok() || fs::read_link(folder.join(name)).is_ok(), "{name}: {made:?}");
    }
}
