//! Receiving. A message has a buffer id from when it is received, or shown to the program: matching functions can look into it.

use super::buffers::Info;
use super::memory::{self, Out, TimeVal, copy_bytes};
use super::send::array_length;
use super::state::{Failure, Matcher, Outcome, State, locked, try_fast};
use super::tracepoints::{self, nothing, traced};
use super::{errors, handlers, timeline};
use pvm_engine::{Arrived, Begun, Engine, Search, Spinner, Wait, Waiter, sleep};
use pvm_wire::events::{Datum, Event, Writer};
use pvm_wire::{MessageHeader, PvmError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::ffi::{c_int, c_void};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Until when a call waits for a message.
#[derive(Clone, Copy)]
enum Until {
    Forever,
    /// It polls, or waits for no time at all: how far it looks differs.
    Now(Wait),
    /// Until then, the time that the program gave from now.
    Deadline(Instant, Duration),
}

impl Until {
    /// It polls.
    const POLL: Self = Self::Now(Wait::Poll);

    /// The time that is left.
    fn wait(self) -> Wait {
        match self {
            Self::Forever => Wait::Forever,
            Self::Now(_) => Wait::Poll,
            Self::Deadline(end, _) => match end.saturating_duration_since(Instant::now()) {
                Duration::ZERO => Wait::Poll,
                left => Wait::For(left),
            },
        }
    }

    #[inline]
    fn search(self, state: &mut State) -> Result<Search, Failure> {
        let wait = match self {
            Self::Forever => Wait::Forever,
            Self::Now(wait) => wait,
            Self::Deadline(_, span) => Wait::For(span),
        };
        Ok(state.engine()?.search(wait))
    }
}

/// What a call wants: sender and tag, -1 for any.
#[derive(Clone, Copy)]
struct Wanted {
    tid: c_int,
    tag: c_int,
}

impl Wanted {
    /// PVM's own matching.
    fn fits(self, context: c_int, info: &Info) -> bool {
        self.names(context, info.src, info.tag, info.context)
    }

    /// The same, of a message that has no buffer yet.
    #[inline]
    fn names(self, context: c_int, src: c_int, tag: c_int, its_context: c_int) -> bool {
        (context == -1 || its_context == context)
            && (self.tid == -1 || src == self.tid)
            && (self.tag == -1 || tag == self.tag)
    }
}

impl Wanted {
    /// Tells the tracer what is wanted.
    fn announce(self, state: &mut State, event: Event, more: impl FnOnce(&mut Writer)) {
        if !tracepoints::is_quiet(state) {
            tracepoints::enter(state, event, |state, record| {
                record.int(Datum::RST, self.tid).int(Datum::RMC, self.tag).int(Datum::RCX, state.context);
                more(record);
            });
        }
    }
}

/// Receives a message into a buffer of its own, which becomes the one to unpack from.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_recv(tid: c_int, tag: c_int) -> c_int {
    receive("pvm_recv", Event::Recv, Wanted { tid, tag }, Until::Forever, None)
}

/// As [`pvm_recv`], but 0 at once if no such message has come.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_nrecv(tid: c_int, tag: c_int) -> c_int {
    receive("pvm_nrecv", Event::Nrecv, Wanted { tid, tag }, Until::POLL, None)
}

/// As [`pvm_recv`], but 0 if no such message comes in time; a NULL time is for ever.
///
/// # Safety
/// `timeout` is NULL or can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_trecv(tid: c_int, tag: c_int, timeout: *const TimeVal) -> c_int {
    // SAFETY: NULL, or a time that nobody changes during the call.
    let time = unsafe { timeout.as_ref() };
    let until = match time {
        None => Ok(Until::Forever),
        Some(time) => deadline(time),
    };
    match until {
        Ok(until) => receive("pvm_trecv", Event::Trecv, Wanted { tid, tag }, until, time.copied()),
        Err(failure) => errors::finish("pvm_trecv", Err(failure)),
    }
}

fn deadline(time: &TimeVal) -> Result<Until, Failure> {
    let seconds = u64::try_from(time.seconds).map_err(|_| PvmError::BadParam)?;
    let micros = u64::try_from(time.micros).map_err(|_| PvmError::BadParam)?;
    let span = Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros));
    if span.is_zero() {
        return Ok(Until::Now(Wait::For(span)));
    }
    // A time beyond the clock's end is for ever.
    Ok(Instant::now().checked_add(span).map_or(Until::Forever, |end| Until::Deadline(end, span)))
}

