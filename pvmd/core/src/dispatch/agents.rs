//! The agents of placement policies: what they hear, and what the core does about what they do.

use crate::Core;
use crate::addresses::SpawnId;
use crate::spawn::{AgentAction, AgentEvent, Placed, Reaction, View, host_of, number};
use crate::tasks::Task;
use crate::timers::Timer;
use pvm_sched::allocation::agent::Action;
use pvm_sched::policy::Policy;
use pvm_wire::batch::BatchId;
use pvm_wire::calls::turns::{self as calls, Receiver};
use pvm_wire::daemon::{Blob, DaemonMsg, ToMaster};
use pvm_wire::queue::PolicyMessages;
use pvm_wire::{HostIndex, Tid};
use std::time::Duration;
use tracing::{trace, warn};

/// Prices change with each task, and the master's deputies hear of each entry of the mailbox: four in a second are enough for readers.
const OFFERS_APART: Duration = Duration::from_millis(250);

impl Core {
    /// The next agent hears its next event. Whether there was one.
    pub(crate) fn next_agent_event(&mut self) -> bool {
        // They wait while the machine has no master.
        let Some(centre) = self.hosts.master().filter(|_| !self.agents.is_idle()) else { return false };
        let load = self.node(|node, tasks, at| node.load_and_room(tasks, at));
        let known = self.hosts.iter().map(|entry| entry.index).filter(|&host| self.hosts.is_reachable(host));
        let hosts: Vec<usize> = known.map(number).collect();
        let clusters = self.hosts.clusters();
        let view = View { own: self.config.index, centre, load, hosts: &hosts, clusters, now: self.now };
        if let Some(Reaction { policy, actions, cause, messages }) = self.agents.hear_next(&view) {
            if let Some(batch) = cause.filter(|batch| batch.home == self.config.index) {
                let messages = PolicyMessages { between_hosts: messages, at_home: 0 };
                self.home.count_messages(SpawnId(batch.number), messages);
            }
            for action in actions {
                trace!(%policy, ?action, "an agent acts");
                self.on_agent_action(policy, action, cause);
            }
        }
        true
    }

    fn on_agent_action(&mut self, policy: Policy, action: AgentAction, cause: Option<BatchId>) {
        match action {
            Action::Start { request, host, count } => {
                self.home(|home, at| home.on_agent_start(policy, SpawnId(request), host_of(host), count, at));
            }
            Action::Send { to, message } if to == number(self.config.index) => {
                self.agents.tell(policy, AgentEvent::Heard { from: to, message }, cause);
            }
            Action::Send { to, message } => match host_of(to).filter(|&host| self.hosts.is_reachable(host)) {
                Some(host) => {
                    let policy = policy.name().to_owned();
                    self.tell(host, DaemonMsg::Agent { policy, message: Blob(message.into()), cause });
                }
                None => self.agents.tell(policy, AgentEvent::Gone(to), cause),
            },
            Action::Wake(after) => {
                self.out.timers.cancel(Timer::Agent(policy));
                self.set_timer(Duration::from_millis(after), Timer::Agent(policy));
            }
            Action::Post(offer) => {
                self.agents.post(offer);
                if !self.out.timers.is_set(Timer::Offer) {
                    self.tell_offer();
                }
            }
            Action::NoRoom { request } => self.home(|home, at| home.on_no_room(SpawnId(request), at)),
        }
    }

    /// The master, which has the mailbox, is told what this host asks and has earned.
    pub(crate) fn tell_offer(&mut self) {
        if let Some(offer) = self.agents.take_offer() {
            self.tell_master(ToMaster::Offer(offer));
            self.set_timer(OFFERS_APART, Timer::Offer);
        }
    }

    /// The agent of another host says something.
    pub(crate) fn on_agent_message(
        &mut self,
        host: HostIndex,
        policy: &str,
        message: &Blob,
        cause: Option<BatchId>,
    ) {
        match policy.parse::<Policy>() {
            Ok(policy) if self.hosts.contains(host) => {
                let heard = AgentEvent::Heard { from: number(host), message: message.0.to_vec() };
                self.agents.tell(policy, heard, cause);
            }
            Ok(_) => {}
            Err(unknown) => warn!(%host, %unknown, "an agent of another host speaks: ignored"),
        }
    }

    /// Tasks have begun here.
    pub(crate) fn agents_began(&mut self, placed: Option<Placed>, count: u32) {
        let home = number(placed.map_or(self.config.index, |placed| placed.home));
        let request = placed.map_or(0, |placed| placed.request.0);
        self.agents.tell_all(|policy| {
            let placed = placed.is_some_and(|placed| placed.policy == policy);
            AgentEvent::Began { home, request, count, placed }
        });
    }

    /// A task here says what it has sent to whom.
    pub(crate) fn on_task_traffic(&mut self, tid: Tid, told: calls::Traffic) {
        self.pass_traffic(tid, self.tasks.get(tid).and_then(|task| task.placed), told.receivers, false);
    }

    /// The home of a task's spawn is to know what it has sent, if the spawn's policy is the one that uses it.
    fn pass_traffic(&mut self, tid: Tid, placed: Option<Placed>, receivers: Vec<Receiver>, is_last: bool) {
        if let Some(placed) = placed.filter(|placed| placed.policy == Policy::GraphTheoretic) {
            self.tell(placed.home, DaemonMsg::Traffic { tid, receivers, is_last });
        }
    }

    /// A task has ended here, or was not started after all.
    pub(crate) fn agents_ended(&mut self, task: &Task) {
        if task.manager {
            return;
        }
        self.pass_traffic(task.tid, task.placed, Vec::new(), true);
        let home = number(task.placed.map_or(self.config.index, |placed| placed.home));
        self.agents.tell_all(|policy| {
            let placed = task.placed.is_some_and(|placed| placed.policy == policy);
            AgentEvent::Ended { home, placed }
        });
    }
}
