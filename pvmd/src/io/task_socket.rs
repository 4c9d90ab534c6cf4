//! The socket on which tasks connect, and one reader and one writer per connection.

use crate::io::descriptors::{self, Connection, Shared};
use crate::io::driver::Input;
use crate::io::loan_pool::{Lender, LoanPool};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use pvm_shm::{Body, Loan, Mapping, ledger};
use pvm_wire::copy::append;
use pvm_wire::group::{Key, Passed};
use pvm_wire::header::{EOM, LENT, SOM};
use pvm_wire::limits::{PIECE_MAX, UNENROLLED_FRAGMENT_MAX};
use pvm_wire::tuned::TASK_WRITE_BATCH;
use pvm_wire::{FragmentHeader, Lent, MessageHeader};
use pvmd_core::event::{ConnId, Event};
use std::cell::OnceCell;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tracing::warn;

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
    connection: Arc<Connection>,
    conn: ConnId,
    input: mpsc::Sender<Input>,
    /// From when on something had to be queued: many short tasks are sent nothing at all.
    writer: OnceCell<Writer>,
    reading: watch::Sender<Reading>,
    reader: AbortHandle,
    shared: Option<Shared>,
}

/// What writes what could not be written at once.
#[derive(Debug)]
struct Writer {
    queue: mpsc::UnboundedSender<Queued>,
    /// Fragments that it has not written yet.
    behind: Arc<AtomicUsize>,
    task: AbortHandle,
}

/// A fragment on its way to a task, and descriptors that go with it.
#[derive(Debug)]
struct Outgoing {
    header: FragmentHeader,
    data: Bytes,
    descriptors: Option<Shared>,
    /// Bytes that have been written.
    done: usize,
}

/// What a writer is told by the driver.
#[derive(Debug)]
enum Queued {
    Fragment(Outgoing),
    /// From now on the task reads long bodies there.
    Lend(LoanPool),
}

impl Outgoing {
    fn new(header: FragmentHeader, data: Bytes) -> Self {
        Self { header, data, descriptors: None, done: 0 }
    }
}

impl TaskHandle {
    /// Writes a short message if nothing is queued and there is room; whether it did. Else it is queued, as parts of messages
    /// are, which may be lent.
    pub fn send_now(&self, header: FragmentHeader, data: Bytes) -> bool {
        let mut done = 0;
        let is_short = data.len() < Lent::LEAST && header.flags & (SOM | EOM) == SOM | EOM;
        if is_short && !self.is_behind() {
            let head = header.encode();
            let slices = [&head[..], &data].map(IoSlice::new);
            // Of errors the writer tells.
            done = descriptors::write(self.connection.get_ref(), &slices, &[]).unwrap_or(0);
            if done == FragmentHeader::SIZE + data.len() {
                return true;
            }
        }
        self.push(Queued::Fragment(Outgoing { done, ..Outgoing::new(header, data) }));
        false
    }

    /// Queues a fragment, to be written with others. The queue is bounded by the core, which stops those who fill it.
    pub fn send(&self, header: FragmentHeader, data: Bytes) {
        self.send_with(header, data, None);
    }

    /// Queues a fragment and descriptors.
    pub fn send_with(&self, header: FragmentHeader, data: Bytes, descriptors: Option<Shared>) {
        self.push(Queued::Fragment(Outgoing { descriptors, ..Outgoing::new(header, data) }));
    }

    fn is_behind(&self) -> bool {
        self.writer.get().is_some_and(|writer| writer.behind.load(Ordering::Acquire) > 0)
    }

    fn push(&self, queued: Queued) {
        let writer = self.writer.get_or_init(|| self.start_writer());
        writer.behind.fetch_add(1, Ordering::Release);
        // A writer that is gone has reported the end of the connection.
        let _ = writer.queue.send(queued);
    }

    fn start_writer(&self) -> Writer {
        let behind = Arc::new(AtomicUsize::new(0));
        let (queue, queued) = mpsc::unbounded_channel();
        let work = write(self.connection.clone(), self.conn, (queued, behind.clone()), self.input.clone());
        Writer { queue, behind, task: tokio::spawn(work).abort_handle() }
    }

    /// Lets the task lend what it sends from the memory that it shares; `false` if that cannot be read.
    pub fn borrow(&self) -> bool {
        let Some(segment) = self.shared.as_ref().and_then(|shared| shared.first()) else { return false };
        let Ok(memory) = Mapping::new(segment.as_fd()) else { return false };
        self.reading.send_modify(|reading| reading.memory = Some(Arc::new(memory)));
        true
    }

