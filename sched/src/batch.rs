//! Batch scheduling: queues with properties, admission control, fair share.
//!
//! *Scheduling parallel jobs on clusters*, section 21.6.1. A job goes to a queue, where it may be refused at once;
//! otherwise it waits until the scheduler picks it: queues by their priority, within a queue the user with the lowest
//! score in the up-down table ([`Usage`]), of that user the oldest job that fits.

use crate::allocation::Usage;
use std::collections::{BTreeMap, VecDeque};
use thiserror::Error;

/// A job as it is submitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Job {
    /// Its number.
    pub id: u64,
    /// Its user: a number from 0 on, of some thousands.
    pub user: usize,
    /// Nodes.
    pub width: u32,
    /// Memory per node, in any unit.
    pub memory: u64,
    /// Expected run time in seconds.
    pub run_time: f64,
}

/// A queue's properties. A job that is above one of them is refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Queues of greater priority are served first.
    pub priority: i32,
    /// The longest expected run time, in seconds.
    pub run_time: f64,
    /// The most memory per node.
    pub memory: u64,
    /// The most nodes.
    pub width: u32,
    /// The most jobs that may wait.
    pub waiting: usize,
    /// The most jobs of one user that may wait.
    pub waiting_per_user: usize,
}

impl Queue {
    /// A queue that takes everything.
    pub fn open(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            priority: 0,
            run_time: f64::INFINITY,
            memory: u64::MAX,
            width: u32::MAX,
            waiting: usize::MAX,
            waiting_per_user: usize::MAX,
        }
    }
}

/// Why a job was refused.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Refusal {
    /// There is no such queue.
    #[error("there is no queue {0}")]
    NoQueue(String),
    /// It asks for nothing, or for something that is no number.
    #[error("a job needs at least one node and a run time")]
    Senseless,
    /// The whole machine is smaller.
    #[error("the job wants {wants} nodes, the machine has {has}")]
    Machine {
        /// The job's width.
        wants: u32,
        /// All nodes.
        has: u32,
    },
    /// It is wider than the queue allows.
    #[error("the job wants {wants} nodes, queue {queue} allows {allows}")]
    Width {
        /// The queue.
        queue: String,
        /// The job's width.
        wants: u32,
        /// The queue's.
        allows: u32,
    },
    /// It runs longer than the queue allows.
    #[error("the job expects to run for {wants} s, queue {queue} allows {allows} s")]
    RunTime {
        /// The queue.
        queue: String,
        /// The job's run time.
        wants: f64,
        /// The queue's.
        allows: f64,
    },
    /// It needs more memory than the queue allows.
    #[error("the job wants {wants} memory per node, queue {queue} allows {allows}")]
    Memory {
        /// The queue.
        queue: String,
        /// The job's memory.
        wants: u64,
        /// The queue's.
        allows: u64,
    },
    /// Too many wait.
    #[error("{waiting} jobs wait in queue {queue}, no more are taken")]
    Full {
        /// The queue.
        queue: String,
        /// How many wait.
        waiting: usize,
    },
    /// Too many of this user's wait.
    #[error("{waiting} of your jobs wait in queue {queue}, no more are taken")]
    FullForUser {
        /// The queue.
        queue: String,
        /// How many of the user's wait.
        waiting: usize,
    },
}

#[derive(Clone, Debug)]
struct Waiting {
    queue: Queue,
    count: usize,
    users: BTreeMap<usize, VecDeque<Job>>,
}

impl Waiting {
    fn refuse(&self, job: &Job) -> Option<Refusal> {
        let (queue, name) = (&self.queue, || self.queue.name.clone());
        let own = self.users.get(&job.user).map_or(0, VecDeque::len);
        if job.width > queue.width {
            Some(Refusal::Width { queue: name(), wants: job.width, allows: queue.width })
        } else if job.run_time > queue.run_time {
            Some(Refusal::RunTime { queue: name(), wants: job.run_time, allows: queue.run_time })
        } else if job.memory > queue.memory {
            Some(Refusal::Memory { queue: name(), wants: job.memory, allows: queue.memory })
        } else if self.count >= queue.waiting {
            Some(Refusal::Full { queue: name(), waiting: self.count })
        } else if own >= queue.waiting_per_user {
            Some(Refusal::FullForUser { queue: name(), waiting: own })
        } else {
            None
        }
    }

    fn take(&mut self, user: usize) -> Option<Job> {
        let jobs = self.users.get_mut(&user)?;
        let job = jobs.pop_front()?;
        if jobs.is_empty() {
            self.users.remove(&user);
        }
        self.count -= 1;
        Some(job)
    }
}

