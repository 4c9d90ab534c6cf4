//! PVM's console: reads commands, shows and changes the virtual machine.

mod commands;
mod completion;
mod environment;
mod input;
mod jobs;
mod mailbox;
mod options;
mod spawn;
mod trace;

use crate::adding;
use crate::cli::ConsoleArgs;
use crate::daemon::Daemon;
use crate::inside;
use crate::losses;
use crate::shell::aliases::Aliases;
use crate::shell::{help, tables, words};
use anyhow::{Context, Result, bail};
use completion::Shared;
use environment::Environment;
use input::{Input, Line};
use jobs::Jobs;
use pvm3::{OutputEvent, Scope, Task, Tid};
use std::collections::{HashSet, VecDeque};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use trace::Traces;

/// Exit status for a mistake in the command line.
const MISTAKE: u8 = 2;
/// Tag of the daemon's messages about new hosts.
const NEW_HOSTS: i32 = 0;
/// How long a daemon may take to end that was started for nothing.
const ENDING: Duration = Duration::from_secs(5);
/// How long the console waits for a line before it looks at what the tasks write.
const TICK: Duration = Duration::from_millis(20);

/// The next action after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Read another.
    Prompt,
    /// Leave; the machine goes on.
    Quit,
    /// Leave; the machine has ended.
    Halted,
}

/// The result of a command: text to print, and the next action.
type Outcome = Result<(String, Next)>;

/// A running console.
struct Console {
    task: Task,
    aliases: Aliases,
    environment: Environment,
    jobs: Jobs,
    traces: Traces,
    /// Hosts added here, of which the daemon has not sent a notice yet.
    known: HashSet<i32>,
    words: Shared,
    /// PvmNoReset: `reset` does not end this console.
    is_spared: bool,
    output: Receiver<(Tid, OutputEvent)>,
    /// Somebody wants this process to end: the daemon, when the machine is halted.
    terminated: Arc<AtomicBool>,
    /// The interrupt key was pressed, which only ends the watching of a batch.
    interrupted: Arc<AtomicBool>,
}

/// The console, as a program with these arguments (PVM's: `-d`, `-n`, a hostfile).
pub fn run(args: &[OsString]) -> ExitCode {
    if let Err(mistake) = ConsoleArgs::check(args) {
        eprint!("{mistake}");
        return ExitCode::from(MISTAKE);
    }
    let mut console = match Console::start(args) {
        Ok(console) => console,
        Err(error) => {
            eprintln!("pvm: {}", crate::plain(&error));
            return ExitCode::FAILURE;
        }
    };
    let terminal = Terminal::saved();
    let result = console.converse();
    terminal.restore();
    result.unwrap_or_else(|error| {
        // Below the prompt.
        eprintln!("\npvm: {}", crate::plain(&error));
        ExitCode::FAILURE
    })
}

