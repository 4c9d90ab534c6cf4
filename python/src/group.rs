//! Groups.
#![expect(
    clippy::redundant_closure_for_method_calls,
    reason = "a method of a group with one lifetime is not one of all groups"
)]

use crate::buffers::{Number, open, open_writable, with_type};
use crate::errors::of;
use crate::handle::{Handle, tid};
use crate::pickled;
use crate::task::Task;
use pvm3::PvmError;
use pyo3::buffer::{ElementType, PyUntypedBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyMemoryView};
use std::ops::{Add, Mul};

/// A group of tasks, by its name: its members are numbered, meet at barriers and compute together.
#[pyclass(module = "pvm", frozen)]
pub struct Group {
    task: Py<Task>,
    name: String,
}

impl Group {
    fn handle(&self) -> &Handle {
        &self.task.get().handle
    }

    fn call<R: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut pvm3::Group<'_>) -> pvm3::Result<R> + Send,
    ) -> PyResult<R> {
        self.handle().call(py, |task| act(&mut task.group(&self.name)))
    }
}

/// How the arrays of members are combined.
#[derive(Clone, Copy)]
enum Combine {
    Sum,
    Product,
    Max,
    Min,
}

impl Combine {
    fn of(name: &str) -> PyResult<Self> {
        match name {
            "sum" => Ok(Self::Sum),
            "product" => Ok(Self::Product),
            "max" => Ok(Self::Max),
            "min" => Ok(Self::Min),
            other => {
                let text =
                    format!("{other:?} combines nothing: it is \"sum\", \"product\", \"max\" or \"min\"");
                Err(PyValueError::new_err(text))
            }
        }
    }
}

/// Sums as C has them: what does not fit wraps.
trait Arithmetic: Number + PartialOrd {
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

macro_rules! wrapping {
    ($($type:ty)*) => { $(impl Arithmetic for $type {
        fn plus(self, other: Self) -> Self { self.wrapping_add(other) }
        fn times(self, other: Self) -> Self { self.wrapping_mul(other) }
    })* };
}
macro_rules! floating {
    ($($type:ty)*) => { $(impl Arithmetic for $type {
        fn plus(self, other: Self) -> Self { self.add(other) }
        fn times(self, other: Self) -> Self { self.mul(other) }
    })* };
}
wrapping! { u8 i16 u16 i32 u32 i64 u64 }
floating! { f32 f64 }

fn reduce<T: Arithmetic>(
    py: Python<'_>,
    group: &Group,
    (tag, root, how): (i32, usize, Combine),
    buffer: &PyUntypedBuffer,
) -> PyResult<()> {
    let typed = buffer.as_typed::<T>()?;
    let mut values = typed.to_vec(py)?;
    group.call(py, |group| match how {
        Combine::Sum => group.reduce(tag, root, &mut values, T::plus),
        Combine::Product => group.reduce(tag, root, &mut values, T::times),
        Combine::Max => group.max(tag, root, &mut values),
        Combine::Min => group.min(tag, root, &mut values),
    })?;
    typed.copy_from_slice(py, &values)
}

fn gather<'py, T: Number>(
    py: Python<'py>,
    group: &Group,
    (tag, root): (i32, usize),
    buffer: &PyUntypedBuffer,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let values = buffer.as_typed::<T>()?.to_vec(py)?;
    let all = group.call(py, |group| group.gather(tag, root, &values))?;
    all.map(|all| view(py, &all)).transpose()
}

fn scatter<T: Number>(
    py: Python<'_>,
    group: &Group,
    (tag, root): (i32, usize),
    all: Option<&PyUntypedBuffer>,
    own: &PyUntypedBuffer,
) -> PyResult<()> {
    let typed = own.as_typed::<T>()?;
    let all = all.map(|all| all.as_typed::<T>()?.to_vec(py)).transpose()?;
    let count = typed.item_count();
    let values = group.call(py, |group| group.scatter(tag, root, all.as_deref(), count))?;
    typed.copy_from_slice(py, &values)
}

fn view<'py, T: Number>(py: Python<'py>, values: &[T]) -> PyResult<Bound<'py, PyAny>> {
    let memory = PyByteArray::new(py, bytemuck::cast_slice(values));
    PyMemoryView::from(memory.as_any())?.call_method1("cast", (T::FORMAT,))
}

