//! The mailbox: named messages that the virtual machine keeps.

use crate::pack::Pack;
use crate::receive::Received;
use crate::task::Task;
use crate::tracing::{code, status};
use pvm_engine::{Error, Result};
use pvm_wire::calls::mailbox::{Class, Flags, Found, Get, Names, Put, Remove, Reset};
use pvm_wire::calls::nested::Nested;
use pvm_wire::events::{Datum, Event, Writer};
use pvm_wire::{PvmError, Tid};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Entries of the mailbox have a name and an index, and any task can get them.
///
/// ```no_run
/// # fn main() -> pvm3::Result<()> {
/// # let mut task = pvm3::Task::enrol()?;
/// use pvm3::MailboxFlags;
///
/// let mut pack = pvm3::Pack::new();
/// pack.put_str("42 degrees")?;
/// let index = task.put_info("weather", &pack, MailboxFlags::MULTI_INSTANCE)?;
///
/// // In this task or another one; with `WAIT_FOR_INFO` it need not be there yet.
/// let (_, mut message) = task.recv_info("weather", index, MailboxFlags::WAIT_FOR_INFO)?;
/// println!("{}", message.get_str()?);
///
/// for class in task.mailbox_info("w*ther")? {
///     println!("{} has {} entries", class.name.display(), class.entries.len());
/// }
/// task.delete_info("weather", index)?;
/// # Ok(())
/// # }
/// ```
impl Task {
    /// Puts a copy of a message into the mailbox, and returns its index (`pvm_putinfo`).
    ///
    /// Without flags it is the only entry of its name, is this task's until that ends, and replaces one that was put so before.
    /// [`PvmError::Denied`]: another task's entry is in its place.
    pub fn put_info(&mut self, name: impl AsRef<OsStr>, pack: &Pack, flags: Flags) -> Result<i32> {
        let tell = |event: &mut Writer| {
            event.text(Datum::CN, &name).int(Datum::CI, -1).int(Datum::CF, flags.bits()).int(Datum::CD, 1);
        };
        let tell_index = |event: &mut Writer, index: &Result<i32>| {
            event.int(Datum::CC, code(index, |&index| index));
        };
        self.traced(Event::Putinfo, tell, tell_index, |task| {
            let class = checked_name(name.as_ref())?;
            let (tid, message) = (task.tid(), pack.to_message(task.tid())?);
            task.engine.call(&Put { tid, class, index: -1, flags, message: Nested::new(&message) })
        })
    }

    /// Gets an entry: its index and its message (`pvm_recvinfo`).
    ///
    /// [`PvmError::NotFound`]: there is none, and the flags do not ask to wait for one. [`PvmError::Denied`]: it is to be removed, and
    /// is another task's.
    pub fn recv_info(
        &mut self,
        name: impl AsRef<OsStr>,
        index: i32,
        flags: Flags,
    ) -> Result<(i32, Received)> {
        let tell = |event: &mut Writer| {
            event.text(Datum::CN, &name).int(Datum::CI, index).int(Datum::CF, flags.bits());
        };
        let tell_found = |event: &mut Writer, found: &Result<Found>| {
            event.int(Datum::CC, code(found, |_| 0)).int(Datum::CR, i32::from(found.is_ok()));
        };
        let found = self.traced(Event::Getinfo, tell, tell_found, |task| {
            let class = checked_name(name.as_ref())?;
            check_index(index)?;
            task.engine.call(&Get { tid: task.tid(), class, index, flags })
        })?;
        let unreadable =
            |error| Error::new(PvmError::BadMsg, format!("the mailbox entry cannot be read: {error}"));
        let message = found.message.open().map_err(unreadable)?;
        Ok((found.index, Received::new(message)))
    }

    /// Removes an entry (`pvm_delinfo`).
    ///
    /// [`PvmError::NotFound`]: there is none. [`PvmError::Denied`]: it is another task's.
    pub fn delete_info(&mut self, name: impl AsRef<OsStr>, index: i32) -> Result<()> {
        let tell = |event: &mut Writer| {
            event.text(Datum::CN, &name).int(Datum::CI, index).int(Datum::CF, 0);
        };
        self.traced(Event::Delinfo, tell, status(Datum::CC), |task| {
            let class = checked_name(name.as_ref())?;
            check_index(index)?;
            task.engine.call(&Remove { tid: task.tid(), class, index }).map(drop)
        })
    }

    /// The entries whose names have this pattern in them, name by name in the order in which these came up (`pvm_getmboxinfo`).
    /// In it `*` stands for anything, and `\*` for a star; an empty one is in every name.
    pub fn mailbox_info(&mut self, pattern: impl AsRef<OsStr>) -> Result<Vec<Class>> {
        let tell = |event: &mut Writer| {
            event.text(Datum::CN, &pattern);
        };
        self.traced(Event::Getmboxinfo, tell, status(Datum::CC), |task| {
            let (tid, pattern) = (task.tid(), without_nul(pattern.as_ref())?);
            task.engine.call(&Names { tid, pattern })
        })
    }

    /// Removes entries that tasks have left which have ended: of this name, or of every one if it is empty; with this index, or all.
    /// With `kill`, what the other tasks will leave goes, too, when they end, except of those in `keep`: for consoles that end them.
    pub fn reset_info(
        &mut self,
        name: impl AsRef<OsStr>,
        index: Option<i32>,
        kill: bool,
        keep: &[Tid],
    ) -> Result<()> {
        let (tid, class, index) = (self.tid(), without_nul(name.as_ref())?, index.unwrap_or(-1));
        self.engine.call(&Reset { tid, class, index, kill, keep: keep.to_vec() })
    }
}

fn checked_name(name: &OsStr) -> Result<OsString> {
    if name.is_empty() {
        return Err(Error::new(PvmError::BadParam, "a mailbox entry needs a name"));
    }
    without_nul(name)
}

fn without_nul(name: &OsStr) -> Result<OsString> {
    if name.as_bytes().contains(&0) {
        let name = name.display();
        let text = format!("{name}: the name of a mailbox entry has no NUL");
        return Err(Error::new(PvmError::BadParam, text));
    }
    Ok(name.to_owned())
}

fn check_index(index: i32) -> Result<()> {
    if index < 0 {
        return Err(Error::new(PvmError::BadParam, format!("{index} is no index: indices are not negative")));
    }
    Ok(())
}
