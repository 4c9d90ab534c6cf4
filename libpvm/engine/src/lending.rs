//! Long messages by the daemon: their bodies are not written to the socket, but lent in shared memory, in both directions.
//!
//! The socket carries the place of the body, so order and back-pressure are those of the socket. Until each has mapped the other's
//! memory, or if there is no room in it, bodies go by the socket as well.

use super::{Engine, Form, Payload};
use bytes::Bytes;
use pvm_shm::{Loan, Mapping};
use pvm_wire::calls::sharing::{Known, Meet};
use pvm_wire::{Body, Lent, Tid};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The state of lending to the daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Lending {
    /// No long message went by the daemon so far.
    #[default]
    Unasked,
    /// The daemon was asked to map this task's memory.
    Asked,
    /// The daemon has mapped it.
    Agreed,
}

/// The daemon's memory.
#[derive(Debug)]
pub(super) struct Borrower {
    memory: Arc<Mapping>,
    held: Arc<AtomicUsize>,
    /// Bytes of others' memory that this task keeps at most; it copies the rest, so that others can go on.
    most: usize,
}

impl Borrower {
    /// `held` counts the bytes of others' memory that this task keeps.
    pub(super) fn new(descriptor: &OwnedFd, held: Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let memory = Arc::new(Mapping::new(descriptor.as_fd()).ok()?);
        Some(Self { memory, held, most })
    }

    /// A body that the daemon lends; `None` if it lies outside its memory.
    pub(super) fn take(&self, lent: Lent) -> Option<Body> {
        let loan = Loan::new(&*self.memory, lent).ok()?;
        let body = pvm_shm::Body::new(self.memory.clone(), loan, self.held.clone());
        if self.held.load(Ordering::Relaxed) <= self.most {
            return Some(Bytes::from_owner(body).into());
        }
        Some(Body::copy_from_slice(body.as_ref()))
    }
}

impl Engine {
    /// Lends a long body to the daemon: where it lies; `None` if it has to be written.
    pub(super) fn lend(&mut self, dst: Tid, form: &Form<'_>, payload: Payload<'_>) -> Option<Lent> {
        let length = form.len();
        if length < Lent::LEAST || dst.is_daemon() {
            return None;
        }
        if self.lending != Lending::Agreed {
            self.ask_to_lend();
            return None;
        }
        let outbox = self.neighbours.own_outbox()?;
        if !outbox.may_lend(Tid::MY_DAEMON, length) {
            return None;
        }
        let packed = payload.packing().map(|(packing, _)| packing);
        let is_packed =
            |body: &[u8]| std::ptr::eq(body, packed.map_or(&[][..], |packing| packing.as_slice()));
        let parcel = match (form.parts(), packed) {
            ([body], Some(packing)) if is_packed(body) => outbox.adopt(packing, &[]),
            _ => None,
        };
        let parcel = parcel.or_else(|| outbox.pack(form.parts()).ok())?;
        outbox.lend(Tid::MY_DAEMON, &parcel).ok()
    }

    fn ask_to_lend(&mut self) {
        if self.lending != Lending::Unasked || !self.neighbours.are_possible() {
            return;
        }
        self.share();
        if self.neighbours.own_outbox().is_some() {
            self.lending = Lending::Asked;
            // The send that follows notices a broken connection.
            let _ = self.ask_to_meet(Tid::MY_DAEMON);
        }
    }

    /// The daemon has written a body of more than one piece to the socket. From the next ones on it may lend them, even if this task sends
    /// none: it shares its memory at the first, and asks at the second.
    pub(super) fn long_body_came(&mut self) {
        if self.lending != Lending::Unasked {
            return;
        }
        if self.neighbours.own_outbox().is_some() {
            self.lending = Lending::Asked;
            self.defer_request(&Meet { other: Tid::MY_DAEMON });
        } else {
            self.neighbours.note_sender();
        }
    }

    /// The daemon has mapped this task's memory, and sent the descriptor of its own.
    pub(super) fn meet_daemon(&mut self, descriptors: &[OwnedFd]) {
        self.lending = Lending::Agreed;
        let borrower = descriptors.first().and_then(|descriptor| self.neighbours.borrower(descriptor));
        if let (Some(borrower), Some(route)) = (borrower, self.route.as_mut()) {
            route.set_borrower(borrower);
            self.defer_request(&Known {});
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::Route;
    use crate::{Settings, codes, neighbours};
    use pvm_shm::{Memory, Outbox, SEGMENT_SIZE};
    use pvm_wire::calls::{Request as _, sharing::Share};
    use pvm_wire::limits::PIECE_MAX;
    use pvm_wire::{Message, MessageHeader};
    use std::os::unix::net::UnixStream;

    #[test]
    fn only_what_lies_in_the_memory_is_taken() {
        let mut outbox = Outbox::new(1 << 20).unwrap();
        let parcel = outbox.pack(&[b"12345"]).unwrap();
        let lent = outbox.lend(Tid::ANY, &parcel).unwrap();
        let descriptor = outbox.segment().fd().try_clone_to_owned().unwrap();
        let held = Arc::new(AtomicUsize::new(0));
        let borrower = Borrower::new(&descriptor, held.clone(), 5).unwrap();
        for wrong in [
            Lent { at: SEGMENT_SIZE - 4, ..lent },
            Lent { at: u64::MAX - 2, ..lent },
            Lent { flag: SEGMENT_SIZE - 3, ..lent },
        ] {
            assert_eq!(borrower.take(wrong), None);
        }
        let body = borrower.take(lent).unwrap();
        assert_eq!((&body[..], held.load(Ordering::Relaxed)), (&b"12345"[..], 5));
        // More is copied, and given back at once.
        let second = outbox.lend(Tid::ANY, &parcel).unwrap();
        let copy = borrower.take(second).unwrap();
        assert_eq!((&copy[..], held.load(Ordering::Relaxed)), (&b"12345"[..], 5));
        assert_eq!(outbox.memory().load(second.flag), 1);
        assert_eq!(outbox.memory().load(lent.flag), 0);
        drop(body);
        assert_eq!(outbox.memory().load(lent.flag), 1);
    }

    #[test]
    fn a_task_that_only_receives_asks_for_the_daemons_memory() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let mut engine = Engine::unenrolled(ours.into(), &Settings::default());
        engine.extension = Some(codes::EXTENSION_VERSION);
        engine.identity.tid = Tid::from_raw(0x4_0001);
        let socket = engine.route.as_ref().map(Route::socket);
        engine.neighbours = neighbours::Neighbours::offered(engine.tid(), socket, &Settings::default());
        let mut daemon = Route::new(theirs.into(), 1 << 20);
        let mut tags_after = |length: usize| {
            let (src, dst) = (Tid::from_raw(0x8_0001), engine.tid());
            let message =
                Message { src, dst, header: MessageHeader::default(), body: vec![1; length].into() };
            daemon.send_descriptors(&message.encode(1 << 20), &[]).unwrap();
            while !engine.inbox.has_unseen() {
                engine.poll().unwrap();
            }
            assert_eq!(engine.inbox.see_next().map(|arrived| arrived.message.body.len()), Some(length));
            let mut sent = Vec::new();
            daemon.read(&mut sent).unwrap();
            sent.iter().map(|message| message.header.tag).collect::<Vec<_>>()
        };
        let long = PIECE_MAX;
        assert_eq!(tags_after(long - 1), []);
        assert_eq!(tags_after(long), [Share::TAG]);
        assert_eq!(tags_after(long), [Meet::TAG]);
        assert_eq!(tags_after(long), [], "it has asked");
    }
}
