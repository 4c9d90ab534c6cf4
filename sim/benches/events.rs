//! The cost of an event as systems grow. `cargo bench -p pvm-sim` prints a table, with `-- allocation`
//! only of the models that begin so; `peer.py` beside this file has the processes that wait in SimPy.

use pvm_sim::engine::{Engine, seconds};
use pvm_sim::experiments::allocation::{self, Case, Kind, Settings};
use pvm_sim::experiments::batch::model::{Policy, Setting, simulate};
use pvm_sim::random::Random;
use pvm_sim::workload::Lublin;
use std::time::Instant;

const EVENTS: u64 = 2_000_000;

fn main() {
    // Words choose models by how their names begin; the first argument that cargo adds is none.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    println!("{:<28} {:>10} {:>10} {:>12}", "model", "size", "events", "ns per event");
    for (model, size, run) in models() {
        if words.is_empty() || words.iter().any(|word| model.starts_with(word)) {
            let start = Instant::now();
            let events = run();
            let each = start.elapsed().as_nanos() as f64 / events.max(1) as f64;
            println!("{model:<28} {size:>10} {events:>10} {each:>12.0}");
        }
    }
}

/// Name, size, and what says how many events it was.
type Model = (String, usize, Box<dyn Fn() -> u64>);

fn models() -> Vec<Model> {
    let mut models: Vec<Model> = Vec::new();
    for size in [1000, 10_000, 100_000, 1_000_000] {
        models.push(("reads of 16 bytes".to_owned(), size, Box::new(move || walk(size))));
    }
    for size in [10, 100, 1000, 10_000, 100_000] {
        models.push(("processes that wait".to_owned(), size, Box::new(move || hold(size))));
    }
    for size in [100, 1000, 10_000, 100_000] {
        models.push(("jobs under EASY".to_owned(), size, Box::new(move || easy(size))));
    }
    for size in [100, 1000, 10_000, 100_000] {
        for kind in [Kind::Local, Kind::Sender, Kind::Bidding, Kind::UpDown, Kind::Hierarchical] {
            models.push((format!("allocation, {kind:?}"), size, Box::new(move || allocate(kind, size))));
        }
    }
    for size in [100, 1000] {
        models.push(("allocation, Pull".to_owned(), size, Box::new(move || allocate(Kind::Pull, size))));
    }
    models
}

/// What the caches alone cost: each place says which is next, all in one circle.
fn walk(places: usize) -> u64 {
    let mut random = Random::new(1);
    let mut circle: Vec<[u64; 2]> = (0..places as u64).map(|place| [place, 0]).collect();
    // Sattolo's shuffle gives a permutation with one cycle.
    for place in (1..places).rev() {
        circle.swap(place, random.below(place));
    }
    let mut place = 0;
    for step in 0..EVENTS {
        let next = circle[place][0] as usize;
        circle[place][1] = step;
        place = next;
    }
    assert!(place < places);
    EVENTS
}

/// As many jobs at a time as there are nodes for: narrow ones.
fn easy(nodes: usize) -> u64 {
    let nodes = nodes as u32;
    let setting =
        Setting { policy: Policy::Easy, nodes, mtbf: f64::INFINITY, repair: 0.0, per_user: usize::MAX };
    let model = Lublin::new(1, 64, 50).offering(0.7, f64::from(nodes));
    simulate(&setting, 1, model.take(200_000)).events
}

/// So many processes that what a host costs before its first does not count.
fn allocate(kind: Kind, hosts: usize) -> u64 {
    let processes = (50 * hosts as u64).max(500_000);
    allocation::simulate(&Settings::default(), &Case::new(kind, hosts, 0.8, processes), 1).events
}

/// So many processes, each of which waits an exponential time again and again.
fn hold(processes: usize) -> u64 {
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
    EVENTS
}
