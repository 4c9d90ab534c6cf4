//! The library's one state in a process, and the frame around every call.

use super::buffer_table::Buffers;
use super::errors;
use super::handlers::{self, Handlers};
use super::internals;
use super::lock::{self, Exclusive, Guard};
use super::memory::Lists;
use super::migration::{self, Migration};
use super::tracepoints;
use super::{at_exit, fork, output};
use pvm_engine::Error;
use pvm_engine::groups::Groups;
use pvm_engine::{Engine, Spinner};
use pvm_wire::calls::Call;
use pvm_wire::{PvmError, Tid};
use std::ffi::{OsString, c_int};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

/// A matcher set with `pvm_recvf`.
pub type Matcher = unsafe extern "C" fn(c_int, c_int, c_int) -> c_int;

/// The result of a call: C's integer, or why it failed.
pub type Outcome = Result<c_int, Failure>;

/// How a failure is reported, besides the result of the call. Some failures are answers that the caller waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reporting {
    /// Not at all: not even `pvm_errno` changes.
    None,
    /// In `pvm_errno`.
    Errno,
    /// In `pvm_errno`, and printed if `PvmAutoErr` is set.
    Printed,
}

/// Why a call failed, and how that is reported.
#[derive(Debug)]
pub struct Failure {
    /// PVM's code, or what a program's own function returned.
    pub code: c_int,
    /// How the failure is reported besides the result of the call.
    pub reporting: Reporting,
    /// Details that the code lacks.
    pub detail: Option<Error>,
}

impl Failure {
    /// A failure that is only returned.
    pub fn returned(code: PvmError) -> Self {
        Self { reporting: Reporting::None, ..Self::from(code) }
    }

    /// A failure whose code does not say enough.
    #[cold]
    pub fn explained(code: PvmError, text: impl Into<String>) -> Self {
        Self { detail: Some(Error::new(code, text)), ..Self::from(code) }
    }

    /// A failure with a code that came from outside.
    pub fn code(code: c_int) -> Self {
        Self { code, reporting: Reporting::Printed, detail: None }
    }
}

impl From<PvmError> for Failure {
    fn from(code: PvmError) -> Self {
        Self::code(code.code())
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Self {
        let code = error.code();
        // Only a lost or missing daemon needs a longer text than the code's.
        let detail = (code == PvmError::SysErr).then_some(error);
        Self { detail, ..Self::from(code) }
    }
}

impl From<pvm_wire::body::BodyError> for Failure {
    fn from(error: pvm_wire::body::BodyError) -> Self {
        Error::from(error).into()
    }
}

/// Options that hold before and after an enrolment too.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `PvmRoute`.
    pub route: c_int,
    /// `PvmDebugMask`.
    pub debug_mask: c_int,
    /// `PvmAutoErr`.
    pub auto_err: c_int,
    /// `PvmResvTids`: not 0 for yes.
    pub resv_tids: c_int,
}

/// The state of the library in a process.
pub struct State {
    /// The connection to the daemon while there is one.
    pub engine: Option<Engine>,
    /// The message buffers.
    pub buffers: Buffers,
    /// The message handlers.
    pub handlers: Handlers,
    /// Options.
    pub settings: Settings,
    /// The current context.
    pub context: c_int,
    /// The name set by `pvmsettaskname`.
    pub task_name: Option<OsString>,
    /// Memory that was handed out to the program and still belongs to the library.
    pub lists: Lists,
    /// Set by `pvm_recvf`.
    pub matcher: Option<Matcher>,
    /// Notifies of this task's own end: context and tag of each.
    pub own_exit_notifies: Vec<(c_int, c_int)>,
    /// Whether `pvm_catchout` is in effect.
    pub collecting: bool,
    /// Whether the first call is to be traced already.
    pub traced_from_start: bool,
    /// The mailbox index under which this task is spared by a reset.
    pub no_reset: Option<c_int>,
    /// The state of group calls.
    pub groups: Groups,
    /// What the program has said about moves to other hosts.
    pub migration: Migration,
    /// The value of [`State::is_unobserved_now`] when the last call ended. It does not change between calls, nor in those of [`try_fast`].
    is_unobserved: bool,
    /// The spinner of receive calls, while none waits.
    pub spinner: Option<Arc<Spinner>>,
}

