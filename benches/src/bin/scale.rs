//! Operations of a task on a virtual machine with many hosts. One operation per run:
//!
//! - `start-up` waits until the hosts of the hostfile have started or failed, and prints the reason of each failure;
//! - `hosts` prints the number of hosts;
//! - `spawn N` spawns N tasks, placed by round-robin, and again when these have exited. It prints a line for each spawn: the number of
//!   hosts that got tasks, and the seconds of the call;
//! - `loss PID` kills the daemon of this process id, and prints the seconds until each notice of a lost host;
//! - `changes` changes what the master keeps, and prints the seconds of one change of each kind (the median of many): an entry is put into
//!   the mailbox, this task joins a group, a host is added;
//! - `succession PID` kills the daemon of this process id, the master's, puts an entry into the mailbox, and prints the seconds from the one
//!   to the answer of the other.

use clap::Parser;
use pvm3::{MailboxFlags, Pack, Task, Tid};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::env;
use std::error::Error;
use std::time::{Duration, Instant};

const LOSS: i32 = 1;
const EXIT: i32 = 2;
const DONE: i32 = 3;

/// Changes of a kind, of which the median counts. Hosts take longer.
const CHANGES: usize = 101;
const HOSTS: usize = 7;
/// The name of what is changed.
const NAME: &str = "pvm-bench";

/// A loss takes a few seconds to be reported.
const LOSS_LIMIT: Duration = Duration::from_secs(30);
/// Without a further notice for this long, there is none.
const NO_MORE: Duration = Duration::from_secs(2);

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

#[derive(Parser)]
enum Operation {
    StartUp,
    Hosts,
    Spawn { tasks: usize },
    Loss { pid: i32 },
    Changes,
    Succession { pid: i32 },
    Work,
}

fn main() -> Outcome {
    let operation = Operation::parse();
    let mut task = Task::enrol()?;
    match operation {
        Operation::StartUp => {
            task.start_up()?.into_iter().filter_map(Result::err).for_each(|failure| println!("{failure}"));
        }
        Operation::Hosts => println!("{}", task.hosts()?.len()),
        Operation::Spawn { tasks } => {
            for _ in 0..2 {
                let (hosts, seconds) = spawn(&mut task, tasks)?;
                println!("{hosts} {seconds:.9}");
            }
        }
        Operation::Loss { pid } => lose(&mut task, pid)?.iter().for_each(|seconds| println!("{seconds:.9}")),
        Operation::Changes => changes(&mut task)?.iter().for_each(|seconds| println!("{seconds:.9}")),
        Operation::Succession { pid } => println!("{:.9}", succeed(&mut task, pid)?),
        Operation::Work => {
            let parent = task.parent().ok_or("this task was not spawned")?;
            task.recv(parent, DONE)?;
        }
    }
    Ok(task.exit()?)
}

/// The number of hosts that got tasks, and the seconds of the call. The tasks have exited afterwards.
fn spawn(task: &mut Task, count: usize) -> Outcome<(usize, f64)> {
    let program = env::current_exe()?;
    let start = Instant::now();
    // So that each host gets a task, even if other programs run on this computer.
    let spawned = task.spawn(program).arg("work").count(count).policy("round-robin").start()?;
    let seconds = start.elapsed().as_secs_f64();
    if let Some(error) = spawned.failed.first() {
        return Err(format!("{} of {count} tasks did not start: {error}", spawned.failed.len()).into());
    }
    let hosts: BTreeSet<_> = spawned.tids.iter().map(|tid| tid.host()).collect();
    task.notify_exit(&spawned.tids, EXIT)?;
    task.multicast(&spawned.tids, DONE, &Pack::new())?;
    for _ in &spawned.tids {
        task.recv(Tid::MY_DAEMON, EXIT)?;
    }
    Ok((hosts.len(), seconds))
}

/// The seconds from the end of a daemon to each notice of a lost host.
fn lose(task: &mut Task, daemon: i32) -> Outcome<Vec<f64>> {
    let hosts: Vec<Tid> = task.hosts()?.iter().map(|host| host.tid).collect();
    task.notify_host_delete(&hosts, LOSS)?;
    // The subscription has no answer; that of a later request shows that the daemon has it.
    task.hosts()?;
    let killed = kill(daemon)?;
    let mut notices = Vec::new();
    let mut limit = LOSS_LIMIT;
    while task.recv_timeout(Tid::MY_DAEMON, LOSS, limit)?.is_some() {
        notices.push(killed.elapsed().as_secs_f64());
        limit = NO_MORE;
    }
    Ok(notices)
}

/// Kills a daemon; when that was.
fn kill(daemon: i32) -> Outcome<Instant> {
    let pid = Pid::from_raw(daemon).ok_or("no process id")?;
    kill_process(pid, Signal::KILL)?;
    Ok(Instant::now())
}

/// The median seconds of a change, each of which is undone before the next.
fn median<T>(
    task: &mut Task,
    times: usize,
    change: impl Fn(&mut Task) -> Outcome<T>,
    undo: impl Fn(&mut Task, T) -> Outcome,
) -> Outcome<f64> {
    let mut all = Vec::with_capacity(times);
    for _ in 0..times {
        let start = Instant::now();
        let changed = change(task)?;
        all.push(start.elapsed().as_secs_f64());
        undo(task, changed)?;
    }
    all.sort_by(f64::total_cmp);
    Ok(all[times / 2])
}

/// The median seconds of an entry more in the mailbox, a member more of a group, and a host more.
fn changes(task: &mut Task) -> Outcome<[f64; 3]> {
    let entry = median(task, CHANGES, put, |task, index| Ok(task.delete_info(NAME, index)?))?;
    let join = |task: &mut Task| Ok(task.group(NAME).join()?);
    let member = median(task, CHANGES, join, |task, _| Ok(task.group(NAME).leave()?))?;
    let add = |task: &mut Task| match &task.add_hosts(&[NAME])?[..] {
        [Ok(_)] => Ok(()),
        added => Err(format!("no host is added: {added:?}").into()),
    };
    let delete = |task: &mut Task, ()| {
        task.delete_hosts(&[NAME])?;
        Ok(())
    };
    let host = median(task, HOSTS, add, delete)?;
    Ok([entry, member, host])
}

fn put(task: &mut Task) -> Outcome<i32> {
    Ok(task.put_info(NAME, &Pack::new(), MailboxFlags::DEFAULT)?)
}

/// The seconds from the end of the master's daemon to the answer of a request to the master.
fn succeed(task: &mut Task, master: i32) -> Outcome<f64> {
    let index = put(task)?;
    task.delete_info(NAME, index)?;
    let killed = kill(master)?;
    put(task)?;
    Ok(killed.elapsed().as_secs_f64())
}
