//! A machine under virtual time, from one seed: daemons, processes, links and clocks.

mod hosts;
mod moves;
mod processes;

use crate::Random;
use crate::daemon::{Daemon, config, links, queues, spec};
use crate::network::{Network, Packet};
use crate::process::{ProcId, Process, Role};
use pvm_wire::calls::Call;
use pvm_wire::calls::enrolment::{Admission, Enrol, EnrolReply};
use pvm_wire::certificate::Certified;
use pvm_wire::group::Key;
use pvm_wire::{HostIndex, Message, Tid};
use pvmd_core::event::{Action, ConnId, Event, Found, Program};
use pvmd_core::hostfile::{Hostfile, Via};
use pvmd_core::{Config, Hosting, Succession};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::net::Ipv4Addr;
use std::ops::Range;
use std::time::Duration;

/// Happenings after which a run is taken to be going round in circles.
const STEPS_MAX: u64 = 3_000_000;
/// How long a daemon may take to start.
const START: Duration = Duration::from_secs(60);
/// By how many microseconds the clocks of hosts differ at most when they start.
const CLOCKS_APART: u64 = 100_000_000;
/// How long a team has the turn.
const SLICE: Duration = Duration::from_millis(50);

/// What tasks do, and what is remembered of it.
pub trait Tasks: Sized {
    /// What has gone wrong so far; nothing more happens then.
    fn faults(&mut self) -> &mut Vec<String>;
    /// What the next process does that a daemon starts, unless it is a manager.
    fn role(machine: &mut Machine<Self>) -> Role;
    /// A daemon has started a process.
    fn started(machine: &mut Machine<Self>, id: ProcId, program: &Program);
    /// A task has enrolled.
    fn enrolled(machine: &mut Machine<Self>, id: ProcId, tid: Tid);
    /// A task has received a message that is not about its enrolment.
    fn heard(machine: &mut Machine<Self>, id: ProcId, tid: Tid, message: &Message);
    /// Whether a task that was told to move can: it waits for nothing.
    fn can_move(_machine: &Machine<Self>, _tid: Tid) -> bool {
        true
    }
    /// A process has taken the place of another, whose task lives here now.
    fn succeeded(_machine: &mut Machine<Self>, _old: ProcId, _new: ProcId) {}
    /// A process ends.
    fn ended(_machine: &mut Machine<Self>, _id: ProcId) {}
}

/// What a machine is like.
pub struct Setup {
    /// Whence its random numbers.
    pub seed: u64,
    /// The capability of each host of its hostfile, the master's first.
    pub capabilities: Vec<u32>,
    /// Threshold P of every host.
    pub task_target: u32,
    /// Most tasks of a host.
    pub task_limit: u32,
    /// Whether teams take turns.
    pub turns: bool,
    /// How long slaves keep links that they do not use.
    pub link_idle: Duration,
    /// Most hosts that hold the master's state.
    pub deputies: usize,
    /// Daemons that a host starts at a time on hosts that are reached by ssh; `None`: all are on the master's host.
    pub width: Option<usize>,
    /// Hosts up to which the master checks each other host at the full rate.
    pub watched_max: usize,
    /// Whether hosts, links and processes may fail to start.
    pub fails: bool,
    /// Whether everything that happens is printed.
    pub traced: bool,
}

impl Default for Setup {
    /// No host, and nothing that fails. What happens is printed if `PVM_SIM_TRACE` is set.
    #[expect(
        clippy::disallowed_methods,
        reason = "the environment is forbidden to the core, not to its tests"
    )]
    fn default() -> Self {
        Self {
            seed: 0,
            capabilities: Vec::new(),
            task_target: 4,
            task_limit: 100,
            turns: false,
            link_idle: Duration::from_secs(30),
            deputies: 3,
            width: None,
            watched_max: 256,
            fails: false,
            traced: std::env::var_os("PVM_SIM_TRACE").is_some(),
        }
    }
}

