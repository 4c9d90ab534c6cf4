//! Tasks that are told of incidents: hosts that are lost, and with them which tasks; tasks that end by a signal.
//!
//! A host that is lost cannot say what ran there. So a daemon whose tasks want to know has the others report the begin
//! and end of each of their tasks, and remembers which there are. Without such tasks nothing is reported.

use super::effect::{Effect, Effects, Mark};
use super::hosts::DELETED;
use super::places::Places;
use pvm_wire::calls::state::IncidentRequest;
use pvm_wire::codes::{CONTEXT_TC, INCIDENT_TAG};
use pvm_wire::daemon::{DaemonMsg, HostEntry};
use pvm_wire::incident::{Incident, signal_of};
use pvm_wire::{HostIndex, Tid};
use std::collections::{BTreeMap, BTreeSet};
use tracing::warn;

/// An observer that does not read is told no more while this many bytes wait for it.
pub(crate) const QUEUED_MAX: usize = 1 << 20;

/// The observers, and what has to be known for them.
#[derive(Debug, Default)]
pub(crate) struct Observers {
    /// Tasks of this host that are told, and what they have asked for.
    local: BTreeMap<Tid, IncidentRequest>,
    /// Hosts that are told of the begin and end of tasks here.
    remote: BTreeSet<HostIndex>,
    /// Tasks of other hosts with their programs' names, while a task here is told.
    known: BTreeMap<Tid, String>,
    /// Tasks that hosts have said run there, while as far as is known here they do not live there: the master's word that they have moved
    /// may come later.
    early: BTreeMap<Tid, (HostIndex, String)>,
}

/// How a task has ended.
#[derive(Debug)]
pub(crate) struct End {
    pub tid: Tid,
    pub name: String,
    /// What `wait` said.
    pub status: i32,
    /// By a signal that was sent to it through the virtual machine.
    pub intended: bool,
}

