//! A virtual machine of its own: own folder for PVM's files, own `PVM_VMID`, own home; nothing of it is left.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::console::Console;
use crate::install::Installation;
use crate::network::{Namespace, Network};
use crate::process::{self as processes, Process};
use crate::program::{Ended, Program};
use crate::wait;

/// Where the loader looks for shared libraries first.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// P, the tasks that a host asks for by itself: so few that a batch is divided by capability, whichever host is quick to
/// ask, and whatever else runs on this computer.
pub(crate) const TASK_TARGET: &str = "1";

/// What a machine is to be made of.
pub struct Plan<'a> {
    installation: Installation,
    library: Option<Installation>,
    hostfile: Option<String>,
    name: Option<String>,
    paths: Vec<PathBuf>,
    variables: Vec<Variable>,
    network: Option<&'a Network>,
}

/// A variable of the environment, and its value if it is set.
type Variable = (String, Option<OsString>);

/// A running virtual machine. Dropping it kills all of it; [`Machine::finish`] ends it orderly and looks what is left.
pub struct Machine {
    installation: Installation,
    library: Installation,
    daemon: Option<Program>,
    socket: PathBuf,
    place: Place,
    // Last, so that the folder goes when nobody uses it any more.
    folder: TempDir,
}

/// Where and as whom commands run: kept apart so that a machine can be tried that does not come to life.
#[derive(Debug, Clone)]
struct Place {
    variables: Vec<Variable>,
    namespace: Option<Namespace>,
    home: PathBuf,
    tmp: PathBuf,
    /// Folders that only this machine's processes have in their environment.
    marks: Vec<PathBuf>,
}

/// A daemon that did not start.
#[derive(Debug)]
pub struct NotStarted {
    /// How it ended.
    pub ended: Ended,
    /// Files it left in `PVM_TMP`.
    pub files: Vec<String>,
    /// Processes it left.
    pub processes: Vec<Process>,
}

/// What is to be done with `PVM_TMP` before the daemon starts.
type Preparation<'p> = &'p dyn Fn(&Path);

impl<'a> Plan<'a> {
    /// A machine whose daemon and console are of this installation, and its tasks' library too.
    pub fn of(installation: &Installation) -> Self {
        Self {
            installation: installation.clone(),
            library: None,
            hostfile: None,
            name: None,
            paths: vec!["/usr/bin".into()],
            variables: Vec::new(),
            network: None,
        }
    }

    /// A machine of one host, `localhost`, for the tests of a crate: as little in its environment as a user has, so that each program
    /// finds its own library, and the host takes as many tasks as by default.
    pub fn plain(installation: &Installation) -> Self {
        let plan = Self::of(installation).name("localhost");
        let plan = [LIBRARY_PATH, "PVM_EXPORT", "PVM_TASK_TARGET"].into_iter().fold(plan, Self::without);
        // The original's library looks there for the daemon.
        if installation.is_ours { plan } else { plan.variable("PVM_ROOT", "/usr/lib/pvm3") }
    }

    /// Tasks get the shared library of another installation.
    #[must_use]
    pub fn library(mut self, installation: &Installation) -> Self {
        self.library = Some(installation.clone());
        self
    }

    /// Text of the hostfile. `@PVMD@` stands for the daemon's path, `@PATH@` for the tasks' search path.
    #[must_use]
    pub fn hostfile(mut self, text: &str) -> Self {
        self.hostfile = Some(text.to_owned());
        self
    }

    /// Hosts `h1` (the master) to `h<count>`, all on this machine and of equal capability.
    #[must_use]
    pub fn local_hosts(self, count: usize) -> Self {
        let lines: Vec<String> = (2..=count).map(|index| format!("h{index}\n")).collect();
        self.name("h1").hostfile(&format!("* via=local sp=1000 ep=@PATH@\nh1\n{}", lines.concat()))
    }

    /// Name of the master host.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// One more folder to look for programs to spawn, before `/usr/bin`.
    #[must_use]
    pub fn path(mut self, folder: &Path) -> Self {
        self.paths.insert(0, folder.to_owned());
        self
    }

