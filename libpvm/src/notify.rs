//! Being told when tasks end and hosts come and go.

use crate::task::{Task, check_task};
use pvm_engine::{Error, Result};
use pvm_wire::calls::notify::NotifyRequest;
use pvm_wire::codes::notify;
use pvm_wire::{PvmError, Tid};

/// Notices come as messages from [`Tid::MY_DAEMON`] with the tag given here.
///
/// ```no_run
/// # fn main() -> pvm3::Result<()> {
/// # let mut task = pvm3::Task::enrol()?;
/// let worker = task.spawn("worker").start()?;
/// task.notify_exit(&worker.tids, 99)?;
/// let ended = task.recv(pvm3::Tid::MY_DAEMON, 99)?.get_tid()?;
/// println!("{ended} has ended");
/// # Ok(())
/// # }
/// ```
impl Task {
    /// One notice (a tid) for each of these tasks that ends or has ended.
    pub fn notify_exit(&mut self, tasks: &[Tid], tag: i32) -> Result<()> {
        tasks.iter().try_for_each(|&tid| check_task(tid))?;
        self.notify(notify::TASK_EXIT, false, tag, tasks)
    }

    /// Takes [`Task::notify_exit`] back; the notices come at once instead.
    pub fn cancel_notify_exit(&mut self, tasks: &[Tid], tag: i32) -> Result<()> {
        tasks.iter().try_for_each(|&tid| check_task(tid))?;
        self.notify(notify::TASK_EXIT, true, tag, tasks)
    }

    /// One notice (a tid) for each of these hosts that leaves or has left.
    pub fn notify_host_delete(&mut self, hosts: &[Tid], tag: i32) -> Result<()> {
        self.notify(notify::HOST_DELETE, false, tag, hosts)
    }

    /// Takes [`Task::notify_host_delete`] back; the notices come at once instead.
    pub fn cancel_notify_host_delete(&mut self, hosts: &[Tid], tag: i32) -> Result<()> {
        self.notify(notify::HOST_DELETE, true, tag, hosts)
    }

    /// A notice (a count and so many tids) whenever hosts join.
    pub fn notify_host_add(&mut self, tag: i32) -> Result<()> {
        self.tell_notify(notify::HOST_ADD, false, tag, -1, Vec::new())
    }

    /// Takes [`Task::notify_host_add`] back; no notice comes.
    pub fn cancel_notify_host_add(&mut self, tag: i32) -> Result<()> {
        self.tell_notify(notify::HOST_ADD, false, tag, 0, Vec::new())
    }

    fn notify(&mut self, what: i32, cancel: bool, tag: i32, tids: &[Tid]) -> Result<()> {
        if tids.is_empty() {
            return Ok(());
        }
        let tids: Vec<i32> = tids.iter().map(|tid| tid.raw()).collect();
        self.tell_notify(what, cancel, tag, tids.len() as i32, tids)
    }

    fn tell_notify(&mut self, what: i32, cancel: bool, tag: i32, count: i32, tids: Vec<i32>) -> Result<()> {
        if tag < 0 {
            return Err(Error::new(PvmError::BadParam, format!("{tag} is no tag: tags are not negative")));
        }
        let request = NotifyRequest { what, cancel, context: self.engine.context(), tag, count, tids };
        self.engine.tell(&request)
    }
}
