//! Queues that jobs are submitted to: admission, the order of the jobs that wait, and where the next ones start.
//!
//! *Scheduling parallel jobs on clusters*, section 21.6: a job goes to a queue with properties, where it may be refused at once; else
//! it waits until the scheduler picks it. [`Scheduler::next`] is the whole decision, a function of the state and the time:
//!
//! - **Who is next**: the order of [`order`](self): priority with aging, up-down between users, age.
//! - **Arrays**: each host is given `N = min(P − P_c, T_c / N_c · C_i / C_A)` tasks (active pulling, section 1 of the paper), unless the
//!   queue names another policy that divides ([`Dividing`]), and P is firm: a host with P slots in use is given nothing more, unless tasks
//!   are so short that it would idle between two decisions.
//! - **Rigid jobs** start all at once, on as few hosts as can be, or over clusters by the queue's strategy ([`crate::coallocation`]). The
//!   first that does not fit has a reservation, and what comes behind it starts only where that
//!   does not delay it (EASY backfilling).
//! - **Where**: on hosts that the queue and the job name, when they are as idle as the queue wants them, the lightly loaded first.
//! - **At whose cost**: [`Scheduler::stops`] names tasks of queues that another queue preempts.
//!
//! Times are milliseconds since an origin of the caller's choosing. A host is any `H: Copy + Ord`, a job a number of the caller's.

mod clusters;
mod decision;
mod fit;
mod hosts;
mod hours;
mod meter;
mod network;
mod order;
mod preempt;
mod queue;
mod reason;
mod wanted;

pub use hosts::{Cluster, Configuration, Host};
pub use hours::Hours;
pub use meter::WINDOW as METER_WINDOW;
pub use network::Spread;
pub use preempt::Stop;
pub use queue::{Demand, Dividing, HostState, Limits, Queue, Refusal, Width};
pub use reason::Reason;
pub use wanted::Wanted;

use crate::allocation::Usage;
use crate::policy::Policy;
use hosts::Node;
use order::Owner;
use pvm_wire::loads::LoadVector;
use pvm_wire::tuned;
use pvm_wire::turn_rules::TurnRule;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wanted::Prospects;

/// While jobs wait a decision is due after this time although nothing has happened: their order depends on the time.
pub const LOOK: Duration = Duration::from_secs(10);
/// The end of a task whose longest run time is not known.
const UNKNOWN: u64 = u64::MAX;

/// How jobs are picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Whether users take turns by up-down; else their jobs start in the order of submission.
    pub is_fair: bool,
    /// Whether jobs may pass a rigid job that does not fit.
    pub backfills: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self { is_fair: true, backfills: true }
    }
}

/// Tasks of a job that start now: how many on which host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start<H> {
    /// The job.
    pub job: u64,
    /// Its tasks, by host.
    pub parts: Vec<(H, u32)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Job {
    /// The queue's name, as it may be configured again.
    queue: String,
    user: usize,
    demand: Demand,
    /// Since when it ages.
    submitted: u64,
    /// Tasks that wait.
    pending: u32,
    /// Tasks that were given to hosts.
    running: u32,
    is_held: bool,
    /// Mean run time of its tasks in milliseconds, when some have ended.
    mean: Option<f64>,
}

/// The queues, the jobs in them, and the hosts that they run on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Scheduler<H: Ord> {
    rules: Rules,
    with: Configuration,
    /// Milliseconds by which local clocks are ahead of the time.
    local: i64,
    users: BTreeMap<String, usize>,
    usage: Usage,
    jobs: BTreeMap<u64, Job>,
    /// Jobs with tasks that wait for nothing but room.
    waiting: BTreeMap<Owner, BTreeSet<u64>>,
    /// Those of them whose tasks need no slots, or are so short that a host is given more than it has slots for.
    brief: BTreeSet<u64>,
    hosts: BTreeMap<H, Node>,
    /// Slots in use of a queue, and of a user in it.
    in_queue: BTreeMap<usize, u32>,
    in_use: BTreeMap<Owner, u32>,
    /// Tasks that were given to hosts, by the latest end, job and host.
    ends: BTreeMap<(u64, u64, H), u32>,
    /// The latest ends of a job's tasks on a host.
    ends_of: BTreeMap<(u64, H), BTreeSet<u64>>,
    /// Tasks that are to end for others, by job and host.
    stopping: BTreeMap<(u64, H), u32>,
    /// Rigid jobs of which some tasks have ended: when the last one has.
    ending: BTreeMap<u64, u64>,
    /// Hosts that can be had.
    expected: Prospects,
    /// Clusters of hosts, and the bandwidths of their links.
    links: BTreeMap<String, Option<u64>>,
    /// Those of them whose bandwidths were measured.
    measured_links: BTreeSet<String>,
    /// What jobs ask of the links.
    link_demand: BTreeMap<String, f64>,
    /// The runs of rigid jobs.
    spreads: BTreeMap<u64, Spread>,
    /// The host that a queue whose hosts take turns has given tasks last.
    last: Option<H>,
}

