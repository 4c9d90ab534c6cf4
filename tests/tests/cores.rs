//! A daemon that may use a part of a computer, as a job of Slurm or a container gives it: what others do with the rest takes no room.

use pvm_tests::machine::Plan;
use pvm_tests::program::Program;
use pvm_tests::quota::Quota;
use pvm_tests::{Installation, Machine, peers, wait};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The daemon reads how busy the cores are every 1 to 1.75 seconds. This is long enough for a whole reading, after one that began before.
const SETTLED: Duration = Duration::from_millis(3600);

/// A core, and another one.
const OURS: usize = 0;
const THEIRS: usize = 1;

/// Each test wants to know what is busy.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Only this core for the calling thread and what it starts.
fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).expect("this thread is pinned");
}

/// Work that is none of the daemon's, until this is dropped.
struct Work {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Work {
    fn on(core: usize) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            pin(core);
            while !seen.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        Self { is_over, thread: Some(thread) }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The cores that the daemon takes to be busy.
fn busy_cores(machine: &Machine) -> f64 {
    let dumped = Program::run(machine.command(machine.installation().pvm()).arg("dump"));
    let number = |line: &str| line.strip_prefix("busy cores ")?.split(' ').next()?.parse().ok();
    dumped.stdout.lines().find_map(number).unwrap_or_else(|| panic!("{dumped:#?}"))
}

/// The same when it has surely read them anew.
fn busy_cores_later(machine: &Machine) -> f64 {
    thread::sleep(SETTLED);
    busy_cores(machine)
}

/// What is installed, if this computer has two cores.
fn on_two_cores(check: &str) -> Option<Installation> {
    let ours = Installation::ours_only(check)?;
    if thread::available_parallelism().is_ok_and(|cores| cores.get() > THEIRS) {
        return Some(ours);
    }
    peers::unchecked(check, "this computer has one core");
    None
}

#[test]
fn work_on_cores_that_a_daemon_may_not_use_takes_no_room() {
    let Some(ours) = on_two_cores("load on other cores") else { return };
    let _alone = alone();
    pin(OURS);
    let machine = Plan::of(&ours).start();
    let work = Work::on(THEIRS);
    let beside = busy_cores_later(&machine);
    drop(work);
    assert!(beside < 0.5, "others are busy on another core: {beside}");
    let _work = Work::on(OURS);
    wait::becomes_true("others are busy on this core", || busy_cores(&machine) > 0.7);
    machine.finish();
}

#[test]
fn work_beside_the_quota_of_a_daemons_control_group_takes_no_room() {
    const CHECK: &str = "load outside of a control group";
    let Some(ours) = on_two_cores(CHECK) else { return };
    let _alone = alone();
    let group = match Quota::new("daemon", 1.0, 20_000.0) {
        Ok(group) => group,
        Err(reason) => return peers::unchecked(CHECK, &reason),
    };
    let machine = group.within(|| Plan::of(&ours).start()).expect("a daemon in the group");
    let work = Work::on(THEIRS);
    let outside = busy_cores_later(&machine);
    assert!(outside < 0.5, "what others leave is as much as the quota: {outside}");
    let more = Work::on(OURS);
    wait::becomes_true("others leave nothing", || busy_cores(&machine) > 0.7);
    drop((work, more));
    wait::becomes_true("others are gone", || busy_cores(&machine) < 0.5);
    let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("a process");
    group.take(busy.id().cast_signed()).expect("it is in the group");
    let is_seen = wait::holds(|| busy_cores(&machine) > 0.7);
    busy.kill().and_then(|()| busy.wait()).expect("it ends");
    assert!(is_seen, "others are busy in the group");
    machine.finish();
}
