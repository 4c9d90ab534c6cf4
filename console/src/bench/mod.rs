//! `pvm bench`: how fast a virtual machine is, and what limits it.
//!
//! The command is a task that spawns workers (`worker.rs`) on the hosts and gives them orders (`order.rs`). `plan.rs` says what is measured and
//! for how long, `measure.rs` carries it out with the workers of a crew (`crew/`), and `result.rs` compares it with what the hosts reach without
//! PVM. Workers measure in `pingpong.rs`, `flood.rs` and `all_to_all.rs`, the limits in `limits.rs` and by the connections of `wires.rs`.

mod all_to_all;
pub mod args;
mod crew;
mod flood;
mod json;
mod limits;
mod line;
mod measure;
mod order;
mod pingpong;
mod plan;
mod plot;
mod result;
mod table;
mod usage;
mod wires;
pub mod worker;

use crate::commands::{Report, print};
use crate::inside;
use crate::machine::{Hosts, run_inside, settle_logs};
use crate::supervise::{self, Interrupts};
use crate::timeline::Target;
use anyhow::{Context, Result};
use args::{BenchArgs, Part};
use crew::{Crew, Problem, Role};
use indicatif::{ProgressBar, ProgressStyle};
use measure::{Bench, Ledger, Record};
use order::Way;
use plan::{Row, Scope, What, cells, share};
use pvmd::io::settings::hosts_from;
use result::{HostLine, Line, Note, Outcome, computers};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;

const TEMPLATE: &str = "{bar:40.cyan/blue} {percent:>3}% {msg}, {elapsed}";

/// Measures; returns the exit code.
pub fn run(args: &BenchArgs) -> Result<u8> {
    let target = args.plot.as_deref().map(Target::open).transpose()?;
    if args.machine.here {
        return here(args, target);
    }
    // The process inside opens it again.
    drop(target);
    let hosts = Hosts::chosen(&args.machine, hosts_from()?, Hosts::Local(2, Vec::new()));
    run_inside(&hosts, None, &args.inside())
}

/// Measures the machine here.
fn here(args: &BenchArgs, target: Option<Target>) -> Result<u8> {
    let task = inside::enrol("pvm bench", &args.machine)?;
    let interrupts = Interrupts::watch().context("cannot handle signals")?;
    let bar = progress_bar()?;
    let crew = Crew::new(task, interrupts, bar.clone())?;
    let scope = Scope {
        hosts: crew.hosts.len(),
        first: usize::from(args.first),
        pairs: args.pairs,
        max_tasks: args.max_tasks(),
        quick: args.quick,
    };
    let mut bench = Bench { crew, scope, rounds: args.rounds(), bar };
    let mut outcome = measure(&mut bench, args);
    bench.bar.finish_and_clear();
    let signal = bench.crew.signal;
    bench.crew.dismiss();
    let is_complete = outcome.is_complete();
    if args.machine.private {
        settle_logs(&mut bench.crew.task, is_complete || signal.is_some());
    }
    // The daemon may be gone; what was measured is printed nevertheless.
    let left = bench.crew.task.exit();
    let drawn = target.map_or(Ok(()), |target| draw(&outcome, target));
    let json = json::value(&outcome);
    if signal.is_some() {
        outcome.lines.retain(|line| line.value.is_some());
    }
    let text = if outcome.lines.is_empty() { String::new() } else { table::text(&outcome) };
    print(&Report { text, json, failed: !is_complete }, args.output.json)?;
    drawn?;
    match signal {
        Some(signal) => Ok(supervise::signal_code(signal)),
        None => Ok(u8::from(!is_complete || left.is_err())),
    }
}

fn progress_bar() -> Result<ProgressBar> {
    Ok(ProgressBar::new(1).with_style(ProgressStyle::with_template(TEMPLATE)?))
}

