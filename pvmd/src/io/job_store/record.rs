//! A job as it stands in the file.
//!
//! A record says itself what it is, how long, and whether it is whole. So the records of a file whose structure is damaged are found
//! by looking through its bytes.

use memchr::memmem;
use std::collections::BTreeMap;

/// Where a record begins. The first byte is in no text.
const MAGIC: [u8; 8] = *b"\xF7PVMjob\x02";
/// Bytes before the job.
const HEADER: usize = 44;
/// Where the checksum stands, of all that stands elsewhere.
const CHECKSUM: usize = 40;
/// The record was found in a damaged file: there may have been a later one.
const DOUBTFUL: u32 = 1;

/// A job, and what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub number: u64,
    /// Of the save that has written it; the later one has the greater.
    pub serial: u64,
    /// Jobs below this number were forgotten before.
    pub lowest: u64,
    pub is_doubtful: bool,
    /// The encoding of daemons.
    pub job: &'a [u8],
}

impl<'a> Record<'a> {
    /// `None` for a job that no file can have.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let length = u32::try_from(self.job.len()).ok()?;
        let mut bytes = Vec::with_capacity(HEADER + self.job.len());
        bytes.extend(MAGIC);
        for number in [self.number, self.serial, self.lowest] {
            bytes.extend(number.to_le_bytes());
        }
        for number in [if self.is_doubtful { DOUBTFUL } else { 0 }, length, 0] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.job);
        let checksum = checksum(&bytes).to_le_bytes();
        bytes[CHECKSUM..HEADER].copy_from_slice(&checksum);
        Some(bytes)
    }

    /// The record at the beginning of these bytes, if it is whole.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let half = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let whole = bytes.get(..HEADER.checked_add(half(36)? as usize)?)?;
        if !whole.starts_with(&MAGIC) || checksum(whole) != half(CHECKSUM)? {
            return None;
        }
        Some(Self {
            number: number(8)?,
            serial: number(16)?,
            lowest: number(24)?,
            is_doubtful: half(32)? & DOUBTFUL != 0,
            job: &whole[HEADER..],
        })
    }
}

fn checksum(whole: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&whole[..CHECKSUM]);
    hasher.update(&whole[HEADER..]);
    hasher.finalize()
}

/// The latest whole record of each job in the bytes of a file.
///
/// A page that is free holds what it held before, so this finds earlier states of jobs as well. Where the latest record of a job is
/// damaged an earlier one takes its place, and nothing in the file tells. Jobs that were forgotten are left out if all before them
/// were, too.
pub(super) fn find_all(bytes: &[u8]) -> BTreeMap<u64, Record<'_>> {
    let mut found = BTreeMap::<u64, Record<'_>>::new();
    let mut latest = (0, 0);
    for at in memmem::find_iter(bytes, &MAGIC) {
        if let Some(record) = Record::decode(&bytes[at..]) {
            latest = latest.max((record.serial, record.lowest));
            let known = found.entry(record.number).or_insert(record);
            if known.serial < record.serial {
                *known = record;
            }
        }
    }
    found.split_off(&latest.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64, serial: u64, job: &[u8]) -> Record<'_> {
        Record { number, serial, lowest: 0, is_doubtful: false, job }
    }

    #[test]
    fn no_byte_can_change_unseen() {
        let record = Record { lowest: 3, is_doubtful: true, ..record(7, 9, b"a job") };
        let bytes = record.encode().unwrap();
        assert_eq!(Record::decode(&bytes), Some(record));
        assert_eq!(Record::decode(&[&bytes[..], b"more"].concat()), Some(record));
        for at in 0..bytes.len() {
            assert_eq!(Record::decode(&bytes[..at]), None, "{at}");
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                assert_eq!(Record::decode(&other), None, "{at} {bit}");
            }
        }
    }

    #[test]
    fn the_latest_record_of_each_job_is_found() {
        let part = |record: Record<'_>| record.encode().unwrap();
        let mut bytes = [
            &b"\xF7PVM"[..],
            &part(record(1, 1, b"one")),
            &part(record(2, 3, b"two, later")),
            &MAGIC,
            &part(record(2, 2, b"two")),
            &part(Record { lowest: 2, ..record(3, 4, b"three") }),
        ]
        .concat();
        let jobs = |bytes: &[u8]| {
            find_all(bytes)
                .into_iter()
                .map(|(number, record)| (number, record.job.to_vec()))
                .collect::<Vec<_>>()
        };
        assert_eq!(jobs(&bytes), [(2, b"two, later".to_vec()), (3, b"three".to_vec())], "1 was forgotten");
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        assert_eq!(jobs(&bytes), [(1, b"one".to_vec()), (2, b"two, later".to_vec())]);
    }
}
