//! Tasks, contexts, message handlers and options.

use super::{Length, Number, TEXT_MAX, answer, named, numbers, text};
use crate::memory::Out;
use crate::{context, control, errors, handlers, internals, migration, notify, options, output, spawn};
use pvm_wire::PvmError;
use std::ffi::{c_char, c_int};

numbers! {
    /// `pvm_mytid`.
    pvmfmytid_() = control::pvm_mytid;
    /// `pvm_parent`.
    pvmfparent_() = control::pvm_parent;
    /// `pvm_exit`.
    pvmfexit_() = control::pvm_exit;
    /// `pvm_kill`.
    pvmfkill_(tid) = control::pvm_kill;
    /// `pvm_sendsig`.
    pvmfsendsig_(tid, number) = control::pvm_sendsig;
    /// `pvm_pstat`.
    pvmfpstat_(tid) = control::pvm_pstat;
    /// `pvm_tidtohost`.
    pvmftidtohost_(tid) = control::pvm_tidtohost;
    /// `pvm_newcontext`.
    pvmfnewcontext_() = context::pvm_newcontext;
    /// `pvm_getcontext`.
    pvmfgetcontext_() = context::pvm_getcontext;
    /// `pvm_setcontext`.
    pvmfsetcontext_(context) = context::pvm_setcontext;
    /// `pvm_freecontext`.
    pvmffreecontext_(context) = context::pvm_freecontext;
    /// `pvm_getopt`.
    pvmfgetopt_(what) = options::pvm_getopt;
    /// `pvm_setopt`.
    pvmfsetopt_(what, value) = options::pvm_setopt;
    /// `pvm_delmhf`.
    pvmfdelmhf_(id) = handlers::pvm_delmhf;
    /// `pvm_maymove`.
    pvmfmaymove_() = migration::pvm_maymove;
}

named! {
    TEXT_MAX;
    /// `pvm_perror`.
    pvmfperror_(text) = errors::pvm_perror;
}

/// `pvm_migratable`. Both are integer functions without arguments.
#[unsafe(no_mangle)]
pub extern "C" fn pvmfmigratable_(
    save: Option<migration::Function>,
    restore: Option<migration::Function>,
    info: Out<'_, c_int>,
) {
    answer(info, || Ok(migration::pvm_migratable(save, restore)));
}

/// `pvm_move`; a blank host, or one that begins with `*`, is the one with most room.
///
/// # Safety
/// `host` is a CHARACTER argument.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvmfmove_(
    tid: Number<'_>,
    host: *const c_char,
    info: Out<'_, c_int>,
    length: Length,
) {
    // SAFETY: a CHARACTER argument: NULL, or as many characters as its length says.
    unsafe {
        answer(info, || {
            let host = text(host, length)?;
            let host = if host.as_bytes().starts_with(b"*") { c"" } else { &host };
            Ok(migration::pvm_move(tid.get()?, host.into()))
        });
    }
}

/// `pvm_addmhf`. The fourth argument is not used, as with the original: the handler gets the buffer's id, by value as
/// in C.
#[unsafe(no_mangle)]
pub extern "C" fn pvmfaddmhf_(
    src: Number<'_>,
    tag: Number<'_>,
    context: Number<'_>,
    _buffer: *const c_int,
    handler: Option<handlers::Function>,
    id: Out<'_, c_int>,
) {
    answer(id, || Ok(handlers::pvm_addmhf(src.get()?, tag.get()?, context.get()?, handler)));
}

/// Sleeps for some seconds.
#[unsafe(no_mangle)]
pub extern "C" fn pvmfsleep_(seconds: Number<'_>) {
    internals::pvmsleep(seconds.get().unwrap_or(0));
}

/// `pvm_notify`.
///
/// # Safety
/// There are `count` ids at `tids`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvmfnotify_(
    what: Number<'_>,
    tag: Number<'_>,
    count: Number<'_>,
    tids: *const c_int,
    info: Out<'_, c_int>,
) {
    // SAFETY: NULL, or `count` numbers.
    unsafe { answer(info, || Ok(notify::pvm_notify(what.get()?, tag.get()?, count.get()?, tids))) };
}

/// The tasks spawned together with this one, one at each call: the number of all, and the one at an index from 0.
///
/// # Safety
/// All arguments are numbers, the first and the last one writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvmfsiblings_(count: Out<'_, c_int>, index: Number<'_>, tid: Out<'_, c_int>) {
    let mut list: *mut c_int = std::ptr::null_mut();
    // SAFETY: the list has as many ids as the call says.
    unsafe {
        answer(tid, || {
            let index = index.get()?;
            let all = control::pvm_siblings((&mut list).into());
            count.set(all);
            let wanted = usize::try_from(index).ok().filter(|_| index < all);
            wanted.map(|index| *list.add(index)).ok_or(PvmError::NoTask)
        });
    }
}

/// `pvm_spawn`, without arguments for the tasks; a place that begins with `*` is any.
///
/// # Safety
/// `file` and `place` are CHARACTER arguments; there is room for `count` ids at `tids`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvmfspawn_(
    file: *const c_char,
    flags: Number<'_>,
    place: *const c_char,
    count: Number<'_>,
    tids: *mut c_int,
    started: Out<'_, c_int>,
    file_length: Length,
    place_length: Length,
) {
    // SAFETY: a CHARACTER argument: NULL, or as many characters as its length says.
    unsafe {
        answer(started, || {
            let (file, place) = (text(file, file_length)?, text(place, place_length)?);
            let place = if place.as_bytes().starts_with(b"*") { c"" } else { &place };
            let (flags, count) = (flags.get()?, count.get()?);
            Ok(spawn::pvm_spawn((&*file).into(), std::ptr::null(), flags, place.into(), count, tids))
        });
    }
}

unsafe extern "C" {
    static stdout: *mut output::File;
}

/// `pvm_catchout`, to standard output.
///
/// # Safety
/// Both arguments are numbers, the last one writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvmfcatchout_(on: Number<'_>, info: Out<'_, c_int>) {
    // SAFETY: the C library's stream stays open.
    unsafe {
        answer(info, || {
            let stream = if on.get()? == 0 { std::ptr::null_mut() } else { stdout };
            Ok(output::pvm_catchout(stream))
        });
    }
}
