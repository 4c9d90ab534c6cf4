//! A batch in a simulated machine: a home that holds the truth, a manager, nodes that pull, under virtual time.
//!
//! Messages take random times; between each two parties they keep their order, as PVM promises. Everything follows from
//! the seed.

use pvm_sched::pulling::{Candidate, Decision, Manager, Node, Step, Terms, Ticket, application};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

pub type Host = u32;

/// Microseconds.
type Time = u64;

/// splitmix64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    pub fn within(&mut self, range: std::ops::Range<u64>) -> u64 {
        range.start + self.below(range.end - range.start)
    }
}

/// What the simulated machine is like.
#[derive(Clone)]
pub struct Setting {
    /// Capability and threshold of each node, hosts counted from 1.
    pub nodes: Vec<(f64, u64)>,
    pub count: u64,
    pub soft: bool,
    /// How long a task runs.
    pub task: std::ops::Range<u64>,
    /// How long a message travels.
    pub delay: std::ops::Range<u64>,
    /// How long the start of a task takes.
    pub start: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Party {
    Home,
    Manager,
    Node(Host),
}

enum Event {
    // To the home.
    Granted { host: Host, n: u64 },
    NoNodes,
    Started { host: Host, items: Vec<u64> },
    Lost(Host),
    // To the manager.
    Apply { host: Host, n_a: i64, c: f64 },
    Joined(Candidate<Host>),
    Gone(Host),
    More(u64),
    Done,
    // To a node.
    TasksHave(Host),
    TasksNo(Host),
    Exec { host: Host, items: Vec<u64> },
    Begun { host: Host, items: Vec<u64> },
    Retry { host: Host, ticket: Ticket },
    TaskEnds(Host),
    // From outside.
    Dies(Host),
    Appears { host: Host, c: f64, p: u64 },
}

/// What the home knows of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    Waiting,
    Granted(Host),
    Started(Host),
    Failed,
}

struct Pulling {
    c: f64,
    p: u64,
    running: u64,
    node: Node,
}

pub struct Machine {
    random: Random,
    setting: Setting,
    now: Time,
    events: BTreeMap<(Time, u64), Event>,
    numbers: u64,
    /// When the last message of a pair arrives.
    channels: BTreeMap<(Party, Party), Time>,
    manager: Manager<Host>,
    nodes: BTreeMap<Host, Pulling>,
    /// Whom the home believes to be there.
    members: BTreeSet<Host>,
    pub items: Vec<Item>,
    waiting: VecDeque<u64>,
    /// How often each task was started, but for starts on a host that died before the home heard of them.
    pub starts: Vec<u32>,
    /// Grants by the formula and by the soft rule, in order.
    pub grants: Vec<(Host, u64, Option<Terms>)>,
    /// The most tasks that ran on each host at a time.
    pub most: BTreeMap<Host, u64>,
    finished: bool,
}

impl Machine {
    pub fn new(seed: u64, setting: Setting) -> Self {
        let mut machine = Self {
            random: Random::new(seed),
            now: 0,
            events: BTreeMap::new(),
            numbers: 0,
            channels: BTreeMap::new(),
            manager: Manager::new(),
            nodes: BTreeMap::new(),
            members: BTreeSet::new(),
            items: vec![Item::Waiting; setting.count as usize],
            waiting: (0..setting.count).collect(),
            starts: vec![0; setting.count as usize],
            grants: Vec::new(),
            most: BTreeMap::new(),
            finished: setting.count == 0,
            setting,
        };
        for (host, (c, p)) in (1..).zip(machine.setting.nodes.clone()) {
            machine.nodes.insert(host, Pulling { c, p, running: 0, node: Node::new() });
            machine.members.insert(host);
        }
        let candidates: Vec<_> = machine.members.iter().map(|&host| machine.candidate(host)).collect();
        let decisions = machine.manager.place(machine.setting.count, candidates, machine.setting.soft);
        machine.carry_out(decisions);
        machine
    }

    /// A node that is busy when the batch comes.
    pub fn occupy(&mut self, host: Host, running: u64) {
        self.nodes.get_mut(&host).expect("a node").running = running;
        for _ in 0..running {
            let end = self.random.within(self.setting.task.clone());
            self.after(end, Event::TaskEnds(host));
        }
    }

