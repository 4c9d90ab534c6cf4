//! The viewers and their queues of events. The collector never waits for a viewer: a viewer whose queue is full is disconnected.

use super::sse;
use bytes::Bytes;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, Receiver, Sender};

/// Viewers at a time.
pub const VIEWERS_MAX: usize = 32;
/// Events that wait for a viewer: those of some ten seconds.
const WAITING_MAX: usize = 64;

/// What the viewers show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wanted {
    /// There are no viewers.
    Nothing,
    /// The state of the machine.
    Snapshots,
    /// Also the calls of tasks.
    Trace,
    /// The collector is to end.
    End,
}

/// The viewers and what they have in common.
#[derive(Debug, Default)]
pub struct Hub {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    seats: Vec<Seat>,
    snapshot: Option<(Instant, Bytes)>,
    is_ending: bool,
}

/// A viewer.
#[derive(Debug)]
struct Seat {
    events: Sender<Bytes>,
    is_tracing: bool,
    /// The trace has not been sent to it yet.
    is_new: bool,
}

/// The continuation of the trace.
#[derive(Debug)]
pub enum Continued {
    /// Nothing is new.
    Not,
    /// New events, as JSON.
    By(String),
    /// More events than are kept: all viewers get the whole trace again.
    Anew,
}

impl Hub {
    /// A new viewer; `None` if there are too many, or the server ends. It gets a snapshot at once if there is one that is not older
    /// than `fresh`.
    pub fn join(&self, is_tracing: bool, fresh: Duration) -> Option<Receiver<Bytes>> {
        let mut state = self.lock();
        state.seats.retain(|seat| !seat.events.is_closed());
        if state.is_ending || state.seats.len() >= VIEWERS_MAX {
            return None;
        }
        let (events, receiver) = mpsc::channel(WAITING_MAX);
        let latest = state.snapshot.as_ref().filter(|(when, _)| when.elapsed() <= fresh);
        let latest = latest.map(|(_, frame)| frame.clone());
        for frame in [Some(sse::retry()), latest].into_iter().flatten() {
            // The queue is empty.
            let _ = events.try_send(frame);
        }
        state.seats.push(Seat { events, is_tracing, is_new: is_tracing });
        self.changed.notify_all();
        Some(receiver)
    }

    /// What the collector has to collect, and the number of viewers.
    pub fn wanted(&self) -> (Wanted, usize) {
        let mut state = self.lock();
        state.seats.retain(|seat| !seat.events.is_closed());
        (state.wanted(), state.seats.len())
    }

