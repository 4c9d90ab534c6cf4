//! The state of the machine that only the master decides about: which hosts are members, being added or leaving, the mailbox, and
//! the groups.
//!
//! It is changed by [`Command`]s and nothing else, and a command leaves effects behind: the same commands in the same order lead to
//! the same state and the same messages to hosts. So other hosts can hold it, too, and one of them can go on when the master is lost.

mod add;
mod command;
mod departures;
mod groups;
mod hoster;
mod jobs;
mod mailbox;
mod membership;
mod moves;
mod newcomer;
mod sessions;
mod settings;
mod starting;

use crate::addresses::{PeerTo, ReplyTo};
use crate::answers::start_up_results;
use crate::config::Config;
use crate::effect::{Effect, Effects};
use crate::hosts::Members;
use crate::places::Places;
use add::AddOperation;
pub(crate) use command::{Command, Moment};
use departures::Departures;
pub(crate) use departures::END;
use groups::Groups;
use jobs::Jobs;
pub(crate) use jobs::Urgency;
use mailbox::Mailbox;
use moves::Moves;
use pvm_wire::calls::CallError;
use pvm_wire::calls::hosts::{Additions, StartUp};
use pvm_wire::daemon::{
    AddResult, Blob, DaemonMsg, FromMaster, HostEntry, MasterReply, MasterRequest, Offer, ToMaster,
};
use pvm_wire::{HostIndex, PvmError, Tid};
use serde::{Deserialize, Serialize};
use sessions::Sessions;
pub(crate) use sessions::UNTOLD_MAX;
pub(crate) use settings::REFERENCE_SPEED;
use settings::Settings;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tracing::{info, warn};

/// The master's state.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Master {
    settings: Settings,
    /// The host that is the master.
    seat: HostIndex,
    /// Masters so far.
    reign: u64,
    /// The hosts that hold this state.
    deputies: Vec<HostIndex>,
    members: Members,
    sessions: Sessions,
    /// Hosts that are asked whether they are there, and why.
    questions: BTreeMap<u64, (HostIndex, Question)>,
    asked: u64,
    adding: Option<AddOperation>,
    /// Operations that have added hosts so far.
    adds: u64,
    next_host: u32,
    table_serial: u64,
    start_up: HostfileStart,
    departures: Departures,
    /// Hosts that can start the daemons of others: their own were started by ssh.
    starters: BTreeSet<HostIndex>,
    /// The task that starts daemons on other hosts.
    hoster: Option<Tid>,
    mailbox: Mailbox<PeerTo>,
    groups: Groups,
    jobs: Jobs,
    moves: Moves,
    is_ending: bool,
}

/// Why a host is asked whether it is there.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Question {
    /// This host has lost its link to it.
    LostLink(HostIndex),
    /// Its neighbour reports that it is silent.
    Silence,
    /// Answers about groups wait until it has heard of this change.
    GroupNotice(u64),
}

/// How the start of the hostfile's hosts went.
#[derive(Debug, Serialize, Deserialize)]
enum HostfileStart {
    /// It has not ended; these want to know how it went.
    Running(Vec<ReplyTo>),
    Over(Vec<AddResult>),
}

/// The sizes of the master's tables.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Whether hosts are being added, requests that wait for the hostfile's, and daemons that are ending.
    pub adding: usize,
    pub hosters: usize,
    /// Entries, and gets that wait for one.
    pub mailbox: (usize, usize),
    /// Groups, and answers about them that are held back.
    pub groups: (usize, usize),
    /// Hosts that are asked whether they are there.
    pub questions: usize,
    /// Jobs that have not ended.
    pub jobs: usize,
}

impl Master {
    /// The state at the machine's start.
    pub fn new(config: &Config, own: HostEntry) -> Self {
        let seat = own.index;
        let (mut members, mut sessions) = (Members::default(), Sessions::default());
        let settings = Settings::new(config);
        let mut jobs = Jobs::new(config, settings.lost_end);
        jobs.note_slots(seat, config.slots);
        jobs.host_joined(&own);
        members.insert(own);
        sessions.open(seat);
        Self {
            seat,
            reign: 1,
            deputies: vec![seat],
            members,
            sessions,
            questions: BTreeMap::new(),
            asked: 0,
            adding: None,
            adds: 0,
            next_host: 2,
            table_serial: 0,
            start_up: HostfileStart::Over(Vec::new()),
            departures: Departures::default(),
            starters: BTreeSet::new(),
            hoster: None,
            mailbox: Mailbox::with_keeper(settings.entries_max, settings.bytes_max),
            groups: Groups::new(),
            moves: Moves::default(),
            jobs,
            is_ending: false,
            settings,
        }
    }

