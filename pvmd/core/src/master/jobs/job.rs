//! A job: its tasks, how they fare, and when it is over.

use super::forecast::Measured;
use super::numbers::Numbers;
use pvm_sched::queues::{Demand, Width};
use pvm_wire::jobs::{
    ClusterShare, JobId, JobRecord, JobRequest, JobState, LentRecord, RunRecord, TaskEvent, TaskOrder,
    TaskProgram, Tasks,
};
use pvm_wire::turn_rules::TurnRule;
use pvm_wire::{HostIndex, Tid};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Hosts that may be lost under a task before the task has failed: perhaps it is the task that ends them.
const LOST_MAX: u32 = 5;
/// Names of hosts that are kept of a job.
const HOSTS_MAX: usize = 64;

/// A job that was accepted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Job {
    pub id: JobId,
    pub request: JobRequest,
    pub queue: String,
    /// What it needs, with its queue's limits.
    pub demand: Demand,
    /// Milliseconds since 1970.
    pub submitted: u64,
    pub started: Option<u64>,
    pub ended: Option<u64>,
    /// Jobs that must end well before it starts.
    pub after: BTreeSet<JobId>,
    pub is_held: bool,
    is_cancelled: bool,
    waiting: Numbers,
    /// Tasks that were given to hosts.
    given: BTreeMap<u32, Given>,
    /// Starts that failed, and hosts that were lost, of those tasks that had any.
    tries: BTreeMap<u32, Tries>,
    /// Some task of the rigid job has failed: the others end, too.
    fails: Option<Fault>,
    done: u32,
    failed: u32,
    cancelled: u32,
    restarts: u32,
    hosts: BTreeSet<String>,
    cpu: u64,
    memory: u64,
    status: i32,
    reason: String,
    /// Where it is lent to, and its number there.
    lent: Option<(String, Option<JobId>)>,
    /// The last run of a rigid one.
    pub(super) run: Run,
}

/// A run of a rigid job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    /// Its clusters, and its tasks in each.
    pub shares: Vec<ClusterShare>,
    /// When it was to end by the model, as was known at its end.
    pub predicted: Option<u64>,
    /// What it has taught.
    pub measured: Measured,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Given {
    host: HostIndex,
    tid: Option<Tid>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Tries {
    failed: u32,
    lost: u32,
}

/// Whose fault it is that a task did not end well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Fault {
    /// Its own.
    Task,
    /// Its host's.
    Host,
    /// Nobody's: it was preempted.
    Preempted,
}

/// What follows from the end of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub host: HostIndex,
    /// How long it ran, in milliseconds, if it did.
    pub ran: Option<u64>,
    /// Whether it waits again.
    pub again: bool,
    /// Whether the job's other tasks are to be ended.
    pub ends_others: bool,
}

impl Job {
    pub fn new(id: JobId, request: JobRequest, queue: String, demand: Demand) -> Self {
        let (first, count) = (request.tasks.first(), request.tasks.count());
        Self {
            id,
            queue,
            demand,
            submitted: 0,
            started: None,
            ended: None,
            after: request.after.iter().copied().collect(),
            is_held: request.is_held,
            is_cancelled: false,
            waiting: Numbers::range(first, count),
            given: BTreeMap::new(),
            tries: BTreeMap::new(),
            fails: None,
            done: 0,
            failed: 0,
            cancelled: 0,
            restarts: 0,
            hosts: BTreeSet::new(),
            cpu: 0,
            memory: 0,
            status: 0,
            reason: String::new(),
            lent: None,
            run: Run::default(),
            request,
        }
    }

    /// What a request needs.
    pub fn demand(request: &JobRequest) -> Demand {
        let width = match request.tasks {
            Tasks::Rigid(count) => Width::Rigid(count),
            Tasks::Array { count, at_once, .. } => Width::Array { count, at_once },
        };
        let program = &request.program;
        Demand {
            width,
            slots: program.slots,
            time: program.time,
            memory: program.memory,
            hosts: request.hosts.clone(),
            bandwidth: request.expectation.bandwidth,
            home: None,
        }
    }

