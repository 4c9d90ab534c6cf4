//! Times that processes on several hosts of this computer can compare.

use serde::{Deserialize, Serialize, Serializer};
use std::time::SystemTime;

/// Nanoseconds since the beginning of 1970.
pub fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64)
}

/// The time at which it is written.
#[derive(Debug, Default)]
pub struct Stamp(pub u64);

impl Serialize for Stamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(now())
    }
}

impl<'de> Deserialize<'de> for Stamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(Self)
    }
}
