//! What other daemons say: anything that their certificates let through.

use crate::cursor::Cursor;
use bytes::Bytes;
use pvm_wire::HostIndex;
use pvm_wire::daemon::{DaemonMsg, FromMaster, HostEntry, HostTable};
use pvmd_core::event::Event;
use pvmd_simulated::daemon::Daemon;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

fn entry(index: HostIndex) -> HostEntry {
    HostEntry {
        index,
        name: format!("node{index}"),
        arch: "LINUX64".into(),
        speed: 1000,
        capability: 1000.0,
        task_limit: 100,
        signature: 0x0408_8841,
        cluster: None,
        address: Some(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 7)),
    }
}

/// Makes host 2 and host 3 members of its machine, in its own eyes.
fn joined(core: &mut Daemon, hosts: &[HostIndex]) {
    if let Some(&other) = hosts.last() {
        core.handle(Event::PeerLinked { host: other }, Duration::ZERO);
    }
    let all = [&[HostIndex::MASTER], hosts].concat();
    let orders = [
        FromMaster::TableUpdate {
            serial: 1,
            members: HostTable::default(),
            added: HostTable::of(&all.iter().map(|&host| entry(host)).collect::<Vec<_>>()).expect("a table"),
            moved: vec![(HostIndex::MASTER.task(1), HostIndex::MASTER)],
        },
        FromMaster::TableCommit { serial: 1 },
    ];
    for (number, what) in (1..).zip(orders) {
        let message = DaemonMsg::FromMaster { number, heard: 0, what };
        core.handle(Event::PeerMessage { host: HostIndex::MASTER, message }, Duration::ZERO);
    }
}

/// A slave with two peers, which say what the bytes say.
pub fn read(bytes: &[u8]) {
    let Some([own, other]) = HostIndex::new(2).zip(HostIndex::new(3)).map(|(a, b)| [a, b]) else { return };
    let mut core = crate::daemon(own);
    core.handle(Event::PeerLinked { host: HostIndex::MASTER }, Duration::ZERO);
    joined(&mut core, &[own, other]);
    let (mut cursor, mut now) = (Cursor(bytes), Duration::ZERO);
    while let Some(what) = cursor.byte() {
        let host = if what % 2 == 0 { HostIndex::MASTER } else { other };
        let length = usize::from(cursor.byte().unwrap_or(0));
        match (what >> 1) % 16 {
            0 => drop(core.handle(Event::PeerLinked { host }, now)),
            1 => drop(core.handle(Event::PeerLost { host, reason: String::new(), has_ended: false }, now)),
            2 => {
                now += Duration::from_millis(length as u64 * 20);
                core.handle_timeout(now);
            }
            _ => {
                if let Ok(message) = DaemonMsg::decode_frame(&Bytes::copy_from_slice(cursor.piece(length))) {
                    core.handle(Event::PeerMessage { host, message }, now);
                }
            }
        }
    }
}
