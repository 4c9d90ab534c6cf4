//! The file itself: made as a whole, and put aside when it is damaged.

use super::StoreError;
use super::database::{self, CURRENT, Failure, Opened};
use super::record;
use pvm_wire::daemon::Blob;
use pvmd_core::{Saved, SavedJob, SavedState};
use redb::backends::FileBackend;
use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::{info, warn};

/// The version of redb's own format.
const FORMAT: u32 = 3;

/// Opens the file that is there.
pub(super) fn open(path: &Path) -> Result<Opened, StoreError> {
    match try_open(path) {
        Ok(opened) => Ok(opened),
        Err(failure) => Err(explained(path, failure)),
    }
}

/// The same; a file that is damaged is put aside, and what is found in it written to a new one.
pub(super) fn open_or_salvage(path: &Path) -> Result<Opened, StoreError> {
    match try_open(path) {
        Ok(opened) => Ok(opened),
        Err(Failure::Damaged(reason)) => match later_format(path) {
            Some(found) => Err(StoreError::Version { path: path.to_owned(), found, known: FORMAT }),
            None => salvage(path, &reason),
        },
        Err(failure) => Err(explained(path, failure)),
    }
}

/// For redb a file of a later format is damaged. Both of its slots for commits begin with the format's number.
fn later_format(path: &Path) -> Option<u32> {
    let mut header = [0; 193];
    File::open(path).and_then(|mut file| file.read_exact(&mut header)).ok()?;
    let [first, second] = [64, 192].map(|slot| u32::from(header[slot]));
    (header.starts_with(b"redb") && first == second && first > FORMAT).then_some(first)
}

fn try_open(path: &Path) -> Result<Opened, Failure> {
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.map_err(|error| Failure::Other(pvm_wire::plain(&error)))?;
    // No file stands here before it has a version: this one has lost all.
    if file.metadata().is_ok_and(|data| data.len() == 0) {
        return Err(Failure::Damaged("the file is empty".to_owned()));
    }
    database::open(FileBackend::new(file).map_err(|error| Failure::Other(error.to_string()))?)
}

fn explained(path: &Path, failure: Failure) -> StoreError {
    let path = path.to_owned();
    match failure {
        Failure::InUse => StoreError::InUse(path),
        Failure::Version(found) => StoreError::Version { path, found, known: CURRENT },
        Failure::Damaged(reason) => StoreError::Damaged { path, reason },
        Failure::Other(reason) => StoreError::Other { path, reason },
    }
}

/// The latest file beside this one with later jobs of the same machine, if there is any.
pub(super) fn later(path: &Path, state: &SavedState) -> Option<Saved> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let is_other = |other: &PathBuf| other != path && other.extension().is_some_and(|end| end == "redb");
    let others = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut latest: Option<(SavedState, Saved)> = None;
    for other in others.filter(is_other) {
        let opened = match open(&other) {
            Ok(opened) => opened,
            Err(error) => {
                info!(%error, "whether it has later jobs is not known");
                continue;
            }
        };
        let Some(found) = opened.state else { continue };
        let best = latest.as_ref().map_or(&state.stamp, |(state, _)| &state.stamp);
        if found.stamp.is_later_than(best) {
            let saved = Saved { jobs: opened.jobs, state: Some(found.clone()), replaces: None };
            latest = Some((found, saved));
        }
    }
    latest.map(|(_, saved)| saved)
}

/// A new file without jobs. It takes the place of one from before, which is of no use.
pub(super) fn create(path: &Path) -> Result<Opened, StoreError> {
    let other = |error: Box<dyn Error>| explained(path, Failure::Other(error.to_string()));
    if let Some(folder) = path.parent() {
        let made = fs::create_dir_all(folder);
        made.map_err(|error| StoreError::Other { path: folder.to_owned(), reason: pvm_wire::plain(&error) })?;
    }
    let (beside, opened) = begin(path).map_err(other)?;
    put_in_place(&beside, path).map_err(|error| other(error.into()))?;
    Ok(opened)
}

/// A new file, under another name until all is in it: the computer may lose its power meanwhile.
fn begin(path: &Path) -> Result<(PathBuf, Opened), Box<dyn Error>> {
    let beside = path.with_extension("new");
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&beside)?;
    let opened = database::open(FileBackend::new(file)?).map_err(|failure| match failure {
        Failure::Damaged(reason) | Failure::Other(reason) => reason,
        failure => format!("{failure:?}"),
    })?;
    Ok((beside, opened))
}

/// Renamed, and the name on disk.
fn put_in_place(beside: &Path, path: &Path) -> io::Result<()> {
    fs::rename(beside, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Looks for records in the bytes of the file.
///
/// The structure of the file is not used: what redb still finds in a damaged one depends on where the damage is, and where a page was
/// not written it finds an earlier one. So nothing says that the latest record of a job is found, and a job could run again that has
/// ended. Therefore all jobs are marked as doubtful: those that have not ended are held until somebody releases them.
fn salvage(path: &Path, reason: &str) -> Result<Opened, StoreError> {
    let failed = |error: &dyn Error| {
        explained(path, Failure::Damaged(format!("{reason}; its jobs cannot be kept: {error}")))
    };
    let bytes = fs::read(path).map_err(|error| failed(&error))?;
    let found = record::find_all(&bytes);
    let serial = found.values().map(|record| record.serial).max().unwrap_or(0) + 1;
    let (beside, opened) = begin(path).map_err(|error| failed(&*error))?;
    let jobs = found.iter().map(|(&number, record)| (number, record.job));
    database::write_doubtful(&opened.database, serial, jobs)
        .map_err(|error| failed(&*Box::<dyn Error>::from(error.reason)))?;
    let aside = put_aside(path).map_err(|error| failed(&error))?;
    put_in_place(&beside, path).map_err(|error| failed(&error))?;
    let (path, aside, kept) = (path.display(), aside.display(), found.len());
    warn!(
        "{path} is damaged ({reason}): {kept} jobs were found in it and are kept, others may be lost. Those that have not ended are \
         held, since later states of them may be lost: release those that shall run. The damaged file is {aside}"
    );
    let saved = |job: &[u8]| SavedJob { bytes: Blob(job.to_vec().into()), is_doubtful: true };
    let jobs = found.values().map(|record| saved(record.job)).collect();
    let numbers = found.keys().copied().collect();
    Ok(Opened { jobs, numbers, serial, state: None, ..opened })
}

/// Gives the file another name as well: there is always one under its own.
fn put_aside(path: &Path) -> io::Result<PathBuf> {
    let mut seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    loop {
        let aside = path.with_extension(format!("damaged-{seconds}"));
        match fs::hard_link(path, &aside) {
            Ok(()) => return Ok(aside),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => seconds += 1,
            // Some file systems have no links.
            Err(_) => return fs::copy(path, &aside).map(|_| aside),
        }
    }
}
