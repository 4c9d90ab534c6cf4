//! Finding the group server: this system's daemon, or the task that the original starts for it.

use super::port::{Port, Until};
use super::{Client, Server};
use crate::{Error, Result};
use pvm_wire::body::BodyReader;
use pvm_wire::calls::mailbox::{Flags, Get};
use pvm_wire::calls::tasks::TaskStatus;
use pvm_wire::group::{CLASS, Request, keeper};
use pvm_wire::spawn::{SpawnRequest, flags};
use pvm_wire::{Message, PvmError, Tid};
use std::time::Duration;

/// The first and the longest pause between looks while a new server registers.
const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));

impl<P: Port> Client<'_, P> {
    /// The server; on the original daemon it is started if there is none.
    pub fn server(&mut self) -> Result<Server> {
        let own = self.own()?;
        if let Some(server) = self.groups.server.filter(|server| server.found_by == own) {
            return Ok(server);
        }
        let tid = match self.look_up()? {
            Some(tid) => tid,
            None => self.start_server()?,
        };
        let server = Server { tid, ours: tid == keeper() && self.port.daemon_is_ours()?, found_by: own };
        *self.groups = super::Groups { server: Some(server), ..super::Groups::default() };
        Ok(server)
    }

    /// The tid in the mailbox.
    fn look_up(&mut self) -> Result<Option<Tid>> {
        let get = Get { tid: self.own()?, class: CLASS.into(), index: 0, flags: Flags::DEFAULT };
        let Ok(found) = self.port.answer(&get)? else { return Ok(None) };
        let message = found.message.open()?;
        Ok(Some(Tid::from_raw(BodyReader::new(&message.body).int()?)))
    }

    fn start_server(&mut self) -> Result<Tid> {
        let request =
            SpawnRequest { file: CLASS.into(), flags: flags::MPP_FRONT, count: 1, ..SpawnRequest::default() };
        let spawned = self.port.spawn(request)?;
        let &[tid] = &spawned[..] else { return Err(no_server("it cannot be started")) };
        if tid < 0 {
            let reason = PvmError::from_code(tid).unwrap_or(PvmError::DSysErr);
            return Err(no_server(&format!("the daemon cannot start {CLASS}: {reason}")));
        }
        let mut pause = PAUSES.0;
        loop {
            // In this order: it may register and exit, if another server was quicker.
            let lives = self.is_alive(tid)?;
            if let Some(found) = self.look_up()? {
                return Ok(found);
            }
            if !lives {
                return Err(no_server(&format!("{CLASS} has ended without registering")));
            }
            self.port.let_go();
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Whether a task runs, according to its daemon.
    pub fn is_alive(&mut self, tid: i32) -> Result<bool> {
        Ok(self.port.answer(&TaskStatus { tid: Tid::from_raw(tid) })?.is_ok())
    }

    /// Asks the server, and returns its answer.
    pub fn ask(&mut self, request: Request<'_>) -> Result<Message> {
        let server = self.server()?;
        let tag = request.tag();
        let mut answers = |message: &Message| message.src == server.tid && message.header.tag == tag;
        // Answers to earlier requests that were given up.
        while self.wait(Until::Now, &mut answers)?.is_some() {}
        self.port.send(server.tid, tag, &request.encode())?;
        let answer = self.wait(self.until(), &mut answers)?;
        answer.ok_or_else(|| no_server("it does not answer"))
    }

    /// Asks the server for a number, which is an error if it is negative.
    pub fn ask_number(&mut self, request: Request<'_>) -> Result<i32> {
        let answer = self.ask(request)?;
        check(BodyReader::new(&answer.body).int()?)
    }
}

/// Separates error codes from numbers.
pub fn check(code: i32) -> Result<i32> {
    match PvmError::from_code(code) {
        Some(error) => Err(error.into()),
        None if code < 0 => Err(PvmError::SysErr.into()),
        None => Ok(code),
    }
}

fn no_server(text: &str) -> Error {
    Error::new(PvmError::SysErr, format!("there is no group server: {text}"))
}
