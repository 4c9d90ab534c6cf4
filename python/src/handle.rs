//! The task behind a Python object: one thread at a time, in the process that enrolled, and no wait without an end.

use crate::errors::{of, raise};
use pvm3::{PvmError, Tid};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// How long a wait goes on before Python sees to signals, so that Ctrl-C interrupts it.
const SLICE: Duration = Duration::from_millis(100);

/// A task until it leaves.
pub struct Handle {
    task: Mutex<Option<pvm3::Task>>,
    /// The thread that waits, also between its looks, when handlers of signals may use the task.
    waiter: Mutex<Option<ThreadId>>,
    /// A child by fork has its parent's connections, which it must not use.
    process: u32,
}

impl Handle {
    pub fn new(task: pvm3::Task) -> Self {
        Self { task: Mutex::new(Some(task)), waiter: Mutex::default(), process: std::process::id() }
    }

    /// Calls the library. Meanwhile other threads of Python run.
    pub fn call<R: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut pvm3::Task) -> pvm3::Result<R> + Send,
    ) -> PyResult<R> {
        self.use_task(py, |slot| {
            let task = slot.as_mut().ok_or_else(left)?;
            py.detach(|| act(task)).map_err(|error| raise(py, &error))
        })
    }

    /// Asks the task for what takes no time.
    pub fn ask<R>(&self, py: Python<'_>, act: impl FnOnce(&mut pvm3::Task) -> R) -> PyResult<R> {
        self.use_task(py, |slot| slot.as_mut().map(act).ok_or_else(left))
    }

    /// Takes the task out, to leave the machine; `None` if it has left.
    pub fn take(&self, py: Python<'_>) -> PyResult<Option<pvm3::Task>> {
        self.use_task(py, |slot| Ok(slot.take()))
    }

    /// Repeats a bounded wait until it has something, or the time is over. In between Python handles signals, whose handlers may use the task.
    pub fn wait<R: Send>(
        &self,
        py: Python<'_>,
        timeout: Option<Duration>,
        mut look: impl FnMut(&mut pvm3::Task, Duration) -> pvm3::Result<Option<R>> + Send,
    ) -> PyResult<Option<R>> {
        self.ask(py, |_| ())?;
        let before = self.set_waiter(Some(thread::current().id()));
        let found = self.look_again(py, timeout, &mut look);
        self.set_waiter(before);
        found
    }

    fn look_again<R: Send>(
        &self,
        py: Python<'_>,
        timeout: Option<Duration>,
        look: &mut (impl FnMut(&mut pvm3::Task, Duration) -> pvm3::Result<Option<R>> + Send),
    ) -> PyResult<Option<R>> {
        // A time beyond the clock's range is no limit.
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let slice = left.unwrap_or(SLICE).min(SLICE);
            if let Some(found) = self.call(py, |task| look(task, slice))? {
                return Ok(Some(found));
            }
            py.check_signals()?;
            if end.is_some_and(|end| Instant::now() >= end) {
                return Ok(None);
            }
        }
    }

    fn use_task<R>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut Option<pvm3::Task>) -> PyResult<R>,
    ) -> PyResult<R> {
        if self.process != std::process::id() {
            let text = "this task belongs to the process that this one was forked from: enrol here, too";
            return Err(of(py, PvmError::SysErr, text));
        }
        let waiter = *lock(&self.waiter);
        if waiter.is_some_and(|waiter| waiter != thread::current().id()) {
            return Err(busy());
        }
        match self.task.try_lock() {
            Ok(mut slot) => act(&mut slot),
            Err(TryLockError::Poisoned(poisoned)) => act(&mut poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(busy()),
        }
    }

    /// Says which thread waits, and returns which did.
    fn set_waiter(&self, waiter: Option<ThreadId>) -> Option<ThreadId> {
        std::mem::replace(&mut lock(&self.waiter), waiter)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // Its end would be that of the parent's task.
            let slot = self.task.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(slot.take());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn busy() -> PyErr {
    PyRuntimeError::new_err("another thread is in a call of this task, which serves one at a time")
}

fn left() -> PyErr {
    PyRuntimeError::new_err("this task has left the virtual machine")
}

/// A task's id. It comes as an integer, of which Python has longer ones.
pub fn tid(number: i64) -> PyResult<Tid> {
    let raw = i32::try_from(number).or_else(|_| u32::try_from(number).map(|bits| bits as i32));
    raw.map(Tid::from_raw).map_err(|_| PyValueError::new_err(format!("{number} is not the id of a task")))
}

/// Ids of tasks.
pub fn tids(numbers: &[i64]) -> PyResult<Vec<Tid>> {
    numbers.iter().map(|&number| tid(number)).collect()
}

/// Ids for Python.
pub fn numbers(tids: &[Tid]) -> Vec<i32> {
    tids.iter().map(|tid| tid.raw()).collect()
}

/// Seconds as Python gives them: `None` is no limit.
pub fn duration(seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let Some(seconds) = seconds else { return Ok(None) };
    if seconds.is_nan() || seconds < 0.0 {
        return Err(PyValueError::new_err(format!("{seconds} is no time to wait")));
    }
    // A time beyond the range of a duration is no limit.
    Ok(Duration::try_from_secs_f64(seconds).ok())
}
