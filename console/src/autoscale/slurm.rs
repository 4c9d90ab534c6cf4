//! The jobs of Slurm that hold nodes for this machine: requests for them, what becomes of them, and their end.

use super::command::output;
use super::script::script;
use anyhow::{Context, Result, bail};
use std::process::Command;

/// Lines of `squeue` that are read.
const JOBS_MAX: usize = 10_000;
/// What `squeue` prints of a job. The reason is last: it may have any text.
const FORMAT: &str = "--format=%i|%T|%C|%N|%r";
/// Numbers on one command line of `scancel`.
const CANCELLED_AT_ONCE: usize = 500;

/// What Slurm says of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It waits for a node.
    Pending,
    /// It has one.
    Running,
    /// It is over, or soon will be.
    Ending,
}

/// A job that holds a node, or is to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmJob {
    /// Its number.
    pub id: u64,
    /// How far it is.
    pub state: State,
    /// Its cores, when it runs.
    pub cores: u32,
    /// Its node, when it runs; the text as Slurm has it.
    pub node: String,
    /// Why it waits.
    pub reason: String,
}

/// How nodes are requested.
#[derive(Clone, Debug)]
pub struct Slurm {
    /// The name of all jobs of this machine: no other machine has it.
    pub name: String,
    /// The time limit of a job, in milliseconds; none: the partition's.
    pub time: Option<u64>,
    /// A node without a daemon ends its job after this time, in milliseconds.
    pub orphan: u64,
    /// Further arguments of `sbatch`.
    pub args: Vec<String>,
}

impl Slurm {
    /// The command line of a request, for people and for `sbatch`. The script is its standard input.
    pub fn request(&self) -> Vec<String> {
        let mut words = vec!["sbatch".to_owned(), "--parsable".to_owned()];
        words.extend(self.options());
        words
    }

    fn options(&self) -> Vec<String> {
        let mut words = vec![format!("--job-name={}", self.name)];
        let fixed = ["--nodes=1", "--exclusive", "--no-requeue", "--output=/dev/null"];
        words.extend(fixed.map(str::to_owned));
        words.extend(self.time.map(|time| format!("--time={}", limit(time))));
        words.extend(self.args.iter().cloned());
        words
    }

    /// The job's script.
    pub fn script(&self) -> String {
        script(self.orphan)
    }

    /// Whether Slurm would take a request.
    ///
    /// # Errors
    ///
    /// Why it would not.
    pub fn check(&self) -> Result<()> {
        let mut command = Command::new("sbatch");
        command.arg("--test-only").args(self.options());
        output(&mut command, &self.script()).map(drop)
    }

    /// Requests a node; the number of the job.
    pub fn submit(&self) -> Result<u64> {
        let words = self.request();
        let mut command = Command::new(&words[0]);
        let printed = output(command.args(&words[1..]), &self.script())?;
        // `--parsable`: the number, and the cluster's name behind a semicolon.
        let number = printed.trim().split(';').next().unwrap_or_default();
        number.parse().with_context(|| format!("sbatch has printed {number:?}, which is no number of a job"))
    }

    /// The jobs of this machine.
    pub fn jobs(&self) -> Result<Vec<SlurmJob>> {
        let mut command = Command::new("squeue");
        command.args(["--noheader", "--me", FORMAT]).arg(format!("--name={}", self.name));
        parse(&output(&mut command, "")?)
    }
}

/// Ends jobs. Those that are over already are no error.
pub fn cancel(jobs: &[u64]) -> Result<()> {
    for jobs in jobs.chunks(CANCELLED_AT_ONCE) {
        output(Command::new("scancel").args(jobs.iter().map(u64::to_string)), "")?;
    }
    Ok(())
}

/// A time limit as `sbatch` reads it.
fn limit(milliseconds: u64) -> String {
    let seconds = milliseconds.div_ceil(1000);
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn parse(text: &str) -> Result<Vec<SlurmJob>> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.len() > JOBS_MAX {
        bail!("squeue lists more than {JOBS_MAX} jobs");
    }
    lines.into_iter().map(parse_job).collect()
}

fn parse_job(line: &str) -> Result<SlurmJob> {
    let wrong = || format!("squeue has printed {:?}", line.chars().take(80).collect::<String>());
    let parts: Vec<&str> = line.trim().splitn(5, '|').collect();
    let [id, state, cores, node, reason] = parts[..] else { bail!(wrong()) };
    let state = match state {
        "PENDING" | "CONFIGURING" | "REQUEUED" | "REQUEUE_HOLD" | "SPECIAL_EXIT" => State::Pending,
        // What is suspended has its node.
        "RUNNING" | "SUSPENDED" | "STOPPED" | "RESIZING" | "SIGNALING" => State::Running,
        _ => State::Ending,
    };
    Ok(SlurmJob {
        id: id.parse().with_context(wrong)?,
        state,
        cores: cores.parse().with_context(wrong)?,
        node: node.to_owned(),
        reason: reason.chars().filter(|char| !char.is_control()).take(80).collect(),
    })
}

/// Whether a text can be a node's name: it becomes a word of a hostfile's line.
pub fn is_name(node: &str) -> bool {
    let is_good = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
    !node.is_empty() && !node.starts_with('-') && node.len() <= 253 && node.chars().all(is_good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_read_with_checks() {
        let text = "17|RUNNING|8|n1|None\n18|PENDING|1||Resources|or so\n\n19|COMPLETING|8|n[2-3]|None\n";
        let jobs = parse(text).unwrap();
        assert_eq!((jobs[0].id, jobs[0].state, jobs[0].cores, &*jobs[0].node), (17, State::Running, 8, "n1"));
        assert_eq!((jobs[1].state, &*jobs[1].reason), (State::Pending, "Resources|or so"));
        assert_eq!(jobs[2].state, State::Ending);
        for text in ["x|RUNNING|8|n1|", "17|RUNNING|8", "17|RUNNING|many|n1|x", "-1|RUNNING|8|n1|x"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse(&"1|RUNNING|8|n1|x\n".repeat(JOBS_MAX + 1)).is_err());
        assert!(
            is_name("n-1.site_a") && !is_name("n[1-2]") && !is_name("") && !is_name("-n") && !is_name("a b")
        );
    }

    #[test]
    fn a_request_has_the_users_arguments_last() {
        let slurm = Slurm {
            name: "pvm.1a".to_owned(),
            time: Some(5_400_000),
            orphan: 300_000,
            args: vec!["-p".to_owned(), "long".to_owned()],
        };
        let line = slurm.request().join(" ");
        assert!(line.starts_with("sbatch --parsable --job-name=pvm.1a --nodes=1 --exclusive "), "{line}");
        assert!(line.ends_with(" --time=1:30:00 -p long"), "{line}");
        assert_eq!([1, 61_000, 360_000_000].map(limit), ["0:00:01", "0:01:01", "100:00:00"]);
    }
}
