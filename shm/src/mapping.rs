//! The system's shared memory: the only unsafe part.
//!
//! A mapping lives as long as the object that owns it, its size is sealed, and every access is checked against that size. Other
//! processes can write to it at any time; so words are atomics, everything else is copied by raw pointers, and no value read is
//! trusted. The one exception is [`Body`]. A descriptor that was inherited, and so has no owner, is looked at here, too, and
//! a socket is asked for what it has not delivered.

use crate::bell::BELL_SIZE;
use crate::lineage;
use crate::loan::{Loan, Offset};
use crate::memory::{HEAD, IN_LINE, LINE, Memory, write_cut};
use pvm_wire::copy::piece;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::io::{Errno, Result};
use rustix::ioctl::{Getter, Opcode};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{Timespec, futex};
use std::ffi::c_void;
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence};
use std::time::Duration;

/// The largest segment that is mapped, bytes.
const SIZE_MAX: u64 = 1 << 36;

/// A segment in this process's address space.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<c_void>,
    size: u64,
    made_by: u32,
}

// SAFETY: the memory is shared with other processes anyway: it is only accessed by atomics and raw copies.
unsafe impl Send for Mapping {}
// SAFETY: two threads that use it at once do what two processes do: atomics and raw copies, of which nothing is concluded unchecked.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a segment. Its size must be sealed: access to a mapping that has shrunk kills the process.
    pub fn new(segment: BorrowedFd<'_>) -> Result<Self> {
        Self::map(segment, ProtFlags::READ | ProtFlags::WRITE, u64::MAX)
    }

    /// Maps the beginning of a segment, where its owner has what is for its daemon.
    pub fn of_head(segment: BorrowedFd<'_>) -> Result<Self> {
        Self::map(segment, ProtFlags::READ | ProtFlags::WRITE, BELL_SIZE)
    }

    /// Maps a segment to which this process must not write: the system would end it.
    pub(crate) fn for_reading(segment: BorrowedFd<'_>) -> Result<Self> {
        Self::map(segment, ProtFlags::READ, u64::MAX)
    }

    fn map(segment: BorrowedFd<'_>, access: ProtFlags, most: u64) -> Result<Self> {
        let size = u64::try_from(fstat(segment)?.st_size).map_err(|_| Errno::INVAL)?.min(most);
        let sealed = fcntl_get_seals(segment)?.contains(SealFlags::SHRINK);
        let length = usize::try_from(size).map_err(|_| Errno::NOMEM)?;
        if !sealed || size == 0 || size > SIZE_MAX {
            return Err(Errno::INVAL);
        }
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a new mapping at a place of the system's choosing touches no other memory.
        let start = unsafe { mmap(std::ptr::null_mut(), length, access, flags, segment, 0) }?;
        let start = NonNull::new(start).ok_or(Errno::NOMEM)?;
        Ok(Self { start, size, made_by: lineage::process() })
    }

    /// Its address in this process.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn address(&self) -> usize {
        self.start.as_ptr().addr()
    }

    #[inline]
    fn bytes(&self, at: u64) -> *mut u8 {
        // Callers have checked that the place is inside, so it fits.
        self.start.as_ptr().cast::<u8>().wrapping_add(at as usize)
    }

    #[inline]
    fn word(&self, at: u64) -> Option<&AtomicU32> {
        if !at.is_multiple_of(4) || !self.has(at, 4) {
            return None;
        }
        // SAFETY: the word is inside the mapping, which lives as long as `self`; it is aligned, as mappings begin at pages;
        // an atomic may be changed by others at any time.
        Some(unsafe { AtomicU32::from_ptr(self.bytes(at).cast()) })
    }

    #[inline]
    fn wide(&self, at: u64) -> Option<&AtomicU64> {
        if !at.is_multiple_of(8) || !self.has(at, 8) {
            return None;
        }
        // SAFETY: all 8 bytes are inside the mapping, which lives as long as `self`. Mappings start at pages, so a multiple of 8 is aligned;
        // an atomic may be changed by others at any time.
        Some(unsafe { AtomicU64::from_ptr(self.bytes(at).cast()) })
    }

    /// Two words at once.
    #[inline]
    pub(crate) fn load_wide(&self, at: u64) -> u64 {
        self.wide(at).map_or(0, |wide| wide.load(Ordering::Acquire))
    }

    /// Two words at once.
    pub(crate) fn store_wide(&self, at: u64, value: u64) {
        if let Some(wide) = self.wide(at) {
            wide.store(value, Ordering::Release);
        }
    }

    /// Whether it was made by a process from which this one was forked, and has to be left alone.
    pub fn is_foreign(&self) -> bool {
        self.made_by != lineage::process()
    }

    /// Sleeps while the word has this value, until a wake or for at most this time. It may end for no reason.
    pub(crate) fn sleep(&self, at: u64, word: u32, time: Duration) {
        let Some(place) = self.word(at) else { return };
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        // The caller looks again, for whatever reason the sleep has ended.
        let _ = futex::wait(place, futex::Flags::empty(), word, Some(&time));
    }

    /// Wakes all sleepers at this word.
    pub(crate) fn wake(&self, at: u64) {
        if let Some(place) = self.word(at) {
            let _ = futex::wake(place, futex::Flags::empty(), i32::MAX as u32);
        }
    }

    /// Gives pages back to the system; they read as zeros afterwards.
    pub fn give_back(&self, at: u64, length: u64) {
        if self.has(at, length) && length > 0 {
            // SAFETY: the pages are inside the mapping. Their content is not needed any more; reads return zeros.
            // Failure means that the memory stays in use, which does no harm.
            let _ = unsafe { madvise(self.bytes(at).cast(), length as usize, Advice::LinuxRemove) };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, and nothing refers to it any more.
        let _ = unsafe { munmap(self.start.as_ptr(), self.size as usize) };
    }
}

