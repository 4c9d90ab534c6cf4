//! Groups.

use super::{Length, Number, answer, named, text_within};
use crate::groups::{self, reductions};
use crate::memory::Out;
use crate::reductions::Operation;
use std::ffi::{c_char, c_int, c_void};

/// Longest group name, bytes.
const NAME_MAX: usize = 31;

named! {
    NAME_MAX;
    /// `pvm_joingroup`.
    pvmfjoingroup_(text) = groups::pvm_joingroup;
    /// `pvm_lvgroup`.
    pvmflvgroup_(text) = groups::pvm_lvgroup;
    /// `pvm_gsize`.
    pvmfgsize_(text) = groups::pvm_gsize;
    /// `pvm_gettid`.
    pvmfgettid_(text, instance) = groups::pvm_gettid;
    /// `pvm_getinst`.
    pvmfgetinst_(text, tid) = groups::pvm_getinst;
    /// `pvm_barrier`.
    pvmfbarrier_(text, count) = groups::pvm_barrier;
    /// `pvm_bcast`.
    pvmfbcast_(text, tag) = groups::pvm_bcast;
    /// `pvm_freezegroup`.
    pvmffreezegroup_(text, size) = groups::pvm_freezegroup;
}

macro_rules! array_subroutines {
    ($($(#[$doc:meta])* $name:ident($first:ty) = $function:path;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// `group` is a CHARACTER argument, the others are arrays and numbers, the last one writable.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            first: $first,
            data: *mut c_void,
            count: Number<'_>,
            kind: Number<'_>,
            tag: Number<'_>,
            group: *const c_char,
            root: Number<'_>,
            out: Out<'_, c_int>,
            length: Length,
        ) {
            // SAFETY: a CHARACTER argument: NULL, or as many characters as its length says.
            unsafe {
                answer(out, || {
                    let (count, kind, tag, root) = (count.get()?, kind.get()?, tag.get()?, root.get()?);
                    let group = text_within(group, length, NAME_MAX)?;
                    Ok($function(first, data, count, kind, tag, (&*group).into(), root))
                });
            }
        }
    )*};
}

array_subroutines! {
    /// `pvm_gather`.
    pvmfgather_(*mut c_void) = groups::pvm_gather;
    /// `pvm_scatter`.
    pvmfscatter_(*mut c_void) = groups::pvm_scatter;
    /// `pvm_reduce`.
    pvmfreduce_(Option<groups::Reduction>) = groups::pvm_reduce;
}

reductions! {
    /// `PvmMax`.
    pvmmax_ = Operation::Max;
    /// `PvmMin`.
    pvmmin_ = Operation::Min;
    /// `PvmSum`.
    pvmsum_ = Operation::Sum;
    /// `PvmProduct`.
    pvmproduct_ = Operation::Product;
}
