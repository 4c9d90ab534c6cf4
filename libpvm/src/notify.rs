//! Notices when tasks exit and hosts are added or leave.

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

    /// A notice (a count and the tids) whenever hosts join.
    pub fn notify_host_add(&mut self, tag: i32) -> Result<()> {
        self.request_notices(notify::HOST_ADD, false, tag, -1, &[])
    }

    /// Takes [`Task::notify_host_add`] back; no notice comes.
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