impl<H: Copy + Ord> Scheduler<H> {
    /// Without hosts and jobs.
    pub fn new(with: impl Into<Configuration>, rules: Rules) -> Self {
        Self {
            rules,
            with: with.into(),
            local: 0,
            users: BTreeMap::new(),
            usage: Usage::new(),
            jobs: BTreeMap::new(),
            waiting: BTreeMap::new(),
            brief: BTreeSet::new(),
            hosts: BTreeMap::new(),
            in_queue: BTreeMap::new(),
            in_use: BTreeMap::new(),
            ends: BTreeMap::new(),
            ends_of: BTreeMap::new(),
            stopping: BTreeMap::new(),
            ending: BTreeMap::new(),
            expected: Prospects::new(),
            links: BTreeMap::new(),
            measured_links: BTreeSet::new(),
            link_demand: BTreeMap::new(),
            spreads: BTreeMap::new(),
            last: None,
        }
    }

    /// The queues and clusters.
    pub fn configuration(&self) -> &Configuration {
        &self.with
    }

    /// Other queues and clusters from now on. Jobs of a queue that is not among them wait until one of its name is.
    pub fn configure(&mut self, with: impl Into<Configuration>) {
        self.with = with.into();
        (self.waiting, self.brief, self.in_queue, self.in_use) = Default::default();
        for id in self.jobs.keys().copied().collect::<Vec<_>>() {
            self.list(id);
            if let Some((owner, slots)) = self.owner_and_slots(id) {
                self.count(owner, slots, 0);
            }
        }
    }

    fn owner_and_slots(&self, id: u64) -> Option<(Owner, u32)> {
        let job = self.jobs.get(&id)?;
        Some((self.owner(job)?, job.running * job.demand.slots))
    }

    fn queue(&self, name: &str) -> Option<(usize, &Queue)> {
        self.with.queues.iter().enumerate().find(|(_, queue)| queue.name == name)
    }

    /// The policy of a job's queue, if it has one.
    pub fn policy_of(&self, id: u64) -> Option<Policy> {
        self.queue(&self.jobs.get(&id)?.queue)?.1.policy
    }

    /// How the teams of a job take turns, if its queue says it.
    pub fn turns_of(&self, id: u64) -> Option<TurnRule> {
        self.queue(&self.jobs.get(&id)?.queue)?.1.turns
    }

    /// Whether the machine makes a matrix for teams of some queue.
    pub fn wants_rows(&self) -> bool {
        self.with.queues.iter().any(|queue| queue.turns == Some(TurnRule::Rows))
    }

    fn owner(&self, job: &Job) -> Option<Owner> {
        Some((self.queue(&job.queue)?.0, job.user))
    }

    /// A host joins, or has other properties now.
    pub fn host_joined(&mut self, id: H, host: Host) {
        let node = self.hosts.entry(id).or_insert_with(|| Node::new(host.clone()));
        node.host = host;
    }

    /// How busy a host is.
    pub fn set_load(&mut self, id: H, load: LoadVector) {
        if let Some(node) = self.hosts.get_mut(&id) {
            node.load = Some(load);
        }
    }

    /// The hosts whose owners are there: these, and no others.
    pub fn set_owners(&mut self, hosts: &BTreeSet<H>) {
        for (host, node) in &mut self.hosts {
            node.is_with_owner = hosts.contains(host);
        }
    }

    /// By how many seconds local clocks are ahead of the time that decisions are told.
    pub fn set_local_time(&mut self, ahead: i32) {
        self.local = i64::from(ahead) * 1000;
    }

    /// A host is gone. Its tasks are still to be reported ended, or given back.
    pub fn host_gone(&mut self, host: H) {
        self.hosts.remove(&host);
    }

    /// A host's name.
    pub fn host_name(&self, host: H) -> Option<&str> {
        self.hosts.get(&host).map(|node| node.host.name.as_str())
    }

