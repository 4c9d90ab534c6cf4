//! Reads the file of a trace: Chrome's trace event format, as `pvm run --trace` writes it.
//!
//! Entry by entry: of what the summary does not need, nothing is kept.

use super::record::{Awaited, Doing, Message, Moment, Record, Span, Task};
use anyhow::{Result, bail};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::Read;

/// No time of a trace is this many microseconds after its start: thirty years.
const MICROS_MAX: f64 = 1e15;

/// Spans that begin between a wait and its end.
const NESTED_MAX: usize = 64;

/// Reads a trace.
pub fn read(file: impl Read) -> Result<Record> {
    let mut reader = serde_json::Deserializer::from_reader(file);
    let mut builder = Builder::default();
    let read = Whole(&mut builder).deserialize(&mut reader).and_then(|()| reader.end());
    if let Err(error) = read {
        bail!("it is not a trace of \"pvm run --trace\": {error}");
    }
    let record = builder.finish();
    if record.tasks.is_empty() {
        bail!("it has no task");
    }
    Ok(record)
}

/// A task in the file: its host and its number there.
type Key = (i64, i64);

/// An entry of the file.
#[derive(Debug, Deserialize)]
struct Event {
    ph: String,
    #[serde(default)]
    pid: i64,
    #[serde(default)]
    tid: i64,
    #[serde(default)]
    name: String,
    #[serde(default)]
    cat: String,
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
    #[serde(default)]
    id: u64,
    #[serde(default)]
    args: Map<String, Value>,
}

impl Event {
    fn text(&self, name: &str) -> Option<&str> {
        self.args.get(name)?.as_str()
    }

    fn key(&self) -> Key {
        (self.pid, self.tid)
    }

    fn begin(&self) -> Option<Moment> {
        nanos(self.ts)
    }

    fn end(&self) -> Option<Moment> {
        nanos(self.ts + self.dur)
    }
}

fn nanos(micros: f64) -> Option<Moment> {
    (micros.is_finite() && micros.abs() < MICROS_MAX).then(|| (micros * 1000.0).round() as Moment)
}

/// What the entries until now say.
#[derive(Debug, Default)]
struct Builder {
    hosts: BTreeMap<i64, String>,
    rows: BTreeMap<Key, Row>,
    sent: HashMap<u64, (Key, Moment)>,
    received: HashMap<u64, (Key, Moment)>,
    /// In the order in which messages come.
    order: Vec<u64>,
}

#[derive(Debug, Default)]
struct Row {
    id: String,
    program: String,
    life: Option<(Moment, Moment)>,
    spans: Vec<(Span, u64)>,
}

impl Builder {
    /// Takes an entry in; false if its times are none.
    fn add(&mut self, event: &Event) -> bool {
        match (&*event.ph, &*event.name) {
            ("M", "process_name") => {
                self.hosts.insert(event.pid, event.text("name").unwrap_or_default().to_owned());
            }
            ("M", "thread_name") if event.tid != 0 => {
                let name = event.text("name").unwrap_or_default();
                let (id, program) = name.split_once(' ').unwrap_or((name, ""));
                let row = self.rows.entry(event.key()).or_default();
                (row.id, row.program) = (id.to_owned(), program.to_owned());
            }
            ("X", _) => return self.add_span(event).is_some(),
            ("s" | "f", _) => {
                let Some(moment) = event.begin() else { return false };
                let ends = if event.ph == "s" { &mut self.sent } else { &mut self.received };
                if ends.insert(event.id, (event.key(), moment)).is_none() && event.ph == "f" {
                    self.order.push(event.id);
                }
            }
            _ => {}
        }
        true
    }