    /// A variable in the environment of daemon, console and programs.
    #[must_use]
    pub fn variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.to_owned(), Some(value.as_ref().to_owned())));
        self
    }

    /// No such variable in that environment.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.variables.push((name.to_owned(), None));
        self
    }

    /// The master is the first host of this network, and reaches the others by ssh.
    #[must_use]
    pub fn network(mut self, network: &'a Network) -> Self {
        self.network = Some(network);
        self
    }

    /// Starts the daemon and waits until it serves.
    #[track_caller]
    pub fn start(self) -> Machine {
        match self.try_start() {
            Ok(machine) => machine,
            Err(failure) => panic!("the daemon did not start: {failure:#?}"),
        }
    }

    /// Starts the daemon; gives what it said if it would not start.
    pub fn try_start(self) -> Result<Machine, NotStarted> {
        self.try_start_in(&|_| ())
    }

    /// As [`Self::try_start`], after something was done to the folder for PVM's files.
    pub fn try_start_in(self, prepare: Preparation) -> Result<Machine, NotStarted> {
        let folder = TempDir::with_prefix("pvm-test-").expect("a temporary folder can be made");
        let library = self.library.clone().unwrap_or_else(|| self.installation.clone());
        let place = self.place(folder.path());
        fs::create_dir_all(&place.tmp).expect("a folder for PVM's files can be made");
        fs::create_dir_all(&place.home).expect("a home can be made");
        prepare(&place.tmp);
        let mut command = place.command(&self.installation.pvmd(), &self.installation);
        command.args(self.name.iter().map(|name| format!("-n{name}")));
        command.args(self.write_hostfile(folder.path()));
        let mut daemon = Program::start(&mut command);
        let socket = wait::until(wait::PATIENCE, || {
            let printed =
                daemon.stdout().lines().next().filter(|line| line.starts_with('/')).map(PathBuf::from);
            printed.map(Some).or_else(|| daemon.has_ended().then_some(None))
        });
        let mut machine = Machine {
            installation: self.installation,
            library,
            daemon: None,
            socket: PathBuf::new(),
            place,
            folder,
        };
        match socket.flatten() {
            Some(socket) => {
                machine.socket = socket;
                machine.daemon = Some(daemon);
                Ok(machine)
            }
            None => Err(machine.not_started(daemon)),
        }
    }

    fn write_hostfile(&self, folder: &Path) -> Option<PathBuf> {
        let text = self.hostfile.as_ref()?;
        let path = folder.join("hosts");
        let search = join(&self.paths);
        let text = text.replace("@PVMD@", &display(&self.installation.pvmd())).replace("@PATH@", &search);
        fs::write(&path, text).expect("the hostfile can be written");
        Some(path)
    }

    fn place(&self, folder: &Path) -> Place {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let home = folder.join("home");
        let tmp = folder.join("tmp");
        let mut variables = vec![
            ("HOME".to_owned(), display(&home)),
            ("PVM_TMP".to_owned(), display(&tmp)),
            (
                "PVM_VMID".to_owned(),
                format!("t{}-{}", process::id(), COUNTER.fetch_add(1, Ordering::Relaxed)),
            ),
            ("PVM_PATH".to_owned(), join(&self.paths)),
            // The original daemon needs its own library, so its tasks get theirs from the task that spawns them.
            ("PVM_EXPORT".to_owned(), LIBRARY_PATH.to_owned()),
            ("PVM_TASK_TARGET".to_owned(), TASK_TARGET.to_owned()),
            // The original refuses to serve root without it.
            ("PVM_ALLOW_ROOT".to_owned(), "1".to_owned()),
        ];
        if !rustix::process::geteuid().is_root() {
            // Or nobody but root could see what daemons have open and in their environment, as tests do.
            variables.push(("PVM_DUMPABLE".to_owned(), "1".to_owned()));
        }
        variables.extend(self.installation.root().map(|root| ("PVM_ROOT".to_owned(), display(root))));
        variables.extend(self.network.iter().flat_map(|network| network.variables()));
        let variables = variables.into_iter().map(|(name, value)| (name, Some(value.into())));
        let variables = variables.chain(self.variables.iter().cloned()).collect();
        let marks =
            [folder].into_iter().chain(self.network.map(Network::folder)).map(Path::to_owned).collect();
        Place { variables, namespace: self.network.map(Network::master), home, tmp, marks }
    }
}

impl Machine {
    /// A machine of one host, of this installation.
    #[track_caller]
    pub fn start(installation: &Installation) -> Self {
        Plan::of(installation).start()
    }

    /// The installation that the daemon is of.
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// Path of the socket, as the daemon printed it.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The folder for PVM's files on the master.
    pub fn tmp(&self) -> &Path {
        &self.place.tmp
    }

    /// A folder that goes with the machine.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Process id of the master's daemon.
    pub fn daemon_pid(&self) -> i32 {
        self.daemon.as_ref().map_or(0, Program::pid)
    }

    /// What the master's daemon has written to its standard error.
    pub fn daemon_stderr(&self) -> String {
        self.daemon.as_ref().map(Program::stderr).unwrap_or_default()
    }

    /// Whether the master's daemon runs.
    pub fn is_alive(&mut self) -> bool {
        self.daemon.as_mut().is_some_and(|daemon| !daemon.has_ended())
    }

