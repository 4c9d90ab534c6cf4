//! A batch on daemons and the same batch simulated: if nodes ask in the same order, each gets as much.

use benches::lab::Programs;
use benches::live::batch::Hosts;
use pvm_sim::pulling::{Lengths, Workload, replay};
use pvm_tests::Installation;
use pvm_wire::batch::Application;
use std::path::Path;

const PROGRAMS: [&str; 9] = [
    env!("CARGO_BIN_EXE_pvm-bench-rust"),
    env!("CARGO_BIN_EXE_pvm-bench-makespan"),
    env!("CARGO_BIN_EXE_pvm-bench-pulling"),
    env!("CARGO_BIN_EXE_pvm-bench-manager"),
    env!("CARGO_BIN_EXE_pvm-bench-scale"),
    env!("CARGO_BIN_EXE_pvm-bench-jobs"),
    env!("CARGO_BIN_EXE_pvm-bench-moves"),
    env!("CARGO_BIN_EXE_pvm-bench-dasic"),
    env!("CARGO_BIN_EXE_pvm-bench-coallocation"),
];

fn workload(slots: u32, seed: u64) -> Workload {
    let speeds = vec![4000, 2000, 1000];
    Workload { speeds, slots, tasks: 24, lengths: Lengths::Exponential, mean: 60_000, seed }
}

/// Runs batches and plays what their nodes have asked to the simulator's nodes and manager.
fn compare(slots: u32) -> u64 {
    let [rust, makespan, pulling, manager, scale, jobs, moves, dasic, coallocation] = PROGRAMS.map(Path::new);
    let programs = Programs { rust, makespan, pulling, manager, scale, jobs, moves, dasic, coallocation };
    let Some(ours) = Installation::ours_only("hand-outs as they are simulated") else { return 0 };
    let hosts = Hosts::start(&ours, programs, &workload(slots, 0)).expect("hosts");
    let mut filled = 0;
    for seed in 1..=3 {
        let workload = workload(slots, seed);
        let (_, live) = hosts.run(&workload).expect("a batch");
        let handed_out = live.exchanges.iter().flat_map(|exchange| &exchange.handouts);
        assert_eq!(handed_out.map(|handout| handout.n).sum::<u64>(), workload.tasks);
        let asks: Vec<(usize, Application)> =
            live.exchanges.iter().map(|exchange| (exchange.host, exchange.terms)).collect();
        let (simulated, outside) = replay(&workload, &asks).expect("nodes ask as simulated ones do");
        assert_eq!(simulated, live.exchanges, "seed {seed}, {slots} slots");
        filled += outside;
    }
    filled
}

#[test]
fn one_task_at_a_time() {
    // However busy other programs are, they fill none of a single slot.
    assert_eq!(compare(1), 0);
}

#[test]
fn several_at_a_time() {
    compare(4);
}
