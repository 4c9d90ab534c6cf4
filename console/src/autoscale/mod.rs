//! `pvm autoscale`: nodes of Slurm join the virtual machine while work waits in its queues, and are given back when they are idle.
//!
//! Each round looks at the machine (`machine.rs`) and at Slurm (`slurm.rs`), has `pvm_sched::autoscale` decide, and carries that out
//! (`session.rs`). A node is held by a job whose script does nothing (`script.rs`); the master starts the daemon there by `srun`.

mod command;
mod events;
mod machine;
mod script;
mod session;
mod slurm;
mod survey;

use crate::supervise::Interrupts;
use anyhow::{Context, Result};
use clap::Args;
use events::Events;
use machine::Machine;
use pvm_sched::autoscale::Terms;
use pvm_wire::quantity;
use session::{Outcome, Session};
use slurm::Slurm;
use std::time::{Duration, Instant};

/// Between two looks for a signal.
const TICK: Duration = Duration::from_millis(50);

const EXAMPLES: &str = "\
Runs beside the virtual machine until Ctrl-C, or until that ends; then the nodes are given back.
It has to run on the master's host, where sbatch, squeue, scancel and srun reach Slurm. Each node is
a Slurm job of its own.

Work that waits: tasks of jobs (pvm submit) that find no room, and of queued batches. Meanwhile jobs
are accepted, too, that only fit on nodes that can be requested. After a failure nothing is
requested for ten seconds, after further ones for up to ten minutes.

The exit status is 0 after Ctrl-C, SIGTERM or the end of the virtual machine; 1 if it cannot begin:
no virtual machine runs here, Slurm would not take a request, or it runs already.

Examples:
  pvm autoscale --max-nodes 8
  pvm autoscale --max-nodes 8 --time 2h --idle 10m -- --partition=short --account=physics
  pvm autoscale --max-nodes 4 --min-nodes 1 --queue long
  pvm autoscale --max-nodes 8 --dry-run      show what it would do now, and do nothing";

/// The arguments of `pvm autoscale`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct AutoscaleArgs {
    /// Nodes at most, requests that wait included
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4094))]
    max_nodes: u32,
    /// Nodes that are kept although nothing waits
    #[arg(long, value_name = "N", default_value_t = 0)]
    min_nodes: u32,
    /// Requests that wait in Slurm at a time, at most
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    backlog: u32,
    /// Give a node back on which no task has run for this long
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = quantity::time)]
    idle: u64,
    /// The time limit of each Slurm job [default: the partition's]
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    time: Option<u64>,
    /// Slots of each node [default: the cores that Slurm gives]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    slots: Option<u32>,
    /// Look only at jobs of this queue
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// Between two looks
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = quantity::time)]
    interval: u64,
    /// A node ends its job by itself when no daemon has come for this long
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = quantity::time)]
    orphan: u64,
    /// The first part of the names of the Slurm jobs; several of these commands need several names
    #[arg(long, value_name = "NAME", default_value = "pvm", value_parser = name)]
    name: String,
    /// Leave nodes and requests as they are at the end
    #[arg(long)]
    keep: bool,
    /// Show what would be done now, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Print a JSON object per event
    #[arg(long)]
    json: bool,
    /// Further arguments of sbatch
    #[arg(value_name = "SBATCH-ARGS", last = true)]
    sbatch: Vec<String>,
}

fn name(text: &str) -> Result<String, String> {
    let is_good = |char: char| char.is_ascii_alphanumeric() || "-_".contains(char);
    if (1..=64).contains(&text.len()) && !text.starts_with('-') && text.chars().all(is_good) {
        Ok(text.to_owned())
    } else {
        Err("a name has up to 64 letters, digits, - and _".to_owned())
    }
}

impl AutoscaleArgs {
    fn terms(&self) -> Result<Terms> {
        let &Self { min_nodes, max_nodes, backlog, idle, slots, .. } = self;
        anyhow::ensure!(min_nodes <= max_nodes, "--min-nodes is more than --max-nodes");
        Ok(Terms { min_nodes, max_nodes, backlog, idle, slots })
    }
}

/// Runs until a signal comes or the machine ends; returns the exit code.
pub fn run(args: &AutoscaleArgs) -> Result<u8> {
    let terms = args.terms()?;
    let interrupts = Interrupts::watch().context("cannot watch for signals")?;
    let mut machine = Machine::join(&args.name, args.queue.as_deref())?;
    if !args.dry_run {
        machine.lock()?;
    }
    // A queue that does not exist is reported here.
    machine.look(None)?;
    let note = machine.note()?;
    let slurm = Slurm {
        name: format!("{}.{}", args.name, note.token),
        time: args.time,
        orphan: args.orphan,
        args: args.sbatch.clone(),
    };
    slurm.check().context("Slurm would not take a request")?;
    let events = Events { is_json: args.json };
    let mut session = Session::new(terms, machine, note, slurm, events);
    if args.dry_run {
        print!("{}", session.rehearse()?);
        return Ok(0);
    }
    session.begin()?;
    let interval = Duration::from_millis(args.interval);
    let outcome = loop {
        if session.round() == Outcome::MachineEnded {
            break Outcome::MachineEnded;
        }
        if wait(interval, &interrupts) {
            break Outcome::GoesOn;
        }
    };
    session.end(outcome, args.keep);
    Ok(0)
}

/// Whether a signal has come within this time.
fn wait(time: Duration, interrupts: &Interrupts) -> bool {
    let end = Instant::now() + time;
    loop {
        if interrupts.take().is_some() {
            return true;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(left.min(TICK));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_of_squeue() {
        assert!(name("pvm-2_a").is_ok());
        for text in ["", "a,b", "-a", "a b", "a.b", "a|b"] {
            assert!(name(text).is_err(), "{text}");
        }
        assert!(name(&"a".repeat(65)).is_err());
    }
}
