//! Up-down: a coordinator that gives every owner a fair share of the others' processors (Mutka and Livny).

use super::agent::{Agent, Event, Scene};
use super::census::Census;
use super::promises::Promises;
use super::usage::Usage;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The policy. A process runs at home if there is room. Otherwise its home asks the coordinator, at the centre, for a processor of another
/// host. The coordinator keeps the [`Usage`] table; what it cannot grant waits until a processor is free.
#[derive(Clone, Debug, Default)]
pub struct UpDown {
    /// Processes of this host that wait for the coordinator, by request.
    wanted: BTreeMap<u64, u32>,
    report: Option<Report>,
    /// Processes of other hosts that run here by this policy, by home.
    guests: BTreeMap<usize, u32>,
    coordinator: Coordinator,
}

/// What the coordinator knows of this host.
#[derive(Clone, Copy, Debug)]
struct Report {
    free: i64,
    /// Processes of this host that it has granted processors of this host, and that have not begun.
    own: u32,
}

/// More free processors of a host than this are not believed.
const ROOM_MAX: i64 = 1 << 18;

/// The coordinator's part.
#[derive(Clone, Debug, Default)]
struct Coordinator {
    usage: Usage,
    hosts: Census<Host>,
    /// Hosts with room.
    with_room: BTreeSet<usize>,
    /// What each owner's requests lack: processes, by owner and request.
    pending: BTreeMap<(usize, u64), u32>,
}

#[derive(Clone, Debug, Default)]
struct Host {
    /// Free processors, as it has said last.
    free: i64,
    /// What it was granted and has not begun, by owner.
    granted: Promises,
    /// Processes of others that run there or are granted, by owner.
    guests: BTreeMap<usize, u32>,
}

impl Host {
    /// Free processors when all has begun that was granted.
    fn room(&self, now: u64) -> i64 {
        self.free - i64::from(self.granted.count(now))
    }

    /// A process of this owner has ended, or has not come.
    fn over(&mut self, owner: usize) -> bool {
        let Some(count) = self.guests.get_mut(&owner) else { return false };
        *count -= 1;
        if *count == 0 {
            self.guests.remove(&owner);
        }
        true
    }
}

/// What hosts say to each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// To the coordinator: processors are wanted.
    Want {
        /// The sender's number of the request.
        request: u64,
        /// How many.
        count: u32,
    },
    /// To the coordinator: none are wanted for this request any more.
    Withdraw {
        /// The sender's number of the request.
        request: u64,
    },
    /// By the coordinator: these are yours.
    Granted {
        /// The receiver's number of the request.
        request: u64,
        /// The host with the processors.
        host: usize,
        /// How many.
        count: u32,
    },
    /// To the coordinator: the request has been withdrawn meanwhile.
    Unused {
        /// The host that was granted.
        host: usize,
        /// How many of its processors are free all the same.
        count: u32,
    },
    /// By the coordinator: there are none now.
    Full {
        /// The receiver's number of the request.
        request: u64,
    },
    /// By the coordinator: say how you are, and what changes from now on.
    Report,
    /// The answer.
    State {
        /// Processors without work; negative if there is more work than processors.
        free: i64,
        /// Processes of others that run here, by home.
        guests: Vec<(usize, u32)>,
    },
    /// To the coordinator: something has changed.
    Change {
        /// Processors without work; negative if there is more work than processors.
        free: i64,
        /// Granted processes have begun here: their home, and how many.
        began: Option<(usize, u32)>,
        /// A process of this host's has ended here.
        ended: Option<usize>,
    },
}

impl UpDown {
    /// A policy under which nothing has happened.
    pub fn new() -> Self {
        Self::default()
    }

    fn free_now(scene: &Scene<'_, Message>) -> i64 {
        i64::from(scene.room) - i64::from(scene.load)
    }

    /// The coordinator hears what it does not know, if it has asked.
    fn tell(&mut self, began: Option<(usize, u32)>, ended: Option<usize>, scene: &mut Scene<'_, Message>) {
        let Some(report) = &mut self.report else { return };
        let free = Self::free_now(scene);
        if free != report.free || began.is_some() || ended.is_some() {
            report.free = free;
            scene.send(scene.centre, Message::Change { free, began, ended });
        }
    }

