//! What members of groups and the keeper of groups say to each other.
//!
//! The requests are those of PVM 3.4's group server, so that its library can talk to this system's keeper and this
//! system's library to the original server. Beyond them stand [`Request::View`], which only this system's library sends, and
//! [`Request::Passed`], which it and this system's daemons send, both only to this system's keeper: by them members agree on barriers
//! among themselves, also when the group changes.

use crate::body::{BodyError, BodyReader, BodyWriter};
use crate::tid::{HostIndex, LOCAL_MAX, Tid};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;

/// The context of all of it.
pub const CONTEXT: i32 = 0x7fffc;
/// The mailbox class under which the server's tid is found.
pub const CLASS: &str = "pvmgs";

/// The task id under which the master's daemon keeps the groups. No task ever has it.
pub fn keeper() -> Tid {
    HostIndex::MASTER.task(LOCAL_MAX)
}

/// Tags of requests, and of their answers.
pub mod tag {
    /// Ends the original's server.
    pub const DIE: i32 = 0;
    /// Joins a group.
    pub const JOIN: i32 = 1;
    /// Leaves a group.
    pub const LEAVE: i32 = 2;
    /// Arrives at a barrier.
    pub const BARRIER: i32 = 3;
    /// Lists the members, whatever their instances.
    pub const BCAST: i32 = 4;
    /// The instance of a task.
    pub const GETINST: i32 = 5;
    /// The task of an instance.
    pub const GETTID: i32 = 6;
    /// Number of members.
    pub const GSIZE: i32 = 7;
    /// Writes all groups to the server's log.
    pub const DUMP: i32 = 9;
    /// Lists all groups.
    pub const GSLS: i32 = 10;
    /// Lists the members by instance; there must be no gap.
    pub const TIDLIST: i32 = 12;
    /// Arrives where a group becomes static.
    pub const STATIC: i32 = 13;
    /// Members on one host.
    pub const HOSTCHAR: i32 = 14;
    /// Members on all hosts.
    pub const HOSTCHARV: i32 = 15;
    /// Arrives at a barrier with all members of a host.
    pub const BARRIERV: i32 = 16;
    /// Those of this system stand where no program's tag can be.
    const OURS: i32 = 0x8006_0000_u32 as i32;
    /// Asks for a view of the group.
    pub const VIEW: i32 = OURS;
    /// Tells how many barriers a member has passed.
    pub const PASSED: i32 = OURS + 1;
    /// The keeper tells that a view is out of date.
    pub const CHANGED: i32 = OURS + 2;
    /// Between members: the sender has arrived at a barrier, with others for which it speaks.
    pub const ARRIVED: i32 = OURS + 3;
    /// Between members: the barrier is complete.
    pub const RELEASED: i32 = OURS + 4;
    /// Between members: what is below the sender in the tree, reduced.
    pub const REDUCED: i32 = OURS + 5;
    /// Between members: the sender's part of what the receiver gathers.
    pub const GATHERED: i32 = OURS + 6;
    /// Between members: the receiver's part of what the sender scatters.
    pub const SCATTERED: i32 = OURS + 7;
    /// Between members: something has happened at the gate where they meet.
    pub const MOVED: i32 = OURS + 8;
}

