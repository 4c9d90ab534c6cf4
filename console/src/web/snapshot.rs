//! The state of the machine at a moment, as the page reads it: arrays, whose columns `page/model.js` names.

use anyhow::Result;
use pvm_wire::codes::task_flags;
use pvm_wire::coscheduling::TurnsReport;
use pvm3::{BatchRecord, HostInfo, JobRecord, LoadRecord, QueueRecord, Task, TaskInfo, Tid};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Jobs that are sent at most, and jobs that have ended among them.
const JOBS_MAX: usize = 1000;
const ENDED_MAX: u32 = 50;
/// Hosts that are remembered when they have gone.
const GONE_MAX: usize = 200;

/// Takes snapshots; what they have in common.
#[derive(Debug, Default)]
pub struct Sampler {
    number: u64,
    hosts: BTreeMap<Tid, Known>,
    gone: VecDeque<(String, Tid, u64)>,
    /// The host whose report comes next: those of a large machine do not fit into one round.
    next: usize,
}

/// A host of the round before, and its tasks' times.
#[derive(Debug, Default)]
struct Known {
    name: String,
    report: Option<(Instant, TurnsReport)>,
    /// CPU time of tasks and teams between two reports, in thousandths of a core.
    tasks: HashMap<Tid, u64>,
    teams: BTreeMap<String, Rates>,
}

/// Rates of a team, in thousandths of a core.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    cpu: u64,
    waited: u64,
}

/// A team on all hosts.
#[derive(Debug, Default)]
struct Total {
    tasks: usize,
    hosts: usize,
    running: usize,
    rates: Rates,
}

impl Sampler {
    /// The state now. Asking the hosts for their tasks' CPU time takes about `budget`; those that remain are asked in the next rounds.
    pub fn take(&mut self, task: &mut Task, viewers: usize, budget: Duration) -> Result<String> {
        self.number += 1;
        let hosts = task.hosts()?;
        let tasks = task.tasks(pvm3::Scope::All)?;
        let loads = task.loads()?;
        self.compare(&hosts);
        self.ask_turns(task, &hosts, budget);
        // Queues are the master's; while another host takes its place there is no answer about them.
        let (batches, queues) = (task.batches().unwrap_or_default(), task.queues().unwrap_or_default());
        let mut jobs = task.jobs(&[]).unwrap_or_default();
        jobs.extend(task.job_history(ENDED_MAX).unwrap_or_default());
        let own = task.tid();
        let mut value = json!({
            "n": self.number, "time": milliseconds(), "viewers": viewers,
            "hosts": self.hosts_json(&hosts, &loads),
            "gone": self.gone,
            "teams": self.teams_json(task.tid()),
            "batches": batches.iter().map(batch_json).collect::<Vec<_>>(),
            "jobs": jobs.iter().take(JOBS_MAX).map(job_json).collect::<Vec<_>>(),
            "jobs_left": jobs.len().saturating_sub(JOBS_MAX),
            "queues": queues.iter().map(queue_json).collect::<Vec<_>>(),
        });
        let (rows, programs) = self.tasks_json(&hosts, tasks.iter().filter(|task| task.tid != own));
        (value["tasks"], value["programs"]) = (rows, json!(programs));
        Ok(value.to_string())
    }

    /// Which hosts have gone since the round before.
    fn compare(&mut self, hosts: &[HostInfo]) {
        for host in hosts {
            self.gone.retain(|(name, _, _)| *name != host.name);
            self.hosts.entry(host.tid).or_default().name.clone_from(&host.name);
        }
        if self.hosts.len() > hosts.len() {
            let here: HashSet<Tid> = hosts.iter().map(|host| host.tid).collect();
            let gone = &mut self.gone;
            self.hosts.retain(|tid, known| {
                let is_here = here.contains(tid);
                if !is_here {
                    gone.push_back((std::mem::take(&mut known.name), *tid, milliseconds()));
                }
                is_here
            });
        }
        while self.gone.len() > GONE_MAX {
            self.gone.pop_front();
        }
    }

    fn ask_turns(&mut self, task: &mut Task, hosts: &[HostInfo], budget: Duration) {
        let begun = Instant::now();
        for step in 0..hosts.len() {
            let Some(host) = hosts.get((self.next + step) % hosts.len()) else { break };
            // A host that goes meanwhile keeps its old report until it is no longer listed.
            if let (Ok(report), Some(known)) = (task.turns(host.tid), self.hosts.get_mut(&host.tid)) {
                known.update(Instant::now(), report);
            }
            if begun.elapsed() >= budget {
                self.next = (self.next + step + 1) % hosts.len();
                break;
            }
        }
    }

