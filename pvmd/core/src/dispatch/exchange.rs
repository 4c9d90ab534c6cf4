//! What this host and the master say to each other.

use crate::Core;
use crate::addresses::Waiter;
use crate::event::Action;
use crate::places::Places;
use crate::spawn::AgentEvent;
use crate::timers::Timer;
use pvm_wire::HostIndex;
use pvm_wire::daemon::{FromMaster, MasterRequest, ToMaster};
use tracing::{error, info, warn};

impl Core {
    /// Says something to the master, now or when there is one.
    pub(crate) fn tell_master(&mut self, what: ToMaster) {
        let message = self.exchange.say(what);
        if let Some(master) = self.hosts.master() {
            self.tell(master, message);
        }
    }

    /// A host says that it is the master.
    pub(crate) fn on_new_master(&mut self, host: HostIndex, reign: u64) {
        if !self.hosts.contains(host) {
            return warn!(%host, "a host that is no member says that it is the master: ignored");
        }
        let Some(again) = self.exchange.follow(reign) else { return };
        if self.is_master() && host != self.config.index {
            return self.end("another host has become the master meanwhile");
        }
        info!(%host, reign, "is the master");
        self.hosts.set_master(Some(host));
        self.agents.tell_all(|_| AgentEvent::Centre);
        self.loads.new_master();
        self.rows_of_new_master();
        self.owners_of_new_master();
        self.watching.note_change();
        for timer in [Timer::Orphan, Timer::Candidate] {
            self.out.timers.cancel(timer);
        }
        for message in again {
            self.tell(host, message);
        }
        // The next one need not say that again.
        if let Some(message) = self.exchange.acknowledge() {
            self.tell(host, message);
        }
    }

    /// The master says something.
    pub(crate) fn on_from_master(&mut self, host: HostIndex, number: u64, heard: u64, what: FromMaster) {
        if self.hosts.master() != Some(host) {
            return warn!(%host, "word of a host that is not the master: ignored");
        }
        self.on_heard_by_master(heard);
        if !self.exchange.hear(number, &what) {
            return;
        }
        match what {
            FromMaster::Reply { id, what } => self.on_master_reply(id, what),
            FromMaster::TableUpdate { serial, members, added, moved } => {
                if !moved.is_empty() {
                    self.hosts.places = Places::of(moved);
                }
                match (members.entries(), added.entries()) {
                    (Ok(members), Ok(added)) => {
                        self.hosts.prepare(serial, members, added);
                        let slots = self.config.slots;
                        self.tell_master(ToMaster::TableAck { serial, slots, saved: self.config.stamp });
                    }
                    (Err(error), _) | (_, Err(error)) => {
                        error!(%error, "the master's table cannot be read: not acknowledged");
                    }
                }
            }
            FromMaster::TableCommit { serial } => self.on_table_commit(serial),
            FromMaster::HostGone { host, reason } => self.host_gone(host, &reason),
            FromMaster::WatchTask { tid } => {
                if self.tasks.get(tid).is_some() {
                    self.exchange.watch(tid);
                } else {
                    self.tell_master(ToMaster::TaskGone { tid });
                }
            }
            FromMaster::Ping { id } => self.tell_master(ToMaster::Pong { id }),
            FromMaster::Keeper { to, context, tag, body } => {
                self.deliver_from_keeper(&to, context, tag, &body);
            }
            FromMaster::StartDaemon { host: index, command, timeout } => {
                self.out.act(Action::StartDaemon { index, command, timeout });
            }
            FromMaster::MoveBegun(attempt) => self.on_move_begun(attempt),
            FromMaster::MoveRefused(attempt) => self.on_move_refused(attempt),
            FromMaster::Moved { attempt, to } => self.on_moved(attempt, to),
            FromMaster::MovedTaskGone { tid } => self.on_moved_task_gone(tid),
            FromMaster::RunTasks(order) => self.on_run_tasks(*order),
            FromMaster::MeasureLink { to } => self.on_measure_link(to),
            FromMaster::SendSavedJobs => self.out.act(Action::ReadSaved),
            FromMaster::EndTasks { job } => self.on_end_tasks(job),
            FromMaster::StopTasks { job, tasks } => self.on_stop_tasks(job, &tasks),
            FromMaster::Deputies { hosts } => {
                self.exchange.set_deputies(hosts);
                self.watching.note_change();
            }
        }
        if let (Some(message), Some(master)) = (self.exchange.owed(), self.hosts.master()) {
            self.tell(master, message);
        }
    }

    /// The master has heard what this host has said up to this number.
    pub(crate) fn on_heard_by_master(&mut self, number: u64) {
        self.exchange.heard_by_master(number);
        self.note_keeper_drained();
    }

    /// Asks the master for something.
    pub(crate) fn ask_master(&mut self, what: MasterRequest, waiter: Waiter) {
        let id = self.pending.ask(None, waiter);
        self.tell_master(ToMaster::Request { id, what });
    }
}
