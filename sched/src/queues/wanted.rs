//! What waits for room that further hosts would have, and hosts that can be had: a program outside of the scheduler adds them.

use super::order::Owner;
use super::queue::{Queue, Width};
use super::{Job, Scheduler};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A program that says that hosts can be had is forgotten when it has not said so for this long, in milliseconds.
const LEASE: u64 = 60_000;
/// How many such programs there are at most.
const SPEAKERS_MAX: usize = 16;

/// Tasks of a job that would start if there were room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The job.
    pub job: u64,
    /// How many of its tasks.
    pub tasks: u32,
    /// Slots of each.
    pub slots: u32,
    /// Whether all start at once, or none.
    pub is_rigid: bool,
}

/// Hosts that can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Prospect {
    hosts: u32,
    /// Slots of each, if they are known.
    slots: Option<u32>,
    /// Until when they count; `None`: the time is not known yet.
    until: Option<u64>,
}

/// By the program that says so.
pub(super) type Prospects = BTreeMap<String, Prospect>;

impl<H: Copy + Ord> Scheduler<H> {
    /// Hosts can be had: from now on jobs are admitted as if they were there. What the same program has said before is forgotten.
    pub fn expect(&mut self, by: String, hosts: u32, slots: Option<u32>) {
        self.expected.remove(&by);
        if hosts > 0 && self.expected.len() < SPEAKERS_MAX {
            self.expected.insert(by, Prospect { hosts, slots, until: None });
        }
    }

    /// Forgets programs of which nothing has been heard for a minute.
    pub fn expire(&mut self, now: u64) {
        for prospect in self.expected.values_mut() {
            prospect.until.get_or_insert(now.saturating_add(LEASE));
        }
        self.expected.retain(|_, prospect| prospect.until.is_none_or(|until| now < until));
    }

    /// Whether hosts can be had.
    pub fn expects(&self) -> bool {
        !self.expected.is_empty()
    }

    /// The slots of the largest host that can be had, and of all of them, as far as they hold tasks of this size. Where a host's slots
    /// are not known, it is large enough.
    pub(super) fn expected_room(&self, each: u32) -> (u32, u32) {
        let (mut largest, mut room) = (0, 0_u32);
        for prospect in self.expected.values() {
            let slots = prospect.slots.unwrap_or(u32::MAX);
            largest = largest.max(slots);
            room = room.saturating_add((slots - slots % each.max(1)).saturating_mul(prospect.hosts));
        }
        (largest, room)
    }

    /// What waits for room on hosts that are not there yet, of all queues or of one, in the order of the jobs' numbers. Jobs are left out
    /// that are held, that wait for an hour, that have what their queue allows them, or that name nothing but hosts that are there.
    pub fn wanted(&self, queue: Option<&str>, most: usize, now: u64) -> Vec<Wanted> {
        let (mut of_owner, mut of_queue) = (BTreeMap::new(), BTreeMap::new());
        let is_asked = |owner: &Owner| queue.is_none_or(|name| self.with.queues[owner.0].name == name);
        let mut all = Vec::new();
        for (&owner, jobs) in self.waiting.iter().filter(|(owner, _)| is_asked(owner)) {
            let limits = &self.with.queues[owner.0].limits;
            for &id in jobs {
                let Some(room) = self.allowed(owner, id, now) else { break };
                let taken: &mut u32 = match limits.running {
                    Some(_) => of_queue.entry(owner.0).or_default(),
                    None => of_owner.entry(owner).or_default(),
                };
                let wanted = self.wanted_of(id, owner, room.saturating_sub(*taken));
                if let Some(wanted) = wanted {
                    *taken = taken.saturating_add(wanted.tasks.saturating_mul(wanted.slots));
                    all.push(wanted);
                }
                if all.len() == most {
                    break;
                }
            }
        }
        all.sort_by_key(|wanted| wanted.job);
        all.truncate(most);
        all
    }

    fn wanted_of(&self, id: u64, owner: Owner, room: u32) -> Option<Wanted> {
        let (job, queue) = (self.jobs.get(&id)?, self.with.queues.get(owner.0)?);
        let slots = job.demand.slots;
        let allowed = room.checked_div(slots)?;
        let (tasks, is_rigid) = match job.demand.width {
            Width::Rigid(width) if job.pending < width || allowed < width => return None,
            Width::Rigid(width) => (width, true),
            Width::Array { at_once, .. } => {
                let more = at_once.unwrap_or(u32::MAX).saturating_sub(job.running);
                (job.pending.min(more).min(allowed), false)
            }
        };
        let is_wanted = tasks > 0 && self.may_run_elsewhere(job, queue);
        is_wanted.then_some(Wanted { job: id, tasks, slots, is_rigid })
    }

