//! What the file has: jobs by their numbers. It does not matter here where the bytes are.

use super::record::Record;
use pvm_wire::codec;
use pvm_wire::daemon::Blob;
use pvmd_core::{SavedJob, SavedState};
use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, StorageBackend, StorageError, Table,
    TableDefinition, TableError,
};
use std::any::Any;
use std::error::Error;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Records of jobs by their numbers.
pub(super) const JOBS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("jobs");
/// The version of that encoding, under an empty name.
pub(super) const VERSION: TableDefinition<'_, &str, u32> = TableDefinition::new("version");
/// What is said of the machine beside its jobs, in the encoding of daemons, under an empty name.
const STATE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("machine");
/// Changes with the encoding.
pub(super) const CURRENT: u32 = 4;

/// What is to be written: jobs as they are now, or `None` for those that are forgotten.
pub(super) type Changes = Vec<(u64, Option<Blob>)>;
/// What stood under these numbers.
pub(super) type Before = Vec<(u64, Option<Vec<u8>>)>;

/// A database, and what was read from it.
#[derive(Debug)]
pub(super) struct Opened {
    pub database: Database,
    pub jobs: Vec<SavedJob>,
    /// Their numbers.
    pub numbers: Vec<u64>,
    /// The greatest of all saves.
    pub serial: u64,
    pub state: Option<SavedState>,
}

/// Why a file cannot be used.
#[derive(Debug)]
pub(super) enum Failure {
    InUse,
    /// It is of a later version of this system.
    Version(u32),
    /// It is not what was written.
    Damaged(String),
    Other(String),
}

/// Why something was not written.
#[derive(Debug)]
pub(super) struct NotWritten {
    pub reason: String,
    /// What is to be written so that it is undone, if it may have reached the disk.
    pub before: Before,
}

/// Opens what was written before, or begins anew where nothing is. All checksums are checked.
///
/// After a crash redb cannot tell pages that are damaged from those that a save under way has not written, and goes back to the save
/// before. Two phases for each commit would tell, and take twice as long; a disk that loses what it has synced would then have
/// all jobs held instead of costing the last save.
pub(super) fn open(storage: impl StorageBackend) -> Result<Opened, Failure> {
    let work = || {
        // Without the check redb takes the pages of a file that was closed as they are.
        let database = Database::builder()
            .set_check_integrity_on_open(true)
            .create_with_backend(storage)
            .map_err(|error| not_opened(&error))?;
        match version(&database).map_err(|error| of(&*error))? {
            Some(CURRENT) => {}
            Some(found) => return Err(Failure::Version(found)),
            None => begin(&database).map_err(|error| of(&*error))?,
        }
        let mut opened = Opened { database, jobs: Vec::new(), numbers: Vec::new(), serial: 0, state: None };
        read_all(&mut opened).map_err(|error| of(&*error))?;
        Ok(opened)
    };
    guarded(work).unwrap_or_else(|panic| Err(Failure::Damaged(panic)))
}

/// What redb says of a file that it cannot be right with is an error in its releases, and a panic with debug assertions.
pub(super) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    // What has panicked is not used any more.
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| text(&*panic))
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panic").to_owned()
}

fn not_opened(error: &DatabaseError) -> Failure {
    match error {
        DatabaseError::DatabaseAlreadyOpen => Failure::InUse,
        DatabaseError::Storage(storage) => of(storage),
        // No pvmd has written a format of redb that is older than the present one.
        DatabaseError::UpgradeRequired(_) => Failure::Damaged(error.to_string()),
        error => Failure::Other(error.to_string()),
    }
}

/// A file that ends too early and one of something else are input that is wrong; what else can happen to a file passes.
fn of(error: &(dyn Error + 'static)) -> Failure {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let is_damaged = match error.downcast_ref::<StorageError>() {
            Some(StorageError::Corrupted(_)) => true,
            Some(StorageError::Io(error)) => {
                matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof)
            }
            _ => error.is::<NotWhole>(),
        };
        if is_damaged {
            return Failure::Damaged(error.to_string());
        }
        cause = error.source();
    }
    Failure::Other(error.to_string())
}

/// A record that is not what was written, on a page that is.
#[derive(Debug, thiserror::Error)]
#[error("the record of job {0} is damaged")]
struct NotWhole(u64);

