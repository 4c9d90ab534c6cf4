//! Tasks that are told of incidents: hosts that are lost, and with them which tasks; tasks that end by a signal.
//!
//! A host that is lost cannot say what ran there. So a daemon whose tasks want to know has the others report the begin
//! and end of each of their tasks, and remembers which there are. Without such tasks nothing is reported.

use super::Core;
use super::addresses::ReplyTo;
use super::event::Action;
use super::flow::Source;
use super::hosts::DELETED;
use super::tasks::Task;
use pvm_wire::calls::state::{DiscardLogs, IncidentRequest};
use pvm_wire::codes::{CONTEXT_TC, INCIDENT_TAG};
use pvm_wire::daemon::{DaemonMsg, HostEntry};
use pvm_wire::incident::{Incident, signal_of};
use pvm_wire::{HostIndex, Tid};
use std::collections::{BTreeMap, BTreeSet};
use tracing::warn;

/// An observer that does not read is told no more while this many bytes wait for it.
const QUEUED_MAX: usize = 1 << 20;

/// Who is told, and what has to be known for that.
#[derive(Debug, Default)]
pub(super) struct Observers {
    /// Tasks of this host that are told, and what they have asked for.
    local: BTreeMap<Tid, IncidentRequest>,
    /// Hosts that are told of the begin and end of tasks here.
    remote: BTreeSet<HostIndex>,
    /// Tasks of other hosts with their programs' names, while a task here is told.
    known: BTreeMap<Tid, String>,
}

impl Observers {
    /// Tasks that are told, hosts that are told, tasks that are known.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.local.len(), self.remote.len(), self.known.len())
    }
}

impl Core {
    /// TMX_INCIDENTS: from now on the caller is told of incidents.
    pub(super) fn on_incidents_wanted(&mut self, tid: Tid, to: ReplyTo, request: IncidentRequest) {
        let first = self.observers.local.is_empty();
        self.observers.local.insert(tid, request);
        if first {
            self.tell_others(&DaemonMsg::Observe { on: true });
        }
        self.reply_to::<IncidentRequest>(to, &());
    }

    /// TMX_DISCARD_LOGS.
    pub(super) fn on_discard_logs_request(&mut self, to: ReplyTo) {
        self.tell_others(&DaemonMsg::DiscardLogs);
        self.out.act(Action::DiscardLog);
        self.reply_to::<DiscardLogs>(to, &());
    }

    fn tell_others(&mut self, message: &DaemonMsg) {
        let own = self.config.index;
        let others: Vec<HostIndex> =
            self.hosts.iter().map(|host| host.index).filter(|&host| host != own).collect();
        for host in others {
            self.tell(host, message.clone());
        }
    }

    /// Newcomers have to report, too.
    pub(super) fn observe_newcomers(&mut self, added: &[HostIndex]) {
        if self.observers.local.is_empty() {
            return;
        }
        let own = self.config.index;
        for &host in added.iter().filter(|&&host| host != own) {
            self.tell(host, DaemonMsg::Observe { on: true });
        }
    }

    /// A task has left the machine.
    pub(super) fn forget_observer(&mut self, tid: Tid) {
        if self.observers.local.remove(&tid).is_some() && self.observers.local.is_empty() {
            self.observers.known.clear();
            self.tell_others(&DaemonMsg::Observe { on: false });
        }
    }

    /// A host has begun or ceased to observe the tasks here.
    pub(super) fn on_observe(&mut self, host: HostIndex, on: bool) {
        if !on {
            self.observers.remote.remove(&host);
            return;
        }
        self.observers.remote.insert(host);
        let running = self.tasks.iter().filter(|task| !task.manager && task.pid != 0);
        let tasks: Vec<(Tid, String)> = running.map(|task| (task.tid, name_of(task))).collect();
        if !tasks.is_empty() {
            self.tell(host, DaemonMsg::TasksBegun { tasks });
        }
    }

    /// A task of this host runs.
    pub(super) fn observed_begin(&mut self, tid: Tid) {
        if self.observers.remote.is_empty() {
            return;
        }
        let Some(task) = self.tasks.get(tid).filter(|task| !task.manager) else { return };
        let tasks = vec![(tid, name_of(task))];
        for host in self.observers.remote.clone() {
            self.tell(host, DaemonMsg::TasksBegun { tasks: tasks.clone() });
        }
    }

    /// A task of this host is over.
    pub(super) fn observed_end(&mut self, task: &Task, status: i32) {
        if task.manager || task.pid == 0 {
            return;
        }
        let tid = task.tid;
        let intended = task.signalled.is_some() && task.signalled == signal_of(status);
        for host in self.observers.remote.clone() {
            self.tell(host, DaemonMsg::TaskOver { tid, status, intended });
        }
        if !self.observers.local.is_empty() {
            self.report_end(tid, name_of(task), status, intended);
        }
    }

    /// Tasks run on another host.
    pub(super) fn on_tasks_begun(&mut self, host: HostIndex, tasks: Vec<(Tid, String)>) {
        if !self.observers.local.is_empty() {
            self.observers.known.extend(tasks.into_iter().filter(|(tid, _)| tid.host() == Some(host)));
        }
    }

    /// A task of another host is over.
    pub(super) fn on_task_over(&mut self, tid: Tid, status: i32, intended: bool) {
        if let Some(name) = self.observers.known.remove(&tid) {
            self.report_end(tid, name, status, intended);
        }
    }

    /// A host is out, and all that ran there.
    pub(super) fn observed_host_gone(&mut self, entry: &HostEntry, reason: &str) {
        self.observers.remote.remove(&entry.index);
        let (lost, known) = std::mem::take(&mut self.observers.known)
            .into_iter()
            .partition(|(tid, _)| tid.host() == Some(entry.index));
        self.observers.known = known;
        if reason == DELETED {
            return;
        }
        let incident = Incident::HostLost {
            host: entry.index.host_tid(),
            name: entry.name.clone(),
            reason: reason.to_owned(),
            tasks: BTreeMap::into_iter(lost).collect(),
        };
        self.report(&incident, |_| true);
    }

    fn report_end(&mut self, tid: Tid, name: String, status: i32, intended: bool) {
        let incident = Incident::TaskEnded { tid, name, status, intended };
        let by_signal = signal_of(status).is_some() && !intended;
        self.report(&incident, |request| by_signal || request.every_end);
    }

    /// Tells the observers of this host that want to know.
    fn report(&mut self, incident: &Incident, wanted: impl Fn(IncidentRequest) -> bool) {
        let observers = self.observers.local.iter().filter(|(_, request)| wanted(**request));
        let reads = |tid: &Tid| self.tasks.get(*tid).is_some_and(|task| task.queued < QUEUED_MAX);
        let observers: Vec<Tid> = observers.map(|(&tid, _)| tid).filter(reads).collect();
        if observers.is_empty() {
            return;
        }
        match incident.encode() {
            Ok(body) => {
                for tid in observers {
                    self.send_message(Source::Daemon, tid, CONTEXT_TC, INCIDENT_TAG, body.clone());
                }
            }
            Err(error) => warn!(?incident, %error, "incident not reported"),
        }
    }
}

fn name_of(task: &Task) -> String {
    task.shown_name().to_string_lossy().into_owned()
}
