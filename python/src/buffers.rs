//! Memory of Python's objects (the buffer protocol) as elements of messages.
//!
//! Elements are copied once, between the object and the message: through a piece that stays in the processor's cache, as the object's
//! memory may change under a reference, which Rust must not have then.

use crate::errors::of;
use bytemuck::Pod;
use pvm3::{Element, Pack, PvmError, Received};
use pyo3::buffer::{ElementType, PyBuffer, PyUntypedBuffer};
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyMemoryView, PySlice};
use std::cell::RefCell;

/// Bytes of a piece.
const PIECE: usize = 32 << 10;

/// First letters of formats in another byte order.
const FOREIGN: &[u8] = if cfg!(target_endian = "little") { b">!" } else { b"<" };

thread_local! {
    // Of the widest elements, so that all others are aligned in it.
    static SCRATCH: RefCell<Vec<u64>> = RefCell::new(vec![0; PIECE / size_of::<u64>()]);
}

/// An element of messages that buffers of Python can have.
pub trait Number:
    Send + Sync + Element + Pod + pyo3::buffer::Element + for<'a, 'py> FromPyObject<'a, 'py>
{
    /// Its letter in `struct` and `memoryview.cast`.
    const FORMAT: &str;
}

macro_rules! numbers {
    ($($type:ty = $format:literal)*) => { $(impl Number for $type { const FORMAT: &str = $format; })* };
}
numbers! { u8 = "B" i16 = "h" u16 = "H" i32 = "i" u32 = "I" i64 = "l" u64 = "L" f32 = "f" f64 = "d" }

/// Does something with the type of a buffer's elements.
macro_rules! with_type {
    ($buffer:expr, $T:ident => $act:expr) => {{
        use ElementType::{Float, SignedInteger, UnsignedInteger};
        macro_rules! act {
            ($type:ty) => {{
                type $T = $type;
                $act
            }};
        }
        match ElementType::from_format($buffer.format()) {
            UnsignedInteger { bytes: 1 } => act!(u8),
            SignedInteger { bytes: 2 } => act!(i16),
            UnsignedInteger { bytes: 2 } => act!(u16),
            SignedInteger { bytes: 4 } => act!(i32),
            UnsignedInteger { bytes: 4 } => act!(u32),
            SignedInteger { bytes: 8 } => act!(i64),
            UnsignedInteger { bytes: 8 } => act!(u64),
            Float { bytes: 4 } => act!(f32),
            Float { bytes: 8 } => act!(f64),
            _ => Err($crate::buffers::no_element(&$buffer)),
        }
    }};
}
pub(crate) use with_type;

pub fn no_element(buffer: &PyUntypedBuffer) -> PyErr {
    let format = buffer.format().to_string_lossy();
    PyTypeError::new_err(format!(
        "elements of the format {format:?} do not travel: messages have integers of 1 (unsigned), 2, 4 and 8 bytes and floats of 4 and 8, \
         in this host's byte order"
    ))
}

/// An object's buffer. One of signed bytes or of complex numbers is as one of bytes, or of their parts.
pub fn open<'py>(object: &Bound<'py, PyAny>) -> PyResult<(PyUntypedBuffer, Bound<'py, PyAny>)> {
    let buffer = PyUntypedBuffer::get(object)?;
    let seen_as = match buffer.format().to_bytes() {
        // PyO3 takes those of the other byte order for this host's.
        [order, ..] if FOREIGN.contains(order) => return Err(no_element(&buffer)),
        b"b" | b"c" | b"@b" => return bytes_of(object),
        b"Zf" => "f4",
        b"Zd" => "f8",
        _ => return Ok((buffer, object.clone())),
    };
    let parts = object.call_method1("view", (seen_as,))?;
    Ok((PyUntypedBuffer::get(&parts)?, parts))
}

fn bytes_of<'py>(object: &Bound<'py, PyAny>) -> PyResult<(PyUntypedBuffer, Bound<'py, PyAny>)> {
    let bytes = PyMemoryView::from(object)?.call_method1("cast", ("B",))?;
    Ok((PyUntypedBuffer::get(&bytes)?, bytes))
}

/// Packs all elements of an object, of any type.
pub fn pack_any(pack: &mut Pack, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let (buffer, object) = open(object)?;
    with_type!(buffer, T => pack_elements::<T>(pack, &buffer, &object))
}

/// Packs what Python gives for elements of a type: a buffer of that type, a number, or numbers.
pub fn pack_as<T: Number>(pack: &mut Pack, object: &Bound<'_, PyAny>) -> PyResult<()> {
    if let Ok(one) = object.extract::<T>() {
        return put(object.py(), pack, &[one]);
    }
    if let Ok((buffer, object)) = open(object)
        && buffer.as_typed::<T>().is_ok()
    {
        return pack_elements::<T>(pack, &buffer, &object);
    }
    let values = object.try_iter()?.map(|item| extract::<T>(&item?)).collect::<PyResult<Vec<T>>>()?;
    put(object.py(), pack, &values)
}

fn extract<T: Number>(item: &Bound<'_, PyAny>) -> PyResult<T> {
    item.extract::<T>().map_err(Into::into)
}

fn put<T: Element>(py: Python<'_>, pack: &mut Pack, values: &[T]) -> PyResult<()> {
    pack.put(values).map(drop).map_err(|error| crate::errors::raise(py, &error))
}

