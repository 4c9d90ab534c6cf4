//! The command lines of `pvm conf`, `pvm ps` and the others that act on the machine that runs here.

use crate::shell::ps::{PsOptions, Which};
use crate::shell::{batches, words};
use clap::{Args, Subcommand};
use pvm_wire::owner::OwnerSaid;
use pvm3::Tid;

/// A command for the virtual machine that runs here. None of them starts one.
#[derive(Debug, Subcommand)]
pub enum MachineCommand {
    /// Show the hosts of the virtual machine
    Conf(ConfArgs),
    /// List tasks
    Ps(PsArgs),
    /// Add hosts
    Add(AddArgs),
    /// Remove hosts
    Delete(DeleteArgs),
    /// List, cancel or watch batches of tasks
    Batch(BatchArgs),
    /// Kill tasks
    Kill(KillArgs),
    /// Move a task to another host
    Move(MoveArgs),
    /// Show the rows by which teams take turns on all hosts at once
    #[command(after_help = ROWS_EXAMPLES)]
    Rows(PlainArgs),
    /// Show whether the owners of hosts are there, or say it
    Owner(OwnerArgs),
    /// Show the whole state of this host's daemon
    Dump(PlainArgs),
    /// End the virtual machine
    #[command(after_help = HALT_EXAMPLES)]
    Halt(PlainArgs),
}

impl MachineCommand {
    /// Whether the answer is to be JSON.
    pub fn is_json(&self) -> bool {
        match self {
            Self::Conf(args) => args.output.json,
            Self::Ps(args) => args.output.json,
            Self::Add(args) => args.output.json,
            Self::Delete(args) => args.output.json,
            Self::Batch(args) => args.output.json,
            Self::Kill(args) => args.output.json,
            Self::Move(args) => args.output.json,
            Self::Owner(args) => args.output.json,
            Self::Dump(args) | Self::Halt(args) | Self::Rows(args) => args.output.json,
        }
    }
}

/// How the answer is written.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

const ROWS_EXAMPLES: &str = "\
PVM_COSCHEDULING=dasic or coscheduling=dasic in the hostfile, at the master, makes the machine take turns so;
turns = \"rows\" of a queue makes the teams of its jobs do so.

Examples:
  pvm rows                                   a line per row, a column per host
  pvm rows --json | jq .idle                 the part of all places that is idle";

const OWNER_EXAMPLES: &str = "\
While the owner of a host is there, the host is given no tasks, and its tasks are held (hostfile: owner=, held=).
Tasks of jobs that may be restarted end, and begin again on other hosts.

Examples:
  pvm owner                                  one line per host
  pvm owner desk7 here                       the owner of desk7 is back
  pvm owner desk7 gone                       the host may be used, whatever its rule says
  pvm owner desk7 auto                       the rule decides again";

/// The arguments of `pvm owner`.
#[derive(Debug, Args)]
#[command(after_help = OWNER_EXAMPLES)]
pub struct OwnerArgs {
    /// The name of a host (default: all hosts)
    #[arg(value_name = "HOST")]
    pub host: Option<String>,
    /// Say that its owner is there, is not, or that its rule decides
    #[arg(value_name = "here|gone|auto", value_parser = said, requires = "host")]
    pub said: Option<OwnerSaid>,
    /// How the answer is written
    #[command(flatten)]
    pub output: OutputArgs,
}

fn said(text: &str) -> Result<OwnerSaid, String> {
    let said = OwnerSaid::ALL.into_iter().find(|said| said.name() == text);
    said.ok_or_else(|| "an owner is `here` or `gone`; with `auto` the rule decides".to_owned())
}

const HALT_EXAMPLES: &str = "\
Returns when the daemon of this host has exited.

Examples:
  pvm halt                                   end all tasks and daemons
  PVM_VMID=test pvm halt                     end those of the virtual machine \"test\"";

/// The arguments of commands that take none.
#[derive(Debug, Args)]
pub struct PlainArgs {
    /// How the answer is written
    #[command(flatten)]
    pub output: OutputArgs,
}

const CONF_EXAMPLES: &str = "\
Examples:
  pvm conf                                   one line per host
  pvm conf --json | jq -r '.hosts[].name'    their names";

/// The arguments of `pvm conf`.
#[derive(Debug, Args)]
#[command(after_help = CONF_EXAMPLES)]
pub struct ConfArgs {
    /// Also show how teams of tasks take turns on each host, and how long tasks spin
    #[arg(short, long)]
    pub long: bool,
    /// How the answer is written
    #[command(flatten)]
    pub output: OutputArgs,
}

const PS_EXAMPLES: &str = "\
FLAG is f for a child of a daemon, c connected, a enrolling, o leaving.

Examples:
  pvm ps                                     the tasks of this host
  pvm ps -al                                 of all hosts, with parent and process id
  pvm ps --host node1 --json                 of one host, as JSON";

/// The arguments of `pvm ps`.
#[derive(Debug, Args)]
#[command(after_help = PS_EXAMPLES)]
pub struct PsArgs {
    /// List the tasks of all hosts (default: of this host)
    #[arg(short, long, conflicts_with = "host")]
    pub all: bool,
    /// Also show parent and process id
    #[arg(short, long)]
    pub long: bool,
    /// Also list consoles and tasks that are enrolling
    #[arg(short = 'x', long)]
    pub special: bool,
    /// List the tasks of the host NAME
    #[arg(short = 'n', long, value_name = "NAME")]
    pub host: Option<String>,
    /// How the answer is written
    #[command(flatten)]
    pub output: OutputArgs,
}

