//! C, C++ and Fortran programs, compiled against a chosen PVM.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::built;
use crate::install::Installation;
use crate::peers::{self, Peer};

/// How a program gets its library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linking {
    /// libpvm3.so.3, found at run time.
    Shared,
    /// libpvm3.a, copied into the program.
    Archive,
    /// The libpvm3.so.3 of this installation, whatever the environment says.
    Fixed,
}

/// A folder of compiled programs.
pub struct Programs {
    folder: TempDir,
}

impl Programs {
    /// Compiles these programs of the folder `programs`, in C if they do not end otherwise; see [`Self::of_files`].
    #[track_caller]
    pub fn compile(names: &[&str], installation: &Installation, linking: Linking) -> Option<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
        let file = |name: &&str| {
            let name = if name.contains('.') { (*name).to_owned() } else { format!("{name}.c") };
            folder.join(name)
        };
        let files: Vec<PathBuf> = names.iter().map(file).collect();
        Self::of_files(&files, installation, linking)
    }

    /// Compiles each of these files against the headers and the library of an installation, into a program named as the
    /// file; `None` (with a line that says so) without a compiler.
    #[track_caller]
    pub fn of_files(files: &[PathBuf], installation: &Installation, linking: Linking) -> Option<Self> {
        let folder = TempDir::with_prefix("pvm-programs-").expect("a temporary folder can be made");
        for source in files {
            let program = folder.path().join(source.file_stem().expect("a source has a name"));
            compile(source, &program, installation, linking)?;
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    C,
    Cpp,
    Fortran,
}

impl Language {
    fn of(source: &Path) -> Self {
        match source.extension().and_then(|extension| extension.to_str()) {
            Some("f90" | "f") => Self::Fortran,
            Some("cc") => Self::Cpp,
            _ => Self::C,
        }
    }

    /// The compiler, with the warnings that count as errors.
    fn compiler(self) -> Command {
        const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"];
        let (name, arguments) = match self {
            Self::C => ("cc", [&["-std=gnu99"], &WARNINGS[..]].concat()),
            Self::Cpp => ("c++", [&["-std=c++11"], &WARNINGS[..]].concat()),
            // One subroutine takes data of any type.
            Self::Fortran => ("gfortran", vec!["-fallow-argument-mismatch", "-w"]),
        };
        let mut command = Command::new(name);
        command.args(arguments);
        command
    }
}

/// Compiles a file into a program, with warnings as errors; `None` (with a line that says so) without a compiler.
#[track_caller]
pub fn compile(source: &Path, program: &Path, installation: &Installation, linking: Linking) -> Option<()> {
    let language = Language::of(source);
    require_compiler(source)?;
    let mut command = language.compiler();
    command.arg("-I").arg(installation.include()).arg(source).arg("-o").arg(program);
    let fortran = language == Language::Fortran;
    // Debug information is most of what the linker would copy out of an archive.
    if linking == Linking::Archive {
        command.arg("-Wl,--strip-debug");
    }
    let names = if fortran { &["libfpvm3", "libgpvm3", "libpvm3"][..] } else { &["libgpvm3", "libpvm3"] };
    for name in names {
        match linking {
            Linking::Shared | Linking::Fixed => {
                command.arg("-L").arg(installation.library()).arg(name.replacen("lib", "-l", 1));
            }
            Linking::Archive => {
                command.arg(installation.library().join(format!("{name}.a")));
            }
        }
    }
    if linking == Linking::Fixed {
        // The old tag, which goes before LD_LIBRARY_PATH.
        command.arg(format!("-Wl,--disable-new-dtags,-rpath,{}", installation.library().display()));
    }
    if linking == Linking::Archive && !installation.is_ours {
        // The original's XDR is the system's.
        command.arg("-ltirpc");
    }
    // Further libraries for programs of the archive; harmless for others.
    command.args(["-lpthread", "-ldl", "-lm"]);
    if built::is_sanitized() {
        command.args(["-g", "-fsanitize=address"]);
    }
    let output = command.output().expect("the compiler can be started");
    assert!(output.status.success(), "{command:?}:\n{}", String::from_utf8_lossy(&output.stderr));
    Some(())
}

/// Whether there is a compiler for a file; `None` (with a line that says so) if not.
#[track_caller]
pub fn require_compiler(source: &Path) -> Option<()> {
    match Language::of(source) {
        Language::C => peers::require(&[Peer::CCompiler], "C programs"),
        Language::Cpp => peers::require(&[Peer::CppCompiler], "C++ programs"),
        Language::Fortran => peers::require(&[Peer::FortranCompiler], "Fortran programs"),
    }
}
