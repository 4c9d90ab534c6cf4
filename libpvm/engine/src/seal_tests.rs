use super::*;
use proptest::prelude::*;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

fn seals() -> (Seal, Seal) {
    let (offer, said) = Offer::new().expect("random numbers can be had");
    let (theirs, answer) = accept(&said).expect("an offer");
    (offer.complete(&answer).expect("an answer"), theirs)
}

fn sockets() -> (OwnedFd, OwnedFd) {
    let (a, b) = UnixStream::pair().unwrap();
    a.set_nonblocking(true).unwrap();
    b.set_nonblocking(true).unwrap();
    (a.into(), b.into())
}

/// Everything that is sealed on one side is opened on the other, for any number of bytes that the socket takes at a time.
fn carry(from: &mut Seal, to: &mut Seal, parts: &[Vec<u8>]) -> Vec<u8> {
    let (near, far) = sockets();
    let (mut slices, mut opened) =
        (parts.iter().map(|part| IoSlice::new(part)).collect::<Vec<_>>(), Vec::with_capacity(100_000));
    let mut rest = &mut slices[..];
    while rest.iter().any(|slice| !slice.is_empty()) || !from.is_flushed() {
        match from.write(&near, rest) {
            Ok(count) => IoSlice::advance_slices(&mut rest, count),
            Err(Errno::AGAIN) => assert!(to.read(&far, &mut opened).unwrap() > 0),
            Err(error) => panic!("{error}"),
        }
    }
    while to.read(&far, &mut opened).is_ok_and(|count| count > 0) {}
    opened
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn sealed_records_are_opened(sizes in prop::collection::vec(0_usize..300_000, 0..5), small in prop::collection::vec(0_usize..100, 0..50)) {
        let (mut ours, mut theirs) = seals();
        let parts = |sizes: &[usize]| -> Vec<Vec<u8>> {
            sizes.iter().map(|&size| (0..size).map(|i| (i % 251) as u8).collect()).collect()
        };
        let there = parts(&sizes);
        prop_assert_eq!(carry(&mut ours, &mut theirs, &there), there.concat());
        // And back, by other keys.
        let back = parts(&small);
        prop_assert_eq!(carry(&mut theirs, &mut ours, &back), back.concat());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn records_may_come_in_any_pieces(
        sizes in prop::collection::vec(prop_oneof![0_usize..200, 30_000_usize..70_000], 1..4),
        cuts in prop::collection::vec(prop_oneof![1_usize..80, 1000_usize..100_000], 5..10),
    ) {
        let (mut ours, mut theirs) = seals();
        let sent: Vec<Vec<u8>> = sizes.iter().map(|&size| (0..size).map(|i| (i % 241) as u8).collect()).collect();
        let (near, far) = sockets();
        let mut sealed = Vec::new();
        for part in &sent {
            let mut rest = &mut [IoSlice::new(part)][..];
            while !rest.is_empty() {
                let taken = ours.seal(rest).unwrap();
                sealed.extend_from_slice(&ours.sealed);
                ours.sent = ours.sealed.len();
                IoSlice::advance_slices(&mut rest, taken);
            }
        }
        let (mut opened, mut rest) = (Vec::with_capacity(sealed.len()), &sealed[..]);
        for cut in cuts.into_iter().cycle() {
            if rest.is_empty() { break; }
            let count = rustix::io::write(&near, &rest[..cut.min(rest.len())]).unwrap();
            rest = &rest[count..];
            while theirs.read(&far, &mut opened).is_ok() {}
            // Nothing that is not opened yet is among what is.
            prop_assert!(sent.concat().starts_with(&opened));
        }
        prop_assert_eq!(opened, sent.concat());
    }
}

#[test]
fn a_length_alone_asks_for_little_memory() {
    let (_, mut theirs) = seals();
    let (near, far) = sockets();
    rustix::io::write(&near, &[0xff, 0xff, 1]).unwrap();
    let mut opened = Vec::new();
    while theirs.read(&far, &mut opened).is_ok() {}
    assert!(opened.is_empty() && opened.capacity() <= LENGTH + usize::from(u16::MAX));
}

#[test]
fn records_are_those_of_noise() {
    let (mut first, mut second) =
        (builder().unwrap().build_initiator().unwrap(), builder().unwrap().build_responder().unwrap());
    let offer = write_handshake(&mut first).unwrap();
    read_handshake(&mut second, &offer).unwrap();
    let answer = write_handshake(&mut second).unwrap();
    read_handshake(&mut first, &answer).unwrap();
    let (mut ours, mut theirs) = (Seal::new(first).unwrap(), second.into_transport_mode().unwrap());
    for text in [&b"one"[..], b"two"] {
        let bytes = on_its_way(&mut ours, text);
        let mut plain = [0; 100];
        let length = theirs.read_message(&bytes[LENGTH..], &mut plain).unwrap();
        assert_eq!(&plain[..length], text);
        let mut sealed = [0; 100];
        let length = theirs.write_message(text, &mut sealed).unwrap();
        let back = [&(length as u16).to_be_bytes()[..], &sealed[..length]].concat();
        assert_eq!(opened(&mut ours, &back), Ok(text.to_vec()));
    }
    let unfinished = builder().unwrap().build_initiator().unwrap();
    assert!(Seal::new(unfinished).is_none());
}

/// What a message looks like on its way.
fn on_its_way(seal: &mut Seal, text: &[u8]) -> Vec<u8> {
    let (near, far) = UnixStream::pair().unwrap();
    seal.write(&near.into(), &[IoSlice::new(text)]).unwrap();
    let mut bytes = vec![0; 1000];
    let length = (&far).read(&mut bytes).unwrap();
    bytes.truncate(length);
    bytes
}

/// What comes of these bytes at the other end.
fn opened(seal: &mut Seal, bytes: &[u8]) -> rustix::io::Result<Vec<u8>> {
    let (mut near, far) = UnixStream::pair().unwrap();
    near.write_all(bytes).unwrap();
    let mut opened = Vec::with_capacity(1000);
    seal.read(&far.into(), &mut opened)?;
    Ok(opened)
}

#[test]
fn nothing_can_be_read_on_the_way_or_changed() {
    let text = b"nobody else may know of this";
    let (mut ours, _) = seals();
    let bytes = on_its_way(&mut ours, text);
    assert_eq!(bytes.len(), LENGTH + text.len() + TAG);
    assert!(!bytes.windows(8).any(|part| text.windows(8).any(|other| part == other)));
    for at in 0..bytes.len() {
        let (mut ours, mut theirs) = seals();
        let mut bytes = on_its_way(&mut ours, text);
        bytes[at] ^= 1;
        let seen = opened(&mut theirs, &bytes);
        // A length that is too great makes it wait for more.
        assert!(
            matches!(&seen, Err(Errno::BADMSG)) || at < LENGTH && seen == Ok(Vec::new()),
            "{at}: {seen:?}"
        );
    }
}

#[test]
fn nothing_can_be_said_again_or_left_out() {
    let (mut ours, mut theirs) = seals();
    let (first, second) = (on_its_way(&mut ours, b"first"), on_its_way(&mut ours, b"second"));
    assert_eq!(opened(&mut theirs, &first), Ok(b"first".to_vec()));
    assert_eq!(opened(&mut theirs, &first), Err(Errno::BADMSG));
    let (mut ours, mut theirs) = seals();
    on_its_way(&mut ours, b"first");
    let second_alone = on_its_way(&mut ours, b"second");
    assert_eq!(opened(&mut theirs, &second_alone), Err(Errno::BADMSG));
    assert_ne!(second, second_alone, "keys are new each time");
}

#[test]
fn offers_and_answers_that_make_no_sense_give_no_seal() {
    for bad in [&b""[..], b"short", &[0; 31], &[7; 300]] {
        assert!(accept(bad).is_none() || bad.len() >= 32);
        let (offer, _) = Offer::new().unwrap();
        assert!(offer.complete(bad).is_none());
    }
}
