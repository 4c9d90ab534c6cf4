//! The socket on which tasks connect, and one reader and one writer per connection.

use crate::core::event::{ConnId, Event};
use crate::io::descriptors::{self, Shared};
use crate::io::driver::Input;
use crate::io::shelf::{Lender, Shelf};
use bytes::{Buf, Bytes, BytesMut};
use pvm_shm::{Body, Mapping, Memory};
use pvm_wire::header::{EOM, LENT, SOM};
use pvm_wire::limits::{PIECE_MAX, UNENROLLED_FRAGMENT_MAX};
use pvm_wire::{FragmentHeader, Lent, MessageHeader};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tracing::warn;

/// Bytes asked of the system at a time.
const READ_SIZE: usize = 64 * 1024;
/// Fragments written by one system call.
const WRITE_BATCH: usize = 64;
/// How long a connection that is being closed may take to read what was sent before.
const LINGER: Duration = Duration::from_secs(5);

/// How often it is seen whether a task that is not read at the moment has hung up.
const HANG_UP_LOOK: Duration = Duration::from_millis(100);

/// What a reader is told by the driver.
#[derive(Clone, Debug, Default)]
struct Reading {
    paused: bool,
    enrolled: bool,
    /// What it shares, from which it may lend.
    memory: Option<Arc<Mapping>>,
}

/// The driver's end of a connection.
#[derive(Debug)]
pub struct TaskHandle {
    queue: mpsc::UnboundedSender<Queued>,
    reading: watch::Sender<Reading>,
    reader: AbortHandle,
    writer: AbortHandle,
    shared: Option<Shared>,
}

/// A fragment on its way to a task, and descriptors that go with it.
type Outgoing = (FragmentHeader, Bytes, Option<Shared>);

/// What a writer is told by the driver.
#[derive(Debug)]
enum Queued {
    Fragment(Outgoing),
    /// From now on the task reads long bodies there.
    Lend(Shelf),
}

impl TaskHandle {
    /// Queues a fragment. The queue is bounded by the core, which stops those who fill it.
    pub fn send(&self, header: FragmentHeader, data: Bytes) {
        self.send_with(header, data, None);
    }

    /// Queues a fragment and descriptors.
    pub fn send_with(&self, header: FragmentHeader, data: Bytes, descriptors: Option<Shared>) {
        // A writer that is gone has reported the end of the connection.
        let _ = self.queue.send(Queued::Fragment((header, data, descriptors)));
    }

    /// Lets the task lend what it sends from the memory that it shares; `false` if that cannot be read.
    pub fn borrow(&self) -> bool {
        let Some(segment) = self.shared.as_ref().and_then(|shared| shared.first()) else { return false };
        let Ok(memory) = Mapping::new(segment.as_fd()) else { return false };
        self.reading.send_modify(|reading| reading.memory = Some(Arc::new(memory)));
        true
    }

    /// Lends it long bodies from now on.
    pub fn lend(&self, shelf: Shelf) {
        let _ = self.queue.send(Queued::Lend(shelf));
    }

    /// Keeps what the task has sent for its neighbours. It cannot change its mind.
    pub fn share(&mut self, descriptors: Vec<OwnedFd>) {
        self.shared.get_or_insert_with(|| descriptors.into());
    }

    /// What the task has sent for its neighbours.
    pub fn shared(&self) -> Option<Shared> {
        self.shared.clone()
    }

    /// Stops reading, or goes on.
    pub fn pause(&self, paused: bool) {
        self.reading.send_modify(|reading| reading.paused = paused);
    }

    /// Takes fragments of any length from now on.
    pub fn enrolled(&self) {
        self.reading.send_modify(|reading| reading.enrolled = true);
    }

    /// Closes the connection when all that was sent is written, or at last by force.
    pub fn close(self) {
        self.reader.abort();
        let writer = self.writer;
        tokio::spawn(async move {
            tokio::time::sleep(LINGER).await;
            writer.abort();
        });
    }
}

