//! A machine in which no task runs.

use pvm_wire::{Message, Tid};
use pvmd_core::event::Program;
use pvmd_simulated::machine::{Machine, Setup, Tasks};
use pvmd_simulated::process::{ProcId, Role};

/// A machine without tasks.
#[derive(Default)]
pub struct Idle(Vec<String>);

impl Tasks for Idle {
    fn faults(&mut self) -> &mut Vec<String> {
        &mut self.0
    }

    fn role(_: &mut Machine<Self>) -> Role {
        Role::Task
    }

    fn started(_: &mut Machine<Self>, _: ProcId, _: &Program) {}
    fn enrolled(_: &mut Machine<Self>, _: ProcId, _: Tid) {}
    fn heard(_: &mut Machine<Self>, _: ProcId, _: Tid, _: &Message) {}
}

/// A master whose hostfile names the others; what it is like that tests differ in.
pub fn machine(seed: u64, hosts: usize, width: usize, watched_max: usize, fails: bool) -> Machine<Idle> {
    let capabilities = vec![1000; hosts];
    let setup = Setup { seed, capabilities, width: Some(width), watched_max, fails, ..Setup::default() };
    Machine::new(setup, Idle::default())
}
