use super::*;

use proptest::prelude::*;
use pvm_shm::{Memory, Outbox, SEGMENT_SIZE};
use pvm_wire::{Message, Tid};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

fn message(length: usize) -> Message {
    let body: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
    Message { src: Tid::ANY, dst: Tid::from_bits(0x40002), body: body.into(), ..Message::default() }
}

fn enrolled() -> Reading {
    Reading { enrolled: true, ..Reading::default() }
}

/// Feeds a stream in chunks and puts the pieces together.
fn cut(stream: &[u8], chunk: usize) -> (Vec<u8>, Vec<FragmentHeader>) {
    let (mut cutter, mut buffer) = (Cutter::default(), BytesMut::new());
    let (mut data, mut headers) = (Vec::new(), Vec::new());
    for part in stream.chunks(chunk) {
        buffer.extend_from_slice(part);
        while let Some((header, piece)) = cutter.next(&mut buffer, &enrolled()).unwrap() {
            assert_eq!(header.length as usize, piece.len());
            assert!(piece.len() <= PIECE_MAX);
            data.extend_from_slice(&piece);
            headers.push(header);
        }
    }
    assert!(buffer.is_empty() && !cutter.inside());
    (data, headers)
}

proptest! {
    #[test]
    fn every_byte_comes_through_in_order(length in 0_usize..300_000, fragment in 4080_usize..400_000, chunk in 1_usize..200_000) {
        let message = message(length);
        let (data, headers) = cut(&message.encode(fragment), chunk.max(500));
        prop_assert_eq!(&data[MessageHeader::SIZE..], &message.body[..]);
        prop_assert!(headers.iter().enumerate().all(|(i, h)| (h.flags & SOM != 0) == (i == 0)));
        prop_assert!(headers.iter().rev().enumerate().all(|(i, h)| (h.flags & EOM != 0) == (i == 0)));
    }
}

#[test]
fn a_long_fragment_is_refused_before_the_enrolment() {
    let mut buffer = BytesMut::from(&message(5000).encode(10_000)[..]);
    assert!(Cutter::default().next(&mut buffer, &Reading::default()).is_err());
    let mut buffer = BytesMut::from(&message(100).encode(4080)[..]);
    assert!(Cutter::default().next(&mut buffer, &Reading::default()).unwrap().is_some());
}

#[test]
fn the_first_piece_has_the_whole_message_header() {
    let stream = message(100_000).encode(200_000);
    let (mut cutter, mut buffer) = (Cutter::default(), BytesMut::from(&stream[..20]));
    assert!(cutter.next(&mut buffer, &enrolled()).unwrap().is_none());
    buffer.extend_from_slice(&stream[20..FragmentHeader::SIZE + MessageHeader::SIZE]);
    let (header, data) = cutter.next(&mut buffer, &enrolled()).unwrap().unwrap();
    assert_eq!((header.flags, data.len()), (SOM, MessageHeader::SIZE));
}

/// A body of `length` bytes in a task's memory, and the fragment that says where.
fn lent(outbox: &mut Outbox, length: usize) -> (Vec<u8>, Lent, Message) {
    let body: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
    let parcel = outbox.pack(&[&body]).unwrap();
    let lent = outbox.lend(Tid::MY_DAEMON, &parcel).unwrap();
    (body, lent, Message { body: lent.encode().to_vec().into(), ..message(0) })
}

/// Such a message's one fragment.
fn place(message: &Message) -> Vec<u8> {
    let mut bytes = message.encode(4080);
    bytes[12] |= LENT;
    bytes
}

#[test]
fn a_lent_body_is_read_where_it_lies_and_given_back() {
    let mut outbox = Outbox::new(1 << 24).unwrap();
    let memory = Some(Arc::new(Mapping::new(outbox.segment().fd()).unwrap()));
    let reading = Reading { memory, ..enrolled() };
    for length in [0, 1, PIECE_MAX - MessageHeader::SIZE, PIECE_MAX, 300_000] {
        let (body, lent, message) = lent(&mut outbox, length);
        let mut buffer = BytesMut::from(&[place(&message), self::message(10).encode(4080)].concat()[..]);
        let (mut cutter, mut data, mut flags) = (Cutter::default(), Vec::new(), Vec::new());
        while flags.last().is_none_or(|flags| flags & EOM == 0) {
            let (header, piece) = cutter.next(&mut buffer, &reading).unwrap().unwrap();
            assert_eq!(header.length as usize, piece.len());
            assert!(piece.len() <= PIECE_MAX);
            data.extend_from_slice(&piece);
            flags.push(header.flags);
        }
        assert!(data[MessageHeader::SIZE..] == body, "{length} bytes");
        assert_eq!(flags.iter().filter(|&flags| flags & SOM != 0).count(), 1);
        assert!(flags.iter().all(|flags| flags & LENT == 0));
        assert_eq!(outbox.memory().load(lent.flag), 1, "{length} bytes are not given back");
        assert_eq!(cutter.next(&mut buffer, &reading).unwrap().unwrap().1.len(), MessageHeader::SIZE + 10);
        assert!(!cutter.inside() && buffer.is_empty());
    }
}

