//! The file: Chrome's trace event format. A process is a host, a thread is a task, a flow is a message.

use super::Host;
use super::rows::{Call, Moment, Row};
use super::turns::{self, Turn, Window};
use pvm_wire::codes::Tm;
use pvm_wire::timeline::{Activity, Kind};
use pvm_wire::{HostIndex, Tid};
use pvm3::ClockAhead;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};

/// Curves that a host with turns has.
const SHARES: &str = "teams' shares of what all had, %";
const SLOWDOWNS: &str = "teams' slowdowns";

/// Receivers of a multicast that are named.
const NAMED_MAX: usize = 16;

/// All rows of a run.
#[derive(Debug)]
pub struct Picture {
    hosts: BTreeMap<Tid, Host>,
    rows: Vec<Row>,
    turns: BTreeMap<Tid, Vec<Turn>>,
    start: Moment,
}

/// An entry of the file.
#[derive(Debug, Default, Serialize)]
struct Event<'a> {
    ph: &'static str,
    pid: i32,
    tid: u32,
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    cat: &'static str,
    /// Microseconds since the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    /// Microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'static str>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    args: Map<String, Value>,
}

/// One of the messages of a kind from one task to another.
type Sending = (Tid, Tid, Kind, u64);

impl Picture {
    /// A picture of these rows; `hosts` has the hosts by their ids, `turns` those of each.
    pub fn new(hosts: BTreeMap<Tid, Host>, rows: Vec<Row>, turns: BTreeMap<Tid, Vec<Turn>>) -> Self {
        let start = rows.iter().map(|row| row.begin).min().unwrap_or(0);
        Self { hosts, rows, turns, start }
    }

