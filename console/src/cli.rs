//! The command line of `pvm`.

use crate::autoscale::AutoscaleArgs;
use crate::bench::args::BenchArgs;
use crate::commands::args::MachineCommand;
use crate::jobs::args::JobCommand;
use crate::peer::PeerArgs;
use crate::trace::TraceArgs;
use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use pvmd::allocation::HostsFrom;
use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Whether a first argument asks for a subcommand. PVM's console itself takes `-d`, `-n` and a hostfile.
pub fn is_subcommand(first: &str) -> bool {
    let flags = ["-h", "--help", "-V", "--version", "help"];
    flags.contains(&first) || command().get_subcommands().any(|subcommand| subcommand.get_name() == first)
}

/// The console's own arguments, which it hands to the daemon that it starts.
#[derive(Debug, Parser)]
#[command(name = "pvm", override_usage = USAGE, disable_help_flag = true)]
pub struct ConsoleArgs {
    /// The daemon's debug mask
    #[arg(short = 'd', value_name = "MASK", value_parser = pvmd::cli::mask)]
    pub mask: Option<u32>,
    /// This host's name
    #[arg(short = 'n', value_name = "NAME")]
    pub name: Option<String>,
    /// Batch system whose allocation the hosts are taken from: auto, none, slurm, lsf, sge or pbs
    #[arg(long, value_name = "SYSTEM")]
    pub hosts_from: Option<HostsFrom>,
    /// Hosts to start with
    pub hostfile: Option<PathBuf>,
}

impl ConsoleArgs {
    /// Checks them before anything is started; else what is wrong, for people.
    pub fn check(args: &[OsString]) -> Result<(), String> {
        let is_word = |word: &&OsString| !word.as_encoded_bytes().starts_with(b"-");
        if let Some(word) = args.first().filter(is_word)
            && !Path::new(word).exists()
        {
            return Err(format!("pvm: {}\n", unknown(word)));
        }
        let all = std::iter::once(OsString::from("pvm")).chain(args.iter().cloned());
        let parsed = Self::try_parse_from(all).map_err(|error| error.to_string())?;
        match parsed.hostfile {
            Some(file) if !file.exists() => Err(format!("pvm: no hostfile '{}'\n", file.display())),
            _ => Ok(()),
        }
    }
}

/// The error for a word that is neither.
fn unknown(word: &OsStr) -> String {
    let text = format!("unknown command or hostfile '{}'", word.display());
    let error = Cli::try_parse_from([OsStr::new("pvm"), word]).err();
    match error.as_ref().and_then(|error| error.get(ContextKind::SuggestedSubcommand)) {
        Some(ContextValue::Strings(near)) if !near.is_empty() => {
            format!("{text} (did you mean '{}'?)", near.join("' or '"))
        }
        _ => format!("{text} (\"pvm --help\" lists the commands)"),
    }
}

const USAGE: &str = "pvm [-dMASK] [-nNAME] [--hosts-from SYSTEM] [HOSTFILE]\n       pvm COMMAND ...";

