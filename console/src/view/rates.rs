//! What changes between two reports of a host, per second.

use pvm_wire::coscheduling::{TaskReport, TeamReport, TurnsReport};
use pvm3::Tid;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// A host of the round before, and the rates of its tasks and teams.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub name: String,
    report: Option<(Instant, TurnsReport)>,
    pub tasks: HashMap<Tid, TaskRates>,
    pub teams: BTreeMap<String, TeamRates>,
    pub turns: TurnRates,
}

/// Rates of a task, or of several together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskRates {
    /// CPU time, in thousandths of a core.
    pub cpu: u64,
    /// Messages sent per second.
    pub messages: u64,
    /// Bytes sent per second.
    pub bytes: u64,
}

/// Rates of a team, in thousandths of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TeamRates {
    /// CPU time of its tasks.
    pub cpu: u64,
    /// Time that they wanted a core and had none.
    pub waited: u64,
    /// CPU time of the daemons for its messages.
    pub overhead: u64,
    /// Messages that its tasks have sent per second.
    pub messages: u64,
}

/// Rates of the turns on a host.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TurnRates {
    /// Changes of the team that has the turn, per second.
    pub switches: f64,
    /// Epochs adopted from messages, per second.
    pub adopted: f64,
    /// Messages with an epoch that is no later than the host's, per second.
    pub stale: f64,
    /// Messages that changed nothing because their team has had more than its share, per second.
    pub refused: f64,
    /// Part of the time in which a team had the turn because of a message.
    pub boosted: f64,
}

impl TaskRates {
    /// Adds those of other tasks.
    pub fn add(&mut self, more: Self) {
        self.cpu += more.cpu;
        self.messages += more.messages;
        self.bytes += more.bytes;
    }
}

impl TeamRates {
    /// Adds those of the team on another host.
    pub(super) fn add(&mut self, more: Self) {
        self.cpu += more.cpu;
        self.waited += more.waited;
        self.overhead += more.overhead;
        self.messages += more.messages;
    }
}

impl Known {
    /// The last report.
    pub fn report(&self) -> Option<&TurnsReport> {
        self.report.as_ref().map(|(_, report)| report)
    }

    /// The rates of all tasks together.
    pub fn total(&self) -> TaskRates {
        let mut total = TaskRates::default();
        self.tasks.values().for_each(|&rates| total.add(rates));
        total
    }

    /// A new report: rates are those since the one before.
    pub fn update(&mut self, now: Instant, report: TurnsReport) {
        if let Some((then, old)) = &self.report {
            let elapsed = now.duration_since(*then);
            (self.tasks, self.teams) = between(old, &report, elapsed);
            self.turns = turns(old, &report, elapsed);
        }
        self.report = Some((now, report));
    }
}

/// The increase of a counter in this time, per second and times `unit`.
fn rate((new, old): (u64, u64), elapsed: Duration, unit: u64) -> u64 {
    let increase = u128::from(new.saturating_sub(old)) * u128::from(unit) * 1_000_000;
    u64::try_from(increase / elapsed.as_micros().max(1)).unwrap_or(u64::MAX)
}

/// Thousandths of a core, of microseconds.
fn cores(counter: (u64, u64), elapsed: Duration) -> u64 {
    rate(counter, elapsed, 1) / 1000
}

fn between(
    old: &TurnsReport,
    new: &TurnsReport,
    elapsed: Duration,
) -> (HashMap<Tid, TaskRates>, BTreeMap<String, TeamRates>) {
    let old_tasks: HashMap<Tid, &TaskReport> =
        old.teams.iter().flat_map(|team| &team.tasks).map(|task| (task.tid, task)).collect();
    let old_teams: HashMap<&str, &TeamReport> = old.teams.iter().map(|team| (&*team.name, team)).collect();
    let (mut tasks, mut teams) = (HashMap::new(), BTreeMap::new());
    for team in &new.teams {
        // Nothing is known of what was before the first report.
        let before = old_teams.get(&*team.name).copied().unwrap_or(team);
        let mut total = TeamRates {
            waited: cores((team.waited, before.waited), elapsed),
            overhead: cores((team.overhead, before.overhead), elapsed),
            ..TeamRates::default()
        };
        for task in &team.tasks {
            let before = old_tasks.get(&task.tid).copied().unwrap_or(task);
            let rates = TaskRates {
                cpu: cores((task.used, before.used), elapsed),
                messages: rate((task.sent.messages, before.sent.messages), elapsed, 1),
                bytes: rate((task.sent.bytes, before.sent.bytes), elapsed, 1),
            };
            total.cpu += rates.cpu;
            total.messages += rates.messages;
            tasks.insert(task.tid, rates);
        }
        teams.insert(team.name.clone(), total);
    }
    (tasks, teams)
}

fn turns(old: &TurnsReport, new: &TurnsReport, elapsed: Duration) -> TurnRates {
    let per_second = |get: fn(&TurnsReport) -> u64| {
        get(new).saturating_sub(get(old)) as f64 / elapsed.as_secs_f64().max(1e-6)
    };
    TurnRates {
        switches: per_second(|report| report.switches),
        adopted: per_second(|report| report.adopted),
        stale: per_second(|report| report.old),
        refused: per_second(|report| report.unfair),
        boosted: per_second(|report| report.boost) / 1e6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvm_wire::coscheduling::Sent;

    const TASK: Tid = Tid::from_raw(0x40002);

    fn report(used: u64, waited: u64, sent: u64, switches: u64) -> TurnsReport {
        let sent = Sent { messages: sent, bytes: sent * 100 };
        let tasks = vec![TaskReport { tid: TASK, used, spin: None, sent }];
        let team = TeamReport { name: "a".into(), runs: true, waited, overhead: waited * 2, tasks };
        TurnsReport { switches, boost: switches * 10_000, teams: vec![team], ..TurnsReport::default() }
    }

    #[test]
    fn rates_are_those_between_two_reports() {
        let (mut known, now) = (Known::default(), Instant::now());
        known.update(now, report(5_000_000, 7, 100, 100));
        assert!(known.tasks.is_empty());
        known.update(now + Duration::from_secs(2), report(6_500_000, 1_000_007, 160, 140));
        assert_eq!(known.tasks[&TASK], TaskRates { cpu: 750, messages: 30, bytes: 3000 });
        let TeamRates { cpu, waited, overhead, messages } = known.teams["a"];
        assert_eq!((cpu, waited, overhead, messages), (750, 500, 1000, 30));
        assert_eq!((known.turns.switches, known.turns.boosted), (20.0, 0.2));
    }

    #[test]
    fn a_new_task_and_counters_that_go_back_have_no_rate() {
        let (mut known, now) = (Known::default(), Instant::now());
        known.update(now, TurnsReport::default());
        known.update(now, report(7, 8, 9, 10));
        assert_eq!((known.tasks[&TASK], known.teams["a"]), (TaskRates::default(), TeamRates::default()));
        known.update(now + Duration::from_secs(1), report(1, 1, 1, 1));
        assert_eq!(known.total(), TaskRates::default());
    }
}
