//! Cores of whole machines in which teams take turns by the rows of a matrix: hosts have clocks of their own, and messages take up to 5 ms.

use pvm_sched::dasic::{Live, Rules};
use pvm_sched::queues::Queue;
use pvm_sim::experiments::dasic::Machine as Simulated;
use pvm_wire::calls::hosts::AddHosts;
use pvm_wire::calls::jobs::AskJobs;
use pvm_wire::calls::turns::{History, Rows};
use pvm_wire::calls::{Call as _, Request as _};
use pvm_wire::coscheduling::{TurnHistory, TurnSpan};
use pvm_wire::jobs::{JobCall, JobId, JobRequest, Tasks as JobTasks, group_of};
use pvm_wire::rows::RowsReport;
use pvm_wire::spawn::SpawnRequest;
use pvm_wire::turn_rules::TurnRule;
use pvm_wire::{HostIndex, Message, Tid};
use pvmd_core::event::{Event, OwnerSign, Program};
use pvmd_simulated::machine::{Happening, Machine, Setup, Tasks};
use pvmd_simulated::process::{ProcId, Role};
use pvmd_simulated::recorder::{anywhere, here, host};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Rows follow on each other on all hosts within this time. Of some answers with random delays up to 5 ms each way the fastest is this exact.
const IN_STEP: Duration = Duration::from_millis(3);

/// What the task that asks was told, and the processes of each team on each host.
#[derive(Default)]
struct Told {
    faults: Vec<String>,
    histories: BTreeMap<i32, TurnHistory>,
    reports: Vec<RowsReport>,
    /// Jobs that were submitted.
    jobs: u64,
    processes: BTreeMap<(String, HostIndex), Vec<ProcId>>,
    enrolled: BTreeSet<ProcId>,
}

type World = Machine<Told>;

impl Tasks for Told {
    fn faults(&mut self) -> &mut Vec<String> {
        &mut self.faults
    }

    fn role(_: &mut World) -> Role {
        Role::Silent
    }

    fn started(world: &mut World, id: ProcId, program: &Program) {
        let named = |entry: &std::ffi::OsString| {
            let (name, value) = entry.to_str()?.split_once('=')?;
            match name {
                "PVM_TEAM" => Some(value.to_owned()),
                "PVM_JOB_ID" => Some(group_of(JobId(value.parse().ok()?))),
                _ => None,
            }
        };
        let host = world.processes[&id].host;
        if let Some(team) = program.env.iter().find_map(named) {
            world.tasks.processes.entry((team, host)).or_default().push(id);
        }
    }

    fn enrolled(world: &mut World, id: ProcId, _: Tid) {
        world.tasks.enrolled.insert(id);
    }

    fn heard(world: &mut World, _: ProcId, _: Tid, message: &Message) {
        if message.header.tag == History::TAG {
            let history = History::decode_answer(&message.body).expect("an answer").expect("a history");
            world.tasks.histories.insert(message.header.wait_id, history);
        } else if message.header.tag == Rows::TAG
            && let Ok(report) = Rows::decode_answer(&message.body).expect("an answer")
        {
            world.tasks.reports.push(report);
        }
    }
}

/// A machine of hosts with two processors each that has a matrix, and a task on one of them that asks.
fn formed(seed: u64, hosts: u32, asks_on: u32) -> (World, ProcId) {
    machine(seed * 4 + 3, hosts, asks_on)
}

/// The same; without a matrix unless the seed is three more than a multiple of four.
fn machine(seed: u64, hosts: u32, asks_on: u32) -> (World, ProcId) {
    let setup = Setup {
        seed,
        capabilities: vec![1000; hosts as usize],
        task_target: 100,
        turns: true,
        watched_max: 4096,
        ..Setup::default()
    };
    let mut world = Machine::new(setup, Told::default());
    world.pass_until_formed(hosts as usize);
    world.pass(Duration::from_millis(500));
    let (id, _) = world.add_process(host(asks_on), None, Role::Task);
    world.later(10..50, Happening::Begin(id));
    world.pass_until("the task has enrolled", |world| world.tasks.enrolled.contains(&id));
    (world, id)
}

