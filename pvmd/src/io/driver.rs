//! The loop around the core: whatever happens goes in as an event, what comes out is done.

use crate::io::address_file::AddressFile;
use crate::io::auth::AuthFiles;
use crate::io::calling::NewLink;
use crate::io::clock::Clock;
use crate::io::dispatcher::Turns;
use crate::io::job_store::JobStore;
use crate::io::link::{LinkEnd, Links};
use crate::io::loan_pool::LoanPool;
use crate::io::log::{Log, STATE};
use crate::io::own_host;
use crate::io::owner_hold::Holder;
use crate::io::page::TurnPage;
use crate::io::polling::{Polling, yield_once};
use crate::io::process::{self, Processes, Started};
use crate::io::queues_file;
use crate::io::starter::{Starter, Tools, start_for_master};
use crate::io::task_socket::{self, Numbers, TaskHandle};
use crate::io::tls::Authority;
use bytes::Bytes;
use pvm_wire::certificate::CertificateRequest;
use pvm_wire::daemon::RequestId;
use pvm_wire::group::Key;
use pvm_wire::{FragmentHeader, HostIndex, PvmError};
use pvmd_core::Core;
use pvmd_core::event::{Action, Attachment, ConnId, Event, Found, Now};
use rustix::process::Signal;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tracing::{error, info, warn};

/// Events that may wait for the core; whoever has more waits, too.
pub const INPUT_QUEUE: usize = 256;
/// How long tasks may take to end when the daemon ends.
const TASKS_END: Duration = Duration::from_secs(1);
/// How long the master waits for the ends of the other daemons: a second for their tasks, one for their links.
const HOSTS_END: Duration = Duration::from_secs(2);
/// How long a name may take to be found.
const RESOLVE: Duration = Duration::from_secs(20);

/// What comes in: events for the core, some with things that stay outside it.
#[derive(Debug)]
pub enum Input {
    /// As it is.
    Event(Event),
    /// A task has connected.
    Task(ConnId, TaskHandle),
    /// Descriptors came from a task; what was said with them follows.
    Descriptors(ConnId, Vec<OwnedFd>),
    /// A process has been started, or not.
    Started(Started),
    /// A link stands, or another daemon calls.
    Link(NewLink),
    /// A link has ended.
    LinkEnded(LinkEnd),
    /// The whole state is wanted in the log.
    ShowState,
}

impl From<Event> for Input {
    fn from(event: Event) -> Self {
        Self::Event(event)
    }
}

/// A daemon: its core, and everything through which the core acts.
pub struct Driver {
    /// Decides.
    pub core: Core,
    /// When its time began.
    pub origin: Instant,
    /// Its timers.
    pub clock: Clock,
    /// Where everything comes in, and the other end, for those who send.
    pub input: (mpsc::Sender<Input>, mpsc::Receiver<Input>),
    /// The files of the handshake.
    pub auth: AuthFiles,
    /// Of tasks' connections.
    pub numbers: Numbers,
    /// Children.
    pub processes: Processes,
    /// Keeps tasks from running out of turn.
    pub turns: Turns,
    /// Keeps them from running while the owner of this host is there.
    pub holder: Holder,
    /// What tasks can read of them.
    pub page: TurnPage,
    /// What tasks can read of what others send them.
    pub loan_pool: LoanPool,
    /// Other daemons.
    pub links: Links,
    /// The master's.
    pub starter: Option<Starter>,
    /// Jobs on disk. The master's.
    pub jobs: JobStore,
    /// Of which it is made when this host becomes the master.
    pub tools: Box<Tools>,
    /// The master at the beginning.
    pub master: HostIndex,
    /// The log.
    pub log: Log,
    /// Where the daemon was started, until the hosts of the hostfile are started.
    pub stderr: Option<File>,
    /// Published while the daemon serves.
    pub address_file: AddressFile,
    /// Whether to sleep between messages.
    pub polling: Polling,
    /// A slave whose master has not linked up by then ends.
    pub orphan_deadline: Option<Instant>,
}

