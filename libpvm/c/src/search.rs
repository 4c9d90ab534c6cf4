//! The search of a receive call for its message: PVM's own matching, or the program's matching function.
//!
//! A message has a buffer id from when it is received, or shown to the program: matching functions can look into it.

use super::buffers::Info;
use super::handlers;
use super::migration;
use super::state::{Failure, Matcher, Outcome, State, locked};
use super::tracepoints::{self, nothing};
use super::wait::wait_for_input;
use pvm_engine::{Arrived, Search, Wait};
use pvm_wire::events::{Datum, Event, Writer};
use pvm_wire::{MessageHeader, PvmError};
use std::ffi::c_int;
use std::time::{Duration, Instant};

/// How long a call waits for a message.
#[derive(Clone, Copy)]
pub enum Until {
    Forever,
    /// It polls, or waits for no time at all: the two look at different messages.
    Now(Wait),
    /// Until then; the duration is what the program gave.
    Deadline(Instant, Duration),
}

impl Until {
    /// A call that polls.
    pub const POLL: Self = Self::Now(Wait::Poll);

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

/// The sender and tag that a call asks for, -1 for any.
#[derive(Clone, Copy)]
pub struct Wanted {
    pub tid: c_int,
    pub tag: c_int,
}

impl Wanted {
    /// PVM's own matching.
    fn fits(self, context: c_int, info: &Info) -> bool {
        self.matches(context, info.src, info.tag, info.context)
    }

    /// The same, of a message that has no buffer yet.
    #[inline]
    pub fn matches(self, context: c_int, src: c_int, tag: c_int, its_context: c_int) -> bool {
        (context == -1 || its_context == context)
            && (self.tid == -1 || src == self.tid)
            && (self.tag == -1 || tag == self.tag)
    }

    /// Records what is wanted, if the task is traced.
    pub fn announce(self, state: &mut State, event: Event, more: impl FnOnce(&mut Writer)) {
        if !tracepoints::is_quiet(state) {
            tracepoints::enter(state, event, |state, record| {
                record.int(Datum::RST, self.tid).int(Datum::RMC, self.tag).int(Datum::RCX, state.context);
                more(record);
            });
        }
    }
}

/// A call that looks for a message.
#[derive(Default)]
pub struct Finder {
    search: Search,
    /// The highest number that the program's matcher has given, and to which buffer.
    best: Option<(c_int, c_int)>,
    /// Whether the call has tried to move the task before it has looked for anything.
    has_tried_to_move: bool,
    /// Whether there is nothing left to do when the call ends: no handler is due, and the task is not traced.
    is_over: bool,
}

/// The next step of a search.
enum Step {
    /// The message with this number.
    Found(u64),
    Nothing,
    Due,
    /// The task is to move, if possible before the call begins.
    Move,
    Ask(Matcher, Vec<c_int>),
}

impl Finder {
    /// Finds a message in the queue, or waits for it. `begin` comes first, `end` when it is found. Nothing is locked
    /// while the call waits and while functions of the program (a matcher, message handlers) are called, so that signal
    /// handlers can call the library.
    pub fn find<B: Copy, T>(
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
                if !std::mem::replace(&mut self.has_tried_to_move, true) && state.is_to_move() {
                    return Ok((Step::Move, None));
                }
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
                Step::Move => drop(migration::attempt()?),
                Step::Nothing if migration::attempt()? => {}
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

    /// The call ends: runs the handlers that are due, then records the event.
    pub fn end(&self, event: Event, outcome: &Outcome, fill: impl FnOnce(&mut State, &mut Writer, c_int)) {
        if !self.is_over {
            handlers::run_due();
            tracepoints::leave_unlocked(event, outcome, fill);
        }
    }

    /// Looks at messages that were shown to the program since the last look.
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
                wanted.matches(*context, arrived.message.src.raw(), tag, its_context)
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
            let was_busy = locked(|state| Ok(state.set_busy(true)))?;
            // SAFETY: the program set this function with `pvm_recvf`; nothing of the library is locked here.
            let answer = unsafe { matcher(id, wanted.tid, wanted.tag) };
            locked(|state| Ok(state.set_busy(was_busy)))?;
            match answer {
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
