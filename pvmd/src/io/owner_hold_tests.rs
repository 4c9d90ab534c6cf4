//! Real processes are held.

use super::*;
use crate::io::family::VARIABLE;
use pvmd_core::event::Cookie;
use std::path::Path;
use std::process::{Child, Command};

const LIMIT: Duration = Duration::from_secs(60);

/// Processes of a family of its own, and what holds them.
struct Scene {
    holder: Holder,
    mark: Mark,
    folder: tempfile::TempDir,
    children: Vec<Child>,
}

impl Scene {
    fn new(name: &str) -> Self {
        let mark = Mark::of(&format!("{}-{name}", std::process::id()));
        let folder = tempfile::tempdir().unwrap();
        Self { holder: Holder::new(mark.clone()), mark, folder, children: Vec::new() }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// A member of the family.
    fn start(&mut self, script: &str) -> i32 {
        let entry = self.mark.entry(Cookie(1));
        let value = entry.to_str().unwrap().split_once('=').unwrap().1;
        let child = Command::new("sh").args(["-c", script]).env(VARIABLE, value).spawn().unwrap();
        let pid = child.id().cast_signed();
        self.children.push(child);
        // Not before it has the entry: it is a copy of this process before that.
        eventually(|| family::all_members(&self.mark).iter().any(|member| member.pid() == pid));
        pid
    }

    fn code_of(&mut self, pid: i32) -> Option<i32> {
        let child = self.children.iter_mut().find(|child| child.id().cast_signed() == pid).unwrap();
        child.wait().unwrap().code()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        family::end_all(&self.mark, &[]);
        for child in &mut self.children {
            let _ = child.wait();
        }
    }
}

fn eventually(mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < end, "not in time");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn number_in(file: &str) -> i32 {
    eventually(|| std::fs::read_to_string(file).is_ok_and(|text| text.ends_with('\n')));
    std::fs::read_to_string(file).unwrap().trim().parse().unwrap()
}

/// It waits, and ends by itself after a while.
const WAITS: &str = "exec sleep 1000";

#[test]
fn all_members_are_held_and_go_on() {
    let mut held = Scene::new("all");
    let file = held.path("child");
    let parent = held.start(&format!("sleep 1000 & echo $! > {file}; wait"));
    let child = number_in(&file);
    let (spared, already) = (held.start(WAITS), held.start(WAITS));
    process::signal_process(already, Signal::STOP.as_raw()).unwrap();
    eventually(|| is_stopped(already));
    held.holder.hold(vec![spared], Held::Stopped);
    eventually(|| is_stopped(parent) && is_stopped(child));
    // One that has started since.
    let later = held.start(WAITS);
    held.holder.hold(vec![spared], Held::Stopped);
    eventually(|| is_stopped(later));
    assert!(!is_stopped(spared));
    held.holder.let_go();
    eventually(|| ![parent, child, later].into_iter().any(is_stopped));
    assert!([parent, child, already].into_iter().all(|pid| !is_being_started(pid)));
    // The last order comes after all others.
    held.holder.finish();
    assert!(is_stopped(already));
}

#[test]
fn a_held_process_can_end() {
    let mut held = Scene::new("ends");
    let (ready, spoken) = (held.path("ready"), held.path("spoken"));
    let trap = format!("trap 'echo > {spoken}; exit 7' TERM; : > {ready}; while :; do sleep 0.01; done");
    let pid = held.start(&trap);
    eventually(|| Path::new(&ready).exists());
    held.holder.hold(Vec::new(), Held::Stopped);
    eventually(|| is_stopped(pid));
    process::signal_process(pid, Signal::TERM.as_raw()).unwrap();
    held.holder.signalled(pid, Signal::TERM.as_raw());
    // What it waits for is stopped still. One that it has started later is not, and may have ended since it was found.
    for member in family::all_members(&held.mark) {
        if member.pid() != pid {
            assert!(member.signal(Signal::KILL) || !member.is_there());
        }
    }
    assert_eq!(held.code_of(pid), Some(7));
    assert!(Path::new(&spoken).exists());
}

#[test]
fn others_do_not_let_a_held_process_go_on() {
    let mut held = Scene::new("others");
    let pid = held.start(WAITS);
    held.holder.hold(Vec::new(), Held::Stopped);
    eventually(|| is_stopped(pid));
    process::signal_process(pid, Signal::CONT.as_raw()).unwrap();
    held.holder.signalled(pid, Signal::CONT.as_raw());
    eventually(|| is_stopped(pid));
    process::signal_process(pid, Signal::CONT.as_raw()).unwrap();
    held.holder.freed(pid);
    eventually(|| is_stopped(pid));
    // What a person stops meanwhile stays so.
    process::signal_process(pid, Signal::STOP.as_raw()).unwrap();
    held.holder.signalled(pid, Signal::STOP.as_raw());
    held.holder.let_go();
    held.holder.finish();
    assert!(is_stopped(pid));
    process::signal_process(pid, Signal::CONT.as_raw()).unwrap();
}

#[test]
fn at_the_end_all_go_on() {
    let mut held = Scene::new("end");
    let pid = held.start(WAITS);
    // Nothing was held yet.
    held.holder.finish();
    held.holder.hold(Vec::new(), Held::Stopped);
    eventually(|| is_stopped(pid));
    held.holder.finish();
    assert!(!is_stopped(pid));
}

#[test]
fn one_that_was_asked_to_end_and_does_not_is_held_again() {
    let mut held = Scene::new("again");
    let pid = held.start(&format!("trap '' INT; {WAITS}"));
    // Not before the shell has become what ignores it.
    eventually(|| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n"));
    let mut hold = Hold::new(held.mark.clone());
    hold.hold(BTreeSet::new(), Held::Stopped);
    eventually(|| is_stopped(pid));
    hold.signalled(pid, Signal::INT.as_raw());
    assert!(!is_stopped(pid));
    // Nor is it held by an order of that time.
    hold.hold(BTreeSet::new(), Held::Stopped);
    assert!(!is_stopped(pid));
    hold.ending.values_mut().for_each(|at| *at = Instant::now());
    hold.end_patience();
    eventually(|| is_stopped(pid));
    hold.let_go();
    assert!(!is_stopped(pid));
}

#[test]
fn the_least_is_what_others_leave() {
    let mut held = Scene::new("least");
    let pid = held.start(WAITS);
    let is_idle = |pid| class_of(pid) == Some(libc::SCHED_IDLE);
    held.holder.hold(Vec::new(), Held::Least);
    eventually(|| is_idle(pid) || is_stopped(pid));
    if is_stopped(pid) {
        // It could not be taken back on this machine.
        return;
    }
    // What a held process starts has its class.
    let later = held.start(WAITS);
    process::set_idle_class(later, true).unwrap();
    held.holder.let_go();
    eventually(|| !is_idle(pid) && !is_idle(later));
    assert!(!is_stopped(pid));
    // The way changes.
    held.holder.hold(Vec::new(), Held::Least);
    eventually(|| is_idle(pid));
    held.holder.hold(Vec::new(), Held::Stopped);
    eventually(|| is_stopped(pid) && !is_idle(pid));
    held.holder.finish();
}