/// What is to happen at some time.
#[derive(Debug)]
pub enum Happening {
    /// A daemon is told something.
    Event(HostIndex, Event),
    /// Its timer is due, unless its clock has jumped meanwhile.
    Timer(HostIndex, Duration),
    /// A packet of the first arrives at the second, by the link with this number.
    Arrival(HostIndex, HostIndex, u64, Packet),
    /// This many bytes of the first have arrived at the second, which acknowledges them.
    Acknowledged(HostIndex, HostIndex, usize),
    /// The first has dialled the second.
    Dialled(HostIndex, HostIndex),
    /// The first gives up dialling the second.
    DialFailed(HostIndex, HostIndex),
    /// The first hears that its link to the second stands.
    Linked(HostIndex, HostIndex),
    /// The first notices that its link to the second, the one with this number, does not stand.
    Lost(HostIndex, HostIndex, u64),
    /// The first has heard nothing of the second for a while.
    Silent(HostIndex, HostIndex, u64),
    /// The first has checked its link to the second at the full rate for long enough to detect its loss.
    Looked(HostIndex, HostIndex, u64),
    /// The first hears that nobody listens where the second did.
    Refused(HostIndex, HostIndex, u64),
    /// The cut with this number ends.
    Heal(HostIndex, HostIndex, u64),
    /// The first has started a daemon on another host, or not, and says so.
    Started(HostIndex, Event),
    /// A daemon begins that the second has started.
    Boot(HostIndex, HostIndex, String, u32),
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
    /// The daemon.
    pub daemon: Daemon,
    name: String,
    /// The master that has started it.
    starter: HostIndex,
    conns: BTreeMap<ConnId, ProcId>,
    exiting: bool,
    /// Its files are gone.
    cleared: bool,
    /// When its timer is due, by its clock.
    armed: Option<Duration>,
    /// By how much its clock is ahead of the world's.
    pub ahead: Duration,
}

/// What a daemon has heard of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Messages.
    pub messages: u64,
    /// Their bytes, as frames on a link.
    pub bytes: u64,
}

/// The simulated machine.
pub struct Machine<T> {
    /// The time.
    pub now: Duration,
    /// Whence delays and failures.
    pub random: Random,
    /// All hosts whose daemons run.
    pub hosts: BTreeMap<HostIndex, Host>,
    /// All processes.
    pub processes: BTreeMap<ProcId, Process>,
    /// All links.
    pub net: Network,
    /// What each daemon has heard of others.
    pub heard: BTreeMap<HostIndex, Heard>,
    /// What tasks do.
    pub tasks: T,
    setup: Setup,
    /// Newcomers that were given up.
    abandoned: BTreeSet<HostIndex>,
    /// Daemons that each host is starting on others.
    starting: BTreeMap<HostIndex, usize>,
    /// Most daemons that a host has started at a time so far.
    pub starting_most: usize,
    /// Hosts that are off: nobody answers there that no daemon listens.
    pub off: BTreeSet<HostIndex>,
    /// Whose luggage successors have.
    predecessors: BTreeMap<ProcId, ProcId>,
    /// Tasks that have moved so far.
    pub moved: u64,
    /// By which factor the interval is longer at which the first checks its link to the second.
    paces: BTreeMap<(HostIndex, HostIndex), u32>,
    /// Hosts of which the first may have taken the second for lost.
    unsteady: BTreeSet<(HostIndex, HostIndex)>,
    /// Hosts that were ending when the clock of another one jumped: it does not wait for them any more.
    unwaited: BTreeSet<HostIndex>,
    queue: BinaryHeap<Reverse<Queued>>,
    number: u64,
    steps: u64,
}

/// Another one for each host `node1`, `node2`, …
fn address_of(name: &str) -> Found {
    let number: u32 = name.strip_prefix("node").and_then(|n| n.parse().ok()).expect("a node's name");
    Found { address: Ipv4Addr::from_bits(0x0a01_0000 + number).into(), own: false }
}

/// Whether a process that finds this in its channel is a successor.
fn is_of_successor(greeting: &[u8]) -> bool {
    let answer = Enrol::decode_answer(greeting);
    matches!(answer, Ok(Ok(Admission(Some(EnrolReply { succeeds: Some(_), .. })))))
}

/// What is printed of something.
fn shown(what: &impl std::fmt::Debug) -> String {
    format!("{what:?}").chars().take(220).collect()
}

