//! Where `pvm run` looks for its program.

use crate::machine::SEARCH_PATH;
use pvmd::io::process::search_folders;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Why there is no program to run.
#[derive(Debug)]
pub struct NotFound {
    /// The text of the error.
    pub reason: String,
    /// The exit code a shell would have.
    pub code: u8,
}

/// The program's absolute path: tasks that are started as the program was must find it from any folder. A name without a
/// slash is looked for as a shell does, then as the daemons do, and never in the current folder.
pub fn find(program: &OsStr) -> Result<PathBuf, NotFound> {
    if program.as_bytes().contains(&b'/') {
        let found = std::path::absolute(program).and_then(|path| path.metadata().map(|_| path));
        return found.map_err(|error| not_started(program, &error));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = programs_folders();
    let mut places =
        std::env::split_paths(&path).chain(folders.iter().cloned()).map(|folder| folder.join(program));
    let found = places.find(|path| path.is_file()).ok_or_else(|| nowhere(program, &folders))?;
    std::path::absolute(found).map_err(|error| not_started(program, &error))
}

/// Why a program that is there cannot be started.
pub fn not_started(program: &OsStr, error: &io::Error) -> NotFound {
    let missing = error.kind() == ErrorKind::NotFound;
    let reason = if missing { "no such file".to_owned() } else { error.to_string() };
    let reason = format!("cannot run {}: {reason}", program.display());
    NotFound { reason, code: if missing { 127 } else { 126 } }
}

/// The folders in which this host's daemon looks for the programs that tasks spawn.
fn programs_folders() -> Vec<PathBuf> {
    let path = std::env::var("PVM_PATH").unwrap_or_else(|_| SEARCH_PATH.to_owned());
    let lookup = |name: &str| {
        std::env::var(name).ok().or_else(|| (name == "PVM_ARCH").then(|| pvmd::cli::ARCH.to_owned()))
    };
    search_folders(&path, lookup)
}

fn nowhere(program: &OsStr, folders: &[PathBuf]) -> NotFound {
    let program = program.display();
    let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    let mut reason = format!("{program}: not found in the folders of $PATH, nor in {}", folders.join(", "));
    if Path::new(".").join(program.to_string()).is_file() {
        let _ = write!(reason, "; use ./{program} for the one in this folder");
    }
    NotFound { reason, code: 127 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_a_shell_does() {
        assert!(find(OsStr::new("sh")).unwrap().is_absolute());
        assert_eq!(find(OsStr::new("/bin/sh")).unwrap(), Path::new("/bin/sh"));
        assert!(find(OsStr::new("./src/../Cargo.toml")).unwrap().is_absolute());
        for missing in ["no-such-program", "./no-such-program"] {
            assert_eq!(find(OsStr::new(missing)).unwrap_err().code, 127);
        }
        let denied = io::Error::from(ErrorKind::PermissionDenied);
        assert_eq!(not_started(OsStr::new("x"), &denied).code, 126);
    }

    #[test]
    fn a_name_that_is_not_found_is_explained() {
        let NotFound { reason, .. } = find(OsStr::new("no-such-program")).unwrap_err();
        assert!(
            reason.starts_with("no-such-program: not found in the folders of $PATH, nor in /"),
            "{reason}"
        );
        assert!(!reason.contains("./") && reason.contains("/pvm3/bin/"), "{reason}");
        // Tests run in the package's folder.
        let NotFound { reason, .. } = find(OsStr::new("Cargo.toml")).unwrap_err();
        assert!(reason.ends_with("; use ./Cargo.toml for the one in this folder"), "{reason}");
    }
}