/// What follows the first number of most answers.
pub mod state {
    /// The group is static, and its description follows.
    pub const STATIC: i32 = 1;
    /// Members come and go.
    pub const DYNAMIC: i32 = 2;
    /// It was static and has lost a member.
    pub const DEAD: i32 = 3;
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Join; the flag says that the member's library is this system's.
    Join(&'a OsStr, bool),
    /// Leave.
    Leave(&'a OsStr),
    /// Arrive at a barrier; how many it waits for.
    Barrier(&'a OsStr, i32),
    /// The members.
    Bcast(&'a OsStr),
    /// The instance of a task.
    GetInst(&'a OsStr, Tid),
    /// The task of an instance.
    GetTid(&'a OsStr, i32),
    /// Number of members.
    GSize(&'a OsStr),
    /// Write all groups to the log.
    Dump,
    /// All groups.
    List,
    /// The members, without gap.
    TidList(&'a OsStr),
    /// Arrive where the group becomes static.
    Static(&'a OsStr, i32),
    /// Members on a host.
    HostChar(&'a OsStr, Tid),
    /// Members on every host.
    HostCharV(&'a OsStr),
    /// Arrive at a barrier with all members of the host.
    BarrierV(&'a OsStr, i32),
    /// A [`View`]; the flag says that the member's daemon can read how many barriers it passes, and stop it.
    View(&'a OsStr, bool),
    /// The member passes no barrier in a view from before the last change; what it has passed in the group with this key.
    Passed(Key, Option<Passed>),
    /// Not one of these, or one that is not heeded.
    Other,
}

impl<'a> Request<'a> {
    /// The tag to send it with.
    pub fn tag(&self) -> i32 {
        match self {
            Self::Join(..) => tag::JOIN,
            Self::Leave(_) => tag::LEAVE,
            Self::Barrier(..) => tag::BARRIER,
            Self::Bcast(_) => tag::BCAST,
            Self::GetInst(..) => tag::GETINST,
            Self::GetTid(..) => tag::GETTID,
            Self::GSize(_) => tag::GSIZE,
            Self::Dump => tag::DUMP,
            Self::List => tag::GSLS,
            Self::TidList(_) => tag::TIDLIST,
            Self::Static(..) => tag::STATIC,
            Self::HostChar(..) => tag::HOSTCHAR,
            Self::HostCharV(_) => tag::HOSTCHARV,
            Self::BarrierV(..) => tag::BARRIERV,
            Self::View(..) => tag::VIEW,
            Self::Passed(..) => tag::PASSED,
            Self::Other => tag::DIE,
        }
    }

    /// The body.
    pub fn encode(&self) -> Vec<u8> {
        let writer = BodyWriter::new();
        let writer = match *self {
            Self::Join(name, ours) => {
                let writer = writer.str(name);
                if ours { writer.int(1) } else { writer }
            }
            Self::Leave(name)
            | Self::Bcast(name)
            | Self::GSize(name)
            | Self::TidList(name)
            | Self::HostCharV(name) => writer.str(name),
            Self::View(name, flag) => writer.str(name).int(i32::from(flag)),
            Self::Barrier(name, number)
            | Self::GetTid(name, number)
            | Self::Static(name, number)
            | Self::BarrierV(name, number) => writer.str(name).int(number),
            Self::GetInst(name, tid) | Self::HostChar(name, tid) => writer.str(name).int(tid.raw()),
            Self::Passed(key, passed) => {
                let writer = writer.ints(key.to_ints());
                match passed {
                    Some(Passed { epoch, turn, .. }) => writer.ints([epoch, turn]),
                    None => writer,
                }
            }
            Self::Dump | Self::List | Self::Other => writer,
        };
        writer.finish()
    }

    /// Reads a body. Like the original's server it takes what is missing for an empty name or 0.
    pub fn decode(tag: i32, body: &'a [u8]) -> Self {
        let mut reader = BodyReader::new(body);
        if matches!(tag, tag::DUMP | tag::GSLS) {
            return if tag == tag::DUMP { Self::Dump } else { Self::List };
        }
        if tag == tag::PASSED {
            let key = Key::of_ints(reader.int_array().unwrap_or_default());
            let numbers = reader.int_array().ok();
            return Self::Passed(key, numbers.map(|[epoch, turn]| Passed { group: key, epoch, turn }));
        }
        let name = reader.os_str().unwrap_or_default();
        let mut number = || reader.int().unwrap_or(0);
        match tag {
            tag::JOIN => Self::Join(name, number() == 1),
            tag::LEAVE => Self::Leave(name),
            tag::BARRIER => Self::Barrier(name, number()),
            tag::BCAST => Self::Bcast(name),
            tag::GETINST => Self::GetInst(name, Tid::from_raw(number())),
            tag::GETTID => Self::GetTid(name, number()),
            tag::GSIZE => Self::GSize(name),
            tag::TIDLIST => Self::TidList(name),
            tag::STATIC => Self::Static(name, number()),
            tag::HOSTCHAR => Self::HostChar(name, Tid::from_raw(number())),
            tag::HOSTCHARV => Self::HostCharV(name),
            tag::BARRIERV => Self::BarrierV(name, number()),
            tag::VIEW => Self::View(name, number() == 1),
            _ => Self::Other,
        }
    }
}

/// The keeper's notice that views of a group are out of date ([`tag::CHANGED`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice<'a> {
    /// The group.
    pub name: &'a OsStr,
    /// Its epoch from now on.
    pub epoch: i32,
    /// The keeper is to learn what the member has passed ([`Request::Passed`]), and gives no view until it has.
    pub is_closing: bool,
}

impl<'a> Notice<'a> {
    /// The body.
    pub fn encode(&self) -> Vec<u8> {
        BodyWriter::new().str(self.name).ints([self.epoch, i32::from(self.is_closing)]).finish()
    }

    /// Reads a body.
    pub fn decode(body: &'a [u8]) -> Result<Self, BodyError> {
        let mut reader = BodyReader::new(body);
        Ok(Self { name: reader.os_str()?, epoch: reader.int()?, is_closing: reader.int()? != 0 })
    }
}

/// A short name of a group, for words in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Key(pub u64);

impl Key {
    /// Of no group.
    pub const NONE: Self = Self(0);

    /// The key of the group with this name: its FNV-1a hash.
    pub fn of(name: &OsStr) -> Self {
        let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        Self(name.as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step).max(1))
    }

    fn to_ints(self) -> [i32; 2] {
        [(self.0 >> 32) as i32, self.0 as i32]
    }

    fn of_ints([high, low]: [i32; 2]) -> Self {
        Self(u64::from(high.cast_unsigned()) << 32 | u64::from(low.cast_unsigned()))
    }
}

/// Numbers of barriers begin anew after this many.
pub const TURNS: u32 = 1 << 30;

/// How many barriers a member has passed that members of its group agreed on among themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The group.
    pub group: Key,
    /// The epoch of the view in which it has passed the last ones.
    pub epoch: i32,
    /// Their number, modulo [`TURNS`].
    pub turn: i32,
}

/// The number of the barrier after this one.
pub fn next_turn(turn: i32) -> i32 {
    (turn.cast_unsigned().wrapping_add(1) % TURNS).cast_signed()
}

/// The later of two numbers of barriers, of which one is at most a few behind the other.
pub fn later_turn(one: i32, other: i32) -> i32 {
    let ahead = one.cast_unsigned().wrapping_sub(other.cast_unsigned()) % TURNS;
    if ahead < TURNS / 2 { one } else { other }
}

/// The members of a group as the keeper knew them at one time. It tells whoever has asked when this has changed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct View {
    /// Instances and tasks, by instance.
    pub members: Vec<(i32, Tid)>,
    /// Grows with every change.
    pub epoch: i32,
    /// Barriers that members have completed among themselves, modulo [`TURNS`].
    pub turn: i32,
    /// All members have this system's library.
    pub ours: bool,
    /// Members may agree on a barrier among themselves.
    pub barriers: bool,
    /// The epoch that began when all members last met after a change.
    pub settled: i32,
    /// Those who met then, by instance. It stays as it is until all meet again, so that members who do not know of the
    /// same changes yet still agree on who sends to whom.
    pub settlers: Vec<Settler>,
    /// Those who wait at a barrier until all come, if the group has changed since all last met: they do nothing else
    /// meanwhile.
    pub arrived: Vec<Tid>,
}

/// A task that was a member when all last met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settler {
    /// The task.
    pub tid: Tid,
    /// It has left or died since then, whether or not it has come back.
    pub lost: bool,
}

impl View {
    /// Whether a task is in the group.
    pub fn has(&self, tid: Tid) -> bool {
        self.members.iter().any(|&(_, member)| member == tid)
    }

    /// Whether there is an instance that nobody has, below one that somebody has.
    pub fn has_gap(&self) -> bool {
        self.members.last().is_some_and(|&(last, _)| usize::try_from(last) != Ok(self.members.len() - 1))
    }

    /// Whether an instance is free, or was since all last met.
    pub fn lacks_some(&self) -> bool {
        self.has_gap() || self.has_lost()
    }

    /// Whether a task has come, or come back, since all met last.
    pub fn is_new(&self, tid: Tid) -> bool {
        !self.settlers.contains(&Settler { tid, lost: false })
    }

    /// Whether one of those who met last was lost since then.
    pub fn has_lost(&self) -> bool {
        self.settlers.iter().any(|settler| settler.lost)
    }

    /// Whether a member may still take part in what others do.
    pub fn may_speak(&self, tid: Tid) -> bool {
        self.has(tid) && !self.arrived.contains(&tid)
    }

    /// The body of the answer that carries it.
    pub fn encode(&self) -> Vec<u8> {
        let members = self.members.iter().flat_map(|&(instance, tid)| [instance, tid.raw()]);
        let numbers = [self.epoch, self.turn, i32::from(self.ours), i32::from(self.barriers), self.settled];
        let settlers = self.settlers.iter().flat_map(|settler| [settler.tid.raw(), i32::from(settler.lost)]);
        let writer = BodyWriter::new().int(self.members.len() as i32).ints(members).ints(numbers);
        let writer = writer.int(self.settlers.len() as i32).ints(settlers);
        writer.int(self.arrived.len() as i32).ints(self.arrived.iter().map(|tid| tid.raw())).finish()
    }

    /// Reads it; the inner error is the code of a refusal.
    pub fn decode(body: &[u8]) -> Result<Result<Self, i32>, BodyError> {
        let mut reader = BodyReader::new(body);
        let mut head = reader;
        let code = head.int()?;
        if code < 0 {
            return Ok(Err(code));
        }
        let members = pairs(&mut reader)?;
        let members = members.into_iter().map(|(instance, tid)| (instance, Tid::from_raw(tid))).collect();
        let (epoch, turn) = (reader.int()?, reader.int()?);
        let (ours, barriers) = (reader.int()? != 0, reader.int()? != 0);
        let settled = reader.int()?;
        let settlers = pairs(&mut reader)?;
        let settler = |(tid, lost)| Settler { tid: Tid::from_raw(tid), lost: lost != 0 };
        let settlers = settlers.into_iter().map(settler).collect();
        let count = reader.count(4)?;
        let arrived = reader.ints(count)?.into_iter().map(Tid::from_raw).collect();
        Ok(Ok(Self { members, epoch, turn, ours, barriers, settled, settlers, arrived }))
    }
}

fn pairs(reader: &mut BodyReader<'_>) -> Result<Vec<(i32, i32)>, BodyError> {
    let count = reader.count(8)?;
    (0..count).map(|_| Ok((reader.int()?, reader.int()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_are_read_as_they_are_written() {
        let tid = Tid::from_raw(0x40003);
        let key = Key::of(OsStr::new("g"));
        let all = [
            Request::Join(OsStr::new("g"), true),
            Request::Join(OsStr::new("g"), false),
            Request::Leave(OsStr::new("g")),
            Request::Barrier(OsStr::new("g"), -1),
            Request::Bcast(OsStr::new("g")),
            Request::GetInst(OsStr::new("g"), tid),
            Request::GetTid(OsStr::new("g"), 2),
            Request::GSize(OsStr::new("g")),
            Request::Dump,
            Request::List,
            Request::TidList(OsStr::new("g")),
            Request::Static(OsStr::new("g"), 4),
            Request::HostChar(OsStr::new("g"), tid),
            Request::HostCharV(OsStr::new("g")),
            Request::BarrierV(OsStr::new("g"), 3),
            Request::View(OsStr::new("g"), false),
            Request::View(OsStr::new("g"), true),
            Request::Passed(key, None),
            Request::Passed(key, Some(Passed { group: key, epoch: 7, turn: 9 })),
            Request::Other,
        ];
        for request in all {
            assert_eq!(Request::decode(request.tag(), &request.encode()), request);
        }
    }

    #[test]
    fn a_join_of_the_original_is_a_name_alone() {
        assert_eq!(Request::Join(OsStr::new("g"), false).encode(), BodyWriter::new().str("g").finish());
        assert_eq!(Request::decode(tag::BARRIER, &[]), Request::Barrier(OsStr::new(""), 0));
    }

    #[test]
    fn numbers_of_barriers_come_round() {
        let last = (TURNS - 1).cast_signed();
        assert_eq!((next_turn(0), next_turn(last)), (1, 0));
        assert_eq!(
            (later_turn(3, 4), later_turn(4, 3), later_turn(0, last), later_turn(last, 0)),
            (4, 4, 0, 0)
        );
    }

    #[test]
    fn names_have_keys_of_their_own() {
        let keys: std::collections::BTreeSet<u64> =
            (0..10_000).map(|n| Key::of(OsStr::new(&format!("group {n}"))).0).collect();
        assert!(keys.len() == 10_000 && !keys.contains(&0));
    }

    proptest! {
        #[test]
        fn views_are_read_as_they_are_written(
            members in prop::collection::vec((0..99_i32, 1..0x7fff_ffff_i32), 0..20),
            numbers in any::<(i32, i32, bool, bool, i32)>(),
            settlers in prop::collection::vec((1..0x7fff_ffff_i32, any::<bool>()), 0..20),
            arrived in prop::collection::vec(1..0x7fff_ffff_i32, 0..20),
        ) {
            let members = members.into_iter().map(|(instance, tid)| (instance, Tid::from_raw(tid))).collect();
            let (epoch, turn, ours, barriers, settled) = numbers;
            let settler = |(tid, lost)| Settler { tid: Tid::from_raw(tid), lost };
            let settlers = settlers.into_iter().map(settler).collect();
            let arrived = arrived.into_iter().map(Tid::from_raw).collect();
            let view = View { members, epoch, turn, ours, barriers, settled, settlers, arrived };
            prop_assert_eq!(View::decode(&view.encode()), Ok(Ok(view)));
        }

        #[test]
        fn no_bytes_make_it_panic(tag in 0..20_i32, bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = Request::decode(tag, &bytes);
            let _ = View::decode(&bytes);
        }
    }
}