/// The queues of a machine, and the jobs in them.
#[derive(Clone, Debug)]
pub struct Batch {
    nodes: u32,
    /// By falling priority, of equal ones as they were named.
    queues: Vec<Waiting>,
    usage: Usage,
    fair: bool,
}

impl Batch {
    /// Queues for a machine of `nodes` nodes. Without `fair`, jobs of a queue start in the order of submission.
    pub fn new(nodes: u32, mut queues: Vec<Queue>, fair: bool) -> Self {
        queues.sort_by_key(|queue| std::cmp::Reverse(queue.priority));
        let queues =
            queues.into_iter().map(|queue| Waiting { queue, count: 0, users: BTreeMap::new() }).collect();
        Self { nodes, queues, usage: Usage::new(), fair }
    }

    /// A job is submitted to a queue: it waits, or is refused for a reason.
    pub fn submit(&mut self, queue: &str, job: Job) -> Result<(), Refusal> {
        if job.width == 0 || !job.run_time.is_finite() || job.run_time < 0.0 {
            return Err(Refusal::Senseless);
        } else if job.width > self.nodes {
            return Err(Refusal::Machine { wants: job.width, has: self.nodes });
        }
        let place = self.queues.iter_mut().find(|place| place.queue.name == queue);
        let place = place.ok_or_else(|| Refusal::NoQueue(queue.to_owned()))?;
        if let Some(refusal) = place.refuse(&job) {
            return Err(refusal);
        }
        place.count += 1;
        place.users.entry(job.user).or_default().push_back(job);
        Ok(())
    }

    /// A job that had been started has to run again, its host has failed for example. It was accepted once, so it is not
    /// refused: it goes before all others of its user. Whether there is such a queue.
    pub fn requeue(&mut self, queue: &str, job: Job) -> bool {
        let Some(place) = self.queues.iter_mut().find(|place| place.queue.name == queue) else {
            return false;
        };
        place.count += 1;
        place.users.entry(job.user).or_default().push_front(job);
        true
    }

    /// The queue that takes a job: of those that would, the one with the highest priority.
    pub fn route(&self, job: &Job) -> Option<&str> {
        let place = self.queues.iter().find(|place| place.refuse(job).is_none());
        place.filter(|_| job.width <= self.nodes).map(|place| place.queue.name.as_str())
    }

    /// The job to start now on `free` nodes, if there is one, at `now` in milliseconds. Call until `None`.
    ///
    /// A user's jobs keep their order. Users whose oldest job does not fit are passed over, so that a wide job may
    /// wait long on a machine that is never empty enough.
    pub fn next(&mut self, free: u32, now: u64) -> Option<Job> {
        for place in &mut self.queues {
            let fits = place.users.iter().filter_map(|(&user, jobs)| Some((user, jobs.front()?)));
            let fits = fits.filter(|(_, job)| job.width <= free);
            let user = if self.fair {
                fits.min_by_key(|&(user, job)| (self.usage.score(user, now), job.id)).map(|(user, _)| user)
            } else {
                fits.min_by_key(|&(_, job)| job.id).map(|(user, _)| user)
            };
            if let Some(job) = user.and_then(|user| place.take(user)) {
                self.usage.acquire(job.user, job.width, now);
                return Some(job);
            }
        }
        None
    }

    /// A job that was started has ended.
    pub fn ended(&mut self, job: &Job, now: u64) {
        self.usage.release(job.user, job.width, now);
    }

    /// How many jobs wait.
    pub fn len(&self) -> usize {
        self.queues.iter().map(|place| place.count).sum()
    }

