//! Structures of the program's that begin with their size, so that a later library can add members at their ends.

use super::state::Failure;
use pvm_wire::PvmError;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Largest such structure, bytes: what an uninitialised one says of itself is rarely less.
const SIZE_MAX: usize = 4096;

/// A structure whose first member is its size, and whose later members mean by 0 what programs meant that did not know them.
///
/// # Safety
/// Its layout is C's, it begins with a `usize`, and all its bytes may be 0.
pub unsafe trait Grows: Copy {
    /// The size of its first version.
    const LEAST: usize;
}

/// Where such a structure is: NULL, or room for as many bytes as the program says that it has.
///
/// Only C makes one of a pointer, and the caller of the function promises this.
#[derive(Debug)]
#[repr(transparent)]
pub struct SizedStruct<'a, T>(*mut T, PhantomData<&'a mut T>);

impl<T: Grows> SizedStruct<'_, T> {
    /// Fills in a value, and 0 for members that this library does not know.
    pub fn set(self, size: usize, value: &T) -> Result<(), Failure> {
        self.check(size)?;
        let known = size.min(size_of::<T>());
        // SAFETY: not NULL, so room for `size` bytes, which is not where the value is; the value has `known` bytes.
        unsafe {
            self.0.cast::<u8>().write_bytes(0, size);
            std::ptr::from_ref(value).cast::<u8>().copy_to_nonoverlapping(self.0.cast(), known);
        }
        Ok(())
    }

    /// The value, with 0 for members that the program does not know. What is beyond this library's members has to be 0.
    pub fn read(self) -> Result<T, Failure> {
        if self.0.is_null() {
            return Err(Failure::explained(PvmError::BadParam, "there is no structure"));
        }
        // SAFETY: not NULL, so there is a structure, which begins with its size.
        let size = unsafe { self.0.cast::<usize>().read_unaligned() };
        self.check(size)?;
        let known = size.min(size_of::<T>());
        // SAFETY: the structure has `size` bytes, as it says, and `known` is not above that.
        let mut unknown = (known..size).map(|at| unsafe { self.0.cast::<u8>().add(at).read() });
        if unknown.any(|byte| byte != 0) {
            return Err(Failure::explained(
                PvmError::NotImpl,
                "the structure has members that this library does not know",
            ));
        }
        let mut value = MaybeUninit::<T>::zeroed();
        // SAFETY: the structure has `known` bytes, and the value has room for them. The others are 0, which all may be.
        unsafe {
            self.0.cast::<u8>().copy_to_nonoverlapping(value.as_mut_ptr().cast(), known);
            Ok(value.assume_init())
        }
    }

    fn check(&self, size: usize) -> Result<(), Failure> {
        if self.0.is_null() || !(T::LEAST..=SIZE_MAX).contains(&size) {
            let text = format!("no structure here has {size} bytes: is it initialised?");
            return Err(Failure::explained(PvmError::BadParam, text));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    /// What this library knows; an earlier one had no last member.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(C)]
    struct Known {
        size: usize,
        first: u64,
        last: u64,
    }

    // SAFETY: integers, of which the first is the size.
    unsafe impl Grows for Known {
        const LEAST: usize = 16;
    }

    fn at(memory: &mut [u64; 4]) -> SizedStruct<'_, Known> {
        SizedStruct(memory.as_mut_ptr().cast(), PhantomData)
    }

    const VALUE: Known = Known { size: 0, first: 5, last: 6 };

    #[test]
    fn members_that_one_side_does_not_know_are_0() {
        let mut memory = [9; 4];
        at(&mut memory).set(16, &Known { size: 16, ..VALUE }).unwrap();
        assert_eq!(memory, [16, 5, 9, 9]);
        assert_eq!(at(&mut memory).read().unwrap(), Known { size: 16, first: 5, last: 0 });
        at(&mut memory).set(32, &Known { size: 32, ..VALUE }).unwrap();
        assert_eq!(memory, [32, 5, 6, 0]);
        assert_eq!(at(&mut memory).read().unwrap(), Known { size: 32, ..VALUE });
        memory[3] = 1;
        assert_eq!(at(&mut memory).read().unwrap_err().code, PvmError::NotImpl.code());
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        let mut memory = [9; 4];
        for wrong in [0, 15, SIZE_MAX + 1, usize::MAX] {
            assert!(at(&mut memory).set(wrong, &VALUE).is_err());
            memory[0] = wrong as u64;
            assert_eq!(at(&mut memory).read().unwrap_err().code, PvmError::BadParam.code());
        }
        assert!(SizedStruct::<Known>(null_mut(), PhantomData).read().is_err());
        assert!(SizedStruct::<Known>(null_mut(), PhantomData).set(24, &VALUE).is_err());
    }
}
