use super::*;
use pvm_shm::{Body, Loan, Mapping};
use pvm_wire::message::Assembled;
use pvm_wire::{Lent, Message, Reassembler};
use std::os::fd::AsFd;
use std::sync::atomic::AtomicUsize;

const TASK: Tid = Tid::from_bits(0x40001);

/// A task at the other end: it puts together what is written to it.
struct Reader {
    lender: Lender,
    memory: Arc<Mapping>,
    reassembler: Reassembler,
    held: Arc<AtomicUsize>,
    lent: usize,
    written: usize,
}

impl Reader {
    fn new(loan_pool: &LoanPool) -> Self {
        let memory = Arc::new(Mapping::new(loan_pool.descriptor().unwrap()[0].as_fd()).unwrap());
        let (lender, reassembler) = (Lender::new(loan_pool.clone()), Reassembler::new(1 << 30));
        Self { lender, memory, reassembler, held: Arc::default(), lent: 0, written: 0 }
    }

    /// Passes a piece; the message that it ends.
    fn pass(&mut self, header: FragmentHeader, data: Bytes) -> Option<Message> {
        let mut written = Vec::new();
        self.lender.take(header, data, &mut |header, data| written.push((header, data)));
        self.written += written.len();
        let mut messages = written.into_iter().filter_map(|(header, data)| self.read(&header, data));
        let message = messages.next();
        assert!(messages.next().is_none());
        message
    }

    fn read(&mut self, header: &FragmentHeader, data: Bytes) -> Option<Message> {
        assert_eq!(header.length as usize, data.len());
        if header.flags & LENT == 0 {
            assert!(data.len() <= PIECE_MAX);
            let Assembled::Whole(message) = self.reassembler.push(header, data).unwrap() else { return None };
            return Some(message);
        }
        self.lent += 1;
        let lent = Lent::decode(header, &data).unwrap();
        let body = Body::new(self.memory.clone(), Loan::new(&*self.memory, lent).unwrap(), self.held.clone());
        let head = MessageHeader::decode(data.first_chunk().unwrap());
        let body = Bytes::from_owner(body).into();
        Some(Message { src: header.src, dst: header.dst, header: head, body })
    }
}

fn message(src: u32, length: usize) -> Message {
    let body: Vec<u8> = (0..length).map(|at| ((at * 7 + src as usize) % 251) as u8).collect();
    let header = MessageHeader { tag: length as i32, ..MessageHeader::default() };
    Message { src: Tid::from_bits(src), dst: TASK, header, body: body.into() }
}

/// Passes messages piece by piece, by turns.
fn pass_all(reader: &mut Reader, messages: &[Message], size: usize) -> Vec<Message> {
    let mut queues: Vec<Vec<_>> = messages.iter().map(|message| message.fragments(size).collect()).collect();
    let mut whole = Vec::new();
    while queues.iter().any(|queue| !queue.is_empty()) {
        for queue in queues.iter_mut().filter(|queue| !queue.is_empty()) {
            let (header, data) = queue.remove(0);
            whole.extend(reader.pass(header, data));
        }
    }
    whole.sort_by_key(|message| message.src);
    whole
}

#[test]
fn long_messages_are_lent_and_short_ones_written() {
    let loan_pool = LoanPool::new(1 << 30);
    let mut reader = Reader::new(&loan_pool);
    let lengths = [0, 100, Lent::LEAST - 1, Lent::LEAST, 65_000, 1 << 20, (1 << 20) + 1, 20 << 20];
    let messages: Vec<_> = lengths.iter().zip(1..).map(|(&length, src)| message(src, length)).collect();
    assert_eq!(pass_all(&mut reader, &messages, PIECE_MAX), messages);
    assert_eq!((reader.lent, reader.written), (5, 8));
}

#[test]
fn what_is_given_back_is_used_again() {
    let loan_pool = LoanPool::new(8 << 20);
    let mut reader = Reader::new(&loan_pool);
    for round in 0..200 {
        let sent = message(round, 1 << 20);
        assert_eq!(pass_all(&mut reader, std::slice::from_ref(&sent), PIECE_MAX), [sent]);
    }
    assert_eq!(reader.lent, 200);
}

#[test]
fn what_finds_no_room_is_written() {
    // A part of the first is in the pool already when it turns out that it has no room; the others find none.
    let loan_pool = LoanPool::new(4 << 20);
    let mut reader = Reader::new(&loan_pool);
    let messages = [message(1, 3 << 20), message(2, 100_000), message(3, 8 << 20)];
    assert_eq!(pass_all(&mut reader, &messages, PIECE_MAX), messages);
    let kept = pass_all(&mut reader, &[message(4, 500_000)], PIECE_MAX);
    assert_eq!(kept, [message(4, 500_000)]);
    let nothing = LoanPool::new(0);
    let mut reader = Reader::new(&nothing);
    assert_eq!(pass_all(&mut reader, &messages, 4080), messages);
    assert_eq!(reader.lent, 0);
}