    fn state(&mut self, scene: &mut Scene<'_, Message>) {
        let free = Self::free_now(scene);
        self.report = Some(Report { free, own: 0 });
        let guests = self.guests.iter().map(|(&home, &count)| (home, count)).collect();
        scene.send(scene.centre, Message::State { free, guests });
    }

    fn ended(&mut self, home: usize, placed: bool, scene: &mut Scene<'_, Message>) {
        let guests = self.guests.get_mut(&home).filter(|_| placed && home != scene.own);
        let is_guest = guests.is_some();
        if let Some(count) = guests {
            *count -= 1;
            if *count == 0 {
                self.guests.remove(&home);
            }
        }
        self.tell(None, is_guest.then_some(home), scene);
    }

    fn began(&mut self, home: usize, count: u32, placed: bool, scene: &mut Scene<'_, Message>) {
        if placed && home != scene.own {
            *self.guests.entry(home).or_default() += count;
        }
        let granted = match &mut self.report {
            Some(report) if placed && home == scene.own => {
                let granted = count.min(report.own);
                report.own -= granted;
                granted
            }
            _ if placed => count,
            _ => 0,
        };
        self.tell(Some((home, granted)).filter(|_| granted > 0), None, scene);
    }

    fn granted(&mut self, request: u64, host: usize, count: u32, scene: &mut Scene<'_, Message>) {
        let wanted = self.wanted.get_mut(&request);
        let used = wanted.as_deref().map_or(0, |&wanted| wanted.min(count));
        if let Some(wanted) = wanted {
            *wanted -= used;
            if *wanted == 0 {
                self.wanted.remove(&request);
            }
        }
        if used < count {
            scene.send(scene.centre, Message::Unused { host, count: count - used });
        }
        if let Some(report) = self.report.as_mut().filter(|_| host == scene.own) {
            report.own += used;
        }
        scene.start(request, host, used);
    }

    fn heard(&mut self, from: usize, message: Message, scene: &mut Scene<'_, Message>) {
        match message {
            Message::Granted { request, host, count } => self.granted(request, host, count, scene),
            Message::Unused { host, count } => self.coordinator.unused(from, host, count, scene),
            Message::Full { request } => scene.no_room(request),
            Message::Report => self.state(scene),
            Message::Want { request, count } => self.coordinator.wanted(from, request, count, scene),
            Message::Withdraw { request } => {
                self.coordinator.usage.withdraw(from, request, scene.now);
                self.coordinator.pending.remove(&(from, request));
            }
            Message::State { free, guests } => self.coordinator.state(from, free, guests, scene),
            Message::Change { free, began, ended } => {
                self.coordinator.changed(from, free, (began, ended), scene);
            }
        }
    }
}

impl Coordinator {
    fn wanted(&mut self, owner: usize, request: u64, count: u32, scene: &mut Scene<'_, Message>) {
        self.hosts.take(|| Message::Report, scene);
        self.usage.wait(owner, request, scene.now);
        let pending = self.pending.entry((owner, request)).or_default();
        *pending = pending.saturating_add(count);
        self.grant(scene);
        if self.hosts.is_complete() && self.pending.contains_key(&(owner, request)) {
            scene.send(owner, Message::Full { request });
        }
    }

    fn state(&mut self, host: usize, free: i64, guests: Vec<(usize, u32)>, scene: &mut Scene<'_, Message>) {
        for &(owner, count) in &guests {
            self.usage.acquire(owner, count, scene.now);
        }
        let before = self.hosts.answered(
            host,
            Host {
                free: free.min(ROOM_MAX),
                guests: guests.into_iter().filter(|guest| guest.1 > 0).collect(),
                ..Host::default()
            },
        );
        self.release(before.unwrap_or_default(), scene.now);
        self.note_room(host, scene.now);
        if self.hosts.is_complete() {
            self.grant(scene);
            for &(owner, request) in self.pending.keys() {
                scene.send(owner, Message::Full { request });
            }
        }
    }

