//! Preemption: tasks of queues of lower priority end, to begin again later, when a job of a queue that preempts theirs has no room.

use super::clusters::Placing;
use super::fit::{Slots, together};
use super::order::Line;
use super::queue::{Queue, Width};
use super::{Job, Scheduler};
use pvm_wire::tuned;
use std::collections::{BTreeMap, BTreeSet};

/// Tasks of a job that are to end: how many on which host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop<H> {
    /// The job.
    pub job: u64,
    /// Its tasks, by host; of a rigid job all.
    pub parts: Vec<(H, u32)>,
}

/// Tasks by job and host.
type Given<H> = BTreeMap<(u64, H), u32>;

impl<H: Copy + Ord> Scheduler<H> {
    /// The tasks that are to end for others. To be called after [`next`](Self::next); the ends are told by
    /// [`task_ended`](Self::task_ended) as all others.
    pub fn stops(&mut self, now: u64) -> Vec<Stop<H>> {
        if self.with.queues.iter().all(|queue| queue.preempts.is_empty()) {
            return Vec::new();
        }
        let mut stops = Given::new();
        let mut room = self.room_to_come();
        for (id, allowed) in self.preempting(now) {
            let job = &self.jobs[&id];
            let Some((_, queue)) = self.queue(&job.queue) else { continue };
            self.make_room(job, queue, allowed, &mut room, &mut stops, now);
        }
        self.note_stops(stops, now)
    }

    /// The slots of each host that are free, or will be when the tasks have ended that are to.
    fn room_to_come(&self) -> Slots<H> {
        let mut room: Slots<H> = self.hosts.iter().map(|(&host, node)| (host, node.free())).collect();
        for (&(id, host), &count) in &self.stopping {
            let slots = self.jobs.get(&id).map_or(0, |job| job.demand.slots);
            if let Some(room) = room.get_mut(&host) {
                *room += count * slots;
            }
        }
        room
    }

    /// The first jobs that wait and may preempt others, and the slots that each may use.
    fn preempting(&self, now: u64) -> Vec<(u64, u32)> {
        let mut rank = |owner, job| self.rank(owner, job, now);
        let mut line = Line::new(&self.waiting, &mut rank);
        let mut jobs = Vec::new();
        while let Some((owner, id)) = line.next() {
            if self.with.queues[owner.0].preempts.is_empty() {
                continue;
            }
            let Some(allowed) = self.allowed(owner, id, now) else { continue };
            jobs.push((id, allowed));
            if jobs.len() > tuned::JOB_DEPTH {
                break;
            }
            line.go_on(owner, id, &mut rank);
        }
        jobs
    }

    /// Takes what a job needs from the room to come, and stops tasks of others where that is not enough. Nothing is stopped for a rigid
    /// job that would find no room even so.
    fn make_room(
        &self,
        job: &Job,
        queue: &Queue,
        allowed: u32,
        room: &mut Slots<H>,
        stops: &mut Given<H>,
        now: u64,
    ) {
        let each = job.demand.slots.max(1);
        let hosts: BTreeSet<H> =
            self.hosts_for(job, queue, now).filter(|(_, _, takes)| *takes).map(|(host, ..)| host).collect();
        let cleared = match job.demand.width {
            Width::Rigid(width) => {
                let placing = self.placing(width, &job.demand, queue);
                let clear = |hosts: &BTreeSet<H>| self.clear(queue, hosts, &placing, room, stops);
                let whole = placing.alternatives(&hosts);
                // Where the fewest tasks end.
                let all = whole
                    .iter()
                    .map(clear)
                    .filter_map(|(space, stopped)| Some((placing.place(&space)?, space, stopped)));
                all.min_by_key(|(_, _, stopped)| stopped.values().sum::<u32>())
            }
            Width::Array { at_once, .. } => {
                let most = at_once.unwrap_or(u32::MAX).saturating_sub(job.running).min(allowed / each);
                let wanted = job.pending.min(most);
                let placing = Placing::on_few_hosts(wanted, each);
                let (space, stopped) = self.clear(queue, &hosts, &placing, room, stops);
                let has = space.values().map(|slots| slots / each).sum::<u32>();
                together(&space, wanted.min(has), each).map(|takes| (takes, space, stopped))
            }
        };
        let Some((takes, space, stopped)) = cleared else { return };
        for (host, count) in takes {
            let left = space.get(&host).map_or(0, |slots| slots - count * each);
            room.insert(host, left);
        }
        *stops = stopped;
    }

