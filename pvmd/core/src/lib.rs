//! The daemon's state machine.
//!
//! [`Core`] decides everything a daemon does and does nothing itself. A driver calls it like this:
//!
//! 1. [`Core::new`] with the constants of the daemon's life, then [`Core::start`] once;
//! 2. [`Core::handle`] for everything that happens ([`event::Event`]);
//! 3. [`Core::handle_timeout`] when the time of [`Core::deadline`] has come (asked again after every call).
//!
//! Each call returns the actions that follow from it, to be carried out in order before the next call. Time is an
//! argument and never goes back; randomness comes from a seed; everything iterates in a fixed order: the same calls
//! give the same actions.
#![forbid(unsafe_code)]

mod addresses;
mod answers;
mod census;
mod config;
mod contexts;
mod decision;
mod dispatch;
mod effect;
pub mod event;
mod flow;
pub mod hostfile;
mod hosts;
mod links;
mod load;
mod master;
mod notify;
mod observers;
mod outbox;
mod output;
mod pending;
mod services;
mod spans;
mod spawn;
mod tasks;
mod teams;
mod text;
mod timers;
mod tracer;

pub use census::Census;
pub use config::{Config, Hosting, Limits};
pub use pvm_sched::policy::Policy;

use addresses::PeerTo;
use event::{Action, Event, Now};
use pvm_sched::coscheduling::Reading;
use pvm_wire::daemon::{DaemonMsg, HostEntry};
use pvm_wire::encoding::DataSignature;
use pvm_wire::{HostIndex, Tid};
use std::time::Duration;
use timers::Timer;
use tracing::warn;

/// How far a daemon is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Running,
    /// This local task has asked for the end, and may go on after it.
    Halting {
        by: Tid,
    },
    Ending,
}

/// One daemon.
#[derive(Debug)]
pub struct Core {
    config: Config,
    now: Now,
    life: Life,
    out: outbox::Outbox,
    tasks: tasks::Tasks,
    notifies: notify::Notifies,
    hosts: hosts::Hosts,
    pending: pending::Pending,
    home: spawn::Home,
    node: spawn::Node,
    services: services::Services,
    tracers: tracer::Tracers,
    observers: observers::Observers,
    teams: teams::Teams,
    /// On the master.
    master: Option<master::Master>,
}

impl Core {
    /// A daemon at the beginning of its life.
    pub fn new(config: Config, now: Now) -> Self {
        let mut hosts = hosts::Hosts::new(config.index);
        if config.index == HostIndex::MASTER {
            hosts.insert(HostEntry {
                index: config.index,
                name: config.name.clone(),
                arch: config.arch.clone(),
                speed: config.own_speed().cast_signed(),
                capability: config.own_speed().into(),
                task_limit: config.task_limit,
                signature: DataSignature::NATIVE.0,
                address: None,
            });
        }
        Self {
            now,
            life: Life::Running,
            out: outbox::Outbox::default(),
            tasks: tasks::Tasks::new(config.index),
            notifies: notify::Notifies::new(config.index),
            hosts,
            pending: pending::Pending::default(),
            home: spawn::Home::new(config.index),
            node: spawn::Node::new(config.seed),
            services: services::Services::default(),
            tracers: tracer::Tracers::default(),
            observers: observers::Observers::default(),
            teams: teams::Teams::new(config.slice, config.cores, config.index),
            master: (config.index == HostIndex::MASTER).then(|| master::Master::new(&config)),
            config,
        }
    }

    /// What follows from the start itself: the master adds the hostfile's hosts.
    pub fn start(&mut self, now: Now) -> Vec<Action> {
        self.now = now;
        self.master(master::Master::add_hostfile_hosts);
        self.finish()
    }

    /// Something has happened.
    pub fn handle(&mut self, event: Event, now: Now) -> Vec<Action> {
        self.now = now;
        let _on_account_of = self.span_of(&event).entered();
        if self.life != Life::Ending {
            self.dispatch(event);
        }
        self.finish()
    }