    /// Lets the task pass no more barriers in views of this group from before this epoch; how many it has passed.
    pub fn close_ledger(&self, group: Key, epoch: i32) -> Option<Passed> {
        ledger::close(&self.head()?, group, epoch)
    }

    /// How many barriers the task has passed in each of its groups.
    pub fn passed(&self) -> Vec<Passed> {
        let head = self.head();
        head.iter().flat_map(ledger::all).map(|(passed, _)| passed).collect()
    }

    /// The beginning of what it shares.
    fn head(&self) -> Option<Mapping> {
        let mapped = Mapping::of_head(self.shared.as_ref()?.first()?.as_fd());
        mapped.inspect_err(|error| warn!(conn = self.conn.0, %error, "a task's barriers cannot be read")).ok()
    }

    /// Lends it long bodies from now on.
    pub fn lend(&self, loan_pool: LoanPool) {
        self.push(Queued::Lend(loan_pool));
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
        // A writer ends when the queue does, which is now or when all is written.
        if self.is_behind()
            && let Some(Writer { task, .. }) = self.writer.into_inner()
        {
            tokio::spawn(async move {
                tokio::time::sleep(LINGER).await;
                task.abort();
            });
        }
    }
}

/// Numbers of connections, each given once.
#[derive(Clone, Debug, Default)]
pub struct Numbers(Arc<AtomicU64>);

