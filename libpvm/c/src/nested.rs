//! Messages inside messages: `pvm_pkmesg`, `pvm_pkmesgbody`, `pvm_upkmesg`. In XDR this is the form of
//! [`pvm_wire::calls::nested`], in which the mailbox keeps messages.
//! As in PVM these calls only return their errors.

use super::buffers::{Buffer, Format, Info};
use super::state::{Failure, call};
use pvm_wire::calls::nested::PIECE;
use pvm_wire::{Encoding, Message, MessageHeader, PvmError, Tid, Upper};
use std::ffi::c_int;

/// Appends a whole message, header and body, to `target`.
fn write(target: &mut Buffer, message: &Message) -> Result<(), PvmError> {
    let Message { src, dst, header, body } = message;
    let (encoding, checksum) = (header.encoding as i32, header.checksum as i32);
    let (length, MessageHeader { tag, context, wait_id, .. }) = (body.len() as i32, header);
    let head = [length, *context, *tag, *wait_id, encoding, checksum, src.raw(), dst.raw()];
    target.pack(head.into_iter())?;
    for piece in body.chunks(PIECE) {
        target.pack(std::iter::once(piece.len() as i32))?;
        target.pack_bytes::<u8>(piece)?;
    }
    Ok(())
}

/// Reads a whole message.
fn read(source: &mut Buffer) -> Result<Message, PvmError> {
    let mut head = [0; 8];
    source.unpack(8, |index, value: i32| head[index] = value)?;
    let [length, context, tag, wait_id, encoding, checksum, src, dst] = head;
    let length = usize::try_from(length).map_err(|_| PvmError::BadMsg)?;
    if length > source.left() {
        return Err(PvmError::BadMsg);
    }
    let mut body = Vec::with_capacity(length);
    while body.len() < length {
        let piece = usize::try_from(source.unpack_int()?).map_err(|_| PvmError::BadMsg)?;
        // Empty pieces do occur; each takes four bytes, so they end too.
        if piece > length - body.len() {
            return Err(PvmError::BadMsg);
        }
        let bytes = source.take(piece)?;
        if bytes.len() < piece {
            return Err(PvmError::BadMsg);
        }
        body.extend_from_slice(bytes);
    }
    let (encoding, checksum) = (encoding as u32, checksum as u32);
    let header = MessageHeader { encoding, tag, context, wait_id, checksum };
    Ok(Message { src: Tid::from_raw(src), dst: Tid::from_raw(dst), header, body: body.into() })
}

/// A message that was inside another, to be unpacked.
pub fn unpackable(message: Message) -> Buffer {
    let Message { src, dst, header, body } = message;
    // In-place data have become plain native data by now.
    let format = match Format::from_word(header.encoding) {
        Format::Plain(Encoding::InPlace) => Format::Plain(Encoding::Raw),
        format => format,
    };
    let mut buffer = Buffer::encoded_as(format, body.to_vec());
    buffer.set_header(src, dst, &header);
    buffer.split_upper();
    buffer
}

/// A buffer as a message that can be inside another, including in-place data.
pub fn whole(buffer: &mut Buffer) -> Result<Message, PvmError> {
    let info = buffer.info;
    let (mut body, upper) = whole_body(buffer)?;
    let checksum = if upper.is_empty() { info.checksum as u32 } else { upper.word() };
    body.extend(upper.encode());
    i32::try_from(body.len()).map_err(|_| PvmError::NoMem)?;
    let Info { context, tag, wait_id, .. } = info;
    let header = MessageHeader { encoding: buffer.format.shown(), tag, context, wait_id, checksum };
    let (src, dst) = (Tid::from_raw(info.src), Tid::from_raw(info.dst));
    Ok(Message { src, dst, header, body: body.into() })
}

fn whole_body(buffer: &mut Buffer) -> Result<(Vec<u8>, Upper), PvmError> {
    let (body, upper) = buffer.encoded()?;
    let (mut body, upper) = (body.to_vec(), upper.clone());
    for part in super::send::parts_of(buffer) {
        body.extend_from_slice(part);
    }
    Ok((body, upper))
}

/// Packs a whole message into the send buffer.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_pkmesg(id: c_int) -> c_int {
    call("pvm_pkmesg", |state| {
        let buffers = &mut state.buffers;
        let message = buffers.get(id).and_then(whole).map_err(Failure::returned)?;
        write(buffers.sending().map_err(Failure::returned)?, &message).map_err(Failure::returned)?;
        Ok(0)
    })
}

/// Appends the body of a message in the same encoding to the send buffer.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_pkmesgbody(id: c_int) -> c_int {
    call("pvm_pkmesgbody", |state| {
        let buffers = &mut state.buffers;
        let (format, body, upper) = {
            let message = buffers.get(id).map_err(Failure::returned)?;
            let (body, upper) = whole_body(message).map_err(Failure::returned)?;
            (message.format, body, upper)
        };
        let target = buffers.sending().map_err(Failure::returned)?;
        if target.format.shown() != format.shown() {
            return Err(Failure::returned(PvmError::Mismatch));
        }
        target.append_body(&body, &upper).map_err(Failure::returned)?;
        Ok(0)
    })
}

/// Unpacks a whole message into a buffer of its own, and returns its id.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_upkmesg() -> c_int {
    call("pvm_upkmesg", |state| {
        let message =
            read(state.buffers.receiving().map_err(Failure::returned)?).map_err(Failure::returned)?;
        state.buffers.insert(unpackable(message)).map_err(Failure::returned)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nested(outer: Encoding, body: &[u8]) -> Buffer {
        let header =
            MessageHeader { encoding: Encoding::Raw.word(), tag: 2, context: 1, wait_id: 3, checksum: 0 };
        let body = body.to_vec().into();
        let message = Message { src: Tid::from_raw(5), dst: Tid::from_raw(6), header, body };
        let mut target = Buffer::new(Format::Plain(outer));
        write(&mut target, &message).unwrap();
        target
    }

    proptest! {
        #[test]
        fn messages_survive_nesting(body in prop::collection::vec(any::<u8>(), 0..9000), xdr: bool) {
            let outer = if xdr { Encoding::Xdr } else { Encoding::Raw };
            let mut outer = nested(outer, &body);
            let mut inner = unpackable(read(&mut outer).unwrap());
            prop_assert_eq!(inner.encoded().unwrap().0, &body[..]);
            prop_assert_eq!((inner.info.wait_id, inner.info.dst), (3, 6));
            prop_assert!(outer.left() == 0);
        }

        #[test]
        fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..200), head in any::<[u8; 4]>()) {
            let body = [&head[..], &body].concat();
            let mut source = Buffer::encoded_as(Format::Plain(Encoding::Xdr), body);
            let _ = read(&mut source);
        }
    }
}
