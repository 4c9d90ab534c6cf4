//! Teams that take turns: which tasks belong to them, and the page that says whose turn it is.

use crate::Core;
use crate::decision::Decision;
use crate::event::{Action, Attachment};
use crate::tasks::Tasks;
use crate::teams::Teams;
use pvm_wire::codes::Tcx;
use pvm_wire::{PvmError, Tid};

impl Core {
    /// Has the teams decide something, and carries out what follows.
    pub(crate) fn teams<R>(&mut self, decide: impl FnOnce(&mut Teams, &Tasks, &mut Decision<'_>) -> R) -> R {
        self.effects(|core, out| {
            let known = (&core.config, &core.hosts, &core.loads, &core.owners);
            let at = &mut Decision::new(known, core.now, out);
            decide(&mut core.teams, &core.tasks, at)
        })
    }

    /// One more task of this team.
    pub(crate) fn enlist(&mut self, tid: Tid, name: &str) {
        if let Some(task) = self.tasks.get_mut(tid) {
            self.teams.enlist(task, name);
        }
    }

    /// A task says to which team it belongs.
    pub(crate) fn on_team(&mut self, tid: Tid, name: &str) -> Result<(), PvmError> {
        self.effects(|core, out| {
            let known = (&core.config, &core.hosts, &core.loads, &core.owners);
            let at = &mut Decision::new(known, core.now, out);
            core.teams.on_team(tid, name, &mut core.tasks, at)
        })
    }

    /// A task wants to read the page. There is none before somebody does.
    pub(crate) fn on_page_wanted(&mut self, tid: Tid, direct: bool) {
        let Some((team, conn)) = self.tasks.get(tid).and_then(|task| Some((task.team, task.conn?))) else {
            return;
        };
        if direct {
            self.teams.goes_direct(team);
        }
        if let Some(turn) = self.teams.first_reader() {
            self.out.act(Action::ShowTurn { turn });
        }
        let (header, data) = self.fragment_to_library(tid, Tcx::Page, &[]);
        self.out.act(Action::Send { conn, header, data, with: Attachment::Page });
    }
}