    /// Whether no job waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All that wait, with their queues: what a daemon writes down, and submits again after a restart.
    pub fn waiting(&self) -> impl Iterator<Item = (&str, &Job)> {
        self.queues
            .iter()
            .flat_map(|place| place.users.values().flatten().map(move |job| (place.queue.name.as_str(), job)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn job(id: u64, user: usize, width: u32) -> Job {
        Job { id, user, width, memory: 1, run_time: 60.0 }
    }

    fn batch() -> Batch {
        let short = Queue { priority: 10, run_time: 100.0, width: 8, memory: 4, ..Queue::open("short") };
        let small = Queue { waiting: 3, waiting_per_user: 2, ..Queue::open("small") };
        Batch::new(16, vec![small, short, Queue::open("long")], true)
    }

    #[test]
    fn every_refusal_has_its_reason() {
        let mut batch = batch();
        let reason = |batch: &mut Batch, queue: &str, job: Job| {
            batch.submit(queue, job).map_err(|refusal| refusal.to_string()).expect_err("refused")
        };
        assert_eq!(reason(&mut batch, "fast", job(1, 0, 1)), "there is no queue fast");
        assert_eq!(reason(&mut batch, "long", job(1, 0, 17)), "the job wants 17 nodes, the machine has 16");
        assert_eq!(reason(&mut batch, "short", job(1, 0, 9)), "the job wants 9 nodes, queue short allows 8");
        let long = Job { run_time: 101.0, ..job(1, 0, 1) };
        assert_eq!(
            reason(&mut batch, "short", long),
            "the job expects to run for 101 s, queue short allows 100 s"
        );
        let big = Job { memory: 5, ..job(1, 0, 1) };
        assert_eq!(reason(&mut batch, "short", big), "the job wants 5 memory per node, queue short allows 4");
        for senseless in
            [job(1, 0, 0), Job { run_time: f64::NAN, ..job(1, 0, 1) }, Job { run_time: -1.0, ..long }]
        {
            assert_eq!(batch.submit("long", senseless), Err(Refusal::Senseless));
        }
        assert_eq!(batch.submit("small", job(1, 0, 1)), Ok(()));
        assert_eq!(batch.submit("small", job(2, 0, 1)), Ok(()));
        assert_eq!(
            reason(&mut batch, "small", job(3, 0, 1)),
            "2 of your jobs wait in queue small, no more are taken"
        );
        assert_eq!(batch.submit("small", job(3, 1, 1)), Ok(()));
        assert_eq!(
            reason(&mut batch, "small", job(4, 2, 1)),
            "3 jobs wait in queue small, no more are taken"
        );
        assert_eq!(batch.len(), 3);
    }

    #[test]
    fn queues_by_priority_users_by_score() {
        let mut batch = batch();
        for (id, user) in [(1, 0), (2, 0), (3, 0), (4, 1)] {
            batch.submit("long", job(id, user, 2)).expect("open");
        }
        batch.submit("short", job(5, 2, 2)).expect("it is short");
        let started: Vec<u64> =
            std::iter::from_fn(|| batch.next(2, 1000)).take(1).map(|job| job.id).collect();
        assert_eq!(started, [5], "priority");
        assert_eq!(batch.next(2, 1000).map(|job| job.id), Some(1), "none has used anything: the oldest");
        assert_eq!(batch.next(2, 9000).map(|job| job.id), Some(4), "the other has used less");
        assert_eq!(batch.next(1, 9000), None, "too few nodes");
        assert_eq!(batch.next(2, 9000).map(|job| job.id), Some(2));
    }

    #[test]
    fn a_job_finds_its_queue() {
        let batch = batch();
        assert_eq!(batch.route(&job(1, 0, 4)), Some("short"));
        assert_eq!(batch.route(&job(1, 0, 12)), Some("small"));
        assert_eq!(batch.route(&job(1, 0, 17)), None);
    }

    #[test]
    fn a_job_that_has_to_run_again_is_first_and_not_refused() {
        let mut batch = batch();
        for id in 1..3 {
            batch.submit("small", job(id, 0, 1)).expect("two may wait");
        }
        assert!(batch.requeue("small", job(9, 0, 1)));
        assert!(!batch.requeue("none", job(9, 0, 1)));
        assert_eq!(batch.next(1, 0).map(|job| job.id), Some(9));
        assert_eq!(batch.len(), 2);
    }

    #[test]
    fn waiting_jobs_survive_a_restart() {
        let mut old = batch();
        for id in 0..5 {
            old.submit("long", job(id, id as usize % 2, 1)).expect("open");
        }
        let mut new = batch();
        for (queue, &job) in old.waiting() {
            new.submit(queue, job).expect("it was taken before");
        }
        let order = |mut batch: Batch| -> Vec<u64> {
            std::iter::from_fn(|| batch.next(9, 0)).map(|job| job.id).collect()
        };
        assert_eq!(order(new), order(old));
    }

    proptest! {
        /// No job accepted is lost or started twice, and none is started that does not fit.
        #[test]
        fn conservation(jobs in proptest::collection::vec((0..4_usize, 0..20_u32, 0..200_u32), 0..60), fair: bool) {
            let mut batch = batch();
            batch.fair = fair;
            let mut accepted = Vec::new();
            for (id, (user, width, run_time)) in (0..).zip(jobs) {
                let job = Job { run_time: f64::from(run_time), ..job(id, user, width) };
                let queue = ["short", "small", "long"][id as usize % 3];
                if batch.submit(queue, job).is_ok() {
                    accepted.push(id);
                }
            }
            let mut started = Vec::new();
            for now in 0..1000 {
                let free = now as u32 % 17;
                while let Some(job) = batch.next(free, now) {
                    prop_assert!(job.width <= free);
                    batch.ended(&job, now);
                    started.push(job.id);
                }
            }
            started.sort_unstable();
            prop_assert_eq!(started, accepted);
            prop_assert!(batch.is_empty());
        }
    }
}
