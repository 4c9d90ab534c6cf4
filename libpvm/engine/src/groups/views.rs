//! Views of groups: fetched once, and valid until the keeper's notice.

use super::mark::is_older;
use super::port::{Look, Notices, Port, Until};
use super::{Client, read_mark, server};
use crate::Result;
use pvm_shm::ledger;
use pvm_wire::group::{Key, Notice, Request, View, tag};
use pvm_wire::{Message, Tid};
use std::ffi::OsStr;
use std::sync::Arc;

/// Whether this message says that the view is out of date.
pub fn outdates(message: &Message, server: Tid, name: &OsStr, view: &View) -> bool {
    let is_notice = message.src == server && message.header.tag == tag::CHANGED;
    is_notice
        && Notice::decode(&message.body).is_ok_and(|notice| notice.name == name && notice.epoch > view.epoch)
}

impl<P: Port> Client<'_, P> {
    /// The group as it is now.
    pub fn view(&mut self, name: &OsStr) -> Result<Arc<View>> {
        let keeper = self.server()?.tid;
        // Notices of a gate are for waiting members only.
        let mut notice = |message: &Message| match message.header.tag {
            tag::CHANGED => message.src == keeper,
            other => other == tag::MOVED,
        };
        let place = self.port.notices();
        while let Some(message) = match place {
            Notices::Nowhere => None,
            Notices::Queued => match self.port.look(&mut 0, &mut notice)? {
                Look::Found(message) => Some(message),
                Look::Spin(_) | Look::Nothing => None,
            },
            Notices::Anywhere => self.wait(Until::Now, &mut notice)?,
        } {
            if message.header.tag == tag::CHANGED {
                self.forget_view(&message.body);
            }
        }
        if let Some(view) = self.groups.views.get(name) {
            return Ok(view.clone());
        }
        let view = loop {
            let has_ledger = self.port.with_ledger(|memory| ledger::enter(memory, Key::of(name)).is_some());
            let answer = self.ask(Request::View(name, has_ledger))?;
            let view = match View::decode(&answer.body)? {
                Ok(view) => view,
                Err(code) => return Err(server::check(code).err().unwrap_or_else(crate::Error::lost)),
            };
            if !view.barriers || self.open_ledger(name, &view) {
                break Arc::new(view);
            }
        };
        self.groups.views.insert(name.to_owned(), view.clone());
        self.forget_messages(name, &view)?;
        Ok(view)
    }

    /// From now on this task may pass barriers in this view; `false` if the view is out of date.
    fn open_ledger(&mut self, name: &OsStr, view: &View) -> bool {
        let key = Key::of(name);
        self.port.with_ledger(|memory| {
            ledger::enter(memory, key).is_some_and(|entry| ledger::open(memory, entry, view.epoch, view.turn))
        })
    }

    /// Passes the next barrier of a view, unless the group has changed.
    pub fn pass(&mut self, name: &OsStr, view: &View) -> bool {
        let key = Key::of(name);
        self.port.with_ledger(|memory| {
            ledger::enter(memory, key).is_some_and(|entry| ledger::pass(memory, entry, view.turn))
        })
    }

    /// Tells the keeper what this task has passed in a group that it leaves.
    pub fn report_passed(&mut self, name: &OsStr) -> Result<()> {
        let (key, mut passed) = (Key::of(name), None);
        self.port.with_ledger(|memory| {
            passed = ledger::leave(memory, key);
            true
        });
        let Some(passed) = passed else { return Ok(()) };
        let (keeper, request) = (self.server()?.tid, Request::Passed(key, Some(passed)));
        self.port.send(keeper, request.tag(), &request.encode())
    }

    /// Drops the view that a notice of the keeper outdates.
    pub fn forget_view(&mut self, notice: &[u8]) {
        if let Ok(Notice { name, epoch, .. }) = Notice::decode(notice)
            && self.groups.views.get(name).is_some_and(|view| view.epoch < epoch)
        {
            self.groups.views.remove(name);
        }
    }

    /// Drops members' messages about barriers of older epochs, and about other calls before the last barrier of all: nobody
    /// waits for them any more.
    fn forget_messages(&mut self, name: &OsStr, view: &View) -> Result<()> {
        let mut old = |message: &Message| {
            if is_older(message, name, view.settled) {
                return true;
            }
            let about_barriers = matches!(message.header.tag, tag::ARRIVED | tag::RELEASED);
            let mark = read_mark(&message.body).filter(|_| about_barriers);
            mark.is_some_and(|(group, [epoch, _], _)| group == name && epoch < view.epoch)
        };
        while self.wait(Until::Now, &mut old)?.is_some() {}
        Ok(())
    }
}
