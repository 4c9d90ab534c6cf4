//! What tasks did when, and their messages, from PVM's trace events: the space–time view.

use pvm_wire::event_reader::{EventReader, Told};
use pvm3::Tid;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Changes and messages that are kept for viewers that join later.
const CHANGES_MAX: usize = 60_000;
const MESSAGES_MAX: usize = 30_000;
/// Tasks with a row.
const ROWS_MAX: usize = 20_000;
/// Messages of a kind, and kinds, that wait for their other half.
const HALVES_MAX: usize = 4_096;
const KINDS_MAX: usize = 65_536;
/// How long a receiver's event may be ahead of its sender's: they come over different daemons.
const SKEW: Duration = Duration::from_secs(2);

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Doing {
    /// It has ended.
    Ended = 0,
    /// It runs its own code.
    Computing = 1,
    /// It waits for a message or for members of its group.
    Waiting = 2,
    /// It sends.
    Sending = 3,
    /// It is in another call.
    Calling = 4,
}

/// From a moment on a task does something; microseconds since 1970 by this host's clock.
pub type Change = (Tid, i64, Doing);

/// A message. It has no time of sending if its sender is not traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its sender.
    pub from: Tid,
    /// Its receiver.
    pub to: Tid,
    /// Its tag.
    pub tag: i32,
    /// Its length.
    pub bytes: i64,
    /// When the call that sent it began.
    pub sent: Option<i64>,
    /// When the call that received it ended.
    pub received: i64,
}

/// Sender, receiver, context and tag: messages of one kind are received in the order in which they were sent.
type Kind = (Tid, Tid, i64, i32);

/// Halves of messages of a kind.
#[derive(Debug, Default)]
struct Halves {
    sent: VecDeque<i64>,
    received: VecDeque<(Instant, Message)>,
}

/// News since the last look.
#[derive(Debug, Default)]
pub struct News {
    /// New rows, and such that have got a name.
    pub rows: Vec<(Tid, String)>,
    /// Changes, in the order of their arrival.
    pub changes: Vec<Change>,
    /// Messages that were received.
    pub messages: Vec<Message>,
}

impl News {
    /// Whether nothing is new.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.changes.is_empty() && self.messages.is_empty()
    }
}

/// The trace until now.
#[derive(Debug)]
pub struct Spans {
    reader: EventReader,
    rows: BTreeMap<Tid, Row>,
    halves: HashMap<Kind, Halves>,
    changes: VecDeque<Change>,
    messages: VecDeque<Message>,
    /// `None` when more is new than is kept.
    news: Option<News>,
}

#[derive(Debug, Default)]
struct Row {
    name: String,
    /// The calls it is in, the outer ones first.
    calls: Vec<Doing>,
    has_ended: bool,
}

/// What a call with this name does; `None` if it is not shown.
fn doing(name: &str) -> Option<Doing> {
    Some(match name {
        "recv" | "trecv" | "precv" | "nrecv" | "barrier" | "reduce" | "gather" | "scatter" => Doing::Waiting,
        "send" | "psend" | "mcast" | "bcast" => Doing::Sending,
        "spawn" | "addhosts" | "delhosts" | "joingroup" | "lvgroup" | "exit" | "halt" | "config"
        | "tasks" => Doing::Calling,
        _ => return None,
    })
}

impl Default for Spans {
    fn default() -> Self {
        Self {
            reader: EventReader::default(),
            rows: BTreeMap::new(),
            halves: HashMap::new(),
            changes: VecDeque::new(),
            messages: VecDeque::new(),
            news: Some(News::default()),
        }
    }
}

impl Spans {
    /// A message with events; `behind` is by how many microseconds the clock of a task's host is behind.
    pub fn read(&mut self, body: &[u8], behind: impl Fn(Tid) -> i64, now: Instant) {
        let (events, _) = self.reader.read(body);
        for event in &events {
            let data = Data(event);
            let Some(tid) = data.number("TID").map(Tid::from_raw).filter(|tid| tid.is_task()) else {
                continue;
            };
            let (Some(seconds), Some(micros)) = (data.wide("TS"), data.wide("TU")) else { continue };
            let moment = seconds.saturating_mul(1_000_000).saturating_add(micros).saturating_add(behind(tid));
            self.event(tid, moment, &data, now);
        }
    }

    fn event(&mut self, tid: Tid, moment: i64, data: &Data<'_>, now: Instant) {
        match (&*data.0.name, data.0.entry) {
            ("newtask", _) => {
                let name = data.text("TN").unwrap_or_default();
                self.name(tid, &name);
                self.change(tid, moment, Doing::Computing);
            }
            ("endtask", _) => {
                self.change(tid, moment, Doing::Ended);
                self.rows.entry(tid).or_default().has_ended = true;
                self.halves.retain(|kind, _| kind.1 != tid);
            }
            (name, entry) => {
                let Some(what) = doing(name) else { return };
                if entry == Some(true) {
                    self.enter(tid, moment, what, data, now);
                } else {
                    self.leave(tid, moment, what, data, now);
                }
            }
        }
    }

    fn enter(&mut self, tid: Tid, moment: i64, what: Doing, data: &Data<'_>, now: Instant) {
        let row = self.row(tid);
        row.calls.truncate(7);
        row.calls.push(what);
        self.change(tid, moment, what);
        if what == Doing::Sending
            && let Some(tag) = data.number("MC")
        {
            let (context, one) = (data.wide("MCX").unwrap_or(0), data.number("DST"));
            for to in one.into_iter().chain(data.numbers("MDL")).map(Tid::from_raw).filter(|to| to.is_task())
            {
                self.sent((tid, to, context, tag), moment, now);
            }
        }
    }

