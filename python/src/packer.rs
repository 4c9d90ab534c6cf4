//! Packing values for programs in any language.

use crate::buffers::{pack_any, pack_as};
use crate::errors::raise;
use crate::pickled;
use pvm3::{Encoding, Pack};
use pyo3::prelude::*;

/// The body of a message under construction.
///
/// The receiver must take values out as they were put in: same types, same counts, same order. Each method packs one value, a
/// sequence of them, or a buffer (a numpy array), and returns the packer:
/// `Packer().int(3).double([1.0, 2.0, 3.0]).str("done")`. With `raw=True` the body is in this host's own format, which only hosts of
/// the same kind can read; else it is in XDR, which all can.
#[pyclass(module = "pvm")]
pub struct Packer {
    pack: Pack,
}

impl Packer {
    pub fn pack(&self) -> &Pack {
        &self.pack
    }
}

macro_rules! packs {
    ($($name:ident $type:ty, $doc:literal;)*) => {
        #[pymethods]
        impl Packer {
            $(#[doc = $doc]
            fn $name<'py>(mut slf: PyRefMut<'py, Self>, values: &Bound<'py, PyAny>) -> PyResult<PyRefMut<'py, Self>> {
                pack_as::<$type>(&mut slf.pack, values)?;
                Ok(slf)
            })*
        }
    };
}

packs! {
    byte u8, "Appends bytes (`pvm_pkbyte`).";
    short i16, "Appends integers of 2 bytes (`pvm_pkshort`).";
    ushort u16, "Appends unsigned integers of 2 bytes (`pvm_pkushort`).";
    int i32, "Appends integers of 4 bytes (`pvm_pkint`).";
    uint u32, "Appends unsigned integers of 4 bytes (`pvm_pkuint`).";
    long i64, "Appends integers of 8 bytes (`pvm_pklong`). A receiver that links the original library gets only the low 4 in XDR.";
    ulong u64, "Appends unsigned integers of 8 bytes (`pvm_pkulong`), with the same limit as `long`.";
    float f32, "Appends floats of 4 bytes (`pvm_pkfloat`); two of them are a `pvm_pkcplx`.";
    double f64, "Appends floats of 8 bytes (`pvm_pkdouble`); two of them are a `pvm_pkdcplx`.";
}

#[pymethods]
impl Packer {
    #[new]
    #[pyo3(signature = (*, raw = false))]
    fn new(raw: bool) -> Self {
        Self { pack: if raw { Pack::raw() } else { Pack::new() } }
    }

    /// Appends all elements of a buffer by their own type: an array of `float64` as `double` does.
    fn buffer<'py>(
        mut slf: PyRefMut<'py, Self>,
        values: &Bound<'py, PyAny>,
    ) -> PyResult<PyRefMut<'py, Self>> {
        pack_any(&mut slf.pack, values)?;
        Ok(slf)
    }

    /// Appends a string (`pvm_pkstr`); what follows a NUL in it does not travel.
    fn str<'py>(mut slf: PyRefMut<'py, Self>, text: &str) -> PyResult<PyRefMut<'py, Self>> {
        let py = slf.py();
        slf.pack.put_str(text).map_err(|error| raise(py, &error))?;
        Ok(slf)
    }

    /// Appends any object that pickles, for receivers in Python.
    fn object<'py>(mut slf: PyRefMut<'py, Self>, value: &Bound<'py, PyAny>) -> PyResult<PyRefMut<'py, Self>> {
        pickled::pack(&mut slf.pack, value)?;
        Ok(slf)
    }

    /// Empties the body, keeping its memory.
    fn clear(mut slf: PyRefMut<'_, Self>) -> PyRefMut<'_, Self> {
        slf.pack.clear();
        slf
    }

    /// Whether the body is in this host's own format.
    #[getter]
    fn raw(&self) -> bool {
        self.pack.encoding() == Encoding::Raw
    }

    fn __len__(&self) -> usize {
        self.pack.len()
    }

    fn __repr__(&self) -> String {
        format!("<pvm.Packer of {} bytes>", self.pack.len())
    }
}
