//! Jobs on disk: they outlive the machine.
//!
//! The master has one file, `jobs.<host>[.<vmid>].redb` in the folder for what outlives machines (`PVM_STATE`). Writing takes as long as
//! the disk does, so it has a thread of its own; a change is on disk as a whole or not at all when it is reported.
//!
//! | file | subject |
//! |---|---|
//! | `database` | what the file has |
//! | `record` | a job as it stands there |
//! | `files` | the file itself: new, opened, damaged |
//! | `saver` | writing, also after a disk was full |

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
use database::{Changes, Opened};
use pvm_wire::daemon::Blob;
use pvm_wire::jobs::Stamp;
use pvmd_core::event::Event;
use pvmd_core::{Saved, SavedState};
use redb::Database;
use saver::Saver;
use std::path::{Path, PathBuf};
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
    orders: sync::Sender<Order>,
    thread: JoinHandle<()>,
}

/// One save.
struct Order {
    serial: u64,
    changes: Changes,
    state: SavedState,
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
    ///
    /// Where hosts share the folder, another one may have gone on with the jobs of this file: then those of its file count.
    pub fn read(path: PathBuf, input: mpsc::Sender<Input>) -> Result<(Self, Saved), StoreError> {
        if !path.exists() {
            return Ok((Self::new(path, input), Saved::default()));
        }
        let Opened { database, serial, jobs, numbers, state } = files::open_or_salvage(&path)?;
        let saved = match state.as_ref().and_then(|state| files::later(&path, state)) {
            Some(later) => {
                info!("another host has gone on with the jobs of this file: those of its own count");
                Saved { replaces: Some(numbers), ..later }
            }
            None => Saved { jobs, state, replaces: None },
        };
        info!(jobs = saved.jobs.len(), file = %path.display(), "jobs on disk");
        Ok((Self { database: Some((database, serial)), ..Self::new(path, input) }, saved))
    }

    /// What this file has, without a change of it; `None` if there is none, or it cannot be read.
    pub fn peek(path: &Path) -> Option<(Stamp, Vec<Blob>)> {
        let opened = path.exists().then(|| files::open(path)).and_then(Result::ok)?;
        let jobs = opened.jobs.into_iter().map(|job| job.bytes).collect();
        Some((opened.state?.stamp, jobs))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes changes; [`Event::JobsSaved`] follows.
    pub fn save(&mut self, serial: u64, changes: Changes, state: SavedState) {
        if let Err(reason) = self.writer().and_then(|writer| {
            let order = Order { serial, changes, state };
            writer.orders.send(order).map_err(|_| "the thread that writes is gone".to_owned())
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
            let (orders, received) = sync::channel::<Order>();
            let input = self.input.clone();
            let work = move || {
                for Order { serial, changes, state } in received {
                    let failure = saver.save(&changes, Some(&state)).err();
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
    use super::crash_tests::state;
    use super::database::{CURRENT, VERSION};
    use super::*;
    use pvmd_core::SavedJob;

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
        let (mut store, before) = JobStore::read(path.clone(), input.clone()).unwrap();
        assert!(before.jobs.is_empty() && !path.exists(), "who submits nothing has no file");
        store.save(1, vec![(1, Some(blob("one"))), (2, Some(blob("two")))], state(1));
        store.save(2, vec![(1, None), (2, Some(blob("more"))), (7, None)], state(2));
        assert_eq!([saved(&mut events).await, saved(&mut events).await], [(1, None), (2, None)]);
        assert!(matches!(JobStore::read(path.clone(), input.clone()), Err(StoreError::InUse(_))));
        store.finish();
        let (mut store, before) = JobStore::read(path.clone(), input.clone()).unwrap();
        assert_eq!((before.jobs, before.state), (vec![saved_job("more")], Some(state(2))));
        store.save(3, vec![(3, Some(blob("three")))], state(3));
        assert_eq!(saved(&mut events).await, (3, None));
        store.finish();
        // Another host becomes the master: its file has what it writes, and nothing else.
        let mut store = JobStore::new(path.clone(), input.clone());
        store.save(4, vec![(4, Some(blob("four")))], state(4));
        store.finish();
        assert_eq!(JobStore::read(path, input).unwrap().1.jobs, [saved_job("four")]);
    }

    #[tokio::test]
    async fn the_latest_file_of_the_same_machine_counts() {
        let folder = tempfile::tempdir().unwrap();
        let (input, _events) = mpsc::channel(99);
        let path = |name: &str| folder.path().join(format!("jobs.{name}.redb"));
        let of = |machine, run, reign| SavedState { stamp: Stamp { machine, run, reign }, ..state(run) };
        let write = |name: &str, job: (u64, &'static str), state: SavedState| {
            let mut store = JobStore::new(path(name), input.clone());
            store.save(1, vec![(job.0, Some(blob(job.1)))], state);
            store.finish();
        };
        write("a", (1, "of a"), of(7, 2, 1));
        write("b", (2, "of b"), of(7, 2, 2));
        write("c", (3, "of c"), of(7, 1, 9));
        write("d", (4, "of another machine"), of(8, 3, 1));
        let (mut store, saved) = JobStore::read(path("a"), input.clone()).unwrap();
        assert_eq!((saved.jobs, saved.replaces), (vec![saved_job("of b")], Some(vec![1])));
        assert_eq!(saved.state.map(|state| state.stamp), Some(of(7, 2, 2).stamp));
        // As the core does then: all of the other file, nothing of its own, under a later stamp.
        store.save(1, vec![(1, None), (2, Some(blob("of b")))], of(7, 3, 1));
        store.finish();
        let (store, saved) = JobStore::read(path("a"), input).unwrap();
        assert_eq!((saved.jobs, saved.replaces), (vec![saved_job("of b")], None));
        store.finish();
        assert_eq!(JobStore::peek(&path("c")).map(|(stamp, jobs)| (stamp.reign, jobs.len())), Some((9, 1)));
        assert!(JobStore::peek(&path("none")).is_none());
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_written_or_read_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let (input, mut events) = mpsc::channel(9);
        let mut store = JobStore::new("/proc/no/jobs.redb".into(), input.clone());
        store.save(1, Vec::new(), state(1));
        let (_, failure) = saved(&mut events).await;
        assert!(failure.is_some_and(|failure| failure.contains("/proc/no")));
        for version in [CURRENT + 1, CURRENT - 1] {
            let path = folder.path().join(format!("{version}.redb"));
            let database = Database::create(&path).unwrap();
            let transaction = database.begin_write().unwrap();
            transaction.open_table(VERSION).unwrap().insert("", version).unwrap();
            transaction.commit().unwrap();
            drop(database);
            let error = JobStore::read(path, input.clone()).unwrap_err();
            assert!(
                error.to_string().contains(&format!("has version {version}, this daemon knows {CURRENT}")),
                "{error}"
            );
        }
    }
}