    /// Changes the state, and gives what follows: messages to hosts, and what the master's daemon is to do.
    pub fn carry_out(&mut self, command: Command) -> Effects {
        let (mut decided, mut out) = (Effects::default(), Effects::default());
        let speaker = if let Command::Said { host, .. } = command { Some(host) } else { None };
        self.obey(command, &mut decided);
        for effect in decided {
            self.address(effect, &mut out);
        }
        if let Some(host) = speaker
            && let Some(message) = self.sessions.owed(host)
        {
            out.tell(host, message);
        }
        out
    }

    /// Numbers the messages to hosts.
    fn address(&mut self, effect: Effect, out: &mut Effects) {
        match effect {
            Effect::Order(host, what) => self.say(host, what, out),
            Effect::OrderAll(what) => {
                for host in self.sessions.hosts().collect::<Vec<_>>() {
                    self.say(host, what.clone(), out);
                }
            }
            Effect::OrderTasks { to, context, tag, body } => {
                let mut hosts: BTreeMap<HostIndex, Vec<Tid>> = BTreeMap::new();
                for tid in to {
                    if let Some(host) = self.moves.places().find(tid) {
                        hosts.entry(host).or_default().push(tid);
                    }
                }
                for (host, to) in hosts {
                    self.say(host, FromMaster::Keeper { to, context, tag, body: body.clone() }, out);
                }
            }
            Effect::CloseSession(host) => self.sessions.close(host),
            other => out.push(other),
        }
    }

    fn say(&mut self, host: HostIndex, what: FromMaster, out: &mut Effects) {
        if let Some(message) = self.sessions.say(host, what) {
            out.tell(host, message);
        }
    }

    fn obey(&mut self, command: Command, out: &mut Effects) {
        match command {
            Command::Said { host, number, heard, what } => {
                self.sessions.heard_by(host, heard);
                if self.sessions.hear(host, number) {
                    self.on_said(host, what, out);
                }
            }
            Command::Heard { host, number } => self.sessions.heard_by(host, number),
            Command::AddHostfileHosts => self.add_hostfile_hosts(out),
            Command::AwaitStartUp(to) => self.on_start_up(to, out),
            Command::Resolved { add, results } => self.on_resolved(add, results, out),
            Command::HostStarted { index, result } => self.on_host_started(index, result, out),
            Command::StartAgain(host) => self.on_start_again(host, out),
            Command::NewcomerLinked(host) => self.on_newcomer_linked(host, out),
            Command::HostLost { host, reason, has_ended } => self.on_host_lost(host, &reason, has_ended, out),
            Command::HostEnded(host) => self.on_host_ended(host, out),
            Command::Unanswered(host) => self.on_unanswered(host, out),
            Command::DepartureOverdue(host) => {
                if self.departures.end(host, out) {
                    self.resume_add(out);
                }
            }
            Command::Hoster { tid, register, to } => self.on_hoster(tid, register, to, out),
            Command::Hosted { host, line } => self.on_hosted(host, &line, out),
            Command::HosterUnreadable => self.on_hoster_unreadable(out),
            Command::HosterSilent(host) => self.on_hoster_silent(host, out),
            Command::HosterEnded(tid) => self.on_hoster_ended(tid, out),
            Command::TakeOver { by, address } => self.on_take_over(by, address, out),
            Command::Appoint { deputies } => {
                self.deputies.clone_from(&deputies);
                let names = self.deputies.iter().filter_map(|&host| self.members.get(host));
                self.jobs.note_deputies(names.map(|entry| entry.name.clone()).collect());
                out.push(Effect::OrderAll(FromMaster::Deputies { hosts: deputies }));
            }
            Command::AdvanceJobs(moment) => self.on_jobs_due(moment, out),
            Command::QueuesRead { result } => self.on_queues_read(result, out),
            Command::SaveJobs { now } => self.on_save_jobs(now, out),
            Command::JobsSaved { serial, failure } => self.on_jobs_saved(serial, failure.as_deref(), out),
            Command::Halt => self.halt(out),
        }
    }

