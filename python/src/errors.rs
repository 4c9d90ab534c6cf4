//! PVM's errors as exceptions: `PvmError`, and a class of it for each code.

use crate::message::Message;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};
use std::ffi::CString;

/// The class of each of [`pvm3::PvmError::ALL`], in that order.
static CLASSES: PyOnceLock<Vec<Py<PyType>>> = PyOnceLock::new();

/// Makes the classes and adds them to the module, by PVM's names.
pub fn add_classes(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let exception = py.get_type::<PyException>();
    let base = new_class(py, "PvmError", "A call of PVM has failed: `code` is PVM's number.", 0, &exception)?;
    module.add("PvmError", base.clone_ref(py))?;
    let base = base.bind(py);
    let mut classes = Vec::with_capacity(pvm3::PvmError::ALL.len());
    for error in pvm3::PvmError::ALL {
        let class = new_class(py, error.name(), error.text(), error.code(), base)?;
        module.add(error.name(), class.clone_ref(py))?;
        classes.push(class);
    }
    // A second interpreter in this process keeps the first one's.
    let _ = CLASSES.set(py, classes);
    Ok(())
}

fn new_class(
    py: Python<'_>,
    name: &str,
    text: &str,
    code: i32,
    base: &Bound<'_, PyType>,
) -> PyResult<Py<PyType>> {
    let attributes = PyDict::new(py);
    attributes.set_item("code", code)?;
    let (name, text) = (CString::new(format!("pvm.{name}"))?, CString::new(text)?);
    // PyO3 lets go of the dictionary before Python reads it: this one holds it until then.
    let held = attributes.clone().into_any().unbind();
    let class = PyErr::new_type(py, &name, Some(&text), Some(base), Some(held));
    drop(attributes);
    class
}

/// The exception for an error of the library.
pub fn raise(py: Python<'_>, error: &pvm3::Error) -> PyErr {
    of(py, error.code(), error.to_string())
}

/// The exception for one of PVM's codes, with a text that describes the error.
pub fn of(py: Python<'_>, code: pvm3::PvmError, text: impl Into<String>) -> PyErr {
    let place = pvm3::PvmError::ALL.iter().position(|&error| error == code);
    let class = CLASSES.get(py).zip(place).and_then(|(classes, place)| classes.get(place));
    match class {
        Some(class) => PyErr::from_type(class.bind(py).clone(), (text.into(),)),
        None => PyException::new_err(text.into()),
    }
}

/// The same exception with the message that a call has received and cannot use, so that it is not lost.
pub fn with_message(py: Python<'_>, error: PyErr, message: Message) -> PyErr {
    match error.value(py).setattr("message", message) {
        Ok(()) => error,
        Err(other) => other,
    }
}