    /// A command in the environment of this machine, on the master host, in a home of its own.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        self.place.command(program.as_ref(), &self.library)
    }

    /// Starts a program as a task (if it makes itself one) on the master host.
    #[track_caller]
    pub fn program<S: AsRef<OsStr>>(&self, program: impl AsRef<Path>, arguments: &[S]) -> Program {
        Program::start(self.command(program).args(arguments))
    }

    /// A console on the master host.
    #[track_caller]
    pub fn console(&self) -> Console {
        Console::start(&mut self.place.command(&self.installation.pvm(), &self.installation))
    }

    /// A console, when the machine has grown to this many hosts.
    #[track_caller]
    pub fn console_with_hosts(&self, count: usize) -> Console {
        let mut console = self.console();
        wait::becomes_true(&format!("{count} hosts"), || console.conf().len() == count);
        console
    }

    /// The log of the master's daemon until now.
    pub fn log(&self) -> String {
        // Hosts on the same machine have a log of their own, under a longer name.
        let logs = files_in(&self.place.tmp).into_iter().filter(|name| name.starts_with("pvml."));
        let log = logs.min_by_key(String::len);
        log.and_then(|name| fs::read(self.place.tmp.join(name)).ok())
            .map_or_else(String::new, |bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The logs of all daemons that share the master's folder.
    pub fn logs(&self) -> Vec<String> {
        let logs = files_in(&self.place.tmp).into_iter().filter(|name| name.starts_with("pvml."));
        logs.filter_map(|name| fs::read(self.place.tmp.join(name)).ok())
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .collect()
    }

    /// All processes that belong to this machine on any host, the master's daemon included.
    pub fn processes(&self) -> Vec<Process> {
        let mut found: Vec<Process> =
            self.place.marks.iter().flat_map(|mark| processes::with_environment(mark)).collect();
        found.sort_by_key(|process| process.pid);
        found.dedup();
        found
    }

    /// The daemons of slaves, wherever they are.
    pub fn slave_daemons(&self) -> Vec<Process> {
        let is_daemon = |process: &Process| {
            let command = &process.command;
            (command.contains("pvmd") || command.contains("pvm daemon")) && !command.contains("--guardian")
        };
        self.processes().into_iter().filter(|p| is_daemon(p) && p.pid != self.daemon_pid()).collect()
    }

    /// Halts the machine from a console and checks that nothing of it is left: no process on any host, and no file but
    /// the log.
    #[track_caller]
    pub fn finish(mut self) {
        let mut console = self.console();
        console.send("halt");
        console.into_program().end();
        self.expect_nothing_left();
    }

    /// Ends the machine by a signal to the master's daemon, which must end well, and checks that nothing of it is left.
    #[track_caller]
    pub fn terminate(mut self) {
        let daemon = self.daemon.take().expect("the daemon runs until the machine is finished");
        processes::signal(daemon.pid(), Signal::TERM);
        daemon.end().expect_success();
        self.expect_all_gone();
    }

    /// Waits for the end of a machine that was told to end already, and checks that nothing of it is left.
    #[track_caller]
    pub fn expect_nothing_left(&mut self) {
        let daemon = self.daemon.take().expect("the daemon runs until the machine is finished");
        daemon.end();
        self.expect_all_gone();
    }

    #[track_caller]
    fn expect_all_gone(&self) {
        let gone = wait::until(wait::PATIENCE, || self.processes().is_empty().then_some(()));
        assert!(gone.is_some(), "processes left: {:#?}\n{}", self.processes(), self.log());
        // The original leaves sockets of direct routes behind when tasks are killed.
        if self.installation.is_ours && self.library.is_ours {
            let files: Vec<String> =
                files_in(&self.place.tmp).into_iter().filter(|name| !name.starts_with("pvml.")).collect();
            assert!(files.is_empty(), "files left in PVM_TMP: {files:?}");
        }
    }

    fn not_started(self, daemon: Program) -> NotStarted {
        let ended = daemon.end();
        NotStarted { ended, files: files_in(&self.place.tmp), processes: self.processes() }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of the daemon\n{}---", self.log());
        }
        self.daemon = None;
        for process in self.processes() {
            processes::signal(process.pid, Signal::KILL);
        }
    }
}

impl Place {
    fn command(&self, program: &Path, library: &Installation) -> Command {
        let mut command = match &self.namespace {
            Some(namespace) => namespace.command(program),
            None => Command::new(program),
        };
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("PVM") {
                command.env_remove(name);
            }
        }
        command.env(LIBRARY_PATH, library.library()).current_dir(&self.home);
        for (name, value) in &self.variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }
}

/// The names in a folder.
pub fn files_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

fn display(path: &Path) -> String {
    path.display().to_string()
}

fn join(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| display(path)).collect::<Vec<_>>().join(":")
}
