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
use pvm_sched::allocation::Clusters;
use pvm_sched::allocation::agent::{self, Action, Party, Randomness, Scene};
use pvm_sched::policy::Policy;
use pvm_wire::HostIndex;
use pvm_wire::batch::BatchId;
use pvm_wire::daemon::Offer;
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
    events: VecDeque<(Policy, Told)>,
    random: Randomness,
    /// What the public list is to say of this host.
    offer: Option<Offer>,
}

#[derive(Debug)]
struct Agent {
    party: Box<dyn Party>,
    /// Messages to other hosts so far.
    sent: u64,
}

/// An event, and the batch for which it happens, if it is for one.
#[derive(Debug)]
struct Told {
    event: AgentEvent,
    cause: Option<BatchId>,
}

/// What an agent does about an event.
#[derive(Debug)]
pub(crate) struct Reaction {
    pub policy: Policy,
    pub actions: Vec<AgentAction>,
    /// The batch for which it is done, as far as that is known.
    pub cause: Option<BatchId>,
    /// Messages from and to agents of other hosts that the event and the actions are.
    pub messages: u64,
}

/// The host as an agent sees it.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub own: HostIndex,
    pub centre: HostIndex,
    /// Tasks, and the load of others in the same measure; and the number of tasks for which there are processors.
    pub load: (u32, u32),
    pub hosts: &'a [usize],
    pub clusters: &'a Clusters,
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
        Self {
            by_policy: BTreeMap::new(),
            events: VecDeque::new(),
            random: Randomness::new(seed),
            offer: None,
        }
    }

    /// Has the agent of a policy hear something that happens for a batch, or for none. There is none of a policy that has no agents.
    pub fn tell(&mut self, policy: Policy, event: AgentEvent, cause: Option<BatchId>) {
        if let Entry::Vacant(place) = self.by_policy.entry(policy) {
            let Some(party) = policy.agent() else { return };
            place.insert(Agent { party, sent: 0 });
        }
        self.events.push_back((policy, Told { event, cause }));
    }

    /// Has all agents hear something, if there are any.
    pub fn tell_all(&mut self, event: impl Fn(Policy) -> AgentEvent) {
        let told = |policy| (policy, Told { event: event(policy), cause: None });
        self.events.extend(self.by_policy.keys().map(|&policy| told(policy)));
    }

    /// The public list is to say this of this host.
    pub fn post(&mut self, offer: Offer) {
        self.offer = Some(offer);
    }

    /// What it is to say, if that is new.
    pub fn take_offer(&mut self) -> Option<Offer> {
        self.offer.take()
    }

    /// Whether no agent has anything to hear.
    pub fn is_idle(&self) -> bool {
        self.events.is_empty()
    }

    /// The next agent hears its next event: what it does.
    pub fn hear_next(&mut self, view: &View<'_>) -> Option<Reaction> {
        let (policy, Told { event, cause }) = self.events.pop_front()?;
        let agent = self.by_policy.get_mut(&policy)?;
        let at = (number(view.own), number(view.centre));
        let now = view.now.as_millis() as u64;
        let is_heard = matches!(event, AgentEvent::Heard { from, .. } if from != at.0);
        let scene = Scene::new(at, view.load, view.hosts, now, &mut self.random);
        let mut scene = scene.within(view.clusters);
        agent.party.on(event, &mut scene);
        let actions = scene.into_actions();
        let to_others = |action: &&AgentAction| matches!(action, Action::Send { to, .. } if *to != at.0);
        let sent = actions.iter().filter(to_others).count() as u64;
        agent.sent += sent;
        // A host that asks by itself does not know for which batch. What it is given tells.
        let cause = cause.or_else(|| decided(&actions).map(|number| BatchId { home: view.own, number }));
        Some(Reaction { policy, actions, cause, messages: sent + u64::from(is_heard) })
    }

    /// Messages of each agent to those of other hosts so far.
    pub fn sent(&self) -> BTreeMap<Policy, u64> {
        self.by_policy.iter().map(|(&policy, agent)| (policy, agent.sent)).collect()
    }

    /// A line for each, for people.
    pub fn summaries(&self) -> impl Iterator<Item = String> {
        self.by_policy
            .iter()
            .map(|(policy, agent)| format!("agent of {policy}: {} messages sent", agent.sent))
    }
}

