//! How far a spawn is, in its home daemon: one state, and the one table of what changes it and what follows.

use pvm_wire::{PvmError, Tid};
use std::fmt;

/// How far a spawn is: what hands out its waiting tasks. The spawn itself records which of its tasks wait, run or have failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// One host was told to start all of it.
    Pinned,
    /// Nothing is handed out: nothing waits, or the parent has to take its notices first.
    Resting,
    /// Tasks wait, and so does the spawn, in line for a manager.
    InLine,
    /// This manager hands out what waits.
    Managed(Tid),
    /// As before, but no node may be given more within its limit: what waits is divided when all else is settled.
    Dividing(Tid),
    /// The agents of its policy place what waits.
    Placed,
    /// What waits cannot be placed: it fails as fast as the parent takes its notices.
    Failing(PvmError),
    /// Nothing more is started.
    Cancelled,
    /// The fate of every task is known.
    Over,
}

/// What changes a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    /// There are tasks that wait, this many more than before, and the parent takes its notices.
    TasksWait { more: u32 },
    /// As before, in a spawn by a policy of agents.
    AgentsWanted { more: u32 },
    /// This manager is free for the spawn, whose turn it is.
    Assigned(Tid),
    /// Its manager has died.
    ManagerGone,
    /// Nothing is left to hand out, nor can any of it come back.
    NothingWaits,
    /// The parent has too many notices to take.
    Held,
    /// No node may be given more within its limit.
    LimitsReached,
    /// No host has room for what waits, the agents say, or they take too long.
    NoRoom,
    /// The fate of some more tasks is known.
    Settled,
    /// What waits of a spawn whose caller waits for an answer cannot be placed.
    Unplaceable { error: PvmError, reason: &'a str },
    /// What waits of a queued batch cannot be placed.
    Hopeless(PvmError),
    /// The batch is cancelled.
    Cancelled,
    /// The fate of every task is known.
    Over,
}

/// What is to be done, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect<'a> {
    /// Wait in line for a manager.
    FindManager,
    /// Wait in line no more.
    LeaveLine,
    /// This manager has no more to do with it.
    Free(Tid),
    /// Tell this manager how many more tasks wait.
    TellMore(Tid, u32),
    /// Divide what waits among the nodes, if all else is settled.
    Divide,
    /// Tell the agents that tasks wait: all of them, or this many more.
    TellAgents(Option<u32>),
    /// Tell the agents that none wait.
    DismissAgents,
    /// Divide what waits among the nodes, if the caller waits for an answer.
    DivideNow,
    /// What waits is refused at once.
    Refuse { error: PvmError, reason: &'a str },
    /// What waits fails while the parent takes its notices.
    Fail(PvmError),
    /// Tell the nodes that know of waiting tasks that none wait.
    CloseNodes,
}

impl State {
    /// The manager that hands out what waits.
    pub fn manager(self) -> Option<Tid> {
        match self {
            Self::Managed(manager) | Self::Dividing(manager) => Some(manager),
            _ => None,
        }
    }

