//! A stream on which fragments travel: to the daemon, or directly to another task.

use super::lending::Borrower;
use super::seal::{self, Seal};
use crate::{Error, Result};
use bytes::Bytes;
use pvm_wire::copy::{append, copied};
use pvm_wire::coscheduling::Turn;
use pvm_wire::header::{EOM, LENT, SOM};
use pvm_wire::limits::{MESSAGE_MAX, PIECE_MAX};
use pvm_wire::message::{Assembled, FRAGMENT_OVERHEAD, FragmentError};
use pvm_wire::tuned::{ROUTE_BATCH, ROUTE_LONG, ROUTE_ROOM};
use pvm_wire::{FragmentHeader, Lent, Message, MessageHeader, PvmError, Reassembler, Tid};
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// How long a route may be silent until the system sends a sign of life.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Bytes to read from a direct route while messages are short, and while they are long: the rest of a long one is read to where
/// it stays.
const AHEAD: usize = PIECE_MAX;
const BEHIND: usize = 256;
/// Longest fragment for a library that takes fragments in pieces.
const FRAGMENT_MAX: usize = 1 << 30;

/// Descriptors that come with one message: a neighbour's memory and its bell.
const DESCRIPTORS: usize = 2;

/// A connected, non-blocking stream socket.
#[derive(Debug)]
pub(super) struct Route {
    socket: Arc<OwnedFd>,
    peer: Option<Tid>,
    unread: Vec<u8>,
    fragment: Option<OpenFragment>,
    reassembler: Reassembler,
    partial: usize,
    /// The last messages were long.
    was_long: bool,
    descriptors: Option<Descriptors>,
    borrower: Option<Borrower>,
    seal: Option<Box<Seal>>,
    library: Option<PeerLibrary>,
    /// The epoch that was sent to the peer last.
    sent_epoch: Turn,
    /// The other end or the network has broken the connection: the end that a read finds then is none. One that breaks behind the other's end
    /// fails with [`Errno::PIPE`] instead (`tcp_reset` in Linux): all that was sent before that end has come.
    is_reset: bool,
    /// The program does not poll it itself.
    is_hidden: bool,
    /// How many messages this task had sent when it was last used.
    used_at: u64,
}

/// The library of a task on another host, if it is this version of this system's.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerLibrary {
    /// Its host has the same data signature: numbers have the same form there.
    pub(super) same_signature: bool,
}

/// Descriptors that come with messages.
#[derive(Debug)]
struct Descriptors {
    space: Vec<u8>,
    /// The descriptors of each message that has some, in their order.
    taken: VecDeque<Vec<OwnedFd>>,
}

/// A fragment that was received in part.
#[derive(Debug, Clone, Copy)]
struct OpenFragment {
    header: FragmentHeader,
    left: usize,
    begun: bool,
}

/// The result of a read.
#[derive(Debug)]
pub(super) enum Arrival {
    /// This many bytes; the messages that they complete are in the given list.
    Some(usize),
    /// Nothing for now.
    None,
    /// The other end has closed, and all that it has sent has come.
    Closed,
    /// The connection is broken: what the other has sent last may be lost.
    Broken,
}

/// What a route is after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// More may come.
    Open,
    /// All that the other end has sent has come.
    Ended,
    /// As [`Arrival::Broken`].
    Broken,
}

impl Route {
    /// A route to the daemon over a connected socket that is in non-blocking mode, for messages of up to `limit`
    /// bytes.
    pub(super) fn new(socket: OwnedFd, limit: usize) -> Self {
        Self {
            socket: Arc::new(socket),
            peer: None,
            unread: Vec::new(),
            fragment: None,
            reassembler: Reassembler::new(limit.min(MESSAGE_MAX)),
            partial: 0,
            was_long: false,
            descriptors: None,
            borrower: None,
            seal: None,
            library: None,
            sent_epoch: Turn::default(),
            is_reset: false,
            is_hidden: false,
            used_at: 0,
        }
    }

