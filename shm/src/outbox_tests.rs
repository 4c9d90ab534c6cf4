use super::*;
use crate::SEGMENT_SIZE;
use crate::loan::Loan;
use crate::mapping::Body;
use crate::ring::{Place, Reader, Record};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};

const THEM: Tid = Tid::from_bits(0x40002);
const LIMIT: u64 = 64 << 20;

/// A task that sends, and another's view of its segment.
struct Pair {
    outbox: Outbox,
    ring: Writer,
    theirs: Arc<Mapping>,
    reader: Reader,
    held: Arc<AtomicUsize>,
}

impl Pair {
    fn new() -> Self {
        let mut outbox = Outbox::new(LIMIT).unwrap();
        let (ring, at) = outbox.open_ring().unwrap();
        let theirs = Arc::new(Mapping::new(outbox.segment().fd().as_fd()).unwrap());
        let reader = Reader::new(&*theirs, at.get()).unwrap();
        Self { outbox, ring, theirs, reader, held: Arc::default() }
    }

    fn send(&mut self, body: &[u8]) -> bool {
        let Ok(parcel) = self.outbox.pack(&[body]) else { return false };
        self.outbox.send_parcel(&mut self.ring, MessageHeader::default(), THEM, &parcel).is_ok()
    }

    fn take(&mut self) -> Option<Body> {
        match self.reader.receive(&*self.theirs).unwrap()? {
            Record::Message(_, Place::Block(loan)) => {
                Some(Body::new(self.theirs.clone(), loan, self.held.clone()))
            }
            record => panic!("{record:?}"),
        }
    }
}

#[test]
fn bodies_are_read_where_they_were_written() {
    let mut pair = Pair::new();
    for length in [1000, 4096, 100_000, 5 << 20] {
        let body: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
        assert!(pair.send(&body));
        let received = pair.take().unwrap();
        assert_eq!(received.as_ref(), body);
        assert_eq!(pair.held.load(Ordering::Relaxed), length);
    }
    assert_eq!(pair.held.load(Ordering::Relaxed), 0);
}

#[test]
fn memory_is_used_again() {
    let mut pair = Pair::new();
    let body = vec![1; 1 << 20];
    let mut places = std::collections::BTreeSet::new();
    for _ in 0..1000 {
        assert!(pair.send(&body));
        let received = pair.take().unwrap();
        places.insert(received.as_ref().as_ptr().addr());
    }
    assert!(places.len() <= 2, "{}", places.len());
}

#[test]
fn one_that_is_kept_does_not_keep_others() {
    let mut pair = Pair::new();
    let body = vec![1; 4 << 20];
    assert!(pair.send(&body));
    let kept = pair.take().unwrap();
    for _ in 0..100 {
        assert!(pair.outbox.has_room() && pair.send(&body));
        drop(pair.take().unwrap());
    }
    assert_eq!(kept.as_ref(), body);
}

#[test]
fn a_receiver_that_keeps_all_stops_its_sender_until_it_ends() {
    let mut pair = Pair::new();
    let body = vec![1; 1 << 20];
    let mut sent = 0;
    while pair.outbox.has_room() {
        assert!(pair.send(&body));
        sent += 1;
    }
    assert_eq!(sent, 32, "half of the limit, with what the ring takes");
    pair.outbox.forget(THEM);
    assert!(pair.outbox.has_room());
    let resting = pair.outbox.used();
    assert!(resting < 1 << 20, "{resting}");
}

#[test]
fn free_memory_goes_back_to_the_system() {
    let mut pair = Pair::new();
    let body = vec![1; 48 << 20];
    assert!(pair.send(&body));
    drop(pair.take().unwrap());
    pair.outbox.reclaim();
    let pages = rustix::fs::fstat(pair.outbox.segment().fd()).unwrap().st_blocks;
    assert!(pages * 512 < 1 << 20, "{pages} blocks are in use");
}

#[test]
fn one_block_for_several() {
    let mut pair = Pair::new();
    let other = Tid::from_bits(0x40003);
    let (mut second, at) = pair.outbox.open_ring().unwrap();
    let mut reader = Reader::new(&*pair.theirs, at.get()).unwrap();
    let parcel = pair.outbox.pack(&[&[7; 4096]]).unwrap();
    let header = MessageHeader::default();
    assert_eq!(pair.outbox.send_parcel(&mut pair.ring, header, THEM, &parcel), Ok(()));
    assert_eq!(pair.outbox.send_parcel(&mut second, header, other, &parcel), Ok(()));
    drop(parcel);
    let Ok(Some(Record::Message(_, Place::Block(loan)))) = reader.receive(&*pair.theirs) else {
        panic!("no message")
    };
    let first = pair.take().unwrap();
    drop(first);
    pair.outbox.reclaim();
    let busy = pair.outbox.used();
    drop(Body::new(pair.theirs.clone(), loan, Arc::default()));
    pair.outbox.reclaim();
    assert_eq!(busy - pair.outbox.used(), 4096);
}

