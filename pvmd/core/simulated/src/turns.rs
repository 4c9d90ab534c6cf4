//! A host on which teams take turns, as its core sees it.
use crate::daemon::config;
use crate::process::introduction;
use crate::recorder::{Recorder, here, host};
use pvm_wire::body::BodyReader;
use pvm_wire::calls::enrolment::Enrol;
use pvm_wire::codes::{CONTEXT_TC, Tcx, Tm};
use pvm_wire::coscheduling::Turn;
use pvm_wire::daemon::DaemonMsg;
use pvm_wire::spawn::SpawnRequest;
use pvm_wire::{HostIndex, Tid};
use pvmd_core::Config;
use pvmd_core::event::{Action, Attachment, ConnId, Cookie, Event, Work};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a team has the processor.
pub const SLICE: Duration = Duration::from_millis(50);

/// A daemon, and who runs there as far as it has said.
pub struct Host {
    /// The daemon.
    pub r: Recorder,
    /// The connection of a task that nobody has spawned.
    pub conn: ConnId,
    /// Whether each process may run, by its id.
    pub runs: BTreeMap<i32, bool>,
    /// What other daemons were told, turns apart.
    pub told: Vec<DaemonMsg>,
    /// What tasks were told about turns.
    pub turns: Vec<i32>,
    /// What the page has said.
    pub shown: Vec<Turn>,
    /// CPU time of each process; without it, all that there is, and turns cost their time.
    pub used: Option<BTreeMap<i32, Duration>>,
    /// How often each process has gone to sleep; without it, never.
    pub sleeps: BTreeMap<i32, u64>,
    /// For how long each process has waited for a processor; without it, never.
    pub waits: BTreeMap<i32, Duration>,
    /// What the daemon itself has used of the processor since it was last asked.
    pub own: Duration,
    /// Whether those who are held use what the others leave.
    pub leaves_rest: bool,
}

impl Host {
    /// With one other host.
    pub fn new(cores: u32) -> Self {
        Self::among(2, cores)
    }

    /// In a machine of `hosts` hosts.
    pub fn among(hosts: u32, cores: u32) -> Self {
        let mut r = Recorder::with(Config { slice: Some(SLICE), cores, ..config(HostIndex::MASTER) });
        let (conn, _) = r.enrol(100, 0);
        (2..=hosts).for_each(|index| r.add_host(conn, index));
        Self {
            r,
            conn,
            runs: BTreeMap::new(),
            told: Vec::new(),
            turns: Vec::new(),
            shown: Vec::new(),
            used: None,
            sleeps: BTreeMap::new(),
            waits: BTreeMap::new(),
            own: Duration::ZERO,
            leaves_rest: false,
        }
    }

    /// Starts one task of a team.
    pub fn start(&mut self, team: &str, pid: i32) -> (Tid, Cookie) {
        let request = SpawnRequest { env: vec![format!("PVM_TEAM={team}").into()], ..here(1) };
        self.r.ask(self.conn, &request);
        let Action::Start { cookies, program, .. } = self.r.action() else { panic!("not a start") };
        assert!(program.env.contains(&format!("PVM_TEAM={team}").into()));
        self.runs.insert(pid, true);
        self.r.started(cookies[0], pid);
        let tid = self.look().expect("an answer to the spawn");
        (tid, cookies[0])
    }

    /// Does what the core wants done; the task that was spawned, if one was.
    pub fn look(&mut self) -> Option<Tid> {
        let mut spawned = None;
        while self.r.pending() {
            match self.r.action() {
                Action::Dispatch { pid, runs } => {
                    assert_ne!(self.runs.insert(pid, runs), Some(runs), "said twice of {pid}");
                }
                Action::ReadUsage { pids } => {
                    let of = |pid| match &self.used {
                        None => self.r.now,
                        Some(used) => used.get(pid).copied().unwrap_or_default(),
                    };
                    let sleeps = |pid| self.sleeps.get(pid).copied().unwrap_or_default();
                    let waits = |pid| self.waits.get(pid).copied().unwrap_or_default();
                    let done = |pid| Work { time: of(pid), sleeps: sleeps(pid), waits: waits(pid) };
                    let work = pids.iter().map(done).collect();
                    let own = std::mem::take(&mut self.own);
                    self.r.feed(Event::Usage { work, own, leaves_rest: self.leaves_rest });
                }
                Action::SendPeer { message, .. } if !matches!(message, DaemonMsg::Turns { .. }) => {
                    self.told.push(message);
                }
                Action::ShowTurn { turn } => {
                    assert_ne!(self.shown.last(), Some(&turn), "said twice");
                    self.shown.push(turn);
                }
                Action::Send { data, with: Attachment::Nothing, .. } => {
                    let (head, body) = data.split_first_chunk().unwrap();
                    let head = pvm_wire::MessageHeader::decode(head);
                    let mut body = BodyReader::new(body);
                    if (head.tag, head.context) == (Tcx::Turns.tag(), CONTEXT_TC) {
                        self.turns.push(body.int().unwrap());
                    } else if head.tag == Tm::Spawn.tag() {
                        spawned = Some(Tid::from_raw(body.ints(2).unwrap()[1]));
                    }
                }
                Action::CloseTask { .. }
                | Action::Signal { .. }
                | Action::EndFamily { .. }
                | Action::SendPeer { .. }
                | Action::Enrolled { .. }
                | Action::Send { .. }
                | Action::StartedUp { .. }
                | Action::CheckAuth { .. } => {}
                other => panic!("unexpected: {other:?}"),
            }
        }
        spawned
    }

    /// Time goes by.
    pub fn pass(&mut self, time: Duration) {
        self.r.pass(time);
        self.look();
    }

    /// A slice in which processes use so much.
    pub fn spend<const N: usize>(&mut self, used: [(i32, Duration); N]) {
        let times = self.used.get_or_insert_default();
        for (pid, time) in used {
            *times.entry(pid).or_default() += time;
        }
        self.pass(SLICE);
    }

    /// The processes that may run.
    pub fn running(&self) -> Vec<i32> {
        self.runs.iter().filter(|(_, runs)| **runs).map(|(&pid, _)| pid).collect()
    }

    /// The other daemon says something.
    pub fn hear(&mut self, message: DaemonMsg) {
        self.r.hear(host(2), message);
        self.look();
    }

    /// A message for a task comes from the other host, and its epoch.
    pub fn message(&mut self, dst: Tid, epoch: u64) {
        self.hear(DaemonMsg::Epoch { epoch: Some((epoch, 2)) });
        self.message_from(2, dst);
    }

    /// A message for a task comes from that host.
    pub fn message_from(&mut self, from: u32, dst: Tid) {
        self.r.hear_message(host(from).task(1), dst, 0, &[]);
        self.look();
    }

    /// The process of a task ends.
    pub fn end(&mut self, cookie: Cookie, pid: i32) {
        self.runs.remove(&pid);
        self.r.ended(cookie, 0);
        self.look();
    }

    /// The process of a task that was started enrols.
    pub fn enrol(&mut self, pid: i32, cookie: Cookie) -> ConnId {
        let conn = self.r.connect();
        self.r.ask(conn, &Enrol { process: introduction(pid, cookie.0) });
        self.look();
        conn
    }
}
