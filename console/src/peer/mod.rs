//! `pvm peer`: virtual machines that exchange jobs, as the masters of LSF's clusters do (*Scheduling parallel jobs on clusters*, section
//! 21.6.2).

mod exchange;
mod serve;
mod words;

use crate::commands::args::OutputArgs;
use crate::commands::{Report, print};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use pvm_wire::quantity;
use pvm3::{JobId, JobRecord, JobRequest, MailboxFlags, Task};
use serde_json::json;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::time::Duration;

const EXAMPLES: &str = "\
Both machines have to want it: each adds the other, under the name by which the other calls itself.
Jobs that name no queue and no hosts, have no slots to wait for others, and have waited for a while, go to
a machine with free slots; they are listed as lent, and end here as they have ended there. The program and
the folder are expected there under the same paths, and the login without a password.

Examples:
  on node1:  pvm peer add node7              node1's machine lends to node7's, by \"ssh node7 pvm\"
  on node7:  pvm peer add node1              and takes jobs from it, and lends to it
  pvm peer add b --via \"ssh node7 env PVM_VMID=b /opt/pvm/bin/pvm\" --own-name a
  pvm peer list
  pvm peer delete node7";

/// The arguments of `pvm peer`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PeerArgs {
    #[command(subcommand)]
    command: PeerCommand,
}

#[derive(Debug, Subcommand)]
enum PeerCommand {
    /// Exchange jobs with another virtual machine
    Add(AddArgs),
    /// List the machines with which this one exchanges jobs
    List(ListArgs),
    /// Exchange no more jobs with a machine; those that it has stay lent
    Delete(DeleteArgs),
    /// Run the exchange (internal: a job of the virtual machine)
    #[command(hide = true)]
    Exchange(AddArgs),
    /// Answer another machine's exchange (internal: started by that)
    #[command(hide = true)]
    Serve {
        /// The other machine's name here.
        #[arg(long)]
        from: String,
    },
}

#[derive(Debug, Args)]
struct AddArgs {
    /// The other machine: the name of a host where its pvm can be run, or any name with --via
    #[arg(value_name = "NAME", value_parser = name)]
    name: String,
    /// The command that runs its pvm [default: ssh -o BatchMode=yes NAME pvm]
    #[arg(long, value_name = "COMMAND")]
    via: Option<String>,
    /// The name of this machine there [default: that of its first host]
    #[arg(long, value_name = "NAME", value_parser = name)]
    own_name: Option<String>,
    /// Lend jobs that have waited for this long
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = quantity::time)]
    after: u64,
    /// Jobs that are lent at a time, at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    most: usize,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// How the answer is written
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
struct DeleteArgs {
    /// The machine
    #[arg(value_name = "NAME")]
    name: String,
    /// Run the jobs that are lent to it again here, though they may run there, too
    #[arg(long)]
    take_home: bool,
}

/// How jobs are exchanged with a machine.
struct Terms {
    name: String,
    own_name: String,
    via: String,
    after: Duration,
    most: usize,
}

fn name(text: &str) -> Result<String, String> {
    let is_good = !text.is_empty()
        && !text.starts_with('-')
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter));
    if is_good { Ok(text.to_owned()) } else { Err("a name has letters, digits, -, _ and .".to_owned()) }
}

/// The name of the job that exchanges jobs with a machine.
fn exchange_with(peer: &str) -> String {
    format!("peer:{peer}")
}

/// Whether a job is the exchange with a machine.
fn is_exchange(job: &JobRecord, peer: &str) -> bool {
    job.name == exchange_with(peer)
}

/// Where an exchange says how it is.
fn status_entry(peer: &str) -> String {
    format!("pvm:peer:{peer}")
}

impl PeerArgs {
    /// Whether the answer is to be JSON.
    pub fn is_json(&self) -> bool {
        matches!(&self.command, PeerCommand::List(args) if args.output.json)
    }
}

/// Carries out a command; returns the exit code.
pub fn run(args: &PeerArgs) -> Result<u8> {
    match &args.command {
        PeerCommand::Exchange(args) => return exchange::exchange(&terms(args)?).map(|()| 0),
        PeerCommand::Serve { from } => return serve::serve(from).map(|()| 0),
        _ => {}
    }
    let mut task = Task::enrol_as(Some("pvm"), true)?;
    let report = match &args.command {
        PeerCommand::Add(args) => add(&mut task, args)?,
        PeerCommand::Delete(args) => delete(&mut task, args)?,
        _ => list(&mut task)?,
    };
    let _ = task.exit();
    print(&report, args.is_json())?;
    Ok(u8::from(report.failed))
}

