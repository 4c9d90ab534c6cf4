//! How long others wait while tasks are being started.

use super::spawning::without_pvm;
use crate::lab::{Cast, Job, Lab, Payload, Side, Way};
use crate::part::{Contender, Kind, Part, Unit};

/// The original dies of some 500 tasks at once.
const ORIGINAL_MOST: u64 = 256;

/// 99th percentiles: a ping-pong of two other tasks by the daemon, and a request to it; while batches are spawned, and idle. Beside
/// them two processes without any PVM.
pub fn parts(lab: &Lab) -> Vec<Part<'_>> {
    let part = |name, title, busy, idle| {
        Part::new(name, title, Unit::Time, &[256, 4096], contenders(lab, busy, idle)).over_tasks()
    };
    let [tasks, daemon] = [
        "99th percentile of a round trip between two other tasks by the daemon, while batches of this size are spawned",
        "99th percentile of a request to the daemon, while batches of this size are spawned",
    ];
    vec![
        part("answers-tasks", tasks, "answers", "answers-idle"),
        part("answers-daemon", daemon, "requests", "requests-idle"),
    ]
}

fn contenders<'l>(lab: &'l Lab, busy: &'static str, idle: &'static str) -> Vec<Contender<'l>> {
    let mut contenders =
        vec![task("ours", Kind::Shown, &lab.ours, busy), task("idle", Kind::Compared, &lab.ours, idle)];
    if let Some(original) = &lab.original {
        contenders.push(task("PVM", Kind::Compared, original, busy).at_most(ORIGINAL_MOST));
        contenders.push(task("PVM idle", Kind::Shown, original, idle).at_most(ORIGINAL_MOST));
    }
    // The cost of such waits without PVM: two processes at a socket, while a third one starts others.
    for (name, kind, what) in
        [("processes", Kind::Compared, "answers"), ("processes idle", Kind::Shown, "answers-idle")]
    {
        contenders.push(Contender::new(name, kind, move |ask| without_pvm(lab, what, ask)));
    }
    contenders
}

fn task<'l>(name: &'static str, kind: Kind, side: &'l Side, what: &'static str) -> Contender<'l> {
    let job = Job { cast: Cast::Many, what, payload: Payload::Bytes, patience: 1.0 };
    Contender::new(name, kind, move |ask| side.task(Way::DEFAULT, job, ask))
}
