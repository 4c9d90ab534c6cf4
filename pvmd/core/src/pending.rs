//! Requests to other daemons that wait for an answer, and lists that are gathered from several.

use super::addresses::{QueryId, ReplyTo, Waiter};
use super::event::ConnId;
use pvm_wire::HostIndex;
use pvm_wire::calls::tasks::TaskRecord;
use pvm_wire::daemon::RequestId;
use pvm_wire::queue::{BatchRecord, PolicyTally};
use std::collections::{BTreeMap, BTreeSet};
use tracing::warn;

/// What is waited for.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// What was asked for, and the host that was asked; none for the master, whichever host that is.
    pub requests: BTreeMap<RequestId, (Option<HostIndex>, Waiter)>,
    tasks: BTreeMap<QueryId, Query<TaskRecord>>,
    batches: BTreeMap<QueryId, Query<HostBatches>>,
    /// Requests and lists so far.
    count: u64,
}

/// A host's batches, and what policies have cost there.
#[derive(Debug, Default)]
pub(crate) struct HostBatches {
    pub batches: Vec<BatchRecord>,
    pub policies: Vec<PolicyTally>,
}

/// A list being gathered.
#[derive(Debug)]
pub(crate) struct Query<T> {
    pub to: ReplyTo,
    missing: BTreeSet<HostIndex>,
    pub found: Vec<T>,
}

impl Pending {
    /// Requests and lists that are not complete.
    pub fn len(&self) -> usize {
        self.requests.len() + self.tasks.len() + self.batches.len()
    }

    fn next_id(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// A host, or the master, is asked for something.
    pub fn ask(&mut self, host: Option<HostIndex>, waiter: Waiter) -> RequestId {
        let id = RequestId(self.next_id());
        self.requests.insert(id, (host, waiter));
        id
    }

    /// A host has answered; what the answer is for.
    pub fn take(&mut self, from: Option<HostIndex>, id: RequestId) -> Option<Waiter> {
        let &(asked, waiter) = self.requests.get(&id)?;
        if asked != from {
            warn!(host = ?from, ?id, "answer from the wrong host: ignored");
            return None;
        }
        self.requests.remove(&id);
        Some(waiter)
    }

    /// All that a host was asked for which is gone.
    pub fn take_all(&mut self, host: HostIndex) -> Vec<Waiter> {
        self.take_where(|asked, _| asked == Some(host)).into_iter().map(|(_, waiter)| waiter).collect()
    }

    /// A connection whose task may have waited for something is gone. Only answers of the mailbox and of the queues can take for ever:
    /// which are to be withdrawn.
    pub fn withdraw(&mut self, conn: ConnId) -> Vec<RequestId> {
        let is_its =
            |waiter: &Waiter| matches!(waiter, Waiter::Mailbox(to) | Waiter::Jobs(to) if to.conn == conn);
        let withdrawn = self.take_where(|_, waiter| is_its(waiter));
        withdrawn.into_iter().map(|(id, _)| id).collect()
    }

    fn take_where(&mut self, which: impl Fn(Option<HostIndex>, &Waiter) -> bool) -> Vec<(RequestId, Waiter)> {
        let found = self.requests.iter().filter(|(_, (host, waiter))| which(*host, waiter));
        let found: Vec<_> = found.map(|(&id, &(_, waiter))| (id, waiter)).collect();
        for (id, _) in &found {
            self.requests.remove(id);
        }
        found
    }

    /// Tasks of these hosts are listed.
    pub fn list_tasks(&mut self, to: ReplyTo, hosts: &[HostIndex]) -> QueryId {
        let id = QueryId(self.next_id());
        self.tasks.insert(id, Query::new(to, hosts));
        id
    }

    /// Batches of these hosts are listed.
    pub fn list_batches(&mut self, to: ReplyTo, hosts: &[HostIndex]) -> QueryId {
        let id = QueryId(self.next_id());
        self.batches.insert(id, Query::new(to, hosts));
        id
    }

    /// A host's tasks; the list, if they were the last to come.
    pub fn add_tasks(
        &mut self,
        id: QueryId,
        from: HostIndex,
        tasks: Vec<TaskRecord>,
    ) -> Option<Query<TaskRecord>> {
        add(&mut self.tasks, id, from, tasks)
    }

    /// A host's batches; the list, if they were the last to come.
    pub fn add_batches(
        &mut self,
        id: QueryId,
        from: HostIndex,
        batches: HostBatches,
    ) -> Option<Query<HostBatches>> {
        add(&mut self.batches, id, from, vec![batches])
    }
}

impl<T> Query<T> {
    fn new(to: ReplyTo, hosts: &[HostIndex]) -> Self {
        Self { to, missing: hosts.iter().copied().collect(), found: Vec::new() }
    }
}

fn add<T>(
    queries: &mut BTreeMap<QueryId, Query<T>>,
    id: QueryId,
    from: HostIndex,
    found: Vec<T>,
) -> Option<Query<T>> {
    let query = queries.get_mut(&id)?;
    query.missing.remove(&from);
    query.found.extend(found);
    if query.missing.is_empty() { queries.remove(&id) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_once_and_from_the_host_that_was_asked() {
        let [one, two] = [1, 2].map(|index| HostIndex::new(index).unwrap());
        let to = |conn| ReplyTo { conn: ConnId(conn), tag: 0, context: 0, wait_id: 0 };
        let mut pending = Pending::default();
        let first = pending.ask(Some(one), Waiter::Pstat(to(1)));
        assert!(pending.take(Some(two), first).is_none());
        assert!(pending.take(Some(one), first).is_some() && pending.take(Some(one), first).is_none());
        let gets =
            [pending.ask(None, Waiter::Mailbox(to(1))), pending.ask(Some(two), Waiter::Mailbox(to(2)))];
        assert_eq!(pending.withdraw(ConnId(1)), [gets[0]]);
        assert_eq!((pending.take_all(one).len(), pending.take_all(two).len()), (0, 1));
        let list = pending.list_tasks(to(1), &[one, two]);
        assert!(pending.add_tasks(list, two, Vec::new()).is_none());
        assert!(pending.add_tasks(list, two, Vec::new()).is_none());
        assert!(pending.add_tasks(list, one, Vec::new()).is_some());
        assert_eq!(pending.len(), 0);
    }
}
