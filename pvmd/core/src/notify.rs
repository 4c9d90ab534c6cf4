//! `pvm_notify`: the subscribers to ends of tasks and to changes of hosts.

use super::effect::{Effects, Mark};
use super::places::Places;
use super::text::listed;
use pvm_wire::body::BodyWriter;
use pvm_wire::calls::notify::NotifyRequest;
use pvm_wire::codes::notify;
use pvm_wire::daemon::{DaemonMsg, Subscription};
use pvm_wire::{HostIndex, Tid, group};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// A task that is told, and how the message is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Subscriber {
    tid: Tid,
    mark: Mark,
}

/// What a subscriber waits for. The tid is kept as it was given, since the message repeats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    TaskExit(Tid),
    HostDelete(Tid),
}

impl Subject {
    fn tid(self) -> Tid {
        let (Self::TaskExit(tid) | Self::HostDelete(tid)) = self;
        tid
    }
}

/// All subscribers, in the order of asking.
#[derive(Debug)]
pub(crate) struct Notifies {
    own: HostIndex,
    once: Vec<(Subject, Subscriber)>,
    /// Times left, -1 for ever.
    host_add: Vec<(i32, Subscriber)>,
    /// Tasks of this host that other daemons watch.
    watched_by: BTreeMap<Tid, BTreeSet<HostIndex>>,
}

impl Notifies {
    pub fn new(own: HostIndex) -> Self {
        Self { own, once: Vec::new(), host_add: Vec::new(), watched_by: BTreeMap::new() }
    }

    /// TM_NOTIFY, with the tasks and hosts that are there. Bad requests are the library's to refuse; here they are ignored.
    pub fn on_request(
        &mut self,
        tid: Tid,
        request: &NotifyRequest,
        (is_there, is_member): (impl Fn(Tid) -> bool, impl Fn(HostIndex) -> bool),
        places: &Places,
        out: &mut Effects,
    ) {
        let who = Subscriber { tid, mark: Mark::new(request.context, request.tag) };
        let tids = request.tids.iter().map(|&raw| Tid::from_raw(raw));
        match request.what {
            notify::HOST_ADD => {
                self.host_add.retain(|(_, other)| *other != who);
                if !request.cancel && request.count != 0 {
                    self.host_add.push((request.count, who));
                }
            }
            notify::TASK_EXIT if request.cancel => {
                self.cancel(who, &tids.map(Subject::TaskExit).collect::<Vec<_>>(), out);
            }
            notify::HOST_DELETE if request.cancel => {
                self.cancel(who, &tids.map(Subject::HostDelete).collect::<Vec<_>>(), out);
            }
            notify::TASK_EXIT => {
                for tid in tids {
                    if is_there(tid) {
                        self.watch_task(who, tid, places, out);
                    } else {
                        tell(who, tid, out);
                    }
                }
            }
            notify::HOST_DELETE => {
                for host in tids {
                    if host.host().is_some_and(&is_member) {
                        self.once.push((Subject::HostDelete(host), who));
                    } else {
                        tell(who, host, out);
                    }
                }
            }
            _ => {}
        }
    }

    /// PVM delivers a cancelled notify at once.
    fn cancel(&mut self, who: Subscriber, subjects: &[Subject], out: &mut Effects) {
        self.tell_where(|subject, other| *other == who && subjects.contains(subject), out);
    }

    fn watch_task(&mut self, who: Subscriber, tid: Tid, places: &Places, out: &mut Effects) {
        let first = !self.once.iter().any(|(subject, _)| *subject == Subject::TaskExit(tid));
        self.once.push((Subject::TaskExit(tid), who));
        if let Some(host) =
            places.find(tid).filter(|&host| first && host != self.own && tid != group::keeper())
        {
            out.tell(host, DaemonMsg::WatchTask { tid });
        }
    }

    /// Another daemon has subscribers to a task of this host.
    pub fn on_watch_task(&mut self, from: HostIndex, tid: Tid, is_there: bool, out: &mut Effects) {
        if is_there {
            self.watched_by.entry(tid).or_default().insert(from);
        } else {
            out.tell(from, DaemonMsg::TaskGone { tid });
        }
    }

