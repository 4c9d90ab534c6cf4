//! Two tasks on two hosts.

use crate::lab::{Cast, Job, Lab, Payload, Side, Way};
use crate::part::{Axis, Contender, Kind, Part, Unit};
use crate::remote::Remote;

const LATENCY: [u64; 4] = [1, 64, 1 << 10, 4 << 10];
const BANDWIDTH: [u64; 4] = [1 << 14, 1 << 16, 1 << 20, 1 << 24];

const PINGPONG: Job = Job { cast: Cast::Pair, what: "pingpong", payload: Payload::Bytes, patience: 1.0 };
/// Only some dozens of long messages fit into the time of short ones, and the first ones touch new memory.
const LONG_PINGPONG: Job = Job { patience: 3.0, ..PINGPONG };

/// The word by which they are chosen: they need more than others.
pub const NAME: &str = "remote";

/// Latency and bandwidth between two hosts, if there are any.
pub fn parts(lab: &Lab) -> Vec<Part<'_>> {
    let Some(remote) = &lab.remote else { return Vec::new() };
    let part = |name, title, unit, xs: &[u64], job| Part {
        name,
        title,
        unit,
        axis: Axis::Size,
        xs: xs.to_vec(),
        separately: false,
        contenders: all(lab, remote, job),
    };
    vec![
        part("remote-latency", "half a round trip between two hosts, bytes", Unit::Time, &LATENCY, PINGPONG),
        part(
            "remote-bandwidth",
            "ping-pong between two hosts, bytes",
            Unit::Bandwidth,
            &BANDWIDTH,
            LONG_PINGPONG,
        ),
    ]
}

fn all<'l>(lab: &'l Lab, remote: &'l Remote, job: Job) -> Vec<Contender<'l>> {
    let task =
        |name, kind, side: &'l Side, way| Contender::new(name, kind, move |ask| side.task(way, job, ask));
    let mut contenders = vec![
        task("ours", Kind::Shown, &remote.ours, Way::DEFAULT),
        task("by daemons", Kind::Shown, &remote.ours, Way::BY_DAEMONS),
        task("unsealed", Kind::Shown, &remote.private, Way::DEFAULT),
    ];
    if let Some(original) = &remote.original {
        contenders.extend([
            task("PVM", Kind::Compared, original, Way::DEFAULT),
            task("direct", Kind::Compared, original, Way::DIRECT),
        ]);
    }
    if let Some(mpi) = lab.mpi() {
        contenders.push(Contender::new("MPI", Kind::Compared, move |ask| remote.mpi(mpi, job, ask)));
    }
    contenders.push(Contender::new("TCP", Kind::Compared, move |ask| remote.tcp(job, ask)));
    contenders
}