/// Asks for processes of a team on a host.
fn ask_for(world: &mut World, id: ProcId, team: &str, on: u32, count: u32) {
    let request = SpawnRequest {
        place: format!("node{on}").into(),
        env: vec![format!("PVM_TEAM={team}").into()],
        ..here(count.cast_signed())
    };
    world.say(id, &request.message(1));
    world.pass(Duration::from_millis(200));
}

/// Starts processes of a team on a host, and waits until the master knows them.
fn start(world: &mut World, id: ProcId, team: &str, on: u32, count: u32) {
    ask_for(world, id, team, on, count);
    let started = world.tasks.processes.get(&(team.to_owned(), host(on))).map_or(0, Vec::len);
    assert_eq!(started, count as usize, "team {team} on host {on}");
}

fn end(world: &mut World, team: &str, on: u32) {
    for id in world.tasks.processes.remove(&(team.to_owned(), host(on))).expect("processes") {
        world.kill(id);
    }
    world.pass(Duration::from_millis(200));
}

fn report(world: &mut World, id: ProcId) -> RowsReport {
    world.tasks.reports.clear();
    world.say(id, &Rows {}.message(7));
    world.pass(Duration::from_millis(200));
    world.tasks.reports.pop().expect("a report")
}

/// Rows in words: `ax2@1` are two processes of team a on host 1.
fn picture(report: &RowsReport) -> Vec<String> {
    let row = |row: u32| {
        let places = report.places.iter().filter(|place| place.row == row);
        let word = |place: &pvm_wire::rows::Place| {
            let host = report.hosts[place.host as usize].0.trim_start_matches("node");
            format!("{}x{}@{host}", report.teams[place.team as usize], place.processes)
        };
        places.map(word).collect::<Vec<_>>().join(" ")
    };
    (0..report.count).map(row).collect()
}

/// The same of the scheduler's own matrix, for which the simulator's events are enough.
fn picture_of(live: &Live<String, u32>) -> Vec<String> {
    let row = |row: &BTreeMap<String, BTreeMap<u32, u32>>| {
        let words = row
            .iter()
            .flat_map(|(team, counts)| counts.iter().map(move |(on, count)| format!("{team}x{count}@{on}")));
        words.collect::<Vec<_>>().join(" ")
    };
    live.rows().iter().map(row).collect()
}

/// A machine of daemons and one of `pvm sim`, to which the same happens.
struct Both {
    world: World,
    /// The task that asks, on the master's host.
    id: ProcId,
    simulated: Simulated<String>,
    hosts: BTreeSet<u32>,
    owners: BTreeSet<u32>,
    /// No host has been lost, so that the next one that joins has the number after the last.
    is_whole: bool,
    state: u64,
}

impl Both {
    fn new(seed: u64, hosts: u32) -> Self {
        let (world, id) = formed(seed, hosts, 1);
        let mut simulated = Simulated::new(Rules::Staying);
        for on in 1..=hosts {
            simulated.join(on, 2);
        }
        let state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let (hosts, owners) = ((1..=hosts).collect(), BTreeSet::new());
        Self { world, id, simulated, hosts, owners, is_whole: true, state }
    }

