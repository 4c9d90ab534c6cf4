//! HyperQueue on this computer: a server, and a worker that has all its cores.

use anyhow::{Context, Result, bail, ensure};
use pvm_tests::peers;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Its command, wherever the search path has it.
const PROGRAM: &str = "hq";
/// It says so where it is and runs.
const LIMIT: Duration = Duration::from_secs(20);

/// A server and a worker, which end when this is dropped.
pub struct HyperQueue {
    folder: PathBuf,
    processes: Vec<Child>,
}

impl HyperQueue {
    /// The version that the search path has; without one, a line says so.
    pub fn version() -> Option<String> {
        let found = Command::new(PROGRAM).arg("--version").stdin(Stdio::null()).output();
        let version = found.ok().filter(|output| output.status.success());
        if version.is_none() {
            peers::unchecked(
                "HyperQueue",
                "hq is missing: cargo build of its repository (docs/benchmarks.md)",
            );
        }
        Some(String::from_utf8_lossy(&version?.stdout).trim().to_owned())
    }

    /// Starts it with its files in this folder. With a journal its jobs outlive the server.
    pub fn start(folder: &Path, has_journal: bool) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let mut started = Self { folder: folder.to_owned(), processes: Vec::new() };
        let mut server = started.command(Path::new(PROGRAM));
        server.args(["server", "start"]);
        if has_journal {
            server.arg("--journal").arg(folder.join("journal"));
        }
        started.add(server, "server")?;
        started.wait_for(&["server", "info"])?;
        let cores = thread::available_parallelism()?.to_string();
        let mut worker = started.command(Path::new(PROGRAM));
        worker.args(["worker", "start", "--cpus", &cores]);
        started.add(worker, "worker")?;
        started.wait_for(&["worker", "wait", "1"])?;
        Ok(started)
    }

    /// A command whose calls of `hq` reach this server.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("HQ_SERVER_DIR", self.folder.join("server")).stdin(Stdio::null());
        command
    }

    fn add(&mut self, mut command: Command, name: &str) -> Result<()> {
        let log = File::create(self.folder.join(name).with_extension("log"))?;
        command.stdout(log.try_clone()?).stderr(log);
        self.processes.push(command.spawn().with_context(|| format!("{command:?}"))?);
        Ok(())
    }

    /// Waits until a command succeeds, which it does when the server or the worker is there.
    fn wait_for(&mut self, words: &[&str]) -> Result<()> {
        let end = Instant::now() + LIMIT;
        loop {
            let output = self.command(Path::new(PROGRAM)).args(words).output()?;
            if output.status.success() {
                return Ok(());
            }
            let has_ended =
                self.processes.iter_mut().any(|process| process.try_wait().is_ok_and(|end| end.is_some()));
            ensure!(!has_ended, "HyperQueue has ended: {}", self.folder.display());
            if Instant::now() > end {
                bail!("hq {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for HyperQueue {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().rev() {
            // It has ended already if this fails.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