#[pymethods]
impl Task {
    /// The group with this name, whether or not this task is in it.
    fn group(slf: Py<Self>, name: String) -> Group {
        Group { task: slf, name }
    }
}

#[pymethods]
impl Group {
    /// The name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Joins, making the group if there is none. Returns this task's instance: the lowest number that is free.
    fn join(&self, py: Python<'_>) -> PyResult<usize> {
        self.call(py, |group| group.join())
    }

    /// Leaves. The last member to leave takes the group along.
    fn leave(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, |group| group.leave())
    }

    /// Number of members.
    fn size(&self, py: Python<'_>) -> PyResult<usize> {
        self.call(py, |group| group.size())
    }

    /// The member with this instance.
    fn tid(&self, py: Python<'_>, instance: usize) -> PyResult<i32> {
        Ok(self.call(py, |group| group.tid(instance))?.raw())
    }

    /// The instance of a member.
    fn instance_of(&self, py: Python<'_>, task: i64) -> PyResult<usize> {
        let task = tid(task)?;
        self.call(py, |group| group.instance_of(task))
    }

    /// The members by instance; numbers that no task has are left out.
    fn members(&self, py: Python<'_>) -> PyResult<Vec<i32>> {
        Ok(crate::handle::numbers(&self.call(py, |group| group.members())?))
    }

    /// Waits until `count` members have called this, or all. `PvmNoInst` if members that it waits for have ended.
    #[pyo3(signature = (count = None))]
    fn barrier(&self, py: Python<'_>, count: Option<usize>) -> PyResult<()> {
        self.call(py, |group| match count {
            Some(count) => group.barrier(count),
            None => group.barrier_of_all(),
        })
    }

    /// Waits until `count` members have called this. After that no task can join.
    fn freeze(&self, py: Python<'_>, count: usize) -> PyResult<()> {
        self.call(py, |group| group.freeze(count))
    }

    /// Sends an object, pickled, to all members but this task, which receive it by `Task.recv`.
    #[pyo3(signature = (obj, tag = 0))]
    fn broadcast(&self, py: Python<'_>, obj: &Bound<'_, PyAny>, tag: i32) -> PyResult<()> {
        let pack = pickled::packed(obj)?;
        self.call(py, |group| group.broadcast(tag, &pack))
    }

    /// Combines the arrays of all members, element by element, at the member `root`, whose buffer has the result: `"sum"`, `"product"`,
    /// `"max"` or `"min"`. All members call it with buffers of one type and length; what the others' hold after it is of no use.
    #[pyo3(signature = (buffer, how = "sum", *, root = 0, tag = 0))]
    fn reduce(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        how: &str,
        root: usize,
        tag: i32,
    ) -> PyResult<()> {
        let terms = (tag, root, Combine::of(how)?);
        let (opened, _seen) = open_writable(buffer)?;
        with_type!(opened, T => reduce::<T>(py, self, terms, &opened))
    }

    /// Collects the arrays of all members, which have one type and length, at the member `root`: it alone gets a view of them, one behind
    /// the other by instance.
    #[pyo3(signature = (buffer, *, root = 0, tag = 0))]
    fn gather<'py>(
        &self,
        py: Python<'py>,
        buffer: &Bound<'py, PyAny>,
        root: usize,
        tag: i32,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (opened, _seen) = open(buffer)?;
        with_type!(opened, T => gather::<T>(py, self, (tag, root), &opened))
    }

    /// Deals out the array `all` of the member `root`, the only one that gives one: each member's `buffer` is filled with its share.
    #[pyo3(signature = (buffer, all = None, *, root = 0, tag = 0))]
    fn scatter(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        all: Option<&Bound<'_, PyAny>>,
        root: usize,
        tag: i32,
    ) -> PyResult<()> {
        let (opened, _seen) = open_writable(buffer)?;
        let all = all.map(open).transpose()?;
        let all = all.as_ref().map(|(all, _)| all);
        if all.is_some_and(|all| all.format() != opened.format()) {
            return Err(of(py, PvmError::BadParam, "the two buffers have elements of different types"));
        }
        with_type!(opened, T => scatter::<T>(py, self, (tag, root), all, &opened))
    }

    fn __repr__(&self) -> String {
        format!("<pvm.Group {:?}>", self.name)
    }
}