impl Numbers {
    fn next(&self) -> ConnId {
        ConnId(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// Takes a connection in, or the channel that a process of this daemon's has inherited.
pub fn adopt(
    channel: UnixStream,
    numbers: &Numbers,
    input: &mpsc::Sender<Input>,
) -> io::Result<(ConnId, TaskHandle)> {
    let (connection, conn) = (descriptors::connection(channel)?, numbers.next());
    Ok((conn, serve(connection, conn, input)))
}

/// Accepts connections for ever; those of other users are refused.
pub async fn accept(listener: UnixListener, numbers: Numbers, input: mpsc::Sender<Input>) {
    let own = rustix::process::geteuid().as_raw();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => match stream.peer_cred() {
                Ok(peer) if peer.uid() == own => {
                    match stream.into_std().and_then(|stream| adopt(stream, &numbers, &input)) {
                        Err(error) => warn!(%error, "a task's connection cannot be waited for"),
                        Ok((conn, handle)) => {
                            if input.send(Input::Task(conn, handle)).await.is_err() {
                                return;
                            }
                        }
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

fn serve(connection: Connection, conn: ConnId, input: &mpsc::Sender<Input>) -> TaskHandle {
    let connection = Arc::new(connection);
    // What is read before the core knows of the connection would be nobody's.
    let (reading, told) = watch::channel(Reading { paused: true, ..Reading::default() });
    let reader = tokio::spawn(read(connection.clone(), conn, told, input.clone())).abort_handle();
    TaskHandle {
        connection,
        conn,
        input: input.clone(),
        writer: OnceCell::new(),
        reading,
        reader,
        shared: None,
    }
}

/// Reads until the end, and reports it.
async fn read(
    connection: Arc<Connection>,
    conn: ConnId,
    told: watch::Receiver<Reading>,
    input: mpsc::Sender<Input>,
) {
    let reason = match read_all(&connection, conn, told, &input).await {
        Ok(()) => None,
        Err(error) => Some(error.to_string()),
    };
    let _ = input.send(Event::TaskClosed { conn, reason }.into()).await;
}

async fn read_all(
    connection: &Connection,
    conn: ConnId,
    mut told: watch::Receiver<Reading>,
    input: &mpsc::Sender<Input>,
) -> io::Result<()> {
    let mut buffer = BytesMut::new();
    let mut cutter = Cutter::default();
    loop {
        if !may_read(connection, &mut told).await {
            return Ok(());
        }
        let next = cutter.next(&mut buffer, &told.borrow())?;
        if let Some((header, data)) = next {
            if input.send(Event::Fragment { conn, header, data }.into()).await.is_err() {
                return Ok(());
            }
            continue;
        }
        let (count, descriptors) = match descriptors::read(connection, &mut buffer).await {
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
async fn may_read(connection: &Connection, told: &mut watch::Receiver<Reading>) -> bool {
    // As it nearly always is.
    if !told.borrow().paused {
        return true;
    }
    loop {
        tokio::select! {
            told = told.wait_for(|reading| !reading.paused) => return told.is_ok(),
            () = tokio::time::sleep(HANG_UP_LOOK) => {}
        }
        let hung_up = tokio::select! {
            biased;
            ready = connection.ready(Interest::READABLE) => ready.is_ok_and(|guard| guard.ready().is_read_closed()),
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
        let loan = lent.and_then(|(lent, memory)| Some((Loan::new(&**memory, lent).ok()?, memory)));
        let Some((loan, memory)) = loan else {
            return Err(invalid("what it lends is nowhere".to_owned()));
        };
        let length = loan.length();
        let body = Body::new(memory.clone(), loan, Arc::<AtomicUsize>::default());
        let head = data.slice(..MessageHeader::SIZE);
        let whole = MessageHeader::SIZE + length;
        if whole <= PIECE_MAX {
            let header = FragmentHeader { flags: SOM | EOM, length: whole as u32, ..header };
            let mut message = BytesMut::with_capacity(whole);
            message.put_slice(&head);
            append(body.as_ref(), &mut message);
            return Ok((header, message.freeze()));
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
    connection: Arc<Connection>,
    conn: ConnId,
    (mut queue, behind): (mpsc::UnboundedReceiver<Queued>, Arc<AtomicUsize>),
    input: mpsc::Sender<Input>,
) {
    // Most connections never have many fragments waiting.
    let (mut queued, mut batch) = (Vec::new(), Vec::new());
    let mut lender = None;
    while queue.recv_many(&mut queued, TASK_WRITE_BATCH).await > 0 {
        let count = queued.len();
        let bytes = queued.drain(..).map(|queued| take_queued(queued, &mut lender, &mut batch)).sum();
        // A connection that cannot be written to is closed by its reader's report.
        if write_batch(&connection, &batch).await.is_err() {
            return;
        }
        behind.fetch_sub(count, Ordering::Release);
        batch.clear();
        if input.send(Event::TaskDrained { conn, bytes }.into()).await.is_err() {
            return;
        }
    }
    let _ = connection.get_ref().shutdown(Shutdown::Write);
}

/// Takes what was queued to where it is to be written, or lent; how many bytes that were.
fn take_queued(queued: Queued, lender: &mut Option<Lender>, batch: &mut Vec<Outgoing>) -> usize {
    let outgoing = match queued {
        Queued::Fragment(outgoing) => outgoing,
        Queued::Lend(loan_pool) => {
            *lender = Some(Lender::new(loan_pool));
            return 0;
        }
    };
    let bytes = FragmentHeader::SIZE + outgoing.data.len();
    match lender {
        Some(lender) if outgoing.descriptors.is_none() && outgoing.done == 0 => {
            lender.take(outgoing.header, outgoing.data, &mut |header, data| {
                batch.push(Outgoing::new(header, data));
            });
        }
        _ => batch.push(outgoing),
    }
    bytes
}

/// A fragment with descriptors begins a system call of its own, by which its receiver knows whose they are.
async fn write_batch(connection: &Connection, batch: &[Outgoing]) -> io::Result<()> {
    for part in batch.chunk_by(|_, outgoing| outgoing.descriptors.is_none()) {
        write_part(connection, part).await?;
    }
    Ok(())
}

async fn write_part(connection: &Connection, part: &[Outgoing]) -> io::Result<()> {
    let headers: Vec<[u8; FragmentHeader::SIZE]> =
        part.iter().map(|outgoing| outgoing.header.encode()).collect();
    let mut slices: Vec<IoSlice<'_>> = headers
        .iter()
        .zip(part)
        .flat_map(|(header, outgoing)| [IoSlice::new(header), IoSlice::new(&outgoing.data)])
        .filter(|slice| !slice.is_empty())
        .collect();
    let mut rest = &mut slices[..];
    IoSlice::advance_slices(&mut rest, part.first().map_or(0, |outgoing| outgoing.done));
    let mut descriptors =
        part.first().and_then(|outgoing| outgoing.descriptors.as_deref()).unwrap_or_default();
    while !rest.is_empty() {
        let now = if descriptors.is_empty() { &*rest } else { &rest[..1] };
        match descriptors::write(connection.get_ref(), now, descriptors) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                descriptors = &[];
                IoSlice::advance_slices(&mut rest, written);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                descriptors::room(connection.get_ref()).await;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "task_socket_tests.rs"]
mod tests;