    fn below(&mut self, most: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 33) as usize % most
    }

    /// Something happens to both: what it was.
    fn happens(&mut self) -> String {
        match self.below(12) {
            0..=5 => self.starts(),
            6..=8 => self.ends(),
            9 | 10 => self.owner_comes_or_goes(),
            _ if self.is_whole && self.hosts.len() < 6 && self.below(3) > 0 => self.joins(),
            _ => self.is_lost(),
        }
    }

    /// A host, not the master's.
    fn other_host(&mut self) -> u32 {
        let at = self.below(self.hosts.len() - 1);
        *self.hosts.iter().skip(1).nth(at).expect("a host")
    }

    fn count(&self, team: &str, on: u32) -> u32 {
        self.world.tasks.processes.get(&(team.to_owned(), host(on))).map_or(0, Vec::len) as u32
    }

    /// One at a time, since a host may report several one after the other.
    fn starts(&mut self) -> String {
        let team = ["a", "b", "c", "d", "e"][self.below(5)];
        let on = if self.below(4) == 0 { 1 } else { self.other_host() };
        let before = self.count(team, on);
        ask_for(&mut self.world, self.id, team, on, 1);
        // A host with its owner starts nothing.
        let expected = if self.owners.contains(&on) { before } else { before + 1 };
        assert_eq!(self.count(team, on), expected);
        self.simulated.set(on, &team.to_owned(), expected);
        format!("one of {team} starts on {on}")
    }

    fn ends(&mut self) -> String {
        let places: Vec<(String, HostIndex)> = self.world.tasks.processes.keys().cloned().collect();
        if places.is_empty() {
            return "nothing".to_owned();
        }
        let place = &places[self.below(places.len())];
        let processes = self.world.tasks.processes.get_mut(place).expect("processes");
        let ended = processes.pop().expect("a process");
        let left = processes.len();
        self.world.tasks.processes.retain(|_, processes| !processes.is_empty());
        self.world.kill(ended);
        self.simulated.set(place.1.get(), &place.0, left as u32);
        format!("{left} of {} are left on {}", place.0, place.1)
    }

    fn owner_comes_or_goes(&mut self) -> String {
        let on = self.other_host();
        let is_here = self.owners.insert(on);
        self.world.feed(host(on), Event::Owner(OwnerSign::Says(is_here)));
        if is_here {
            self.simulated.owners_come(&[on]).expect("processes wait");
        } else {
            self.owners.remove(&on);
            self.simulated.owners_leave(&[on]);
        }
        format!("the owner of {on} is there: {is_here}")
    }

    fn joins(&mut self) -> String {
        let on = 1 + self.hosts.last().expect("a host");
        self.world.say(self.id, &AddHosts { hosts: vec![format!("node{on} via=local")] }.message(9));
        self.world.pass_until("the host is there", |world| world.hosts.contains_key(&host(on)));
        self.world.pass(Duration::from_secs(5));
        self.simulated.join(on, 2);
        self.hosts.insert(on);
        format!("{on} joins")
    }

    fn is_lost(&mut self) -> String {
        if self.hosts.len() < 4 {
            return "nothing".to_owned();
        }
        let on = self.other_host();
        self.world.vanish(host(on));
        self.world.pass(Duration::from_secs(15));
        self.is_whole = false;
        self.simulated.lose(on);
        self.hosts.remove(&on);
        self.owners.remove(&on);
        self.world.tasks.processes.retain(|(_, at), _| *at != host(on));
        format!("{on} is lost")
    }
}

#[test]
fn the_rows_of_daemons_are_those_of_the_simulator_for_the_same_events() {
    // What has been compared is to be more than the simple cases.
    let (mut most_rows, mut happened) = (0, BTreeSet::new());
    for seed in 10..16 {
        let mut both = Both::new(seed, 4);
        for step in 0..60 {
            let what = both.happens();
            // All rows have their slices, more than once: until there is nothing to pack.
            both.world.pass(Duration::from_secs(3));
            while both.simulated.sweep() {}
            let report = report(&mut both.world, both.id);
            let expected = picture_of(both.simulated.matrix());
            assert_eq!(picture(&report), expected, "seed {seed}, step {step}: {what}");
            assert_eq!(report.hosts.len(), both.hosts.len() - both.owners.len(), "{what}");
            most_rows = most_rows.max(expected.len());
            happened.insert(what.split(' ').next_back().map_or(String::new(), str::to_owned));
        }
        assert!(both.world.tasks.faults.is_empty(), "{:?}", both.world.tasks.faults);
    }
    assert!(most_rows >= 3, "{most_rows}");
    assert!(["joins", "lost", "true", "false"].iter().all(|&word| happened.contains(word)), "{happened:?}");
}

