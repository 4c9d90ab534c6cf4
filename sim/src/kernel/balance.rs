//! Which processor a task wakes on, and what processors take from each other.

use super::queue::Place;
use super::{Kernel, Nanos, TaskId};

const MS: Nanos = 1_000_000;
/// A task that ran less than this ago stays for its cache's sake (`sysctl_sched_migration_cost`).
const HOT: Nanos = MS / 2;
/// Failed attempts after which it may move all the same (`cache_nice_tries` of processors that share a cache).
const PATIENCE: u32 = 1;
/// A processor that computes balances this much less often (`busy_factor`).
const BUSY: Nanos = 16;
/// A load has to exceed another one by this much (`imbalance_pct`).
const EXCESS: f64 = 1.17;
/// A processor that is idle for less than this on the average takes nothing when it becomes idle: what a look at the others costs
/// (`max_newidle_lb_cost`, which the kernel measures; some microseconds on two processors).
const LOOK: Nanos = 20_000;
/// The average of idle times is limited to this (`max_idle_balance_cost`, twice).
const MOST_IDLE: Nanos = MS;

/// A processor's state of balancing.
#[derive(Clone, Debug)]
pub struct State {
    /// When it is due.
    next: Nanos,
    /// In ms: from one for each processor to two for each.
    interval: Nanos,
    processors: Nanos,
    /// Attempts in a row that have found something and moved nothing.
    failed: u32,
    idle_since: Option<Nanos>,
    mean_idle: Nanos,
}

/// The result of an attempt.
enum Pulled {
    Nothing,
    Failed,
    Moved,
}

impl State {
    pub fn new(processors: usize) -> Self {
        let processors = processors as Nanos;
        Self {
            next: 0,
            interval: processors,
            processors,
            failed: 0,
            idle_since: Some(0),
            mean_idle: MOST_IDLE,
        }
    }

    pub fn begin_idle(&mut self, now: Nanos) {
        self.idle_since.get_or_insert(now);
    }

    pub fn end_idle(&mut self, now: Nanos) {
        if let Some(since) = self.idle_since.take() {
            let time = now - since;
            // `update_avg`: an eighth of the difference.
            let mean = (self.mean_idle * 7 + time) / 8;
            self.mean_idle = mean.min(MOST_IDLE);
        }
    }
}

impl Kernel {
    fn is_free(&self, cpu: usize) -> bool {
        self.queues[cpu].all.is_empty()
    }

    /// Only tasks of the idle class are there (`sched_idle_cpu`).
    fn is_calm(&self, cpu: usize) -> bool {
        let all = &self.queues[cpu].all;
        let awake = || all.iter().filter(|&&id| self.tasks[id].place == Place::Queued);
        awake().count() > 0 && awake().all(|&id| self.tasks[id].is_idle)
    }

    fn load(&self, cpu: usize, now: Nanos) -> f64 {
        self.tasks.iter().filter(|task| task.cpu == cpu).map(|task| task.load(now)).sum()
    }

    /// Tasks that run or want to.
    fn count(&self, cpu: usize) -> usize {
        self.queues[cpu].all.iter().filter(|&&id| self.tasks[id].place == Place::Queued).count()
    }

    /// The processor for a task that wakes: its last one or that of the waker (`wake_affine`), or one near by that is idle, or has
    /// nothing but the idle class (`select_idle_sibling`).
    pub(super) fn select(&self, id: TaskId, by: Option<usize>, now: Nanos) -> usize {
        let last = self.tasks[id].cpu;
        let takes = |cpu: usize| self.is_free(cpu) || self.is_calm(cpu);
        let this = by.unwrap_or(last);
        let own = self.tasks[id].load(now);
        let target = if self.is_free(last) {
            last
        } else if this != last && (self.load(this, now) + own) * 100.0 < (self.load(last, now) - own) * 108.0
        {
            this
        } else {
            last
        };
        let count = self.queues.len();
        let near = (1..count).map(|step| (target + step) % count);
        [target, last].into_iter().chain(near).find(|&cpu| takes(cpu)).unwrap_or(target)
    }