    /// A task has ended, here or elsewhere.
    pub fn task_gone(&mut self, tid: Tid, out: &mut Effects) {
        for host in self.watched_by.remove(&tid).unwrap_or_default() {
            out.tell(host, DaemonMsg::TaskGone { tid });
        }
        self.tell_where(|subject, _| *subject == Subject::TaskExit(tid), out);
    }

    /// What a task of this host has subscribed to.
    pub fn subscriptions(&self, tid: Tid) -> Vec<Subscription> {
        let of = |who: &Subscriber, what, count, tid| Subscription {
            what,
            context: who.mark.context,
            tag: who.mark.tag,
            count,
            tid,
        };
        let ends = self.once.iter().filter(|(_, who)| who.tid == tid).map(|(subject, who)| match subject {
            Subject::TaskExit(tid) => of(who, notify::TASK_EXIT, 1, tid.raw()),
            Subject::HostDelete(tid) => of(who, notify::HOST_DELETE, 1, tid.raw()),
        });
        let hosts = self.host_add.iter().filter(|(_, who)| who.tid == tid);
        ends.chain(hosts.map(|(left, who)| of(who, notify::HOST_ADD, *left, 0))).collect()
    }

    /// A task lives on another host now: this one's subscribers to its end subscribe there.
    pub fn task_moved(&mut self, tid: Tid, to: HostIndex, out: &mut Effects) {
        self.watched_by.remove(&tid);
        if to != self.own && self.once.iter().any(|(subject, _)| *subject == Subject::TaskExit(tid)) {
            out.tell(to, DaemonMsg::WatchTask { tid });
        }
    }

    /// A host is out: exits of its tasks and its own departure, in the order in which they were asked for.
    pub fn host_gone(&mut self, host: HostIndex, places: &Places, out: &mut Effects) {
        // The keeper of groups lives as long as the machine.
        let is_its = |subject: &Subject, _: &_| {
            places.find(subject.tid()) == Some(host) && *subject != Subject::TaskExit(group::keeper())
        };
        self.tell_where(is_its, out);
        self.watched_by.retain(|_, hosts| {
            hosts.remove(&host);
            !hosts.is_empty()
        });
    }

    /// Hosts have joined: one message to each of these subscribers.
    pub fn hosts_added(&mut self, added: &[HostIndex], is_told: impl Fn(Tid) -> bool, out: &mut Effects) {
        let tids = added.iter().map(|host| host.host_tid().raw());
        let body = BodyWriter::new().int(added.len() as i32).ints(tids).finish();
        self.host_add.retain_mut(|(left, who)| {
            if !is_told(who.tid) {
                return true;
            }
            out.send(who.tid, who.mark, body.clone());
            *left = if *left > 0 { *left - 1 } else { *left };
            *left != 0
        });
    }

    /// A subscriber is gone.
    pub fn forget(&mut self, tid: Tid) {
        self.once.retain(|(_, who)| who.tid != tid);
        self.host_add.retain(|(_, who)| who.tid != tid);
    }

    /// Tells the subscribers for which this holds, once.
    fn tell_where(&mut self, which: impl Fn(&Subject, &Subscriber) -> bool, out: &mut Effects) {
        for (subject, who) in self.once.extract_if(.., |(subject, who)| which(subject, who)) {
            tell(who, subject.tid(), out);
        }
    }

