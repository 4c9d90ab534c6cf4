//! The protocols under every order in which two tasks' steps can be seen.

use crate::bell;
use crate::heap::Heap;
use crate::memory::Memory;
use crate::ring::{CHUNK, FIRST_CHUNK, IN_LINE, Place, Reader, Record, Writer};
use loom::sync::Arc;
use loom::thread;
use pvm_wire::{Lent, MessageHeader};

/// Where the first chunk of the tests' rings is; before it is the bell.
const RING: u64 = 192;

fn message(tag: i32) -> MessageHeader {
    MessageHeader { tag, ..MessageHeader::default() }
}

/// As tasks do: the short way, if it can be gone.
fn push(
    memory: &Heap,
    writer: &mut Writer,
    tag: i32,
    body: &[u8],
    more: impl FnOnce() -> Option<u64>,
) -> bool {
    writer.try_send(memory, message(tag), [body, &[]])
        || writer.send(memory, message(tag), &[body], more).is_ok()
}

/// As tasks do: the short way, if it can be gone.
fn take(memory: &Heap, reader: &mut Reader) -> Option<(i32, Vec<u8>)> {
    if let Some(near) = reader.peek(memory) {
        let mut body = vec![0; near.length];
        memory.read(near.at.get(), &mut body);
        reader.pass(memory, &near);
        let first = near.length.min(IN_LINE);
        assert_eq!(near.first[..first], body[..first]);
        return Some((near.header.tag, body));
    }
    match reader.receive(memory).unwrap()? {
        Record::Message(header, Place::Inline { at, length }) => {
            let mut body = vec![0; length];
            memory.read(at.get(), &mut body);
            Some((header.tag, body))
        }
        Record::Message(header, Place::Block(loan)) => {
            let mut body = vec![0; loan.length()];
            memory.read(loan.body().get(), &mut body);
            loan.release(memory);
            Some((header.tag, body))
        }
        Record::Leave => None,
    }
}

/// Memory with an empty ring and `behind` bytes behind its first chunk, and the ring's writer. The memory is returned twice, for two threads.
fn ring(behind: u64) -> (Arc<Heap>, Writer, Arc<Heap>) {
    let memory = Arc::new(Heap::new(RING + FIRST_CHUNK + behind));
    let (writer, theirs) = (Writer::new(&*memory, RING), memory.clone());
    (memory, writer, theirs)
}

#[test]
fn read_messages_equal_sent_ones() {
    exchange(8);
}

#[test]
fn bodies_of_several_lines_equal_sent_ones() {
    exchange(IN_LINE + 4);
}

fn exchange(length: usize) {
    loom::model(move || {
        let (memory, mut writer, theirs) = ring(0);
        let receiver = thread::spawn(move || {
            let mut reader = Reader::new(&*theirs, RING).unwrap();
            let mut expected = 1;
            for _ in 0..3 {
                if let Some((tag, body)) = take(&theirs, &mut reader) {
                    assert_eq!((tag, body), (expected, vec![expected as u8; length]));
                    expected += 1;
                }
            }
        });
        for tag in 1..3 {
            assert!(push(&memory, &mut writer, tag, &vec![tag as u8; length], || None));
        }
        receiver.join().unwrap();
    });
}

#[test]
fn a_block_is_not_used_again_before_it_was_read() {
    loom::model(|| {
        let (block, flag) = (RING + FIRST_CHUNK, RING + FIRST_CHUNK + 8);
        let (memory, mut writer, theirs) = ring(12);
        memory.write(block, &[1; 8]);
        let lent = Lent { at: block, length: 8, flag };
        assert_eq!(writer.send_block(&*memory, message(1), lent, || None), Ok(()));
        let receiver = thread::spawn(move || {
            let mut reader = Reader::new(&*theirs, RING).unwrap();
            assert_eq!(take(&theirs, &mut reader), Some((1, vec![1; 8])));
        });
        if memory.load(flag) != 0 {
            memory.write(block, &[2; 8]);
        }
        receiver.join().unwrap();
    });
}

/// For those that write so much that a chunk is used again.
fn check_long(run: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.max_branches = 40_000;
    model.check(run);
}

/// A chunk is used again.
#[test]
fn a_chunk_is_not_used_again_before_it_was_left() {
    check_long(|| {
        let chunks = [RING + FIRST_CHUNK, RING + FIRST_CHUNK + CHUNK];
        let (memory, mut writer, theirs) = ring(2 * CHUNK);
        let mut reader = Reader::new(&*memory, RING).unwrap();
        let mut more = chunks.into_iter();
        let mut send = |tag: i32| {
            while writer.reclaim(&*memory).is_some() {}
            push(&memory, &mut writer, tag, &[tag as u8; 1900], || more.next())
        };
        // The first chunk is too small for one, each of the others has room for four.
        assert!((0..8).all(&mut send));
        for tag in 0..3 {
            assert_eq!(take(&memory, &mut reader), Some((tag, vec![tag as u8; 1900])));
        }
        let receiver = thread::spawn(move || {
            for tag in 3..5 {
                assert_eq!(take(&theirs, &mut reader), Some((tag, vec![tag as u8; 1900])));
            }
        });
        send(8);
        receiver.join().unwrap();
    });
}

