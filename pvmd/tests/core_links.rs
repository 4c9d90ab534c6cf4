//! Links between daemons: whose messages count.

mod recorder;

use pvm_wire::daemon::{Blob, DaemonMsg, HostEntry};
use pvm_wire::header::{EOM, SOM};
use pvm_wire::{HostIndex, MessageHeader, Tid};
use pvmd::core::event::{Action, Event};
use recorder::{Recorder, config, host};

fn entry(index: u32) -> HostEntry {
    let recorder::StartedHost { arch, signature, capability, address } = recorder::started_host();
    let address = (index > 1).then_some(address);
    let name = format!("node{index}");
    HostEntry { index: host(index), name, arch, speed: 1000, capability, signature, address }
}

/// Host 2 of three.
fn slave() -> Recorder {
    let mut r = Recorder::with(config(host(2)));
    r.feed(Event::PeerLinked { host: HostIndex::MASTER });
    r.feed(Event::PeerLinked { host: host(3) });
    for message in [
        DaemonMsg::TableUpdate { serial: 1, hosts: (1..=3).map(entry).collect() },
        DaemonMsg::TableCommit { serial: 1, added: vec![host(2), host(3)] },
    ] {
        r.feed(Event::PeerMessage { host: HostIndex::MASTER, message });
    }
    while r.pending() {
        assert!(matches!(r.told(), DaemonMsg::TableAck { .. }));
    }
    r
}

fn hear(r: &mut Recorder, from: HostIndex, to: Tid) {
    let header = MessageHeader { tag: 5, ..MessageHeader::default() };
    let data = Blob(header.encode().to_vec().into());
    let message = DaemonMsg::Data { src: from.task(1), dsts: vec![to], flags: SOM | EOM, data };
    r.feed(Event::PeerMessage { host: from, message });
}

#[test]
fn a_host_that_is_out_is_not_heard_again() {
    let mut r = slave();
    let (_, task) = r.enrol(100, 0);
    hear(&mut r, host(3), task.tid);
    assert_eq!(r.message().1.src, host(3).task(1));

    let gone = DaemonMsg::HostGone { host: host(3), reason: "deleted".into() };
    r.feed(Event::PeerMessage { host: HostIndex::MASTER, message: gone });
    assert!(matches!(r.next(), Action::Unlink { host: h } if h == host(3)));
    // It still has its certificate, and calls again.
    r.feed(Event::PeerLinked { host: host(3) });
    hear(&mut r, host(3), task.tid);
    r.nothing_else();
}

#[test]
fn a_newcomer_is_heard_from_the_moment_it_is_announced() {
    let mut r = slave();
    let (_, task) = r.enrol(100, 0);
    r.feed(Event::PeerLinked { host: host(4) });
    hear(&mut r, host(4), task.tid);
    r.nothing_else();
    let update = DaemonMsg::TableUpdate { serial: 2, hosts: (1..=4).map(entry).collect() };
    r.feed(Event::PeerMessage { host: HostIndex::MASTER, message: update });
    assert!(matches!(r.told(), DaemonMsg::TableAck { .. }));
    // Others may hear of its membership first, and it from them.
    hear(&mut r, host(4), task.tid);
    assert_eq!(r.message().1.src, host(4).task(1));
}
