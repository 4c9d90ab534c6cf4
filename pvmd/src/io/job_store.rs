//! Jobs on disk: they outlive the machine.
//!
//! The master has one file, `jobs.<host>[.<vmid>].redb` in the folder for what outlives machines (`PVM_STATE`). Writing takes as long as
//! the disk does, so it has a thread of its own; a change is on disk as a whole or not at all when it is reported.

use crate::io::driver::Input;
use pvm_wire::daemon::Blob;
use pvmd_core::event::Event;
use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition, TableError};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc as sync;
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;
use tracing::{info, warn};

/// Jobs by their numbers, in the encoding of daemons.
const JOBS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("jobs");
/// The version of that encoding, under an empty name.
const VERSION: TableDefinition<'_, &str, u32> = TableDefinition::new("version");
/// Changes with the encoding.
const CURRENT: u32 = 1;

/// What is to be written: jobs as they are now, or `None` for those that are forgotten.
type Changes = Vec<(u64, Option<Blob>)>;

/// The master's file, which is made when there is something to be written.
#[derive(Debug)]
pub struct JobStore {
    path: PathBuf,
    open: Option<Writer>,
    /// What was open when the jobs were read.
    database: Option<Database>,
    /// Why nothing can be written.
    is_unusable: Option<String>,
    input: mpsc::Sender<Input>,
}

#[derive(Debug)]
struct Writer {
    orders: sync::Sender<(u64, Changes)>,
    thread: JoinHandle<()>,
}

/// Why there are no jobs although there is a file.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It is of a later version of this system.
    #[error("{path} has version {found}, this daemon knows {CURRENT}: use the pvmd that has written it", path = .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// Another daemon uses it.
    #[error("{path} is in use by another daemon: give one of the two machines a PVM_VMID or PVM_STATE of its own", path = .0.display())]
    InUse(PathBuf),
    /// Anything else.
    #[error("{path}: {reason}", path = .path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// What happened.
        reason: String,
    },
}

/// The name of the file of a master on this host.
pub fn file_name(host: &str, vmid: Option<&str>) -> String {
    let vmid = vmid.map(|vmid| format!(".{vmid}")).unwrap_or_default();
    format!("jobs.{host}{vmid}.redb")
}

impl JobStore {
    /// Without reading anything: what is in the file is replaced with what is written first.
    pub fn new(path: PathBuf, input: mpsc::Sender<Input>) -> Self {
        Self { path, open: None, database: None, is_unusable: None, input }
    }

    /// All that is to be written fails for this reason.
    pub fn unusable(error: &StoreError, input: mpsc::Sender<Input>) -> Self {
        Self { is_unusable: Some(error.to_string()), ..Self::new(PathBuf::new(), input) }
    }

    /// With the jobs that are on disk. A file that is damaged is put aside, and said.
    pub fn read(path: PathBuf, input: mpsc::Sender<Input>) -> Result<(Self, Vec<Blob>), StoreError> {
        if !path.exists() {
            return Ok((Self::new(path, input), Vec::new()));
        }
        let database = match Database::open(&path) {
            Ok(database) => database,
            Err(DatabaseError::DatabaseAlreadyOpen) => return Err(StoreError::InUse(path)),
            Err(error @ DatabaseError::Storage(redb::StorageError::Corrupted(_))) => {
                put_aside(&path, &error)?;
                return Ok((Self::new(path, input), Vec::new()));
            }
            Err(error) => return Err(other(&path, &error)),
        };
        let found = version(&database).map_err(|error| other(&path, &*error))?;
        if found.is_some_and(|found| found > CURRENT) {
            return Err(StoreError::Version { path, found: found.unwrap_or_default() });
        }
        let jobs = read_all(&database).map_err(|error| other(&path, &*error))?;
        info!(jobs = jobs.len(), file = %path.display(), "jobs on disk");
        Ok((Self { database: Some(database), ..Self::new(path, input) }, jobs))
    }

    /// Writes changes; [`Event::JobsSaved`] follows.
    pub fn save(&mut self, serial: u64, changes: Changes) {
        if let Err(reason) = self.writer().and_then(|writer| {
            writer.orders.send((serial, changes)).map_err(|_| "the thread that writes is gone".to_owned())
        }) {
            let saved = Event::JobsSaved { serial, failure: Some(reason) };
            let input = self.input.clone();
            tokio::spawn(async move { input.send(saved.into()).await });
        }
    }

    fn writer(&mut self) -> Result<&Writer, String> {
        if let Some(reason) = &self.is_unusable {
            return Err(reason.clone());
        }
        if self.open.is_none() {
            let database = match self.database.take() {
                Some(database) => database,
                None => create(&self.path).map_err(|error| error.to_string())?,
            };
            let (orders, received) = sync::channel::<(u64, Changes)>();
            let input = self.input.clone();
            let work = move || {
                for (serial, changes) in received {
                    let failure = write(&database, changes).err().map(|error| error.to_string());
                    // At the end nobody listens any more; the rest is written all the same.
                    let _ = input.blocking_send(Event::JobsSaved { serial, failure }.into());
                }
            };
            let thread = std::thread::Builder::new().name("jobs".into()).spawn(work);
            let thread = thread.map_err(|error| error.to_string())?;
            self.open = Some(Writer { orders, thread });
        }
        self.open.as_ref().ok_or_else(String::new)
    }

