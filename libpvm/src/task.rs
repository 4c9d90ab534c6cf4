//! A task of the virtual machine: enrolment, sending, receiving.

use crate::notes::{self, Subject};
use crate::pack::Pack;
use crate::receive::{Received, Source, Tag, matches};
use crate::tracing::{code, nothing, received, status, wanted};
use pvm_engine::groups::Groups;
use pvm_engine::{Engine, Options, OutputSink, Payload, Wait};
use pvm_engine::{Error, Result};
use pvm_wire::calls::enrolment::EnrolReply;
use pvm_wire::calls::tasks::Context;
use pvm_wire::events::{Datum, ENTRY, Event, Writer};
use pvm_wire::{Message, MessageHeader, PvmError, Tid, group};
use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// This process as a task of the virtual machine. Dropping it leaves the machine as [`Task::exit`] does, but ignores errors.
///
/// ```no_run
/// # fn main() -> pvm3::Result<()> {
/// let mut task = pvm3::Task::enrol()?;
/// println!("I am {}", task.tid());
/// let mut pack = pvm3::Pack::new();
/// pack.put_str("hello")?;
/// let me = task.tid();
/// task.send(me, 7, &pack)?;
/// assert_eq!(task.recv(pvm3::Any, 7)?.get_str()?, "hello");
/// task.exit()
/// # }
/// ```
#[derive(Debug)]
pub struct Task {
    pub(crate) engine: Engine,
    pub(crate) groups: Groups,
}

impl Task {
    /// Enrols in the virtual machine whose daemon runs on this host. Tries for some seconds if a daemon's address is there and no daemon answers.
    ///
    /// [`PvmError::SysErr`]: no daemon runs here, or it does not answer. [`PvmError::BadParam`]: a setting has an invalid value.
    pub fn enrol() -> Result<Self> {
        Ok(Self::with(Engine::enrol()?))
    }

    /// As [`Task::enrol`], under a name that lists of tasks show; `quick` does not try again when no daemon answers.
    pub fn enrol_as(name: Option<&str>, quick: bool) -> Result<Self> {
        Ok(Self::with(Engine::enrol_as(name.map(OsStr::new), quick)?))
    }

    /// Traced as C's function that enrols.
    fn with(engine: Engine) -> Self {
        let mut task = Self { engine, groups: Groups::default() };
        let tid = task.tid().raw();
        let tell = |event: &mut Writer, _: &Result<()>| {
            event.int(Datum::MT, tid);
        };
        let _ = task.traced(Event::Mytid, nothing, tell, |_| Ok(()));
        task
    }

    /// This task's id.
    pub fn tid(&self) -> Tid {
        self.engine.tid()
    }

    /// The task that spawned this one. `None` if it was started by hand, or with [`crate::Spawn::without_parent`].
    pub fn parent(&self) -> Option<Tid> {
        let parent = self.engine.identity().parent;
        if notes::are_taken() {
            let code = if parent == 0 { PvmError::NoParent.code() } else { parent };
            notes::note(Event::Parent, Subject::Parent, notes::now(), code);
        }
        (parent > 0).then_some(Tid::from_raw(parent))
    }

    /// What the daemon has answered at the enrolment.
    pub fn identity(&self) -> &EnrolReply {
        self.engine.identity()
    }

    /// Whether the daemon is this system's, so that [`Task::start_up`] and [`Task::adopt`] work.
    pub fn daemon_is_ours(&self) -> bool {
        self.engine.daemon_is_ours()
    }

    /// The tasks that were spawned together with this one, itself included, in the same order for all of them. Waits until the spawner has sent
    /// the list. A task that was not spawned is alone in it.
    pub fn siblings(&mut self) -> Result<Vec<Tid>> {
        let tell = |event: &mut Writer, found: &Result<Vec<Tid>>| {
            let found = found.as_deref().unwrap_or_default();
            event.ints(Datum::SIB, &found.iter().map(|tid| tid.raw()).collect::<Vec<_>>());
        };
        self.traced(Event::Siblings, nothing, tell, |task| task.engine.siblings())
    }

