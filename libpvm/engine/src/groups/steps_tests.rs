//! How many message steps the collective calls take: the calls themselves, by up to 512 members, each a thread of this
//! test with a clock that counts steps.
//!
//! Sending takes a member one step, and so does receiving; what it receives it has one step after it was sent at the
//! earliest. The clock that is furthest at the end tells how many steps the call takes.

use super::port::{Port, Until};
use super::{Client, Elements, Groups, Operand, Part};
use crate::{Error, Result};
use pvm_shm::{Mapping, Segment};
use pvm_wire::body::BodyWriter;
use pvm_wire::calls::mailbox::{Found, Get};
use pvm_wire::calls::nested::Nested;
use pvm_wire::calls::{Answer, Call, Request as _};
use pvm_wire::group::{CLASS, Request, Settler, View, keeper};
use pvm_wire::spawn::SpawnRequest;
use pvm_wire::{Encoding, Message, PvmError, Tid};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Longest that a member waits before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Messages for one member, and the step in which each was sent.
#[derive(Default)]
struct Queue {
    messages: Mutex<VecDeque<(u64, Message)>>,
    come: Condvar,
}

struct Member {
    tid: Tid,
    clock: u64,
    queues: Arc<Vec<Queue>>,
    /// Requests to the keeper; the first call fetches a view, later ones know it.
    asked: usize,
    segment: Segment,
}

/// Each member is alone on its host.
fn tid(rank: usize) -> Tid {
    Tid::from_raw((rank as i32 + 2) << 18 | 1)
}

fn rank_of(tid: Tid) -> usize {
    (tid.raw() >> 18) as usize - 2
}

impl Member {
    fn deliver(&self, to: Tid, src: Tid, sent: u64, tag: i32, body: Vec<u8>) {
        let queue = &self.queues[rank_of(to)];
        let message = Message { src, dst: to, header: super::header(tag), body: body.into() };
        queue.messages.lock().unwrap().push_back((sent, message));
        queue.come.notify_all();
    }

    /// The keeper of a group in which nothing changes.
    fn keep(&mut self, tag: i32, body: &[u8]) {
        self.asked += 1;
        let answer = match Request::decode(tag, body) {
            Request::View(..) => {
                let all = 0..self.queues.len();
                let members = all.clone().map(|rank| (rank as i32, tid(rank))).collect();
                let settlers = all.map(|rank| Settler { tid: tid(rank), lost: false }).collect();
                View {
                    members,
                    settlers,
                    epoch: 1,
                    settled: 1,
                    ours: true,
                    barriers: true,
                    ..View::default()
                }
                .encode()
            }
            other => panic!("no member asks for {other:?}"),
        };
        self.deliver(self.tid, keeper(), self.clock + 1, tag, answer);
    }
}

impl Port for Member {
    fn tid(&mut self) -> Result<Tid> {
        Ok(self.tid)
    }

    fn daemon_is_ours(&mut self) -> Result<bool> {
        Ok(true)
    }

    /// The mailbox, which says where the keeper is.
    fn answer<C: Call>(&mut self, call: &C) -> Result<Answer<C>> {
        assert_eq!(Get::decode(&call.encode())?.class, CLASS);
        let body = BodyWriter::new().int(keeper().raw()).finish().into();
        let message = Nested::new(&Message { body, ..Message::default() });
        Ok(C::decode_answer(&Get::encode_reply(&Found { index: 0, message }))?)
    }

    fn spawn(&mut self, _request: SpawnRequest) -> Result<Vec<i32>> {
        Err(PvmError::NotImpl.into())
    }

    fn send(&mut self, to: Tid, tag: i32, body: &[u8]) -> Result<()> {
        self.clock += 1;
        if to == keeper() {
            self.keep(tag, body);
        } else {
            self.deliver(to, self.tid, self.clock, tag, body.to_vec());
        }
        Ok(())
    }

    fn with_ledger(&mut self, body: impl FnOnce(&Mapping) -> bool) -> bool {
        body(self.segment.mapping())
    }

    fn send_encoded(&mut self, to: Tid, tag: i32, _encoding: Encoding, parts: [&[u8]; 2]) -> Result<()> {
        self.send(to, tag, &parts.concat())
    }

