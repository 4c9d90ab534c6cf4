//! Why a program could not be started, for people: what the system says is one word for many mistakes.

use rustix::io::Errno;
use std::ffi::OsStr;
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// More than the kernel reads of a script's first line.
const FIRST_LINE: usize = 256;

/// What is wrong with a file that is no executable one.
pub fn no_program(path: &Path) -> String {
    let what = match path.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => "no such file".to_owned(),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            "permission denied: its folder cannot be searched".to_owned()
        }
        Err(error) => pvm_wire::plain(&error),
        Ok(file) if file.is_dir() => "it is a directory".to_owned(),
        Ok(file) if !file.is_file() => "it is not a regular file".to_owned(),
        Ok(file) if file.permissions().mode() & 0o111 == 0 => {
            "permission denied: it is not executable (chmod +x)".to_owned()
        }
        Ok(_) => "permission denied".to_owned(),
    };
    format!("{}: {what}", path.display())
}

/// What is wrong with a name that is in none of these folders, or nowhere executable.
pub fn not_found(file: &OsStr, folders: &[PathBuf]) -> String {
    if let Some(path) = folders.iter().map(|folder| folder.join(file)).find(|path| path.exists()) {
        return no_program(&path);
    }
    let folders: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
    format!("{}: not found in {} (PVM_PATH, or ep= of the hostfile)", file.display(), folders.join(":"))
}

/// What is wrong with a file that the system does not run.
pub fn not_run(path: &Path, error: &io::Error) -> String {
    let script = interpreter(path);
    match (error.raw_os_error().map(Errno::from_raw_os_error), script) {
        (Some(Errno::NOENT), Some(script)) => format!("its interpreter {script} does not exist"),
        (Some(Errno::NOENT), None) if path.exists() => {
            "its dynamic loader does not exist: it was built for another system".to_owned()
        }
        (Some(Errno::ACCESS), Some(script)) => {
            format!("permission denied (for it, or for its interpreter {script})")
        }
        (Some(Errno::ACCESS), None) => "permission denied".to_owned(),
        (Some(Errno::NOEXEC | Errno::LIBBAD), _) => {
            "it is not a program for this machine, nor a script that names its interpreter (#!)".to_owned()
        }
        _ => pvm_wire::plain(error),
    }
}

/// What a script's first line names.
fn interpreter(path: &Path) -> Option<String> {
    let mut start = Vec::new();
    std::fs::File::open(path).ok()?.take(FIRST_LINE as u64).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let name = line.trim_ascii().split(u8::is_ascii_whitespace).next()?;
    Some(OsStr::from_bytes(name).display().to_string())
}
