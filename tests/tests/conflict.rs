//! The conflict that epochs decide, with real daemons and programs in C, Fortran and Rust.
//!
//! *Scheduling parallel jobs on clusters*, section 21.5, has this figure. Node 1 runs job A, and node 2 runs job B. A's process on node 1 sends
//! to its partner on node 2: A pulls at node 2. Meanwhile B's process on node 2 sends to its partner on node 1: B pulls at node 1.
//! If both nodes did as they are asked, node 1 would run B and node 2 A, and neither job would run on both.
//!
//! Here the nodes are two hosts with a processor each, and the jobs are two teams with a task on each host. The test lets one team have the turn on
//! the first host, and the other on the second: on each host it makes the team compute that is not to be the first, until that team
//! has more on its account. Then it tells the two tasks that have the turn to send to their partners, by a file that all tasks read all the
//! time (`programs/pull.c`).
//!
//! What the daemons remember of turns, as `programs/turns.rs` prints it, shows how the slice went on. The host with the smaller epoch must
//! have adopted the other one and switched, that other host must have refused to, and the same team must keep the turn on both until the slice
//! ends. Of equal counts that of the second host is greater, so its team prevails. In further trials the first host has ended more
//! slices, so that its team prevails.
//!
//! If the slice ends before both messages are there, or a task loses the turn before it has sent, there is no conflict to look at, and the
//! trial is repeated.

use pvm_tests::machine::Plan;
use pvm_tests::network::Setting;
use pvm_tests::peers::{self, Peer};
use pvm_tests::programs::{Linking, Programs};
use pvm_tests::{Console, Installation, Machine, Network, Program, built, process, wait};
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Milliseconds of a slice: in this time the test must see which teams have the turn, and both messages must arrive.
const SLICE: u64 = 600;
/// In which a state comes that the accounts make certain, if it comes at all.
const SLICES: Duration = Duration::from_millis(4 * SLICE);
/// The system's ticks of CPU time, of which there are 100 in a second, by which a team is to be ahead on a host: enough for the other to have
/// the turn next, and less than two slices, so that messages may still bring the first.
const LEAD: RangeInclusive<i64> = 15..=90;
/// How often a trial is repeated that shows nothing.
const TRIES: usize = 12;

const TEAMS: [&str; 2] = ["a", "b"];
/// Tasks: that of team 0 on host 0, that of team 0 on host 1, and the same of team 1.
const TASKS: usize = 4;

fn task_of(team: usize, host: usize) -> usize {
    2 * team + host
}

/// The count of an epoch, and the host that has made it.
type Epoch = (u64, u32);

/// A time in which nothing about turns has changed on a host.
#[derive(Clone, Debug)]
struct Span {
    host: usize,
    /// `None`: all run.
    team: Option<usize>,
    epoch: Epoch,
    is_boosted: bool,
    /// Messages whose epoch was no greater.
    refused: u64,
}

impl Span {
    fn parse(line: &str, hosts: &[String; 2]) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let [host, team, count, origin, is_boosted, refused, _] = words[..] else { return None };
        Some(Self {
            host: hosts.iter().position(|name| *name == host)?,
            team: TEAMS.iter().position(|name| *name == team),
            epoch: (count.parse().ok()?, origin.parse().ok()?),
            is_boosted: is_boosted.parse().ok()?,
            refused: refused.parse().ok()?,
        })
    }
}

/// Two hosts, and what their daemons remember.
struct Scene {
    console: Console,
    turns: Program,
    machine: Machine,
    hosts: [String; 2],
    rust: PathBuf,
    // The machine needs it to the end.
    _network: Network,
}

impl Scene {
    fn open(ours: &Installation, check: &str) -> Option<Self> {
        peers::require(&[Peer::Root], check)?;
        if thread::available_parallelism().map_or(1, usize::from) < 2 {
            peers::unchecked(check, "a processor for each of two hosts is needed");
            return None;
        }
        let variables = vec![("PVM_COSCHEDULING".to_owned(), "priorities".to_owned())];
        let setting = Setting { processors: vec![Some(0), Some(1)], variables, ..Setting::default() };
        let network = Network::with(setting, 2, ours, check)?;
        // The master's name is an address that the other host can reach, so tasks have direct routes to it.
        let hosts = [network.address(0), network.name(1).to_owned()];
        let line = network.line(1, &format!("slice={SLICE}"));
        let plan = Plan::of(ours).network(&network).name(&hosts[0]).hostfile(&format!("{line}\n"));
        let plan = plan.variable("PVM_COSCHEDULING", "priorities").variable("PVM_SLICE", SLICE.to_string());
        let machine = plan.start();
        let mut console = machine.console_with_hosts(2);
        console.command("export PVM_TEAM");
        let rust = built::rust_programs();
        let turns = machine.program(rust.join("turns"), &hosts);
        Some(Self { console, turns, machine, hosts, rust, _network: network })
    }

