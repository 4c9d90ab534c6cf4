//! The mailbox.

use super::{Length, TEXT_MAX, answer, fill, named, number, text};
use crate::mailbox;
use crate::memory::{MailboxInfo, Out, numbers, store, store_all};
use pvm_wire::PvmError;
use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicUsize, Ordering};

named! {
    TEXT_MAX;
    /// `pvm_putinfo`.
    pvmfputinfo_(text, id, flags) = mailbox::pvm_putinfo;
    /// `pvm_recvinfo`.
    pvmfrecvinfo_(text, index, flags) = mailbox::pvm_recvinfo;
    /// `pvm_delinfo`.
    pvmfdelinfo_(text, index, flags) = mailbox::pvm_delinfo;
}

/// Which of the names comes at the next call.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// `pvm_getmboxinfo`, one name at each call, with its entries in three arrays. A number of names of -1 begins anew;
/// `info` is `PvmNotFound` when no name fits the pattern.
///
/// # Safety
/// `pattern` and `name` are CHARACTER arguments; the arrays have room for the name's entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvmfgetmboxinfo_(
    pattern: *const c_char,
    name: *mut c_char,
    names: *mut c_int,
    entries: Out<'_, c_int>,
    indices: *mut c_int,
    owners: *mut c_int,
    flags: *mut c_int,
    info: Out<'_, c_int>,
    pattern_length: Length,
    name_length: Length,
) {
    // SAFETY: a CHARACTER argument: NULL, or as many characters as its length says.
    unsafe {
        answer(info, || {
            if number(names)? == -1 {
                NEXT.store(0, Ordering::Relaxed);
            }
            let pattern = text(pattern, pattern_length)?;
            let (mut count, mut list) = (0, std::ptr::null_mut::<MailboxInfo>());
            let code = mailbox::pvm_getmboxinfo((&*pattern).into(), (&mut count).into(), (&mut list).into());
            store(names, count);
            if code < 0 || count < 1 {
                return Ok(if code < 0 { code } else { PvmError::NotFound.code() });
            }
            let class = &*list.add(NEXT.fetch_add(1, Ordering::Relaxed) % count as usize);
            fill(name, name_length, CStr::from_ptr(class.name).to_bytes());
            entries.set(class.entries);
            for (from, to) in [(class.indices, indices), (class.owners, owners), (class.flags, flags)] {
                store_all(to, &numbers(from, class.entries).unwrap_or_default());
            }
            Ok(code)
        });
    }
}