    /// Tasks that wait.
    pub fn waiting(&self) -> u32 {
        self.waiting.len()
    }

    /// Slots of tasks that were given to hosts.
    pub fn slots_in_use(&self) -> u32 {
        self.given.len() as u32 * self.demand.slots
    }

    /// The hosts that have tasks of it.
    pub fn hosts_given(&self) -> BTreeSet<HostIndex> {
        self.given.values().map(|given| given.host).collect()
    }

    /// Whether a host has tasks of it.
    pub fn has_given(&self, host: HostIndex) -> bool {
        self.given.values().any(|given| given.host == host)
    }

    /// The tasks that a host has, by their numbers.
    pub fn given_to(&self, host: HostIndex) -> impl Iterator<Item = u32> {
        self.given.iter().filter(move |(_, given)| given.host == host).map(|(&task, _)| task)
    }

    /// Tasks that need not stay on a host: those that have not started, and all if they may begin again.
    pub fn leaving(&self, host: HostIndex) -> impl Iterator<Item = u32> {
        let may_again = self.request.restarts > 0;
        let on_it = self.given.iter().filter(move |(_, given)| given.host == host);
        on_it.filter(move |(_, given)| may_again || given.tid.is_none()).map(|(&task, _)| task)
    }

    /// Whether it waits for other jobs.
    pub fn waits_for_jobs(&self) -> bool {
        !self.after.is_empty()
    }

    /// The machine was ended while it ran: what has not ended begins again.
    pub fn begin_again(&mut self) {
        let given = std::mem::take(&mut self.given);
        if self.is_cancelled {
            // They have ended with the machine, as they were to.
            self.cancelled += given.len() as u32;
            return;
        }
        for task in given.into_keys() {
            self.waiting.insert(task);
        }
        self.fails = None;
        if matches!(self.request.tasks, Tasks::Rigid(_)) && self.ended.is_none() {
            self.waiting = Numbers::range(0, self.request.tasks.count());
            self.done = 0;
        }
    }

    /// How its team takes turns by the word of its queue. It keeps what it has begun with, on whatever host and however often it begins again:
    /// so this is in what its tasks run with, on disk, too.
    pub fn set_turns(&mut self, turns: Option<TurnRule>) {
        if self.started.is_none() {
            TurnRule::set_in(turns, &mut self.request.program.env);
        }
    }

    /// Gives waiting tasks to a host.
    pub fn give(&mut self, host: HostIndex, name: &str, count: u32, now: u64) -> TaskOrder {
        self.started.get_or_insert(now);
        if self.hosts.len() < HOSTS_MAX {
            self.hosts.insert(name.to_owned());
        }
        let tasks = self.waiting.take(count);
        for task in tasks.iter().flat_map(|&(first, count)| first..first + count) {
            self.given.insert(task, Given { host, tid: None });
        }
        let program = TaskProgram {
            time: self.demand.time,
            memory: self.demand.memory,
            ..self.request.program.clone()
        };
        TaskOrder {
            job: self.id,
            name: self.request.name.clone(),
            count: self.request.tasks.count(),
            has_group: matches!(self.request.tasks, Tasks::Rigid(_)),
            tasks,
            program,
        }
    }

