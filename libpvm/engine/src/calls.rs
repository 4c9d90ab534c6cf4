//! Requests to the daemon, or to the resource manager in its place.

use super::{Engine, Payload, xdr_header};
use crate::{Error, Result};
use bytes::Bytes;
use pvm_wire::calls::{Answer, Call, CallError, Request};
use pvm_wire::codes::Tmx;
use pvm_wire::{Message, PvmError, Tid};
use std::time::Instant;

impl Engine {
    /// Makes a request, and returns the reply. The text of an error names the subject of the request.
    pub fn call<C: Call>(&mut self, call: &C) -> Result<C::Reply> {
        self.answer(call)?.map_err(|error| refused(call, &error))
    }

    /// As [`Self::call`], but always to the daemon, which has to answer by `deadline`.
    pub(super) fn call_by<C: Call>(&mut self, call: &C, deadline: Option<Instant>) -> Result<C::Reply> {
        let answer = C::decode_answer(&self.ask(C::TAG, &call.encode(), deadline)?)?;
        answer.map_err(|error| refused(call, &error))
    }

    /// Makes a request, and returns the answer: the reply, or the error as it was received.
    pub fn answer<C: Call>(&mut self, call: &C) -> Result<Answer<C>> {
        if Tmx::from_tag(C::TAG).is_some() {
            self.require_ours()?;
        }
        Ok(C::decode_answer(&self.request(C::TAG, call.encode())?)?)
    }

    /// Sends a request that has no answer, to the resource manager if it serves such requests, else to the daemon.
    pub fn send_request<R: Request>(&mut self, request: &R) -> Result<()> {
        let (to, tag) = self.manager_of(R::TAG).unwrap_or((Tid::MY_DAEMON, R::TAG));
        self.send(to, xdr_header(tag, R::CONTEXT, 0), Payload::Parts(&[&request.encode()]))
    }

    /// A request as the message to the daemon that carries it.
    pub(super) fn as_message<R: Request>(&self, request: &R) -> Message {
        Message { src: self.tid(), ..request.message(0) }
    }

    /// Queues a request to the daemon that has no answer. It is sent once no other message is half sent.
    pub(super) fn defer_request<R: Request>(&mut self, request: &R) {
        let message = self.as_message(request);
        self.inbox.deferred.push_back(message);
    }

    /// Sends a request, and returns the body of the answer.
    #[expect(clippy::needless_pass_by_value, reason = "a body is made for one request")]
    pub(super) fn request(&mut self, tag: i32, body: Vec<u8>) -> Result<Bytes> {
        let begun = self.begin_span();
        let answer = self.ask_manager_or_daemon(tag, &body);
        self.record_request(begun, tag);
        answer
    }

    fn ask_manager_or_daemon(&mut self, tag: i32, body: &[u8]) -> Result<Bytes> {
        if let Some((manager, its_tag)) = self.manager_of(tag)
            && let Some(answer) = self.ask_manager(manager, its_tag, body)?
        {
            return Ok(answer);
        }
        self.ask(tag, body, None)
    }

    /// Fails if the daemon is the original's.
    pub fn require_ours(&self) -> Result<()> {
        if self.daemon_is_ours() {
            return Ok(());
        }
        Err(Error::new(PvmError::NotImpl, "the daemon here is the original PVM's, which cannot do this"))
    }
}

/// The error of a call that was answered with `error`.
fn refused<C: Call>(call: &C, error: &CallError) -> Error {
    let code = error.error();
    let reason = if error.reason.is_empty() { code.text() } else { &error.reason };
    Error::new(code, format!("{}: {reason}", call.subject()))
}
