use super::*;
use crate::heap::Heap;

fn message(tag: i32) -> MessageHeader {
    MessageHeader { encoding: 7, tag, context: -3, wait_id: 9, checksum: 0xffff_fff1 }
}

/// A ring with chunks one after another.
struct Pair {
    memory: Heap,
    writer: Writer,
    reader: Reader,
    next: u64,
}

impl Pair {
    fn new(size: u64) -> Self {
        let memory = Heap::new(size);
        let writer = Writer::new(&memory, 0);
        let reader = Reader::new(&memory, 0).unwrap();
        Self { memory, writer, reader, next: FIRST_CHUNK }
    }

    fn send(&mut self, tag: i32, parts: &[&[u8]]) -> bool {
        let Self { memory, writer, next, .. } = self;
        while writer.reclaim(memory).is_some() {}
        writer.send(memory, message(tag), parts, || more(memory, next)).is_ok()
    }

    fn take(&mut self) -> Option<(i32, Vec<u8>)> {
        let record = self.reader.receive(&self.memory).unwrap()?;
        let Record::Message(header, Place::Inline { at, length }) = record else { panic!("{record:?}") };
        assert_eq!(header, message(header.tag));
        let mut body = vec![0; length];
        self.memory.read(at.get(), &mut body);
        Some((header.tag, body))
    }
}

fn more(memory: &Heap, next: &mut u64) -> Option<u64> {
    let at = *next;
    *next += CHUNK;
    memory.has(at, CHUNK).then_some(at)
}

#[test]
fn bodies_of_every_length_come_through() {
    let mut pair = Pair::new(1 << 20);
    for length in 0..=INLINE_MAX {
        let body: Vec<u8> = (0..length).map(|index| (index * 7 + length) as u8).collect();
        // Parts begin at words in this memory.
        let (first, second) = body.split_at(length / 8 * 4);
        assert!(pair.send(length as i32, &[first, second]));
        assert_eq!(pair.take(), Some((length as i32, body)));
        assert_eq!(pair.take(), None);
    }
}

#[test]
fn the_short_way_is_the_same_way() {
    for length in 0..=INLINE_MAX {
        let mut pair = Pair::new(FIRST_CHUNK + CHUNK);
        let body: Vec<u8> = (0..length).map(|index| (index * 5 + length) as u8).collect();
        let (first, second) = body.split_at(length / 8 * 4);
        let header = message(length as i32);
        let lines = (length as u32 + 32).div_ceil(64);
        for _ in 0..14 / lines {
            assert!(pair.writer.try_send(&pair.memory, header, [first, second]));
            let near = pair.reader.peek(&pair.memory).unwrap();
            let mut found = vec![0; near.length];
            pair.memory.read(near.at.get(), &mut found);
            assert_eq!((near.header, &found), (header, &body));
            assert_eq!(near.first[..length.min(IN_LINE)], body[..length.min(IN_LINE)]);
            pair.reader.pass(&pair.memory, &near);
            assert_eq!(pair.reader.peek(&pair.memory), None);
        }
        assert!(!pair.writer.try_send(&pair.memory, header, [first, second]), "the link needs a line");
        assert!(pair.send(1, &[&body]));
        assert_eq!(pair.reader.peek(&pair.memory), None, "a link is followed the long way");
        assert_eq!(pair.take(), Some((1, body)));
    }
}

#[test]
fn a_reader_in_time_needs_two_chunks() {
    let mut pair = Pair::new(FIRST_CHUNK + 2 * CHUNK);
    for tag in 0..100_000 {
        let body = [tag as u8; 100];
        assert!(pair.send(tag, &[&body[..tag as usize % 100]]));
        assert_eq!(pair.take().unwrap().0, tag);
    }
}

#[test]
fn a_reader_that_does_not_read_stops_nobody() {
    let mut pair = Pair::new(FIRST_CHUNK + 10 * CHUNK);
    let sent = (0..10_000).take_while(|&tag| pair.send(tag, &[b"a body"])).count() as i32;
    assert!(sent > 10 * 60);
    assert!(!pair.send(sent, &[]), "it stays full");
    for tag in 0..sent {
        assert_eq!(pair.take(), Some((tag, b"a body".to_vec())));
    }
    assert!(pair.send(sent, &[]), "it goes on in the chunks that were left");
    assert_eq!(pair.take(), Some((sent, vec![])));
}

#[test]
fn a_peek_finds_the_same() {
    let mut pair = Pair::new(FIRST_CHUNK + 4 * CHUNK);
    for tag in 0..500 {
        let body = vec![tag as u8; tag as usize * 37 % (INLINE_MAX + 1)];
        assert!(pair.send(tag, &[&body]));
        let (memory, reader) = (&pair.memory, &mut pair.reader);
        let found = reader
            .peek(memory)
            .or_else(|| if reader.follow_link(memory) { reader.peek(memory) } else { None });
        let found = found.unwrap();
        let mut read = vec![0; found.length];
        memory.read(found.at.get(), &mut read);
        assert_eq!((found.header.tag, read), (tag, body));
        reader.pass(memory, &found);
        assert!(reader.peek(memory).is_none() && !reader.follow_link(memory));
    }
}

#[test]
fn leaving_and_blocks() {
    let Pair { memory, mut writer, mut reader, .. } = Pair::new(8192);
    let lent = Lent { at: 4096, length: 4000, flag: 64 };
    assert_eq!(writer.send_block(&memory, message(1), lent, || None), Ok(()));
    assert_eq!(writer.send_leave(&memory, || None), Ok(()));
    let place = Place::Block(Loan::new(&memory, lent).unwrap());
    assert_eq!(reader.receive(&memory), Ok(Some(Record::Message(message(1), place))));
    assert_eq!(reader.receive(&memory), Ok(Some(Record::Leave)));
    assert_eq!(reader.receive(&memory), Ok(None));
}