    /// Whether a host that is not there could be one for the job, as far as that can be known.
    fn may_run_elsewhere(&self, job: &Job, queue: &Queue) -> bool {
        let is_there = |name: &String| self.hosts.values().any(|node| node.host.name == *name);
        let leaves = |names: &[String]| names.is_empty() || !names.iter().all(is_there);
        leaves(&queue.hosts) && leaves(&job.demand.hosts)
    }

    /// The free slots of each host.
    pub fn free_slots(&self) -> impl Iterator<Item = (&str, u32)> {
        self.hosts.values().map(|node| (node.host.name.as_str(), node.free()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Demand, Limits, Rules, tests};
    use super::*;

    fn array(count: u32, slots: u32) -> Demand {
        Demand { slots, ..tests::array(count) }
    }

    /// Host `login` with one slot, and two queues.
    fn scheduler() -> Scheduler<char> {
        let few = Limits { running: Some(3), ..Limits::default() };
        let few = Queue { limits: few, priority: -1, ..Queue::open("few") };
        let mut scheduler = Scheduler::new(vec![Queue::open("all"), few], Rules::default());
        scheduler.host_joined('l', tests::a_host("login", 1));
        scheduler
    }

    fn submit(scheduler: &mut Scheduler<char>, id: u64, queue: &str, demand: &Demand) {
        tests::submit(scheduler, id, queue, "ann", demand);
    }

    fn wanted(scheduler: &Scheduler<char>, queue: Option<&str>) -> Vec<(u64, u32)> {
        scheduler.wanted(queue, 100, 0).iter().map(|wanted| (wanted.job, wanted.tasks)).collect()
    }

    #[test]
    fn what_finds_no_room_is_wanted_as_far_as_it_may_run() {
        let mut scheduler = scheduler();
        submit(&mut scheduler, 1, "all", &array(5, 1));
        assert_eq!(scheduler.next(0).len(), 1);
        submit(&mut scheduler, 2, "few", &array(9, 1));
        submit(&mut scheduler, 3, "few", &array(9, 1));
        let at_once = Width::Array { count: 9, at_once: Some(2) };
        submit(&mut scheduler, 4, "all", &Demand { width: at_once, ..array(9, 1) });
        submit(&mut scheduler, 5, "all", &Demand { hosts: vec!["login".to_owned()], ..array(1, 1) });
        submit(&mut scheduler, 6, "all", &Demand { hosts: vec!["*".to_owned()], ..array(1, 1) });
        submit(&mut scheduler, 7, "all", &array(1, 0));
        submit(&mut scheduler, 8, "all", &array(1, 1));
        scheduler.hold(8, true);
        assert_eq!(wanted(&scheduler, None), [(1, 4), (2, 3), (4, 2), (6, 1)]);
        assert_eq!(wanted(&scheduler, Some("few")), [(2, 3)]);
        assert_eq!(scheduler.wanted(None, 2, 0).len(), 2);
        assert_eq!(scheduler.free_slots().collect::<Vec<_>>(), [("login", 0)]);
    }

    #[test]
    fn jobs_are_admitted_for_hosts_that_can_be_had() {
        let mut scheduler = scheduler();
        let wide = Demand { width: Width::Rigid(8), ..array(8, 1) };
        let elsewhere = Demand { hosts: vec!["n*".to_owned()], ..array(1, 1) };
        let admits = |scheduler: &Scheduler<char>, demand: &Demand| {
            scheduler.admit(Some("all"), "ann", demand).is_ok()
        };
        assert!(!admits(&scheduler, &wide) && !admits(&scheduler, &elsewhere));
        scheduler.expect("a".to_owned(), 2, Some(4));
        assert!(admits(&scheduler, &wide) && admits(&scheduler, &elsewhere));
        assert!(!admits(&scheduler, &array(1, 5)));
        assert!(!admits(&scheduler, &Demand { slots: 3, ..wide.clone() }), "a host has room for one of them");
        submit(&mut scheduler, 1, "all", &wide);
        assert_eq!(scheduler.wanted(None, 9, 0), [Wanted { job: 1, tasks: 8, slots: 1, is_rigid: true }]);
        scheduler.expect("a".to_owned(), 1, None);
        assert!(admits(&scheduler, &array(1, 5)));
        scheduler.expire(5);
        scheduler.expire(LEASE + 4);
        assert!(scheduler.expects());
        scheduler.expire(LEASE + 5);
        assert!(!scheduler.expects() && !admits(&scheduler, &wide));
        scheduler.expect("a".to_owned(), 9, None);
        scheduler.expect("a".to_owned(), 0, None);
        assert!(!scheduler.expects());
    }
}
