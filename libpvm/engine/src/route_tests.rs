use super::*;
use proptest::prelude::*;
use std::io::Write;
use std::os::unix::net::UnixStream;

fn tid(bits: u32) -> Tid {
    Tid::from_bits(bits)
}

fn pair() -> (Route, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    (Route::new(ours.into(), MESSAGE_MAX), theirs)
}

fn message(src: u32, body: Vec<u8>) -> Message {
    let header = MessageHeader { tag: 5, context: 6, ..MessageHeader::default() };
    Message { src: tid(src), dst: tid(9), header, body: body.into() }
}

/// Sends from one route to another, reading whenever the socket is full.
fn carry(from: &mut Route, to: &mut Route, mut outgoing: Outgoing<'_>) -> Vec<Message> {
    let mut messages = Vec::new();
    while !outgoing.is_done() {
        if !outgoing.write(from).unwrap() {
            to.read(&mut messages).unwrap();
        }
    }
    while matches!(to.read(&mut messages).unwrap(), Arrival::Some(_)) {}
    messages
}

fn routes() -> (Route, Route) {
    let (ours, theirs) = pair();
    theirs.set_nonblocking(true).unwrap();
    (ours, Route::new(theirs.into(), MESSAGE_MAX))
}

/// Two routes of tasks on different hosts, of which one sends in the name of task 7.
fn sealed_routes() -> (Route, Route) {
    let (mut from, mut to) = routes();
    let (offer, said) = seal::Offer::new().unwrap();
    let (seal, answer) = seal::accept(&said).unwrap();
    from.seal = Some(Box::new(seal));
    to.seal = offer.complete(&answer).map(Box::new);
    to.peer = Some(tid(7));
    (from, to)
}

fn long_or_short() -> impl Strategy<Value = usize> {
    prop_oneof![
        20 => 0_usize..100,
        20 => 3000_usize..9000,
        10 => 60_000_usize..200_000,
        1 => 2_000_000_usize..4_000_000
    ]
}

/// Fails unless a message of this size arrives whole.
fn arrives((mut from, mut to): (Route, Route), size: usize, fragment_size: usize) {
    let sent = message(7, (0..size).map(|i| (i % 251) as u8).collect());
    let outgoing = Outgoing::new(sent.src, sent.dst, sent.header, &[&sent.body], fragment_size).unwrap();
    assert_eq!(carry(&mut from, &mut to, outgoing), vec![sent]);
}

proptest! {
    #[test]
    fn all_sent_bytes_arrive(size in 0_usize..40_000, fragment_size in 49_usize..5000) {
        arrives(routes(), size, fragment_size);
    }

    #[test]
    fn long_messages_arrive_on_a_direct_route(
        sizes in prop::collection::vec(long_or_short(), 1..6),
        fragment_size in prop_oneof![49_usize..5000, Just(FRAGMENT_MAX)],
        is_cut: bool,
        is_sealed: bool,
    ) {
        let (mut from, mut to) = if is_sealed { sealed_routes() } else { routes() };
        to.peer = Some(tid(7));
        for size in sizes {
            let sent = message(7, (0..size).map(|i| (i % 251) as u8).collect());
            let (begin, end) = sent.body.split_at(size / 3);
            let parts: &[&[u8]] = if is_cut { &[begin, end, &[]] } else { &[&sent.body] };
            let outgoing = Outgoing::new(sent.src, sent.dst, sent.header, parts, fragment_size).unwrap();
            prop_assert_eq!(carry(&mut from, &mut to, outgoing), vec![sent]);
            prop_assert_eq!(to.partial(), 0);
        }
    }

    #[test]
    fn all_sealed_bytes_arrive(size in 0_usize..400_000, fragment_size in 49_usize..200_000) {
        arrives(sealed_routes(), size, fragment_size);
    }

    #[test]
    fn bytes_may_come_in_any_pieces(
        sizes in prop::collection::vec(0_usize..300, 1..6),
        cuts in prop::collection::vec(1_usize..80, 1..30),
    ) {
        let (mut to, mut from) = pair();
        let sent: Vec<_> = sizes.iter().map(|&size| message(size as u32 + 1, vec![size as u8; size])).collect();
        let stream: Vec<u8> = sent.iter().flat_map(|message| message.encode(100)).collect();
        let mut messages = Vec::new();
        let mut rest = &stream[..];
        for cut in cuts.into_iter().cycle() {
            if rest.is_empty() { break; }
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            from.write_all(piece).unwrap();
            to.read(&mut messages).unwrap();
            rest = after;
        }
        prop_assert_eq!(messages, sent);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let (mut to, mut from) = pair();
        from.write_all(&bytes).unwrap();
        let _ = to.read(&mut Vec::new());
    }
}

#[test]
fn parts_become_fragments_of_their_own_of_any_length() {
    let (mut from, mut to) = routes();
    let (a, b) = (vec![1; 300_000], vec![2; 5]);
    let parts: [&[u8]; 3] = [&a, &b, &[]];
    let outgoing = Outgoing::new(tid(1), tid(2), MessageHeader::default(), &parts, 4080).unwrap();
    assert_eq!(outgoing.pieces.len(), 3);
    let messages = carry(&mut from, &mut to, outgoing);
    assert_eq!(messages.len(), 1);
    assert!(messages[0].body[..] == [a, b].concat());
}

