//! Writes what is saved, also after a disk was full.

use super::database::{self, Before, Changes, NotWritten, Opened, guarded};
use pvmd_core::SavedState;
use redb::Database;
use std::fmt;

/// Opens the database again.
type Open = Box<dyn FnMut() -> Result<Opened, String> + Send>;

/// The database, while it can be written.
pub(super) struct Saver {
    /// redb writes nothing more after an error of the disk, whatever becomes of the disk: then it is opened again.
    database: Option<Database>,
    open: Open,
    serial: u64,
    /// What has failed, and may be on disk all the same.
    before: Before,
}

impl Saver {
    /// What is not open yet is opened when something is saved.
    pub fn new(opened: Option<(Database, u64)>, open: Open) -> Self {
        let (database, serial) = opened.map_or((None, 0), |(database, serial)| (Some(database), serial));
        Self { database, open, serial, before: Vec::new() }
    }

    /// All of it is on disk, or nothing.
    pub fn save(&mut self, changes: &Changes, state: Option<&SavedState>) -> Result<(), String> {
        self.make_ready()?;
        self.serial += 1;
        let serial = self.serial;
        let saved = self.attempt(|database| database::write(database, serial, (changes, state)));
        if saved.is_err() {
            // A daemon that ends before the next save shall leave nothing that it has reported as failed.
            let _ = self.make_ready();
        }
        saved
    }

    fn make_ready(&mut self) -> Result<(), String> {
        if self.database.is_none() {
            let opened = (self.open)()?;
            self.serial = self.serial.max(opened.serial);
            self.database = Some(opened.database);
        }
        if self.before.is_empty() {
            return Ok(());
        }
        let before = std::mem::take(&mut self.before);
        let undone = self.attempt(|database| database::undo(database, &before));
        if undone.is_err() {
            self.before = before;
        }
        undone
    }

    fn attempt(&mut self, work: impl FnOnce(&Database) -> Result<(), NotWritten>) -> Result<(), String> {
        let Some(database) = self.database.take() else { return Err("the file is not open".to_owned()) };
        let done = guarded(|| work(&database))
            .unwrap_or_else(|panic| Err(NotWritten { reason: panic, before: Vec::new() }));
        match done {
            Ok(()) => {
                self.database = Some(database);
                Ok(())
            }
            Err(NotWritten { reason, before }) => {
                self.before = before;
                // It cannot be closed well either.
                let _ = guarded(|| drop(database));
                Err(reason)
            }
        }
    }
}

impl fmt::Debug for Saver {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Saver").field("serial", &self.serial).finish_non_exhaustive()
    }
}
