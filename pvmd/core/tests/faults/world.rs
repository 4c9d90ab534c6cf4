//! The simulated machine: daemons, processes, links and clocks under virtual time, from one seed.

use crate::journal::Journal;
use crate::network::{Network, Packet};
use crate::process::{ProcId, Process, Role};
use crate::random::Random;
use pvm_sched::policy::Policy;
use pvm_wire::daemon::DaemonMsg;
use pvm_wire::{HostIndex, Message, Tid};
use pvmd_core::event::{Action, ConnId, Cookie, Event};
use pvmd_core::hostfile::{HostOptions, HostSpec, Hostfile, Via};
use pvmd_core::{Config, Core, Hosting, Limits};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Range;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// Happenings after which a run is taken to be going round in circles.
const STEPS_MAX: u64 = 3_000_000;
/// Bytes a fragment of a message has at most.
const FRAGMENT: usize = 60_000;
/// What `wait` says of a process that is killed.
const SIGKILL: i32 = 9;
/// `host_timeout` of every daemon.
pub const TIMEOUT: Duration = Duration::from_secs(3);
/// How long a team has the turn.
const SLICE: Duration = Duration::from_millis(50);

/// What is to happen at some time.
#[derive(Debug)]
pub enum Happening {
    /// A daemon is told something.
    Event(HostIndex, Event),
    /// Its timer.
    Timer(HostIndex),
    /// A packet of the first arrives at the second.
    Arrival(HostIndex, HostIndex, Packet),
    /// The first has dialled the second.
    Dialled(HostIndex, HostIndex),
    /// The first hears that its link to the second stands.
    Linked(HostIndex, HostIndex),
    /// The first notices that its link to the second does not stand.
    Lost(HostIndex, HostIndex),
    /// The cut with this number ends.
    Heal(HostIndex, HostIndex, u64),
    /// A daemon begins.
    Boot(HostIndex, String, u32),
    /// A daemon that ends has ended its tasks and removed its files.
    Cleared(HostIndex),
    /// A host vanishes.
    Vanish(HostIndex),
    /// A process begins to run.
    Begin(ProcId),
    /// A daemon looks what a process has written.
    Read(ProcId),
    /// A process looks what its daemon has written.
    Hear(ProcId),
    /// A process that was stopped goes on.
    Continue(ProcId),
    /// A process is killed.
    Kill(ProcId),
    /// A process has done its work.
    Finish(ProcId),
}

struct Queued {
    key: (Duration, u64),
    /// Boxed, since the queue moves its elements about.
    what: Box<Happening>,
}

impl PartialEq for Queued {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
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
        self.key.cmp(&other.key)
    }
}

/// A daemon, and what its driver would remember.
pub struct Host {
    pub core: Core,
    name: String,
    pub conns: BTreeMap<ConnId, ProcId>,
    pub exiting: bool,
    /// Its files are gone.
    pub cleared: bool,
    /// When its timer is due.
    armed: Option<Duration>,
}

pub struct World {
    pub now: Duration,
    pub random: Random,
    /// How long a team has the turn, if teams take turns.
    slice: Option<Duration>,
    pub hosts: BTreeMap<HostIndex, Host>,
    pub processes: BTreeMap<ProcId, Process>,
    pub tids: BTreeMap<Tid, ProcId>,
    pub net: Network,
    pub journal: Journal,
    /// Newcomers that were given up.
    pub abandoned: BTreeSet<HostIndex>,
    /// Newcomers that are being started.
    pub booting: BTreeSet<HostIndex>,
    /// Hosts of which the first may have taken the second for lost.
    unsteady: BTreeSet<(HostIndex, HostIndex)>,
    queue: BinaryHeap<Reverse<Queued>>,
    number: u64,
    steps: u64,
    /// Everything is printed (`PVM_SIM_TRACE`).
    traced: bool,
}

/// What is printed of something.
fn shown(what: &impl std::fmt::Debug) -> String {
    format!("{what:?}").chars().take(220).collect()
}

fn config(
    index: HostIndex,
    name: &str,
    capability: u32,
    hostfile: Hostfile,
    seed: u64,
    slice: Option<Duration>,
) -> Config {
    Config {
        index,
        name: name.to_owned(),
        arch: "LINUX64".to_owned(),
        speed: Some(capability),
        capability: f64::from(capability),
        cores: 2,
        task_target: 6,
        slots: 2,
        policy: Policy::default(),
        private_network: false,
        task_limit: 40,
        address: None,
        hostfile,
        seed,
        host_timeout: TIMEOUT,
        epoch: Duration::ZERO,
        debug_mask: 0,
        slice,
        wake_time: Duration::from_micros(3),
        hosting: Hosting { timeout: Duration::from_secs(60), ..Hosting::default() },
        limits: Limits::default(),
    }
}

