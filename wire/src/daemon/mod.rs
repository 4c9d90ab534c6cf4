//! What daemons say to each other, over one ordered stream each way per pair.

mod master;
mod moves;
mod peers;

use crate::batch::BatchId;
use crate::calls::turns::Receiver;
use crate::codec::{self, CodecError};
use crate::loads::LoadVector;
use crate::rows::{Column, Rows};
use crate::services::Tracer;
use crate::tid::{HostIndex, Tid};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub use crate::blob::Blob;
pub use crate::host_table::{ClusterName, HostEntry, HostTable};
pub use master::{AddResult, FromMaster, MasterReply, MasterRequest, Offer, ToMaster};
pub use moves::{Attempt, Luggage, MoveMsg, Subscription};
pub use peers::{PeerReply, PeerRequest};

/// Room for a frame's length and what comes beside the data of a message to some receivers.
const FRAME_SPACE: usize = 64;

/// Pairs a request between daemons with its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId(pub u64);

/// A message between daemons.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum DaemonMsg {
    /// A piece of a message between tasks (or to a daemon), to one or, in a multicast, several receivers here.
    Data {
        /// Sender.
        src: Tid,
        /// Receivers on the host this goes to.
        dsts: Vec<Tid>,
        /// First, last: [`crate::header`].
        flags: u8,
        /// The fragment's data; in a first fragment with the message header in front. It stands behind the message, not in it.
        #[serde(skip)]
        data: Bytes,
    },
    /// A receiver here takes no more for now, or does again: its senders there stop, or go on.
    Congestion {
        /// The receiver.
        tid: Tid,
        /// Whether its queue is full.
        full: bool,
    },
    /// Asks for something; answered by a `Reply` with the same id.
    Request {
        /// Pairs the two.
        id: RequestId,
        /// What.
        what: PeerRequest,
    },
    /// Answers a `Request`.
    Reply {
        /// Pairs the two.
        id: RequestId,
        /// What came of it.
        what: PeerReply,
    },
    /// Between slaves: the link is idle, and the sender says nothing more on it before it is answered. May it be left?
    Leave,
    /// The answer to `Leave`.
    LeaveAnswer {
        /// Whether the link is left: then nothing follows.
        agreed: bool,
    },
    /// The sender ends in order; nothing follows.
    Bye,
    /// From the master: end.
    Halt,
    /// Master → newcomer: this task is the resource manager.
    Scheduler {
        /// Which.
        tid: Tid,
    },
    /// This task is the tracer, or none is.
    Tracer {
        /// Which.
        tracer: Option<Tracer>,
    },
    /// Sends a signal to a task; unknown tasks are ignored.
    Signal {
        /// The task.
        tid: Tid,
        /// The signal's number.
        signal: i32,
    },
    /// Tell when this task ends; at once if it is not there.
    WatchTask {
        /// The task, of the receiver's host.
        tid: Tid,
    },
    /// A watched task has ended.
    TaskGone {
        /// The task.
        tid: Tid,
    },
    /// A task of a queued batch of yours has ended.
    BatchTaskEnded {
        /// The batch.
        batch: BatchId,
        /// The task's number in it.
        number: u32,
        /// The task.
        tid: Tid,
        /// What `wait` said of it.
        status: i32,
        /// It was ended, as the host's owner is there, and is to begin again elsewhere.
        leaves: bool,
    },
    /// Uncollected output of a task, for the master's log.
    LogOutput {
        /// Whose.
        tid: Tid,
        /// What it wrote, or nothing at the end.
        text: Blob,
    },
    /// The epoch of the sender's host that all its tasks' messages have from here on: count and the host that made it.
    /// `None`: they have none, since their senders run out of turn. At first it is that of a host without a past.
    Epoch {
        /// Which.
        epoch: Option<(u64, u32)>,
    },
    /// Whether teams take turns on the sender's host.
    Turns {
        /// Whether they do.
        taken: bool,
    },
    /// A task of the sender's host waits and has sent to these tasks by direct routes, with the epoch told last.
    Waited {
        /// Tasks of the receiver's host.
        tids: Vec<Tid>,
    },
    /// Whether tasks of the sender's host want to be told of incidents: if so, it is to hear of the begin and end of tasks.
    Observe {
        /// Whether they do.
        on: bool,
    },
    /// The answer to `Observe { on: true }`: the tasks that run on the sender's host now, and no others.
    TasksRunning {
        /// Their ids and their programs' names.
        tasks: Vec<(Tid, String)>,
    },
    /// A task has begun on the sender's host, whose tasks the receiver observes.
    TaskBegun {
        /// The task.
        tid: Tid,
        /// Its program's name.
        name: String,
    },
    /// A task of the sender's host has ended.
    TaskOver {
        /// The task.
        tid: Tid,
        /// What `wait` said of it; 0 if that is not known.
        status: i32,
        /// Whether it ended by a signal that was sent through the virtual machine.
        intended: bool,
    },
    /// From the sender's agent of a placement policy to the receiver's.
    Agent {
        /// Name of the policy.
        policy: String,
        /// What it says.
        message: Blob,
        /// The batch for which it is said, if it is for one.
        cause: Option<BatchId>,
    },
    /// To the home of a task's spawn: to which tasks it has sent how much, and whether it says nothing more.
    Traffic {
        /// The task.
        tid: Tid,
        /// The receivers.
        receivers: Vec<Receiver>,
        /// It has ended.
        is_last: bool,
    },
    /// About a task that moves.
    Move(Attempt, MoveMsg),
    /// To all: remove the log when the virtual machine ends.
    DiscardLogs,
    /// To the master: the load of the sender's host.
    Load(LoadVector),
    /// From the master: loads of hosts that have changed.
    Loads(Vec<(HostIndex, LoadVector)>),
    /// Bytes that mean nothing: the sender measures how long they take.
    Probe {
        /// The bytes.
        load: Blob,
        /// Whether the receiver is to answer.
        last: bool,
    },
    /// The answer to the last of some `Probe`s.
    ProbeHeard,
    /// To the master: the processes of the sender's host that take turns.
    Column(Column),
    /// From the master: tasks of a team, of those that can move, are to move to a host on which the matrix has places for them beside the rest of
    /// the team.
    Gather {
        /// The team.
        team: String,
        /// The host.
        to: HostIndex,
        /// How many tasks.
        count: u32,
    },
    /// From the master: the rows of the matrix, as far as they are about the receiver's host.
    Rows(Rows),
    /// To the master: whether the owner of the sender's host is there.
    Owner {
        /// Whether.
        is_here: bool,
    },
    /// From the master: the hosts whose owners are there.
    Owners(Vec<HostIndex>),
    /// To the master: what does its clock say?
    RowClock {
        /// What the sender's clock says, in nanoseconds: the answer repeats it.
        asked: u64,
    },
    /// The answer of the master to `RowClock`.
    RowTime {
        /// What the receiver's clock said.
        asked: u64,
        /// What the master's clock says, in nanoseconds.
        time: u64,
    },
    /// To the master.
    ToMaster {
        /// Its number among those of this host: they count up, and one that has been heard is not heard again.
        number: u64,
        /// The last message of the master that this host has heard.
        heard: u64,
        /// What is said.
        what: ToMaster,
    },
    /// From the master.
    FromMaster {
        /// Its number among those to this host, whichever host the master was.
        number: u64,
        /// The last message of this host that the master has heard.
        heard: u64,
        /// What is said.
        what: FromMaster,
    },
    /// To the master: the last of its messages that this host has heard, when nothing else is to be said.
    HostHeard {
        /// Its number.
        number: u64,
    },
    /// From the master: the last message of the receiver that it has heard, when nothing else is to be said.
    MasterHeard {
        /// Its number.
        number: u64,
    },
    /// The sender is the master from now on.
    NewMaster {
        /// Counts the machine's masters.
        reign: u64,
    },
    /// Between deputies: the consensus on the log of the master's state.
    Log {
        /// The configuration of deputies that it belongs to.
        configuration: u64,
        /// For the consensus library.
        message: Blob,
    },
    /// Master → new deputy: a piece of the master's state.
    State {
        /// The configuration of deputies that the receiver belongs to from now on.
        configuration: u64,
        /// Entries of its log that the state contains already.
        applied: u64,
        /// Whether another piece follows.
        more: bool,
        /// The piece.
        bytes: Blob,
    },
    /// To deputies and neighbours: the sender has lost its link to the master.
    MasterLost {
        /// Which host that was: the receiver may follow another one already.
        master: HostIndex,
        /// The configuration that the sender is a deputy of.
        configuration: Option<u64>,
    },
    /// The answer of one that has not: the master lives, so it is the receiver that is lost.
    MasterLives,
    /// The receiver is no member any more, as far as the sender knows.
    NoMember,
}

