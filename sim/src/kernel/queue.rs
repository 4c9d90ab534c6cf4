//! The run queue of one processor: earliest eligible virtual deadline first.
//!
//! A task's virtual runtime passes more slowly the greater its weight. A task is *eligible* if its virtual runtime is at most the
//! weighted average of its queue, that is, if it has had no more than its share. Of the eligible tasks the one with the earliest
//! virtual deadline is picked. Names are those of `kernel/sched/fair.c`.

use super::{Nanos, TaskId};

/// The weight of nice 0 (`sched_prio_to_weight`).
pub const NORMAL: u64 = 1024;
/// The weight of the idle class (`WEIGHT_IDLEPRIO`).
pub const IDLE: u64 = 3;
/// The half-life of a load average (`LOAD_AVG_PERIOD`), ns.
const HALF_LIFE: f64 = 32e6;

/// Whether a task is on a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It sleeps.
    Away,
    /// It runs or waits.
    Queued,
    /// It sleeps, and stays on its queue until its virtual time has caught up (`DELAY_DEQUEUE`).
    Delayed,
}

/// A task.
#[derive(Clone, Debug)]
pub struct Task {
    pub weight: u64,
    /// It is in the idle class.
    pub is_idle: bool,
    pub slice: Nanos,
    pub vruntime: i64,
    pub deadline: i64,
    /// Up to this virtual runtime it keeps the processor while it is eligible (`vprot`).
    pub protected: i64,
    /// By how much it was behind the average when it left its queue.
    pub lag: i64,
    pub place: Place,
    /// Its processor, or the last one.
    pub cpu: usize,
    /// Since when it has run without being charged, or when it last ran.
    pub since: Nanos,
    /// Since when it waits for the processor.
    pub queued: Nanos,
    pub ran: Nanos,
    pub waited: Nanos,
    /// The average part of the time for which it has not slept, and when that was true.
    load: f64,
    load_at: Nanos,
}

impl Task {
    pub fn new(weight: u64, slice: Nanos) -> Self {
        Self {
            weight,
            is_idle: false,
            slice,
            vruntime: 0,
            deadline: 0,
            protected: 0,
            lag: 0,
            place: Place::Away,
            cpu: 0,
            since: 0,
            queued: 0,
            ran: 0,
            waited: 0,
            // A new task counts in full (`init_entity_runnable_average`).
            load: 1.0,
            load_at: 0,
        }
    }

    /// This time in its virtual time.
    pub fn of_virtual(&self, time: Nanos) -> i64 {
        (u128::from(time) * u128::from(NORMAL) / u128::from(self.weight)) as i64
    }

    pub fn is_protected(&self) -> bool {
        self.vruntime < self.protected
    }

    fn load_now(&self, now: Nanos) -> f64 {
        let kept = libm::exp2(-(now.saturating_sub(self.load_at) as f64) / HALF_LIFE);
        let target = if self.place == Place::Queued { 1.0 } else { 0.0 };
        target + (self.load - target) * kept
    }

    /// Its part of its processor's load.
    pub fn load(&self, now: Nanos) -> f64 {
        self.weight as f64 * self.load_now(now)
    }

    /// Whether it is on a queue changes.
    pub fn set_place(&mut self, place: Place, now: Nanos) {
        self.load = self.load_now(now);
        self.load_at = now;
        if place == Place::Queued && self.place != Place::Queued {
            self.queued = now;
        }
        self.place = place;
    }
}

/// The queue of a processor, and the task that runs there.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    pub all: Vec<TaskId>,
    pub running: Option<TaskId>,
    /// The virtual time at which the queue became empty.
    floor: i64,
}

impl Queue {
    /// The weighted average of the virtual runtimes (`avg_vruntime`).
    pub fn average(&self, tasks: &[Task]) -> i64 {
        let Some(&first) = self.all.first() else { return self.floor };
        let base = tasks[first].vruntime;
        let (sum, weight) = self.sums(tasks, base);
        base + sum.div_euclid(weight) as i64
    }

