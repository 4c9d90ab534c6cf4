//! One move of one task among others that write to it and watch it. A host vanishes after each event of the move in turn: the old host, the
//! new one, and the master.

use crate::check;
use crate::journal::Subject;
use crate::operations::{at_work, move_task_to, operate, send, watch};
use crate::plan::{Op, Plan};
use crate::world::{self, World};
use pvm_wire::{HostIndex, Tid};
use pvmd_simulated::process::ProcId;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const HOSTS: u32 = 5;
/// Events between two messages.
const PAUSE: u64 = 7;
/// Bytes of a message: every third has several fragments.
const SIZES: [usize; 3] = [10, 3000, 130_000];
/// Events after which a move has not gone well.
const EVENTS_MAX: u64 = 5000;
/// Time for a daemon to start a task, and for a loss to be known.
const WHILE: Duration = Duration::from_secs(5);

/// From which host to which a task moves: between slaves, from the master, and to it.
const WAYS: [(u32, u32); 3] = [(2, 3), (1, 3), (2, 1)];

/// Which host vanishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Old,
    New,
    Master,
}

/// A virtual machine with a task that can move.
struct Scene {
    world: World,
    old: HostIndex,
    new: HostIndex,
    mover: Tid,
    /// A task on each host, the first on the master's.
    others: Vec<Tid>,
    events: u64,
}

fn host(index: u32) -> HostIndex {
    HostIndex::new(index).expect("a host's index")
}

fn process_of(world: &World, tid: Tid) -> Option<ProcId> {
    at_work(world).into_iter().find(|id| world.processes[id].tid == Some(tid))
}

impl Scene {
    /// A virtual machine in which each host has a task that watches the one that is to move.
    fn new(old: u32, new: u32) -> Self {
        let plan = Plan {
            // Neither links that are left all the time nor rows.
            seed: 4,
            hosts: HOSTS,
            turns: false,
            shares: false,
            deputies: 3,
            width: None,
            watched_max: 256,
            ops: Vec::new(),
        };
        let mut world = world::new(&plan);
        world.calm_down();
        world.pass_until_formed(HOSTS as usize);
        for n in 0..HOSTS {
            operate(&mut world, Op::Enrol(n));
            world.pass(Duration::from_millis(10));
        }
        let tids: Vec<Tid> = at_work(&world).iter().filter_map(|id| world.processes[id].tid).collect();
        assert_eq!(tids.len(), HOSTS as usize);
        // The one that can be moved is a child of a task on a host that stays.
        operate(&mut world, Op::Spawn(HOSTS - 1, 5, if old == 1 { 8 } else { old - 1 }));
        world.pass(WHILE);
        let (old, new) = (host(old), host(new));
        let is_child = |id: &ProcId| world.processes[id].cookie.is_some() && world.processes[id].host == old;
        let mover = at_work(&world).into_iter().find(is_child).expect("a child that has enrolled");
        let mover = world.processes[&mover].tid.expect("an id");
        let mut scene = Self { world, old, new, mover, others: tids, events: 0 };
        scene.watch_each_other();
        scene
    }

    fn watch_each_other(&mut self) {
        for other in self.others.clone() {
            for (by, subject) in [(other, self.mover), (self.mover, other)] {
                let id = process_of(&self.world, by).expect("it is alive");
                watch(&mut self.world, id, by, Subject::Task(subject));
            }
        }
        self.world.pass(WHILE);
    }

    /// A task on a host that stays asks for the move.
    fn begin(&mut self) {
        let asker = process_of(&self.world, self.others[HOSTS as usize - 1]).expect("it is alive");
        let mover = process_of(&self.world, self.mover).expect("it is alive");
        move_task_to(&mut self.world, asker, mover, self.new.host_tid());
    }

    /// The next event of the move. Meanwhile tasks write to the one that moves, and it writes to them.
    fn step(&mut self) {
        if self.events.is_multiple_of(PAUSE) {
            self.exchange(self.events / PAUSE);
        }
        self.events += 1;
        self.world.step();
    }

    /// A task writes to the one that moves, which writes to that task.
    fn exchange(&mut self, n: u64) {
        let other = self.others[(n % u64::from(HOSTS)) as usize];
        for (from, to) in [(other, self.mover), (self.mover, other)] {
            if let Some(id) = process_of(&self.world, from) {
                send(&mut self.world, id, to, SIZES[(n % 3) as usize]);
            }
        }
    }

