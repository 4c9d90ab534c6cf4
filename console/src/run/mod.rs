//! `pvm run`: a program, on a virtual machine of its own.

mod copies;
pub(crate) mod find;
mod watch;

use crate::cli::{OnFailure, RunArgs};
use crate::inside;
use crate::lines::Lines;
use crate::losses::signal_text;
use crate::machine::{self, Hosts, run_inside};
use crate::progress::Progress;
use crate::supervise::{self, Interrupts};
use crate::timeline::{self, Collector};
use anyhow::{Context, Result};
use find::{NotFound, find, not_started};
use indicatif::MultiProgress;
use pvm3::{OutputEvent, Scope, Task, Tid};
use pvmd::io::settings::hosts_from;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};
use watch::Watch;

/// How long the output of tasks that outlive the program is awaited.
const OUTPUT_GRACE: Duration = Duration::from_secs(1);
/// The status of a run that was stopped because a host or a task was lost.
pub const LOST: u8 = 125;
/// Signals with which users end programs.
const BY_PEOPLE: [i32; 3] =
    [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP];

/// Runs the program; the exit code is the program's.
pub fn run(args: &RunArgs) -> Result<u8> {
    let trace = args.trace.file.as_deref().map(timeline::check).transpose()?;
    let program = match find(args.program()) {
        Ok(program) => program,
        Err(not_found) => return Ok(refuse(&not_found)),
    };
    if args.machine.here {
        return here(args, &program, trace.as_deref());
    }
    let hosts = Hosts::chosen(&args.machine, hosts_from()?, Hosts::Local(1, Vec::new()));
    let inside = inside_arguments(args, &program, trace.as_deref());
    run_inside(&hosts, program.parent(), &inside)
}

/// The arguments of the process that runs the program inside the new machine.
fn inside_arguments(args: &RunArgs, program: &Path, trace: Option<&Path>) -> Vec<OsString> {
    let mut inside: Vec<OsString> = vec!["run".into(), "--here".into(), "--private".into()];
    if args.machine.allow_missing {
        inside.push("--allow-missing".into());
    }
    if args.on_failure == OnFailure::Stop {
        inside.push("--on-failure=stop".into());
    }
    if let Some(copies) = args.copies {
        inside.push(format!("-n{copies}").into());
    }
    if let Some(file) = trace {
        inside.extend(["--trace".into(), file.into()]);
        inside.extend(["--trace-calls".into(), args.trace.calls.to_string().into()]);
        for program in &args.trace.programs {
            inside.push(format!("--trace-program={program}").into());
        }
    }
    inside.push("--".into());
    inside.push(program.into());
    inside.extend(args.args().iter().cloned());
    inside
}

/// A run in the machine here, while it lasts.
struct Run<'a> {
    args: &'a RunArgs,
    task: Task,
    interrupts: Interrupts,
    trace: Option<Collector>,
    progress: Progress,
    watch: Watch,
    /// The daemon does not answer any more.
    cut_off: bool,
}

/// Runs the program as a task of the machine here, and prints what the tasks it spawns write.
fn here(args: &RunArgs, program: &Path, trace: Option<&Path>) -> Result<u8> {
    let mut run = Run::begin(args, trace)?;
    let result = match args.copies {
        Some(copies) => copies::run(&mut run, program, copies),
        None => run.program(program),
    };
    let finished = run.finish(result.is_ok());
    let code = result?;
    finished.map(|()| code)
}

impl<'a> Run<'a> {
    fn begin(args: &'a RunArgs, trace: Option<&Path>) -> Result<Self> {
        let mut task = inside::enrol("pvm run", &args.machine)?;
        let interrupts = Interrupts::watch().context("cannot handle signals")?;
        let trace = trace.map(|file| Collector::new(file, &args.trace, &mut task)).transpose()?;
        let progress = Progress::new(None);
        let watch = Watch::begin(&mut task, args, progress.bars())?;
        let mut print = printer(progress.bars());
        let lifetimes = trace.as_ref().map(Collector::lifetimes);
        let members = watch.members();
        task.collect_output(Some(Box::new(move |tid, event: OutputEvent| {
            if let Some(lifetimes) = &lifetimes {
                lifetimes.note(tid, &event);
            }
            members.note(tid);
            print(tid, event);
        })));
        Ok(Self { args, task, interrupts, trace, progress, watch, cut_off: false })
    }