impl World {
    /// A master whose hostfile names `hosts − 1` more.
    pub fn new(seed: u64, hosts: u32, turns: bool) -> Self {
        let specs = (2..=hosts).map(|i| HostSpec {
            name: format!("node{i}"),
            options: HostOptions {
                via: Some(Via::Local),
                speed: Some(1000 * (i % 3 + 1)),
                ..HostOptions::default()
            },
            start: true,
            shared_address: false,
        });
        let hostfile = Hostfile { hosts: specs.collect(), ..Hostfile::default() };
        let mut world = Self {
            now: Duration::ZERO,
            random: Random::new(seed),
            slice: turns.then_some(SLICE),
            hosts: BTreeMap::new(),
            processes: BTreeMap::new(),
            tids: BTreeMap::new(),
            net: Network::default(),
            journal: Journal::default(),
            abandoned: BTreeSet::new(),
            booting: BTreeSet::new(),
            unsteady: BTreeSet::new(),
            queue: BinaryHeap::new(),
            number: 0,
            steps: 0,
            traced: std::env::var_os("PVM_SIM_TRACE").is_some(),
        };
        world.add_daemon(HostIndex::MASTER, "node1", 1000, hostfile);
        world
    }

    fn add_daemon(&mut self, index: HostIndex, name: &str, capability: u32, hostfile: Hostfile) {
        let seed = self.random.below(u64::MAX);
        let mut core = Core::new(config(index, name, capability, hostfile, seed, self.slice), self.now);
        let actions = core.start(self.now);
        let (name, conns) = (name.to_owned(), BTreeMap::new());
        let host = Host { core, name, conns, exiting: false, cleared: false, armed: None };
        self.hosts.insert(index, host);
        self.carry_out(index, actions);
    }

    /// A number that was not used before.
    pub fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    pub fn at(&mut self, when: Duration, what: Happening) {
        let key = (when, self.next_number());
        self.queue.push(Reverse(Queued { key, what: Box::new(what) }));
    }

    pub fn later(&mut self, micros: Range<u64>, what: Happening) {
        let when = self.now + self.random.micros(micros);
        self.at(when, what);
    }