/// The id of a message that has come and stays unreceived, or 0.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_probe(tid: c_int, tag: c_int) -> c_int {
    let wanted = Wanted { tid, tag };
    let mut search = Finder::default();
    let begin = |state: &mut State| {
        wanted.announce(state, Event::Probe, |_| ());
        Ok(())
    };
    let outcome = search
        .find(wanted, Until::POLL, begin, |state, (), number| state.show(number))
        .map(|id| id.unwrap_or(0));
    search.end(Event::Probe, &outcome, tracepoints::result(Datum::CC));
    errors::finish("pvm_probe", outcome)
}

#[inline]
fn receive(name: &str, event: Event, wanted: Wanted, until: Until, time: Option<TimeVal>) -> c_int {
    receive_fast(wanted, until).unwrap_or_else(|| search(name, event, wanted, until, time))
}

/// What most calls come to: the next message that a neighbour has written, or is about to write, is the wanted one, and nobody
/// else wants to know. Everything else is left to [`search`].
#[inline(always)]
fn receive_fast(wanted: Wanted, until: Until) -> Option<c_int> {
    let mut looked: Option<(Arc<Spinner>, bool)> = None;
    loop {
        // The same frame before and after the look, as the compiler then has one way to what is found.
        let step = try_fast(|state| {
            let is_first = looked.is_none();
            if let Some((spinner, is_there)) = looked.take() {
                state.spinner = Some(spinner);
                if !is_there {
                    return None;
                }
            } else if !state.engine.as_ref()?.has_none() {
                return None;
            } else {
                state.buffers.begin_receive().ok()?;
            }
            match take_near(state, wanted) {
                Some(id) => Some(Ok(id)),
                None if is_first && matches!(until, Until::Forever) => state.take_spinner().map(Err),
                None => None,
            }
        });
        match step? {
            Ok(id) => return Some(id),
            Err(spinner) => {
                let is_there = spinner.look();
                looked = Some((spinner, is_there));
            }
        }
    }
}

/// The next message that a neighbour has written becomes the one to unpack from, if it lies in the ring and is wanted.
#[inline(always)]
fn take_near(state: &mut State, wanted: Wanted) -> Option<c_int> {
    let (context, engine) = (state.context, state.engine.as_mut()?);
    let dst = engine.tid();
    let near = engine.next_near(|src, header| wanted.names(context, src.raw(), header.tag, header.context));
    state.buffers.receive_near(&near?, dst)
}

/// Apart from the short way, whose frame would grow by what a search needs: 512 bytes took a sixth longer.
#[inline(never)]
fn search(name: &str, event: Event, wanted: Wanted, until: Until, time: Option<TimeVal>) -> c_int {
    let limit = |record: &mut Writer| {
        if event == Event::Trecv {
            let (seconds, micros) = time.map_or((-1, -1), |time| (time.seconds as i32, time.micros as i32));
            record.int(Datum::MTS, seconds).int(Datum::MTU, micros);
        }
    };
    let (mut search, mut begun) = (Finder::default(), None);
    let begin = |state: &mut State| {
        wanted.announce(state, event, limit);
        begun = begin(state)?;
        Ok(begun)
    };
    let found = search.find(wanted, until, begin, |state, begun, number| {
        let id = state.take(number)?;
        timeline::received(state, begun, id);
        state.buffers.set_receive(id)?;
        Ok(id)
    });
    let outcome = match found {
        Ok(None) => timeline::waited(begun).map(|()| 0),
        found => found.map(|id| id.unwrap_or(0)),
    };
    search.end(event, &outcome, |state, record, id| {
        let found =
            state.buffers.get(id).map(|buffer| (buffer.length() as c_int, buffer.info.tag, buffer.info.src));
        let (length, tag, src) = found.unwrap_or((-1, -1, -1));
        record.int(Datum::MB, id).int(Datum::MNB, length).int(Datum::MC, tag);
        record.int(Datum::MCX, state.context).int(Datum::SRC, src);
    });
    errors::finish(name, outcome)
}

/// A receive call begins: the message received before goes.
#[inline]
fn begin(state: &mut State) -> Result<Option<Begun>, Failure> {
    let begun = timeline::begin(state)?;
    state.discard(state.buffers.receive_id())?;
    Ok(begun)
}

