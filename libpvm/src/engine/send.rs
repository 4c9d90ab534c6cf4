//! Sending, to one and to many. While the daemon takes nothing more the task reads, so that two tasks that send to
//! each other never wait for each other.

use super::route::{Arrival, Outgoing};
use super::{Engine, xdr_header};
use crate::error::{Error, Result};
use pvm_wire::body::BodyWriter;
use pvm_wire::codes::Tm;
use pvm_wire::{MessageHeader, Tid};
use rustix::event::PollFlags;

impl Engine {
    /// Sends a message: a contiguous body as one part, to be cut into fragments; or several parts, each of which
    /// becomes a fragment of its own (data packed in place). Returns when all is with the kernel.
    pub fn send(&mut self, dst: Tid, header: MessageHeader, parts: &[&[u8]]) -> Result<()> {
        self.send_whole(dst, header, parts)?;
        self.send_deferred()
    }

    /// Sends one message to several tasks; to each once, and not to this one.
    pub fn multicast(&mut self, dsts: &[Tid], header: MessageHeader, parts: &[&[u8]]) -> Result<()> {
        let mut dsts = dsts.to_vec();
        dsts.sort_unstable();
        dsts.dedup();
        dsts.retain(|&dst| dst != self.tid());
        if dsts.is_empty() {
            return Ok(());
        }
        let list = BodyWriter::new().int(dsts.len() as i32).ints(dsts.iter().map(|dst| dst.raw()));
        self.send_whole(Tid::MY_DAEMON, xdr_header(Tm::Mca.tag(), 0, 0), &[&list.finish()])?;
        self.send_whole(self.tid().multicast(), header, parts)?;
        self.send_deferred()
    }

    fn send_whole(&mut self, dst: Tid, header: MessageHeader, parts: &[&[u8]]) -> Result<()> {
        let mut outgoing = Outgoing::new(self.tid(), dst, header, parts, self.options.fragment_size)?;
        while !outgoing.is_done() {
            let route = self.route.as_ref().ok_or_else(Error::lost)?;
            match outgoing.write(route) {
                Ok(true) => {}
                Ok(false) => self.read_until_writable()?,
                Err(error) => {
                    self.lose();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Beyond the queue's limit nothing is read: the others wait until this task takes what it has.
    fn read_until_writable(&mut self) -> Result<()> {
        let route = self.route.as_ref().ok_or_else(Error::lost)?;
        let full = self.inbox.is_full();
        let events = if full { PollFlags::OUT } else { PollFlags::IN | PollFlags::OUT };
        route.wait(events, None)?;
        while !self.inbox.is_full() && matches!(self.read_once()?, Arrival::Some) {}
        Ok(())
    }

    /// Sends what handlers answered while a message was on its way out.
    pub(super) fn send_deferred(&mut self) -> Result<()> {
        while let Some(message) = self.inbox.deferred.pop_front() {
            self.send_whole(message.dst, message.header, &[&message.body])?;
        }
        Ok(())
    }
}
