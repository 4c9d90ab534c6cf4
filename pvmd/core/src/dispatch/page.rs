//! The page on which this host tells its tasks whose turn it is, and what tasks have been told of other hosts' on direct routes.

use crate::Core;
use crate::event::{Action, Attachment};
use pvm_sched::coscheduling::Epoch;
use pvm_wire::calls::turns as told;
use pvm_wire::codes::Tcx;
use pvm_wire::coscheduling::Turn;
use pvm_wire::{HostIndex, Tid};

impl Core {
    /// A task wants to read the page. There is none before somebody does.
    pub(crate) fn on_page_wanted(&mut self, tid: Tid) {
        let Some(task) = self.tasks.get(tid) else { return };
        self.teams.scheduler.goes_direct(task.team);
        let Some(conn) = task.conn else { return };
        if self.teams.shown.is_none() {
            let turn = self.teams.page();
            self.teams.shown = Some(turn);
            self.out.act(Action::ShowTurn { turn });
        }
        let (header, data) = self.fragment_to_library(tid, Tcx::Page, &[]);
        self.out.act(Action::Send { conn, header, data, with: Attachment::Page });
    }

    /// Keeps the page as it is to be. Called when all has been done that an event entails.
    pub(crate) fn show_turn(&mut self) {
        let Some(shown) = self.teams.shown else { return };
        let turn = self.teams.page();
        if turn != shown {
            self.teams.shown = Some(turn);
            self.out.act(Action::ShowTurn { turn });
        }
    }

    /// A task has been told the epoch of another host's task on a direct route.
    pub(crate) fn on_told_epoch(&mut self, tid: Tid, &told::Epoch { by, count, origin }: &told::Epoch) {
        let is_elsewhere =
            by.host().is_some_and(|host| host != self.config.index && self.hosts.contains(host));
        let origin = u32::try_from(origin).ok().and_then(HostIndex::new);
        if let Some(origin) = origin.filter(|_| is_elsewhere) {
            let told = Turn { count, ..Turn::default() };
            let count = told.whole_count(self.teams.scheduler.epoch().count);
            self.arrived(tid, Epoch { count, origin: origin.get() });
        }
    }
}
