//! What is done to a machine: a list of operations, drawn from a seed, that can be shortened and written down.

use pvmd_simulated::Random;

/// One operation. Numbers choose among what there is at that time, so that a plan keeps its sense when parts of it
/// are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Nothing for this time, in microseconds.
    Wait(u32),
    /// A task nobody spawned enrols on a host.
    Enrol(u32),
    /// A task spawns this number of tasks: anywhere, or (the last number is not 0) on a host.
    Spawn(u32, u32, u32),
    /// A task queues a batch of this number of tasks, each with this number of restarts.
    Queue(u32, u32, u32),
    /// A task submits a job of this number of tasks, rigid if the last number is a multiple of three, held back by an earlier one if it
    /// is one more.
    Submit(u32, u32, u32),
    /// A task holds, releases or cancels a job.
    ChangeJob(u32, u32),
    /// A task cancels a batch.
    CancelBatch(u32, u32),
    /// A task sends another this number of messages, each of this length in bytes.
    Send(u32, u32, u32, u32),
    /// A task sends to all.
    Multicast(u32),
    /// A task subscribes to the end of another.
    WatchTask(u32, u32),
    /// A task subscribes to the departure of a host.
    WatchHost(u32, u32),
    /// A task subscribes to arrivals.
    WatchArrivals(u32),
    /// A task wants to be told of losses.
    Observe(u32),
    /// A task takes a subscription back.
    Unwatch(u32, u32),
    /// A task asks for something that is answered: a list, a state, a time, …
    Ask(u32, u32),
    /// A task leaves an entry in the mailbox, or takes one (perhaps waiting for it).
    Mail(u32, u32),
    /// A task joins or leaves a group.
    Group(u32, u32),
    /// A task writes to its standard output.
    Print(u32),
    /// A task leaves in order.
    Leave(u32),
    /// A task is killed.
    Kill(u32),
    /// A task sends a signal that ends another.
    Signal(u32, u32),
    /// A task does not read for this time, in milliseconds.
    Stop(u32, u32),
    /// The managers of a host are killed.
    KillManagers(u32),
    /// A daemon and its host vanish.
    Crash(u32),
    /// What one host sends another is held back for this time, in milliseconds.
    Cut(u32, u32, u32),
    /// The link between two hosts breaks.
    Reset(u32, u32),
    /// A task adds this number of hosts.
    AddHosts(u32, u32),
    /// A task deletes a host.
    DeleteHost(u32, u32),
    /// A host's load is read.
    Load(u32, u32),
    /// The owner of a host is back, or (an even number) leaves.
    Owner(u32, u32),
    /// A host's clock jumps forward by a number of milliseconds.
    Jump(u32, u32),
    /// The master's daemon vanishes, and the machine with it unless it has deputies. An odd number: its host is off.
    CrashMaster(u32),
    /// A task has another moved, to a host or (an even number) to any.
    Move(u32, u32, u32),
    /// A task halts the machine.
    Halt(u32),
    /// A task joins a team of this number.
    Team(u32, u32),
    /// A task reports that it sleeps, or (an odd number) no longer.
    Sleep(u32, u32),
    /// A task reports that it has sent to another on a direct route, and waits.
    Await(u32, u32),
    /// A task reports an epoch that it has heard on a direct route of another.
    HearEpoch(u32, u32, u32),
    /// A task wants to read which team has the turn.
    Page(u32),
}

impl Op {
    /// The number of the task that carries it out, if it is a task's.
    pub fn task(self) -> Option<u32> {
        match self {
            Op::Spawn(by, ..)
            | Op::Queue(by, ..)
            | Op::Submit(by, ..)
            | Op::ChangeJob(by, _)
            | Op::CancelBatch(by, _)
            | Op::Send(by, ..)
            | Op::Multicast(by)
            | Op::WatchTask(by, _)
            | Op::WatchHost(by, _)
            | Op::WatchArrivals(by)
            | Op::Observe(by)
            | Op::Unwatch(by, _)
            | Op::Ask(by, _)
            | Op::Mail(by, _)
            | Op::Group(by, _)
            | Op::Print(by)
            | Op::Leave(by)
            | Op::Kill(by)
            | Op::Signal(by, _)
            | Op::Stop(by, _)
            | Op::AddHosts(by, _)
            | Op::DeleteHost(by, _)
            | Op::Move(by, ..)
            | Op::Halt(by)
            | Op::Team(by, _)
            | Op::Sleep(by, _)
            | Op::Await(by, _)
            | Op::HearEpoch(by, ..)
            | Op::Page(by) => Some(by),
            _ => None,
        }
    }
}