    fn sums(&self, tasks: &[Task], base: i64) -> (i128, i128) {
        self.all.iter().fold((0, 0), |(sum, weight), &id| {
            let of = i128::from(tasks[id].weight);
            (sum + of * i128::from(tasks[id].vruntime - base), weight + of)
        })
    }

    /// Whether a task has had no more than its share (`entity_eligible`).
    pub fn is_eligible(&self, tasks: &[Task], id: TaskId) -> bool {
        self.sums(tasks, tasks[id].vruntime).0 >= 0
    }

    /// The task that is to run (`__pick_eevdf`); with `protects` the one that runs keeps the rest of its slice while it is eligible.
    pub fn pick(&self, tasks: &[Task], protects: bool) -> Option<TaskId> {
        if let [only] = self.all[..] {
            return Some(only);
        }
        let running = self.running.filter(|&id| self.is_eligible(tasks, id));
        if let Some(id) = running.filter(|&id| protects && tasks[id].is_protected()) {
            return Some(id);
        }
        let eligible = self.all.iter().copied().filter(|&id| self.is_eligible(tasks, id));
        eligible.min_by_key(|&id| (tasks[id].deadline, self.running == Some(id)))
    }

    /// Charges the task that runs (`update_curr`); returns whether the processor is to choose anew.
    pub fn charge(&mut self, tasks: &mut [Task], now: Nanos) -> bool {
        let Some(id) = self.running else { return false };
        let task = &mut tasks[id];
        let time = now.saturating_sub(std::mem::replace(&mut task.since, now));
        task.ran += time;
        task.vruntime += task.of_virtual(time);
        let is_over = task.vruntime >= task.deadline;
        if is_over {
            task.deadline = task.vruntime + task.of_virtual(task.slice);
        }
        let is_protected = task.is_protected();
        self.all.len() > 1 && (is_over || !is_protected)
    }

    /// Puts a task on the queue by its lag (`place_entity`). `left` is what is left to its deadline; without it, a slice.
    pub fn enter(&mut self, tasks: &mut [Task], id: TaskId, left: Option<i64>) {
        let average = self.average(tasks);
        let others: i128 = self.all.iter().map(|&id| i128::from(tasks[id].weight)).sum();
        let task = &mut tasks[id];
        // The task moves the average itself: so that it is behind by its lag afterwards, it has to enter further behind.
        let lag = match others {
            0 => 0,
            others => i128::from(task.lag) * (others + i128::from(task.weight)) / others,
        };
        task.vruntime = average - lag as i64;
        task.deadline = task.vruntime + left.unwrap_or_else(|| task.of_virtual(task.slice));
        self.all.push(id);
    }

    /// Takes a task off the queue, and notes its lag (`update_entity_lag`). Returns what is left to its deadline.
    pub fn leave(&mut self, tasks: &mut [Task], id: TaskId, tick: Nanos) -> i64 {
        let average = self.average(tasks);
        self.all.retain(|&other| other != id);
        if self.all.is_empty() {
            self.floor = average;
        }
        let task = &mut tasks[id];
        let most = task.of_virtual((2 * task.slice).max(tick));
        task.lag = (average - task.vruntime).clamp(-most, most);
        task.deadline - task.vruntime
    }

    /// A task begins to run (`set_next_entity`). It is protected for the shortest slice of the queue.
    pub fn start(&mut self, tasks: &mut [Task], id: TaskId, now: Nanos) {
        let least = self.all.iter().map(|&id| tasks[id].slice).min().unwrap_or_default();
        let task = &mut tasks[id];
        task.protected = if least < task.slice {
            task.deadline.min(task.vruntime + task.of_virtual(least))
        } else {
            task.deadline
        };
        task.since = now;
        task.waited += now.saturating_sub(task.queued);
        self.running = Some(id);
    }
}
