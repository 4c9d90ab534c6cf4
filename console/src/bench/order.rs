//! What `pvm bench` and its workers say to each other.
//!
//! | message | from | content |
//! |---|---|---|
//! | [`tag::HELLO`] | worker | [`VERSION`] as a string, [`Hello`] |
//! | [`tag::ORDER`] | parent | [`Order`] |
//! | [`tag::REPLY`] | worker | [`Reply`] |
//! | [`tag::DATA`] and above | workers | what is measured; each order has a tag of its own |

use super::usage::Usage;
use pvm3::{Received, Tid};
use serde::{Deserialize, Serialize};
use std::net::SocketAddrV4;

/// Tags of messages.
pub mod tag {
    /// A worker has started.
    pub const HELLO: i32 = 1;
    /// To a worker.
    pub const ORDER: i32 = 2;
    /// A worker's answer.
    pub const REPLY: i32 = 3;
    /// From the daemon: a worker has exited, to the parent.
    pub const WORKER_EXITED: i32 = 4;
    /// From the daemon: a host is lost, to the parent.
    pub const HOST_LOST: i32 = 5;
    /// From the daemon: a task of a batch has exited, to the parent.
    pub const TASK_EXITED: i32 = 6;
    /// From the daemon: the parent has exited, to a worker.
    pub const PARENT_EXITED: i32 = 7;
    /// From the daemon: another worker has exited, to a worker.
    pub const PEER_EXITED: i32 = 8;
    /// Data; the orders' numbers are added.
    pub const DATA: i32 = 1000;
}

/// What parent and workers must agree on: the version of the program, and of these messages.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (bench 1)");

/// The longest message that is measured, bytes.
pub const BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The most repetitions in an order.
pub const COUNT_MAX: u64 = 1 << 40;
/// The most other workers in an order: one per host of the largest machine.
pub const PEERS_MAX: usize = 4095;
/// The longest text of a worker that is shown, characters.
const TEXT_MAX: usize = 300;
/// Short messages one way before there is an answer.
pub const FLOOD: u64 = 64;

/// What a worker tells of its host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The host's IPv4 address as its daemon has it; 0 if it has none.
    pub address: u32,
    /// Number of processors.
    pub processors: u32,
    /// A name that all hosts on one computer have in common; empty if there is none.
    pub computer: String,
}

/// How messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Way {
    /// PVM's default route.
    Default,
    /// `PvmDontRoute`.
    ByDaemons,
    /// Not by PVM: a TCP connection, for comparison.
    Tcp,
}

/// The half of a pair that a worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Half {
    /// Sends first, and measures the time.
    Leads,
    /// Answers.
    Follows,
}

/// An order to a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The number of this order, the same for all workers that take part.
    pub serial: u32,
    /// What to do.
    pub job: Job,
}

/// What a worker does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Job {
    /// Listens at a port that a host at this address can reach; the outcome is [`Outcome::Bound`].
    Listen {
        /// The other host's address.
        towards: u32,
    },
    /// Waits for the connection of a worker that sends this token.
    Accept {
        /// The worker.
        peer: i32,
        /// The token.
        token: [u8; 16],
    },
    /// Connects to a worker that listens.
    Connect {
        /// The worker.
        peer: i32,
        /// Where it listens.
        address: SocketAddrV4,
        /// The token.
        token: [u8; 16],
    },
    /// Messages to and fro with one other worker.
    PingPong(Pair),
    /// Messages one way, [`FLOOD`] of them before an answer.
    Flood(Pair),
    /// Messages to and from each other worker.
    Exchange {
        /// The others.
        peers: Vec<i32>,
        /// How they travel.
        way: Way,
        /// Length of a message.
        bytes: u64,
        /// How many are sent to each.
        count: u64,
    },
    /// Copies bytes twice.
    Copies {
        /// How many bytes.
        bytes: u64,
        /// How often.
        count: u64,
    },
    /// Two threads hand a word to each other.
    Flips {
        /// How often there and back.
        count: u64,
    },
    /// Starts processes that exit at once.
    Execs {
        /// How many.
        count: u64,
        /// Whether four per processor run at a time, instead of one.
        many: bool,
    },
    /// Only reports [`Usage`] since the start of the system.
    Usage,
    /// Ends the worker.
    End,
}

/// A measurement with one other worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// The other.
    pub peer: i32,
    /// Which half this worker is.
    pub half: Half,
    /// How messages travel.
    pub way: Way,
    /// Length of a message.
    pub bytes: u64,
    /// How often.
    pub count: u64,
}

impl Job {
    /// The other workers that take part.
    pub fn peers(&self) -> Vec<Tid> {
        match self {
            Self::Accept { peer, .. } | Self::Connect { peer, .. } => vec![Tid::from_raw(*peer)],
            Self::PingPong(pair) | Self::Flood(pair) => vec![Tid::from_raw(pair.peer)],
            Self::Exchange { peers, .. } => peers.iter().map(|&peer| Tid::from_raw(peer)).collect(),
            _ => Vec::new(),
        }
    }

    /// Refuses what no parent of this version asks for, before anything is allocated.
    pub fn check(&self) -> Result<(), String> {
        let (bytes, count) = match self {
            Self::PingPong(pair) | Self::Flood(pair) => (pair.bytes, pair.count),
            Self::Exchange { bytes, count, .. } | Self::Copies { bytes, count } => (*bytes, *count),
            Self::Flips { count } | Self::Execs { count, .. } => (0, *count),
            _ => (0, 1),
        };
        let peers = self.peers();
        if bytes > BYTES_MAX {
            return Err(format!("messages of {bytes} bytes are longer than {BYTES_MAX}"));
        }
        if !(1..=COUNT_MAX).contains(&count) {
            return Err(format!("{count} repetitions: expected 1 to {COUNT_MAX}"));
        }
        if peers.len() > PEERS_MAX {
            return Err(format!("{} other workers are more than {PEERS_MAX}", peers.len()));
        }
        match peers.iter().find(|peer| !peer.is_task()) {
            Some(peer) => Err(format!("{peer} is no task")),
            None => Ok(()),
        }
    }
}

