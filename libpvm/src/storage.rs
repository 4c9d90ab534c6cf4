//! Where packed bytes are kept until they are sent.

use pvm_shm::Packing;
use pvm_wire::PvmError;
use pvm_wire::copy::{self, copied};

/// Up to so many bytes stay in private memory: they are sent by a copy into the ring.
const PRIVATE_MAX: usize = 2048;

/// Bytes that grow at their end. Many bytes are kept where other tasks of this host can read them, so that they are sent as
/// they lie.
#[derive(Default)]
pub struct Storage {
    private: Vec<u8>,
    /// If there, it has all.
    shared: Option<Packing>,
}

impl Storage {
    /// Makes room for so many more bytes.
    #[inline]
    pub fn reserve(&mut self, more: usize) -> Result<(), PvmError> {
        let fits = more <= self.private.capacity() - self.private.len();
        if self.shared.is_none() && fits && more <= PRIVATE_MAX { Ok(()) } else { self.grow(more) }
    }

    #[cold]
    fn grow(&mut self, more: usize) -> Result<(), PvmError> {
        let length = self.as_slice().len().checked_add(more).ok_or(PvmError::NoMem)?;
        if self.shared.as_mut().is_some_and(|shared| shared.reserve(more)) {
            return Ok(());
        }
        if self.shared.is_none() && length <= PRIVATE_MAX {
            return self.reserve_private(more);
        }
        // Twice as much, so that growing by little and little copies little.
        self.move_to(length.saturating_add(self.as_slice().len()))
    }

    /// Moves to where there is room for so many bytes.
    fn move_to(&mut self, room: usize) -> Result<(), PvmError> {
        if let Some(mut shared) = Packing::new(room) {
            shared.extend(self.as_slice());
            self.private.clear();
            self.shared = Some(shared);
            return Ok(());
        }
        if let Some(shared) = self.shared.take() {
            self.private.clear();
            self.private.try_reserve(room).map_err(|_| PvmError::NoMem)?;
            copy::append(shared.as_slice(), &mut self.private);
        }
        self.reserve_private(room - self.private.len())
    }

    fn reserve_private(&mut self, more: usize) -> Result<(), PvmError> {
        self.private.try_reserve(more).map_err(|_| PvmError::NoMem)
    }

    /// Appends bytes.
    pub fn extend(&mut self, bytes: &[u8]) -> Result<(), PvmError> {
        self.reserve(bytes.len())?;
        self.append(bytes);
        Ok(())
    }

    /// Whether so few bytes more have room in private memory.
    #[inline(always)]
    pub fn has_room(&self, more: usize) -> bool {
        self.private.len() + more <= self.private.capacity().min(PRIVATE_MAX)
    }

    /// Appends bytes for which room was made.
    #[inline]
    pub fn append(&mut self, bytes: &[u8]) {
        match &mut self.shared {
            Some(shared) => shared.extend(bytes),
            None if bytes.len() <= PRIVATE_MAX => self.append_private(bytes),
            None => copy::append(bytes, &mut self.private),
        }
    }

    /// Appends bytes for which there is room in private memory, which has all.
    #[inline(always)]
    pub fn append_private(&mut self, bytes: &[u8]) {
        let private = &mut self.private;
        // One number, as often, without a call.
        match (bytes.len(), bytes.first_chunk::<4>(), bytes.first_chunk::<8>()) {
            (4, Some(number), _) => private.extend_from_slice(number),
            (8, _, Some(number)) => private.extend_from_slice(number),
            _ => private.extend_from_slice(bytes),
        }
    }

    /// Drops the bytes, all of which are in private memory.
    #[inline(always)]
    pub fn clear_private(&mut self) {
        self.private.clear();
    }

    /// What was appended.
    #[inline(always)]
    pub fn as_slice(&self) -> &[u8] {
        self.shared.as_ref().map_or(&self.private, Packing::as_slice)
    }

    /// Whether nothing was appended, and no memory taken that others can read.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.private.is_empty() && self.shared.is_none()
    }

    /// Where other tasks can read it, if it is there.
    #[inline]
    pub fn shared(&self) -> Option<&Packing> {
        self.shared.as_ref()
    }

    /// Bytes of private memory that it has.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.private.capacity()
    }

    /// Drops the bytes, keeping private memory.
    #[inline]
    pub fn clear(&mut self) {
        self.private.clear();
        self.shared = None;
    }
}

impl Clone for Storage {
    fn clone(&self) -> Self {
        Self { private: copied(self.as_slice()), shared: None }
    }
}

impl PartialEq for Storage {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Storage {}

impl std::fmt::Debug for Storage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_slice().fmt(f)
    }
}
