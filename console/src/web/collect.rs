//! The collector: one enrolled task, which reads the state of the machine once for all viewers. Without viewers it reads nothing.

use super::hub::{Continued, Hub, Wanted};
use super::snapshot::Snapshots;
use super::spans::{News, Spans};
use anyhow::Result;
use pvm3::{Task, Tid, TraceEvent, TraceMask, Traced};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Tag of the messages with trace events.
const TRACE_TAG: i32 = 0x7765;
/// Interval between two reads of the trace while a viewer shows it.
const TRACE_TICK: Duration = Duration::from_millis(200);
/// Interval between two checks of the connection to the daemon while there are no viewers.
const IDLE_TICK: Duration = Duration::from_millis(250);
/// Interval between two attempts to become the tracer while another task is the tracer.
const TAKEN_TICK: Duration = Duration::from_secs(2);
/// Most events of one read; the rest is read at the next tick.
const EVENTS_MAX: usize = 50_000;

/// The calls that are reported.
const MASK: TraceMask = TraceMask::NONE
    .with(TraceEvent::Send)
    .with(TraceEvent::Psend)
    .with(TraceEvent::Mcast)
    .with(TraceEvent::Bcast)
    .with(TraceEvent::Recv)
    .with(TraceEvent::Nrecv)
    .with(TraceEvent::Trecv)
    .with(TraceEvent::Precv)
    .with(TraceEvent::Barrier)
    .with(TraceEvent::Reduce)
    .with(TraceEvent::Gather)
    .with(TraceEvent::Scatter)
    .with(TraceEvent::Joingroup)
    .with(TraceEvent::Lvgroup)
    .with(TraceEvent::Spawn)
    .with(TraceEvent::Exit);

/// Whether this task is the machine's tracer, as the page shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Off,
    On,
    /// Another task is the tracer.
    Taken,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Taken => "taken",
        }
    }
}

/// State of the collector.
#[derive(Debug)]
pub struct Collector<'a> {
    hub: &'a Hub,
    interval: Duration,
    snapshots: Snapshots,
    next_sample: Instant,
    spans: Spans,
    /// By how many microseconds the clocks of hosts are behind.
    clocks: BTreeMap<Tid, i64>,
    told: Role,
}

impl<'a> Collector<'a> {
    /// A collector for these viewers.
    pub fn new(hub: &'a Hub, interval: Duration) -> Self {
        let now = Instant::now();
        Self {
            hub,
            interval,
            snapshots: Snapshots::default(),
            next_sample: now,
            spans: Spans::default(),
            clocks: BTreeMap::new(),
            told: Role::Off,
        }
    }

    /// Collects until the hub ends. An error: the daemon is gone.
    pub fn run(&mut self, task: &mut Task) -> Result<()> {
        loop {
            match self.hub.wanted() {
                (Wanted::End, _) => return Ok(()),
                (Wanted::Nothing, _) => {
                    self.read_trace(task)?;
                    self.hub.wait(IDLE_TICK, Wanted::Nothing);
                }
                (Wanted::Snapshots, viewers) => {
                    self.read_trace(task)?;
                    self.sample(task, viewers)?;
                    self.hub.wait(self.until_sample().min(IDLE_TICK), Wanted::Snapshots);
                }
                (Wanted::Trace, _) => self.trace(task)?,
            }
        }
    }

    /// Acts as the machine's tracer while a viewer shows the trace. Tasks that start in this time report their calls until they exit.
    fn trace(&mut self, task: &mut Task) -> Result<()> {
        let terms = Traced { trace_tag: TRACE_TAG, mask: MASK, ..Traced::default() };
        let error = match task.become_tracer(&terms) {
            Ok(mut tracer) => {
                self.while_traced(tracer.task(), Role::On, None)?;
                return Ok(tracer.resign()?);
            }
            Err(error) => error,
        };
        if error.code() != pvm3::PvmError::Already {
            return Err(error.into());
        }
        self.while_traced(task, Role::Taken, Some(Instant::now() + TAKEN_TICK))
    }

    fn while_traced(&mut self, task: &mut Task, role: Role, until: Option<Instant>) -> Result<()> {
        while let (Wanted::Trace, viewers) = self.hub.wanted() {
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(());
            }
            self.read_trace(task)?;
            self.publish_trace(role);
            self.sample(task, viewers)?;
            self.hub.wait(TRACE_TICK, Wanted::Trace);
        }
        self.told = Role::Off;
        Ok(())
    }

    fn until_sample(&self) -> Duration {
        self.next_sample.saturating_duration_since(Instant::now())
    }

    fn sample(&mut self, task: &mut Task, viewers: usize) -> Result<()> {
        let begun = Instant::now();
        if begun < self.next_sample {
            return Ok(());
        }
        let json = self.snapshots.take(task, viewers, self.interval / 4)?;
        self.hub.publish_snapshot(&json);
        // One round after the other, and no more than half of the time.
        self.next_sample = (begun + self.interval).max(Instant::now() + begun.elapsed());
        Ok(())
    }

    /// Reads the events that have arrived. Traced tasks send them even when no viewer shows the trace any more.
    fn read_trace(&mut self, task: &mut Task) -> Result<()> {
        let context = task.context();
        let now = Instant::now();
        for _ in 0..EVENTS_MAX {
            let is_wanted = |message: &pvm3::Message| {
                (message.header.context, message.header.tag) == (context, TRACE_TAG)
            };
            let Some(message) = task.poll_message(is_wanted)? else { break };
            // A task that has ended is reported by its daemon, so the host is known from the events of before.
            let host = message.src.to_host();
            if message.src.is_task() && !self.clocks.contains_key(&host) {
                let behind = task.clock_ahead(host).map_or(0, |clock| clock.micros);
                self.clocks.insert(host, behind);
            }
            let clocks = &self.clocks;
            let behind = |tid: Tid| clocks.get(&tid.to_host()).copied().unwrap_or(0);
            self.spans.read(&message.body, behind, now);
        }
        self.spans.settle(now);
        Ok(())
    }

    fn publish_trace(&mut self, role: Role) {
        let is_changed = std::mem::replace(&mut self.told, role) != role;
        let continued = match self.spans.news() {
            None => Continued::Anew,
            Some(news) if news.is_empty() && !is_changed => Continued::Not,
            Some(news) => Continued::By(trace_json(&news, role, false)),
        };
        self.hub.publish_trace(&continued, || trace_json(&self.spans.all(), role, true));
    }
}

/// The trace as `page/trace.js` reads it: flat arrays, and times in microseconds.
fn trace_json(news: &News, role: Role, is_all: bool) -> String {
    let changes = news
        .changes
        .iter()
        .flat_map(|&(tid, moment, what)| [i64::from(tid.raw()), moment, i64::from(what as u8)]);
    let messages = news.messages.iter().flat_map(|message| {
        let (from, to) = (i64::from(message.from.raw()), i64::from(message.to.raw()));
        [from, to, message.tag.into(), message.bytes, message.sent.unwrap_or(-1), message.received]
    });
    let rows: Vec<Value> = news.rows.iter().map(|(tid, name)| json!([tid, tid.to_host(), name])).collect();
    json!({
        "tracer": role.name(), "all": is_all, "now": i64::try_from(crate::since_1970().as_micros()).unwrap_or(i64::MAX),
        "rows": rows, "changes": changes.collect::<Vec<_>>(), "messages": messages.collect::<Vec<_>>(),
    })
    .to_string()
}