    pub fn dies(&mut self, host: Host, at: Time) {
        self.after(at, Event::Dies(host));
    }

    pub fn appears(&mut self, host: Host, c: f64, p: u64, at: Time) {
        self.after(at, Event::Appears { host, c, p });
    }

    /// Runs until nothing is left to happen, which must come to pass.
    pub fn run(&mut self) {
        for _ in 0..1_000_000 {
            let Some(((now, _), event)) = self.events.pop_first() else { return };
            self.now = now;
            self.on_event(event);
        }
        panic!("the batch does not end: {} tasks wait", self.manager.remaining());
    }

    /// Tasks that were started on each host, as the home knows.
    pub fn placed(&self) -> BTreeMap<Host, u64> {
        let mut placed = BTreeMap::new();
        for item in &self.items {
            if let Item::Started(host) = item {
                *placed.entry(*host).or_default() += 1;
            }
        }
        placed
    }

    /// At the end no node waits for tasks, and the manager holds nothing back.
    pub fn check_quiet(&self) {
        assert!(self.finished);
        assert_eq!(self.manager.remaining(), 0);
        for (host, pulling) in &self.nodes {
            assert!(!pulling.node.is_open(), "host {host} still waits for tasks");
            assert_eq!(pulling.running, 0, "host {host}");
        }
    }

    fn candidate(&self, host: Host) -> Candidate<Host> {
        let capability = self.nodes.get(&host).map_or(1.0, |pulling| pulling.c);
        Candidate { host, capability, limit: 1_000_000 }
    }

    fn after(&mut self, delay: Time, event: Event) {
        self.numbers += 1;
        self.events.insert((self.now + delay, self.numbers), event);
    }

