//! A virtual machine in one thread: many cores, a network of ordered links with random delays, processes that start,
//! enrol, talk and end, all under virtual time and from one seed.

mod process;
#[path = "../random/mod.rs"]
mod random;

use bytes::Bytes;
use process::Process;
use pvm_sched::policy::Policy;
use pvm_wire::daemon::{DaemonMsg, HostEntry};
use pvm_wire::encoding::DataSignature;
use pvm_wire::{FragmentHeader, HostIndex};
use pvmd_core::event::{Action, ConnId, Cookie, Event, StartedHost};
use pvmd_core::hostfile::{HostOptions, HostSpec, Hostfile, Via};
use pvmd_core::{Config, Core, Hosting, Limits};
use random::Random;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitStatus;
use std::time::Duration;

/// What is to happen at some time.
enum Happening {
    /// An event reaches a daemon.
    Event(HostIndex, Event),
    /// A message arrives over the link from the first to the second.
    Arrival(HostIndex, HostIndex, DaemonMsg),
    /// A daemon's timer.
    Timer(HostIndex),
    /// A process begins to run.
    Begin(HostIndex, Cookie),
    /// A process hears a fragment from its daemon.
    Hear(HostIndex, ConnId, FragmentHeader, Bytes),
    /// A process ends by itself or is killed.
    End(HostIndex, Cookie),
    /// A link has been made.
    Linked(HostIndex, HostIndex),
}

struct Queued {
    when: Duration,
    number: u64,
    /// Boxed, since the queue moves its elements about.
    what: Box<Happening>,
}

impl PartialEq for Queued {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Queued {}
impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Queued {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}
impl Queued {
    fn key(&self) -> (Duration, u64) {
        (self.when, self.number)
    }
}

/// What was observed, for the checks.
#[derive(Debug, Default)]
pub struct Observed {
    /// Programs (not managers) that were started: per host how many.
    pub started: BTreeMap<HostIndex, usize>,
    /// The most programs that ran on a host at once.
    pub most: BTreeMap<HostIndex, usize>,
    /// Answers to the spawns, in order.
    pub answers: Vec<Vec<i32>>,
    /// Daemons that decided to end.
    pub ended: BTreeSet<HostIndex>,
}

/// The simulated cluster.
pub struct Cluster {
    pub now: Duration,
    pub random: Random,
    pub seen: Observed,
    /// How long programs run; `None` is for ever.
    pub lifetime: Option<std::ops::Range<u64>>,
    /// Threshold P of every host.
    target: u32,
    daemons: BTreeMap<HostIndex, Core>,
    queue: BinaryHeap<Reverse<Queued>>,
    number: u64,
    /// Arrival time of the last message per link: links keep order.
    last: BTreeMap<(HostIndex, HostIndex), Duration>,
    links: BTreeSet<(HostIndex, HostIndex)>,
    processes: BTreeMap<(HostIndex, Cookie), Process>,
    /// Programs that have begun and not ended, per host.
    running: BTreeMap<HostIndex, usize>,
    conns: BTreeMap<(HostIndex, ConnId), Cookie>,
    next_conn: u64,
    next_pid: i32,
}

fn config(
    index: HostIndex,
    name: String,
    capability: u32,
    target: u32,
    hostfile: Hostfile,
    seed: u64,
) -> Config {
    Config {
        index,
        name,
        arch: "LINUX64".to_owned(),
        speed: Some(capability),
        capability: f64::from(capability),
        cores: 2,
        task_target: target,
        slots: 2,
        policy: Policy::default(),
        private_network: false,
        task_limit: 100_000,
        address: None,
        hostfile,
        seed,
        host_timeout: Duration::from_secs(3),
        epoch: Duration::ZERO,
        debug_mask: 0,
        slice: None,
        wake_time: Duration::from_micros(3),
        hosting: Hosting { timeout: Duration::from_secs(60), ..Hosting::default() },
        limits: Limits::default(),
    }
}

impl Cluster {
    /// A master whose hostfile names `hosts − 1` more; their capabilities are 1000, 2000, 3000, 1000, …
    pub fn new(seed: u64, hosts: u32, target: u32) -> Self {
        let specs = (2..=hosts).map(|i| HostSpec {
            name: format!("node{i}"),
            options: HostOptions {
                via: Some(Via::Local),
                speed: Some(capability(i)),
                ..HostOptions::default()
            },
            start: true,
            shared_address: false,
        });
        let hostfile = Hostfile { hosts: specs.collect(), ..Hostfile::default() };
        let master = HostIndex::MASTER;
        let core =
            Core::new(config(master, "node1".into(), capability(1), target, hostfile, seed), Duration::ZERO);
        let mut cluster = Self {
            now: Duration::ZERO,
            random: Random::new(seed),
            seen: Observed::default(),
            lifetime: None,
            target,
            daemons: BTreeMap::from([(master, core)]),
            queue: BinaryHeap::new(),
            number: 0,
            last: BTreeMap::new(),
            links: BTreeSet::new(),
            processes: BTreeMap::new(),
            running: BTreeMap::new(),
            conns: BTreeMap::new(),
            next_conn: 1,
            next_pid: 1000,
        };
        let actions = cluster.daemons.get_mut(&master).expect("the master").start(Duration::ZERO);
        cluster.carry_out(master, actions);
        cluster
    }