#[test]
fn what_is_lent_and_is_nowhere_ends_the_connection() {
    let mut outbox = Outbox::new(1 << 24).unwrap();
    let memory = Some(Arc::new(Mapping::new(outbox.segment().fd()).unwrap()));
    let reading = Reading { memory, ..enrolled() };
    let (_, lent, good) = lent(&mut outbox, 100);
    let wrong = |lent: Lent| Message { body: lent.encode().to_vec().into(), ..message(0) };
    let refused = |bytes: &[u8], reading: &Reading| {
        Cutter::default().next(&mut BytesMut::from(bytes), reading).is_err()
    };
    assert!(refused(&place(&good), &enrolled()), "it shares nothing");
    assert!(refused(&place(&wrong(Lent { at: SEGMENT_SIZE - 50, ..lent })), &reading));
    assert!(refused(&place(&wrong(Lent { flag: u64::MAX, ..lent })), &reading));
    assert!(refused(&place(&message(19)), &reading) && refused(&place(&message(21)), &reading));
    let mut long = place(&message(100_000));
    long[8..12].copy_from_slice(&100_032_u32.to_be_bytes());
    assert!(refused(&long, &reading));
    let mut begun = place(&good);
    begun[12] &= !EOM;
    assert!(refused(&begun, &reading));
}

#[tokio::test]
async fn what_is_sent_at_once_and_what_waits_comes_in_order() {
    let (mut task, daemon) = UnixStream::pair().unwrap();
    let (input, mut inputs) = mpsc::channel(16);
    let connection = descriptors::connection(daemon.into_std().unwrap()).unwrap();
    let handle = serve(connection, ConnId(3), &input);
    let lengths: Vec<usize> = (0..60).map(|number| number * number * 40).collect();
    let (mut expected, mut at_once) = (Vec::new(), 0);
    for (number, &length) in lengths.iter().enumerate() {
        let data = Bytes::from(vec![number as u8; length]);
        let header = FragmentHeader { dst: Tid::ANY, src: Tid::ANY, length: length as u32, flags: SOM | EOM };
        expected.extend([&header.encode()[..], &data].concat());
        at_once += usize::from(handle.send_now(header, data));
    }
    assert!((1..lengths.len()).contains(&at_once), "{at_once}: there is room for some");
    let mut received = vec![0; expected.len()];
    task.read_exact(&mut received).await.unwrap();
    assert!(received == expected);
    // Once the writer has said that it has done its part, there is room again.
    while handle.is_behind() {
        inputs.recv().await.expect("news");
    }
    assert!(handle.send_now(
        FragmentHeader { dst: Tid::ANY, src: Tid::ANY, length: 0, flags: SOM | EOM },
        Bytes::new()
    ));
}

/// So long it may take on a machine that has much to do.
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_end_of_a_task_that_is_not_read_is_seen() {
    let (task, daemon) = UnixStream::pair().unwrap();
    let (input, mut inputs) = mpsc::channel(16);
    let (conn, handle) = adopt(daemon.into_std().unwrap(), &Numbers::default(), &input).unwrap();
    handle.pause(true);
    task.try_write(&message(10).encode(4080)).unwrap();
    tokio::time::sleep(HANG_UP_LOOK * 2).await;
    assert!(inputs.try_recv().is_err(), "it is not read");
    drop(task);
    let mut closed = false;
    while !closed {
        let said = tokio::time::timeout(LIMIT, inputs.recv()).await.expect("in time").expect("news");
        closed = matches!(said, Input::Event(Event::TaskClosed { conn: c, .. }) if c == conn);
    }
}