    fn spans(&self) -> Vec<Span> {
        let text = self.turns.stdout();
        let complete = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        complete.lines().filter_map(|line| Span::parse(line, &self.hosts)).collect()
    }

    /// What is now on both hosts, if anything is known of both.
    fn now(&self) -> Option<[Span; 2]> {
        let spans = self.spans();
        let last = |host| spans.iter().rfind(|span| span.host == host).cloned();
        Some([last(0)?, last(1)?])
    }

    /// Starts the four tasks of a program.
    fn start(&mut self, program: &Path, file: PathBuf, route: &str) -> Group {
        let mut tids = [0; TASKS];
        let mut pids = [0; TASKS];
        for (team, name) in TEAMS.iter().enumerate() {
            self.console.command(&format!("setenv PVM_TEAM {name}"));
            for (host, place) in self.hosts.iter().enumerate() {
                let number = task_of(team, host);
                let words =
                    format!("--host={place} {} {} {number} {route}", program.display(), file.display());
                let spawned = self.console.spawn(&words);
                let [Ok(tid)] = &spawned.tasks[..] else { panic!("{spawned:?}") };
                tids[number] = i32::from_str_radix(tid, 16).expect("a task's id");
            }
        }
        for row in self.console.tasks() {
            let tid = i32::from_str_radix(row.tid.trim_start_matches('t'), 16);
            if let Some(number) = tid.ok().and_then(|tid| tids.iter().position(|known| *known == tid)) {
                pids[number] = row.pid;
            }
        }
        assert!(pids.iter().all(|&pid| pid > 1), "{pids:?}");
        Group { tids, pids, file, serial: 0, what: [' '; TASKS], pulls: [0; TASKS] }
    }

    /// Ends them.
    fn end(&mut self, group: &Group) {
        let tids = group.tids.map(|tid| format!("{tid:x}"));
        self.console.command(&format!("kill {}", tids.join(" ")));
        wait::becomes_true("all have ended", || group.pids.iter().all(|&pid| !process::is_alive(pid)));
    }

    /// Until all tasks wait, and are let run on both hosts.
    fn calm_down(&self, group: &mut Group) {
        group.order(['w'; TASKS]);
        wait::becomes_true("all run", || {
            self.now().is_some_and(|now| now.iter().all(|it| it.team.is_none()))
        });
    }

    /// All tasks wait: those of each team exchange a message, so both hosts have the greater of their epochs, and tasks with
    /// direct routes have one. Whether the hosts have the same epoch then.
    fn meet(&self, group: &mut Group) -> bool {
        self.calm_down(group);
        group.order(['p', 'w', 'p', 'w']);
        wait::becomes_true("answers", || group.has_answer(0) && group.has_answer(2));
        // Tasks that have answered last would be taken to wait for an answer, and would repeat their epoch when their turn begins.
        let tids = [1, 3].map(|number| group.tids[number].to_string());
        let mut note = self.machine.command(self.rust.join("turns"));
        let note = note.arg("note").args(tids).output().expect("a program of the tests runs");
        assert!(note.status.success(), "{note:?}");
        let is_same = || self.now().is_some_and(|[one, other]| one.epoch == other.epoch).then_some(());
        wait::until(SLICES, is_same).is_some()
    }

    /// Brings about that one team has the turn on the first host, and the other on the second. Their spans.
    fn oppose(&self, group: &mut Group, trial: Trial) -> Option<[Span; 2]> {
        let next = [trial.team, 1 - trial.team];
        wait::becomes_true("accounts on which the right team has less", || group.even_out(next));
        if !self.meet(group) {
            return None;
        }
        if trial.is_first_ahead {
            group.order(['c', 'w', 'c', 'w']);
            let is_ahead = || self.now().is_some_and(|[one, other]| one.epoch.0 >= other.epoch.0 + 2);
            wait::until(3 * SLICES, || is_ahead().then_some(()))?;
        }
        group.order(['c'; TASKS]);
        wait::until(SLICES, || {
            let now = self.now()?;
            let is_wanted = now.iter().zip(next).all(|(span, team)| span.team == Some(team));
            let [one, other] = now.each_ref().map(|span| span.epoch.0);
            let counts = if trial.is_first_ahead { one > other } else { one == other };
            (is_wanted && counts).then_some(now)
        })
    }