    fn hosts_json(&self, hosts: &[HostInfo], loads: &[LoadRecord]) -> Value {
        let loads: HashMap<&str, &LoadRecord> = loads.iter().map(|load| (&*load.host, load)).collect();
        let row = |host: &HostInfo| {
            let load = loads.get(&*host.name).and_then(|record| record.load);
            let means = self.hosts.get(&host.tid).and_then(|known| known.report.as_ref());
            let means = means.filter(|(_, report)| report.is_shared).map_or("", |(_, report)| &report.means);
            let mut row =
                vec![json!(host.tid), json!(host.name), json!(host.arch), json!(host.speed), json!(means)];
            if let Some(load) = load {
                row.extend([json!(load.cpu[0]), json!(load.others[0]), json!(load.memory), json!(load.free)]);
                row.extend(load.run_queue.map(|mean| json!(mean)));
            }
            Value::Array(row)
        };
        Value::Array(hosts.iter().map(row).collect())
    }

    fn tasks_json<'a>(
        &self,
        hosts: &[HostInfo],
        tasks: impl Iterator<Item = &'a TaskInfo>,
    ) -> (Value, Vec<String>) {
        let places: HashMap<Tid, usize> = hosts.iter().enumerate().map(|(at, host)| (host.tid, at)).collect();
        let teams = self.teams_of_tasks();
        let (mut programs, mut numbers) = (Vec::new(), HashMap::<String, usize>::new());
        let row = |task: &TaskInfo| {
            let name = task.name.to_string_lossy();
            let program = numbers.get(&*name).copied().unwrap_or_else(|| {
                numbers.insert(name.to_string(), programs.len());
                programs.push(name.to_string());
                programs.len() - 1
            });
            let (team, runs) = teams.get(&task.tid).copied().unwrap_or(("", true));
            let known = self.hosts.get(&task.host);
            let cpu = known.and_then(|known| known.tasks.get(&task.tid)).copied();
            json!([
                task.tid,
                task.parent.map_or(0, Tid::raw),
                places.get(&task.host),
                program,
                team,
                state(task.flags, runs),
                cpu,
                task.pid,
            ])
        };
        let rows = tasks.map(row).collect();
        (Value::Array(rows), programs)
    }

    /// The team of each task, and whether it may run now.
    fn teams_of_tasks(&self) -> HashMap<Tid, (&str, bool)> {
        let reports = self.hosts.values().filter_map(|known| known.report.as_ref());
        let teams = reports.flat_map(|(_, report)| &report.teams);
        teams.flat_map(|team| team.tasks.iter().map(|task| (task.tid, (&*team.name, team.runs)))).collect()
    }

    /// Teams but that of the collector itself.
    fn teams_json(&self, own: Tid) -> Value {
        let mut totals: BTreeMap<&str, Total> = BTreeMap::new();
        for known in self.hosts.values() {
            let Some((_, report)) = &known.report else { continue };
            for team in &report.teams {
                if team.tasks.iter().any(|task| task.tid == own) && team.tasks.len() == 1 {
                    continue;
                }
                let total = totals.entry(&team.name).or_default();
                total.tasks += team.tasks.len();
                total.hosts += 1;
                total.running += usize::from(team.runs);
                let rates = known.teams.get(&team.name).copied().unwrap_or_default();
                total.rates.cpu += rates.cpu;
                total.rates.waited += rates.waited;
            }
        }
        let row = |(name, total): (&str, Total)| {
            let Total { tasks, hosts, running, rates } = total;
            json!([name, tasks, hosts, running, rates.cpu, rates.waited])
        };
        Value::Array(totals.into_iter().map(row).collect())
    }
}

impl Known {
    /// A new report: rates are those since the one before.
    fn update(&mut self, now: Instant, report: TurnsReport) {
        if let Some((then, old)) = &self.report {
            let micros = now.duration_since(*then).as_micros().max(1);
            let rate = |new: u64, old: u64| {
                u64::try_from(u128::from(new.saturating_sub(old)) * 1000 / micros).unwrap_or(u64::MAX)
            };
            let used: HashMap<Tid, u64> =
                old.teams.iter().flat_map(|team| &team.tasks).map(|task| (task.tid, task.used)).collect();
            let waited: HashMap<&str, u64> =
                old.teams.iter().map(|team| (&*team.name, team.waited)).collect();
            (self.tasks, self.teams) = (HashMap::new(), BTreeMap::new());
            for team in &report.teams {
                let before = waited.get(&*team.name).copied().unwrap_or(team.waited);
                let mut rates = Rates { cpu: 0, waited: rate(team.waited, before) };
                for task in &team.tasks {
                    let cpu = rate(task.used, used.get(&task.tid).copied().unwrap_or(task.used));
                    rates.cpu += cpu;
                    self.tasks.insert(task.tid, cpu);
                }
                self.teams.insert(team.name.clone(), rates);
            }
        }
        self.report = Some((now, report));
    }
}

