//! `pvm top`: hosts, teams and tasks, and their CPU use.

use crate::cli::TopArgs;
use crate::shell::tables::in_micros;
use anyhow::{Context, Result, bail};
use pvm_wire::coscheduling::{TaskReport, TeamReport, TurnsReport};
use pvm3::{Scope, Task, Tid};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::time::{Duration, Instant};

/// Goes to the top left corner; clears what is behind the cursor in its line, and below it.
const HOME: &str = "\x1b[H";
const TO_THE_RIGHT: &str = "\x1b[K";
const BELOW: &str = "\x1b[J";
/// Lines of a terminal of unknown size.
const LINES: usize = 24;

/// Runs until it is interrupted, or shows it once; returns the exit code.
pub fn run(args: &TopArgs) -> Result<u8> {
    let mut task = Task::enrol_as(Some("pvm top"), true).context("cannot join a virtual machine")?;
    if !task.daemon_is_ours() {
        bail!("the daemon here is that of PVM 3.4, which has no teams");
    }
    let is_screen = !args.once && io::stdout().is_terminal();
    let interval = Duration::from_secs_f64(args.interval);
    let mut before = Sample::take(&mut task)?;
    loop {
        std::thread::sleep(interval);
        let now = Sample::take(&mut task)?;
        let text = table(&before, &now);
        let written = if is_screen { on_screen(&text) } else { io::stdout().write_all(text.as_bytes()) };
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
            written => written.context("cannot write")?,
        }
        if args.once {
            break;
        }
        before = now;
    }
    task.exit()?;
    Ok(0)
}

/// The state at a moment.
struct Sample {
    when: Instant,
    hosts: Vec<(String, TurnsReport)>,
    names: BTreeMap<Tid, String>,
}

impl Sample {
    fn take(task: &mut Task) -> Result<Self> {
        let listed = task.tasks(Scope::All)?;
        let names =
            listed.into_iter().map(|task| (task.tid, task.name.to_string_lossy().into_owned())).collect();
        let mut hosts = Vec::new();
        for host in task.hosts()? {
            // One that goes meanwhile is not shown.
            hosts.extend(task.turns(host.tid).ok().map(|report| (host.name, report)));
        }
        Ok(Self { when: Instant::now(), hosts, names })
    }

    fn times(&self) -> BTreeMap<Tid, u64> {
        let teams = self.hosts.iter().flat_map(|(_, report)| &report.teams);
        teams.flat_map(|team| team.tasks.iter().map(|task| (task.tid, task.used))).collect()
    }

    /// A team on a host.
    fn team(&self, host: &str, name: &str) -> Option<&TeamReport> {
        let (_, report) = self.hosts.iter().find(|(known, _)| known == host)?;
        report.teams.iter().find(|team| team.name == name)
    }
}

/// A team on all hosts.
#[derive(Default)]
struct Total {
    tasks: usize,
    hosts: usize,
    running: usize,
    cpu: f64,
    /// % of the time that a daemon worked for its messages.
    overhead: f64,
    /// % of the time that its tasks wanted a processor and had none.
    waited: f64,
}

/// The text of both moments' difference.
fn table(before: &Sample, now: &Sample) -> String {
    let elapsed = now.when.duration_since(before.when).as_secs_f64().max(1e-6);
    let old = before.times();
    let percent = |micros: u64| micros as f64 / 1e6 / elapsed * 100.0;
    let cpu = |task: &TaskReport| {
        percent(task.used.saturating_sub(old.get(&task.tid).copied().unwrap_or(task.used)))
    };
    let mut teams: BTreeMap<&str, Total> = BTreeMap::new();
    let mut rows = String::new();
    for (host, report) in &now.hosts {
        for team in &report.teams {
            let total = teams.entry(&team.name).or_default();
            total.tasks += team.tasks.len();
            total.hosts += 1;
            total.running += usize::from(team.runs);
            if let Some(old) = before.team(host, &team.name) {
                total.waited += percent(team.waited.saturating_sub(old.waited));
                total.overhead += percent(team.overhead.saturating_sub(old.overhead));
            }
            for task in &team.tasks {
                total.cpu += cpu(task);
                let state = if team.runs { "runs" } else { "waits" };
                let command = now.names.get(&task.tid).map_or("-", String::as_str);
                let command = if command.is_empty() { "-" } else { command };
                let (tid, spin) = (task.tid.to_string(), task.spin.map_or("-".to_owned(), in_micros));
                let (name, cpu) = (&team.name, cpu(task));
                let _ = writeln!(
                    rows,
                    "{tid:>8} {host:>16} {name:>16} {state:>6} {cpu:>6.1} {spin:>8} {command}"
                );
            }
        }
    }
    let mut text = hosts(before, now, elapsed);
    let all: f64 = teams.values().map(|team| team.cpu + team.overhead).sum();
    let _ = writeln!(
        text,
        "\n{:>16} {:>6} {:>6} {:>6} {:>7} {:>8} {:>6} {:>8}",
        "TEAM", "TASKS", "HOSTS", "TURN", "CPU%", "DAEMONS%", "SHARE", "SLOWDOWN"
    );
    for (name, team) in teams {
        let Total { tasks, hosts, running, cpu, overhead, waited } = team;
        let slowdown = if cpu > 0.0 { format!("{:.2}", (cpu + waited) / cpu) } else { "-".to_owned() };
        let share = if all > 0.0 { (cpu + overhead) / all * 100.0 } else { 0.0 };
        let _ = writeln!(
            text,
            "{name:>16} {tasks:>6} {hosts:>6} {running:>6} {cpu:>7.1} {overhead:>8.1} {share:>5.1}% {slowdown:>8}"
        );
    }
    let _ = writeln!(
        text,
        "\n{:>8} {:>16} {:>16} {:>6} {:>6} {:>8} COMMAND",
        "TID", "HOST", "TEAM", "TURN", "CPU%", "SPIN"
    );
    text + &rows
}

