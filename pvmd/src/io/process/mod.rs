//! Children: started one after another by a thread of their own, watched, reaped, their output read.
//!
//! Unsafe code of the daemon is in `launch`, `own` and `sys`.

mod blame;
mod launch;
mod own;
mod proc;
mod scheduling;
mod sys;

use self::launch::{Launched, Launcher, Own, Recipe};
pub use self::own::{Limits, close_inherited, hide_memory, mark_by_limit};
pub use self::proc::{
    CpuUse, begun, cpu_use, is_being_started, is_stopped, limit_of_locks, mean_memory, own_memory,
    parent_and_begin, sleeps, times,
};
pub use self::scheduling::{Prompt, class_of, may_change_class, set_idle_class};
pub use self::sys::{cpu_time, ignore_endings, watch as watch_descriptor};
use crate::io::driver::Input;
use crate::io::family::{self, Families, Mark, Member};
use crate::io::guardian::Guardian;
use crate::io::memory_group::MemoryGroups;
use crate::io::memory_watch::{MemoryLimits, MemoryWatch};
use crate::io::settings::{expand, is_executable};
use bytes::Bytes;
use pvm_wire::PvmError;
use pvm_wire::codes::CHANNEL_VARIABLE;
use pvm_wire::limits::OUTPUT_PIECE;
use pvm_wire::spawn::{entry, split_entry};
use pvmd_core::event::{Cookie, Event, Output, Program};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use std::collections::{BTreeMap, HashMap};
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Arc, mpsc as sync};
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};
use tracing::warn;

/// What every child of this daemon shares.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Folders in which programs are looked for.
    pub search: Vec<PathBuf>,
    /// Working directory.
    pub directory: Option<PathBuf>,
    /// Debugger script.
    pub debugger: Option<String>,
    /// The task manager's command.
    pub manager: Vec<OsString>,
    /// Entries over the daemon's own environment: `PVMSOCK`, `PVM_ARCH`.
    pub env: Vec<(String, String)>,
    /// Limits as the daemon found them, before it changed its own.
    pub limits: Limits,
    /// By which the processes that tasks start are known.
    pub mark: Mark,
    /// How limits of memory hold.
    pub memory_limits: MemoryLimits,
    /// The command of what ends them when this daemon cannot; none if it is empty.
    pub guardian: Vec<OsString>,
}

/// Children of one kind.
struct Orders {
    /// Which, and the greeting of each.
    greetings: Vec<(Cookie, Vec<u8>)>,
    program: Program,
    /// Where each has a control group of its own; or why none starts.
    groups: Result<Option<Arc<MemoryGroups>>, String>,
}

/// The driver's hold on all children.
#[derive(Debug)]
pub struct Processes {
    surroundings: Surroundings,
    orders: sync::Sender<Orders>,
    children: HashMap<Cookie, Child>,
    families: Families,
    /// There is none before a task has a limit.
    memory: Option<MemoryWatch>,
    input: mpsc::Sender<Input>,
    /// A process was started.
    has_started: bool,
}

#[derive(Debug)]
struct Child {
    pid: i32,
    paused: watch::Sender<bool>,
    /// Its end was seen; its output may go on.
    exited: bool,
    /// Its output has ended; it may go on itself.
    silent: bool,
}

/// A child that was just started, on its way from the thread to the driver.
#[derive(Debug)]
pub struct Started {
    /// Which.
    pub cookie: Cookie,
    result: Result<Running, (PvmError, String)>,
}

#[derive(Debug)]
struct Running {
    path: String,
    launched: Launched,
}

