//! What members say to each other in reductions, when they gather and when they scatter, and how they wait for it.
//!
//! In each call a member says one thing to each of those who wait for it: elements, or that there are none. It waits
//! only for those who are in the group and not at a barrier that waits for itself. If it gives up because one is lost, it hears no more in such calls until all
//! have met, since what the others said meanwhile would be taken for what they say then. What members say carries
//! their epoch: what was said before all met last is nobody's any more.

use super::port::{Port, Until};
use super::views::outdates;
use super::{Client, server};
use crate::groups::Part;
use crate::{Error, Result};
use pvm_wire::body::{BodyReader, BodyWriter};
use pvm_wire::group::{View, tag as tags};
use pvm_wire::{Message, PvmError, Tid};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::time::{Duration, Instant};

/// How often to ask the original's group server, which tells nobody when members die, whether one is still there.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// What a message between members belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Mark<'a> {
    /// The group.
    pub name: &'a OsStr,
    /// The call.
    pub call: Call,
    /// The sender's epoch.
    pub epoch: i32,
    /// Whether the sender has come since all met last: in a reduction it speaks for itself alone.
    pub is_new: bool,
}

impl<'a> Mark<'a> {
    /// The mark of what `own` says in a call.
    pub fn new(name: &'a OsStr, call: Call, view: &View, own: Tid) -> Self {
        Self { name, call, epoch: view.epoch, is_new: view.is_new(own) }
    }
}

/// Which call of a group: members that make the same one speak to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// The kind: one of the tags between members.
    pub what: i32,
    /// The program's tag.
    pub tag: i32,
    /// The instance of the root.
    pub root: i32,
}

/// A message between members, taken apart.
struct Said<'a> {
    mark: Mark<'a>,
    code: i32,
    data: &'a [u8],
}

impl<'a> Said<'a> {
    fn of(message: &'a Message) -> Option<Self> {
        let what = message.header.tag;
        if !matches!(what, tags::REDUCED | tags::GATHERED | tags::SCATTERED) {
            return None;
        }
        let mut reader = BodyReader::new(&message.body);
        let name = reader.os_str().ok()?;
        let [tag, root, epoch, is_new, code] = *reader.ints(5).ok()?.first_chunk()?;
        Some(Self {
            mark: Mark { name, call: Call { what, tag, root }, epoch, is_new: is_new != 0 },
            code,
            data: reader.rest(),
        })
    }
}

/// Whether a message was said in this group before this epoch.
pub fn is_older(message: &Message, name: &OsStr, epoch: i32) -> bool {
    Said::of(message).is_some_and(|said| said.mark.name == name && said.mark.epoch < epoch)
}

/// The elements of a message between members, or why there are none.
pub fn part(message: &Message) -> Result<Part<'_>> {
    let said = Said::of(message).ok_or(PvmError::BadMsg)?;
    server::check(said.code)?;
    Ok(Part { data: said.data, ..Part::of(message) })
}

impl<P: Port> Client<'_, P> {
    /// Sends elements to a member, or word that there are none; it is the outcome either way.
    pub fn send_marked(&mut self, to: Tid, mark: &Mark<'_>, elements: Result<Vec<u8>>) -> Result<()> {
        let code = elements.as_ref().err().map_or(0, |error| error.code().code());
        let mut body = BodyWriter::new()
            .str(mark.name)
            .ints([mark.call.tag, mark.call.root, mark.epoch, i32::from(mark.is_new), code])
            .finish();
        body.extend(elements.as_deref().unwrap_or_default());
        self.port.send(to, mark.call.what, &body)?;
        elements.map(drop)
    }

    /// What a member says to this mark, not before all met last.
    pub fn hear_marked(&mut self, from: Tid, mark: &Mark<'_>, view: &View) -> Result<Message> {
        let message = self.hear_while_there(mark.name, from, false, &|message| {
            let said = Said::of(message).filter(|_| message.src == from).map(|said| said.mark);
            said.is_some_and(|said| {
                said.name == mark.name && said.call == mark.call && said.epoch >= view.settled
            })
        })?;
        // It has left and come back, and nobody speaks for those in its old place.
        let other =
            Said::of(&message).is_none_or(|said| said.mark.is_new != (view.has(from) && view.is_new(from)));
        if other { Err(PvmError::NoInst.into()) } else { Ok(message) }
    }

    /// Whether this task may hear what others say: not if it has given up in such a call since all met last, nor if it
    /// has come after a loss, since others may have spoken before they knew of it.
    pub fn may_hear(&mut self, mark: &Mark<'_>, view: &View) -> Result<()> {
        let own = self.port.tid()?;
        let given_up = self.groups.given_up.get(mark.name);
        let has =
            given_up.is_some_and(|(settled, calls)| *settled == view.settled && calls.contains(&mark.call));
        let is_late = view.has_lost() && view.is_new(own);
        if has || is_late { Err(PvmError::NoInst.into()) } else { Ok(()) }
    }

    /// Gives up on what others say.
    pub fn give_up(&mut self, mark: &Mark<'_>, view: &View, error: Error) -> Error {
        let (settled, calls) = self.groups.given_up.entry(mark.name.to_owned()).or_default();
        if *settled != view.settled {
            (*settled, *calls) = (view.settled, BTreeSet::new());
        }
        calls.insert(mark.call);
        error
    }

    /// What a member has sent with this tag, in the original's format. If `all` must be there, members give up without a
    /// word once an instance is missing.
    pub fn hear_member(&mut self, name: &OsStr, from: Tid, tag: i32, all: bool) -> Result<Message> {
        let said = |message: &Message| message.src == from && message.header.tag == tag;
        if self.server()?.ours {
            return self.hear_while_there(name, from, all, &said);
        }
        loop {
            let again = Instant::now() + ASK_AGAIN;
            let until = self.deadline.map_or(again, |end| end.min(again));
            if let Some(message) = self.wait(Until::Time(until), &mut |message| said(message))? {
                return Ok(message);
            }
            if self.deadline.is_some_and(|end| Instant::now() >= end) {
                return Err(too_long());
            }
            if let Err(error) = self.instance_of(name, from) {
                return self.last_words(from, &said, error);
            }
        }
    }

    /// Waits for a message of a member as long as it may come, or as long as `all` instances are taken.
    fn hear_while_there(
        &mut self,
        name: &OsStr,
        from: Tid,
        all: bool,
        said: &dyn Fn(&Message) -> bool,
    ) -> Result<Message> {
        let keeper = self.server()?.tid;
        loop {
            let known = self.view(name)?;
            if !known.may_speak(from) || all && known.lacks_some() {
                return self.last_words(from, said, PvmError::NoInst.into());
            }
            let mut wanted = |message: &Message| said(message) || outdates(message, keeper, name, &known);
            let message = self.wait(self.until(), &mut wanted)?.ok_or_else(too_long)?;
            if said(&message) {
                return Ok(message);
            }
            self.forget_view(&message.body);
        }
    }

    /// What a task sent before it was lost, or the error if that is nothing.
    fn last_words(&mut self, from: Tid, said: &dyn Fn(&Message) -> bool, error: Error) -> Result<Message> {
        // The answer comes from its daemon, behind all that it has sent.
        self.is_alive(from.raw())?;
        self.wait(Until::Now, &mut |message| said(message))?.ok_or(error)
    }
}

fn too_long() -> Error {
    Error::new(PvmError::SysErr, "the other members took too long")
}
