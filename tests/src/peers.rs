//! Programs and privileges that tests need.
//!
//! With `PVM_TEST_FULL=1` a missing one fails the test. Otherwise the test says in one line what it does not
//! check, and passes.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Something that need not be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// The original PVM 3.4: daemon, console, library (Debian: pvm, pvm-dev).
    OriginalPvm,
    /// PVM's own example programs, compiled (Debian: pvm-examples).
    OriginalExamples,
    /// NetPIPE for PVM (Debian: netpipe-pvm).
    NetPipe,
    /// Debian's list of what a package installed.
    Dpkg,
    /// A C compiler.
    CCompiler,
    /// A C++ compiler.
    CppCompiler,
    /// A Fortran compiler.
    FortranCompiler,
    /// pkg-config, which finds what is installed.
    PkgConfig,
    /// Debian: valgrind.
    Valgrind,
    /// Clocks that are wrong as wanted (Debian: faketime).
    FakeTime,
    /// Somebody who listens on a network (Debian: tcpdump).
    TcpDump,
    /// sshd, ssh and ssh-keygen.
    Ssh,
    /// Slurm's daemons and commands, and munge (Debian: slurm-wlm).
    Slurm,
    /// A browser and what drives it (Debian: chromium, chromium-driver).
    Browser,
    /// Service managers of users, and a bus on which they answer (Debian: systemd, dbus-user-session).
    Systemd,
    /// What gets pages as a program does (Debian: curl).
    Curl,
    /// The right to make network namespaces, and `ip`.
    Namespaces,
    /// The right to mount a file system.
    Mount,
    /// To be root, and so able to be somebody else.
    Root,
}

/// Whether the test can run; `check` names what is not checked otherwise.
#[track_caller]
pub fn require(peers: &[Peer], check: &str) -> Option<()> {
    match peers.iter().find_map(|peer| peer.lacks()) {
        None => Some(()),
        Some(missing) => {
            unchecked(check, &missing);
            None
        }
    }
}

/// Says what is not checked and why, or fails if everything must be.
#[track_caller]
pub fn unchecked(check: &str, reason: &str) {
    assert!(!full(), "PVM_TEST_FULL=1 wants {check} checked, but {reason}");
    // Straight to the stream: the test harness hides what the print macros write.
    let _ = writeln!(std::io::stderr(), "not checked: {check} ({reason})");
}

/// Whether everything must be checked.
pub fn full() -> bool {
    std::env::var("PVM_TEST_FULL").is_ok_and(|value| value == "1")
}

impl Peer {
    fn lacks(self) -> Option<String> {
        match self {
            Self::OriginalPvm => {
                missing_file(&["/usr/bin/pvmd", "/usr/bin/pvm", "/usr/include/pvm3.h"], "pvm, pvm-dev")
            }
            Self::OriginalExamples => missing_file(&["/usr/bin/hello.pvm", "/usr/bin/spmd"], "pvm-examples"),
            Self::NetPipe => missing_file(&["/usr/bin/NPpvm"], "netpipe-pvm"),
            Self::Dpkg => missing_command("dpkg", "--version"),
            Self::CCompiler => missing_command("cc", "--version"),
            Self::CppCompiler => missing_command("c++", "--version"),
            Self::FortranCompiler => missing_command("gfortran", "--version"),
            Self::PkgConfig => missing_command("pkg-config", "--version"),
            Self::Valgrind => missing_command("valgrind", "--version"),
            Self::FakeTime => missing_command("faketime", "--version"),
            Self::TcpDump => missing_command("tcpdump", "--version"),
            Self::Ssh => {
                missing_file(&["/usr/sbin/sshd", "/usr/bin/ssh", "/usr/bin/ssh-keygen"], "openssh-server")
            }
            Self::Slurm => {
                missing_file(&["/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/sbin/munged"], "slurm-wlm")
            }
            Self::Browser => missing_command("chromium", "--version")
                .or_else(|| missing_command("chromedriver", "--version")),
            Self::Systemd => missing_file(&["/lib/systemd/systemd"], "systemd")
                .or_else(|| missing_file(&["/usr/lib/systemd/user/dbus.socket"], "dbus-user-session"))
                .or_else(|| missing_command("busctl", "--version")),
            Self::Curl => missing_command("curl", "--version"),
            Self::Namespaces => missing_command("ip", "-V").or_else(|| not_allowed("--net")),
            Self::Mount => not_allowed("--mount"),
            Self::Root => (!rustix::process::geteuid().is_root()).then(|| "this is not root".to_owned()),
        }
    }
}

fn missing_file(paths: &[&str], package: &str) -> Option<String> {
    let missing = paths.iter().find(|path| !Path::new(path).exists())?;
    Some(format!("{missing} is missing, of package {package}"))
}

fn missing_command(name: &str, argument: &str) -> Option<String> {
    let status = Command::new(name).arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).status();
    (!status.is_ok_and(|status| status.success())).then(|| format!("{name} is missing"))
}

/// Being root is not enough, in containers for instance; so the thing itself is tried.
fn not_allowed(namespace: &str) -> Option<String> {
    let status = Command::new("unshare").args([namespace, "true"]).stderr(Stdio::null()).status();
    (!status.is_ok_and(|status| status.success()))
        .then(|| format!("`unshare {namespace}` is not allowed here"))
}