impl Processes {
    /// Makes the thread that starts children. It lives as long as the process: children are told of its end
    /// (`PR_SET_PDEATHSIG` is about the thread that forked).
    pub fn new(surroundings: Surroundings, input: mpsc::Sender<Input>) -> io::Result<Self> {
        let (orders, received) = sync::channel::<Orders>();
        let own = surroundings.clone();
        let mut launcher = Launcher::new()?;
        let to_driver = input.clone();
        let families = Families::new(surroundings.mark.clone())?;
        let work = move || {
            let mut guardian = None;
            for orders in received {
                // Most daemons of a large machine may never start anything.
                guardian.get_or_insert_with(|| guard(&surroundings));
                if !start_all(&surroundings, &mut launcher, orders, &input) {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("starter".into()).spawn(work)?;
        Ok(Self {
            surroundings: own,
            orders,
            children: HashMap::new(),
            families,
            memory: None,
            input: to_driver,
            has_started: false,
        })
    }

    /// Starts a program once per cookie, whose greeting lies in the channel then; [`Input::Started`] comes for each.
    pub fn start(&mut self, greetings: Vec<(Cookie, Vec<u8>)>, program: Program) {
        let groups = match program.memory {
            Some(bytes) => self.limit_memory(greetings.iter().map(|(cookie, _)| *cookie), bytes),
            None => Ok(None),
        };
        if self.orders.send(Orders { greetings, program, groups }).is_err() {
            warn!("the thread that starts processes is gone");
        }
    }

    fn limit_memory(
        &mut self,
        tasks: impl Iterator<Item = Cookie>,
        bytes: u64,
    ) -> Result<Option<Arc<MemoryGroups>>, String> {
        let Surroundings { memory_limits, mark, .. } = &self.surroundings;
        let memory = match self.memory.take() {
            Some(memory) => memory,
            None => MemoryWatch::new(*memory_limits, mark.clone(), self.input.clone())?,
        };
        tasks.for_each(|task| memory.limit(task, bytes));
        Ok(self.memory.insert(memory).groups().cloned())
    }

    /// Finds a program that somebody else is to start; its path and environment, the cookie not included.
    pub fn locate(&self, program: &Program) -> Result<(OsString, Vec<OsString>), (PvmError, String)> {
        let path = find(&self.surroundings, &program.file)?;
        let env = self.surroundings.env.iter().map(|(name, value)| entry(name, value));
        Ok((path.into_os_string(), env.collect()))
    }

    /// Takes a started child in, begins to watch it, and says what the core is to hear; and its channel.
    pub fn take(&mut self, started: Started, input: &mpsc::Sender<Input>) -> (Event, Option<UnixStream>) {
        let (cookie, mut inherited) = (started.cookie, None);
        let groups = self.memory.as_ref().and_then(|memory| memory.groups().cloned());
        let result = started.result.and_then(|running| {
            let Running { path, launched: Launched { pid, watch, output, channel } } = running;
            inherited = Some(channel);
            let failed = |error: io::Error| {
                (PvmError::OutOfRes, format!("cannot watch process {pid}: {}", pvm_wire::plain(&error)))
            };
            let watch = sys::watch(watch).map_err(failed)?;
            let output = pipe::Receiver::from_owned_fd(output.into()).map_err(failed)?;
            let (paused, told) = watch::channel(false);
            let (reading, reaping) = (
                read_output(output, cookie, told, input.clone()),
                reap(watch, cookie, groups, input.clone()),
            );
            // One task, as both have something to do when the process ends.
            tokio::spawn(async move { tokio::join!(reading, reaping) });
            self.has_started = true;
            self.children.insert(cookie, Child { pid, paused, exited: false, silent: false });
            Ok((pid, path))
        });
        if result.is_err() {
            self.memory.iter().for_each(|memory| memory.gone(cookie));
        }
        (Event::ProcessStarted { cookie, result }, inherited)
    }

    /// Stops reading a child's output, or goes on.
    pub fn pause(&self, cookie: Cookie, paused: bool) {
        if let Some(child) = self.children.get(&cookie) {
            child.paused.send_replace(paused);
        }
    }

    /// A child has ended; its process id.
    pub fn exited(&mut self, cookie: Cookie) -> Option<i32> {
        if let Some(memory) = &self.memory {
            memory.gone(cookie);
        }
        let pid = self.children.get(&cookie)?.pid;
        self.part_of_end(cookie, |child| child.exited = true);
        Some(pid)
    }

    /// A child's output has ended.
    pub fn output_ended(&mut self, cookie: Cookie) {
        self.part_of_end(cookie, |child| child.silent = true);
    }

    /// A child is over when it has ended and its output, too, whichever comes first.
    fn part_of_end(&mut self, cookie: Cookie, part: impl FnOnce(&mut Child)) {
        let Some(child) = self.children.get_mut(&cookie) else { return };
        part(child);
        if child.exited && child.silent {
            self.children.remove(&cookie);
        }
    }

    /// Ends what a task has started that has ended; what has enrolled is spared.
    pub fn end_family(&self, cookie: Cookie, spared: Vec<i32>) {
        self.families.end(cookie, spared);
    }

    /// What tasks have started that is there now, the tasks included.
    pub fn families(&self) -> Vec<Member> {
        if self.has_started { self.families.all() } else { Vec::new() }
    }

    /// Ends these, and all that tasks have started meanwhile, when the tasks have ended.
    pub async fn end_families(&self, known: Vec<Member>) {
        if self.has_started {
            let mark = self.surroundings.mark.clone();
            let _ = tokio::task::spawn_blocking(move || family::end_all(&mark, &known)).await;
        }
    }

    /// How many children run.
    pub fn running(&self) -> usize {
        self.children.values().filter(|child| !child.exited).count()
    }

    /// Sends a signal to every child that runs; says how many there are.
    pub fn signal_all(&self, signal: Signal) -> usize {
        let running = self.children.values().filter(|child| !child.exited);
        running.filter(|child| signal_process(child.pid, signal.as_raw()).is_ok()).count()
    }
}

/// Sends a signal to a process; 0 only asks whether it is there.
pub fn signal_process(pid: i32, signal: i32) -> io::Result<()> {
    // Neither a group nor everybody.
    let Some(pid) = (pid > 0).then(|| Pid::from_raw(pid)).flatten() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    if signal == 0 {
        return Ok(rustix::process::test_kill_process(pid)?);
    }
    let signal = sys::named(signal).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::kill_process(pid, signal)?)
}

/// Starts what ends the families of tasks when this daemon is killed.
fn guard(surroundings: &Surroundings) -> Option<Guardian> {
    if surroundings.guardian.is_empty() {
        return None;
    }
    let started = Guardian::of_families(&surroundings.guardian, &surroundings.mark);
    let warned =
        |error: &io::Error| warn!(%error, "should this daemon be killed, what its tasks start goes on");
    started.inspect_err(warned).ok()
}

/// Starts a program once per cookie; after a failure the rest fail alike. False when nobody listens any more.
fn start_all(
    surroundings: &Surroundings,
    launcher: &mut Launcher,
    orders: Orders,
    input: &mpsc::Sender<Input>,
) -> bool {
    let mut order = Order::new(surroundings, &orders);
    for (cookie, greeting) in orders.greetings {
        let begun = order.as_mut().map_err(|failure| failure.clone());
        let result = begun.and_then(|order| order.start(launcher, cookie, &greeting));
        if let (Ok(_), Err(reason)) = (&order, &result) {
            order = Err(reason.clone());
        }
        if input.blocking_send(Input::Started(Started { cookie, result })).is_err() {
            return false;
        }
    }
    true
}

/// A program that was found, and what all its processes are given.
struct Order {
    /// As people are told.
    path: String,
    /// What is executed: the debugger, if the program runs under it.
    file: PathBuf,
    recipe: Recipe,
    /// By which what it starts is known, unless that is to go on without it.
    mark: Option<Mark>,
    /// Where its output goes, if this daemon does not read it.
    output: Option<File>,
    /// The groups, and the limit in bytes, if each process gets a control group of its own.
    groups: Option<(Arc<MemoryGroups>, u64)>,
}

impl Order {
    fn new(surroundings: &Surroundings, orders: &Orders) -> Result<Self, (PvmError, String)> {
        let program = &orders.program;
        let groups = orders.groups.clone().map_err(|reason| {
            (PvmError::OutOfRes, format!("its memory cannot be limited (PVM_MEMORY_LIMITS=group): {reason}"))
        })?;
        let groups = groups.zip(program.memory);
        let command = command_for(surroundings, program)?;
        let Some(file) = command.line.first() else { return Err((PvmError::NoFile, String::new())) };
        let mut env = environment(surroundings, program);
        let is_apart = env.contains(&entry(family::VARIABLE, family::NONE));
        env.retain(|entry| is_apart || !entry.as_bytes().starts_with(FAMILY));
        let mark = (!is_apart).then(|| surroundings.mark.clone());
        let directory = directory_for(surroundings, program);
        let limits = Limits { memory: program.memory.filter(|_| groups.is_none()), ..surroundings.limits };
        let path = command.path.display().to_string();
        let file = on_path(file);
        let recipe = Recipe::new(&file, command.line, env, directory.as_deref(), limits);
        let recipe =
            recipe.map_err(|error| (PvmError::NoFile, format!("{path}: {}", pvm_wire::plain(error))))?;
        let output = open_output(&program.output, directory.as_deref())?;
        Ok(Self { path, file, recipe, mark, output, groups })
    }

    fn start(
        &self,
        launcher: &mut Launcher,
        cookie: Cookie,
        greeting: &[u8],
    ) -> Result<Running, (PvmError, String)> {
        let mut entries = vec![CString::new(format!("PVMEPID={}", cookie.0)).unwrap_or_default()];
        entries.extend(self.mark.iter().map(|mark| mark.entry(cookie)));
        let mark = self.mark.as_ref().map(|mark| mark.limit(cookie));
        let group = self.groups.as_ref().map(|(groups, bytes)| groups.make(cookie, *bytes)).transpose();
        let group = group.map_err(|error| {
            (PvmError::OutOfRes, format!("{}: no control group: {}", self.path, pvm_wire::plain(&error)))
        })?;
        let (output, group) = (self.output.as_ref().map(AsFd::as_fd), group.as_ref().map(AsFd::as_fd));
        let launched = launcher
            .launch(&self.recipe, &Own { entries: &entries, greeting, mark, output, group })
            .map_err(|error| {
                (what_failed(&error), format!("{}: {}", self.path, blame::not_run(&self.file, &error)))
            })?;
        Ok(Running { path: self.path.clone(), launched })
    }
}

/// The file for a program's output, which is found from where it begins.
fn open_output(output: &Output, directory: Option<&Path>) -> Result<Option<File>, (PvmError, String)> {
    let path = match output {
        Output::Read => return Ok(None),
        Output::Discard => PathBuf::from("/dev/null"),
        Output::Append(path) => directory.unwrap_or(Path::new(".")).join(path),
    };
    let failed = |error: io::Error| {
        (
            PvmError::NoFile,
            format!("its output cannot be written to {}: {}", path.display(), pvm_wire::plain(&error)),
        )
    };
    if let (Output::Append(_), Some(folder)) = (output, path.parent()) {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    File::options().append(true).create(true).open(&path).map(Some).map_err(failed)
}

/// Whether the machine has no room for a process, its arguments and variables are more than the system takes, or the program is
/// at fault.
fn what_failed(error: &io::Error) -> PvmError {
    if error.raw_os_error() == Some(Errno::TOOBIG.raw_os_error()) {
        return PvmError::Overflow;
    }
    let short = [Errno::NOMEM, Errno::AGAIN, Errno::MFILE, Errno::NFILE];
    let is_short = error.raw_os_error().is_some_and(|code| short.contains(&Errno::from_raw_os_error(code)));
    if is_short { PvmError::OutOfRes } else { PvmError::NoFile }
}

/// The daemon's own environment, over that what the spawner gives, over that what tasks need to know.
fn environment(surroundings: &Surroundings, program: &Program) -> Vec<OsString> {
    let mut all: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    let given = program.env.iter().filter_map(|entry| split_entry(entry));
    all.extend(given.map(|(name, value)| (name.into(), value.into())));
    all.extend(surroundings.env.iter().map(|(name, value)| (name.into(), value.into())));
    // Every process has its own.
    for name in ["PVMEPID", CHANNEL_VARIABLE] {
        all.remove(OsStr::new(name));
    }
    all.into_iter().map(|(name, value)| entry(name, value)).collect()
}

/// How the entry of a family begins.
const FAMILY: &[u8] = b"PVM_FAMILY=";

/// What is run, and on behalf of which file.
struct CommandLine {
    path: PathBuf,
    line: Vec<OsString>,
}

fn command_for(surroundings: &Surroundings, program: &Program) -> Result<CommandLine, (PvmError, String)> {
    let args = program.args.iter().map(OsString::from);
    if program.manager {
        let Some(file) = surroundings.manager.first() else {
            return Err((PvmError::NoFile, "there is no task manager".to_owned()));
        };
        let line = surroundings.manager.iter().cloned().chain(args).collect();
        return Ok(CommandLine { path: file.into(), line });
    }
    let path = find(surroundings, &program.file)?;
    let file = path.clone().into_os_string();
    if !program.debug {
        return Ok(CommandLine { path, line: [file].into_iter().chain(args).collect() });
    }
    let mut own = program.env.iter().filter_map(|entry| split_entry(entry));
    let own = own.find_map(|(name, value)| (name == "PVM_DEBUGGER").then_some(value));
    let Some(debugger) = own.or(surroundings.debugger.as_ref().map(OsStr::new)) else {
        return Err((
            PvmError::NoFile,
            "no debugger: neither PVM_DEBUGGER nor bx= nor PVM_ROOT is set".to_owned(),
        ));
    };
    Ok(CommandLine { path, line: [debugger.into(), file].into_iter().chain(args).collect() })
}

/// A command's file, looked for as a shell does if its name has no `/`.
fn on_path(file: &OsStr) -> PathBuf {
    let path = std::env::var_os("PATH").filter(|_| !file.as_bytes().contains(&b'/')).unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(file)).find(|path| is_executable(path));
    found.unwrap_or_else(|| file.into())
}

/// The program's path: as it is if it has a `/`, else the first that fits on the search path.
fn find(surroundings: &Surroundings, file: &OsStr) -> Result<PathBuf, (PvmError, String)> {
    let no_file = |reason: String| (PvmError::NoFile, reason);
    if file.as_bytes().contains(&0) {
        return Err(no_file(format!("{}: no file can have such a name", file.display())));
    }
    if file.as_bytes().contains(&b'/') {
        let path = match &surroundings.directory {
            Some(directory) => directory.join(file),
            None => PathBuf::from(file),
        };
        return if is_executable(&path) { Ok(path) } else { Err(no_file(blame::no_program(&path))) };
    }
    let mut candidates = surroundings.search.iter().map(|folder| folder.join(file));
    candidates
        .find(|path| is_executable(path))
        .ok_or_else(|| no_file(blame::not_found(file, &surroundings.search)))
}

/// Where the child begins. As in PVM, a folder that is not there is no reason not to start it.
fn directory_for(surroundings: &Surroundings, program: &Program) -> Option<PathBuf> {
    let base = surroundings.directory.as_deref().filter(|folder| folder.is_dir());
    let wanted = program.directory.as_deref().map(|wanted| base.unwrap_or(Path::new(".")).join(wanted));
    wanted.filter(|folder| folder.is_dir()).or_else(|| base.map(Path::to_owned))
}

/// Folders of a search path, with `$NAME` replaced.
pub fn search_folders(path: &str, lookup: impl Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    expand(path, lookup).split(':').filter(|folder| !folder.is_empty()).map(PathBuf::from).collect()
}

async fn read_output(
    output: pipe::Receiver,
    cookie: Cookie,
    mut paused: watch::Receiver<bool>,
    input: mpsc::Sender<Input>,
) {
    loop {
        // A driver that is gone, or that has forgotten the child, lets the output run dry.
        let _ = paused.wait_for(|paused| !paused).await;
        if output.readable().await.is_err() {
            break;
        }
        match read_piece(&output) {
            Ok(data) if data.is_empty() => break,
            Ok(data) => {
                if input.send(Event::ProcessOutput { cookie, data }.into()).await.is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    let _ = input.send(Event::ProcessOutputEnd { cookie }.into()).await;
}

/// What can be read now. Not to a place of the reader's own: there are as many readers as children, and most never read anything.
fn read_piece(output: &pipe::Receiver) -> io::Result<Bytes> {
    let mut piece = [0; OUTPUT_PIECE];
    let length = output.try_read(&mut piece)?;
    Ok(Bytes::copy_from_slice(&piece[..length]))
}

async fn reap(
    watch: AsyncFd<OwnedFd>,
    cookie: Cookie,
    groups: Option<Arc<MemoryGroups>>,
    input: mpsc::Sender<Input>,
) {
    let (status, used) = loop {
        let Ok(mut ready) = watch.readable().await else { break Default::default() };
        match sys::reap(watch.as_fd()) {
            Ok(Some(end)) => break end,
            Ok(None) => ready.clear_ready(),
            Err(error) => {
                warn!(%error, "nobody knows how a child has ended");
                break Default::default();
            }
        }
    };
    if let Some(limit) = groups.and_then(|groups| groups.exceeded(cookie)) {
        let _ = input.send(Event::OverMemory { cookie, limit }.into()).await;
    }
    let status = ExitStatus::from_raw(status);
    let _ = input.send(Event::ProcessExited { cookie, status, used }.into()).await;
}

#[cfg(test)]
mod tests;
