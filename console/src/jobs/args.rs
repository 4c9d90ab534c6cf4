//! The command lines of the queues: `pvm submit`, `pvm jobs` and the others.

use crate::commands::args::{OutputArgs, PlainArgs};
use clap::{Args, Subcommand};
use pvm_wire::quantity;
use pvm3::{JobId, JobTasks};
use std::ffi::OsString;

/// A command for the queues of the virtual machine that runs here.
#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// Submit a job to a queue
    Submit(Box<SubmitArgs>),
    /// List the jobs that have not ended
    #[command(after_help = JOBS_EXAMPLES)]
    Jobs(PlainArgs),
    /// Show jobs in full
    #[command(after_help = JOB_EXAMPLES)]
    Job(IdArgs),
    /// Wait until jobs have ended
    #[command(after_help = WAIT_EXAMPLES)]
    Wait(IdArgs),
    /// Cancel jobs
    #[command(after_help = CANCEL_EXAMPLES)]
    Cancel(IdArgs),
    /// Start no more tasks of jobs
    #[command(after_help = HOLD_EXAMPLES)]
    Hold(IdArgs),
    /// Start tasks of held jobs again
    #[command(after_help = HOLD_EXAMPLES)]
    Release(IdArgs),
    /// List the queues and clusters
    #[command(after_help = QUEUES_EXAMPLES)]
    Queues(QueuesArgs),
    /// List the clusters of hosts and their links
    #[command(after_help = CLUSTERS_EXAMPLES)]
    Clusters(PlainArgs),
    /// Show how busy the hosts are
    #[command(after_help = LOAD_EXAMPLES)]
    Load(PlainArgs),
    /// List the jobs that have ended, the latest first
    #[command(after_help = HISTORY_EXAMPLES)]
    History(HistoryArgs),
}

impl JobCommand {
    /// Whether the answer is to be JSON.
    pub fn is_json(&self) -> bool {
        match self {
            Self::Submit(args) => args.output_format.json,
            Self::Jobs(args) | Self::Clusters(args) | Self::Load(args) => args.output.json,
            Self::Queues(args) => args.output.json,
            Self::Job(args)
            | Self::Wait(args)
            | Self::Cancel(args)
            | Self::Hold(args)
            | Self::Release(args) => args.output.json,
            Self::History(args) => args.output.json,
        }
    }
}

const SUBMIT_EXAMPLES: &str = "\
Prints the number of the job, which is on disk then: it outlives this command and the virtual machine.
A job that can never run is refused with the reason. The exit status is 1 if the job was refused; with
--wait it is 1 also if the job has failed or was cancelled.

The tasks of an array are independent: each starts on a host with enough free slots. With -n all tasks
start at once, or the job waits. Tasks find PVM_JOB_ID, PVM_JOB_NAME, PVM_JOB_TASK and PVM_JOB_TASKS in
their environment. In the name of the output file %j stands for the number of the job, %t for that of
the task, %n for the name of the job. Tasks append their standard output and error to it.

PROGRAM without a slash is searched for in the folders of PATH, then in those of PVM_PATH. Hosts are
expected to find PROGRAM and the folder under the same paths.

Examples:
  pvm submit ./simulate 17
  pvm submit --array 1-200 --name sweep ./run.sh      PVM_JOB_TASK is 1 to 200
  pvm submit --array 1-200%10 --time 2h ./run.sh      ten at a time, two hours each
  pvm submit -n 16 --queue long ./parallel            16 tasks at once
  pvm submit -n 16 --bandwidth 40Mbit ./parallel      the same, and what two of them send each other
  pvm submit --after 7 ./collect                      when job 7 has ended well
  pvm submit --wait ./test && echo passed";

/// The arguments of `pvm submit`.
#[derive(Debug, Args)]
#[command(after_help = SUBMIT_EXAMPLES)]
pub struct SubmitArgs {
    /// The queue; by default the first one that takes the job, in the order of their priorities
    #[arg(short, long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// Start N tasks at once: a parallel program
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "array",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub width: Option<u32>,
    /// Independent tasks with these numbers, K at a time at most: 1-1000 or 1-1000%K
    #[arg(short, long, value_name = "FIRST-LAST[%K]", value_parser = array)]
    pub array: Option<JobTasks>,
    /// Hosts to run on, separated by commas: names, in which * stands for any text, and @CLUSTER
    #[arg(long, value_name = "HOSTS", value_delimiter = ',')]
    pub hosts: Vec<String>,
    /// The longest run time of a task: 90s, 15m, 1h30m, 2d. Then it gets SIGTERM, and SIGKILL after 5 s
    #[arg(short, long, value_name = "TIME", value_parser = quantity::time)]
    pub time: Option<u64>,
    /// What two tasks of a parallel program send each other: 500kbit, 40Mbit, 1Gbit per second [default: as measured]
    #[arg(long, value_name = "RATE", value_parser = quantity::bandwidth, requires = "width", conflicts_with = "array")]
    pub bandwidth: Option<u64>,
    /// The run time of a parallel program in the fastest cluster [default: that of earlier runs, else --time]
    #[arg(long, value_name = "TIME", value_parser = quantity::time, requires = "width", conflicts_with = "array")]
    pub expect: Option<u64>,
    /// How much longer it takes when it spans clusters whose links are free [default: that of earlier runs]
    #[arg(long, value_name = "TIME", value_parser = quantity::time, requires = "width", conflicts_with = "array")]
    pub communication: Option<u64>,
    /// Memory that each process of a task may have, and all together: 512M, 4G
    #[arg(short, long, value_name = "SIZE", value_parser = quantity::size)]
    pub mem: Option<u64>,
    /// Slots of a host that each task fills
    #[arg(short, long, value_name = "C", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub cpus: u32,
    /// Start when these jobs have ended well; if one of them fails, the job is cancelled
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub after: Vec<JobId>,
    /// How often a task that fails is started again
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub restart: u32,
    /// The name of the job [default: PROGRAM]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Whose share of the machine the job counts to [default: your login name]
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// The folder that tasks start in [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<OsString>,
    /// A variable of the environment of tasks; may be given several times
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = variable)]
    pub env: Vec<String>,
    /// The file for the output, or none [default: job-%j.out, of arrays job-%j.%t.out]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<OsString>,
    /// Start nothing before "pvm release"
    #[arg(long)]
    pub hold: bool,
    /// Wait until the job has ended
    #[arg(short, long)]
    pub wait: bool,
    /// How the answer is written
    #[command(flatten)]
    pub output_format: OutputArgs,
    /// The program and its arguments
    #[arg(value_names = ["PROGRAM", "ARGS"], required = true, num_args = 1.., trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

