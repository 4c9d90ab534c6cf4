//! The cost of an event as systems grow. `cargo bench -p pvm-sim` prints a table; `peer.py` beside this file has the
//! first model in SimPy.

use pvm_sim::engine::{Engine, seconds};
use pvm_sim::experiments::allocation::{self, Case, Kind, Settings};
use pvm_sim::experiments::batch::model::{Policy, Setting, simulate};
use pvm_sim::random::Random;
use pvm_sim::workload::Lublin;
use std::time::Instant;

const EVENTS: u64 = 2_000_000;

fn main() {
    println!("{:<28} {:>10} {:>10} {:>12}", "model", "size", "events", "ns per event");
    for processes in [10, 100, 1000, 10_000, 100_000] {
        let start = Instant::now();
        hold(processes);
        row("processes that wait", processes, EVENTS, start);
    }
    for nodes in [100, 1000, 10_000, 100_000] {
        let setting =
            Setting { policy: Policy::Easy, nodes, mtbf: f64::INFINITY, repair: 0.0, per_user: usize::MAX };
        // As many jobs at a time as there are nodes for: narrow ones.
        let model = Lublin::new(1, 64, 50).offering(0.7, f64::from(nodes));
        let start = Instant::now();
        let outcome = simulate(&setting, 1, model.take(200_000));
        row("jobs under EASY", nodes as usize, outcome.events, start);
    }
    for hosts in [100, 1000, 10_000, 100_000] {
        for kind in [Kind::Sender, Kind::UpDown, Kind::Hierarchical, Kind::Pull] {
            // So many that what a host costs before its first process does not count.
            let processes = (50 * hosts as u64).max(500_000);
            let start = Instant::now();
            let outcome = allocation::simulate(&settings(), &Case::new(kind, hosts, 0.8, processes), 1);
            row(&format!("allocation, {kind:?}"), hosts, outcome.events, start);
        }
    }
}

fn row(model: &str, size: usize, events: u64, start: Instant) {
    let each = start.elapsed().as_nanos() as f64 / events.max(1) as f64;
    println!("{model:<28} {size:>10} {events:>10} {each:>12.0}");
}

/// So many processes, each of which waits an exponential time again and again.
fn hold(processes: usize) {
    let mut random = Random::new(1);
    let mut engine = Engine::new();
    for process in 0..processes {
        engine.after(seconds(random.exponential(1.0)), process);
    }
    while engine.happened() < EVENTS {
        if let Some(process) = engine.next_event() {
            engine.after(seconds(random.exponential(1.0)), process);
        }
    }
}

fn settings() -> Settings {
    Settings {
        hosts: Vec::new(),
        load: Vec::new(),
        load_hosts: 1,
        hosts_load: 0.8,
        processes: 1,
        batch: 8,
        run: 10.0,
        creators: 0.2,
        delay: 0.0,
        mtbf: 0.0,
        repair: 60.0,
        idle: 0.0,
        visit: 60.0,
    }
}