impl Observers {
    /// Tasks that are told, hosts that are told, tasks that are known.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.local.len(), self.remote.len(), self.known.len())
    }

    /// TMX_INCIDENTS: from now on this task of this host is told of incidents.
    pub fn add(&mut self, tid: Tid, request: IncidentRequest, out: &mut Effects) {
        let first = self.local.is_empty();
        self.local.insert(tid, request);
        if first {
            out.push(Effect::TellMembers(DaemonMsg::Observe { on: true }));
        }
    }

    /// What a task of this host has asked for.
    pub fn request(&self, tid: Tid) -> Option<IncidentRequest> {
        self.local.get(&tid).copied()
    }

    /// Newcomers have to report, too.
    pub fn hosts_added(&self, added: impl Iterator<Item = HostIndex>, out: &mut Effects) {
        if !self.local.is_empty() {
            added.for_each(|host| out.tell(host, DaemonMsg::Observe { on: true }));
        }
    }

    /// A task has left the machine.
    pub fn forget(&mut self, tid: Tid, out: &mut Effects) {
        if self.local.remove(&tid).is_some() && self.local.is_empty() {
            self.known.clear();
            self.early.clear();
            out.push(Effect::TellMembers(DaemonMsg::Observe { on: false }));
        }
    }

    /// A host observes the tasks here, of which these run, or does so no more.
    pub fn on_observe(&mut self, host: HostIndex, on: bool, tasks: Vec<(Tid, String)>, out: &mut Effects) {
        if !on {
            self.remote.remove(&host);
            return;
        }
        self.remote.insert(host);
        out.tell(host, DaemonMsg::TasksRunning { tasks });
    }

    /// A task of this host runs.
    pub fn task_begun(&self, tid: Tid, name: impl Fn() -> String, out: &mut Effects) {
        for &host in &self.remote {
            out.tell(host, DaemonMsg::TaskBegun { tid, name: name() });
        }
    }

    /// A task of this host is over. Only observers that read are told.
    pub fn task_ended(&self, end: End, reads: impl Fn(Tid) -> bool, out: &mut Effects) {
        let End { tid, status, intended, .. } = end;
        for &host in &self.remote {
            out.tell(host, DaemonMsg::TaskOver { tid, status, intended });
        }
        self.report_end(end, reads, out);
    }

    /// Only these tasks run on another host.
    ///
    /// A report that was sent for an earlier observer may have come before, of a task that ended after the host had
    /// heard that nobody observes: nothing else would take that task back.
    pub fn on_tasks_running(&mut self, host: HostIndex, tasks: Vec<(Tid, String)>, places: &Places) {
        if !self.local.is_empty() {
            self.known.retain(|tid, _| places.find(*tid) != Some(host));
            self.early.retain(|_, (by, _)| *by != host);
            for (tid, name) in tasks {
                if places.find(tid) == Some(host) {
                    self.known.insert(tid, name);
                } else {
                    self.early.insert(tid, (host, name));
                }
            }
        }
    }

    /// A task of another host lives on a third one now.
    pub fn moved(&mut self, tid: Tid, to: HostIndex) {
        // The host to which it has moved from there may have reported it already.
        if self.early.get(&tid).is_some_and(|(host, _)| *host == to)
            && let Some((_, name)) = self.early.remove(&tid)
        {
            self.known.insert(tid, name);
        }
    }

    /// A task is over that had moved, and all reports of it have come, or will not count.
    pub fn moved_gone(&mut self, tid: Tid) {
        self.early.remove(&tid);
    }

    /// A task of another host runs.
    pub fn on_task_begun(&mut self, tid: Tid, name: String) {
        if !self.local.is_empty() {
            self.known.insert(tid, name);
        }
    }

    /// A task lives on this host now.
    pub fn has_come(&mut self, tid: Tid) {
        self.known.remove(&tid);
        self.early.remove(&tid);
    }

    /// A task of another host is over.
    pub fn on_task_over(
        &mut self,
        tid: Tid,
        status: i32,
        intended: bool,
        reads: impl Fn(Tid) -> bool,
        out: &mut Effects,
    ) {
        let early = self.early.remove(&tid).map(|(_, name)| name);
        if let Some(name) = self.known.remove(&tid).or(early) {
            self.report_end(End { tid, name, status, intended }, reads, out);
        }
    }

    /// A host is out, and all that ran there.
    pub fn host_gone(
        &mut self,
        entry: &HostEntry,
        reason: &str,
        places: &Places,
        reads: impl Fn(Tid) -> bool,
        out: &mut Effects,
    ) {
        self.remote.remove(&entry.index);
        self.early.retain(|_, (host, _)| *host != entry.index);
        let (lost, known) = std::mem::take(&mut self.known)
            .into_iter()
            .partition(|(tid, _)| places.find(*tid) == Some(entry.index));
        self.known = known;
        if reason == DELETED {
            return;
        }
        let incident = Incident::HostLost {
            host: entry.index.host_tid(),
            name: entry.name.clone(),
            reason: reason.to_owned(),
            tasks: BTreeMap::into_iter(lost).collect(),
        };
        self.report(&incident, |tid, _| reads(tid), out);
    }

    fn report_end(&self, end: End, reads: impl Fn(Tid) -> bool, out: &mut Effects) {
        let End { tid, name, status, intended } = end;
        let incident = Incident::TaskEnded { tid, name, status, intended };
        let by_signal = signal_of(status).is_some() && !intended;
        self.report(&incident, |tid, request| (by_signal || request.every_end) && reads(tid), out);
    }

    /// Tells the observers of this host that want to know.
    fn report(&self, incident: &Incident, wants: impl Fn(Tid, IncidentRequest) -> bool, out: &mut Effects) {
        let observers = self.local.iter().filter(|&(&tid, &request)| wants(tid, request));
        let observers: Vec<Tid> = observers.map(|(&tid, _)| tid).collect();
        if observers.is_empty() {
            return;
        }
        match incident.encode() {
            Ok(body) => {
                for tid in observers {
                    out.send(tid, Mark::new(CONTEXT_TC, INCIDENT_TAG), body.clone());
                }
            }
            Err(error) => warn!(?incident, %error, "incident not reported"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBSERVER: Tid = Tid::from_raw(0x4_0001);
    const FAR: Tid = Tid::from_raw(0x8_0001);

    fn reports(out: Effects) -> usize {
        out.into_iter().filter(|effect| matches!(effect, Effect::Send { to: OBSERVER, .. })).count()
    }

    /// A task has moved twice, and both hosts have reported it before the word of the master about its moves.
    #[test]
    fn a_task_that_has_moved_twice_is_known() {
        let (mut observers, mut out) = (Observers::default(), Effects::default());
        let [first, second] = [3, 4].map(|index| HostIndex::new(index).unwrap());
        observers.add(OBSERVER, IncidentRequest { every_end: false }, &mut out);
        for host in [first, second] {
            observers.on_tasks_running(host, vec![(FAR, "far".to_owned())], &Places::default());
        }
        observers.moved(FAR, first);
        observers.moved(FAR, second);
        assert_eq!(observers.counts(), (1, 0, 1));
    }

    #[test]
    fn an_observer_that_reads_hears_of_signals_that_nobody_meant() {
        let (mut observers, mut out) = (Observers::default(), Effects::default());
        let host = FAR.host().unwrap();
        observers.add(OBSERVER, IncidentRequest { every_end: false }, &mut out);
        let mut end = |status, intended, reads: bool| {
            let mut out = Effects::default();
            observers.on_tasks_running(
                host,
                vec![(FAR, "far".to_owned()), (OBSERVER, "lie".to_owned())],
                &Places::default(),
            );
            observers.on_task_over(FAR, status, intended, |_| reads, &mut out);
            reports(out)
        };
        assert_eq!(
            [end(9, false, true), end(9, false, false), end(9, true, true), end(0, false, true)],
            [1, 0, 0, 0]
        );
        assert_eq!(observers.counts(), (1, 0, 0), "a host speaks of its own tasks only");
    }

    #[test]
    fn a_report_for_an_earlier_observer_does_not_outlive_the_answer_to_the_next() {
        let mut observers = Observers::default();
        let mut out = Effects::default();
        observers.add(OBSERVER, IncidentRequest { every_end: true }, &mut out);
        observers.forget(OBSERVER, &mut out);
        observers.add(OBSERVER, IncidentRequest { every_end: true }, &mut out);
        observers.on_task_begun(FAR, "late".to_owned());
        observers.on_tasks_running(FAR.host().unwrap(), Vec::new(), &Places::default());
        assert_eq!(observers.counts(), (1, 0, 0));
    }

    #[test]
    fn hosts_report_while_a_task_observes() {
        let mut observers = Observers::default();
        let told = |out: Effects| -> Vec<bool> {
            let on = |effect| match effect {
                Effect::TellMembers(DaemonMsg::Observe { on })
                | Effect::Tell(_, DaemonMsg::Observe { on }) => on,
                other => panic!("{other:?}"),
            };
            out.into_iter().map(on).collect()
        };
        let mut out = Effects::default();
        let newcomer = || FAR.host().into_iter();
        observers.hosts_added(newcomer(), &mut out);
        observers.add(OBSERVER, IncidentRequest { every_end: true }, &mut out);
        observers.hosts_added(newcomer(), &mut out);
        observers.forget(OBSERVER, &mut out);
        observers.forget(OBSERVER, &mut out);
        assert_eq!(told(out), [true, true, false]);
    }

    #[test]
    fn a_task_that_has_moved_is_known_when_the_master_says_so() {
        let (mut observers, mut out) = (Observers::default(), Effects::default());
        observers.add(OBSERVER, IncidentRequest { every_end: true }, &mut out);
        let third = HostIndex::new(3).unwrap();
        let running = |observers: &mut Observers| {
            observers.on_tasks_running(third, vec![(FAR, "moved".to_owned())], &Places::default());
            assert_eq!(observers.counts().2, 0, "it was born elsewhere");
        };
        running(&mut observers);
        observers.moved(FAR, third);
        assert_eq!(observers.counts().2, 1);
        let mut out = Effects::default();
        observers.on_task_over(FAR, 0, true, |_| true, &mut out);
        assert_eq!((observers.counts().2, reports(out)), (0, 1));
        // It is over before the master has said that it moved, or the host is out.
        running(&mut observers);
        let mut out = Effects::default();
        observers.on_task_over(FAR, 0, true, |_| true, &mut out);
        observers.moved(FAR, third);
        assert_eq!((observers.counts().2, reports(out)), (0, 1));
        running(&mut observers);
        observers.moved_gone(FAR);
        observers.moved(FAR, third);
        assert_eq!(observers.counts().2, 0);
    }
}