/// A task's state, as one letter: `page/model.js` has the words.
fn state(flags: i32, runs: bool) -> &'static str {
    match () {
        () if flags & task_flags::CLOSING != 0 => "l",
        () if flags & task_flags::AUTH != 0 || flags == 0 => "e",
        () if flags & task_flags::CONNECTED == 0 => "s",
        () if runs => "r",
        () => "w",
    }
}

fn batch_json(batch: &BatchRecord) -> Value {
    let BatchRecord { id, parent, file, policy, total, waiting, running, done, failed, .. } = batch;
    json!([
        id,
        parent,
        file.display().to_string(),
        policy,
        total,
        waiting,
        running,
        done,
        failed,
        batch.cancelled,
        batch.restarts,
    ])
}

fn job_json(job: &JobRecord) -> Value {
    json!([
        job.id.0,
        job.name,
        job.user,
        job.queue,
        job.state.name(),
        job.reason,
        job.tasks.count(),
        job.waiting,
        job.running,
        job.done,
        job.failed,
        job.cancelled,
        job.submitted,
        job.started,
        job.ended,
    ])
}

fn queue_json(queue: &QueueRecord) -> Value {
    json!([queue.name, queue.priority, queue.is_open, queue.waiting, queue.running, queue.hosts.len()])
}

/// Milliseconds since 1970.
fn milliseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvm_wire::coscheduling::{TaskReport, TeamReport};

    const TASK: Tid = Tid::from_raw(0x40002);

    fn host(index: i32, name: &str) -> HostInfo {
        let tid = Tid::from_raw(index << 18);
        HostInfo { tid, name: name.into(), arch: "LINUX64".into(), speed: 1000, signature: 0 }
    }

    fn report(used: u64, waited: u64) -> TurnsReport {
        let tasks = vec![TaskReport { tid: TASK, used, spin: None }];
        let team = TeamReport { name: "a".into(), runs: true, waited, overhead: 0, tasks };
        TurnsReport { teams: vec![team], ..TurnsReport::default() }
    }

    #[test]
    fn rates_are_those_between_two_reports() {
        let (mut known, now) = (Known::default(), Instant::now());
        known.update(now, report(5_000_000, 7));
        assert!(known.tasks.is_empty());
        known.update(now + Duration::from_secs(2), report(6_500_000, 1_000_007));
        assert_eq!(known.tasks[&TASK], 750);
        assert_eq!((known.teams["a"].cpu, known.teams["a"].waited), (750, 500));
    }

    #[test]
    fn hosts_that_have_gone_are_remembered_until_they_come_back() {
        let mut sampler = Sampler::default();
        sampler.compare(&[host(1, "a"), host(2, "b")]);
        sampler.compare(&[host(1, "a")]);
        assert_eq!(sampler.gone.iter().map(|(name, ..)| &**name).collect::<Vec<_>>(), ["b"]);
        sampler.compare(&[host(1, "a"), host(3, "b")]);
        assert!(sampler.gone.is_empty() && sampler.hosts.len() == 2);
    }

    #[test]
    fn rows_have_what_is_known() {
        let mut sampler = Sampler::default();
        let hosts = [host(1, "a"), host(2, "b")];
        sampler.compare(&hosts);
        for time in [0, 1_000_000] {
            let now = Instant::now() + Duration::from_micros(time);
            sampler.hosts.get_mut(&hosts[0].tid).unwrap().update(now, report(time / 2, 0));
        }
        let task = |tid, name: &str, flags| {
            let tid = Tid::from_raw(tid);
            TaskInfo { tid, parent: None, host: tid.to_host(), flags, name: name.into(), pid: 7 }
        };
        let tasks = [task(0x40002, "x", 6), task(0x80001, "x", 4), task(0x80002, "y", 0)];
        let (rows, programs) = sampler.tasks_json(&hosts, tasks.iter());
        assert_eq!(programs, ["x", "y"]);
        assert_eq!(rows[1], json!([0x80001, 0, 1, 0, "", "r", null, 7]));
        assert_eq!((&rows[0][4], &rows[2][3], &rows[2][5]), (&json!("a"), &json!(1), &json!("e")));
        let cpu = rows[0][6].as_u64().unwrap();
        assert!((400..=500).contains(&cpu), "{cpu}");
        let load =
            pvm3::LoadVector { cpu: [755, 0, 0], run_queue: [150, 100, 25], ..pvm3::LoadVector::default() };
        let loads = [LoadRecord { host: "b".into(), load: Some(load) }];
        let hosts = sampler.hosts_json(&hosts, &loads);
        assert_eq!(hosts[0], json!([0x40000, "a", "LINUX64", 1000, ""]));
        assert_eq!((&hosts[1][5], &hosts[1][9]), (&json!(755), &json!(150)));
    }
}
