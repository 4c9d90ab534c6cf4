//! Messages from other tasks, unpacked as any types.

use crate::cursor::Cursor;
use bytes::Bytes;
use pvm_wire::{Message, MessageHeader, Tid, runs};
use pvm3::Received;

/// Most elements asked for at once: a program's own wish, not what a message says.
const MOST: u32 = 1 << 20;

/// Reads the first bytes as a message's encoding and checksum words and a list of types, the rest as its body.
pub fn read(bytes: &[u8]) {
    let mut cursor = Cursor(bytes);
    let (encoding, checksum) = (cursor.word(), cursor.word());
    let order = cursor.piece(16);
    let body = Bytes::copy_from_slice(cursor.0);
    let header = MessageHeader { encoding, checksum, ..MessageHeader::default() };
    let message =
        Message { src: Tid::from_bits(0x40001), dst: Tid::from_bits(0x40002), header, body: body.into() };
    let mut received = Received::new(message);
    for pair in order.chunks(2) {
        let count = u32::from(pair[0]).pow(3).min(MOST) as usize;
        unpack(&mut received, pair.get(1).copied().unwrap_or(0), count);
    }
    received.rewind();
    let _ = received.body().map(<[u8]>::len);
    let _ = received.into_message();

    if let Some(found) = runs::split(checksum, cursor.0) {
        assert_eq!(found.to_xdr(cursor.0).map(|(body, _)| body.len()), Ok(found.xdr));
        // Another body than that which was looked at: its sender may break the rules meanwhile.
        let _ = found.to_xdr(&cursor.0[..cursor.0.len() / 2]);
    }
}

fn unpack(received: &mut Received, kind: u8, count: usize) {
    let _ = match kind % 9 {
        0 => received.get::<u8>(count).map(drop),
        1 => received.get::<i16>(count).map(drop),
        2 => received.get::<i32>(count).map(drop),
        3 => received.get::<i64>(count).map(drop),
        4 => received.get::<f32>(count).map(drop),
        5 => received.get::<f64>(count).map(drop),
        6 => received.get_str().map(drop),
        7 => received.get_value::<Vec<String>>().map(drop),
        _ => received.get_tid().map(drop),
    };
}