// SAFETY: the pointers inside (lists handed to C, streams of the C library) are only followed by the thread that
// holds the lock, and none of them is bound to the thread that stored it.
unsafe impl Send for State {}

static STATE: Exclusive<Option<State>> = Exclusive::new(None);

/// A thread's use of the state: from a call of the program to its end, or to a wait.
pub struct Frame(Guard<'static, Option<State>>);

impl Frame {
    /// Fails in a signal handler that interrupts another call, unless that was only waiting for a message.
    #[inline(always)]
    pub fn enter() -> Result<Self, Failure> {
        let Some(mut guard) = STATE.enter() else { return Err(nested_call()) };
        if guard.is_none() {
            begin(&mut guard);
        }
        let mut frame = Self(guard);
        let state = frame.state()?;
        state.buffers.settle();
        if fork::is_new_child() {
            forget_parents(state);
        }
        Ok(frame)
    }

    /// The state.
    #[inline(always)]
    pub fn state(&mut self) -> Result<&mut State, Failure> {
        self.0.as_mut().ok_or_else(internal_error)
    }
}

impl Drop for Frame {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(state) = &mut *self.0 {
            internals::show_context(state.context);
            state.is_unobserved = state.is_unobserved_now();
        }
    }
}

/// Works on the state within one [`Frame`].
#[inline(always)]
pub fn locked<T>(body: impl FnOnce(&mut State) -> Result<T, Failure>) -> Result<T, Failure> {
    body(Frame::enter()?.state()?)
}

/// The fast path of frequent calls. `None` if the call has to use [`locked`]; then `body` has changed nothing that such a call would
/// not change. A message that was received on the fast path may stay in its ring until the next call on the slow one, or until it is
/// freed: in between nothing else is read there.
#[inline(always)]
pub fn try_fast<T>(body: impl FnOnce(&mut State) -> Option<T>) -> Option<T> {
    let mut guard = STATE.enter()?;
    let state = guard.as_mut().filter(|state| state.is_unobserved && !fork::may_be_new_child())?;
    body(state)
}

/// Not inlined: the frames of all other calls would have room for a whole state.
#[cold]
#[inline(never)]
fn begin(state: &mut Option<State>) {
    lock::learn_of_threads();
    *state = Some(State::new());
}

/// After a fork the connection stays the parent's; the child enrols when it needs to.
#[cold]
#[inline(never)]
fn forget_parents(state: &mut State) {
    state.leave();
}

#[cold]
fn nested_call() -> Failure {
    let text = "called while another call of this library is under way in the same thread";
    Failure::explained(PvmError::NotImpl, text)
}

#[cold]
fn internal_error() -> Failure {
    Error::new(PvmError::SysErr, "an internal error of the library").into()
}

/// The frame of a call: the state, then message handlers that are due, then the report of a failure.
#[inline(always)]
pub fn call(name: &str, body: impl FnOnce(&mut State) -> Outcome) -> c_int {
    let done = locked(move |state| {
        let outcome = body(state);
        Ok((outcome, state.handlers.are_due()))
    });
    let (outcome, due) = done.unwrap_or_else(|failure| (Err(failure), false));
    if due {
        handlers::run_due();
    }
    errors::finish(name, outcome)
}

impl State {
    fn new() -> Self {
        let number = |name| std::env::var(name).map_or(0, |text| internals::parse_number(&text));
        Self {
            engine: None,
            buffers: Buffers::default(),
            handlers: Handlers::default(),
            settings: Settings { route: 2, debug_mask: number("PVMTASKDEBUG"), auto_err: 1, resv_tids: 0 },
            context: number("PVMCTX"),
            task_name: None,
            lists: Lists::default(),
            matcher: None,
            own_exit_notifies: Vec::new(),
            collecting: false,
            traced_from_start: tracepoints::asked_for(),
            no_reset: None,
            groups: Groups::default(),
            migration: Migration::default(),
            is_unobserved: false,
            spinner: None,
        }
    }

    /// The engine; enrols if this process is not a task yet. If the daemon is lost, calls fail until the task leaves.
    #[inline]
    pub fn engine(&mut self) -> Result<&mut Engine, Failure> {
        if self.engine.is_none() {
            self.enrol()?;
        }
        self.engine.as_mut().ok_or_else(|| PvmError::SysErr.into())
    }

