//! What the engine of a task that moves takes along of its own, and how its successor's goes on with it.
//!
//! Not taken along is what is found out again: which tasks share memory, libraries of others, views of groups, what is traced. Messages
//! whose copies the program has looked at are taken along as unread.

use super::Engine;
use super::inbox::Waiting;
use super::manager::Manager;
use super::options::Options;
use super::output::Collected;
use super::route_notices::RouteNotices;
use crate::{Error, Result};
use bytes::Bytes;
use pvm_shm::ledger;
use pvm_wire::coscheduling::Sent;
use pvm_wire::daemon::Blob;
use pvm_wire::group::{Key, Passed};
use pvm_wire::limits::FRAGMENT_SIZE_RANGE;
use pvm_wire::{Body, HostIndex, Message, MessageHeader, PvmError, Tid, codec};
use serde::{Deserialize, Serialize};

/// The state of an engine.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Carried {
    options: Options,
    context: i32,
    next_wait_id: i32,
    unread: Vec<Unread>,
    /// Messages between members of groups are kept apart.
    keeps_members: bool,
    /// Messages of which a part has come.
    begun: Vec<CarriedMessage>,
    siblings: Option<Vec<Tid>>,
    notices_taken: u32,
    collected: Vec<Collected>,
    manager: Option<Tid>,
    sent: Sent,
    places: Vec<(Tid, HostIndex)>,
    route_notices: RouteNotices,
    /// The ledger of barriers, and the epoch of the latest notice of each group.
    ledger: Vec<([i32; 2], u64, i32)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Unread {
    message: CarriedMessage,
    is_seen: bool,
    is_of_members: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct CarriedMessage {
    src: Tid,
    dst: Tid,
    header: [i32; 5],
    body: Blob,
}

impl From<Message> for CarriedMessage {
    fn from(Message { src, dst, header, body }: Message) -> Self {
        let MessageHeader { encoding, tag, context, wait_id, checksum } = header;
        let header = [encoding.cast_signed(), tag, context, wait_id, checksum.cast_signed()];
        Self { src, dst, header, body: Blob(Bytes::copy_from_slice(&body)) }
    }
}

impl From<CarriedMessage> for Message {
    fn from(CarriedMessage { src, dst, header, body }: CarriedMessage) -> Self {
        let [encoding, tag, context, wait_id, checksum] = header;
        let (encoding, checksum) = (encoding.cast_unsigned(), checksum.cast_unsigned());
        let header = MessageHeader { encoding, tag, context, wait_id, checksum };
        Self { src, dst, header, body: Body::from(body.0) }
    }
}

impl From<Waiting> for Unread {
    fn from(Waiting { message, is_seen, is_of_members }: Waiting) -> Self {
        // Its next host may have another format.
        let message = message.clone().into_encoded().unwrap_or(message);
        Self { message: message.into(), is_seen, is_of_members }
    }
}

impl Carried {
    /// From the bytes that the predecessor has sent.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let wrong = |error| Error::new(PvmError::BadMsg, format!("what the library takes along: {error}"));
        codec::decode_large(bytes).map_err(wrong)
    }
}

impl Engine {
    /// What the engine takes along, as bytes.
    pub(super) fn pack_own(&self) -> Result<Vec<u8>> {
        let begun = self.route.as_ref().map(super::Route::begun).unwrap_or_default();
        let carried = Carried {
            options: self.options.clone(),
            context: self.context,
            next_wait_id: self.next_wait_id,
            unread: self.inbox.waiting().map(Unread::from).collect(),
            keeps_members: self.inbox.keeps_members(),
            begun: begun.into_iter().map(CarriedMessage::from).collect(),
            siblings: self.siblings.clone(),
            notices_taken: self.inbox.notices,
            collected: self.output.open_tasks(),
            manager: self.manager.tid(),
            sent: self.sent,
            places: self.places.moved().collect(),
            route_notices: self.route_notices.clone(),
            ledger: self.carried_ledger(),
        };
        let too_long = |error| Error::new(PvmError::NoMem, format!("its unread messages: {error}"));
        codec::encode_large(&carried).map_err(too_long)
    }

    /// Goes on with what the predecessor has taken along.
    pub(super) fn unpack_own(&mut self, carried: Carried, predecessor: Tid) -> Result<()> {
        if !FRAGMENT_SIZE_RANGE.contains(&carried.options.fragment_size) || carried.next_wait_id <= 0 {
            return Err(Error::new(PvmError::BadMsg, "what the library takes along is out of range"));
        }
        self.options = carried.options;
        self.context = carried.context;
        let own = self.next_wait_id;
        self.next_wait_id = own.max(carried.next_wait_id);
        let unread = carried.unread.into_iter().map(|unread| Waiting {
            message: unread.message.into(),
            is_seen: unread.is_seen,
            is_of_members: unread.is_of_members,
        });
        self.inbox.resume(unread.collect(), carried.keeps_members);
        self.inbox.notices = carried.notices_taken;
        if let Some(route) = &mut self.route {
            for begun in carried.begun {
                route.resume(&begun.into())?;
            }
        }
        self.siblings = carried.siblings;
        self.output.resume(carried.collected);
        self.manager = Manager::resumed(carried.manager);
        self.sent = carried.sent;
        for (tid, host) in carried.places.into_iter().filter(|&(tid, _)| tid != predecessor) {
            self.places.set(tid, Some(host));
        }
        self.route_notices = carried.route_notices;
        self.with_ledger(|memory| {
            for ([epoch, turn], group, notice) in carried.ledger {
                ledger::resume(memory, Passed { group: Key(group), epoch, turn }, notice);
            }
            true
        });
        Ok(())
    }

    fn carried_ledger(&self) -> Vec<([i32; 2], u64, i32)> {
        let entries = self.neighbours.own_memory().into_iter().flat_map(ledger::all);
        entries.map(|(passed, notice)| ([passed.epoch, passed.turn], passed.group.0, notice)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn messages_are_carried_as_they_are(
            [src, dst]: [u32; 2],
            [encoding, checksum]: [u32; 2],
            [tag, context, wait_id]: [i32; 3],
            body in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let header = MessageHeader { encoding, tag, context, wait_id, checksum };
            let (src, dst) = (Tid::from_bits(src), Tid::from_bits(dst));
            let message = Message { src, dst, header, body: body.into() };
            let bytes = codec::encode_large(&CarriedMessage::from(message.clone())).unwrap();
            let carried: CarriedMessage = codec::decode_large(&bytes).unwrap();
            prop_assert_eq!(Message::from(carried), message);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Carried::decode(&bytes);
        }
    }
}
