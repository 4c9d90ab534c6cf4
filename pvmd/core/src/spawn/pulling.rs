//! As node: asking for tasks of batches, `N_a = P − P_c` at a time (design D6; papers, section 1).

use super::node::Node;
use crate::decision::Decision;
use crate::effect::Effect;
use crate::tasks::Tasks;
use crate::timers::Timer;
use pvm_sched::pulling::{self, Step, Ticket};
use pvm_wire::batch::{Application, BatchId, BatchMsg};
use pvm_wire::{HostIndex, Tid};
use std::time::Duration;

/// A batch that this node may ask for work.
#[derive(Debug)]
pub(crate) struct OpenBatch {
    manager: Tid,
    node: pulling::Node,
    /// Its tasks wait for slots.
    queued: bool,
    /// Which of the applications of this node was its last one, counted over all batches.
    asked: u64,
}

/// A manager has tasks of a batch to give.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub manager: Tid,
    pub batch: BatchId,
    /// Its tasks wait for slots.
    pub queued: bool,
}

impl Node {
    /// `P` and `P_c`, as they count for a batch: programs running here or about to, what other batches may be given on their
    /// applications, and the load from outside in the same measure. `P` is no more than the memory of the host allows.
    fn filled(&self, batch: BatchId, tasks: &Tasks, at: &Decision<'_>) -> (u64, u64) {
        let is_queued = self.batches.get(&batch).is_some_and(|open| open.queued);
        // Plain tasks fill no slots.
        let others = self.batches.iter().filter(|&(&id, open)| id != batch && (open.queued || !is_queued));
        let promised: u64 = others.map(|(_, open)| open.node.promised()).sum();
        // The part of the cores that others than tasks keep busy: a core filled by others leaves no room for its share of P.
        let outside = |p: u64| (self.load.outside(at.config.cores) * p as f64).round() as u64;
        let (p, p_c) = if is_queued {
            let p = u64::from(at.config.slots);
            // However busy others keep the host, one task at a time gets its turn: a queue never stands still for good.
            (p, tasks.queued() as u64 + promised + outside(p).min(p.saturating_sub(1)))
        } else {
            let p = u64::from(at.config.task_target);
            (p, tasks.running() as u64 + promised + outside(p))
        };
        if at.owners.is_own_here() {
            return (0, p_c);
        }
        let more = self.memory.room(tasks.running()).map(|more| more.saturating_sub(promised));
        (more.map_or(p, |more| p.min(p_c.saturating_add(more))), p_c)
    }

    /// Lets a batch's part look at the load, and tells the manager what it wants.
    pub(super) fn look(
        &mut self,
        batch: BatchId,
        tasks: &Tasks,
        at: &mut Decision<'_>,
        look: impl FnOnce(&mut pulling::Node, u64, u64, Duration) -> Step,
    ) {
        let Some(Application { p, p_c, n_a }) = self.asks(batch, tasks, at, look) else { return };
        let Some(manager) = self.batches.get(&batch).map(|open| open.manager) else { return };
        let host = at.config.index;
        // Before the table has come there are no batches of others.
        let capability = at.hosts.get(host).map_or(at.config.capability, |entry| entry.capability);
        at.out.send_batch(manager, BatchMsg::Apply { batch, host, p, p_c, n_a, capability });
    }

    /// What it asks for when it has looked at the load, if anything.
    fn asks(
        &mut self,
        batch: BatchId,
        tasks: &Tasks,
        at: &mut Decision<'_>,
        look: impl FnOnce(&mut pulling::Node, u64, u64, Duration) -> Step,
    ) -> Option<Application> {
        let (p, p_c) = self.filled(batch, tasks, at);
        let wait = Duration::from_millis(self.random(pulling::RETRY_MS));
        let open = self.batches.get_mut(&batch)?;
        let n_a = match look(&mut open.node, p, p_c, wait) {
            Step::Apply { n_a } => {
                self.applications += 1;
                open.asked = self.applications;
                n_a
            }
            Step::Decline { n_a, wait, ticket } => {
                at.out.push(Effect::SetTimer(wait, Timer::Retry(batch, ticket)));
                n_a
            }
            Step::Stay => return None,
        };
        Some(Application { p, p_c, n_a })
    }

    fn open(&mut self, Offer { manager, batch, queued }: Offer) {
        let fresh = || OpenBatch { manager, node: pulling::Node::new(), queued, asked: 0 };
        self.batches.entry(batch).or_insert_with(fresh).manager = manager;
    }

    /// Tasks of a batch wait, says this manager.
    pub fn on_tasks_have(&mut self, offer: Offer, tasks: &Tasks, at: &mut Decision<'_>) {
        self.open(offer);
        self.look(offer.batch, tasks, at, pulling::Node::tasks_have);
    }

    /// What this host asks for as a node of its own batch, without being told first that tasks wait: that would be two more messages
    /// before the first task of a batch can start.
    pub fn own_application(
        &mut self,
        offer: Offer,
        tasks: &Tasks,
        at: &mut Decision<'_>,
    ) -> Option<Application> {
        self.open(offer);
        self.asks(offer.batch, tasks, at, pulling::Node::tasks_have)
    }

    /// None of a batch's wait any more, says this manager or the home.
    pub fn on_tasks_no(&mut self, src: Tid, batch: BatchId, tasks: &Tasks, at: &mut Decision<'_>) {
        // One that has been relieved may be late.
        let from = |open: &OpenBatch| open.manager == src || src.is_daemon();
        if self.batches.get(&batch).is_some_and(from) {
            self.batches.remove(&batch);
            // Its application goes unanswered: the room is free again.
            self.on_room(tasks, at);
        }
    }

    /// The random wait is over.
    pub fn on_retry(&mut self, batch: BatchId, ticket: Ticket, tasks: &Tasks, at: &mut Decision<'_>) {
        self.look(batch, tasks, at, |node, p, p_c, wait| node.retry(ticket, p, p_c, wait));
    }

    /// There may be room again: a task has ended here, or others leave more to us. Batches have their turns: the one that has not
    /// applied for the longest time is the first to.
    pub fn on_room(&mut self, tasks: &Tasks, at: &mut Decision<'_>) {
        let mut turns: Vec<_> = self.batches.iter().map(|(&batch, open)| (open.asked, batch)).collect();
        turns.sort_unstable();
        for (_, batch) in turns {
            self.look(batch, tasks, at, |node, p, p_c, _| node.room(p, p_c));
        }
    }

    /// How busy the cores of this host are, with work of any program.
    pub fn on_load(&mut self, busy_cores: f64, tasks: &Tasks, at: &mut Decision<'_>) {
        self.load.read(busy_cores, tasks.running(), at.config.cores, at.now);
        self.on_room(tasks, at);
    }

    /// A home is out, and its batches with it.
    pub fn home_gone(&mut self, home: HostIndex) {
        self.batches.retain(|batch, _| batch.home != home);
    }

    /// Batches that have tasks to give.
    pub fn open_batches(&self) -> impl ExactSizeIterator<Item = &BatchId> {
        self.batches.keys()
    }
}