/// A worker's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The order's number.
    pub serial: u32,
    /// What came of it, or why nothing did.
    pub result: Result<Outcome, String>,
}

/// What came of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The port at which it listens.
    Bound(SocketAddrV4),
    /// It is done.
    Done(Ran),
}

/// A measurement that was carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// The time that it took, ns; 0 for a worker that does not measure it.
    pub nanos: u64,
    /// Processor time of the host meanwhile.
    pub usage: Usage,
}

/// Reads a worker's first message; an error says why it cannot be used.
pub fn read_hello(message: &mut Received) -> Result<Hello, String> {
    let version =
        message.get_str().map_err(|error| format!("sent a first message that cannot be read: {error}"))?;
    if version != VERSION {
        return Err(format!("runs pvm {}, this is pvm {VERSION}", shown(&version)));
    }
    let hello: Hello =
        message.get_value().map_err(|error| format!("sent a first message that cannot be read: {error}"))?;
    Ok(Hello { computer: shown(&hello.computer), ..hello })
}

/// Reads a worker's answer. Its text is for people: of one line, and not longer than that.
pub fn read_reply(message: &mut Received) -> Result<Reply, String> {
    let mut reply: Reply =
        message.get_value().map_err(|error| format!("sent an answer that cannot be read: {error}"))?;
    if let Err(text) = &mut reply.result {
        *text = shown(text);
    }
    Ok(reply)
}

/// The text as it may be printed.
fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(TEXT_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvm_wire::MessageHeader;
    use pvm3::{Message, Pack};

    fn received(pack: &Pack) -> Received {
        let header = MessageHeader { encoding: pack.encoding().word(), ..MessageHeader::default() };
        let src = Tid::from_raw(0x40001);
        Received::new(Message { src, dst: src, header, body: pack.body().unwrap().to_vec().into() })
    }

    fn pair(peer: i32, bytes: u64, count: u64) -> Pair {
        Pair { peer, half: Half::Leads, way: Way::Default, bytes, count }
    }

    #[test]
    fn orders_and_answers_are_read_as_they_were_written() {
        let job = Job::Connect { peer: 0x40002, address: "127.0.0.1:80".parse().unwrap(), token: [7; 16] };
        let order = Order { serial: 3, job };
        let mut pack = Pack::new();
        pack.put_value(&order).unwrap();
        assert_eq!(received(&pack).get_value::<Order>().unwrap(), order);
        let reply = Reply { serial: 3, result: Ok(Outcome::Done(Ran { nanos: 5, usage: Usage::default() })) };
        pack.clear();
        pack.put_value(&reply).unwrap();
        assert_eq!(read_reply(&mut received(&pack)).unwrap(), reply);
    }

    #[test]
    fn a_worker_of_another_version_is_named() {
        let mut pack = Pack::new();
        pack.put_str("0.9.7").unwrap();
        let refused = read_hello(&mut received(&pack)).unwrap_err();
        assert_eq!(refused, format!("runs pvm 0.9.7, this is pvm {VERSION}"));
        let hello = Hello { address: 1, processors: 2, computer: "id\n".into() };
        pack.clear();
        pack.put_str(VERSION).unwrap().put_value(&hello).unwrap();
        assert_eq!(read_hello(&mut received(&pack)), Ok(Hello { computer: "id ".into(), ..hello }));
    }

    #[test]
    fn bytes_that_are_no_message_are_an_error() {
        for bytes in [&[][..], &[0, 0, 0, 9, 1], &[255; 64], &[0, 0, 0, 4, 255, 255, 255, 255]] {
            let mut pack = Pack::new();
            pack.put(bytes).unwrap();
            assert!(read_hello(&mut received(&pack)).is_err());
            assert!(read_reply(&mut received(&pack)).is_err());
            assert!(received(&pack).get_value::<Order>().is_err());
        }
    }

    #[test]
    fn texts_of_workers_are_short_and_of_one_line() {
        let mut pack = Pack::new();
        pack.put_value(&Reply { serial: 1, result: Err("a\x1b[2J\n".repeat(500)) }).unwrap();
        let text = read_reply(&mut received(&pack)).unwrap().result.unwrap_err();
        assert!(text.starts_with("a [2J a") && text.chars().count() == TEXT_MAX);
    }

    #[test]
    fn orders_without_bounds_are_refused() {
        let task = 0x40001;
        assert_eq!(Job::PingPong(pair(task, BYTES_MAX, 1)).check(), Ok(()));
        for job in [
            Job::PingPong(pair(task, BYTES_MAX + 1, 1)),
            Job::Flood(pair(task, 1, 0)),
            Job::PingPong(pair(-1, 1, 1)),
            Job::Copies { bytes: u64::MAX, count: 1 },
            Job::Flips { count: u64::MAX },
            Job::Exchange { peers: vec![task; PEERS_MAX + 1], way: Way::Tcp, bytes: 1, count: 1 },
            Job::Exchange { peers: vec![0], way: Way::Tcp, bytes: 1, count: 1 },
        ] {
            assert!(job.check().is_err(), "{job:?}");
        }
    }
}