impl<T: Tasks> Machine<T> {
    /// A master whose hostfile names the other hosts.
    pub fn new(setup: Setup, tasks: T) -> Self {
        let mut speeds = (1..).zip(&setup.capabilities).map(|(n, &speed)| (format!("node{n}"), speed));
        let (name, speed) = speeds.next().expect("the master's host");
        let via = setup.width.map_or(Via::Local, |_| Via::Ssh);
        let hosts = speeds.map(|(name, speed)| spec(name, speed, via)).collect();
        let mut machine = Self {
            now: Duration::ZERO,
            random: Random::new(setup.seed),
            hosts: BTreeMap::new(),
            processes: BTreeMap::new(),
            net: Network::default(),
            heard: BTreeMap::new(),
            tasks,
            setup,
            abandoned: BTreeSet::new(),
            starting: BTreeMap::new(),
            starting_most: 0,
            off: BTreeSet::new(),
            predecessors: BTreeMap::new(),
            moved: 0,
            paces: BTreeMap::new(),
            unsteady: BTreeSet::new(),
            unwaited: BTreeSet::new(),
            queue: BinaryHeap::new(),
            number: 0,
            steps: 0,
        };
        let master = HostIndex::MASTER;
        let hostfile = Hostfile { hosts, links: links(), ..Hostfile::default() };
        machine.add_daemon(master, master, name, speed, hostfile);
        machine
    }

    fn add_daemon(
        &mut self,
        index: HostIndex,
        master: HostIndex,
        name: String,
        capability: u32,
        hostfile: Hostfile,
    ) {
        let deputies_max = self.setup.deputies;
        let config = Config {
            name: name.clone(),
            master,
            succession: Succession { deputies_max, ..Succession::default() },
            hosting: Hosting {
                width: self.setup.width.unwrap_or(16),
                is_shared: true,
                timeout: START,
                ..Hosting::default()
            },
            speed: Some(capability),
            capability: f64::from(capability),
            task_target: self.setup.task_target,
            task_limit: self.setup.task_limit,
            address: None,
            hostfile,
            link_idle: self.setup.link_idle,
            watched_max: self.setup.watched_max,
            seed: self.random.below(u64::MAX),
            epoch: Duration::ZERO,
            slice: self.setup.turns.then_some(SLICE),
            // By accounts or by rows.
            has_rows: self.setup.seed % 4 == 3,
            ..config(index)
        };
        // No two daemons start at the same time, and each has a clock of its own.
        let ahead = self.random.micros(0..CLOCKS_APART);
        let (daemon, actions) = Daemon::new(config, self.now + ahead);
        let conns = BTreeMap::new();
        self.hosts.insert(
            index,
            Host { daemon, name, starter: master, conns, exiting: false, cleared: false, armed: None, ahead },
        );
        self.carry_out(index, actions);
    }

    /// What it is like.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// From now on nothing fails to start.
    pub fn calm_down(&mut self) {
        self.setup.fails = false;
    }

    fn fault(&mut self, what: String) {
        self.tasks.faults().push(what);
    }

    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Lets something happen then.
    pub fn at(&mut self, when: Duration, what: Happening) {
        let key = (when, self.next_number());
        self.queue.push(Reverse(Queued { key, what: Box::new(what) }));
    }

    /// Lets something happen within this range of microseconds.
    pub fn later(&mut self, micros: Range<u64>, what: Happening) {
        let when = self.now + self.random.micros(micros);
        self.at(when, what);
    }

    /// Lets one thing happen; `false` if there is nothing more, or something has gone wrong.
    pub fn step(&mut self) -> bool {
        if !self.tasks.faults().is_empty() {
            return false;
        }
        let Some(Reverse(next)) = self.queue.pop() else { return false };
        self.now = next.key.0;
        self.steps += 1;
        if self.steps > STEPS_MAX {
            self.fault("it goes round in circles".to_owned());
            return false;
        }
        if self.setup.traced {
            println!("{:?} {}", self.now, shown(&next.what));
        }
        self.happen(*next.what);
        true
    }