    /// A host reports of a task that it was given, and that was perhaps preempted. What follows, if the task has ended.
    pub fn note(&mut self, host: HostIndex, task: u32, what: TaskEvent, is_preempted: bool) -> Option<Ended> {
        let given = self.given.get_mut(&task).filter(|given| given.host == host)?;
        match what {
            TaskEvent::Started { tid } => {
                given.tid = Some(tid);
                None
            }
            TaskEvent::Ended { status, ran, cpu, memory, limit } => {
                self.cpu += cpu;
                self.memory = self.memory.max(memory);
                if status == 0 {
                    return Some(self.conclude(task, host, Some(ran), None));
                }
                if is_preempted && limit.is_none() {
                    // How long it ran says nothing of the others.
                    return Some(self.conclude(task, host, None, Some(Fault::Preempted)));
                }
                self.explain(status, limit.unwrap_or_else(|| describe(task, status, self.request.tasks)));
                Some(self.conclude(task, host, Some(ran), Some(Fault::Task)))
            }
            TaskEvent::NotStarted { reason } => {
                self.explain(0, reason);
                Some(self.conclude(task, host, None, Some(Fault::Task)))
            }
            TaskEvent::Returned => {
                let fault = if is_preempted { Fault::Preempted } else { Fault::Host };
                Some(self.conclude(task, host, None, Some(fault)))
            }
        }
    }

    /// A host is lost: what follows for each of the tasks that it was given.
    pub fn host_lost(&mut self, host: HostIndex) -> Vec<Ended> {
        let lost: Vec<u32> =
            self.given.iter().filter(|(_, given)| given.host == host).map(|(&task, _)| task).collect();
        let ended = lost.into_iter().map(|task| {
            self.explain(0, "its host was lost".to_owned());
            self.conclude(task, host, None, Some(Fault::Host))
        });
        ended.collect()
    }

    /// Why a task has failed, unless the machine has ended it.
    fn explain(&mut self, status: i32, reason: String) {
        if !self.is_cancelled && self.fails.is_none() {
            (self.status, self.reason) = (status, reason);
        }
    }

    fn conclude(&mut self, task: u32, host: HostIndex, ran: Option<u64>, fault: Option<Fault>) -> Ended {
        self.given.remove(&task);
        let mut ended = Ended { host, ran, again: false, ends_others: false };
        match (self.request.tasks, fault) {
            (_, None) => self.done += 1,
            _ if self.is_cancelled => self.cancelled += 1,
            (Tasks::Rigid(_), Some(fault)) => {
                self.failed += 1;
                // What is preempted is ended as a whole already.
                let is_first = self.fails.is_none() && fault != Fault::Preempted;
                ended.ends_others = is_first && !self.given.is_empty();
                // Those that end after the first are ended by the machine.
                self.fails.get_or_insert(fault);
            }
            (Tasks::Array { .. }, Some(fault)) => {
                ended.again = self.may_try_again(task, fault);
                if ended.again {
                    self.waiting.insert(task);
                } else {
                    self.failed += 1;
                }
            }
        }
        if self.given.is_empty()
            && let (Tasks::Rigid(count), Some(fault), false) =
                (self.request.tasks, self.fails, self.is_cancelled)
        {
            self.fails = None;
            if self.may_try_again(0, fault) {
                self.waiting = Numbers::range(0, count);
                (self.done, self.failed) = (0, 0);
                ended.again = true;
            }
        }
        ended
    }

    fn may_try_again(&mut self, task: u32, fault: Fault) -> bool {
        let tries = self.tries.entry(task).or_default();
        let (count, most) = match fault {
            Fault::Task => (&mut tries.failed, self.request.restarts),
            Fault::Host => (&mut tries.lost, LOST_MAX),
            Fault::Preempted => {
                self.restarts += 1;
                return true;
            }
        };
        if *count >= most {
            return false;
        }
        *count += 1;
        self.restarts += 1;
        true
    }

    /// Nothing more of it starts. Whether it was not cancelled before.
    pub fn cancel(&mut self, reason: &str) -> bool {
        if self.ended.is_some() || self.is_cancelled {
            return false;
        }
        self.is_cancelled = true;
        self.is_held = false;
        self.after.clear();
        reason.clone_into(&mut self.reason);
        self.cancelled += self.waiting.clear();
        true
    }