/// Packs a body in the outbox's memory.
fn packed(pair: &Pair, parts: &[&[u8]]) -> Packing {
    let mut packing = Packing::within(&pair.outbox.store, parts.concat().len()).unwrap();
    for part in parts {
        packing.extend(part);
    }
    packing
}

/// Sends what was packed.
fn send_packed(pair: &mut Pair, packing: &Packing, tail: &[u8]) -> Body {
    let parcel = pair.outbox.adopt(packing, tail).unwrap();
    assert_eq!(pair.outbox.send_parcel(&mut pair.ring, MessageHeader::default(), THEM, &parcel), Ok(()));
    pair.take().unwrap()
}

#[test]
fn packed_elements_are_read_in_place() {
    let mut pair = Pair::new();
    let packing = packed(&pair, &[&[1; 5000], &[2; 10_000]]);
    let received = send_packed(&mut pair, &packing, b"tail");
    assert_eq!(received.as_ref(), [&[1; 5000][..], &[2; 10_000], b"tail"].concat());
    let place = |mapping: &Mapping, bytes: &[u8]| bytes.as_ptr().addr() - mapping.address();
    assert_eq!(place(&pair.theirs, received.as_ref()), place(pair.outbox.memory(), packing.as_slice()));
}

#[test]
fn read_memory_is_packed_into_again_at_once() {
    let mut pair = Pair::new();
    let first = packed(&pair, &[&[1; 5000]]);
    let place = first.as_slice().as_ptr();
    let received = send_packed(&mut pair, &first, b"");
    drop((first, received));
    assert_eq!(
        packed(&pair, &[&[2; 5000]]).as_slice().as_ptr(),
        place,
        "not into memory that is not in the cache"
    );
}

#[test]
fn a_body_on_its_way_is_not_written_to() {
    let mut pair = Pair::new();
    let mut packing = packed(&pair, &[&[1; 5000]]);
    let received = send_packed(&mut pair, &packing, b"tail");
    assert!(!packing.reserve(1));
    packing.extend(b"!");
    assert_eq!(received.as_ref()[5000..], *b"tail");
    drop(received);
    pair.outbox.reclaim();
    assert!(packing.reserve(1));
    packing.extend(b"!");
    assert_eq!(send_packed(&mut pair, &packing, b"tail").as_ref()[5000..], *b"!tail");
}

#[test]
fn kept_packed_bodies_stop_no_sender() {
    let mut pair = Pair::new();
    let kept: Vec<Packing> =
        std::iter::from_fn(|| Packing::within(&pair.outbox.store, 1 << 20)).take(1000).collect();
    assert_eq!(kept.len(), 15, "a quarter of the limit");
    let body = send_packed(&mut pair, &kept[0], b"");
    assert!(pair.outbox.has_room() && pair.outbox.used() < 1 << 20, "{}", pair.outbox.used());
    drop(kept);
    assert!(pair.outbox.used() > 1 << 20, "now it is only on its way");
    drop(body);
    pair.outbox.reclaim();
    assert!(pair.outbox.used() < 1 << 20);
}

#[test]
fn sent_messages_are_read_after_the_sender_has_left() {
    let mut pair = Pair::new();
    let packing = packed(&pair, &[&[1; 5000]]);
    let body = send_packed(&mut pair, &packing, b"");
    let store = pair.outbox.store.clone();
    drop(pair);
    assert!(Packing::within(&store, 5000).is_none());
    drop(packing);
    assert_eq!(body.as_ref(), [1; 5000]);
}

#[test]
fn a_body_packed_elsewhere_is_not_adopted() {
    let (mut pair, other) = (Pair::new(), Pair::new());
    assert!(pair.outbox.adopt(&packed(&other, &[&[1; 5000]]), b"").is_none());
    assert!(pair.outbox.adopt(&packed(&pair, &[&[1; 5000]]), &[0; 5000]).is_none(), "no room behind it");
}

#[test]
fn a_multicast_copies_nothing() {
    let mut pair = Pair::new();
    let packing = packed(&pair, &[&[1; 10_000]]);
    let rings: Vec<(Writer, Offset)> = (0..15).map(|_| pair.outbox.open_ring().unwrap()).collect();
    // What is taken for flags is taken before.
    drop(send_packed(&mut pair, &packing, b""));
    let memory = |pair: &Pair| rustix::fs::fstat(pair.outbox.segment().fd()).unwrap().st_blocks;
    let before = memory(&pair);
    let parcel = pair.outbox.adopt(&packing, b"").unwrap();
    for (mut ring, start) in rings {
        let mut reader = Reader::new(&*pair.theirs, start.get()).unwrap();
        assert_eq!(pair.outbox.send_parcel(&mut ring, MessageHeader::default(), THEM, &parcel), Ok(()));
        let Ok(Some(Record::Message(_, Place::Block(loan)))) = reader.receive(&*pair.theirs) else {
            panic!("no message")
        };
        let at = loan.body().get() as usize;
        assert_eq!(at + pair.outbox.memory().address(), packing.as_slice().as_ptr().addr());
        assert_eq!(loan.length(), 10_000);
    }
    assert_eq!(memory(&pair), before);
}

