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
mod agreement;
mod answers;
mod census;
mod config;
mod contexts;
mod decision;
mod deputy;
mod dispatch;
mod effect;
pub mod event;
mod exchange;
mod flow;
mod holding;
pub mod hostfile;
mod hosts;
mod jobs;
mod links;
mod load;
mod loads;
mod master;
mod memory;
mod moves;
mod notify;
mod observers;
mod outbox;
mod output;
mod owners;
mod pending;
mod places;
mod probing;
mod rows;
mod services;
mod spans;
mod spawn;
mod tasks;
mod teams;
mod text;
mod timers;
mod tracer;
mod watching;

pub use census::Census;
pub use config::{Config, Hosting, Limits, Saved, SavedJob, SavedState, Succession};
pub use pvm_sched::policy::Policy;

use addresses::PeerTo;
use event::{Action, Event, Now};
use master::Command;
use pvm_sched::coscheduling::Reading;
use pvm_sched::room::Room;
use pvm_wire::daemon::{DaemonMsg, ToMaster};
use pvm_wire::{HostIndex, Tid};
use spawn::{AgentEvent, Fate, TrafficReport};
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
    agents: spawn::Agents,
    services: services::Services,
    tracers: tracer::Tracers,
    observers: observers::Observers,
    teams: Box<teams::Teams>,
    rows: rows::MasterRows,
    exchange: exchange::Exchange,
    jobs: jobs::JobTasks,
    tending: dispatch::Tending,
    loads: loads::Loads,
    /// As the master: the hosts for tasks that leave others.
    room: Room<HostIndex>,
    owners: owners::Owners,
    probing: probing::Probing,
    moves: moves::Moves,
    holding: holding::Holding,
    watching: watching::Watching,
    /// On hosts that hold the master's state.
    deputy: Option<deputy::Deputy>,
    incoming: deputy::Incoming,
}

impl Core {
    /// A daemon at the beginning of its life.
    pub fn new(config: Config, now: Now) -> Self {
        let mut hosts = hosts::Hosts::new(config.index, config.master);
        let deputy = hosts.is_master().then(|| {
            let own = config.entry();
            hosts.insert(own.clone());
            deputy::Deputy::first(master::Master::new(&config, own))
        });
        Self {
            now,
            life: Life::Running,
            out: outbox::Outbox::default(),
            tasks: tasks::Tasks::new(config.index),
            notifies: notify::Notifies::new(config.index),
            hosts,
            pending: pending::Pending::default(),
            home: spawn::Home::new(config.index),
            node: spawn::Node::new(config.seed, config.task_memory),
            agents: spawn::Agents::new(config.seed),
            services: services::Services::default(),
            tracers: tracer::Tracers::default(),
            observers: observers::Observers::default(),
            teams: Box::new(teams::Teams::new(config.slice, config.cores, config.index)),
            rows: rows::MasterRows::default(),
            exchange: exchange::Exchange::new(),
            jobs: jobs::JobTasks::default(),
            tending: dispatch::Tending::default(),
            loads: loads::Loads::new(config.index),
            room: Room::default(),
            owners: owners::Owners::new(config.index, config.owner.clone()),
            probing: probing::Probing::default(),
            moves: moves::Moves::default(),
            holding: holding::Holding::default(),
            watching: watching::Watching::new(config.watched_max, config.host_timeout),
            deputy,
            incoming: deputy::Incoming::default(),
            config,
        }
    }