fn hosts(before: &Sample, now: &Sample, elapsed: f64) -> String {
    let old: BTreeMap<&str, &TurnsReport> =
        before.hosts.iter().map(|(name, report)| (&**name, report)).collect();
    let mut text = format!(
        "{:>16} {:>10} {:>7} {:>8} {:>9} {:>8} {:>8} {:>9} {:>7}\n",
        "HOST", "TURNS BY", "SLICE", "EPOCH", "SWITCH/s", "ADOPT/s", "STALE/s", "REFUSED/s", "BOOST%"
    );
    for (name, report) in &now.hosts {
        let rate = |get: fn(&TurnsReport) -> u64| {
            let begin = old.get(&**name).map_or(get(report), |old| get(old));
            get(report).saturating_sub(begin) as f64 / elapsed
        };
        let means = if report.is_shared { &*report.means } else { "-" };
        let (slice, epoch) = (format!("{:?}", Duration::from_micros(report.slice)), report.epoch);
        let _ = writeln!(
            text,
            "{name:>16} {means:>10} {slice:>7} {epoch:>8} {:>9.1} {:>8.1} {:>8.1} {:>9.1} {:>7.1}",
            rate(|report| report.switches),
            rate(|report| report.adopted),
            rate(|report| report.old),
            rate(|report| report.unfair),
            rate(|report| report.boost) / 1e4,
        );
    }
    text
}

/// As many lines as there are, over what was there.
fn on_screen(text: &str) -> io::Result<()> {
    let lines = rustix::termios::tcgetwinsize(io::stdout()).map_or(LINES, |size| usize::from(size.ws_row));
    let mut screen = HOME.to_owned();
    for line in text.lines().take(lines.max(2) - 1) {
        let _ = write!(screen, "{line}{TO_THE_RIGHT}\r\n");
    }
    screen.push_str(BELOW);
    let mut out = io::stdout().lock();
    out.write_all(screen.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(when: Instant, switches: u64, times: [u64; 2]) -> Sample {
        let [one, two] = [0x40002, 0x40003].map(Tid::from_bits);
        let waited = switches * 10_000;
        let team = |name: &str, tid, used, runs: bool| {
            let tasks = vec![TaskReport { tid, used, spin: runs.then_some(12_500) }];
            TeamReport { name: name.into(), runs, waited, overhead: if runs { 0 } else { used }, tasks }
        };
        let teams = vec![team("a", one, times[0], true), team("b", two, times[1], false)];
        let report = TurnsReport {
            means: "priorities".into(),
            slice: 50_000,
            is_shared: true,
            switches,
            boost: switches * 10_000,
            teams,
            ..TurnsReport::default()
        };
        let names = [(one, "/bin/one".to_owned())].into();
        Sample { when, hosts: vec![("vm".into(), report)], names }
    }

    #[test]
    fn shares_and_rates_are_those_between_two_moments() {
        let now = Instant::now();
        let text = table(
            &sample(now, 100, [5_000_000, 1_000_000]),
            &sample(now + Duration::from_secs(2), 140, [6_500_000, 1_500_000]),
        );
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["vm", "priorities", "50ms", "0", "20.0", "0.0", "0.0", "0.0", "20.0"]);
        assert_eq!(lines[4], ["a", "1", "1", "1", "75.0", "0.0", "60.0%", "1.27"]);
        assert_eq!(lines[5], ["b", "1", "1", "0", "25.0", "25.0", "40.0%", "1.80"]);
        assert_eq!(lines[8], ["t40002", "vm", "a", "runs", "75.0", "12.5us", "/bin/one"]);
        assert_eq!(lines[9], ["t40003", "vm", "b", "waits", "25.0", "-", "-"]);
    }

    #[test]
    fn a_new_process_has_used_nothing() {
        let now = Instant::now();
        let empty = Sample { when: now, hosts: Vec::new(), names: BTreeMap::new() };
        let text = table(&empty, &sample(now + Duration::from_secs(1), 9, [7, 8]));
        assert!(text.contains(" 0.0%") && !text.contains("NaN"));
    }
}