impl Console {
    fn start(args: &[OsString]) -> Result<Self> {
        let terminated = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&terminated))?;
        // As in PVM the interrupt key does not end the console.
        let interrupted = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&interrupted))?;
        let mut task = enrol(args)?;
        let (sender, output) = channel();
        task.collect_output(Some(Box::new(move |tid, event| {
            // The receiver lives as long as the console.
            let _ = sender.send((tid, event));
        })));
        let options = task.options_mut();
        options.child_output = pvm_wire::spawn::Sink::default();
        options.resv_tids = true;
        options.route = 1;
        options.child_trace_options = 1;
        options.child_trace_mask = trace::default_mask();
        task.notify_host_add(NEW_HOSTS)?;
        mailbox::spare_from_reset(&mut task)?;
        if task.daemon_is_ours() {
            task.report_incidents(false)?;
        }
        Ok(Self {
            task,
            aliases: Aliases::default(),
            environment: Environment::inherited(),
            jobs: Jobs::default(),
            traces: Traces::default(),
            known: HashSet::new(),
            words: Shared::default(),
            is_spared: true,
            output,
            terminated,
            interrupted,
        })
    }

    /// Carries out the commands of `.pvmrc`, then those of standard input.
    fn converse(&mut self) -> Result<ExitCode> {
        let mut input = Input::open(self.words.clone());
        let mut start = start_commands();
        loop {
            let line = match start.pop_front() {
                Some(line) => Some(line),
                None => self.next_line(&mut input)?,
            };
            let (text, next) = match line {
                Some(line) => self.execute(&line),
                None => ("quit\n".to_owned(), Next::Quit),
            };
            input.print(&text);
            match next {
                Next::Prompt => {}
                Next::Halted => return Ok(ExitCode::SUCCESS),
                Next::Quit => {
                    input.print("\nConsole: exit handler called\npvmd still running.\n");
                    return Ok(ExitCode::SUCCESS);
                }
            }
        }
    }

    /// The next line of standard input, if there is one.
    fn next_line(&mut self, input: &mut Input) -> Result<Option<String>> {
        self.news(input)?;
        if input.is_edited() {
            self.learn_words();
        }
        input.prompt();
        loop {
            match input.next(TICK) {
                Line::Text(line) => {
                    if !line.trim().is_empty() {
                        self.words.with(|words| words.history.push(line.clone()));
                    }
                    return Ok(Some(line));
                }
                Line::End => return Ok(None),
                Line::Nothing => self.news(input)?,
            }
        }
    }

    /// Words that can be completed now: those that this host's daemon knows without asking others.
    fn learn_words(&mut self) {
        let hosts = self.task.hosts().unwrap_or_default();
        let tasks = self.task.tasks(Scope::Host(self.task.tid().to_host())).unwrap_or_default();
        let own = self.task.tid();
        let aliases = self.aliases.names().map(str::to_owned).collect();
        self.words.with(|words| {
            words.aliases = aliases;
            words.hosts = hosts.into_iter().map(|host| host.name).collect();
            let others = tasks.iter().map(|task| task.tid).filter(|&tid| tid != own);
            words.tasks = others.map(|tid| tid.to_string()).collect();
        });
    }

    /// Prints what tasks write, and hosts that others have added.
    fn news(&mut self, input: &mut Input) -> Result<()> {
        if self.terminated.load(Ordering::SeqCst) {
            bail!("terminated by SIGTERM: the virtual machine was halted, or this console was killed");
        }
        self.task.poll()?;
        let text = self.output_text();
        input.print(&text);
        let text = self.trace_text()?;
        input.print(&text);
        for text in self.task.incidents()?.iter().filter_map(losses::describe) {
            input.print(&format!("{text}\n"));
        }
        while let Some(mut message) = self.task.try_recv(Tid::MY_DAEMON, NEW_HOSTS)? {
            let count: i32 = message.get_one()?;
            let mut tids: Vec<i32> = message.get(usize::try_from(count).unwrap_or(0))?;
            // Those that were added here are no news.
            tids.retain(|tid| !self.known.remove(tid));
            let mut hosts = crate::commands::host_rows(&mut self.task)?;
            hosts.retain(|host| tids.contains(&host.tid));
            if !hosts.is_empty() {
                input.print(&tables::newcomers(&hosts));
            }
        }
        Ok(())
    }

    fn output_text(&mut self) -> String {
        let mut text = String::new();
        while let Ok((tid, event)) = self.output.try_recv() {
            text.push_str(&self.jobs.on_event(tid, &event));
        }
        text
    }

    fn trace_text(&mut self) -> Result<String> {
        let (mut text, traces) = (String::new(), &self.traces);
        let mut messages = Vec::new();
        let mut is_trace = |message: &pvm3::Message| {
            let header = message.header;
            header.context == 0 && traces.has(header.tag)
        };
        while let Some(message) = self.task.poll_message(&mut is_trace)? {
            messages.push(message);
        }
        for message in messages {
            text.push_str(&self.traces.on_message(&message));
        }
        Ok(text)
    }

    /// Carries out a command line: its output, and the next action.
    fn execute(&mut self, line: &str) -> (String, Next) {
        self.attempt(line).unwrap_or_else(|error| (format!("{}\n", crate::plain(&error)), Next::Prompt))
    }

    fn attempt(&mut self, line: &str) -> Outcome {
        let words = self.aliases.expand(words::split(line)?)?;
        let Some((name, args)) = words.split_first() else { return Ok((String::new(), Next::Prompt)) };
        let Some(topic) = help::find(name) else { bail!("{name}: not found") };
        if !(topic.counts.0..=topic.counts.1).contains(&args.len()) {
            bail!("{name}: wrong #args\n{}", topic.syntax());
        }
        self.command(name, args)
    }
}

/// Enrols in the machine that runs here; if none does, starts one and waits for its hosts.
fn enrol(args: &[OsString]) -> Result<Task> {
    if let Ok(task) = Task::enrol_as(None, true) {
        println!("pvmd already running.");
        return Ok(task);
    }
    let daemon = Daemon::start(args, &[])?;
    let mut task = match Task::enrol() {
        Ok(task) => task,
        Err(error) => {
            // A start that has failed leaves no daemon behind.
            daemon.terminate();
            daemon.wait(ENDING);
            return Err(error).context("the daemon was started, but the console cannot join it");
        }
    };
    for failure in adding::shown(|| task.start_up())?.into_iter().filter_map(Result::err) {
        println!("{}", inside::describe(&failure));
    }
    Ok(task)
}

/// The commands in `.pvmrc`.
fn start_commands() -> VecDeque<String> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let text = std::fs::read_to_string(home.join(".pvmrc")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The terminal's settings when the console started: line editing changes them while it waits.
struct Terminal(Option<rustix::termios::Termios>);

impl Terminal {
    fn saved() -> Self {
        Self(rustix::termios::tcgetattr(std::io::stdin()).ok())
    }

    fn restore(&self) {
        if let Some(settings) = &self.0 {
            // Without a terminal there is nothing to restore.
            let _ =
                rustix::termios::tcsetattr(std::io::stdin(), rustix::termios::OptionalActions::Now, settings);
        }
    }
}
