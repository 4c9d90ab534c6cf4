//! What tracers are told of the life of tasks (of their calls they hear from the tasks), and the tracer that a task
//! has registered as (TM_TRACER), to whom all goes that goes to nobody else.

use super::Core;
use super::addresses::ReplyTo;
use super::flow::Source;
use super::tasks::Task;
use pvm_wire::calls::roles::BecomeTracer;
use pvm_wire::daemon::DaemonMsg;
use pvm_wire::events::{self, Datum, Event, Head, Writer};
use pvm_wire::output::OutputEvent;
use pvm_wire::services::Tracer;
use pvm_wire::spawn::{Sink, SpawnRequest, entry, split_entry};
use pvm_wire::{HostIndex, PvmError, Tid};
use std::collections::VecDeque;
use std::ffi::OsStr;
use tracing::info;

/// Receivers of events whom this daemon remembers to have told what its events mean.
const TOLD_MAX: usize = 100;

/// Tracers, as far as this daemon knows them.
#[derive(Debug, Default)]
pub(super) struct Tracers {
    registered: Option<Tracer>,
    /// Who was told of which events what they mean.
    told: VecDeque<(Tid, Vec<Event>)>,
}

impl Tracers {
    /// Whether there is a tracer.
    pub fn is_registered(&self) -> bool {
        self.registered.is_some()
    }
}

impl Core {
    /// TM_TRACER: one at a time in the whole machine.
    pub(super) fn on_tracer(&mut self, tid: Tid, to: ReplyTo, request: BecomeTracer) {
        let now = self.tracers.registered.as_ref().map(Tracer::tid);
        info!(%tid, register = request.terms.is_some(), "tracer");
        let result = match (request.terms, now) {
            (Some(_), Some(_)) => Err(PvmError::Already),
            (None, now) if now != Some(tid) => Err(PvmError::NoTask),
            (terms, _) => {
                self.spread_tracer(terms.map(|terms| Tracer::new(tid, terms)));
                Ok(())
            }
        };
        self.reply_done::<BecomeTracer>(to, result);
    }

    /// All daemons learn of it.
    fn spread_tracer(&mut self, tracer: Option<Tracer>) {
        let own = self.config.index;
        let others: Vec<HostIndex> =
            self.hosts.iter().map(|host| host.index).filter(|&host| host != own).collect();
        for host in others {
            self.tell(host, DaemonMsg::Tracer { tracer: tracer.clone() });
        }
        self.set_tracer(tracer);
    }

    pub(super) fn set_tracer(&mut self, tracer: Option<Tracer>) {
        self.tracers.registered = tracer;
    }

    /// A newcomer learns of it.
    pub(super) fn tell_tracer(&mut self, host: HostIndex) {
        if self.tracers.registered.is_some() {
            self.tell(host, DaemonMsg::Tracer { tracer: self.tracers.registered.clone() });
        }
    }

    pub(super) fn tracer_host_gone(&mut self, host: HostIndex) {
        self.tracers.registered.take_if(|tracer| tracer.tid().host() == Some(host));
    }

    /// A spawn without sinks is the registered tracer's.
    pub(super) fn offer_to_tracer(&self, spawn: &mut SpawnRequest) {
        let Some(tracer) = &self.tracers.registered else { return };
        if spawn.trace.tid == 0 && tracer.trace.tag != 0 {
            spawn.trace = tracer.trace;
            for (name, value) in tracer.environment() {
                spawn.env.retain(|known| split_entry(known).is_none_or(|(known, _)| known != name));
                spawn.env.push(entry(name, value));
            }
        }
        if spawn.output.tid == 0 && tracer.output.tag != 0 {
            spawn.output = tracer.output;
        }
    }

    /// A task that nobody has announced enrols: it is the registered tracer's, too.
    pub(super) fn offer_task_to_tracer(&mut self, tid: Tid) {
        let Some(tracer) = &self.tracers.registered else { return };
        let Some(task) = self.tasks.get_mut(tid).filter(|task| task.cookie.is_none()) else { return };
        if tracer.trace.tag != 0 {
            task.trace = tracer.trace;
        }
        if tracer.output.tag != 0 {
            task.output = tracer.output;
        }
    }

    /// Such a task has enrolled.
    pub(super) fn trace_enrolled(&mut self, tid: Tid) {
        let Some(task) = self.tasks.get(tid) else { return };
        let (trace, output) = (task.trace, task.output);
        let name = task.shown_name().to_owned();
        self.trace_new(trace, tid, -1, -1, &name);
        self.send_output(Source::Daemon, output, tid, OutputEvent::Started(-1));
    }