/// In the chunk that is used again there is what looks like the number of the next record.
#[test]
fn remains_of_an_earlier_use_are_no_record() {
    const NUMBER: u32 = 15;
    check_long(|| {
        let chunks = [RING + FIRST_CHUNK, RING + FIRST_CHUNK + CHUNK];
        let (memory, mut writer, theirs) = ring(2 * CHUNK);
        let mut reader = Reader::new(&*memory, RING).unwrap();
        let mut more = chunks.into_iter();
        let mut send = |tag: i32, body: &[u8]| {
            while writer.reclaim(&*memory).is_some() {}
            push(&memory, &mut writer, tag, body, || more.next())
        };
        let litter = NUMBER.to_ne_bytes().repeat(475);
        assert!((0..8).all(|tag| send(tag, &litter)) && send(8, &[]) && send(9, &[]));
        for tag in 0..10 {
            assert_eq!(take(&memory, &mut reader).map(|(tag, _)| tag), Some(tag));
        }
        let receiver = thread::spawn(move || {
            if let Some(found) = take(&theirs, &mut reader) {
                assert_eq!((found, reader.awaited().1), ((10, vec![10; 8]), NUMBER));
                assert_eq!(take(&theirs, &mut reader), None);
            }
        });
        assert!(send(10, &[10; 8]));
        receiver.join().unwrap();
    });
}

#[test]
fn a_reader_that_follows_a_link_finds_a_record() {
    loom::model(|| {
        let (memory, mut writer, theirs) = ring(CHUNK);
        let receiver = thread::spawn(move || {
            let mut reader = Reader::new(&*theirs, RING).unwrap();
            if reader.follow_link(&*theirs) {
                assert_eq!(reader.peek(&*theirs).map(|near| near.header.tag), Some(1));
            }
        });
        // The first chunk is too small for it.
        assert!(push(&memory, &mut writer, 1, &[1; 900], || Some(RING + FIRST_CHUNK)));
        receiver.join().unwrap();
    });
}

#[test]
fn no_task_sleeps_while_a_message_waits() {
    loom::model(|| {
        let (memory, mut writer, theirs) = ring(0);
        let receiver = thread::spawn(move || {
            bell::doze(&*theirs, false);
            Reader::new(&*theirs, RING).unwrap().is_ready(&*theirs)
        });
        assert_eq!(writer.send(&*memory, message(1), &[], || None), Ok(()));
        let rung = bell::must_ring(&*memory, 0);
        let seen = receiver.join().unwrap();
        assert!(rung || seen);
    });
}

#[test]
fn one_of_two_senders_rings() {
    loom::model(|| {
        let memory = Arc::new(Heap::new(RING));
        bell::doze(&*memory, false);
        let theirs = memory.clone();
        let other = thread::spawn(move || bell::must_ring(&*theirs, 0));
        let rung = bell::must_ring(&*memory, 0);
        assert!(rung ^ other.join().unwrap());
    });
}

/// A task whose senders list themselves finds what was published by the list alone, or is rung.
#[test]
fn no_task_sleeps_while_a_sender_is_listed() {
    loom::model(|| {
        let (memory, mut writer, theirs) = ring(0);
        bell::wake(&*memory, true);
        let receiver = thread::spawn(move || {
            bell::doze(&*theirs, true);
            bell::is_listed(&*theirs)
        });
        assert_eq!(writer.send(&*memory, message(1), &[], || None), Ok(()));
        let rung = bell::must_ring(&*memory, 77);
        let seen = receiver.join().unwrap();
        assert!(rung || seen);
        let mut places = Vec::new();
        bell::take_listed(&*memory, |place| places.push(place));
        assert_eq!(places, [77]);
    });
}

/// A message is in a ring that is looked at behind the list, or its sender is listed again.
#[test]
fn no_message_is_missed_that_is_published_while_the_list_is_taken() {
    loom::model(|| {
        let (memory, mut writer, theirs) = ring(0);
        bell::wake(&*memory, true);
        assert!(push(&memory, &mut writer, 1, &[], || None));
        assert!(!bell::must_ring(&*memory, 3));
        let receiver = thread::spawn(move || {
            let mut reader = Reader::new(&*theirs, RING).unwrap();
            bell::take_listed(&*theirs, |_| {});
            let mut taken = 0;
            while take(&theirs, &mut reader).is_some() {
                taken += 1;
            }
            taken
        });
        assert!(push(&memory, &mut writer, 2, &[], || None));
        bell::must_ring(&*memory, 3);
        let taken = receiver.join().unwrap();
        assert!(taken == 2 || bell::is_listed(&*memory), "{taken} were taken");
    });
}

/// A task asks its senders to list themselves, and then looks at all rings.
#[test]
fn no_message_is_missed_that_is_published_while_a_list_begins() {
    loom::model(|| {
        let (memory, mut writer, theirs) = ring(0);
        let receiver = thread::spawn(move || {
            bell::wake(&*theirs, true);
            Reader::new(&*theirs, RING).unwrap().is_ready(&*theirs)
        });
        assert!(push(&memory, &mut writer, 1, &[], || None));
        assert!(!bell::must_ring(&*memory, 511));
        let seen = receiver.join().unwrap();
        assert!(seen || bell::is_listed(&*memory));
    });
}