impl Driver {
    /// Says on standard error which hosts could not be started, and why. Whoever reads there need not be quick.
    fn complain(&mut self, failures: &[String]) {
        let Some(mut stderr) = self.stderr.take().filter(|_| !failures.is_empty()) else { return };
        let lines: Vec<String> = failures.iter().map(|failure| format!("pvmd: {failure}\n")).collect();
        let write = move || stderr.write_all(lines.concat().as_bytes());
        if let Err(error) = std::thread::Builder::new().name("stderr".into()).spawn(write) {
            warn!(%error, "the hosts that could not be started are in this log only");
        }
    }

    /// The master's: a host is started, told its place, or given up.
    fn start_host(&mut self, action: Action) {
        if let Action::AbandonHost { index } = action {
            self.links.close(index);
        }
        let Some(starter) = &mut self.starter else { return };
        match action {
            Action::StartHost { index, spec, address } => starter.start(index, &spec, address),
            Action::Introduce { index, spec, address, fingerprint } => {
                starter.introduce(index, &spec, address, fingerprint);
            }
            Action::AbandonHost { index } => starter.abandon(index),
            _ => {}
        }
    }

    /// Processes run or do not, because of turns, of the owner of this host, or of signals.
    fn change_running(&mut self, action: Action) {
        match action {
            Action::Signal { pid, signal } => match self.turns.signal(pid, signal) {
                Ok(()) => self.holder.signalled(pid, signal),
                Err(error) => info!(pid, signal, %error, "signal not sent"),
            },
            Action::Dispatch { pid, runs } => {
                self.turns.set(pid, runs);
                if runs {
                    self.holder.freed(pid);
                }
            }
            Action::HoldTasks { spared, held } => {
                self.turns.stop_none();
                self.holder.hold(spared, held);
            }
            Action::LetTasksGo => self.holder.let_go(),
            _ => {}
        }
    }

    /// Hosts are started from here from now on.
    fn become_master(&mut self, authority: &[u8], vmid: Option<String>) {
        // Not that of a daemon beside another one.
        self.tools.settings.place.vmid = vmid;
        match Authority::import(authority) {
            Ok(authority) => {
                self.starter = Some(Starter::new(authority, Tools::clone(&self.tools), self.input.0.clone()));
            }
            Err(error) => {
                error!(%error, "the machine's certificate authority cannot be used: no host can be added");
            }
        }
    }

    /// The master's: a certificate for a server of a task.
    fn certify(&self, host: HostIndex, id: RequestId, request: &CertificateRequest) -> Event {
        let no_authority = || {
            let reason = "the machine's certificate authority cannot be used here: see the log".to_owned();
            Err((PvmError::DSysErr, reason))
        };
        let result = self.starter.as_ref().map_or_else(no_authority, |starter| starter.certify(request));
        Event::Certified { host, id, result }
    }

    /// What somebody wants to know of turns and these processes.
    fn times(&self, host: HostIndex, id: RequestId, pids: Vec<i32>) -> Event {
        let spin = if self.turns.are_taken() { Duration::ZERO } else { self.polling.budget() };
        let times = pids.into_iter().map(process::times).collect();
        Event::Times { host, id, means: self.turns.name(), spin, times }
    }
}

