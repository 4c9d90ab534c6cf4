//! Words that one process publishes to others, which can read each at any time, by one load, and never write them.
//!
//! A daemon publishes the team that has the turn to the tasks of its host (`Turn` of the wire formats defines the word), and counts
//! the notices of changed groups.

use crate::mapping::{Mapping, readable_by_others};
use rustix::io::Result;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes of a page's file.
const SIZE: u64 = 4096;

/// The place of the count of changes, in a cache line of its own.
const GROUP_CHANGES: u64 = 64;

/// The writer's page.
#[derive(Debug)]
pub struct Page {
    file: OwnedFd,
    mapping: Mapping,
}

impl Page {
    /// A new page, with the word 0. From now on no other process can write to it.
    pub fn new() -> Result<Self> {
        let (file, mapping) = readable_by_others(SIZE)?;
        Ok(Self { file, mapping })
    }

    /// Publishes another word.
    pub fn set(&self, word: u64) {
        self.mapping.store_wide(0, word);
    }

    /// Publishes another count of changes of groups.
    pub fn set_group_changes(&self, count: u64) {
        self.mapping.store_wide(GROUP_CHANGES, count);
    }

    /// The file, for readers.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A reader's mapping of the page.
#[derive(Debug)]
pub struct View {
    mapping: Mapping,
}

impl View {
    /// The page in this file.
    pub fn new(file: BorrowedFd<'_>) -> Result<Self> {
        Ok(Self { mapping: Mapping::for_reading(file)? })
    }

    /// The word.
    #[inline]
    pub fn get(&self) -> u64 {
        self.mapping.load_wide(0)
    }

    /// The count of changes of groups.
    #[inline]
    pub fn group_changes(&self) -> u64 {
        self.mapping.load_wide(GROUP_CHANGES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    use rustix::io::Errno;

    #[test]
    fn readers_see_the_published_word() {
        let page = Page::new().unwrap();
        let (first, second) = (View::new(page.fd()).unwrap(), View::new(page.fd()).unwrap());
        assert_eq!((first.get(), second.get()), (0, 0));
        page.set(u64::MAX - 7);
        assert_eq!((first.get(), second.get()), (u64::MAX - 7, u64::MAX - 7));
        drop(page);
        assert_eq!(first.get(), u64::MAX - 7, "it stays when its writer has ended");
    }

    #[test]
    fn no_other_process_can_write_shrink_or_grow_it() {
        let page = Page::new().unwrap();
        assert_eq!(rustix::io::write(page.fd(), b"junk"), Err(Errno::PERM));
        assert_eq!(Mapping::new(page.fd()).err(), Some(Errno::PERM));
        for size in [0, SIZE * 2] {
            assert_eq!(ftruncate(page.fd(), size), Err(Errno::PERM));
        }
        assert_eq!(fcntl_add_seals(page.fd(), SealFlags::empty()), Err(Errno::PERM));
        assert_eq!(View::new(page.fd()).unwrap().get(), 0);
    }

    #[test]
    fn a_file_that_is_no_page_is_refused() {
        let file = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        assert!(View::new(file.as_fd()).is_err(), "it is empty");
        ftruncate(&file, SIZE).unwrap();
        assert!(View::new(file.as_fd()).is_err(), "it could shrink");
        fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
        assert_eq!(View::new(file.as_fd()).unwrap().get(), 0);
    }
}
