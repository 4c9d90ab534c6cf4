//! Where packed bytes are kept until they are sent.

use pvm_wire::PvmError;

/// Bytes that grow at their end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage(Vec<u8>);

impl Storage {
    /// Makes room for so many more bytes.
    pub fn reserve(&mut self, more: usize) -> Result<(), PvmError> {
        self.0.try_reserve(more).map_err(|_| PvmError::NoMem)
    }

    /// Appends bytes.
    pub fn extend(&mut self, bytes: &[u8]) -> Result<(), PvmError> {
        self.reserve(bytes.len())?;
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    /// What was appended.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// Bytes of memory that it has.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Drops the bytes, keeping the memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
