//! Numbers as packet headers have them, highest byte first, and their checksum: names that the original exports for its
//! daemon, and that programs with a protocol of their own may use. A null pointer reads as 0 and takes nothing.

use pvm_wire::encoding::DataSignature;
use std::ffi::c_int;

/// The number in these bytes.
///
/// # Safety
/// `pointer` is NULL or has `N` bytes.
unsafe fn get<const N: usize>(pointer: *const u8) -> c_int {
    // SAFETY: not NULL, so as many bytes, which need no alignment.
    let bytes = if pointer.is_null() { [0; N] } else { unsafe { pointer.cast::<[u8; N]>().read() } };
    bytes.iter().fold(0, |number, &byte| number << 8 | c_int::from(byte))
}

/// Writes the lowest bytes of a number.
///
/// # Safety
/// `pointer` is NULL or has room for `N` bytes, of which a number has that many.
unsafe fn put<const N: usize>(pointer: *mut u8, number: c_int) {
    let bytes = number.to_be_bytes();
    if !pointer.is_null() {
        // SAFETY: not NULL, so room for as many bytes, which are not those of the number.
        unsafe { std::ptr::copy_nonoverlapping(bytes[4 - N..].as_ptr(), pointer, N) };
    }
}

macro_rules! numbers {
    ($($get:ident $put:ident $bytes:literal;)*) => {$(
        #[doc = concat!("Reads a number of ", $bytes, " bytes.")]
        ///
        /// # Safety
        /// `pointer` is NULL or has the number's bytes.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get(pointer: *const u8) -> c_int {
            // SAFETY: NULL, or as many bytes.
            unsafe { get::<$bytes>(pointer) }
        }

        #[doc = concat!("Writes a number of ", $bytes, " bytes: what is above is left out.")]
        ///
        /// # Safety
        /// `pointer` is NULL or has room for the number's bytes.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $put(pointer: *mut u8, number: c_int) {
            // SAFETY: NULL, or room for as many bytes.
            unsafe { put::<$bytes>(pointer, number) };
        }
    )*};
}

numbers! {
    pvmget8 pvmput8 1;
    pvmget16 pvmput16 2;
    pvmget32 pvmput32 4;
}

/// How this host has numbers in memory.
#[unsafe(no_mangle)]
pub extern "C" fn pvmgetdsig() -> c_int {
    DataSignature::NATIVE.0 as c_int
}

/// Goes on with a checksum (CRC-32, lowest bit first, begun with 0 and not inverted).
///
/// # Safety
/// `bytes` is NULL or has this many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvmcrcappend(bytes: *const u8, length: c_int, sum: u32) -> u32 {
    let length = usize::try_from(length).unwrap_or(0);
    if bytes.is_null() || length == 0 {
        return sum;
    }
    // SAFETY: not NULL, so `length` bytes.
    unsafe { std::slice::from_raw_parts(bytes, length) }.iter().fold(sum, |sum, &byte| {
        let shift = |sum: u32, _| (sum >> 1) ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 };
        (0..8).fold(sum ^ u32::from(byte), shift)
    })
}
