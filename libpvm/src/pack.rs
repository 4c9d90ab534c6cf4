//! Packing values into the body of a message.

use crate::notes::{Subject, noted};
use pvm_engine::{Error, Packed, Payload, Result};
use pvm_wire::events::Event;
use pvm_wire::{Element, Encoding, Message, MessageHeader, PvmError, Tid};
use serde::Serialize;

/// The body of a message under construction.
///
/// The receiver must take values out as they were put in: same types, same counts, same order.
///
/// ```
/// # fn main() -> pvm3::Result<()> {
/// let mut pack = pvm3::Pack::new();
/// pack.put_one(2)?.put(&[1.5, 2.5])?.put_str("done")?;
/// assert_eq!(pack.len(), 4 + 16 + 12);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pack {
    packed: Packed,
}

impl Default for Pack {
    fn default() -> Self {
        Self::new()
    }
}

impl Pack {
    /// An empty body in XDR, which every host can read (`PvmDataDefault`).
    pub fn new() -> Self {
        Self { packed: Packed::new(Encoding::Xdr) }
    }

    /// An empty body in this host's own format (`PvmDataRaw`): faster for long messages, and readable only for hosts with the same format.
    pub fn raw() -> Self {
        Self { packed: Packed::new(Encoding::Raw) }
    }

    /// Makes room for values of this many bytes, so that what is packed in many parts is not moved as it grows.
    ///
    /// [`PvmError::NoMem`]: there is no memory for them.
    ///
    /// ```
    /// # fn main() -> pvm3::Result<()> {
    /// let mut pack = pvm3::Pack::raw();
    /// pack.reserve(8 * 100_000)?;
    /// for row in 0..1000 {
    ///     pack.put(&[f64::from(row); 100])?;
    /// }
    /// assert_eq!(pack.len(), 800_000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn reserve(&mut self, bytes: usize) -> Result<&mut Self> {
        self.packed.reserve(bytes)?;
        Ok(self)
    }

    /// Appends values. A receiver with the original library gets only the low 32 bits of `i64` and `u64` in XDR.
    ///
    /// [`PvmError::NoMem`]: there is no memory for them.
    pub fn put<T: Element>(&mut self, values: &[T]) -> Result<&mut Self> {
        let subject = Subject::Array { address: values.as_ptr().addr(), count: values.len() };
        noted(T::PACKED, |_| subject, || Ok(self.packed.pack(values)?))?;
        Ok(self)
    }

    /// Appends one value.
    pub fn put_one<T: Element>(&mut self, value: T) -> Result<&mut Self> {
        self.put(&[value])
    }

    /// Appends a string, up to its first NUL.
    pub fn put_str(&mut self, text: &str) -> Result<&mut Self> {
        let text = text.split('\0').next().unwrap_or_default();
        let subject = Subject::Text { address: text.as_ptr().addr() };
        noted(Event::Pkstr, |_| subject, || Ok(self.packed.pack_str(text.as_bytes())?))?;
        Ok(self)
    }

    /// Appends a task id.
    pub fn put_tid(&mut self, tid: Tid) -> Result<&mut Self> {
        self.put_one(tid.raw())
    }

    /// Appends any serde value of up to 32 MiB; only Rust programs can read it. [`PvmError::BadParam`]: it cannot be encoded, or is too long.
    pub fn put_value<T: Serialize>(&mut self, value: &T) -> Result<&mut Self> {
        let bytes = pvm_wire::codec::encode(value).map_err(|error| {
            Error::new(PvmError::BadParam, format!("the value cannot be packed: {error}"))
        })?;
        let length = i32::try_from(bytes.len()).map_err(|_| PvmError::BadParam)?;
        self.put_one(length)?.put(&bytes)
    }

    /// Empties the body, keeping its memory.
    #[inline]
    pub fn clear(&mut self) {
        if !self.packed.clear_few() {
            self.packed.clear();
        }
    }

    /// How the values are encoded.
    pub fn encoding(&self) -> Encoding {
        if self.packed.is_raw() { Encoding::Raw } else { Encoding::Xdr }
    }

    /// Length of the encoded body, bytes.
    pub fn len(&self) -> usize {
        self.packed.len()
    }

    /// Whether nothing is packed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The encoded body, as it is sent between hosts. [`PvmError::NoMem`]: there is no memory to encode it.
    pub fn body(&self) -> Result<&[u8]> {
        Ok(self.packed.encoded()?.0)
    }

    /// The body as a message without a receiver, for the mailbox.
    pub(crate) fn to_message(&self, src: Tid) -> Result<Message> {
        let (body, upper) = self.packed.encoded()?;
        let body = [body, &upper.encode()].concat();
        if i32::try_from(body.len()).is_err() {
            return Err(Error::new(PvmError::NoMem, "the message is longer than the mailbox takes"));
        }
        let header = MessageHeader {
            encoding: self.encoding().word(),
            checksum: upper.word(),
            ..MessageHeader::default()
        };
        Ok(Message { src, dst: Tid::NONE, header, body: body.into() })
    }

    /// The body as it is sent.
    pub(crate) fn payload(&self) -> Payload<'_> {
        Payload::Packed(&self.packed)
    }
}