impl Memory for Mapping {
    #[inline]
    fn size(&self) -> u64 {
        self.size
    }

    #[inline]
    fn load(&self, at: u64) -> u32 {
        self.word(at).map_or(0, |word| word.load(Ordering::Acquire))
    }

    #[inline]
    fn store(&self, at: u64, value: u32) {
        if let Some(word) = self.word(at) {
            word.store(value, Ordering::Release);
        }
    }

    #[inline]
    fn swap(&self, at: u64, value: u32) -> u32 {
        self.word(at).map_or(0, |word| word.swap(value, Ordering::SeqCst))
    }

    fn exchange(&self, at: u64, expected: u32, value: u32) -> std::result::Result<(), u32> {
        let (done, failed) = (Ordering::AcqRel, Ordering::Acquire);
        self.word(at).map_or(Err(0), |word| word.compare_exchange(expected, value, done, failed).map(drop))
    }

    #[inline]
    fn fence(&self) {
        full_fence();
    }

    #[inline]
    fn read(&self, at: u64, into: &mut [u8]) {
        if self.has(at, into.len() as u64) {
            // SAFETY: inside the mapping; `into` is private memory, so the two do not overlap. A sender that breaks the rules
            // may write meanwhile: then the bytes are any bytes, and nothing is concluded from them unchecked.
            unsafe {
                let mut from = self.bytes(at);
                for into in into.chunks_mut(piece(into.len())) {
                    std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len());
                    from = from.add(into.len());
                }
            };
        } else {
            into.fill(0);
        }
    }

    #[inline]
    fn read_line(&self, at: u64) -> [u8; LINE as usize - 4] {
        let mut line = [0; LINE as usize - 4];
        if self.has(at + 4, line.len() as u64) {
            // SAFETY: the bytes are inside the mapping, and `line` is private memory. Another process may write meanwhile: then they are
            // any bytes, which are valid for `u8`.
            unsafe { std::ptr::copy_nonoverlapping(self.bytes(at + 4), line.as_mut_ptr(), line.len()) };
        }
        line
    }

    #[inline]
    fn write(&self, at: u64, from: &[u8]) {
        if self.has(at, from.len() as u64) {
            // SAFETY: inside the mapping; `from` may be there, too.
            unsafe { copy(from, self.bytes(at)) };
        }
    }

    #[inline(always)]
    fn write_line(&self, at: u64, head: &[u8; HEAD], parts: &[&[u8]]) {
        let length = parts.iter().fold(HEAD as u64, |sum, part| sum.saturating_add(part.len() as u64));
        if !self.has(at.saturating_add(4), length) {
            return;
        }
        let mut to = self.bytes(at + 4);
        // SAFETY: all of it is inside the mapping, one behind the other.
        unsafe {
            to.cast::<[u8; HEAD]>().write(*head);
            to = to.add(HEAD);
            for part in parts {
                copy(part, to);
                to = to.add(part.len());
            }
        }
    }

    #[inline(always)]
    fn write_lines(&self, at: u64, head: &[u8; HEAD], parts: [&[u8]; 2]) {
        let Some((first, behind)) = parts[0].split_first_chunk::<IN_LINE>() else {
            return write_cut(self, at, head, parts);
        };
        let length = (behind.len() as u64).saturating_add(parts[1].len() as u64);
        if !self.has(at, length.saturating_add(LINE)) {
            return;
        }
        // SAFETY: all of it is inside the mapping, one behind the other.
        unsafe {
            let to = self.bytes(at + LINE);
            copy(behind, to);
            copy(parts[1], to.add(behind.len()));
            let to = self.bytes(at + 4);
            to.cast::<[u8; HEAD]>().write(*head);
            to.add(HEAD).cast::<[u8; IN_LINE]>().write(*first);
        }
    }

    #[inline(always)]
    fn prefetch_read(&self, at: u64) {
        prefetch(self.bytes(at), false);
    }

    #[inline(always)]
    fn prefetch_write(&self, at: u64) {
        prefetch(self.bytes(at), true);
    }
}

