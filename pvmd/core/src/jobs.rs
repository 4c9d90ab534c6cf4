//! As node: tasks of jobs that the master has this host run. No more run at a time than the host has slots; the rest waits here.

use crate::event::{Now, Output, Program, Used};
use pvm_wire::jobs::{
    GROUP_VARIABLE, JobId, JobSent, OutputName, TaskEvent, TaskOrder, TaskReport, VARIABLES, group_of,
};
use pvm_wire::spawn::entry;
use pvm_wire::{HostIndex, Tid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// A task of a job, by its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JobTask {
    pub job: JobId,
    pub task: u32,
}

/// Tasks of jobs that this host was given.
#[derive(Debug, Default)]
pub(crate) struct JobTasks {
    /// Those that wait for slots, in the order in which they came.
    waiting: VecDeque<TaskOrder>,
    running: BTreeMap<JobTask, Running>,
    /// What the master is still to be told.
    reports: Vec<TaskReport>,
    /// Bytes that tasks of a job have sent to another host, of which the master has not been told.
    sent: BTreeMap<(JobId, HostIndex), u64>,
}

/// One that runs, or is about to.
#[derive(Debug)]
struct Running {
    tid: Tid,
    since: Now,
    has_started: bool,
    slots: u32,
    time: Option<Duration>,
    used: Used,
    /// The limit that it was above, for which it is ended.
    limit: Option<String>,
    /// Whether it is to end.
    is_ending: bool,
}

impl Running {
    /// It is to end.
    fn end(&mut self) -> Tid {
        self.is_ending = true;
        self.tid
    }
}

/// One that is to be started.
#[derive(Debug)]
pub(crate) struct Next {
    pub task: JobTask,
    pub slots: u32,
    pub time: Option<Duration>,
    pub program: Program,
    /// The group that it is a member of.
    pub group: Option<String>,
}

impl JobTasks {
    /// The master has this host run some tasks.
    pub fn add(&mut self, order: TaskOrder) {
        self.waiting.push_back(order);
    }

    /// The next task that finds enough slots free, when others than tasks of jobs fill some. One that needs more slots than the host
    /// has, whose settings may have changed, has them all.
    pub fn next(&mut self, slots: u32, others: u32) -> Option<Next> {
        let used: u32 = self.running.values().map(|running| running.slots).sum();
        let order = self.waiting.front_mut()?;
        let wanted = order.program.slots.min(slots);
        if wanted > 0 && used + others + wanted > slots {
            return None;
        }
        let (first, count) = order.tasks.first_mut()?;
        let task = JobTask { job: order.job, task: *first };
        (*first, *count) = (*first + 1, *count - 1);
        let is_empty = *count == 0;
        let next = Next {
            task,
            slots: order.program.slots,
            time: order.program.time.map(Duration::from_millis),
            program: program(order, task),
            group: order.has_group.then(|| group_of(order.job)),
        };
        if is_empty {
            order.tasks.remove(0);
        }
        if order.tasks.is_empty() {
            self.waiting.pop_front();
        }
        Some(next)
    }

    /// A task is being started under this id.
    pub fn begin(&mut self, next: &Next, tid: Tid, now: Now) {
        let &Next { task, slots, time, .. } = next;
        let running = Running {
            tid,
            since: now,
            has_started: false,
            slots,
            time,
            used: Used::default(),
            limit: None,
            is_ending: false,
        };
        self.running.insert(task, running);
    }

    /// Its process runs; how long it may.
    pub fn started(&mut self, task: JobTask, now: Now) -> Option<Duration> {
        let running = self.running.get_mut(&task)?;
        (running.since, running.has_started) = (now, true);
        let (tid, time) = (running.tid, running.time);
        self.report(task, TaskEvent::Started { tid });
        time
    }

    /// Whether it is to end.
    pub fn is_ending(&self, task: JobTask) -> bool {
        self.running.get(&task).is_some_and(|running| running.is_ending)
    }

    /// It could not be started.
    pub fn not_started(&mut self, task: JobTask, reason: String) {
        self.running.remove(&task);
        self.report(task, TaskEvent::NotStarted { reason });
    }

    /// What its process has used, which has ended.
    pub fn note_used(&mut self, task: JobTask, used: Used) {
        if let Some(running) = self.running.get_mut(&task) {
            running.used = used;
        }
    }

    /// It is above a limit, and is to be ended.
    pub fn exceeds(&mut self, task: JobTask, limit: String) -> Option<Tid> {
        let running = self.running.get_mut(&task)?;
        running.limit.get_or_insert(limit);
        Some(running.tid)
    }