    /// Lets everything happen that happens within this time.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.journal.faults.is_empty()
            && self.queue.peek().is_some_and(|Reverse(next)| next.key.0 <= end)
            && let Some(Reverse(next)) = self.queue.pop()
        {
            self.now = next.key.0;
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return self.journal.fault("it goes round in circles".to_owned());
            }
            if self.traced {
                println!("{:?} {}", self.now, shown(&next.what));
            }
            self.happen(*next.what);
        }
        self.now = end;
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::Event(host, event) => self.feed(host, event),
            Happening::Timer(host) => self.timer(host),
            Happening::Arrival(from, to, packet) => self.arrive(from, to, packet),
            Happening::Dialled(from, to) => self.dialled(from, to),
            Happening::Linked(host, other) => {
                let end = self.net.end(host, other);
                end.known = true;
                if end.open {
                    self.feed(host, Event::PeerLinked { host: other });
                }
            }
            Happening::Lost(host, other) => {
                self.unsteady.extend([(host, other), (other, host)]);
                self.lose(host, other, "it has been silent for too long");
            }
            Happening::Heal(from, to, number) => self.heal(from, to, Some(number)),
            Happening::Boot(host, name, capability) => {
                self.booting.remove(&host);
                if !self.abandoned.contains(&host) && self.hosts.contains_key(&HostIndex::MASTER) {
                    self.check_place(&name);
                    self.add_daemon(host, &name, capability, Hostfile::default());
                }
            }
            Happening::Cleared(host) => self.cleared(host),
            Happening::Vanish(host) => self.vanish(host),
            Happening::Begin(process) => self.begin(process),
            Happening::Read(process) => self.read(process),
            Happening::Hear(process) => self.hear(process),
            Happening::Continue(process) => {
                if let Some(found) = self.processes.get_mut(&process) {
                    found.stopped = false;
                    self.hear_soon(process);
                }
            }
            Happening::Kill(process) => self.kill(process),
            Happening::Finish(process) => self.finish(process),
        }
    }

    pub fn feed(&mut self, host: HostIndex, event: Event) {
        let Some(found) = self.hosts.get_mut(&host).filter(|host| !host.exiting) else { return };
        let actions = found.core.handle(event, self.now);
        let checked = found.core.check();
        self.note_check(host, checked);
        self.carry_out(host, actions);
    }

    fn timer(&mut self, host: HostIndex) {
        let Some(found) = self.hosts.get_mut(&host).filter(|host| !host.exiting) else { return };
        found.armed = None;
        let actions = found.core.handle_timeout(self.now);
        let checked = found.core.check();
        self.note_check(host, checked);
        self.carry_out(host, actions);
    }

    fn note_check(&mut self, host: HostIndex, checked: Result<(), String>) {
        if let Err(fault) = checked {
            self.journal.fault(format!("host {host}: {fault}"));
        }
    }

    fn carry_out(&mut self, host: HostIndex, actions: Vec<Action>) {
        let mut readings = Vec::new();
        for action in actions {
            if self.traced {
                println!("    {host}: {}", shown(&action));
            }
            match action {
                Action::ReadUsage { pids } => readings.push(pids),
                action => self.act(host, action),
            }
        }
        for pids in readings {
            let usage = self.usage(host, &pids);
            self.feed(host, usage);
        }
        let Some(found) = self.hosts.get_mut(&host) else { return };
        if let Some(deadline) = found.core.deadline()
            && found.armed.is_none_or(|armed| deadline < armed)
        {
            found.armed = Some(deadline);
            self.at(deadline.max(self.now), Happening::Timer(host));
        }
    }

    /// Sends a packet over a link.
    pub fn send(&mut self, from: HostIndex, to: HostIndex, packet: Packet) {
        let earliest = self.now + self.random.micros(50..5000);
        if let Some((when, packet)) = self.net.send(from, to, packet, earliest) {
            self.at(when, Happening::Arrival(from, to, packet));
        }
    }

    fn arrive(&mut self, from: HostIndex, to: HostIndex, packet: Packet) {
        if !self.net.is_open(to, from) {
            return;
        }
        match packet {
            Packet::Message(message) => {
                // A link takes no more than its daemon may queue, so that what is on its way has a bound.
                if let DaemonMsg::Data { data, .. } = &message {
                    let drained = Event::PeerDrained { host: to, bytes: data.len() };
                    self.later(1..100, Happening::Event(from, drained));
                }
                self.feed(to, Event::PeerMessage { host: from, message });
            }
            Packet::Close => self.lose(to, from, "it closed the link"),
        }
    }

    fn lose(&mut self, host: HostIndex, other: HostIndex, reason: &str) {
        if std::mem::take(&mut self.net.end(host, other).open) {
            // The other end hears nothing from now on.
            self.later(10_000..3_000_000, Happening::Lost(other, host));
            self.feed(host, Event::PeerLost { host: other, reason: reason.to_owned() });
        }
    }

    fn dialled(&mut self, from: HostIndex, to: HostIndex) {
        if !self.net.dials.remove(&(from, to)) {
            return;
        }
        if !self.hosts.contains_key(&to) || self.random.below(60) == 0 {
            let failed = Event::LinkFailed { host: to, reason: "no answer".to_owned() };
            return self.later(1_000_000..9_000_000, Happening::Event(from, failed));
        }
        let (here, there) = (self.random.micros(0..5000), self.random.micros(0..5000));
        let (here, there) = (self.now + here, self.now + there);
        self.net.establish((from, here), (to, there));
        self.at(here, Happening::Linked(from, to));
        self.at(there, Happening::Linked(to, from));
    }

    /// A daemon cannot start while another of its name still has its files. The master waits for its end, unless it has lost it.
    fn check_place(&mut self, name: &str) {
        let has_files = |host: &Host| host.name == name && host.exiting && !host.cleared;
        let is_lost = |index| self.unsteady.contains(&(HostIndex::MASTER, index));
        let mut others = self.hosts.iter().filter(|(index, host)| has_files(host) && !is_lost(**index));
        if let Some((index, _)) = others.next() {
            let text = format!("a daemon of {name} starts while host {index} of that name is ending");
            self.journal.fault(text);
        }
    }

    /// What the first sends does not get through for a while.
    pub fn cut(&mut self, from: HostIndex, to: HostIndex, time: Duration) {
        let Some(number) = self.net.cut(from, to) else { return };
        self.at(self.now + time, Happening::Heal(from, to, number));
        if time > TIMEOUT {
            // The receiver hears nothing and gives up, and then the sender hears nothing.
            self.later(2_500_000..3_000_000, Happening::Lost(to, from));
        }
    }

    pub fn heal(&mut self, from: HostIndex, to: HostIndex, number: Option<u64>) {
        for packet in self.net.heal(from, to, number) {
            let earliest = self.now + self.random.micros(50..5000);
            let when = self.net.arrival(from, to, earliest);
            self.at(when, Happening::Arrival(from, to, packet));
        }
    }

    /// A host is gone, with all its processes; the others notice after a while.
    pub fn vanish(&mut self, host: HostIndex) {
        if self.hosts.remove(&host).is_none() {
            return;
        }
        self.processes.retain(|_, process| process.host != host);
        for other in self.net.others(host) {
            self.later(10_000..3_000_000, Happening::Lost(other, host));
        }
        self.net.remove(host);
    }

    fn begin(&mut self, id: ProcId) {
        let Some(process) = self.processes.get_mut(&id).filter(|process| !process.dead) else { return };
        if matches!(process.role, Role::Silent) {
            return;
        }
        let host = process.host;
        let conn = ConnId(self.next_number());
        if let (Some(process), Some(found)) = (self.processes.get_mut(&id), self.hosts.get_mut(&host)) {
            process.conn = Some(conn);
            found.conns.insert(conn, id);
            self.feed(host, Event::TaskConnected { conn });
            self.say(id, &Process::hello());
        }
    }

    /// A process writes a message to its daemon.
    pub fn say(&mut self, id: ProcId, message: &Message) {
        if let Some(process) = self.processes.get_mut(&id) {
            process.out.extend(message.fragments(FRAGMENT));
            self.read_soon(id);
        }
    }

    pub fn read_soon(&mut self, id: ProcId) {
        let Some(process) = self.processes.get_mut(&id).filter(|process| process.is_read()) else { return };
        if !std::mem::replace(&mut process.read_due, true) {
            self.later(5..60, Happening::Read(id));
        }
    }

    pub fn hear_soon(&mut self, id: ProcId) {
        let Some(process) = self.processes.get_mut(&id).filter(|process| process.is_running()) else {
            return;
        };
        if !process.inbox.is_empty() && !std::mem::replace(&mut process.hear_due, true) {
            self.later(5..60, Happening::Hear(id));
        }
    }

    /// The daemon reads some fragments, and sees the end after the last.
    fn read(&mut self, id: ProcId) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        process.read_due = false;
        for _ in 0..=self.random.below(8) {
            let Some(process) = self.processes.get_mut(&id).filter(|process| process.is_read()) else {
                return;
            };
            let (host, Some(conn)) = (process.host, process.conn) else { return };
            match process.out.pop_front() {
                Some((header, data)) => self.feed(host, Event::Fragment { conn, header, data }),
                None if process.dead => {
                    process.conn = None;
                    if let Some(host) = self.hosts.get_mut(&host) {
                        host.conns.remove(&conn);
                    }
                    return self.feed(host, Event::TaskClosed { conn, reason: None });
                }
                None => return,
            }
        }
        self.read_soon(id);
    }

    /// The process reads some fragments.
    fn hear(&mut self, id: ProcId) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        process.hear_due = false;
        for _ in 0..=self.random.below(8) {
            let reading = |process: &&mut Process| process.is_running() && !process.dead;
            let Some(process) = self.processes.get_mut(&id).filter(reading) else { return };
            let Some((header, data)) = process.inbox.pop_front() else { break };
            let bytes = pvm_wire::FragmentHeader::SIZE + data.len();
            let host = process.host;
            let heard = process.hear(&header, data);
            if let Some(conn) = process.conn {
                self.feed(host, Event::TaskDrained { conn, bytes });
            }
            match heard {
                Ok(Some(message)) => self.heard(id, &message),
                Ok(None) => {}
                Err(nonsense) => self.journal.fault(nonsense),
            }
        }
        self.hear_soon(id);
    }

    /// A process is killed, perhaps in the middle of a message.
    pub fn kill(&mut self, id: ProcId) {
        let Some(process) = self.processes.get_mut(&id).filter(|process| !process.dead) else { return };
        (process.dead, process.status) = (true, SIGKILL);
        let unwritten = self.random.below(1 + process.out.len() as u64) as usize;
        process.out.truncate(process.out.len() - unwritten);
        self.over(id);
    }

    /// A process has done its work and ends well.
    fn finish(&mut self, id: ProcId) {
        if self.processes.get(&id).is_some_and(|process| !process.dead) {
            self.over(id);
        }
    }

    /// What the end of a process leads to.
    pub fn over(&mut self, id: ProcId) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        process.dead = true;
        let (host, cookie, status) = (process.host, process.cookie, ExitStatus::from_raw(process.status));
        if process.conn.is_some() {
            self.read_soon(id);
        }
        if let Some(cookie) = cookie {
            self.later(1..2000, Happening::Event(host, Event::ProcessOutputEnd { cookie }));
            self.later(1..2000, Happening::Event(host, Event::ProcessExited { cookie, status }));
        }
    }

    /// A process that a daemon starts.
    pub fn add_process(&mut self, host: HostIndex, cookie: Option<Cookie>, role: Role) -> (ProcId, i32) {
        let id = self.next_number();
        let pid = 1000 + id as i32;
        self.processes.insert(id, Process::new(host, pid, cookie, role));
        (id, pid)
    }
}