    /// Waits for `time`, or until a viewer wants more than `now`.
    pub fn wait(&self, time: Duration, now: Wanted) {
        let state = self.lock();
        let enough = |state: &mut State| state.wanted() <= now;
        let waited = self.changed.wait_timeout_while(state, time, enough);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Sends all viewers a snapshot.
    pub fn publish_snapshot(&self, json: &str) {
        let frame = sse::event("snapshot", json);
        let mut state = self.lock();
        state.snapshot = Some((Instant::now(), frame.clone()));
        state.send(&frame, |_| true);
    }

    /// Sends the continuation of the trace to its viewers, and `all` of it to viewers that have joined since the last call.
    pub fn publish_trace(&self, continued: &Continued, all: impl FnOnce() -> String) {
        let mut state = self.lock();
        let is_anew = matches!(continued, Continued::Anew);
        let is_due = |seat: &Seat| seat.is_tracing && (seat.is_new || is_anew);
        if let Continued::By(json) = continued {
            state.send(&sse::event("trace", json), |seat| seat.is_tracing && !seat.is_new);
        }
        if state.seats.iter().any(is_due) {
            state.send(&sse::event("trace", &all()), is_due);
            state.seats.iter_mut().for_each(|seat| seat.is_new = false);
        }
    }

    /// The machine has ended, or this program: viewers get the reason, and the collector ends.
    pub fn end(&self, json: &str) {
        let mut state = self.lock();
        if !state.is_ending {
            state.is_ending = true;
            state.send(&sse::event("end", json), |_| true);
            state.seats.clear();
        }
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wanted(&self) -> Wanted {
        match () {
            () if self.is_ending => Wanted::End,
            () if self.seats.is_empty() => Wanted::Nothing,
            () if self.seats.iter().any(|seat| seat.is_tracing) => Wanted::Trace,
            () => Wanted::Snapshots,
        }
    }

    /// Sends it to those viewers. One whose queue is full loses its place: its browser connects again.
    fn send(&mut self, frame: &Bytes, to: impl Fn(&Seat) -> bool) {
        self.seats.retain(|seat| !to(seat) || seat.events.try_send(frame.clone()).is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRESH: Duration = Duration::from_secs(60);

    fn text(receiver: &mut Receiver<Bytes>) -> Option<String> {
        receiver.try_recv().ok().map(|frame| String::from_utf8(frame.to_vec()).unwrap())
    }

    #[test]
    fn what_is_wanted_depends_on_the_viewers() {
        let hub = Hub::default();
        assert_eq!(hub.wanted(), (Wanted::Nothing, 0));
        let plain = hub.join(false, FRESH).unwrap();
        assert_eq!(hub.wanted(), (Wanted::Snapshots, 1));
        let tracing = hub.join(true, FRESH).unwrap();
        assert_eq!(hub.wanted(), (Wanted::Trace, 2));
        drop(tracing);
        assert_eq!(hub.wanted(), (Wanted::Snapshots, 1));
        drop(plain);
        assert_eq!(hub.wanted(), (Wanted::Nothing, 0));
        hub.end("{}");
        assert_eq!(hub.wanted().0, Wanted::End);
        assert!(hub.join(false, FRESH).is_none());
    }

    #[test]
    fn places_are_limited_and_become_free() {
        let hub = Hub::default();
        let mut viewers: Vec<_> = (0..VIEWERS_MAX).map(|_| hub.join(false, FRESH).unwrap()).collect();
        assert!(hub.join(false, FRESH).is_none());
        viewers.pop();
        assert!(hub.join(false, FRESH).is_some());
    }

    #[test]
    fn a_newcomer_sees_what_there_is() {
        let hub = Hub::default();
        hub.publish_snapshot("{\"a\":1}");
        let mut viewer = hub.join(false, FRESH).unwrap();
        assert!(text(&mut viewer).unwrap().starts_with("retry: "));
        assert_eq!(text(&mut viewer).as_deref(), Some("event: snapshot\ndata: {\"a\":1}\n\n"));
        assert_eq!(text(&mut viewer), None);
        let mut late = hub.join(false, Duration::ZERO).unwrap();
        assert!(text(&mut late).unwrap().starts_with("retry: ") && text(&mut late).is_none());
    }

    #[test]
    fn a_newcomer_gets_all_of_the_trace_once() {
        let (hub, all) = (Hub::default(), || "all".to_owned());
        let mut viewers = [hub.join(true, FRESH).unwrap(), hub.join(false, FRESH).unwrap()];
        let mut publish = |hub: &Hub, continued| {
            hub.publish_trace(&continued, all);
            viewers.each_mut().map(|viewer| {
                let frames = std::iter::from_fn(|| text(viewer)).filter(|frame| !frame.starts_with("retry"));
                frames
                    .map(|frame| frame.trim_end().lines().last().unwrap()["data: ".len()..].to_owned())
                    .collect::<Vec<_>>()
            })
        };
        let said = |words: &[&str]| [words.iter().map(|&word| word.to_owned()).collect(), Vec::new()];
        assert_eq!(publish(&hub, Continued::Not), said(&["all"]));
        assert_eq!(publish(&hub, Continued::Not), said(&[]));
        assert_eq!(publish(&hub, Continued::By("more".into())), said(&["more"]));
        let mut late = hub.join(true, FRESH).unwrap();
        assert_eq!(
            publish(&hub, Continued::By("news".into())),
            said(&["news"]),
            "the late one has that in all"
        );
        assert!(text(&mut late).is_some());
        assert_eq!(text(&mut late).as_deref(), Some("event: trace\ndata: all\n\n"));
        assert_eq!(publish(&hub, Continued::Anew), said(&["all"]));
        assert_eq!((text(&mut late).is_some(), text(&mut late)), (true, None));
    }

    #[test]
    fn a_slow_viewer_is_dropped() {
        let hub = Hub::default();
        let mut slow = hub.join(false, FRESH).unwrap();
        let mut quick = hub.join(false, FRESH).unwrap();
        for _ in 0..=WAITING_MAX {
            hub.publish_snapshot("{}");
            while text(&mut quick).is_some() {}
        }
        assert_eq!(hub.wanted().1, 1);
        assert_eq!(std::iter::from_fn(|| text(&mut slow)).count(), WAITING_MAX);
        assert!(slow.is_closed() && !quick.is_closed());
    }
}