    fn wait(&mut self, until: Until, wanted: &mut dyn FnMut(&Message) -> bool) -> Result<Option<Message>> {
        let queues = Arc::clone(&self.queues);
        let queue = &queues[rank_of(self.tid)];
        let mut messages = queue.messages.lock().unwrap();
        loop {
            if let Some(index) = messages.iter().position(|(_, message)| wanted(message)) {
                let (sent, message) = messages.remove(index).unwrap();
                self.clock = self.clock.max(sent) + 1;
                return Ok(Some(message));
            }
            if until == Until::Now {
                return Ok(None);
            }
            let (guard, waited) = queue.come.wait_timeout(messages, PATIENCE).unwrap();
            if waited.timed_out() {
                return Err(Error::new(PvmError::SysErr, "nobody speaks"));
            }
            messages = guard;
        }
    }
}

/// Has all members make a call twice, and gives the steps of the second, when all know the group.
fn steps(size: usize, call: impl Fn(usize, &mut Client<'_, Member>) + Sync) -> u64 {
    let queues: Arc<Vec<Queue>> = Arc::new((0..size).map(|_| Queue::default()).collect());
    let run = |rank: usize| {
        let segment = Segment::new(4096).unwrap();
        let mut member = Member { tid: tid(rank), clock: 0, queues: Arc::clone(&queues), asked: 0, segment };
        let mut groups = Groups::default();
        call(rank, &mut Client::new(&mut member, &mut groups, None));
        (member.clock, member.asked) = (0, 0);
        // So that nobody hears in the second call what was sent in the first.
        (member, groups)
    };
    let call = &call;
    let all: Vec<(Member, Groups)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..size).map(|rank| small_thread(scope, move || run(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    std::thread::scope(|scope| {
        let again = |(mut member, mut groups): (Member, Groups), rank| {
            call(rank, &mut Client::new(&mut member, &mut groups, None));
            assert_eq!(member.asked, 0, "the keeper is not asked");
            member.clock
        };
        let threads: Vec<_> = all
            .into_iter()
            .enumerate()
            .map(|(rank, member)| small_thread(scope, move || again(member, rank)))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).max().unwrap_or(0)
    })
}

fn small_thread<'scope, T: Send + 'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    body: impl FnOnce() -> T + Send + 'scope,
) -> std::thread::ScopedJoinHandle<'scope, T> {
    std::thread::Builder::new().stack_size(256 * 1024).spawn_scoped(scope, body).unwrap()
}

/// One number per member; together they are added.
struct Number(i32);

impl Operand for Number {
    fn pack(&self, encoding: Encoding) -> Result<Elements<'_>> {
        assert_eq!(encoding, Encoding::Xdr, "for another host");
        Ok(BodyWriter::new().int(self.0).finish().into())
    }

    fn fold(&mut self, other: Part<'_>) -> Result<()> {
        self.0 += i32::from_be_bytes(other.data.try_into().unwrap());
        Ok(())
    }

    fn replace(&mut self, _other: Part<'_>) -> Result<()> {
        Err(PvmError::NotImpl.into())
    }
}

/// The logarithm to base 2, rounded up.
fn log2_up(size: usize) -> u64 {
    u64::from(size.next_power_of_two().trailing_zeros())
}

const SIZES: [usize; 13] = [2, 3, 4, 7, 8, 16, 31, 64, 100, 128, 256, 511, 512];

#[test]
fn the_steps_of_a_barrier_grow_with_the_logarithm() {
    for size in SIZES {
        let steps = steps(size, |_, client| client.barrier(OsStr::new("g"), -1).unwrap());
        // To send and to receive in each round.
        let most = 2 * log2_up(size) + 1;
        assert!(steps <= most, "{size} members: {steps} steps, more than {most}");
    }
}

#[test]
fn the_steps_of_a_reduction_grow_with_the_logarithm() {
    for size in SIZES {
        let root = size / 3;
        let steps = steps(size, |rank, client| {
            let mut number = Number(rank as i32);
            client.reduce(OsStr::new("g"), 5, root as i32, &mut number).unwrap();
            let all = (0..size as i32).sum::<i32>();
            assert!(rank != root || number.0 == all, "{} is not {all}", number.0);
        });
        let most = 2 * log2_up(size) + 2;
        assert!(steps <= most, "{size} members: {steps} steps, more than {most}");
    }
}
