//! The core in simulated machines whose masters are lost: at every step of what tasks ask the master for, one after the other, and on
//! many hosts.
#![allow(
    clippy::disallowed_methods,
    reason = "threads and environment are forbidden to the core, not to its tests"
)]

use pvm_wire::body::BodyReader;
use pvm_wire::calls::certificate::Certify;
use pvm_wire::calls::hosts::DeleteHosts;
use pvm_wire::calls::mailbox::{Flags, Put};
use pvm_wire::calls::nested::Nested;
use pvm_wire::calls::notify::NotifyRequest;
use pvm_wire::calls::{Call as _, Request as _};
use pvm_wire::certificate::CertificateRequest;
use pvm_wire::codes::{CONTEXT_TM, Tm, notify};
use pvm_wire::group::{self, Request, tag};
use pvm_wire::{HostIndex, Message, PvmError, Tid};
use pvmd_core::event::Program;
use pvmd_simulated::machine::{Happening, Machine, Setup, Tasks};
use pvmd_simulated::process::{ProcId, Role, message};
use pvmd_simulated::recorder::host;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::time::Duration;

/// Tag of notices of lost hosts.
const LOST: i32 = 99;
/// Within which a master that is lost is succeeded. The limit for silence is 3 s.
const SUCCEEDED: Duration = Duration::from_millis(3500);

/// What each task was told, by what it was about.
#[derive(Default)]
struct Told {
    faults: Vec<String>,
    /// Tasks that ask for something when they enrol.
    asks: bool,
    /// Whether a task asks for a certificate when it enrols, and the answers.
    wants_certificate: bool,
    certificates: Vec<Result<Vec<u8>, PvmError>>,
    /// Entries that a task leaves, each in place of the one before.
    puts_left: u32,
    puts: BTreeMap<Tid, Vec<i32>>,
    joins: BTreeMap<Tid, Vec<i32>>,
    barriers: BTreeMap<Tid, Vec<i32>>,
    lost: BTreeMap<Tid, Vec<i32>>,
    sizes: BTreeMap<Tid, Vec<i32>>,
}

type World = Machine<Told>;

fn name() -> &'static OsStr {
    OsStr::new("g")
}

fn ask_keeper(world: &mut World, id: ProcId, request: Request<'_>) {
    world.say(id, &message(group::keeper(), group::CONTEXT, request.tag(), request.encode()));
}

/// Leaves an entry in place of the last one, if there are some left.
fn put_again(world: &mut World, id: ProcId, tid: Tid) {
    if world.tasks.puts_left > 0 {
        world.tasks.puts_left -= 1;
        let entry = Nested::new(&message(Tid::NONE, 0, 0, world.tasks.puts_left.to_be_bytes().to_vec()));
        let put = Put { tid, class: "y".into(), index: 0, flags: Flags::DEFAULT, message: entry };
        world.say(id, &put.message(1));
    }
}

fn ask_for_certificate(world: &mut World, id: ProcId) {
    let request = CertificateRequest { names: vec!["node3".into()], key: vec![7; 91] };
    world.say(id, &Certify(request).message(1));
}

impl Tasks for Told {
    fn faults(&mut self) -> &mut Vec<String> {
        &mut self.faults
    }

    fn role(_: &mut World) -> Role {
        Role::Silent
    }

    fn started(_: &mut World, _: ProcId, _: &Program) {}

    /// Wants to hear of the loss of host 1 and 2, leaves an entry in the mailbox, and joins a group.
    fn enrolled(world: &mut World, id: ProcId, tid: Tid) {
        if world.tasks.wants_certificate {
            return ask_for_certificate(world, id);
        }
        if !world.tasks.asks {
            return put_again(world, id, tid);
        }
        let tids: Vec<i32> = (1..=2).map(|index| host(index).host_tid().raw()).collect();
        let subscription = NotifyRequest {
            what: notify::HOST_DELETE,
            cancel: false,
            context: 0,
            tag: LOST,
            count: tids.len() as i32,
            tids,
        };
        world.say(id, &subscription.message(0));
        let entry = Nested::new(&message(Tid::NONE, 0, 0, vec![0, 0, 0, 7]));
        let put = Put { tid, class: "x".into(), index: -1, flags: Flags::MULTI_INSTANCE, message: entry };
        world.say(id, &put.message(1));
        ask_keeper(world, id, Request::Join(name(), true));
    }

