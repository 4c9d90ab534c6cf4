//! The core alone: batches whose manager dies at a bad moment.

use pvm_wire::batch::BatchMsg;
use pvm_wire::codes::{BATCH_TAG, Tm};
use pvm_wire::daemon::{FromMaster, HostEntry, HostTable, ToMaster};
use pvm_wire::spawn::{SpawnRequest, flags};
use pvm_wire::{HostIndex, Tid};
use pvmd_core::event::{ConnId, Event};
use pvmd_simulated::daemon::config;
use pvmd_simulated::recorder::{Recorder, anywhere, entry, host};

fn decide(r: &mut Recorder, manager: ConnId, dst: Tid, message: &BatchMsg) {
    r.say(manager, dst, BATCH_TAG, 0, &message.encode().expect("a body"));
}

fn heard(r: &mut Recorder) -> BatchMsg {
    BatchMsg::decode(&r.message().1.body).expect("a batch message")
}

#[test]
fn nodes_hear_that_a_batch_is_done_though_its_manager_dies_before_it_says_so() {
    let own = HostIndex::MASTER;
    let (mut r, spawner, _) = Recorder::with_task();
    r.ask(spawner, &anywhere(1));
    let (manager, cookie) = r.start_manager();
    let BatchMsg::Place { batch, count: 1, own: Some(asks), .. } = heard(&mut r) else {
        panic!("not a batch")
    };
    assert_eq!(
        (asks.p_c, asks.n_a),
        (1, asks.p as i64 - 1),
        "the spawner runs, and the manager does not count"
    );

    decide(&mut r, manager, own.daemon(), &BatchMsg::Grant { batch, host: own, n: 1, terms: None });
    let cookies = r.starts();
    r.started(cookies[0], 400);
    assert_eq!(r.core.census().open_batches, 1);

    r.feed(Event::TaskClosed { conn: manager, reason: None });
    r.ended(cookie, 0);
    assert_eq!(r.core.census().open_batches, 0, "nobody is left to say that there are no tasks");
    assert_eq!(r.core.census().spawns, 0);
}

#[test]
fn what_no_limit_allows_takes_the_places_of_what_has_ended() {
    let own = HostIndex::MASTER;
    let (mut r, spawner, _) = Recorder::with_task();
    r.ask(spawner, &anywhere(5));
    let (manager, _) = r.start_manager();
    let BatchMsg::Place { batch, count: 5, .. } = heard(&mut r) else { panic!("not a batch") };

    decide(&mut r, manager, own.daemon(), &BatchMsg::Grant { batch, host: own, n: 2, terms: None });
    let given = r.starts();
    decide(&mut r, manager, own.daemon(), &BatchMsg::NoNodes { batch });
    decide(&mut r, manager, own.daemon(), &BatchMsg::TasksNo { batch });
    r.nothing_else();
    for (pid, &cookie) in (400..).zip(&given) {
        r.nothing_else();
        r.started(cookie, pid);
    }
    let rest = r.starts();
    assert_eq!((given.len(), rest.len()), (2, 3));
    for (pid, &cookie) in (500..).zip(&rest) {
        r.started(cookie, pid);
    }
    let answer = r.answer(spawner, Tm::Spawn);
    assert!(answer[0] == 5 && answer[1..].iter().all(|&tid| tid > 0), "{answer:?}");
}

#[test]
fn a_home_that_is_no_node_asks_for_nothing_and_a_full_one_declines() {
    let place = |r: &mut Recorder, spawner, spawn: &SpawnRequest| {
        r.ask(spawner, spawn);
        let (manager, _) = r.start_manager();
        (manager, heard(r))
    };
    let spawn = anywhere(5);
    let (mut r, spawner, _) = Recorder::with_host();
    let elsewhere =
        SpawnRequest { flags: flags::HOST | flags::HOST_COMPLEMENT, place: ".".into(), ..spawn.clone() };
    let (_, placed) = place(&mut r, spawner, &elsewhere);
    let BatchMsg::Place { nodes, own: None, .. } = placed else { panic!("{placed:?}") };
    assert_eq!(nodes.iter().map(|node| node.host).collect::<Vec<_>>(), [host(2)]);
    assert_eq!(r.core.census().open_batches, 0);

    let mut r = Recorder::master();
    let spawners: Vec<_> = (200..204).map(|pid| r.enrol(pid, 0).0).collect();
    let (manager, placed) = place(&mut r, spawners[0], &spawn);
    let BatchMsg::Place { batch, own: Some(asks), .. } = placed else { panic!("{placed:?}") };
    assert_eq!((asks.p, asks.p_c, asks.n_a), (4, 4, 0));
    // It looks again like any node that was told.
    r.feed(Event::TaskClosed { conn: spawners[1], reason: None });
    let BatchMsg::Apply { n_a: 1, .. } = heard(&mut r) else { panic!("not an application") };
    decide(&mut r, manager, HostIndex::MASTER.daemon(), &BatchMsg::TasksNo { batch });
    assert_eq!(r.core.census().open_batches, 0);
}

#[test]
fn each_node_is_given_no_more_than_its_own_limit() {
    let mut r = Recorder::with(config(host(2)));
    r.feed(Event::PeerLinked { host: HostIndex::MASTER });
    let limited = |index| HostEntry { task_limit: 10 * index, ..entry(index) };
    let tables = [1..=1, 2..=3].map(|hosts| HostTable::of(&hosts.map(limited).collect::<Vec<_>>()).unwrap());
    let [members, added] = tables;
    let table = [
        FromMaster::TableUpdate { serial: 1, members, added, moved: Vec::new() },
        FromMaster::TableCommit { serial: 1 },
    ];
    for message in table {
        r.order(message);
    }
    while r.pending() {
        assert!(matches!(r.asked_master(), ToMaster::TableAck { .. }));
    }
    let (spawner, _) = r.enrol(200, 0);
    r.ask(spawner, &anywhere(60));
    r.start_manager();
    let BatchMsg::Place { nodes, own: Some(_), .. } = heard(&mut r) else { panic!("not a batch") };
    let limits: Vec<_> = nodes.iter().map(|node| (node.host, node.limit)).collect();
    assert_eq!(limits, [(host(1), 10), (host(2), 20), (host(3), 30)]);
}

/// What is handed to a host that is no candidate any more comes back at once, and the manager hears why: else a policy that divides at once
/// would hand it to the same host for ever.
#[test]
fn a_manager_hears_that_a_host_is_no_candidate_any_more() {
    let mut r = Recorder::slave();
    let (spawner, _) = r.enrol(200, 0);
    let policy = "proportional".to_owned();
    r.ask(spawner, &SpawnRequest { policy, ..anywhere(4) });
    let (manager, _) = r.start_manager();
    let BatchMsg::Place { batch, count: 4, .. } = heard(&mut r) else { panic!("not a batch") };
    r.feed(Event::PeerLinked { host: host(3) });
    r.feed(Event::PeerLost { host: host(3), reason: "a cable".into(), has_ended: false });
    let gone = BatchMsg::NodeGone { batch, host: host(3) };
    assert_eq!(heard(&mut r), gone);
    assert!(matches!(r.asked_master(), ToMaster::LinkLost { .. }));
    decide(&mut r, manager, host(2).daemon(), &BatchMsg::Grant { batch, host: host(3), n: 2, terms: None });
    assert_eq!(heard(&mut r), gone);
    assert_eq!(heard(&mut r), BatchMsg::More { batch, count: 2 });
    r.nothing_else();
}