    /// Leaves the virtual machine, after the output of collected tasks has ended.
    pub fn exit(mut self) -> Result<()> {
        if !self.engine.is_quiet() {
            self.record(Event::Exit, ENTRY, nothing);
            self.engine.flush_trace();
        }
        self.engine.exit()
    }

    /// Sends a message. It returns when the values have been copied, and waits while too many bytes are on their way to
    /// the receiver (`PVM_QUEUE_BYTES`; in shared memory `PVM_SHM_MAX`). A task that has exited gets nothing, and that is no error; [`Task::notify_exit`] reports exits.
    pub fn send(&mut self, to: Tid, tag: i32, pack: &Pack) -> Result<()> {
        let header = self.header(tag, pack);
        // Where the last message went is a task.
        if tag >= 0 && self.engine.is_quiet() && self.engine.send_at_once(to, header, pack.payload()) {
            return Ok(());
        }
        self.send_whole(to, header, pack)
    }

    fn send_whole(&mut self, to: Tid, header: MessageHeader, pack: &Pack) -> Result<()> {
        let tell = |event: &mut Writer| {
            event.int(Datum::MNB, pack.len() as i32).int(Datum::DST, to.raw());
            event.int(Datum::MC, header.tag).int(Datum::MCX, header.context);
        };
        self.traced(Event::Send, tell, status(Datum::CC), |task| {
            check_tag(header.tag)?;
            check_task(to)?;
            task.engine.send(to, header, pack.payload())
        })
    }

    /// Sends one message to several tasks: to each once, and not to this one. It goes on direct routes that are open, and crosses the network
    /// once for the other receivers of a host; from 32 KiB on, once for all of them.
    pub fn multicast(&mut self, to: &[Tid], tag: i32, pack: &Pack) -> Result<()> {
        let header = self.header(tag, pack);
        let tell = |event: &mut Writer| {
            let tids: Vec<i32> = to.iter().map(|tid| tid.raw()).collect();
            event.int(Datum::MNB, pack.len() as i32).int(Datum::MC, tag);
            event.int(Datum::MCX, header.context).ints(Datum::MDL, &tids);
        };
        self.traced(Event::Mcast, tell, status(Datum::CC), |task| {
            check_tag(tag)?;
            to.iter().try_for_each(|&tid| check_task(tid))?;
            task.engine.multicast(to, header, pack.payload())
        })
    }

    /// Waits for a message in the current context. Other messages that arrive meanwhile wait in a queue.
    ///
    /// [`PvmError::NoMem`]: more unread bytes have arrived than `PVM_QUEUE_MAX_BYTES` allows.
    pub fn recv(&mut self, from: impl Into<Source>, tag: impl Into<Tag>) -> Result<Received> {
        self.wait_for(from.into(), tag.into())
    }

    /// A message, if one has arrived. Does not wait. Each call considers the messages that earlier calls have seen, and one more. So a program
    /// that polls for several tags in turn gets the messages of one sender in the order of sending. `None` does not mean that no other message
    /// has arrived: poll again.
    pub fn try_recv(&mut self, from: impl Into<Source>, tag: impl Into<Tag>) -> Result<Option<Received>> {
        self.receive(Wait::Poll, from.into(), tag.into())
    }

    /// Waits for a message for this time; `None` when it is over. With a time of up to 2 ms it receives all that arrives, and considers one new
    /// message of each sender.
    pub fn recv_timeout(
        &mut self,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
        time: Duration,
    ) -> Result<Option<Received>> {
        self.receive(Wait::For(time), from.into(), tag.into())
    }

    /// A copy of a message, if one has arrived. The message itself stays in the queue. It considers the same messages as [`Task::try_recv`].
    pub fn probe(&mut self, from: impl Into<Source>, tag: impl Into<Tag>) -> Result<Option<Received>> {
        let (from, tag, context) = (from.into(), tag.into(), self.engine.context());
        let tell = |event: &mut Writer, found: &Result<Option<Received>>| {
            event.int(Datum::CC, code(found, |found| i32::from(found.is_some())));
        };
        self.traced(
            Event::Probe,
            |event| wanted(event, from, tag, context),
            tell,
            |task| {
                let mut wanted = filter(from, tag, context);
                let message = if context == group::CONTEXT {
                    task.engine.peek_of_members(&mut wanted)?
                } else {
                    task.engine.peek(&mut wanted)?
                };
                Ok(message.map(|message| Received::until(message, task.engine.has_left())))
            },
        )
    }

