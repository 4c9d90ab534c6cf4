//! `pvm_notify`: who wants to be told of which end or arrival.

use super::Core;
use super::flow::Source;
use super::text::listed;
use pvm_wire::body::BodyWriter;
use pvm_wire::calls::notify::NotifyRequest;
use pvm_wire::codes::notify;
use pvm_wire::daemon::DaemonMsg;
use pvm_wire::{HostIndex, Tid};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// How a subscriber wants to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Subscriber {
    pub tid: Tid,
    pub context: i32,
    pub tag: i32,
}

/// What a subscriber waits for. The tid is kept as it was given, since the message repeats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    TaskExit(Tid),
    HostDelete(Tid),
}

/// Everybody who waits to be told, in the order of asking.
#[derive(Debug, Default)]
pub(super) struct Notifies {
    once: Vec<(Subject, Subscriber)>,
    /// Times left, -1 for ever.
    host_add: Vec<(i32, Subscriber)>,
    /// Tasks of this host that other daemons watch.
    watched_by: BTreeMap<Tid, BTreeSet<HostIndex>>,
}

impl Notifies {
    fn take(&mut self, mut which: impl FnMut(&Subject, &Subscriber) -> bool) -> Vec<(Subject, Subscriber)> {
        let (taken, kept) = std::mem::take(&mut self.once).into_iter().partition(|(s, who)| which(s, who));
        self.once = kept;
        taken
    }

    fn watches(&self, tid: Tid) -> bool {
        self.once.iter().any(|(subject, _)| *subject == Subject::TaskExit(tid))
    }

    /// Who waits for what, for people.
    pub fn write_state(&self, out: &mut String) -> std::fmt::Result {
        for (subject, who) in &self.once {
            let what = match subject {
                Subject::TaskExit(tid) => format!("exit of {tid}"),
                Subject::HostDelete(tid) => format!("loss of host {tid}"),
            };
            writeln!(out, "{} subscribes to the {what}", who.tid)?;
        }
        for (left, who) in &self.host_add {
            let times = if *left < 0 { "without end".to_owned() } else { format!("{left} more times") };
            writeln!(out, "{} subscribes to new hosts, {times}", who.tid)?;
        }
        for (tid, hosts) in &self.watched_by {
            writeln!(out, "hosts that subscribe to the exit of {tid}: {}", listed(hosts))?;
        }
        Ok(())
    }

    /// Subscriptions, and tasks watched for other hosts.
    pub fn counts(&self) -> (usize, usize) {
        (self.once.len() + self.host_add.len(), self.watched_by.len())
    }
}

impl Core {
    /// TM_NOTIFY. Bad requests are the library's to refuse; here they are ignored.
    pub(super) fn on_notify(&mut self, tid: Tid, request: &NotifyRequest) {
        let who = Subscriber { tid, context: request.context, tag: request.tag };
        match request.what {
            notify::HOST_ADD => self.notify_host_add(who, request),
            notify::TASK_EXIT if request.cancel => self.cancel_notify(who, request, Subject::TaskExit),
            notify::HOST_DELETE if request.cancel => self.cancel_notify(who, request, Subject::HostDelete),
            notify::TASK_EXIT => {
                for &raw in &request.tids {
                    self.watch_task(who, Tid::from_raw(raw));
                }
            }
            notify::HOST_DELETE => {
                for &raw in &request.tids {
                    let host = Tid::from_raw(raw);
                    if host.host().is_some_and(|index| self.hosts.contains(index)) {
                        self.notifies.once.push((Subject::HostDelete(host), who));
                    } else {
                        self.tell_subscriber(who, host);
                    }
                }
            }
            _ => {}
        }
    }

    fn notify_host_add(&mut self, who: Subscriber, request: &NotifyRequest) {
        let same = |other: &Subscriber| *other == who;
        self.notifies.host_add.retain(|(_, other)| !same(other));
        if !request.cancel && request.count != 0 {
            self.notifies.host_add.push((request.count, who));
        }
    }

    /// PVM delivers a cancelled notify at once.
    fn cancel_notify(&mut self, who: Subscriber, request: &NotifyRequest, subject: fn(Tid) -> Subject) {
        let subjects: Vec<Subject> = request.tids.iter().map(|&raw| subject(Tid::from_raw(raw))).collect();
        let taken = self.notifies.take(|s, other| *other == who && subjects.contains(s));
        for (Subject::TaskExit(tid) | Subject::HostDelete(tid), who) in taken {
            self.tell_subscriber(who, tid);
        }
    }

    fn watch_task(&mut self, who: Subscriber, tid: Tid) {
        let here = tid.host() == Some(self.config.index);
        let alive = match tid.host() {
            Some(_) if here => self.is_here(tid),
            Some(host) => tid.is_task() && self.hosts.links.contains_key(&host),
            None => false,
        };
        if !alive {
            return self.tell_subscriber(who, tid);
        }
        let first = !self.notifies.watches(tid);
        self.notifies.once.push((Subject::TaskExit(tid), who));
        if let (false, true, Some(host)) = (here, first, tid.host()) {
            self.tell(host, DaemonMsg::WatchTask { tid });
        }
    }

    /// Another daemon has subscribers to one of our tasks.
    pub(super) fn on_watch_task(&mut self, from: HostIndex, tid: Tid) {
        if self.is_here(tid) {
            self.notifies.watched_by.entry(tid).or_default().insert(from);
        } else {
            self.tell(from, DaemonMsg::TaskGone { tid });
        }
    }

    /// A task has ended, here or elsewhere: tell all who asked.
    pub(super) fn notify_task_exit(&mut self, tid: Tid) {
        for host in self.notifies.watched_by.remove(&tid).unwrap_or_default() {
            self.tell(host, DaemonMsg::TaskGone { tid });
        }
        for (_, who) in self.notifies.take(|subject, _| *subject == Subject::TaskExit(tid)) {
            self.tell_subscriber(who, tid);
        }
    }

    /// A host is out: exits of its tasks and its own departure, in the order in which they were asked for.
    pub(super) fn notify_host_gone(&mut self, host: HostIndex) {
        let taken = self.notifies.take(|subject, _| match subject {
            Subject::TaskExit(tid) | Subject::HostDelete(tid) => tid.host() == Some(host),
        });
        for (Subject::TaskExit(tid) | Subject::HostDelete(tid), who) in taken {
            self.tell_subscriber(who, tid);
        }
        self.notifies.watched_by.retain(|_, hosts| {
            hosts.remove(&host);
            !hosts.is_empty()
        });
    }

    /// Hosts have joined: one message to each who asked.
    pub(super) fn notify_hosts_added(&mut self, added: &[HostIndex]) {
        let mut told = Vec::new();
        self.notifies.host_add.retain_mut(|(left, who)| {
            told.push(*who);
            *left = if *left > 0 { *left - 1 } else { *left };
            *left != 0
        });
        let tids = added.iter().map(|host| host.host_tid().raw());
        let body = BodyWriter::new().int(added.len() as i32).ints(tids).finish();
        for who in told {
            self.send_message(Source::Daemon, who.tid, who.context, who.tag, body.clone());
        }
    }

    /// A subscriber is gone.
    pub(super) fn forget_subscriber(&mut self, tid: Tid) {
        self.notifies.once.retain(|(_, who)| who.tid != tid);
        self.notifies.host_add.retain(|(_, who)| who.tid != tid);
    }

    fn tell_subscriber(&mut self, who: Subscriber, tid: Tid) {
        self.send_message(Source::Daemon, who.tid, who.context, who.tag, tid.raw().to_be_bytes().to_vec());
    }
}