#[test]
fn nothing_at_all_is_a_message_too() {
    let (mut from, mut to) = routes();
    for parts in [&[][..], &[&[][..]][..]] {
        let outgoing = Outgoing::new(tid(1), tid(2), MessageHeader::default(), parts, 4080).unwrap();
        assert_eq!(carry(&mut from, &mut to, outgoing)[0].body.len(), 0);
    }
}

#[test]
fn many_fragments_go_in_several_calls() {
    let (mut from, mut to) = routes();
    let sent = message(3, vec![4; 10 * ROUTE_BATCH * 100]);
    let outgoing = Outgoing::new(sent.src, sent.dst, sent.header, &[&sent.body], 148).unwrap();
    assert_eq!(outgoing.pieces.len(), 10 * ROUTE_BATCH);
    assert!(carry(&mut from, &mut to, outgoing) == [sent]);
}

#[test]
fn a_length_field_alone_asks_for_no_memory() {
    let (mut to, mut from) = pair();
    let header = FragmentHeader { dst: tid(1), src: tid(2), length: u32::MAX, flags: SOM | EOM };
    from.write_all(&header.encode()).unwrap();
    from.write_all(&[0; 1000]).unwrap();
    let mut messages = Vec::new();
    assert!(matches!(to.read(&mut messages).unwrap(), Arrival::Some(_)));
    assert!(messages.is_empty() && to.unread.capacity() < 4 * PIECE_MAX);
}

#[test]
fn a_closed_peer_is_no_broken_pipe() {
    let (mut ours, theirs) = pair();
    drop(theirs);
    assert!(matches!(ours.read(&mut Vec::new()).unwrap(), Arrival::Closed));
    let mut outgoing = Outgoing::new(tid(1), tid(2), MessageHeader::default(), &[b"x"], 4080).unwrap();
    assert_eq!(outgoing.write(&mut ours).unwrap_err().code(), PvmError::SysErr);
}

#[test]
fn a_task_speaks_only_for_itself() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let mut to = Route::direct(ours.into(), MESSAGE_MAX, tid(7), None);
    let mut from = theirs;
    let mut messages = Vec::new();
    from.write_all(&message(7, vec![1; 10]).encode(4080)).unwrap();
    assert!(matches!(to.read(&mut messages).unwrap(), Arrival::Some(_)));
    from.write_all(&message(8, vec![1; 10]).encode(4080)).unwrap();
    assert_eq!(to.read(&mut messages).unwrap_err().code(), PvmError::BadParam);
    assert_eq!(messages.len(), 1);
}

#[test]
fn what_a_task_has_begun_is_counted() {
    let (ours, mut from) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let mut to = Route::direct(ours.into(), MESSAGE_MAX, tid(7), None);
    let stream = message(7, vec![1; 3000]).encode(1048);
    let (most, last) = stream.split_at(stream.len() - 1);
    from.write_all(most).unwrap();
    to.read(&mut Vec::new()).unwrap();
    assert!(to.partial() > 2000);
    from.write_all(last).unwrap();
    to.read(&mut Vec::new()).unwrap();
    assert_eq!(to.partial(), 0);
}

#[test]
fn a_length_asks_for_no_memory_and_a_message_beyond_the_limit_is_refused() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let mut to = Route::direct(ours.into(), 10 << 20, tid(7), None);
    let header = FragmentHeader { dst: tid(9), src: tid(7), length: 9 << 20, flags: SOM };
    let begin = [&header.encode()[..], &MessageHeader::default().encode(), &[0; 100]].concat();
    theirs.write_all(&begin).unwrap();
    let mut messages = Vec::new();
    to.read(&mut messages).unwrap();
    theirs.write_all(&[1; 5000]).unwrap();
    to.read(&mut messages).unwrap();
    let body = to.reassembler.body_for(tid(7), 0).unwrap().unwrap();
    assert!(body.len() == 5100 && body.capacity() < 2 * ROUTE_ROOM);
    to.fragment = to.fragment.map(|open| OpenFragment { left: 10 << 20, ..open });
    theirs.write_all(&[1; 5000]).unwrap();
    assert!(to.read(&mut messages).is_err() && messages.is_empty());
}

#[test]
fn a_long_sealed_message_takes_little_memory_besides_its_body() {
    let (mut from, mut to) = sealed_routes();
    let sent = message(7, (0..3_000_000).map(|i| (i % 251) as u8).collect());
    let outgoing = Outgoing::new(sent.src, sent.dst, sent.header, &[&sent.body], FRAGMENT_MAX).unwrap();
    assert!(carry(&mut from, &mut to, outgoing) == [sent]);
    assert!(to.unread.capacity() < 2 * seal::AHEAD, "the memory is used again and again");
}

#[test]
fn a_sealed_message_beyond_the_limit_is_refused() {
    let (mut from, mut to) = sealed_routes();
    to.reassembler = Reassembler::new(1_000_000);
    let sent = message(7, vec![1; 1_000_001]);
    let mut outgoing = Outgoing::new(sent.src, sent.dst, sent.header, &[&sent.body], FRAGMENT_MAX).unwrap();
    let (mut messages, mut result) = (Vec::new(), Ok(Arrival::None));
    while result.is_ok() && !outgoing.is_done() {
        outgoing.write(&mut from).unwrap();
        result = to.read(&mut messages);
    }
    assert!(result.is_err() && messages.is_empty());
}