    pub fn daemon(&self, host: HostIndex) -> &Core {
        &self.daemons[&host]
    }

    pub fn hosts(&self) -> Vec<HostIndex> {
        self.daemons.keys().copied().collect()
    }

    /// A task nobody spawned enrols on this host and spawns `count` programs (flags, place).
    pub fn enrol_spawner(&mut self, host: HostIndex, count: i32) {
        let cookie = Cookie(-1 - self.processes.len() as i32);
        self.processes.insert((host, cookie), Process::spawner(count));
        self.later(10..50, Happening::Begin(host, cookie));
    }

    /// Kills a host: its processes and its daemon are gone, its links break.
    pub fn crash(&mut self, host: HostIndex) {
        self.daemons.remove(&host);
        self.processes.retain(|(at, _), _| *at != host);
        self.running.remove(&host);
        self.conns.retain(|(at, _), _| *at != host);
        let others: Vec<HostIndex> =
            self.links.iter().filter(|(a, _)| *a == host).map(|&(_, other)| other).collect();
        for other in others {
            self.links.remove(&(host, other));
            self.links.remove(&(other, host));
            self.later(
                1000..3_000_000,
                Happening::Event(other, Event::PeerLost { host, reason: "silent".into() }),
            );
        }
    }

    /// Kills the managers that run at this moment, and says how many there were.
    pub fn kill_managers(&mut self) -> usize {
        let managers: Vec<_> =
            self.processes.iter().filter(|(_, p)| p.is_manager()).map(|(&key, _)| key).collect();
        for &(host, cookie) in &managers {
            self.later(0..100, Happening::End(host, cookie));
        }
        managers.len()
    }

    /// Lets one thing happen. `false` when nothing is left to happen.
    pub fn step(&mut self) -> bool {
        let Some(Reverse(next)) = self.queue.pop() else { return false };
        self.now = next.when;
        match *next.what {
            Happening::Event(host, event) => self.feed(host, event),
            Happening::Arrival(from, to, message) => {
                if self.links.contains(&(to, from)) {
                    self.feed(to, Event::PeerMessage { host: from, message });
                }
            }
            Happening::Timer(host) => self.timer(host),
            Happening::Begin(host, cookie) => self.begin(host, cookie),
            Happening::Hear(host, conn, header, data) => self.hear(host, conn, &header, data),
            Happening::End(host, cookie) => self.end(host, cookie),
            Happening::Linked(a, b) => {
                self.links.insert((a, b));
                self.links.insert((b, a));
                self.feed(b, Event::PeerLinked { host: a });
                self.feed(a, Event::PeerLinked { host: b });
            }
        }
        true
    }

    /// Runs until this holds; panics if nothing more can happen or too much has.
    pub fn run_until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        for _ in 0..20_000_000_u64 {
            if done(self) {
                return;
            }
            assert!(self.step(), "nothing is left to happen, but not yet: {what}; {:?}", self.summary());
        }
        panic!("too many steps before: {what}; {:?}", self.summary());
    }

    fn summary(&self) -> Vec<String> {
        self.daemons.values().take(5).map(|core| format!("{} {:?}", core.index(), core.census())).collect()
    }

    fn at(&mut self, when: Duration, what: Happening) {
        self.number += 1;
        self.queue.push(Reverse(Queued { when, number: self.number, what: Box::new(what) }));
    }