fn version(database: &Database) -> Result<Option<u32>, Box<dyn Error>> {
    let transaction = database.begin_read()?;
    match transaction.open_table(VERSION) {
        Ok(table) => Ok(table.get("")?.map(|version| version.value())),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Has an empty file be one of this version.
fn begin(database: &Database) -> Result<(), Box<dyn Error>> {
    let transaction = database.begin_write()?;
    transaction.open_table(VERSION)?.insert("", CURRENT)?;
    drop(transaction.open_table(JOBS)?);
    drop(transaction.open_table(STATE)?);
    transaction.commit()?;
    Ok(())
}

fn read_all(opened: &mut Opened) -> Result<(), Box<dyn Error>> {
    let transaction = opened.database.begin_read()?;
    for entry in transaction.open_table(JOBS)?.iter()? {
        let (number, bytes) = entry?;
        let number = number.value();
        let record = Record::decode(bytes.value()).filter(|record| record.number == number);
        let record = record.ok_or(NotWhole(number))?;
        opened.serial = opened.serial.max(record.serial);
        opened.numbers.push(number);
        let bytes = Blob(record.job.to_vec().into());
        opened.jobs.push(SavedJob { bytes, is_doubtful: record.is_doubtful });
    }
    let table = transaction.open_table(STATE)?;
    opened.state = table.get("")?.map(|bytes| codec::decode(bytes.value())).transpose()?;
    Ok(())
}

/// All of it or, if it fails, nothing that lasts: what may have reached the disk all the same is to be undone. The state of the machine
/// stays then, as it is said again with the next save.
pub(super) fn write(
    database: &Database,
    serial: u64,
    (changes, state): (&Changes, Option<&SavedState>),
) -> Result<(), NotWritten> {
    let changes = changes.iter().map(|(number, job)| (*number, job.as_ref().map(|job| &job.0[..])));
    change(database, state, |table| {
        let lowest = table.first()?.map_or(0, |(number, _)| number.value());
        changes.map(|(number, job)| Ok((number, put(table, number, job, (serial, lowest, false))?))).collect()
    })
}

/// Jobs that were found in a damaged file.
pub(super) fn write_doubtful<'a>(
    database: &Database,
    serial: u64,
    jobs: impl Iterator<Item = (u64, &'a [u8])>,
) -> Result<(), NotWritten> {
    change(database, None, |table| {
        jobs.map(|(number, job)| Ok((number, put(table, number, Some(job), (serial, 0, true))?))).collect()
    })
}

/// Has stand under these numbers what stood there before.
pub(super) fn undo(database: &Database, before: &Before) -> Result<(), NotWritten> {
    change(database, None, |table| {
        // The first change of a number has what stood there before all.
        for (number, bytes) in before.iter().rev() {
            match bytes {
                Some(bytes) => drop(table.insert(number, &bytes[..])?),
                None => drop(table.remove(number)?),
            }
        }
        Ok(before.clone())
    })
}

type Jobs<'a> = Table<'a, u64, &'static [u8]>;

fn change(
    database: &Database,
    state: Option<&SavedState>,
    work: impl FnOnce(&mut Jobs<'_>) -> Result<Before, Box<dyn Error>>,
) -> Result<(), NotWritten> {
    let prepare = || {
        let transaction = database.begin_write()?;
        let before = work(&mut transaction.open_table(JOBS)?)?;
        if let Some(state) = state {
            transaction.open_table(STATE)?.insert("", &codec::encode(state)?[..])?;
        }
        Ok((transaction, before))
    };
    // Nothing is on disk before it is committed.
    let (transaction, before) = prepare()
        .map_err(|error: Box<dyn Error>| NotWritten { reason: error.to_string(), before: Vec::new() })?;
    transaction.commit().map_err(|error| NotWritten { reason: error.to_string(), before })
}

/// Writes a job with the serial, the lowest number and the doubt of its record, or forgets it. What stood there.
fn put(
    table: &mut Jobs<'_>,
    number: u64,
    job: Option<&[u8]>,
    (serial, lowest, is_doubtful): (u64, u64, bool),
) -> Result<Option<Vec<u8>>, Box<dyn Error>> {
    let Some(job) = job else {
        return Ok(table.remove(number)?.map(|before| before.value().to_vec()));
    };
    let record = Record { number, serial, lowest, is_doubtful, job };
    let bytes = record.encode().ok_or_else(|| format!("job {number} is too large"))?;
    let before = table.insert(number, &bytes[..])?;
    Ok(before.map(|before| before.value().to_vec()))
}