    fn changed(
        &mut self,
        host: usize,
        free: i64,
        (began, ended): (Option<(usize, u32)>, Option<usize>),
        scene: &mut Scene<'_, Message>,
    ) {
        let Some(known) = self.hosts.get_mut(host) else { return };
        known.free = free.min(ROOM_MAX);
        if let Some((owner, count)) = began {
            known.granted.settle(owner, count);
        }
        if let Some(owner) = ended.filter(|&owner| known.over(owner)) {
            self.usage.release(owner, 1, scene.now);
        }
        for owner in known.granted.take_overdue(scene.now) {
            if known.over(owner) {
                self.usage.release(owner, 1, scene.now);
            }
        }
        self.note_room(host, scene.now);
        self.grant(scene);
    }

    fn unused(&mut self, owner: usize, host: usize, count: u32, scene: &mut Scene<'_, Message>) {
        let Some(known) = self.hosts.get_mut(host) else { return };
        known.granted.settle(owner, count);
        let back = (0..count).take_while(|_| known.over(owner)).count() as u32;
        self.usage.release(owner, back, scene.now);
        self.note_room(host, scene.now);
        self.grant(scene);
    }

    fn note_room(&mut self, host: usize, now: u64) {
        if self.hosts.get_mut(host).is_some_and(|host| host.room(now) > 0) {
            self.with_room.insert(host);
        } else {
            self.with_room.remove(&host);
        }
    }

    /// What is free goes to the owners with the lowest scores.
    fn grant(&mut self, scene: &mut Scene<'_, Message>) {
        while self.hosts.is_complete()
            && let Some(&host) = self.with_room.first()
            && let Some(owner) = self.usage.lowest(scene.now)
        {
            self.grant_to(owner, host, scene);
        }
    }

    fn grant_to(&mut self, owner: usize, host: usize, scene: &mut Scene<'_, Message>) {
        let (Some(request), Some(known)) = (self.usage.next(owner), self.hosts.get_mut(host)) else { return };
        let pending = self.pending.get(&(owner, request)).copied().unwrap_or(0);
        let count = pending.min(u32::try_from(known.room(scene.now)).unwrap_or(0));
        for _ in 0..count {
            known.granted.add(owner, scene.now);
        }
        if owner != host && count > 0 {
            let guests = known.guests.entry(owner).or_default();
            *guests = guests.saturating_add(count);
            self.usage.acquire(owner, count, scene.now);
        }
        if count > 0 {
            scene.send(owner, Message::Granted { request, host, count });
        }
        if pending == count {
            self.pending.remove(&(owner, request));
            self.usage.grant(owner, scene.now);
        } else if let Some(pending) = self.pending.get_mut(&(owner, request)) {
            *pending -= count;
        }
        self.note_room(host, scene.now);
    }

    fn release(&mut self, host: Host, now: u64) {
        for (owner, count) in host.guests {
            self.usage.release(owner, count, now);
        }
    }

    fn gone(&mut self, host: usize, scene: &mut Scene<'_, Message>) {
        if let Some(known) = self.hosts.gone(host) {
            self.release(known, scene.now);
        }
        self.with_room.remove(&host);
        let requests: Vec<(usize, u64)> =
            self.pending.keys().filter(|&&(owner, _)| owner == host).copied().collect();
        for (owner, request) in requests {
            self.pending.remove(&(owner, request));
            self.usage.withdraw(owner, request, scene.now);
        }
        self.grant(scene);
    }
}

impl Agent for UpDown {
    type Message = Message;