    /// Both pull: at the same time, or the one that is to lose first, so that it has pulled before it loses the turn. What has become of it,
    /// unless a slice has ended too early.
    fn pull(&self, group: &mut Group, before: [Span; 2], at_once: bool) -> Option<Conflict> {
        let conflict = Conflict { mark: self.spans().len(), before };
        let (strong, weak) = (conflict.stronger(), 1 - conflict.stronger());
        // The hosts from which tasks pull, and those that have to hear of it.
        let steps: &[(&[usize], &[usize])] =
            if at_once { &[(&[0, 1], &[0, 1])] } else { &[(&[weak], &[strong]), (&[strong], &[0, 1])] };
        for &(pulling, hearing) in steps {
            let mut what = ['c'; TASKS];
            for &host in pulling {
                what[conflict.puller(host)] = 's';
            }
            group.order(what);
            let is_heard = wait::until(SLICES, || {
                let spans = self.spans();
                let is_heard = hearing.iter().all(|&host| conflict.has_heard(&spans, host));
                (is_heard || conflict.is_over(&spans)).then_some(is_heard)
            });
            if is_heard != Some(true) {
                return None;
            }
        }
        Some(conflict)
    }

    /// One trial: the team that has prevailed, and how.
    fn decide(&self, group: &mut Group, trial: Trial) -> String {
        for attempt in 0..TRIES {
            let Some(before) = self.oppose(group, trial) else { continue };
            let Some(conflict) = self.pull(group, before, attempt % 2 == 0) else { continue };
            // The slice of the conflict ends on both hosts. A message that brings no turn is delivered, too.
            self.calm_down(group);
            let pullers = [0, 1].map(|host| conflict.puller(host));
            wait::becomes_true("answers to both", || pullers.iter().all(|&task| group.has_answer(task)));
            return conflict.judge(&self.spans(), &self.hosts);
        }
        panic!("{TRIES} trials have shown nothing: {trial:?}\n{}", self.turns.stdout());
    }
}

/// The beginning of a trial.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// The team that has the turn on the first host; the other one has it on the second.
    team: usize,
    /// The first host has ended more slices; otherwise both the same number.
    is_first_ahead: bool,
}

/// Two teams that pull at each other's host.
struct Conflict {
    /// How many spans there were before.
    mark: usize,
    before: [Span; 2],
}

impl Conflict {
    /// The spans of a host in the slices of the conflict.
    fn since<'s>(&self, spans: &'s [Span], host: usize) -> impl Iterator<Item = &'s Span> + use<'s, '_> {
        let is_of = move |span: &&Span| {
            span.host == host && span.team.is_some() && self.before.iter().any(|it| it.epoch == span.epoch)
        };
        spans[self.mark..].iter().filter(is_of)
    }

    /// Whether it has adopted the other host's epoch, and given the other team the turn because of a message.
    fn has_switched(&self, spans: &[Span], host: usize) -> bool {
        let other = &self.before[1 - host];
        let is_it = |span: &Span| span.team == other.team && span.epoch == other.epoch && span.is_boosted;
        self.since(spans, host).any(is_it)
    }

    /// Whether it has refused a message.
    fn has_refused(&self, spans: &[Span], host: usize) -> bool {
        let own = &self.before[host];
        self.since(spans, host).any(|span| span.epoch == own.epoch && span.refused > 0)
    }

    /// Whether the other team's message was there while the slice lasted.
    fn has_heard(&self, spans: &[Span], host: usize) -> bool {
        self.has_switched(spans, host) || self.has_refused(spans, host)
    }

    /// Whether no slice of the conflict lasts any more on one of the hosts.
    fn is_over(&self, spans: &[Span]) -> bool {
        let is_later =
            |span: &Span| span.team.is_none() || self.before.iter().all(|it| it.epoch != span.epoch);
        spans[self.mark..].iter().any(is_later)
    }

    /// The task that pulls from a host.
    fn puller(&self, host: usize) -> usize {
        task_of(self.before[host].team.unwrap_or(0), host)
    }

    /// The host whose team must prevail: that with the greater epoch.
    fn stronger(&self) -> usize {
        usize::from(self.before[1].epoch > self.before[0].epoch)
    }

    /// Checks that one team had the turn on both hosts, and that it is the right one; says so.
    #[track_caller]
    fn judge(&self, spans: &[Span], hosts: &[String; 2]) -> String {
        let (strong, weak) = (self.stronger(), 1 - self.stronger());
        let shown = format!("{:#?}\nthen {:#?}", self.before, &spans[self.mark..]);
        assert!(self.has_switched(spans, weak), "host {weak} has not followed: {shown}");
        assert!(!self.has_switched(spans, strong), "host {strong} has followed: {shown}");
        assert!(self.has_refused(spans, strong), "host {strong} has refused nothing: {shown}");
        let winner = &self.before[strong];
        let is_winners = |span: &&Span| span.epoch == winner.epoch;
        for host in [strong, weak] {
            let mut rest = self.since(spans, host).skip_while(|span| !is_winners(span));
            let stays = rest.all(|span| span.epoch == winner.epoch && span.team == winner.team);
            assert!(stays, "host {host} has turned back: {shown}");
        }
        let told = |span: &Span| {
            let (count, origin) = span.epoch;
            format!("{} at {count}.{origin} on {}", TEAMS[span.team.unwrap_or(0)], hosts[span.host])
        };
        let team = TEAMS[winner.team.unwrap_or(0)];
        format!("{}, {}: {team} on both", told(&self.before[0]), told(&self.before[1]))
    }
}