    fn leave(&mut self, tid: Tid, moment: i64, what: Doing, data: &Data<'_>, now: Instant) {
        let row = self.row(tid);
        row.calls.pop();
        let outer = row.calls.last().copied().unwrap_or(Doing::Computing);
        self.change(tid, moment, outer);
        let from = data.number("SRC").map(Tid::from_raw).filter(|from| from.is_task());
        if let (Doing::Waiting, Some(from), Some(tag @ 0..)) = (what, from, data.number("MC")) {
            let bytes = data.wide("MNB").unwrap_or(0);
            let message = Message { from, to: tid, tag, bytes, sent: None, received: moment };
            self.received(data.wide("MCX").unwrap_or(0), message, now);
        }
    }

    fn sent(&mut self, kind: Kind, moment: i64, now: Instant) {
        let Some(halves) = self.halves_of(kind) else { return };
        match halves.received.pop_front() {
            Some((arrived, message)) if now.duration_since(arrived) <= SKEW => {
                self.message(Message { sent: Some(moment), ..message });
            }
            Some((_, message)) => {
                self.message(message);
                self.sent(kind, moment, now);
            }
            None if halves.sent.len() < HALVES_MAX => halves.sent.push_back(moment),
            None => {}
        }
    }

    fn received(&mut self, context: i64, message: Message, now: Instant) {
        let kind = (message.from, message.to, context, message.tag);
        let Some(halves) = self.halves_of(kind) else { return self.message(message) };
        if let Some(sent) = halves.sent.pop_front() {
            self.message(Message { sent: Some(sent), ..message });
        } else if halves.received.len() < HALVES_MAX {
            halves.received.push_back((now, message));
        } else {
            self.message(message);
        }
    }

    fn halves_of(&mut self, kind: Kind) -> Option<&mut Halves> {
        let has_room = self.halves.len() < KINDS_MAX || self.halves.contains_key(&kind);
        has_room.then(|| self.halves.entry(kind).or_default())
    }

    /// Messages whose senders' events do not come: these are not traced.
    pub fn settle(&mut self, now: Instant) {
        let mut alone = Vec::new();
        self.halves.retain(|_, halves| {
            let late = halves.received.partition_point(|(when, _)| now.duration_since(*when) > SKEW);
            alone.extend(halves.received.drain(..late).map(|(_, message)| message));
            !halves.sent.is_empty() || !halves.received.is_empty()
        });
        for message in alone {
            self.message(message);
        }
    }

    fn message(&mut self, message: Message) {
        self.row(message.from);
        self.messages.push_back(message);
        if self.messages.len() > MESSAGES_MAX {
            self.messages.pop_front();
        }
        self.tell(|news| news.messages.push(message));
    }

    fn change(&mut self, tid: Tid, moment: i64, what: Doing) {
        let row = self.row(tid);
        if what == Doing::Ended {
            row.calls.clear();
        }
        self.changes.push_back((tid, moment, what));
        if self.changes.len() > CHANGES_MAX {
            self.changes.pop_front();
        }
        self.tell(|news| news.changes.push((tid, moment, what)));
    }

    /// The row of a task. Those of tasks that have ended make room, and if all run, that of the smallest id.
    fn row(&mut self, tid: Tid) -> &mut Row {
        if !self.rows.contains_key(&tid) {
            if self.rows.len() >= ROWS_MAX {
                self.rows.retain(|_, row| !row.has_ended);
            }
            if self.rows.len() >= ROWS_MAX {
                self.rows.pop_first();
            }
            self.tell(|news| news.rows.push((tid, String::new())));
        }
        self.rows.entry(tid).or_default()
    }

    fn name(&mut self, tid: Tid, name: &str) {
        // A task that was not spawned has no name.
        let short = name.rsplit('/').next().filter(|name| *name != "-").unwrap_or_default();
        short.clone_into(&mut self.row(tid).name);
        self.tell(|news| news.rows.push((tid, short.to_owned())));
    }

    /// Adds to the news. Without viewers no one takes them: beyond the bounds of what is kept they are dropped.
    fn tell(&mut self, add: impl FnOnce(&mut News)) {
        let Some(news) = &mut self.news else { return };
        add(news);
        let News { rows, changes, messages } = news;
        if rows.len() > ROWS_MAX || changes.len() > CHANGES_MAX || messages.len() > MESSAGES_MAX {
            self.news = None;
        }
    }

    /// The news since the last call; `None` if they exceeded the bounds. [`all`](Self::all) has what is kept then.
    pub fn news(&mut self) -> Option<News> {
        self.news.replace(News::default())
    }

    /// All that is kept.
    pub fn all(&self) -> News {
        News {
            rows: self.rows.iter().map(|(tid, row)| (*tid, row.name.clone())).collect(),
            changes: self.changes.iter().copied().collect(),
            messages: self.messages.iter().copied().collect(),
        }
    }
}

/// The data of an event.
struct Data<'a>(&'a Told);

impl Data<'_> {
    fn value(&self, name: &str) -> Option<&str> {
        self.0.data.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    fn number(&self, name: &str) -> Option<i32> {
        self.value(name)?.parse().ok()
    }

    fn wide(&self, name: &str) -> Option<i64> {
        self.value(name)?.parse().ok()
    }

    /// `[1 2 3]`
    fn numbers(&self, name: &str) -> Vec<i32> {
        let list = self.value(name).unwrap_or_default().trim_matches(['[', ']']);
        list.split(' ').filter_map(|number| number.parse().ok()).collect()
    }

    fn text(&self, name: &str) -> Option<String> {
        Some(self.value(name)?.trim_matches('"').to_owned())
    }
}

#[cfg(test)]
#[path = "spans_tests.rs"]
mod tests;
