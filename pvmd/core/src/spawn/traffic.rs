//! As home: how much the tasks of a spawn talk to each other, for the policy that cuts the graph of a spawn's tasks.
//!
//! Tasks of such a spawn count what they send to whom, and say so when they end. The next spawn of the same program with as many tasks
//! is placed by that, unless its spawner knows better.

use crate::addresses::SpawnId;
use pvm_wire::Tid;
use pvm_wire::calls::turns::Receiver;
use pvm_wire::limits::{TRAFFIC_PAIRS, TRAFFIC_PROGRAMS, TRAFFIC_RECEIVERS};
use pvm_wire::spawn::Pair;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;

/// Reports of tasks that are not known to have been started yet.
const EARLY: usize = 1024;

/// What is known of the spawns whose traffic is counted, those of this home.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    runs: BTreeMap<SpawnId, Run>,
    tasks: BTreeMap<Tid, (SpawnId, u32)>,
    /// The run of each program that the next one is placed by.
    programs: BTreeMap<Program, SpawnId>,
    early: VecDeque<Report>,
}

/// A program, and how many tasks of it are spawned at once.
type Program = (OsString, u32);

#[derive(Debug)]
struct Run {
    program: Program,
    /// Bytes between two tasks, by their numbers, the lower one first.
    pairs: BTreeMap<(u32, u32), u64>,
    /// Tasks that have not ended, or not started.
    open: u32,
}

/// What a task says it has sent.
#[derive(Debug)]
pub(crate) struct Report {
    pub tid: Tid,
    pub receivers: Vec<Receiver>,
    /// The task has ended.
    pub is_last: bool,
}

impl Traffic {
    /// Whether the traffic of a spawn of this number of tasks is counted.
    pub fn is_counted(count: u32) -> bool {
        (2..=TRAFFIC_RECEIVERS as u32).contains(&count)
    }

    /// What an earlier run of a program leads to expect; nothing if there was none.
    pub fn expected(&self, file: &OsString, count: u32) -> Vec<Pair> {
        let run = self.programs.get(&(file.clone(), count)).and_then(|id| self.runs.get(id));
        let pairs = run.into_iter().flat_map(|run| &run.pairs);
        pairs.map(|(&(a, b), &traffic)| Pair { a, b, traffic }).collect()
    }

    /// A spawn begins whose traffic is counted.
    pub fn begin(&mut self, id: SpawnId, file: &OsString, count: u32) {
        if self.runs.len() == TRAFFIC_PROGRAMS {
            self.forget();
        }
        let run = Run { program: (file.clone(), count), pairs: BTreeMap::new(), open: count };
        self.runs.insert(id, run);
    }

    /// The least useful run is forgotten: the oldest one that no spawn would be placed by, or the oldest.
    fn forget(&mut self) {
        let is_unused = |(id, run): &(&SpawnId, &Run)| self.programs.get(&run.program) != Some(*id);
        let Some(id) =
            self.runs.iter().find(is_unused).or_else(|| self.runs.iter().next()).map(|(&id, _)| id)
        else {
            return;
        };
        if let Some(run) = self.runs.remove(&id)
            && self.programs.get(&run.program) == Some(&id)
        {
            self.programs.remove(&run.program);
        }
        self.tasks.retain(|_, (run, _)| *run != id);
    }

    /// Tasks of a spawn run, from a number on: their task ids, or error codes.
    pub fn started(&mut self, id: SpawnId, first: u32, results: &[i32]) {
        if !self.runs.contains_key(&id) {
            return;
        }
        for (number, &result) in (first..).zip(results) {
            if result > 0 {
                self.tasks.insert(Tid::from_raw(result), (id, number));
            }
        }
        for report in std::mem::take(&mut self.early) {
            self.report(report);
        }
    }

    /// A task says what it has sent.
    pub fn report(&mut self, report: Report) {
        let Some(&(id, number)) = self.tasks.get(&report.tid) else {
            if self.early.len() == EARLY {
                self.early.pop_front();
            }
            return self.early.push_back(report);
        };
        let Some(run) = self.runs.get_mut(&id) else { return };
        for Receiver { tid, bytes } in report.receivers {
            let Some(&(_, other)) = self.tasks.get(&tid).filter(|&&(other, _)| other == id) else { continue };
            let (pair, is_full) = ((number.min(other), number.max(other)), run.pairs.len() >= TRAFFIC_PAIRS);
            match run.pairs.get_mut(&pair) {
                Some(sum) => *sum = sum.saturating_add(bytes),
                None if is_full || number == other => {}
                None => _ = run.pairs.insert(pair, bytes),
            }
        }
        if report.is_last {
            run.open = run.open.saturating_sub(1);
            self.tasks.remove(&report.tid);
        }
        self.prefer(id);
    }

    /// The next spawn of the program is placed by this run, if it is over, or no run is known that is.
    fn prefer(&mut self, id: SpawnId) {
        let Some(run) = self.runs.get(&id) else { return };
        let present = self.programs.get(&run.program);
        let is_better = match present.and_then(|present| Some((present, self.runs.get(present)?))) {
            Some((&present, other)) => present < id && (run.open == 0 || other.open > 0),
            None => true,
        };
        if is_better {
            self.programs.insert(run.program.clone(), id);
        }
    }
}

