use super::*;
use pvm_wire::events::{Datum, ENTRY, EXIT, Event, Head, Writer};

const A: Tid = Tid::from_raw(0x40002);
const B: Tid = Tid::from_raw(0x80003);

fn feed(
    spans: &mut Spans,
    tid: Tid,
    micros: i32,
    event: Event,
    phase: i32,
    data: &[(Datum, i32)],
    now: Instant,
) {
    let mut writer = Writer::new(false);
    writer.begin(event, phase, Head { seconds: 1, micros, tid: tid.raw() }, true);
    for (datum, value) in data {
        writer.int(*datum, *value);
    }
    writer.end();
    spans.read(&writer.finish(), |tid| if tid == B { 100 } else { 0 }, now);
}

fn send(spans: &mut Spans, micros: i32, now: Instant) {
    let to = [(Datum::MNB, 40), (Datum::DST, B.raw()), (Datum::MC, 7), (Datum::MCX, 0)];
    feed(spans, A, micros, Event::Send, ENTRY, &to, now);
    feed(spans, A, micros + 5, Event::Send, EXIT, &[(Datum::CC, 0)], now);
}

fn receive(spans: &mut Spans, micros: i32, now: Instant) {
    feed(spans, B, micros, Event::Recv, ENTRY, &[(Datum::MC, 7)], now);
    let got = [(Datum::MNB, 40), (Datum::MC, 7), (Datum::MCX, 0), (Datum::SRC, A.raw())];
    feed(spans, B, micros + 9, Event::Recv, EXIT, &got, now);
}

#[test]
fn calls_are_changes_by_one_clock() {
    let (mut spans, now) = (Spans::default(), Instant::now());
    send(&mut spans, 10, now);
    feed(&mut spans, B, 20, Event::Barrier, ENTRY, &[], now);
    feed(&mut spans, B, 30, Event::Recv, ENTRY, &[], now);
    feed(&mut spans, B, 40, Event::Recv, EXIT, &[(Datum::MC, -1), (Datum::SRC, -1)], now);
    feed(&mut spans, B, 50, Event::Barrier, EXIT, &[], now);
    feed(&mut spans, B, 60, Event::Mytid, ENTRY, &[], now);
    let news = spans.news().unwrap();
    let at = |micros: i64| 1_000_000 + micros;
    assert_eq!(
        news.changes,
        [
            (A, at(10), Doing::Sending),
            (A, at(15), Doing::Computing),
            (B, at(120), Doing::Waiting),
            (B, at(130), Doing::Waiting),
            (B, at(140), Doing::Waiting),
            (B, at(150), Doing::Computing),
        ]
    );
    assert!(news.messages.is_empty());
    assert!(spans.news().unwrap().changes.is_empty() && spans.all().changes.len() == 6);
}

#[test]
fn messages_of_a_kind_are_matched_in_order() {
    let (mut spans, now) = (Spans::default(), Instant::now());
    send(&mut spans, 10, now);
    send(&mut spans, 20, now);
    receive(&mut spans, 30, now);
    receive(&mut spans, 50, now);
    let message = |sent: i64, received: i64| {
        let (sent, received) = (Some(1_000_000 + sent), 1_000_000 + received);
        Message { from: A, to: B, tag: 7, bytes: 40, sent, received }
    };
    assert_eq!(spans.news().unwrap().messages, [message(10, 139), message(20, 159)]);
}

#[test]
fn a_receiver_may_be_heard_of_first() {
    let (mut spans, now) = (Spans::default(), Instant::now());
    receive(&mut spans, 30, now);
    spans.settle(now);
    assert!(spans.news().unwrap().messages.is_empty());
    send(&mut spans, 10, now);
    assert_eq!(spans.news().unwrap().messages[0].sent, Some(1_000_010));
    receive(&mut spans, 60, now);
    spans.settle(now + 2 * SKEW);
    assert_eq!(spans.news().unwrap().messages[0].sent, None, "its sender is not traced");
    assert!(spans.halves.is_empty());
}

#[test]
fn what_is_kept_is_bounded() {
    let (mut spans, now) = (Spans::default(), Instant::now());
    for _ in 0..HALVES_MAX + 10 {
        send(&mut spans, 1, now);
    }
    assert_eq!(spans.halves.values().next().unwrap().sent.len(), HALVES_MAX);
    feed(&mut spans, B, 70, Event::Endtask, 0, &[], now);
    assert!(spans.halves.is_empty(), "nobody receives them any more");
    for tid in 0..ROWS_MAX as i32 {
        spans.row(Tid::from_raw(0xc0001 + tid));
    }
    assert_eq!(spans.rows.len(), ROWS_MAX);
    assert!(!spans.rows.contains_key(&B), "it has ended");
    spans.read(&[1, 2, 3], |_| 0, now);
}

#[test]
fn news_that_nobody_takes_are_not_kept_for_ever() {
    let (mut spans, now) = (Spans::default(), Instant::now());
    assert!(spans.news().unwrap().is_empty());
    for _ in 0..=MESSAGES_MAX / 2 {
        send(&mut spans, 1, now);
        receive(&mut spans, 2, now);
    }
    assert!(spans.news().is_none(), "{CHANGES_MAX} changes and more");
    assert_eq!(spans.all().changes.len(), CHANGES_MAX);
    assert!(spans.news().unwrap().is_empty());
    send(&mut spans, 1, now);
    assert_eq!(spans.news().unwrap().changes.len(), 2);
}
