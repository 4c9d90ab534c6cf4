//! Received messages.

use crate::buffers::{Number, open_writable, unpack_into, unpack_view, with_type};
use crate::errors::{of, raise, with_message};
use crate::pickled;
use crate::queue::BatchEvent;
use pvm3::{Encoding, PvmError, Received};
use pyo3::IntoPyObjectExt;
use pyo3::buffer::{ElementType, PyUntypedBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyMemoryView};

/// A received message, from which values are taken in the order in which they were packed.
///
/// A method without a count takes one value. With a count it takes that number of values, as a `memoryview` of new memory that
/// `numpy.asarray` does not copy.
#[pyclass(module = "pvm")]
pub struct Message {
    received: Received,
}

impl Message {
    pub fn new(received: Received) -> Self {
        Self { received }
    }

    fn take<'py, T>(&mut self, py: Python<'py>, count: Option<usize>) -> PyResult<Bound<'py, PyAny>>
    where
        T: Number + IntoPyObject<'py>,
    {
        let Some(count) = count else {
            let one = self.received.get_one::<T>().map_err(|error| raise(py, &error))?;
            return one.into_bound_py_any(py);
        };
        unpack_view::<T>(py, &mut self.received, count)
    }
}

macro_rules! takes {
    ($($name:ident $type:ty, $doc:literal;)*) => {
        #[pymethods]
        impl Message {
            $(#[doc = $doc]
            #[pyo3(signature = (count = None))]
            fn $name<'py>(&mut self, py: Python<'py>, count: Option<usize>) -> PyResult<Bound<'py, PyAny>> {
                self.take::<$type>(py, count)
            })*
        }
    };
}

takes! {
    byte u8, "The next byte or bytes (`pvm_upkbyte`).";
    short i16, "The next integers of 2 bytes (`pvm_upkshort`).";
    ushort u16, "The next unsigned integers of 2 bytes (`pvm_upkushort`).";
    int i32, "The next integers of 4 bytes (`pvm_upkint`).";
    uint u32, "The next unsigned integers of 4 bytes (`pvm_upkuint`).";
    long i64, "The next integers of 8 bytes (`pvm_upklong`).";
    ulong u64, "The next unsigned integers of 8 bytes (`pvm_upkulong`).";
    float f32, "The next floats of 4 bytes (`pvm_upkfloat`).";
    double f64, "The next floats of 8 bytes (`pvm_upkdouble`).";
}

#[pymethods]
impl Message {
    /// The sender; the daemon of this host for notices.
    #[getter]
    fn source(&self) -> i32 {
        self.received.source().raw()
    }

    /// The tag.
    #[getter]
    fn tag(&self) -> i32 {
        self.received.tag()
    }

    /// The context in which it was sent.
    #[getter]
    fn context(&self) -> i32 {
        self.received.context()
    }

    /// The next value, a string (`pvm_upkstr`).
    fn str(&mut self, py: Python<'_>) -> PyResult<String> {
        self.received.get_str().map_err(|error| raise(py, &error))
    }

    /// The next value, the id of a task or a host, as in notices.
    fn tid(&mut self, py: Python<'_>) -> PyResult<i32> {
        Ok(self.received.get_tid().map_err(|error| raise(py, &error))?.raw())
    }

    /// The next value, an object that was pickled (`Task.send`, `Packer.object`).
    fn object<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        pickled::unpack(py, &mut self.received)
    }

    /// Fills a buffer (a numpy array) with the next elements, which must be of its type, and returns it. All of it is filled.
    fn into<'py>(&mut self, buffer: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (opened, seen) = open_writable(buffer)?;
        with_type!(opened, T => {
            unpack_into::<T>(&mut self.received, &opened, &seen, opened.item_count())
        })?;
        Ok(buffer.clone())
    }

    /// The notice of a queued batch that this message is.
    fn batch_event(&mut self, py: Python<'_>) -> PyResult<BatchEvent> {
        let (batch, event) = self.received.get_batch_event().map_err(|error| raise(py, &error))?;
        Ok(BatchEvent::new(batch, event))
    }

    /// The encoded body, copied.
    fn body<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyMemoryView>> {
        let body = self.received.body().map_err(|error| raise(py, &error))?;
        PyMemoryView::from(PyByteArray::new(py, body).as_any())
    }

    /// Goes back to the first value.
    fn rewind(&mut self) {
        self.received.rewind();
    }

    fn __len__(&self) -> usize {
        self.received.len()
    }

    fn __repr__(&self) -> String {
        let (source, tag) = (self.received.source(), self.received.tag());
        format!("<pvm.Message from {source} with tag {tag}, {} bytes>", self.received.len())
    }
}

/// The object of a message that has nothing else. If it has none, the exception has the message.
pub fn into_object(py: Python<'_>, mut received: Received) -> PyResult<Bound<'_, PyAny>> {
    match pickled::unpack(py, &mut received) {
        Ok(object) => Ok(object),
        Err(error) => {
            received.rewind();
            Err(with_message(py, error, Message::new(received)))
        }
    }
}

/// Fills a buffer with a message's elements, of which there may be fewer than it has room for, and returns their number. If there are
/// more, the exception has the message.
pub fn fill(py: Python<'_>, mut received: Received, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
    fill_any(py, &mut received, buffer).map_err(|error| {
        received.rewind();
        with_message(py, error, Message::new(received))
    })
}

fn fill_any(py: Python<'_>, received: &mut Received, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
    let (opened, seen) = open_writable(buffer)?;
    with_type!(opened, T => fill_with::<T>(py, received, &opened, &seen))
}

fn fill_with<T: Number>(
    py: Python<'_>,
    received: &mut Received,
    buffer: &PyUntypedBuffer,
    seen: &Bound<'_, PyAny>,
) -> PyResult<usize> {
    let width = if received.encoding() == Some(Encoding::Xdr) { T::XDR } else { T::NATIVE };
    let (length, room) = (received.len(), buffer.item_count());
    // XDR pads bytes, of which a message may therefore seem to have up to three more.
    let count = length / width;
    if count > room && (width > 1 || count > room.next_multiple_of(4)) {
        let text = format!("the message has {count} elements, and the buffer has room for {room}");
        return Err(of(py, PvmError::Overflow, text));
    }
    let count = count.min(room);
    if count < room && !buffer.is_c_contiguous() {
        return Err(PyValueError::new_err("a message shorter than the buffer needs one that is contiguous"));
    }
    unpack_into::<T>(received, buffer, seen, count)?;
    Ok(count)
}
