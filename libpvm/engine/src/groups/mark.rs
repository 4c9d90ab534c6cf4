//! Messages between members in reductions, gathers and scatters, and the wait for them.
//!
//! In each call a member sends one message to each member that waits for it: elements, or that there are none. It waits
//! only for members that are in the group and not at a barrier that waits for itself. If it gives up because one is lost, it
//! receives nothing in such calls until the next barrier of all, since messages of the failed call would be taken for those of a
//! later one. Messages carry their sender's epoch: those from before the last barrier of all are dropped.

use super::port::{Port, Until};
use super::views::outdates;
use super::{Client, server};
use crate::groups::Part;
use crate::{Error, Result};
use pvm_wire::body::{BodyReader, BodyWriter};
use pvm_wire::group::{View, tag as tags};
use pvm_wire::{Encoding, Message, PvmError, Tid};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::time::{Duration, Instant};

/// How often to ask the original's group server, which reports no deaths, whether a member is still there.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The call to which a message between members belongs.
#[derive(Clone, Copy, Debug)]
pub struct Mark<'a> {
    /// The group.
    pub name: &'a OsStr,
    /// The call.
    pub call: Call,
    /// The sender's epoch.
    pub epoch: i32,
    /// Whether the sender has joined since the last barrier of all: in a reduction it sends its own elements only.
    pub is_new: bool,
}

impl<'a> Mark<'a> {
    /// The mark of a message that `own` sends in a call.
    pub fn new(name: &'a OsStr, call: Call, view: &View, own: Tid) -> Self {
        Self { name, call, epoch: view.epoch, is_new: view.is_new(own) }
    }
}

/// A call of a group: members that make the same call exchange messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// The kind: one of the tags between members.
    pub what: i32,
    /// The program's tag.
    pub tag: i32,
    /// The instance of the root.
    pub root: i32,
}

/// Elements of one member, as bytes.
pub type Elements<'a> = Cow<'a, [u8]>;

/// A message between members, taken apart.
struct MemberMessage<'a> {
    mark: Mark<'a>,
    code: i32,
    data: &'a [u8],
}

impl<'a> MemberMessage<'a> {
    fn of(message: &'a Message) -> Option<Self> {
        let what = message.header.tag;
        if !matches!(what, tags::REDUCED | tags::GATHERED | tags::SCATTERED) {
            return None;
        }
        let mut reader = BodyReader::new(&message.body);
        let name = reader.os_str().ok()?;
        let [tag, root, epoch, is_new, code] = reader.int_array().ok()?;
        Some(Self {
            mark: Mark { name, call: Call { what, tag, root }, epoch, is_new: is_new != 0 },
            code,
            data: reader.rest(),
        })
    }
}

/// Whether a message was sent in this group before this epoch.
pub fn is_older(message: &Message, name: &OsStr, epoch: i32) -> bool {
    MemberMessage::of(message).is_some_and(|sent| sent.mark.name == name && sent.mark.epoch < epoch)
}

/// The elements of a message between members, or why there are none.
pub fn elements(message: &Message) -> Result<Part<'_>> {
    let sent = MemberMessage::of(message).ok_or(PvmError::BadMsg)?;
    server::check(sent.code)?;
    Ok(Part { data: sent.data, ..Part::of(message) })
}

