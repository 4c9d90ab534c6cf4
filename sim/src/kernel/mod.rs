//! A model of Linux's scheduler for the processors of one node: EEVDF (from 6.6; the rules are those of 6.18), wake-ups, and balancing.
//!
//! A state machine without a clock: the driver reports what tasks do and when, and asks which ones run. The model has the parts that decide
//! which task runs when, among a few tasks that compute, spin or sleep, in two classes: normal tasks and `SCHED_IDLE`.
//!
//! | kernel | here |
//! |---|---|
//! | `pick_eevdf`, `place_entity`, `update_curr`, delayed dequeue | `queue` |
//! | `check_preempt_wakeup_fair`, with `RUN_TO_PARITY` and `PREEMPT_SHORT` | [`Kernel::wake`] |
//! | `select_task_rq_fair`: idle processors first, then `wake_affine` | [`Kernel::wake`] |
//! | `sched_balance_newidle`, `sched_balance_domains` | `balance` |
//!
//! All processors share a cache, and ticks are on all of them at once. There are no control groups, no hyper-threads, and no
//! migration of a task that runs.

mod balance;
mod queue;

pub use queue::NORMAL;

use queue::{IDLE, Place, Queue, Task};

/// A time, or a duration, in nanoseconds.
pub type Nanos = u64;
/// A task's number on its node.
pub type TaskId = usize;

/// The weight of nice -10 (`sched_prio_to_weight`).
pub const FAVOURED: u64 = 9548;

/// The kernel's parameters.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The processors.
    pub processors: usize,
    /// Between two ticks (`CONFIG_HZ`).
    pub tick: Nanos,
    /// The slice that a task asks for (`base_slice_ns`).
    pub slice: Nanos,
}

impl Setting {
    /// The kernel's own slice: 0.7 ms, times one more than the logarithm of the processors, of which at most eight count
    /// (`sched_update_scaling`).
    pub fn base_slice(processors: usize) -> Nanos {
        700_000 * (1 + Nanos::from(processors.clamp(1, 8).ilog2()))
    }
}

/// The scheduler of a node.
#[derive(Clone, Debug)]
pub struct Kernel {
    setting: Setting,
    tasks: Vec<Task>,
    queues: Vec<Queue>,
    balance: Vec<balance::State>,
}

impl Kernel {
    /// Processors without tasks.
    pub fn new(setting: Setting) -> Self {
        let processors = setting.processors.max(1);
        Self {
            setting,
            tasks: Vec::new(),
            queues: vec![Queue::default(); processors],
            balance: vec![balance::State::new(processors); processors],
        }
    }

    /// A task that sleeps. Tasks are counted from 0.
    pub fn add(&mut self) -> TaskId {
        self.tasks.push(Task::new(NORMAL, self.setting.slice));
        self.tasks.len() - 1
    }

    /// The task that runs on a processor.
    pub fn running(&self, cpu: usize) -> Option<TaskId> {
        self.queues[cpu].running
    }

    /// The processor on which a task runs.
    pub fn runs_on(&self, id: TaskId) -> Option<usize> {
        let cpu = self.tasks[id].cpu;
        (self.queues[cpu].running == Some(id)).then_some(cpu)
    }

    /// Whether another task waits for a processor.
    pub fn is_wanted(&self, cpu: usize) -> bool {
        self.queues[cpu].all.len() > 1
    }

    /// The time for which a task has run, and that for which it has waited for a processor.
    pub fn times(&mut self, id: TaskId, now: Nanos) -> (Nanos, Nanos) {
        let task = &self.tasks[id];
        let current = |since: Nanos| now.saturating_sub(since);
        match self.runs_on(id) {
            Some(_) => (task.ran + current(task.since), task.waited),
            None if task.place == Place::Queued => (task.ran, task.waited + current(task.queued)),
            None => (task.ran, task.waited),
        }
    }

    /// A new task begins on the processor with the fewest.
    pub fn start(&mut self, id: TaskId, now: Nanos) {
        let least = (0..self.queues.len()).min_by_key(|&cpu| self.queues[cpu].all.len());
        self.tasks[id].cpu = least.unwrap_or_default();
        // Newcomers have half a slice (`PLACE_DEADLINE_INITIAL`).
        let left = self.tasks[id].of_virtual(self.setting.slice / 2);
        self.enter(id, Some(left), now);
    }

    /// A task wakes, by what runs on a processor, or by something from outside.
    pub fn wake(&mut self, id: TaskId, by: Option<usize>, now: Nanos) {
        match self.tasks[id].place {
            Place::Queued => {}
            Place::Delayed => self.wake_delayed(id, now),
            Place::Away => {
                self.tasks[id].cpu = self.select(id, by, now);
                self.enter(id, None, now);
            }
        }
    }

    /// The task that runs sleeps. If it has had more than its share it stays on the queue, and what it owes is not forgotten.
    pub fn sleep(&mut self, cpu: usize, now: Nanos) {
        let Some(id) = self.queues[cpu].running else { return };
        self.queues[cpu].charge(&mut self.tasks, now);
        if self.queues[cpu].is_eligible(&self.tasks, id) {
            self.queues[cpu].leave(&mut self.tasks, id, self.setting.tick);
            self.tasks[id].set_place(Place::Away, now);
        } else {
            self.tasks[id].set_place(Place::Delayed, now);
        }
        self.queues[cpu].running = None;
        self.schedule(cpu, now);
    }

    /// The task that runs lets others run first (`sched_yield`): it gives up what is left of its slice.
    pub fn yields(&mut self, cpu: usize, now: Nanos) {
        let Some(id) = self.queues[cpu].running.filter(|_| self.is_wanted(cpu)) else { return };
        self.queues[cpu].charge(&mut self.tasks, now);
        if self.queues[cpu].is_eligible(&self.tasks, id) {
            let task = &mut self.tasks[id];
            task.vruntime = task.deadline;
            task.deadline += task.of_virtual(task.slice);
        }
        self.schedule(cpu, now);
    }