    /// Whether all its tasks have ended.
    pub fn is_over(&self) -> bool {
        self.waiting.len() == 0 && self.given.is_empty() && self.lent.is_none()
    }

    /// The machine that has it, if another one has.
    pub fn lent_to(&self) -> Option<&str> {
        self.lent.as_ref().map(|(peer, _)| peer.as_str())
    }

    /// Whether another machine may have it: nothing of it has begun here, it may run anywhere, and it comes from nowhere else.
    pub fn may_be_lent(&self) -> bool {
        let JobRequest { hosts, origin, queue, program, .. } = &self.request;
        let is_untouched = self.waiting.len() == self.request.tasks.count() && self.given.is_empty();
        let is_free = hosts.is_empty() && origin.is_none() && queue.is_none() && program.slots > 0;
        is_untouched
            && is_free
            && self.ended.is_none()
            && self.state() == JobState::Waiting
            && self.after.is_empty()
    }

    /// Another machine has it from now on.
    pub fn lend(&mut self, peer: String) {
        self.waiting.clear();
        self.lent = Some((peer, None));
    }

    /// Its number there. Whether that is news.
    pub fn note_lent(&mut self, number: JobId) -> bool {
        let Some((_, known)) = &mut self.lent else { return false };
        known.replace(number) != Some(number)
    }

    /// It has ended there.
    pub fn returned(&mut self, record: &JobRecord) {
        let Some((peer, _)) = self.lent.take() else { return };
        (self.done, self.failed, self.cancelled) = (record.done, record.failed, record.cancelled);
        self.restarts += record.restarts;
        self.cpu += record.cpu;
        self.memory = self.memory.max(record.memory);
        self.status = record.status;
        self.is_cancelled |= record.state == JobState::Cancelled;
        self.started = record.started;
        record.reason.clone_into(&mut self.reason);
        let hosts = record.hosts.iter().take(HOSTS_MAX);
        self.hosts.extend(hosts.map(|host| format!("{peer}:{host}")));
    }

    /// It was not taken there, and waits here again.
    pub fn take_home(&mut self) {
        let (first, count) = (self.request.tasks.first(), self.request.tasks.count());
        if self.lent.take().is_none() {
            return;
        }
        if self.is_cancelled {
            self.cancelled = count;
        } else {
            self.waiting = Numbers::range(first, count);
        }
    }

    pub fn state(&self) -> JobState {
        match () {
            () if self.lent.is_some() => JobState::Lent,
            () if !self.given.is_empty() => JobState::Running,
            () if self.is_over() && self.is_cancelled => JobState::Cancelled,
            () if self.is_over() && self.failed > 0 => JobState::Failed,
            () if self.is_over() => JobState::Done,
            () if self.is_held => JobState::Held,
            () => JobState::Waiting,
        }
    }

    /// As it is listed; `waits_for` is the scheduler's word.
    pub fn record(&self, waits_for: Option<String>) -> JobRecord {
        let program = &self.request.program;
        let command = std::iter::once(&program.file).chain(&program.args).cloned().collect();
        let after = self.after.iter().map(JobId::to_string).collect::<Vec<_>>().join(", ");
        let reason = match self.state() {
            JobState::Waiting if !after.is_empty() => format!("it starts after the end of {after}"),
            JobState::Done => String::new(),
            JobState::Lent => self.lent_note(),
            JobState::Waiting | JobState::Running | JobState::Held => {
                waits_for.unwrap_or_else(|| self.reason.clone())
            }
            JobState::Failed | JobState::Cancelled => self.reason.clone(),
        };
        JobRecord {
            id: self.id,
            name: self.request.name.clone(),
            user: self.request.user.clone(),
            queue: self.queue.clone(),
            state: self.state(),
            reason,
            tasks: self.request.tasks,
            slots: program.slots,
            command,
            directory: program.directory.clone(),
            waiting: self.waiting.len(),
            running: self.given.len() as u32,
            done: self.done,
            failed: self.failed,
            cancelled: self.cancelled,
            restarts: self.restarts,
            hosts: self.hosts.iter().cloned().collect(),
            submitted: self.submitted,
            started: self.started,
            ended: self.ended,
            cpu: self.cpu,
            memory: self.memory,
            status: self.status,
            lent: self.lent.clone().map(|(peer, number)| LentRecord {
                peer,
                number,
                is_cancelled: self.is_cancelled,
            }),
            origin: self.request.origin.clone(),
            may_be_lent: self.may_be_lent(),
            run: RunRecord::default(),
        }
    }