/// Asks the processor for a line, for itself alone if that will be written, where it can be asked.
#[inline(always)]
fn prefetch(line: *mut u8, to_write: bool) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it changes nothing but the time that a later access takes, and there is no wrong place.
    unsafe {
        if to_write {
            std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
        } else {
            std::arch::asm!("prefetcht0 [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (line, to_write);
}

/// A full fence: earlier stores are visible to others before later loads.
#[inline]
fn full_fence() {
    if cfg!(any(target_arch = "x86_64", target_arch = "x86")) {
        // Every locked instruction is a fence there, and takes a seventh of the time of the one that is called so.
        static ANY: AtomicU32 = AtomicU32::new(0);
        compiler_fence(Ordering::SeqCst);
        ANY.swap(0, Ordering::SeqCst);
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// Copies bytes; a few of them without a call.
///
/// # Safety
/// There is room for them at `to`, which may overlap with them.
#[inline(always)]
unsafe fn copy(from: &[u8], to: *mut u8) {
    // SAFETY: every write is within `from.len()` bytes of `to`, where the caller has room. The first and the last bytes of a length between their size and twice that are all of them, and
    // both are read before either is written.
    unsafe {
        match (from.first_chunk::<8>(), from.last_chunk::<8>()) {
            (Some(&first), Some(&last)) if from.len() <= 16 => {
                to.cast::<[u8; 8]>().write(first);
                to.add(from.len() - 8).cast::<[u8; 8]>().write(last);
            }
            (Some(_), _) => match (from.first_chunk::<16>(), from.last_chunk::<16>()) {
                (Some(&first), Some(&last)) if from.len() <= 32 => {
                    to.cast::<[u8; 16]>().write(first);
                    to.add(from.len() - 16).cast::<[u8; 16]>().write(last);
                }
                _ => copy_many(from, to),
            },
            (None, _) => match (from.first_chunk::<4>(), from.last_chunk::<4>()) {
                (Some(&first), Some(&last)) => {
                    to.cast::<[u8; 4]>().write(first);
                    to.add(from.len() - 4).cast::<[u8; 4]>().write(last);
                }
                _ => {
                    if let [first, .., last] = *from {
                        // Of two bytes it is the last, too.
                        let middle = from[from.len() / 2];
                        to.add(from.len() / 2).write(middle);
                        to.write(first);
                        to.add(from.len() - 1).write(last);
                    } else if let [only] = *from {
                        to.write(only);
                    }
                }
            },
        }
    }
}

/// Copies bytes that need a call.
///
/// # Safety
/// As [`copy`].
#[inline]
unsafe fn copy_many(from: &[u8], mut to: *mut u8) {
    // SAFETY: there are `from.len()` bytes of room at `to`, and the pieces together are that long. Where the two overlap, no piece may be
    // written before the others are read, so one call moves all.
    unsafe {
        if from.as_ptr().addr().abs_diff(to.addr()) < from.len() {
            return std::ptr::copy(from.as_ptr(), to, from.len());
        }
        for piece in from.chunks(piece(from.len())) {
            std::ptr::copy_nonoverlapping(piece.as_ptr(), to, piece.len());
            to = to.add(piece.len());
        }
    }
}

/// A new segment, which only this process can write to, by the returned mapping.
pub(crate) fn readable_by_others(size: u64) -> Result<(OwnedFd, Mapping)> {
    let file = memfd_create(c"pvm-turns", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, size)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    let mapping = Mapping::new(file.as_fd())?;
    // Existing mappings stay writable.
    fcntl_add_seals(&file, SealFlags::FUTURE_WRITE | SealFlags::SEAL)?;
    Ok((file, mapping))
}

/// A task's own segment: only the task allocates there.
#[derive(Debug)]
pub struct Segment {
    file: OwnedFd,
    mapping: Arc<Mapping>,
}

impl Segment {
    /// A new one, of memory that the system gives only when it is used.
    pub fn new(size: u64) -> Result<Self> {
        // Growing a file beyond the limit would end the process.
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < size) {
            return Err(Errno::FBIG);
        }
        let file = memfd_create(c"pvm", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, size)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let mapping = Arc::new(Mapping::new(file.as_fd())?);
        Ok(Self { file, mapping })
    }

    /// The file, for other processes to map.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The memory.
    pub fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }
}

/// A received message's body, where its sender has put it. When it is dropped its sender may use the memory again.
#[derive(Debug)]
pub struct Body {
    mapping: Arc<Mapping>,
    loan: Loan,
    held: Arc<AtomicUsize>,
}

impl Body {
    /// A loan's body; `held` counts the bytes of all such bodies while they live.
    pub fn new(mapping: Arc<Mapping>, loan: Loan, held: Arc<AtomicUsize>) -> Self {
        held.fetch_add(loan.length(), Ordering::Relaxed);
        Self { mapping, loan, held }
    }
}

impl AsRef<[u8]> for Body {
    fn as_ref(&self) -> &[u8] {
        // A sender that keeps to the rules does not write there before the flag is set in `drop`.
        slice(&self.mapping, self.loan.body().get(), self.loan.length())
    }
}

/// Bytes that a sender leaves alone which keeps to the rules; none, if they are not all inside.
#[inline(always)]
fn slice(mapping: &Mapping, at: u64, length: usize) -> &[u8] {
    if !mapping.has(at, length as u64) {
        return &[];
    }
    // SAFETY: inside the mapping, which lives as long as it is borrowed. A sender that does not keep to the rules can make a
    // reader see bytes that change: this cannot be avoided without a copy of every message. Readers only copy and convert the
    // bytes; lengths that they find in them are checked against slices' own lengths.
    unsafe { std::slice::from_raw_parts(mapping.bytes(at), length) }
}

/// A body of several lines that is read in the ring, as long as its reader stays in the chunk where [`crate::ring::Near`] was found.
#[derive(Clone, Debug)]
pub struct View {
    mapping: Arc<Mapping>,
    at: u64,
    /// 0 while nothing is read: then only the mapping is kept, for the next body.
    length: usize,
}

impl View {
    /// From now on these bytes are read.
    #[inline(always)]
    pub fn open(view: &mut Option<Self>, mapping: &Arc<Mapping>, at: Offset, length: usize) {
        let at = at.get();
        match view {
            Some(view) if Arc::ptr_eq(&view.mapping, mapping) => (view.at, view.length) = (at, length),
            _ => *view = Some(Self { mapping: mapping.clone(), at, length }),
        }
    }

    /// Nothing is read any more.
    #[inline(always)]
    pub fn close(view: &mut Option<Self>) {
        if let Some(view) = view {
            view.length = 0;
        }
    }

    /// The bytes, unless it is closed.
    #[inline(always)]
    pub fn bytes(&self) -> Option<&[u8]> {
        (self.length > 0).then(|| slice(&self.mapping, self.at, self.length))
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.held.fetch_sub(self.loan.length(), Ordering::Relaxed);
        // The parent may still need what a forked child drops.
        if !self.mapping.is_foreign() {
            self.loan.release(&*self.mapping);
        }
    }
}

/// Memory in this task's own segment that one owner writes to.
#[derive(Debug)]
pub(crate) struct Area {
    mapping: Arc<Mapping>,
    at: u64,
    size: u64,
}

impl Area {
    /// `length` bytes from `at` on, which are not used otherwise.
    pub(crate) fn new(mapping: Arc<Mapping>, at: u64, size: u64) -> Self {
        Self { mapping, at, size }
    }

    /// Where it begins.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Copies bytes in, if they have room.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        if offset.checked_add(bytes.len() as u64).is_some_and(|end| end <= self.size) {
            self.mapping.write(self.at + offset, bytes);
        }
    }

    /// The first bytes.
    pub(crate) fn bytes(&self, length: usize) -> &[u8] {
        let length = length.min(self.size as usize);
        if !self.mapping.has(self.at, length as u64) {
            return &[];
        }
        // SAFETY: inside the mapping, which lives as long as `self`. This process only writes there by `write`, which wants
        // `self` for itself. As in [`Body`], others that break the rules can change the bytes, from which nothing is concluded.
        unsafe { std::slice::from_raw_parts(self.mapping.bytes(self.at), length) }
    }
}

