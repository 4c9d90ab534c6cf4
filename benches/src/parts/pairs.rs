//! Two tasks of one host.

use crate::lab::{Cast, Job, Lab, Payload, Side, Way};
use crate::part::{Ask, Contender, Kind, Part, Unit};

const LATENCY_BYTES: [u64; 7] = [1, 4, 16, 64, 256, 1 << 10, 4 << 10];
const LATENCY_DOUBLES: [u64; 4] = [8, 64, 512, 4 << 10];
const IN_PLACE: [u64; 8] = [1 << 15, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 23, 1 << 24, 1 << 26];
const BANDWIDTH: [u64; 9] = [1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 23, 1 << 24, 1 << 26];

/// The jobs of a parent and its child, and of siblings.
struct What {
    plain: &'static str,
    siblings: &'static str,
    /// How much longer than others it takes until it is known.
    patience: f64,
}

const PINGPONG: What = What { plain: "pingpong", siblings: "pingpong-siblings", patience: 1.0 };
/// Blocks for long messages go round in 2 MiB. Until all of that has been touched, after some dozens of messages, each waits for page faults.
const LONG_PINGPONG: What = What { patience: 3.0, ..PINGPONG };
/// A ping-pong of `pvm_psend` and `pvm_precv`.
const PSEND: &str = "pingpong-psend";
const RATE: What = What { plain: "rate", siblings: "rate-siblings", patience: 1.0 };

/// The jobs of programs that poll with `pvm_nrecv`.
const POLLED: &str = "rate-polled";
const EMPTY: &str = "empty-polls";

/// Latency, bandwidth and rate.
pub fn parts(lab: &Lab) -> Vec<Part<'_>> {
    let latency = |name, title, xs, payload| {
        Part::new(name, title, Unit::Time, xs, all(lab, &PINGPONG, payload, &["words"]))
    };
    let bandwidth = |name, title, payload| {
        let contenders = all(lab, &LONG_PINGPONG, payload, &["copies", "processes"]);
        Part::new(name, title, Unit::Bandwidth, &BANDWIDTH, contenders)
    };
    let title = "messages one way, 64 before an answer";
    let contenders = all(lab, &RATE, Payload::Bytes, &[]);
    let rate = Part::new("rate", title, Unit::Rate, &[8, 1 << 10], contenders);
    vec![
        latency("latency-bytes", "half a round trip, bytes", &LATENCY_BYTES, Payload::Bytes),
        latency("latency-doubles", "half a round trip, doubles", &LATENCY_DOUBLES, Payload::Doubles),
        bandwidth("bandwidth-bytes", "bandwidth of a ping-pong, bytes", Payload::Bytes),
        bandwidth("bandwidth-doubles", "bandwidth of a ping-pong, doubles", Payload::Doubles),
        in_place(lab),
        rate,
        polls(
            lab,
            "polls-rate",
            "messages one way, 64 before an answer, taken by pvm_nrecv",
            Unit::Rate,
            POLLED,
        ),
        polls(lab, "polls-empty", "a pvm_nrecv that finds nothing", Unit::Time, EMPTY),
    ]
}

/// Long data that the program leaves where they are until they are sent.
fn in_place(lab: &Lab) -> Part<'_> {
    let job =
        |what| Job { cast: Cast::Pair, what, payload: Payload::Bytes, patience: LONG_PINGPONG.patience };
    let (packed, unpacked) = (job(PINGPONG.plain), job(PSEND));
    let task = |name, kind, side, way, job| {
        let side: &Side = side;
        Contender::new(name, kind, move |ask| side.task(way, job, ask))
    };
    let in_place = Way { route: "allow", ..Way::IN_PLACE };
    let mut contenders = vec![
        task("psend", Kind::Shown, &lab.ours, Way::DEFAULT, unpacked),
        task("in place", Kind::Shown, &lab.ours, in_place, packed),
        task("packed", Kind::Shown, &lab.ours, Way::RAW, packed),
    ];
    if let Some(original) = &lab.original {
        contenders.push(task("PVM", Kind::Compared, original, Way::IN_PLACE, packed));
    }
    if let Some(mpi) = lab.mpi() {
        contenders.push(Contender::new("MPI", Kind::Compared, move |ask| mpi.run(2, packed, ask)));
    }
    let title = "bandwidth of a ping-pong, data in place";
    Part::new("in-place", title, Unit::Bandwidth, &IN_PLACE, contenders)
}

fn polls<'l>(
    lab: &'l Lab,
    name: &'static str,
    title: &'static str,
    unit: Unit,
    what: &'static str,
) -> Part<'l> {
    let job = Job { cast: Cast::Pair, what, payload: Payload::Bytes, patience: 1.0 };
    let task =
        |name, kind, side: &'l Side, way| Contender::new(name, kind, move |ask| side.task(way, job, ask));
    let mut contenders = vec![task("ours", Kind::Shown, &lab.ours, Way::DEFAULT)];
    if let Some(original) = &lab.original {
        contenders.push(task("PVM", Kind::Compared, original, Way::DEFAULT));
        contenders.push(task("direct", Kind::Compared, original, Way::DIRECT));
    }
    Part::new(name, title, unit, &[8], contenders)
}

/// All contenders for a job, and the limits of these names.
fn all<'l>(
    lab: &'l Lab,
    what: &What,
    payload: Payload,
    limits: &'static [&'static str],
) -> Vec<Contender<'l>> {
    let job = |name| Job { cast: Cast::Pair, what: name, payload, patience: what.patience };
    let (plain, siblings) = (job(what.plain), job(what.siblings));
    let task =
        |name, kind, side: &'l Side, way| Contender::new(name, kind, move |ask| side.task(way, plain, ask));
    let mut contenders = vec![
        task("ours", Kind::Shown, &lab.ours, Way::DEFAULT),
        task("raw", Kind::Shown, &lab.ours, Way::RAW),
        Contender::new("Rust", Kind::Shown, move |ask| lab.rust(Way::DEFAULT, plain, ask)),
        Contender::new("siblings", Kind::Shown, move |ask| lab.ours.task(Way::DEFAULT, siblings, ask)),
    ];
    if let Some(original) = &lab.original {
        contenders.extend([
            task("PVM", Kind::Compared, original, Way::DEFAULT),
            task("direct", Kind::Shown, original, Way::DIRECT),
            task("in place", Kind::Compared, original, Way::IN_PLACE),
        ]);
    }
    if let Some(mpi) = lab.mpi() {
        contenders.push(Contender::new("MPI", Kind::Compared, move |ask| mpi.run(2, plain, ask)));
    }
    // Contenders that are measured long warm up with long messages.
    let patience = what.patience;
    contenders.extend(limits.iter().map(|limit| {
        let ask_longer =
            move |ask: Ask| lab.limit(limit, &[], Ask { seconds: ask.seconds * patience, ..ask });
        Contender::new(limit, Kind::Compared, ask_longer)
    }));
    contenders
}
