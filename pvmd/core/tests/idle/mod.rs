//! A machine in which no task runs.

use pvm_wire::{Message, Tid};
use pvmd_core::event::Program;
use pvmd_simulated::machine::{Machine, Setup, Tasks};
use pvmd_simulated::process::{ProcId, Role};
use std::time::Duration;

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
    let setup = Setup {
        seed,
        capabilities: vec![1000; hosts],
        task_target: 4,
        task_limit: 100,
        turns: false,
        link_idle: Duration::from_secs(30),
        deputies: 3,
        width: Some(width),
        watched_max,
        fails,
        traced: false,
    };
    Machine::new(setup, Idle::default())
}