    fn send(&mut self, from: Party, to: Party, event: Event) {
        let delay = self.random.within(self.setting.delay.clone());
        let last = self.channels.entry((from, to)).or_default();
        *last = (self.now + delay).max(*last);
        self.numbers += 1;
        self.events.insert((*last, self.numbers), event);
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Granted { host, n } => self.on_granted(host, n),
            Event::NoNodes => {
                while let Some(item) = self.waiting.pop_front() {
                    self.items[item as usize] = Item::Failed;
                }
                self.check_finished();
            }
            Event::Started { host, items } => self.on_started(host, &items),
            Event::Lost(host) => self.on_lost(host),
            Event::Apply { host, n_a, c } => {
                let decisions = self.manager.on_apply(host, n_a, c);
                self.carry_out(decisions);
            }
            Event::Joined(node) => {
                let decisions = self.manager.node_joined(node);
                self.carry_out(decisions);
            }
            Event::Gone(host) => {
                let decisions = self.manager.node_gone(host);
                self.carry_out(decisions);
            }
            Event::More(count) => {
                let decisions = self.manager.more(count);
                self.carry_out(decisions);
            }
            Event::Done => {
                let decisions = self.manager.done();
                self.carry_out(decisions);
            }
            Event::Appears { host, c, p } => {
                self.nodes.insert(host, Pulling { c, p, running: 0, node: Node::new() });
                self.members.insert(host);
                if !self.finished {
                    let node = self.candidate(host);
                    self.send(Party::Home, Party::Manager, Event::Joined(node));
                }
            }
            Event::Dies(host) => {
                if self.nodes.remove(&host).is_some() {
                    let detected = self.random.within(0..50_000);
                    self.after(detected, Event::Lost(host));
                }
            }
            of_node => self.on_node(of_node),
        }
    }

    /// The home hears that a host is gone: what it had been given and not started is placed again.
    fn on_lost(&mut self, host: Host) {
        self.members.remove(&host);
        self.send(Party::Home, Party::Manager, Event::Gone(host));
        let lost: Vec<u64> = (0..)
            .zip(&self.items)
            .filter(|(_, item)| **item == Item::Granted(host))
            .map(|(i, _)| i)
            .collect();
        for &item in &lost {
            self.items[item as usize] = Item::Waiting;
            self.starts[item as usize] = 0;
        }
        self.waiting.extend(&lost);
        if !lost.is_empty() {
            self.send(Party::Home, Party::Manager, Event::More(lost.len() as u64));
        }
    }

    fn on_granted(&mut self, host: Host, n: u64) {
        if !self.members.contains(&host) {
            return self.send(Party::Home, Party::Manager, Event::More(n));
        }
        assert!(self.waiting.len() as u64 >= n, "more was granted than there is");
        let items: Vec<u64> = self.waiting.drain(..n as usize).collect();
        for &item in &items {
            self.items[item as usize] = Item::Granted(host);
        }
        self.send(Party::Home, Party::Node(host), Event::Exec { host, items });
    }

    fn on_started(&mut self, host: Host, items: &[u64]) {
        for &item in items {
            let item = &mut self.items[item as usize];
            // The last words of a host that has been given up do not count any more.
            if *item == Item::Granted(host) {
                *item = Item::Started(host);
            }
        }
        self.check_finished();
    }

    fn check_finished(&mut self) {
        let settled = |item: &Item| matches!(item, Item::Started(_) | Item::Failed);
        if !self.finished && self.items.iter().all(settled) {
            self.finished = true;
            self.send(Party::Home, Party::Manager, Event::Done);
        }
    }

    fn carry_out(&mut self, decisions: Vec<Decision<Host>>) {
        for decision in decisions {
            match decision {
                Decision::TasksHave(host) => {
                    self.send(Party::Manager, Party::Node(host), Event::TasksHave(host));
                }
                Decision::TasksNo(host) => {
                    self.send(Party::Manager, Party::Node(host), Event::TasksNo(host));
                }
                Decision::Grant { host, n, terms } => {
                    self.grants.push((host, n, terms));
                    self.send(Party::Manager, Party::Home, Event::Granted { host, n });
                }
                Decision::NoNodes { .. } => self.send(Party::Manager, Party::Home, Event::NoNodes),
            }
        }
    }

    fn on_node(&mut self, event: Event) {
        let wait = Duration::from_micros(self.random.within(20_000..80_000));
        let (Event::TasksHave(host)
        | Event::TasksNo(host)
        | Event::Exec { host, .. }
        | Event::Begun { host, .. }
        | Event::Retry { host, .. }
        | Event::TaskEnds(host)) = event
        else {
            unreachable!("not a node's event");
        };
        // What reaches a dead host is lost.
        let Some(pulling) = self.nodes.get_mut(&host) else { return };
        let (p, node) = (pulling.p, &mut pulling.node);
        let step = match event {
            Event::TasksHave(_) => node.tasks_have(p, pulling.running, wait),
            Event::Retry { ticket, .. } => node.retry(ticket, p, pulling.running, wait),
            Event::TaskEnds(_) => {
                pulling.running -= 1;
                node.room(p, pulling.running)
            }
            Event::Exec { items, .. } => {
                let takes = self.setting.start * items.len() as u64;
                return self.after(takes, Event::Begun { host, items });
            }
            Event::Begun { items, .. } => return self.on_begun(host, items, wait),
            _ => {
                node.tasks_no();
                return;
            }
        };
        self.follow(host, step);
    }

    fn on_begun(&mut self, host: Host, items: Vec<u64>, wait: Duration) {
        for &item in &items {
            self.starts[item as usize] += 1;
            let end = self.random.within(self.setting.task.clone());
            self.after(end, Event::TaskEnds(host));
        }
        let pulling = self.nodes.get_mut(&host).expect("checked");
        pulling.running += items.len() as u64;
        let most = self.most.entry(host).or_default();
        *most = pulling.running.max(*most);
        let step = pulling.node.tasks_given(pulling.p, pulling.running, wait);
        self.send(Party::Node(host), Party::Home, Event::Started { host, items });
        self.follow(host, step);
    }

    fn follow(&mut self, host: Host, step: Step) {
        let pulling = &self.nodes[&host];
        let (c, p, running) = (pulling.c, pulling.p, pulling.running);
        let n_a = match step {
            Step::Apply { n_a } => n_a,
            Step::Decline { n_a, wait, ticket } => {
                self.after(wait.as_micros() as u64, Event::Retry { host, ticket });
                n_a
            }
            Step::Stay => return,
        };
        assert_eq!(n_a, application(p, running));
        self.send(Party::Node(host), Party::Manager, Event::Apply { host, n_a, c });
    }
}
