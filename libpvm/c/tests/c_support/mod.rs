//! C and Fortran programs of `tests/c`, compiled against one libpvm3 or another and run on a machine of their own.

use pvm_tests::machine::Plan;
use pvm_tests::peers::{self, Peer};
use pvm_tests::programs::{self, Linking};
use pvm_tests::{Installation, Program, built};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Longest a program may run.
const LIMIT: Duration = Duration::from_secs(300);

/// Which library a program is linked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// This crate's `libpvm3.so.3`.
    Shared,
    /// This crate's `libpvm3.a`.
    Static,
    /// Debian's `libpvm3.so.3`.
    Original,
}

/// The libraries to try. With a sanitizer only this crate's shared library is tried, on this project's daemon.
pub fn libraries() -> Vec<Library> {
    if built::is_sanitized() {
        return vec![Library::Shared];
    }
    let mut libraries = vec![Library::Shared, Library::Static];
    if peers::require(&[Peer::OriginalPvm], "the original libpvm3").is_some() {
        libraries.push(Library::Original);
    }
    libraries
}

/// The PVMs whose daemons are tried: Debian's original, and this project's own.
pub fn daemons() -> Vec<Installation> {
    let original = if built::is_sanitized() { None } else { Installation::debian() };
    original.into_iter().chain(Installation::built()).collect()
}

/// The folder of these sources: tests of the Rust API that have a C program take this file in.
fn sources() -> PathBuf {
    pvm_tests::install::workspace().join("libpvm/c/tests/c")
}

/// What a program of `tests/c` is expected to write, from the file of this name.
#[track_caller]
pub fn expected(name: &str) -> String {
    fs::read_to_string(sources().join(name).with_extension("expected")).expect("what is expected")
}

/// Compiles a program of `tests/c` and returns where it is; `None` (with a line that says so) without a compiler.
#[track_caller]
pub fn compile(source: &str, library: Library, folder: &Path) -> Option<PathBuf> {
    let ours = Installation::built()?;
    let (installation, linking) = match library {
        Library::Shared => (ours, Linking::Shared),
        Library::Static => (ours, Linking::Archive),
        // Programs have variables of this project's headers.
        Library::Original => (Installation::debian()?.with_headers_of(&ours), Linking::Shared),
    };
    if library != Library::Original {
        built::libraries();
    }
    let program = folder.join(format!("{}-{library:?}", source.replace('.', "-")));
    programs::compile(&sources().join(source), &program, &installation, linking)?;
    Some(program)
}

/// A virtual machine of one host.
pub struct Machine {
    machine: pvm_tests::Machine,
    folder: TempDir,
}

impl Machine {
    /// Starts the daemon of an installation.
    #[track_caller]
    pub fn start(daemon: &Installation) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // Where programs find the daemon to start. The library that they are tried with is none of the daemon's business.
        let text = format!("unset LD_LIBRARY_PATH\nexec {} \"$@\"", daemon.pvmd().display());
        fs::create_dir_all(folder.path().join("root/lib")).expect("a folder for the daemon");
        script(&folder.path().join("root/lib/pvmd"), &text);
        let plan = Plan::plain(daemon).variable("PVM_ROOT", folder.path().join("root"));
        // Enough for all tasks of a spawn to start at once on a busy host.
        Self { machine: plan.variable("PVM_TASK_TARGET", "1000000").start(), folder }
    }

    /// Where programs for this machine can be put.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A shell script in its folder.
    pub fn script(&self, text: &str) -> PathBuf {
        let path = self.folder().join("script");
        script(&path, text);
        path
    }

    /// Runs a program as a task and gives its exit code and what it writes, ids left out.
    #[track_caller]
    pub fn run(&self, program: &Path, library: Library, input: &str) -> (Option<i32>, String) {
        // One pipe for both, so that what it writes stays in order.
        let mut command = self.machine.command("/bin/sh");
        command.args(["-c", "exec \"$0\" 2>&1"]).arg(program).env("GFORTRAN_UNBUFFERED_ALL", "1");
        if library == Library::Shared {
            // Its children link the same library.
            command.env("LD_LIBRARY_PATH", built::libraries()).env("PVM_EXPORT", "LD_LIBRARY_PATH");
        }
        let mut process = Program::start(&mut command);
        process.write(input);
        let ended = process.end_within(LIMIT);
        (ended.status.code(), without_ids(&ended.stdout))
    }
}

fn script(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/sh\n{text}\n")).expect("the script");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("its mode");
}

/// A text with `[t40002]` as `[t]`: ids differ from run to run.
fn without_ids(text: &str) -> String {
    let mut out = String::new();
    let mut pieces = text.split("[t");
    out.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        out.push_str("[t");
        out.push_str(piece.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
    }
    out
}
