//! Packing and unpacking small messages again and again asks for no memory.

use allocation_counter::measure;
use pvm_wire::encoding::LOCAL_WORD;
use pvm_wire::{Body, MessageHeader, Runs};
use pvm3::{Message, Pack, Received, Tid};

/// How often memory is asked for in many rounds, after a few that may.
fn asked(mut round: impl FnMut()) -> u64 {
    (0..8).for_each(|_| round());
    measure(|| (0..1000).for_each(|_| round())).count_total
}

#[test]
fn the_counter_counts() {
    assert_eq!(asked(|| drop(std::hint::black_box(Box::new(1)))), 1000);
}

#[test]
fn packing_in_rust_asks_for_nothing() {
    let mut pack = Pack::new();
    let round = || {
        pack.clear();
        pack.put_one(4).and_then(|pack| pack.put(&[1.5, 2.5])).and_then(|pack| pack.put_str("text")).unwrap();
        assert_eq!(pack.len(), 4 + 16 + 12);
    };
    assert_eq!(asked(round), 0);
}

#[test]
fn unpacking_what_was_not_converted_asks_for_nothing() {
    let mut runs = Runs::default();
    runs.push::<i32>(1).unwrap();
    runs.push::<f64>(2).unwrap();
    let native = [&4_i32.to_ne_bytes()[..], &1.5_f64.to_ne_bytes(), &2.5_f64.to_ne_bytes()].concat();
    let body = [&native[..], runs.as_bytes()].concat();
    let header = MessageHeader { encoding: LOCAL_WORD, checksum: runs.word(), ..MessageHeader::default() };
    let found = asked(|| {
        let src = Tid::from_raw(0x40001);
        let message = Message { src, dst: src, header, body: Body::copy_from_slice(&body) };
        let (mut received, mut values) = (Received::new(message), [0.0; 2]);
        assert_eq!((received.len(), received.get_one::<i32>().unwrap()), (20, 4));
        received.get_into(&mut values).unwrap();
        assert_eq!(values.map(f64::to_bits), [1.5_f64, 2.5].map(f64::to_bits));
    });
    assert_eq!(found, 0);
}
