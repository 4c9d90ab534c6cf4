//! Holding all that tasks run while the owner of the host is there.
//!
//! All members of all families of this daemon are held, not only tasks: what a task has started takes the owner's cores like the task itself.
//! A thread of its own does it, as each search takes milliseconds. Most daemons never hold anything, so the thread begins with the first
//! order.

use crate::io::family::{self, Mark, Member};
use crate::io::process::{self, class_of, is_being_started, is_stopped};
use pvm_wire::owner::Held;
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Searches for processes that are started meanwhile. One finds nothing new, unless a process forks faster than it can be stopped.
const ROUNDS: usize = 16;
/// How long a process may go on that was asked to end: it may have files to write. Then it is held again.
const ENDING: Duration = Duration::from_secs(5);
/// How long the daemon waits at its end until all go on.
const FINISH: Duration = Duration::from_secs(2);
/// Signals by which a process is asked to end.
const ENDINGS: [Signal; 6] =
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::ABORT, Signal::KILL, Signal::TERM];

/// Holds the processes of all families of this daemon, and lets them go.
#[derive(Debug)]
pub struct Holder {
    mark: Mark,
    /// There is none before the first order.
    orders: Option<mpsc::Sender<Order>>,
    is_holding: bool,
}

#[derive(Debug)]
enum Order {
    Hold { spared: BTreeSet<i32>, held: Held },
    LetGo,
    Signalled { pid: i32, signal: i32 },
    Freed { pid: i32 },
    Finish { done: mpsc::Sender<()> },
}

impl Holder {
    /// Of the daemon with this mark.
    pub fn new(mark: Mark) -> Self {
        Self { mark, orders: None, is_holding: false }
    }

    /// Holds all that are there but these. To be said again when a process has started meanwhile.
    pub fn hold(&mut self, spared: Vec<i32>, held: Held) {
        if self.orders.is_none() {
            let ((orders, received), mark) = (mpsc::channel(), self.mark.clone());
            let thread = std::thread::Builder::new().name("owner-hold".into());
            if let Err(error) = thread.spawn(move || serve(Hold::new(mark), &received)) {
                return warn!(%error, "tasks cannot be held for the owner of this host");
            }
            self.orders = Some(orders);
        }
        self.is_holding = true;
        self.order(Order::Hold { spared: spared.into_iter().collect(), held });
    }

    /// All go on that it has held.
    pub fn let_go(&mut self) {
        if std::mem::take(&mut self.is_holding) {
            self.order(Order::LetGo);
        }
    }

    /// A signal was sent to a process, which may be held. One that asks it to end is to be heard.
    pub fn signalled(&self, pid: i32, signal: i32) {
        if self.is_holding {
            self.order(Order::Signalled { pid, signal });
        }
    }

    /// A process was let run for another reason, such as its turn: it is held all the same.
    pub fn freed(&self, pid: i32) {
        if self.is_holding {
            self.order(Order::Freed { pid });
        }
    }

    /// All have gone on when this returns, and nothing is held any more. For the daemon's end.
    pub fn finish(&mut self) {
        let (done, is_done) = mpsc::channel();
        self.order(Order::Finish { done });
        if self.orders.take().is_some() && is_done.recv_timeout(FINISH).is_err() {
            warn!("tasks that are held for the owner of this host may stay so");
        }
        self.is_holding = false;
    }

    fn order(&self, order: Order) {
        if self.orders.as_ref().is_some_and(|orders| orders.send(order).is_err()) {
            warn!("the thread that holds tasks is gone");
        }
    }
}