    fn heard(world: &mut World, id: ProcId, tid: Tid, message: &Message) {
        let (context, tag) = (message.header.context, message.header.tag);
        let first = BodyReader::new(&message.body).int().unwrap_or(i32::MIN);
        if (context, tag) == (CONTEXT_TM, Certify::TAG) {
            let answer = Certify::decode_answer(&message.body).expect("an answer");
            let answer = answer.map(|certified| certified.certificate).map_err(|error| error.error());
            return world.tasks.certificates.push(answer);
        }
        let told = match (context, tag) {
            (CONTEXT_TM, tag) if tag == Tm::Db.tag() && !world.tasks.asks => {
                return put_again(world, id, tid);
            }
            (CONTEXT_TM, tag) if tag == Tm::Db.tag() => &mut world.tasks.puts,
            (group::CONTEXT, tag::JOIN) => {
                ask_keeper(world, id, Request::Barrier(name(), 3));
                &mut world.tasks.joins
            }
            (group::CONTEXT, tag::BARRIER) => {
                ask_keeper(world, id, Request::GSize(name()));
                &mut world.tasks.barriers
            }
            (group::CONTEXT, tag::GSIZE) => &mut world.tasks.sizes,
            (0, LOST) => &mut world.tasks.lost,
            _ => return,
        };
        told.entry(tid).or_default().push(first);
    }
}

fn formed(seed: u64, hosts: u32, deputies: usize) -> World {
    let capabilities = vec![1000; hosts as usize];
    let setup = Setup { seed, capabilities, deputies, watched_max: 4096, ..Setup::default() };
    let mut world = Machine::new(setup, Told::default());
    world.pass_until_formed(hosts as usize);
    // The deputies are appointed, and have the state.
    world.pass(Duration::from_millis(500));
    world
}

fn enrol(world: &mut World, index: u32) {
    let (id, _) = world.add_process(host(index), None, Role::Task);
    world.later(10..50, Happening::Begin(id));
}

/// The master's host is off, or its daemon has died.
fn lose(world: &mut World, master: HostIndex, is_off: bool) {
    if is_off {
        world.off.insert(master);
    }
    world.vanish(master);
}

fn all_told(world: &World) -> bool {
    world.tasks.sizes.len() == 3 && world.tasks.puts.len() == 3
}

/// Three tasks on hosts 3 to 5 make requests to the master. The master is lost after the first number of steps, its successor after the
/// second number. Returns whether all requests were answered before the first loss.
fn lose_masters(seed: u64, steps: [u32; 2], is_off: bool) -> bool {
    let what = format!("seed {seed}, steps {steps:?}, off: {is_off}");
    let mut world = formed(seed, 5, 3);
    world.tasks.asks = true;
    (3..=5).for_each(|index| enrol(&mut world, index));
    (0..steps[0]).for_each(|_| _ = world.step());
    let is_done = all_told(&world);
    lose(&mut world, host(1), is_off);
    let lost = world.now;
    world.pass_until("there is another master", |world| !world.masters().is_empty());
    assert!(world.now <= lost + SUCCEEDED, "{what}: lost at {lost:?}, succeeded at {:?}", world.now);
    assert_eq!(world.masters(), [host(2)], "{what}");
    // Two of three deputies that are lost at once cannot be made up for.
    world.pass(Duration::from_millis(800));
    (0..steps[1]).for_each(|_| _ = world.step());
    lose(&mut world, host(2), is_off);
    world.pass(Duration::from_secs(20));
    assert!(all_told(&world) && world.masters() == [host(3)], "{what}: {:?}", world.masters());
    world.pass(Duration::from_secs(20));
    check(&world, &what);
    is_done
}

/// Everything was answered once, and nothing is lost.
fn check(world: &World, what: &str) {
    assert!(world.tasks.faults.is_empty(), "{what}: {:?}", world.tasks.faults);
    let once = |told: &BTreeMap<Tid, Vec<i32>>| -> Vec<i32> {
        assert!(told.len() == 3 && told.values().all(|told| told.len() == 1), "{what}: {told:?}");
        let mut values: Vec<i32> = told.values().map(|told| told[0]).collect();
        values.sort_unstable();
        values
    };
    let tasks = &world.tasks;
    assert_eq!(once(&tasks.puts), [0, 1, 2], "{what}: mailbox");
    assert_eq!(once(&tasks.joins), [0, 1, 2], "{what}: instances");
    assert_eq!(once(&tasks.barriers), [3; 3], "{what}: barrier");
    assert_eq!(once(&tasks.sizes), [3; 3], "{what}: size");
    let lost = [host(1), host(2)].map(|host| host.host_tid().raw());
    assert!(
        tasks.lost.len() == 3 && tasks.lost.values().all(|told| *told == lost),
        "{what}: {:?}",
        tasks.lost
    );
    let census = world.hosts[&host(3)].daemon.census();
    assert_eq!((census.mailbox, census.groups), ((3, 0), (1, 0)), "{what}: the master's tables");
    for (index, found) in &world.hosts {
        assert_eq!(found.daemon.members(), [3, 4, 5].map(host), "{what}: members known at {index}");
    }
}

