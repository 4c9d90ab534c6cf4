//! Plans that once failed.

use crate::plan::{Op, Plan};
use crate::shrink::attempt;

fn check(seed: u64, hosts: u32, ops: &[Op]) {
    let plan = Plan { seed, hosts, ops: ops.to_vec() };
    if let Err(reason) = attempt(&plan) {
        panic!("{reason}");
    }
}

#[test]
fn nothing_happens() {
    check(1, 4, &[Op::Wait(1_000_000)]);
}

#[test]
fn a_task_that_waits_for_itself_to_read_is_killed() {
    check(
        42,
        1,
        &[
            Op::Enrol(0),
            Op::Wait(1_000_000),
            Op::Stop(0, 2834),
            Op::Send(0, 0, 20, 300_000),
            Op::Wait(1_500_000),
            Op::Kill(0),
        ],
    );
}