const EXAMPLES: &str = "\
Without a command, pvm is the console: it starts a virtual machine or joins the running one, and
reads commands (\"help\" lists them). -n sets this host's name, -d the daemon's debug mask.

Examples:
  pvm hostfile                       start a virtual machine with the hosts in ./hostfile
  pvm conf                           list its hosts
  pvm ps -a                          list its tasks
  pvm halt                           end it
  pvm run --hosts 4 ./program        run a program on a virtual machine of its own
  pvm demo                           draw a picture with 256 tasks on four hosts
  pvm bench                          measure spawns and messages
  pvm sim coallocation               simulate scheduling policies: tables and plots";

/// Start, inspect and end a parallel virtual machine, and run programs on it
#[derive(Debug, Parser)]
#[command(name = "pvm", version, after_help = EXAMPLES, override_usage = USAGE)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands of `pvm`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a program on a virtual machine of its own
    Run(RunArgs),
    /// Draw mandelbrot.png with 256 tasks on four hosts
    Demo(DemoArgs),
    /// Measure spawns and messages of a virtual machine, and what limits them
    Bench(BenchArgs),
    /// Show hosts, teams, tasks and their CPU use
    Top(TopArgs),
    /// Show the virtual machine in a web browser
    Web(WebArgs),
    /// Summarize what "pvm run --trace" has recorded
    Trace(TraceArgs),
    /// A command for the virtual machine that runs here
    #[command(flatten)]
    Machine(MachineCommand),
    /// A command for its queues
    #[command(flatten)]
    Jobs(JobCommand),
    /// Exchange jobs with other virtual machines
    Peer(PeerArgs),
    /// Request nodes from Slurm while work waits, and give them back when idle
    Autoscale(AutoscaleArgs),
    /// Print completions for a shell
    Completions(CompletionsArgs),
    /// Simulate scheduling policies (see "pvm sim --help")
    #[command(disable_help_flag = true)]
    Sim {
        /// The simulation's arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Run the daemon, as pvmd does (see "pvm daemon --help")
    #[command(disable_help_flag = true)]
    Daemon {
        /// The daemon's arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Run a task manager (internal: started by the daemon)
    TaskManager {
        /// The task manager's arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

const RUN_EXAMPLES: &str = "\
Exit status: that of PROGRAM; 128+N if signal N ended it; 126 or 127 if it could not be started;
125 if the run was stopped after the loss of a host or a task (--on-failure stop); 1 if the virtual
machine could not be started. With -n: the status of the first copy that failed, else 0.

PROGRAM without a slash is searched for in the folders of PATH, then in those of PVM_PATH, not in the
current folder. Programs that it spawns are searched for in PROGRAM's folder, then in PVM_PATH.

Output of tasks is printed as \"[tTID] line\". A lost host, with its tasks, and a task that was killed
by a signal are reported at once on standard error, also without --on-failure. Signals sent by
a task or the console (pvm_kill, pvm_sendsig) are not reported. After a loss the daemons' logs are
kept and their paths printed; otherwise they are removed from all hosts.

Ctrl-C ends everything: PROGRAM gets five seconds to exit.

Examples:
  pvm run ./hello                            on this host
  pvm run --hosts 4 ./hello 1000             on this host, with three more daemons on it
  pvm run --hostfile cluster ./hello         on the hosts in the file \"cluster\"
  pvm run -n 8 --hostfile cluster ./spmd     eight copies, which find each other by pvm_siblings
  sbatch -N 4 --wrap 'pvm run ./hello'       on the four nodes of a Slurm job
  pvm run --on-failure stop ./hello          stop when a host or a task is lost
  pvm run --trace run.json ./hello           a timeline of tasks and messages, for ui.perfetto.dev
  pvm run --trace run.json --trace-program solver ./hello
                                             of the calls of \"solver\" only
  pvm run --here ./hello                     on the virtual machine that runs here";

/// The reaction of a run to the loss of a host or a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnFailure {
    /// Report it and continue; the program may handle the loss.
    Continue,
    /// Report it, kill the program and all tasks, and exit with status 125.
    Stop,
}

/// What a run records.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// Record a timeline of all tasks to FILE, for <https://ui.perfetto.dev>, chrome://tracing or "pvm trace"
    #[arg(long = "trace", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The most calls that the trace has, a message counting once per receiver; later ones are left out
    #[arg(long = "trace-calls", value_name = "N", default_value_t = 4_000_000, requires = "file",
          value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub calls: u32,
    /// Record the calls of tasks of PROGRAM only; may be repeated
    #[arg(long = "trace-program", value_name = "PROGRAM", requires = "file")]
    pub programs: Vec<String>,
}

/// The arguments of `pvm run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub struct RunArgs {
    /// Which virtual machine
    #[command(flatten)]
    pub machine: MachineArgs,
    /// What is recorded
    #[command(flatten)]
    pub trace: RecordArgs,
    /// Start N copies of PROGRAM as tasks, spread over the hosts, without standard input
    #[arg(short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub copies: Option<u32>,
    /// What to do when a host or a task is lost, or a copy (-n) fails
    #[arg(long, value_name = "WHAT", value_enum, default_value = "continue")]
    pub on_failure: OnFailure,
    /// The program and its arguments
    #[arg(value_names = ["PROGRAM", "ARGS"], required = true, num_args = 1.., trailing_var_arg = true)]
    command: Vec<OsString>,
}

impl RunArgs {
    /// The program.
    pub fn program(&self) -> &OsStr {
        self.command.first().map_or(OsStr::new(""), OsString::as_os_str)
    }

    /// Its arguments.
    pub fn args(&self) -> &[OsString] {
        self.command.get(1..).unwrap_or_default()
    }
}

/// Which virtual machine a program runs on.
#[derive(Debug, Args)]
pub struct MachineArgs {
    /// Number of hosts: this one, and further daemons on it that act as hosts
    #[arg(long, value_name = "N", conflicts_with_all = ["hostfile", "here"],
          value_parser = clap::value_parser!(u16).range(1..=4095))]
    pub hosts: Option<u16>,
    /// Use the hosts in this file
    #[arg(long, value_name = "FILE", conflicts_with = "here")]
    pub hostfile: Option<PathBuf>,
    /// Use the hosts of this batch system's allocation: slurm, lsf, sge or pbs; auto (any of them) is the default of
    /// "pvm run" and "pvm bench" in a job, none turns it off
    #[arg(long, value_name = "SYSTEM", conflicts_with_all = ["hosts", "here"])]
    pub hosts_from: Option<HostsFrom>,
    /// Continue without hosts that fail to start
    #[arg(long)]
    pub allow_missing: bool,
    /// Use the virtual machine that runs here
    #[arg(long)]
    pub here: bool,
    /// The virtual machine here is private: this process ends it
    #[arg(long, hide = true, requires = "here")]
    pub private: bool,
}

