//! What processes write to the daemon's socket: fragments of any kind, before and after they have enrolled.

use crate::cursor::Cursor;
use bytes::Bytes;
use pvm_wire::calls::Request;
use pvm_wire::calls::enrolment::Conn2;
use pvm_wire::codes::{CONTEXT_TM, EXTENSION_VERSION};
use pvm_wire::encoding::XDR_WORD;
use pvm_wire::header::{EOM, SOM};
use pvm_wire::{FragmentHeader, HostIndex, MessageHeader, Tid};
use pvmd_core::event::{ConnId, Event};
use pvmd_simulated::daemon::Daemon;
use pvmd_simulated::process::{connect, introduction};
use std::time::Duration;

/// The first request, from which the others are counted.
const FIRST: u32 = 0x8001_0001;

struct Node {
    core: Daemon,
    now: Duration,
}

impl Node {
    fn feed(&mut self, event: Event) {
        self.core.handle(event, self.now);
    }

    /// A message in one fragment.
    fn say(&mut self, conn: ConnId, dst: Tid, header: MessageHeader, body: &[u8]) {
        let data: Bytes = [&header.encode()[..], body].concat().into();
        let header = FragmentHeader { dst, src: Tid::ANY, length: data.len() as u32, flags: SOM | EOM };
        self.feed(Event::Fragment { conn, header, data });
    }

    fn ask<R: Request>(&mut self, conn: ConnId, request: &R) {
        self.request(conn, R::TAG, &request.encode());
    }

    fn request(&mut self, conn: ConnId, tag: i32, body: &[u8]) {
        let header = MessageHeader {
            encoding: XDR_WORD,
            tag,
            context: CONTEXT_TM,
            wait_id: 1,
            ..MessageHeader::default()
        };
        self.say(conn, Tid::MY_DAEMON, header, body);
    }

    fn enrol(&mut self, conn: ConnId) {
        let extension = conn.0.is_multiple_of(2).then_some(EXTENSION_VERSION);
        self.ask(conn, &connect(extension));
        self.feed(Event::AuthOpened { conn, result: Ok("/tmp/d".into()) });
        let pid = 1000 + conn.0 as i32;
        self.ask(conn, &Conn2 { process: introduction(pid, 0) });
        self.feed(Event::AuthChecked { conn, proven: true });
    }
}

/// Two tasks, one of either library, and a stranger; the bytes say who does what.
pub fn read(bytes: &[u8]) {
    let mut cursor = Cursor(bytes);
    let mut daemon = Node { core: crate::daemon(HostIndex::MASTER), now: Duration::ZERO };
    let conns = [ConnId(1), ConnId(2), ConnId(3)];
    for conn in conns {
        daemon.feed(Event::TaskConnected { conn });
    }
    daemon.enrol(conns[0]);
    daemon.enrol(conns[1]);
    while let Some(what) = cursor.byte() {
        let conn = conns[usize::from(what >> 4) % conns.len()];
        match what % 8 {
            0..=2 => {
                let (tag, length) = (cursor.byte().unwrap_or(0), cursor.byte().unwrap_or(0));
                daemon.request(conn, (FIRST + u32::from(tag % 64)) as i32, cursor.piece(usize::from(length)));
            }
            3 => {
                let dst = Tid::from_bits(cursor.word());
                let mut header = [0; MessageHeader::SIZE];
                let given = cursor.piece(MessageHeader::SIZE);
                header[..given.len()].copy_from_slice(given);
                let length = usize::from(cursor.byte().unwrap_or(0));
                daemon.say(conn, dst, MessageHeader::decode(&header), cursor.piece(length));
            }
            4 => {
                let (dst, src, flags) = (cursor.word(), cursor.word(), cursor.word());
                let data = Bytes::copy_from_slice(cursor.piece(usize::from(what)));
                let [dst, src] = [dst, src].map(Tid::from_bits);
                let header = FragmentHeader { dst, src, length: data.len() as u32, flags: flags as u8 };
                daemon.feed(Event::Fragment { conn, header, data });
            }
            5 => {
                daemon.now += Duration::from_millis(u64::from(what) * 100);
                daemon.core.handle_timeout(daemon.now);
            }
            6 => daemon.feed(Event::TaskDrained { conn, bytes: usize::from(what) * 64 }),
            _ => {
                daemon.feed(Event::TaskClosed { conn, reason: None });
                daemon.feed(Event::TaskConnected { conn });
                daemon.enrol(conn);
            }
        }
    }
}