    /// Sends bytes with descriptors, and takes descriptors from now on; `false` if the socket takes nothing now.
    pub(super) fn send_descriptors(&mut self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<bool> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(descriptors));
        let sent = sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
        match sent {
            Ok(count) if count == bytes.len() => {}
            Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
            _ => return Err(Error::lost()),
        }
        self.expect_descriptors();
        Ok(true)
    }

    /// Takes descriptors from now on.
    pub(super) fn expect_descriptors(&mut self) {
        self.descriptors
            .get_or_insert_with(|| Descriptors { space: vec![0; PIECE_MAX], taken: VecDeque::new() });
    }

    /// The descriptors of the next message that had some; none if there was no room for them in this process.
    pub(super) fn take_descriptors(&mut self) -> Option<Vec<OwnedFd>> {
        self.descriptors.as_mut()?.taken.pop_front()
    }

    /// The daemon may lend bodies that lie in this memory.
    pub(super) fn set_borrower(&mut self, borrower: Borrower) {
        self.borrower = Some(borrower);
    }

    /// A route to another task, the only sender on it; sealed if the two have agreed on that.
    pub(super) fn direct(socket: OwnedFd, limit: usize, peer: Tid, seal: Option<Seal>) -> Self {
        Self { peer: Some(peer), seal: seal.map(Box::new), ..Self::new(socket, limit) }
    }

    /// The same, to a task with this library or `None`.
    pub(super) fn with_library(self, library: Option<PeerLibrary>) -> Self {
        Self { library, ..self }
    }

    /// Whether both ends mark on it what they send by the daemon.
    pub(super) fn is_marked(&self) -> bool {
        self.library.is_some()
    }

    /// Whether the program does not poll it itself.
    pub(super) fn is_hidden(&self) -> bool {
        self.is_hidden
    }

    /// Sets that.
    pub(super) fn hide(&mut self, is_hidden: bool) {
        self.is_hidden = is_hidden;
    }

    /// How many messages this task had sent when the route was last used.
    pub(super) fn used_at(&self) -> u64 {
        self.used_at
    }

    /// It is used, and this task has sent this number of messages.
    pub(super) fn note_use(&mut self, sent: u64) {
        self.used_at = sent;
    }

    /// Whether the peer reads packed numbers without conversion.
    pub(super) fn has_same_signature(&self) -> bool {
        self.library.is_some_and(|library| library.same_signature)
    }

    /// Largest fragment, if the program has not chosen a size.
    pub(super) fn fragment_max(&self) -> Option<usize> {
        self.library.map(|_| FRAGMENT_MAX)
    }

    /// Whether this epoch has to be sent to the peer; from then on it counts as sent.
    pub(super) fn must_send_epoch(&mut self, epoch: Turn) -> bool {
        self.library.is_some() && std::mem::replace(&mut self.sent_epoch, epoch) != epoch
    }

    /// The socket.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The socket, for use without the engine.
    pub(super) fn socket(&self) -> Arc<OwnedFd> {
        self.socket.clone()
    }

    /// The messages of which a part has come.
    pub(super) fn begun(&self) -> Vec<Message> {
        self.reassembler.begun()
    }

    /// Goes on with a message of which another process of this task has got a part.
    pub(super) fn resume(&mut self, begun: &Message) -> Result<()> {
        self.reassembler.resume(begun).map_err(|error| refusal(begun.src, &error))
    }

    /// Whether all fragments that have begun have come whole.
    pub(super) fn is_between_fragments(&self) -> bool {
        self.fragment.is_none() && self.unread.is_empty()
    }

    /// Bytes of a message that is not complete.
    pub(super) fn partial(&self) -> usize {
        self.partial
    }

    /// Bytes that can be read now.
    pub(super) fn readable(&self) -> usize {
        rustix::io::ioctl_fionread(&self.socket)
            .map_or(0, |count| usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Sends a sign of life where nothing else is sent for long, as firewalls forget connections that are silent.
    pub(super) fn keep_alive(&self) {
        use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle};
        // Without it the route works, too.
        let _ = set_tcp_keepidle(&self.socket, KEEP_ALIVE)
            .and_then(|()| set_socket_keepalive(&self.socket, true));
    }

    /// Shuts down the sending direction; messages that were sent still arrive.
    pub(super) fn end(&self) {
        // The other end may have closed first, which is no error.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write);
    }

    /// Reads once, without blocking, and appends the messages that are complete now.
    pub(super) fn read(&mut self, messages: &mut impl Extend<Message>) -> Result<Arrival> {
        let read = if let Some(descriptors) = &mut self.descriptors {
            descriptors.read(&self.socket, &mut self.unread)
        } else if let Some(open) = self.long_rest() {
            self.read_rest(open, messages)?
        } else {
            self.read_ahead()
        };
        match read {
            Ok(0) | Err(Errno::PIPE) if !self.is_reset => Ok(Arrival::Closed),
            Ok(0) | Err(Errno::CONNRESET | Errno::PIPE) => {
                self.is_reset = true;
                Ok(Arrival::Broken)
            }
            Ok(count) => {
                self.take_fragments(messages)?;
                Ok(Arrival::Some(count))
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(Arrival::None),
            Err(error) => Err(Error::system(PvmError::SysErr, "reading messages", error)),
        }
    }

    /// Reads the next bytes, whatever they are.
    fn read_ahead(&mut self) -> rustix::io::Result<usize> {
        let is_sealed = self.seal.is_some();
        let is_long = self.peer.is_some() && self.was_long && !is_sealed;
        let ahead = if is_sealed {
            seal::AHEAD
        } else if is_long {
            ROUTE_LONG
        } else {
            AHEAD
        };
        if is_long && self.unread.is_empty() && self.unread.capacity() > ahead {
            self.unread = Vec::new();
        }
        self.unread.reserve(ahead);
        match &mut self.seal {
            Some(seal) => seal.read(&self.socket, &mut self.unread),
            None => rustix::io::read(&self.socket, spare_capacity(&mut self.unread)),
        }
    }

    /// Whether more of a long message is to come on a direct route.
    pub(super) fn is_amid_long(&self) -> bool {
        self.peer.is_some() && self.fragment.is_some_and(|open| open.left >= ROUTE_LONG)
    }

    /// The long fragment that is being received on a direct route, if everything that was read is taken. What is sealed is opened in
    /// memory that stays in the caches, and copied from there.
    fn long_rest(&mut self) -> Option<OpenFragment> {
        let is_direct = self.peer.is_some() && self.seal.is_none();
        let open = self.fragment.filter(|open| open.begun && is_direct && self.unread.is_empty());
        open.filter(|open| open.left >= ROUTE_LONG)
    }

    /// Reads once to where a fragment's rest stays. What comes behind it is left unread.
    fn read_rest(
        &mut self,
        mut open: OpenFragment,
        messages: &mut impl Extend<Message>,
    ) -> Result<rustix::io::Result<usize>> {
        self.check_sender(open.header.src)?;
        let refused = |error| refusal(open.header.src, &error);
        let Some(body) = self.reassembler.body_for(open.header.src, open.left).map_err(refused)? else {
            return Ok(self.read_ahead());
        };
        let before = body.len();
        make_room(body, open.left)?;
        let read = rustix::io::read(&self.socket, spare_capacity(body));
        let Ok(count) = read else { return Ok(read) };
        let length = count.min(open.left);
        append(&body[before + length..], &mut self.unread);
        body.truncate(before + length);
        open.left -= length;
        self.fragment = Some(open).filter(|open| open.left > 0);
        let flags = open.header.flags & !SOM & if open.left > 0 { !EOM } else { !0 };
        let header = FragmentHeader { length: 0, flags, ..open.header };
        self.count(&header, length);
        self.take_piece(&header, Bytes::new(), messages)?;
        Ok(read)
    }

    fn take_fragments(&mut self, messages: &mut impl Extend<Message>) -> Result<()> {
        let mut used = 0;
        while let Some((header, length)) = next_piece(&mut self.fragment, &self.unread, &mut used) {
            let piece = used..used + length;
            used += length;
            self.check_sender(header.src)?;
            self.count(&header, length);
            if self.peer.is_some() && self.append_piece(&header, piece.clone())? {
                self.take_piece(&FragmentHeader { length: 0, ..header }, Bytes::new(), messages)?;
            } else {
                self.take_piece(&header, Bytes::from(copied(&self.unread[piece])), messages)?;
            }
        }
        self.unread.drain(..used);
        self.was_long =
            self.fragment.is_some_and(|open| open.left >= ROUTE_LONG) || self.was_long && used < ROUTE_LONG;
        Ok(())
    }

    /// Appends a piece that is not the first of its message to the body, without a copy in between; `false` if there is no such body.
    fn append_piece(&mut self, header: &FragmentHeader, piece: Range<usize>) -> Result<bool> {
        if header.is_first() {
            return Ok(false);
        }
        let more = piece.len() + self.fragment.map_or(0, |open| open.left);
        let refused = |error| refusal(header.src, &error);
        let Some(body) = self.reassembler.body_for(header.src, more).map_err(refused)? else {
            return Ok(false);
        };
        make_room(body, more)?;
        append(&self.unread[piece], body);
        Ok(true)
    }

    fn take_piece(
        &mut self,
        header: &FragmentHeader,
        piece: Bytes,
        messages: &mut impl Extend<Message>,
    ) -> Result<()> {
        if header.flags & LENT != 0 {
            messages.extend([self.take_lent(header, &piece)?]);
            return Ok(());
        }
        let assembled = self.reassembler.push(header, piece).map_err(|error| refusal(header.src, &error))?;
        if let Assembled::Whole(message) = assembled {
            messages.extend([message]);
        }
        Ok(())
    }

    /// A whole message whose body lies in the daemon's memory.
    fn take_lent(&self, header: &FragmentHeader, piece: &[u8]) -> Result<Message> {
        let wrong = || Error::new(PvmError::BadMsg, "the daemon lends what it has not");
        let (borrower, lent) = self.borrower.as_ref().zip(Lent::decode(header, piece)).ok_or_else(wrong)?;
        let message_header = MessageHeader::decode(piece.first_chunk().ok_or_else(wrong)?);
        self.reassembler.check(lent.length as usize).map_err(|error| refusal(header.src, &error))?;
        let body = borrower.take(lent).ok_or_else(wrong)?;
        Ok(Message { src: header.src, dst: header.dst, header: message_header, body })
    }

    /// The daemon authenticates senders; a task can send only its own messages.
    fn check_sender(&self, src: Tid) -> Result<()> {
        match self.peer {
            Some(peer) if peer != src => {
                Err(Error::new(PvmError::BadParam, format!("{peer} sends in the name of {src}")))
            }
            _ => Ok(()),
        }
    }

    /// Counts the bytes of incomplete messages of the route's one sender; the daemon forwards those of several.
    fn count(&mut self, header: &FragmentHeader, length: usize) {
        if self.peer.is_some() {
            let before = if header.is_first() { 0 } else { self.partial };
            self.partial = if header.is_last() { 0 } else { before + length };
        }
    }
}

/// Makes room for more of a body, as it comes: at most twice the bytes that were received, or few. A length field alone allocates no more.
fn make_room(body: &mut Vec<u8>, more: usize) -> Result<()> {
    if body.capacity() - body.len() < more.min(ROUTE_LONG) + BEHIND {
        let room = more.min(ROUTE_ROOM.max(body.len()));
        body.try_reserve_exact(room + BEHIND).map_err(|_| Error::from(PvmError::NoMem))?;
    }
    Ok(())
}

fn refusal(src: Tid, error: &FragmentError) -> Error {
    Error::new(PvmError::NoMem, format!("a message from {src} is refused: {error}"))
}

impl Descriptors {
    /// Reads once; the system stops behind a message that has descriptors.
    fn read(&mut self, socket: &OwnedFd, unread: &mut Vec<u8>) -> rustix::io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let slices = &mut [IoSliceMut::new(&mut self.space)];
        let received = recvmsg(socket, slices, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        let rights = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        let taken: Vec<OwnedFd> = rights.flatten().collect();
        if !taken.is_empty() || received.flags.contains(ReturnFlags::CTRUNC) {
            self.taken.push_back(taken);
        }
        append(&self.space[..received.bytes], unread);
        Ok(received.bytes)
    }
}

/// The next piece of a fragment that has come: what to call it, and its length from `used` on. Long fragments are
/// taken in pieces as they arrive, so that no length field asks for memory.
fn next_piece(
    fragment: &mut Option<OpenFragment>,
    unread: &[u8],
    used: &mut usize,
) -> Option<(FragmentHeader, usize)> {
    let open = if let Some(open) = fragment {
        open
    } else {
        let bytes = unread[*used..].first_chunk::<{ FragmentHeader::SIZE }>()?;
        let header = FragmentHeader::decode(bytes);
        *used += FragmentHeader::SIZE;
        fragment.insert(OpenFragment { header, left: header.length as usize, begun: false })
    };
    let there = unread.len() - *used;
    let length = open.left.min(there);
    // The reassembler wants the whole message header with the first piece.
    let least = if open.header.flags & LENT == 0 { 0 } else { Lent::SIZE };
    let enough = if open.begun { 1 } else { MessageHeader::SIZE + least };
    if there < enough.min(open.left) {
        return None;
    }
    let mut header = FragmentHeader { length: length as u32, ..open.header };
    if open.begun {
        header.flags &= !SOM;
    }
    open.begun = true;
    open.left -= length;
    if open.left > 0 {
        header.flags &= !EOM;
    } else {
        *fragment = None;
    }
    Some((header, length))
}

/// A message on its way out: which bytes follow next, without a copy of the body.
#[derive(Debug)]
pub(super) struct Outgoing<'a> {
    pieces: Vec<&'a [u8]>,
    src: Tid,
    dst: Tid,
    header: MessageHeader,
    next: usize,
    heads: Vec<[u8; FRAGMENT_OVERHEAD]>,
    batch_end: usize,
    sent: usize,
    flags: u8,
}

