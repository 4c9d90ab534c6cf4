//! The lock of the library's state: one thread at a time has it, and no signal handler while its own thread has it.

use std::cell::UnsafeCell;
use std::ffi::{c_char, c_void};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering, compiler_fence};
use std::time::Duration;

unsafe extern "C" {
    /// The C library's: a value that is different for each thread, and never 0.
    safe fn pthread_self() -> usize;
}

unsafe extern "C" {
    /// The C library's: where a symbol of this program is, NULL if there is none.
    fn dlsym(library: *const c_void, name: *const c_char) -> *const c_void;
}

/// The value of [`IS_ALONE`] if the C library does not have the variable.
static UNKNOWN: AtomicU8 = AtomicU8::new(0);

/// The variable that is not 0 if this process has one thread.
static IS_ALONE: AtomicPtr<AtomicU8> = AtomicPtr::new(std::ptr::from_ref(&UNKNOWN).cast_mut());

/// From now on a thread that is alone does without atomic operations, if the C library (glibc from 2.32 on) tells.
#[cold]
pub fn learn_of_threads() {
    // SAFETY: no library stands for all that are loaded, and the name is a C string.
    let word = unsafe { dlsym(std::ptr::null(), c"__libc_single_threaded".as_ptr()) };
    if !word.is_null() {
        IS_ALONE.store(word.cast_mut().cast(), Ordering::Relaxed);
    }
}

/// Whether this thread is the only one.
#[inline]
fn is_alone() -> bool {
    // SAFETY: a static of this library, or the C library's variable of one byte, which is there as long as it.
    unsafe { &*IS_ALONE.load(Ordering::Relaxed) }.load(Ordering::Relaxed) != 0
}

/// The id of no thread.
const NOBODY: usize = 0;
/// Stands for the one thread there is.
const ALONE: usize = 1;
/// Longest time between two attempts to take the lock.
const LOOK: Duration = Duration::from_millis(1);

/// A value for one thread at a time.
///
/// A thread that is alone, as in most programs, pays for a comparison: what could come between that and its claim is a signal
/// handler, which has released the value by then. Others look again after a while: a wake would be needed otherwise,
/// for which every call would pay.
pub struct Exclusive<T> {
    owner: AtomicUsize,
    value: UnsafeCell<T>,
}

// SAFETY: only the owner's guard leads to the value, so a thread at a time has it.
unsafe impl<T: Send> Sync for Exclusive<T> {}

/// The right to use the value, until it is dropped.
pub struct Guard<'a, T>(&'a Exclusive<T>);

impl<T> Exclusive<T> {
    /// A value that is not locked.
    pub const fn new(value: T) -> Self {
        Self { owner: AtomicUsize::new(NOBODY), value: UnsafeCell::new(value) }
    }

    /// Waits until no other thread has the value. `None` if this one has: a signal handler has interrupted it.
    #[inline(always)]
    pub fn enter(&self) -> Option<Guard<'_, T>> {
        if is_alone() && self.owner.load(Ordering::Relaxed) == NOBODY {
            self.owner.store(ALONE, Ordering::Relaxed);
            // A signal handler sees this before anything that is done with the value.
            compiler_fence(Ordering::SeqCst);
            return Some(Guard(self));
        }
        self.enter_among_others()
    }

    #[cold]
    #[inline(never)]
    fn enter_among_others(&self) -> Option<Guard<'_, T>> {
        let me = pthread_self();
        match self.owner.compare_exchange(NOBODY, me, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Some(Guard(self)),
            Err(owner) if owner == me || owner == ALONE && is_alone() => None,
            Err(_) => Some(self.wait(me)),
        }
    }

    #[cold]
    fn wait(&self, me: usize) -> Guard<'_, T> {
        let mut pause = Duration::from_micros(1);
        while self.owner.compare_exchange(NOBODY, me, Ordering::Acquire, Ordering::Relaxed).is_err() {
            std::thread::sleep(pause);
            pause = (pause * 2).min(LOOK);
        }
        Guard(self)
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard's thread alone has the value while the guard lives.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard's thread alone has the value while the guard lives, and the guard is borrowed mutably.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.owner.store(NOBODY, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_turns() {
        static COUNT: Exclusive<u64> = Exclusive::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| *COUNT.enter().unwrap() += 1));
            }
        });
        assert_eq!(*COUNT.enter().unwrap(), 40_000);
    }

    #[test]
    fn a_thread_does_not_enter_twice() {
        let value = Exclusive::new(7);
        let guard = value.enter().unwrap();
        assert!(value.enter().is_none());
        drop(guard);
        assert_eq!(value.enter().map(|guard| *guard), Some(7));
    }
}