fn terms(args: &AddArgs) -> Result<Terms> {
    Ok(Terms {
        name: args.name.clone(),
        own_name: args.own_name.clone().context("--own-name is missing")?,
        via: args.via.clone().unwrap_or_else(|| format!("ssh -o BatchMode=yes {} pvm", args.name)),
        after: Duration::from_millis(args.after),
        most: args.most,
    })
}

fn add(task: &mut Task, args: &AddArgs) -> Result<Report> {
    if let Some(job) = task.jobs(&[])?.iter().find(|job| is_exchange(job, &args.name)) {
        bail!("this machine exchanges jobs with {} already, by job {}", args.name, job.id);
    }
    let own_name = match &args.own_name {
        Some(name) => name.clone(),
        None => task.hosts()?.first().map(|host| host.name.clone()).context("there are no hosts")?,
    };
    if own_name == args.name {
        bail!("both machines would have the name {own_name}: give this one another by --own-name");
    }
    let program = std::env::current_exe().context("this program cannot be found")?;
    let folder = std::env::current_dir().context("the current folder cannot be found")?;
    let mut request = JobRequest::new(program, "pvm", folder);
    let after = format!("{}s", args.after / 1000);
    let words = ["peer", "exchange", &args.name, "--own-name", &own_name, "--after", &after];
    let most = args.most.to_string();
    let via = args.via.iter().flat_map(|via| ["--via", via]);
    request.program.args =
        words.into_iter().chain(["--most", &most]).chain(via).map(OsString::from).collect();
    request.program.slots = 0;
    (request.name, request.restarts) = (exchange_with(&args.name), 1000);
    let id = task.submit(request).context("the exchange cannot be submitted")?;
    let text = format!(
        "job {id} exchanges jobs with {}, as soon as that machine does, too: \"pvm peer add {own_name}\" there\n",
        args.name
    );
    Ok(Report { text, json: json!({ "id": id.0 }), failed: false })
}

fn lent_to(jobs: &[JobRecord], peer: &str) -> Vec<JobId> {
    let is_its = |job: &&JobRecord| job.lent.as_ref().is_some_and(|lent| lent.peer == peer);
    jobs.iter().filter(is_its).map(|job| job.id).collect()
}

fn delete(task: &mut Task, args: &DeleteArgs) -> Result<Report> {
    let jobs = task.jobs(&[])?;
    let exchange = jobs.iter().find(|job| is_exchange(job, &args.name));
    let lent = lent_to(&jobs, &args.name);
    let has_work = exchange.is_some() || args.take_home && !lent.is_empty();
    if !has_work {
        bail!("this machine exchanges no jobs with {}", args.name);
    }
    if let Some(job) = exchange {
        task.cancel_jobs(&[job.id])?;
        task.wait_for_jobs(&[job.id])?;
    }
    let mut text = String::new();
    for id in &lent {
        if args.take_home {
            task.give_back_job(*id, None)?;
        } else {
            let _ =
                writeln!(text, "job {id} stays lent: add {} again, or delete it with --take-home", args.name);
        }
    }
    let lent: Vec<u64> = lent.iter().map(|id| id.0).collect();
    Ok(Report { text, json: json!({ "lent": lent }), failed: false })
}

fn list(task: &mut Task) -> Result<Report> {
    let jobs = task.jobs(&[])?;
    let mut text = format!("{:<16} {:>6} {:>6} {:>6}  {}\n", "MACHINE", "JOB", "LENT", "TAKEN", "STATE");
    let mut peers = Vec::new();
    for exchange in &jobs {
        let Some(peer) = exchange.name.strip_prefix(&exchange_with("")) else { continue };
        let lent = lent_to(&jobs, peer).len();
        let is_theirs = |job: &&JobRecord| job.origin.as_ref().is_some_and(|origin| origin.machine == peer);
        let taken = jobs.iter().filter(is_theirs).count();
        let state = status(task, peer).unwrap_or_else(|| exchange.state.phrase().to_owned());
        let _ = writeln!(text, "{peer:<16} {:>6} {lent:>6} {taken:>6}  {state}", exchange.id);
        peers.push(
            json!({ "name": peer, "job": exchange.id.0, "lent": lent, "taken": taken, "state": state }),
        );
    }
    Ok(Report { text, json: json!({ "peers": peers }), failed: false })
}

/// What the exchange has said last.
fn status(task: &mut Task, peer: &str) -> Option<String> {
    let (_, mut entry) = task.recv_info(status_entry(peer), 0, MailboxFlags::default()).ok()?;
    entry.get_str().ok()
}