    /// The room on some hosts when as many tasks of others have ended as is enough for a job, or all that may: and which these are.
    fn clear(
        &self,
        queue: &Queue,
        hosts: &BTreeSet<H>,
        placing: &Placing<H>,
        room: &Slots<H>,
        stops: &Given<H>,
    ) -> (Slots<H>, Given<H>) {
        let (mut space, mut stopped) = (room.clone(), stops.clone());
        space.retain(|host, _| hosts.contains(host));
        for (victim, host) in self.victims(queue, hosts) {
            if placing.fits(&placing.rooms(&space)) {
                break;
            }
            for (host, count) in self.to_stop(victim, host, &stopped) {
                *stopped.entry((victim, host)).or_default() += count;
                if let Some(slots) = space.get_mut(&host) {
                    *slots += count * self.jobs[&victim].demand.slots;
                }
            }
        }
        (space, stopped)
    }

    /// Tasks that a queue may preempt on these hosts, one after the other: those of the youngest jobs first.
    fn victims(&self, queue: &Queue, hosts: &BTreeSet<H>) -> Vec<(u64, H)> {
        let is_below = |job: &Job| {
            self.queue(&job.queue).is_some_and(|(_, other)| {
                other.priority < queue.priority && queue.preempts.contains(&other.name)
            })
        };
        let all = self
            .ends_of
            .keys()
            .rev()
            .filter(|(id, host)| hosts.contains(host) && self.jobs.get(id).is_some_and(is_below));
        all.flat_map(|&(id, host)| (0..self.given(id, host)).map(move |_| (id, host))).collect()
    }

    /// One task of a job on a host, unless all are to end already; of a rigid job all that it has anywhere.
    fn to_stop(&self, id: u64, host: H, stopped: &Given<H>) -> Vec<(H, u32)> {
        let left = |host: H| {
            let ends = |of: &Given<H>| of.get(&(id, host)).copied().unwrap_or(0);
            self.given(id, host).saturating_sub(ends(&self.stopping) + ends(stopped))
        };
        let is_rigid = self.jobs.get(&id).is_some_and(|job| matches!(job.demand.width, Width::Rigid(_)));
        if !is_rigid {
            return if left(host) > 0 { vec![(host, 1)] } else { Vec::new() };
        }
        let hosts = self.hosts.keys().filter(|&&host| self.ends_of.contains_key(&(id, host)));
        hosts.map(|&host| (host, left(host))).filter(|&(_, count)| count > 0).collect()
    }

    /// Tasks of a job that a host was given and that have not ended.
    fn given(&self, id: u64, host: H) -> u32 {
        let ends = self.ends_of.get(&(id, host)).into_iter().flatten();
        ends.filter_map(|&end| self.ends.get(&(end, id, host))).sum()
    }

    fn note_stops(&mut self, stops: Given<H>, now: u64) -> Vec<Stop<H>> {
        let mut all: Vec<Stop<H>> = Vec::new();
        for ((id, host), count) in stops {
            *self.stopping.entry((id, host)).or_default() += count;
            if let Some(job) = self.jobs.get_mut(&id) {
                // Else it would soon be before the jobs that it was stopped for.
                job.submitted = now;
            }
            match all.last_mut().filter(|last| last.job == id) {
                Some(last) => last.parts.push((host, count)),
                None => all.push(Stop { job: id, parts: vec![(host, count)] }),
            }
        }
        all
    }

    /// A task has ended, which may be one that was to.
    pub(super) fn note_stopped(&mut self, id: u64, host: H) {
        if let Some(count) = self.stopping.get_mut(&(id, host)) {
            *count -= 1;
            if *count == 0 {
                self.stopping.remove(&(id, host));
            }
        }
    }
}