const DEMO_EXAMPLES: &str = "\
The four hosts are daemons on this machine, with speeds of 500, 1000, 1500 and 2000. They pull tasks
according to speed and load. The table at the end shows each host's expected and actual share.

Examples:
  pvm demo                                   write mandelbrot.png to the current folder
  pvm demo --hostfile cluster                on the hosts in the file \"cluster\"
  pvm demo --here                            on the virtual machine that runs here";

/// The arguments of `pvm demo`.
#[derive(Debug, Args)]
#[command(after_help = DEMO_EXAMPLES)]
pub struct DemoArgs {
    /// Which virtual machine
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Be one of the tasks
    #[arg(long, hide = true)]
    pub worker: bool,
}

const TOP_EXAMPLES: &str = "\
Keys: q ends it, Tab goes to the next table, left and right sort, / filters, c shows how teams take
turns, ? explains all keys and columns. Into a pipe it writes the tables as text, again and again.

Examples:
  pvm top                                    refresh the screen each second
  pvm top --coscheduling                     begin with the screen on teams that take turns
  pvm top --once                             print the tables, of one second
  pvm top --interval 10 >> load.log          write them down every ten seconds";

/// The arguments of `pvm top`.
#[derive(Debug, Args)]
#[command(after_help = TOP_EXAMPLES)]
pub struct TopArgs {
    /// Print the tables and exit
    #[arg(long)]
    pub once: bool,
    /// Show how teams of tasks take turns
    #[arg(long)]
    pub coscheduling: bool,
    /// Seconds over which shares and rates are averaged
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    pub interval: f64,
}

const WEB_EXAMPLES: &str = "\
Prints the address to open. It has a token, without which nothing is answered. Ctrl-C ends it.

On an address other than a loopback one, connections are encrypted. The authority of the virtual machine
signs a certificate for this start. A browser that does not know the authority shows a warning: compare
the fingerprint of the certificate with the one that is printed.

Examples:
  pvm web                                    a page for browsers on this computer
  pvm web --listen 127.0.0.1:8000            at a fixed port, for ssh -L 8000:127.0.0.1:8000
  pvm web --listen 0.0.0.0:8443              for browsers on other computers, too
  pvm web --listen 0.0.0.0:8443 --authority pvm.pem    and for curl --cacert pvm.pem";

/// The arguments of `pvm web`.
#[derive(Debug, Args)]
#[command(after_help = WEB_EXAMPLES)]
pub struct WebArgs {
    /// Address and port to listen on; port 0 is any free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// Another name or address of this host for the certificate, besides the host name, localhost and the address of --listen; may be repeated
    #[arg(long = "name", value_name = "NAME")]
    pub names: Vec<String>,
    /// Write the certificate of the virtual machine's authority to this file (PEM), for browsers and curl --cacert
    #[arg(long, value_name = "FILE")]
    pub authority: Option<PathBuf>,
    /// Seconds between two looks at the virtual machine
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    pub interval: f64,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  pvm completions bash > ~/.local/share/bash-completion/completions/pvm
  pvm completions zsh > ~/.zfunc/_pvm                    a folder of fpath
  pvm completions fish > ~/.config/fish/completions/pvm.fish";

/// The arguments of `pvm completions`.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub struct CompletionsArgs {
    /// Which shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// The completions of the whole command line, as a shell reads them.
pub fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "pvm", &mut script);
    script
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.05..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "expected seconds, from 0.05 to 3600".to_owned())
}

/// The whole command line's description.
pub fn command() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn pvms_own_arguments_are_the_consoles() {
        for first in ["-nnode1", "-d0xff", "hostfile", "./run", "-n", ""] {
            assert!(!is_subcommand(first), "{first}");
        }
        for subcommand in command().get_subcommands() {
            assert!(is_subcommand(subcommand.get_name()));
        }
    }

    #[test]
    fn a_programs_arguments_are_its_own() {
        let cli = Cli::try_parse_from(["pvm", "run", "--hosts", "3", "prog", "--hosts", "-x"]).unwrap();
        let Command::Run(run) = cli.command else { panic!("not run") };
        assert_eq!(run.machine.hosts, Some(3));
        assert_eq!((run.program(), run.args()), (OsStr::new("prog"), &["--hosts".into(), "-x".into()][..]));
        assert!(Cli::try_parse_from(["pvm", "run", "--bogus", "prog"]).is_err());
        assert!(Cli::try_parse_from(["pvm", "run", "--hosts", "0", "prog"]).is_err());
        assert!(Cli::try_parse_from(["pvm", "run", "--hosts", "2", "--here", "prog"]).is_err());
        assert!(Cli::try_parse_from(["pvm", "run"]).is_err());
    }
}