    fn on_said(&mut self, host: HostIndex, what: ToMaster, out: &mut Effects) {
        match what {
            ToMaster::Request { id, what } => {
                let to = PeerTo { host, id };
                match what {
                    MasterRequest::AddHosts { hosts } => self.on_add_hosts(to, &hosts, out),
                    MasterRequest::DeleteHosts { names } => self.on_delete_hosts(to, &names, out),
                    MasterRequest::Mailbox { from, body } => self.on_mailbox(to, from, &body.0, out),
                    MasterRequest::Jobs(call) => self.on_job_call(to, call, out),
                }
            }
            ToMaster::Withdraw { id } => {
                let to = PeerTo { host, id };
                self.mailbox.forget_waiters(|waiter| *waiter == to);
                self.jobs.forget_waiter(to);
            }
            ToMaster::TableAck { serial, slots, saved } => {
                self.jobs.note_stamp(host, saved);
                self.jobs.note_slots(host, slots);
                self.on_table_ack(host, serial, out);
            }
            ToMaster::SavedJobs { stamp, jobs, more } => {
                if let Some(entry) = self.members.get(host) {
                    self.jobs.note_saved((host, &entry.name), stamp, jobs, more);
                }
            }
            // Tasks that end with the machine begin again with the next one.
            ToMaster::TaskReports { .. } if self.is_ending => {}
            ToMaster::TaskReports { reports } => self.jobs.note(host, reports),
            ToMaster::JobTraffic { sent } => self.jobs.note_sent(host, sent),
            ToMaster::Offer(offer) => self.on_offer(host, offer, out),
            ToMaster::LinkMeasured { to, bandwidth } => self.jobs.link_measured((host, to), bandwidth, out),
            ToMaster::HostSilent { host: other } => self.on_host_silent(host, other, out),
            ToMaster::LinkLost { host: other, has_ended, reason } => {
                self.on_link_lost(host, other, has_ended, &reason, out);
            }
            ToMaster::JoinGroup { tid, name, instance } if self.lives_on(tid, host) => {
                let change = self.groups.enter(tid, &name, instance, self.moves.places(), out);
                self.ask_of_change(change, out);
            }
            ToMaster::TaskGone { tid } if self.lives_on(tid, host) => self.on_task_gone(tid, out),
            ToMaster::Pong { id } => self.on_pong(host, id, out),
            ToMaster::Keeper { from, context, tag, body } if self.lives_on(from, host) => {
                let mark = (context, tag);
                let change = self.groups.on_message(from, mark, &body.0, self.moves.places(), out);
                self.ask_of_change(change, out);
            }
            ToMaster::DaemonStarted { host: index, answer } => {
                self.on_daemon_started(host, index, answer, out);
            }
            ToMaster::MoveBegins { attempt, to } => self.on_move_begins(host, attempt, to, out),
            ToMaster::MoveEnds(attempt) => self.on_move_ends(host, attempt, out),
            ToMaster::Arrived { attempt, hosts } => self.on_arrived(host, attempt, &hosts, out),
            ToMaster::MovedTaskGone { tid } => self.on_moved_task_gone(host, tid, out),
            ToMaster::Halt => self.halt(out),
            ToMaster::TaskGone { tid: foreign }
            | ToMaster::JoinGroup { tid: foreign, .. }
            | ToMaster::Keeper { from: foreign, .. } => {
                warn!(%host, task = %foreign, "word of a task of another host: ignored");
            }
        }
    }

    /// A task has ended: what it has put into the mailbox, and its place in groups, end with it.
    fn on_task_gone(&mut self, tid: Tid, out: &mut Effects) {
        self.mailbox.owner_gone(tid);
        self.groups.task_gone(tid, out);
    }

    /// Hosts are asked whether they have passed on what they were told about groups.
    fn ask_of_change(&mut self, change: Option<groups::Change>, out: &mut Effects) {
        let Some(groups::Change { number, hosts }) = change else { return };
        for host in hosts {
            self.ask(host, Question::GroupNotice(number), out);
        }
    }

    /// The machine ends.
    fn halt(&mut self, out: &mut Effects) {
        self.is_ending = true;
        self.jobs.close(out);
        out.push(Effect::EndMachine);
    }

    /// Another host is the master. What only the daemon of the old one could bring to an end has failed.
    fn on_take_over(&mut self, by: HostIndex, address: Option<IpAddr>, out: &mut Effects) {
        if !self.members.contains(by) {
            return;
        }
        info!(host = %by, reign = self.reign + 1, "is the master");
        self.seat = by;
        self.reign += 1;
        self.settings.address = address;
        self.hoster = None;
        if let HostfileStart::Running(_) = self.start_up {
            self.start_up = HostfileStart::Over(Vec::new());
        }
        self.abandon_add("the master was lost meanwhile", out);
        self.departures.take_over(out);
        self.jobs.take_over(self.reign, out);
        if self.is_ending {
            out.push(Effect::EndMachine);
        }
    }