/// Both use the same mapping, so that a sanitizer sees what they do.
#[test]
fn messages_pass_from_thread_to_thread() {
    const COUNT: usize = 3000;
    let length = |number: usize| [0, 60, 900, 2000, 30_000][number % 5];
    let mut outbox = Outbox::new(1 << 20).unwrap();
    let (mut ring, at) = outbox.open_ring().unwrap();
    let memory = outbox.memory().clone();
    let reader = std::thread::spawn(move || {
        let mut reader = Reader::new(&*memory, at.get()).unwrap();
        for number in 0..COUNT {
            let mut bytes = vec![0; length(number)];
            let place = loop {
                match reader.receive(&*memory).unwrap() {
                    Some(Record::Message(_, place)) => break place,
                    _ => std::thread::yield_now(),
                }
            };
            match place {
                Place::Inline { at, length } => memory.read(at.get(), &mut bytes[..length]),
                Place::Block(loan) => {
                    let body = Body::new(memory.clone(), loan, Arc::default());
                    bytes.copy_from_slice(body.as_ref());
                }
            }
            assert!(bytes.iter().all(|&byte| byte == number as u8), "message {number}");
        }
    });
    for number in 0..COUNT {
        while !outbox.has_room() {
            std::thread::yield_now();
        }
        let (header, body) = (MessageHeader::default(), vec![number as u8; length(number)]);
        if Outbox::is_inline(body.len()) {
            assert_eq!(outbox.send_copy(&mut ring, header, &[&body]), Ok(()));
            continue;
        }
        let mut packing = Packing::within(&outbox.store, body.len()).unwrap();
        packing.extend(&body);
        let parcel = outbox.adopt(&packing, b"").unwrap();
        assert_eq!(outbox.send_parcel(&mut ring, header, THEM, &parcel), Ok(()));
    }
    reader.join().unwrap();
}

#[test]
fn an_unsealed_file_is_not_mapped() {
    let file = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&file, 4096).unwrap();
    assert!(Mapping::new(file.as_fd()).is_err());
}

#[test]
fn nothing_is_read_or_written_outside() {
    let outbox = Outbox::new(LIMIT).unwrap();
    let memory = outbox.memory();
    for at in [SEGMENT_SIZE, SEGMENT_SIZE - 2, u64::MAX - 1, 3] {
        memory.store(at, 1);
        assert_eq!(memory.load(at) + memory.swap(at, 1), 0);
    }
    let mut bytes = [1; 8];
    memory.write(SEGMENT_SIZE - 4, &bytes);
    memory.read(SEGMENT_SIZE - 4, &mut bytes);
    assert_eq!(bytes, [0; 8]);
}

#[test]
fn a_lent_body_is_read_and_given_back() {
    let mut pair = Pair::new();
    let body: Vec<u8> = (0..100_000).map(|at| (at % 251) as u8).collect();
    let mut draft = pair.outbox.draft(1 << 27).unwrap();
    for part in body.chunks(30_000) {
        assert!(draft.reserve(part.len()));
        draft.extend(part);
    }
    let used = pair.outbox.used();
    let parcel = pair.outbox.adopt(&draft, &[]).unwrap();
    let lent = pair.outbox.lend(THEM, &parcel).unwrap();
    drop((draft, parcel));
    assert!(pair.outbox.used() > used + 90_000);
    let (theirs, held) = (pair.theirs.clone(), pair.held.clone());
    let loan = Loan::new(&*theirs, lent).unwrap();
    let received = Body::new(theirs, loan, held);
    assert_eq!(received.as_ref(), body);
    drop(received);
    pair.outbox.reclaim();
    assert_eq!(pair.outbox.used(), used + FLAG_PAGE);
}

#[test]
fn no_receiver_gets_more_than_its_part_lent() {
    let mut pair = Pair::new();
    let length = LENT_MAX as usize / 2;
    // A single one may have any length.
    assert!(pair.outbox.may_lend(THEM, LENT_MAX as usize * 3));
    let lend = |outbox: &mut Outbox| {
        let parcel = outbox.pack(&[&vec![1; length]]).unwrap();
        outbox.lend(THEM, &parcel).unwrap()
    };
    let first = lend(&mut pair.outbox);
    assert!(pair.outbox.may_lend(THEM, length) && !pair.outbox.may_lend(THEM, length + 1));
    lend(&mut pair.outbox);
    assert!(!pair.outbox.may_lend(THEM, 1));
    pair.theirs.store(first.flag, 1);
    assert!(pair.outbox.may_lend(THEM, 1));
    assert!(pair.outbox.may_lend(Tid::from_bits(0x40003), 1), "others have their own part");
}

#[test]
fn a_draft_beyond_its_room_is_refused() {
    let mut pair = Pair::new();
    let mut draft = pair.outbox.draft(10_000).unwrap();
    assert!(draft.reserve(10_000));
    draft.extend(&[1; 10_000]);
    assert!(!draft.reserve(10_000));
    assert_eq!(draft.as_slice(), [1; 10_000]);
}