#[test]
fn who_takes_nothing_is_lent_only_so_much() {
    let loan_pool = LoanPool::new(1 << 30);
    let mut reader = Reader::new(&loan_pool);
    let kept: Vec<_> =
        (0..80).flat_map(|src| pass_all(&mut reader, &[message(src, 1 << 20)], PIECE_MAX)).collect();
    assert_eq!(kept.len(), 80);
    assert!((15..=16).contains(&reader.lent), "{}", reader.lent);
    drop(kept);
    pass_all(&mut reader, &[message(99, 1 << 20)], PIECE_MAX);
    assert!(reader.lent > 16, "what it has given back can be lent again");
}

#[test]
fn a_message_that_begins_anew_replaces_the_unfinished_one() {
    let loan_pool = LoanPool::new(1 << 30);
    let mut reader = Reader::new(&loan_pool);
    let (half, whole) = (message(1, 1 << 20), message(1, 200_000));
    let (header, data) = half.fragments(PIECE_MAX).next().unwrap();
    assert_eq!(reader.pass(header, data), None);
    assert_eq!(pass_all(&mut reader, std::slice::from_ref(&whole), PIECE_MAX), [whole]);
    // A continuation of nothing goes on as it came.
    let (header, data) = half.fragments(PIECE_MAX).nth(1).unwrap();
    reader.written = 0;
    assert_eq!(reader.pass(header, data), None);
    assert_eq!(reader.written, 1);
}

#[test]
fn when_a_task_is_gone_its_memory_is_used_again() {
    let loan_pool = LoanPool::new(8 << 20);
    for round in 0..100 {
        let mut reader = Reader::new(&loan_pool);
        let kept = pass_all(&mut reader, &[message(round, 1 << 20)], PIECE_MAX);
        assert_eq!((reader.lent, kept.len()), (1, 1));
        // It ends without a word.
        std::mem::forget(kept);
    }
}

/// Passes pieces to both readers, to the second ones `lag` pieces behind.
fn pass_to_both(
    readers: &mut [Reader; 2],
    pieces: &[(FragmentHeader, Bytes)],
    lag: usize,
) -> [Vec<Message>; 2] {
    let mut whole = [Vec::new(), Vec::new()];
    for at in 0..pieces.len() + lag {
        for (reader, behind) in [0, lag].into_iter().enumerate() {
            let piece = at.checked_sub(behind).and_then(|at| pieces.get(at)).cloned();
            whole[reader].extend(piece.and_then(|(header, data)| readers[reader].pass(header, data)));
        }
    }
    whole
}

#[test]
fn receivers_of_a_multicast_read_the_same_bytes() {
    for (length, lag) in [(50_000, 0), (50_000, 1), (1 << 20, 0), (1 << 20, 3), (20 << 20, 5)] {
        let loan_pool = LoanPool::new(1 << 30);
        let mut readers = [Reader::new(&loan_pool), Reader::new(&loan_pool)];
        let sent = message(1, length);
        let pieces: Vec<_> = sent.fragments(PIECE_MAX).collect();
        let [first, second] = pass_to_both(&mut readers, &pieces, lag);
        let used = loan_pool.with(|memory| Some(memory.outbox.used())).unwrap();
        assert!(used < length as u64 * 5 / 4 + 65_536, "{length} bytes for two receivers take {used}");
        drop(first);
        assert_eq!(second, [sent], "what the other has given back is there still");
    }
}

#[test]
fn messages_with_the_same_content_are_not_mixed_up() {
    let loan_pool = LoanPool::new(1 << 30);
    let mut readers = [Reader::new(&loan_pool), Reader::new(&loan_pool)];
    let (once, twice) = (message(1, 200_000), message(1, 200_000));
    // The first reader gets one whole, of which the second gets half, and then the other.
    let whole = pass_all(&mut readers[0], std::slice::from_ref(&once), PIECE_MAX);
    let (header, data) = once.fragments(PIECE_MAX).next().unwrap();
    assert_eq!(readers[1].pass(header, data), None);
    assert_eq!(pass_all(&mut readers[1], std::slice::from_ref(&twice), PIECE_MAX), whole);
}

#[test]
fn a_receiver_whose_message_finds_no_room_gets_it_written_beside_one_that_is_behind() {
    let loan_pool = LoanPool::new(4 << 20);
    let mut readers = [Reader::new(&loan_pool), Reader::new(&loan_pool)];
    let sent = message(1, 8 << 20);
    let pieces: Vec<_> = sent.fragments(PIECE_MAX).collect();
    for got in pass_to_both(&mut readers, &pieces, 2) {
        assert_eq!(got, std::slice::from_ref(&sent));
    }
}
