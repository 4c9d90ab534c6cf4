//! The body of a message under construction: elements in this host's format, which is what the raw encoding is. The
//! default encoding is made of them on demand; tasks of ours on this host do not need it.

use crate::storage::Storage;
use pvm_shm::Packing;
use pvm_wire::{Element, Encoding, PvmError, Runs, Upper};
use std::sync::OnceLock;

/// A body under construction.
#[derive(Clone, Debug, Default)]
pub struct Packed {
    is_raw: bool,
    storage: Storage,
    runs: Runs,
    converted: OnceLock<Box<Converted>>,
}

/// The default encoding of a body.
#[derive(Clone, Debug)]
struct Converted {
    body: Vec<u8>,
    upper: Upper,
    /// The upper halves, which follow the body.
    trailer: Vec<u8>,
}

impl PartialEq for Packed {
    fn eq(&self, other: &Self) -> bool {
        self.is_raw == other.is_raw && self.storage == other.storage && self.runs == other.runs
    }
}

impl Eq for Packed {}

impl Packed {
    /// An empty body in this encoding: default, or this host's own.
    #[inline]
    pub fn new(encoding: Encoding) -> Self {
        Self { is_raw: encoding != Encoding::Xdr, ..Self::default() }
    }

    /// Chooses the encoding of an empty body.
    #[inline]
    pub fn begin(&mut self, encoding: Encoding) {
        self.is_raw = encoding != Encoding::Xdr;
    }

    /// Whether the body is in this host's format for every receiver.
    #[inline]
    pub fn is_raw(&self) -> bool {
        self.is_raw
    }

    /// Appends elements that stand side by side.
    pub fn pack<T: Element>(&mut self, elements: &[T]) -> Result<(), PvmError> {
        self.pack_bytes::<T>(bytemuck::cast_slice(elements))
    }

    /// Appends elements of a type, given as the bytes they are in memory.
    #[inline(always)]
    pub fn pack_bytes<T: Element>(&mut self, bytes: &[u8]) -> Result<(), PvmError> {
        if self.pack_few::<T>(bytes) { Ok(()) } else { self.pack_many::<T>(bytes) }
    }

    /// Makes room for this many bytes.
    pub fn reserve(&mut self, bytes: usize) -> Result<(), PvmError> {
        self.storage.reserve(bytes)
    }

    fn pack_many<T: Element>(&mut self, bytes: &[u8]) -> Result<(), PvmError> {
        let elements = || bytes.chunks_exact(T::NATIVE).map(T::get_native);
        self.check_place(bytes.len() / T::NATIVE, elements)?;
        self.storage.reserve(bytes.len())?;
        self.note::<T>(bytes.len() / T::NATIVE)?;
        self.storage.append(bytes);
        Ok(())
    }

    /// As [`Self::pack_bytes`], if there is room and a copy is enough; otherwise `false`, and nothing is packed.
    #[inline(always)]
    pub fn pack_few<T: Element>(&mut self, bytes: &[u8]) -> bool {
        if !self.storage.has_room(bytes.len()) || !self.is_private() {
            return false;
        }
        if !self.is_raw && self.runs.push::<T>(bytes.len() / T::NATIVE).is_err() {
            return false;
        }
        self.storage.append_private(bytes);
        true
    }

    /// Whether the elements are in private memory only, and not converted.
    #[inline(always)]
    pub fn is_private(&self) -> bool {
        self.storage.shared().is_none() && self.converted.get().is_none()
    }

    /// Appends elements one by one.
    pub fn pack_each<T: Element>(
        &mut self,
        elements: impl ExactSizeIterator<Item = T> + Clone,
    ) -> Result<(), PvmError> {
        let count = elements.len();
        self.check_place(count, || elements.clone())?;
        self.storage.reserve(count.checked_mul(T::NATIVE).ok_or(PvmError::NoMem)?)?;
        self.note::<T>(count)?;
        elements.into_iter().try_for_each(|element| self.storage.extend(bytemuck::bytes_of(&element)))
    }

    /// Appends a string: its length with the NUL, its bytes, the NUL.
    pub fn pack_str(&mut self, text: &[u8]) -> Result<(), PvmError> {
        let length = i32::try_from(text.len() + 1).map_err(|_| PvmError::BadParam)?;
        self.storage.reserve(text.len() + 1 + size_of_val(&length))?;
        self.pack(&[length])?;
        self.note::<u8>(text.len() + 1)?;
        self.storage.extend(text)?;
        self.storage.extend(&[0])
    }

    /// Empties the body, keeping its memory.
    #[inline(always)]
    pub fn clear(&mut self) {
        if self.storage.is_empty() {
            return;
        }
        self.storage.clear();
        self.runs.clear();
        self.forget_converted();
    }

    /// Whether it has no more memory than short messages need.
    #[inline(always)]
    pub fn is_small(&self) -> bool {
        self.storage.is_small() && self.converted.get().is_none()
    }

