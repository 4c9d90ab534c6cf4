//! A queue's properties, and the admission of jobs: one that can never run is refused at once, with the property that forbids it.

use super::hours::Hours;
use crate::coallocation::Strategy;
use crate::policy::Policy;
use pvm_wire::turn_rules::TurnRule;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A queue's properties. A job that is above one of its limits is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Jobs of queues of greater priority start first.
    pub priority: i32,
    /// Milliseconds of waiting that count as much as one step of priority; `None`: jobs do not age.
    pub aging: Option<u64>,
    /// Its hosts: names, `*` standing for any text, and `@cluster`s; none: all.
    pub hosts: Vec<String>,
    /// Which of them may be given tasks now.
    pub when: HostState,
    /// When it starts jobs; `None`: always.
    pub hours: Option<Hours>,
    /// Queues of lower priority whose tasks are ended, to begin again later, when a job of this one has no room.
    pub preempts: Vec<String>,
    /// How a rigid job gets its hosts; `None`: as few hosts as can be, whatever their clusters.
    pub coallocation: Option<Strategy>,
    /// The limits.
    pub limits: Limits,
    /// The policy by which tasks of its jobs spawn, and which divides its arrays among hosts as far as it divides ([`Dividing`]).
    /// `None`: the machine's, and active pulling.
    pub policy: Option<Policy>,
    /// How the teams of its jobs take turns; `None`: as others of the machine do.
    pub turns: Option<TurnRule>,
}

/// How the tasks of an array that can start now are divided among the hosts that have room for some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dividing {
    /// By the formula of active pulling, the least loaded hosts first.
    Pulling,
    /// In even blocks, from the host on that follows the one which was given tasks last.
    InTurn,
    /// In proportion to capability.
    Proportional,
    /// The same, where a host counts by how long a task would take there.
    LightlyLoaded,
}

/// What a host must be like to be given tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostState {
    /// Idle: no terminal has had input for this number of seconds, and others keep less than a quarter of its cores busy.
    pub idle: Option<u64>,
    /// Others keep less than this part of its cores busy, in thousandths.
    pub load: Option<u16>,
    /// For tasks of rigid jobs: no other rigid job has tasks there.
    pub one_parallel: bool,
}

/// What a queue allows. `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The longest run time of a task, in milliseconds. A job that names none has this one.
    pub time: Option<u64>,
    /// The most memory of a task, in bytes. A job that names none has this one.
    pub memory: Option<u64>,
    /// The most slots of a rigid job.
    pub width: Option<u32>,
    /// The most slots that jobs of the queue use at a time.
    pub running: Option<u32>,
    /// The same of one user.
    pub running_per_user: Option<u32>,
    /// The most jobs that may wait.
    pub waiting: Option<usize>,
    /// The most jobs of one user that may wait.
    pub waiting_per_user: Option<usize>,
}

impl Queue {
    /// A queue that takes everything.
    pub fn open(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            priority: 0,
            aging: None,
            hosts: Vec::new(),
            when: HostState::default(),
            hours: None,
            preempts: Vec::new(),
            coallocation: None,
            limits: Limits::default(),
            policy: None,
            turns: None,
        }
    }

    /// How its arrays are divided. Policies of agents place spawns only.
    pub fn dividing(&self) -> Dividing {
        match self.policy {
            Some(Policy::RoundRobin) => Dividing::InTurn,
            Some(Policy::Proportional) => Dividing::Proportional,
            Some(Policy::LightlyLoaded) => Dividing::LightlyLoaded,
            _ => Dividing::Pulling,
        }
    }
}

/// How many tasks a job has, and whether they run together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Width {
    /// All start at once, or none does.
    Rigid(u32),
    /// Each starts when there is room for it.
    Array {
        /// Tasks.
        count: u32,
        /// Most that run at a time; `None`: any number.
        at_once: Option<u32>,
    },
}

/// What a job needs, as far as it matters for its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demand {
    /// Its tasks.
    pub width: Width,
    /// Slots of each task.
    pub slots: u32,
    /// The longest run time of a task in milliseconds, by the user's word or the queue's; `None` if it is not known.
    pub time: Option<u64>,
    /// The most memory of a task in bytes; `None` if it is not known.
    pub memory: Option<u64>,
    /// Its hosts, as [`Queue::hosts`].
    pub hosts: Vec<String>,
    /// `BWBN`: bits per second between two of its tasks; 0 for none.
    pub bandwidth: u64,
    /// The cluster that it was submitted in.
    pub home: Option<String>,
}

impl Demand {
    /// Tasks in all.
    pub fn tasks(&self) -> u32 {
        match self.width {
            Width::Rigid(count) | Width::Array { count, .. } => count,
        }
    }

    /// Slots without which nothing of it can start.
    pub fn least(&self) -> u32 {
        match self.width {
            Width::Rigid(count) => self.slots.saturating_mul(count),
            Width::Array { .. } => self.slots,
        }
    }
}

