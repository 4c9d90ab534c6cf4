//! The channel that this process has inherited: a descriptor that no owner has passed to it.

use crate::mapping::inherited_file;
use pvm_wire::channel::Channel;
use rustix::fs::fstat;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{RecvFlags, recv};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, OwnedFd};

/// Limit of the bytes in the channel.
const GREETING_MAX: usize = 1024;

/// Takes this process's channel and what lies in it, once. Its children have it open, too: one that enrols in its place takes
/// what lies there, and leaves the channel; so the process itself is not told any more that it were that task.
pub fn take(channel: Channel) -> Option<(OwnedFd, Vec<u8>)> {
    // It is only looked at, and not closed at the end, until it is known to be the channel of this process. That has no other
    // owner before what lies in it has been read, which only one caller can do.
    let file = inherited_file(channel.descriptor);
    let found = fstat(file.as_fd()).ok()?;
    // As at a socket one would connect to, it must be this user's.
    if found.st_ino != channel.file || found.st_uid != rustix::process::geteuid().as_raw() {
        return None;
    }
    let mut greeting = vec![0; GREETING_MAX];
    let length = recv(file.as_fd(), greeting.as_mut_slice(), RecvFlags::DONTWAIT).ok()?.0;
    greeting.truncate(length);
    let is_ours =
        rustix::process::getppid().is_some_and(|parent| parent.as_raw_nonzero().get() == channel.daemon);
    if length == 0 || !is_ours || fcntl_setfd(file.as_fd(), FdFlags::CLOEXEC).is_err() {
        return None;
    }
    Some((ManuallyDrop::into_inner(file).into(), greeting))
}
