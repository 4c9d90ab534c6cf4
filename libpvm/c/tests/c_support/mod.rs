//! C and Fortran programs, compiled against one libpvm3 or another and run on a machine of their own.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Longest a program may run.
const LIMIT: Duration = Duration::from_secs(300);
/// Where Debian has the original daemon.
const ORIGINAL: &str = "/usr/lib/pvm3/lib/pvmd";
/// Where Debian has the original libraries.
const ORIGINAL_LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";
/// What the library is built for where a sanitizer watches it.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// What a static library of Rust needs of the system.
const SYSTEM: [&str; 5] = ["-lgcc_s", "-lpthread", "-lm", "-ldl", "-lc"];

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

/// Whether something that a test needs is there. If everything must be checked, its absence is a failure.
pub fn have(there: bool, what: &str) -> bool {
    if !there {
        let full = std::env::var_os("PVM_TEST_FULL").is_some_and(|value| value == "1");
        assert!(!full, "{what} is missing, and PVM_TEST_FULL=1 wants everything checked");
        // Straight to the stream: the test harness hides what the print macros write.
        let _ = writeln!(std::io::stderr(), "not checked with {what}, which is missing");
    }
    there
}

/// Whether there is a compiler of this name.
pub fn have_compiler(name: &str) -> bool {
    let found = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    have(found.is_ok_and(|status| status.success()), name)
}

/// Whether library and programs are built with AddressSanitizer: `PVM_TEST_SANITIZER=address`. Only this crate's shared library is tried
/// then, on this project's daemon.
pub fn is_sanitized() -> bool {
    let wanted = std::env::var_os("PVM_TEST_SANITIZER");
    assert!(wanted.as_ref().is_none_or(|wanted| wanted == "address"), "PVM_TEST_SANITIZER can be: address");
    wanted.is_some()
}

/// The libraries to try.
pub fn libraries() -> Vec<Library> {
    if is_sanitized() {
        return vec![Library::Shared];
    }
    let mut libraries = vec![Library::Shared, Library::Static];
    if have(Path::new(ORIGINAL_LIBRARIES).join("libpvm3.so").is_file(), "the original libpvm3") {
        libraries.push(Library::Original);
    }
    libraries
}

/// Debian's original daemon, if it is there.
pub fn original_daemon() -> Vec<PathBuf> {
    let original = PathBuf::from(ORIGINAL);
    if have(original.is_file(), "the original pvmd") { vec![original] } else { Vec::new() }
}

/// The daemons to try: Debian's original, and this project's own.
pub fn daemons() -> Vec<PathBuf> {
    if is_sanitized() {
        return vec![own_daemon().expect("this project's daemon, built")];
    }
    original_daemon().into_iter().chain(own_daemon()).collect()
}

/// This project's daemon: what `PVM_TEST_PVMD` names, else the one built beside the tests, if its helper is there, too.
pub fn own_daemon() -> Option<PathBuf> {
    let built = || {
        let folder = std::env::current_exe().ok()?.parent()?.parent()?.to_owned();
        let (daemon, helper) = (folder.join("pvmd"), folder.join("pvm-task-manager"));
        (daemon.is_file() && helper.is_file()).then_some(daemon)
    };
    let daemon = std::env::var_os("PVM_TEST_PVMD").map(PathBuf::from).or_else(built);
    if daemon.is_none() {
        println!("not tried with this project's pvmd, which is not built");
    }
    daemon
}

/// The folder of the C library, whose sources these are: tests of the Rust API that have a C program take this file in.
fn sources() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    if package.ends_with("c") { package.to_owned() } else { package.join("c") }
}

/// The folder with `libpvm3.so.3` and `libpvm3.a`, built from this crate as it is now.
pub fn our_libraries() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        // Apart from the folder that cargo is testing in: there the library may be built with other features of what it
        // uses, and under the same name, so that what was built on it would not fit it any more.
        let mut target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libraries");
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--package", "libpvm-c", "--target-dir"]).arg(&target);
        if is_sanitized() {
            // Only code for a target that is named is instrumented, and build scripts are not.
            build.args(["--target", TRIPLE]).env("RUSTC_BOOTSTRAP", "1");
            build.env("RUSTFLAGS", "-Zsanitizer=address");
            target.push(TRIPLE);
        }
        let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
        if profile == "release" {
            build.arg("--release");
        }
        let status = build.current_dir(sources()).status().expect("cargo");
        assert!(status.success(), "the libraries cannot be built");
        let folder = target.join(profile);
        let link = folder.join("libpvm3.so.3");
        if fs::read_link(&link).is_err() {
            symlink("libpvm3.so", &link).expect("the library's name at run time");
        }
        folder
    })
}