    /// It has ended.
    pub fn ended(&mut self, task: JobTask, status: i32, now: Now) {
        let Some(Running { since, has_started, used, limit, .. }) = self.running.remove(&task) else {
            return;
        };
        if !has_started {
            let reason = "it ended before it was started".to_owned();
            return self.report(task, TaskEvent::NotStarted { reason });
        }
        // What is ended for a limit has not ended well, whatever it says itself.
        let status = if limit.is_some() && status == 0 { 15 } else { status };
        let what = TaskEvent::Ended {
            status,
            ran: u64::try_from(now.saturating_sub(since).as_millis()).unwrap_or(u64::MAX),
            cpu: u64::try_from(used.cpu.as_micros()).unwrap_or(u64::MAX),
            memory: used.memory,
            limit,
        };
        self.report(task, what);
    }

    /// The tasks of a job are to end: those that run. The others are given back.
    pub fn end(&mut self, job: JobId) -> BTreeSet<Tid> {
        let (ended, rest): (VecDeque<TaskOrder>, VecDeque<TaskOrder>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|order| order.job == job);
        self.waiting = rest;
        for (first, count) in ended.into_iter().flat_map(|order| order.tasks) {
            for task in first..first + count {
                self.report(JobTask { job, task }, TaskEvent::Returned);
            }
        }
        let of = self.running.iter_mut().filter(|(task, _)| task.job == job);
        of.map(|(_, running)| running.end()).collect()
    }

    /// Some tasks of a job are to end: those that run. The others are given back.
    pub fn stop(&mut self, job: JobId, tasks: &[u32]) -> Vec<Tid> {
        let mut returned = Vec::new();
        for order in self.waiting.iter_mut().filter(|order| order.job == job) {
            order.tasks = without(&order.tasks, tasks, &mut returned);
        }
        self.waiting.retain(|order| !order.tasks.is_empty());
        // Nothing is said of those that have ended: that was reported.
        for task in returned {
            self.report(JobTask { job, task }, TaskEvent::Returned);
        }
        let mut found = Vec::new();
        for &task in tasks {
            found.extend(self.running.get_mut(&JobTask { job, task }).map(Running::end));
        }
        found
    }

    fn report(&mut self, JobTask { job, task }: JobTask, what: TaskEvent) {
        self.reports.push(TaskReport { job, task, what });
    }

    /// Whether the master is to be told something.
    pub fn has_reports(&self) -> bool {
        !self.reports.is_empty()
    }

    pub fn take_reports(&mut self) -> Vec<TaskReport> {
        std::mem::take(&mut self.reports)
    }

    /// Tasks of a job have sent something to another host.
    pub fn note_sent(&mut self, job: JobId, to: HostIndex, bytes: u64) {
        let sum = self.sent.entry((job, to)).or_default();
        *sum = sum.saturating_add(bytes);
    }

    /// Whether the master is to be told what tasks have sent.
    pub fn has_sent(&self) -> bool {
        !self.sent.is_empty()
    }

    pub fn take_sent(&mut self) -> Vec<JobSent> {
        std::mem::take(&mut self.sent)
            .into_iter()
            .map(|((job, to), bytes)| JobSent { job, to, bytes })
            .collect()
    }

    /// Whether this is the id of a task that runs or is about to.
    pub fn is_running(&self, task: JobTask, tid: Tid) -> bool {
        self.running.get(&task).is_some_and(|running| running.tid == tid)
    }

    /// Whether the process of a task is known to run.
    pub fn has_started(&self, task: JobTask) -> bool {
        self.running.get(&task).is_some_and(|running| running.has_started)
    }

    /// Tasks that run or are about to.
    pub fn running(&self) -> u32 {
        self.running.len() as u32
    }

    /// Tasks that wait here.
    pub fn waiting(&self) -> usize {
        self.waiting.iter().flat_map(|order| &order.tasks).map(|(_, count)| *count as usize).sum()
    }
}

/// Ranges of numbers, as first and count, without some; these are added to `taken`.
fn without(ranges: &[(u32, u32)], some: &[u32], taken: &mut Vec<u32>) -> Vec<(u32, u32)> {
    let mut left: Vec<(u32, u32)> = Vec::new();
    for number in ranges.iter().flat_map(|&(first, count)| first..first + count) {
        if some.contains(&number) {
            taken.push(number);
            continue;
        }
        match left.last_mut().filter(|(first, count)| first + *count == number) {
            Some((_, count)) => *count += 1,
            None => left.push((number, 1)),
        }
    }
    left
}

fn program(order: &TaskOrder, JobTask { job, task }: JobTask) -> Program {
    let program = &order.program;
    let name = OutputName { job, name: &order.name, task };
    let values = [job.to_string(), order.name.clone(), task.to_string(), order.count.to_string()];
    let own = VARIABLES.iter().zip(values).map(|(name, value)| entry(name, value));
    let group = order.has_group.then(|| entry(GROUP_VARIABLE, group_of(job)));
    Program {
        file: program.file.clone(),
        args: program.args.clone(),
        env: program.env.iter().cloned().chain(own).chain(group).collect(),
        directory: Some(program.directory.clone()),
        output: program.output.as_deref().map_or(Output::Discard, |pattern| Output::Append(name.of(pattern))),
        memory: program.memory,
        ..Program::default()
    }
}