impl Driver {
    /// Serves until the end; gives the reason for it.
    pub async fn run(self) -> anyhow::Result<String> {
        let sender = &self.input.0;
        let end = |reason: &str| Event::Terminate { reason: reason.to_owned() }.into();
        forward(SignalKind::terminate(), sender, move || end("signal 15"))?;
        forward(SignalKind::interrupt(), sender, move || end("signal 2"))?;
        forward(SignalKind::user_defined1(), sender, || Input::ShowState)?;
        // Caught and dropped: a daemon outlives the terminal it was started from.
        let _hangup = signal(SignalKind::hangup())?;
        let mut running = Running { driver: self, tasks: HashMap::new(), was_message: false, reason: None };
        let actions = running.driver.core.start(running.now());
        running.perform(actions);
        if !running.driver.core.is_starting_up() {
            running.driver.stderr = None;
        }
        let mut alarm = running.driver.clock.sleep_until(running.driver.origin, Duration::ZERO);
        while running.reason.is_none() {
            let wake = running.wake();
            if let Some(at) = wake
                && at != alarm.deadline()
            {
                alarm.reset(at);
            }
            let polls = running.driver.polling.is_due();
            tokio::select! {
                biased;
                () = &mut alarm, if wake.is_some() => running.on_time(),
                Some(input) = running.driver.input.1.recv() => running.take_in(input),
                time = yield_once(&running.driver.links), if polls => running.driver.polling.yielded(time),
            }
        }
        Box::pin(running.end()).await
    }
}

struct Running {
    driver: Driver,
    tasks: HashMap<ConnId, TaskHandle>,
    /// The last input was a message of another host, or for one.
    was_message: bool,
    reason: Option<String>,
}

impl Running {
    fn now(&self) -> Now {
        self.driver.origin.elapsed()
    }

    /// When there is something to do even if nothing happens.
    fn wake(&self) -> Option<Instant> {
        let deadline = self.driver.core.deadline().map(|at| self.driver.origin + at);
        [deadline, self.driver.orphan_deadline].into_iter().flatten().min()
    }

    /// SIGUSR1: the whole state, to the log.
    fn log_state(&self) {
        for line in self.driver.core.dump().lines() {
            info!(target: STATE, "{line}");
        }
    }

    fn handle(&mut self, event: Event) {
        let now = self.now();
        let actions = self.driver.core.handle(event, now);
        self.perform(actions);
    }