/// Waits until something has come, the time is over or a signal came.
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
        let inputs = locked(|state| {
            let may_sleep = state.engine()?.doze();
            if may_sleep { state.descriptors() } else { Ok(Vec::new()) }
        })?;
        if inputs.is_empty() {
            return Ok(true);
        }
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
        self.with(|engine| {
            engine.wake();
            Ok(())
        })?;
        match waited {
            Ok(count) => Ok(count > 0),
            Err(Errno::INTR) => Ok(true),
            Err(_) => Err(PvmError::SysErr.into()),
        }
    }
}

/// A call that looks for a message.
#[derive(Default)]
struct Finder {
    search: Search,
    /// The highest number that the program's matcher has given, and to which buffer.
    best: Option<(c_int, c_int)>,
    /// Whether there is nothing left to do when the call ends: no handler is due, and nobody traces.
    is_over: bool,
}

/// What comes next in a search.
enum Step {
    /// The message with this number.
    Found(u64),
    Nothing,
    Due,
    Ask(Matcher, Vec<c_int>),
}

impl Finder {
    /// Finds a message in the queue, or waits for it. `begin` comes first, `end` when it is found. Nothing is locked
    /// while the call waits and while functions of the program (a matcher, message handlers) are called, so that signal
    /// handlers can call the library.
    fn find<B: Copy, T>(
        &mut self,
        wanted: Wanted,
        until: Until,
        begin: impl FnOnce(&mut State) -> Result<B, Failure>,
        mut end: impl FnMut(&mut State, B, u64) -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        let mut begun = None;
        let mut begin = Some(begin);
        loop {
            let (step, result) = locked(|state| {
                if let Some(begin) = begin.take() {
                    begun = Some(begin(state)?);
                    self.search = until.search(state)?;
                }
                let step = self.advance(state, wanted, until)?;
                let (Step::Found(number), Some(begun)) = (&step, begun) else { return Ok((step, None)) };
                let result = end(state, begun, *number)?;
                self.is_over = !state.handlers.are_due() && tracepoints::is_quiet(state);
                Ok((step, Some(result)))
            })?;
            if result.is_some() {
                return Ok(result);
            }
            match step {
                Step::Ask(matcher, candidates) => {
                    if let (Some(id), Some(begun)) = (self.ask(matcher, &candidates, wanted)?, begun) {
                        return locked(|state| {
                            let number = state.number_of(id).ok_or(PvmError::NoSuchBuf)?;
                            end(state, begun, number)
                        })
                        .map(Some);
                    }
                }
                Step::Found(_) | Step::Due => handlers::run_due(),
                Step::Nothing => match until.wait() {
                    Wait::Poll => return Ok(None),
                    Wait::Forever => wait_for_input(None)?,
                    Wait::For(time) => wait_for_input(Some(time))?,
                },
            }
        }
    }

    /// Looks at what has come and takes in more, as long as the program is not needed. A message handler finds what
    /// has come already; it cannot wait.
    #[inline]
    fn advance(&mut self, state: &mut State, wanted: Wanted, until: Until) -> Result<Step, Failure> {
        state.engine()?;
        let (may_wait, only_now) = (state.may_wait(), matches!(until, Until::Now(_)));
        loop {
            let step = self.look(state, wanted)?;
            if !matches!(step, Step::Nothing) {
                return Ok(step);
            }
            if may_wait.is_err() {
                return if only_now { Ok(Step::Nothing) } else { may_wait.map(|()| Step::Nothing) };
            }
            if state.handlers.are_due() {
                return Ok(Step::Due);
            }
            if self.search.is_over() || !state.see_next(&mut self.search, !only_now)? {
                return Ok(Step::Nothing);
            }
        }
    }

    /// The call ends: handlers that are due, then what the tracer is told.
    fn end(&self, event: Event, outcome: &Outcome, fill: impl FnOnce(&mut State, &mut Writer, c_int)) {
        if !self.is_over {
            handlers::run_due();
            tracepoints::leave_unlocked(event, outcome, fill);
        }
    }

    /// Looks at what the program has seen since the last look.
    #[inline]
    fn look(&mut self, state: &mut State, wanted: Wanted) -> Result<Step, Failure> {
        let State { engine: Some(engine), buffers, context, matcher, .. } = state else {
            return Ok(Step::Nothing);
        };
        let Some(matcher) = *matcher else {
            // The program may have changed the header of what it was shown.
            let fits = |arrived: &Arrived| {
                if let Some(id) = arrived.buffer {
                    return buffers.get(id).is_ok_and(|buffer| wanted.fits(*context, &buffer.info));
                }
                let MessageHeader { tag, context: its_context, .. } = arrived.message.header;
                wanted.names(*context, arrived.message.src.raw(), tag, its_context)
            };
            return Ok(engine.find(&mut self.search, fits).map_or(Step::Nothing, Step::Found));
        };
        let mut fresh = Vec::new();
        while let Some(number) = state.engine()?.find(&mut self.search, |_| true) {
            fresh.push(state.show(number)?);
        }
        Ok(if fresh.is_empty() { Step::Nothing } else { Step::Ask(matcher, fresh) })
    }