    fn wait_for(&mut self, from: Source, tag: Tag) -> Result<Received> {
        if let Some(near) = self.next_near(from, tag) {
            return Ok(near);
        }
        if self.engine.spinner_at_once().is_some_and(|spinner| spinner.spin_at_once())
            && let Some(near) = self.next_near(from, tag)
        {
            return Ok(near);
        }
        self.receive_whole(Wait::Forever, from, tag)?.ok_or_else(Error::lost)
    }

    fn receive(&mut self, wait: Wait, from: Source, tag: Tag) -> Result<Option<Received>> {
        match self.next_near(from, tag) {
            Some(near) => Ok(Some(near)),
            None => self.receive_whole(wait, from, tag),
        }
    }

    #[inline(never)]
    fn receive_whole(&mut self, wait: Wait, from: Source, tag: Tag) -> Result<Option<Received>> {
        let context = self.engine.context();
        let event = match wait {
            Wait::Forever => Event::Recv,
            Wait::Poll => Event::Nrecv,
            Wait::For(_) => Event::Trecv,
        };
        let tell = |event: &mut Writer| {
            wanted(event, from, tag, context);
            if let Wait::For(time) = wait {
                event.int(Datum::MTS, time.as_secs() as i32).int(Datum::MTU, time.subsec_micros() as i32);
            }
        };
        let tell_found =
            |event: &mut Writer, found: &Result<Option<Received>>| received(event, found, context);
        self.traced(event, tell, tell_found, |task| task.search(wait, from, tag))
    }

    fn search(&mut self, wait: Wait, from: Source, tag: Tag) -> Result<Option<Received>> {
        let mut wanted = filter(from, tag, self.engine.context());
        let begun = self.engine.begin_span();
        if begun.is_some() && wait != Wait::Poll {
            self.engine.report_before_wait();
        }
        let message = if self.engine.context() == group::CONTEXT {
            // For a program that asks for messages between group members, which are kept apart.
            self.engine.fetch_of_members(wait, &mut wanted)?
        } else {
            self.engine.receive(wait, &mut wanted)?
        };
        match &message {
            Some(message) => {
                self.engine.record_receive(begun, message.src, &message.header, message.body.len());
            }
            None => self.engine.record_wait(begun),
        }
        let has_left = self.engine.has_left();
        Ok(message.map(|message| Received::until(message, has_left)))
    }

    /// The fast path: the next message that a neighbour has put into a ring is the wanted one, and none is before it.
    #[inline(always)]
    fn next_near(&mut self, from: Source, tag: Tag) -> Option<Received> {
        if !self.engine.is_quiet() {
            return None;
        }
        let (context, dst) = (self.engine.context(), self.engine.tid());
        let wanted = |src: Tid, header: &MessageHeader| matches(src, header, from, tag, context);
        if let Some(near) = self.engine.next_near(wanted) {
            return Some(Received::near(&near, dst));
        }
        let message = self.engine.next_block(wanted)?;
        Some(Received::until(message, self.engine.has_left()))
    }

    /// Waits for the next message of any tag, sender and context: for programs that serve others' protocols.
    pub fn next_message(&mut self) -> Result<Message> {
        let message = self.engine.receive(Wait::Forever, &mut |_| true)?;
        Ok(message.ok_or_else(Error::lost)?.into_encoded()?)
    }

    /// The next message of any tag, sender and context, if one arrives within this time.
    pub fn next_message_timeout(&mut self, time: Duration) -> Result<Option<Message>> {
        let message = self.engine.receive(Wait::For(time), &mut |_| true)?;
        Ok(message.map(Message::into_encoded).transpose()?)
    }

    /// The next wanted message of any context, if one has arrived.
    pub fn poll_message(&mut self, mut wanted: impl FnMut(&Message) -> bool) -> Result<Option<Message>> {
        let message = self.engine.receive(Wait::Poll, &mut wanted)?;
        Ok(message.map(Message::into_encoded).transpose()?)
    }

