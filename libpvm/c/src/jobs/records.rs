//! Jobs and queues as C programs see them: `struct pvmjobinfo` and `struct pvmqueueinfo`.

use crate::memory::CList;
use pvm_wire::jobs::{JobRecord, JobState, QueueRecord, Tasks};
use std::ffi::{c_char, c_int, c_longlong};
use std::ptr::null_mut;

/// `struct pvmjobinfo`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct JobInfo {
    size: usize,
    /// The next one.
    pub next: *mut JobInfo,
    id: c_longlong,
    name: *mut c_char,
    user: *mut c_char,
    queue: *mut c_char,
    state: c_int,
    status: c_int,
    state_name: *mut c_char,
    reason: *mut c_char,
    first: c_int,
    count: c_int,
    at_once: c_int,
    width: c_int,
    slots: c_int,
    waiting: c_int,
    running: c_int,
    done: c_int,
    failed: c_int,
    cancelled: c_int,
    restarts: c_int,
    command: *mut *mut c_char,
    directory: *mut c_char,
    hosts: *mut *mut c_char,
    submitted: c_longlong,
    started: c_longlong,
    ended: c_longlong,
    cpu: c_longlong,
    memory: c_longlong,
    predicted: c_longlong,
}

/// `struct pvmqueueinfo`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QueueInfo {
    size: usize,
    /// The next one.
    pub next: *mut QueueInfo,
    name: *mut c_char,
    priority: c_int,
    waiting: c_int,
    running: c_int,
    hosts: *mut *mut c_char,
    limits: *mut *mut c_char,
}

// The layouts are those of the header.
const _: () = assert!(size_of::<JobInfo>() == 192 && size_of::<QueueInfo>() == 56);

/// Jobs for C, not linked yet.
pub fn jobs(records: &[JobRecord]) -> CList<JobInfo> {
    let mut list = CList::default();
    for record in records {
        let info = job(&mut list, record);
        list.push(info);
    }
    list
}

fn job(list: &mut CList<JobInfo>, record: &JobRecord) -> JobInfo {
    let (at_once, width) = match record.tasks {
        Tasks::Array { at_once, .. } => (at_once.unwrap_or(0), 0),
        Tasks::Rigid(width) => (0, width),
    };
    JobInfo {
        size: size_of::<JobInfo>(),
        next: null_mut(),
        id: long(record.id.0),
        name: list.text(&record.name),
        user: list.text(&record.user),
        queue: list.text(&record.queue),
        state: number(record.state),
        status: record.status,
        state_name: list.text(record.state.name()),
        reason: list.text(&record.reason),
        first: int(record.tasks.first()),
        count: int(record.tasks.count()),
        at_once: int(at_once),
        width: int(width),
        slots: int(record.slots),
        waiting: int(record.waiting),
        running: int(record.running),
        done: int(record.done),
        failed: int(record.failed),
        cancelled: int(record.cancelled),
        restarts: int(record.restarts),
        command: list.texts(&record.command),
        directory: list.text(&record.directory),
        hosts: list.texts(&record.hosts),
        submitted: long(record.submitted),
        started: long(record.started.unwrap_or(0)),
        ended: long(record.ended.unwrap_or(0)),
        cpu: long(record.cpu),
        memory: long(record.memory),
        predicted: long(record.run.predicted.unwrap_or(0)),
    }
}

/// Queues for C, not linked yet.
pub fn queues(records: &[QueueRecord]) -> CList<QueueInfo> {
    let mut list = CList::default();
    for record in records {
        let info = QueueInfo {
            size: size_of::<QueueInfo>(),
            next: null_mut(),
            name: list.text(&record.name),
            priority: record.priority,
            waiting: int(record.waiting),
            running: int(record.running),
            hosts: list.texts(&record.hosts),
            limits: list.texts(record.limits.iter().map(|(name, value)| format!("{name}={value}"))),
        };
        list.push(info);
    }
    list
}

/// The header's number of a state.
fn number(state: JobState) -> c_int {
    match state {
        JobState::Held => 1,
        JobState::Waiting => 2,
        JobState::Running => 3,
        JobState::Lent => 4,
        JobState::Done => 5,
        JobState::Failed => 6,
        JobState::Cancelled => 7,
    }
}

fn int(value: u32) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}

fn long(value: u64) -> c_longlong {
    c_longlong::try_from(value).unwrap_or(c_longlong::MAX)
}
