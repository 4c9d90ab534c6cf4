//! Jobs of the queues: tasks of an array that do nothing, and one job alone.

use crate::hyperqueue::HyperQueue;
use crate::lab::{Lab, words};
use crate::part::{Ask, Contender, Kind, Part, Unit};
use std::process::Command;
use std::time::Duration;

/// The word by which they are chosen: HyperQueue is started for them alone.
pub const NAME: &str = "jobs";

/// Seconds per value, relative to those for pairs: a job alone takes tens of milliseconds.
const PATIENCE: f64 = 100.0;

/// Tasks of an array.
const XS: [u64; 3] = [16, 1000, 10_000];

/// Longer than an array takes.
const LIMIT: Duration = Duration::from_secs(120);

/// Arrays, and one job alone.
pub fn parts(lab: &Lab) -> Vec<Part<'_>> {
    let array = "empty tasks of an array, from its submission to the end of the command that waits for it";
    let single = "from the submission of an empty job to the end of the command, on an idle machine";
    vec![
        Part::new("jobs-array", array, Unit::Rate, &XS, arrays(lab)).over_tasks(),
        Part::new("jobs-single", single, Unit::Milliseconds, &[1], singles(lab)).over_tasks(),
    ]
}

fn arrays(lab: &Lab) -> Vec<Contender<'_>> {
    let mut contenders = all(lab, "array", |command, ask| {
        command.args(words(ask.xs));
    });
    let processes = |ask: Ask| lab.limit("spawn", &["/bin/true".as_ref()], ask);
    contenders.push(Contender::new("processes", Kind::Compared, processes));
    contenders
}

fn singles(lab: &Lab) -> Vec<Contender<'_>> {
    all(lab, "single", |command, ask| {
        command.arg((ask.seconds * PATIENCE).to_string());
    })
}

/// This system, and HyperQueue without and with its journal.
fn all<'l>(lab: &'l Lab, what: &'static str, add: fn(&mut Command, Ask)) -> Vec<Contender<'l>> {
    let ours = move |ask: Ask| {
        let mut command = lab.ours.command(&lab.jobs);
        command.args([what, "pvm"]).arg(lab.ours.console());
        add(&mut command, ask);
        command
    };
    let theirs = move |of: &HyperQueue, ask: Ask| {
        let mut command = of.command(&lab.jobs);
        command.args([what, "hq", "hq"]);
        add(&mut command, ask);
        command
    };
    let mut contenders = vec![Contender::new("ours", Kind::Shown, ours).within(LIMIT)];
    for (name, peer) in ["HyperQueue", "with journal"].into_iter().zip(&lab.hyperqueue) {
        let start = move |ask: Ask| theirs(peer, ask);
        contenders.push(Contender::new(name, Kind::Compared, start).within(LIMIT));
    }
    contenders
}
