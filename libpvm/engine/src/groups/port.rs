//! What group calls need of a task: the Rust API and the C interface keep queued messages in different ways.

use crate::Result;
use crate::{Engine, Payload, Spinner, Wait};
use pvm_shm::Mapping;
use pvm_wire::calls::{Answer, Call};
use pvm_wire::group::CONTEXT;
use pvm_wire::spawn::SpawnRequest;
use pvm_wire::{Encoding, Message, MessageHeader, Tid};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long to wait for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Until one comes.
    Forever,
    /// Not at all.
    Now,
    /// Until then.
    Time(Instant),
}

/// Where notices of the keeper may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notices {
    /// None has come since the last look.
    Nowhere,
    /// In the queue: the system need not be asked.
    Queued,
    /// Where the system has to be asked for them, too.
    Anywhere,
}

/// The result of a look for a message.
#[derive(Debug)]
pub enum Look {
    /// It was there.
    Found(Message),
    /// It may come while the task spins.
    Spin(Arc<Spinner>),
    /// It has to be waited for.
    Nothing,
}

impl Until {
    /// The time that is left.
    pub fn wait(self) -> Wait {
        match self {
            Self::Forever => Wait::Forever,
            Self::Now => Wait::Poll,
            Self::Time(end) => Wait::For(end.saturating_duration_since(Instant::now())),
        }
    }
}

/// A task, as group calls see it.
pub trait Port {
    /// Its id.
    fn tid(&mut self) -> Result<Tid>;
    /// Whether its daemon is this system's.
    fn daemon_is_ours(&mut self) -> Result<bool>;
    /// Asks the daemon.
    fn answer<C: Call>(&mut self, call: &C) -> Result<Answer<C>>;
    /// Spawns.
    fn spawn(&mut self, request: SpawnRequest) -> Result<Vec<i32>>;
    /// Sends a body in XDR, in the context of groups.
    fn send(&mut self, to: Tid, tag: i32, body: &[u8]) -> Result<()>;
    /// The same, to several.
    fn send_all(&mut self, to: &[Tid], tag: i32, body: &[u8]) -> Result<()> {
        to.iter().try_for_each(|&to| self.send(to, tag, body))
    }
    /// Sends a body of two parts in this encoding, in the context of groups.
    fn send_encoded(&mut self, to: Tid, tag: i32, encoding: Encoding, parts: [&[u8]; 2]) -> Result<()>;
    /// Where notices of the keeper may be.
    fn notices(&mut self) -> Notices {
        Notices::Anywhere
    }
    /// Takes the first message of this context that is wanted, if it is there and the system need not be asked. Those up to the number
    /// `shown` are left out, which becomes that of the last one.
    fn look(&mut self, _shown: &mut u64, wanted: &mut dyn FnMut(&Message) -> bool) -> Result<Look> {
        Ok(self.wait(Until::Now, wanted)?.map_or(Look::Nothing, Look::Found))
    }
    /// The same, also if the message comes while the task spins.
    fn look_spinning(&mut self, wanted: &mut dyn FnMut(&Message) -> bool) -> Result<Option<Message>> {
        let (mut shown, mut has_spun) = (0, false);
        loop {
            let before = shown;
            match self.look(&mut shown, wanted)? {
                Look::Found(message) => return Ok(Some(message)),
                // Whatever else ends a spin is dealt with where the task waits.
                Look::Spin(spinner) if !has_spun || shown != before => {
                    has_spun = true;
                    self.let_go();
                    if !spinner.spin_at_once() {
                        return Ok(None);
                    }
                }
                Look::Spin(_) | Look::Nothing => return Ok(None),
            }
        }
    }
    /// Lets go of what the call holds, as it does when it waits: others may use the task meanwhile.
    fn let_go(&mut self) {}
    /// Takes the first message of this context that is wanted; `None` when the time is over.
    fn wait(&mut self, until: Until, wanted: &mut dyn FnMut(&Message) -> bool) -> Result<Option<Message>>;
    /// The memory of a task of this host, if this one can reach it.
    fn reach(&mut self, _tid: Tid) -> Option<Arc<Mapping>> {
        None
    }
    /// Uses this task's ledger of barriers; `false` if it has none, as it shares no memory with its daemon.
    fn with_ledger(&mut self, _use: impl FnOnce(&Mapping) -> bool) -> bool {
        false
    }
    /// Opens a gate in this task's memory, perhaps in the place of an old one.
    fn open_gate(&mut self, _old: Option<u64>) -> Option<u64> {
        None
    }
    /// How long waking a task of this host takes.
    fn wake_time(&mut self) -> Duration {
        Duration::ZERO
    }
    /// Calls a function that writes to the recorder of `pvm run --trace`, if the task may have one.
    fn record<T>(&mut self, _write: impl FnOnce(&mut Engine) -> T) -> Option<T> {
        None
    }
}

/// The header of a message between members, or to the server.
pub fn header(tag: i32) -> MessageHeader {
    encoded(tag, Encoding::Xdr)
}

/// The same, of a body in this encoding.
pub fn encoded(tag: i32, encoding: Encoding) -> MessageHeader {
    MessageHeader { encoding: encoding.word(), tag, context: CONTEXT, wait_id: 0, checksum: 0 }
}

impl Port for Engine {
    fn tid(&mut self) -> Result<Tid> {
        Ok(Engine::tid(self))
    }

    fn daemon_is_ours(&mut self) -> Result<bool> {
        Ok(Engine::daemon_is_ours(self))
    }

    fn answer<C: Call>(&mut self, call: &C) -> Result<Answer<C>> {
        Engine::answer(self, call)
    }

    fn spawn(&mut self, mut request: SpawnRequest) -> Result<Vec<i32>> {
        request.env = self.child_environment();
        Ok(Engine::spawn(self, &request)?.results)
    }

    fn send(&mut self, to: Tid, tag: i32, body: &[u8]) -> Result<()> {
        Engine::send(self, to, header(tag), Payload::Parts(&[body]))
    }

    fn send_all(&mut self, to: &[Tid], tag: i32, body: &[u8]) -> Result<()> {
        self.multicast(to, header(tag), Payload::Parts(&[body]))
    }

    fn send_encoded(&mut self, to: Tid, tag: i32, encoding: Encoding, parts: [&[u8]; 2]) -> Result<()> {
        Engine::send(self, to, encoded(tag, encoding), Payload::Parts(&parts))
    }

    fn notices(&mut self) -> Notices {
        Engine::notices(self)
    }

    fn look(&mut self, shown: &mut u64, wanted: &mut dyn FnMut(&Message) -> bool) -> Result<Look> {
        self.keep_members();
        self.look_for_member(shown, wanted)
    }

    fn wait(&mut self, until: Until, wanted: &mut dyn FnMut(&Message) -> bool) -> Result<Option<Message>> {
        self.fetch_of_members(until.wait(), wanted)
    }

    fn reach(&mut self, tid: Tid) -> Option<Arc<Mapping>> {
        Engine::reach(self, tid)
    }

    fn with_ledger(&mut self, body: impl FnOnce(&Mapping) -> bool) -> bool {
        Engine::with_ledger(self, body)
    }

    fn open_gate(&mut self, old: Option<u64>) -> Option<u64> {
        Engine::open_gate(self, old)
    }

    fn wake_time(&mut self) -> Duration {
        Engine::wake_time(self)
    }

    fn record<T>(&mut self, write: impl FnOnce(&mut Engine) -> T) -> Option<T> {
        Some(write(self))
    }
}
