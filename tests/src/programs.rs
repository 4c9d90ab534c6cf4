//! The C programs of `programs/`, compiled against a chosen PVM.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::install::Installation;
use crate::peers::{self, Peer};

/// How a program gets its library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linking {
    /// libpvm3.so.3, found at run time.
    Shared,
    /// libpvm3.a, copied into the program.
    Archive,
}

/// A folder of compiled programs.
pub struct Programs {
    folder: TempDir,
}

impl Programs {
    /// Compiles these programs against the header and library of an installation; `None` (with a line that says so)
    /// without a compiler.
    #[track_caller]
    pub fn compile(names: &[&str], installation: &Installation, linking: Linking) -> Option<Self> {
        peers::require(&[Peer::CCompiler], "C programs")?;
        let folder = TempDir::with_prefix("pvm-programs-").expect("a temporary folder can be made");
        for name in names {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("programs/{name}.c"));
            compile(&source, &folder.path().join(name), installation, linking);
        }
        Some(Self { folder })
    }

    /// The folder they are in, for the search path.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Path of one of them.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

#[track_caller]
fn compile(source: &Path, program: &Path, installation: &Installation, linking: Linking) {
    let mut command = Command::new("cc");
    command.args(["-std=gnu99", "-Wall", "-Wextra", "-Werror"]).arg("-I").arg(installation.include());
    command.arg(source).arg("-o").arg(program);
    match linking {
        Linking::Shared => command.arg("-L").arg(installation.library()).arg("-lpvm3"),
        Linking::Archive => command.arg(installation.library().join("libpvm3.a")),
    };
    // What a program of the archive needs besides; harmless for the other.
    command.args(["-lpthread", "-ldl", "-lm"]);
    let output = command.output().expect("cc can be started");
    assert!(output.status.success(), "{command:?}:\n{}", String::from_utf8_lossy(&output.stderr));
}