/// The spans of a host in which turns were taken by rows, each by its epoch: its team, row and begin in the world's time.
fn spans(world: &mut World, id: ProcId, on: u32) -> BTreeMap<u64, (Option<String>, u32, Duration)> {
    world.say(id, &History { host: host(on).host_tid(), since: 0 }.message(on.cast_signed()));
    world.pass(Duration::from_millis(200));
    let ahead = world.hosts[&host(on)].ahead;
    let spans = world.tasks.histories.remove(&on.cast_signed()).expect("a history").spans;
    let mut found = BTreeMap::new();
    for TurnSpan { begin, team, epoch, row, .. } in spans {
        if let Some(row) = row {
            found.entry(epoch).or_insert((team, row, Duration::from_nanos(begin).saturating_sub(ahead)));
        }
    }
    found
}

#[test]
fn hosts_change_rows_at_the_same_instants_though_their_clocks_differ() {
    let (mut world, id) = formed(2, 3, 1);
    for team in ["a", "b"] {
        for on in 1..=3 {
            start(&mut world, id, team, on, 2);
        }
    }
    assert_eq!(picture(&report(&mut world, id)), ["ax2@1 ax2@2 ax2@3", "bx2@1 bx2@2 bx2@3"]);
    world.pass(Duration::from_secs(20));
    let settled = world.now.saturating_sub(Duration::from_secs(10));
    let [first, second, third] = [1, 2, 3].map(|on| spans(&mut world, id, on));
    let mut compared = 0;
    for other in [second, third] {
        for (epoch, (team, row, begin)) in &first {
            if let Some((other_team, other_row, other_begin)) = other.get(epoch).filter(|_| *begin > settled)
            {
                assert_eq!((team, row), (other_team, other_row), "slice {epoch}");
                assert!(
                    begin.abs_diff(*other_begin) < IN_STEP,
                    "slice {epoch}: {begin:?} and {other_begin:?}"
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 20, "{compared}");
}

#[test]
fn hosts_report_anew_to_the_next_master() {
    let (mut world, id) = formed(3, 4, 3);
    for team in ["a", "b"] {
        for on in 2..=4 {
            start(&mut world, id, team, on, 2);
        }
    }
    start(&mut world, id, "c", 1, 2);
    let expected = ["ax2@2 ax2@3 ax2@4", "bx2@2 bx2@3 bx2@4"];
    assert_eq!(report(&mut world, id).hosts.len(), 4);
    world.vanish(host(1));
    world.pass(Duration::from_secs(20));
    let rows = report(&mut world, id);
    assert_eq!((picture(&rows), rows.hosts.len()), (expected.map(str::to_owned).to_vec(), 3));
    // The new master's clock is the one that counts.
    let [second, fourth] = [2, 4].map(|on| spans(&mut world, id, on));
    let settled = world.now.saturating_sub(Duration::from_secs(5));
    let same = second.iter().filter_map(|(epoch, here)| Some((here, fourth.get(epoch)?)));
    let late = same.filter(|(here, _)| here.2 > settled);
    let compared =
        late.inspect(|(here, there)| assert!(here.2.abs_diff(there.2) < IN_STEP, "{here:?} {there:?}"));
    assert!(compared.count() > 5);
}

#[test]
fn an_owner_who_is_back_takes_the_host_out_of_the_rows_until_the_owner_leaves() {
    let (mut world, id) = formed(4, 3, 1);
    for team in ["a", "b"] {
        for on in 1..=3 {
            start(&mut world, id, team, on, 2);
        }
    }
    let owner = |is_here| Event::Owner(OwnerSign::Says(is_here));
    world.feed(host(3), owner(true));
    world.pass(Duration::from_millis(100));
    let rows = report(&mut world, id);
    assert_eq!((picture(&rows), rows.hosts.len()), (vec!["ax2@1 ax2@2".to_owned(), "bx2@1 bx2@2".into()], 2));
    // A host with its owner starts nothing, even if it is named.
    ask_for(&mut world, id, "c", 3, 1);
    assert!(!world.tasks.processes.contains_key(&("c".to_owned(), host(3))));
    world.feed(host(3), owner(false));
    world.pass(Duration::from_millis(200));
    assert_eq!(report(&mut world, id).hosts.len(), 3);
    let all = ["ax2@1 ax2@2 ax2@3", "bx2@1 bx2@2 bx2@3"];
    assert_eq!(picture(&report(&mut world, id)), all);
    assert!(world.tasks.faults.is_empty(), "{:?}", world.tasks.faults);
}

#[test]
fn all_hosts_know_the_owners_that_are_there_and_so_does_the_next_master() {
    let (mut world, id) = formed(5, 4, 3);
    world.feed(host(4), Event::Owner(OwnerSign::Says(true)));
    world.pass(Duration::from_millis(200));
    let place = |world: &mut World, team: &str| {
        let env = vec![format!("PVM_TEAM={team}").into()];
        let policy = "round-robin".to_owned();
        let request = SpawnRequest { policy, env, ..anywhere(8) };
        world.say(id, &request.message(1));
        world.pass(Duration::from_millis(500));
        let placed = world.tasks.processes.iter().filter(|((name, _), _)| name == team);
        placed.map(|((_, host), processes)| (host.get(), processes.len())).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(place(&mut world, "a"), BTreeMap::from([(1, 3), (2, 3), (3, 2)]));
    world.vanish(host(1));
    world.pass(Duration::from_secs(20));
    assert_eq!(place(&mut world, "b"), BTreeMap::from([(2, 4), (3, 4)]));
    world.feed(host(4), Event::Owner(OwnerSign::Says(false)));
    world.pass(Duration::from_millis(200));
    assert_eq!(place(&mut world, "c").values().sum::<usize>(), 8);
    assert!(world.tasks.processes.contains_key(&("c".to_owned(), host(4))));
}

/// The queues of the file from now on, one for each rule.
fn give_queues(world: &mut World, master: u32) {
    let queue = |rule: TurnRule| Queue { turns: Some(rule), ..Queue::open(rule.name()) };
    let queues: Vec<Queue> = TurnRule::ALL.into_iter().map(queue).chain([Queue::open("default")]).collect();
    world.feed(host(master), Event::QueuesRead { result: Ok(queues.into()) });
    world.pass(Duration::from_millis(100));
}

/// Submits a job of two tasks to run on a host, and waits for its start. The name of its team.
fn submit(world: &mut World, id: ProcId, queue: &str, on: u32) -> String {
    let mut job = JobRequest::new("prog", "user", "/");
    (job.tasks, job.queue) = (JobTasks::Array { first: 0, count: 2, at_once: None }, Some(queue.to_owned()));
    job.program.slots = 0;
    job.hosts = vec![format!("node{on}")];
    world.say(id, &AskJobs(JobCall::Submit(Box::new(job))).message(9));
    world.tasks.jobs += 1;
    let team = group_of(JobId(world.tasks.jobs));
    let key = (team.clone(), host(on));
    world.pass_until("the job runs", |world| {
        world.tasks.processes.get(&key).is_some_and(|ids| ids.len() == 2)
    });
    world.pass(Duration::from_millis(200));
    team
}

#[test]
fn jobs_of_a_queue_that_says_so_are_in_the_matrix_and_others_are_not() {
    let (mut world, id) = machine(29, 4, 3);
    assert_eq!((report(&mut world, id).is_on, report(&mut world, id).hosts.len()), (false, 0));
    give_queues(&mut world, 1);
    assert!(report(&mut world, id).is_on, "a queue wants it");
    start(&mut world, id, "a", 2, 2);
    let [first, second] = [2, 4].map(|on| submit(&mut world, id, "rows", on));
    let third = submit(&mut world, id, "rows", 2);
    for queue in ["demand", "none", "default"] {
        submit(&mut world, id, queue, 2);
    }
    let rows = report(&mut world, id);
    let expected = [format!("{first}x2@2 {second}x2@4"), format!("{third}x2@2")];
    assert_eq!((picture(&rows), rows.has_others), (expected.to_vec(), true));
    assert_eq!(rows.hosts.iter().map(|(name, _)| &name[..]).collect::<Vec<_>>(), ["node2", "node4"]);
    // The next master knows the same.
    world.vanish(host(1));
    world.pass(Duration::from_secs(20));
    let rows = report(&mut world, id);
    assert_eq!((picture(&rows), rows.has_others, rows.is_on), (expected.to_vec(), true, true));
    let fourth = submit(&mut world, id, "rows", 3);
    let rows = report(&mut world, id);
    assert_eq!(picture(&rows)[0], format!("{first}x2@2 {second}x2@4 {fourth}x2@3"));
    assert!(world.tasks.faults.is_empty(), "{:?}", world.tasks.faults);
}

#[test]
fn a_host_without_teams_of_the_matrix_has_no_part_in_it() {
    let (mut world, id) = machine(33, 3, 1);
    give_queues(&mut world, 1);
    // Turns cost their time there.
    start(&mut world, id, "a", 3, 2);
    start(&mut world, id, "b", 3, 2);
    world.pass(Duration::from_secs(1));
    assert!(spans(&mut world, id, 3).is_empty(), "turns by accounts");
    let team = submit(&mut world, id, "rows", 3);
    world.pass(Duration::from_secs(4));
    // Every second slice is that of the row.
    let by_rows = spans(&mut world, id, 3);
    let of = |wanted: u32| by_rows.values().filter(move |(_, row, _)| *row == wanted);
    assert!(of(0).count() > 5 && of(1).count() > 5, "{by_rows:?}");
    assert!(of(0).all(|(name, ..)| name.as_ref() == Some(&team)), "{by_rows:?}");
    let others: BTreeSet<&str> = of(1).filter_map(|(name, ..)| name.as_deref()).collect();
    assert_eq!(others, BTreeSet::from(["a", "b"]), "each has some of the others' slices: {by_rows:?}");
    end(&mut world, &team, 3);
    world.pass(Duration::from_secs(1));
    let rows = report(&mut world, id);
    assert_eq!((rows.hosts.len(), rows.count, rows.has_others), (0, 0, false));
    let last = *by_rows.keys().next_back().expect("a slice");
    world.pass(Duration::from_secs(1));
    let after = spans(&mut world, id, 3);
    assert!(after.range(last + 30..).next().is_none(), "by accounts again: {after:?}");
    assert!(world.tasks.faults.is_empty(), "{:?}", world.tasks.faults);
}

#[test]
fn jobs_of_a_queue_that_says_so_stay_out_of_the_machines_matrix() {
    let (mut world, id) = formed(6, 3, 1);
    give_queues(&mut world, 1);
    start(&mut world, id, "a", 2, 2);
    let in_it = ["rows", "default"].map(|queue| submit(&mut world, id, queue, 2));
    for queue in ["demand", "none"] {
        submit(&mut world, id, queue, 2);
    }
    submit(&mut world, id, "demand", 3);
    let rows = report(&mut world, id);
    let [first, second] = &in_it;
    let expected = ["ax2@2".to_owned(), format!("{first}x2@2"), format!("{second}x2@2")];
    assert_eq!((picture(&rows), rows.has_others, rows.hosts.len()), (expected.to_vec(), true, 3));
    assert!(world.tasks.faults.is_empty(), "{:?}", world.tasks.faults);
}
