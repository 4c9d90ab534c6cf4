//! The mailbox: named messages that the virtual machine keeps.

use crate::message::Message;
use crate::packer::Packer;
use crate::pickled;
use crate::task::Task;
use pvm3::MailboxFlags;
use pyo3::prelude::*;

fn flags(chosen: &[(bool, MailboxFlags)]) -> MailboxFlags {
    let chosen = chosen.iter().filter(|(is_chosen, _)| *is_chosen);
    chosen.fold(MailboxFlags::DEFAULT, |flags, &(_, flag)| flags | flag)
}

#[pymethods]
impl Task {
    /// Puts an object (pickled) or what a `Packer` has into the mailbox, and returns its index. It is the only entry of its name unless
    /// `multi`, goes when this task ends unless `persistent`, and only this task can replace it unless `overwritable`.
    #[pyo3(signature = (name, value, *, persistent = false, multi = false, overwritable = false))]
    fn put_info(
        &self,
        py: Python<'_>,
        name: &str,
        value: &Bound<'_, PyAny>,
        persistent: bool,
        multi: bool,
        overwritable: bool,
    ) -> PyResult<i32> {
        let flags = flags(&[
            (persistent, MailboxFlags::PERSISTENT),
            (multi, MailboxFlags::MULTI_INSTANCE),
            (overwritable, MailboxFlags::OVERWRITABLE),
        ]);
        if let Ok(packer) = value.cast::<Packer>() {
            let packer = packer.try_borrow()?;
            let pack = packer.pack();
            return self.handle.call(py, |task| task.put_info(name, pack, flags));
        }
        let pack = pickled::packed(value)?;
        self.handle.call(py, |task| task.put_info(name, &pack, flags))
    }

    /// Gets an entry as a message (`object` takes what was pickled). With `wait` it need not be there yet, with `first` it is the first one
    /// from this index on, with `delete` it is removed.
    #[pyo3(signature = (name, index = 0, *, wait = false, first = false, delete = false))]
    fn recv_info(
        &self,
        py: Python<'_>,
        name: &str,
        index: i32,
        wait: bool,
        first: bool,
        delete: bool,
    ) -> PyResult<Message> {
        let flags = flags(&[
            (wait, MailboxFlags::WAIT_FOR_INFO),
            (first, MailboxFlags::FIRST_AVAILABLE),
            (delete, MailboxFlags::READ_AND_DELETE),
        ]);
        let (_, received) = self.handle.call(py, |task| task.recv_info(name, index, flags))?;
        Ok(Message::new(received))
    }

    /// Removes an entry.
    #[pyo3(signature = (name, index = 0))]
    fn delete_info(&self, py: Python<'_>, name: &str, index: i32) -> PyResult<()> {
        self.handle.call(py, |task| task.delete_info(name, index))
    }

    /// The entries whose names have this pattern in them: names, each with the indices of its entries. `*` stands for anything.
    #[pyo3(signature = (pattern = ""))]
    fn mailbox_info(&self, py: Python<'_>, pattern: &str) -> PyResult<Vec<(String, Vec<i32>)>> {
        let classes = self.handle.call(py, |task| task.mailbox_info(pattern))?;
        let entries = |class: pvm3::MailboxClass| {
            let indices = class.entries.iter().map(|entry| entry.index).collect();
            (class.name.to_string_lossy().into_owned(), indices)
        };
        Ok(classes.into_iter().map(entries).collect())
    }
}