    /// Whether hosts of the hostfile are being started; [`Action::StartedUp`] follows.
    pub fn is_starting_up(&self) -> bool {
        self.master.as_ref().is_some_and(master::Master::is_starting_up)
    }

    /// When [`Core::handle_timeout`] wants to be called; `None` if not at all.
    pub fn deadline(&self) -> Option<Now> {
        self.out.timers.deadline()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Now) -> Vec<Action> {
        self.now = now;
        while let Some(timer) = self.out.timers.take_due(now) {
            match timer {
                Timer::Retry(batch, ticket) => {
                    self.node(|node, tasks, at| node.on_retry(batch, ticket, tasks, at));
                }
                Timer::Hoster(host) => {
                    self.master(|master, at| master.on_hoster_silent(host, at));
                }
                Timer::Departure(host) => self.on_departure_overdue(host),
                Timer::ExitGrace(tid) => self.on_grace_over(tid),
                Timer::IdleLink(host) => self.on_idle_link(host),
                Timer::Coscheduling(timer) => {
                    self.teams(|teams, tasks, at| teams.on_timer(timer, tasks, at));
                }
            }
        }
        self.finish()
    }

    fn dispatch(&mut self, event: Event) {
        match event {
            Event::TaskConnected { conn } => self.on_task_connected(conn),
            Event::ChannelOpen { conn, cookie } => self.on_channel_open(conn, cookie),
            Event::Fragment { conn, header, data } => self.on_fragment(conn, header, data),
            Event::TaskClosed { conn, reason } => self.on_task_closed(conn, reason),
            Event::AuthOpened { conn, result } => self.on_auth_opened(conn, result),
            Event::AuthChecked { conn, proven } => self.on_auth_checked(conn, proven),
            Event::TaskDrained { conn, bytes } => self.on_task_drained(conn, bytes),
            Event::ProcessStarted { cookie, result } => self.on_process_started(cookie, result),
            Event::ProcessOutput { cookie, data } => self.on_output(cookie, &data),
            Event::ProcessOutputEnd { cookie } => self.on_output_end(cookie),
            Event::ProcessExited { cookie, status } => self.on_process_exited(cookie, status),
            Event::Located { cookies, result } => self.on_located(cookies, result),
            Event::PeerLinked { host } => self.on_peer_linked(host),
            Event::LinkFailed { host, reason } => self.on_link_failed(host, &reason),
            Event::PeerMessage { host, message } => self.on_peer_message(host, message),
            Event::PeerLost { host, reason } => self.on_peer_lost(host, &reason),
            Event::PeerDrained { host, bytes } => self.on_peer_drained(host, bytes),
            Event::Resolved { add, results } => {
                self.master(|master, at| master.on_resolved(add, results, at));
            }
            Event::HostStarted { index, result } => {
                self.master(|master, at| master.on_host_started(index, result, at));
            }
            Event::Load { busy_cores } => self.node(|node, tasks, at| node.on_load(busy_cores, tasks, at)),
            Event::Times { host, id, means, spin, times } => {
                self.on_times(PeerTo { host, id }, means, spin, &times);
            }
            Event::Usage { work, own, leaves_rest } => {
                let reading = Reading { work, own, leaves_rest };
                self.teams(|teams, tasks, at| teams.on_usage(reading, tasks, at));
            }
            Event::Terminate { reason } => self.on_terminate(&reason),
        }
    }

