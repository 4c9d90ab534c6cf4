//! Two tasks on two hosts, a task that moves between them, and groups on three.

use super::many::FAN;
use crate::lab::{Cast, Job, Lab, Payload, Side, Way, words};
use crate::part::{Ask, Contender, Kind, Part, Unit};
use crate::remote::Remote;

const LATENCY: [u64; 4] = [1, 64, 1 << 10, 4 << 10];
/// A task's state, in bytes.
const STATES: [u64; 4] = [10_000, 1_000_000, 10_000_000, 1 << 30];
const BANDWIDTH: [u64; 4] = [1 << 14, 1 << 16, 1 << 20, 1 << 24];

/// Members of groups.
const MEMBERS: [u64; 3] = [2, 4, 16];
const MULTICAST: [u64; 2] = [1 << 10, 1 << 20];
/// Seconds per value of many tasks, relative to those for pairs.
const PATIENCE: f64 = 5.0;

const PINGPONG: Job = Job { cast: Cast::Pair, what: "pingpong", payload: Payload::Bytes, patience: 1.0 };
/// Only some dozens of long messages fit into the time of short ones, and the first ones touch new memory.
const LONG_PINGPONG: Job = Job { patience: 3.0, ..PINGPONG };

/// The word by which they are chosen: they need more than others.
pub const NAME: &str = "remote";
/// The same for a task that moves.
pub const MOVES: &str = "moves";

/// Latency and bandwidth between two hosts, and groups on three, if there are any.
pub fn parts(lab: &Lab) -> Vec<Part<'_>> {
    let Some(remote) = &lab.remote else { return Vec::new() };
    let part = |name, title, unit, xs, job| Part::new(name, title, unit, xs, all(lab, remote, job));
    let group = |name, title, what| {
        Part::new(name, title, Unit::Time, &MEMBERS, everywhere(lab, remote, what, |x| x)).over_tasks()
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
        moves(lab, remote),
        group("remote-barrier", "all members of a group on three hosts meet", "barrier"),
        group("remote-broadcast", "1 KiB to all members on three hosts, each in its turn", "broadcast"),
        group(
            "remote-reduce",
            "sum of 128 doubles on three hosts, each member gets it in its turn",
            "reduce",
        ),
        Part::new(
            "remote-multicast",
            "to 15 tasks on three hosts, until all have answered",
            Unit::Time,
            &MULTICAST,
            everywhere(lab, remote, "multicast", |_| FAN),
        ),
    ]
}

/// Tasks on all hosts in turn; Open MPI needs to be told how many processes x needs.
fn everywhere<'l>(
    lab: &'l Lab,
    remote: &'l Remote,
    what: &'static str,
    processes: impl Fn(u64) -> u64 + 'l,
) -> Vec<Contender<'l>> {
    let job = Job { cast: Cast::Many, what, payload: Payload::Bytes, patience: PATIENCE };
    let task = |name, kind, side: &'l Side| Contender::new(name, kind, move |ask| side.everywhere(job, ask));
    let mut contenders = vec![task("ours", Kind::Shown, &remote.ours)];
    contenders.extend(remote.original.as_ref().map(|original| task("PVM", Kind::Compared, original)));
    if let Some(mpi) = lab.mpi() {
        let run = move |ask: Ask| {
            let most = ask.xs.iter().copied().max().unwrap_or(1);
            remote.mpi_everywhere(processes(most), mpi, job, ask)
        };
        contenders.push(Contender::new("MPI", Kind::Compared, run));
    }
    contenders
}

/// For how long a task stands still while it moves, and how long its state takes as a message.
fn moves<'l>(lab: &'l Lab, remote: &'l Remote) -> Part<'l> {
    let contender = |name: &'static str, kind, what: &'static str| {
        Contender::new(name, kind, move |ask: Ask| {
            let mut command = remote.ours.command(&lab.moves);
            command.arg(what).arg(ask.seconds.to_string()).args(words(ask.xs));
            command
        })
    };
    let contenders =
        vec![contender("move", Kind::Shown, "move"), contender("message", Kind::Compared, "message")];
    let title = "a task moves to another host, and its state as a message, bytes";
    Part { separately: true, ..Part::new(MOVES, title, Unit::Milliseconds, &STATES, contenders) }
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
