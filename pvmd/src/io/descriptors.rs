//! Descriptors that travel with messages on a task's connection.

use crate::io::watched::{Watched, watch};
use bytes::BytesMut;
use pvm_wire::copy::append;
use pvm_wire::tuned::TASK_READ;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::cell::RefCell;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;

/// How long it takes to look again for room where the system cannot be asked to tell.
const AGAIN: Duration = Duration::from_millis(5);

/// What a task has sent for its neighbours.
pub type Shared = Arc<[OwnedFd]>;

/// Descriptors that a task sends at once: its shared memory and its bell. More are closed by the system.
const COUNT: usize = 2;

/// A task's connection. It is waited for when it has nothing to read, and for being writable only when it was not: an event
/// for each message that a task has taken would wake the daemon twice as often.
pub type Connection = Watched<UnixStream>;

thread_local! {
    /// Where all connections are read to, since nobody knows how much there is.
    static SPACE: RefCell<Box<[u8]>> = RefCell::new(vec![0; TASK_READ].into());
}

/// A connection, of a socket that does not block.
pub fn connection(stream: UnixStream) -> io::Result<Connection> {
    watch(stream, Interest::READABLE)
}

/// Reads once; what comes with descriptors comes alone. 0 bytes are the end.
pub async fn read(socket: &Connection, buffer: &mut BytesMut) -> io::Result<(usize, Vec<OwnedFd>)> {
    loop {
        let mut readable = socket.readable().await?;
        match read_now(socket.get_ref(), buffer) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => readable.clear_ready(),
            Err(error) => return Err(error.into()),
            Ok((count, descriptors)) => {
                if count < TASK_READ && descriptors.is_empty() {
                    // It has been emptied; what comes from now on is an event of its own.
                    readable.clear_ready();
                }
                return Ok((count, descriptors));
            }
        }
    }
}

fn read_now(socket: &UnixStream, buffer: &mut BytesMut) -> rustix::io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(COUNT))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let count = SPACE.with_borrow_mut(|space| {
        let count = recvmsg(socket, &mut [IoSliceMut::new(space)], &mut control, flags)?.bytes;
        buffer.reserve(count);
        append(&space[..count], buffer);
        Ok::<_, Errno>(count)
    })?;
    Ok((count, taken(&mut control)))
}

fn taken(control: &mut RecvAncillaryBuffer<'_>) -> Vec<OwnedFd> {
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    rights.flatten().collect()
}

/// Writes a first part of these bytes, if there is room for any; how many. Descriptors go with them.
pub fn write(socket: &UnixStream, bytes: &[IoSlice<'_>], descriptors: &[OwnedFd]) -> io::Result<usize> {
    let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().take(COUNT).map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(COUNT))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !borrowed.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&borrowed));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    Ok(sendmsg(socket, bytes, &mut control, flags)?)
}

/// Waits until there is room to write.
pub async fn room(socket: &UnixStream) {
    let waited = async {
        let again = watch(socket.try_clone()?, Interest::WRITABLE)?;
        again.writable().await.map(|mut writable| writable.retain_ready())
    };
    if waited.await.is_err() {
        // Out of descriptors, most likely.
        tokio::time::sleep(AGAIN).await;
    }
}
