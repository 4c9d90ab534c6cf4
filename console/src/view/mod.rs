//! The state of the machine at a moment, with the rates since the moment before: what `pvm top` and `pvm web` show.

mod rates;

use anyhow::Result;
use pvm_wire::codes::task_flags;
use pvm_wire::coscheduling::{TurnsReport, Why};
use pvm_wire::rows::RowsReport;
use pvm3::{BatchRecord, HostInfo, LoadRecord, LoadVector, QueueRecord, Scope, Task, TaskInfo, Tid};
use rates::Known;
pub use rates::{TaskRates, TeamRates, TurnRates};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

/// Hosts that are remembered when they have gone.
const GONE_MAX: usize = 200;

/// The state at a moment, without the observing task.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The hosts, in the machine's order.
    pub hosts: Vec<Host>,
    /// Hosts that have left the machine, the latest last.
    pub gone: Vec<Gone>,
    /// The teams, by name.
    pub teams: Vec<Team>,
    /// The tasks.
    pub tasks: Vec<TaskRow>,
    /// Batches that have not ended.
    pub batches: Vec<BatchRecord>,
    /// The queues.
    pub queues: Vec<QueueRecord>,
    /// The rows of the machine's matrix.
    pub rows: RowsReport,
}

/// A host of the machine.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its tid, name, architecture and speed.
    pub info: HostInfo,
    /// Its load, if the host has reported it.
    pub load: Option<LoadVector>,
    /// How teams take turns there, if the host has reported it.
    pub turns: Option<TurnsReport>,
    /// Rates of the turns.
    pub turn_rates: TurnRates,
    /// Rates of its tasks together.
    pub rates: TaskRates,
    /// Number of its tasks.
    pub tasks: usize,
}

impl Host {
    /// Whether its owner is there, as it has reported.
    pub fn has_owner(&self) -> bool {
        self.turns.as_ref().is_some_and(|turns| turns.why == Why::Owner)
    }
}

/// A host that has left the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Its name.
    pub name: String,
    /// Its tid.
    pub tid: Tid,
    /// When its absence was noticed, in milliseconds since 1970.
    pub when: u64,
}

/// A team on all hosts.
#[derive(Clone, Debug, Default)]
pub struct Team {
    /// Its name.
    pub name: String,
    /// Number of its tasks.
    pub tasks: usize,
    /// Number of hosts that have some.
    pub hosts: usize,
    /// Number of hosts on which it has the turn.
    pub running: usize,
    /// Its rates.
    pub rates: TeamRates,
}

/// A task.
#[derive(Clone, Debug)]
pub struct TaskRow {
    /// Tid, parent, host, flags, program and process.
    pub info: TaskInfo,
    /// Index of its host in [`View::hosts`].
    pub host: Option<usize>,
    /// Its team; empty if the host has reported none.
    pub team: String,
    /// What it does.
    pub state: State,
    /// Its rates, once its host has reported twice.
    pub rates: Option<TaskRates>,
    /// Nanoseconds that it spins before it sleeps, as far as it has said.
    pub spin: Option<u64>,
}

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its process has started, and has not enrolled.
    Starts,
    /// It has been asked to prove its identity.
    Enrols,
    /// It may run.
    Runs,
    /// Its team waits for its turn.
    Waits,
    /// It leaves the machine.
    Leaves,
}

/// Takes views; what successive ones have in common.
#[derive(Debug, Default)]
pub struct Sampler {
    hosts: BTreeMap<Tid, Known>,
    gone: VecDeque<Gone>,
    /// The host whose report comes next: those of a large machine do not fit into one round.
    next: usize,
}

