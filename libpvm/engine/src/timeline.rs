//! Records the activities of this task for `pvm run --trace`. Without a collector a call costs one test of an
//! `Option`.

use super::{Engine, Payload, xdr_header};
use pvm_wire::codes::{CONTEXT_TC, CONTEXT_TM, TIMELINE_TAG};
use pvm_wire::timeline::{Activity, Kind, Number, Report, Span, VARIABLE};
use pvm_wire::{Message, MessageHeader, Tid};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Limit of a task's unreported activities, by [`weight`].
const REPORT_WEIGHT: usize = 4096;
/// Limit of all activities of a task; later ones are only counted.
const LIFE_WEIGHT: usize = 1 << 20;
/// Kinds of message (by peer, context and tag) that are numbered.
const KINDS_MAX: usize = 1 << 16;
/// A task that is about to wait reports if its last report is older than this: it may wait for ever, or be killed.
const REPORT_AGE: Duration = Duration::from_millis(100);
/// Characters of a group's name that are reported.
const GROUP_NAME_MAX: usize = 64;
/// How often the clocks are read.
const READINGS: usize = 8;
/// A call without a message that takes less than this is a poll, not a wait.
const LOOK: u64 = 100_000;

/// When a recorded call began, by the recorder's clock.
#[derive(Clone, Copy, Debug)]
pub struct Begun(u64);

/// The record of this task.
#[derive(Debug)]
pub(super) struct Recorder {
    collector: Tid,
    clock: Clock,
    report: Report,
    weight: usize,
    whole_weight: usize,
    reported: Instant,
    sent: Counters,
    received: Counters,
}

/// Wall-clock time that never goes back.
#[derive(Clone, Copy, Debug)]
struct Clock {
    start: Instant,
    time_at_start: Duration,
}

impl Clock {
    /// Between the readings of the two clocks the processor may be somebody else's, and this one would be ahead of the other tasks' by
    /// as much: the pair with the shortest time between them is used.
    fn new() -> Self {
        let read = |_| {
            let start = Instant::now();
            let time_at_start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            (start.elapsed(), Self { start, time_at_start })
        };
        let (_, clock) =
            (1..READINGS).map(read).fold(read(0), |best, next| if next.0 < best.0 { next } else { best });
        clock
    }