    /// A child runs.
    pub(super) fn trace_started(&mut self, tid: Tid) {
        let Some(task) = self.tasks.get(tid) else { return };
        let (sink, parent, flags, name) = (task.trace, task.parent, task.spawn_flags, task.name.clone());
        self.trace_new(sink, tid, parent, flags, &name);
    }

    fn trace_new(&mut self, sink: Sink, tid: Tid, parent: i32, flags: i32, name: &OsStr) {
        self.send_event(sink, Event::Newtask, tid, |event| {
            event.int(Datum::PT, parent).int(Datum::TF, flags).text(Datum::TN, name);
        });
    }

    /// A task was spawned from here.
    pub(super) fn trace_spawned(&mut self, sink: Sink, tid: Tid, parent: i32) {
        self.send_event(sink, Event::Spntask, tid, |event| {
            event.int(Datum::PT, parent);
        });
    }

    /// A task is over. How much time it has used is not known.
    pub(super) fn trace_ended(&mut self, task: &Task, status: i32) {
        self.trace_end(task.trace, task.tid, status);
        if self.tracers.registered.as_ref().is_some_and(|tracer| tracer.tid() == task.tid) {
            self.spread_tracer(None);
        }
        self.tracers.told.retain(|(receiver, _)| *receiver != task.tid);
    }

    fn trace_end(&mut self, sink: Sink, tid: Tid, status: i32) {
        self.send_event(sink, Event::Endtask, tid, |event| {
            event
                .int(Datum::TST, status)
                .int(Datum::TUS, 0)
                .int(Datum::TUU, 0)
                .int(Datum::TSS, 0)
                .int(Datum::TSU, 0);
        });
    }

    /// A task's tracer changes (TM_SETOPT): the old one sees an end, the new one a beginning.
    pub(super) fn change_tracer(&mut self, tid: Tid, sink: Sink) {
        let Some(task) = self.tasks.get_mut(tid) else { return };
        let old = std::mem::replace(&mut task.trace, sink);
        let parent = task.parent;
        if old != sink {
            self.trace_end(old, tid, 0);
            self.trace_spawned(sink, tid, parent);
            self.trace_started(tid);
        }
    }

    /// Sends an event to a tracer, if there is one, and what it means if that is news.
    fn send_event(&mut self, sink: Sink, event: Event, tid: Tid, fill: impl FnOnce(&mut Writer)) {
        let Some(receiver) = sink.receiver() else { return };
        let (meets, describes) = self.tracers.is_news(receiver, event);
        if meets {
            self.send_message(Source::Daemon, receiver, sink.context, sink.tag, events::data_message());
        }
        let time = self.config.epoch + self.now;
        let head =
            Head { seconds: time.as_secs() as i32, micros: time.subsec_micros() as i32, tid: tid.raw() };
        let mut writer = Writer::new(false);
        writer.begin(event, 0, head, describes);
        fill(&mut writer);
        writer.end();
        self.send_message(Source::Daemon, receiver, sink.context, sink.tag, writer.finish());
    }
}

impl Tracers {
    /// Whether this receiver gets its first event, and its first one of this kind.
    fn is_news(&mut self, receiver: Tid, event: Event) -> (bool, bool) {
        let meets = !self.told.iter().any(|(other, _)| *other == receiver);
        if meets {
            self.told.truncate(TOLD_MAX - 1);
            self.told.push_front((receiver, Vec::new()));
        }
        let known = self.told.iter_mut().find(|(other, _)| *other == receiver).map(|(_, known)| known);
        let describes = known.is_some_and(|known| {
            let new = !known.contains(&event);
            if new {
                known.push(event);
            }
            new
        });
        (meets, describes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_receiver_is_told_once_what_events_mean() {
        let mut tracers = Tracers::default();
        let [a, b] = [Tid::from_raw(0x40001), Tid::from_raw(0x40002)];
        assert_eq!(tracers.is_news(a, Event::Newtask), (true, true));
        assert_eq!(tracers.is_news(a, Event::Newtask), (false, false));
        assert_eq!(tracers.is_news(a, Event::Endtask), (false, true));
        assert_eq!(tracers.is_news(b, Event::Endtask), (true, true));
        for local in 0..TOLD_MAX as i32 {
            tracers.is_news(Tid::from_raw(0x80001 + local), Event::Newtask);
        }
        assert_eq!(tracers.told.len(), TOLD_MAX);
        assert_eq!(tracers.is_news(a, Event::Newtask), (true, true), "forgotten");
    }
}