    /// The subscriptions, for people.
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

fn tell(who: Subscriber, tid: Tid, out: &mut Effects) {
    out.send(who.tid, who.mark, tid.raw().to_be_bytes().to_vec());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::Effect;

    const SUBSCRIBER: Tid = Tid::from_raw(0x4_0001);
    const NEAR: Tid = Tid::from_raw(0x4_0002);
    const FAR: Tid = Tid::from_raw(0x8_0001);

    fn request(what: i32, cancel: bool, tids: &[Tid]) -> NotifyRequest {
        let tids = tids.iter().map(|tid| tid.raw()).collect();
        NotifyRequest { what, cancel, context: 0, tag: 9, count: 2, tids }
    }

    /// The subjects that the subscriber hears of, and the tasks of which other daemons are told.
    fn told(out: Effects) -> (Vec<i32>, Vec<Tid>) {
        let (mut heard, mut daemons) = (Vec::new(), Vec::new());
        for effect in out {
            match effect {
                Effect::Send { to: SUBSCRIBER, mark, body } if mark == Mark::new(0, 9) => {
                    heard.push(i32::from_be_bytes(body[..4].try_into().unwrap()));
                }
                Effect::Tell(_, DaemonMsg::WatchTask { tid } | DaemonMsg::TaskGone { tid }) => {
                    daemons.push(tid);
                }
                other => panic!("{other:?}"),
            }
        }
        (heard, daemons)
    }

    #[test]
    fn a_subscriber_hears_once_of_each_end() {
        let (mut notifies, mut out) = (Notifies::new(HostIndex::MASTER), Effects::default());
        let ask = |notifies: &mut Notifies, request: &NotifyRequest, out: &mut _| {
            let known = (|tid| tid != SUBSCRIBER, |_| true);
            notifies.on_request(SUBSCRIBER, request, known, &Places::default(), out);
        };
        ask(&mut notifies, &request(notify::TASK_EXIT, false, &[NEAR, FAR, FAR, SUBSCRIBER]), &mut out);
        assert_eq!(told(out), (vec![SUBSCRIBER.raw()], vec![FAR]), "one is not there; a daemon is told once");
        let mut out = Effects::default();
        notifies.task_gone(FAR, &mut out);
        notifies.task_gone(FAR, &mut out);
        ask(&mut notifies, &request(notify::TASK_EXIT, true, &[NEAR]), &mut out);
        assert_eq!(told(out), (vec![FAR.raw(), FAR.raw(), NEAR.raw()], vec![]));
        assert_eq!(notifies.counts(), (0, 0));
    }

    #[test]
    fn a_lost_host_ends_its_tasks_and_its_interest() {
        let (mut notifies, mut out) = (Notifies::new(HostIndex::MASTER), Effects::default());
        let host = FAR.host().unwrap();
        for (what, tid) in [(notify::HOST_DELETE, host.host_tid()), (notify::TASK_EXIT, FAR)] {
            let known = (|_| true, |_| true);
            let asked = request(what, false, &[tid]);
            notifies.on_request(SUBSCRIBER, &asked, known, &Places::default(), &mut out);
        }
        notifies.on_watch_task(host, NEAR, true, &mut out);
        notifies.on_watch_task(host, SUBSCRIBER, false, &mut out);
        assert_eq!(told(out), (vec![], vec![FAR, SUBSCRIBER]));
        let mut out = Effects::default();
        notifies.host_gone(host, &Places::default(), &mut out);
        notifies.task_gone(NEAR, &mut out);
        assert_eq!(told(out), (vec![host.host_tid().raw(), FAR.raw()], vec![]));
    }

    #[test]
    fn new_hosts_are_told_as_often_as_was_asked() {
        let mut notifies = Notifies::new(HostIndex::MASTER);
        let added = FAR.host().unwrap();
        let hear = |notifies: &mut Notifies| {
            let mut out = Effects::default();
            notifies.hosts_added(&[added], |_| true, &mut out);
            told(out).0
        };
        let ask = |notifies: &mut Notifies| {
            let (asked, known) = (request(notify::HOST_ADD, false, &[]), (|_| true, |_| true));
            notifies.on_request(SUBSCRIBER, &asked, known, &Places::default(), &mut Effects::default());
        };
        ask(&mut notifies);
        assert_eq!(
            [hear(&mut notifies), hear(&mut notifies), hear(&mut notifies)],
            [vec![1], vec![1], vec![]]
        );
        ask(&mut notifies);
        notifies.forget(SUBSCRIBER);
        assert!(hear(&mut notifies).is_empty());
    }
}
