//! How long batches take on hosts of unequal speed.

use crate::lab::Lab;
use crate::part::{Axis, Contender, Kind, Part, Unit};
use crate::uneven::Uneven;

/// The word by which they are chosen: they need hosts of their own.
pub const NAME: &str = "makespan";

/// By what batches are placed: as people read it, and as the program is told.
const WAYS: [(&str, &str); 3] =
    [("queued", "queued"), ("pulling", "active-pulling"), ("round-robin", "round-robin")];

/// Batches of tasks of constant, uniform and heavy-tailed length, and one that is disturbed half-way.
pub fn parts(lab: &Lab) -> Vec<Part<'_>> {
    let Some(uneven) = &lab.uneven else { return Vec::new() };
    let part = |name, title, shape, is_disturbed| Part {
        name,
        title,
        unit: Unit::Seconds,
        axis: Axis::Tasks,
        xs: vec![40, 400],
        separately: false,
        contenders: contenders(uneven, shape, is_disturbed),
    };
    vec![
        part(
            "makespan-constant",
            "tasks of one length on hosts with 0.8, 0.4 and 0.2 cores",
            "constant",
            false,
        ),
        part("makespan-uniform", "tasks of up to twice the mean length", "uniform", false),
        part("makespan-heavy", "few tasks have most of the work", "heavy", false),
        part(
            "makespan-disturbed",
            "up to twice the mean length; the fastest host loses half of its cores when half could be done",
            "uniform",
            true,
        ),
    ]
}

fn contenders<'l>(uneven: &'l Uneven, shape: &'static str, is_disturbed: bool) -> Vec<Contender<'l>> {
    let way = |(name, how)| {
        let kind = if how == "queued" { Kind::Shown } else { Kind::Compared };
        Contender::new(name, kind, move |ask| uneven.batch(how, shape, is_disturbed, ask))
    };
    let mut contenders: Vec<Contender<'l>> = WAYS.into_iter().map(way).collect();
    contenders
        .push(Contender::new("bound", Kind::Compared, move |ask| uneven.bound(shape, is_disturbed, ask)));
    contenders
}