/// A whole run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub seed: u64,
    /// Hosts of the hostfile, the master's included.
    pub hosts: u32,
    /// Whether teams take turns on its hosts.
    pub turns: bool,
    /// Whether its tasks share memory with others of their host.
    pub shares: bool,
    /// Most hosts that hold the master's state.
    pub deputies: usize,
    /// Daemons that a host starts at a time; `None`: all hosts are on the master's.
    pub width: Option<usize>,
    /// Hosts up to which the master checks each other host at the full rate.
    pub watched_max: usize,
    pub ops: Vec<Op>,
}

impl Plan {
    /// The plan of a seed, with this number of operations.
    pub fn new(seed: u64, length: usize) -> Self {
        let mut random = Random::new(seed ^ 0x5eed);
        let hosts = 1 + random.below(5) as u32;
        let turns = seed % 2 == 1;
        let shares = seed % 4 > 1;
        let deputies = [1, 3, 3, 5][(seed / 2 % 4) as usize];
        let width = [None, Some(1), Some(2), None][(seed / 8 % 4) as usize];
        let watched_max = [256, 2, 3, 256][(seed / 32 % 4) as usize];
        let one = |_| match random.below(100) {
            0 if deputies > 1 => Op::CrashMaster(random.below(2) as u32),
            n if turns && n % 5 == 1 => draw_turns(&mut random),
            // In some machines tasks move all the time.
            n if seed % 7 == 2 && n < 15 || n == 17 => {
                let mut n = || random.below(1 << 16) as u32;
                Op::Move(n(), n(), n())
            }
            _ => draw(&mut random),
        };
        let mut ops: Vec<Op> = (0..length.saturating_sub(1)).map(one).collect();
        ops.push(match random.below(16) {
            0 => Op::CrashMaster(0),
            1 => Op::Halt(0),
            _ => Op::Wait(1),
        });
        Self { seed, hosts, turns, shares, deputies, width, watched_max, ops }
    }
}

/// What only matters where teams take turns.
fn draw_turns(random: &mut Random) -> Op {
    let mut n = || random.below(1 << 16) as u32;
    let (kind, a, b, c) = (n() % 8, n(), n(), n());
    match kind {
        0 | 1 => Op::Team(a, b % 3),
        2 | 3 => Op::Sleep(a, b),
        4 | 5 => Op::Await(a, b),
        6 => Op::HearEpoch(a, b, c),
        _ => Op::Page(a),
    }
}

fn draw(random: &mut Random) -> Op {
    let mut n = || random.below(1 << 16) as u32;
    let (kind, a, b, c) = (n() % 100, n(), n(), n());
    match kind {
        0..=14 => Op::Wait([50, 1000, 30_000, 1_500_000][(a % 4) as usize]),
        15..=22 => Op::Enrol(a),
        23..=32 => Op::Spawn(a, 1 + b % 6, if c % 3 == 0 { 1 + c } else { 0 }),
        33..=44 => Op::Send(a, b, 1 + c % 4, [10, 3000, 9000, 200_000][(c % 4) as usize]),
        45 => Op::Send(a, b, 20 + c % 40, 300_000),
        46..=48 => Op::Multicast(a),
        49..=55 => Op::WatchTask(a, b),
        56..=58 => Op::WatchHost(a, b),
        59 if c % 2 == 0 => Op::WatchArrivals(a),
        59 => Op::Observe(a),
        60 if c % 2 == 0 => Op::Owner(a, b),
        60 => Op::Unwatch(a, b),
        61..=65 => Op::Ask(a, b),
        66..=68 => Op::Mail(a, b),
        69..=71 => Op::Group(a, b),
        72 => Op::Print(a),
        73..=75 => Op::Leave(a),
        76..=79 => Op::Kill(a),
        80 => Op::Signal(a, b),
        81..=83 => Op::Stop(a, 1 + b % 3000),
        84..=86 => Op::KillManagers(a),
        87 => Op::Crash(a),
        88..=90 => Op::Cut(a, b, [100, 1000, 2900, 10_000][(c % 4) as usize]),
        91 => Op::Reset(a, b),
        92..=95 => Op::AddHosts(a, 1 + b % 2),
        96 => Op::DeleteHost(a, b),
        97 if c % 2 == 0 => Op::Load(a, b % 3),
        97 => Op::Jump(a, [100, 2900, 20_000, 3_600_000][(b % 4) as usize]),
        98 if c % 4 == 0 => Op::CancelBatch(a, b),
        98 => Op::Queue(a, 1 + b % 5, c / 4 % 3),
        _ if c % 4 == 0 => Op::ChangeJob(a, b),
        _ => Op::Submit(a, 1 + b % 6, c / 4),
    }
}
