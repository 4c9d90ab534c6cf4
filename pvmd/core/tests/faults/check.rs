//! A whole run: the plan, rest, what must be true then, the end of all tasks, and what must be left.

use crate::operations::pick;
use crate::plan::{Op, Plan};
use crate::process::{ProcId, Process, Role};
use crate::world::World;
use pvm_wire::{HostIndex, Tid};
use pvmd_core::Census;
use std::collections::BTreeSet;
use std::time::Duration;

/// Time within which all that live know who is gone: a host is silent, another waits whether the master notices.
const KNOWN: Duration = Duration::from_secs(8);
/// Time within which all that was asked for has come about.
const SETTLED: Duration = Duration::from_secs(30);

/// How a plan ends the machine.
#[derive(Clone, Copy)]
enum End {
    /// Not at all.
    None,
    /// The master's daemon vanishes.
    Crash,
    /// This process asks for it.
    Halt(ProcId),
}

/// Runs a plan; what was wrong, if anything.
pub fn run(plan: &Plan) -> Result<(), String> {
    let mut world = World::new(plan.seed, plan.hosts, plan.turns);
    world.pass(Duration::from_millis(100));
    let mut end = End::None;
    for &op in &plan.ops {
        world.pass(Duration::from_micros(20));
        match op {
            Op::CrashMaster => end = End::Crash,
            Op::Halt(by) => end = pick(&world.at_work(), by).map_or(end, |&id| End::Halt(id)),
            _ => {}
        }
        world.operate(op);
    }
    world.check(end);
    match world.journal.faults.first() {
        None => Ok(()),
        Some(_) => Err(world.journal.faults.join("\n  ")),
    }
}

impl World {
    fn check(&mut self, end: End) {
        for (from, to) in self.net.pairs() {
            self.heal(from, to, None);
        }
        for process in self.processes.values_mut() {
            process.stopped = false;
        }
        for id in self.processes.keys().copied().collect::<Vec<_>>() {
            self.hear_soon(id);
        }
        self.pass(KNOWN);
        if self.must_have_ended(end) {
            return self.check_end();
        }
        self.check_tables();
        self.pass(SETTLED);
        self.check_tables();
        self.check_promises();
        if !self.journal.faults.is_empty() {
            return;
        }
        for id in self.at_work() {
            self.kill(id);
        }
        self.pass(SETTLED);
        let silent = self.processes.iter().filter(|(_, process)| !matches!(process.role, Role::Manager(_)));
        for id in silent.map(|(&id, _)| id).collect::<Vec<_>>() {
            self.kill(id);
        }
        self.pass(SETTLED);
        self.check_rest();
    }

    /// Whoever asks for the end may be gone, or its host be out, before a daemon has heard it.
    fn must_have_ended(&self, end: End) -> bool {
        match end {
            End::None => false,
            End::Crash => true,
            End::Halt(by) => {
                let goes_on = self.processes.get(&by).is_some_and(Process::is_at_work);
                goes_on || !self.hosts.contains_key(&HostIndex::MASTER)
            }
        }
    }

    /// The machine has ended everywhere.
    fn check_end(&mut self) {
        let left: Vec<HostIndex> = self.hosts.keys().copied().collect();
        if !left.is_empty() || !self.processes.is_empty() {
            self.journal.fault(format!("after the end: hosts {left:?}, {} processes", self.processes.len()));
        }
    }

    /// All members know the same members, and are linked to all of them.
    fn check_tables(&mut self) {
        let Some(master) = self.hosts.get(&HostIndex::MASTER) else {
            return self.journal.fault("the master has ended".to_owned());
        };
        let members: BTreeSet<HostIndex> = master.core.members().into_iter().collect();
        for &host in &members {
            let Some(found) = self.hosts.get(&host) else {
                self.journal.fault(format!("host {host} is a member and does not exist"));
                continue;
            };
            let known: BTreeSet<HostIndex> = found.core.members().into_iter().collect();
            let mut reached: BTreeSet<HostIndex> = found.core.linked().into_iter().collect();
            reached.insert(host);
            if known != members || !members.is_subset(&reached) {
                let text =
                    format!("host {host} knows {known:?} and reaches {reached:?}, members are {members:?}");
                self.journal.fault(text);
            }
        }
    }

    fn check_promises(&mut self) {
        let members: BTreeSet<HostIndex> = self.hosts.keys().copied().collect();
        if members.iter().any(|host| !self.hosts[&HostIndex::MASTER].core.members().contains(host)) {
            return self.journal.fault(format!("of {members:?} some are not members, and live on"));
        }
        let tids = self.processes.values().filter(|process| process.is_at_work());
        let alive: BTreeSet<Tid> = tids.filter_map(|process| process.tid).collect();
        self.journal.check_messages(&alive);
        self.journal.check_notifies(&alive, &members);
        self.journal.check_answers(&alive);
        self.journal.check_spawns(&alive, &members);
        let working = self.processes.values().filter(|process| process.queued && !process.dead).count();
        self.journal.check_batches(&alive, working);
        self.check_observers();
    }

    /// A daemon that observes the others knows all of their tasks, and no more; one that does not knows none.
    fn check_observers(&mut self) {
        let tasks = |host: &HostIndex| self.hosts[host].core.census().tasks;
        let all: usize = self.hosts.keys().map(tasks).sum();
        for host in self.hosts.keys().copied().collect::<Vec<_>>() {
            let (observers, _, known) = self.hosts[&host].core.census().observers;
            let expected = if observers > 0 { all - tasks(&host) } else { 0 };
            if known != expected {
                self.journal.fault(format!("host {host} observes {known} tasks of {expected}"));
            }
        }
    }

    /// Nothing is left but what there was at the beginning, and managers that are kept warm.
    fn check_rest(&mut self) {
        let hosts = self.hosts.len();
        for host in self.hosts.keys().copied().collect::<Vec<_>>() {
            let census = self.hosts[&host].core.census();
            let idle = census.managers.0;
            let expected = Census {
                hosts,
                links: hosts - 1,
                managers: (idle.min(2), 0),
                conns: idle,
                outputs: idle,
                ..Census::default()
            };
            if census != expected {
                self.journal.fault(format!("host {host} still has {census:?}"));
            }
        }
    }
}
