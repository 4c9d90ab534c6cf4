//! The side that asks: a node, for one batch (algorithm 2, section 2.2).

use super::application;
use std::time::Duration;

/// Tells a wait that still counts from one that has been overtaken by events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// The next step of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// Tell the manager that the node takes up to `n_a` tasks (steps 3 and 5).
    Apply {
        /// `N_a`, at least 1.
        n_a: i64,
    },
    /// There is no room (step 4): report it to the manager, which needs to know when all nodes have declined, and call
    /// [`Node::retry`] with the ticket after the wait.
    Decline {
        /// `N_a`, 0 or less.
        n_a: i64,
        /// How long to wait: the random time that was passed in.
        wait: Duration,
        /// To be handed back.
        ticket: Ticket,
    },
    /// Nothing.
    Stay,
}

/// A node's dealings with one batch.
///
/// The caller passes what the node is like at this moment: `P`, `P_c`, and a random time to wait in case there is no
/// room. There is one application at a time: after [`Step::Apply`] the node does not apply until it has been given tasks
/// or got `TasksNo`. A driver calls
///
/// - [`tasks_have`](Self::tasks_have) when `TASKSHAVE` arrives, also when it comes again or from another manager,
/// - [`tasks_given`](Self::tasks_given) when tasks of the batch have been started here,
/// - [`room`](Self::room) when some task has ended here,
/// - [`retry`](Self::retry) when a wait is over,
/// - [`tasks_no`](Self::tasks_no) when `TASKSNO` arrives.
#[derive(Clone, Debug, Default)]
pub struct Node {
    state: State,
    /// Waits begun so far.
    waits: u64,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// No tasks wait, as far as is known here.
    #[default]
    Closed,
    /// It has applied for this many and waits for an answer.
    Applied { n_a: i64 },
    /// No room: it waits.
    Full(Ticket),
}

impl Node {
    /// A node that does not know the batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tasks wait (steps 1 and 2). An application that was made before is void: if this comes again, another manager
    /// perhaps, does not know of it.
    pub fn tasks_have(&mut self, p: u64, p_c: u64, wait: Duration) -> Step {
        self.look(p, p_c, wait)
    }

    /// Tasks have been given and started (steps 6 and 7): there may be room for more.
    pub fn tasks_given(&mut self, p: u64, p_c: u64, wait: Duration) -> Step {
        if self.is_open() { self.look(p, p_c, wait) } else { Step::Stay }
    }

    /// A task has ended here. A node that waits for room need not wait longer.
    pub fn room(&mut self, p: u64, p_c: u64) -> Step {
        let n_a = application(p, p_c);
        if n_a > 0 && matches!(self.state, State::Full(_)) { self.apply(n_a) } else { Step::Stay }
    }

    /// A wait is over (step 4). One that was overtaken is ignored, so that a node never waits twice at a time.
    pub fn retry(&mut self, ticket: Ticket, p: u64, p_c: u64, wait: Duration) -> Step {
        match self.state {
            State::Full(current) if current == ticket => self.look(p, p_c, wait),
            _ => Step::Stay,
        }
    }

    /// No tasks are left (step 8). Whether an application goes unanswered, so that what was set aside for it is free.
    pub fn tasks_no(&mut self) -> bool {
        let unanswered = matches!(self.state, State::Applied { .. });
        self.state = State::Closed;
        unanswered
    }

    /// Whether tasks wait, as far as is known here.
    pub fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed)
    }

    /// Tasks that may come at any moment because they were applied for. A node that pulls from several batches counts
    /// the others' promises as running, or it would offer the same room to all.
    pub fn promised(&self) -> u64 {
        match self.state {
            State::Applied { n_a } => n_a.max(0) as u64,
            State::Closed | State::Full(_) => 0,
        }
    }

    fn look(&mut self, p: u64, p_c: u64, wait: Duration) -> Step {
        let n_a = application(p, p_c);
        if n_a > 0 {
            return self.apply(n_a);
        }
        self.waits += 1;
        let ticket = Ticket(self.waits);
        self.state = State::Full(ticket);
        Step::Decline { n_a, wait, ticket }
    }

    fn apply(&mut self, n_a: i64) -> Step {
        self.state = State::Applied { n_a };
        Step::Apply { n_a }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_millis(30);

    fn declined(step: Step) -> Ticket {
        match step {
            Step::Decline { ticket, wait: WAIT, .. } => ticket,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn applies_while_there_is_room_and_tasks() {
        let mut node = Node::new();
        assert_eq!(node.tasks_have(8, 3, WAIT), Step::Apply { n_a: 5 });
        assert_eq!(node.promised(), 5);
        assert_eq!(node.room(8, 2), Step::Stay, "one application at a time");
        assert_eq!(node.tasks_given(8, 6, WAIT), Step::Apply { n_a: 2 });
        assert!(node.tasks_no(), "the second application goes unanswered");
        assert_eq!((node.is_open(), node.promised()), (false, 0));
    }

    #[test]
    fn declines_when_full_and_looks_again_after_a_while() {
        let mut node = Node::new();
        let first = declined(node.tasks_have(4, 6, WAIT));
        assert_eq!(node.promised(), 0);
        let second = declined(node.retry(first, 4, 4, WAIT));
        assert_eq!(node.retry(second, 4, 1, WAIT), Step::Apply { n_a: 3 });
        assert!(node.tasks_no());
    }

    #[test]
    fn a_task_that_ends_cuts_the_wait_short() {
        let mut node = Node::new();
        let wait = declined(node.tasks_have(2, 3, WAIT));
        assert_eq!(node.room(2, 2), Step::Stay, "still full");
        assert_eq!(node.room(2, 1), Step::Apply { n_a: 1 });
        assert_eq!(node.retry(wait, 2, 1, WAIT), Step::Stay, "the wait was overtaken");
        let again = declined(node.tasks_given(2, 2, WAIT));
        assert_eq!(node.retry(wait, 2, 2, WAIT), Step::Stay, "it does not start a second chain of waits");
        assert!(!node.tasks_no());
        assert_eq!(node.retry(again, 2, 0, WAIT), Step::Stay);
        assert_eq!(node.room(2, 0), Step::Stay);
    }

    #[test]
    fn tasks_that_come_after_the_end_are_no_reason_to_ask() {
        let mut node = Node::new();
        assert_eq!(node.tasks_given(4, 2, WAIT), Step::Stay);
        assert!(!node.tasks_no());
    }

    #[test]
    fn another_manager_gets_an_application_of_its_own() {
        let mut node = Node::new();
        assert_eq!(node.tasks_have(4, 0, WAIT), Step::Apply { n_a: 4 });
        assert_eq!(node.tasks_have(4, 0, WAIT), Step::Apply { n_a: 4 });
        assert_eq!(node.promised(), 4);
    }
}
