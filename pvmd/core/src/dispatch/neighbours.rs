//! Tasks of this host that write to each other in shared memory. They do it by themselves: the daemon hands the descriptors
//! over, and tells each when the other has ended.

use crate::Core;
use crate::event::{Action, Attachment, ConnId};
use crate::flow::Source;
use bytes::Bytes;
use pvm_wire::body::BodyWriter;
use pvm_wire::codes::{CONTEXT_TC, Tc, Tcx};
use pvm_wire::encoding::XDR_WORD;
use pvm_wire::header::{EOM, SOM};
use pvm_wire::{FragmentHeader, MessageHeader, Tid};
use std::collections::BTreeSet;

impl Core {
    /// A task's descriptors have come: the tasks that have waited for them meet it.
    pub(crate) fn on_share(&mut self, conn: ConnId) {
        let Some(state) = self.tasks.conns.get_mut(&conn) else { return };
        state.shares = true;
        if let Some(tid) = state.tid() {
            self.meet_callers(tid);
        }
    }

    /// What a task has lacked may be there now: the tasks that have waited for it meet it.
    pub(crate) fn meet_callers(&mut self, tid: Tid) {
        let conn = self.tasks.get(tid).and_then(|task| task.conn);
        let state = conn.and_then(|conn| self.tasks.conns.get_mut(&conn));
        let callers = state.map(|state| std::mem::take(&mut state.callers)).unwrap_or_default();
        for caller in callers {
            self.meet(caller, tid);
        }
    }

    /// A task wants to write to another. Until that shares its memory, too, it goes on by the daemon.
    pub(crate) fn on_meet(&mut self, tid: Tid, other: Tid) {
        if other == Tid::MY_DAEMON {
            self.meet_task(tid);
        } else if tid != other {
            self.meet(tid, other);
        }
    }

    /// A task wants to lend this daemon what it sends.
    fn meet_task(&mut self, tid: Tid) {
        let Some(conn) = self.sharing(tid) else { return };
        let body = BodyWriter::new().int(Tid::MY_DAEMON.raw()).finish();
        let (header, data) = self.fragment_to_library(tid, Tcx::Neighbour, &body);
        self.out.act(Action::Send { conn, header, data, with: Attachment::Memory });
    }

    /// A task reads this daemon's memory.
    pub(crate) fn on_known(&mut self, conn: ConnId) {
        if self.tasks.conns.get(&conn).is_some_and(|state| state.shares) {
            self.out.act(Action::LendTo { conn });
        }
    }

    /// Two tasks meet once nothing is kept for either. The notice that the other lives here may be among what is kept, and a library forgets
    /// its neighbour at such a notice: what that has written into its ring by then would be lost.
    fn meet(&mut self, tid: Tid, other: Tid) {
        if self.holding.attempt(other).is_some() {
            return self.call_later(tid, other);
        }
        if self.holding.attempt(tid).is_some() {
            return self.call_later(other, tid);
        }
        let Some(conn) = self.sharing(tid) else { return };
        let Some(its_conn) = self.sharing(other) else { return self.call_later(tid, other) };
        for (to, its, about, of) in [(tid, conn, other, its_conn), (other, its_conn, tid, conn)] {
            if let Some(task) = self.tasks.get_mut(to) {
                task.neighbours.insert(about);
            }
            self.tell_neighbour(to, its, about, of);
        }
    }

    fn call_later(&mut self, tid: Tid, other: Tid) {
        let conn = self.tasks.get(other).and_then(|task| task.conn);
        if let Some(state) = conn.and_then(|conn| self.tasks.conns.get_mut(&conn)) {
            state.callers.insert(tid);
        }
    }

    fn sharing(&self, tid: Tid) -> Option<ConnId> {
        let conn = self.tasks.get(tid)?.conn?;
        self.tasks.conns.get(&conn).filter(|conn| conn.shares).map(|_| conn)
    }

    fn tell_neighbour(&mut self, to: Tid, conn: ConnId, about: Tid, of: ConnId) {
        let body = BodyWriter::new().int(about.raw()).finish();
        let (header, data) = self.fragment_to_library(to, Tcx::Neighbour, &body);
        self.out.act(Action::Send { conn, header, data, with: Attachment::Shared(of) });
    }

    /// A message to a task's library with which descriptors will go: so it has to be one fragment.
    pub(crate) fn fragment_to_library(&mut self, to: Tid, kind: Tcx, body: &[u8]) -> (FragmentHeader, Bytes) {
        let message = MessageHeader {
            encoding: XDR_WORD,
            tag: kind.tag(),
            context: CONTEXT_TC,
            ..MessageHeader::default()
        };
        let data = [&message.encode()[..], body].concat();
        let header =
            FragmentHeader { dst: to, src: Tid::MY_DAEMON, length: data.len() as u32, flags: SOM | EOM };
        if let Some(task) = self.tasks.get_mut(to) {
            task.queued += FragmentHeader::SIZE + data.len();
        }
        (header, data.into())
    }

    /// A task has ended or left: its neighbours are told.
    pub(crate) fn forget_neighbours(&mut self, tid: Tid, neighbours: BTreeSet<Tid>) {
        for neighbour in neighbours {
            let Some(task) = self.tasks.get_mut(neighbour) else { continue };
            task.neighbours.remove(&tid);
            let body = BodyWriter::new().int(tid.raw()).finish();
            self.send_message(Source::Daemon, neighbour, CONTEXT_TC, Tc::TaskExit.tag(), body);
        }
    }
}