/// Why a job was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// There is no such queue.
    #[error("there is no queue {0}")]
    NoQueue(String),
    /// There is no such cluster.
    #[error("there is no cluster {0} (pvm queues and pvm clusters show those that there are)")]
    NoCluster(String),
    /// There are none at all.
    #[error("the machine has no queue that takes the job: {0}")]
    NoneTakes(String),
    /// It asks for nothing.
    #[error("a job needs at least one task, and a parallel one a slot for each")]
    Nothing,
    /// All its hosts together are smaller.
    #[error(
        "the job needs {wants} slots at a time, the hosts it may run on have {has} (pvm conf, hosts of queue {queue})"
    )]
    Machine {
        /// The queue.
        queue: String,
        /// Slots.
        wants: u32,
        /// Slots of all its hosts.
        has: u32,
    },
    /// No cluster of hosts is large enough, and it may not span several.
    #[error(
        "the job needs {wants} slots in one cluster, the largest that it may run on has {has} (pvm clusters; coallocation of queue {queue})"
    )]
    Cluster {
        /// The queue.
        queue: String,
        /// Slots.
        wants: u32,
        /// Slots of the largest cluster.
        has: u32,
    },
    /// The cluster in which it was submitted is not large enough, and it may not run elsewhere.
    #[error(
        "the job needs {wants} slots in {home}, where it was submitted and has to run; there are {has} (pvm clusters; coallocation of queue {queue})"
    )]
    Home {
        /// The queue.
        queue: String,
        /// Slots.
        wants: u32,
        /// Slots of that cluster.
        has: u32,
        /// The cluster, for people.
        home: String,
    },
    /// No host is large enough for a task of it.
    #[error(
        "a task needs {wants} slots, the largest host it may run on has {has} (pvm conf, hosts of queue {queue})"
    )]
    Task {
        /// The queue.
        queue: String,
        /// Slots.
        wants: u32,
        /// Slots of the largest host.
        has: u32,
    },
    /// It is wider than the queue allows.
    #[error("the job needs {wants} slots at a time, queue {queue} allows {allows} ({limit})")]
    Width {
        /// The queue.
        queue: String,
        /// The job's slots.
        wants: u32,
        /// The queue's.
        allows: u32,
        /// The property.
        limit: &'static str,
    },
    /// It runs longer than the queue allows.
    #[error("the job may run for {} s, queue {queue} allows {} s (max-time)", wants / 1000, allows / 1000)]
    Time {
        /// The queue.
        queue: String,
        /// The job's run time, in milliseconds.
        wants: u64,
        /// The queue's.
        allows: u64,
    },
    /// It needs more memory than the queue allows.
    #[error("a task may use {wants} bytes of memory, queue {queue} allows {allows} (max-memory)")]
    Memory {
        /// The queue.
        queue: String,
        /// The job's memory, in bytes.
        wants: u64,
        /// The queue's.
        allows: u64,
    },
    /// Too many wait.
    #[error("{waiting} jobs wait in queue {queue}, which takes no more (max-waiting)")]
    Full {
        /// The queue.
        queue: String,
        /// How many wait.
        waiting: usize,
    },
    /// Too many of this user's wait.
    #[error(
        "{waiting} jobs of {user} wait in queue {queue}, which takes no more of one user (max-waiting-per-user)"
    )]
    FullForUser {
        /// The queue.
        queue: String,
        /// Whose.
        user: String,
        /// How many of the user's wait.
        waiting: usize,
    },
}

impl Queue {
    /// The limit of the queue's that a job is above, if any.
    pub fn forbids(&self, demand: &Demand) -> Option<Refusal> {
        let (queue, limits, wants) = (self.name.clone(), self.limits, demand.least());
        let widths = [
            (limits.width, "max-width"),
            (limits.running, "max-running"),
            (limits.running_per_user, "max-running-per-user"),
        ];
        let narrow = widths
            .into_iter()
            .find_map(|(allows, limit)| Some((allows.filter(|&most| wants > most)?, limit)));
        if let Some((allows, limit)) = narrow {
            return Some(Refusal::Width { queue, wants, allows, limit });
        }
        match (limits.time.zip(demand.time), limits.memory.zip(demand.memory)) {
            (Some((allows, wants)), _) if wants > allows => Some(Refusal::Time { queue, wants, allows }),
            (_, Some((allows, wants))) if wants > allows => Some(Refusal::Memory { queue, wants, allows }),
            _ => None,
        }
    }

    /// The demand with the queue's limits in the place of those that the job does not name.
    pub fn complete(&self, demand: Demand) -> Demand {
        let Demand { time, memory, .. } = demand;
        Demand { time: time.or(self.limits.time), memory: memory.or(self.limits.memory), ..demand }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_above_a_limit_is_refused_and_one_that_names_none_has_the_queues() {
        let limits = Limits { width: Some(8), time: Some(100_000), memory: Some(4), ..Limits::default() };
        let queue = Queue { limits, ..Queue::open("short") };
        let job = Demand { width: Width::Rigid(4), slots: 2, ..super::super::tests::array(1) };
        assert_eq!(queue.forbids(&job), None);
        let told = |job: Demand| queue.forbids(&job).expect("a refusal").to_string();
        let wide = Demand { slots: 3, ..job.clone() };
        assert_eq!(told(wide), "the job needs 12 slots at a time, queue short allows 8 (max-width)");
        let long = Demand { time: Some(101_000), ..job.clone() };
        assert_eq!(told(long), "the job may run for 101 s, queue short allows 100 s (max-time)");
        let big = Demand { memory: Some(5), ..job.clone() };
        assert_eq!(told(big), "a task may use 5 bytes of memory, queue short allows 4 (max-memory)");
        // The tasks of an array need not run together.
        let array = Demand { width: Width::Array { count: 100, at_once: None }, ..job.clone() };
        assert_eq!(queue.forbids(&array), None);
        assert_eq!((queue.complete(job).time, queue.complete(array).memory), (Some(100_000), Some(4)));
    }
}
