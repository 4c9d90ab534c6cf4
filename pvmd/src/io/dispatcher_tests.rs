use super::*;
use crate::io::captured_log::CapturedLog;
use rustix::thread::CapabilitySet;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit of one step, generous for a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A process that computes, and ends when it is asked to.
struct Spinner(Child);

impl Spinner {
    fn new() -> Self {
        let mut command = Command::new("sh");
        Self(command.args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    /// As `ps` shows it: R, S, T, …
    fn state(&self) -> char {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    }

    fn wait_for(&self, wanted: char) {
        let end = Instant::now() + LIMIT;
        while self.state() != wanted {
            assert!(Instant::now() < end, "{} in place of {wanted}", self.state());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn class(&self) -> i32 {
        process::class_of(self.pid()).unwrap()
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A guardian without a daemon's executable: the end of its input ends it, too.
fn turns(means: Means) -> Turns {
    Turns { guardian: ["sh", "-c", "cat"].map(OsString::from).to_vec(), ..Turns::new(means, &[]) }
}

#[test]
fn stopped_tasks_are_let_go() {
    let (task, mut turns) = (Spinner::new(), turns(Means::Stop));
    assert!(!turns.are_taken());
    turns.set(task.pid(), false);
    task.wait_for('T');
    assert!(turns.are_taken());
    turns.set(task.pid(), true);
    task.wait_for('R');
    assert!(!turns.are_taken());
    turns.set(task.pid(), false);
    task.wait_for('T');
    turns.free_all();
    task.wait_for('R');
}

#[test]
fn a_stopped_task_hears_that_it_is_to_end() {
    let (mut task, mut turns) = (Spinner::new(), turns(Means::Stop));
    turns.set(task.pid(), false);
    task.wait_for('T');
    turns.settle();
    assert!(turns.prompt.is_some());
    turns.signal(task.pid(), 15).unwrap();
    turns.settle();
    assert!(turns.prompt.is_none());
    assert!(!task.0.wait().unwrap().success());
    turns.ended(task.pid());
    assert!(turns.held.is_empty());
}

/// The daemon goes before others only while somebody waits for a turn.
#[test]
fn when_the_last_one_that_is_held_ends_the_daemon_is_like_anybody() {
    let mut turns = turns(Means::Stop);
    for lets_all_go in [false, true] {
        let task = Spinner::new();
        turns.set(task.pid(), false);
        turns.settle();
        assert!(turns.prompt.is_some());
        if lets_all_go {
            turns.free_all();
        } else {
            turns.ended(task.pid());
        }
        assert!(turns.prompt.is_none());
    }
}

/// Who was stopped by its user is not continued when its turn comes, and who is continued waits for its turn.
#[test]
fn what_the_user_stops_stays_stopped() {
    let (task, mut turns) = (Spinner::new(), turns(Means::Stop));
    turns.signal(task.pid(), SIGSTOP).unwrap();
    turns.set(task.pid(), false);
    turns.set(task.pid(), true);
    std::thread::sleep(Duration::from_millis(20));
    task.wait_for('T');
    turns.set(task.pid(), false);
    turns.signal(task.pid(), SIGCONT).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(task.state(), 'T');
    turns.set(task.pid(), true);
    task.wait_for('R');
}

/// It has ended while the order to hold it was on its way.
#[test]
fn who_has_ended_is_no_reason_to_give_up() {
    for means in [Means::Stop, Means::Auto] {
        let (mut task, mut turns) = (Spinner::new(), turns(means));
        turns.set(task.pid(), false);
        let is_possible = !turns.is_given_up;
        turns.set(task.pid(), true);
        task.0.kill().unwrap();
        task.0.wait().unwrap();
        turns.set(task.pid(), false);
        turns.set(task.pid(), true);
        assert_eq!(turns.is_given_up, !is_possible, "{means:?}");
    }
}

#[test]
fn priorities_are_changed_and_restored() {
    if !process::may_change_class() {
        return eprintln!("not allowed here: nothing to try");
    }
    let (task, mut turns) = (Spinner::new(), turns(Means::Auto));
    assert_eq!(turns.name(), "priorities");
    turns.set(task.pid(), false);
    assert_eq!(task.class(), libc::SCHED_IDLE);
    turns.set(task.pid(), true);
    assert_eq!(task.class(), libc::SCHED_OTHER);
    turns.set(task.pid(), false);
    turns.free_all();
    assert_eq!(task.class(), libc::SCHED_OTHER);
}

#[test]
fn without_a_guardian_nothing_is_held() {
    let task = Spinner::new();
    let mut turns = Turns { guardian: vec!["/no/such/program".into()], ..Turns::new(Means::Stop, &[]) };
    turns.set(task.pid(), false);
    assert!(turns.is_given_up && turns.held.is_empty());
    assert_eq!(turns.name(), "none");
    task.wait_for('R');
    turns.set(task.pid(), false);
    assert_ne!(task.state(), 'T');
}

/// The guardian has died: all are let go at the next turn.
#[test]
fn a_lost_guardian_is_noticed() {
    let (first, second) = (Spinner::new(), Spinner::new());
    let mut turns =
        Turns { guardian: ["sh", "-c", "read line"].map(OsString::from).to_vec(), ..turns(Means::Stop) };
    turns.set(first.pid(), false);
    first.wait_for('T');
    let end = Instant::now() + LIMIT;
    while !turns.is_given_up {
        assert!(Instant::now() < end);
        turns.set(second.pid(), false);
        turns.set(second.pid(), true);
    }
    first.wait_for('R');
    second.wait_for('R');
}

/// The same where the guardian is told of each process once.
#[test]
fn a_lost_guardian_is_noticed_by_who_has_nothing_to_say_to_it() {
    if !process::may_change_class() {
        return eprintln!("not allowed here: nothing to try");
    }
    let task = Spinner::new();
    let guardian = ["sh", "-c", "read line"].map(OsString::from).to_vec();
    let mut turns = Turns { guardian, ..turns(Means::Priorities) };
    let end = Instant::now() + LIMIT;
    while !turns.is_given_up {
        assert!(Instant::now() < end);
        turns.set(task.pid(), false);
        turns.set(task.pid(), true);
    }
    assert_eq!((task.class(), turns.held.len()), (libc::SCHED_OTHER, 0));
}

/// Who may not change classes finds that out once, says so once, and lets all run.
#[test]
fn without_rights_nobody_is_held() {
    let attempt = || {
        let (log, _guard) = CapturedLog::start();
        let mut rights = rustix::thread::capabilities(None).unwrap();
        rights.effective.remove(CapabilitySet::SYS_NICE);
        rustix::thread::set_capabilities(None, rights).unwrap();
        if process::may_change_class() {
            return eprintln!("RLIMIT_NICE allows it: nothing to try");
        }
        let (task, mut turns) = (Spinner::new(), turns(Means::Priorities));
        assert_eq!(turns.name(), "none");
        for runs in [false, true, false] {
            turns.set(task.pid(), runs);
            assert!(turns.is_given_up && turns.active.is_none() && turns.held.is_empty());
            assert_eq!(task.class(), libc::SCHED_OTHER);
        }
        let said = log.text();
        assert_eq!(said.matches("teams cannot take turns on this host").count(), 1, "{said}");
    };
    // Rights are a thread's.
    std::thread::spawn(attempt).join().unwrap();
}