    fn on(&mut self, event: Event<Message>, scene: &mut Scene<'_, Message>) {
        match event {
            Event::Created { request, count } => {
                let started = count.min(scene.free());
                let count = scene.start_here(request, count, started);
                if let Some(report) = self.report.as_mut().filter(|_| started > 0) {
                    // Before they have begun: the coordinator must not grant their processors to the rest.
                    report.free = Self::free_now(scene) - i64::from(started);
                    let free = report.free;
                    scene.send(scene.centre, Message::Change { free, began: None, ended: None });
                }
                if count > 0 {
                    *self.wanted.entry(request).or_default() += count;
                    scene.send(scene.centre, Message::Want { request, count });
                }
            }
            Event::Dropped { request } => {
                if self.wanted.remove(&request).is_some() {
                    scene.send(scene.centre, Message::Withdraw { request });
                }
            }
            Event::Heard { from, message } => self.heard(from, message, scene),
            Event::Began { home, count, placed, .. } => self.began(home, count, placed, scene),
            Event::Ended { home, placed } => self.ended(home, placed, scene),
            Event::Load => self.tell(None, None, scene),
            Event::Joined(_) if scene.own == scene.centre && !self.coordinator.pending.is_empty() => {
                self.coordinator.hosts.take(|| Message::Report, scene);
            }
            Event::Gone(host) => {
                self.guests.remove(&host);
                self.coordinator.gone(host, scene);
            }
            Event::Centre => {
                if scene.own != scene.centre {
                    self.coordinator = Coordinator::default();
                }
                // The new coordinator has heard nothing of this host.
                if self.report.is_some() {
                    self.state(scene);
                }
                for (&request, &count) in &self.wanted {
                    scene.send(scene.centre, Message::Want { request, count });
                }
            }
            Event::Known { .. } | Event::Woken | Event::Joined(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::agent::Action::{Send, Start};
    use super::super::simulated::Agents;
    use super::super::testing::{self, Bench};
    use super::*;

    fn policy(hosts: usize) -> Agents<UpDown> {
        Agents::new("up-down", hosts, None, UpDown::new)
    }

    #[test]
    fn a_freed_processor_goes_to_the_lowest_score() {
        // Owner 0 has taken all four; then 1 and 0 want more.
        let mut policy = policy(4);
        let mut bench = Bench::new(&[0; 4]);
        assert_eq!(bench.create(&mut policy, 1, 0, 4), [0, 1, 2, 3]);
        bench.now = 1000;
        assert_eq!(bench.create(&mut policy, 2, 0, 3), [0; 0], "none is free");
        bench.now = 2000;
        assert_eq!(bench.create(&mut policy, 3, 1, 1), [0; 0]);
        bench.now = 3000;
        let freed = |steps: &[super::super::Step]| {
            steps.iter().map(|step| (step.request, step.host)).collect::<Vec<_>>()
        };
        assert_eq!(freed(&bench.end(&mut policy, 3)), [(3, 3)], "the light user first");
        assert_eq!(freed(&bench.end(&mut policy, 2)), [(2, 2)]);
    }

    #[test]
    fn a_host_that_is_away_is_not_given_and_one_that_returns_is() {
        let mut policy = policy(3);
        let mut bench = Bench::new(&[0; 3]);
        assert_eq!(bench.create(&mut policy, 1, 0, 2), [0, 1]);
        assert_eq!(bench.leave(&mut policy, 1).0, 1);
        assert_eq!(bench.leave(&mut policy, 2).0, 0);
        assert_eq!(bench.create(&mut policy, 1, 0, 1), [0; 0], "no host is left");
        let steps = bench.come_back(&mut policy, 2);
        assert_eq!(steps.iter().map(|step| (step.request, step.host)).collect::<Vec<_>>(), [(1, 2)]);
        assert_eq!(bench.come_back(&mut policy, 1), []);
        assert_eq!(bench.create(&mut policy, 2, 0, 1), [1]);
    }

    #[test]
    fn what_a_home_keeps_is_no_room_for_the_rest() {
        let mut agent = UpDown::new();
        let mut hear = |load, event| testing::hear(&mut agent, (0, 0), (load, 2), &[0, 1], 0, event);
        hear(0, Event::Heard { from: 0, message: Message::Report });
        let said = hear(0, Event::Created { request: 1, count: 5 });
        let change = Message::Change { free: 0, began: None, ended: None };
        let want = Message::Want { request: 1, count: 3 };
        assert_eq!(
            said,
            [
                Start { request: 1, host: 0, count: 2 },
                Send { to: 0, message: change },
                Send { to: 0, message: want }
            ]
        );
        assert_eq!(
            hear(2, Event::Began { home: 0, request: 1, count: 2, placed: true }),
            [],
            "it has been said"
        );
    }

    #[test]
    fn another_coordinator_hears_all_that_the_first_one_knew() {
        let mut policy = policy(4);
        let mut bench = Bench::new(&[0; 4]);
        assert_eq!(bench.create(&mut policy, 1, 1, 4), [1, 0, 2, 3]);
        assert_eq!(bench.create(&mut policy, 2, 2, 1), [0; 0]);
        assert_eq!(bench.leave(&mut policy, 0), (1, 0), "the coordinator's host");
        let steps = bench.end(&mut policy, 3);
        assert_eq!(steps.iter().map(|step| (step.request, step.host)).collect::<Vec<_>>(), [(2, 3)]);
    }
}
