//! What was promised and what was observed.

use pvm_wire::body::{BodyReader, BodyWriter};
use pvm_wire::queue::BatchEvent;
use pvm_wire::{HostIndex, Message, Tid};
use pvmd_simulated::process::ProcId;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

/// What a task waits to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Task(Tid),
    Host(HostIndex),
    Arrivals,
}

/// A subscription to a notify.
#[derive(Debug)]
pub struct Subscription {
    pub by: Tid,
    pub subject: Subject,
    pub cancelled: bool,
    /// Times it was told.
    pub told: u32,
    /// Arrivals: the hosts known when it began, and those told of since.
    pub known: Option<BTreeSet<HostIndex>>,
    pub arrived: BTreeSet<HostIndex>,
}

/// A spawn.
#[derive(Debug)]
pub struct Spawned {
    pub by: Tid,
    pub count: usize,
    pub answer: Option<Vec<i32>>,
    /// Processes that were started for it, by host.
    pub started: BTreeMap<HostIndex, usize>,
}

/// A queued batch.
#[derive(Debug)]
pub struct Batch {
    by: Tid,
    count: u32,
    /// Starts beyond the first that its tasks may still have.
    restarts: u32,
    /// Once known.
    pub id: Option<i32>,
    running: BTreeMap<u32, Tid>,
    over: BTreeSet<u32>,
    is_done: bool,
}

impl Batch {
    pub fn new(by: Tid, count: u32, restarts: u32) -> Self {
        let (running, over) = (BTreeMap::new(), BTreeSet::new());
        Self { by, count, restarts: restarts * count, id: None, running, over, is_done: false }
    }

    /// The parent is told something; whether it can be so. Tasks that leave hosts of owners use up no restarts.
    fn hear(&mut self, event: BatchEvent, owners: bool) -> bool {
        let was_due = !self.is_done;
        was_due
            && match event {
                BatchEvent::Started { number, tid } => {
                    let fits = number < self.count && !self.over.contains(&number);
                    fits && self.running.insert(number, tid).is_none()
                }
                BatchEvent::Ended { number, tid, .. } => {
                    self.running.remove(&number) == Some(tid) && self.over.insert(number)
                }
                BatchEvent::Again { number, tid, .. } => {
                    let fits = self.stops(number, tid) && (self.restarts > 0 || owners);
                    self.restarts = self.restarts.saturating_sub(1);
                    fits
                }
                BatchEvent::Failed { number, tid, .. } => self.stops(number, tid) && self.over.insert(number),
                BatchEvent::Done { done, failed, cancelled } => {
                    self.is_done = true;
                    let told = self.over.len() as u32;
                    let fits = told <= done + failed + cancelled && done + failed <= told;
                    fits && self.running.is_empty() && done + failed + cancelled == self.count
                }
            }
    }

    /// A task that ran, or one that was not even started, is to run no longer.
    fn stops(&mut self, number: u32, tid: Tid) -> bool {
        let ran = self.running.remove(&number);
        ran == (tid != Tid::NONE).then_some(tid) && number < self.count && !self.over.contains(&number)
    }
}

/// What a task has asked its daemon for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Something that is answered.
    Request,
    /// Something that may never come.
    MayWait,
    Spawn(i32),
    Queue(i32),
    /// The members, once a subscription to arrivals stands.
    Known(i32),
}

#[derive(Debug, Default)]
pub struct Journal {
    /// Whether tasks share memory with others of their host.
    pub shares: bool,
    pub faults: Vec<String>,
    /// Messages sent and received, per sender and receiver.
    sent: BTreeMap<(Tid, Tid), u32>,
    received: BTreeMap<(Tid, Tid), u32>,
    /// By tag.
    pub subscriptions: BTreeMap<i32, Subscription>,
    /// By who asked, and the wait id.
    pub asked: BTreeMap<(Tid, i32), Asked>,
    pub spawns: BTreeMap<i32, Spawned>,
    pub batches: BTreeMap<i32, Batch>,
    /// Jobs that were submitted; some may have been refused.
    pub submitted: u64,
    /// The process that last ran a job's task, by the job's number and the task's.
    pub job_tasks: BTreeMap<(OsString, OsString), ProcId>,
    /// Tasks that have ever enrolled.
    pub tids: BTreeSet<Tid>,
    /// Processes of queued batches.
    pub queued_processes: BTreeSet<ProcId>,
    /// Requests about groups less answers to them.
    pub group_asked: BTreeMap<Tid, i32>,
    /// The owner of a host has been there.
    pub owners: bool,
    numbers: i32,
}