    fn on_time(&mut self) {
        if self.driver.orphan_deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            self.reason = Some("the master has not made a link".to_owned());
            return;
        }
        let now = self.now();
        let actions = self.driver.core.handle_timeout(now);
        self.perform(actions);
    }

    fn take_in(&mut self, input: Input) {
        self.was_message = false;
        self.do_input(input);
        // Who waits for a turn has what the others leave: not if the daemon looks around with it.
        if self.was_message && !self.driver.turns.are_taken() {
            self.driver.polling.note_message();
        }
    }

    /// What stays outside the core is put in its place before the core hears of it.
    fn do_input(&mut self, input: Input) {
        let event = match input {
            Input::Event(event) => self.note(event),
            Input::Task(conn, handle) => {
                handle.pause(false);
                self.tasks.insert(conn, handle);
                Some(Event::TaskConnected { conn })
            }
            Input::Descriptors(conn, descriptors) => {
                if let Some(task) = self.tasks.get_mut(&conn) {
                    task.share(descriptors);
                }
                None
            }
            Input::Started(started) => {
                self.take_child(started);
                None
            }
            Input::Link(link) => self.driver.links.take(link),
            Input::LinkEnded(end) => self.driver.links.ended(end),
            Input::ShowState => {
                self.log_state();
                None
            }
        };
        if matches!(event, Some(Event::PeerLinked { host }) if host == self.driver.master) {
            self.driver.orphan_deadline = None;
        }
        if let Some(event) = event {
            self.handle(event);
        }
    }

    /// A child runs, or could not be started; then its channel is open.
    fn take_child(&mut self, started: Started) {
        let (cookie, input) = (started.cookie, &self.driver.input.0);
        let (event, channel) = self.driver.processes.take(started, input);
        let connection = channel.map(|channel| task_socket::adopt(channel, &self.driver.numbers, input));
        self.handle(event);
        match connection {
            Some(Ok((conn, handle))) => {
                // It does not wait for an answer, so its first messages lie right behind its enrolment.
                handle.enrolled();
                handle.pause(false);
                self.tasks.insert(conn, handle);
                self.handle(Event::ChannelOpen { conn, cookie });
            }
            Some(Err(error)) => warn!(%error, "the channel of a new process cannot be waited for"),
            None => {}
        }
    }

    fn note(&mut self, event: Event) -> Option<Event> {
        match &event {
            Event::TaskClosed { conn, reason } => {
                // Reported by a reader whose connection the core has closed meanwhile: nothing new.
                let handle = self.tasks.remove(conn)?;
                for passed in handle.passed() {
                    let (conn, group) = (*conn, passed.group);
                    self.handle(Event::BarriersPassed { conn, group, passed: Some(passed) });
                }
                handle.close();
                self.driver.auth.forget(*conn);
                if let Some(reason) = reason {
                    info!(conn = conn.0, reason, "task connection ended");
                }
            }
            Event::ProcessExited { cookie, .. } => {
                if let Some(pid) = self.driver.processes.exited(*cookie) {
                    self.driver.turns.ended(pid);
                }
            }
            Event::PeerMessage { message, .. } => self.was_message = !message.data().is_empty(),
            Event::ProcessOutputEnd { cookie } => self.driver.processes.output_ended(*cookie),
            _ => {}
        }
        Some(event)
    }

    fn perform(&mut self, actions: Vec<Action>) {
        let mut answers = Vec::new();
        for action in actions {
            answers.extend(self.perform_one(action));
        }
        self.driver.turns.settle();
        for answer in answers {
            self.handle(answer);
        }
    }

    /// What comes alone goes at once; of much, many fragments go by one system call.
    fn send(&self, conn: ConnId, header: FragmentHeader, data: Bytes) -> Option<Event> {
        let task = self.tasks.get(&conn)?;
        let bytes = FragmentHeader::SIZE + data.len();
        if !self.driver.input.1.is_empty() {
            task.send(header, data);
            return None;
        }
        task.send_now(header, data).then_some(Event::TaskDrained { conn, bytes })
    }

    /// Writes a fragment, and what goes with it.
    fn send_with(
        &mut self,
        conn: ConnId,
        header: FragmentHeader,
        data: Bytes,
        with: Attachment,
    ) -> Option<Event> {
        let attached = match with {
            Attachment::Nothing => return self.send(conn, header, data),
            Attachment::Shared(of) => Some(self.tasks.get(&of).and_then(TaskHandle::shared)),
            Attachment::Page => self.driver.page.descriptor().map(Some),
            Attachment::Memory => {
                let borrows = self.tasks.get(&conn).is_some_and(TaskHandle::borrow);
                borrows.then(|| self.driver.loan_pool.descriptor()).flatten().map(Some)
            }
        };
        let bytes = FragmentHeader::SIZE + data.len();
        let (Some(task), Some(attached)) = (self.tasks.get(&conn), attached) else {
            // The task does without. Nothing is on its way.
            return Some(Event::TaskDrained { conn, bytes });
        };
        task.send_with(header, data, attached);
        None
    }

    fn close_ledger(&self, conn: ConnId, group: Key, epoch: i32) -> Option<Event> {
        let passed = self.tasks.get(&conn)?.close_ledger(group, epoch);
        Some(Event::BarriersPassed { conn, group, passed })
    }

    fn lend_to(&self, conn: ConnId) {
        if let Some(task) = self.tasks.get(&conn) {
            task.lend(self.driver.loan_pool.clone());
        }
    }

    /// Does one thing; what can be answered at once is.
    fn perform_one(&mut self, action: Action) -> Option<Event> {
        let driver = &mut self.driver;
        match action {
            Action::Send { conn, header, data, with } => return self.send_with(conn, header, data, with),
            Action::LendTo { conn } => self.lend_to(conn),
            Action::ShowTurn { turn } => driver.page.show(turn),
            Action::CountGroupChange => driver.page.count_group_change(),
            Action::CloseLedger { conn, group, epoch } => return self.close_ledger(conn, group, epoch),
            Action::PauseReading { conn } => self.pause(conn, true),
            Action::ResumeReading { conn } => self.pause(conn, false),
            Action::Enrolled { conn } => {
                if let Some(task) = self.tasks.get(&conn) {
                    task.enrolled();
                }
            }
            Action::PauseOutput { cookie } => driver.processes.pause(cookie, true),
            Action::ResumeOutput { cookie } => driver.processes.pause(cookie, false),
            Action::CloseTask { conn } => {
                driver.auth.forget(conn);
                if let Some(task) = self.tasks.remove(&conn) {
                    task.close();
                }
            }
            Action::OpenAuth { conn, task_file } => {
                return Some(Event::AuthOpened { conn, result: driver.auth.open(conn, &task_file) });
            }
            Action::CheckAuth { conn } => {
                return Some(Event::AuthChecked { conn, proven: driver.auth.check(conn) });
            }
            Action::Start { cookies, greetings, program } => {
                driver.processes.start(cookies.into_iter().zip(greetings).collect(), program);
            }
            Action::Locate { cookies, program } => {
                return Some(Event::Located { cookies, result: driver.processes.locate(&program) });
            }
            Action::EndFamily { cookie, spared } => driver.processes.end_family(cookie, spared),
            Action::Signal { .. }
            | Action::Dispatch { .. }
            | Action::HoldTasks { .. }
            | Action::LetTasksGo => {
                driver.change_running(action);
            }
            Action::MeasureMemory { pids } => {
                return process::mean_memory(&pids).map(|mean| Event::TaskMemory { mean });
            }
            Action::ReadTimes { host, id, pids } => return Some(driver.times(host, id, pids)),
            Action::Certify { host, id, request } => return Some(driver.certify(host, id, &request)),
            Action::ReadUsage { pids } => return Some(driver.turns.usage(&pids)),
            Action::Link { entry } => driver.links.dial(&entry),
            Action::Watch { host, pace } => driver.links.watch(host, pace),
            Action::Unlink { host } => driver.links.close(host),
            Action::SendPeer { host, message } => {
                self.was_message |= !message.data().is_empty();
                let alone = driver.input.1.is_empty();
                return driver.links.send(host, message, alone);
            }
            Action::Resolve { add, names } => {
                let input = driver.input.0.clone();
                tokio::spawn(async move {
                    let results = resolve_all(names).await;
                    let _ = input.send(Event::Resolved { add, results }.into()).await;
                });
            }
            Action::StartDaemon { index, command, timeout } => {
                start_for_master(index, command, timeout, driver.tools.limits, driver.input.0.clone());
            }
            Action::StartHost { .. } | Action::Introduce { .. } | Action::AbandonHost { .. } => {
                driver.start_host(action);
            }
            Action::BecomeMaster { authority, vmid } => driver.become_master(&authority.0, vmid),
            Action::StartedUp { failures } => driver.complain(&failures),
            Action::LogOutput { tid, line } => driver.log.line(&format!("[{tid}] {line}")),
            Action::SaveJobs { serial, changes, state } => driver.jobs.save(serial, changes, state),
            Action::ReadSaved => return Some(Event::SavedRead { saved: JobStore::peek(driver.jobs.path()) }),
            Action::ReadQueues { clusters } => {
                return Some(Event::QueuesRead { result: queues_file::read_again(&clusters) });
            }
            Action::DiscardLog => driver.log.discard(),
            Action::Exit { reason } => self.reason = Some(reason),
        }
        None
    }

    fn pause(&self, conn: ConnId, paused: bool) {
        if let Some(task) = self.tasks.get(&conn) {
            task.pause(paused);
        }
    }

    /// Tasks are asked to end, then made to; other daemons have heard of it, and end with the master; files go.
    async fn end(mut self) -> anyhow::Result<String> {
        let reason = self.reason.take().unwrap_or_default();
        info!(reason, "ending");
        // Who is asked to end must be able to.
        self.driver.turns.free_all();
        self.driver.holder.finish();
        // Before tasks end: what has replaced its environment is known by its parent.
        let families = self.driver.processes.families();
        let asked = self.driver.processes.signal_all(Signal::TERM);
        if asked > 0 {
            let _ = tokio::time::timeout(TASKS_END, self.wait_for_tasks()).await;
            let killed = self.driver.processes.signal_all(Signal::KILL);
            if killed > 0 {
                warn!(killed, "tasks that did not end by themselves");
            }
        }
        if self.driver.starter.is_some() {
            // Whoever has asked for the end hears of it when all hosts have ended.
            let _ = tokio::time::timeout(HOSTS_END, self.wait_for_hosts()).await;
        }
        if let Some(starter) = &self.driver.starter {
            starter.wait_for_launchers().await;
        }
        self.driver.log.flush();
        // Before the tasks' connections and the links: whoever sees the end of one can start another daemon in this place.
        drop(self.driver.address_file);
        drop(self.tasks);
        self.driver.processes.end_families(families).await;
        self.driver.links.finish_all().await;
        // The thread that writes jobs would otherwise wait for room in this queue, which nothing reads any more.
        self.driver.input.1.close();
        let jobs = self.driver.jobs;
        let _ = tokio::task::spawn_blocking(move || jobs.finish()).await;
        self.driver.log.end();
        Ok(reason)
    }

    async fn wait_for_hosts(&mut self) {
        while self.driver.links.are_open() {
            match self.driver.input.1.recv().await {
                Some(Input::Event(event)) => drop(self.note(event)),
                Some(Input::LinkEnded(end)) => drop(self.driver.links.ended(end)),
                Some(_) => {}
                None => return,
            }
        }
    }

    async fn wait_for_tasks(&mut self) {
        while self.driver.processes.running() > 0 {
            match self.driver.input.1.recv().await {
                Some(Input::Event(event)) => drop(self.note(event)),
                Some(Input::Started(started)) => {
                    drop(self.driver.processes.take(started, &self.driver.input.0));
                    self.driver.processes.signal_all(Signal::TERM);
                }
                Some(_) => {}
                None => return,
            }
        }
    }
}