impl PsArgs {
    /// The console's options of the same meaning.
    pub fn options(&self) -> PsOptions {
        let which = match &self.host {
            Some(name) => Which::Name(name.clone()),
            None if self.all => Which::Everywhere,
            None => Which::Here,
        };
        PsOptions { which, long: self.long, special: self.special }
    }
}

const ADD_EXAMPLES: &str = "\
The exit status is 1 if a host could not be added; the other hosts are added.

Examples:
  pvm add node1 node2
  pvm add \"node1 sp=2000 dx=/opt/pvm/bin/pvmd\"    with options: one quoted word";

/// The arguments of `pvm add`.
#[derive(Debug, Args)]
#[command(after_help = ADD_EXAMPLES)]
pub struct AddArgs {
    /// Hosts, as lines of a hostfile
    #[arg(required = true, value_name = "HOST")]
    pub hosts: Vec<String>,
    /// How the answer is written
    #[command(flatten)]
    pub output: OutputArgs,
}

const DELETE_EXAMPLES: &str = "\
The tasks on these hosts are killed. The exit status is 1 if a host could not be removed.

Examples:
  pvm delete node1 node2";

/// The arguments of `pvm delete`.
#[derive(Debug, Args)]
#[command(after_help = DELETE_EXAMPLES)]
pub struct DeleteArgs {
    /// Names of hosts
    #[arg(required = true, value_name = "HOST")]
    pub hosts: Vec<String>,
    /// How the answer is written
    #[command(flatten)]
    pub output: OutputArgs,
}

const BATCH_EXAMPLES: &str = "\
Examples:
  pvm batch                                  all batches
  pvm batch 40001                            its hosts, messages and last decisions
  pvm batch --policies                       what each placement policy has cost
  pvm batch --watch 40001                    show progress until it completes
  pvm batch --cancel 40001 40002             waiting tasks are dropped, running ones killed";

/// The arguments of `pvm batch`.
#[derive(Debug, Args)]
#[command(after_help = BATCH_EXAMPLES)]
pub struct BatchArgs {
    /// Show these batches alone, with what each host was granted, the messages of the policy and its last decisions
    #[arg(value_name = "ID", value_parser = batch, conflicts_with_all = ["long", "cancel", "watch", "policies"])]
    pub ids: Vec<i32>,
    /// Show how many tasks each placement policy has placed, and how many messages that took
    #[arg(short, long, conflicts_with_all = ["long", "cancel", "watch"])]
    pub policies: bool,
    /// Also show what each host was granted, and the terms of its last request
    #[arg(short, long, conflicts_with_all = ["cancel", "watch"])]
    pub long: bool,
    /// Cancel these batches
    #[arg(short, long, value_name = "ID", num_args = 1.., conflicts_with = "watch", value_parser = batch)]
    pub cancel: Vec<i32>,
    /// Show the progress of this batch until it completes
    #[arg(short, long, value_name = "ID", value_parser = batch)]
    pub watch: Option<i32>,
    /// How the answer is written
    #[command(flatten)]
    pub output: OutputArgs,
}

fn batch(text: &str) -> Result<i32, String> {
    batches::id(text).map_err(|_| "expected the id of a batch, as \"pvm batch\" shows it".to_owned())
}

const KILL_EXAMPLES: &str = "\
Tasks get the signal TERM. The exit status is 1 if one of them does not exist.

Examples:
  pvm kill t40002 t80001
  pvm kill --children t40002                 kill the tasks that it has spawned, not itself";

/// The arguments of `pvm kill`.
#[derive(Debug, Args)]
#[command(after_help = KILL_EXAMPLES)]
pub struct KillArgs {
    /// Kill the tasks' children instead of the tasks
    #[arg(short, long)]
    pub children: bool,
    /// Task ids, as "pvm ps" prints them
    #[arg(required = true, value_name = "TID", value_parser = tid)]
    pub tids: Vec<Tid>,
    /// How the answer is written
    #[command(flatten)]
    pub output: OutputArgs,
}

const MOVE_EXAMPLES: &str = "\
Returns when the task lives on the other host. Its id stays. A task can move if its program saves its state (pvm_migratable, Task::on_move), and
moves in its next call that receives. The exit status is 1 if it does not move.

Examples:
  pvm move t40002 node7
  pvm move t40002                            to the host that has most room
  for tid in $(pvm ps -n node7 --json | jq -r '.tasks[].tid'); do pvm move $tid; done";

/// The arguments of `pvm move`.
#[derive(Debug, Args)]
#[command(after_help = MOVE_EXAMPLES)]
pub struct MoveArgs {
    /// A task's id, as "pvm ps" prints it
    #[arg(value_name = "TID", value_parser = tid)]
    pub tid: Tid,
    /// The name of a host (default: the one that has most room)
    #[arg(value_name = "HOST")]
    pub host: Option<String>,
    /// How the answer is written
    #[command(flatten)]
    pub output: OutputArgs,
}

fn tid(text: &str) -> Result<Tid, String> {
    words::tid(text).ok_or_else(|| "expected the id of a task, such as t40002".to_owned())
}