    /// Which host is the master.
    pub fn seat(&self) -> HostIndex {
        self.seat
    }

    /// The number of its reign.
    pub fn reign(&self) -> u64 {
        self.reign
    }

    pub fn members(&self) -> &Members {
        &self.members
    }

    /// The hosts that hold this state.
    pub fn deputies(&self) -> &[HostIndex] {
        &self.deputies
    }

    /// Most hosts that are to hold this state.
    pub fn deputies_max(&self) -> usize {
        self.settings.deputies_max
    }

    /// The machine's certificate authority, with its key, and the machine's `PVM_VMID`.
    pub fn authority(&self) -> (Blob, Option<String>) {
        (self.settings.authority.clone(), self.settings.hosting.vmid.clone())
    }

    /// Whether this task starts daemons on other hosts.
    pub fn is_hoster(&self, tid: Tid) -> bool {
        self.hoster == Some(tid)
    }

    /// Hosts that the master talks to.
    pub fn audience(&self) -> Vec<HostIndex> {
        self.sessions.hosts().collect()
    }

    /// What a host may not have heard of what the master has said.
    pub fn unheard(&self, host: HostIndex) -> Vec<DaemonMsg> {
        self.sessions.unheard(host)
    }

    pub fn counts(&self) -> Counts {
        let waiting = if let HostfileStart::Running(waiters) = &self.start_up { waiters.len() } else { 0 };
        Counts {
            adding: usize::from(self.adding.is_some()) + waiting + self.departures.len(),
            hosters: usize::from(self.hoster.is_some()),
            mailbox: self.mailbox.counts(),
            groups: self.groups.counts(),
            questions: self.questions.len(),
            jobs: self.jobs.live(),
        }
    }

    /// How far the hosts are that are being added.
    pub fn additions(&self) -> Additions {
        self.adding.as_ref().map(AddOperation::progress).unwrap_or_default()
    }

    /// The addition of hosts that is under way, for people.
    pub fn adding(&self) -> Option<&impl std::fmt::Display> {
        self.adding.as_ref()
    }

    /// Whether hosts of the hostfile are being started.
    pub fn is_starting_up(&self) -> bool {
        matches!(self.start_up, HostfileStart::Running(_))
    }

    /// Answers when the hostfile's hosts are settled.
    fn on_start_up(&mut self, to: ReplyTo, out: &mut Effects) {
        match &mut self.start_up {
            HostfileStart::Running(waiters) => waiters.push(to),
            HostfileStart::Over(results) => out.reply::<StartUp>(to, &start_up_results(results)),
        }
    }

    /// A request for the mailbox.
    fn on_mailbox(&mut self, to: PeerTo, from: Tid, body: &[u8], out: &mut Effects) {
        match self.mailbox.handle(from, body, to) {
            Ok(outcome) => {
                if let Some(owner) = outcome.watch {
                    watch(owner, self.moves.places(), out);
                }
                answer_mailbox(outcome.answers, out);
            }
            Err(error) => {
                warn!(%from, %error, "malformed mailbox request");
                answer_mailbox(vec![(to, CallError::from(PvmError::BadParam).encode())], out);
            }
        }
    }

    /// A host says what a place there costs: every program can read it.
    fn on_offer(&mut self, host: HostIndex, offer: Offer, out: &mut Effects) {
        let Some(entry) = self.members.get(host) else { return };
        answer_mailbox(self.mailbox.post(host, &entry.name, offer), out);
    }
}

/// Answers requests about the mailbox.
fn answer_mailbox(answers: Vec<(PeerTo, Vec<u8>)>, out: &mut Effects) {
    for (to, body) in answers {
        answer(to, MasterReply::Mailbox { body: Blob(body.into()) }, out);
    }
}

/// Answers a request of a host.
fn answer(to: PeerTo, what: MasterReply, out: &mut Effects) {
    out.push(Effect::Order(to.host, FromMaster::Reply { id: to.id, what }));
}

/// Has the end of a task reported, which owns an entry or is in a group.
fn watch(owner: Tid, places: &Places, out: &mut Effects) {
    if let Some(host) = places.find(owner) {
        out.push(Effect::Order(host, FromMaster::WatchTask { tid: owner }));
    }
}
