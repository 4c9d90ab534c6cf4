//! Notices of tasks that exit and of hosts that are added or lost.

use crate::task::{Task, check_tag, check_task};
use crate::tracing::status;
use pvm_engine::Result;
use pvm_wire::Tid;
use pvm_wire::calls::notify::NotifyRequest;
use pvm_wire::codes::notify;
use pvm_wire::events::{Datum, Event, Writer};

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
    /// Requests one notice (a tid) for each of these tasks, when it exits or if it has exited already. It comes after the task's last message.
    pub fn notify_exit(&mut self, tasks: &[Tid], tag: i32) -> Result<()> {
        tasks.iter().try_for_each(|&tid| check_task(tid))?;
        self.notify(notify::TASK_EXIT, false, tag, tasks)
    }

    /// Cancels [`Task::notify_exit`]. The notices come at once instead.
    pub fn cancel_notify_exit(&mut self, tasks: &[Tid], tag: i32) -> Result<()> {
        tasks.iter().try_for_each(|&tid| check_task(tid))?;
        self.notify(notify::TASK_EXIT, true, tag, tasks)
    }

    /// Requests one notice (a tid) for each of these hosts, when it is deleted or lost or if that has happened already.
    pub fn notify_host_delete(&mut self, hosts: &[Tid], tag: i32) -> Result<()> {
        self.notify(notify::HOST_DELETE, false, tag, hosts)
    }

    /// Cancels [`Task::notify_host_delete`]. The notices come at once instead.
    pub fn cancel_notify_host_delete(&mut self, hosts: &[Tid], tag: i32) -> Result<()> {
        self.notify(notify::HOST_DELETE, true, tag, hosts)
    }

    /// Requests a notice (an `i32`, and as many tids) whenever hosts are added.
    pub fn notify_host_add(&mut self, tag: i32) -> Result<()> {
        self.request_notices(notify::HOST_ADD, false, tag, -1, &[])
    }

    /// Cancels [`Task::notify_host_add`]. No notice comes.
    pub fn cancel_notify_host_add(&mut self, tag: i32) -> Result<()> {
        self.request_notices(notify::HOST_ADD, false, tag, 0, &[])
    }

    fn notify(&mut self, what: i32, cancel: bool, tag: i32, tids: &[Tid]) -> Result<()> {
        if tids.is_empty() {
            return Ok(());
        }
        let tids: Vec<i32> = tids.iter().map(|tid| tid.raw()).collect();
        self.request_notices(what, cancel, tag, tids.len() as i32, &tids)
    }

    fn request_notices(&mut self, what: i32, cancel: bool, tag: i32, count: i32, tids: &[i32]) -> Result<()> {
        let entry = |event: &mut Writer| {
            let kind = what | if cancel { notify::CANCEL } else { 0 };
            event.int(Datum::NE, kind).int(Datum::NMC, tag).ints(Datum::NTL, tids);
        };
        let request =
            NotifyRequest { what, cancel, context: self.engine.context(), tag, count, tids: tids.to_vec() };
        self.traced(Event::Notify, entry, status(Datum::CC), |task| {
            check_tag(tag)?;
            task.engine.send_request(&request)
        })
    }
}