    fn later(&mut self, micros: std::ops::Range<u64>, what: Happening) {
        let when = self.now + self.random.micros(micros);
        self.at(when, what);
    }

    fn feed(&mut self, host: HostIndex, event: Event) {
        let Some(core) = self.daemons.get_mut(&host) else { return };
        let actions = core.handle(event, self.now);
        core.check().expect("a sound state");
        self.carry_out(host, actions);
    }

    fn timer(&mut self, host: HostIndex) {
        let Some(core) = self.daemons.get_mut(&host) else { return };
        if core.deadline().is_some_and(|deadline| deadline <= self.now) {
            let actions = core.handle_timeout(self.now);
            core.check().expect("a sound state");
            self.carry_out(host, actions);
        }
    }

    fn carry_out(&mut self, host: HostIndex, actions: Vec<Action>) {
        for action in actions {
            self.act(host, action);
        }
        if let Some(deadline) = self.daemons.get(&host).and_then(Core::deadline) {
            self.at(deadline, Happening::Timer(host));
        }
    }

    fn act(&mut self, host: HostIndex, action: Action) {
        match action {
            Action::Send { conn, header, data, .. } => {
                let bytes = FragmentHeader::SIZE + data.len();
                let when = self.in_order((host, host), 5..60);
                self.at(when, Happening::Hear(host, conn, header, data));
                self.at(when, Happening::Event(host, Event::TaskDrained { conn, bytes }));
            }
            Action::OpenAuth { conn, .. } => {
                let event = Event::AuthOpened { conn, result: Ok("/tmp/auth".to_owned()) };
                self.later(1..20, Happening::Event(host, event));
            }
            Action::CheckAuth { conn } => {
                self.later(1..20, Happening::Event(host, Event::AuthChecked { conn, proven: true }));
            }
            Action::Start { cookies, program, .. } => self.start(host, &cookies, program.manager),
            Action::Locate { .. } | Action::Introduce { .. } => panic!("no task stands in for the daemon"),
            Action::Signal { pid, .. } => {
                let killed =
                    self.processes.iter().find(|(_, process)| process.pid == pid).map(|(&key, _)| key);
                if let Some((host, cookie)) = killed {
                    self.later(1..100, Happening::End(host, cookie));
                }
            }
            Action::Link { entry } => self.link(host, &entry),
            Action::Unlink { host: other } => {
                self.links.remove(&(host, other));
                if self.links.remove(&(other, host)) {
                    let lost = Event::PeerLost { host, reason: "closed".into() };
                    self.later(10..2000, Happening::Event(other, lost));
                }
            }
            Action::SendPeer { host: to, message } => self.send(host, to, message),
            Action::StartHost { index, spec, .. } => self.start_host(index, &spec),
            Action::Exit { .. } => {
                self.seen.ended.insert(host);
            }
            Action::Resolve { .. } => unreachable!("local hosts are not looked up"),
            Action::PauseReading { .. }
            | Action::ResumeReading { .. }
            | Action::PauseOutput { .. }
            | Action::EndFamily { .. }
            | Action::Dispatch { .. }
            | Action::ReadTimes { .. }
            | Action::ShowTurn { .. }
            | Action::ReadUsage { .. }
            | Action::ResumeOutput { .. }
            | Action::Enrolled { .. }
            | Action::CloseTask { .. }
            | Action::AbandonHost { .. }
            | Action::LendTo { .. }
            | Action::StartedUp { .. }
            | Action::DiscardLog
            | Action::LogOutput { .. } => {}
        }
    }

    /// When something sent now over an ordered channel arrives: after all that was sent before.
    fn in_order(&mut self, channel: (HostIndex, HostIndex), micros: std::ops::Range<u64>) -> Duration {
        let when = self.now + self.random.micros(micros);
        let last = self.last.entry(channel).or_default();
        *last = when.max(*last);
        *last
    }

    fn send(&mut self, from: HostIndex, to: HostIndex, message: DaemonMsg) {
        if let DaemonMsg::Data { data, .. } = &message {
            let drained = Event::PeerDrained { host: to, bytes: data.len() };
            self.later(1..100, Happening::Event(from, drained));
        }
        let when = self.in_order((from, to), 50..5000);
        self.at(when, Happening::Arrival(from, to, message));
    }