    fn add_span(&mut self, event: &Event) -> Option<()> {
        let (begin, end) = (event.begin()?, event.end()?);
        let awaited = |event: &Event| event.text("from").map(|from| Awaited::Task(from.to_owned()));
        let (doing, awaited) = match &*event.cat {
            "task" => {
                self.rows.entry(event.key()).or_default().life = Some((begin, end.max(begin)));
                return Some(());
            }
            "computing" => (Doing::Computing, None),
            "waiting" => (Doing::Waiting, Some(awaited(event).unwrap_or(Awaited::Nothing))),
            "sending" => (Doing::Sending, None),
            "daemon" => (Doing::Daemon, None),
            "group" => {
                let group = format!("{} {}", event.name, event.text("group").unwrap_or_default());
                (Doing::Waiting, Some(Awaited::Group(group)))
            }
            // The last part of a wait, on which an arrow ends; turns; what later versions may write.
            _ => return Some(()),
        };
        let is_spawn = doing == Doing::Daemon && event.name == "spawn";
        let bytes = event.args.get("bytes").and_then(Value::as_u64).unwrap_or(0);
        let span = Span { begin, end: end.max(begin), doing, awaited, is_spawn };
        self.rows.entry(event.key()).or_default().spans.push((span, bytes));
        Some(())
    }

    fn finish(mut self) -> Record {
        // A host that has no name has its number.
        for &(host, _) in self.rows.keys() {
            self.hosts.entry(host).or_insert_with(|| format!("host {host}"));
        }
        let hosts: HashMap<i64, usize> =
            self.hosts.keys().enumerate().map(|(at, &host)| (host, at)).collect();
        let rows: Vec<(Key, Row)> = self.rows.into_iter().filter(|(_, row)| row.life.is_some()).collect();
        let numbers: HashMap<Key, usize> = rows.iter().enumerate().map(|(at, (key, _))| (*key, at)).collect();
        let mut record = Record { hosts: self.hosts.into_values().collect(), ..Record::default() };
        let mut bytes = Vec::new();
        for ((host, number), mut row) in rows {
            row.spans.sort_by_key(|(span, _)| (span.begin, -span.end));
            let (spans, lengths): (Vec<Span>, Vec<u64>) = row.spans.into_iter().unzip();
            let (begin, end) = row.life.unwrap_or_default();
            let id = if row.id.is_empty() { format!("{host}/{number}") } else { row.id };
            let parts = Task::cut(begin, end, &spans);
            let host = hosts.get(&host).copied().unwrap_or(0);
            record.tasks.push(Task { id, program: row.program, host, begin, end, spans, parts });
            bytes.push(lengths);
        }
        for id in self.order {
            let ends = self.sent.get(&id).zip(self.received.get(&id));
            let Some((&(from, sent), &(to, arrow))) = ends else { continue };
            let Some((&from, &to)) = numbers.get(&from).zip(numbers.get(&to)) else { continue };
            let task = &record.tasks[to];
            // The arrow ends shortly before the wait does.
            let Some(at) = wait_at(&task.spans, arrow) else { continue };
            let (wait, bytes) = (&task.spans[at], bytes[to][at]);
            record.messages.push(Message { from, to, sent, awaited: wait.begin, received: wait.end, bytes });
        }
        record
    }
}

/// The wait for a task's message at a moment.
fn wait_at(spans: &[Span], moment: Moment) -> Option<usize> {
    let after = spans.partition_point(|span| span.begin <= moment);
    let first = after.saturating_sub(NESTED_MAX);
    let is_it = |span: &Span| span.end >= moment && matches!(span.awaited, Some(Awaited::Task(_)));
    spans[first..after].iter().rposition(is_it).map(|at| first + at)
}

/// The file as a whole.
struct Whole<'a>(&'a mut Builder);