/// Of pairs by the numbers of tasks, those between tasks that wait, by their places among these.
pub(crate) fn among_waiting(pairs: &[Pair], waiting: &[u32]) -> Vec<Pair> {
    if pairs.is_empty() {
        return Vec::new();
    }
    let places: BTreeMap<u32, u32> =
        waiting.iter().zip(0..).map(|(&number, place)| (number, place)).collect();
    let place = |pair: &Pair| {
        let (a, b) = (*places.get(&pair.a)?, *places.get(&pair.b)?);
        Some(Pair { a, b, traffic: pair.traffic })
    };
    pairs.iter().filter_map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tid(number: u32) -> Tid {
        Tid::from_raw(0x40000 + 2 + number as i32)
    }

    fn sent(tid: Tid, to: &[(Tid, u64)], is_last: bool) -> Report {
        let receivers = to.iter().map(|&(tid, bytes)| Receiver { tid, bytes }).collect();
        Report { tid, receivers, is_last }
    }

    fn pair(a: u32, b: u32, traffic: u64) -> Pair {
        Pair { a, b, traffic }
    }

    /// A run of three tasks, numbered from this on.
    fn run(traffic: &mut Traffic, id: u64, at: u32) {
        traffic.begin(SpawnId(id), &"p".into(), 3);
        traffic.started(SpawnId(id), 0, &[0, 1, 2].map(|number| tid(at + number).raw()));
    }

    #[test]
    fn both_ways_count_to_the_same_pair_and_strangers_do_not() {
        let mut traffic = Traffic::default();
        run(&mut traffic, 1, 0);
        run(&mut traffic, 2, 10);
        traffic.report(sent(tid(0), &[(tid(2), 5), (tid(0), 7), (tid(11), 9), (tid(99), 9)], false));
        traffic.report(sent(tid(2), &[(tid(0), 6)], true));
        assert_eq!(traffic.expected(&"p".into(), 3), [pair(0, 2, 11)]);
        assert_eq!(traffic.expected(&"p".into(), 4), []);
        assert_eq!(traffic.expected(&"q".into(), 3), []);
    }

    #[test]
    fn the_latest_run_that_is_over_counts() {
        let mut traffic = Traffic::default();
        run(&mut traffic, 1, 0);
        traffic.report(sent(tid(0), &[(tid(1), 5)], true));
        traffic.report(sent(tid(1), &[], true));
        assert_eq!(traffic.expected(&"p".into(), 3), [pair(0, 1, 5)], "all that is known");
        traffic.report(sent(tid(2), &[], true));
        run(&mut traffic, 2, 10);
        traffic.report(sent(tid(10), &[(tid(12), 8)], true));
        assert_eq!(traffic.expected(&"p".into(), 3), [pair(0, 1, 5)], "the second is not over");
        traffic.report(sent(tid(11), &[], true));
        traffic.report(sent(tid(12), &[], true));
        assert_eq!(traffic.expected(&"p".into(), 3), [pair(0, 2, 8)]);
        assert!(traffic.tasks.is_empty());
    }

    #[test]
    fn reports_may_come_before_the_news_of_the_start() {
        let mut traffic = Traffic::default();
        traffic.begin(SpawnId(1), &"p".into(), 2);
        traffic.report(sent(tid(1), &[(tid(0), 4)], true));
        traffic.started(SpawnId(1), 0, &[tid(0).raw(), tid(1).raw()]);
        assert_eq!(traffic.expected(&"p".into(), 2), [pair(0, 1, 4)]);
        for number in 0..2 * EARLY as u32 {
            traffic.report(sent(tid(100 + number), &[], true));
        }
        assert_eq!(traffic.early.len(), EARLY);
    }

    #[test]
    fn programs_are_forgotten() {
        let mut traffic = Traffic::default();
        for id in 0..3 * TRAFFIC_PROGRAMS as u32 {
            let file = OsString::from(format!("p{}", id / 2));
            traffic.begin(SpawnId(id.into()), &file, 2);
            traffic.started(SpawnId(id.into()), 0, &[tid(2 * id).raw(), tid(2 * id + 1).raw()]);
            traffic.report(sent(tid(2 * id), &[(tid(2 * id + 1), 1)], id % 2 == 0));
            traffic.report(sent(tid(2 * id + 1), &[], true));
        }
        assert_eq!(traffic.runs.len(), TRAFFIC_PROGRAMS);
        assert!(traffic.programs.len() <= TRAFFIC_PROGRAMS && traffic.tasks.len() <= 2 * TRAFFIC_PROGRAMS);
        assert_eq!(traffic.expected(&"p0".into(), 2), []);
        assert_eq!(traffic.expected(&format!("p{TRAFFIC_PROGRAMS}").into(), 2), [pair(0, 1, 1)]);
    }

    #[test]
    fn pairs_by_their_places_among_those_that_wait() {
        let pairs = [pair(0, 5, 1), pair(5, 7, 2), pair(7, 8, 3)];
        assert_eq!(among_waiting(&pairs, &[7, 5, 8]), [pair(1, 0, 2), pair(0, 2, 3)]);
        assert_eq!(among_waiting(&[], &[1]), []);
    }
}
