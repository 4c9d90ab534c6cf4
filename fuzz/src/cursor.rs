//! Decisions and pieces, taken from bytes.

/// What is left of the bytes.
pub struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    /// A decision; `None` at the end.
    pub fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// A word; zeros where bytes are missing.
    pub fn word(&mut self) -> u32 {
        let mut word = [0; 4];
        for byte in &mut word {
            *byte = self.byte().unwrap_or(0);
        }
        u32::from_be_bytes(word)
    }

    /// The next `length` bytes, or those that are left.
    pub fn piece(&mut self, length: usize) -> &'a [u8] {
        let (piece, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        piece
    }
}