    /// Waits until all is written. Nobody may wait for the thread to be listened to.
    pub fn finish(self) {
        if let Some(Writer { orders, thread }) = self.open {
            drop(orders);
            let _ = thread.join();
        }
    }
}

fn other(path: &Path, error: &(dyn Error + 'static)) -> StoreError {
    StoreError::Other { path: path.to_owned(), reason: error.to_string() }
}

/// A new master has no file, or one from before, which is of no use.
fn create(path: &Path) -> Result<Database, Box<dyn Error>> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)
            .map_err(|error| format!("{}: {}", folder.display(), pvm_wire::plain(&error)))?;
    }
    if path.exists() {
        fs::remove_file(path)?;
    }
    let database = Database::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let transaction = database.begin_write()?;
    transaction.open_table(VERSION)?.insert("", CURRENT)?;
    transaction.commit()?;
    Ok(database)
}

fn put_aside(path: &Path, error: &DatabaseError) -> Result<(), StoreError> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let aside = path.with_extension(format!("damaged-{seconds}"));
    fs::rename(path, &aside).map_err(|error| other(path, &error))?;
    warn!(%error, file = %aside.display(), "the jobs on disk are damaged: they are put aside");
    Ok(())
}

fn version(database: &Database) -> Result<Option<u32>, Box<dyn Error>> {
    let transaction = database.begin_read()?;
    match transaction.open_table(VERSION) {
        Ok(table) => Ok(table.get("")?.map(|version| version.value())),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn read_all(database: &Database) -> Result<Vec<Blob>, Box<dyn Error>> {
    let transaction = database.begin_read()?;
    let table = match transaction.open_table(JOBS) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut jobs = Vec::new();
    for entry in table.iter()? {
        jobs.push(Blob(entry?.1.value().to_vec().into()));
    }
    Ok(jobs)
}

/// All of it or, if it fails, nothing.
fn write(database: &Database, changes: Changes) -> Result<(), Box<dyn Error>> {
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(JOBS)?;
        for (number, job) in changes {
            match job {
                Some(job) => drop(table.insert(number, &job.0[..])?),
                None => drop(table.remove(number)?),
            }
        }
    }
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(text: &'static str) -> Blob {
        Blob(text.as_bytes().into())
    }

    async fn saved(events: &mut mpsc::Receiver<Input>) -> (u64, Option<String>) {
        match events.recv().await {
            Some(Input::Event(Event::JobsSaved { serial, failure })) => (serial, failure),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn what_was_written_is_there_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/jobs.a.redb");
        let (input, mut events) = mpsc::channel(9);
        let (mut store, jobs) = JobStore::read(path.clone(), input.clone()).unwrap();
        assert!(jobs.is_empty() && !path.exists(), "who submits nothing has no file");
        store.save(1, vec![(1, Some(blob("one"))), (2, Some(blob("two")))]);
        store.save(2, vec![(1, None), (2, Some(blob("more"))), (7, None)]);
        assert_eq!([saved(&mut events).await, saved(&mut events).await], [(1, None), (2, None)]);
        assert!(matches!(JobStore::read(path.clone(), input.clone()), Err(StoreError::InUse(_))));
        store.finish();
        let (mut store, jobs) = JobStore::read(path.clone(), input.clone()).unwrap();
        assert_eq!(jobs, [blob("more")]);
        store.save(3, vec![(3, Some(blob("three")))]);
        assert_eq!(saved(&mut events).await, (3, None));
        store.finish();
        // Another host becomes the master: its file has what it writes, and nothing else.
        let mut store = JobStore::new(path.clone(), input.clone());
        store.save(4, vec![(4, Some(blob("four")))]);
        store.finish();
        assert_eq!(JobStore::read(path, input).unwrap().1, [blob("four")]);
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_written_or_read_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let (input, mut events) = mpsc::channel(9);
        let mut store = JobStore::new("/proc/no/jobs.redb".into(), input.clone());
        store.save(1, Vec::new());
        let (_, failure) = saved(&mut events).await;
        assert!(failure.is_some_and(|failure| failure.contains("/proc/no")));
        let path = folder.path().join("jobs.redb");
        fs::write(&path, [7; 9000]).unwrap();
        let read = JobStore::read(path.clone(), input.clone());
        assert!(read.is_err() || !path.exists(), "{read:?}");
        let database = Database::create(folder.path().join("later.redb")).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(VERSION).unwrap().insert("", CURRENT + 1).unwrap();
        transaction.commit().unwrap();
        drop(database);
        let error = JobStore::read(folder.path().join("later.redb"), input).unwrap_err();
        assert!(error.to_string().contains("has version 2"), "{error}");
    }
}