    /// A daemon (or this one) has said something.
    fn on_peer_message(&mut self, host: HostIndex, message: DaemonMsg) {
        let own = host == self.config.index;
        let from_master = host == HostIndex::MASTER;
        if !own && !self.hosts.hears(host, self.now) {
            return;
        }
        match message {
            DaemonMsg::Data { src, dsts, flags, data } => self.on_peer_data(host, src, &dsts, flags, &data),
            DaemonMsg::Congestion { tid, full } => self.on_congestion(host, tid, full),
            DaemonMsg::Request { id, what } => self.on_peer_request(PeerTo { host, id }, what),
            DaemonMsg::Reply { id, what } => self.on_peer_reply(host, id, what),
            DaemonMsg::Withdraw { id } => self.master(|master, _| master.withdraw(PeerTo { host, id })),
            DaemonMsg::TableUpdate { serial, hosts } if from_master => {
                self.effects(|core, out| core.hosts.prepare(serial, hosts, out));
            }
            DaemonMsg::TableAck { serial } => {
                self.master(|master, at| master.on_table_ack(host, serial, at));
            }
            DaemonMsg::TableCommit { serial, added } if from_master => self.on_table_commit(serial, &added),
            DaemonMsg::HostGone { host, reason } if from_master => self.host_gone(host, &reason),
            DaemonMsg::LinkLost { host: other, reason } => self.on_link_lost(host, other, &reason),
            DaemonMsg::Leave if !own => self.on_leave(host),
            DaemonMsg::LeaveAnswer { agreed } if !own => self.on_leave_answer(host, agreed),
            DaemonMsg::Bye => self.on_bye(host),
            DaemonMsg::Halt => self.on_halt(host),
            DaemonMsg::Signal { tid, signal } if tid.host() == Some(self.config.index) => {
                self.signal(tid, signal);
            }
            DaemonMsg::Scheduler { tid } if from_master => self.services.scheduler = Some(tid),
            DaemonMsg::Tracer { tracer } => self.tracers.set(tracer),
            DaemonMsg::WatchTask { tid } => self.on_watch_task(host, tid),
            DaemonMsg::TaskGone { tid } if tid.host() == Some(host) => self.task_gone(tid),
            DaemonMsg::BatchTaskEnded { batch, number, tid, status } => {
                self.home(|home, at| home.on_task_ended(host, batch, number, tid, status, at));
            }
            DaemonMsg::Epoch { epoch } if !own => self.teams.on_epoch(host, epoch),
            DaemonMsg::Turns { taken } if !own => {
                self.teams(|teams, tasks, at| teams.on_turns(host, taken, tasks, at));
            }
            DaemonMsg::Waited { tids } if !own => self.teams(|teams, tasks, at| {
                for tid in tids {
                    teams.on_hint(host, tid, tasks, at);
                }
            }),
            DaemonMsg::Observe { on } if !own => self.on_observe(host, on),
            DaemonMsg::TasksRunning { tasks } if !own => self.observers.on_tasks_running(host, tasks),
            DaemonMsg::TaskBegun { tid, name } if tid.host() == Some(host) && !own => {
                self.observers.on_task_begun(tid, name);
            }
            DaemonMsg::TaskOver { tid, status, intended } if tid.host() == Some(host) && !own => {
                self.on_task_over(tid, status, intended);
            }
            DaemonMsg::DiscardLogs => self.out.act(Action::DiscardLog),
            DaemonMsg::LogOutput { tid, text } => self.on_log_output(tid, &text.0),
            other => warn!(%host, ?other, "message out of place: ignored"),
        }
    }

    /// Hears what this daemon has said to itself, and hands out the actions.
    fn finish(&mut self) -> Vec<Action> {
        while let Some(message) = self.out.loopback.pop_front() {
            self.on_peer_message(self.config.index, message);
        }
        if let Some(turn) = self.teams.turn_to_show() {
            self.out.act(Action::ShowTurn { turn });
        }
        self.teams.note_turn(self.time_of_day());
        std::mem::take(&mut self.out.actions)
    }

    /// Since 1970.
    fn time_of_day(&self) -> Duration {
        self.config.epoch + self.now
    }

    fn set_timer(&mut self, after: Duration, timer: Timer) {
        self.out.timers.set(self.now + after, timer);
    }
}