#[test]
fn places_outside_are_refused() {
    for (at, length, flag) in [(4096, 4097, 0), (u64::MAX, 2, 0), (0, 1, 8192), (0, 1, 2), (0, 1, u64::MAX)] {
        let Pair { memory, mut writer, mut reader, .. } = Pair::new(8192);
        let lent = Lent { at, length, flag };
        assert_eq!(writer.send_block(&memory, message(1), lent, || None), Ok(()));
        assert_eq!(reader.receive(&memory), Err(ReceiveError::OutOfBounds), "{lent:?}");
    }
    let memory = Heap::new(8192);
    for at in [8192, 32, u64::MAX - 63] {
        assert_eq!(Reader::new(&memory, at).err(), Some(OutOfBounds));
    }
}

#[test]
fn what_is_not_sent_or_received_has_a_reason() {
    let Pair { memory, mut writer, mut reader, .. } = Pair::new(FIRST_CHUNK);
    let long = [0; INLINE_MAX + 1];
    assert_eq!(writer.send(&memory, message(1), &[&long], || None), Err(SendError::TooLong));
    assert_eq!(writer.send(&memory, message(1), &[&long[1..]], || None), Err(SendError::NoRoom));
    assert_eq!(writer.send(&memory, message(1), &[], || None), Ok(()));
    let (at, _) = reader.awaited();
    memory.store(at + 4, 77);
    assert_eq!(reader.receive(&memory), Err(ReceiveError::UnknownKind(77)));
    reader = Reader::new(&memory, 0).unwrap();
    memory.store(at + 4, INLINE);
    memory.store(at + LENGTH, INLINE_MAX as u32 + 1);
    assert_eq!(reader.receive(&memory), Err(ReceiveError::TooLong));
    reader = Reader::new(&memory, 0).unwrap();
    memory.store(at + LENGTH, FIRST_CHUNK as u32);
    assert_eq!(reader.receive(&memory), Err(ReceiveError::NoLink));
}

/// Any bytes at all: nothing but refusals and messages, all inside.
#[test]
fn junk_is_survived() {
    let mut seed = 7_u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for _ in 0..2000 {
        let memory = Heap::new(16 * 1024);
        let mut reader = Reader::new(&memory, 0).unwrap();
        for _ in 0..200 {
            let (at, number) = reader.awaited();
            for word in 1..16 {
                memory.store(at + 4 * word, (random() >> (random() % 64)) as u32);
            }
            memory.store(at + 4, (random() % 5) as u32);
            memory.store(at, number);
            if random() % 2 == 0 && reader.follow_link(&memory) {
                continue;
            }
            match reader.receive(&memory) {
                Ok(Some(Record::Message(_, Place::Inline { at, length }))) => {
                    assert!(memory.has(at.get(), length as u64));
                }
                Ok(Some(Record::Message(_, Place::Block(loan)))) => {
                    assert!(memory.has(loan.body().get(), loan.length() as u64));
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
    }
}

/// A part of a message can look like the number of a record to come.
#[test]
fn remains_of_an_earlier_use_are_no_record() {
    for number in 1..300_u32 {
        let mut pair = Pair::new(FIRST_CHUNK + 3 * CHUNK);
        for tag in 0..60 {
            let body = number.to_ne_bytes().repeat(40 + tag as usize * 37 % 150);
            assert!(pair.send(tag, &[&body]));
            assert_eq!(pair.take(), Some((tag, body.clone())));
            assert_eq!(pair.take(), None);
            assert!(pair.send(tag, &[]));
            assert_eq!(pair.take(), Some((tag, vec![])));
            assert_eq!(pair.take(), None);
        }
    }
}

/// Short and long messages by turns, and in the long ones nothing but the number of a record that is yet to come.
#[test]
fn no_mixture_of_messages_leaves_a_record_behind() {
    let mut pair = Pair::new(FIRST_CHUNK + 4 * CHUNK);
    let mut seed = 7_u32;
    let mut draw = |below: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 16) % below
    };
    for tag in 0..50_000 {
        let length = [0, 4, 4, 32, 36, 100, 600, 2000][draw(8) as usize];
        let coming = pair.writer.number + 1 + draw(200);
        let body = coming.to_ne_bytes().repeat(length / 4);
        let halves = body.split_at(length / 8 * 4);
        if draw(2) == 0 || !pair.writer.try_send(&pair.memory, message(tag), [halves.0, halves.1]) {
            assert!(pair.send(tag, &[&body]));
        }
        assert_eq!(pair.take(), Some((tag, body)));
        assert_eq!(pair.take(), None, "behind message {tag}");
    }
}

#[test]
fn a_ring_read_at_once_uses_the_first_halves_of_two_chunks() {
    for length in [0, 60, 1000] {
        let mut pair = Pair::new(FIRST_CHUNK + 2 * CHUNK);
        for tag in 0..1000 {
            let body = vec![tag as u8; length];
            let is_short = pair.writer.try_send(&pair.memory, message(tag), [&body, &[]]);
            assert!(is_short || tag < 300 && pair.send(tag, &[&body]), "message {tag}");
            let (memory, reader) = (&pair.memory, &mut pair.reader);
            let found = reader
                .peek(memory)
                .or_else(|| if reader.follow_link(memory) { reader.peek(memory) } else { None });
            let found = found.unwrap();
            assert_eq!((found.header.tag, found.length), (tag, length));
            let place = found.at.get().saturating_sub(FIRST_CHUNK) % CHUNK;
            assert!(
                tag < 300 || place + length as u64 <= u64::from(RING_NEAR_LINES) * LINE,
                "message {tag} at {place}"
            );
            reader.pass(memory, &found);
        }
    }
}