    /// Sends a body with any tag, in any context, to tasks and daemons alike.
    #[expect(clippy::needless_pass_by_value, reason = "a body is made for one message")]
    pub fn send_message(&mut self, to: Tid, tag: i32, context: i32, body: Vec<u8>) -> Result<()> {
        self.engine.send(to, pvm_engine::xdr_header(tag, context, 0), Payload::Parts(&[&body]))
    }

    /// Collects the output of tasks spawned from now on and hands it to `sink` while the program is in any call that
    /// sends or receives. With `None` tasks spawned later are not collected.
    pub fn collect_output(&mut self, sink: Option<Box<dyn OutputSink>>) {
        self.engine.collect_output(sink);
    }

    /// Tasks whose collected output has not ended.
    pub fn collecting(&self) -> usize {
        self.engine.collecting()
    }

    /// Waits until the output of all collected tasks has ended.
    pub fn wait_for_collected(&mut self) -> Result<()> {
        self.engine.wait_for_collected()
    }

    /// Receives what has arrived into the queue, output of collected tasks included. Does not wait.
    pub fn poll(&mut self) -> Result<()> {
        self.engine.poll()
    }

    /// The descriptor of the connection to the daemon, readable when [`Task::poll`] has something to do; `None` once the daemon is gone.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.engine.keep_bell();
        self.engine.fd()
    }

    /// The current context: messages are sent and received in it.
    pub fn context(&self) -> i32 {
        self.engine.context()
    }

    /// Changes the current context and returns the one before.
    pub fn set_context(&mut self, context: i32) -> i32 {
        self.engine.set_context(context)
    }

    /// A context that no other task uses. [`PvmError::OutOfRes`]: this host has too many.
    pub fn new_context(&mut self) -> Result<i32> {
        let tell = |event: &mut Writer, made: &Result<i32>| {
            event.int(Datum::CXN, code(made, |&context| context));
        };
        self.traced(Event::Newcontext, nothing, tell, |task| task.engine.call(&Context { context: 0 }))
    }

    /// Frees a context. [`PvmError::NotFound`]: this task has not allocated it.
    pub fn free_context(&mut self, context: i32) -> Result<()> {
        let tell = |event: &mut Writer| {
            event.int(Datum::CXF, context);
        };
        self.traced(Event::Freecontext, tell, status(Datum::CC), |task| {
            // To the daemon 0 means a new one.
            if context <= 0 {
                return Err(Error::new(PvmError::BadParam, format!("{context} is no context to be freed")));
            }
            task.engine.call(&Context { context }).map(drop)
        })
    }

    /// The options (`pvm_getopt`).
    pub fn options(&self) -> &Options {
        self.engine.options()
    }

    /// The options, to be changed (`pvm_setopt`). A change takes effect with the next call. `own_output` and `own_trace` are the daemon's; changing
    /// them here has no effect.
    pub fn options_mut(&mut self) -> &mut Options {
        self.engine.options_mut()
    }

    /// Whether the connection to the daemon stands. It ends with the daemon, and when messages exceed `PVM_QUEUE_MAX_BYTES`; calls fail then.
    pub fn is_enrolled(&self) -> bool {
        self.engine.is_enrolled()
    }

    fn header(&self, tag: i32, pack: &Pack) -> MessageHeader {
        let (encoding, context) = (pack.encoding().word(), self.engine.context());
        MessageHeader { encoding, tag, context, wait_id: 0, checksum: 0 }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        notes::end();
        self.engine.flush_trace();
        self.engine.disconnect();
    }
}

fn filter(from: Source, tag: Tag, context: i32) -> impl FnMut(&Message) -> bool {
    move |message| matches(message.src, &message.header, from, tag, context)
}

pub(crate) fn check_tag(tag: i32) -> Result<()> {
    if tag < 0 {
        Err(Error::new(PvmError::BadParam, format!("{tag} is no tag: tags are not negative")))
    } else {
        Ok(())
    }
}

pub(crate) fn check_task(tid: Tid) -> Result<()> {
    if tid.is_task() { Ok(()) } else { Err(Error::not_a_task(tid)) }
}
