//! How messages to other tasks travel.

use crate::task::{Task, check_tag, check_task};
use pvm_engine::Result;
use pvm_wire::Tid;
use std::os::fd::BorrowedFd;

/// How messages to other tasks travel (`PvmRoute`).
///
/// ```no_run
/// # let mut task = pvm3::Task::enrol()?;
/// use pvm3::Routing;
///
/// let before = task.set_routing(Routing::Direct);
/// // Messages are sent here.
/// task.set_routing(before);
/// # Ok::<(), pvm3::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// By the daemons. Requests for direct routes to this task are refused; open routes stay.
    ByDaemon = 1,
    /// Directly with tasks of other hosts that have this library, as soon as a route is open: messages go by the daemons until then, and
    /// nothing waits. With others by the daemons, until they ask for a direct route.
    #[default]
    AllowDirect = 2,
    /// On direct routes. The first message to a task waits until that one receives, and answers whether it has one;
    /// if not, or if it ends, messages go by the daemons.
    Direct = 3,
}

/// ```no_run
/// # fn main() -> pvm3::Result<()> {
/// # let mut task = pvm3::Task::enrol()?;
/// task.set_routing(pvm3::Routing::Direct);
/// let worker = task.spawn("worker").start()?.tids[0];
/// task.send(worker, 1, &pvm3::Pack::new())?;
/// # Ok(())
/// # }
/// ```
impl Task {
    /// Sets how messages travel from now on, and returns what was set before.
    pub fn set_routing(&mut self, routing: Routing) -> Routing {
        let before = std::mem::replace(&mut self.engine.options_mut().route, routing as i32);
        match before {
            1 => Routing::ByDaemon,
            3 => Routing::Direct,
            _ => Routing::AllowDirect,
        }
    }

    /// The tasks to which direct routes are open.
    pub fn direct_routes(&self) -> Vec<Tid> {
        self.engine.open_routes()
    }

    /// All descriptors that are readable when [`Task::poll`] has something to do: the daemon's connection first, then those of
    /// direct routes. They change as routes open and close.
    pub fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.engine.keep_bell();
        self.engine.fds()
    }

    /// Requests a notice (the task, and the descriptor as an `i32`) for each direct route that opens, and for each that
    /// this task grants, before the other task connects at that descriptor.
    pub fn notify_route_add(&mut self, tag: i32) -> Result<()> {
        check_tag(tag)?;
        self.engine.notify_route_add(self.engine.context(), tag, -1);
        Ok(())
    }

    /// Cancels [`Task::notify_route_add`]. No notice comes.
    pub fn cancel_notify_route_add(&mut self, tag: i32) -> Result<()> {
        check_tag(tag)?;
        self.engine.notify_route_add(self.engine.context(), tag, 0);
        Ok(())
    }

    /// Requests one notice (a tid and an `i32` of -1) for each of these tasks, when the direct route to it closes or if there is none.
    pub fn notify_route_delete(&mut self, tasks: &[Tid], tag: i32) -> Result<()> {
        self.route_delete(tasks, tag, false)
    }

    /// Cancels [`Task::notify_route_delete`]. The notices come at once instead.
    pub fn cancel_notify_route_delete(&mut self, tasks: &[Tid], tag: i32) -> Result<()> {
        self.route_delete(tasks, tag, true)
    }

    fn route_delete(&mut self, tasks: &[Tid], tag: i32, cancel: bool) -> Result<()> {
        check_tag(tag)?;
        tasks.iter().try_for_each(|&tid| check_task(tid))?;
        self.engine.notify_route_delete(self.engine.context(), tag, tasks, cancel);
        Ok(())
    }
}
