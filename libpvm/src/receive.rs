//! Choosing messages, and taking values out of them.

use crate::notes::{Subject, noted};
use crate::spare::{Content, Held};
use pvm_engine::{Error, Incoming, Near, Result};
use pvm_wire::copy::{copied, copy};
use pvm_wire::events::Event;
use pvm_wire::{Body, Element, Encoding, Message, MessageHeader, PvmError, Tid};
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Any sender, or any tag.
///
/// ```no_run
/// # let mut task = pvm3::Task::enrol()?;
/// use pvm3::Any;
///
/// let first = task.recv(Any, Any)?;
/// let next_of_the_same = task.recv(first.source(), Any)?;
/// # Ok::<(), pvm3::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Any;

/// The sender of a wanted message. Calls take a [`Tid`] or [`Any`] for it.
///
/// ```
/// use pvm3::{Any, Source, Tid};
///
/// assert_eq!(Source::from(Any), Source::Any);
/// assert_eq!(Source::from(Tid::MY_DAEMON), Source::Tid(Tid::MY_DAEMON));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Any task or daemon.
    Any,
    /// This task.
    Tid(Tid),
}

/// The tag of a wanted message. Calls take a number or [`Any`] for it.
///
/// ```
/// use pvm3::{Any, Tag};
///
/// assert_eq!((Tag::from(Any), Tag::from(7)), (Tag::Any, Tag::Is(7)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// Any tag.
    Any,
    /// This tag.
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
/// A message of more than a kilobyte may lie in its sender's memory, which is reused when this task has left the virtual machine. From
/// then on its values cannot be read: [`PvmError::NoData`].
#[derive(Clone, Debug)]
pub struct Received {
    held: Held,
}

impl Received {
    /// Reads a message from its start.
    pub fn new(message: Message) -> Self {
        Self { held: Held::new(message) }
    }

    /// Reads a message from its start that the task has received which sets this flag when it leaves.
    pub(crate) fn until(message: Message, has_left: &Arc<AtomicBool>) -> Self {
        Self { held: Held::until(message, has_left) }
    }

    /// Reads a message from a ring from its start.
    #[inline(always)]
    pub(crate) fn near(near: &Near<'_>, dst: Tid) -> Self {
        Self { held: Held::near(near, dst) }
    }

    /// The sender. Messages of the daemon (notices) come from [`Tid::MY_DAEMON`].
    pub fn source(&self) -> Tid {
        self.held.content().src
    }

    /// The tag.
    pub fn tag(&self) -> i32 {
        self.held.content().header.tag
    }

    /// The context in which it was sent.
    pub fn context(&self) -> i32 {
        self.held.content().header.context
    }

    /// How the values are encoded; `None` in the format of another kind of host, of which only bytes can be read.
    pub fn encoding(&self) -> Option<Encoding> {
        Encoding::of_word(self.held.content().header.encoding)
    }

    /// Length of the body, bytes.
    pub fn len(&self) -> usize {
        self.held.content().body.len()
    }

    /// Whether the body is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The encoded body. [`PvmError::NoData`]: the message lay in shared memory when this task left.
    pub fn body(&mut self) -> Result<&[u8]> {
        self.held.content_mut().take_out();
        self.check()?;
        Ok(self.held.content_mut().body.encoded()?.0)
    }

    /// The next `count` values. Never allocates more than the message can hold.
    ///
    /// [`PvmError::NoData`]: the message has fewer values left. [`PvmError::BadMsg`]: it is in the format of another kind of host.
    pub fn get<T: Element>(&mut self, count: usize) -> Result<Vec<T>> {
        let subject = |values: Option<&Vec<T>>| {
            let address = values.map_or(0, |values| values.as_ptr().addr());
            Subject::Array { address, count }
        };
        noted(T::UNPACKED, subject, || self.collect(count))
    }