/// Accepts connections for ever; those of other users are refused.
pub async fn accept(listener: UnixListener, input: mpsc::Sender<Input>) {
    let own = rustix::process::geteuid().as_raw();
    let mut count = 0;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => match stream.peer_cred() {
                Ok(peer) if peer.uid() == own => {
                    count += 1;
                    if input.send(serve(stream, ConnId(count), &input)).await.is_err() {
                        return;
                    }
                }
                Ok(peer) => warn!(uid = peer.uid(), "connection of another user refused"),
                Err(error) => warn!(%error, "connection without credentials refused"),
            },
            Err(error) => {
                // Out of descriptors, most likely: those that are open go on, and it may get better.
                warn!(%error, "cannot accept a task's connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

fn serve(stream: UnixStream, conn: ConnId, input: &mpsc::Sender<Input>) -> Input {
    let (read_half, write_half) = stream.into_split();
    let (queue, queued) = mpsc::unbounded_channel();
    let (reading, told) = watch::channel(Reading::default());
    let reader = tokio::spawn(read(read_half, conn, told, input.clone())).abort_handle();
    let writer = tokio::spawn(write(write_half, conn, queued, input.clone())).abort_handle();
    Input::Task(conn, TaskHandle { queue, reading, reader, writer, shared: None })
}

/// Reads until the end, and reports it.
async fn read(half: OwnedReadHalf, conn: ConnId, told: watch::Receiver<Reading>, input: mpsc::Sender<Input>) {
    let reason = match read_all(half, conn, told, &input).await {
        Ok(()) => None,
        Err(error) => Some(error.to_string()),
    };
    let _ = input.send(Event::TaskClosed { conn, reason }.into()).await;
}

async fn read_all(
    half: OwnedReadHalf,
    conn: ConnId,
    mut told: watch::Receiver<Reading>,
    input: &mpsc::Sender<Input>,
) -> io::Result<()> {
    let mut buffer = BytesMut::new();
    let mut cutter = Cutter::default();
    loop {
        if !may_read(&half, &mut told).await {
            return Ok(());
        }
        let next = cutter.next(&mut buffer, &told.borrow())?;
        if let Some((header, data)) = next {
            if input.send(Event::Fragment { conn, header, data }.into()).await.is_err() {
                return Ok(());
            }
            continue;
        }
        let (count, descriptors) = match descriptors::read(half.as_ref(), &mut buffer, READ_SIZE).await {
            // It has left, and had not read all that was sent to it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => (0, Vec::new()),
            read => read?,
        };
        if !descriptors.is_empty() && input.send(Input::Descriptors(conn, descriptors)).await.is_err() {
            return Ok(());
        }
        if count == 0 {
            return if buffer.is_empty() && !cutter.inside() {
                Ok(())
            } else {
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended within a fragment"))
            };
        }
    }
}

/// Waits until the task is to be read; also if it has hung up meanwhile, for its end must be seen. `false` if nobody
/// wants to hear of it any more.
async fn may_read(half: &OwnedReadHalf, told: &mut watch::Receiver<Reading>) -> bool {
    loop {
        tokio::select! {
            told = told.wait_for(|reading| !reading.paused) => return told.is_ok(),
            () = tokio::time::sleep(HANG_UP_LOOK) => {}
        }
        let hung_up = tokio::select! {
            biased;
            ready = half.ready(Interest::READABLE) => ready.is_ok_and(tokio::io::Ready::is_read_closed),
            () = std::future::ready(()) => false,
        };
        if hung_up {
            return true;
        }
    }
}

/// Cuts a stream into fragments, and long fragments into pieces: no length field ever sizes an allocation.
#[derive(Debug, Default)]
struct Cutter {
    /// Header of the long fragment that is being read, its `length` what is still to come.
    rest: Option<FragmentHeader>,
    /// The same of a body that is lent, and what is still to come of it.
    lent: Option<(FragmentHeader, Bytes)>,
}

impl Cutter {
    fn inside(&self) -> bool {
        self.rest.is_some()
    }

    /// The next piece, if enough of it has come.
    fn next(
        &mut self,
        buffer: &mut BytesMut,
        reading: &Reading,
    ) -> io::Result<Option<(FragmentHeader, Bytes)>> {
        if let Some((header, rest)) = self.lent.take() {
            return Ok(Some(self.cut_lent(header, rest)));
        }
        let header = match self.rest {
            Some(header) => header,
            None => match buffer.first_chunk::<{ FragmentHeader::SIZE }>() {
                Some(bytes) => FragmentHeader::decode(bytes),
                None => return Ok(None),
            },
        };
        let length = header.length as usize;
        if self.rest.is_none() && !reading.enrolled && length + FragmentHeader::SIZE > UNENROLLED_FRAGMENT_MAX
        {
            return Err(invalid(format!("fragment of {length} bytes before the enrolment")));
        }
        if self.rest.is_none() {
            if length <= PIECE_MAX {
                if buffer.len() < FragmentHeader::SIZE + length {
                    return Ok(None);
                }
                buffer.advance(FragmentHeader::SIZE);
                let data = buffer.split_to(length).freeze();
                let is_lent = header.flags & LENT != 0;
                return Ok(Some(if is_lent {
                    self.begin_lent(header, &data, reading)?
                } else {
                    (header, data)
                }));
            }
            if header.flags & LENT != 0 {
                return Err(invalid("what it lends is nowhere".to_owned()));
            }
            buffer.advance(FragmentHeader::SIZE);
            self.rest = Some(header);
        }
        Ok(self.piece(header, buffer))
    }

    /// The first piece of a message whose body lies in the task's memory. One that is not long is copied, so that the task has its
    /// memory back.
    fn begin_lent(
        &mut self,
        header: FragmentHeader,
        data: &Bytes,
        reading: &Reading,
    ) -> io::Result<(FragmentHeader, Bytes)> {
        let lent = Lent::decode(&header, data).zip(reading.memory.as_ref());
        let lent =
            lent.filter(|(lent, memory)| memory.has(lent.at, lent.length.into()) && memory.has(lent.flag, 4));
        let Some((lent, memory)) = lent else {
            return Err(invalid("what it lends is nowhere".to_owned()));
        };
        let length = lent.length as usize;
        let body = Body::new(memory.clone(), lent.at, length, lent.flag, Arc::<AtomicUsize>::default());
        let head = data.slice(..MessageHeader::SIZE);
        let whole = MessageHeader::SIZE + length;
        if whole <= PIECE_MAX {
            let header = FragmentHeader { flags: SOM | EOM, length: whole as u32, ..header };
            return Ok((header, [&head[..], body.as_ref()].concat().into()));
        }
        self.lent = Some((FragmentHeader { flags: EOM, ..header }, Bytes::from_owner(body)));
        Ok((FragmentHeader { flags: SOM, length: head.len() as u32, ..header }, head))
    }

    /// The next piece of a lent body.
    fn cut_lent(&mut self, header: FragmentHeader, mut rest: Bytes) -> (FragmentHeader, Bytes) {
        let piece = rest.split_to(rest.len().min(PIECE_MAX));
        let flags = if rest.is_empty() { EOM } else { 0 };
        if !rest.is_empty() {
            self.lent = Some((header, rest));
        }
        (FragmentHeader { flags, length: piece.len() as u32, ..header }, piece)
    }

    /// A piece of a long fragment: as much as is there, but the whole message header in the first.
    fn piece(&mut self, header: FragmentHeader, buffer: &mut BytesMut) -> Option<(FragmentHeader, Bytes)> {
        let rest = header.length as usize;
        let least = if header.flags & SOM == 0 { 1 } else { MessageHeader::SIZE };
        if buffer.len() < least {
            return None;
        }
        let length = rest.min(PIECE_MAX).min(buffer.len());
        let last = length == rest;
        let flags = if last { header.flags } else { header.flags & !EOM };
        let after = FragmentHeader { length: (rest - length) as u32, flags: header.flags & !SOM, ..header };
        self.rest = (!last).then_some(after);
        let piece = FragmentHeader { length: length as u32, flags, ..header };
        Some((piece, buffer.split_to(length).freeze()))
    }
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// Writes what is queued, many fragments per system call, until the queue is closed and empty.
async fn write(
    mut half: OwnedWriteHalf,
    conn: ConnId,
    mut queue: mpsc::UnboundedReceiver<Queued>,
    input: mpsc::Sender<Input>,
) {
    let (mut queued, mut batch) = (Vec::with_capacity(WRITE_BATCH), Vec::with_capacity(WRITE_BATCH));
    let mut lender = None;
    while queue.recv_many(&mut queued, WRITE_BATCH).await > 0 {
        let bytes = queued.drain(..).map(|queued| take_queued(queued, &mut lender, &mut batch)).sum();
        // A connection that cannot be written to is closed by its reader's report.
        if write_batch(&mut half, &batch).await.is_err() {
            return;
        }
        batch.clear();
        if input.send(Event::TaskDrained { conn, bytes }.into()).await.is_err() {
            return;
        }
    }
    let _ = half.shutdown().await;
}

/// Takes what was queued to where it is to be written, or lent; how many bytes that were.
fn take_queued(queued: Queued, lender: &mut Option<Lender>, batch: &mut Vec<Outgoing>) -> usize {
    let (header, data, descriptors) = match queued {
        Queued::Fragment(outgoing) => outgoing,
        Queued::Lend(shelf) => {
            *lender = Some(Lender::new(shelf));
            return 0;
        }
    };
    let bytes = FragmentHeader::SIZE + data.len();
    match lender {
        Some(lender) if descriptors.is_none() => {
            lender.take(header, data, &mut |header, data| batch.push((header, data, None)));
        }
        _ => batch.push((header, data, descriptors)),
    }
    bytes
}

/// A fragment with descriptors begins a system call of its own, by which its receiver knows whose they are.
async fn write_batch(half: &mut OwnedWriteHalf, batch: &[Outgoing]) -> io::Result<()> {
    for part in batch.chunk_by(|_, (_, _, descriptors)| descriptors.is_none()) {
        let mut done = 0;
        if let Some((header, _, Some(descriptors))) = part.first() {
            done = descriptors::write(half.as_ref(), &header.encode(), descriptors).await?;
        }
        write_part(half, part, done).await?;
    }
    Ok(())
}

async fn write_part(half: &mut OwnedWriteHalf, batch: &[Outgoing], done: usize) -> io::Result<()> {
    let headers: Vec<[u8; FragmentHeader::SIZE]> = batch.iter().map(|(header, ..)| header.encode()).collect();
    let mut slices: Vec<IoSlice<'_>> = headers
        .iter()
        .zip(batch)
        .flat_map(|(header, (_, data, _))| [IoSlice::new(header), IoSlice::new(data)])
        .filter(|slice| !slice.is_empty())
        .collect();
    let mut rest = &mut slices[..];
    IoSlice::advance_slices(&mut rest, done);
    while !rest.is_empty() {
        let written = half.write_vectored(rest).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        IoSlice::advance_slices(&mut rest, written);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;
    use pvm_shm::{Outbox, SEGMENT_SIZE};
    use pvm_wire::{Message, Tid};

    fn message(length: usize) -> Message {
        let body: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
        Message { src: Tid::ANY, dst: Tid::from_bits(0x40002), body: body.into(), ..Message::default() }
    }

    fn enrolled() -> Reading {
        Reading { enrolled: true, ..Reading::default() }
    }

    /// Feeds a stream in chunks and puts the pieces together.
    fn cut(stream: &[u8], chunk: usize) -> (Vec<u8>, Vec<FragmentHeader>) {
        let (mut cutter, mut buffer) = (Cutter::default(), BytesMut::new());
        let (mut data, mut headers) = (Vec::new(), Vec::new());
        for part in stream.chunks(chunk) {
            buffer.extend_from_slice(part);
            while let Some((header, piece)) = cutter.next(&mut buffer, &enrolled()).unwrap() {
                assert_eq!(header.length as usize, piece.len());
                assert!(piece.len() <= PIECE_MAX);
                data.extend_from_slice(&piece);
                headers.push(header);
            }
        }
        assert!(buffer.is_empty() && !cutter.inside());
        (data, headers)
    }

    proptest! {
        #[test]
        fn every_byte_comes_through_in_order(length in 0_usize..300_000, fragment in 4080_usize..400_000, chunk in 1_usize..200_000) {
            let message = message(length);
            let (data, headers) = cut(&message.encode(fragment), chunk.max(500));
            prop_assert_eq!(&data[MessageHeader::SIZE..], &message.body[..]);
            prop_assert!(headers.iter().enumerate().all(|(i, h)| (h.flags & SOM != 0) == (i == 0)));
            prop_assert!(headers.iter().rev().enumerate().all(|(i, h)| (h.flags & EOM != 0) == (i == 0)));
        }
    }

    #[test]
    fn a_long_fragment_is_refused_before_the_enrolment() {
        let mut buffer = BytesMut::from(&message(5000).encode(10_000)[..]);
        assert!(Cutter::default().next(&mut buffer, &Reading::default()).is_err());
        let mut buffer = BytesMut::from(&message(100).encode(4080)[..]);
        assert!(Cutter::default().next(&mut buffer, &Reading::default()).unwrap().is_some());
    }

    #[test]
    fn the_first_piece_has_the_whole_message_header() {
        let stream = message(100_000).encode(200_000);
        let (mut cutter, mut buffer) = (Cutter::default(), BytesMut::from(&stream[..20]));
        assert!(cutter.next(&mut buffer, &enrolled()).unwrap().is_none());
        buffer.extend_from_slice(&stream[20..FragmentHeader::SIZE + MessageHeader::SIZE]);
        let (header, data) = cutter.next(&mut buffer, &enrolled()).unwrap().unwrap();
        assert_eq!((header.flags, data.len()), (SOM, MessageHeader::SIZE));
    }

    /// A body of so many bytes in a task's memory, and the fragment that says where.
    fn lent(outbox: &mut Outbox, length: usize) -> (Vec<u8>, Lent, Message) {
        let body: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let parcel = outbox.pack(&[&body]).unwrap();
        let lent = outbox.lend(Tid::MY_DAEMON, &parcel).unwrap();
        (body, lent, Message { body: lent.encode().to_vec().into(), ..message(0) })
    }

    /// Such a message's one fragment.
    fn place(message: &Message) -> Vec<u8> {
        let mut bytes = message.encode(4080);
        bytes[12] |= LENT;
        bytes
    }

    #[test]
    fn a_lent_body_is_read_where_it_lies_and_given_back() {
        let mut outbox = Outbox::new(1 << 24).unwrap();
        let memory = Some(Arc::new(Mapping::new(outbox.segment().fd()).unwrap()));
        let reading = Reading { memory, ..enrolled() };
        for length in [0, 1, PIECE_MAX - MessageHeader::SIZE, PIECE_MAX, 300_000] {
            let (body, lent, message) = lent(&mut outbox, length);
            let mut buffer = BytesMut::from(&[place(&message), self::message(10).encode(4080)].concat()[..]);
            let (mut cutter, mut data, mut flags) = (Cutter::default(), Vec::new(), Vec::new());
            while flags.last().is_none_or(|flags| flags & EOM == 0) {
                let (header, piece) = cutter.next(&mut buffer, &reading).unwrap().unwrap();
                assert_eq!(header.length as usize, piece.len());
                assert!(piece.len() <= PIECE_MAX);
                data.extend_from_slice(&piece);
                flags.push(header.flags);
            }
            assert!(data[MessageHeader::SIZE..] == body, "{length} bytes");
            assert_eq!(flags.iter().filter(|&flags| flags & SOM != 0).count(), 1);
            assert!(flags.iter().all(|flags| flags & LENT == 0));
            assert_eq!(outbox.memory().load(lent.flag), 1, "{length} bytes are not given back");
            assert_eq!(
                cutter.next(&mut buffer, &reading).unwrap().unwrap().1.len(),
                MessageHeader::SIZE + 10
            );
            assert!(!cutter.inside() && buffer.is_empty());
        }
    }

    #[test]
    fn what_is_lent_and_is_nowhere_ends_the_connection() {
        let mut outbox = Outbox::new(1 << 24).unwrap();
        let memory = Some(Arc::new(Mapping::new(outbox.segment().fd()).unwrap()));
        let reading = Reading { memory, ..enrolled() };
        let (_, lent, good) = lent(&mut outbox, 100);
        let wrong = |lent: Lent| Message { body: lent.encode().to_vec().into(), ..message(0) };
        let refused = |bytes: &[u8], reading: &Reading| {
            Cutter::default().next(&mut BytesMut::from(bytes), reading).is_err()
        };
        assert!(refused(&place(&good), &enrolled()), "it shares nothing");
        assert!(refused(&place(&wrong(Lent { at: SEGMENT_SIZE - 50, ..lent })), &reading));
        assert!(refused(&place(&wrong(Lent { flag: u64::MAX, ..lent })), &reading));
        assert!(refused(&place(&message(19)), &reading) && refused(&place(&message(21)), &reading));
        let mut long = place(&message(100_000));
        long[8..12].copy_from_slice(&100_032_u32.to_be_bytes());
        assert!(refused(&long, &reading));
        let mut begun = place(&good);
        begun[12] &= !EOM;
        assert!(refused(&begun, &reading));
    }

    #[tokio::test]
    async fn the_end_of_a_task_that_is_not_read_is_seen() {
        let (task, daemon) = UnixStream::pair().unwrap();
        let (input, mut inputs) = mpsc::channel(16);
        let Input::Task(conn, handle) = serve(daemon, ConnId(3), &input) else { panic!("not a task") };
        handle.pause(true);
        task.try_write(&message(10).encode(4080)).unwrap();
        tokio::time::sleep(HANG_UP_LOOK * 2).await;
        assert!(inputs.try_recv().is_err(), "it is not read");
        drop(task);
        let mut closed = false;
        while !closed {
            let said =
                tokio::time::timeout(HANG_UP_LOOK * 100, inputs.recv()).await.expect("news").expect("news");
            closed = matches!(said, Input::Event(Event::TaskClosed { conn: c, .. }) if c == conn);
        }
    }
}
