//! Cores of whole machines in which teams take turns by the rows of a matrix: hosts have clocks of their own, and messages take up to 5 ms.
#![allow(
    clippy::disallowed_methods,
    reason = "threads and environment are forbidden to the core, not to its tests"
)]

use pvm_sched::dasic::Live;
use pvm_wire::calls::turns::{History, Rows};
use pvm_wire::calls::{Call as _, Request as _};
use pvm_wire::coscheduling::{TurnHistory, TurnSpan};
use pvm_wire::rows::RowsReport;
use pvm_wire::spawn::{SpawnRequest, flags};
use pvm_wire::{HostIndex, Message, Tid};
use pvmd_core::event::{Event, OwnerSign, Program};
use pvmd_simulated::machine::{Happening, Machine, Setup, Tasks};
use pvmd_simulated::process::{ProcId, Role};
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
        let named = |entry: &std::ffi::OsString| Some(entry.to_str()?.strip_prefix("PVM_TEAM=")?.to_owned());
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

fn host(index: u32) -> HostIndex {
    HostIndex::new(index).expect("a host index")
}

/// A machine of hosts with two processors each, and a task on one of them that asks.
fn formed(seed: u64, hosts: u32, asks_on: u32) -> (World, ProcId) {
    let setup = Setup {
        seed: seed * 4 + 3,
        capabilities: vec![1000; hosts as usize],
        task_target: 100,
        task_limit: 100,
        turns: true,
        link_idle: Duration::from_secs(30),
        deputies: 3,
        width: None,
        watched_max: 4096,
        fails: false,
        traced: std::env::var_os("PVM_SIM_TRACE").is_some(),
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
        file: "prog".into(),
        flags: flags::HOST,
        place: format!("node{on}").into(),
        count: count.cast_signed(),
        env: vec![format!("PVM_TEAM={team}").into()],
        ..SpawnRequest::default()
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

#[test]
fn the_rows_are_those_of_the_same_events_and_hosts_that_are_lost_take_theirs_along() {
    let (mut world, id) = formed(1, 4, 2);
    let mut live: Live<String, u32> = Live::default();
    (1..=4).for_each(|host| live.join(host, 2));
    let steps = [
        ("a", 1, 2),
        ("b", 1, 1),
        ("b", 2, 2),
        ("a", 2, 1),
        ("c", 3, 3),
        ("d", 4, 2),
        ("e", 4, 1),
        ("a", 4, 1),
        ("b", 1, 0),
        ("c", 3, 0),
    ];
    for (team, on, count) in steps {
        if count == 0 {
            end(&mut world, team, on);
        } else {
            start(&mut world, id, team, on, count);
        }
        live.set(on, &team.to_owned(), count);
        // All rows have had their slices before the machine is asked.
        live.sweep();
        assert_eq!(picture(&report(&mut world, id)), picture_of(&live), "{team} {on} {count}");
    }
    world.vanish(host(4));
    world.pass(Duration::from_secs(15));
    live.leave(4);
    live.sweep();
    let report = report(&mut world, id);
    assert_eq!(picture(&report), picture_of(&live));
    assert_eq!(report.hosts.len(), 3);
    assert!(world.tasks.faults.is_empty(), "{:?}", world.tasks.faults);
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
        let request = SpawnRequest { file: "prog".into(), count: 8, policy, env, ..SpawnRequest::default() };
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
