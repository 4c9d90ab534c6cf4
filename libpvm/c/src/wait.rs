//! Waiting for messages, and the descriptors at which they arrive.

use super::memory::{CList, Out};
use super::state::{Failure, locked};
use super::tracepoints::{nothing, traced};
use pvm_engine::{Engine, Waiter, sleep};
use pvm_wire::PvmError;
use pvm_wire::events::{Datum, Event};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::{Duration, Instant};

/// Waits until a message may have arrived, the time is over or a signal was received.
pub fn wait_for_input(time: Option<Duration>) -> Result<(), Failure> {
    let spinner = locked(|state| Ok(state.engine()?.spinner().clone()))?;
    // A time beyond the clock's end is for ever.
    let deadline = time.and_then(|time| Instant::now().checked_add(time));
    if !spinner.spin(deadline) {
        sleep(&mut Unlocked, deadline)?;
    }
    Ok(())
}

/// This program, whose signal handlers can call the library while it waits.
struct Unlocked;

impl Waiter for Unlocked {
    type Error = Failure;

    fn with<R>(
        &mut self,
        act: impl FnOnce(&mut Engine) -> pvm_engine::Result<R>,
    ) -> Result<Option<R>, Failure> {
        locked(|state| Ok(state.engine.as_mut().map(act).transpose()?))
    }

    fn await_input(&mut self, deadline: Option<Instant>) -> Result<bool, Failure> {
        let beds = locked(|state| {
            let engine = state.engine()?;
            if !engine.doze() {
                return Ok(None);
            }
            let (others, bell) = engine.beds();
            let raw: Vec<RawFd> = bell.iter().chain(&others).map(AsRawFd::as_raw_fd).collect();
            Ok(Some((raw, bell.is_some())))
        })?;
        let Some((inputs, has_bell)) = beds else { return Ok(true) };
        let time = deadline.map(|end| {
            let left = end.saturating_duration_since(Instant::now());
            let tv_sec = i64::try_from(left.as_secs()).unwrap_or(i64::MAX);
            Timespec { tv_sec, tv_nsec: left.subsec_nanos().into() }
        });
        // SAFETY: only this thread closes them, in calls of the library: in a signal handler perhaps, which ends the wait.
        let borrow = |&fd| unsafe { BorrowedFd::borrow_raw(fd) };
        let mut descriptors: Vec<_> =
            inputs.iter().map(|fd| PollFd::from_borrowed_fd(borrow(fd), PollFlags::IN)).collect();
        let waited = poll(&mut descriptors, time.as_ref());
        let came: Vec<bool> = descriptors.iter().map(|fd| !fd.revents().is_empty()).collect();
        let (bell, others) = came.split_at(usize::from(has_bell));
        let is_else = waited.is_err() || others.contains(&true);
        self.with(|engine| {
            engine.wake(bell.contains(&true), is_else);
            Ok(())
        })?;
        match waited {
            Ok(count) => Ok(count > 0),
            Err(Errno::INTR) => Ok(true),
            Err(_) => Err(PvmError::SysErr.into()),
        }
    }
}

/// The descriptors at which messages come in: the daemon's connection, then direct routes, open or granted.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_getfds(descriptors: Out<'_, *mut c_int>) -> c_int {
    traced(
        "pvm_getfds",
        Event::Getfds,
        nothing,
        |state, event, code| {
            event.int(Datum::CC, code.min(0)).ints(Datum::FDS, state.lists.descriptors.items());
        },
        |state| {
            state.engine()?.keep_bell();
            state.lists.descriptors = CList::of(state.descriptors()?);
            descriptors.set(state.lists.descriptors.array());
            Ok(state.lists.descriptors.len())
        },
    )
}
