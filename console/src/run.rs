//! `pvm run`: a program, on a virtual machine of its own.

use crate::cli::RunArgs;
use crate::inside;
use crate::lines::Lines;
use crate::machine::{Hosts, run_inside};
use crate::progress::Progress;
use crate::supervise::{self, Interrupts};
use crate::timeline::{self, Collector};
use anyhow::{Context, Result};
use indicatif::MultiProgress;
use pvm3::{OutputEvent, Scope, Task, Tid};
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long tasks that outlive the program may go on, to say their last words.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Runs the program; the exit code is the program's.
pub fn run(args: &RunArgs) -> Result<u8> {
    let trace = args.trace.as_deref().map(timeline::check).transpose()?;
    let program = match find(args.program()) {
        Ok(program) => program,
        Err(error) => return Ok(not_started(args.program(), &error)),
    };
    if args.machine.here {
        return here(args, &program, trace.as_deref());
    }
    let hosts = Hosts::chosen(&args.machine, Hosts::Local(1, Vec::new()));
    let mut inside: Vec<OsString> = vec!["run".into(), "--here".into(), "--private".into()];
    if args.machine.allow_missing {
        inside.push("--allow-missing".into());
    }
    if let Some(file) = trace {
        inside.extend(["--trace".into(), file.into()]);
    }
    inside.push("--".into());
    inside.push(program.clone().into());
    inside.extend(args.args().iter().cloned());
    run_inside(&hosts, program.parent(), &inside)
}

/// Runs the program as a task of the machine here, and prints what the tasks it spawns write.
fn here(args: &RunArgs, program: &Path, trace: Option<&Path>) -> Result<u8> {
    let mut task = inside::enrol("pvm run", &args.machine)?;
    let interrupts = Interrupts::watch().context("cannot handle signals")?;
    let mut trace = trace.map(|file| Collector::new(file, &mut task)).transpose()?;
    let mut progress = Progress::new(None);
    let mut print = printer(progress.bars());
    let lives = trace.as_ref().map(Collector::lives);
    task.collect_output(Some(Box::new(move |tid, event: OutputEvent| {
        if let Some(lives) = &lives {
            lives.note(tid, &event);
        }
        print(tid, event);
    })));
    let mut command = Command::new(program);
    command.args(args.args());
    if trace.is_some() {
        Collector::put_into(&mut command, &task);
    }
    let mut own = None;
    if task.daemon_is_ours() {
        let adopted = task.adopt_collected()?;
        command.env("PVMEPID", adopted.cookie.to_string());
        own = Some(adopted.tid);
    }
    if let (Some(trace), Some(own)) = (&mut trace, own) {
        trace.begin(own, program);
    }
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Ok(not_started(args.program(), &error)),
    };
    let mut lost = false;
    let status = supervise::wait(&mut child, &interrupts, || {
        if !lost
            && let Err(error) =
                attend(&mut task, trace.as_mut()).and_then(|()| show(&mut progress, &mut task))
        {
            lost = true;
            eprintln!("pvm: {error}");
        }
    })?;
    if let (Some(trace), Some(own)) = (&mut trace, own) {
        trace.end(own);
    }
    if !lost {
        hear_out(&mut task, trace.as_mut());
        if task.daemon_is_ours() {
            // The program has ended: whether the last look succeeds changes nothing.
            let _ = progress.finish(&mut task);
        }
    }
    if let Some(trace) = trace {
        trace.write()?;
    }
    Ok(supervise::exit_code(status))
}

/// Shows how far queued batches are.
fn show(progress: &mut Progress, task: &mut Task) -> pvm3::Result<()> {
    if task.daemon_is_ours() { progress.look(task).map(drop) } else { Ok(()) }
}

/// Takes in what has come.
fn attend(task: &mut Task, trace: Option<&mut Collector>) -> pvm3::Result<()> {
    task.poll()?;
    trace.map_or(Ok(()), |trace| trace.collect(task))
}

fn hear_out(task: &mut Task, mut trace: Option<&mut Collector>) {
    let deadline = Instant::now() + LAST_WORDS;
    while attend(task, trace.as_deref_mut()).is_ok() && task.collecting() > 0 && Instant::now() < deadline {
        std::thread::sleep(supervise::TICK);
    }
    if let Some(trace) = trace {
        // The daemon answers after all that the program has sent before its end. What fails here is lost anyway.
        let _ = task.tasks(Scope::Task(task.tid())).and_then(|_| trace.collect(task));
        trace.last_turns(task);
    }
}

/// Prints lines as `[tTID] line`, above the bars.
fn printer(bars: MultiProgress) -> impl FnMut(Tid, OutputEvent) + Send {
    let mut lines = Lines::default();
    move |tid, event| {
        let complete = match event {
            OutputEvent::Bytes(bytes) => lines.push(tid, &bytes),
            OutputEvent::End => lines.end(tid).into_iter().collect(),
            OutputEvent::Spawned { .. } | OutputEvent::Started { .. } => return,
        };
        bars.suspend(|| {
            let mut stdout = io::stdout().lock();
            for line in &complete {
                // When nobody reads any more, the program still runs to its end.
                let _ = writeln!(stdout, "[{tid}] {line}");
            }
        });
    }
}

/// The program's absolute path: tasks that are started as the program was must find it from any folder.
fn find(program: &OsStr) -> io::Result<PathBuf> {
    if program.as_encoded_bytes().contains(&b'/') {
        return std::path::absolute(program).and_then(|path| path.metadata().map(|_| path));
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut paths = std::env::split_paths(&folders).map(|folder| folder.join(program));
    let found = paths.find(|path| path.is_file()).ok_or_else(|| io::Error::from(ErrorKind::NotFound))?;
    std::path::absolute(found)
}

/// Says why a program could not be started, and returns the exit code a shell would.
fn not_started(program: &OsStr, error: &io::Error) -> u8 {
    eprintln!("pvm: cannot run {}: {error}", program.display());
    if error.kind() == ErrorKind::NotFound { 127 } else { 126 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_a_shell_does() {
        assert!(find(OsStr::new("sh")).unwrap().is_absolute());
        assert_eq!(find(OsStr::new("/bin/sh")).unwrap(), Path::new("/bin/sh"));
        assert!(find(OsStr::new("./src/../Cargo.toml")).unwrap().is_absolute());
        for missing in ["no-such-program", "./no-such-program"] {
            let error = find(OsStr::new(missing)).unwrap_err();
            assert_eq!(not_started(OsStr::new(missing), &error), 127);
        }
        assert_eq!(not_started(OsStr::new("x"), &io::Error::from(ErrorKind::PermissionDenied)), 126);
    }
}
