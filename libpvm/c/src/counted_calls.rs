//! Counts system calls of this process where the processor allows it: tests include this file; the library does not use it.
//!
//! The kernel passes each call to a handler while a byte is set (prctl(2), `PR_SET_SYSCALL_USER_DISPATCH`).

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

pub const ALLOW: u8 = 0;
pub const BLOCK: u8 = 1;
pub static SELECTOR: AtomicU8 = AtomicU8::new(ALLOW);
pub static COUNT: AtomicU64 = AtomicU64::new(0);

/// The handler: counts a system call, and repeats it without counting.
#[cfg(target_arch = "x86_64")]
extern "C" fn tried(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    SELECTOR.store(ALLOW, Ordering::Relaxed);
    COUNT.fetch_add(1, Ordering::Relaxed);
    // SAFETY: what a handler with SA_SIGINFO is given. The call's number is where it was; the instruction has two bytes.
    unsafe {
        let context = &mut *context.cast::<libc::ucontext_t>();
        context.uc_mcontext.gregs[libc::REG_RIP as usize] -= 2;
    }
}

/// From now on they are, where it is asked for.
#[cfg(target_arch = "x86_64")]
pub fn count() -> bool {
    const SET_USER_DISPATCH: libc::c_int = 59;
    const DISPATCH_ON: libc::c_ulong = 1;
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = tried;
    // SAFETY: all zeros are an action without flags; the handler is one for SA_SIGINFO; the selector stays where it is.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut());
        libc::prctl(SET_USER_DISPATCH, DISPATCH_ON, 0_u64, 0_u64, SELECTOR.as_ptr()) == 0
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub fn count() -> bool {
    false
}