/// A page that the system empties in every forked child.
#[derive(Debug)]
pub(crate) struct ForkMark(NonNull<c_void>);

// SAFETY: the page is never unmapped, and is only accessed as an atomic.
unsafe impl Send for ForkMark {}
// SAFETY: threads that access it at once do so by one atomic.
unsafe impl Sync for ForkMark {}

impl ForkMark {
    pub(crate) fn new() -> Option<Self> {
        // The system rounds up to a page. Asking for its size would read the auxiliary vector, which valgrind does not show.
        let (access, length) = (ProtFlags::READ | ProtFlags::WRITE, size_of::<u32>());
        // SAFETY: a new mapping at a place of the system's choosing touches no other memory; it is never unmapped.
        let page = unsafe {
            let page = mmap_anonymous(std::ptr::null_mut(), length, access, MapFlags::PRIVATE).ok()?;
            madvise(page, length, Advice::LinuxWipeOnFork).ok()?;
            page
        };
        NonNull::new(page).map(Self)
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: the page is there for ever, and a page is aligned for a word.
        unsafe { AtomicU32::from_ptr(self.0.as_ptr().cast()) }
    }

    /// The value that was set in this process, or 0.
    pub(crate) fn get(&self) -> u32 {
        self.word().load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, value: u32) {
        self.word().store(value, Ordering::Relaxed);
    }
}