impl<'de> DeserializeSeed<'de> for Whole<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Whole<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object with \"traceEvents\"")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut is_there = false;
        while let Some(key) = map.next_key::<String>()? {
            if key == "traceEvents" {
                is_there = true;
                map.next_value_seed(Events(&mut *self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        if is_there { Ok(()) } else { Err(A::Error::missing_field("traceEvents")) }
    }
}

/// The list of entries.
struct Events<'a>(&'a mut Builder);

impl<'de> DeserializeSeed<'de> for Events<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Events<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(event) = list.next_element::<Event>()? {
            if !self.0.add(&event) {
                return Err(A::Error::custom(format_args!("a time of {:?} is too large", event.name)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"{"displayTimeUnit":"ms","traceEvents":[
        {"ph":"M","pid":1,"tid":0,"name":"process_name","args":{"name":"a"}},
        {"ph":"M","pid":1,"tid":0,"name":"thread_name","args":{"name":"turns"}},
        {"ph":"C","pid":1,"tid":0,"name":"shares","ts":1.0,"args":{"name":3.5}},
        {"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"t40002 farm of 2"}},
        {"ph":"X","pid":1,"tid":2,"name":"farm","cat":"task","ts":0.0,"dur":100.0,"args":{"task":"t40002"}},
        {"ph":"X","pid":1,"tid":2,"name":"spawn","cat":"daemon","ts":1.0,"dur":2.0},
        {"ph":"X","pid":1,"tid":2,"name":"sending","cat":"sending","ts":10.0,"dur":5.0,"args":{"to":"t80001","tag":7,"bytes":8}},
        {"ph":"X","pid":2,"tid":1,"name":"work","cat":"task","ts":2.0,"dur":50.5},
        {"ph":"X","pid":2,"tid":1,"name":"barrier","cat":"group","ts":3.0,"dur":1.0,"args":{"group":"g"}},
        {"ph":"X","pid":2,"tid":1,"name":"waiting","cat":"waiting","ts":5.0,"dur":15.0,"args":{"from":"t40002","tag":7,"bytes":8}},
        {"ph":"X","pid":2,"tid":1,"name":"receiving","cat":"receiving","ts":19.0,"dur":1.0},
        {"ph":"s","pid":1,"tid":2,"name":"message","cat":"message","ts":10.0,"id":1},
        {"ph":"f","pid":2,"tid":1,"name":"message","cat":"message","ts":19.0,"id":1,"bp":"e"},
        {"ph":"f","pid":2,"tid":1,"name":"message","cat":"message","ts":19.0,"id":2,"bp":"e"}
    ]}"#;

    fn refused(text: &str) -> String {
        read(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn tasks_spans_and_messages_are_found() {
        let record = read(TWO.as_bytes()).unwrap();
        assert_eq!(record.hosts, ["a", "host 2"]);
        let [one, other] = &record.tasks[..] else { panic!("{record:?}") };
        assert_eq!(
            (&*one.id, &*one.program, one.host, one.begin, one.end),
            ("t40002", "farm of 2", 0, 0, 100_000)
        );
        assert_eq!((&*other.id, other.host, other.end), ("2/1", 1, 52_500));
        assert!(one.spans[0].is_spawn && !one.spans[1].is_spawn);
        assert_eq!(other.spans[0].awaited, Some(Awaited::Group("barrier g".into())));
        let message = Message { from: 0, to: 1, sent: 10_000, awaited: 5_000, received: 20_000, bytes: 8 };
        assert_eq!(record.messages, [message]);
        assert_eq!(record.length(), 100_000);
    }

    #[test]
    fn what_is_no_trace_is_refused_with_a_reason() {
        for (text, reason) in [
            ("", "EOF while parsing"),
            ("[]", "an object with \"traceEvents\""),
            ("{}", "missing field `traceEvents`"),
            (r#"{"traceEvents":3}"#, "a list of events"),
            (r#"{"traceEvents":[{"pid":1}]}"#, "missing field `ph`"),
            (r#"{"traceEvents":[{"ph":"X","name":"x","ts":1e300}]}"#, "a time of \"x\" is too large"),
            (r#"{"traceEvents":[]"#, "EOF while parsing"),
            (r#"{"traceEvents":[]} x"#, "trailing characters"),
        ] {
            assert!(refused(text).contains(reason), "{text}: {}", refused(text));
        }
        assert_eq!(refused(r#"{"traceEvents":[]}"#), "it has no task");
    }
}
