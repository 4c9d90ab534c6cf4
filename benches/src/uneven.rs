//! Three hosts on this machine, of which one is twice and one four times as fast as the slowest.

use crate::lab::words;
use crate::part::Ask;
use anyhow::{Context, Error, Result};
use pvm_tests::machine::{Machine, Plan};
use pvm_tests::quota::Quota;
use pvm_tests::{Installation, Network, peers};
use std::path::{Path, PathBuf};
use std::process::{self, Command};

/// Cores that the hosts have, the master's first; together less than this machine has.
const CORES: [f64; 3] = [0.8, 0.4, 0.2];

/// Microseconds after which a quota begins anew.
const PERIOD: f64 = 20_000.0;

/// The hosts, and what is measured on them.
pub struct Uneven {
    machine: Machine,
    /// The original, on hosts of the same groups.
    original: Option<(Machine, Network)>,
    program: PathBuf,
    /// Where tasks take numbers.
    numbers: PathBuf,
    // After the machine, which is in them.
    groups: Vec<Quota>,
}

impl Uneven {
    /// Starts them; `None` (with a line that says so) where there are no control groups to be had.
    pub fn open(
        ours: &Installation,
        original: Option<&Installation>,
        program: &Path,
        folder: &Path,
    ) -> Result<Option<Self>> {
        let groups =
            CORES.iter().enumerate().map(|(index, &cores)| Quota::new(&index.to_string(), cores, PERIOD));
        let Ok(groups) = groups.collect::<Result<Vec<_>, _>>() else {
            peers::unchecked("hosts of unequal speed", "no control groups can be made in /sys/fs/cgroup/cpu");
            return Ok(None);
        };
        // Their speed as a hostfile says it; one starts after the other, so that they can be told apart.
        let lines = "* via=local ep=@PATH@\nh1 sp=4000\nh2 sp=2000\nh3 sp=1000\n";
        let plan = Plan::of(ours).name("h1").hostfile(lines).variable("PVM_STARTERS", "1");
        let plan = plan.variable("PVM_TASK_TARGET", "8").variable("PVM_TASK_LIMIT", "10000");
        // They would count no more than one core each if they began in their groups.
        let plan = plan.variable("PVM_TASK_SLOTS", "1");
        let machine = plan.try_start().ok().context("the daemon does not start")?;
        divide(&machine, &groups)?;
        let original = original.and_then(start_original);
        if let Some((machine, _)) = &original {
            divide(machine, &groups)?;
        }
        let numbers = folder.join("numbers");
        Ok(Some(Self { machine, original, program: program.to_owned(), numbers, groups }))
    }

    /// Whether the original is there.
    pub fn has_original(&self) -> bool {
        self.original.is_some()
    }

    /// A batch spawned in some way, of tasks of lengths of some shape.
    pub fn batch(&self, how: &str, shape: &str, is_disturbed: bool, ask: Ask) -> Command {
        self.batch_on(&self.machine, how, shape, is_disturbed, ask)
    }

    /// As the original places it.
    pub fn original_batch(&self, shape: &str, is_disturbed: bool, ask: Ask) -> Command {
        let machine = self.original.as_ref().map_or(&self.machine, |(machine, _)| machine);
        self.batch_on(machine, "own", shape, is_disturbed, ask)
    }

    fn batch_on(&self, machine: &Machine, how: &str, shape: &str, is_disturbed: bool, ask: Ask) -> Command {
        let group = self.groups.first().filter(|_| is_disturbed);
        let disturbed = group.map_or_else(|| "-".into(), |group| from_any_namespace(group.path()));
        let mut command = machine.command(&self.program);
        command.args([how, shape, &speed()]).arg(disturbed).arg(&self.numbers).args(words(ask.xs));
        command
    }

    /// The time of a single host as fast as all of them.
    pub fn bound(&self, shape: &str, is_disturbed: bool, ask: Ask) -> Command {
        let lost = if is_disturbed { CORES[0] / 2.0 } else { 0.0 };
        let mut command = Command::new(&self.program);
        command.args(["bound", shape, &speed(), &lost.to_string(), "-"]).args(words(ask.xs));
        command
    }
}

/// A host of the machine for each group.
fn divide(machine: &Machine, groups: &[Quota]) -> Result<()> {
    machine.console_with_hosts(groups.len()).quit();
    let slaves = machine.slave_daemons();
    let pids = [machine.daemon_pid()].into_iter().chain(slaves.iter().map(|slave| slave.pid));
    groups.iter().zip(pids).try_for_each(|(group, pid)| group.take(pid).map_err(Error::msg))
}

/// The original's daemons need hosts with addresses of their own.
fn start_original(original: &Installation) -> Option<(Machine, Network)> {
    let network = Network::of(CORES.len(), original, "the original on hosts of unequal speed")?;
    let lines: String = (1..network.count()).map(|host| network.line(host, "") + "\n").collect();
    let plan = Plan::of(original).network(&network).name(&network.address(0)).hostfile(&lines);
    let machine = plan.try_start().ok()?;
    Some((machine, network))
}

/// A file's name also where /sys is another one, as it is for what `ip netns exec` starts.
fn from_any_namespace(path: &Path) -> PathBuf {
    let root = Path::new("/proc").join(process::id().to_string()).join("root");
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Of all hosts together, in cores.
fn speed() -> String {
    CORES.iter().sum::<f64>().to_string()
}