/// Compiles a program of `tests/c` and returns where it is.
pub fn compile(source: &str, library: Library, folder: &Path) -> PathBuf {
    let tests = sources().join("tests/c");
    let program = folder.join(format!("{}-{library:?}", source.replace('.', "-")));
    let fortran = Path::new(source).extension().is_some_and(|extension| extension == "f90");
    let mut compiler = Command::new(if fortran { "gfortran" } else { "cc" });
    let language: &[&str] = if fortran { &["-std=legacy", "-w"] } else { &["-Wall", "-Wno-unused-function"] };
    compiler.args(language).arg("-I").arg(sources().join("include"));
    compiler.arg("-o").arg(&program).arg(tests.join(source));
    if is_sanitized() {
        compiler.args(["-g", "-fsanitize=address"]);
    }
    match library {
        Library::Shared => compiler.arg("-L").arg(our_libraries()).arg("-l:libpvm3.so.3"),
        Library::Static => compiler.arg(our_libraries().join("libpvm3.a")).args(SYSTEM),
        Library::Original if fortran => compiler.args(["-lfpvm3", "-lgpvm3", "-lpvm3"]),
        Library::Original => compiler.args(["-lgpvm3", "-lpvm3"]),
    };
    let output = compiler.output().expect("a compiler");
    assert!(output.status.success(), "{source}: {}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Where programs find the daemon to start: `root` in a machine's folder, as `PVM_ROOT`. The library that they are tried
/// with is none of the daemon's business.
fn install(daemon: &Path, folder: &Path) {
    let programs = folder.join("root/lib");
    fs::create_dir_all(&programs).expect("a folder for the daemon");
    let script = programs.join("pvmd");
    let text = format!("#!/bin/sh\nunset LD_LIBRARY_PATH\nexec {} \"$@\"\n", daemon.display());
    fs::write(&script, text).expect("the daemon's script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("its mode");
}

/// A virtual machine of one host, in a folder of its own.
pub struct Machine {
    daemon: Child,
    folder: tempfile::TempDir,
}

impl Machine {
    /// Starts a daemon.
    pub fn start(program: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        install(program, folder.path());
        let mut command = Command::new(program);
        // Its host must have a name that resolves anywhere.
        command.arg("-nlocalhost").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        environment(&mut command, folder.path());
        let mut daemon = command.spawn().expect("a daemon");
        let mut address = String::new();
        let output = daemon.stdout.take().expect("its output");
        BufReader::new(output).read_line(&mut address).expect("its address");
        assert!(!address.trim().is_empty(), "the daemon {} gives no address", program.display());
        Self { daemon, folder }
    }

    /// Where programs for this machine can be put.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a program as a task and gives its exit code and what it writes, ids left out.
    pub fn run(&self, program: &Path, library: Library, input: &str) -> (Option<i32>, String) {
        let (input_path, output_path) = (self.folder().join("input"), self.folder().join("output"));
        fs::write(&input_path, input).expect("the program's input");
        let output = File::create(&output_path).expect("a file for the output");
        let mut command = Command::new(program);
        environment(&mut command, self.folder());
        command.env("GFORTRAN_UNBUFFERED_ALL", "1");
        if library == Library::Shared {
            // Its children link the same library.
            command.env("LD_LIBRARY_PATH", our_libraries()).env("PVM_EXPORT", "LD_LIBRARY_PATH");
        }
        command.stdin(File::open(&input_path).expect("the program's input"));
        command.stdout(output.try_clone().expect("one file for both")).stderr(output);
        let mut process = command.spawn().expect("the program");
        let end = Instant::now() + LIMIT;
        while process.try_wait().expect("its status").is_none() {
            if Instant::now() > end {
                let _ = process.kill();
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let status = process.wait().expect("its status");
        let text = fs::read(&output_path).expect("the output");
        (status.code(), without_ids(&String::from_utf8_lossy(&text)))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        end(&mut self.daemon);
    }
}

/// Ends a daemon. The original sometimes waits for ever in its signal handler.
fn end(daemon: &mut Child) {
    let pid = rustix::process::Pid::from_child(daemon);
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    for _ in 0..500 {
        if !matches!(daemon.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = daemon.kill();
    let _ = daemon.wait();
}

fn environment(command: &mut Command, folder: &Path) {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PVM")) {
        command.env_remove(name);
    }
    command.env_remove("LD_LIBRARY_PATH");
    command.env("PVM_TMP", folder).env("PVM_VMID", "test").env("PVM_PATH", "/usr/bin");
    command.env("PVM_ROOT", folder.join("root"));
    // The original refuses root without it.
    command.env("PVM_ALLOW_ROOT", "1");
    // So much that the host takes all tasks of a spawn at once, however busy others keep it.
    command.env("PVM_TASK_TARGET", "1000000");
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
