//! The decision: which tasks start now, and where; and why others do not.

use super::fit::{Node, Part, Reservation, Slots, pulled, together};
use super::order::{Line, Owner, Rank};
use super::queue::{Limits, Queue, Width};
use super::{AHEAD, AHEAD_MAX, DEPTH, Job, Reason, Scheduler, Start, UNKNOWN};
use std::cmp::Reverse;

impl<H: Copy + Ord> Scheduler<H> {
    /// The tasks that start now, each counted as given to its host from now on.
    pub fn next(&mut self, now: u64) -> Vec<Start<H>> {
        if self.brief.is_empty() && self.hosts.values().all(|node| node.free() == 0) {
            return Vec::new();
        }
        let waiting = std::mem::take(&mut self.waiting);
        let mut line = Line::new(&waiting, &mut |owner, job| self.rank(owner, job, now));
        let (mut starts, mut looked, mut reserved) = (Vec::new(), 0, None);
        while let Some((owner, id)) = line.next() {
            if looked > DEPTH {
                break;
            }
            let Some(room) = self.allowed(owner, id) else {
                // Nor may the owner's other jobs start.
                continue;
            };
            let parts = self.fit(id, room, &mut reserved, now);
            if parts.is_empty() {
                looked += 1;
            } else {
                self.start(owner, id, &parts, now);
                starts.push(Start { job: id, parts });
            }
            if reserved.is_some() && !self.rules.backfills {
                break;
            }
            line.go_on(owner, id, &mut |owner, job| self.rank(owner, job, now));
        }
        self.waiting = waiting;
        for start in &starts {
            self.list(start.job);
        }
        starts
    }

    fn rank(&self, owner: Owner, id: u64, now: u64) -> Rank {
        let (queue, job) = (&self.queues[owner.0], &self.jobs[&id]);
        let steps = queue.aging.map_or(0, |step| now.saturating_sub(job.submitted) / step.max(1));
        let (score, using) = if self.rules.is_fair {
            let using = self.in_use.get(&owner).copied().unwrap_or(0);
            (self.usage.score(owner.1, now), using)
        } else {
            (0, 0)
        };
        Rank {
            priority: i64::from(queue.priority).saturating_add(steps.min(1 << 31) as i64),
            score: Reverse(score),
            using: Reverse(using),
            job: Reverse(id),
        }
    }

    /// Slots that a job may have more by the limits of its queue; `None` if they are used up.
    fn allowed(&self, owner: Owner, id: u64) -> Option<u32> {
        let limits = self.queues[owner.0].limits;
        let left = |limit: Option<u32>, used: Option<&u32>| {
            limit.map_or(u32::MAX, |limit| limit.saturating_sub(used.copied().unwrap_or(0)))
        };
        let room = left(limits.running, self.in_queue.get(&owner.0))
            .min(left(limits.running_per_user, self.in_use.get(&owner)));
        (room >= self.jobs[&id].demand.least()).then_some(room)
    }

    /// Where tasks of a job start now. `room` is the largest number of slots that they may use together.
    fn fit(&self, id: u64, room: u32, reserved: &mut Option<Reservation<H>>, now: u64) -> Vec<(H, u32)> {
        let job = &self.jobs[&id];
        let Some((_, queue)) = self.queue(&job.queue) else { return Vec::new() };
        let end = end_of(job, now);
        let each = job.demand.slots;
        let eligible = self.hosts.iter().filter(|(_, node)| Self::is_for(job, queue, node));
        let parts = match job.demand.width {
            // To be started again when the rest has ended.
            Width::Rigid(width) if job.pending < width => Vec::new(),
            Width::Rigid(width) => {
                let slots: Slots<H> = eligible.map(|(&host, node)| (host, node.free())).collect();
                let Some(held) = reserved else {
                    let parts = together(&slots, width, each);
                    if parts.is_none() {
                        let ends = self.ends.iter().map(|(&(end, other, host), &count)| {
                            (end, host, count * self.jobs.get(&other).map_or(0, |job| job.demand.slots))
                        });
                        *reserved = Reservation::new(slots, (width, each), ends);
                    }
                    return parts.unwrap_or_default();
                };
                let left = slots.iter().map(|(&host, &free)| (host, held.leaves(host, free, end)));
                together(&left.collect(), width, each).unwrap_or_default()
            }
            Width::Array { at_once, .. } => {
                let most = at_once.unwrap_or(u32::MAX).saturating_sub(job.running).min(room / each);
                let ahead = |node: &Node| if reserved.is_some() { 0 } else { ahead(job, node) };
                let part = |(&host, node): (&H, &Node)| {
                    let free = (node.slots + ahead(node) * each).saturating_sub(node.used);
                    let free = reserved.as_ref().map_or(free, |held| held.leaves(host, free, end));
                    let load = f64::from(node.used) / f64::from(node.slots.max(1));
                    Part { host, capability: node.capability, room: free / each, load }
                };
                let parts = eligible.map(part).filter(|part| part.room > 0).collect();
                pulled(job.pending.min(most), parts)
            }
        };
        if let Some(held) = reserved {
            for &(host, count) in &parts {
                held.take(host, count * each, end);
            }
        }
        parts
    }

    fn start(&mut self, owner: Owner, id: u64, parts: &[(H, u32)], now: u64) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let (each, end, user) = (job.demand.slots, end_of(job, now), job.user);
        let count: u32 = parts.iter().map(|(_, count)| count).sum();
        job.pending -= count;
        job.running += count;
        for &(host, count) in parts {
            *self.ends.entry((end, id, host)).or_default() += count;
            self.ends_of.entry((id, host)).or_default().insert(end);
            if let Some(node) = self.hosts.get_mut(&host) {
                node.used += count * each;
            }
        }
        self.usage.acquire(user, count * each, now);
        self.count(owner, count * each, 0);
    }

    /// Why what waits of a job has not started; `None` if nothing of it waits.
    pub fn reason(&self, id: u64) -> Option<Reason> {
        let job = self.jobs.get(&id).filter(|job| job.pending > 0)?;
        if job.is_held {
            return Some(Reason::Held);
        }
        let Some((number, queue)) = self.queue(&job.queue) else {
            return Some(Reason::NoQueue(job.queue.clone()));
        };
        let owner = (number, job.user);
        if self.allowed(owner, id).is_none() {
            return Some(self.limit(owner, queue));
        }
        if let Width::Array { at_once: Some(most), .. } = job.demand.width
            && job.running >= most
        {
            return Some(Reason::AtOnce(most));
        }
        let mut eligible = self.hosts.values().filter(|node| Self::is_for(job, queue, node)).peekable();
        if eligible.peek().is_none() {
            return Some(Reason::NoHosts);
        }
        let (free, needs) = (eligible.map(Node::free).sum(), job.demand.least());
        if needs > free {
            return Some(Reason::NoRoom { needs, free });
        }
        Some(Reason::Behind)
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

/// When a task that starts now ends at the latest.
fn end_of(job: &Job, now: u64) -> u64 {
    job.demand.time.map_or(UNKNOWN, |time| now.saturating_add(time))
}

/// Tasks of a job that a host is given beyond its slots: as many as it has done before it is given more.
fn ahead(job: &Job, node: &Node) -> u32 {
    let Some(mean) = job.mean else { return 0 };
    let tasks = f64::from(node.slots / job.demand.slots.max(1)) * AHEAD / mean.max(0.1);
    if mean < AHEAD { (tasks as u32).min(AHEAD_MAX) } else { 0 }
}