impl DaemonMsg {
    /// The frame on the stream, without the data at its end: length of all that follows, then the message.
    pub fn frame_head(&self) -> Result<Vec<u8>, CodecError> {
        let mut head = Vec::with_capacity(FRAME_SPACE);
        head.extend_from_slice(&[0; 4]);
        codec::encode_into(self, &mut head)?;
        let length = head.len() - 4 + self.data().len();
        head[..4].copy_from_slice(&(length as u32).to_be_bytes());
        Ok(head)
    }

    /// The data that stand behind the message in a frame.
    pub fn data(&self) -> &[u8] {
        match self {
            Self::Data { data, .. } => data,
            _ => &[],
        }
    }

    /// The message of a frame, without the length in front. Its data stay where they are.
    pub fn decode_frame(frame: &Bytes) -> Result<Self, CodecError> {
        let (mut message, used) = codec::decode_first(frame)?;
        match &mut message {
            Self::Data { data, .. } => *data = frame.slice(used..),
            _ if used < frame.len() => return Err(CodecError::Trailing(frame.len() - used)),
            _ => {}
        }
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::CertificateRequest;
    use crate::error::PvmError;
    use proptest::prelude::*;

    #[test]
    fn a_message_survives_the_wire() {
        let entry = HostEntry {
            index: HostIndex::MASTER,
            name: "m".into(),
            arch: "LINUX64".into(),
            speed: 1000,
            capability: 1012.5,
            task_limit: 4096,
            signature: 0x0040_8c41,
            cluster: None,
            address: None,
        };
        for message in [
            DaemonMsg::Data {
                src: Tid::NONE,
                dsts: vec![Tid::ANY],
                flags: 3,
                data: Bytes::from_static(b"abc"),
            },
            DaemonMsg::FromMaster {
                number: 3,
                heard: 2,
                what: FromMaster::TableUpdate {
                    serial: 9,
                    members: HostTable::default(),
                    added: HostTable::of(&[entry]).unwrap(),
                    moved: vec![(Tid::from_bits(0x40001), HostIndex::MASTER)],
                },
            },
            DaemonMsg::Request { id: RequestId(3), what: PeerRequest::Tasks { only: None } },
            DaemonMsg::Request {
                id: RequestId(4),
                what: PeerRequest::Certify(CertificateRequest {
                    names: vec!["node1".into()],
                    key: vec![48, 89],
                }),
            },
            DaemonMsg::Reply {
                id: RequestId(4),
                what: PeerReply::Certified { result: Err((PvmError::BadParam, "no key".into())) },
            },
            DaemonMsg::Bye,
        ] {
            let frame = Bytes::from([&message.frame_head().unwrap()[..], message.data()].concat());
            assert_eq!(frame.len(), 4 + u32::from_be_bytes(*frame.first_chunk().unwrap()) as usize);
            let read = DaemonMsg::decode_frame(&frame.slice(4..)).unwrap();
            assert_eq!(read, message);
            // Data are not copied.
            let places = frame.as_ptr_range();
            assert!(read.data().is_empty() || places.contains(&read.data().as_ptr()));
            let more = Bytes::from([&frame[4..], b"x"].concat());
            let is_data = matches!(message, DaemonMsg::Data { .. });
            assert_eq!(DaemonMsg::decode_frame(&more).is_ok(), is_data);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = DaemonMsg::decode_frame(&Bytes::copy_from_slice(&bytes));
            let _ = crate::batch::BatchMsg::decode(&bytes);
        }
    }
}