    /// Runs the program as a child of this process.
    fn program(&mut self, program: &Path) -> Result<u8> {
        let mut command = Command::new(program);
        command.args(self.args.args());
        if self.trace.is_some() {
            Collector::set_environment(&mut command, &self.task);
        }
        let mut own = None;
        if self.task.daemon_is_ours() {
            let adopted = self.task.adopt_collected()?;
            command.env("PVMEPID", adopted.cookie.to_string());
            own = Some(adopted.tid);
        }
        if let (Some(trace), Some(own)) = (&mut self.trace, own) {
            trace.begin(own, program);
        }
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return Ok(refuse(&not_started(self.args.program(), &error))),
        };
        let interrupts = self.interrupts.clone();
        let status = supervise::wait(&mut child, &interrupts, || self.tick())?;
        if let (Some(trace), Some(own)) = (&mut self.trace, own) {
            trace.end(own);
        }
        if self.stops() {
            return Ok(LOST);
        }
        self.report_signal(status);
        Ok(supervise::exit_code(status))
    }

    /// Reports the signal that ended the program, unless it is one that users send.
    fn report_signal(&self, status: ExitStatus) {
        if let Some(signal) = status.signal().filter(|signal| !BY_PEOPLE.contains(signal)) {
            let program = self.args.program().display();
            self.watch.print(&format!("pvm: {program} was killed by {}", signal_text(signal)));
        }
    }

    /// Handles messages that have arrived. Whether the run is to stop.
    fn tick(&mut self) -> bool {
        if !self.cut_off
            && let Err(error) = self.poll().and_then(|()| self.show())
        {
            self.cut_off = true;
            self.watch.print(&format!("pvm: {error}"));
        }
        let stops = self.stops();
        if stops {
            self.watch.print_stop();
        }
        stops
    }

    fn stops(&self) -> bool {
        self.args.on_failure == OnFailure::Stop && (self.cut_off || self.watch.has_failed())
    }

    /// Shows how far queued batches are.
    fn show(&mut self) -> pvm3::Result<()> {
        if self.task.daemon_is_ours() { self.progress.look(&mut self.task).map(drop) } else { Ok(()) }
    }

    fn poll(&mut self) -> pvm3::Result<()> {
        self.task.poll()?;
        self.watch.look(&mut self.task)?;
        match &mut self.trace {
            Some(trace) => trace.collect(&mut self.task),
            None => Ok(()),
        }
    }

    /// The program has ended or was not started: takes the last output, finishes the bars, and writes the trace and the logs.
    fn finish(mut self, ran: bool) -> Result<()> {
        if !self.cut_off {
            self.drain_output();
            if self.task.daemon_is_ours() {
                // The program has ended: whether the last look succeeds changes nothing.
                let _ = self.progress.finish(&mut self.task);
            }
        }
        if self.args.machine.private {
            let clean = ran && !self.cut_off && !self.watch.has_losses();
            machine::settle_logs(&mut self.task, clean);
        }
        self.trace.map_or(Ok(()), Collector::write)
    }

    fn drain_output(&mut self) {
        let deadline = Instant::now() + OUTPUT_GRACE;
        while self.poll().is_ok() && self.task.collecting() > 0 && Instant::now() < deadline {
            std::thread::sleep(supervise::TICK);
        }
        if let Some(trace) = &mut self.trace {
            // The daemon's answer is behind all that the program has sent before its end. A failure loses only the trace's end.
            let own = self.task.tid();
            let _ = self.task.tasks(Scope::Task(own)).and_then(|_| trace.collect(&mut self.task));
            trace.last_turns(&mut self.task);
        }
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
                // A closed standard output does not end the program.
                let _ = writeln!(stdout, "[{tid}] {line}");
            }
        });
    }
}

/// Prints why the program was not found, and returns the exit code that a shell would return.
fn refuse(NotFound { reason, code }: &NotFound) -> u8 {
    eprintln!("pvm: {reason}");
    *code
}