/// The file at a descriptor that this process has inherited, or at none. It is not closed when it is dropped: only a caller that has
/// proved to be the only owner may take it out.
pub(crate) fn inherited_file(descriptor: RawFd) -> ManuallyDrop<File> {
    // SAFETY: nothing is closed by this value, and a look at a descriptor that is not open is an error of the system call.
    ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) })
}

/// The request for the bytes of a socket that have not been confirmed, where it has this number: on all processors but MIPS, PowerPC and
/// SPARC, which refuse it.
const SIOCOUTQ: Opcode = 0x5411;

/// Whether the other end of a stream has not confirmed all bytes that were written; `false` if the system does not say.
pub fn unacknowledged(stream: BorrowedFd<'_>) -> bool {
    // SAFETY: the request writes one int, to where the getter has room for one (ioctl_list(2), tcp(7): SIOCOUTQ).
    let count = unsafe { rustix::ioctl::ioctl(stream, Getter::<SIOCOUTQ, i32>::new()) };
    count.is_ok_and(|count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_as_its_parts_are() {
        let segment = Segment::new(4096).unwrap();
        let memory = segment.mapping();
        let (head, bytes) = ([7; HEAD], [9; 32]);
        for (first, second) in [(0, 0), (1, 0), (4, 1), (8, 3), (17, 15), (32, 0), (0, 32)] {
            memory.write(64, &[0xff; 128]);
            memory.write_line(64, &head, &[&bytes[..first], &bytes[..second]]);
            let mut found = [0; 128];
            memory.read(64, &mut found);
            let end = 4 + HEAD + first + second;
            assert_eq!((&found[..4], &found[4..4 + HEAD]), (&[0xff; 4][..], &head[..]));
            assert!(found[4 + HEAD..end].iter().all(|&byte| byte == 9));
            assert!(found[end..].iter().all(|&byte| byte == 0xff), "behind {first} and {second} bytes");
        }
        // Nothing is written beyond the end.
        memory.write_line(4096 - 64, &head, &[&bytes, &bytes[..1]]);
        let mut found = [1; 64];
        memory.read(4096 - 64, &mut found);
        assert_eq!(found, [0; 64]);
    }

    #[test]
    fn long_bodies_are_copied_whole_and_nothing_else() {
        let segment = Segment::new(4 << 20).unwrap();
        let memory = segment.mapping();
        let body: Vec<u8> = (0..=1 << 20).map(|index| (index % 251) as u8).collect();
        for length in [2047, 2048, 2049, 5000, (1 << 20) - 1, 1 << 20, (1 << 20) + 1] {
            memory.write(64, &vec![0xff; length + 64]);
            memory.write(77, &body[..length]);
            let mut found = vec![0; length + 2];
            memory.read(76, &mut found);
            assert_eq!((found[0], found[length + 1]), (0xff, 0xff), "beside {length} bytes");
            assert!(found[1..=length] == body[..length], "{length} bytes");
        }
    }

    #[test]
    fn lines_are_written_as_their_parts_are() {
        let segment = Segment::new(4096).unwrap();
        let memory = segment.mapping();
        let body: Vec<u8> = (0..300).map(|index| index as u8).collect();
        for (length, cut) in
            (IN_LINE..body.len()).flat_map(|length| (0..=length).map(move |cut| (length, cut)))
        {
            memory.write(0, &[0xff; 512]);
            let (first, second) = body[..length].split_at(cut);
            memory.write_lines(64, &[7; HEAD], [first, second]);
            let mut found = [0; 512];
            memory.read(0, &mut found);
            let end = 68 + HEAD + length;
            assert_eq!((&found[64..68], &found[68..68 + HEAD]), (&[0xff; 4][..], &[7; HEAD][..]));
            assert_eq!(&found[68 + HEAD..end], &body[..length], "{length} bytes, cut at {cut}");
            assert!(found[..64].iter().chain(&found[end..]).all(|&byte| byte == 0xff));
        }
        // Nothing is written beyond the end.
        memory.write_lines(4096 - 64, &[7; HEAD], [&body[..IN_LINE], &body[..1]]);
        let mut found = [1; 64];
        memory.read(4096 - 64, &mut found);
        assert_eq!(found, [0; 64]);
    }

    #[test]
    fn bytes_of_every_length_are_written_and_nothing_beside_them() {
        let segment = Segment::new(4096).unwrap();
        let memory = segment.mapping();
        let bytes: Vec<u8> = (1..=80).collect();
        for length in 0..=bytes.len() {
            memory.write(0, &[0xff; 128]);
            memory.write(5, &bytes[..length]);
            let mut found = [0; 128];
            memory.read(0, &mut found);
            assert_eq!((&found[..5], &found[5..5 + length]), (&[0xff; 5][..], &bytes[..length]));
            assert!(found[5 + length..].iter().all(|&byte| byte == 0xff), "behind {length} bytes");
        }
    }
}
