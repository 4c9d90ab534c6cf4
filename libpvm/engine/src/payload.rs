//! The content of a message in the form of its route; the form is chosen when the route is known.

use crate::Result;
use crate::packed::Packed;
use pvm_shm::Packing;
use pvm_wire::MessageHeader;
use pvm_wire::encoding::LOCAL_WORD;

/// The content of a message.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// Bytes that have the same form on every route: a contiguous body as one part, to be cut into fragments; or several
    /// parts, each of which becomes a fragment of its own (data packed in place).
    Parts(&'a [&'a [u8]]),
    /// Packed elements, in this host's format.
    Packed(&'a Packed),
}

/// A message in the form for one kind of route.
#[derive(Clone, Copy, Debug)]
pub struct Form<'a> {
    /// Its header, with the encoding of the body.
    pub header: MessageHeader,
    parts: Parts<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Parts<'a> {
    Many(&'a [&'a [u8]]),
    One([&'a [u8]; 1]),
    Two([&'a [u8]; 2]),
}

impl<'a> Payload<'a> {
    /// The message in the form that every host reads: for sockets, to the daemon or to another task. Elements in this host's format
    /// are converted, once for all routes.
    pub fn for_socket(&self, header: MessageHeader) -> Result<Form<'a>> {
        let packed = match *self {
            Self::Parts(parts) => return Ok(Form { header, parts: Parts::Many(parts) }),
            Self::Packed(packed) => packed,
        };
        let (body, trailer) = packed.for_socket()?;
        if trailer.is_empty() {
            return Ok(Form { header, parts: Parts::One([body]) });
        }
        let header = MessageHeader { checksum: trailer.len() as u32, ..header };
        Ok(Form { header, parts: Parts::Two([body, trailer]) })
    }

    /// The message without conversion, for tasks of ours on this host: for shared memory.
    #[inline]
    pub fn for_shared(&self, header: MessageHeader) -> Form<'a> {
        let packed = match *self {
            Self::Parts(parts) => return Form { header, parts: Parts::Many(parts) },
            Self::Packed(packed) => packed,
        };
        let (header, parts) = native_form(packed, header);
        let [native, runs] = parts;
        Form { header, parts: if runs.is_empty() { Parts::One([native]) } else { Parts::Two(parts) } }
    }

    /// The same for packed elements, as two parts.
    #[inline(always)]
    pub fn for_near(&self, header: MessageHeader) -> Option<(MessageHeader, [&'a [u8]; 2])> {
        let Self::Packed(packed) = *self else { return None };
        Some(native_form(packed, header))
    }

    /// Elements that were packed into shared memory, and the bytes that follow them there.
    pub fn packing(&self) -> Option<(&'a Packing, &'a [u8])> {
        let Self::Packed(packed) = *self else { return None };
        Some((packed.shared()?, packed.runs().as_bytes()))
    }

    /// Encoded length of the body, bytes, without the bytes that follow it.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Self::Parts(parts) => parts.iter().map(|part| part.len()).sum(),
            Self::Packed(packed) => packed.len(),
        }
    }
}

/// Packed elements in this host's format, followed by their types.
#[inline(always)]
fn native_form(packed: &Packed, header: MessageHeader) -> (MessageHeader, [&[u8]; 2]) {
    if packed.is_raw() {
        return (header, [packed.native(), &[]]);
    }
    let runs = packed.runs();
    let header = MessageHeader { encoding: LOCAL_WORD, checksum: runs.word(), ..header };
    (header, [packed.native(), runs.as_bytes()])
}

impl<'a> Form<'a> {
    /// The body, part after part.
    #[inline]
    pub fn parts(&self) -> &[&'a [u8]] {
        match &self.parts {
            Parts::Many(parts) => parts,
            Parts::One(parts) => parts,
            Parts::Two(parts) => parts,
        }
    }

    /// Length of all parts together, bytes.
    pub fn len(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }
}
