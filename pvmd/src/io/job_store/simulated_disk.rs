//! A disk in memory. What was not synced may be lost with the power, and it can be full.

use redb::StorageBackend;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// What a disk writes as a whole.
const SECTOR: usize = 512;

/// What was done to the disk, in this order, and what a test notes between.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    Write(u64, Arc<[u8]>),
    SetLength(u64),
    Sync,
    Note(&'static str),
}

/// What may be lost when the power is cut.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lost {
    /// Nothing.
    None,
    /// All since the last sync.
    Unsynced,
    /// Of what was written since the last sync, sectors by lot.
    Some(u64),
}

/// Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    operations: Vec<Operation>,
    /// Operations that still succeed.
    room: Option<usize>,
}

impl Disk {
    pub fn of(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(State { bytes, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.state().bytes.clone()
    }

    pub fn operations(&self) -> Vec<Operation> {
        self.state().operations.clone()
    }

    pub fn note(&self, what: &'static str) {
        self.state().operations.push(Operation::Note(what));
    }

    /// After this number of operations all fail, until there is room again.
    pub fn set_room(&self, operations: Option<usize>) {
        self.state().room = operations;
    }

    fn perform(&self, operation: Operation) -> io::Result<()> {
        let mut state = self.state();
        match &mut state.room {
            Some(0) => return Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            Some(room) => *room -= 1,
            None => {}
        }
        apply(&mut state.bytes, &operation);
        state.operations.push(operation);
        Ok(())
    }
}

fn apply(bytes: &mut Vec<u8>, operation: &Operation) {
    match operation {
        Operation::Write(offset, data) => {
            let offset = usize::try_from(*offset).unwrap();
            bytes.resize(bytes.len().max(offset + data.len()), 0);
            bytes[offset..offset + data.len()].copy_from_slice(data);
        }
        Operation::SetLength(length) => bytes.resize(usize::try_from(*length).unwrap(), 0),
        Operation::Sync | Operation::Note(_) => {}
    }
}

/// What is on the disk when the power is cut after these operations.
pub(super) fn after_cut(start: &[u8], operations: &[Operation], lost: Lost) -> Vec<u8> {
    let synced = operations.iter().rposition(|operation| matches!(operation, Operation::Sync)).unwrap_or(0);
    let mut bytes = start.to_vec();
    let (safe, uncertain) = operations.split_at(synced);
    for operation in safe {
        apply(&mut bytes, operation);
    }
    let mut lot = match lost {
        Lost::None => Lot(0),
        Lost::Unsynced => return bytes,
        Lost::Some(seed) => Lot(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
    };
    let mut keeps = || matches!(lost, Lost::None) || lot.next();
    for operation in uncertain {
        match operation {
            Operation::Write(offset, data) => {
                for (n, sector) in data.chunks(SECTOR).enumerate() {
                    let at = usize::try_from(*offset).unwrap() + n * SECTOR;
                    // Of a file that the disk does not know to be longer nothing is read there.
                    let end = bytes.len().min(at + sector.len());
                    if at < end && keeps() {
                        bytes[at..end].copy_from_slice(&sector[..end - at]);
                    }
                }
            }
            operation => {
                if keeps() {
                    apply(&mut bytes, operation);
                }
            }
        }
    }
    bytes
}

/// A pseudo-random sequence: xorshift.
struct Lot(u64);

impl Lot {
    fn next(&mut self) -> bool {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 63 == 1
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        let bytes = state.bytes.get(offset..offset + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.perform(Operation::SetLength(length))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.perform(Operation::Sync)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.perform(Operation::Write(offset, data.into()))
    }
}