    /// Asks the program's matcher: 0 no, 1 this one, more the best of all, negative an error.
    fn ask(
        &mut self,
        matcher: Matcher,
        candidates: &[c_int],
        wanted: Wanted,
    ) -> Result<Option<c_int>, Failure> {
        for &id in candidates {
            // SAFETY: the program set this function with `pvm_recvf`; nothing of the library is locked here.
            match unsafe { matcher(id, wanted.tid, wanted.tag) } {
                0 => {}
                1 => return Ok(Some(id)),
                score if score < 0 => return Err(Failure::code(score)),
                score if self.best.is_none_or(|(best, _)| score > best) => self.best = Some((score, id)),
                _ => {}
            }
        }
        Ok(self.best.map(|(_, id)| id))
    }
}

/// Receives a message into an array: as many bytes as there is room for, unconverted.
///
/// # Safety
/// There is room for `count` elements of the type at `data`; each other pointer is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_precv(
    tid: c_int,
    tag: c_int,
    data: *mut c_void,
    count: c_int,
    kind: c_int,
    sender: Out<'_, c_int>,
    its_tag: Out<'_, c_int>,
    length: Out<'_, c_int>,
) -> c_int {
    let wanted = Wanted { tid, tag };
    let mut search = Finder::default();
    let begin = |state: &mut State| {
        wanted.announce(state, Event::Precv, |record| {
            record.long(Datum::PDA, data.addr() as i64).int(Datum::PC, count).int(Datum::PDT, kind);
        });
        let room = array_length(kind, count)?;
        if data.is_null() && room > 0 {
            return Err(PvmError::BadParam.into());
        }
        Ok((room, timeline::begin(state)?))
    };
    let mut received = None;
    let found = search.find(wanted, Until::Forever, begin, |state, (room, begun), number| {
        let id = state.take(number)?;
        timeline::received(state, begun, id);
        let message = state.buffers.get(id)?;
        let info = message.info;
        let bytes = message.encoded()?.0;
        received = Some((bytes.len() as c_int, info.tag, info.src));
        // SAFETY: no more bytes than the array has room for, which are not the program's.
        unsafe {
            if room > 0 {
                copy_bytes(&bytes[..bytes.len().min(room)], data.cast());
            }
            sender.set(info.src);
            its_tag.set(info.tag);
            length.set(bytes.len() as c_int);
        }
        state.buffers.free(id)?;
        Ok(0)
    });
    let outcome = found.and_then(|code| code.ok_or_else(|| PvmError::SysErr.into()));
    search.end(Event::Precv, &outcome, |state, record, code| {
        let (length, tag, src) = received.unwrap_or((-1, -1, -1));
        record.int(Datum::CC, code).int(Datum::MNB, length).int(Datum::MC, tag);
        record.int(Datum::MCX, state.context).int(Datum::SRC, src);
    });
    errors::finish("pvm_precv", outcome)
}

/// Replaces the function that decides which message a receive call takes; NULL restores PVM's own. Returns the one
/// before.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_recvf(matcher: Option<Matcher>) -> Option<Matcher> {
    let old = locked(|state| {
        tracepoints::enter(state, Event::Recvf, nothing);
        let old = std::mem::replace(&mut state.matcher, matcher);
        tracepoints::leave(state, Event::Recvf, 0, |_, _, _| ());
        Ok(old)
    });
    // PVM's own matcher has an address too, which programs may give back.
    old.ok().flatten().or(Some(own_matcher))
}

/// PVM's own matching, as a function of this kind.
unsafe extern "C" fn own_matcher(id: c_int, tid: c_int, tag: c_int) -> c_int {
    let matches = locked(|state| {
        let context = state.context;
        Ok(Wanted { tid, tag }.fits(context, &state.buffers.get(id)?.info))
    });
    c_int::from(matches.unwrap_or(false))
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
            state.lists.descriptors = memory::CList::of(state.descriptors()?);
            descriptors.set(state.lists.descriptors.array());
            Ok(state.lists.descriptors.len())
        },
    )
}
