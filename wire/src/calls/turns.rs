//! Teams of tasks that take turns, and what the tasks say of themselves. All of it is this system's own.
//!
//! | request | body | answer |
//! |---|---|---|
//! | [`JoinTeam`] | str | int 0 |
//! | [`Turns`] | int host | int 0, [`TurnsReport`] in bincode |
//! | [`History`] | int host, int upper and int lower half of a number | int 0, [`TurnHistory`] in bincode |
//! | [`Rows`] | – | int 0, [`RowsReport`] in bincode |
//! | [`Waiting`] | int n, n × int task | none |
//! | [`Asleep`], [`Awake`], [`Page`] | – | none |
//! | [`Activity`] | int nanoseconds, int upper and int lower half of the messages, and of the bytes | none |
//! | [`Traffic`] | int n, n × (int task, int upper and int lower half of the bytes) | none |
//! | [`TrafficByHost`] | int n, n × (int host, int upper and int lower half of the bytes) | none |
//! | [`Epoch`] | int task, int count, int host | none |
//! | [`NoticesTaken`] | int count | none |

use super::{Field, answers, requests, values};
use crate::body::{BodyError, BodyReader, BodyWriter};
use crate::codes::Tmx;
use crate::coscheduling::{TurnHistory, TurnsReport};
use crate::limits::TRAFFIC_RECEIVERS;
use crate::rows::RowsReport;
use crate::tid::Tid;
use serde::{Deserialize, Serialize};

requests! {
    /// The caller is of this team from now on.
    JoinTeam = Tmx::Team; {
        /// The team's name.
        name: String,
    }

    /// How teams take turns on a host.
    Turns = Tmx::Turns; {
        /// The host.
        host: Tid,
    }

    /// What turns there have been on a host.
    History = Tmx::History; {
        /// The host.
        host: Tid,
        /// Number of the first span that is wanted.
        since: u64,
    }

    /// The rows of the machine's matrix.
    Rows = Tmx::Rows; {}

    /// The caller waits, and has sent to these by direct routes.
    Waiting = Tmx::Waiting; {
        /// To whom.
        receivers: Vec<Tid>,
    }

    /// The caller is about to sleep until something comes.
    Asleep = Tmx::Asleep; {}

    /// It sleeps no more.
    Awake = Tmx::Awake; {}

    /// The page that says whose turn it is, and when groups have changed.
    Page = Tmx::Page; {
        /// The caller sends on direct routes to other hosts.
        direct: bool,
    }

    /// How long the caller spins at present before it sleeps, and what it has sent.
    Activity = Tmx::Activity; {
        /// Nanoseconds that it spins; no less than 0.
        spin: i32,
        /// Messages that it has sent, one for each receiver.
        messages: u64,
        /// Bytes of these messages' bodies.
        bytes: u64,
    }

    /// To whom the caller has sent how much since it last said so: its spawn's policy is to know.
    Traffic = Tmx::Traffic; {
        /// The receivers, at most [`TRAFFIC_RECEIVERS`].
        receivers: Vec<Receiver>,
    }

    /// To which other hosts the caller has sent how much since it last said so: what its job asks of the network is measured.
    TrafficByHost = Tmx::TrafficByHost; {
        /// The hosts' daemons, at most [`TRAFFIC_RECEIVERS`].
        hosts: Vec<Receiver>,
    }

    /// The caller has been told another host's epoch on a direct route.
    Epoch = Tmx::Epoch; {
        /// By whom.
        by: Tid,
        /// The lower half of the epoch's count.
        count: u32,
        /// Index of the host that made it.
        origin: i32,
    }

    /// The caller's program has taken notices of queued batches.
    NoticesTaken = Tmx::NoticesTaken; {
        /// How many.
        count: u32,
    }
}

answers! {
    JoinTeam => 0, (), |call| format!("the team {:?}", call.name);
    Turns => 0, TurnsReport, |call| format!("turns on host {}", call.host);
    History => 0, TurnHistory, |call| format!("turns on host {}", call.host);
    Rows => 0, RowsReport, |_| "the rows of the machine's matrix";
}

/// A task that messages were sent to, or all tasks of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receiver {
    /// The task, or the host's daemon.
    pub tid: Tid,
    /// Bytes of the messages' bodies.
    pub bytes: u64,
}

impl Field for Receiver {
    const LEAST: usize = 12;
    const MOST: usize = TRAFFIC_RECEIVERS;

    fn write(&self, body: BodyWriter) -> BodyWriter {
        self.bytes.write(self.tid.write(body))
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { tid: Field::read(reader)?, bytes: Field::read(reader)? })
    }
}

values! { TurnsReport, RowsReport, TurnHistory }
