//! Owners of hosts: what is said of them, and what follows for the tasks of this host.

use crate::Core;
use crate::addresses::{PeerTo, ReplyTo, Waiter};
use crate::effect::Effect;
use crate::event::{Action, OwnerSign};
use crate::moves::Departure;
use crate::spawn::Node;
use crate::tasks::{Item, Movability, Report, Task};
use crate::timers::Timer;
use pvm_sched::allocation::agent::Event as AgentEvent;
use pvm_wire::calls::owner::Owner;
use pvm_wire::daemon::{DaemonMsg, PeerReply, PeerRequest};
use pvm_wire::owner::{Held, OwnerSaid};
use pvm_wire::spawn::flags;
use pvm_wire::{HostIndex, PvmError, Tid};
use std::time::Duration;
use tracing::{debug, info};

/// Within this time a host is to be left to its owner: tasks that have not moved by then are held.
const VACATED: Duration = Duration::from_secs(2);

impl Core {
    /// Something tells of this host's owner.
    pub(crate) fn on_owner_sign(&mut self, sign: OwnerSign) {
        if let Some(left) = self.owners.sign(sign, self.now) {
            self.set_timer(left, Timer::Owner);
        }
        self.decide_owner();
    }

    /// A task wants to know of a host's owner, or says something of that.
    pub(crate) fn on_owner_asked(&mut self, to: ReplyTo, call: &Owner) {
        let said = OwnerSaid::numbered(call.said);
        match call.host.host().filter(|&index| self.hosts.contains(index)) {
            None => self.reply_error(to, PvmError::NoHost),
            Some(_) if call.said != 0 && said.is_none() => self.reply_error(to, PvmError::BadParam),
            Some(index) => self.ask(index, PeerRequest::Owner { said }, Waiter::Owner(to)),
        }
    }

    /// A daemon wants to know of this host's owner.
    pub(crate) fn on_owner_wanted(&mut self, to: PeerTo, said: Option<OwnerSaid>) {
        if let Some(said) = said {
            self.owners.say(said);
            self.decide_owner();
        }
        let tasks = self.tasks.iter().filter(|task| task.can_be_held()).count();
        let state = self.owners.state(u32::try_from(tasks).unwrap_or(u32::MAX));
        self.answer(to, PeerReply::Owner { state });
    }

    /// Decides anew whether the owner is there, and has tasks held or let go.
    pub(crate) fn decide_owner(&mut self) {
        let Some(is_here) = self.owners.decide(self.now) else { return };
        info!(is_here, "the owner of this host");
        if is_here {
            // Held tasks take no turns: their teams would wait for them on all hosts.
            self.teams(|teams, tasks, at| teams.suspend(true, tasks, at));
            self.move_tasks_away();
            self.hold_tasks();
        } else {
            self.out.timers.cancel(Timer::Vacate);
            self.out.act(Action::LetTasksGo);
            self.give_way(true);
            // After that, as teams whose turn it is not are held again.
            self.teams(|teams, tasks, at| teams.suspend(false, tasks, at));
            self.start_job_tasks();
            self.node(Node::on_room);
        }
        self.agents.tell_all(|_| AgentEvent::Load);
        self.report_owner();
    }

    /// A task has begun, perhaps while the owner is there.
    pub(crate) fn hold_tasks(&mut self) {
        if !self.owners.is_own_here() {
            return;
        }
        let spared =
            self.tasks.iter().filter(|task| task.pid > 1 && (task.manager || self.is_leaving(task.tid)));
        let spared = spared.map(|task| task.pid).collect();
        self.out.act(Action::HoldTasks { spared, held: self.owners.held() });
        self.give_way(false);
        self.leave_to_owner();
    }

    /// Tasks that can move do. Up to a time they are not held, lest they cannot.
    fn move_tasks_away(&mut self) {
        let movable = self.tasks.iter().filter(|task| task.movability == Movability::Movable);
        let movable: Vec<Tid> = movable.map(|task| task.tid).collect();
        self.set_timer(VACATED, Timer::Vacate);
        for tid in movable {
            self.move_away(tid);
        }
    }

    /// A task that can move does, if there is another host. One that does not stays, held.
    pub(crate) fn move_away(&mut self, tid: Tid) {
        if let Err((error, reason)) = self.begin_move(tid, None, None) {
            debug!(task = %tid, error = error.name(), reason, "does not move away from the owner");
        }
    }

    /// Whether a task needs the processor to leave.
    fn is_leaving(&self, tid: Tid) -> bool {
        let is_asked = self.moves.departures.get(&tid).is_some_and(Departure::is_asked);
        is_asked || self.moves.is_to_leave(tid) && self.out.timers.is_set(Timer::Vacate)
    }

    /// Tasks of queued batches that may begin again end here. Those of jobs leave on the master's word.
    fn leave_to_owner(&mut self) {
        let may_begin_again = |task: &&Task| task.can_be_held() && task.spawn_flags & flags::RESTARTS != 0;
        let can_leave = |task: &Task| match task.report {
            Report::End(item) if !self.moves.is_to_leave(task.tid) => Some((task.tid, item)),
            _ => None,
        };
        let leaving: Vec<(Tid, Item)> =
            self.tasks.iter().filter(may_begin_again).filter_map(can_leave).collect();
        for (tid, item) in leaving {
            if let Some(task) = self.tasks.get_mut(tid) {
                task.report = Report::Leaving(item);
            }
            self.end_with_grace(tid);
        }
    }

    /// Where control groups divide the processors, a task at the least share needs a group of its own.
    fn give_way(&mut self, runs: bool) {
        if self.owners.held() == Held::Least {
            let held = self.tasks.iter().filter(|task| task.can_be_held());
            let pids: Vec<i32> = held.map(|task| task.pid).collect();
            for pid in pids {
                self.out.act(Action::Dispatch { pid, runs });
            }
        }
    }

    /// Tells the master what it does not know of this host's owner.
    pub(crate) fn report_owner(&mut self) {
        if let Some(master) = self.hosts.master()
            && let Some(is_here) = self.owners.take_report()
        {
            self.tell(master, DaemonMsg::Owner { is_here });
        }
    }

    /// As the master: a host tells of its owner.
    pub(crate) fn on_owner_told(&mut self, host: HostIndex, is_here: bool) {
        if self.is_master() && self.hosts.contains(host) {
            self.owners.heard(host, is_here);
            self.pass_owners_on();
        }
    }

    /// As the master: tells all whose owners are there, and the queues, if that is news.
    pub(crate) fn pass_owners_on(&mut self) {
        if self.is_master()
            && let Some(hosts) = self.owners.take_news()
        {
            self.effects(|_, out| out.push(Effect::TellMembers(DaemonMsg::Owners(hosts))));
            self.advance_jobs();
        }
    }

    /// There is another master, which may be this host.
    pub(crate) fn owners_of_new_master(&mut self) {
        self.owners.new_master();
        self.report_owner();
    }
}
