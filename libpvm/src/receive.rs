//! Choosing messages, and taking values out of them.

use crate::engine::Near;
use crate::error::{Error, Result};
use crate::incoming::Incoming;
use pvm_wire::{Body, Element, Encoding, Message, MessageHeader, PvmError, Tid};
use serde::de::DeserializeOwned;

/// Any sender, or any tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Any;

/// From whom a message is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// From anybody.
    Any,
    /// From this task.
    Tid(Tid),
}

/// With which tag a message is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// With any.
    Any,
    /// With this one.
    Is(i32),
}

impl From<Any> for Source {
    fn from(_: Any) -> Self {
        Self::Any
    }
}

impl From<Tid> for Source {
    fn from(tid: Tid) -> Self {
        Self::Tid(tid)
    }
}

impl From<Any> for Tag {
    fn from(_: Any) -> Self {
        Self::Any
    }
}

impl From<i32> for Tag {
    fn from(tag: i32) -> Self {
        Self::Is(tag)
    }
}

/// PVM's default matching: sender, tag, and the current context (-1 takes any).
#[inline]
pub(crate) fn matches(src: Tid, header: &MessageHeader, source: Source, tag: Tag, context: i32) -> bool {
    let from = source == Source::Any || source == Source::Tid(src);
    let tagged = tag == Tag::Any || tag == Tag::Is(header.tag);
    let theirs = header.context;
    // Messages between members of groups are for the calls about groups alone.
    from && tagged && (context == theirs || context == -1 && theirs != pvm_wire::group::CONTEXT)
}

/// A received message, from which values are taken in the order in which they were packed.
///
/// ```no_run
/// # fn main() -> pvm3::Result<()> {
/// # let mut task = pvm3::Task::enrol()?;
/// let mut message = task.recv(pvm3::Any, pvm3::Any)?;
/// println!("{} sent {} bytes", message.source(), message.len());
/// let count: i32 = message.get_one()?;
/// let values: Vec<f64> = message.get(count as usize)?;
/// # Ok(())
/// # }
/// ```
///
/// A message of more than a kilobyte may lie in its sender's memory, which is used for something else once this task has left: what
/// of it is still needed then has to be taken out before.
#[derive(Clone, Debug)]
pub struct Received {
    src: Tid,
    dst: Tid,
    header: MessageHeader,
    body: Incoming,
}

impl Received {
    /// Reads a message from its start.
    pub fn new(mut message: Message) -> Self {
        let body = Incoming::new(&mut message.header, message.body);
        Self { src: message.src, dst: message.dst, header: message.header, body }
    }

    /// Reads a message from a ring from its start.
    #[inline]
    pub(crate) fn near(near: Near<'_>, dst: Tid) -> Self {
        let (src, mut header) = (near.src, near.found.header);
        let body = Incoming::new(&mut header, near.body());
        Self { src, dst, header, body }
    }

    /// The sender. Messages of the daemon (notices) come from [`Tid::MY_DAEMON`].
    pub fn source(&self) -> Tid {
        self.src
    }

    /// The tag.
    pub fn tag(&self) -> i32 {
        self.header.tag
    }

    /// The context in which it was sent.
    pub fn context(&self) -> i32 {
        self.header.context
    }

    /// Length of the body, bytes.
    pub fn len(&self) -> usize {
        self.body.len()
    }

    /// Whether the body is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The encoded body.
    pub fn body(&mut self) -> Result<&[u8]> {
        Ok(self.body.encoded()?.0)
    }

    /// The next `count` values. Nothing is allocated for more than the message can hold.
    pub fn get<T: Element>(&mut self, count: usize) -> Result<Vec<T>> {
        if let Some(bytes) = self.body.take_native::<T>(count) {
            return Ok(match bytemuck::try_cast_slice(bytes) {
                Ok(values) => values.to_vec(),
                Err(_) => bytemuck::allocation::pod_collect_to_vec(bytes),
            });
        }
        let mut values = Vec::with_capacity(count.min(self.body.left() / T::XDR.min(T::NATIVE)));
        self.take(count, |_, value| values.push(value))?;
        Ok(values)
    }

    /// As many of the next values as `values` has room for.
    pub fn get_into<T: Element>(&mut self, values: &mut [T]) -> Result<()> {
        if let Some(bytes) = self.body.take_native::<T>(values.len()) {
            bytemuck::cast_slice_mut(values).copy_from_slice(bytes);
            return Ok(());
        }
        self.take(values.len(), |index, value| values[index] = value)
    }

