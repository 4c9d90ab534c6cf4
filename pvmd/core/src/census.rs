//! What a daemon holds at a moment, counted: for its log, and for the check that nothing stays of what is gone.

use std::fmt;

/// The sizes of a daemon's tables.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Census {
    /// Tasks, managers excluded.
    pub tasks: usize,
    /// Task managers: at work or idle, and on their way.
    pub managers: (usize, usize),
    /// Connections, enrolled or not.
    pub conns: usize,
    /// Outputs of children that have not ended.
    pub outputs: usize,
    /// Fragments kept for tasks that have not enrolled.
    pub backlog: usize,
    /// Members of the machine that are known, this one included.
    pub hosts: usize,
    /// Links that stand.
    pub links: usize,
    /// Messages of other hosts' tasks to this daemon that have begun and not ended.
    pub partial: usize,
    /// Spawns whose caller waits.
    pub spawns: usize,
    /// Batches that wait for a manager.
    pub waiting_batches: usize,
    /// Batches this node may ask for work.
    pub open_batches: usize,
    /// Requests to daemons that wait for an answer, lists that are gathered, and starts of processes under way.
    pub pending: usize,
    /// Subscriptions to notifies, and tasks watched for other hosts.
    pub notifies: (usize, usize),
    /// Tasks that are told of incidents, hosts that have such tasks, and tasks elsewhere that are known for them.
    pub observers: (usize, usize, usize),
    /// Tasks that move, and tasks for which something is kept as they move.
    pub moves: usize,
    /// Contexts that tasks have taken.
    pub contexts: usize,
    /// Full receivers and stopped sources.
    pub flow: (usize, usize),
    /// Times at which something is to happen.
    pub timers: usize,
    /// Services and tracers that are registered.
    pub services: usize,
    /// The master's: entries of the mailbox, and gets that wait for one.
    pub mailbox: (usize, usize),
    /// The master's: groups, and answers about them that are held back.
    pub groups: (usize, usize),
    /// Tasks of jobs that were given to this host.
    pub given: usize,
    /// The master's: jobs that have not ended.
    pub jobs: usize,
    /// The master's: whether hosts are being added, requests that wait for the hostfile's, and daemons that are ending.
    pub adding: usize,
}

impl fmt::Display for Census {
    /// A line for each table.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { managers, notifies, flow, mailbox, groups, .. } = *self;
        for (count, what) in [
            (self.tasks, "tasks"),
            (managers.0, "task managers"),
            (managers.1, "task managers being started"),
            (self.conns, "connections"),
            (self.outputs, "outputs of children"),
            (self.backlog, "fragments for tasks that have not enrolled"),
            (self.given, "tasks of jobs"),
            (self.jobs, "jobs"),
            (self.hosts, "hosts"),
            (self.links, "links"),
            (self.partial, "messages of other hosts being received"),
            (self.spawns, "spawns under way"),
            (self.waiting_batches, "batches without a manager"),
            (self.open_batches, "batches with tasks to give"),
            (self.pending, "requests under way"),
            (notifies.0, "subscriptions"),
            (notifies.1, "tasks watched for other hosts"),
            (self.moves, "moves under way"),
            (self.contexts, "contexts"),
            (flow.0, "full receivers"),
            (flow.1, "stopped sources"),
            (self.timers, "timers"),
            (self.services, "services and tracers"),
            (mailbox.0, "mailbox entries"),
            (mailbox.1, "tasks waiting for a mailbox entry"),
            (groups.0, "groups"),
            (groups.1, "answers about groups held back"),
            (self.adding, "additions of hosts under way"),
        ] {
            writeln!(out, "{count:>8} {what}")?;
        }
        Ok(())
    }
}