#[test]
fn a_master_may_be_lost_at_any_step() {
    let every_step = |seed: u64| {
        for step in 0.. {
            let is_done = lose_masters(seed, [step, step * 7 % 50], (u64::from(step) + seed) % 2 == 1);
            if is_done {
                return assert!(step > 30, "seed {seed}: {step} steps");
            }
        }
    };
    std::thread::scope(|scope| {
        for seeds in [0..4, 4..8] {
            scope.spawn(move || seeds.for_each(every_step));
        }
    });
}

/// The task on host 3 gets one answer: the certificate, or the error that the master was lost. From the next master it gets one.
#[test]
fn a_master_may_be_lost_at_any_step_of_signing_a_certificate() {
    let (mut signed, mut failed) = (0, 0);
    for steps in 0..60_u32 {
        let mut world = formed(u64::from(steps), 3, 3);
        world.tasks.wants_certificate = true;
        enrol(&mut world, 3);
        (0..steps).for_each(|_| _ = world.step());
        lose(&mut world, host(1), steps % 2 == 0);
        world.pass(Duration::from_secs(20));
        assert!(
            world.tasks.faults.is_empty() && world.masters() == [host(2)],
            "{steps}: {:?}",
            world.tasks.faults
        );
        match &world.tasks.certificates[..] {
            [Ok(key)] if *key == [7; 91] => signed += 1,
            [Err(PvmError::HostFail)] => failed += 1,
            other => panic!("{steps} steps: {other:?}"),
        }
        enrol(&mut world, 3);
        world.pass(Duration::from_secs(1));
        assert!(matches!(&world.tasks.certificates[..], [_, Ok(_)]), "{steps} steps: the next master signs");
    }
    assert!(signed > 0 && failed > 0, "{signed} were signed, {failed} not");
}

/// A deputy ends; the next one is appointed, and has ended, too, before it hears of that.
#[test]
fn a_master_goes_on_alone_when_all_daemons_that_were_to_be_deputies_have_ended() {
    for seed in 0..200 {
        let mut world = formed(seed, 4, 3);
        for ended in [3, 4, 2] {
            lose(&mut world, host(ended), false);
            world.pass(Duration::from_millis(seed % 10 * 20));
        }
        world.pass(Duration::from_secs(20));
        assert_eq!(world.masters(), [host(1)], "seed {seed}");
        assert_eq!(world.hosts[&host(1)].daemon.members(), [host(1)], "seed {seed}");
    }
}

/// The deputies that the master deletes are told to end before there are others.
#[test]
fn a_master_that_deletes_a_majority_of_the_deputies_at_once_stays() {
    for (hosts, deputies, deleted) in
        [(2, 3, vec![2]), (3, 3, vec![2, 3]), (5, 5, vec![3, 4, 5]), (5, 5, vec![2, 3, 4])]
    {
        for seed in 0..40 {
            let mut world = formed(seed, hosts, deputies);
            let (id, _) = world.add_process(host(1), None, Role::Task);
            world.later(10..50, Happening::Begin(id));
            world.pass(Duration::from_millis(100));
            let names = deleted.iter().map(|index| format!("node{index}")).collect();
            world.say(id, &DeleteHosts { names }.message(1));
            world.pass(Duration::from_secs(20));
            let left: Vec<HostIndex> =
                (1..=hosts).filter(|index| !deleted.contains(index)).map(host).collect();
            assert_eq!(world.masters(), [host(1)], "seed {seed}: {deleted:?} of {hosts}");
            assert_eq!(world.hosts[&host(1)].daemon.members(), left, "seed {seed}");
            assert_eq!(world.hosts.keys().copied().collect::<Vec<_>>(), left, "seed {seed}: the others end");
        }
    }
}

