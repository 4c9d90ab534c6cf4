//! Processes killed and stopped, cables cut, hosts deleted and added, while programs run that have to finish all the same.
//!
//! The order of events comes from a seed. `PVM_CHAOS_SECONDS=60` goes on for longer than the few seconds that every run
//! of the tests takes, `PVM_CHAOS_SEED` repeats an order (what the processes make of it is up to the kernel).

use pvm_tests::machine::{self, Plan};
use pvm_tests::program::Program;
use pvm_tests::programs::{Linking, Programs};
use pvm_tests::{Console, Installation, Machine, Network, process, wait};
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// Hosts besides the master.
const SLAVES: usize = 3;
/// Programs at the same time.
const FARMS: usize = 2;
/// Longer than a host may be silent.
const TOO_LONG: Duration = Duration::from_secs(5);
/// How long a master with a new table may need to have new deputies.
const APPOINTMENT: Duration = Duration::from_millis(200);
/// Kilobytes that come and go with the hour: stacks of threads that ran this time, the allocator's free lists.
const PAGES: u64 = 512;
/// How long farms may need when all is well again.
const RECOVERY: Duration = Duration::from_secs(60);

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// splitmix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as usize % bound
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        if all.is_empty() { None } else { all.get(self.below(all.len())) }
    }
}

/// The machine under test, what runs on it, and what was done to it.
struct Stage<'n> {
    network: &'n Network,
    machine: Machine,
    console: Console,
    programs: Programs,
    farms: Vec<Program>,
    finished: usize,
    dice: Dice,
    story: Vec<String>,
}

impl Stage<'_> {
    fn tell(&mut self, what: String) {
        eprintln!("{what}");
        self.story.push(what);
    }

    fn pids(&self, what: &str) -> Vec<i32> {
        let all = self.machine.processes().into_iter();
        all.filter(|process| process.command.contains(what)).map(|process| process.pid).collect()
    }

    fn daemons(&self) -> Vec<i32> {
        self.machine.slave_daemons().iter().map(|daemon| daemon.pid).collect()
    }

    fn keep_farms_running(&mut self) {
        for mut farm in std::mem::take(&mut self.farms) {
            if farm.has_ended() {
                self.harvest(farm);
            } else {
                self.farms.push(farm);
            }
        }
        while self.farms.len() < FARMS {
            self.farms.push(self.machine.program(self.programs.path("farm"), &["6", "60"]));
        }
    }

    #[track_caller]
    fn harvest(&mut self, farm: Program) {
        let ended = farm.end_within(RECOVERY);
        assert!(
            ended.status.success() && ended.stdout.ends_with("sum right\n"),
            "{ended:#?}\n{:#?}",
            self.story
        );
        self.finished += 1;
    }

    fn signal_one(&mut self, what: &str, pids: &[i32], signal: Signal) -> Option<i32> {
        let pid = *self.dice.one_of(pids)?;
        self.tell(format!("{signal:?} to {what} {pid}"));
        process::signal(pid, signal);
        Some(pid)
    }

    fn pause(&mut self, what: &str, pids: &[i32]) {
        let long = self.dice.below(4) == 0;
        if let Some(pid) = self.signal_one(what, pids, Signal::STOP) {
            std::thread::sleep(if long { TOO_LONG } else { Duration::from_millis(300) });
            self.tell(format!("{pid} continues"));
            process::signal(pid, Signal::CONT);
        }
    }

    fn cut(&mut self) {
        let index = 1 + self.dice.below(SLAVES);
        let long = self.dice.below(2) == 0;
        self.tell(format!("cable of {} cut, long: {long}", self.network.name(index)));
        self.network.cut(index);
        std::thread::sleep(if long { TOO_LONG } else { Duration::from_millis(500) });
        self.network.heal(index);
    }

    fn delete(&mut self) {
        let index = 1 + self.dice.below(SLAVES);
        let name = self.network.name(index);
        let said = self.console.delete(&[name]);
        self.tell(format!("delete {name}: {said:?}"));
    }

    /// Adds every host that is missing; whether none is any more.
    fn add_missing(&mut self) -> bool {
        let present: Vec<String> = self.console.conf().into_iter().map(|row| row.name).collect();
        let missing: Vec<String> = (1..=SLAVES)
            .filter(|&index| present.iter().all(|name| name != self.network.name(index)))
            .map(|index| self.network.line(index, ""))
            .collect();
        if missing.is_empty() {
            return true;
        }
        let lines: Vec<&str> = missing.iter().map(String::as_str).collect();
        let said = self.console.add(&lines);
        self.tell(format!("add: {said:?}"));
        said.iter().all(|(_, result)| result.is_ok())
    }

    /// Waits until the machine has agreed on the hosts that it lost. A majority of its deputies must live at any time: after
    /// two losses at once the master ends, as it must, for the others may have another one.
    fn agree(&mut self) {
        wait::becomes_true("the lost hosts are not in the table", || {
            self.console.conf().len() == 1 + self.daemons().len()
        });
        std::thread::sleep(APPOINTMENT);
    }

    fn something_happens(&mut self) {
        let what = self.dice.below(13);
        if matches!(what, 5 | 7..=9) {
            self.agree();
        }
        match what {
            0..=3 => drop(self.signal_one("worker", &self.pids("--work"), Signal::KILL)),
            4 => drop(self.signal_one("task manager", &self.pids("task-manager"), Signal::KILL)),
            5 => drop(self.signal_one("daemon", &self.daemons(), Signal::KILL)),
            12 => self.pause("task manager", &self.pids("task-manager")),
            6 => self.pause("worker", &self.pids("--work")),
            7 => self.pause("daemon", &self.daemons()),
            8 => self.cut(),
            9 => self.delete(),
            _ => drop(self.add_missing()),
        }
    }

    /// Kilobytes of memory that the master's daemon has.
    fn memory(&self) -> u64 {
        let daemon = self.machine.daemon_pid();
        process::kilobytes(daemon, "smaps_rollup", "Private_Dirty").expect("the daemon runs")
    }

    /// Things happen for so long; the memory that the daemon has when all is well again.
    fn go_on_for(&mut self, time: Duration) -> u64 {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.keep_farms_running();
            self.something_happens();
            let pause = self.dice.below(400) as u64;
            std::thread::sleep(Duration::from_millis(pause));
        }
        self.settle();
        self.memory()
    }

    /// All hosts are there and idle.
    fn settle(&mut self) {
        // A daemon that was killed a moment ago is in the configuration until its link is known to be lost.
        let whole = |stage: &mut Self| stage.add_missing() && stage.daemons().len() == SLAVES;
        wait::until(RECOVERY, || whole(self).then_some(())).expect("all hosts come back");
        for farm in std::mem::take(&mut self.farms) {
            self.harvest(farm);
        }
        wait::becomes_true("the end of all workers", || self.pids("--work").is_empty());
    }
}