    /// Writes the file.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
        let mut file = File { out, first: true };
        for (&tid, host) in &self.hosts {
            file.put(&label("process_name", tid, json!(host.name)))?;
            file.put(&label("process_sort_index", tid, json!(number(tid))))?;
            if let Some(clock) = host.behind {
                file.put(&label("process_labels", tid, json!(correction(clock))))?;
            }
        }
        for (&host, turns) in &self.turns {
            self.write_turns(host, turns, &mut file)?;
        }
        for row in &self.rows {
            self.write_row(row, &mut file)?;
        }
        self.write_messages(&mut file)?;
        out.write_all(b"\n]}\n")
    }

    /// A host's turns are the first row there; no task has its number.
    fn write_turns(&self, host: Tid, turns: &[Turn], file: &mut File<'_, impl Write>) -> io::Result<()> {
        file.put(&label("thread_name", host, json!("turns")))?;
        file.put(&label("thread_sort_index", host, json!(-1)))?;
        for turn in turns.iter().filter(|turn| turn.end > self.start) {
            let mut args = Map::new();
            args.insert("epoch".to_owned(), json!(turn.what.epoch));
            if let Some(row) = turn.what.row {
                args.insert("row".to_owned(), json!(row));
            }
            if turn.what.origin != host.host().map_or(0, HostIndex::get) {
                args.insert("adopted from".to_owned(), json!(self.name_of(turn.what.origin)));
            }
            for (what, count) in [("old", turn.what.old), ("more than its share", turn.what.unfair)] {
                if count > 0 {
                    args.insert(format!("refused, {what}"), json!(count));
                }
            }
            if turn.what.is_boosted {
                args.insert("because of".to_owned(), json!("a message"));
            }
            let name = turn.what.team.as_deref().unwrap_or("all run");
            file.put(&self.span(host, name, "turn", (turn.begin.max(self.start), turn.end), args))?;
        }
        self.write_shares(host, turns, file)
    }

    /// The shares of teams on a host, as curves that hold until the next value; none where no turns are taken.
    fn write_shares(&self, host: Tid, turns: &[Turn], file: &mut File<'_, impl Write>) -> io::Result<()> {
        let mut known = BTreeSet::new();
        let windows = turns::windows(turns).into_iter().filter(|window| window.end > self.start);
        let windows: Vec<Window> = windows.collect();
        for (at, window) in windows.iter().enumerate() {
            known.extend(window.uses.iter().map(|team| &*team.name));
            let begin = window.begin.max(self.start);
            file.put(&self.curve(host, SHARES, begin, &known, &window.shares().collect()))?;
            file.put(&self.curve(host, SLOWDOWNS, begin, &known, &window.slowdowns().collect()))?;
            if windows.get(at + 1).is_none_or(|next| next.begin != window.end) {
                for name in [SHARES, SLOWDOWNS] {
                    file.put(&self.curve(host, name, window.end, &known, &BTreeMap::new()))?;
                }
            }
        }
        Ok(())
    }

    /// Values of teams from a moment on; of those that are known and have none, 0.
    fn curve(
        &self,
        host: Tid,
        name: &'static str,
        moment: Moment,
        known: &BTreeSet<&str>,
        values: &BTreeMap<&str, f64>,
    ) -> Event<'static> {
        let value = |team: &str| json!(values.get(team).copied().unwrap_or_default());
        let args = known.iter().map(|&team| (team.to_owned(), value(team))).collect();
        Event { ph: "C", name, ts: Some(self.time(moment)), args, ..place(host) }
    }

    /// The name of the host that has this index.
    fn name_of(&self, index: u32) -> String {
        let host = self.hosts.iter().find(|(tid, _)| tid.host().is_some_and(|host| host.get() == index));
        host.map_or_else(|| format!("host {index}"), |(_, host)| host.name.clone())
    }

    fn write_row(&self, row: &Row, file: &mut File<'_, impl Write>) -> io::Result<()> {
        let program = if row.name.is_empty() { "task" } else { &row.name };
        file.put(&label("thread_name", row.tid, json!(format!("{} {program}", row.tid))))?;
        file.put(&label("thread_sort_index", row.tid, json!(row.tid.local())))?;
        let mut args = Map::new();
        args.insert("task".to_owned(), json!(row.tid.to_string()));
        if !row.told {
            args.insert("note".to_owned(), json!("its calls are not recorded"));
        } else if !row.left {
            args.insert("note".to_owned(), json!("ended without leaving the virtual machine"));
        }
        file.put(&self.span(row.tid, program, "task", (row.begin, row.end), args))?;
        for call in &row.calls {
            let (name, category, args) = describe(call);
            file.put(&self.span(row.tid, &name, category, (call.begin, call.end), args))?;
        }
        Ok(())
    }

    fn write_messages(&self, file: &mut File<'_, impl Write>) -> io::Result<()> {
        let sent = self.sendings();
        let mut id = 0;
        for row in &self.rows {
            for call in &row.calls {
                let Some(Activity::Receive { from, number: Some(number), kind, .. }) = call.what else {
                    continue;
                };
                let Some(&begin) = sent.get(&(from, row.tid, kind, number)) else { continue };
                id += 1;
                // An arrow hangs on the span that is there at its time. Perfetto turns it round if the span at its
                // head began before the one at its tail, as a receiver's waiting often does: so it ends on a short
                // span of its own.
                let end = call.end - ((call.end - call.begin) / 2).clamp(1, 1000);
                let end = end.max(begin.min(call.end - 1));
                file.put(&self.span(row.tid, "receiving", "receiving", (end, call.end), Map::new()))?;
                file.put(&self.arrow("s", from, begin, id))?;
                file.put(&Event { bp: Some("e"), ..self.arrow("f", row.tid, end, id) })?;
            }
        }
        Ok(())
    }

    /// When each message was sent.
    fn sendings(&self) -> HashMap<Sending, Moment> {
        let mut sendings = HashMap::new();
        for row in &self.rows {
            for call in &row.calls {
                let Some(Activity::Send { to, kind, .. }) = &call.what else { continue };
                for &(receiver, number) in to {
                    if let Some(number) = number {
                        sendings.insert((row.tid, receiver, *kind, number), call.begin);
                    }
                }
            }
        }
        sendings
    }

    fn span<'a>(
        &self,
        tid: Tid,
        name: &'a str,
        cat: &'static str,
        (begin, end): (Moment, Moment),
        args: Map<String, Value>,
    ) -> Event<'a> {
        let dur = Some(micros(end - begin));
        Event { ph: "X", name, cat, ts: Some(self.time(begin)), dur, args, ..place(tid) }
    }

    fn arrow(&self, ph: &'static str, tid: Tid, moment: Moment, id: u64) -> Event<'static> {
        Event { ph, name: "message", cat: "message", ts: Some(self.time(moment)), id: Some(id), ..place(tid) }
    }

    fn time(&self, moment: Moment) -> f64 {
        micros(moment - self.start)
    }
}

fn micros(nanos: Moment) -> f64 {
    nanos as f64 / 1000.0
}

fn number(tid: Tid) -> i32 {
    tid.host().map_or(0, |host| host.get() as i32)
}

fn place(tid: Tid) -> Event<'static> {
    Event { pid: number(tid), tid: tid.local(), ..Event::default() }
}