const JOBS_EXAMPLES: &str = "\
Examples:
  pvm jobs                                   one line per job, with what it waits for
  pvm jobs --json | jq -r '.jobs[].id'       their numbers";

const JOB_EXAMPLES: &str = "\
Examples:
  pvm job 17                                 also when it has ended";

const WAIT_EXAMPLES: &str = "\
The exit status is 0 if all tasks of all these jobs have ended well, else 1.

Examples:
  pvm wait 17 18 && ./collect";

const CANCEL_EXAMPLES: &str = "\
Tasks that wait are dropped; those that run get SIGTERM, and SIGKILL after 5 s. The exit status is 1 if a job
does not exist or has ended.

Examples:
  pvm cancel 17 18";

const HOLD_EXAMPLES: &str = "\
Tasks that run go on. The exit status is 1 if a job does not exist or has ended.

Examples:
  pvm hold 17
  pvm release 17";

const QUEUES_EXAMPLES: &str = "\
With --reload the master reads its file of queues again (PVM_QUEUES, else ~/.config/pvm/queues.toml). If there
is a mistake in it, the exit status is 1 and the queues stay as they are. Jobs that wait keep their places.

Examples:
  pvm queues                                 priority, properties, jobs that wait, slots in use
  pvm queues --reload                        after a change of the file";

const CLUSTERS_EXAMPLES: &str = "\
Clusters are those of the hostfile (cluster=NAME of a host, and lines link=NAME bw=1Gbit). The bandwidth of a link
whose line has no bw= is measured, and shown with ~. H says how much longer
than in the fastest cluster a task takes. MEASURED is what the tasks of running parallel jobs have sent over
the link lately, in bits per second. DEMAND is what these jobs ask of it: of each what the bandwidth that it was
submitted with leads to, or what is measured, if that is more. CONGESTION is the bandwidth of the link divided
by DEMAND, and the link is congested below 1. The line - is of the hosts without a cluster, which have no link.

Examples:
  pvm clusters
  pvm clusters --json | jq '.clusters[] | {name, free, congestion}'";

const LOAD_EXAMPLES: &str = "\
1, 5 and 15 MIN are average numbers of processes that run or want to. CPU is the part of all cores that was
busy in the last minute, OTHERS that which programs outside of the virtual machine kept busy. FREE is memory
that a new program can have. USERS own a terminal; UNUSED is the time since the last input at one.
TASKS are those of the virtual machine.

Examples:
  pvm load
  pvm load --json | jq '.hosts[] | {host, run_queue}'";

/// The arguments of `pvm queues`.
#[derive(Debug, Args)]
pub struct QueuesArgs {
    /// Read the file of queues again first
    #[arg(long)]
    pub reload: bool,
    /// How the answer is written
    #[command(flatten)]
    pub output: OutputArgs,
}

const HISTORY_EXAMPLES: &str = "\
Examples:
  pvm history -n 5                           the last five: times, hosts, CPU time and memory
  pvm history --json";

/// The arguments of commands for certain jobs.
#[derive(Debug, Args)]
pub struct IdArgs {
    /// Numbers of jobs
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<JobId>,
    /// How the answer is written
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The arguments of `pvm history`.
#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// How many
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub count: u32,
    /// How the answer is written
    #[command(flatten)]
    pub output: OutputArgs,
}

fn array(text: &str) -> Result<JobTasks, String> {
    let wrong = || format!("{text:?} is no range of numbers: write 1-1000, or 1-1000%10 for ten at a time");
    let (range, at_once) = text.split_once('%').map_or((text, None), |(range, most)| (range, Some(most)));
    let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
    let at_once = at_once.map(number).transpose()?;
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last) = (number(first)?, number(last)?);
    if last < first || at_once == Some(0) {
        return Err(wrong());
    }
    let count = (last - first).checked_add(1).ok_or_else(wrong)?;
    Ok(JobTasks::Array { first, count, at_once })
}

fn variable(text: &str) -> Result<String, String> {
    let is_one = text.split_once('=').is_some_and(|(name, _)| !name.is_empty());
    if is_one { Ok(text.to_owned()) } else { Err(format!("{text:?} is no variable: write NAME=VALUE")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_tasks() {
        let range = |first, count, at_once| Ok(JobTasks::Array { first, count, at_once });
        assert_eq!(array("1-1000"), range(1, 1000, None));
        assert_eq!(array("0-9%3"), range(0, 10, Some(3)));
        assert_eq!(array("7"), range(7, 1, None));
        for wrong in ["", "x", "5-1", "1-", "-1", "1-2-3", "1-9%0", "1-9%", "1-99999999999", "0-4294967295"] {
            assert!(array(wrong).is_err_and(|error| error.contains("no range")), "{wrong}");
        }
        assert!(variable("A=").is_ok() && variable("A").is_err() && variable("=x").is_err());
    }
}
