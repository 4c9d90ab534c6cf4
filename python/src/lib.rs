//! PVM for Python programs: the module `pvm._pvm`, around which the package `pvm` is built (`python/pvm`).
//!
//! The classes here are those of the Rust API in Python's terms. While a call waits, other threads of Python run.
#![forbid(unsafe_code)]
#![expect(clippy::needless_pass_by_value, reason = "arguments of Python come by value")]

mod buffers;
mod errors;
mod group;
mod handle;
mod machine;
mod mailbox;
mod message;
mod notify;
mod packer;
mod pickled;
mod queue;
mod spawn;
mod task;

use pyo3::prelude::*;

/// The part of the package that is written in Rust.
#[pymodule]
mod _pvm {
    use crate::errors::raise;
    use crate::handle::tid;
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::group::Group;
    #[pymodule_export]
    use crate::machine::{Host, HostFailure, TaskInfo};
    #[pymodule_export]
    use crate::message::Message;
    #[pymodule_export]
    use crate::packer::Packer;
    #[pymodule_export]
    use crate::queue::{Batch, BatchEvent};
    #[pymodule_export]
    use crate::spawn::{Refused, Spawned};
    #[pymodule_export]
    use crate::task::Task;

    /// Any sender, or any tag.
    #[pymodule_export]
    const ANY: i32 = -1;

    /// Starts a daemon on this host with the command line of `pvmd` (a hostfile, options) and returns its address. With `wait` it
    /// returns when the hosts of the hostfile are settled.
    #[pyfunction]
    #[pyo3(signature = (*args, wait = true))]
    fn start_daemon(py: Python<'_>, args: Vec<String>, wait: bool) -> PyResult<String> {
        py.detach(|| pvm3::start_daemon(&args, wait)).map_err(|error| raise(py, &error))
    }

    /// Text of a task's id, as PVM's tools show it: `t40001`.
    #[pyfunction]
    fn tid_text(number: i64) -> PyResult<String> {
        Ok(tid(number)?.to_string())
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        crate::errors::add_classes(module)
    }
}
