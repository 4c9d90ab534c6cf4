//! Families: the processes that a task starts, and those that they start. When the daemon ends a task, or ends itself, the family ends too.
//!
//! A process is known by an entry of its environment, which says which daemon and which task it comes from. Children inherit it, so a
//! session of its own or the end of its parent takes no process out of its family. A process that has no such entry belongs to the
//! family of its parent. Another value (`none`) takes a process, and what it starts, out of the family.
//!
//! A process without an entry whose parent has ended is known by a resource limit, which says the same as the entry: `RLIMIT_LOCKS`,
//! which every process inherits, whatever becomes of its environment, its session and its parents, and which means nothing to Linux
//! since 2.4.25 (getrlimit(2)). Unlike a control group it needs no delegated hierarchy, and unlike a subreaper it still tells which of
//! a daemon's tasks an orphan comes from, and works when that daemon is gone.

use crate::io::process::{CpuUse, begun, cpu_use, limit_of_locks, own_memory, parent_and_begin};
use pvmd_core::event::Cookie;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, getuid, pidfd_open, pidfd_send_signal};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::fmt;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tracing::warn;

/// The variable that names the family of a process.
pub const VARIABLE: &str = "PVM_FAMILY";
/// Its value for processes that are to outlive their task.
pub const NONE: &str = "none";

/// How long a family has between SIGTERM and SIGKILL, and again until it is given up.
const GRACE: Duration = Duration::from_secs(1);
/// Between two searches for processes that were started meanwhile.
const ROUND: Duration = Duration::from_millis(100);
/// More than the kernel lets an environment have by default (a quarter of 8 MiB of stack).
const ENVIRONMENT_MAX: u64 = 4 << 20;

/// Names a daemon in the environment of its families.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark(String);

impl Mark {
    /// This process's. Its id may be another's later, but not with the same begin.
    pub fn own() -> Self {
        let pid = std::process::id();
        Self(format!("{pid}-{}", begun(pid.cast_signed()).unwrap_or(0)))
    }

