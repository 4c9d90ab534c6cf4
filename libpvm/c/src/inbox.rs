//! The engine's inbox as C programs see it: handlers take messages when they are first seen, and the program knows others by the ids of
//! buffers, from when they are shown to it or received.

use super::buffers::local_message;
use super::state::{Failure, Outcome, State};
use pvm_engine::{Arrived, Engine, Result as EngineResult, Search};
use pvm_wire::{PvmError, Tid};
use std::ffi::c_int;

impl State {
    /// Shows the next message in the queue to a search, or to its handler; `false` if there is none. A call that will wait may leave it
    /// to the wait to find messages at the descriptors.
    #[inline]
    pub fn see_next(&mut self, search: &mut Search, will_wait: bool) -> Result<bool, Failure> {
        self.see_with(search, |engine| engine.see_next(will_wait))
    }

    /// As [`Self::see_next`], but does not read on for the program once there is a message between members behind the number `shown`.
    pub fn see_next_or_member(&mut self, will_wait: bool, shown: u64) -> Result<bool, Failure> {
        self.see_with(&mut Search::default(), |engine| engine.see_next_or_member(will_wait, shown))
    }

    #[inline(always)]
    fn see_with(
        &mut self,
        search: &mut Search,
        see: impl FnOnce(&mut Engine) -> EngineResult<Option<&Arrived>>,
    ) -> Result<bool, Failure> {
        self.engine()?;
        let Some(engine) = &mut self.engine else { return Ok(false) };
        let Some(arrived) = see(engine)? else { return Ok(false) };
        if let Some(handler) = self.handlers.find(&arrived.message) {
            let number = arrived.number();
            let id = self.take(number)?;
            self.handlers.call_later(handler, id);
        } else {
            search.meet(arrived);
        }
        Ok(true)
    }

    /// Takes a message out of the inbox, into a buffer.
    #[inline]
    pub fn take(&mut self, number: u64) -> Outcome {
        let (engine, buffers) = self.engine_and_buffers()?;
        let arrived = engine.take_arrived(number).ok_or(PvmError::NoSuchBuf)?;
        let Some(id) = arrived.buffer else { return Ok(buffers.receive(arrived.message)?) };
        let buffer = buffers.get(id)?;
        buffer.waiting = false;
        buffer.rewind();
        Ok(id)
    }

    /// Gives the program a copy of a message that stays in the inbox, by the id of a buffer.
    pub fn show(&mut self, number: u64) -> Outcome {
        let (engine, buffers) = self.engine_and_buffers()?;
        let arrived = engine.arrived(number).ok_or(PvmError::NoSuchBuf)?;
        if let Some(id) = arrived.buffer {
            return Ok(id);
        }
        let id = buffers.receive(arrived.message.clone())?;
        buffers.get(id)?.waiting = true;
        arrived.buffer = Some(id);
        Ok(id)
    }

    /// The number of a message in the inbox that the program knows by this id.
    pub fn number_of(&self, id: c_int) -> Option<u64> {
        self.engine.as_ref()?.shown().find(|&(_, shown)| shown == id).map(|(number, _)| number)
    }

    /// Frees a buffer, and with it a message in the inbox of which it has a copy.
    #[inline]
    pub fn discard(&mut self, id: c_int) -> Result<(), Failure> {
        if id > 0 && self.buffers.get(id).is_ok_and(|buffer| buffer.waiting) {
            self.discard_waiting(id);
        }
        Ok(self.buffers.free(id)?)
    }

    #[cold]
    fn discard_waiting(&mut self, id: c_int) {
        if let (Some(number), Some(engine)) = (self.number_of(id), &mut self.engine) {
            engine.take_arrived(number);
        }
    }

    /// Puts a message that the library writes itself into the queue.
    pub fn arrive_locally(&mut self, context: c_int, tag: c_int, body: Vec<u8>) -> Result<(), Failure> {
        let message = local_message(Tid::MY_DAEMON, self.tid()?, context, tag, body);
        match self.handlers.find(&message) {
            Some(handler) => self.handlers.call_later(handler, self.buffers.receive(message)?),
            None => self.engine()?.inject(message),
        }
        Ok(())
    }
}