#[test]
fn programs_finish_though_hosts_and_tasks_fail() {
    let check = "programs under killed processes and cut cables";
    let Some(installation) = Installation::ours_only(check) else { return };
    let Some(network) = Network::of(SLAVES + 1, &installation, check) else { return };
    let Some(programs) = Programs::compile(&["farm"], &installation, Linking::Shared) else { return };
    let lines: Vec<String> = (1..=SLAVES).map(|index| network.line(index, "") + "\n").collect();
    let hostfile = format!("* ep=@PATH@ sp=1000\n{}", lines.concat());
    let plan = Plan::of(&installation).path(programs.folder()).name(&network.address(0)).hostfile(&hostfile);
    let machine = plan.network(&network).start();
    let console = machine.console_with_hosts(SLAVES + 1);
    let (seed, seconds) = (setting("PVM_CHAOS_SEED", 1), setting("PVM_CHAOS_SECONDS", 12));
    let (farms, story, dice) = (Vec::new(), Vec::new(), Dice(seed));
    let mut stage = Stage { network: &network, machine, console, programs, farms, finished: 0, dice, story };

    // Once for the allocator to have what such times need, then again.
    let before = stage.go_on_for(Duration::from_secs(seconds / 2));
    let after = stage.go_on_for(Duration::from_secs(seconds - seconds / 2));
    eprintln!("{} farms, {} events, {before} kB before, {after} kB after", stage.finished, stage.story.len());
    assert!(stage.finished >= 2 * FARMS);
    assert!(after <= before + before / 10 + PAGES, "the daemon had {before} kB before, {after} kB after");

    stage.console.quit();
    stage.machine.finish();
    for index in 1..=SLAVES {
        let left = machine::files_in(&network.tmp(index));
        assert!(left.iter().all(|name| name.starts_with("pvml.")), "on {}: {left:?}", network.name(index));
    }
}