    /// The mark that another process has passed on.
    pub fn of(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The entry in the environment of a task.
    pub fn entry(&self, cookie: Cookie) -> CString {
        CString::new(format!("{VARIABLE}={self}:{}", cookie.0)).unwrap_or_default()
    }

    /// The limit of locks of a task: the daemon, then the task.
    pub fn limit(&self, cookie: Cookie) -> u64 {
        u64::from(self.number()) << 32 | u64::from(cookie.0.cast_unsigned())
    }

    /// The task that a limit names.
    fn named_by(&self, limit: u64) -> Option<Cookie> {
        (limit >> 32 == u64::from(self.number())).then_some(Cookie((limit as u32).cast_signed()))
    }

    /// This mark in 31 bits (FNV-1a), with the second always set: no limit that somebody else sets is so large, but for none at all.
    fn number(&self) -> u32 {
        let hash = self
            .0
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        hash >> 2 | 1 << 30
    }

    /// What the value of [`VARIABLE`] says.
    fn read(&self, value: &[u8]) -> Stance {
        let task = value.strip_prefix(self.0.as_bytes()).and_then(|rest| rest.strip_prefix(b":"));
        let cookie = task.and_then(|task| std::str::from_utf8(task).ok()?.parse().ok());
        cookie.map_or(Stance::Apart, |cookie| Stance::Marked(Cookie(cookie)))
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the environment of a process says about its family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stance {
    /// It belongs to that of this task.
    Marked(Cookie),
    /// To none of this daemon's.
    Apart,
    /// Nothing.
    Silent,
}

/// A process at the moment of a search.
#[derive(Clone, Copy, Debug)]
struct Seen {
    pid: i32,
    parent: i32,
    begun: u64,
    stance: Stance,
    /// The task that its limit of locks names.
    limit: Option<Cookie>,
}

impl Seen {
    /// Whether it says by itself to which family it belongs: what has adopted it does not.
    fn is_named(&self) -> bool {
        match self.stance {
            Stance::Marked(_) => true,
            Stance::Apart => false,
            Stance::Silent => self.limit.is_some(),
        }
    }
}

/// A process that will not be taken for another that has its id later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    pid: i32,
    begun: u64,
}

impl Member {
    /// The process that has this id now.
    pub fn now(pid: i32) -> Option<Self> {
        Some(Self { pid, begun: begun(pid)? })
    }

    /// Its id.
    pub fn pid(self) -> i32 {
        self.pid
    }

    /// Whether it is there still.
    pub fn is_there(self) -> bool {
        begun(self.pid) == Some(self.begun)
    }

    /// Sends it a signal; false if it is not there, or not this user's.
    pub fn signal(self, signal: Signal) -> bool {
        open(self).is_some_and(|(_, process)| pidfd_send_signal(&process, signal).is_ok())
    }
}

/// Which processes are looked for.
#[derive(Debug, Default)]
struct Wanted {
    /// Families; all of this daemon's if there are none.
    families: Option<BTreeSet<Cookie>>,
    /// Tasks in their own right: neither they nor their descendants belong.
    spared: BTreeSet<i32>,
}

/// Ends families, in a thread of its own.
#[derive(Debug)]
pub struct Families {
    mark: Mark,
    orders: mpsc::Sender<Order>,
}

#[derive(Debug)]
struct Order {
    family: Cookie,
    spared: BTreeSet<i32>,
}

impl Families {
    /// Of this daemon.
    pub fn new(mark: Mark) -> std::io::Result<Self> {
        let (orders, received) = mpsc::channel();
        let own = mark.clone();
        std::thread::Builder::new().name("families".into()).spawn(move || serve(&mark, &received))?;
        Ok(Self { mark: own, orders })
    }

    /// Ends the family of a task that has ended; spares what has enrolled.
    pub fn end(&self, family: Cookie, spared: impl IntoIterator<Item = i32>) {
        if self.orders.send(Order { family, spared: spared.into_iter().collect() }).is_err() {
            warn!("the thread that ends families is gone");
        }
    }

    /// All members of all families, the tasks included.
    pub fn all(&self) -> Vec<Member> {
        all_members(&self.mark)
    }
}

/// All members of all families of a daemon, the tasks included.
pub fn all_members(mark: &Mark) -> Vec<Member> {
    members(&processes(mark), &Wanted::default())
}

/// The CPU time that each member of the families of a daemon has used.
pub fn cpu_times(mark: &Mark) -> BTreeMap<Member, CpuUse> {
    all_members(mark).into_iter().filter_map(|member| Some((member, cpu_use(member.pid)?))).collect()
}

/// Ends all families of a daemon, and these processes, which belong to them. It may take as long as they need to end.
pub fn end_all(mark: &Mark, known: &[Member]) {
    end(|| {
        let living = known.iter().filter(|member| member.is_there());
        all_members(mark).into_iter().chain(living.copied()).collect::<BTreeSet<_>>().into_iter().collect()
    });
}

/// Orders that have come together cost one search.
fn serve(mark: &Mark, orders: &mpsc::Receiver<Order>) {
    while let Ok(first) = orders.recv() {
        let mut wanted = Wanted { families: Some(BTreeSet::new()), ..Wanted::default() };
        for order in [first].into_iter().chain(orders.try_iter()) {
            wanted.families.get_or_insert_default().insert(order.family);
            wanted.spared.extend(order.spared);
        }
        end(|| members(&processes(mark), &wanted));
    }
}

/// Asks all that are found to end, and makes those that are still there after a while.
fn end(mut find: impl FnMut() -> Vec<Member>) {
    let (begin, mut asked) = (Instant::now(), BTreeSet::new());
    loop {
        let open: Vec<_> = find().into_iter().filter_map(open).collect();
        if open.is_empty() {
            return;
        }
        let is_late = begin.elapsed() >= GRACE;
        if begin.elapsed() >= 2 * GRACE {
            return warn!(count = open.len(), "processes that tasks have started do not end");
        }
        for (member, process) in &open {
            let signal = if is_late { Signal::KILL } else { Signal::TERM };
            if is_late || asked.insert(*member) {
                // It may have ended meanwhile.
                let _ = pidfd_send_signal(process, signal);
                // One that is stopped would not hear of the first signal.
                let _ = pidfd_send_signal(process, Signal::CONT);
            }
        }
        wait_for(&open, Instant::now() + ROUND);
    }
}

/// The process itself: a signal to it cannot reach another that has its id.
fn open(member: Member) -> Option<(Member, OwnedFd)> {
    let process = pidfd_open(Pid::from_raw(member.pid)?, PidfdFlags::empty()).ok()?;
    member.is_there().then_some((member, process))
}

/// Until all have ended, or that time.
fn wait_for(processes: &[(Member, OwnedFd)], deadline: Instant) {
    for (_, process) in processes {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: 0, tv_nsec: left.min(ROUND).as_nanos() as _ };
        let _ = poll(&mut [PollFd::new(&process.as_fd(), PollFlags::IN)], Some(&left));
    }
}

/// Those among all processes that belong to a wanted family.
fn members(all: &[Seen], wanted: &Wanted) -> Vec<Member> {
    let by_pid: BTreeMap<i32, &Seen> = all.iter().map(|seen| (seen.pid, seen)).collect();
    let belongs = |seen: &&Seen| belongs(seen, &by_pid, wanted);
    let found = all.iter().filter(belongs);
    found.map(|seen| Member { pid: seen.pid, begun: seen.begun }).collect()
}

/// The bytes of memory of their own that the processes of each family have together, with what is swapped out.
pub fn memory(mark: &Mark) -> BTreeMap<Cookie, u64> {
    let all = processes(mark);
    let by_pid: BTreeMap<i32, &Seen> = all.iter().map(|seen| (seen.pid, seen)).collect();
    let mut used = BTreeMap::new();
    for seen in &all {
        if let Some(family) = family_of(seen, &by_pid, &BTreeSet::new()) {
            *used.entry(family).or_default() += own_memory(seen.pid);
        }
    }
    used
}

fn belongs(process: &Seen, all: &BTreeMap<i32, &Seen>, wanted: &Wanted) -> bool {
    let families = wanted.families.as_ref();
    let family = family_of(process, all, &wanted.spared);
    family.is_some_and(|family| families.is_none_or(|families| families.contains(&family)))
}

/// The family of a process: the first entry on the way up decides; without any, the limit does. A spared ancestor that names the family
/// decides before it, as its children inherit that name. One that does not name any may have adopted the process.
fn family_of(process: &Seen, all: &BTreeMap<i32, &Seen>, spared: &BTreeSet<i32>) -> Option<Cookie> {
    let (mut at, mut family) = (process, None);
    // No chain is longer, however processes come and go while they are looked at.
    for _ in 0..=all.len() {
        if at.is_named() && spared.contains(&at.pid) {
            return None;
        }
        match at.stance {
            Stance::Marked(cookie) => drop(family.get_or_insert(cookie)),
            Stance::Apart if family.is_none() => return None,
            Stance::Silent if family.is_none() => {}
            Stance::Silent | Stance::Apart => break,
        }
        let Some(parent) = all.get(&at.parent) else { break };
        at = parent;
    }
    family.or(process.limit)
}

/// All processes of this user that have not ended.
fn processes(mark: &Mark) -> Vec<Seen> {
    let user = getuid().as_raw();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| look(pid, user, mark)).collect()
}

