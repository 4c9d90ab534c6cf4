//! How long batches take on hosts of unequal speed.

use crate::lab::Lab;
use crate::part::{Ask, Axis, Contender, Kind, Part, Unit};
use crate::uneven::Uneven;

/// The word by which they are chosen: they need hosts of their own.
pub const NAME: &str = "makespan";

/// How batches are placed: the label, and the program's argument.
const WAYS: [(&str, &str); 3] =
    [("queued", "queued"), ("pulling", "active-pulling"), ("round-robin", "round-robin")];

/// The parts: name and title, the shape of the lengths, and whether hosts are disturbed.
const PARTS: [(&str, &str, &str, bool); 6] = [
    ("makespan-constant", "tasks of 50 ms on hosts with 0.8, 0.4 and 0.2 cores", "constant", false),
    ("makespan-long", "tasks of 200 ms", LONG[0], false),
    ("makespan-uniform", "tasks of up to twice the mean length", "uniform", false),
    ("makespan-long-uniform", "tasks of up to 400 ms", LONG[1], false),
    ("makespan-heavy", "few tasks have most of the work", "heavy", false),
    (
        "makespan-disturbed",
        "up to twice the mean length; the fastest host loses half of its cores when half could be done",
        "uniform",
        true,
    ),
];

/// The original dies of some 500 tasks at once.
const ORIGINAL_MOST: u64 = 400;

/// Most long tasks of contenders that would take minutes more.
const LONG: [&str; 2] = ["long", "long-uniform"];
const LONG_MOST: u64 = 100;

/// Batches of tasks of several lengths, and one that is disturbed half-way.
pub fn parts(lab: &Lab) -> Vec<Part<'_>> {
    let Some(uneven) = &lab.uneven else { return Vec::new() };
    let part = |(name, title, shape, is_disturbed)| {
        let contenders = contenders(uneven, shape, is_disturbed);
        Part { axis: Axis::Tasks, ..Part::new(name, title, Unit::Seconds, &[40, 400], contenders) }
    };
    PARTS.into_iter().map(part).collect()
}

fn contenders<'l>(uneven: &'l Uneven, shape: &'static str, is_disturbed: bool) -> Vec<Contender<'l>> {
    let is_long = LONG.contains(&shape);
    let way = |(name, how)| {
        let kind = if how == "queued" { Kind::Shown } else { Kind::Compared };
        let batch = move |ask: Ask| uneven.batch(how, shape, is_disturbed, ask);
        let most = if is_long && how == "round-robin" { LONG_MOST } else { u64::MAX };
        Contender::new(name, kind, batch).at_most(most)
    };
    let mut contenders: Vec<Contender<'l>> = WAYS.into_iter().map(way).collect();
    if uneven.has_original() {
        let original = move |ask: Ask| uneven.original_batch(shape, is_disturbed, ask);
        let most = if is_long { LONG_MOST } else { ORIGINAL_MOST };
        contenders.push(Contender::new("PVM", Kind::Compared, original).at_most(most));
    }
    let bound = move |ask: Ask| uneven.bound(shape, is_disturbed, ask);
    contenders.push(Contender::new("bound", Kind::Compared, bound));
    // A batch whose tasks have nothing to do.
    contenders
        .push(Contender::new("empty", Kind::Shown, move |ask| uneven.batch("queued", "empty", false, ask)));
    contenders
}
