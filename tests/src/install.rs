//! Which PVM is tested.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

use crate::built;
use crate::peers::{self, Peer};

/// Chooses what is tested: nothing or `ours`, `debian`, or the prefix of an installation.
pub const CHOICE: &str = "PVM_TEST_INSTALLATION";

/// An installed PVM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// Whether it is this project (and not the original).
    pub is_ours: bool,
    bin: PathBuf,
    include: PathBuf,
    library: PathBuf,
    root: Option<PathBuf>,
}

impl Installation {
    /// The installation under test: this project by default, or that of [`CHOICE`].
    pub fn under_test() -> Self {
        match env::var(CHOICE).as_deref() {
            Err(_) | Ok("" | "ours") => Self::ours(),
            Ok("debian") => Self::debian().expect("PVM_TEST_INSTALLATION=debian"),
            Ok(prefix) => Self::at(Path::new(prefix)),
        }
    }

    /// The installation under test, if it is this project: for checks that the original does not pass.
    pub fn ours_only(check: &str) -> Option<Self> {
        let chosen = Self::under_test();
        if !chosen.is_ours {
            eprintln!("not checked: {check} (the original PVM is tested)");
            return None;
        }
        Some(chosen)
    }

    /// Whether what is tested is built here, and not installed already somewhere.
    pub fn is_built_here() -> bool {
        matches!(env::var(CHOICE).as_deref(), Err(_) | Ok("" | "ours"))
    }

    /// This project, built and installed below `target`, once for all tests.
    pub fn ours() -> Self {
        static INSTALLED: OnceLock<Installation> = OnceLock::new();
        INSTALLED.get_or_init(|| Self::at(&install_ours())).clone()
    }

    /// The original PVM 3.4 as Debian installs it.
    pub fn debian() -> Option<Self> {
        peers::require(&[Peer::OriginalPvm], "the original PVM")?;
        Some(Self {
            is_ours: false,
            bin: "/usr/bin".into(),
            include: "/usr/include".into(),
            library: debian_library(),
            root: None,
        })
    }

    /// This project as it is installed there.
    pub fn at(prefix: &Path) -> Self {
        Self {
            is_ours: true,
            bin: prefix.join("bin"),
            include: prefix.join("include"),
            library: prefix.join("lib"),
            root: Some(prefix.join("lib/pvm3")),
        }
    }

    /// This project as cargo has built it beside the tests of a crate; `None` (with a line that says so) if its programs are
    /// not built.
    #[track_caller]
    pub fn built() -> Option<Self> {
        Some(Self::beside(&built::daemon()?))
    }

    /// This project as cargo has built it in the folder of this program. Its libraries are there after [`built::libraries`].
    pub fn beside(program: &Path) -> Self {
        Self {
            is_ours: true,
            bin: program.parent().expect("a program is in a folder").to_owned(),
            include: workspace().join("libpvm/c/include"),
            library: built::library_folder(),
            root: None,
        }
    }

    /// The same with the headers of another.
    #[must_use]
    pub fn with_headers_of(self, other: &Self) -> Self {
        Self { include: other.include.clone(), ..self }
    }

    /// The console.
    pub fn pvm(&self) -> PathBuf {
        self.bin.join("pvm")
    }

    /// The daemon.
    pub fn pvmd(&self) -> PathBuf {
        self.bin.join("pvmd")
    }

    /// Where pvm3.h is.
    pub fn include(&self) -> &Path {
        &self.include
    }

    /// Where the libraries are.
    pub fn library(&self) -> &Path {
        &self.library
    }

    /// Value of `PVM_ROOT`; `None` where there is no such tree, and for Debian's, which has its own compiled in.
    pub fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }
}

/// The folder this workspace is in.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the workspace's folder")
}

fn debian_library() -> PathBuf {
    let triple = format!("/usr/lib/{}-linux-gnu", env::consts::ARCH);
    if Path::new(&triple).is_dir() { triple.into() } else { "/usr/lib".into() }
}

/// Where cargo puts what it builds.
pub fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), |dir| workspace().join(dir))
}

/// `make && make install` below `target`, by one test process at a time; the second part only if there is something
/// new, so that a process which runs tests already keeps its files.
fn install_ours() -> PathBuf {
    let prefix = target().join("pvm-test-prefix");
    built::once("pvm-test-prefix", || {
        make("build", &[]);
        if !is_current(&prefix) {
            let mut setting = OsString::from("PREFIX=");
            setting.push(&prefix);
            make("install", &[setting]);
            File::create(stamp(&prefix)).expect("the stamp can be made");
        }
    });
    prefix
}

fn make(goal: &str, settings: &[OsString]) {
    let mut command = Command::new("make");
    command.arg("--no-print-directory").arg("-C").arg(workspace()).arg(goal);
    built::run_outside(command.args(built::make_options()).args(settings));
}

fn stamp(prefix: &Path) -> PathBuf {
    prefix.join("lib/pvm3/.installed-by-tests")
}

fn is_current(prefix: &Path) -> bool {
    let Some(installed) = modified(&stamp(prefix)) else { return false };
    let sources = ["Makefile", "packaging", "packaging/kubernetes", "libpvm/c/include"]
        .map(|path| workspace().join(path));
    let files = ["pvm", "libpvm3.so", "libpvm3.a"].map(|name| built::product().join(name));
    sources
        .iter()
        .chain(&files)
        .flat_map(|path| with_contents(path))
        .all(|path| modified(&path).is_some_and(|changed| changed <= installed))
}

fn with_contents(path: &Path) -> Vec<PathBuf> {
    let inside = fs::read_dir(path).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    inside.chain([path.to_owned()]).collect()
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}
