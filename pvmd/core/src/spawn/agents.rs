//! Policies of agents: this host's agents, and what home and node have to do with them (`pvm_sched::allocation::agent`).

use super::home::Home;
use super::node::Node;
use super::state::{Event, State};
use super::traffic::among_waiting;
use crate::addresses::SpawnId;
use crate::decision::Decision;
use crate::effect::Effect;
use crate::tasks::Tasks;
use crate::timers::Timer;
use pvm_sched::allocation::agent::{self, Action, Party, Randomness, Scene};
use pvm_sched::policy::Policy;
use pvm_wire::HostIndex;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// How long the caller of a spawn waits at most for agents that find no host, before its tasks are divided among all.
const PATIENCE: Duration = Duration::from_secs(1);

/// What an agent hears, and does.
pub(crate) type AgentEvent = agent::Event<Vec<u8>>;
pub(crate) type AgentAction = Action<Vec<u8>>;

/// This host's agents. There is one of a policy from its first use, here or on a host that has said something to it.
#[derive(Debug)]
pub(crate) struct Agents {
    by_policy: BTreeMap<Policy, Agent>,
    /// Events that they have not heard yet.
    events: VecDeque<(Policy, AgentEvent)>,
    random: Randomness,
}

#[derive(Debug)]
struct Agent {
    party: Box<dyn Party>,
    /// Messages to other hosts so far.
    sent: u64,
}

/// The host as an agent sees it.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub own: HostIndex,
    pub centre: HostIndex,
    /// Tasks, and the load of others in the same measure; and the number of tasks for which there are processors.
    pub load: (u32, u32),
    pub hosts: &'a [usize],
    pub now: Duration,
}

/// A task that agents have placed: by which policy, and from which home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub policy: Policy,
    pub home: HostIndex,
    pub request: SpawnId,
}

impl Agents {
    pub fn new(seed: u64) -> Self {
        Self { by_policy: BTreeMap::new(), events: VecDeque::new(), random: Randomness::new(seed) }
    }

    /// Has the agent of a policy hear something. There is none of a policy that has no agents.
    pub fn tell(&mut self, policy: Policy, event: AgentEvent) {
        if let Entry::Vacant(place) = self.by_policy.entry(policy) {
            let Some(party) = policy.agent() else { return };
            place.insert(Agent { party, sent: 0 });
        }
        self.events.push_back((policy, event));
    }

    /// Has all agents hear something, if there are any.
    pub fn tell_all(&mut self, event: impl Fn(Policy) -> AgentEvent) {
        self.events.extend(self.by_policy.keys().map(|&policy| (policy, event(policy))));
    }

    /// Whether no agent has anything to hear.
    pub fn is_idle(&self) -> bool {
        self.events.is_empty()
    }

    /// The next agent hears its next event: what it does.
    pub fn hear_next(&mut self, view: &View<'_>) -> Option<(Policy, Vec<AgentAction>)> {
        let (policy, event) = self.events.pop_front()?;
        let agent = self.by_policy.get_mut(&policy)?;
        let at = (number(view.own), number(view.centre));
        let now = view.now.as_millis() as u64;
        let mut scene = Scene::new(at, view.load, view.hosts, now, &mut self.random);
        agent.party.on(event, &mut scene);
        let actions = scene.into_actions();
        let to_others = |action: &&AgentAction| matches!(action, Action::Send { to, .. } if *to != at.0);
        agent.sent += actions.iter().filter(to_others).count() as u64;
        Some((policy, actions))
    }

    /// A line for each, for people.
    pub fn summaries(&self) -> impl Iterator<Item = String> {
        self.by_policy
            .iter()
            .map(|(policy, agent)| format!("agent of {policy}: {} messages sent", agent.sent))
    }
}

/// A host's number, as agents count them.
pub(crate) fn number(host: HostIndex) -> usize {
    host.get() as usize
}

/// The host of this number.
pub(crate) fn host_of(number: usize) -> Option<HostIndex> {
    HostIndex::new(u32::try_from(number).ok()?)
}

impl Node {
    /// The tasks that fill slots here with the load of others in the same measure, and the number of slots.
    pub fn load_and_room(&self, tasks: &Tasks, at: &Decision<'_>) -> (u32, u32) {
        let room = at.config.slots;
        let outside = (self.load.outside(at.config.cores) * f64::from(room)).round() as u32;
        (u32::try_from(tasks.filling()).unwrap_or(u32::MAX).saturating_add(outside), room)
    }
}

/// As home of a spawn that agents place.
impl Home {
    pub(super) fn tell_agents(&mut self, id: SpawnId, more: Option<u32>, at: &mut Decision<'_>) {
        let Some(spawn) = self.spawns.get(&id) else { return };
        let (policy, count) = (spawn.placing.policy, more.unwrap_or_else(|| spawn.placing.waiting()));
        if count > 0 {
            if policy == Policy::GraphTheoretic {
                let traffic = among_waiting(&spawn.placing.traffic, &spawn.placing.order());
                let known = AgentEvent::Known { request: id.0, traffic, may_wait: spawn.queue().is_some() };
                at.out.push(Effect::TellAgent(policy, known));
            }
            at.out.push(Effect::TellAgent(policy, AgentEvent::Created { request: id.0, count }));
            at.out.push(Effect::CancelTimer(Timer::Patience(id)));
            at.out.push(Effect::SetTimer(PATIENCE, Timer::Patience(id)));
        }
    }

    pub(super) fn dismiss_agents(&self, id: SpawnId, at: &mut Decision<'_>) {
        let Some(spawn) = self.spawns.get(&id) else { return };
        at.out.push(Effect::TellAgent(spawn.placing.policy, AgentEvent::Dropped { request: id.0 }));
    }

    /// This host's agent has found a host for tasks of a spawn.
    pub fn on_agent_start(
        &mut self,
        policy: Policy,
        id: SpawnId,
        host: Option<HostIndex>,
        count: u32,
        at: &mut Decision<'_>,
    ) {
        let batch = self.batch_id(id);
        let is_its = |spawn: &&mut super::progress::Spawn| {
            spawn.state() == State::Placed && spawn.placing.policy == policy
        };
        let Some(spawn) = self.spawns.get_mut(&id).filter(is_its) else { return };
        // A host that is gone meanwhile takes nothing.
        let can_take = |host: &HostIndex| at.hosts.is_reachable(*host) && spawn.placing.nodes.contains(host);
        let host = host.filter(can_take).unwrap_or(at.config.index);
        let ranges = spawn.placing.take(host, count);
        let taken = ranges.iter().map(|(_, count)| count).sum();
        if taken > 0 {
            spawn.placing.count_grant(host, taken, None);
        }
        for range in ranges {
            spawn.order(id, host, range, Some(batch), at.out);
        }
    }

    /// No host has room for what waits of a spawn, this host's agent says.
    pub fn on_no_room(&mut self, id: SpawnId, at: &mut Decision<'_>) {
        self.step(id, Event::NoRoom, at);
    }

    /// A spawn has waited for long.
    pub fn on_impatient(&mut self, id: SpawnId, at: &mut Decision<'_>) {
        let Some(spawn) = self.spawns.get(&id).filter(|spawn| spawn.placing.waiting() > 0) else { return };
        if spawn.state() == State::Placed {
            at.out.push(Effect::SetTimer(PATIENCE, Timer::Patience(id)));
            self.step(id, Event::NoRoom, at);
        }
    }
}