    /// Whether the task has moved and nothing is kept for it any more.
    fn is_over(&self) -> bool {
        let moves = self.world.hosts.values().map(|host| host.daemon.census().moves);
        self.world.moved > 0 && moves.sum::<usize>() == 0
    }

    /// The host that vanishes, unless it is another victim's or the asker's.
    fn host_of(&self, victim: Victim) -> HostIndex {
        match victim {
            Victim::Old => self.old,
            Victim::New => self.new,
            Victim::Master => HostIndex::MASTER,
        }
    }

    /// A host vanishes; what must be true then.
    fn lose(&mut self, victim: Victim) {
        let lost = self.host_of(victim);
        let is_safe = self.is_safe_without(lost);
        if self.events.is_multiple_of(2) {
            self.world.off.insert(lost);
        }
        self.world.vanish(lost);
        for n in 0..u64::from(HOSTS) {
            self.exchange(n);
        }
        self.world.pass(4 * WHILE);
        let is_alive = process_of(&self.world, self.mover).is_some();
        if is_safe && !is_alive {
            self.world.tasks.fault(format!("the task is lost with host {lost}, where it did not live"));
        }
        for n in 0..u64::from(HOSTS) {
            self.exchange(n);
        }
        check::check_going_on(&mut self.world);
    }

    /// Whether the task outlives this host for certain: it lives elsewhere, and does not wait for the decision where.
    fn is_safe_without(&self, lost: HostIndex) -> bool {
        let home = process_of(&self.world, self.mover).map(|id| self.world.processes[&id].host);
        home.map_or(lost != self.old && lost != self.new, |home| home != lost)
    }
}

/// The events of a move in which nothing fails.
fn undisturbed(old: u32, new: u32) -> u64 {
    let mut scene = Scene::new(old, new);
    scene.begin();
    while !scene.is_over() {
        scene.step();
        assert!(scene.events < EVENTS_MAX, "it does not move");
    }
    let events = scene.events;
    check::check_going_on(&mut scene.world);
    assert_eq!(scene.world.tasks.faults, Vec::<String>::new());
    events
}

/// The move up to the event of this number, after which a host vanishes.
fn disturbed((old, new): (u32, u32), victim: Victim, event: u64) -> Result<(), String> {
    let run = || {
        let mut scene = Scene::new(old, new);
        scene.begin();
        while scene.events < event {
            scene.step();
        }
        scene.lose(victim);
        scene.world.tasks.faults.join("\n  ")
    };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(faults) if faults.is_empty() => Ok(()),
        Ok(faults) => Err(faults),
        Err(panic) => Err(format!("panic: {}", panic.downcast_ref::<String>().cloned().unwrap_or_default())),
    }
}

/// Each victim after each event, for each way.
fn cases() -> Vec<((u32, u32), Victim, u64)> {
    let mut cases = Vec::new();
    for way in WAYS {
        let events = undisturbed(way.0, way.1);
        println!("from host {} to host {}: {events} events", way.0, way.1);
        let is_apart = way.0 != 1 && way.1 != 1;
        for victim in [Victim::Old, Victim::New, Victim::Master] {
            if victim != Victim::Master || is_apart {
                cases.extend((0..=events).map(|event| (way, victim, event)));
            }
        }
    }
    cases
}

#[test]
fn a_host_may_vanish_after_each_event_of_a_move() {
    let cases = cases();
    let (next, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(&(way, victim, event)) =
                    cases.get(next.fetch_add(1, Ordering::Relaxed) as usize)
                {
                    if let Err(reason) = disturbed(way, victim, event) {
                        failed.fetch_add(1, Ordering::Relaxed);
                        println!("{way:?}, {victim:?} after event {event}:\n  {reason}");
                    }
                }
            });
        }
    });
    let failed = failed.into_inner();
    assert_eq!(failed, 0, "of {} cases, see above", cases.len());
}

#[test]
fn a_task_that_lives_twice_is_noticed() {
    let mut scene = Scene::new(2, 3);
    scene.begin();
    let bystander = process_of(&scene.world, scene.others[3]).expect("it is alive");
    scene.world.processes.get_mut(&bystander).expect("it is there").tid = Some(scene.mover);
    for _ in 0..EVENTS_MAX {
        scene.world.step();
        if scene.world.moved > 0 {
            break;
        }
    }
    let faults = &scene.world.tasks.faults;
    assert!(faults.iter().any(|fault| fault.contains("lives twice")), "{faults:?}");
}