    /// Lets everything happen that happens within this time.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.queue.peek().is_some_and(|Reverse(next)| next.key.0 <= end) && self.step() {}
        self.now = end;
    }

    /// Lets things happen until this holds, for an hour at most.
    pub fn pass_until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let end = self.now + Duration::from_secs(3600);
        while !done(self) {
            let goes_on = self.now < end && self.step();
            assert!(goes_on, "at {:?} not yet: {what}; {:?}", self.now, self.tasks.faults());
        }
    }

    /// The hosts that take themselves for the master.
    pub fn masters(&self) -> Vec<HostIndex> {
        self.hosts.iter().filter(|(_, host)| host.daemon.is_ruling()).map(|(&index, _)| index).collect()
    }

    /// Lets things happen until there are this many hosts, and each knows all others.
    pub fn pass_until_formed(&mut self, hosts: usize) {
        self.pass_until("every host knows every other", |machine| {
            let knows = |found: &Host| found.daemon.members().len() == hosts;
            machine.hosts.len() == hosts && machine.hosts.values().all(knows)
        });
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::Event(host, event) => self.feed(host, event),
            Happening::Timer(host, deadline) => self.timer(host, deadline),
            Happening::Arrival(from, to, link, packet) => self.arrive(from, to, link, packet),
            Happening::Acknowledged(from, to, bytes) => self.acknowledged(from, to, bytes),
            Happening::Dialled(from, to) => self.dialled(from, to),
            Happening::DialFailed(from, to) => {
                if self.net.dials.remove(&(from, to)) {
                    self.feed(from, Event::LinkFailed { host: to, reason: "no answer".to_owned() });
                }
            }
            Happening::Linked(host, other) => self.linked(host, other),
            Happening::Lost(host, other, link) => {
                self.unsteady.extend([(host, other), (other, host)]);
                self.lose(host, other, link, "it has been silent for too long", false);
            }
            Happening::Silent(host, other, link) => self.silent(host, other, link),
            Happening::Looked(host, other, link) => self.looked(host, other, link),
            Happening::Refused(host, other, link) => {
                self.lose(host, other, link, "its daemon has ended", true);
            }
            Happening::Heal(from, to, number) => self.heal(from, to, Some(number)),
            Happening::Started(by, event) => {
                *self.starting.entry(by).or_default() -= 1;
                self.feed(by, event);
            }
            Happening::Boot(host, master, name, capability) => self.boot(host, master, name, capability),
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

    /// Tells a daemon something.
    pub fn feed(&mut self, host: HostIndex, event: Event) {
        let Some(found) = self.hosts.get_mut(&host).filter(|host| !host.exiting) else { return };
        let actions = found.daemon.handle(event, self.now + found.ahead);
        self.carry_out(host, actions);
    }

    fn timer(&mut self, host: HostIndex, deadline: Duration) {
        let Some(found) = self.hosts.get_mut(&host).filter(|host| !host.exiting) else { return };
        let now = self.now + found.ahead;
        // An earlier time was set meanwhile, or a jump of the clock has made it due.
        if found.armed != Some(deadline) || now < deadline {
            return;
        }
        found.armed = None;
        let actions = found.daemon.handle_timeout(now);
        self.carry_out(host, actions);
    }

    /// Whether the clock of another host has jumped while this one was ending, so that its tasks may be taken to have ended.
    pub fn is_unwaited(&self, host: HostIndex) -> bool {
        self.unwaited.contains(&host)
    }

    /// A host's clock jumps, as after its computer has slept.
    pub fn jump(&mut self, host: HostIndex, time: Duration) {
        let Some(found) = self.hosts.get_mut(&host) else { return };
        found.ahead += time;
        // It has waited long enough, as it seems to it, for daemons that are ending, or that it has told to.
        let members = found.daemon.members();
        let is_ending = |index: &HostIndex, other: &Host| other.exiting || !members.contains(index);
        let ending = self.hosts.iter().filter(|(index, other)| is_ending(index, other));
        let ending: Vec<HostIndex> = ending.map(|(&other, _)| other).collect();
        self.unsteady.extend(ending.iter().map(|&other| (host, other)));
        self.unwaited.extend(ending);
        let Some(found) = self.hosts.get_mut(&host) else { return };
        if let Some(deadline) = found.armed {
            let when = self.now.max(deadline.saturating_sub(found.ahead));
            self.at(when, Happening::Timer(host, deadline));
        }
    }

    fn carry_out(&mut self, host: HostIndex, actions: Vec<Action>) {
        let mut readings = Vec::new();
        for action in actions {
            if self.setup.traced {
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
        if let Some(deadline) = found.daemon.deadline()
            && found.armed.is_none_or(|armed| deadline < armed)
        {
            found.armed = Some(deadline);
            let when = self.now.max(deadline.saturating_sub(found.ahead));
            self.at(when, Happening::Timer(host, deadline));
        }
    }

    /// No task here passes barriers by itself.
    fn close_ledger(&mut self, host: HostIndex, conn: ConnId, group: Key) {
        self.later(1..2, Happening::Event(host, Event::BarriersPassed { conn, group, passed: None }));
    }

    fn act(&mut self, host: HostIndex, action: Action) {
        match action {
            Action::Send { conn, header, data, .. } => self.write_to_task(host, conn, header, data),
            Action::PauseReading { conn } => self.pause(host, conn, true),
            Action::ResumeReading { conn } => self.pause(host, conn, false),
            Action::CloseTask { conn } => self.close_task(host, conn),
            Action::OpenAuth { conn, .. } => {
                let event = Event::AuthOpened { conn, result: Ok("/tmp/auth".to_owned()) };
                self.later(1..20, Happening::Event(host, event));
            }
            Action::CheckAuth { conn } => {
                self.later(1..20, Happening::Event(host, Event::AuthChecked { conn, proven: true }));
            }
            Action::Start { cookies, greetings, program } => {
                let succeeds = greetings.first().is_some_and(|greeting| is_of_successor(greeting));
                self.start(host, &cookies, &program, succeeds);
            }
            Action::Signal { pid, .. } => {
                if let Some((id, _)) = processes::by_pid(&mut self.processes, pid) {
                    self.later(1..100, Happening::Kill(id));
                }
            }
            Action::MeasureMemory { pids } => {
                // Some need much, some little.
                let mean = 1 << (20 + pids.iter().sum::<i32>() % 12);
                self.later(1..100, Happening::Event(host, Event::TaskMemory { mean }));
            }
            Action::Link { entry } => {
                self.net.dials.insert((host, entry.index));
                self.later(200..20_000, Happening::Dialled(host, entry.index));
            }
            Action::Watch { host: other, pace } => self.watch(host, other, pace),
            Action::Unlink { host: other } => self.unlink(host, other),
            Action::SendPeer { host: to, message } => self.send(host, to, Packet::Message(message)),
            Action::StartHost { index, spec, .. } => self.start_host(host, index, &spec),
            Action::StartDaemon { index, .. } => self.start_daemon(host, index),
            Action::Introduce { index, spec, .. } => self.boot_host(host, index, &spec),
            Action::Resolve { add, names } => {
                let results = names.iter().map(|name| Ok(address_of(name))).collect();
                self.later(1..1000, Happening::Event(host, Event::Resolved { add, results }));
            }
            Action::AbandonHost { index } => {
                self.abandoned.insert(index);
                self.later(1..100_000, Happening::Vanish(index));
            }
            Action::SaveJobs { serial, .. } => {
                let event = Event::JobsSaved { serial, failure: None };
                self.later(1..5000, Happening::Event(host, event));
            }
            Action::ReadSaved => {
                self.later(1..5000, Happening::Event(host, Event::SavedRead { saved: None }));
            }
            Action::ReadQueues { .. } => {
                let event = Event::QueuesRead { result: Ok(queues()) };
                self.later(1..5000, Happening::Event(host, event));
            }
            Action::Certify { host: asker, id, request } => {
                let certified = Certified { certificate: request.key, authority: b"authority".to_vec() };
                let event = Event::Certified { host: asker, id, result: Ok(certified) };
                self.later(1..1000, Happening::Event(host, event));
            }
            Action::Exit { .. } => self.exit(host),
            Action::CloseLedger { conn, group, .. } => self.close_ledger(host, conn, group),
            Action::Dispatch { pid, runs } => self.hold(pid, !runs),
            Action::HoldTasks { spared, .. } => self.yield_to_owner(host, Some(&spared)),
            Action::LetTasksGo => self.yield_to_owner(host, None),
            Action::ReadUsage { .. } | Action::Locate { .. } => {
                self.fault(format!("not to be asked for here: {action:?}"));
            }
            Action::PauseOutput { .. }
            | Action::EndFamily { .. }
            | Action::ReadTimes { .. }
            | Action::ShowTurn { .. }
            | Action::CountGroupChange
            | Action::ResumeOutput { .. }
            | Action::Enrolled { .. }
            | Action::LendTo { .. }
            | Action::StartedUp { .. }
            | Action::BecomeMaster { .. }
            | Action::DiscardLog
            | Action::LogOutput { .. } => {}
        }
    }
}
