//! A task in Python: enrolment, sending, receiving.

use crate::errors::raise;
use crate::handle::{Handle, duration, numbers, tid, tids};
use crate::message::{Message, fill, into_object};
use crate::packer::Packer;
use crate::{buffers, pickled};
use pvm3::{Pack, Received, Routing, Source, Tag};
use pyo3::exceptions::{PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use std::os::fd::AsRawFd;

/// This process as a task of the virtual machine.
///
/// Making one enrols, `exit` or the end of a `with` block leaves. A task serves one thread at a time: a call while another thread is in one
/// is a `RuntimeError`. While a call waits, other threads run.
#[pyclass(module = "pvm", subclass, frozen)]
pub struct Task {
    pub handle: Handle,
}

impl Task {
    fn send_pack(&self, py: Python<'_>, to: i64, tag: i32, pack: &Pack) -> PyResult<()> {
        let to = tid(to)?;
        self.handle.call(py, |task| task.send(to, tag, pack))
    }

    fn receive(&self, py: Python<'_>, source: i64, tag: i32, timeout: Option<f64>) -> PyResult<Received> {
        let (source, tag) = (from(source)?, tagged(tag)?);
        let found =
            self.handle.wait(py, duration(timeout)?, |task, time| task.recv_timeout(source, tag, time))?;
        found.ok_or_else(|| PyTimeoutError::new_err("no such message has come in time"))
    }
}

#[pymethods]
impl Task {
    #[new]
    #[pyo3(signature = (name = None))]
    fn new(py: Python<'_>, name: Option<String>) -> PyResult<Self> {
        let task = py.detach(|| match name.as_deref() {
            None => pvm3::Task::enrol(),
            Some(name) => pvm3::Task::enrol_as(Some(name), false),
        });
        Ok(Self { handle: Handle::new(task.map_err(|error| raise(py, &error))?) })
    }

    /// This task's id.
    #[getter]
    fn tid(&self, py: Python<'_>) -> PyResult<i32> {
        self.handle.ask(py, |task| task.tid().raw())
    }

    /// The task that spawned this one; `None` if none did, or it does not want to be known.
    fn parent(&self, py: Python<'_>) -> PyResult<Option<i32>> {
        self.handle.ask(py, |task| task.parent().map(pvm3::Tid::raw))
    }

    /// The tasks spawned together with this one, itself included.
    fn siblings(&self, py: Python<'_>) -> PyResult<Vec<i32>> {
        Ok(numbers(&self.handle.call(py, pvm3::Task::siblings)?))
    }

    /// Leaves the virtual machine. A second call does nothing.
    fn exit(&self, py: Python<'_>) -> PyResult<()> {
        let Some(task) = self.handle.take(py)? else { return Ok(()) };
        py.detach(|| task.exit()).map_err(|error| raise(py, &error))
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        self.exit(py)
    }

    /// Sends an object, pickled. Receivers in Python get it by `recv`. It returns when the message is on its way; a task that has ended
    /// gets nothing.
    #[pyo3(signature = (to, obj, tag = 0))]
    fn send(&self, py: Python<'_>, to: i64, obj: &Bound<'_, PyAny>, tag: i32) -> PyResult<()> {
        let pack = pickled::packed(obj)?;
        self.send_pack(py, to, tag, &pack)
    }

    /// Sends what was packed, for receivers in any language.
    #[pyo3(signature = (to, packer, tag = 0))]
    fn send_packed(&self, py: Python<'_>, to: i64, packer: PyRef<'_, Packer>, tag: i32) -> PyResult<()> {
        self.send_pack(py, to, tag, packer.pack())
    }

    /// Sends the elements of a buffer: bytes, an array of numpy. Receivers in C unpack them by their type.
    #[pyo3(signature = (to, buffer, tag = 0))]
    fn send_buffer(&self, py: Python<'_>, to: i64, buffer: &Bound<'_, PyAny>, tag: i32) -> PyResult<()> {
        let mut pack = Pack::new();
        buffers::pack_any(&mut pack, buffer)?;
        self.send_pack(py, to, tag, &pack)
    }

    /// Sends an object, pickled, to several tasks: to each once, and not to this one.
    #[pyo3(signature = (to, obj, tag = 0))]
    fn multicast(&self, py: Python<'_>, to: Vec<i64>, obj: &Bound<'_, PyAny>, tag: i32) -> PyResult<()> {
        let pack = pickled::packed(obj)?;
        let to = tids(&to)?;
        self.handle.call(py, |task| task.multicast(&to, tag, &pack))
    }

    /// Sends what was packed to several tasks: to each once, and not to this one.
    #[pyo3(signature = (to, packer, tag = 0))]
    fn multicast_packed(
        &self,
        py: Python<'_>,
        to: Vec<i64>,
        packer: PyRef<'_, Packer>,
        tag: i32,
    ) -> PyResult<()> {
        let (to, pack) = (tids(&to)?, packer.pack());
        self.handle.call(py, |task| task.multicast(&to, tag, pack))
    }

    /// Waits for a message and returns its object. `TimeoutError` if none comes within `timeout` seconds; `PvmBadMsg`, with the `message`,
    /// if it was not sent by `send`. Only tasks of the same user can send messages, which is why unpickling them is safe.
    #[pyo3(signature = (source = -1, tag = -1, timeout = None))]
    fn recv<'py>(
        &self,
        py: Python<'py>,
        source: i64,
        tag: i32,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        into_object(py, self.receive(py, source, tag, timeout)?)
    }

    /// Waits for a message and returns it, to be unpacked.
    #[pyo3(signature = (source = -1, tag = -1, timeout = None))]
    fn recv_message(&self, py: Python<'_>, source: i64, tag: i32, timeout: Option<f64>) -> PyResult<Message> {
        Ok(Message::new(self.receive(py, source, tag, timeout)?))
    }

    /// Waits for a message of elements of the buffer's type, fills the buffer with them, and returns how many there were.
    /// `PvmOverflow`, with the `message`, if the buffer has no room for all.
    #[pyo3(signature = (buffer, source = -1, tag = -1, timeout = None))]
    fn recv_into(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        source: i64,
        tag: i32,
        timeout: Option<f64>,
    ) -> PyResult<usize> {
        // An object that can never be filled must not take a message.
        buffers::check_writable(buffer)?;
        fill(py, self.receive(py, source, tag, timeout)?, buffer)
    }

    /// A message, if one is there, which stays to be received.
    #[pyo3(signature = (source = -1, tag = -1))]
    fn probe(&self, py: Python<'_>, source: i64, tag: i32) -> PyResult<Option<Message>> {
        let (source, tag) = (from(source)?, tagged(tag)?);
        Ok(self.handle.call(py, |task| task.probe(source, tag))?.map(Message::new))
    }

    /// Descriptors of which one is readable when a call that receives may find something, for `select`. They change as direct routes come
    /// and go.
    fn filenos(&self, py: Python<'_>) -> PyResult<Vec<i32>> {
        self.handle.ask(py, |task| task.fds().iter().map(AsRawFd::as_raw_fd).collect())
    }

    /// The current context: messages are sent and received in it.
    #[getter]
    fn context(&self, py: Python<'_>) -> PyResult<i32> {
        self.handle.ask(py, |task| task.context())
    }

    #[setter]
    fn set_context(&self, py: Python<'_>, context: i32) -> PyResult<()> {
        self.handle.ask(py, |task| task.set_context(context)).map(drop)
    }

    /// Asks for a context that is not in use.
    fn new_context(&self, py: Python<'_>) -> PyResult<i32> {
        self.handle.call(py, pvm3::Task::new_context)
    }

    /// Gives a context back.
    fn free_context(&self, py: Python<'_>, context: i32) -> PyResult<()> {
        self.handle.call(py, |task| task.free_context(context))
    }

    /// Says how messages travel from now on: `"daemon"`, `"allow-direct"` or `"direct"`.
    fn set_routing(&self, py: Python<'_>, routing: &str) -> PyResult<()> {
        let routing = match routing {
            "daemon" => Routing::ByDaemon,
            "allow-direct" => Routing::AllowDirect,
            "direct" => Routing::Direct,
            other => {
                let text =
                    format!("{other:?} is no routing: it is \"daemon\", \"allow-direct\" or \"direct\"");
                return Err(PyValueError::new_err(text));
            }
        };
        self.handle.ask(py, |task| task.set_routing(routing)).map(drop)
    }

    /// Names this task's team: tasks that want to run at the same time. Tasks that it spawns from now on are of that team, too.
    fn join_team(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.handle.call(py, |task| task.join_team(name))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        match self.handle.ask(py, |task| task.tid()) {
            Ok(tid) => format!("<pvm.Task {tid}>"),
            Err(error) => format!("<pvm.Task: {}>", error.value(py)),
        }
    }
}

/// The source that a number names: -1 is any.
fn from(source: i64) -> PyResult<Source> {
    if source == -1 { Ok(Source::Any) } else { Ok(Source::Tid(tid(source)?)) }
}

/// The tag that a number names: -1 is any.
fn tagged(tag: i32) -> PyResult<Tag> {
    match tag {
        -1 => Ok(Tag::Any),
        0.. => Ok(Tag::Is(tag)),
        _ => Err(PyValueError::new_err(format!("{tag} is no tag: tags are not negative, and -1 is any"))),
    }
}
