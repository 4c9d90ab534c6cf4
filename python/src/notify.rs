//! Notices when tasks exit and hosts are added or leave.

use crate::handle::tids;
use crate::task::Task;
use pyo3::prelude::*;

#[pymethods]
impl Task {
    /// One notice for each of these tasks that ends or has ended: a message with this tag, from which `tid` takes the task.
    fn notify_exit(&self, py: Python<'_>, tasks: Vec<i64>, tag: i32) -> PyResult<()> {
        let of = tids(&tasks)?;
        self.handle.call(py, |task| task.notify_exit(&of, tag))
    }

    /// Takes `notify_exit` back; the notices come at once instead.
    fn cancel_notify_exit(&self, py: Python<'_>, tasks: Vec<i64>, tag: i32) -> PyResult<()> {
        let of = tids(&tasks)?;
        self.handle.call(py, |task| task.cancel_notify_exit(&of, tag))
    }

    /// One notice for each of these hosts that leaves or has left: `tid` takes the host from it.
    fn notify_host_delete(&self, py: Python<'_>, hosts: Vec<i64>, tag: i32) -> PyResult<()> {
        let of = tids(&hosts)?;
        self.handle.call(py, |task| task.notify_host_delete(&of, tag))
    }

    /// Takes `notify_host_delete` back; the notices come at once instead.
    fn cancel_notify_host_delete(&self, py: Python<'_>, hosts: Vec<i64>, tag: i32) -> PyResult<()> {
        let of = tids(&hosts)?;
        self.handle.call(py, |task| task.cancel_notify_host_delete(&of, tag))
    }

    /// A notice whenever hosts join: their number, an `int`, and that number of `tid`s.
    fn notify_host_add(&self, py: Python<'_>, tag: i32) -> PyResult<()> {
        self.handle.call(py, |task| task.notify_host_add(tag))
    }

    /// Takes `notify_host_add` back; no notice comes.
    fn cancel_notify_host_add(&self, py: Python<'_>, tag: i32) -> PyResult<()> {
        self.handle.call(py, |task| task.cancel_notify_host_add(tag))
    }
}
