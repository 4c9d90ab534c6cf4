//! The core in a machine that fails: from a seed, hosts, links, processes and clocks do whatever they can do at the
//! worst moment, and what daemons promise is checked all along.
//!
//! `PVM_SIM_SEEDS=10000` (or `from..to`) tries that number of seeds, `PVM_SIM_SEED=n` one, with its plan; a plan that fails is
//! shortened to what matters and printed as it can be written down as a test.
#![allow(
    clippy::disallowed_methods,
    reason = "threads and environment are forbidden to the core, not to its tests"
)]

mod check;
mod journal;
mod moves;
mod one_move;
mod operations;
mod plan;
mod regressions;
mod shrink;
mod world;

use plan::Plan;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Operations of a plan.
const LENGTH: usize = 200;
/// Seeds tried unless the environment says otherwise.
const SEEDS: u64 = 50;

#[test]
fn a_machine_that_fails_keeps_its_promises() {
    let (first, end) = seeds();
    let next = AtomicU64::new(first);
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let plan = Plan::new(seed, LENGTH);
                    if let Err(reason) = shrink::attempt(&plan)
                        && !failed.swap(true, Ordering::Relaxed)
                    {
                        report(&plan, &reason);
                    }
                }
            });
        }
    });
    assert!(!failed.load(Ordering::Relaxed), "see above; PVM_SIM_SEED repeats it");
    let successions = check::SUCCESSIONS.load(Ordering::Relaxed);
    println!("in {successions} of {} machines another host has become the master", end - first);
    let moved = check::MOVED.load(Ordering::Relaxed);
    println!("{moved} tasks have moved");
    assert!(end - first < SEEDS || moved > 0, "nothing was tried of moves");
    assert!(end - first < SEEDS || successions > 0, "nothing was tried of successions");
}

fn seeds() -> (u64, u64) {
    if let Some(seed) = std::env::var("PVM_SIM_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return (seed, seed + 1);
    }
    let Ok(seeds) = std::env::var("PVM_SIM_SEEDS") else { return (0, SEEDS) };
    let (first, end) = seeds.split_once("..").unwrap_or(("0", &seeds));
    let number = |text: &str| text.parse().expect("PVM_SIM_SEEDS is a number, or two with .. between");
    (number(first), number(end))
}

fn report(plan: &Plan, reason: &str) {
    println!("seed {} fails:\n  {reason}", plan.seed);
    let (short, reason) = shrink::shorten(plan, reason);
    println!("shortened to {} operations, which fail so:\n  {reason}", short.ops.len());
    let Plan { seed, hosts, turns, shares, deputies, width, watched_max, ref ops } = short;
    match (deputies, turns) {
        _ if shares => {
            let rest = Plan { ops: Vec::new(), ..short };
            println!("attempt_plan(&Plan {{ ops: {ops:?}.to_vec(), ..{rest:?} }});");
        }
        _ if width.is_some() || watched_max < 256 => {
            println!(
                "check_large({seed}, {hosts}, {turns}, {deputies}, {width:?}, {watched_max}, &{ops:?});"
            );
        }
        (1, true) => println!("check_with_turns({seed}, {hosts}, &{ops:?});"),
        (1, false) => println!("check({seed}, {hosts}, &{ops:?});"),
        _ => println!("check_with_deputies({seed}, {hosts}, {turns}, {deputies}, &{ops:?});"),
    }
}

#[test]
fn a_seed_is_one_plan() {
    assert_eq!(Plan::new(3, LENGTH), Plan::new(3, LENGTH));
    assert_ne!(Plan::new(3, LENGTH).ops, Plan::new(4, LENGTH).ops);
}