    /// The names of the hosts of a cluster.
    pub fn hosts_of(&self, cluster: &Cluster) -> Vec<&str> {
        let all = self.hosts.values().filter(|node| cluster.has(node));
        all.map(|node| node.host.name.as_str()).collect()
    }

    /// Whether a job may run on a host at all.
    fn is_for(&self, demand: &Demand, queue: &Queue, node: &Node) -> bool {
        self.with.are_for(&queue.hosts, node) && self.with.are_for(&demand.hosts, node)
    }

    /// The queue that takes a job, and what the job needs with that queue's limits; why none does. Without a name it is the first that
    /// takes it, in the order of their priority.
    pub fn admit(
        &self,
        queue: Option<&str>,
        user: &str,
        demand: &Demand,
    ) -> Result<(String, Demand), Refusal> {
        let is_rigid = matches!(demand.width, Width::Rigid(_));
        if demand.tasks() == 0 || demand.slots == 0 && is_rigid {
            return Err(Refusal::Nothing);
        }
        if let Some(name) = self.with.unknown_cluster(&demand.hosts, |name| self.has_cluster(name)) {
            return Err(Refusal::NoCluster(name.to_owned()));
        }
        if let Some(name) = queue {
            let (number, queue) = self.queue(name).ok_or_else(|| Refusal::NoQueue(name.to_owned()))?;
            return self.admit_to((number, queue), user, demand);
        }
        let mut order: Vec<(usize, &Queue)> = self.with.queues.iter().enumerate().collect();
        order.sort_by_key(|(number, queue)| (Reverse(queue.priority), *number));
        let mut refusals = Vec::new();
        for queue in order {
            match self.admit_to(queue, user, demand) {
                Err(refusal) => refusals.push(refusal),
                admitted => return admitted,
            }
        }
        if refusals.len() == 1 {
            return Err(refusals.remove(0));
        }
        let told: Vec<String> = refusals.iter().map(Refusal::to_string).collect();
        Err(Refusal::NoneTakes(told.join("; ")))
    }

    fn admit_to(
        &self,
        (number, queue): (usize, &Queue),
        user: &str,
        demand: &Demand,
    ) -> Result<(String, Demand), Refusal> {
        let demand = queue.complete(demand.clone());
        if let Some(refusal) = queue.forbids(&demand) {
            return Err(refusal);
        }
        let is_its = |node: &&Node| self.is_for(&demand, queue, node);
        let slots: Vec<u32> = self.hosts.values().filter(is_its).map(|node| node.host.slots).collect();
        let (largest, more) = self.expected_room(demand.slots);
        let (has, wants) = (slots.iter().copied().max().unwrap_or(0).max(largest), demand.slots);
        if wants > has {
            return Err(Refusal::Task { queue: queue.name.clone(), wants, has });
        }
        let room: u32 = slots.iter().map(|slots| slots - slots % demand.slots.max(1)).sum();
        if demand.least() > room.saturating_add(more) {
            let wants = demand.least();
            let has = slots.iter().sum::<u32>().saturating_add(more);
            return Err(Refusal::Machine { queue: queue.name.clone(), wants, has });
        }
        if let Some(refusal) = self.refuse_by_clusters(&demand, queue, more) {
            return Err(refusal);
        }
        self.check_waiting(number, queue, user)?;
        Ok((queue.name.clone(), demand))
    }

    fn check_waiting(&self, number: usize, queue: &Queue, user: &str) -> Result<(), Refusal> {
        let Limits { waiting: most, waiting_per_user: most_per_user, .. } = queue.limits;
        let own = self.users.get(user).copied();
        let in_queue = self.waiting.range((number, 0)..=(number, usize::MAX));
        let of = |user: Option<usize>| -> usize {
            let jobs = in_queue.clone().filter(|(owner, _)| user.is_none_or(|user| owner.1 == user));
            jobs.map(|(_, jobs)| jobs.len()).sum()
        };
        if let Some(most) = most
            && of(None) >= most
        {
            return Err(Refusal::Full { queue: queue.name.clone(), waiting: most });
        }
        if let (Some(most), Some(own)) = (most_per_user, own)
            && of(Some(own)) >= most
        {
            let (queue, user) = (queue.name.clone(), user.to_owned());
            return Err(Refusal::FullForUser { queue, user, waiting: most });
        }
        Ok(())
    }

