//! The `pvm` command. Under the names `pvmd` and `pvmgs` it is those programs.
#![forbid(unsafe_code)]

use anyhow::Context;
use clap::Parser;
use pvm_console::cli::{self, Cli, Command, is_subcommand};
use pvm_console::{autoscale, bench, commands, demo, jobs, peer, run, top, trace, web};
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let own_name = args.first().map(Path::new).and_then(Path::file_name).and_then(OsStr::to_str);
    let args = args.get(1..).unwrap_or_default();
    match own_name {
        Some("pvmd") => return pvmd::cli::run(args.to_vec()),
        Some("pvmgs") => return group_server(),
        _ => {}
    }
    match args.first().and_then(|first| first.to_str()) {
        // Not by way of clap: `pvm daemon --help` is the daemon's, and so with the others.
        Some("daemon") => pvmd::cli::run(args[1..].to_vec()),
        Some("sim") => pvm_sim::run(args[1..].to_vec()),
        Some("task-manager") => pvm_task_manager::run(args[1..].to_vec()),
        // The start of a worker is a part of what is measured.
        Some("bench") if args.get(1).is_some_and(|word| word == "--worker") => bench::worker::run(&args[2..]),
        Some(first) if is_subcommand(first) => subcommand(),
        _ => pvm_console::console::run(args),
    }
}

/// PVM's group server, which `configure` scripts look for. There is nothing to serve: a program that is spawned ends quietly, since
/// its output would be among that of the tasks.
fn group_server() -> ExitCode {
    if std::env::var_os("PVMEPID").is_none() {
        println!("pvmgs: the daemon (pvmd) keeps all groups; there is no group server to start");
    }
    ExitCode::SUCCESS
}

fn subcommand() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Web(args) => web::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Completions(args) => completions(args.shell),
        Command::Machine(command) => commands::run(&command),
        Command::Jobs(command) => jobs::run(&command),
        Command::Peer(args) => peer::run(&args),
        Command::Autoscale(args) => autoscale::run(&args),
        Command::Daemon { args } => return pvmd::cli::run(args),
        Command::Sim { args } => return pvm_sim::run(args),
        Command::TaskManager { args } => return pvm_task_manager::run(args),
    };
    result.map_or_else(
        |error| {
            eprintln!("pvm: {}", pvm_console::plain(&error));
            ExitCode::FAILURE
        },
        ExitCode::from,
    )
}

fn completions(shell: clap_complete::Shell) -> anyhow::Result<u8> {
    std::io::stdout().write_all(&cli::completions(shell)).context("cannot write to standard output")?;
    Ok(0)
}
