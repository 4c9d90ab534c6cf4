//! The state of the machine: the processes on the hosts, and the requests that have not ended.
//!
//! Written so that a hundred thousand hosts stay in the caches as far as they can: 16 bytes for a host, numbers of 32
//! bits, and what few have (a queue, processes to be placed again) elsewhere.

use crate::engine::Time;
use slab::Slab;
use std::collections::{HashMap, VecDeque};

/// A process that waits, or is on its way to a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Process {
    /// Its request.
    pub request: u32,
    /// Its remaining run time; `None` until it runs first.
    pub left: Option<Time>,
}

/// The result of a process's arrival at a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrival {
    /// It runs as soon as [`Hosts::begin`] sets its end.
    First,
    /// It waits for others.
    Waits,
    /// The host is away.
    Lost,
}

/// No process runs; no queue.
const NONE: u32 = u32::MAX;
/// Instead of what runs: the host is away.
const AWAY: u32 = NONE - 1;

#[derive(Clone, Copy)]
struct Place {
    /// When what runs ends.
    end: Time,
    /// The request of what runs, or `NONE` or `AWAY`.
    runs: u32,
    /// The queue of those that wait, if there are any.
    queue: u32,
}

/// The hosts. Each runs one process at a time, and the others wait for it.
pub struct Hosts {
    places: Vec<Place>,
    queues: Slab<VecDeque<Process>>,
}

impl Hosts {
    /// This many idle hosts.
    pub fn new(count: usize) -> Self {
        Self { places: vec![Place { end: 0, runs: NONE, queue: NONE }; count], queues: Slab::new() }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// Whether one is away.
    pub fn is_away(&self, host: usize) -> bool {
        self.places[host].runs == AWAY
    }

    /// Reads ahead for [`end`](Self::end): the requests of the running process and of the next one.
    pub fn read_ahead(&self, host: usize) -> Option<(u32, Option<u32>)> {
        let place = self.places.get(host).filter(|place| place.runs < AWAY)?;
        let next = self.queues.get(place.queue as usize).and_then(VecDeque::front);
        Some((place.runs, next.map(|next| next.request)))
    }

    /// Its processes.
    #[cfg(test)]
    fn load(&self, host: usize) -> u32 {
        let Some(place) = self.places.get(host).filter(|place| place.runs < AWAY) else { return 0 };
        1 + self.queues.get(place.queue as usize).map_or(0, |queue| queue.len() as u32)
    }

    /// A process arrives.
    pub fn add(&mut self, host: usize, process: Process) -> Arrival {
        let place = &mut self.places[host];
        match place.runs {
            AWAY => return Arrival::Lost,
            NONE => {
                place.runs = process.request;
                return Arrival::First;
            }
            _ => {}
        }
        if place.queue == NONE {
            place.queue = self.queues.insert(VecDeque::new()) as u32;
        }
        self.queues[place.queue as usize].push_back(process);
        Arrival::Waits
    }

    /// The host's next process runs until `end`.
    pub fn begin(&mut self, host: usize, end: Time) {
        self.places[host].end = end;
    }

    /// The running process ends, if its end is now: returns its request, and the next process.
    pub fn end(&mut self, host: usize, now: Time) -> Option<(u32, Option<Process>)> {
        let place = self.places[host];
        if place.runs >= AWAY || place.end != now {
            return None;
        }
        let next = self.dequeue(host);
        self.places[host].runs = next.map_or(NONE, |next| next.request);
        Some((place.runs, next))
    }

    fn dequeue(&mut self, host: usize) -> Option<Process> {
        let place = &mut self.places[host];
        let queue = self.queues.get_mut(place.queue as usize)?;
        let process = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(place.queue as usize);
            place.queue = NONE;
        }
        process
    }

    /// A host goes away. What it had: what ran, from the beginning or, if what has been computed is kept, with what it
    /// has to run yet; and those that waited.
    pub fn leave(&mut self, host: usize, now: Time, kept: bool) -> impl Iterator<Item = Process> + use<> {
        let place = &mut self.places[host];
        let left = kept.then(|| place.end.saturating_sub(now));
        let ran = (place.runs < AWAY).then_some(Process { request: place.runs, left });
        let waited = self.queues.try_remove(place.queue as usize).unwrap_or_default();
        (place.runs, place.queue) = (AWAY, NONE);
        ran.into_iter().chain(waited)
    }

    /// It is back, with nothing to do.
    pub fn come_back(&mut self, host: usize) {
        self.places[host].runs = NONE;
    }
}