    /// The next value.
    pub fn get_one<T: Element>(&mut self) -> Result<T> {
        let mut one = T::default();
        self.take(1, |_, value| one = value)?;
        Ok(one)
    }

    /// The next value, a string.
    pub fn get_str(&mut self) -> Result<String> {
        let encoding = self.encoding();
        let bytes = self.body.unpack_str(encoding)?;
        String::from_utf8(bytes.to_vec())
            .map_err(|error| Error::new(PvmError::BadMsg, format!("a string is not UTF-8: {error}")))
    }

    /// The next value, a task id.
    pub fn get_tid(&mut self) -> Result<Tid> {
        Ok(Tid::from_raw(self.get_one()?))
    }

    /// The next value, packed with [`crate::Pack::put_value`].
    pub fn get_value<T: DeserializeOwned>(&mut self) -> Result<T> {
        let length = usize::try_from(self.get_one::<i32>()?).map_err(|_| PvmError::BadMsg)?;
        let bytes: Vec<u8> = self.get(length)?;
        pvm_wire::codec::decode(&bytes)
            .map_err(|error| Error::new(PvmError::BadMsg, format!("the value cannot be read: {error}")))
    }

    /// Goes back to the first value.
    pub fn rewind(&mut self) {
        self.body.rewind();
    }

    /// The message, its body encoded.
    pub fn into_message(mut self) -> Result<Message> {
        let body = Body::copy_from_slice(self.body.encoded()?.0);
        Ok(Message { src: self.src, dst: self.dst, header: self.header, body })
    }

    fn take<T: Element>(&mut self, count: usize, sink: impl FnMut(usize, T)) -> Result<()> {
        let encoding = self.encoding();
        self.body.unpack(encoding, count, sink)?;
        Ok(())
    }

    fn encoding(&self) -> Option<Encoding> {
        Encoding::of_word(self.header.encoding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pack;
    use proptest::prelude::*;

    fn received(pack: &Pack) -> Received {
        let header = MessageHeader { encoding: pack.encoding().word(), tag: 3, ..MessageHeader::default() };
        let src = Tid::from_raw(0x40001);
        Received::new(Message { src, dst: src, header, body: Body::copy_from_slice(pack.body().unwrap()) })
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(
            raw in any::<bool>(),
            ints in prop::collection::vec(any::<i32>(), 0..20),
            bytes in prop::collection::vec(any::<u8>(), 0..20),
            text in "[^\0]{0,20}",
        ) {
            let mut pack = if raw { Pack::raw() } else { Pack::new() };
            let value = (text.clone(), ints.clone());
            pack.put(&ints).unwrap().put(&bytes).unwrap().put_str(&text).unwrap();
            pack.put_value(&value).unwrap().put_one(7_i64).unwrap();
            let mut message = received(&pack);
            prop_assert_eq!(message.get::<i32>(ints.len()).unwrap(), ints);
            let mut room = vec![0_u8; bytes.len()];
            message.get_into(&mut room).unwrap();
            prop_assert_eq!(room, bytes);
            prop_assert_eq!(message.get_str().unwrap(), text);
            prop_assert_eq!(message.get_value::<(String, Vec<i32>)>().unwrap(), value);
            prop_assert_eq!(message.get_one::<i64>().unwrap(), 7);
            prop_assert_eq!(message.get_one::<u8>().unwrap_err().code(), PvmError::NoData);
        }
    }

    #[test]
    fn wildcards_take_anything_but_another_context() {
        let mut pack = Pack::new();
        pack.put_one(1).unwrap();
        let message = received(&pack).into_message().unwrap();
        assert!(matches(message.src, &message.header, Any.into(), Any.into(), 0));
        assert!(matches(message.src, &message.header, message.src.into(), 3.into(), -1));
        assert!(!matches(message.src, &message.header, Any.into(), 4.into(), 0));
        assert!(!matches(message.src, &message.header, Tid::MY_DAEMON.into(), 3.into(), 0));
        assert!(!matches(message.src, &message.header, Any.into(), Any.into(), 1));
    }

    #[test]
    fn a_count_that_lies_is_no_reason_to_allocate() {
        let mut message = received(&Pack::new());
        assert_eq!(message.get::<f64>(usize::MAX).unwrap_err().code(), PvmError::NoData);
    }
}
