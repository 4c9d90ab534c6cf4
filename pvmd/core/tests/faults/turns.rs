//! Teams that take turns on simulated hosts: what tasks report, and what kernels do.

use crate::operations::pick;
use crate::plan::Op;
use crate::process::{ProcId, message};
use crate::world::World;
use pvm_wire::body::BodyWriter;
use pvm_wire::codes::{CONTEXT_TM, Tmx};
use pvm_wire::{HostIndex, Tid};
use pvmd_core::event::{Event, Work};
use std::time::Duration;

/// Whether processes that are held use what others leave; where they do not, they are stopped.
fn leaves_rest(host: HostIndex) -> bool {
    host.get().is_multiple_of(2)
}

impl World {
    /// Operations that matter where teams take turns.
    pub fn operate_turns(&mut self, op: Op, id: ProcId, tasks: &[ProcId]) {
        let tid_of = |n| pick(tasks, n).and_then(|id| self.processes[id].tid).map_or(0, Tid::raw);
        let (request, body) = match op {
            Op::Team(_, n) => (Tmx::Team, BodyWriter::new().str(["a", "b", "c"][n as usize % 3])),
            Op::Sleep(_, n) if n % 2 == 0 => (Tmx::Asleep, BodyWriter::new()),
            Op::Sleep(..) => (Tmx::Awake, BodyWriter::new()),
            Op::Await(_, n) => (Tmx::Waiting, BodyWriter::new().int(2).ints([tid_of(n), tid_of(n / 7)])),
            Op::HearEpoch(_, n, count) => (
                Tmx::Epoch,
                BodyWriter::new().int(tid_of(n)).int((count % 300) as i32).int(1 + (n % 5) as i32),
            ),
            Op::Page(_) => (Tmx::Page, BodyWriter::new()),
            _ => return,
        };
        self.say(id, &message(Tid::MY_DAEMON, CONTEXT_TM, request.tag(), body.finish()));
    }

    /// A process is held, or no longer.
    pub fn hold(&mut self, pid: i32, held: bool) {
        let Some((&id, process)) = self.processes.iter_mut().find(|(_, process)| process.pid == pid) else {
            return;
        };
        process.held = held && !leaves_rest(process.host);
        self.hear_soon(id);
    }

    /// What a kernel says of processes. Some compute, some sleep most of the time, and some have ended.
    pub fn usage(&mut self, host: HostIndex, pids: &[i32]) -> Event {
        let now = self.now;
        let mut done = |pid: i32| {
            let process = self.processes.values_mut().find(|process| process.pid == pid && !process.dead);
            let Some(process) = process else { return Work::default() };
            let (work, then) = &mut process.work;
            let elapsed = now.saturating_sub(std::mem::replace(then, now));
            let part = if process.held { 0 } else { [0, 1, 20, 100][self.random.below(4) as usize] };
            work.time += elapsed * part / 100;
            work.waits += elapsed * (100 - part) / 200;
            work.sleeps += self.random.below(3) * 50;
            *work
        };
        let work = pids.iter().map(|&pid| done(pid)).collect();
        let own = Duration::from_micros(self.random.below(5000));
        Event::Usage { work, own, leaves_rest: leaves_rest(host) }
    }
}
