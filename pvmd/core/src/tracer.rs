//! What tracers are told of the life of tasks (of their calls they hear from the tasks), and the tracer that a task
//! has registered as (TM_TRACER), to whom all goes that goes to nobody else.

use super::effect::{Effect, Effects, Mark};
use super::places::Places;
use pvm_wire::calls::roles::TracerTerms;
use pvm_wire::daemon::DaemonMsg;
use pvm_wire::events::{self, Datum, Event, Head, Writer};
use pvm_wire::services::Tracer;
use pvm_wire::spawn::{Sink, SpawnRequest, entry, split_entry};
use pvm_wire::{HostIndex, PvmError, Tid};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::time::Duration;

/// Receivers of events whom this daemon remembers to have told what its events mean.
const TOLD_MAX: usize = 100;

/// Tracers, as far as this daemon knows them.
#[derive(Debug, Default)]
pub(crate) struct Tracers {
    registered: Option<Tracer>,
    /// The receivers, and the events whose meaning each was told.
    told: VecDeque<(Tid, Vec<Event>)>,
}

/// When something happened to which task, and the receiver of the event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    /// Since 1970.
    pub time: Duration,
    pub tid: Tid,
    pub sink: Sink,
}

impl Tracers {
    /// Whether there is a tracer.
    pub fn is_registered(&self) -> bool {
        self.registered.is_some()
    }

    /// TM_TRACER: a task is the tracer of the whole machine, with these terms, or no more.
    pub fn register(
        &mut self,
        tid: Tid,
        terms: Option<TracerTerms>,
        out: &mut Effects,
    ) -> Result<(), PvmError> {
        match (terms, self.registered.as_ref().map(Tracer::tid)) {
            (Some(_), Some(_)) => Err(PvmError::Already),
            (None, now) if now != Some(tid) => Err(PvmError::NoTask),
            (terms, _) => {
                self.announce(terms.map(|terms| Tracer::new(tid, terms)), out);
                Ok(())
            }
        }
    }

    fn announce(&mut self, tracer: Option<Tracer>, out: &mut Effects) {
        out.push(Effect::TellMembers(DaemonMsg::Tracer { tracer: tracer.clone() }));
        self.set(tracer);
    }

    /// Another daemon has announced it.
    pub fn set(&mut self, tracer: Option<Tracer>) {
        self.registered = tracer;
    }

    /// A newcomer learns of it.
    pub fn host_added(&self, host: HostIndex, out: &mut Effects) {
        if self.registered.is_some() {
            out.tell(host, DaemonMsg::Tracer { tracer: self.registered.clone() });
        }
    }

    pub fn host_gone(&mut self, host: HostIndex, places: &Places) {
        self.registered.take_if(|tracer| places.find(tracer.tid()) == Some(host));
    }

    /// A spawn without sinks is the registered tracer's.
    pub fn complete(&self, spawn: &mut SpawnRequest) {
        let Some(tracer) = &self.registered else { return };
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

    /// The sinks of trace and output for a task that nobody has announced, as far as it is the registered tracer's.
    pub fn sinks(&self) -> (Option<Sink>, Option<Sink>) {
        let wanted = |sink: Sink| (sink.tag != 0).then_some(sink);
        self.registered.as_ref().map_or((None, None), |tracer| (wanted(tracer.trace), wanted(tracer.output)))
    }

    /// A task runs.
    pub fn task_begun(&mut self, at: Stamp, parent: i32, flags: i32, name: &OsStr, out: &mut Effects) {
        let fill = |event: &mut Writer| {
            event.int(Datum::PT, parent).int(Datum::TF, flags).text(Datum::TN, name);
        };
        self.send(at, Event::Newtask, fill, out);
    }

    /// A task was spawned from here.
    pub fn task_spawned(&mut self, at: Stamp, parent: i32, out: &mut Effects) {
        let fill = |event: &mut Writer| {
            event.int(Datum::PT, parent);
        };
        self.send(at, Event::Spntask, fill, out);
    }

    /// A task is over for its tracer. How much time it has used is not known.
    pub fn trace_ended(&mut self, at: Stamp, status: i32, out: &mut Effects) {
        let fill = |event: &mut Writer| {
            event.int(Datum::TST, status);
            for time in [Datum::TUS, Datum::TUU, Datum::TSS, Datum::TSU] {
                event.int(time, 0);
            }
        };
        self.send(at, Event::Endtask, fill, out);
    }

    /// A task is over, perhaps a tracer.
    pub fn task_ended(&mut self, at: Stamp, status: i32, out: &mut Effects) {
        self.trace_ended(at, status, out);
        if self.registered.as_ref().is_some_and(|tracer| tracer.tid() == at.tid) {
            self.announce(None, out);
        }
        self.told.retain(|(receiver, _)| *receiver != at.tid);
    }

    /// Sends an event to a tracer, if there is one, and what it means if that is news.
    fn send(&mut self, at: Stamp, event: Event, fill: impl FnOnce(&mut Writer), out: &mut Effects) {
        let Some(receiver) = at.sink.receiver() else { return };
        let mark = Mark::new(at.sink.context, at.sink.tag);
        let (meets, describes) = self.is_news(receiver, event);
        if meets {
            out.send(receiver, mark, events::data_message());
        }
        let (seconds, micros) = (at.time.as_secs() as i32, at.time.subsec_micros() as i32);
        let mut writer = Writer::new(false);
        writer.begin(event, 0, Head { seconds, micros, tid: at.tid.raw() }, describes);
        fill(&mut writer);
        writer.end();
        out.send(receiver, mark, writer.finish());
    }

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
