//! How many tasks can be started in a second.

use crate::lab::{Cast, Job, Lab, Payload, Side, Way};
use crate::part::{Ask, Contender, Kind, Part, Unit};
use crate::remote::Remote;
use std::process::Command;
use std::time::Duration;

/// Seconds per value, relative to those for pairs.
const PATIENCE: f64 = 10.0;

/// The original dies of some 500 tasks at once.
const ORIGINAL_MOST: u64 = 256;

/// Open MPI hangs or leaks with hundreds.
const MPI_MOST: u64 = 16;

/// Batches of one take Open MPI a quarter of a second; it hangs or does not.
const MPI_LIMIT: Duration = Duration::from_secs(20);

const JOB: Job = Job { cast: Cast::Many, what: "spawn", payload: Payload::Bytes, patience: PATIENCE };

/// The part on several hosts, which needs them.
pub const HOSTS: &str = "spawn-hosts";

const XS: [u64; 4] = [1, 16, 256, 4096];

/// Tasks that are spawned, enrol, send their parent a message and end; in batches.
pub fn parts(lab: &Lab) -> Vec<Part<'_>> {
    let mut contenders = vec![task("ours", Kind::Shown, &lab.ours)];
    let original = lab.original.as_ref();
    contenders.extend(original.map(|side| task("PVM", Kind::Compared, side).at_most(ORIGINAL_MOST)));
    if let Some(mpi) = lab.mpi() {
        contenders.push(
            Contender::new("MPI", Kind::Compared, move |ask| mpi.run(1, JOB, ask))
                .at_most(MPI_MOST)
                .within(MPI_LIMIT),
        );
    }
    contenders.push(Contender::new("processes", Kind::Compared, |ask| without_pvm(lab, "spawn", ask)));
    let title = "tasks that enrol, send their parent a message, and end, by size of the batch";
    let part = Part::new("spawn", title, Unit::Rate, &XS, contenders).over_tasks();
    [Some(part), lab.remote.as_ref().map(|remote| on_hosts(lab, remote))].into_iter().flatten().collect()
}

/// The same on three hosts, which share the cores of this machine.
fn on_hosts<'l>(lab: &'l Lab, remote: &'l Remote) -> Part<'l> {
    let task = |name, kind, side: &'l Side| {
        Contender::new(name, kind, move |ask| side.anywhere(Way::DEFAULT, JOB, ask))
    };
    let mut contenders = vec![task("ours", Kind::Shown, &remote.ours)];
    let original = remote.original.as_ref();
    contenders.extend(original.map(|side| task("PVM", Kind::Compared, side).at_most(ORIGINAL_MOST)));
    if let Some(mpi) = lab.mpi() {
        let start = move |ask: Ask| remote.mpi_spawning(mpi, JOB, ask);
        contenders.push(Contender::new("MPI", Kind::Compared, start).at_most(MPI_MOST).within(MPI_LIMIT));
    }
    Part::new(HOSTS, "the same on three hosts", Unit::Rate, &XS, contenders).over_tasks()
}

fn task<'l>(name: &'static str, kind: Kind, side: &'l Side) -> Contender<'l> {
    Contender::new(name, kind, move |ask| side.task(Way::DEFAULT, JOB, ask))
}

/// The same program, started and waited for without any PVM; `what` of the limits does that.
pub fn without_pvm(lab: &Lab, what: &str, ask: Ask) -> Command {
    let program = lab.ours.program(Cast::Many);
    let mut command = lab.limit(what, &[program.as_os_str()], Ask { seconds: ask.seconds * PATIENCE, ..ask });
    // It finds its library as a task does.
    lab.ours.add_environment(&mut command);
    command
}