    #[inline(always)]
    fn collect<T: Element>(&mut self, count: usize) -> Result<Vec<T>> {
        let Content { header, body, .. } = self.held.content_mut();
        if let Some(bytes) = body.take_as_is::<T>(header.encoding, count) {
            let values = match bytemuck::try_cast_slice(bytes) {
                Ok(values) => copied(values),
                Err(_) => bytemuck::allocation::pod_collect_to_vec(bytes),
            };
            return self.check().map(|()| values);
        }
        let mut values = Vec::with_capacity(count.min(body.left() / T::XDR.min(T::NATIVE)));
        self.take(count, |_, value| values.push(value))?;
        Ok(values)
    }

    /// The next values, as many as `values` has elements. Errors as of [`Received::get`].
    pub fn get_into<T: Element>(&mut self, values: &mut [T]) -> Result<()> {
        let subject = Subject::Array { address: values.as_ptr().addr(), count: values.len() };
        noted(T::UNPACKED, |_| subject, || self.fill(values))
    }

    #[inline(always)]
    fn fill<T: Element>(&mut self, values: &mut [T]) -> Result<()> {
        let Content { header, body, .. } = self.held.content_mut();
        if let Some(bytes) = body.take_as_is::<T>(header.encoding, values.len()) {
            copy(bytes, bytemuck::cast_slice_mut(values));
            return self.check();
        }
        self.take(values.len(), |index, value| values[index] = value)
    }

    /// The next value. Errors as of [`Received::get`].
    pub fn get_one<T: Element>(&mut self) -> Result<T> {
        let mut one = T::default();
        self.get_into(std::slice::from_mut(&mut one))?;
        Ok(one)
    }

    /// The next value, a string. [`PvmError::BadMsg`]: it is not UTF-8.
    pub fn get_str(&mut self) -> Result<String> {
        let subject =
            |text: Option<&String>| Subject::Text { address: text.map_or(0, |text| text.as_ptr().addr()) };
        noted(Event::Upkstr, subject, || self.collect_str())
    }

    fn collect_str(&mut self) -> Result<String> {
        let (body, encoding) = self.unread();
        let bytes = body.unpack_str(encoding)?;
        let text = bytes.to_vec();
        self.check()?;
        String::from_utf8(text)
            .map_err(|error| Error::new(PvmError::BadMsg, format!("a string is not UTF-8: {error}")))
    }

    /// The next value, a task id.
    pub fn get_tid(&mut self) -> Result<Tid> {
        Ok(Tid::from_raw(self.get_one()?))
    }

    /// The next value, packed with [`crate::Pack::put_value`]. [`PvmError::BadMsg`]: it is of another type.
    pub fn get_value<T: DeserializeOwned>(&mut self) -> Result<T> {
        let length = usize::try_from(self.get_one::<i32>()?).map_err(|_| PvmError::BadMsg)?;
        let bytes: Vec<u8> = self.get(length)?;
        pvm_wire::codec::decode(&bytes)
            .map_err(|error| Error::new(PvmError::BadMsg, format!("the value cannot be read: {error}")))
    }

    /// Goes back to the first value.
    pub fn rewind(&mut self) {
        self.held.content_mut().body.rewind();
    }

    /// The message, with its body encoded. Errors as of [`Received::body`].
    pub fn into_message(mut self) -> Result<Message> {
        let body = Body::copy_from_slice(self.body()?);
        let &Content { src, dst, header, .. } = self.held.content();
        Ok(Message { src, dst, header, body })
    }

    fn take<T: Element>(&mut self, count: usize, sink: impl FnMut(usize, T)) -> Result<()> {
        let (body, encoding) = self.unread();
        body.unpack(encoding, count, sink)?;
        self.check()
    }

    /// Fails if the task has left the virtual machine: then what was read may not be the message.
    #[inline(always)]
    fn check(&self) -> Result<()> {
        if self.held.content().is_lost() { Err(Error::left()) } else { Ok(()) }
    }

    fn unread(&mut self) -> (&mut Incoming, Option<Encoding>) {
        let Content { header, body, .. } = self.held.content_mut();
        (body, Encoding::of_word(header.encoding))
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
        fn packed_elements_are_unpacked(
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
            prop_assert_eq!(message.encoding(), Some(pack.encoding()));
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
