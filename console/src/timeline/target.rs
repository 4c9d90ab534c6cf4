//! The file of a trace: an older file stays until the new one is complete.

use anyhow::{Context, Result};
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Permissions of a new file, of which the process's mask takes some away.
const MODE: u32 = 0o666;

/// Where a trace goes, or another file that a user has named.
#[derive(Debug)]
pub enum Target {
    /// Into a new file in the same folder, which takes the other's place in the end. Dropped before, it is removed.
    New { path: PathBuf, file: NamedTempFile },
    /// Into what is there: a pipe, a terminal, a file in a folder that cannot be changed.
    Present { path: PathBuf, file: File },
}

impl Target {
    /// Opens the target; what is there does not change.
    pub fn open(path: &Path) -> Result<Self> {
        Self::try_open(path).with_context(|| format!("cannot write {}", path.display()))
    }

    fn try_open(path: &Path) -> io::Result<Self> {
        // A link stays a link.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let present = OpenOptions::new().write(true).open(&path);
        let permissions = match &present {
            Ok(file) if file.metadata()?.is_file() => file.metadata()?.permissions(),
            Ok(_) => return Ok(Self::Present { path, file: present? }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Permissions::from_mode(MODE),
            Err(_) => return Err(present.err().unwrap_or_else(|| io::ErrorKind::Other.into())),
        };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        match (builder.prefix(".pvm-").permissions(permissions).tempfile_in(folder), present) {
            (Ok(file), _) => Ok(Self::New { path, file }),
            (Err(_), Ok(file)) => Ok(Self::Present { path, file }),
            (Err(error), Err(_)) => Err(error),
        }
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        match self {
            Self::New { path, .. } | Self::Present { path, .. } => path,
        }
    }

    /// Writes it whole, or leaves a file that was there as it was, if that can be done.
    pub fn write(self, fill: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
        match self {
            Self::New { path, file } => {
                fill(file.as_file())?;
                file.persist(path).map(drop).map_err(|error| error.error)
            }
            Self::Present { file, .. } => {
                if file.metadata()?.is_file() {
                    file.set_len(0)?;
                }
                fill(&file)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_is_replaced_only_by_a_complete_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let full = |mut file: &File| {
            file.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        };
        drop(Target::open(&path).unwrap());
        Target::open(&path).unwrap().write(full).unwrap_err();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        Target::open(&path).unwrap().write(|mut file| file.write_all(b"new")).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        Target::open(&link).unwrap().write(|mut file| file.write_all(b"by link")).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "by link");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_target_that_is_no_file_is_written_in_place() {
        Target::open(Path::new("/dev/null")).unwrap().write(|mut file| file.write_all(b"x")).unwrap();
        assert!(Target::open(Path::new("/no/such/folder/trace.json")).is_err());
        let folder = tempfile::tempdir().unwrap();
        drop(Target::open(&folder.path().join("new.json")).unwrap());
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            0,
            "nothing is left of a run that failed"
        );
    }
}
