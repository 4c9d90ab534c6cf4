//! Many tasks of one host: one and all, groups, a crowd of pairs.

use crate::lab::{Cast, Job, Lab, Payload, Side, Way};
use crate::part::{Ask, Contender, Kind, Part, Unit};

/// One task and 15 others.
pub const FAN: u64 = 16;

/// Seconds per value, relative to those for pairs: with more tasks everything takes longer.
const PATIENCE: f64 = 2.5;

/// As much for tasks that all play for a time.
const CROWD_PATIENCE: f64 = 15.0;

/// Multicast, fan-in, groups and crowds.
pub fn parts(lab: &Lab) -> Vec<Part<'_>> {
    let fan =
        |name, title, unit, what, xs| Part::new(name, title, unit, xs, all(lab, what, PATIENCE, |_| FAN));
    let group = |name, title, what, xs, patience| {
        Part::new(name, title, Unit::Time, xs, all(lab, what, patience, |x| x)).over_tasks()
    };
    let members = [2, 4, 16, 64];
    vec![
        fan(
            "multicast",
            "to 15 tasks, until all have answered",
            Unit::Time,
            "multicast",
            &[1 << 10, 1 << 20],
        ),
        fan("fanin", "messages of 15 senders to one task", Unit::Rate, "fanin", &[8, 1 << 10]),
        group("barrier", "all members of a group meet", "barrier", &members, PATIENCE),
        group("broadcast", "1 KiB to all members, each in its turn", "broadcast", &members, PATIENCE),
        group("reduce", "sum of 128 doubles, each member gets it in its turn", "reduce", &members, PATIENCE),
        group("gather", "128 doubles of each member, to each in its turn", "gather", &members, PATIENCE),
        group("scatter", "128 doubles to each member, of each in its turn", "scatter", &members, PATIENCE),
        group(
            "crowd",
            "half a round trip of 4 bytes, all tasks in pairs at once",
            "crowd",
            &[2, 16],
            CROWD_PATIENCE,
        ),
    ]
}

/// Ours, the original and Open MPI, which needs to be told how many processes x needs.
fn all<'l>(
    lab: &'l Lab,
    what: &'static str,
    patience: f64,
    processes: impl Fn(u64) -> u64 + 'l,
) -> Vec<Contender<'l>> {
    let job = Job { cast: Cast::Many, what, payload: Payload::Bytes, patience };
    let task =
        |name, kind, side: &'l Side| Contender::new(name, kind, move |ask| side.task(Way::DEFAULT, job, ask));
    let mut contenders = vec![task("ours", Kind::Shown, &lab.ours)];
    contenders.extend(lab.original.as_ref().map(|original| task("PVM", Kind::Compared, original)));
    if let Some(mpi) = lab.mpi() {
        let run = move |ask: Ask| mpi.run(processes(ask.xs.iter().copied().max().unwrap_or(1)), job, ask);
        contenders.push(Contender::new("MPI", Kind::Compared, run));
    }
    contenders
}
