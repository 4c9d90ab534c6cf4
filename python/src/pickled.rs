//! Objects in messages, pickled. Their buffers (arrays of numpy) follow the pickle separately, which saves a copy.
//!
//! A section is a multiple of four bytes long, as XDR would pad it: a head of 16 bytes (the mark, the number of buffers), the lengths as
//! eight bytes each, little-endian, of the pickle first; then the pickle and the buffers.

use crate::errors::{of, raise};
use pvm3::{Pack, PvmError, Received};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList, PyMemoryView, PySlice};

/// Begins every pickled object, so that other messages are not taken for one.
const MARK: &[u8; 8] = b"PVMpkl5\0";
const WORD: usize = 8;

static DUMPS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Appends an object.
pub fn pack(pack: &mut Pack, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = object.py();
    let buffers = PyList::empty(py);
    let options = PyDict::new(py);
    options.set_item(intern!(py, "protocol"), 5)?;
    options.set_item(intern!(py, "buffer_callback"), buffers.getattr(intern!(py, "append"))?)?;
    let dumps = DUMPS.import(py, "pickle", "dumps")?;
    let pickle = dumps.call((object,), Some(&options))?;
    let pickle = pickle.cast::<PyBytes>()?.as_bytes();
    let views: Vec<Bound<'_, PyAny>> =
        buffers.iter().map(|buffer| buffer.call_method0(intern!(py, "raw"))).collect::<PyResult<_>>()?;

    let mut head = Vec::with_capacity((3 + views.len()) * WORD + pickle.len() + 4);
    head.extend_from_slice(MARK);
    head.extend_from_slice(&(views.len() as u64).to_le_bytes());
    head.extend_from_slice(&(pickle.len() as u64).to_le_bytes());
    for view in &views {
        head.extend_from_slice(&(PyUntypedBuffer::get(view)?.len_bytes() as u64).to_le_bytes());
    }
    head.extend_from_slice(pickle);
    head.resize(head.len().next_multiple_of(4), 0);
    let put = |pack: &mut Pack, bytes: &[u8]| pack.put(bytes).map(drop).map_err(|error| raise(py, &error));
    put(pack, &head)?;
    for view in &views {
        crate::buffers::pack_any(pack, view)?;
        let length = PyUntypedBuffer::get(view)?.len_bytes();
        put(pack, [0; 3].get(..length.next_multiple_of(4) - length).unwrap_or_default())?;
    }
    Ok(())
}

/// An object, to be sent alone.
pub fn packed(object: &Bound<'_, PyAny>) -> PyResult<Pack> {
    let mut packed = Pack::new();
    pack(&mut packed, object)?;
    Ok(packed)
}

/// Takes the next object out of a message.
pub fn unpack<'py>(py: Python<'py>, received: &mut Received) -> PyResult<Bound<'py, PyAny>> {
    let mut head = [0; 2 * WORD];
    let read = received.get_into(&mut head);
    if read.is_err() || !head.starts_with(MARK) {
        return Err(of(
            py,
            PvmError::BadMsg,
            "the message is not a pickled object: receive it by recv_message",
        ));
    }
    let room = received.len();
    let buffers = number(head.get(WORD..).unwrap_or_default());
    // Each has its length in the message, so there are no more than that has room for.
    let lengths_length = buffers.checked_add(1).and_then(|count| count.checked_mul(WORD));
    let lengths_length = lengths_length.filter(|&length| length <= room).ok_or_else(|| broken(py))?;
    let lengths: Vec<u8> = received.get(lengths_length).map_err(|error| raise(py, &error))?;
    let mut lengths = lengths.chunks_exact(WORD).map(number);

    let length = lengths.next().filter(|&length| length <= room).ok_or_else(|| broken(py))?;
    // What pads it stands behind its end, which it knows.
    let pickle = PyBytes::new_with(py, length.next_multiple_of(4), |bytes| fill(py, received, bytes))?;
    let views = PyList::empty(py);
    for length in lengths {
        if length > room {
            return Err(broken(py));
        }
        let padded =
            PyByteArray::new_with(py, length.next_multiple_of(4), |bytes| fill(py, received, bytes))?;
        let view = PyMemoryView::from(padded.as_any())?;
        views.append(view.get_item(PySlice::new(py, 0, length as isize, 1))?)?;
    }
    let loads = LOADS.import(py, "pickle", "loads")?;
    if views.is_empty() {
        return loads.call1((pickle,));
    }
    let options = PyDict::new(py);
    options.set_item(intern!(py, "buffers"), views)?;
    loads.call((pickle,), Some(&options))
}

/// Takes bytes, of which there are as many as XDR would have.
fn fill(py: Python<'_>, received: &mut Received, bytes: &mut [u8]) -> PyResult<()> {
    received.get_into(bytes).map_err(|error| raise(py, &error))
}

fn number(bytes: &[u8]) -> usize {
    let bytes = bytes.try_into().unwrap_or([0xFF; WORD]);
    usize::try_from(u64::from_le_bytes(bytes)).unwrap_or(usize::MAX)
}

fn broken(py: Python<'_>) -> PyErr {
    of(py, PvmError::BadMsg, "the pickled object claims to be longer than its message")
}
