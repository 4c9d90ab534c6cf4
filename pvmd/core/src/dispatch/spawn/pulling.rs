//! As node: asking for tasks of batches, `N_a = P − P_c` at a time (design D6; papers, section 1).

use crate::Core;
use crate::flow::Source;
use crate::spawn::pulling::OpenBatch;
use crate::timers::Timer;
use pvm_sched::pulling::{self, Step, Ticket};
use pvm_wire::batch::{Application, BatchId, BatchMsg};
use pvm_wire::codes::{BATCH_TAG, Sm};
use pvm_wire::{Message, Tid};
use std::time::Duration;
use tracing::{debug, error, warn};

impl Core {
    /// `P_c`: programs running here or about to.
    pub(crate) fn running(&self) -> usize {
        let (ready, starting) = self.home.manager_counts();
        self.tasks.len() - ready - starting
    }

    /// `P_c`: programs running here or about to, and the load from outside in the same measure.
    fn filled_now(&self) -> u64 {
        // A core filled by others leaves no room for its share of P.
        let outside = self.outside() * f64::from(self.config.task_target);
        self.running() as u64 + outside.round() as u64
    }

    /// `P` and `P_c`, as they count for a batch.
    fn filled(&self, batch: BatchId) -> (u64, u64) {
        if !self.node.batches.get(&batch).is_some_and(|open| open.queued) {
            return (self.config.task_target.into(), self.filled_now());
        }
        let p = u64::from(self.config.slots);
        let others = self.node.batches.iter().filter(|&(&id, open)| open.queued && id != batch);
        let promised: u64 = others.map(|(_, open)| open.node.promised()).sum();
        // However busy others keep the host, one task at a time gets its turn: a queue never stands still for good.
        let outside = (self.outside() * p as f64).round() as u64;
        (p, self.queued_here() + promised + outside.min(p.saturating_sub(1)))
    }

    /// The part of the cores that others than tasks keep busy.
    fn outside(&self) -> f64 {
        self.node.load.outside(self.config.cores)
    }

    /// How busy the cores of this host are, with work of any program.
    pub(crate) fn on_load(&mut self, busy_cores: f64) {
        self.node.load.read(busy_cores, self.running());
        self.on_room();
    }

    /// Tasks of a batch wait, says this manager.
    pub(crate) fn open_batch(&mut self, manager: Tid, batch: BatchId, queued: bool) {
        let fresh = || OpenBatch { manager, node: pulling::Node::new(), queued };
        self.node.batches.entry(batch).or_insert_with(fresh).manager = manager;
    }

    /// Lets the node look at its load, and tells the manager what it wants.
    fn look(&mut self, batch: BatchId, look: impl FnOnce(&mut pulling::Node, u64, u64, Duration) -> Step) {
        let Some(Application { p, p_c, n_a }) = self.asks(batch, look) else { return };
        let Some(manager) = self.node.batches.get(&batch).map(|open| open.manager) else { return };
        let host = self.config.index;
        // Before the table has come there are no batches of others.
        let capability = self.hosts.get(host).map_or(self.config.capability, |entry| entry.capability);
        self.send_batch(manager, &BatchMsg::Apply { batch, host, p, p_c, n_a, capability });
    }

    /// What the node asks for when it has looked at its load, if anything.
    pub(crate) fn asks(
        &mut self,
        batch: BatchId,
        look: impl FnOnce(&mut pulling::Node, u64, u64, Duration) -> Step,
    ) -> Option<Application> {
        let (p, p_c) = self.filled(batch);
        let wait = Duration::from_millis(self.node.random(pulling::RETRY_MS));
        let open = self.node.batches.get_mut(&batch)?;
        let n_a = match look(&mut open.node, p, p_c, wait) {
            Step::Apply { n_a } => n_a,
            Step::Decline { n_a, wait, ticket } => {
                self.set_timer(wait, Timer::Retry(batch, ticket));
                n_a
            }
            Step::Stay => return None,
        };
        Some(Application { p, p_c, n_a })
    }

    /// The tasks that were asked for run: there may be room for more.
    pub(crate) fn apply_again(&mut self, batch: BatchId) {
        self.look(batch, pulling::Node::tasks_given);
    }

    /// The random wait is over.
    pub(crate) fn on_retry(&mut self, batch: BatchId, ticket: Ticket) {
        self.look(batch, |node, p, p_c, wait| node.retry(ticket, p, p_c, wait));
    }

    /// There may be room again: a task has ended here, or others leave more to us.
    pub(crate) fn on_room(&mut self) {
        for batch in self.node.batches.keys().copied().collect::<Vec<_>>() {
            self.look(batch, |node, p, p_c, _| node.room(p, p_c));
        }
    }
}

/// Between home, managers and nodes.
impl Core {
    pub(crate) fn send_batch(&mut self, to: Tid, message: &BatchMsg) {
        match message.encode() {
            Ok(body) if to == self.config.index.daemon() => {
                let message = Message { src: to, dst: to, body: body.into(), ..Message::default() };
                self.on_batch_message(&message);
            }
            Ok(body) => self.send_message(Source::Daemon, to, 0, BATCH_TAG, body),
            Err(error) => error!(%error, "batch message lost"),
        }
    }

    /// A message to this daemon that is not a task's request.
    pub(crate) fn on_system_message(&mut self, message: &Message) {
        if message.header.tag == BATCH_TAG {
            self.on_batch_message(message);
        } else if let Some(what) = Sm::from_tag(message.header.tag) {
            self.on_service_message(what, message);
        } else {
            debug!(src = %message.src, tag = message.header.tag, "message to this daemon dropped");
        }
    }

    fn on_batch_message(&mut self, message: &Message) {
        let src = message.src;
        match BatchMsg::decode(&message.body) {
            // Only the home host's manager (or daemon) speaks for a batch.
            Ok(BatchMsg::TasksHave { batch, queued }) if src.host() == Some(batch.home) => {
                self.open_batch(src, batch, queued);
                self.look(batch, pulling::Node::tasks_have);
            }
            Ok(BatchMsg::TasksNo { batch }) if src.host() == Some(batch.home) => {
                // One that has been relieved may be late.
                let from = |open: &OpenBatch| open.manager == src || src.is_daemon();
                if self.node.batches.get(&batch).is_some_and(from) {
                    self.node.batches.remove(&batch);
                }
            }
            Ok(BatchMsg::Grant { batch, host, n, terms }) => self.on_grant(src, batch, host, n, terms),
            Ok(BatchMsg::NoNodes { batch }) => self.on_no_nodes(src, batch),
            Ok(other) => warn!(%src, ?other, "batch message out of place: ignored"),
            Err(error) => warn!(%src, %error, "batch message that cannot be read: ignored"),
        }
    }
}