fn pack_elements<T: Number>(
    pack: &mut Pack,
    buffer: &PyUntypedBuffer,
    object: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let py = object.py();
    let typed = buffer.as_typed::<T>()?;
    let count = typed.item_count();
    if count <= PIECE / size_of::<T>() {
        return with_scratch(|scratch: &mut [T]| {
            let values = scratch.get_mut(..count).unwrap_or_default();
            typed.copy_to_slice(py, values)?;
            put(py, pack, values)
        });
    }
    if !typed.is_c_contiguous() {
        return put(py, pack, &typed.to_vec(py)?);
    }
    pack.reserve(count * size_of::<T>()).map_err(|error| crate::errors::raise(py, &error))?;
    pieces(object, |piece| {
        with_scratch(|scratch: &mut [u8]| {
            let bytes = scratch.get_mut(..piece.item_count()).unwrap_or_default();
            piece.copy_to_slice(py, bytes)?;
            put::<T>(py, pack, bytemuck::try_cast_slice(bytes).map_err(|_| no_element(buffer))?)
        })
    })
}

/// Fills an object with elements of a message: as many as it has room for.
pub fn unpack_into<T: Number>(
    message: &mut Received,
    buffer: &PyUntypedBuffer,
    object: &Bound<'_, PyAny>,
    count: usize,
) -> PyResult<()> {
    let py = object.py();
    let typed = buffer.as_typed::<T>()?;
    if count == typed.item_count() && !typed.is_c_contiguous() {
        let values = message.get::<T>(count).map_err(|error| crate::errors::raise(py, &error))?;
        return typed.copy_from_slice(py, &values);
    }
    let mut left = count * size_of::<T>();
    pieces(object, |piece| {
        let length = piece.item_count().min(left);
        left -= length;
        with_scratch(|scratch: &mut [u8]| {
            let bytes = scratch.get_mut(..piece.item_count()).unwrap_or_default();
            if length < bytes.len() {
                // Memory behind the message's elements does not change.
                piece.copy_to_slice(py, bytes)?;
            }
            let filled = bytes.get_mut(..length).unwrap_or_default();
            let values: &mut [T] = bytemuck::try_cast_slice_mut(filled).map_err(|_| no_element(buffer))?;
            message.get_into(values).map_err(|error| crate::errors::raise(py, &error))?;
            if length > 0 { piece.copy_from_slice(py, bytes) } else { Ok(()) }
        })
    })
}

/// An object into which a message can be received.
pub fn open_writable<'py>(object: &Bound<'py, PyAny>) -> PyResult<(PyUntypedBuffer, Bound<'py, PyAny>)> {
    let (buffer, object) = open(object)?;
    if buffer.readonly() {
        return Err(PyBufferError::new_err("a message cannot be received into memory that is read-only"));
    }
    Ok((buffer, object))
}

/// Fails if no message can be received into an object.
pub fn check_writable(object: &Bound<'_, PyAny>) -> PyResult<()> {
    let (buffer, _) = open_writable(object)?;
    with_type!(buffer, T => buffer.as_typed::<T>().map(drop))
}

/// The next elements of a message as new memory of Python's: a view of them.
pub fn unpack_view<'py, T: Number>(
    py: Python<'py>,
    message: &mut Received,
    count: usize,
) -> PyResult<Bound<'py, PyAny>> {
    // No message has more elements than this, and memory is there for no more.
    if count > message.len() / T::XDR.min(T::NATIVE) {
        let text = format!("the message of {} bytes does not have {count} values left", message.len());
        return Err(of(py, PvmError::NoData, text));
    }
    let memory = PyByteArray::new_with(py, count * size_of::<T>(), |bytes| {
        let got = match bytemuck::try_cast_slice_mut::<u8, T>(bytes) {
            Ok(values) => message.get_into(values),
            Err(_) => {
                message.get::<T>(count).map(|values| bytes.copy_from_slice(bytemuck::cast_slice(&values)))
            }
        };
        got.map_err(|error| crate::errors::raise(py, &error))
    })?;
    let view = PyMemoryView::from(memory.as_any())?;
    if T::FORMAT == "B" { Ok(view.into_any()) } else { view.call_method1("cast", (T::FORMAT,)) }
}

/// An object's bytes, piece by piece.
fn pieces(object: &Bound<'_, PyAny>, mut act: impl FnMut(&PyBuffer<u8>) -> PyResult<()>) -> PyResult<()> {
    let py = object.py();
    let length = PyUntypedBuffer::get(object)?.len_bytes();
    if length == 0 {
        return Ok(());
    }
    let bytes = PyMemoryView::from(object)?.call_method1("cast", ("B",))?;
    for start in (0..length).step_by(PIECE) {
        let end = length.min(start + PIECE);
        let piece = bytes.get_item(PySlice::new(py, start as isize, end as isize, 1))?;
        act(&PyBuffer::<u8>::get(&piece)?)?;
    }
    Ok(())
}

fn with_scratch<T: Pod, R>(act: impl FnOnce(&mut [T]) -> R) -> R {
    SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
        Ok(mut scratch) => act(bytemuck::cast_slice_mut(&mut scratch)),
        // A signal's handler that packs, while its thread does.
        Err(_) => act(bytemuck::cast_slice_mut(&mut vec![0_u64; PIECE / size_of::<u64>()])),
    })
}