    /// The table.
    pub fn next(self, event: Event<'_>) -> (Self, Vec<Effect<'_>>) {
        use State::{Cancelled, Dividing, Failing, InLine, Managed, Over, Pinned, Placed, Resting};
        let unchanged = (self, Vec::new());
        match event {
            Event::TasksWait { more } => match self {
                Resting | InLine => (InLine, vec![Effect::FindManager]),
                Managed(manager) | Dividing(manager) => (self, vec![Effect::TellMore(manager, more)]),
                Failing(error) => (self, vec![Effect::Fail(error)]),
                Pinned | Placed | Cancelled | Over => unchanged,
            },
            Event::AgentsWanted { more } => match self {
                Resting => (Placed, vec![Effect::TellAgents(None)]),
                Placed => (self, vec![Effect::TellAgents(Some(more))]),
                Failing(error) => (self, vec![Effect::Fail(error)]),
                Pinned | InLine | Managed(_) | Dividing(_) | Cancelled | Over => unchanged,
            },
            Event::NoRoom => match self {
                Placed => (self, vec![Effect::DivideNow]),
                _ => unchanged,
            },
            Event::Assigned(manager) => match self {
                InLine => (Managed(manager), Vec::new()),
                Pinned | Resting | Managed(_) | Dividing(_) | Placed | Failing(_) | Cancelled | Over => {
                    unchanged
                }
            },
            Event::ManagerGone => match self {
                // The next manager does not tell all nodes: by some policies only those that it has tasks for.
                Managed(_) | Dividing(_) => (Resting, vec![Effect::CloseNodes]),
                Pinned | Resting | InLine | Placed | Failing(_) | Cancelled | Over => unchanged,
            },
            Event::NothingWaits => match self {
                Resting | Failing(_) => (Resting, Vec::new()),
                InLine | Managed(_) | Dividing(_) | Placed => (Resting, self.without_manager()),
                Pinned | Cancelled | Over => unchanged,
            },
            Event::Held => match self {
                InLine | Managed(_) | Dividing(_) | Placed => (Resting, self.without_manager()),
                Pinned | Resting | Failing(_) | Cancelled | Over => unchanged,
            },
            Event::LimitsReached => match self {
                Managed(manager) | Dividing(manager) => (Dividing(manager), vec![Effect::Divide]),
                Pinned | Resting | InLine | Placed | Failing(_) | Cancelled | Over => unchanged,
            },
            Event::Settled => match self {
                Dividing(_) => (self, vec![Effect::Divide]),
                Pinned | Resting | InLine | Managed(_) | Placed | Failing(_) | Cancelled | Over => unchanged,
            },
            Event::Unplaceable { error, reason } => match self {
                InLine => (Resting, vec![Effect::LeaveLine, Effect::Refuse { error, reason }]),
                Resting | Managed(_) | Dividing(_) | Placed => (self, vec![Effect::Refuse { error, reason }]),
                Pinned | Failing(_) | Cancelled | Over => unchanged,
            },
            Event::Hopeless(error) => match self {
                Resting | InLine | Managed(_) | Dividing(_) | Placed | Failing(_) => {
                    let mut effects = self.without_manager();
                    effects.push(Effect::Fail(error));
                    (Failing(error), effects)
                }
                Pinned | Cancelled | Over => unchanged,
            },
            Event::Cancelled => match self {
                Resting | InLine | Managed(_) | Dividing(_) | Placed | Failing(_) | Cancelled => {
                    (Cancelled, self.without_manager())
                }
                Pinned | Over => unchanged,
            },
            Event::Over => match self {
                Managed(_) | Dividing(_) | Placed => (Over, self.without_manager()),
                InLine => (Over, vec![Effect::LeaveLine, Effect::CloseNodes]),
                Resting | Failing(_) | Cancelled => (Over, vec![Effect::CloseNodes]),
                Pinned | Over => (Over, Vec::new()),
            },
        }
    }

    /// What it takes that no manager hands it out and no agent places it, and none will.
    pub fn without_manager<'a>(self) -> Vec<Effect<'a>> {
        match self {
            Self::InLine => vec![Effect::LeaveLine],
            Self::Managed(manager) | Self::Dividing(manager) => vec![Effect::Free(manager)],
            Self::Placed => vec![Effect::DismissAgents],
            Self::Pinned | Self::Resting | Self::Failing(_) | Self::Cancelled | Self::Over => Vec::new(),
        }
    }
}

/// How the waiting tasks are handed out, in a few words for people.
impl fmt::Display for State {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pinned => out.write_str("pinned"),
            Self::Resting => out.write_str("no manager"),
            Self::InLine => out.write_str("in line for a manager"),
            Self::Managed(manager) => write!(out, "manager {manager}"),
            Self::Dividing(manager) => write!(out, "manager {manager}, limits reached"),
            Self::Placed => out.write_str("placed by agents"),
            Self::Failing(error) => write!(out, "fails: {}", error.name()),
            Self::Cancelled => out.write_str("cancelled"),
            Self::Over => out.write_str("over"),
        }
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