/// The four tasks.
struct Group {
    tids: [i32; TASKS],
    pids: [i32; TASKS],
    /// What they are to do.
    file: PathBuf,
    serial: u32,
    what: [char; TASKS],
    /// The last order by which each was to pull.
    pulls: [u32; TASKS],
}

impl Group {
    fn order(&mut self, what: [char; TASKS]) {
        self.serial += 1;
        self.what = what;
        for (pulls, what) in self.pulls.iter_mut().zip(what) {
            if "ps".contains(what) {
                *pulls = self.serial;
            }
        }
        let words = what.map(String::from).into_iter().chain(self.tids.map(|tid| tid.to_string()));
        let text = format!("{} {}\n", self.serial, words.collect::<Vec<_>>().join(" "));
        let new = self.file.with_extension("new");
        fs::write(&new, text).and_then(|()| fs::rename(&new, &self.file)).expect("the folder is the test's");
    }

    /// Whether a task has pulled when it was last to do so, and has had its answer.
    fn has_answer(&self, task: usize) -> bool {
        let done = fs::read_to_string(format!("{}.{task}", self.file.display()));
        done.is_ok_and(|text| text.trim().parse() == Ok(self.pulls[task]))
    }

    /// CPU time of a task, in ticks.
    fn used(&self, task: usize) -> i64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pids[task])).expect("the task runs");
        let fields: Vec<&str> =
            stat.rsplit_once(") ").map_or(Vec::new(), |(_, rest)| rest.split(' ').collect());
        fields[11..13].iter().map(|field| field.parse::<i64>().expect("a number")).sum()
    }

    /// Lets teams compute on each host until the one that is to be next there has used less than the other; whether it has.
    fn even_out(&mut self, next: [usize; 2]) -> bool {
        let mut what = ['w'; TASKS];
        for (host, next) in next.into_iter().enumerate() {
            let (least, most) = (task_of(next, host), task_of(1 - next, host));
            let lead = self.used(most) - self.used(least);
            if lead < *LEAD.start() {
                what[most] = 'c';
            } else if lead > *LEAD.end() {
                what[least] = 'c';
            }
        }
        let is_done = what == ['w'; TASKS];
        if !is_done && what != self.what {
            self.order(what);
        }
        is_done
    }

    /// Whether a task has a connection over the network.
    fn is_connected(&self, task: usize) -> bool {
        let process = format!("/proc/{}", self.pids[task]);
        let table = fs::read_to_string(format!("{process}/net/tcp")).expect("the task runs");
        // State 01: established; then the socket's number.
        let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let rows = rows.filter(|words| words.get(3) == Some(&"01"));
        let sockets: Vec<String> = rows.map(|words| format!("socket:[{}]", words[9])).collect();
        let files = fs::read_dir(format!("{process}/fd")).expect("the task runs");
        let mut targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        targets.any(|target| sockets.iter().any(|socket| target.as_os_str() == socket.as_str()))
    }
}

#[test]
fn of_two_teams_that_pull_at_each_others_host_exactly_one_has_the_turn_on_both_and_the_right_one() {
    let check = "two teams that pull at each other's host";
    let Some(ours) = Installation::ours_only(check) else { return };
    let Some(compiled) = Programs::compile(&["pull", "fpull.f90"], &ours, Linking::Shared) else { return };
    let Some(mut scene) = Scene::open(&ours, check) else { return };
    let programs = [
        ("C", compiled.path("pull")),
        ("Fortran", compiled.path("fpull")),
        ("Rust", scene.rust.join("pull")),
    ];
    for (language, program) in &programs {
        for route in ["daemon", "direct"] {
            let file = scene.machine.folder().join(format!("{language}-{route}"));
            let mut group = scene.start(program, file, route);
            for trial in [Trial { team: 0, is_first_ahead: false }, Trial { team: 0, is_first_ahead: true }] {
                let told = scene.decide(&mut group, trial);
                eprintln!("{language}, {route}: {told}");
            }
            for task in 0..TASKS {
                assert_eq!(group.is_connected(task), route == "direct", "{language}: task {task} by {route}");
            }
            scene.end(&group);
        }
    }
    scene.console.quit();
    drop(scene.turns);
    scene.machine.finish();
}