impl Journal {
    pub fn new(shares: bool) -> Self {
        Self { shares, ..Self::default() }
    }

    pub fn fault(&mut self, what: String) {
        self.faults.push(what);
    }

    /// A number that was not used before.
    pub fn number(&mut self) -> i32 {
        self.numbers += 1;
        self.numbers
    }

    /// The body of the next message of the pair.
    pub fn next_body(&mut self, src: Tid, dst: Tid, size: usize) -> Vec<u8> {
        let sequence = self.sent.entry((src, dst)).or_default();
        let mut body = BodyWriter::new().int(*sequence as i32).int(size as i32).finish();
        body.resize(8 + size, filler(src, *sequence));
        *sequence += 1;
        body
    }

    /// The number of the next message of the pair.
    pub fn next_number(&self, src: Tid, dst: Tid) -> u32 {
        self.sent.get(&(src, dst)).copied().unwrap_or(0)
    }

    /// A program's message has come.
    pub fn message(&mut self, dst: Tid, message: &Message) {
        let src = message.src;
        let mut reader = BodyReader::new(&message.body);
        let (sequence, size) = (reader.int().unwrap_or(-1), reader.int().unwrap_or(-1));
        let expected = self.received.entry((src, dst)).or_default();
        let rest = reader.rest();
        if sequence != *expected as i32 {
            let text = format!("{src} → {dst}: message {sequence} came where {expected} was due");
            return self.faults.push(text);
        }
        let filler = filler(src, *expected);
        *expected += 1;
        let whole = rest.iter().step_by(97).chain(rest.last()).all(|&byte| byte == filler);
        if rest.len() as i32 != size || !whole {
            self.faults
                .push(format!("{src} → {dst}: message {sequence} is not whole: {} of {size}", rest.len()));
        }
    }

    /// A notify has come.
    pub fn told(&mut self, by: Tid, tag: i32, body: &[u8]) {
        let mut reader = BodyReader::new(body);
        let Some(subscription) = self.subscriptions.get_mut(&tag) else {
            return self.faults.push(format!("{by}: a notify with tag {tag} that nobody asked for"));
        };
        subscription.told += 1;
        let right = match subscription.subject {
            Subject::Task(tid) => reader.int() == Ok(tid.raw()),
            Subject::Host(host) => reader.int() == Ok(host.host_tid().raw()),
            Subject::Arrivals => {
                let count = reader.count(4).unwrap_or(0);
                let hosts = reader.ints(count).unwrap_or_default();
                let hosts = hosts.into_iter().filter_map(|raw| Tid::from_raw(raw).host());
                hosts.fold(count > 0, |fine, host| subscription.arrived.insert(host) && fine)
            }
        };
        let often = subscription.told > 1 && subscription.subject != Subject::Arrivals;
        if !right || often || subscription.by != by {
            let text = format!("{by} was told wrongly: {subscription:?}");
            self.faults.push(text);
        }
    }

    /// A request was answered; what it was.
    pub fn answered(&mut self, by: Tid, wait_id: i32) -> Option<Asked> {
        let asked = self.asked.remove(&(by, wait_id));
        if asked.is_none() {
            self.faults.push(format!("{by}: request {wait_id} was answered twice, or never made"));
        }
        asked
    }

    /// A batch is queued; its id.
    pub fn queued(&mut self, number: i32, body: &[u8]) {
        let id = BodyReader::new(body).int().unwrap_or(-1);
        let taken = self.batches.values().any(|batch| batch.id == Some(id));
        match self.batches.get_mut(&number) {
            Some(batch) if id > 0 && !taken => batch.id = Some(id),
            batch => {
                let text = format!("batch {number} is queued as {id}: {batch:?}");
                self.faults.push(text);
            }
        }
    }

    /// A notice of a queued batch has come.
    pub fn noticed(&mut self, by: Tid, body: &[u8]) {
        let ints = BodyReader::new(body).ints(5).ok().and_then(|ints| ints.try_into().ok());
        let Some((id, event)) = ints.and_then(BatchEvent::from_ints) else {
            return self.faults.push(format!("{by}: a notice that cannot be read"));
        };
        let owners = self.owners;
        let batch = self.batches.values_mut().find(|batch| batch.id == Some(id) && batch.by == by);
        let before = format!("{batch:?}");
        if !batch.is_some_and(|batch| batch.hear(event, owners)) {
            self.faults.push(format!("{by} is told {event:?} of batch {id:x}: {before}"));
        }
    }

