//! The decision: which tasks start now, and where.

use super::clusters::Placing;
use super::fit::{Part, Reservation, Slots, divided};
use super::hosts::Node;
use super::order::{Line, Owner, Rank};
use super::queue::{Dividing, HostState, Queue, Width};
use super::{Job, Scheduler, Start, UNKNOWN};
use pvm_wire::tuned;
use std::cmp::Reverse;

impl<H: Copy + Ord> Scheduler<H> {
    /// The tasks that start now, each counted as given to its host from now on.
    pub fn next(&mut self, now: u64) -> Vec<Start<H>> {
        self.read_meters(now);
        if self.brief.is_empty() && self.hosts.values().all(|node| node.free() == 0) {
            return Vec::new();
        }
        let waiting = std::mem::take(&mut self.waiting);
        let mut line = Line::new(&waiting, &mut |owner, job| self.rank(owner, job, now));
        let (mut starts, mut looked, mut reserved) = (Vec::new(), 0, None);
        while let Some((owner, id)) = line.next() {
            if looked > tuned::JOB_DEPTH {
                break;
            }
            let Some(room) = self.allowed(owner, id, now) else {
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

    pub(super) fn rank(&self, owner: Owner, id: u64, now: u64) -> Rank {
        let (queue, job) = (&self.with.queues[owner.0], &self.jobs[&id]);
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

    /// Slots that a job may have more by the limits and hours of its queue; `None` if nothing of it may start.
    pub(super) fn allowed(&self, owner: Owner, id: u64, now: u64) -> Option<u32> {
        let Queue { limits, .. } = self.with.queues[owner.0];
        if !self.is_open(&self.with.queues[owner.0], now) {
            return None;
        }
        let left = |limit: Option<u32>, used: Option<&u32>| {
            limit.map_or(u32::MAX, |limit| limit.saturating_sub(used.copied().unwrap_or(0)))
        };
        let room = left(limits.running, self.in_queue.get(&owner.0))
            .min(left(limits.running_per_user, self.in_use.get(&owner)));
        (room >= self.jobs[&id].demand.least()).then_some(room)
    }

    /// Whether a queue starts jobs now.
    pub fn is_open(&self, queue: &Queue, now: u64) -> bool {
        queue.hours.as_ref().is_none_or(|hours| hours.contain(now.saturating_add_signed(self.local)))
    }

    /// The hosts that a job may run on, and whether each may be given tasks of it now.
    pub(super) fn hosts_for<'a>(
        &'a self,
        job: &'a Job,
        queue: &'a Queue,
        now: u64,
    ) -> impl Iterator<Item = (H, &'a Node, bool)> {
        let HostState { idle, load, one_parallel } = queue.when;
        let is_rigid = matches!(job.demand.width, Width::Rigid(_));
        let takes = move |node: &Node| {
            !node.is_with_owner
                && idle.is_none_or(|seconds| node.is_idle(seconds, now / 1000))
                && load.is_none_or(|most| node.is_lighter_than(most))
                && !(one_parallel && is_rigid && !node.parallel.is_empty())
        };
        let all = self.hosts.iter().filter(|(_, node)| self.is_for(&job.demand, queue, node));
        all.map(move |(&host, node)| (host, node, takes(node)))
    }

    /// Where tasks of a job start now. `room` is the largest number of slots that they may use together.
    fn fit(&self, id: u64, room: u32, reserved: &mut Option<Reservation<H>>, now: u64) -> Vec<(H, u32)> {
        let job = &self.jobs[&id];
        let Some((_, queue)) = self.queue(&job.queue) else { return Vec::new() };
        let end = end_of(job, now);
        let each = job.demand.slots;
        let hosts = self.hosts_for(job, queue, now);
        let parts = match job.demand.width {
            // To be started again when the rest has ended.
            Width::Rigid(width) if job.pending < width => Vec::new(),
            Width::Rigid(width) => {
                let (slots, shut) = free_of(hosts);
                let placing = self.placing(width, &job.demand, queue);
                let Some(held) = reserved else {
                    let parts = placing.place(&slots);
                    if parts.as_ref().is_some_and(|parts| self.waits_for_slots(&placing, parts, now)) {
                        return Vec::new();
                    }
                    if parts.is_none() {
                        let held = Reservation::new(slots, &placing, self.room_by_ends(now));
                        *reserved = held.map(|held| held.leaving(&shut));
                    }
                    return parts.unwrap_or_default();
                };
                let left = slots.iter().map(|(&host, &free)| (host, held.leaves(host, free, end)));
                placing.place(&left.collect()).unwrap_or_default()
            }
            Width::Array { at_once, .. } => {
                let most = at_once.unwrap_or(u32::MAX).saturating_sub(job.running);
                let most = most.min(room.checked_div(each).unwrap_or(u32::MAX));
                let ahead = |node: &Node| if reserved.is_some() { 0 } else { ahead(job, node) };
                let part = |(host, node, _): (H, &Node, bool)| {
                    let free = (node.host.slots + ahead(node) * each).saturating_sub(node.used);
                    let free = reserved.as_ref().map_or(free, |held| held.leaves(host, free, end));
                    let (capability, stretch) = (node.host.capability, node.stretch());
                    // A task without slots always finds room.
                    let room = free.checked_div(each).unwrap_or(job.pending);
                    Part { host, capability, room, stretch }
                };
                let takes = hosts.filter(|(_, _, takes)| *takes);
                let parts = takes.map(part).filter(|part| part.room > 0).collect();
                divided(queue.dividing(), job.pending.min(most), parts, self.last)
            }
        };
        if let Some(held) = reserved {
            for &(host, count) in &parts {
                held.take(host, count * each, end);
            }
        }
        parts
    }

    /// Slots that tasks leave when they end, by time. About to end are those that are to for others, and those of a parallel job of which
    /// one has just ended: its tasks end together, but are not reported so.
    fn room_by_ends(&self, now: u64) -> impl Iterator<Item = (u64, H, u32)> {
        let slots = |id: u64| self.jobs.get(&id).map_or(0, |job| job.demand.slots);
        let is_ending = move |id: u64| self.is_ending(id, now);
        let ending = self.ends.iter().take_while(|_| !self.ending.is_empty());
        let ending = ending.filter(move |&(&(_, id, _), _)| is_ending(id));
        let ending = ending.map(move |(&(_, id, host), &count)| (now, host, count * slots(id)));
        let mut left = self.stopping.clone();
        let stopping = self.stopping.iter().filter(move |&(&(id, _), _)| !is_ending(id));
        let stopping = stopping.map(move |(&(id, host), &count)| (now, host, count * slots(id)));
        let others = self.ends.iter().filter(move |&(&(_, id, _), _)| !is_ending(id));
        let others = others.map(move |(&(end, id, host), &count)| {
            let stops = left.get_mut(&(id, host)).map_or(0, |left| {
                let stops = count.min(*left);
                *left -= stops;
                stops
            });
            (end, host, (count - stops) * slots(id))
        });
        ending.chain(stopping).chain(others)
    }

    /// Whether a job that would span clusters waits, as another one is about to leave all of its slots: the ends of its tasks are reported
    /// one by one, and what takes each slot at once would come to be in all clusters.
    fn waits_for_slots(&self, placing: &Placing<H>, parts: &[(H, u32)], now: u64) -> bool {
        let mut clusters = parts.iter().map(|&(host, _)| placing.site(host));
        let first = clusters.next();
        clusters.any(|other| Some(other) != first) && self.is_any_ending(now)
    }

    /// Whether the rest of any parallel job is expected to end at once.
    pub fn is_any_ending(&self, now: u64) -> bool {
        self.ending.keys().any(|&id| self.is_ending(id, now))
    }

    /// Whether the rest of a parallel job is expected to end at once, as some of its tasks just have.
    fn is_ending(&self, id: u64, now: u64) -> bool {
        let within = tuned::JOB_ENDING.as_millis() as u64;
        self.ending.get(&id).is_some_and(|&ended| now < ended.saturating_add(within))
    }

    fn start(&mut self, owner: Owner, id: u64, parts: &[(H, u32)], now: u64) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let (each, end, user) = (job.demand.slots, end_of(job, now), job.user);
        let is_rigid = matches!(job.demand.width, Width::Rigid(_));
        let count: u32 = parts.iter().map(|(_, count)| count).sum();
        if !is_rigid && self.with.queues[owner.0].dividing() == Dividing::InTurn {
            self.last = parts.last().map(|&(host, _)| host).or(self.last);
        }
        job.pending -= count;
        job.running += count;
        self.ending.remove(&id);
        for &(host, count) in parts {
            *self.ends.entry((end, id, host)).or_default() += count;
            self.ends_of.entry((id, host)).or_default().insert(end);
            if let Some(node) = self.hosts.get_mut(&host) {
                node.used += count * each;
                if is_rigid {
                    node.parallel.insert(id);
                }
            }
        }
        self.usage.acquire(user, count * each, now);
        self.count(owner, count * each, 0);
        if is_rigid {
            self.note_start(id, parts, now);
        }
    }
}

/// The slots that are free for a job on its hosts; and those that are free on hosts that take nothing of it now, on which it finds room
/// only when something has ended.
fn free_of<'a, H: Copy + Ord>(hosts: impl Iterator<Item = (H, &'a Node, bool)>) -> (Slots<H>, Slots<H>) {
    let (mut slots, mut shut) = (Slots::new(), Slots::new());
    for (host, node, takes) in hosts {
        slots.insert(host, if takes { node.free() } else { 0 });
        shut.insert(host, if takes { 0 } else { node.free() });
    }
    (slots, shut)
}

/// When a task that starts now ends at the latest.
fn end_of(job: &Job, now: u64) -> u64 {
    job.demand.time.map_or(UNKNOWN, |time| now.saturating_add(time))
}

/// Tasks of a job that a host is given beyond its slots: as many as it has done before it is given more.
fn ahead(job: &Job, node: &Node) -> u32 {
    let Some(mean) = job.mean else { return 0 };
    let tasks = f64::from(node.host.slots / job.demand.slots.max(1)) * tuned::JOB_AHEAD / mean.max(0.1);
    if mean < tuned::JOB_AHEAD { (tasks as u32).min(tuned::JOB_AHEAD_MAX) } else { 0 }
}