/// A name or a place in the order of a host or a task.
fn label(what: &'static str, tid: Tid, value: Value) -> Event<'static> {
    let key = match what {
        "process_labels" => "labels",
        _ if what.ends_with("_name") => "name",
        _ => "sort_index",
    };
    Event { ph: "M", name: what, args: Map::from_iter([(key.to_owned(), value)]), ..place(tid) }
}

/// The correction of a host's times.
fn correction(clock: ClockAhead) -> String {
    let what = if clock.micros == 0 {
        "clock as it is".to_owned()
    } else {
        format!("clock set {:+.6} s", clock.micros as f64 / 1e6)
    };
    format!("{what} ± {:.3} ms", clock.error as f64 / 1e3)
}

/// Name, category and details of a call.
fn describe(call: &Call) -> (String, &'static str, Map<String, Value>) {
    let details = |peers: (&str, String), kind: &Kind, bytes: u64| {
        let mut args = Map::new();
        args.insert(peers.0.to_owned(), json!(peers.1));
        args.insert("tag".to_owned(), json!(kind.tag));
        args.insert("bytes".to_owned(), json!(bytes));
        if kind.context != 0 {
            args.insert("context".to_owned(), json!(kind.context));
        }
        args
    };
    match &call.what {
        None => ("computing".to_owned(), "computing", Map::new()),
        Some(Activity::Send { to, kind, bytes }) => {
            let mut names: Vec<String> = to.iter().take(NAMED_MAX).map(|(tid, _)| tid.to_string()).collect();
            if to.len() > NAMED_MAX {
                names.push(format!("and {} more", to.len() - NAMED_MAX));
            }
            ("sending".to_owned(), "sending", details(("to", names.join(" ")), kind, *bytes))
        }
        Some(Activity::Receive { from, kind, bytes, .. }) => {
            ("waiting".to_owned(), "waiting", details(("from", from.to_string()), kind, *bytes))
        }
        Some(Activity::Wait) => ("waiting".to_owned(), "waiting", Map::new()),
        Some(Activity::Request(tag)) => (request_name(*tag), "daemon", Map::new()),
        Some(Activity::Group { call, group }) => {
            (call.clone(), "group", Map::from_iter([("group".to_owned(), json!(group))]))
        }
    }
}

/// The name of a request to the daemon.
fn request_name(tag: i32) -> String {
    match Tm::from_tag(tag) {
        Some(Tm::Db) => "mailbox".to_owned(),
        Some(request) => format!("{request:?}").to_lowercase(),
        None => "request".to_owned(),
    }
}

/// The list of events.
struct File<'a, W> {
    out: &'a mut W,
    first: bool,
}

