//! Work on this host that is not this daemon's: others want its cores.

use super::{Signs, Told};
use crate::io::family::{self, Mark, Member};
use crate::io::process::{self, CpuUse};
use pvm_sched::loads::Averages;
use pvmd_core::event::OwnerSign;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use sysinfo::System;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};
use tracing::warn;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(5);
/// Part of all cores above which others keep the host busy, on average over about a minute.
const BUSY_ABOVE: f64 = 0.25;
/// Part of all cores below which they do so no more.
const FREE_BELOW: f64 = 0.20;

/// Tells for ever whether others keep the host busy.
pub(super) async fn watch(signs: &Signs, mark: Mark) {
    let mut looker = match Looker::new(mark) {
        Ok(looker) => Box::new(looker),
        Err(error) => return warn!(%error, "others' work does not tell of the owner of this host"),
    };
    let (mut told, mut is_busy) = (Told::default(), false);
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first comes at once, when there is nothing to compare with.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let looked = spawn_blocking(move || {
            let share = looker.look();
            (looker, share)
        });
        let Ok((back, share)) = looked.await else { return };
        looker = back;
        is_busy = is_busy_now(is_busy, share);
        if let Some(is_busy) = told.news(is_busy) {
            signs.tell(OwnerSign::Busy(is_busy)).await;
        }
    }
}

/// By a part of all cores; between the bounds it is as it was.
fn is_busy_now(was_busy: bool, share: f64) -> bool {
    if was_busy { share >= FREE_BELOW } else { share > BUSY_ABOVE }
}

/// Reads what the host and the families have used.
struct Looker {
    mark: Mark,
    system: System,
    /// The last look.
    at: Instant,
    used: BTreeMap<Member, CpuUse>,
    others: Averages,
}

impl Looker {
    fn new(mark: Mark) -> Result<Self, String> {
        let mut system = System::new().map_err(|error| error.to_string())?;
        system.refresh_cpu_usage();
        let mut others = Averages::default();
        // The first seconds are not to count like a minute.
        others.observe(0.0, 0.0);
        let used = used(&mark);
        Ok(Self { mark, system, at: Instant::now(), used, others })
    }

    /// The part of all cores that others use, on average.
    fn look(&mut self) -> f64 {
        self.system.refresh_cpu_usage();
        let now = Instant::now();
        let seconds = now.duration_since(std::mem::replace(&mut self.at, now)).as_secs_f64();
        let before = std::mem::replace(&mut self.used, used(&self.mark));
        let own = used_between(&before, &self.used).as_secs_f64();
        let busy = f64::from(self.system.global_cpu_usage()) / 100.0;
        self.others.observe(others(busy, own, self.system.cpus().len(), seconds), seconds);
        self.others.means()[0]
    }
}

/// The part of all cores that is left of the busy part when seconds of CPU time are taken off.
fn others(busy: f64, own: f64, cores: usize, seconds: f64) -> f64 {
    let all = cores.max(1) as f64 * seconds;
    (busy - own / all).max(0.0)
}

/// What this daemon and the members of its families have used.
fn used(mark: &Mark) -> BTreeMap<Member, CpuUse> {
    let mut all = family::cpu_times(mark);
    let own = std::process::id().cast_signed();
    all.extend(Member::now(own).zip(process::cpu_use(own)));
    all
}

/// What they have used between two looks.
///
/// What a process has used that has ended since stands with those that have waited for it, at last with this daemon. Orphans end without
/// that: the sum falls by what they have ever used, and what the others have used is all that is known.
fn used_between(before: &BTreeMap<Member, CpuUse>, now: &BTreeMap<Member, CpuUse>) -> Duration {
    let sum =
        |all: &BTreeMap<Member, CpuUse>| all.values().map(|used| used.own + used.children).sum::<Duration>();
    let living = now.iter().map(|(member, used)| {
        let earlier = before.get(member).copied().unwrap_or_default();
        used.own.saturating_sub(earlier.own)
    });
    sum(now).saturating_sub(sum(before)).max(living.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_above_one_bound_and_free_below_another() {
        let mut is_busy = false;
        let shares = [0.1, 0.24, 0.26, 0.21, 0.2, 0.19, 0.24];
        let told = shares.map(|share| {
            is_busy = is_busy_now(is_busy, share);
            is_busy
        });
        assert_eq!(told, [false, false, true, true, true, false, false]);
    }

    #[test]
    fn own_work_is_not_others() {
        let is_near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        // Four cores for five seconds; half of that was used, and eight seconds of it by tasks.
        assert!(is_near(others(0.5, 8.0, 4, 5.0), 0.1));
        // The two are not measured at the same instant.
        assert!(is_near(others(0.3, 8.0, 4, 5.0), 0.0));
        assert!(is_near(others(0.3, 0.0, 0, 5.0), 0.3));
    }

    #[test]
    fn what_has_ended_is_counted_where_it_was_waited_for() {
        // Any two processes.
        let (parent, child) =
            (Member::now(1).unwrap(), Member::now(std::process::id().cast_signed()).unwrap());
        let of = |own: u64, children: u64| CpuUse {
            own: Duration::from_millis(own),
            children: Duration::from_millis(children),
        };
        let before = BTreeMap::from([(parent, of(100, 50)), (child, of(1000, 0))]);
        // Both go on.
        let on = BTreeMap::from([(parent, of(150, 50)), (child, of(1200, 0))]);
        assert_eq!(used_between(&before, &on).as_millis(), 250);
        // One has ended, and had used 300 more; or the other does not wait for it.
        let waited = BTreeMap::from([(parent, of(150, 1350))]);
        assert_eq!(used_between(&before, &waited).as_millis(), 350);
        let lost = BTreeMap::from([(parent, of(150, 50))]);
        assert_eq!(used_between(&before, &lost).as_millis(), 50);
        // A new one.
        assert_eq!(used_between(&lost, &on).as_millis(), 1200);
    }

    #[test]
    fn a_look_gives_a_part() {
        let mut looker = Looker::new(Mark::of("7-103")).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let share = looker.look();
        assert!((0.0..=1.0).contains(&share), "{share}");
    }
}