impl<'a> Outgoing<'a> {
    /// A message of one contiguous body, cut at `fragment_size`, or of several parts, each a fragment of its own.
    pub(super) fn new(
        src: Tid,
        dst: Tid,
        header: MessageHeader,
        parts: &[&'a [u8]],
        fragment_size: usize,
    ) -> Result<Self> {
        let capacity = fragment_size.saturating_sub(FRAGMENT_OVERHEAD).max(1);
        let pieces = match parts {
            [] => vec![&[][..]],
            [body] if body.is_empty() => vec![*body],
            [body] => body.chunks(capacity).collect(),
            parts => parts.to_vec(),
        };
        let longest = u32::MAX as usize - MessageHeader::SIZE;
        if pieces.iter().any(|piece| piece.len() > longest) {
            return Err(Error::new(
                PvmError::NoMem,
                "one pack call gave more than 4 GiB, which no fragment can carry",
            ));
        }
        Ok(Self { pieces, src, dst, header, next: 0, heads: Vec::new(), batch_end: 0, sent: 0, flags: 0 })
    }

    /// Its body is the place of the lent body.
    pub(super) fn lent(self) -> Self {
        Self { flags: LENT, ..self }
    }

    /// Whether the kernel has taken every byte.
    pub(super) fn is_done(&self) -> bool {
        self.next == self.pieces.len()
    }

    /// Writes what the socket takes; `false` when it takes nothing now.
    pub(super) fn write(&mut self, route: &mut Route) -> Result<bool> {
        if self.next == self.batch_end {
            self.fill_batch();
        }
        let mut slices = Vec::with_capacity(2 * self.heads.len());
        for (head, (index, piece)) in self.heads.iter().zip(self.pieces.iter().enumerate().skip(self.next)) {
            slices.push(IoSlice::new(&head[..head_length(index)]));
            slices.push(IoSlice::new(piece));
        }
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        let mut rest = &mut slices[..];
        IoSlice::advance_slices(&mut rest, self.sent);
        let written = match &mut route.seal {
            None => sendmsg(&route.socket, rest, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL),
            Some(seal) => seal.write(&route.socket, rest),
        };
        match written {
            Ok(count) => {
                self.sent += count;
                if self.sent == total && route.seal.as_ref().is_none_or(|seal| seal.is_flushed()) {
                    self.next = self.batch_end;
                }
                Ok(true)
            }
            Err(Errno::AGAIN) => Ok(false),
            Err(Errno::INTR) => Ok(true),
            Err(Errno::PIPE) => Err(Error::lost()),
            Err(error) => {
                route.is_reset = true;
                Err(match error {
                    Errno::CONNRESET | Errno::NOTCONN => Error::lost(),
                    error => Error::system(PvmError::SysErr, "sending a message", error),
                })
            }
        }
    }

    fn fill_batch(&mut self) {
        self.sent = 0;
        self.batch_end = (self.next + ROUTE_BATCH).min(self.pieces.len());
        self.heads = (self.next..self.batch_end).map(|index| self.head(index)).collect();
    }

    fn head(&self, index: usize) -> [u8; FRAGMENT_OVERHEAD] {
        let first = index == 0;
        let last = index + 1 == self.pieces.len();
        let length = self.pieces[index].len() + head_length(index) - FragmentHeader::SIZE;
        let flags = self.flags | if first { SOM } else { 0 } | if last { EOM } else { 0 };
        let header = FragmentHeader { dst: self.dst, src: self.src, length: length as u32, flags };
        let mut out = [0; FRAGMENT_OVERHEAD];
        out[..FragmentHeader::SIZE].copy_from_slice(&header.encode());
        if first {
            out[FragmentHeader::SIZE..].copy_from_slice(&self.header.encode());
        }
        out
    }
}

fn head_length(index: usize) -> usize {
    if index == 0 { FRAGMENT_OVERHEAD } else { FragmentHeader::SIZE }
}

#[cfg(test)]
#[path = "route_tests.rs"]
mod tests;
