//! Views of groups: fetched once, and valid until the keeper's notice.

use super::mark::is_older;
use super::port::{Look, Notices, Port, Until};
use super::{Client, read_mark, server};
use crate::Result;
use pvm_wire::body::BodyReader;
use pvm_wire::group::{Request, View, tag};
use pvm_wire::{Message, Tid};
use std::ffi::OsStr;
use std::sync::Arc;

/// A notice of the keeper: the group that has changed, and its new epoch.
fn read_notice(body: &[u8]) -> Option<(&OsStr, i32)> {
    let mut reader = BodyReader::new(body);
    Some((reader.os_str().ok()?, reader.int().ok()?))
}

/// Whether this message says that the view is out of date.
pub fn outdates(message: &Message, server: Tid, name: &OsStr, view: &View) -> bool {
    let notice = message.src == server && message.header.tag == tag::CHANGED;
    notice && read_notice(&message.body).is_some_and(|(group, epoch)| group == name && epoch > view.epoch)
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
        let answer = self.ask(Request::View(name))?;
        let view = match View::decode(&answer.body)? {
            Ok(view) => Arc::new(view),
            Err(code) => return Err(server::check(code).err().unwrap_or_else(crate::Error::lost)),
        };
        self.groups.views.insert(name.to_owned(), view.clone());
        self.forget_messages(name, &view)?;
        Ok(view)
    }

    /// Drops the view that a notice of the keeper outdates.
    pub fn forget_view(&mut self, notice: &[u8]) {
        if let Some((name, epoch)) = read_notice(notice)
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
