//! A worker: the hidden command `pvm bench --worker`, which `pvm bench` spawns on the hosts.

use super::line::{Line, Stop};
use super::order::{Hello, Job, Order, Outcome, Pair, Ran, Reply, VERSION, Way, tag};
use super::usage::{Usage, processors};
use super::wires::Wires;
use super::{all_to_all, flood, limits, pingpong};
use pvm3::{Pack, PvmError, Routing, Task, Tid};
use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::time::Duration;

/// A file whose content all containers and daemons on one computer share.
const COMPUTER: &str = "/proc/sys/kernel/random/boot_id";

/// Runs a worker: one that serves, by PVM's default route or by the daemons; a task that enrols and exits; or a process that exits. Not by
/// way of clap, which would take a part of what is measured.
pub fn run(args: &[OsString]) -> ExitCode {
    let result = match args.first().and_then(|kind| kind.to_str()) {
        Some("nothing") => return ExitCode::SUCCESS,
        Some("empty") => Task::enrol().and_then(Task::exit),
        Some("serve") => serve(Routing::default()),
        Some("daemons") => serve(Routing::ByDaemon),
        _ => {
            eprintln!("pvm: \"pvm bench\" starts its workers itself");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pvm: a worker of \"pvm bench\" has failed: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Carries out orders until the parent is gone or ends it.
fn serve(routing: Routing) -> pvm3::Result<()> {
    let mut task = Task::enrol_as(Some("pvm bench"), false)?;
    let parent = task.parent().ok_or(PvmError::NoParent)?;
    task.set_routing(routing);
    let address = host_address(&task);
    let mut line = Line::new(task, parent)?;
    let computer = std::fs::read_to_string(COMPUTER).unwrap_or_default().trim().to_owned();
    let hello = Hello { address: address.to_bits(), processors: processors(), computer };
    let mut pack = Pack::new();
    pack.put_str(VERSION)?.put_value(&hello)?;
    line.task.send(parent, tag::HELLO, &pack)?;
    let mut worker = Worker { line, address, wires: Wires::default() };
    loop {
        match worker.serve_one() {
            Ok(()) => {}
            Err(Stop::Over) => return worker.line.task.exit(),
            Err(Stop::Failed(reason)) => return Err(pvm3::Error::new(PvmError::BadMsg, reason)),
        }
    }
}

/// The address of this host's daemon, unspecified if the network cannot reach it.
fn host_address(task: &Task) -> Ipv4Addr {
    let address = task.identity().address.split(':').next().and_then(|ip| u32::from_str_radix(ip, 16).ok());
    address.map_or(Ipv4Addr::UNSPECIFIED, Ipv4Addr::from_bits)
}

#[derive(Debug)]
struct Worker {
    line: Line,
    address: Ipv4Addr,
    wires: Wires,
}

impl Worker {
    /// Carries out the next order, and answers it. Fails if it cannot be read or answered.
    fn serve_one(&mut self) -> Result<(), Stop> {
        let order = self.line.order()?;
        let result = match self.carry_out(&order) {
            Ok(outcome) => Ok(outcome),
            Err(Stop::Failed(reason)) => Err(reason),
            Err(Stop::Over) => return Err(Stop::Over),
        };
        let mut pack = Pack::new();
        pack.put_value(&Reply { serial: order.serial, result })?;
        Ok(self.line.task.send(self.line.parent(), tag::REPLY, &pack)?)
    }

    fn carry_out(&mut self, Order { serial, job }: &Order) -> Result<Outcome, Stop> {
        job.check().map_err(Stop::Failed)?;
        let peers = job.peers();
        let data = self.line.begin(*serial, &peers)?;
        let before = Usage::now();
        let took = match job {
            Job::Listen { towards } => {
                let address = self.wires.listen(self.address, Ipv4Addr::from_bits(*towards))?;
                return Ok(Outcome::Bound(address));
            }
            Job::Accept { peer, token } => {
                self.wires.accept(Tid::from_raw(*peer), token).map(|()| Duration::ZERO)?
            }
            Job::Connect { peer, address, token } => {
                self.wires.connect(Tid::from_raw(*peer), *address, token).map(|()| Duration::ZERO)?
            }
            Job::PingPong(pair) => self.ping_pong(pair, data)?,
            Job::Flood(pair) => self.flood(pair, data)?,
            Job::Exchange { way: Way::Tcp, bytes, count, .. } => {
                all_to_all::by_tcp(&self.wires.to_all(&peers)?, *bytes, *count)?
            }
            Job::Exchange { bytes, count, .. } => {
                all_to_all::by_pvm(&mut self.line, &peers, data, *bytes, *count)?
            }
            Job::Copies { bytes, count } => limits::copies(*bytes, *count),
            Job::Flips { count } => limits::flips(*count)?,
            Job::Execs { count, many } => limits::execs(*count, *many)?,
            Job::Usage => return Ok(Outcome::Done(Ran { nanos: 0, usage: before })),
            Job::End => return Err(Stop::Over),
        };
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        Ok(Outcome::Done(Ran { nanos, usage: Usage::now() - before }))
    }

    fn ping_pong(&mut self, pair: &Pair, data: i32) -> Result<Duration, Stop> {
        match pair.way {
            Way::Tcp => pingpong::by_tcp(self.wires.to(Tid::from_raw(pair.peer))?, pair),
            Way::Default | Way::ByDaemons => pingpong::by_pvm(&mut self.line, pair, data),
        }
    }

    fn flood(&mut self, pair: &Pair, data: i32) -> Result<Duration, Stop> {
        match pair.way {
            Way::Tcp => flood::by_tcp(self.wires.to(Tid::from_raw(pair.peer))?, pair),
            Way::Default | Way::ByDaemons => flood::by_pvm(&mut self.line, pair, data),
        }
    }
}
