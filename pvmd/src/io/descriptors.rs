//! Descriptors that travel with messages on a task's connection.

use bytes::BytesMut;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use tokio::io::Interest;
use tokio::net::UnixStream;

/// What a task has sent for its neighbours.
pub type Shared = Arc<[OwnedFd]>;

/// Descriptors that a task sends at once: its shared memory and its bell. More are closed by the system.
const COUNT: usize = 2;

/// Reads once, up to `most` bytes; what comes with descriptors comes alone. 0 bytes are the end.
pub async fn read(
    socket: &UnixStream,
    buffer: &mut BytesMut,
    most: usize,
) -> io::Result<(usize, Vec<OwnedFd>)> {
    socket.async_io(Interest::READABLE, || read_now(socket, buffer, most)).await
}

fn read_now(socket: &UnixStream, buffer: &mut BytesMut, most: usize) -> io::Result<(usize, Vec<OwnedFd>)> {
    // Only what is needed has to be cleared beforehand.
    let there = usize::try_from(rustix::io::ioctl_fionread(socket)?).unwrap_or(most);
    let start = buffer.len();
    buffer.resize(start + there.clamp(1, most), 0);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(COUNT))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut buffer[start..])],
        &mut control,
        RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
    );
    let count = received.as_ref().map_or(0, |received| received.bytes);
    buffer.truncate(start + count);
    match received {
        Ok(_) => Ok((count, taken(&mut control))),
        Err(Errno::INTR) => Err(io::ErrorKind::WouldBlock.into()),
        Err(error) => Err(error.into()),
    }
}

fn taken(control: &mut RecvAncillaryBuffer<'_>) -> Vec<OwnedFd> {
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    rights.flatten().collect()
}

/// Writes a first part of these bytes, with descriptors; how many.
pub async fn write(socket: &UnixStream, bytes: &[u8], descriptors: &Shared) -> io::Result<usize> {
    let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().take(COUNT).map(AsFd::as_fd).collect();
    let send = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(COUNT))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&borrowed));
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags)?)
    };
    socket.async_io(Interest::WRITABLE, send).await
}
