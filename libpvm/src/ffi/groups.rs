//! The group functions. Groups are not there yet: each call says so (`PvmNotImpl`), so that programs that contain
//! group calls link and load, and run as long as they make none.

use super::errors;
use pvm_wire::PvmError;
use std::ffi::{c_char, c_int, c_void};

fn not_there(name: &str) -> c_int {
    errors::finish(name, Err(PvmError::NotImpl.into()))
}

/// A reduction over elements of the members.
pub type Reduction = unsafe extern "C" fn(*mut c_int, *mut c_void, *mut c_void, *mut c_int, *mut c_int);

macro_rules! group_calls {
    ($($(#[doc = $doc:literal])* $name:ident($($arg:ident: $type:ty),*);)*) => {$(
        $(#[doc = $doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: $type),*) -> c_int {
            not_there(stringify!($name))
        }
    )*};
}

group_calls! {
    /// Joins a group and returns the instance number in it.
    pvm_joingroup(_group: *const c_char);
    /// Leaves a group.
    pvm_lvgroup(_group: *const c_char);
    /// Makes a group static once it has so many members.
    pvm_freezegroup(_group: *const c_char, _size: c_int);
    /// Number of members.
    pvm_gsize(_group: *const c_char);
    /// The task with an instance number.
    pvm_gettid(_group: *const c_char, _instance: c_int);
    /// The instance number of a task.
    pvm_getinst(_group: *const c_char, _tid: c_int);
    /// Waits until so many members have come here.
    pvm_barrier(_group: *const c_char, _count: c_int);
    /// Sends the send buffer to all members but the sender.
    pvm_bcast(_group: *const c_char, _tag: c_int);
    /// Collects an array of every member at one.
    pvm_gather(_result: *mut c_void, _data: *mut c_void, _count: c_int, _type: c_int, _tag: c_int, _group: *const c_char, _root: c_int);
    /// Deals one member's array out to all.
    pvm_scatter(_result: *mut c_void, _data: *mut c_void, _count: c_int, _type: c_int, _tag: c_int, _group: *const c_char, _root: c_int);
    /// Combines the arrays of all members at one.
    pvm_reduce(_reduction: Option<Reduction>, _data: *mut c_void, _count: c_int, _type: c_int, _tag: c_int, _group: *const c_char, _root: c_int);
}

macro_rules! reductions {
    ($($(#[doc = $doc:literal])* $name:ident;)*) => {$(
        $(#[doc = $doc])*
        ///
        /// # Safety
        /// `info` is NULL or can be written.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name(
            _type: *mut c_int,
            _x: *mut c_void,
            _y: *mut c_void,
            _count: *mut c_int,
            info: *mut c_int,
        ) {
            // SAFETY: as promised.
            unsafe { super::memory::store(info, PvmError::NotImpl.code()) };
        }
    )*};
}

reductions! {
    /// The greater of each two elements.
    PvmMax;
    /// The lesser of each two elements.
    PvmMin;
    /// The sum of each two elements.
    PvmSum;
    /// The product of each two elements.
    PvmProduct;
}