/// A request that has not ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Open {
    /// When it was made.
    pub made: Time,
    /// Where.
    pub origin: u32,
    /// Processes that have not ended.
    pub left: u32,
}

/// The requests that have not ended. The number of one that has ended is given again.
#[derive(Default)]
pub struct Requests {
    open: Slab<Open>,
    /// What those processes have to run yet that have to be placed again.
    again: HashMap<u32, Vec<Option<Time>>>,
}

impl Requests {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Another request: its number.
    pub fn open(&mut self, open: Open) -> u32 {
        self.open.insert(open) as u32
    }

    /// One of them.
    pub fn get(&self, request: u32) -> Option<Open> {
        self.open.get(request as usize).copied()
    }

    /// A process of it has ended: what the request is now; with none left it is forgotten.
    pub fn ended(&mut self, request: u32) -> Option<Open> {
        let open = self.open.get_mut(request as usize)?;
        open.left -= 1;
        let now = *open;
        if now.left == 0 {
            self.open.remove(request as usize);
        }
        Some(now)
    }

    /// A process has to be placed again.
    pub fn lose(&mut self, process: Process) {
        self.again.entry(process.request).or_default().push(process.left);
    }

    /// The next of its processes that is to be placed: first those that are placed again.
    pub fn next(&mut self, request: u32) -> Process {
        let mut left = None;
        if !self.again.is_empty()
            && let Some(lost) = self.again.get_mut(&request)
        {
            left = lost.pop().flatten();
            if lost.is_empty() {
                self.again.remove(&request);
            }
        }
        Process { request, left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(request: u32) -> Process {
        Process { request, left: None }
    }

    #[test]
    fn processes_run_one_after_the_other() {
        let mut hosts = Hosts::new(2);
        assert_eq!(hosts.add(1, new(5)), Arrival::First);
        assert_eq!([6, 7].map(|request| hosts.add(1, new(request))), [Arrival::Waits; 2]);
        assert_eq!((hosts.load(0), hosts.load(1), hosts.load(9)), (0, 3, 0));
        hosts.begin(1, 30);
        assert_eq!(hosts.end(1, 20), None, "what was planned for then is no more");
        assert_eq!(hosts.end(1, 30), Some((5, Some(new(6)))));
        hosts.begin(1, 35);
        assert_eq!(hosts.end(1, 35), Some((6, Some(new(7)))));
        hosts.begin(1, 40);
        assert_eq!(hosts.end(1, 40), Some((7, None)));
        assert_eq!((hosts.end(1, 40), hosts.load(1)), (None, 0));
    }

    #[test]
    fn a_host_that_leaves_loses_its_processes() {
        for (kept, left) in [(true, Some(70)), (false, None)] {
            let mut hosts = Hosts::new(1);
            hosts.add(0, new(1));
            hosts.begin(0, 100);
            hosts.add(0, Process { request: 2, left: Some(9) });
            let lost: Vec<Process> = hosts.leave(0, 30, kept).collect();
            assert_eq!(lost, [Process { request: 1, left }, Process { request: 2, left: Some(9) }]);
            assert_eq!((hosts.is_away(0), hosts.load(0), hosts.end(0, 100)), (true, 0, None));
            assert_eq!(hosts.add(0, new(3)), Arrival::Lost);
            hosts.come_back(0);
            assert_eq!((hosts.load(0), hosts.add(0, new(3))), (0, Arrival::First));
        }
    }

    #[test]
    fn a_request_is_open_until_its_last_process_has_ended() {
        let mut requests = Requests::default();
        let open = Open { made: 3, origin: 4, left: 2 };
        let (first, other) = (requests.open(open), requests.open(open));
        assert_ne!(first, other);
        requests.lose(Process { request: first, left: Some(7) });
        requests.lose(new(first));
        assert_eq!(requests.next(other), new(other));
        assert_eq!(requests.next(first), new(first), "lost, with nothing to keep");
        assert_eq!(requests.next(first), Process { request: first, left: Some(7) });
        assert_eq!(requests.next(first), new(first));
        assert_eq!(requests.ended(first), Some(Open { left: 1, ..open }));
        assert_eq!(requests.ended(first), Some(Open { left: 0, ..open }));
        assert_eq!((requests.ended(first), requests.get(first), requests.is_empty()), (None, None, false));
        assert_eq!(requests.open(open), first, "its number is given again");
    }
}
