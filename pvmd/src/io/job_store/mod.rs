//! Jobs on disk: they outlive the machine.
//!
//! The master has one file, `jobs.<host>[.<vmid>].redb` in the folder for what outlives machines (`PVM_STATE`). Writing takes as long as
//! the disk does, so it has a thread of its own; a change is on disk as a whole or not at all when it is reported.
//!
//! | file | subject |
//! |---|---|
//! | [`database`] | what the file has |
//! | [`record`] | a job as it stands there |
//! | [`files`] | the file itself: new, opened, damaged |
//! | [`saver`] | writing, also after a disk was full |

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod damage_tests;
mod database;
mod files;
#[cfg(test)]
mod full_disk_tests;
mod record;
mod saver;
#[cfg(test)]
mod simulated_disk;

use crate::io::driver::Input;
use database::Changes;
use pvmd_core::SavedJob;
use pvmd_core::event::Event;
use redb::Database;
use saver::Saver;
use std::path::PathBuf;
use std::sync::mpsc as sync;
use std::thread::JoinHandle;
use tokio::sync::mpsc;
use tracing::info;

/// The master's file, which is made when there is something to be written.
#[derive(Debug)]
pub struct JobStore {
    path: PathBuf,
    open: Option<Writer>,
    /// What was open when the jobs were read, and the last save.
    database: Option<(Database, u64)>,
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
    #[error("{path} has version {found}, this daemon knows {known}: use the pvmd that has written it", path = .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The latest version that can be read.
        known: u32,
    },
    /// Another daemon uses it.
    #[error("{path} is in use by another daemon: give one of the two machines a PVM_VMID or PVM_STATE of its own", path = .0.display())]
    InUse(PathBuf),
    /// It is not what was written, and stays as it is. The next machine keeps what is found in it.
    #[error("{path} is damaged: {reason}", path = .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
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

    /// With the jobs that are on disk. A file that is damaged is put aside, and said; jobs that are found in it are kept.
    pub fn read(path: PathBuf, input: mpsc::Sender<Input>) -> Result<(Self, Vec<SavedJob>), StoreError> {
        if !path.exists() {
            return Ok((Self::new(path, input), Vec::new()));
        }
        let opened = files::open_or_salvage(&path)?;
        info!(jobs = opened.jobs.len(), file = %path.display(), "jobs on disk");
        let database = Some((opened.database, opened.serial));
        Ok((Self { database, ..Self::new(path, input) }, opened.jobs))
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
            let mut saver = self.saver();
            let (orders, received) = sync::channel::<(u64, Changes)>();
            let input = self.input.clone();
            let work = move || {
                for (serial, changes) in received {
                    let failure = saver.save(&changes).err();
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

    fn saver(&mut self) -> Saver {
        let database = self.database.take();
        let (path, mut is_made) = (self.path.clone(), database.is_some());
        let open = move || {
            let opened = if is_made { files::open(&path) } else { files::create(&path) };
            is_made |= opened.is_ok();
            opened.map_err(|error| error.to_string())
        };
        Saver::new(database, Box::new(open))
    }
}

#[cfg(test)]
mod tests {
    use super::database::{CURRENT, VERSION};
    use super::*;
    use pvm_wire::daemon::Blob;

    fn blob(text: &'static str) -> Blob {
        Blob(text.as_bytes().into())
    }

    fn saved_job(text: &'static str) -> SavedJob {
        SavedJob { bytes: blob(text), is_doubtful: false }
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
        assert_eq!(jobs, [saved_job("more")]);
        store.save(3, vec![(3, Some(blob("three")))]);
        assert_eq!(saved(&mut events).await, (3, None));
        store.finish();
        // Another host becomes the master: its file has what it writes, and nothing else.
        let mut store = JobStore::new(path.clone(), input.clone());
        store.save(4, vec![(4, Some(blob("four")))]);
        store.finish();
        assert_eq!(JobStore::read(path, input).unwrap().1, [saved_job("four")]);
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_written_or_read_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let (input, mut events) = mpsc::channel(9);
        let mut store = JobStore::new("/proc/no/jobs.redb".into(), input.clone());
        store.save(1, Vec::new());
        let (_, failure) = saved(&mut events).await;
        assert!(failure.is_some_and(|failure| failure.contains("/proc/no")));
        let database = Database::create(folder.path().join("later.redb")).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(VERSION).unwrap().insert("", CURRENT + 1).unwrap();
        transaction.commit().unwrap();
        drop(database);
        let error = JobStore::read(folder.path().join("later.redb"), input).unwrap_err();
        assert!(error.to_string().contains("has version 3"), "{error}");
    }
}
