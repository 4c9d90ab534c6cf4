//! Memory for packed bytes until they are sent.

use pvm_shm::Packing;
use pvm_wire::PvmError;
use pvm_wire::copy::{self, copied};
use pvm_wire::tuned::PRIVATE_MAX;

/// Private memory that is kept filled: as much as short messages need.
const SMALL: usize = 2 * PRIVATE_MAX;

/// Bytes that grow at their end. Many bytes are kept where other tasks of this host can read them, so that they are sent as
/// they lie.
#[derive(Default)]
pub struct Storage {
    /// Its first `length` bytes are what was appended. What little room there is behind them is filled already, so that a number
    /// is appended by storing it.
    private: Vec<u8>,
    length: usize,
    /// If it is there, all bytes are in it.
    shared: Option<Packing>,
}

impl Storage {
    /// Makes room for `more` bytes.
    #[inline]
    pub fn reserve(&mut self, more: usize) -> Result<(), PvmError> {
        let fits = more <= self.private.capacity() - self.length;
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
        // Twice as much, so that repeated growth copies little.
        self.move_to(length.saturating_add(self.as_slice().len()))
    }

    /// Moves the bytes to memory with this room.
    fn move_to(&mut self, room: usize) -> Result<(), PvmError> {
        if let Some(mut shared) = Packing::new(room) {
            shared.extend(self.as_slice());
            (self.length, self.shared) = (0, Some(shared));
            return Ok(());
        }
        if let Some(shared) = self.shared.take() {
            self.length = 0;
            self.reserve_private(room)?;
            self.append_long(shared.as_slice());
        }
        self.reserve_private(room - self.length)
    }

    fn reserve_private(&mut self, more: usize) -> Result<(), PvmError> {
        self.private.truncate(self.length);
        self.private.try_reserve(more).map_err(|_| PvmError::NoMem)?;
        self.private.resize(self.private.capacity().min(SMALL).max(self.length), 0);
        Ok(())
    }

    /// Appends bytes.
    pub fn extend(&mut self, bytes: &[u8]) -> Result<(), PvmError> {
        self.reserve(bytes.len())?;
        self.append(bytes);
        Ok(())
    }

    /// Whether `more` bytes fit into private memory.
    #[inline(always)]
    pub fn has_room(&self, more: usize) -> bool {
        self.length + more <= self.private.len().min(PRIVATE_MAX)
    }

    /// Appends bytes for which room was made.
    #[inline]
    pub fn append(&mut self, bytes: &[u8]) {
        if let Some(shared) = &mut self.shared {
            shared.extend(bytes);
        } else if self.has_room(bytes.len()) {
            self.append_private(bytes);
        } else {
            self.append_long(bytes);
        }
    }

    #[inline(never)]
    fn append_long(&mut self, bytes: &[u8]) {
        self.private.truncate(self.length);
        copy::append(bytes, &mut self.private);
        self.length = self.private.len();
    }

    /// Appends bytes for which [`Self::has_room`], to private memory, which has all.
    #[inline(always)]
    pub fn append_private(&mut self, bytes: &[u8]) {
        let Some(place) = self.private.get_mut(self.length..self.length + bytes.len()) else { return };
        // One number, as often, without a call.
        match bytes.len() {
            4 => place[..4].copy_from_slice(&bytes[..4]),
            8 => place[..8].copy_from_slice(&bytes[..8]),
            _ => place.copy_from_slice(bytes),
        }
        self.length += bytes.len();
    }

    /// Whether it has no more memory than short messages take.
    #[inline(always)]
    pub fn is_small(&self) -> bool {
        self.shared.is_none() && self.private.capacity() <= SMALL
    }

    /// Drops the bytes, all of which are in private memory.
    #[inline(always)]
    pub fn clear_private(&mut self) {
        self.length = 0;
    }

    /// The appended bytes.
    #[inline(always)]
    pub fn as_slice(&self) -> &[u8] {
        match &self.shared {
            None => self.private.get(..self.length).unwrap_or_default(),
            Some(shared) => shared.as_slice(),
        }
    }

    /// Whether nothing was appended, and no memory taken that others can read.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0 && self.shared.is_none()
    }

    /// The shared memory, if the bytes are there.
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
        self.length = 0;
        self.shared = None;
    }
}

impl Clone for Storage {
    fn clone(&self) -> Self {
        let private = copied(self.as_slice());
        Self { length: private.len(), private, shared: None }
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