    /// A task is put into the idle class, or taken out of it. The kernel interrupts no task for that: the change counts when it chooses
    /// next (`__sched_setscheduler`: the priority, by which it would, is the same in both classes).
    pub fn set_idle(&mut self, id: TaskId, is_idle: bool, now: Nanos) {
        if self.tasks[id].is_idle != is_idle {
            self.tasks[id].is_idle = is_idle;
            self.set_weight(id, if is_idle { IDLE } else { NORMAL }, now);
        }
    }

    /// A task gets another weight and asks for another slice.
    pub fn favour(&mut self, id: TaskId, (weight, slice): (u64, Nanos), now: Nanos) {
        self.tasks[id].slice = slice;
        self.set_weight(id, weight, now);
    }

    /// A tick on all processors.
    pub fn tick(&mut self, now: Nanos) {
        for cpu in 0..self.queues.len() {
            self.settle(cpu, now);
            self.balance(cpu, now);
        }
    }

    fn set_weight(&mut self, id: TaskId, weight: u64, now: Nanos) {
        let old = self.tasks[id].weight;
        let scaled = |value: i64| (i128::from(value) * i128::from(old) / i128::from(weight)) as i64;
        if self.tasks[id].place == Place::Away {
            let task = &mut self.tasks[id];
            (task.weight, task.lag) = (weight, scaled(task.lag));
            return;
        }
        let cpu = self.tasks[id].cpu;
        let is_due = self.queues[cpu].charge(&mut self.tasks, now);
        let left = self.queues[cpu].leave(&mut self.tasks, id, self.setting.tick);
        let task = &mut self.tasks[id];
        (task.weight, task.lag) = (weight, scaled(task.lag));
        // What it is protected for passes with its virtual time, too.
        task.protected = scaled(task.protected - task.vruntime);
        self.queues[cpu].enter(&mut self.tasks, id, Some(scaled(left)));
        let task = &mut self.tasks[id];
        task.protected += task.vruntime;
        if is_due {
            self.schedule(cpu, now);
        }
    }

    fn settle(&mut self, cpu: usize, now: Nanos) {
        if self.queues[cpu].charge(&mut self.tasks, now) {
            self.schedule(cpu, now);
        }
    }

    fn enter(&mut self, id: TaskId, left: Option<i64>, now: Nanos) {
        let cpu = self.tasks[id].cpu;
        let is_due = self.queues[cpu].charge(&mut self.tasks, now);
        self.queues[cpu].enter(&mut self.tasks, id, left);
        self.tasks[id].set_place(Place::Queued, now);
        self.offer(id, is_due, now);
    }

    /// It slept without having left its queue. What it owes by now stays, and it saves up nothing (`DELAY_ZERO`).
    fn wake_delayed(&mut self, id: TaskId, now: Nanos) {
        let cpu = self.tasks[id].cpu;
        let is_due = self.queues[cpu].charge(&mut self.tasks, now);
        if self.queues[cpu].average(&self.tasks) > self.tasks[id].vruntime {
            self.queues[cpu].leave(&mut self.tasks, id, self.setting.tick);
            self.tasks[id].lag = 0;
            self.queues[cpu].enter(&mut self.tasks, id, None);
        }
        self.tasks[id].set_place(Place::Queued, now);
        self.offer(id, is_due, now);
    }

    /// Whether a task that has come takes the processor at once (`check_preempt_wakeup_fair`).
    fn offer(&mut self, id: TaskId, is_due: bool, now: Nanos) {
        let cpu = self.tasks[id].cpu;
        let Some(running) = self.queues[cpu].running else { return self.schedule(cpu, now) };
        let (new, old) = (&self.tasks[id], &self.tasks[running]);
        let preempts = match (new.is_idle, old.is_idle) {
            (false, true) => true,
            (true, _) => false,
            (false, false) => {
                let queue = &self.queues[cpu];
                // A shorter slice overrides the protection of the one that runs.
                let is_short = new.slice < old.slice && queue.is_eligible(&self.tasks, id);
                queue.pick(&self.tasks, !is_short) == Some(id)
            }
        };
        if preempts {
            let running = &mut self.tasks[running];
            running.protected = running.protected.min(running.vruntime);
        }
        if preempts || is_due {
            self.schedule(cpu, now);
        }
    }

    /// A processor chooses (`pick_next_task_fair`).
    fn schedule(&mut self, cpu: usize, now: Nanos) {
        loop {
            let Some(id) = self.queues[cpu].pick(&self.tasks, true) else {
                if self.pull_newly_idle(cpu, now) {
                    continue;
                }
                return self.stop(cpu, None, now);
            };
            if self.tasks[id].place == Place::Delayed {
                self.queues[cpu].leave(&mut self.tasks, id, self.setting.tick);
                let task = &mut self.tasks[id];
                task.lag = task.lag.min(0);
                task.set_place(Place::Away, now);
                continue;
            }
            return self.stop(cpu, Some(id), now);
        }
    }

    /// What runs is succeeded by this.
    fn stop(&mut self, cpu: usize, next: Option<TaskId>, now: Nanos) {
        let before = self.queues[cpu].running;
        if before == next && next.is_some() {
            return;
        }
        if let Some(id) = before {
            self.tasks[id].queued = now;
        }
        let Some(id) = next else {
            self.queues[cpu].running = None;
            return self.balance[cpu].begin_idle(now);
        };
        self.balance[cpu].end_idle(now);
        self.queues[cpu].start(&mut self.tasks, id, now);
    }
}

#[cfg(test)]
mod tests;