impl<P: Port> Client<'_, P> {
    /// Sends elements to a member, or that there are none, and returns their outcome.
    pub fn send_marked<'e>(
        &mut self,
        to: Tid,
        mark: &Mark<'_>,
        elements: impl FnOnce(Encoding) -> Result<Elements<'e>>,
    ) -> Result<()> {
        let born_near = self.own()?.to_host() == to.to_host();
        // Of the two one may have moved, to a host with another format.
        let is_near = self.port.record(|engine| engine.is_near(to)).unwrap_or(born_near);
        let encoding = if is_near { Encoding::Raw } else { Encoding::Xdr };
        let elements = elements(encoding);
        let code = elements.as_ref().err().map_or(0, |error| error.code().code());
        let head = BodyWriter::with_room(mark.name.len() + 32)
            .str(mark.name)
            .ints([mark.call.tag, mark.call.root, mark.epoch, i32::from(mark.is_new), code])
            .finish();
        let data = elements.as_deref().unwrap_or_default();
        self.port.send_encoded(to, mark.call.what, encoding, [&head, data])?;
        elements.map(drop)
    }

    /// A member's message with this mark, not from before the last barrier of all.
    pub fn receive_marked(&mut self, from: Tid, mark: &Mark<'_>, view: &View) -> Result<Message> {
        let message = self.receive_while_member(mark.name, from, false, &|message| {
            let sent = if message.src == from { MemberMessage::of(message) } else { None };
            sent.map(|sent| sent.mark).is_some_and(|sent| {
                sent.name == mark.name && sent.call == mark.call && sent.epoch >= view.settled
            })
        })?;
        // It has left and joined again, and nobody sends in its old place.
        let other = MemberMessage::of(&message)
            .is_none_or(|sent| sent.mark.is_new != (view.has(from) && view.is_new(from)));
        if other { Err(PvmError::NoInst.into()) } else { Ok(message) }
    }

    /// Whether this task may receive in a call: not if it has given up in such a call since the last barrier of all, nor if it
    /// has joined after a loss, since others may have sent before they knew of it.
    pub fn may_receive_marked(&mut self, mark: &Mark<'_>, view: &View) -> Result<()> {
        let own = self.own()?;
        let given_up = self.groups.given_up.get(mark.name);
        let has =
            given_up.is_some_and(|(settled, calls)| *settled == view.settled && calls.contains(&mark.call));
        let is_late = view.has_lost() && view.is_new(own);
        if has || is_late { Err(PvmError::NoInst.into()) } else { Ok(()) }
    }

    /// Gives up a call: its messages are not received until the next barrier of all.
    pub fn give_up(&mut self, mark: &Mark<'_>, view: &View, error: Error) -> Error {
        let (settled, calls) = self.groups.given_up.entry(mark.name.to_owned()).or_default();
        if *settled != view.settled {
            (*settled, *calls) = (view.settled, BTreeSet::new());
        }
        calls.insert(mark.call);
        error
    }

    /// A member's message with this tag, in the original's format. If `all` must be there, members give up without a
    /// message once an instance is missing.
    pub fn receive_from_member(&mut self, name: &OsStr, from: Tid, tag: i32, all: bool) -> Result<Message> {
        let is_wanted = |message: &Message| message.src == from && message.header.tag == tag;
        if self.server()?.ours {
            return self.receive_while_member(name, from, all, &is_wanted);
        }
        loop {
            let again = Instant::now() + ASK_AGAIN;
            let until = self.deadline.map_or(again, |end| end.min(again));
            if let Some(message) = self.wait(Until::Time(until), &mut |message| is_wanted(message))? {
                return Ok(message);
            }
            if self.deadline.is_some_and(|end| Instant::now() >= end) {
                return Err(too_long());
            }
            if let Err(error) = self.instance_of(name, from) {
                return self.last_message(from, &is_wanted, error);
            }
        }
    }

    /// Waits for a message of a member as long as it may arrive, or as long as `all` instances are taken.
    fn receive_while_member(
        &mut self,
        name: &OsStr,
        from: Tid,
        all: bool,
        is_wanted: &dyn Fn(&Message) -> bool,
    ) -> Result<Message> {
        // What is there, or about to come, is taken without a look at the view, for which the system may have to be asked.
        if let Some(message) = self.port.look_spinning(&mut |message| is_wanted(message))? {
            return Ok(message);
        }
        let keeper = self.server()?.tid;
        loop {
            let known = self.view(name)?;
            if !known.may_speak(from) || all && known.lacks_some() {
                return self.last_message(from, is_wanted, PvmError::NoInst.into());
            }
            let mut wanted =
                |message: &Message| is_wanted(message) || outdates(message, keeper, name, &known);
            let message = self.wait(self.until(), &mut wanted)?.ok_or_else(too_long)?;
            if is_wanted(&message) {
                return Ok(message);
            }
            self.forget_view(&message.body);
        }
    }

    /// A message that a task sent before it was lost, or the error if there is none.
    fn last_message(
        &mut self,
        from: Tid,
        is_wanted: &dyn Fn(&Message) -> bool,
        error: Error,
    ) -> Result<Message> {
        // The answer comes from its daemon, behind all messages of the task.
        self.is_alive(from.raw())?;
        self.wait(Until::Now, &mut |message| is_wanted(message))?.ok_or(error)
    }
}

fn too_long() -> Error {
    Error::new(PvmError::SysErr, "the other members took too long")
}
