//! Spawns and queued batches. Their types are [`crate::spawn`]'s and [`crate::queue`]'s: daemons use them among themselves, too.
//!
//! | request | body | answer |
//! |---|---|---|
//! | [`SpawnRequest`], TM_SPAWN | str file, int flags, str where, int count, int n, n × str argument, output sink, trace sink, int m, m × str of the environment; \[int [`EXTENSION_MAGIC`], str policy, \[int p, p × [`Pair`](crate::spawn::Pair)\]\] | [`SpawnReply`] |
//! | [`QueueRequest`], TMX | int context, int tag, int restarts, a [`SpawnRequest`] | int batch |
//! | [`CancelBatch`], TMX | int batch | int 0 |
//! | [`Batches`], TMX | – | int version, the records and the tallies of policies in bincode |

use super::{Call, Field, Request, answers, read_value, requests, write_value};
use crate::body::{BodyError, BodyReader, BodyWriter};
use crate::codes::{EXTENSION_MAGIC, EXTENSION_VERSION, Tm, Tmx};
use crate::queue::{BatchRecord, PolicyTally, QueueRequest};
use crate::spawn::{Refusal, Sink, SpawnReply, SpawnRequest};

requests! {
    /// Cancel a queued batch.
    CancelBatch = Tmx::CancelBatch; {
        /// Its id.
        batch: i32,
    }

    /// The virtual machine's batches.
    Batches = Tmx::Batches; {}
}

answers! {
    CancelBatch => 0, (), |call| format!("cancelling batch {:x}", call.batch);
    SpawnRequest => SpawnReply, |call| format!("spawning {}", call.file.display());
    QueueRequest => i32, |call| format!("queueing {}", call.spawn.file.display());
}

impl Call for Batches {
    type Reply = BatchList;
    const STATUS: Option<i32> = Some(EXTENSION_VERSION);

    fn subject(&self) -> String {
        "the list of batches".to_owned()
    }
}

impl Request for SpawnRequest {
    const TAG: i32 = Tm::Spawn.tag();
}

impl Field for SpawnRequest {
    fn write(&self, body: BodyWriter) -> BodyWriter {
        let body = body.str(&self.file).int(self.flags).str(&self.place).int(self.count);
        let body = self.trace.write(self.output.write(self.args.write(body)));
        let body = self.env.write(body);
        // The original ignores what stands behind.
        match (self.policy.is_empty(), self.traffic.is_empty()) {
            (true, true) => body,
            (false, true) => body.int(EXTENSION_MAGIC).str(&self.policy),
            (_, false) => self.traffic.write(body.int(EXTENSION_MAGIC).str(&self.policy)),
        }
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let request = Self {
            file: Field::read(reader)?,
            flags: reader.int()?,
            place: Field::read(reader)?,
            count: reader.int()?,
            args: Field::read(reader)?,
            output: Sink::read(reader)?,
            trace: Sink::read(reader)?,
            env: Field::read(reader)?,
            policy: String::new(),
            traffic: Vec::new(),
        };
        if reader.int() != Ok(EXTENSION_MAGIC) {
            return Ok(request);
        }
        let policy = Field::read(reader)?;
        let traffic = if reader.rest().is_empty() { Vec::new() } else { Field::read(reader)? };
        Ok(Self { policy, traffic, ..request })
    }
}

/// int n, n × int tid or error code; \[int [`EXTENSION_MAGIC`], int m, m × [`Refusal`], str policy\].
impl Field for SpawnReply {
    fn write(&self, body: BodyWriter) -> BodyWriter {
        let body = self.results.write(body);
        // The original ignores what stands behind.
        if self.refusals.is_empty() && self.policy.is_empty() {
            return body;
        }
        self.refusals.write(body.int(EXTENSION_MAGIC)).str(&self.policy)
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let results = Field::read(reader)?;
        let (refusals, policy) = match reader.int() {
            Ok(EXTENSION_MAGIC) => (Field::read(reader)?, Field::read(reader)?),
            _ => (Vec::new(), String::new()),
        };
        Ok(Self { results, refusals, policy })
    }
}

/// int host, int code, int count, str reason.
impl Field for Refusal {
    const LEAST: usize = 16;

    fn write(&self, body: BodyWriter) -> BodyWriter {
        body.int(self.host).int(self.code).int(self.count as i32).str(&self.reason)
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let (host, code) = (reader.int()?, reader.int()?);
        Ok(Self { host, code, count: reader.int()?.unsigned_abs(), reason: Field::read(reader)? })
    }
}

impl Request for QueueRequest {
    const TAG: i32 = Tmx::Queue.tag();
}

impl Field for QueueRequest {
    fn write(&self, body: BodyWriter) -> BodyWriter {
        self.spawn.write(body.int(self.context).int(self.tag).int(self.restarts))
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let [context, tag, restarts] = [reader.int()?, reader.int()?, reader.int()?];
        Ok(Self { context, tag, restarts, spawn: Field::read(reader)? })
    }
}

/// The batches of a virtual machine.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchList {
    /// Home by home, those that have ended first.
    pub batches: Vec<BatchRecord>,
    /// What policies have cost, home by home.
    pub policies: Vec<PolicyTally>,
}

impl Field for BatchList {
    fn write(&self, body: BodyWriter) -> BodyWriter {
        write_value(&(&self.batches, &self.policies), body)
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let (batches, policies) = read_value(reader)?;
        Ok(Self { batches, policies })
    }
}