    fn lent_note(&self) -> String {
        let note = match &self.lent {
            Some((peer, Some(number))) => format!("it is job {number} of machine {peer}"),
            Some((peer, None)) => format!("machine {peer} is to take it"),
            None => String::new(),
        };
        if self.is_cancelled { format!("{note}, and is to be cancelled there") } else { note }
    }
}

/// What `wait` said of a task, for people (wait(2): the exit code in the second byte, the signal in the lowest seven bits).
fn describe(task: u32, status: i32, tasks: Tasks) -> String {
    let what = match (status >> 8 & 0xff, status & 0x7f) {
        (code, 0) => format!("exit code {code}"),
        (_, signal) => format!("signal {signal}"),
    };
    if tasks.count() == 1 {
        format!("it ended with {what}")
    } else {
        format!("task {task} ended with {what}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: HostIndex = HostIndex::MASTER;

    fn job(tasks: Tasks, restarts: u32) -> Job {
        let program = TaskProgram {
            file: "true".into(),
            args: Vec::new(),
            env: Vec::new(),
            directory: "/".into(),
            output: None,
            slots: 1,
            time: None,
            memory: None,
        };
        let request = JobRequest {
            name: "test".into(),
            user: "ann".into(),
            queue: None,
            tasks,
            program,
            hosts: Vec::new(),
            after: Vec::new(),
            restarts,
            is_held: false,
            origin: None,
            expectation: pvm_wire::jobs::Expectation::default(),
        };
        let demand = Job::demand(&request);
        Job::new(JobId(1), request, "default".into(), demand)
    }

    fn array(count: u32, restarts: u32) -> Job {
        job(Tasks::Array { first: 1, count, at_once: None }, restarts)
    }

    fn end(job: &mut Job, task: u32, status: i32) -> Ended {
        let what = TaskEvent::Ended { status, ran: 5, cpu: 7, memory: 9, limit: None };
        job.note(HOST, task, what, false).expect("the task was given")
    }

    #[test]
    fn tasks_of_an_array_end_by_themselves_and_failures_are_tried_again() {
        let mut job = array(3, 1);
        assert_eq!(job.give(HOST, "a", 2, 10).tasks, [(1, 2)]);
        assert_eq!((job.state(), job.waiting(), job.started), (JobState::Running, 1, Some(10)));
        assert!(!end(&mut job, 1, 0).again);
        assert!(end(&mut job, 2, 256).again);
        assert_eq!(job.note(HOST, 2, TaskEvent::Returned, false), None, "it is not given to anybody");
        assert_eq!(job.give(HOST, "b", 9, 11).tasks, [(2, 2)]);
        assert!(!end(&mut job, 2, 256).again);
        end(&mut job, 3, 9);
        let record = job.record(None);
        assert_eq!((record.done, record.failed, record.restarts), (1, 1, 2));
        assert_eq!((record.state, record.waiting, job.is_over()), (JobState::Waiting, 1, false));
        job.give(HOST, "b", 9, 12);
        end(&mut job, 3, 0);
        let record = job.record(None);
        assert_eq!((record.state, record.reason.as_str()), (JobState::Failed, "task 3 ended with signal 9"));
        assert_eq!((record.cpu, record.memory, record.hosts.len()), (35, 9, 2));
    }

    #[test]
    fn a_lost_host_is_not_the_tasks_fault_unless_it_happens_again_and_again() {
        let mut job = array(1, 0);
        for lost in 0..LOST_MAX {
            job.give(HOST, "a", 1, 0);
            assert!(job.host_lost(HOST)[0].again, "{lost}");
        }
        job.give(HOST, "a", 1, 0);
        assert!(!job.host_lost(HOST)[0].again);
        assert_eq!((job.state(), job.record(None).reason.as_str()), (JobState::Failed, "its host was lost"));
    }

    #[test]
    fn a_rigid_job_ends_with_the_first_task_that_fails_and_begins_again_as_a_whole() {
        let other = HostIndex::new(2).expect("an index");
        let mut job = job(Tasks::Rigid(3), 1);
        job.give(HOST, "a", 2, 0);
        job.give(other, "b", 1, 0);
        end(&mut job, 0, 0);
        let failed = end(&mut job, 1, 256);
        assert!(failed.ends_others && !failed.again);
        // The last one is ended by a signal.
        let last = job.note(
            other,
            2,
            TaskEvent::Ended { status: 15, ran: 1, cpu: 0, memory: 0, limit: None },
            false,
        );
        assert!(last.is_some_and(|last| last.again && !last.ends_others));
        assert_eq!((job.waiting(), job.state()), (3, JobState::Waiting));
        assert_eq!(job.give(HOST, "a", 3, 0).tasks, [(0, 3)]);
        for task in 0..3 {
            end(&mut job, task, 0);
        }
        assert_eq!((job.state(), job.record(None).done), (JobState::Done, 3));
    }

    #[test]
    fn what_was_preempted_begins_again_however_often() {
        let mut job = array(2, 0);
        for _ in 0..2 * LOST_MAX {
            job.give(HOST, "a", 2, 0);
            let killed = TaskEvent::Ended { status: 15, ran: 5, cpu: 1, memory: 0, limit: None };
            let ended = job.note(HOST, 1, killed, true).expect("it was given");
            assert!(ended.again && ended.ran.is_none());
            assert!(job.note(HOST, 2, TaskEvent::Returned, true).is_some_and(|ended| ended.again));
        }
        job.give(HOST, "a", 2, 0);
        let well = TaskEvent::Ended { status: 0, ran: 5, cpu: 1, memory: 0, limit: None };
        assert!(job.note(HOST, 1, well, true).is_some_and(|ended| !ended.again), "it has ended by itself");
        assert_eq!((job.record(None).done, job.waiting()), (1, 0));
    }

    #[test]
    fn a_cancelled_job_is_over_when_its_last_task_is() {
        let mut job = array(5, 9);
        job.give(HOST, "a", 2, 0);
        assert!(job.cancel("cancelled") && !job.cancel("again"));
        assert_eq!((job.state(), job.waiting()), (JobState::Running, 0));
        assert!(!end(&mut job, 1, 15).again);
        assert!(!end(&mut job, 2, 0).again);
        let record = job.record(None);
        assert_eq!((record.state, record.done, record.cancelled), (JobState::Cancelled, 1, 4));
        assert_eq!(record.reason, "cancelled", "{record:?}");
    }

    #[test]
    fn what_ran_when_the_machine_ended_begins_again() {
        let mut job = array(4, 0);
        job.give(HOST, "a", 3, 0);
        end(&mut job, 2, 0);
        job.begin_again();
        assert_eq!((job.waiting(), job.give(HOST, "a", 9, 0).tasks), (3, vec![(1, 1), (3, 2)]));
        // But not if it was to end.
        job.cancel("cancelled");
        job.begin_again();
        assert_eq!((job.waiting(), job.is_over(), job.state()), (0, true, JobState::Cancelled));
        assert_eq!((job.record(None).done, job.record(None).cancelled), (1, 3));
    }
}