    /// A job that was admitted waits from now on. `pending` of its tasks are to be started, which is all of them unless it had been
    /// submitted before.
    pub fn submit(&mut self, id: u64, queue: String, user: &str, demand: Demand, pending: u32, now: u64) {
        let count = self.users.len();
        let user = *self.users.entry(user.to_owned()).or_insert(count);
        let job =
            Job { queue, user, demand, submitted: now, pending, running: 0, is_held: false, mean: None };
        self.jobs.insert(id, job);
        self.list(id);
    }

    /// Puts a job among those that wait, or takes it from there.
    fn list(&mut self, id: u64) {
        let Some(job) = self.jobs.get(&id) else { return };
        let (Some(owner), waits) = (self.owner(job), job.pending > 0 && !job.is_held) else { return };
        let is_brief =
            waits && (job.demand.slots == 0 || job.mean.is_some_and(|mean| mean < tuned::JOB_AHEAD));
        let jobs = self.waiting.entry(owner).or_default();
        if waits {
            jobs.insert(id);
        } else {
            jobs.remove(&id);
        }
        if is_brief {
            self.brief.insert(id);
        } else {
            self.brief.remove(&id);
        }
        if jobs.is_empty() {
            self.waiting.remove(&owner);
        }
    }

    /// Nothing more of a job starts, or does again.
    pub fn hold(&mut self, id: u64, is_held: bool) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.is_held = is_held;
            self.list(id);
        }
    }

    /// What waits of a job will not be started: how many tasks. The job is forgotten when the rest has ended.
    pub fn cancel(&mut self, id: u64) -> u32 {
        let Some(job) = self.jobs.get_mut(&id) else { return 0 };
        let pending = std::mem::take(&mut job.pending);
        self.list(id);
        self.forget(id);
        pending
    }

    /// A task of a job that was given to a host has ended, after this many milliseconds, if it ran; perhaps it is to be started again.
    pub fn task_ended(&mut self, id: u64, host: H, ran: Option<u64>, again: bool, now: u64) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| job.running > 0) else { return };
        job.running -= 1;
        job.pending += u32::from(again);
        if let Some(ran) = ran {
            // The last ones count most: tasks of an array differ.
            let ran = ran as f64;
            job.mean = Some(job.mean.map_or(ran, |mean| mean + (ran - mean) / 8.0));
        }
        let (user, slots) = (job.user, job.demand.slots);
        if matches!(job.demand.width, Width::Rigid(_)) {
            self.ending.insert(id, now);
        }
        self.usage.release(user, slots, now);
        if let Some(node) = self.hosts.get_mut(&host) {
            node.used = node.used.saturating_sub(slots);
        }
        if let Some(owner) = self.jobs.get(&id).and_then(|job| self.owner(job)) {
            self.count(owner, 0, slots);
        }
        if self.jobs.get(&id).is_some_and(|job| job.running == 0) {
            self.note_end(id, now);
        }
        self.take_end(id, host);
        self.note_stopped(id, host);
        self.list(id);
        self.forget(id);
    }

    fn take_end(&mut self, id: u64, host: H) {
        let Some(of) = self.ends_of.get_mut(&(id, host)) else { return };
        let Some(&end) = of.first() else { return };
        if let Some(count) = self.ends.get_mut(&(end, id, host)) {
            *count -= 1;
            if *count > 0 {
                return;
            }
            self.ends.remove(&(end, id, host));
        }
        of.remove(&end);
        if of.is_empty() {
            self.ends_of.remove(&(id, host));
            if let Some(node) = self.hosts.get_mut(&host) {
                node.parallel.remove(&id);
            }
        }
    }

    fn forget(&mut self, id: u64) {
        if self.jobs.get(&id).is_some_and(|job| job.pending == 0 && job.running == 0) {
            self.jobs.remove(&id);
            self.ending.remove(&id);
        }
    }

    fn count(&mut self, owner: Owner, more: u32, fewer: u32) {
        for used in [self.in_queue.entry(owner.0).or_default(), self.in_use.entry(owner).or_default()] {
            *used = (*used + more).saturating_sub(fewer);
        }
    }

    /// Jobs that have not ended.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Jobs that wait for nothing but room, in no order.
    pub fn waiting(&self) -> usize {
        self.waiting.values().map(BTreeSet::len).sum()
    }

    /// Slots that are free.
    pub fn free(&self) -> u32 {
        self.hosts.values().map(Node::free).sum()
    }
}

#[cfg(test)]
mod tests;
