//! How long a virtual machine of one host takes to start and to end.

use crate::lab::{Lab, Side};
use crate::part::{Ask, Axis, Contender, Kind, Part, Unit};
use std::process::Command;

/// Seconds per value, relative to those for pairs.
const PATIENCE: f64 = 20.0;

/// The console starts the machine, is told to halt it, and ends.
pub fn parts(lab: &Lab) -> Vec<Part<'_>> {
    let mut contenders = vec![Contender::new("ours", Kind::Shown, |ask| start_and_halt(lab, &lab.ours, ask))];
    if let Some(original) = &lab.original {
        contenders.push(Contender::new("PVM", Kind::Compared, |ask| start_and_halt(lab, original, ask)));
    }
    let title = "`echo halt | pvm` where no machine runs: it starts one of one host, and halts it";
    vec![Part { axis: Axis::Hosts, ..Part::new("machine", title, Unit::Milliseconds, &[1], contenders) }]
}

fn start_and_halt(lab: &Lab, side: &Side, ask: Ask) -> Command {
    let ask = Ask { seconds: ask.seconds * PATIENCE, ..ask };
    let mut command = lab.limit("machine", &[side.console().as_os_str()], ask);
    side.add_own_machine(&mut command);
    command
}
