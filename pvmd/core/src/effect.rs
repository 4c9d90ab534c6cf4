//! What follows from what a concern has decided. A concern neither reaches for the others nor for the driver: it leaves effects
//! behind, which the core carries out in order.

use super::addresses::{ExecId, PeerTo, ReplyTo, ServiceTo, Waiter};
use super::event::Action;
use super::spawn::AgentEvent;
use super::timers::Timer;
use pvm_sched::policy::Policy;
use pvm_wire::batch::{BatchId, BatchMsg, Node};
use pvm_wire::calls::{Call, CallError};
use pvm_wire::codes::Sm;
use pvm_wire::daemon::{Blob, DaemonMsg, FromMaster, PeerReply, PeerRequest};
use pvm_wire::spawn::Sink;
use pvm_wire::{HostIndex, Tid};
use std::time::Duration;

/// One thing that is to be done.
#[derive(Debug)]
pub(crate) enum Effect {
    /// By the driver.
    Act(Box<Action>),
    /// A message to a daemon, which may be this one.
    Tell(HostIndex, DaemonMsg),
    /// A message to all other members of the virtual machine.
    TellMembers(DaemonMsg),
    /// A message of this daemon to a task, which may be on another host.
    Send { to: Tid, mark: Mark, body: Vec<u8> },
    /// A request to a daemon, which may be this one.
    Ask(HostIndex, PeerRequest, Waiter),
    /// The answer to a daemon's request.
    Answer(PeerTo, PeerReply),
    /// The answer to a task's request.
    Reply(ReplyTo, Vec<u8>),
    /// A message about a batch, to a manager or to a daemon, which may be this one.
    SendBatch(Tid, BatchMsg),
    /// This manager places a batch: told with what this host asks for, if it is one of the nodes.
    Place(Tid, Placement),
    /// This host's agent of a policy hears something that happens for a batch.
    TellAgent(Policy, AgentEvent, BatchId),
    /// A task manager is started.
    StartManager,
    /// A manager that is not needed is ended.
    EndManager(Tid),
    /// The next tasks of an order are started, as many as there is room for.
    StartTasks(ExecId),
    /// The sinks of a spawn's task are told of its start.
    ReportStart(Started),
    /// A signal to a task, which may be on another host.
    Signal(Tid, i32),
    /// After this time.
    SetTimer(Duration, Timer),
    /// Not at all.
    CancelTimer(Timer),
    /// The master's word to a host.
    Order(HostIndex, FromMaster),
    /// The master's word to all hosts that it talks to.
    OrderAll(FromMaster),
    /// A message of the keeper of groups to tasks, by way of the master's word to their hosts.
    OrderTasks { to: Vec<Tid>, context: i32, tag: i32, body: Blob },
    /// The master and this host have nothing to say to each other any more.
    CloseSession(HostIndex),
    /// The daemon of this host ends, and closes its link then.
    ExpectEnd(HostIndex),
    /// The link to this host is not wanted any more, and what it was asked for is not answered.
    DropLink(HostIndex),
    /// A host may be lost: the master checks all links at the full rate.
    Alarm,
    /// All daemons end.
    EndMachine,
}

/// A batch that a manager is to place.
#[derive(Debug)]
pub(crate) struct Placement {
    pub batch: BatchId,
    /// Tasks that wait.
    pub count: u64,
    pub nodes: Vec<Node>,
    /// Whether they wait until there is room.
    pub queued: bool,
    pub policy: Policy,
    /// The host that a divided batch was given to last.
    pub last: HostIndex,
}

/// A spawn's task that runs, and what reports of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Started {
    pub tid: Tid,
    pub spawner: Tid,
    /// The parent as the task sees it.
    pub parent: i32,
    pub trace: Sink,
    pub output: Sink,
}

/// How a message to a task is marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub context: i32,
    pub tag: i32,
    pub wait_id: i32,
}

impl Mark {
    pub fn new(context: i32, tag: i32) -> Self {
        Self { context, tag, wait_id: 0 }
    }

    /// As an answer to a resource manager's request.
    pub fn answer(to: ServiceTo, what: Sm) -> Self {
        Self { context: to.context, tag: what.tag(), wait_id: to.wait_id }
    }
}

/// What is to be done, in order.
#[derive(Debug, Default)]
pub(crate) struct Effects(Vec<Effect>);

impl Effects {
    pub fn push(&mut self, effect: Effect) {
        self.0.push(effect);
    }

    pub fn act(&mut self, action: Action) {
        self.push(Effect::Act(Box::new(action)));
    }

    pub fn tell(&mut self, host: HostIndex, message: DaemonMsg) {
        self.push(Effect::Tell(host, message));
    }

    pub fn send(&mut self, to: Tid, mark: Mark, body: Vec<u8>) {
        self.push(Effect::Send { to, mark, body });
    }

    pub fn answer(&mut self, to: PeerTo, reply: PeerReply) {
        self.push(Effect::Answer(to, reply));
    }

    pub fn send_batch(&mut self, to: Tid, message: BatchMsg) {
        self.push(Effect::SendBatch(to, message));
    }

    /// The answer to a task's request that fails.
    pub fn refuse(&mut self, to: ReplyTo, error: impl Into<CallError>) {
        self.push(Effect::Reply(to, error.into().encode()));
    }

    pub fn reply<C: Call>(&mut self, to: ReplyTo, reply: &C::Reply) {
        self.push(Effect::Reply(to, C::encode_reply(reply)));
    }
}

impl IntoIterator for Effects {
    type Item = Effect;
    type IntoIter = std::vec::IntoIter<Effect>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