    /// A processor that has nothing left takes a task that waits elsewhere, if it expects to be idle for long enough.
    pub(super) fn pull_newly_idle(&mut self, cpu: usize, now: Nanos) -> bool {
        self.balance[cpu].mean_idle >= LOOK && matches!(self.pull(cpu, false, now), Pulled::Moved)
    }

    /// The balance that is due at a tick, if it is.
    pub(super) fn balance(&mut self, cpu: usize, now: Nanos) {
        if self.queues.len() < 2 || now < self.balance[cpu].next {
            return;
        }
        let pulled = self.pull(cpu, true, now);
        let busy = if self.is_free(cpu) || self.is_calm(cpu) { 1 } else { BUSY };
        let state = &mut self.balance[cpu];
        match pulled {
            Pulled::Nothing => {
                state.failed = 0;
                state.interval = (state.interval * 2).min(state.processors * 2);
            }
            Pulled::Failed => {
                state.failed += 1;
                state.interval = state.processors;
            }
            Pulled::Moved => {
                state.failed = 0;
                state.interval = state.processors;
            }
        }
        state.next = now + state.interval * MS * busy;
    }

    /// Takes tasks from the busiest processor. One that is idle takes by numbers; one that is not, by loads.
    fn pull(&mut self, cpu: usize, is_tick: bool, now: Nanos) -> Pulled {
        let others = (0..self.queues.len()).filter(|&other| other != cpu && self.count(other) > 1);
        let others: Vec<usize> = others.collect();
        let is_free = self.is_free(cpu);
        let busiest = if is_free {
            let least = |&other: &usize| (std::cmp::Reverse(self.count(other)), other);
            others.iter().copied().min_by_key(least)
        } else {
            others.iter().copied().max_by(|&a, &b| self.load(a, now).total_cmp(&self.load(b, now)))
        };
        let Some(from) = busiest else { return Pulled::Nothing };
        let failed = self.balance[cpu].failed;
        let surplus = if is_free {
            f64::INFINITY
        } else {
            let (own, its) = (self.load(cpu, now), self.load(from, now));
            let count = self.queues.len();
            let mean = (0..count).map(|cpu| self.load(cpu, now)).sum::<f64>() / count as f64;
            if its <= own * EXCESS || own >= mean {
                return Pulled::Nothing;
            }
            (its - mean).min(mean - own)
        };
        let is_small = |id: TaskId| self.tasks[id].load(now) / f64::from(1_u32 << failed.min(16)) <= surplus;
        let is_cold = |id: TaskId| {
            let task = &self.tasks[id];
            task.is_idle || now.saturating_sub(task.since) >= HOT || failed > PATIENCE
        };
        let waits =
            |id: TaskId| self.tasks[id].place == Place::Queued && self.queues[from].running != Some(id);
        let all = self.queues[from].all.iter().copied();
        let moves = all.filter(|&id| waits(id) && is_small(id) && is_cold(id));
        // The one that has not run for longest comes first.
        let Some(id) = moves.min_by_key(|&id| self.tasks[id].since) else { return Pulled::Failed };
        self.migrate(id, cpu, is_tick, now);
        Pulled::Moved
    }

    /// A task that waits moves, with its lag and what is left to its deadline.
    fn migrate(&mut self, id: TaskId, to: usize, is_offered: bool, now: Nanos) {
        let from = self.tasks[id].cpu;
        self.queues[from].charge(&mut self.tasks, now);
        let left = self.queues[from].leave(&mut self.tasks, id, self.setting.tick);
        self.tasks[id].cpu = to;
        let is_due = self.queues[to].charge(&mut self.tasks, now);
        self.queues[to].enter(&mut self.tasks, id, Some(left));
        if is_offered {
            self.offer(id, is_due, now);
        }
    }
}