impl Sampler {
    /// The state now. Asking the hosts for their tasks' CPU time takes about `budget`; those that remain are asked in the next rounds.
    pub fn take(&mut self, task: &mut Task, budget: Duration) -> Result<View> {
        let hosts = task.hosts()?;
        let mut tasks = task.tasks(Scope::All)?;
        let own = task.tid();
        tasks.retain(|task| task.tid != own);
        let loads = task.loads()?;
        self.compare(&hosts);
        self.ask_turns(task, &hosts, budget);
        Ok(View {
            gone: self.gone.iter().cloned().collect(),
            teams: self.teams(own),
            tasks: self.tasks(&hosts, &tasks),
            hosts: self.hosts(hosts, &tasks, loads),
            // Queues are the master's; while another host takes its place there is no answer about them.
            batches: task.batches().unwrap_or_default(),
            queues: task.queues().unwrap_or_default(),
            rows: task.rows().unwrap_or_default(),
        })
    }

    /// Which hosts have gone since the round before.
    fn compare(&mut self, hosts: &[HostInfo]) {
        for host in hosts {
            self.gone.retain(|gone| gone.name != host.name);
            self.hosts.entry(host.tid).or_default().name.clone_from(&host.name);
        }
        if self.hosts.len() > hosts.len() {
            let here: HashSet<Tid> = hosts.iter().map(|host| host.tid).collect();
            let gone = &mut self.gone;
            self.hosts.retain(|&tid, known| {
                let is_here = here.contains(&tid);
                if !is_here {
                    gone.push_back(Gone { name: std::mem::take(&mut known.name), tid, when: milliseconds() });
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

    fn hosts(&self, hosts: Vec<HostInfo>, tasks: &[TaskInfo], loads: Vec<LoadRecord>) -> Vec<Host> {
        let mut loads: HashMap<String, Option<LoadVector>> =
            loads.into_iter().map(|record| (record.host, record.load)).collect();
        let mut counts: HashMap<Tid, usize> = HashMap::new();
        for task in tasks {
            *counts.entry(task.host).or_default() += 1;
        }
        let host = |info: HostInfo| {
            let known = self.hosts.get(&info.tid);
            Host {
                load: loads.remove(&info.name).flatten(),
                turns: known.and_then(|known| known.report()).cloned(),
                turn_rates: known.map(|known| known.turns).unwrap_or_default(),
                rates: known.map(Known::total).unwrap_or_default(),
                tasks: counts.get(&info.tid).copied().unwrap_or(0),
                info,
            }
        };
        hosts.into_iter().map(host).collect()
    }

    fn tasks(&self, hosts: &[HostInfo], tasks: &[TaskInfo]) -> Vec<TaskRow> {
        let places: HashMap<Tid, usize> = hosts.iter().enumerate().map(|(at, host)| (host.tid, at)).collect();
        let reported = self.reported_tasks();
        let row = |info: &TaskInfo| {
            let (team, runs, spin) = reported.get(&info.tid).copied().unwrap_or(("", true, None));
            TaskRow {
                host: places.get(&info.host).copied(),
                team: team.to_owned(),
                state: State::of(info.flags, runs),
                rates: self.hosts.get(&info.host).and_then(|known| known.tasks.get(&info.tid)).copied(),
                spin,
                info: info.clone(),
            }
        };
        tasks.iter().map(row).collect()
    }

    /// The team of each task, whether it may run now, and how long it spins.
    fn reported_tasks(&self) -> HashMap<Tid, (&str, bool, Option<u64>)> {
        let teams = self.hosts.values().filter_map(Known::report).flat_map(|report| &report.teams);
        teams
            .flat_map(|team| team.tasks.iter().map(|task| (task.tid, (&*team.name, team.runs, task.spin))))
            .collect()
    }

    /// Teams but that of the observing task.
    fn teams(&self, own: Tid) -> Vec<Team> {
        let mut teams: BTreeMap<&str, Team> = BTreeMap::new();
        for known in self.hosts.values() {
            for team in known.report().iter().flat_map(|report| &report.teams) {
                if team.tasks.len() == 1 && team.tasks.iter().any(|task| task.tid == own) {
                    continue;
                }
                let total = teams
                    .entry(&team.name)
                    .or_insert_with(|| Team { name: team.name.clone(), ..Team::default() });
                total.tasks += team.tasks.len();
                total.hosts += 1;
                total.running += usize::from(team.runs);
                total.rates.add(known.teams.get(&team.name).copied().unwrap_or_default());
            }
        }
        teams.into_values().collect()
    }
}

impl State {
    fn of(flags: i32, runs: bool) -> Self {
        match () {
            () if flags & task_flags::CLOSING != 0 => Self::Leaves,
            () if flags & task_flags::AUTH != 0 || flags == 0 => Self::Enrols,
            () if flags & task_flags::CONNECTED == 0 => Self::Starts,
            () if runs => Self::Runs,
            () => Self::Waits,
        }
    }
}

/// Milliseconds since 1970.
pub fn milliseconds() -> u64 {
    u64::try_from(crate::since_1970().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvm_wire::coscheduling::{Sent, TaskReport, TeamReport};

    fn host(index: i32, name: &str) -> HostInfo {
        let tid = Tid::from_raw(index << 18);
        HostInfo { tid, name: name.into(), arch: "LINUX64".into(), speed: 1000, signature: 0 }
    }

    fn task(tid: i32, name: &str, flags: i32) -> TaskInfo {
        let tid = Tid::from_raw(tid);
        TaskInfo { tid, parent: None, host: tid.to_host(), flags, name: name.into(), pid: 7 }
    }

    fn report(used: u64, messages: u64) -> TurnsReport {
        let sent = Sent { messages, bytes: messages * 8 };
        let tasks = vec![TaskReport { tid: Tid::from_raw(0x40002), used, spin: Some(9), sent }];
        let team = TeamReport { name: "a".into(), runs: true, tasks, ..TeamReport::default() };
        TurnsReport { teams: vec![team], ..TurnsReport::default() }
    }

    #[test]
    fn hosts_that_have_gone_are_remembered_until_they_come_back() {
        let mut sampler = Sampler::default();
        sampler.compare(&[host(1, "a"), host(2, "b")]);
        sampler.compare(&[host(1, "a")]);
        assert_eq!(sampler.gone.iter().map(|gone| &*gone.name).collect::<Vec<_>>(), ["b"]);
        sampler.compare(&[host(1, "a"), host(3, "b")]);
        assert!(sampler.gone.is_empty() && sampler.hosts.len() == 2);
    }

    #[test]
    fn tasks_and_hosts_have_what_is_known() {
        let mut sampler = Sampler::default();
        let hosts = [host(1, "a"), host(2, "b")];
        sampler.compare(&hosts);
        let now = Instant::now();
        for second in [0, 1] {
            let known = sampler.hosts.get_mut(&hosts[0].tid).unwrap();
            known.update(now + Duration::from_secs(second), report(second * 500_000, second * 40));
        }
        let listed = [task(0x40002, "x", 6), task(0x80001, "x", 4), task(0x80002, "y", 0)];
        let tasks = sampler.tasks(&hosts, &listed);
        let TaskRates { cpu, messages, bytes } = tasks[0].rates.unwrap();
        assert_eq!((cpu, messages, bytes), (500, 40, 320));
        assert_eq!((&*tasks[0].team, tasks[0].host, tasks[0].spin), ("a", Some(0), Some(9)));
        assert_eq!((tasks[1].rates, tasks[1].host), (None, Some(1)));
        assert_eq!(
            tasks.iter().map(|task| task.state).collect::<Vec<_>>(),
            [State::Runs, State::Runs, State::Enrols]
        );
        let load = LoadVector { cpu: [755, 0, 0], ..LoadVector::default() };
        let loads = vec![LoadRecord { host: "b".into(), load: Some(load) }];
        let hosts = sampler.hosts(hosts.to_vec(), &listed, loads);
        assert_eq!((hosts[0].tasks, hosts[0].rates.messages, hosts[0].load.is_none()), (1, 40, true));
        assert_eq!((hosts[1].tasks, hosts[1].load.as_ref().unwrap().cpu[0]), (2, 755));
        let teams = sampler.teams(Tid::from_raw(0x40007));
        assert_eq!((&*teams[0].name, teams[0].rates.cpu, teams[0].running), ("a", 500, 1));
        assert!(sampler.teams(Tid::from_raw(0x40002)).is_empty(), "that of the observing task");
    }
}
