//! What the console's commands and the shell's (`pvm conf`, `pvm ps`, …) have in common: each does one thing with the
//! virtual machine and reports it, as text for people and as JSON for programs.

pub mod args;
mod batches;
mod hosts;
mod moves;
mod owner;
pub(crate) mod rows;
mod tasks;

pub use batches::{batches, batches_of, cancel, policies, watch};
pub use hosts::{add, delete, host_names, host_rows, hosts};
pub use moves::move_task;
pub use owner::owner;
pub use rows::rows;
pub use tasks::{children_of, end, send_signal, task_rows, tasks};

use anyhow::{Context, Result, bail};
use args::MachineCommand;
use pvm3::Task;
use serde_json::{Value, json};
use std::io::{self, ErrorKind, Write};
use std::time::{Duration, Instant};

/// The result of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// For people: whole lines.
    pub text: String,
    /// For programs: the fields are documented in `docs/commands.toml`, and stay.
    pub json: Value,
    /// Something of what was asked for was not done.
    pub failed: bool,
}

impl Report {
    fn good(text: String, json: Value) -> Self {
        Self { text, json, failed: false }
    }
}

/// How long a machine may take to end.
const END: Duration = Duration::from_secs(30);

/// Carries out a command of the shell on the machine that runs here; returns the exit code.
pub fn run(command: &MachineCommand) -> Result<u8> {
    let mut task = Task::enrol_as(Some("pvm"), true)?;
    let report = match command {
        MachineCommand::Conf(args) => hosts(&mut task, args.long)?,
        MachineCommand::Owner(args) => owner(&mut task, args.host.as_deref(), args.said)?,
        MachineCommand::Rows(_) => rows(&mut task)?,
        MachineCommand::Ps(args) => tasks(&mut task, &args.options())?,
        MachineCommand::Add(args) => add(&mut task, &args.hosts)?.0,
        MachineCommand::Delete(args) => delete(&mut task, &args.hosts)?,
        MachineCommand::Batch(args) => match args.watch {
            Some(id) => watch(&mut task, id, || false)?,
            None if args.policies => policies(&mut task)?,
            None if !args.ids.is_empty() => batches_of(&mut task, &args.ids)?,
            None if args.cancel.is_empty() => batches(&mut task, args.long)?,
            None => cancel(&mut task, &args.cancel)?,
        },
        MachineCommand::Kill(args) => {
            let targets = if args.children { children_of(&mut task, &args.tids)? } else { args.tids.clone() };
            end(&mut task, &targets)?
        }
        MachineCommand::Move(args) => move_task(&mut task, args.tid, args.host.as_deref())?,
        MachineCommand::Dump(_) => {
            let state = task.daemon_state()?;
            Report::good(state.clone(), json!({ "state": state }))
        }
        MachineCommand::Halt(_) => halt(&mut task)?,
    };
    // After a halt the daemon is gone, and leaving fails.
    let _ = task.exit();
    print(&report, command.is_json())?;
    Ok(u8::from(report.failed))
}

/// Ends the machine, and waits until this host's daemon has exited.
fn halt(task: &mut Task) -> Result<Report> {
    let file = pvm3::address_file();
    let named = std::fs::read_to_string(&file).unwrap_or_default();
    // Where the environment names another machine's socket, the file is not about the one that ends.
    let asked = std::env::var("PVMSOCK").unwrap_or_default();
    let is_its_own = asked.is_empty() || asked == named.trim_end();
    task.halt()?;
    let deadline = Instant::now() + END;
    while is_its_own && std::fs::read_to_string(&file).is_ok_and(|now| now == named) {
        if Instant::now() >= deadline {
            bail!("the daemon is still running {END:?} after the request to halt");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(Report::good(String::new(), json!({ "halted": true })))
}

pub(crate) fn print(report: &Report, is_json: bool) -> Result<()> {
    let text = if is_json { format!("{:#}\n", report.json) } else { report.text.clone() };
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // A reader that has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}
