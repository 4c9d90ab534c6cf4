//! Two tasks of one host.

use crate::lab::{Lab, Payload, Way};
use crate::part::{Axis, Contender, Kind, Part, Unit};

const LATENCY_BYTES: [u64; 7] = [1, 4, 16, 64, 256, 1 << 10, 4 << 10];
const LATENCY_DOUBLES: [u64; 4] = [8, 64, 512, 4 << 10];
const BANDWIDTH: [u64; 8] = [1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26];

/// Latency, bandwidth and rate.
pub fn parts(lab: &Lab) -> Vec<Part<'_>> {
    let latency = |name, title, xs: &[u64], payload| Part {
        name,
        title,
        unit: Unit::Time,
        axis: Axis::Size,
        xs: xs.to_vec(),
        separately: false,
        contenders: all(lab, "pingpong", payload, Some("words")),
    };
    let bandwidth = |name, title, payload| Part {
        unit: Unit::Bandwidth,
        contenders: all(lab, "pingpong", payload, Some("copies")),
        ..latency(name, title, &BANDWIDTH, payload)
    };
    let rate = Part {
        unit: Unit::Rate,
        contenders: all(lab, "rate", Payload::Bytes, None),
        ..latency("rate", "messages one way, 64 before an answer", &[8, 1 << 10], Payload::Bytes)
    };
    vec![
        latency("latency-bytes", "half a round trip, bytes", &LATENCY_BYTES, Payload::Bytes),
        latency("latency-doubles", "half a round trip, doubles", &LATENCY_DOUBLES, Payload::Doubles),
        bandwidth("bandwidth-bytes", "bandwidth of a ping-pong, bytes", Payload::Bytes),
        bandwidth("bandwidth-doubles", "bandwidth of a ping-pong, doubles", Payload::Doubles),
        rate,
    ]
}

/// Everybody who can do it, and the limit of this name.
fn all<'l>(
    lab: &'l Lab,
    what: &'static str,
    payload: Payload,
    limit: Option<&'static str>,
) -> Vec<Contender<'l>> {
    let task = |name, kind, side: &'l crate::lab::Side, what: String, way| {
        Contender::new(name, kind, move |xs, seconds| side.task(&what, way, payload, xs, seconds))
    };
    let siblings = format!("{what}-siblings");
    let mut contenders = vec![
        task("ours", Kind::Shown, &lab.ours, what.into(), Way::DEFAULT),
        task("raw", Kind::Shown, &lab.ours, what.into(), Way::RAW),
        Contender::new("Rust", Kind::Shown, move |xs, seconds| {
            lab.rust(what, Way::DEFAULT, payload, xs, seconds)
        }),
        task("siblings", Kind::Shown, &lab.ours, siblings, Way::DEFAULT),
    ];
    if let Some(original) = &lab.original {
        contenders.extend([
            task("PVM", Kind::Compared, original, what.into(), Way::DEFAULT),
            task("PVM direct", Kind::Shown, original, what.into(), Way::DIRECT),
            task("PVM in place", Kind::Compared, original, what.into(), Way::IN_PLACE),
        ]);
    }
    if let Some(mpi) = lab.mpi() {
        contenders.push(Contender::new("MPI", Kind::Compared, move |xs, seconds| {
            mpi(2, what, payload, xs, seconds)
        }));
    }
    if let Some(limit) = limit {
        contenders.push(Contender::new(limit, Kind::Compared, move |xs, seconds| {
            lab.limit(limit, &[], xs, seconds)
        }));
    }
    contenders
}