    /// What runs of the batches of the living is among the tasks of batches that are alive, and no batch stands still.
    pub fn check_batches(&mut self, alive: &BTreeSet<Tid>, working: usize) {
        let batches = || self.batches.values().filter(|batch| alive.contains(&batch.by));
        let running: usize = batches().map(|batch| batch.running.len()).sum();
        let still = batches().find(|batch| !batch.is_done && batch.running.is_empty() && working == 0);
        if running > working || still.is_some() {
            let text = format!("{working} tasks of batches work, {running} are known to: {still:?}");
            self.faults.push(text);
        }
    }

    /// Pairs of which not everything has arrived, or more than was sent.
    pub fn check_messages(&mut self, alive: &BTreeSet<Tid>) {
        for (&(src, dst), &sent) in &self.sent {
            let received = self.received.get(&(src, dst)).copied().unwrap_or(0);
            if received > sent || received < sent && alive.contains(&src) && alive.contains(&dst) {
                self.faults.push(format!("{src} → {dst}: {sent} messages sent, {received} received"));
            }
        }
    }

    /// Everyone alive was told what it asked for, once, and nothing else.
    pub fn check_notifies(&mut self, alive: &BTreeSet<Tid>, members: &BTreeSet<HostIndex>) {
        for (tag, subscription) in &self.subscriptions {
            if !alive.contains(&subscription.by) {
                continue;
            }
            let due = match subscription.subject {
                Subject::Task(tid) => u32::from(subscription.cancelled || !alive.contains(&tid)),
                Subject::Host(host) => u32::from(subscription.cancelled || !members.contains(&host)),
                Subject::Arrivals => {
                    let Some(known) = &subscription.known else { continue };
                    let due: BTreeSet<_> = members.difference(known).copied().collect();
                    let wrong = subscription.arrived.intersection(known).next().is_some();
                    if wrong || !due.is_subset(&subscription.arrived) {
                        self.faults.push(format!("arrivals {tag}: {due:?} are due; {subscription:?}"));
                    }
                    continue;
                }
            };
            if subscription.told != due {
                self.faults.push(format!("notify {tag} is due {due} times: {subscription:?}"));
            }
        }
    }

    /// Every request of the living is answered.
    pub fn check_answers(&mut self, alive: &BTreeSet<Tid>) {
        for ((by, wait_id), asked) in &self.asked {
            if alive.contains(by) && *asked != Asked::MayWait {
                self.faults.push(format!("{by}: request {wait_id} ({asked:?}) was not answered"));
            }
        }
        for (by, open) in &self.group_asked {
            if alive.contains(by) && *open != 0 {
                self.faults.push(format!("{by}: {open} requests about groups were not answered"));
            }
        }
    }

    /// Tasks were started as often as they were reported.
    pub fn check_spawns(&mut self, alive: &BTreeSet<Tid>, members: &BTreeSet<HostIndex>) {
        let mut given = BTreeSet::new();
        for (number, spawn) in &self.spawns {
            let Some(answer) = spawn.answer.as_ref().filter(|_| alive.contains(&spawn.by)) else { continue };
            let tids: Vec<Tid> =
                answer.iter().filter(|raw| **raw > 0).map(|&raw| Tid::from_raw(raw)).collect();
            let mut hosts: BTreeSet<HostIndex> = tids.iter().filter_map(|tid| tid.host()).collect();
            hosts.extend(spawn.started.keys());
            for host in hosts {
                let reported = tids.iter().filter(|tid| tid.host() == Some(host)).count();
                let started = spawn.started.get(&host).copied().unwrap_or(0);
                if reported > started || reported < started && members.contains(&host) {
                    let text = format!(
                        "spawn {number}: {reported} tasks reported on host {host}, {started} started"
                    );
                    self.faults.push(text);
                }
            }
            if answer.len() != spawn.count || !tids.iter().all(|tid| given.insert(*tid)) {
                self.faults.push(format!("spawn {number} of {} is answered by {answer:?}", spawn.count));
            }
        }
    }
}

fn filler(src: Tid, sequence: u32) -> u8 {
    (src.bits() as u8) ^ (src.bits() >> 18) as u8 ^ sequence as u8
}
