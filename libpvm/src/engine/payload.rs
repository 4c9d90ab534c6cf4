//! What a message carries, in the form that its route wants: the choice is made where the route is known.

use crate::error::Result;
use pvm_wire::MessageHeader;

/// What a message carries behind its header.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// Bytes that travel alike on every route: a contiguous body as one part, to be cut into fragments; or several
    /// parts, each of which becomes a fragment of its own (data packed in place).
    Parts(&'a [&'a [u8]]),
}

/// A message as it goes on one route.
#[derive(Clone, Copy, Debug)]
pub struct Form<'a> {
    /// Its header, which tells how the body is encoded.
    pub header: MessageHeader,
    parts: &'a [&'a [u8]],
}

impl<'a> Payload<'a> {
    /// The message as every host reads it: for sockets, to the daemon or to another task. What is not in that form yet
    /// is converted, once for all routes.
    pub fn for_socket(&self, header: MessageHeader) -> Result<Form<'a>> {
        let Self::Parts(parts) = *self;
        Ok(Form { header, parts })
    }

    /// The message as another task of ours on this host reads it, without conversion: for shared memory.
    pub fn for_shared(&self, header: MessageHeader) -> Form<'a> {
        let Self::Parts(parts) = *self;
        Form { header, parts }
    }

    /// Encoded length, bytes, without what stands behind the body.
    pub fn len(&self) -> usize {
        let Self::Parts(parts) = self;
        parts.iter().map(|part| part.len()).sum()
    }

    /// Whether it is nothing but the header.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a> Form<'a> {
    /// The body, part after part.
    pub fn parts(&self) -> &[&'a [u8]] {
        self.parts
    }

    /// Length of all parts together, bytes.
    pub fn len(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }

    /// Whether there is no body.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