    /// As [`Self::clear`], if [`Self::is_small`]; otherwise `false`, and nothing is cleared.
    #[inline(always)]
    pub fn clear_few(&mut self) -> bool {
        let is_small = self.is_small();
        if is_small {
            self.storage.clear_private();
            self.runs.clear();
        }
        is_small
    }

    /// Encoded length, bytes.
    #[inline]
    pub fn len(&self) -> usize {
        if self.is_raw { self.storage.as_slice().len() } else { self.runs.xdr_length() }
    }

    /// The shared memory with the elements, if other tasks of this host can read them.
    #[inline]
    pub fn shared(&self) -> Option<&Packing> {
        self.storage.shared()
    }

    /// Bytes of private memory that it has.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.storage.capacity()
    }

    /// The elements in this host's format.
    #[inline(always)]
    pub fn native(&self) -> &[u8] {
        self.storage.as_slice()
    }

    /// The types of the elements; empty in the raw encoding.
    #[inline]
    pub fn runs(&self) -> &Runs {
        &self.runs
    }

    /// The encoded body, and the upper halves of its integers. It is converted once.
    #[inline]
    pub fn encoded(&self) -> Result<(&[u8], &Upper), PvmError> {
        static NOTHING: Upper = Upper::new();
        if self.is_raw || self.runs.are_alike() {
            return Ok((self.native(), &NOTHING));
        }
        let converted = self.converted()?;
        Ok((&converted.body, &converted.upper))
    }

    /// The encoded body and the bytes that follow it in a message.
    pub fn for_socket(&self) -> Result<(&[u8], &[u8]), PvmError> {
        if self.is_raw || self.runs.are_alike() {
            return Ok((self.native(), &[]));
        }
        let converted = self.converted()?;
        Ok((&converted.body, &converted.trailer))
    }

    fn converted(&self) -> Result<&Converted, PvmError> {
        if self.converted.get().is_none() {
            let (body, upper) = self.runs.to_xdr(self.native())?;
            let trailer = upper.encode();
            // Another thread may have been quicker, with the same result.
            let _ = self.converted.set(Box::new(Converted { body, upper, trailer }));
        }
        self.converted.get().map(Box::as_ref).ok_or(PvmError::NoMem)
    }

    /// The encoded body and the upper halves of its integers, to be kept by others.
    pub fn into_encoded(mut self) -> Result<(Vec<u8>, Upper), PvmError> {
        if let Some(converted) = self.converted.take() {
            return Ok((converted.body, converted.upper));
        }
        if self.is_raw {
            return Ok((self.native().to_vec(), Upper::default()));
        }
        self.runs.to_xdr(self.native())
    }

    /// The upper halves of integers can be noted in the first 4 GiB.
    #[inline(always)]
    fn check_place<T: Element, I: Iterator<Item = T>>(
        &self,
        count: usize,
        elements: impl FnOnce() -> I,
    ) -> Result<(), PvmError> {
        let end = count.saturating_mul(T::XDR).saturating_add(self.runs.xdr_length());
        if u32::try_from(end).is_ok() || self.is_raw {
            return Ok(());
        }
        Upper::default().note(self.runs.xdr_length(), elements())
    }

    #[inline(always)]
    fn note<T: Element>(&mut self, count: usize) -> Result<(), PvmError> {
        self.forget_converted();
        if self.is_raw { Ok(()) } else { self.runs.push::<T>(count) }
    }

    #[inline]
    fn forget_converted(&mut self) {
        if self.converted.get().is_some() {
            self.converted = OnceLock::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use pvm_wire::element;

    proptest! {
        #[test]
        fn packed_elements_are_encoded_as_xdr(
            raw: bool,
            ints: Vec<i32>,
            longs: Vec<i64>,
            bytes: Vec<u8>,
            text in prop::collection::vec(1_u8.., 0..20),
        ) {
            let encoding = if raw { Encoding::Raw } else { Encoding::Xdr };
            let (mut body, mut upper) = (Vec::new(), Upper::default());
            element::pack(&mut body, encoding, ints.iter().copied()).unwrap();
            element::pack(&mut body, encoding, bytes.iter().copied()).unwrap();
            if !raw {
                upper.note(body.len(), longs.iter().copied()).unwrap();
            }
            element::pack(&mut body, encoding, longs.iter().copied()).unwrap();
            element::pack_str(&mut body, encoding, &text).unwrap();
            let mut packed = Packed::new(encoding);
            packed.pack(&ints).unwrap();
            prop_assert!(packed.encoded().is_ok());
            packed.pack(&bytes).unwrap();
            prop_assert_eq!(packed.encoded().unwrap().0, &body[..packed.len()]);
            packed.pack_each(longs.iter().copied()).unwrap();
            packed.pack_str(&text).unwrap();
            prop_assert_eq!(packed.len(), body.len());
            prop_assert_eq!(packed.encoded().unwrap(), (&body[..], &upper));
            prop_assert_eq!(packed.clone().into_encoded().unwrap(), (body, upper));
            packed.clear();
            packed.begin(encoding);
            prop_assert_eq!(packed, Packed::new(encoding));
        }
    }
}