/// Says something to the driver each time a signal comes. To ask in each turn whether one has come costs more than most turns do.
fn forward(
    kind: SignalKind,
    input: &mpsc::Sender<Input>,
    say: impl Fn() -> Input + Send + 'static,
) -> io::Result<()> {
    let (mut comes, input) = (signal(kind)?, input.clone());
    tokio::spawn(async move { while comes.recv().await.is_some() && input.send(say()).await.is_ok() {} });
    Ok(())
}

/// Addresses of names, in their order; IPv4 is preferred, as tasks' direct routes know nothing else.
async fn resolve_all(names: Vec<String>) -> Vec<Result<Found, String>> {
    let lookups: Vec<_> = names.into_iter().map(|name| tokio::spawn(resolve(name))).collect();
    let mut results = Vec::with_capacity(lookups.len());
    for lookup in lookups {
        let result = lookup.await.unwrap_or_else(|error| Err(error.to_string()));
        results.push(result.map(|address| Found { address, own: own_host::is_own_address(address) }));
    }
    results
}

/// The address of a name.
pub async fn resolve(name: String) -> Result<IpAddr, String> {
    let lookup = tokio::time::timeout(RESOLVE, tokio::net::lookup_host((name.as_str(), 0))).await;
    let found = match lookup {
        Err(_) => return Err(format!("{name}: no address within {RESOLVE:?}")),
        Ok(Err(error)) => return Err(format!("{name}: {}", pvm_wire::plain(error))),
        Ok(Ok(addresses)) => addresses.map(|address| address.ip()).collect::<Vec<_>>(),
    };
    let chosen = found.iter().find(|address| address.is_ipv4()).or(found.first());
    chosen.copied().ok_or_else(|| format!("{name}: it has no address"))
}