    fn link(&mut self, from: HostIndex, entry: &HostEntry) {
        if self.daemons.contains_key(&entry.index) {
            self.later(200..20_000, Happening::Linked(from, entry.index));
        } else {
            let failed = Event::LinkFailed { host: entry.index, reason: "no answer".into() };
            self.later(1_000_000..3_000_000, Happening::Event(from, failed));
        }
    }

    fn start_host(&mut self, index: HostIndex, spec: &HostSpec) {
        let capability = spec.options.speed.unwrap_or(1000);
        let seed = self.random.below(u64::MAX);
        let config = config(index, spec.name.clone(), capability, self.target, Hostfile::default(), seed);
        let mut core = Core::new(config, self.now);
        let actions = core.start(self.now);
        self.daemons.insert(index, core);
        self.carry_out(index, actions);
        let started = StartedHost {
            arch: "LINUX64".to_owned(),
            signature: DataSignature::NATIVE.0,
            capability: f64::from(capability),
            task_limit: 100_000,
            address: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 1),
        };
        let event = Event::HostStarted { index, result: Ok(started) };
        self.later(1000..500_000, Happening::Event(HostIndex::MASTER, event));
    }

    fn start(&mut self, host: HostIndex, cookies: &[Cookie], manager: bool) {
        let mut when = self.now;
        for &cookie in cookies {
            when += self.random.micros(100..2000);
            self.next_pid += 1;
            let pid = self.next_pid;
            let process = if manager { Process::manager(pid) } else { Process::program(pid) };
            self.processes.insert((host, cookie), process);
            let result = Ok((pid, "/bin/program".into()));
            self.at(when, Happening::Event(host, Event::ProcessStarted { cookie, result }));
            self.at(when + Duration::from_micros(1), Happening::Begin(host, cookie));
        }
    }

    fn begin(&mut self, host: HostIndex, cookie: Cookie) {
        let Some(process) = self.processes.get(&(host, cookie)) else { return };
        if process.enrols() {
            let conn = ConnId(self.next_conn);
            self.next_conn += 1;
            self.conns.insert((host, conn), cookie);
            self.feed(host, Event::TaskConnected { conn });
            let hello = process::connect();
            self.say(host, conn, &hello);
            return;
        }
        *self.seen.started.entry(host).or_default() += 1;
        let running = self.running.entry(host).or_default();
        *running += 1;
        let most = self.seen.most.entry(host).or_default();
        *most = (*most).max(*running);
        if let Some(lifetime) = self.lifetime.clone() {
            self.later(lifetime, Happening::End(host, cookie));
        }
    }

    fn end(&mut self, host: HostIndex, cookie: Cookie) {
        let Some(process) = self.processes.remove(&(host, cookie)) else { return };
        if process.is_program() {
            *self.running.entry(host).or_default() -= 1;
        }
        let conn =
            self.conns.iter().find(|((at, _), c)| *at == host && **c == cookie).map(|(&(_, conn), _)| conn);
        if let Some(conn) = conn {
            self.conns.remove(&(host, conn));
            self.feed(host, Event::TaskClosed { conn, reason: None });
        }
        self.feed(host, Event::ProcessOutputEnd { cookie });
        self.feed(host, Event::ProcessExited { cookie, status: ExitStatus::default() });
    }

    fn hear(&mut self, host: HostIndex, conn: ConnId, header: &FragmentHeader, data: Bytes) {
        let Some(&cookie) = self.conns.get(&(host, conn)) else { return };
        let Some(process) = self.processes.get_mut(&(host, cookie)) else { return };
        let said = process.hear(cookie, header, data);
        if let Some(answer) = process.answer.take() {
            self.seen.answers.push(answer);
        }
        for message in said {
            self.say(host, conn, &message);
        }
    }

    fn say(&mut self, host: HostIndex, conn: ConnId, message: &pvm_wire::Message) {
        let fragments: Vec<_> = message.fragments(4080).collect();
        let when = self.in_order((host, host), 5..60);
        for (header, data) in fragments {
            self.at(when, Happening::Event(host, Event::Fragment { conn, header, data }));
        }
    }
}

/// Capability of the n-th host: 1000, 2000, 3000, 1000, …
pub fn capability(n: u32) -> u32 {
    1000 * ((n - 1) % 3 + 1)
}