    /// What follows from the start itself: the master adds the hostfile's hosts.
    pub fn start(&mut self, now: Now) -> Vec<Action> {
        self.now = now;
        self.command(Command::AddHostfileHosts);
        self.tend_jobs();
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
        self.master_state().is_some_and(master::Master::is_starting_up)
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
                Timer::Offer => self.tell_offer(),
                Timer::Agent(policy) => self.agents.tell(policy, AgentEvent::Woken, None),
                Timer::Patience(id) => self.home(|home, at| home.on_impatient(id, at)),
                Timer::Refused(id) => self.home(|home, at| home.hand_out_refused(id, at)),
                Timer::Hoster(host) => self.command(Command::HosterSilent(host)),
                Timer::StartAgain(host) => self.command(Command::StartAgain(host)),
                Timer::Departure(host) => self.on_departure_overdue(host),
                Timer::Log => self.on_log_tick(),
                Timer::Appoint => self.appoint(),
                Timer::Candidate => self.stand(),
                Timer::Orphan => self.on_orphaned(),
                Timer::Alarm => self.watching.end_alarm(),
                Timer::Unanswered(host) => self.command(Command::Unanswered(host)),
                Timer::ExitGrace(tid) => self.on_grace_over(tid),
                Timer::AdvanceJobs => self.advance_jobs(),
                Timer::SaveJobs => self.save_jobs(),
                Timer::Loads => self.pass_loads_on(),
                Timer::Owner => self.decide_owner(),
                // Those that have come meanwhile are told now.
                Timer::JobReports | Timer::JobTraffic | Timer::Column | Timer::Rows => {}
                Timer::Sweep => self.on_sweep(),
                Timer::RowClock => self.ask_row_clock(),
                Timer::JobTime(tid) => self.on_job_time(tid),
                Timer::EndGrace(tid) => self.on_end_grace(tid),
                Timer::Vacate => self.hold_tasks(),
                Timer::Move(tid) => self.on_move_overdue(tid),
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
            Event::BarriersPassed { conn, group, passed } => self.on_barriers_passed(conn, group, passed),
            Event::AuthOpened { conn, result } => self.on_auth_opened(conn, result),
            Event::AuthChecked { conn, proven } => self.on_auth_checked(conn, proven),
            Event::TaskDrained { conn, bytes } => self.on_task_drained(conn, bytes),
            Event::ProcessStarted { cookie, result } => self.on_process_started(cookie, result),
            Event::ProcessOutput { cookie, data } => self.on_output(cookie, &data),
            Event::ProcessOutputEnd { cookie } => self.on_output_end(cookie),
            Event::ProcessExited { cookie, status, used } => self.on_process_exited(cookie, status, used),
            Event::Located { cookies, result } => self.on_located(cookies, result),
            Event::PeerLinked { host } => self.on_peer_linked(host),
            Event::LinkFailed { host, reason } => self.on_link_failed(host, &reason),
            Event::PeerMessage { host, message } => self.on_peer_message(host, message),
            Event::PeerLost { host, reason, has_ended } => self.on_peer_lost(host, &reason, has_ended),
            Event::PeerSilent { host } => self.on_peer_silent(host),
            Event::PeerDrained { host, bytes } => self.on_peer_drained(host, bytes),
            Event::Resolved { add, results } => self.command(Command::Resolved { add, results }),
            Event::HostStarted { index, result } => self.command(Command::HostStarted { index, result }),
            Event::DaemonStarted { index, answer } => {
                self.tell_master(ToMaster::DaemonStarted { host: index, answer });
            }
            Event::Load { busy_cores } => {
                self.node(|node, tasks, at| node.on_load(busy_cores, tasks, at));
                self.tell_count();
                self.agents.tell_all(|_| AgentEvent::Load);
            }
            Event::Times { host, id, means, spin, times } => {
                self.on_times(PeerTo { host, id }, means, spin, &times);
            }
            Event::Certified { host, id, result } => self.on_certified(PeerTo { host, id }, result),
            Event::Usage { work, own, leaves_rest } => {
                let reading = Reading { work, own, leaves_rest };
                self.teams(|teams, tasks, at| teams.on_usage(reading, tasks, at));
            }
            Event::OverMemory { cookie, limit } => self.on_over_memory(cookie, limit),
            Event::Owner(sign) => self.on_owner_sign(sign),
            Event::Sampled(sample) => self.on_sampled(&sample),
            Event::TaskMemory { mean } => self.node.memory.measured(mean),
            Event::QueuesRead { result } => self.command(Command::QueuesRead { result }),
            Event::SavedRead { saved } => self.on_saved_read(saved),
            Event::JobsSaved { serial, failure } => self.on_jobs_saved(serial, failure),
            Event::Terminate { reason } => self.on_terminate(&reason),
        }
    }

    /// A daemon (or this one) has said something.
    fn on_peer_message(&mut self, host: HostIndex, message: DaemonMsg) {
        let own = host == self.config.index;
        let from_master = self.hosts.master() == Some(host);
        if !own && !self.hosts.hears(host, self.now) {
            return;
        }
        match message {
            DaemonMsg::Data { src, dsts, flags, data } => self.on_peer_data(host, src, &dsts, flags, &data),
            DaemonMsg::Congestion { tid, full } => self.on_congestion(host, tid, full),
            DaemonMsg::Request { id, what } => self.on_peer_request(PeerTo { host, id }, what),
            DaemonMsg::Reply { id, what } => self.on_peer_reply(host, id, what),
            DaemonMsg::Leave if !own => self.on_leave(host),
            DaemonMsg::LeaveAnswer { agreed } if !own => self.on_leave_answer(host, agreed),
            DaemonMsg::Bye => self.on_bye(host),
            DaemonMsg::Halt => self.on_halt(host),
            DaemonMsg::Signal { tid, signal } => self.signal(tid, signal),
            DaemonMsg::Scheduler { tid } if from_master => self.services.scheduler = Some(tid),
            DaemonMsg::Tracer { tracer } => self.tracers.set(tracer),
            DaemonMsg::WatchTask { tid } => self.on_watch_task(host, tid),
            DaemonMsg::TaskGone { tid } => self.task_gone(tid),
            DaemonMsg::BatchTaskEnded { batch, number, tid, status, leaves } => {
                self.on_batch_task_ended(batch, (number, tid), Fate::of(status, leaves));
            }
            DaemonMsg::Traffic { tid, receivers, is_last } => {
                self.home.on_traffic(TrafficReport { tid, receivers, is_last });
            }
            DaemonMsg::Agent { policy, message, cause } if !own => {
                self.on_agent_message(host, &policy, &message, cause);
            }
            DaemonMsg::Epoch { epoch } if !own => self.teams.on_epoch(host, epoch),
            DaemonMsg::Turns { taken } if !own => {
                self.teams(|teams, tasks, at| teams.on_turns(host, taken, tasks, at));
            }
            DaemonMsg::Waited { tids } if !own => {
                self.teams(|teams, tasks, at| teams.on_hints(host, &tids, tasks, at));
            }
            DaemonMsg::Observe { on } if !own => self.on_observe(host, on),
            // A deputy that was deleted keeps its link for a while, and is no member.
            DaemonMsg::TasksRunning { .. } | DaemonMsg::TaskBegun { .. } if !self.hosts.contains(host) => {}
            DaemonMsg::TasksRunning { tasks } if !own => {
                self.observers.on_tasks_running(host, tasks, &self.hosts.places);
            }
            DaemonMsg::TaskBegun { tid, name } if !own => self.observers.on_task_begun(tid, name),
            DaemonMsg::TaskOver { tid, status, intended } if !own => {
                self.on_task_over(tid, status, intended);
            }
            DaemonMsg::Load(vector) => self.on_load_told(host, vector),
            DaemonMsg::Loads(vectors) if from_master => self.loads.sent(vectors),
            DaemonMsg::Owner { is_here } => self.on_owner_told(host, is_here),
            DaemonMsg::Owners(hosts) if from_master => self.owners.sent(hosts),
            DaemonMsg::Probe { last, .. } if !own => self.on_probe(host, last),
            DaemonMsg::ProbeHeard if !own => self.on_probe_heard(host),
            DaemonMsg::Column(column) => self.on_column(host, column),
            DaemonMsg::Gather { team, to, count } if from_master => self.on_gather(&team, to, count),
            DaemonMsg::Rows(rows) if from_master => self.on_rows(&rows),
            DaemonMsg::RowClock { asked } if !own => self.on_row_clock(host, asked),
            DaemonMsg::RowTime { asked, time } if from_master => {
                self.teams.on_row_time(asked, time, self.now);
            }
            DaemonMsg::Move(attempt, what) => self.on_move_message(host, attempt, what),
            DaemonMsg::DiscardLogs => self.out.act(Action::DiscardLog),
            DaemonMsg::LogOutput { tid, text } => self.on_log_output(tid, &text.0),
            DaemonMsg::ToMaster { number, heard, what } => {
                self.command(Command::Said { host, number, heard, what });
            }
            DaemonMsg::FromMaster { number, heard, what } => {
                self.on_from_master(host, number, heard, what);
            }
            DaemonMsg::HostHeard { number } => self.command(Command::Heard { host, number }),
            DaemonMsg::MasterHeard { number } if from_master => self.on_heard_by_master(number),
            DaemonMsg::NewMaster { reign } => self.on_new_master(host, reign),
            DaemonMsg::Log { configuration, message } if !own => self.on_log(host, configuration, &message),
            DaemonMsg::State { configuration, applied, more, bytes } if from_master && !own => {
                self.on_state(configuration, applied, more, &bytes);
            }
            DaemonMsg::MasterLost { master, configuration } if !own => {
                self.on_witness(host, master, configuration);
            }
            DaemonMsg::MasterLives if !own => self.on_left_out("the master lives, and has lost this host"),
            DaemonMsg::NoMember if !own => self.on_left_out("it is no member any more"),
            other => warn!(%host, ?other, "message out of place: ignored"),
        }
    }

    /// Hears what this daemon has said to itself, and hands out the actions.
    fn finish(&mut self) -> Vec<Action> {
        loop {
            if let Some(message) = self.out.loopback.pop_front() {
                self.on_peer_message(self.config.index, message);
            } else if !self.next_agent_event()
                && !self.next_command()
                && !self.settle_watching()
                && !self.settle_jobs()
                && !self.settle_rows()
            {
                break;
            }
        }
        self.flush_log();
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
