//! Why a job waits.

use super::hosts::Node;
use super::order::Owner;
use super::queue::{HostState, Limits, Queue, Width};
use super::{Job, Scheduler};

/// Why a job waits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// It is held.
    #[error("it is held")]
    Held,
    /// Its queue is not configured any more.
    #[error("queue {0} does not exist any more")]
    NoQueue(String),
    /// No host that it may run on is there.
    #[error("none of the hosts it may run on is in the machine")]
    NoHosts,
    /// So many slots of its queue are in use.
    #[error("queue {queue} has {allows} slots in use, as many as it may (max-running)")]
    Running {
        /// The queue.
        queue: String,
        /// Its limit.
        allows: u32,
    },
    /// So many slots are in use by its user.
    #[error(
        "{user} has {allows} slots of queue {queue} in use, as many as one user may (max-running-per-user)"
    )]
    RunningPerUser {
        /// The queue.
        queue: String,
        /// The user.
        user: String,
        /// The limit.
        allows: u32,
    },
    /// Its queue starts jobs at other times.
    #[error("queue {queue} starts jobs {hours} (hours)")]
    Closed {
        /// The queue.
        queue: String,
        /// When it does.
        hours: String,
    },
    /// Hosts are not as its queue wants them.
    #[error("no host that it may run on is {what}, as queue {queue} wants it ({property})")]
    NoneTakes {
        /// The queue.
        queue: String,
        /// What hosts are to be.
        what: &'static str,
        /// The property.
        property: &'static str,
    },
    /// Tasks of others are ended for it.
    #[error("tasks of lower priority are being ended for it")]
    Stopping,
    /// As many of its tasks run as may run at a time.
    #[error("{0} of its tasks run, as many as may at a time")]
    AtOnce(u32),
    /// The owners of all hosts that it may run on are there.
    #[error("the owners of all hosts that it may run on are there (pvm owner)")]
    Owners,
    /// There is no room for it.
    #[error("it needs {needs} slots at a time, {free} are free")]
    NoRoom {
        /// What it needs.
        needs: u32,
        /// What is free.
        free: u32,
    },
    /// There is no room for it in any one of the clusters that it may have.
    #[error("it needs {needs} slots in one cluster that it may run in, {free} are free there (coallocation)")]
    NoCluster {
        /// What it needs.
        needs: u32,
        /// What is free in the cluster with most.
        free: u32,
    },
    /// Others are before it.
    #[error("other jobs are before it")]
    Behind,
}

impl<H: Copy + Ord> Scheduler<H> {
    /// Why what waits of a job has not started; `None` if nothing of it waits.
    pub fn reason(&self, id: u64, now: u64) -> Option<Reason> {
        let job = self.jobs.get(&id).filter(|job| job.pending > 0)?;
        if job.is_held {
            return Some(Reason::Held);
        }
        let Some((number, queue)) = self.queue(&job.queue) else {
            return Some(Reason::NoQueue(job.queue.clone()));
        };
        if let Some(hours) = queue.hours.as_ref().filter(|_| !self.is_open(queue, now)) {
            return Some(Reason::Closed { queue: queue.name.clone(), hours: hours.to_string() });
        }
        let owner = (number, job.user);
        if self.allowed(owner, id, now).is_none() {
            return Some(self.limit(owner, queue));
        }
        if let Width::Array { at_once: Some(most), .. } = job.demand.width
            && job.running >= most
        {
            return Some(Reason::AtOnce(most));
        }
        Some(self.want_of_room(job, queue, now))
    }

    fn want_of_room(&self, job: &Job, queue: &Queue, now: u64) -> Reason {
        let hosts: Vec<(H, &Node, bool)> = self.hosts_for(job, queue, now).collect();
        if hosts.is_empty() {
            return Reason::NoHosts;
        }
        if !hosts.iter().any(|&(_, _, takes)| takes) {
            if hosts.iter().all(|(_, node, _)| node.is_with_owner) {
                return Reason::Owners;
            }
            let (what, property) = match queue.when {
                HostState { idle: Some(_), .. } => ("idle", "idle"),
                HostState { load: Some(_), .. } => ("lightly loaded", "max-load"),
                _ => ("without a parallel job", "one-parallel-job-per-host"),
            };
            return Reason::NoneTakes { queue: queue.name.clone(), what, property };
        }
        let free = hosts.iter().filter(|(_, _, takes)| *takes).map(|(_, node, _)| node.free()).sum();
        let needs = job.demand.least();
        match () {
            () if !queue.preempts.is_empty() && !self.stopping.is_empty() => Reason::Stopping,
            () if needs > free => Reason::NoRoom { needs, free },
            () => self.want_of_cluster(job, queue, &hosts).unwrap_or(Reason::Behind),
        }
    }

    /// What a parallel job lacks that may not span the clusters which have room for it together.
    fn want_of_cluster(&self, job: &Job, queue: &Queue, hosts: &[(H, &Node, bool)]) -> Option<Reason> {
        let Width::Rigid(width) = job.demand.width else { return None };
        let placing = self.placing(width, &job.demand, queue);
        let takes = hosts.iter().filter(|(_, _, takes)| *takes);
        let rooms = placing.rooms(&takes.map(|(host, node, _)| (*host, node.free())).collect());
        let free = u32::try_from(placing.reach(&rooms)).unwrap_or(u32::MAX).saturating_mul(placing.each());
        (!placing.fits(&rooms)).then_some(Reason::NoCluster { needs: job.demand.least(), free })
    }

    fn limit(&self, owner: Owner, queue: &Queue) -> Reason {
        let used = self.in_queue.get(&owner.0).copied().unwrap_or(0);
        let name = queue.name.clone();
        match queue.limits {
            Limits { running: Some(allows), .. } if used >= allows => Reason::Running { queue: name, allows },
            Limits { running, running_per_user, .. } => {
                let user = self.users.iter().find(|(_, number)| **number == owner.1);
                let user = user.map_or_else(String::new, |(name, _)| name.clone());
                let allows = running_per_user.or(running).unwrap_or(0);
                Reason::RunningPerUser { queue: name, user, allows }
            }
        }
    }
}