/// Measures all parts, and puts together the result.
fn measure(bench: &mut Bench, args: &BenchArgs) -> Outcome {
    let parts = args.chosen();
    let rows: Vec<(Part, Vec<Row>)> = parts.iter().map(|&part| (part, bench.scope.rows(part))).collect();
    let steps: usize = rows.iter().map(|(_, rows)| cells(rows).len()).sum();
    bench.bar.set_length(steps as u64 * u64::from(bench.rounds + 1));
    bench.bar.set_message("workers");
    let hired = hire(&mut bench.crew, &bench.scope, &rows);
    let mut lines = Vec::new();
    for (part, rows) in &rows {
        let ledger = match &hired {
            Ok(()) => bench.part(*part, rows, share(*part, &parts, args.seconds())),
            Err(problem) => refused(rows, problem),
        };
        lines.extend(lines_of(bench, rows, &ledger));
    }
    Outcome { hosts: hosts(&bench.crew), rounds: bench.rounds, seconds: args.seconds(), lines }
}

/// Starts the workers that these lines need.
fn hire(crew: &mut Crew, scope: &Scope, rows: &[(Part, Vec<Row>)]) -> Result<(), Problem> {
    let by_daemons =
        [What::PingPong(Way::ByDaemons), What::Flood(Way::ByDaemons), What::Exchange(Way::ByDaemons)];
    let mut needed: BTreeSet<(usize, Role)> = (0..scope.hosts).map(|host| (host, Role::Main)).collect();
    for cell in rows.iter().flat_map(|(_, rows)| cells(rows)) {
        let role = match cell.what {
            What::PingPong(Way::Default) | What::Flood(Way::Default) => Role::Mate,
            what if by_daemons.contains(&what) => Role::ByDaemons,
            _ => continue,
        };
        match cell.place {
            plan::Place::Host(host) => drop(needed.insert((host, role))),
            plan::Place::Pair(a, b) if role == Role::ByDaemons => needed.extend([(a, role), (b, role)]),
            plan::Place::Pair(..) => {}
            plan::Place::All => needed.extend((0..scope.hosts).map(|host| (host, role))),
        }
    }
    for (host, role) in needed {
        crew.hire(host, role);
    }
    crew.await_workers()
}

/// Nothing was measured, for this reason.
fn refused(rows: &[Row], problem: &Problem) -> Ledger {
    let record = Record::stopped(problem.clone());
    cells(rows).into_iter().map(|cell| (cell, record.clone())).collect()
}

/// The lines of measurements, with the reasons of hosts that are gone.
fn lines_of(bench: &mut Bench, rows: &[Row], ledger: &Ledger) -> Vec<Line> {
    for record in ledger.values() {
        if let Some(Problem::Gone(host)) = record.problem {
            bench.crew.explain(host);
        }
    }
    let hosts = hosts(&bench.crew);
    let note = |record: &Record| {
        Some(match record.problem.as_ref()? {
            Problem::LeftOut(reason) => Note::LeftOut(reason.clone()),
            Problem::Failed(reason) => Note::Failed(reason.clone()),
            Problem::Gone(host) => {
                Note::Failed(bench.crew.trouble(*host).unwrap_or("a worker is gone").to_owned())
            }
            Problem::Interrupted => Note::Failed("interrupted".to_owned()),
        })
    };
    rows.iter().map(|row| result::line(row, &bench.scope, ledger, &hosts, note)).collect()
}

/// The hosts, with what their workers have told.
fn hosts(crew: &Crew) -> Vec<HostLine> {
    let names: Vec<&str> =
        crew.hosts.iter().map(|host| host.hello.as_ref().map_or("", |hello| &hello.computer)).collect();
    let lines = crew.hosts.iter().zip(computers(&names)).map(|(host, computer)| HostLine {
        name: host.info.name.clone(),
        tid: host.info.tid.to_string(),
        arch: host.info.arch.clone(),
        speed: host.info.speed,
        processors: host.hello.as_ref().map(|hello| hello.processors),
        computer,
    });
    lines.collect()
}

/// Writes the picture, if there is something to draw.
fn draw(outcome: &Outcome, target: Target) -> Result<()> {
    let Some(svg) = plot::svg(outcome)? else {
        eprintln!("pvm: nothing was measured over several sizes: no picture is written");
        return Ok(());
    };
    let path: Box<Path> = target.path().into();
    let written = target.write(|mut file| file.write_all(svg.as_bytes()));
    written.with_context(|| format!("cannot write {}", path.display()))
}
