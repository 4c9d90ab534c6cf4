//! The interface of shared memory for the protocols.

/// Bytes of a cache line, the unit in which rings are written.
pub const LINE: u64 = 64;

/// Bytes of a record's head behind its number, in a ring.
pub const HEAD: usize = 28;

/// Bytes of a body that lie in the line with the record's head: this many can be read from the begin of any body.
pub const IN_LINE: usize = LINE as usize - HEAD - 4;

/// Memory that another task can change at any time. Places are offsets from its start.
///
/// Nothing here fails: an access that is not wholly inside, or a word that is not aligned, reads zeros and writes nothing.
/// Places that another task wrote have to be checked before they are used.
pub trait Memory {
    /// Bytes from the start.
    fn size(&self) -> u64;

    /// Loads a word (acquire): earlier writes of the task that stored it are visible afterwards.
    fn load(&self, at: u64) -> u32;

    /// Stores a word (release): earlier writes are visible to a task that loads it.
    fn store(&self, at: u64, value: u32);

    /// Stores a word and returns the old one.
    fn swap(&self, at: u64, value: u32) -> u32;

    /// Stores a word if the old one is as expected; otherwise returns the old one. It is ordered as a store and a load.
    fn exchange(&self, at: u64, expected: u32, value: u32) -> Result<(), u32>;

    /// A full fence: earlier stores are visible to others before later loads.
    fn fence(&self);

    /// Copies bytes out.
    fn read(&self, at: u64, into: &mut [u8]);

    /// The line from there on, without its first word, which has to be loaded.
    fn read_line(&self, at: u64) -> [u8; LINE as usize - 4] {
        let mut line = [0; LINE as usize - 4];
        self.read(at + 4, &mut line);
        line
    }

    /// Copies bytes in.
    fn write(&self, at: u64, from: &[u8]);

    /// Writes the head of a record into the line from there on, behind the first word, and the parts of its body, which fit, behind that.
    #[inline]
    fn write_line(&self, at: u64, head: &[u8; HEAD], parts: &[&[u8]]) {
        self.write(at + 4, head);
        let mut to = at + 4 + HEAD as u64;
        for part in parts {
            self.write(to, part);
            to += part.len() as u64;
        }
    }

    /// Writes the head of a record as [`Self::write_line`] does, and the parts of its body, which have [`IN_LINE`] bytes or more, into as many
    /// lines as it takes. The line that the receiver polls is written last: its polls would take the line from this processor's cache.
    #[inline]
    fn write_lines(&self, at: u64, head: &[u8; HEAD], parts: [&[u8]; 2]) {
        write_cut(self, at, head, parts);
    }

    /// The line there will be read soon.
    #[inline]
    fn prefetch_read(&self, at: u64) {
        let _ = at;
    }

    /// The line there will be written soon.
    #[inline]
    fn prefetch_write(&self, at: u64) {
        let _ = at;
    }

    /// Whether `length` bytes from `at` on are inside.
    #[inline]
    fn has(&self, at: u64, length: u64) -> bool {
        at.checked_add(length).is_some_and(|end| end <= self.size())
    }
}

/// As [`Memory::write_lines`], however its body is cut into parts.
pub(crate) fn write_cut(memory: &(impl Memory + ?Sized), at: u64, head: &[u8; HEAD], parts: [&[u8]; 2]) {
    let body = at + 4 + HEAD as u64;
    for (to, _, behind) in cut(body, parts) {
        memory.write(to, behind);
    }
    memory.write(at + 4, head);
    for (to, first, _) in cut(body, parts) {
        memory.write(to - first.len() as u64, first);
    }
}

/// Of each part of a body that begins there: where the bytes begin that are not in the body's first line, those that are, and those.
fn cut(body: u64, parts: [&[u8]; 2]) -> impl Iterator<Item = (u64, &[u8], &[u8])> {
    parts.into_iter().scan(0, move |begin, part| {
        let (first, behind) = part.split_at(IN_LINE.saturating_sub(*begin).min(part.len()));
        let to = body + (*begin + first.len()) as u64;
        *begin += part.len();
        Some((to, first, behind))
    })
}