impl<W: Write> File<'_, W> {
    fn put(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.out.write_all(if self.first { b"\n" } else { b",\n" })?;
        self.first = false;
        serde_json::to_writer(&mut *self.out, event).map_err(io::Error::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvm_wire::coscheduling::TurnSpan;

    const SENDER: Tid = Tid::from_raw(0x40002);
    const RECEIVER: Tid = Tid::from_raw(0x80001);

    fn row(tid: Tid, what: Activity, (begin, end): (Moment, Moment)) -> Row {
        Row {
            tid,
            name: "prog".to_owned(),
            begin: 0,
            end: 100_000,
            told: true,
            left: true,
            calls: vec![Call { begin, end, what: Some(what) }],
        }
    }

    fn events(rows: Vec<Row>) -> Vec<Value> {
        events_with(rows, BTreeMap::new())
    }

    fn events_with(rows: Vec<Row>, turns: BTreeMap<Tid, Vec<Turn>>) -> Vec<Value> {
        let host = |name: &str, behind| Host { name: name.to_owned(), behind };
        let behind = Some(ClockAhead { micros: -1_500_000, error: 120 });
        let hosts =
            BTreeMap::from([(SENDER.to_host(), host("a", behind)), (RECEIVER.to_host(), host("b\"", None))]);
        let mut text = Vec::new();
        Picture::new(hosts, rows, turns).write(&mut text).unwrap();
        let file: Value = serde_json::from_slice(&text).unwrap();
        file["traceEvents"].as_array().unwrap().clone()
    }

    /// A message that is sent in this time, and received from 5 to 40 µs.
    fn exchange(sending: (i64, i64)) -> Vec<Value> {
        let kind = Kind { context: 0, tag: 7 };
        let send = Activity::Send { to: vec![(RECEIVER, Some(1))], kind, bytes: 8 };
        let receive = Activity::Receive { from: SENDER, number: Some(1), kind, bytes: 8 };
        events(vec![row(SENDER, send, sending), row(RECEIVER, receive, (5_000, 40_000))])
    }

    #[test]
    fn a_message_is_an_arrow_from_span_to_span() {
        let events = exchange((10_000, 20_000));
        let of = |ph: &str| events.iter().find(|event| event["ph"] == ph).unwrap();
        assert_eq!((of("s")["pid"].as_i64(), of("s")["ts"].as_f64()), (Some(1), Some(10.0)));
        assert_eq!((of("f")["pid"].as_i64(), of("f")["ts"].as_f64()), (Some(2), Some(39.0)));
        assert_eq!(of("s")["id"], of("f")["id"]);
        let head = events.iter().find(|event| event["name"] == "receiving").unwrap();
        assert_eq!((head["ts"].as_f64(), head["dur"].as_f64()), (Some(39.0), Some(1.0)));
        let names: Vec<_> = events.iter().filter(|event| event["name"] == "process_name").collect();
        assert_eq!(names[1]["args"]["name"], "b\"");
        let clocks: Vec<_> = events.iter().filter(|event| event["name"] == "process_labels").collect();
        assert_eq!(clocks.len(), 1);
        assert_eq!(clocks[0]["args"]["labels"], "clock set -1.500000 s ± 0.120 ms");
    }

    /// Perfetto turns an arrow round if the span at its head begins before the one at its tail.
    #[test]
    fn an_arrows_head_begins_after_its_tail() {
        let events = exchange((39_500, 39_900));
        let of = |name: &str| events.iter().find(|event| event["name"] == name).unwrap();
        assert_eq!((of("sending")["ts"].as_f64(), of("receiving")["ts"].as_f64()), (Some(39.5), Some(39.5)));
        assert_eq!(of("receiving")["dur"].as_f64(), Some(0.5));
    }

    #[test]
    fn a_host_has_a_row_of_turns() {
        let turn = |begin, end, team: Option<&str>, origin, unfair| {
            let team = team.map(str::to_owned);
            let is_boosted = unfair > 0;
            let what = TurnSpan { team, epoch: 7, origin, unfair, is_boosted, ..TurnSpan::default() };
            Turn { begin, end, what }
        };
        let host = SENDER.to_host();
        let all = vec![
            turn(-9_000, -1, Some("past"), 1, 0),
            turn(-1, 2_000, Some("a"), 1, 0),
            turn(2_000, 5_000, Some("b"), 2, 3),
            turn(5_000, 6_000, None, 77, 0),
        ];
        let events = events_with(vec![row(SENDER, Activity::Wait, (0, 9))], BTreeMap::from([(host, all)]));
        let turns: Vec<&Value> = events.iter().filter(|event| event["cat"] == "turn").collect();
        let told: Vec<_> =
            turns.iter().map(|turn| (&turn["name"], turn["ts"].as_f64(), turn["dur"].as_f64())).collect();
        assert_eq!(
            told,
            [
                (&json!("a"), Some(0.0), Some(2.0)),
                (&json!("b"), Some(2.0), Some(3.0)),
                (&json!("all run"), Some(5.0), Some(1.0))
            ]
        );
        assert!(turns.iter().all(|turn| turn["pid"] == 1 && turn["tid"] == 0));
        assert_eq!(turns[0]["args"], json!({"epoch": 7}));
        let brought = json!({
            "epoch": 7,
            "adopted from": "b\"",
            "refused, more than its share": 3,
            "because of": "a message"
        });
        assert_eq!(turns[1]["args"], brought);
        assert_eq!(turns[2]["args"]["adopted from"], "host 77");
    }

    #[test]
    fn requests_and_corrections_have_names_for_people() {
        assert_eq!(request_name(Tm::Db.tag()), "mailbox");
        assert_eq!(request_name(Tm::Spawn.tag()), "spawn");
        assert_eq!(request_name(-5), "request");
        assert_eq!(correction(ClockAhead { micros: 0, error: 90 }), "clock as it is ± 0.090 ms");
    }

    #[test]
    fn a_message_of_an_unknown_task_has_no_arrow() {
        let kind = Kind { context: 0, tag: 7 };
        let receive = |number| Activity::Receive { from: SENDER, number, kind, bytes: 8 };
        let events =
            events(vec![row(RECEIVER, receive(Some(1)), (1, 2)), row(SENDER, receive(None), (1, 2))]);
        assert!(!events.iter().any(|event| event["ph"] == "s" || event["ph"] == "f"));
    }
}