fn look(pid: i32, user: u32, mark: &Mark) -> Option<Seen> {
    // What lies in memory cannot be read of others.
    if std::fs::metadata(format!("/proc/{pid}")).ok()?.uid() != user {
        return None;
    }
    let (parent, begun) = parent_and_begin(pid)?;
    let mut environment = Vec::new();
    let file = std::fs::File::open(format!("/proc/{pid}/environ")).ok()?;
    file.take(ENVIRONMENT_MAX).read_to_end(&mut environment).ok()?;
    let stance = stance(&environment, mark);
    let limit = limit_of_locks(pid).and_then(|limit| mark.named_by(limit));
    Some(Seen { pid, parent, begun, stance, limit })
}

fn stance(environment: &[u8], mark: &Mark) -> Stance {
    let mut entries = environment.split(|&byte| byte == 0);
    let value = entries.find_map(|entry| entry.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"="));
    value.map_or(Stance::Silent, |value| mark.read(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark() -> Mark {
        Mark::of("7-100")
    }

    fn of(value: &str) -> Stance {
        stance(format!("A=b\0{VARIABLE}={value}\0C=").as_bytes(), &mark())
    }

    #[test]
    fn an_environment_says_which_family() {
        let entry = mark().entry(Cookie(5));
        assert_eq!(stance(entry.as_bytes(), &mark()), Stance::Marked(Cookie(5)));
        assert_eq!(of("7-100:6"), Stance::Marked(Cookie(6)));
        for other in ["none", "", "7-101:6", "7-1000:6", "7-100", "7-100:x"] {
            assert_eq!(of(other), Stance::Apart, "{other}");
        }
        assert_eq!(stance(b"PVM_FAMILYX=7-100:5\0XPVM_FAMILY=7-100:5", &mark()), Stance::Silent);
    }

    #[test]
    fn a_limit_names_the_daemon_and_the_task() {
        let limit = mark().limit(Cookie(5));
        assert_eq!(mark().named_by(limit), Some(Cookie(5)));
        assert_eq!(Mark::of("7-101").named_by(limit), None);
        // What others set, the default among them.
        for other in [0, 5, 1024, u64::MAX] {
            assert_eq!(mark().named_by(other), None);
        }
    }

    fn pids(all: &[Seen], wanted: &Wanted) -> Vec<i32> {
        members(all, wanted).iter().map(|member| member.pid).collect()
    }

    #[test]
    fn families_are_told_apart() {
        let (one, two) = (Stance::Marked(Cookie(1)), Stance::Marked(Cookie(2)));
        let seen = |pid, parent, stance| Seen { pid, parent, begun: 0, stance, limit: None };
        let all = [
            // The user's program, a task, which adopts what loses its parent; the daemon.
            seen(2, 1, Stance::Silent),
            seen(7, 2, Stance::Silent),
            // Two tasks; a child, one without environment, one that stays, and what that starts.
            seen(10, 7, one),
            seen(11, 7, two),
            seen(12, 10, one),
            seen(13, 12, Stance::Silent),
            seen(14, 10, Stance::Apart),
            seen(15, 14, Stance::Silent),
            // An orphan of the first; a child of the first that has enrolled, with a child of its own.
            seen(16, 2, one),
            seen(17, 10, one),
            seen(18, 17, one),
        ];
        let first = Wanted { families: Some([Cookie(1)].into()), spared: [2, 17].into() };
        assert_eq!(pids(&all, &first), [10, 12, 13, 16]);
        assert_eq!(pids(&all, &Wanted::default()), [10, 11, 12, 13, 16, 17, 18]);
    }

    #[test]
    fn the_limit_decides_where_environment_and_parents_say_nothing() {
        let seen = |pid, parent, stance, limit: Option<i32>| Seen {
            pid,
            parent,
            begun: 0,
            stance,
            limit: limit.map(Cookie),
        };
        let silent = |pid, parent, limit| seen(pid, parent, Stance::Silent, limit);
        let all = [
            // The user's program, a task, which adopts what loses its parent; a task.
            silent(2, 1, None),
            seen(10, 7, Stance::Marked(Cookie(1)), Some(1)),
            // Orphans without environment of two tasks, and what the first starts.
            silent(20, 1, Some(1)),
            silent(21, 2, Some(2)),
            silent(22, 20, Some(1)),
            // What stays, and what that starts.
            seen(23, 1, Stance::Apart, Some(1)),
            silent(24, 23, Some(1)),
            // Without environment, but enrolled; what that starts.
            silent(25, 10, Some(1)),
            silent(26, 25, Some(1)),
            // Adopted by the user's program.
            silent(27, 2, Some(1)),
        ];
        let first = Wanted { families: Some([Cookie(1)].into()), spared: [2, 25].into() };
        assert_eq!(pids(&all, &first), [10, 20, 22, 27]);
        assert_eq!(pids(&all, &Wanted::default()), [10, 20, 21, 22, 25, 26, 27]);
    }

    #[test]
    fn a_process_that_does_not_want_to_end_does() {
        let script = "trap '' TERM; while :; do sleep 1; done";
        let mut child = started(&mark(), script);
        end_all(&mark(), &[]);
        assert!(!child.wait().unwrap().success());
    }

    fn started(mark: &Mark, script: &str) -> std::process::Child {
        let entry = mark.entry(Cookie(1));
        let value = entry.to_str().unwrap().split_once('=').unwrap().1;
        std::process::Command::new("sh").args(["-c", script]).env(VARIABLE, value).spawn().unwrap()
    }

    #[test]
    fn a_stopped_process_ends_by_itself() {
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let mark = Mark::of("7-101");
        let script = format!("trap 'exit 5' TERM; : > {}; while :; do :; done", ready.display());
        let mut child = started(&mark, &script);
        while !ready.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(Member::now(child.id().cast_signed()).unwrap().signal(Signal::STOP));
        end_all(&mark, &[]);
        assert_eq!(child.wait().unwrap().code(), Some(5));
    }

    #[test]
    fn what_members_use_is_counted() {
        let mark = Mark::of("7-102");
        let mut child = started(&mark, "while :; do :; done");
        let used = || cpu_times(&mark).values().map(|used| used.own).sum::<Duration>();
        while used() < Duration::from_millis(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