fn serve(mut hold: Hold, orders: &mpsc::Receiver<Order>) {
    loop {
        let next = hold.ending.values().min().copied();
        let order = match next {
            Some(at) => orders.recv_timeout(at.saturating_duration_since(Instant::now())),
            None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match order {
            Ok(Order::Hold { spared, held }) => hold.hold(spared, held),
            Ok(Order::LetGo) => hold.let_go(),
            Ok(Order::Signalled { pid, signal }) => hold.signalled(pid, signal),
            Ok(Order::Freed { pid }) => hold.hold_again(pid),
            Ok(Order::Finish { done }) => {
                hold.let_go();
                // The daemon may not have waited.
                let _ = done.send(());
                return;
            }
            Err(RecvTimeoutError::Timeout) => hold.end_patience(),
            Err(RecvTimeoutError::Disconnected) => return hold.let_go(),
        }
    }
}

/// What the thread knows.
#[derive(Debug)]
struct Hold {
    mark: Mark,
    /// How they are held now; `None`: none is.
    how: Option<Held>,
    spared: BTreeSet<i32>,
    held: BTreeSet<Member>,
    /// Processes that the first search has found. Later ones have the class of what has started them.
    known: BTreeSet<Member>,
    /// Those that were asked to end, and until when they go on.
    ending: BTreeMap<Member, Instant>,
    /// Whether a process that has the least can be taken back, once that was tried.
    has_way_back: Option<bool>,
}

impl Hold {
    fn new(mark: Mark) -> Self {
        Self {
            mark,
            how: None,
            spared: BTreeSet::new(),
            held: BTreeSet::new(),
            known: BTreeSet::new(),
            ending: BTreeMap::new(),
            has_way_back: None,
        }
    }

    fn hold(&mut self, spared: BTreeSet<i32>, wanted: Held) {
        let how = self.possible(wanted);
        if self.how.is_some_and(|before| before != how) {
            self.let_go();
        }
        let is_first = self.how.replace(how).is_none();
        self.spared = spared;
        let before = self.held.len();
        self.held.retain(|member| member.is_there());
        self.ending.retain(|member, _| member.is_there());
        for round in 0..ROUNDS {
            let found = family::all_members(&self.mark);
            if is_first && round == 0 {
                self.known = found.iter().copied().collect();
            }
            let new = |member: &Member| !self.held.contains(member) && self.is_to_be_held(*member, how);
            let new: Vec<Member> = found.into_iter().filter(new).collect();
            if new.is_empty() {
                break;
            }
            for member in new {
                self.hold_one(member, how);
            }
        }
        if self.held.len() > before {
            info!(processes = self.held.len(), how = how.name(), "held for the owner of this host");
        }
    }

    /// A process whose class cannot be taken back would have the least for ever.
    fn possible(&mut self, wanted: Held) -> Held {
        let has_way_back = || {
            let has_way_back = process::may_change_class();
            if !has_way_back {
                warn!(
                    "processes cannot be put behind the owner's (RLIMIT_NICE, CAP_SYS_NICE): they are stopped"
                );
            }
            has_way_back
        };
        if wanted == Held::Stopped || *self.has_way_back.get_or_insert_with(has_way_back) {
            return wanted;
        }
        Held::Stopped
    }

    /// What is held in the same way by others is theirs, and so is what has chosen it.
    fn is_to_be_held(&self, member: Member, how: Held) -> bool {
        // The daemon's own thread waits for a process that it starts; the core says again that all are to be held when that runs.
        let is_left_alone = self.spared.contains(&member.pid())
            || self.ending.contains_key(&member)
            || is_being_started(member.pid());
        !is_left_alone
            && match how {
                Held::Stopped => !is_stopped(member.pid()),
                Held::Least => class_of(member.pid()) != Some(libc::SCHED_IDLE),
            }
    }

    /// Known before it is done: what is let go then includes it.
    fn hold_one(&mut self, member: Member, how: Held) {
        self.held.insert(member);
        match how {
            Held::Stopped => {
                // It may have ended.
                member.signal(Signal::STOP);
            }
            Held::Least => set_least(member, true),
        }
    }

    fn let_go(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.ending.clear();
        match self.how.take() {
            Some(Held::Stopped) => {
                for member in &held {
                    member.signal(Signal::CONT);
                }
            }
            Some(Held::Least) => {
                // What was started meanwhile has the class from its parent, so it was held, too.
                let new = family::all_members(&self.mark).into_iter();
                let new = new.filter(|member| !self.known.contains(member)).collect();
                held.union(&new).for_each(|&member| set_least(member, false));
            }
            None => return,
        }
        if !held.is_empty() {
            info!(processes = held.len(), "held no longer: the owner of this host is gone");
        }
    }

    fn signalled(&mut self, pid: i32, signal: i32) {
        if self.how != Some(Held::Stopped) {
            return;
        }
        let Some(member) = Member::now(pid) else { return };
        let named = Signal::from_named_raw(signal);
        if named.is_some_and(|signal| ENDINGS.contains(&signal)) {
            let was_held = self.held.remove(&member);
            self.ending.insert(member, Instant::now() + ENDING);
            if was_held {
                member.signal(Signal::CONT);
            }
        } else if matches!(named, Some(Signal::STOP | Signal::TSTP)) {
            // It is another's now to let it go on.
            self.held.remove(&member);
        } else if named == Some(Signal::CONT) {
            self.hold_again(pid);
        }
    }

    fn hold_again(&mut self, pid: i32) {
        let Some((how, member)) = self.how.zip(Member::now(pid)) else { return };
        if self.is_to_be_held(member, how) {
            self.hold_one(member, how);
        }
    }

    /// Those that were asked to end, and have not, are held again.
    fn end_patience(&mut self) {
        let now = Instant::now();
        let is_late = |at: Instant| at <= now;
        let late: Vec<Member> =
            self.ending.iter().filter(|&(_, &at)| is_late(at)).map(|(&member, _)| member).collect();
        self.ending.retain(|_, at| !is_late(*at));
        for member in late {
            if let Some(how) = self.how.filter(|&how| self.is_to_be_held(member, how)) {
                self.hold_one(member, how);
            }
        }
    }
}

/// Puts a process behind all others, or takes it back.
fn set_least(member: Member, is_least: bool) {
    // It may have ended.
    if member.is_there()
        && let Err(error) = process::set_idle_class(member.pid(), is_least)
        && member.is_there()
    {
        warn!(pid = member.pid(), %error, "the class of a process cannot be changed");
    }
}

#[cfg(test)]
#[path = "owner_hold_tests.rs"]
mod tests;