    #[cold]
    fn enrol(&mut self) -> Result<(), Failure> {
        let mut engine = Engine::enrol_as(self.task_name.as_deref(), false)?;
        internals::set_own_tid(engine.tid().raw());
        if let Some(saved) = engine.take_interface_state() {
            migration::resume(self, &saved);
        }
        fork::watch();
        self.settings.copy_to(&mut engine);
        engine.set_context(self.context);
        at_exit::watch();
        self.engine = Some(engine);
        Ok(())
    }

    /// All descriptors at which messages arrive, the daemon's first: the result of `pvm_getfds`, and polled by
    /// receive calls.
    pub fn descriptors(&mut self) -> Result<Vec<RawFd>, Failure> {
        Ok(self.engine()?.fds().into_iter().map(|fd| fd.as_raw_fd()).collect())
    }

    /// Like [`Self::engine`], together with the buffers.
    #[inline]
    pub fn engine_and_buffers(&mut self) -> Result<(&mut Engine, &mut Buffers), Failure> {
        self.engine()?;
        let engine = self.engine.as_mut().ok_or(PvmError::SysErr)?;
        Ok((engine, &mut self.buffers))
    }

    /// Drops the connection to the daemon and all state that belongs to it.
    pub fn leave(&mut self) {
        if let Some(engine) = self.engine.take() {
            for (_, id) in engine.shown() {
                // Every message that was shown to the program has a buffer.
                let _ = self.buffers.free(id);
            }
        }
        self.spinner = None;
        self.no_reset = None;
        self.collecting = false;
        self.own_exit_notifies.clear();
        self.groups = Groups::default();
        self.migration = Migration::default();
        internals::set_own_tid(-1);
    }

    /// This task's id, once it has one.
    pub fn tid(&mut self) -> Result<Tid, Failure> {
        Ok(self.engine()?.tid())
    }

    /// Calls that wait cannot be made from within a message handler.
    #[inline]
    pub fn may_wait(&self) -> Result<(), Failure> {
        if self.handlers.running() { Err(PvmError::NotImpl.into()) } else { Ok(()) }
    }

    /// Makes a request to the daemon.
    pub fn ask<C: Call>(&mut self, call: &C) -> Result<C::Reply, Failure> {
        self.may_wait()?;
        self.engine()?.answer(call)?.map_err(|error| Failure::code(error.code))
    }

    /// Makes a request that has no result.
    pub fn order<C: Call<Reply = ()>>(&mut self, call: &C) -> Outcome {
        self.ask(call).map(|()| 0)
    }

    /// Whether this process is a task whose calls are not traced or recorded, and no function of the program handles messages.
    #[inline]
    fn is_unobserved_now(&self) -> bool {
        self.matcher.is_none()
            && self.handlers.are_none()
            && self.engine.as_ref().is_some_and(|engine| !engine.is_recorded())
            && tracepoints::is_quiet(self)
    }

    /// Takes the spinner for a call that waits for a message; the call returns it to the field.
    #[inline]
    pub fn take_spinner(&mut self) -> Option<Arc<Spinner>> {
        let spinner = self.engine.as_ref()?.spinner_at_once()?;
        Some(self.spinner.take().filter(|kept| Arc::ptr_eq(kept, spinner)).unwrap_or_else(|| spinner.clone()))
    }

    /// Checks the id of a task and a tag, as calls with a receiver do.
    #[inline]
    pub fn check_address(&self, tid: c_int, tag: c_int) -> Result<(), Failure> {
        self.check_task(tid)?;
        if tag < 0 && self.settings.resv_tids == 0 {
            return Err(PvmError::BadParam.into());
        }
        Ok(())
    }

    /// Checks the id of a task.
    #[inline]
    pub fn check_task(&self, tid: c_int) -> Result<(), Failure> {
        if self.settings.resv_tids != 0 || Tid::from_raw(tid).is_task() {
            return Ok(());
        }
        Err(PvmError::BadParam.into())
    }
}

impl Settings {
    /// Copies the settings to the engine's options.
    pub fn copy_to(&self, engine: &mut Engine) {
        let options = engine.options_mut();
        options.route = self.route;
        options.debug_mask = self.debug_mask;
        options.auto_err = self.auto_err;
        options.resv_tids = self.resv_tids != 0;
        options.show_tids = output::show_tids() != 0;
    }
}
