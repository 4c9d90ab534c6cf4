//! What the core shows of itself in numbers.

use crate::census::Census;
use crate::master::Master;
use crate::{Core, Life};
use pvm_wire::{HostIndex, codec};

impl Core {
    /// What the daemon holds.
    pub fn census(&self) -> Census {
        let services = &self.services;
        let posts = [services.scheduler, services.tasker];
        let (spawns, waiting_batches) = self.home.counts();
        let master = self.master_state().map(Master::counts).unwrap_or_default();
        let notifies = self.notifies.counts();
        Census {
            tasks: self.tasks.running(),
            managers: self.home.manager_counts(),
            conns: self.tasks.conns.len(),
            outputs: self.tasks.outputs.len(),
            backlog: self.tasks.iter().map(|task| task.backlog.len()).sum(),
            hosts: self.hosts.iter().count(),
            links: self.hosts.links.len(),
            partial: self.hosts.links.values().map(|link| link.requests.len()).sum::<usize>()
                + self.exchange.partial(),
            spawns,
            waiting_batches,
            open_batches: self.node.open_batches().len(),
            pending: self.pending.len() + self.node.under_way().len() + master.questions,
            notifies: (notifies.0, notifies.1 + self.exchange.watched()),
            observers: self.observers.counts(),
            moves: self.moves.len() + self.holding.len(),
            contexts: self.tasks.contexts.len(),
            flow: self.tasks.flow.counts(),
            timers: self.out.timers.len(),
            services: posts.iter().flatten().count()
                + usize::from(self.tracers.is_registered())
                + master.hosters,
            mailbox: master.mailbox,
            groups: master.groups,
            given: self.jobs.waiting() + self.jobs.running() as usize,
            jobs: master.jobs,
            adding: master.adding,
        }
    }

    /// Its place in the machine.
    pub fn index(&self) -> HostIndex {
        self.config.index
    }

    /// Whether it is the master.
    pub fn is_ruling(&self) -> bool {
        self.is_master() && self.life != Life::Ending
    }

    /// The master's state as this host holds it, if it does: the deputies, and the bytes that a new deputy would get.
    pub fn held_state(&self) -> Option<(Vec<HostIndex>, Vec<u8>)> {
        let master = self.deputy.as_ref()?.master();
        Some((master.deputies().to_vec(), codec::encode_large(master).ok()?))
    }

    /// The members of the machine it knows.
    pub fn members(&self) -> Vec<HostIndex> {
        self.hosts.iter().map(|entry| entry.index).collect()
    }

    /// The hosts to which it has a link.
    pub fn linked(&self) -> Vec<HostIndex> {
        self.hosts.linked()
    }
}