#[test]
fn of_two_hosts_the_other_succeeds_a_daemon_that_has_ended_and_no_other() {
    for (is_off, left) in [(false, vec![host(2)]), (true, vec![])] {
        let mut world = formed(3, 2, 3);
        lose(&mut world, host(1), is_off);
        world.pass(Duration::from_secs(20));
        assert_eq!(world.masters(), left, "off: {is_off}");
        assert_eq!(world.hosts.keys().copied().collect::<Vec<_>>(), left, "the rest has ended");
    }
    // The other way round, the master goes on alone.
    for is_off in [false, true] {
        let mut world = formed(4, 2, 3);
        lose(&mut world, host(2), is_off);
        world.pass(Duration::from_secs(20));
        assert_eq!(world.masters(), [host(1)]);
        assert_eq!(world.hosts[&host(1)].daemon.members(), [host(1)]);
    }
}

#[test]
fn at_most_one_side_of_a_partition_has_a_master() {
    for seed in 0..40 {
        let mut world = formed(seed, 5, 3);
        // The master and some others on one side.
        let here: Vec<HostIndex> =
            (1..=5).map(host).filter(|h| h.get() == 1 || (seed >> h.get()) & 1 == 1).collect();
        let there: Vec<HostIndex> = (1..=5).map(host).filter(|h| !here.contains(h)).collect();
        for (&a, &b) in here.iter().flat_map(|a| there.iter().map(move |b| (a, b))) {
            world.cut(a, b, Duration::from_secs(60));
            world.cut(b, a, Duration::from_secs(60));
            world.net.part(a, b);
        }
        world.pass(Duration::from_secs(20));
        let deputies_here = here.iter().filter(|h| h.get() <= 3).count();
        let (master, side) = if deputies_here >= 2 { (host(1), here) } else { (host(2), there) };
        assert_eq!(world.masters(), [master], "seed {seed}");
        assert_eq!(
            world.hosts.keys().copied().collect::<Vec<_>>(),
            side,
            "seed {seed}: the other side has ended"
        );
    }
}

#[test]
fn a_log_that_is_long_ends_with_its_configuration() {
    let mut world = formed(1, 3, 3);
    world.tasks.puts_left = 10_000;
    enrol(&mut world, 3);
    world.pass_until("all entries were left", |world| world.tasks.puts_left == 0);
    world.pass(Duration::from_millis(100));
    let state = world.hosts[&host(2)].daemon.dump();
    assert!(state.contains("deputies: hosts 1, 2, 3 (configuration 4)"), "{state}");
    lose(&mut world, host(1), true);
    world.pass(SUCCEEDED);
    assert_eq!(world.masters(), [host(2)]);
    assert_eq!(world.hosts[&host(2)].daemon.census().mailbox, (1, 0));
}

#[test]
fn a_machine_with_one_deputy_ends_with_its_master() {
    let mut world = formed(1, 4, 1);
    lose(&mut world, host(1), false);
    world.pass(Duration::from_secs(10));
    assert!(world.hosts.is_empty(), "{:?}", world.hosts.keys());
}

/// What each host has heard since this was asked last: the most of one that was no deputy.
fn heard(world: &mut World, deputies: u32) -> u64 {
    let heard = std::mem::take(&mut world.heard);
    heard.iter().filter(|(host, _)| host.get() > deputies).map(|(_, heard)| heard.messages).max().unwrap_or(0)
}

#[test]
fn three_masters_of_a_thousand_hosts_are_succeeded_one_after_the_other() {
    let mut world = formed(1, 1000, 3);
    heard(&mut world, 0);
    for index in 1..=3 {
        assert_eq!(world.masters(), [host(index)]);
        lose(&mut world, host(index), index % 2 == 0);
        let lost = world.now;
        world.pass_until("there is another master", |world| !world.masters().is_empty());
        assert!(world.now <= lost + SUCCEEDED, "lost at {lost:?}, succeeded at {:?}", world.now);
        world.pass(Duration::from_secs(20));
        assert_eq!(world.hosts.len(), 1000 - index as usize, "no other host is lost");
        // The master, what was said and not heard before, the deputies twice, and the loss.
        let most = heard(&mut world, 6);
        assert!(most <= 16, "a host hears {most} messages");
    }
    world.pass(Duration::from_secs(600));
    let idle = heard(&mut world, 0);
    assert_eq!(idle, 0, "an idle machine says nothing");
}