    fn now(&self) -> u64 {
        let time = self.time_at_start.saturating_add(self.start.elapsed());
        u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Numbers of messages of each kind to and from each task.
#[derive(Debug, Default)]
struct Counters(HashMap<(Tid, Kind), u64>);

impl Counters {
    fn next(&mut self, peer: Tid, kind: Kind) -> Number {
        if self.0.len() >= KINDS_MAX && !self.0.contains_key(&(peer, kind)) {
            return None;
        }
        let count = self.0.entry((peer, kind)).or_default();
        *count += 1;
        Some(*count)
    }
}

fn weight(what: &Activity) -> usize {
    match what {
        Activity::Send { to, .. } => 1 + to.len(),
        _ => 1,
    }
}

impl Recorder {
    /// The recorder that the environment asks for.
    pub(super) fn from_environment() -> Option<Self> {
        let collector = std::env::var(VARIABLE).ok()?.parse().ok().map(Tid::from_raw)?;
        collector.is_task().then(|| Self::new(collector, Clock::new()))
    }

    fn new(collector: Tid, clock: Clock) -> Self {
        let path = std::env::args_os().next().unwrap_or_default();
        let program = std::path::Path::new(&path).file_name().unwrap_or_default();
        Self {
            collector,
            clock,
            report: Report {
                program: program.to_string_lossy().into_owned(),
                enrolled: clock.now(),
                ..Report::default()
            },
            weight: 0,
            whole_weight: 0,
            reported: clock.start,
            sent: Counters::default(),
            received: Counters::default(),
        }
    }

    fn add(&mut self, Begun(begin): Begun, what: Activity) {
        let weight = weight(&what);
        if self.whole_weight.saturating_add(weight) > LIFE_WEIGHT {
            self.report.lost += 1;
            return;
        }
        self.weight += weight;
        self.whole_weight += weight;
        self.report.spans.push(Span { begin, end: self.clock.now(), what });
    }

    fn is_due(&self) -> bool {
        self.weight >= REPORT_WEIGHT
    }

    fn is_overdue(&self) -> bool {
        self.weight > 0 && self.reported.elapsed() >= REPORT_AGE
    }

    /// Takes the unreported activities.
    fn take_report(&mut self) -> Report {
        (self.weight, self.reported) = (0, Instant::now());
        let Report { program, enrolled, .. } = &self.report;
        let next = Report { program: program.clone(), enrolled: *enrolled, ..Report::default() };
        std::mem::replace(&mut self.report, next)
    }
}

/// Whether a message belongs in a timeline: messages between libraries and daemons do not.
fn is_recorded(peer: Tid, header: &MessageHeader) -> bool {
    peer.is_task() && header.context != CONTEXT_TC && header.context != CONTEXT_TM
}

impl Engine {
    /// Whether calls are recorded.
    #[inline]
    pub fn is_recorded(&self) -> bool {
        self.recorder.is_some()
    }

    /// A call begins, if it is recorded.
    #[inline]
    pub fn begin_span(&self) -> Option<Begun> {
        self.recorder.as_ref().map(|recorder| Begun(recorder.clock.now()))
    }

    /// A call that began at `begun` has sent a message.
    pub(super) fn record_send(
        &mut self,
        begun: Option<Begun>,
        to: &[Tid],
        header: &MessageHeader,
        payload: Payload<'_>,
    ) {
        let (Some(begun), Some(recorder)) = (begun, &mut self.recorder) else { return };
        let kind = Kind { context: header.context, tag: header.tag };
        let to: Vec<(Tid, Number)> = to
            .iter()
            .filter(|&&tid| is_recorded(tid, header))
            .map(|&tid| (tid, recorder.sent.next(tid, kind)))
            .collect();
        if !to.is_empty() {
            let bytes = payload.len() as u64;
            recorder.add(begun, Activity::Send { to, kind, bytes });
            self.report_if(Recorder::is_due);
        }
    }

    /// A call that began at `begun` has received a message.
    pub fn record_receive(&mut self, begun: Option<Begun>, from: Tid, header: &MessageHeader, length: usize) {
        let (Some(begun), Some(recorder)) = (begun, &mut self.recorder) else { return };
        let kind = Kind { context: header.context, tag: header.tag };
        let number = if is_recorded(from, header) { recorder.received.next(from, kind) } else { None };
        recorder.add(begun, Activity::Receive { from, number, kind, bytes: length as u64 });
        self.report_if(Recorder::is_due);
    }

    /// A call that began at `begun` has waited and received no message.
    pub fn record_wait(&mut self, begun: Option<Begun>) {
        let (Some(begun), Some(recorder)) = (begun, &mut self.recorder) else { return };
        if recorder.clock.now().saturating_sub(begun.0) >= LOOK {
            recorder.add(begun, Activity::Wait);
        }
        self.report_if(Recorder::is_overdue);
    }

    /// A call that began at `begun` has got an answer of the daemon.
    pub(super) fn record_request(&mut self, begun: Option<Begun>, tag: i32) {
        let (Some(begun), Some(recorder)) = (begun, &mut self.recorder) else { return };
        recorder.add(begun, Activity::Request(tag));
        self.report_if(Recorder::is_due);
    }

    /// A group call that began at `begun` has ended.
    pub fn record_group(&mut self, begun: Option<Begun>, call: &str, group: &OsStr) {
        let (Some(begun), Some(recorder)) = (begun, &mut self.recorder) else { return };
        let group = group.to_string_lossy().chars().take(GROUP_NAME_MAX).collect();
        recorder.add(begun, Activity::Group { call: call.to_owned(), group });
        self.report_if(Recorder::is_due);
    }

    /// To be called before the task waits, perhaps for ever.
    pub fn report_before_wait(&mut self) {
        self.report_if(Recorder::is_overdue);
    }

    /// Reports all activities so far: another process may go on with the task.
    pub(super) fn report_so_far(&mut self) {
        self.report_if(|_| true);
    }

    /// Reports the remaining activities: the task leaves the machine.
    pub(super) fn report_end(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.report.left = Some(recorder.clock.now());
            self.report_if(|_| true);
            self.recorder = None;
        }
    }

    fn report_if(&mut self, wanted: impl FnOnce(&Recorder) -> bool) {
        let Some(recorder) = self.recorder.as_mut().filter(|recorder| wanted(recorder)) else { return };
        let (report, collector) = (recorder.take_report(), recorder.collector);
        let sent = pvm_wire::codec::encode(&report).is_ok_and(|body| {
            self.inbox.deferred.push_back(Message {
                src: self.tid(),
                dst: collector,
                header: xdr_header(TIMELINE_TAG, CONTEXT_TC, 0),
                body: body.into(),
            });
            self.send_deferred()
        });
        if !sent {
            // Tracing must not make a program fail; the next call reports that the daemon is lost.
            self.recorder = None;
        }
    }

    /// The environment entry by which spawned tasks record as this one does.
    pub(super) fn recorder_environment(&self) -> Option<String> {
        self.recorder.as_ref().map(|recorder| format!("{VARIABLE}={}", recorder.collector.raw()))
    }

    /// Starts recording, if the environment asks for it.
    pub(super) fn start_recorder(&mut self) {
        self.recorder = Recorder::from_environment();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder() -> Recorder {
        Recorder::new(Tid::from_raw(0x40001), Clock::new())
    }

    /// The clocks of tasks that are interrupted while they are made agree.
    #[test]
    fn clocks_agree_where_processors_are_taken() {
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 * std::thread::available_parallelism().unwrap().get() {
                scope.spawn(|| {
                    while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let first = Clock::new();
            let others = std::iter::from_fn(|| (first.start.elapsed().as_secs() < 1).then(Clock::new));
            let apart = others.map(|other| {
                let expected = first.time_at_start + (other.start - first.start);
                other.time_at_start.abs_diff(expected)
            });
            let furthest = apart.max();
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(furthest < Some(Duration::from_micros(100)), "{furthest:?}");
        });
    }

    #[test]
    fn messages_of_a_kind_are_numbered_until_there_are_too_many_kinds() {
        let mut counters = Counters::default();
        let peer = Tid::from_raw(0x40002);
        for tag in 0..KINDS_MAX as i32 {
            assert_eq!(counters.next(peer, Kind { context: 0, tag }), Some(1));
        }
        assert_eq!(counters.next(peer, Kind { context: 0, tag: -1 }), None);
        assert_eq!(counters.next(peer, Kind { context: 0, tag: 7 }), Some(2));
    }

    #[test]
    fn a_record_is_bounded_and_counts_dropped_calls() {
        let mut recorder = recorder();
        for _ in 0..LIFE_WEIGHT + 3 {
            recorder.add(Begun(0), Activity::Wait);
            if recorder.is_due() {
                assert_eq!(recorder.take_report().spans.len(), REPORT_WEIGHT);
            }
        }
        let last = recorder.take_report();
        assert_eq!((last.spans.len(), last.lost), (0, 3));
        assert_eq!(recorder.take_report().lost, 0);
    }

    #[test]
    fn time_does_not_go_back() {
        let clock = Clock::new();
        let times: Vec<u64> = (0..1000).map(|_| clock.now()).collect();
        assert!(times.is_sorted() && times[0] > 1_600_000_000_000_000_000);
    }
}