/// The request of which something is decided first.
fn decided(actions: &[AgentAction]) -> Option<u64> {
    actions.iter().find_map(|action| match *action {
        Action::Start { request, .. } | Action::NoRoom { request } => Some(request),
        Action::Send { .. } | Action::Wake(_) | Action::Post(_) => None,
    })
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
        let room = if at.owners.is_own_here() { 0 } else { at.config.slots };
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
            let batch = self.batch_id(id);
            let is_graph = policy == Policy::GraphTheoretic;
            let traffic = is_graph.then(|| among_waiting(&spawn.placing.traffic, &spawn.placing.order()));
            let (traffic, may_wait) = (traffic.unwrap_or_default(), spawn.queue().is_some());
            let known = AgentEvent::Known { request: id.0, traffic, may_wait };
            at.out.push(Effect::TellAgent(policy, known, batch));
            let created = AgentEvent::Created { request: id.0, count };
            at.out.push(Effect::TellAgent(policy, created, batch));
            at.out.push(Effect::CancelTimer(Timer::Patience(id)));
            at.out.push(Effect::SetTimer(PATIENCE, Timer::Patience(id)));
        }
    }

    pub(super) fn dismiss_agents(&self, id: SpawnId, at: &mut Decision<'_>) {
        let Some(spawn) = self.spawns.get(&id) else { return };
        let dropped = AgentEvent::Dropped { request: id.0 };
        at.out.push(Effect::TellAgent(spawn.placing.policy, dropped, self.batch_id(id)));
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
            spawn.placing.count_grant(host, taken, None, at.now);
            self.costs.given(policy, taken);
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

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: HostIndex = HostIndex::MASTER;

    fn batch(number: u64) -> BatchId {
        BatchId { home: OWN, number }
    }

    fn view<'a>(load: (u32, u32), hosts: &'a [usize], clusters: &'a Clusters) -> View<'a> {
        View { own: OWN, centre: OWN, load, hosts, clusters, now: Duration::from_secs(1) }
    }

    /// Has an agent on a host with this load hear something for a batch or for none.
    fn react(agents: &mut Agents, policy: Policy, event: AgentEvent, cause: Option<BatchId>) -> Reaction {
        agents.tell(policy, event, cause);
        agents.hear_next(&view((1, 1), &[1, 2, 3], &Clusters::default())).expect("it hears")
    }

    fn sent(reaction: &Reaction) -> Vec<Vec<u8>> {
        let message = |action: &AgentAction| match action {
            Action::Send { message, .. } => Some(message.clone()),
            _ => None,
        };
        reaction.actions.iter().filter_map(message).collect()
    }

    #[test]
    fn what_agents_say_for_a_batch_counts_for_it() {
        let mut agents = Agents::new(1);
        let created = AgentEvent::Created { request: 7, count: 1 };
        let asks = react(&mut agents, Policy::SenderInitiated, created, Some(batch(7)));
        assert_eq!((asks.cause, asks.messages, sent(&asks).len()), (Some(batch(7)), 1, 1));
        // Another host has the same agent, and answers for the same batch.
        let mut other = Agents::new(2);
        let heard = AgentEvent::Heard { from: 2, message: sent(&asks).remove(0) };
        let answers = react(&mut other, Policy::SenderInitiated, heard, asks.cause);
        assert_eq!((answers.cause, answers.messages), (Some(batch(7)), 2), "one heard, one said");
        let answer = AgentEvent::Heard { from: 2, message: sent(&answers).remove(0) };
        let next = react(&mut agents, Policy::SenderInitiated, answer, answers.cause);
        assert_eq!((next.cause, next.messages), (Some(batch(7)), 2), "it has no room: the next is asked");
        assert_eq!(agents.sent(), BTreeMap::from([(Policy::SenderInitiated, 2)]));
    }

    #[test]
    fn a_host_that_asks_by_itself_counts_for_what_it_is_given() {
        let mut agents = Agents::new(1);
        let policy = Policy::ReceiverInitiated;
        let created = AgentEvent::Created { request: 9, count: 1 };
        let said = react(&mut agents, policy, created, Some(batch(9)));
        assert_eq!(said.messages, 2, "two others are told that tasks wait");
        // Another host is told that tasks wait, has room and asks when it is woken.
        let mut other = Agents::new(2);
        let waiting = AgentEvent::Heard { from: 1, message: sent(&said).remove(0) };
        let clusters = Clusters::default();
        let view = |load| view(load, &[1, 2], &clusters);
        other.tell(policy, waiting, None);
        other.tell(policy, AgentEvent::Woken, None);
        let _ = other.hear_next(&view((0, 1)));
        let asks = other.hear_next(&view((0, 1))).expect("it asks");
        assert_eq!((asks.cause, asks.messages), (None, 1));
        let ask = AgentEvent::Heard { from: 2, message: sent(&asks).remove(0) };
        let gives = react(&mut agents, policy, ask.clone(), None);
        assert_eq!((gives.cause, gives.messages), (Some(batch(9)), 2));
        let nothing = react(&mut agents, policy, ask, None);
        assert_eq!((nothing.cause, nothing.messages), (None, 2), "it has no more to give");
    }
}
