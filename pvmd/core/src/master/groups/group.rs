//! One group: its members with their numbers, and the members that wait for others.

use pvm_wire::body::BodyWriter;
use pvm_wire::group::{Passed, Settler, View, later_turn, state};
use pvm_wire::{PvmError, Tid};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;

/// Members for which the original has room at a time in lists of groups.
const ROOM: usize = 10;
/// Instances are below this.
const INSTANCES_MAX: usize = pvm_wire::jobs::JOB_TASKS_MAX as usize;

/// Where a group is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    Dynamic,
    Static,
    /// It was static and has lost a member.
    Dead,
}

/// Members that wait for others.
#[derive(Debug, Serialize, Deserialize)]
struct Gathering {
    /// How many are to come; `None` for all members, however many these are.
    count: Option<usize>,
    reached: usize,
    /// The members that are told when it is over. Members that died meanwhile stay counted.
    waiting: Vec<Tid>,
    /// Hosts all of whose members count as arrived.
    hosts: BTreeSet<Tid>,
}

/// What an arrival or a loss leads to: the tasks that are told, and what.
pub(super) type Told = (Vec<Tid>, Result<i32, PvmError>);

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Member {
    tid: Tid,
    ours: bool,
    /// Its daemon can read how many barriers it passes, and stop it.
    has_ledger: bool,
}

/// What members have agreed on among themselves, which the keeper learns when the group changes.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Agreed {
    /// Views of the present epoch say that members may.
    is_open: bool,
    /// The latest barrier that a member has passed in an epoch that is over, or about to be.
    latest: Option<i32>,
    closing: Option<Closing>,
}

/// An epoch has ended in which members agreed on barriers. There are no views until it is known what each of them has passed.
#[derive(Debug, Serialize, Deserialize)]
struct Closing {
    epoch: i32,
    /// Members that had a view.
    pending: BTreeSet<Tid>,
    /// Tasks that have asked for a view.
    asked: BTreeSet<Tid>,
}

/// A group.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Group {
    slots: Vec<Option<Member>>,
    instances: BTreeMap<Tid, usize>,
    free: BTreeSet<usize>,
    phase: Phase,
    /// Members that died and were not replaced by others.
    vacant: usize,
    barrier: Option<Gathering>,
    freeze: Option<Gathering>,
    epoch: i32,
    turn: i32,
    /// Members with a foreign library.
    foreign: usize,
    /// Members with a ledger.
    ledgers: usize,
    /// A barrier is under way by way of the keeper, so that all others have to take the same way.
    by_keeper: bool,
    /// The members that know the present epoch.
    holders: BTreeSet<Tid>,
    agreed: Agreed,
    /// All members when they last met, and since which epoch.
    settlers: Vec<Settler>,
    settled: i32,
    meeting: Meeting,
}

/// Whether all members have met since the last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Meeting {
    Missing,
    /// They have, and holders of views are to be told before anybody goes on.
    Fresh,
    Known,
}

impl Group {
    pub fn new(epoch: i32) -> Self {
        Self {
            slots: Vec::new(),
            instances: BTreeMap::new(),
            free: BTreeSet::new(),
            phase: Phase::Dynamic,
            vacant: 0,
            barrier: None,
            freeze: None,
            epoch,
            turn: 0,
            foreign: 0,
            ledgers: 0,
            by_keeper: false,
            holders: BTreeSet::new(),
            agreed: Agreed::default(),
            settlers: Vec::new(),
            settled: epoch,
            meeting: Meeting::Missing,
        }
    }

    pub fn len(&self) -> usize {
        self.instances.len()
    }

    pub fn has(&self, tid: Tid) -> bool {
        self.instances.contains_key(&tid)
    }

    pub fn instance(&self, tid: Tid) -> Result<i32, PvmError> {
        self.instances.get(&tid).map(|&instance| instance as i32).ok_or(PvmError::NotInGroup)
    }

    /// The instance of a task; of the tid -1, with which the original marks free slots, the one that the next member gets.
    pub fn instance_or_next(&self, tid: Tid) -> Result<i32, PvmError> {
        match tid.raw() {
            -1 => Ok(self.next_instance() as i32),
            _ => self.instance(tid),
        }
    }

    fn next_instance(&self) -> usize {
        self.free.first().copied().unwrap_or(self.slots.len())
    }

    pub fn tid(&self, instance: i32) -> Result<Tid, PvmError> {
        let slot = usize::try_from(instance).ok().and_then(|instance| self.slots.get(instance));
        slot.copied().flatten().map(|member| member.tid).ok_or(PvmError::NoInst)
    }

    /// By instance.
    pub fn members(&self) -> impl Iterator<Item = Tid> {
        self.slots.iter().flatten().map(|member| member.tid)
    }

    /// The members, if their instances have no gap.
    pub fn members_without_gap(&self) -> Result<Vec<Tid>, PvmError> {
        match self.phase {
            Phase::Dead => Err(PvmError::NoGroup),
            _ if !self.free.is_empty() => Err(PvmError::NoInst),
            _ => Ok(self.members().collect()),
        }
    }

    /// Takes a task in under the lowest free instance.
    pub fn join(&mut self, tid: Tid, ours: bool) -> Result<i32, PvmError> {
        if self.phase != Phase::Dynamic {
            return Err(PvmError::NotInGroup);
        }
        if self.has(tid) {
            return Err(PvmError::DupGroup);
        }
        let instance = self.free.pop_first().unwrap_or(self.slots.len());
        if instance == self.slots.len() {
            self.slots.push(None);
        }
        self.put(tid, instance, ours);
        Ok(instance as i32)
    }

    /// Takes a task in under this instance. Whether its library is this system's is not known.
    pub fn enter(&mut self, tid: Tid, instance: u32) -> Result<i32, PvmError> {
        let instance = instance as usize;
        if self.phase != Phase::Dynamic || instance >= INSTANCES_MAX {
            return Err(PvmError::NotInGroup);
        }
        if self.has(tid) || self.slots.get(instance).is_some_and(Option::is_some) {
            return Err(PvmError::DupGroup);
        }
        while self.slots.len() <= instance {
            self.free.insert(self.slots.len());
            self.slots.push(None);
        }
        self.free.remove(&instance);
        self.put(tid, instance, false);
        Ok(instance as i32)
    }

    fn put(&mut self, tid: Tid, instance: usize, ours: bool) {
        self.slots[instance] = Some(Member { tid, ours, has_ledger: false });
        self.instances.insert(tid, instance);
        self.meeting = Meeting::Missing;
        self.foreign += usize::from(!ours);
        self.vacant = self.vacant.saturating_sub(1);
    }

    /// Lets a task go, by its own will or by its death. A dead one cannot arrive anywhere any more: whoever waits
    /// for it in vain is told. One that leaves may come back, so only those who wait for all do not wait for it.
    pub fn lose(&mut self, tid: Tid, died: bool) -> Vec<(Gathered, Told)> {
        let Some(instance) = self.instances.remove(&tid) else { return Vec::new() };
        if let Some(member) = self.slots[instance].take() {
            self.foreign -= usize::from(!member.ours);
            self.ledgers -= usize::from(member.has_ledger);
        }
        self.free.insert(instance);
        while self.slots.last().is_some_and(Option::is_none) {
            self.slots.pop();
            self.free.remove(&self.slots.len());
        }
        self.holders.remove(&tid);
        if let Some(closing) = &mut self.agreed.closing {
            closing.pending.remove(&tid);
            closing.asked.remove(&tid);
        }
        self.meeting = Meeting::Missing;
        if let Some(settler) = self.settlers.iter_mut().find(|settler| settler.tid == tid) {
            settler.lost = true;
        }
        if self.phase == Phase::Static {
            self.phase = Phase::Dead;
            // Nobody can come to its barriers any more.
            let told = self.finish(Gathered::Barrier, Err(PvmError::NoGroup));
            return told.map(|told| (Gathered::Barrier, told)).into_iter().collect();
        }
        self.vacant += usize::from(died);
        let kinds = [Gathered::Barrier, Gathered::Freeze].into_iter();
        kinds.filter_map(|kind| self.reconsider(kind).map(|told| (kind, told))).collect()
    }

    fn gathering(&mut self, kind: Gathered) -> &mut Option<Gathering> {
        match kind {
            Gathered::Barrier => &mut self.barrier,
            Gathered::Freeze => &mut self.freeze,
        }
    }

    /// A member comes to a barrier, or to where the group becomes static; with all members of its host if it says so.
    pub fn arrive(
        &mut self,
        kind: Gathered,
        tid: Tid,
        count: i32,
        whole_host: bool,
    ) -> Result<Option<Told>, PvmError> {
        self.may_arrive(kind, tid)?;
        let host = tid.to_host();
        let arrivals = if whole_host { self.on_host(host).0 } else { 1 };
        let given = (count != -1).then(|| usize::try_from(count).unwrap_or(0));
        let missing = self.missing(kind);
        let size = self.len();
        let open = self.gathering(kind).as_ref();
        let before = open.map_or(0, |open| open.reached);
        let wanted = open.map_or(given, |open| open.count);
        let fits = match (wanted, given) {
            (Some(wanted), given) => wanted == given.unwrap_or(size) && before + arrivals <= wanted,
            (None, given) => given.is_none_or(|given| given == before + missing),
        };
        if !fits {
            return Err(PvmError::Mismatch);
        }
        let fresh = Gathering { count: wanted, reached: 0, waiting: Vec::new(), hosts: BTreeSet::new() };
        let open = self.gathering(kind).get_or_insert(fresh);
        open.reached = before + arrivals;
        open.waiting.push(tid);
        if whole_host {
            open.hosts.insert(host);
        }
        Ok(self.reconsider(kind))
    }

    fn may_arrive(&self, kind: Gathered, tid: Tid) -> Result<(), PvmError> {
        match (kind, self.phase) {
            (Gathered::Barrier, Phase::Dead) => Err(PvmError::NoGroup),
            (Gathered::Freeze, Phase::Static) => Err(PvmError::DupGroup),
            (Gathered::Freeze, Phase::Dead) => Err(PvmError::Mismatch),
            _ if !self.has(tid) => Err(PvmError::NotInGroup),
            _ => Ok(()),
        }
    }

    /// Whether a gathering is complete, or cannot become so any more because members have died.
    fn reconsider(&mut self, kind: Gathered) -> Option<Told> {
        let open = self.gathering(kind).as_ref()?;
        let (reached, count) = (open.reached, open.count);
        let missing = self.missing(kind);
        if missing == 0 && count.is_none_or(|count| reached >= count) {
            self.settle();
        }
        match count {
            None if missing == 0 => self.finish(kind, Ok(reached as i32)),
            Some(count) if reached >= count => self.finish(kind, Ok(count as i32)),
            Some(count) if self.vacant > 0 && reached + missing < count => {
                self.finish(kind, Err(PvmError::NoInst))
            }
            _ => None,
        }
    }

    /// All members have met.
    fn settle(&mut self) {
        if self.meeting == Meeting::Missing {
            self.meeting = Meeting::Fresh;
            self.settlers = self.members().map(|tid| Settler { tid, lost: false }).collect();
        }
    }

    /// Whether all members have met after a change, and holders of views do not know it.
    pub fn has_settled_anew(&self) -> bool {
        self.meeting == Meeting::Fresh
    }

    /// Members that have not come to a gathering.
    fn missing(&self, kind: Gathered) -> usize {
        let open = if kind == Gathered::Barrier { &self.barrier } else { &self.freeze };
        let Some(open) = open else { return 0 };
        let here: BTreeSet<Tid> = open.waiting.iter().copied().collect();
        let came = |tid: &Tid| here.contains(tid) || open.hosts.contains(&tid.to_host());
        self.instances.keys().filter(|tid| !came(tid)).count()
    }

    fn finish(&mut self, kind: Gathered, answer: Result<i32, PvmError>) -> Option<Told> {
        let mut open = self.gathering(kind).take()?;
        open.waiting.sort_unstable();
        open.waiting.dedup();
        if kind == Gathered::Freeze && answer.is_ok() {
            self.phase = Phase::Static;
        }
        Some((open.waiting, answer))
    }

    /// How many members a host has, and the lowest tid among them.
    pub fn on_host(&self, host: Tid) -> (usize, Option<Tid>) {
        let tids = self.instances.range(host..).take_while(|(tid, _)| tid.to_host() == host);
        (tids.clone().count(), tids.map(|(&tid, _)| tid).next())
    }

    /// Per host: members and lowest tid, as two lists.
    pub fn hosts(&self) -> (Vec<i32>, Vec<i32>) {
        let mut hosts: BTreeMap<Tid, (i32, i32)> = BTreeMap::new();
        for tid in self.instances.keys() {
            hosts.entry(tid.to_host()).or_insert((0, tid.raw())).0 += 1;
        }
        hosts.into_values().unzip()
    }

    /// The state as it follows most answers. The original tells that a group is dead to those alone who ask for its
    /// hosts.
    pub fn state(&self, name: &OsStr, of_hosts: bool) -> BodyWriter {
        match self.phase {
            Phase::Dead if of_hosts => BodyWriter::new().int(state::DEAD),
            Phase::Dynamic | Phase::Dead => BodyWriter::new().int(state::DYNAMIC),
            Phase::Static => {
                let (counts, coordinators) = self.hosts();
                self.described(BodyWriter::new().int(state::STATIC), name, &[])
                    .int(counts.len() as i32)
                    .ints(counts)
                    .ints(coordinators)
            }
        }
    }

    /// The description as it stands in the list of all groups.
    pub fn listed(&self, writer: BodyWriter, name: &OsStr) -> BodyWriter {
        let open = self.barrier.as_ref();
        let reached = open.map_or(0, |open| open.reached);
        let total = open.map(|open| open.count.unwrap_or(reached + self.missing(Gathered::Barrier)));
        let numbers = [total.map_or(-1, |total| total as i32), reached as i32];
        let writer = self.described(writer, name, &numbers);
        let Some(open) = open else { return writer };
        // As many as have arrived, whether or not each has a name.
        let waiting = open.waiting.iter().map(|tid| tid.raw()).chain(std::iter::repeat(-1));
        writer.ints(waiting.take(open.reached))
    }

    fn described(&self, writer: BodyWriter, name: &OsStr, numbers: &[i32]) -> BodyWriter {
        let room = self.slots.len().max(1).next_multiple_of(ROOM);
        let slots = self.slots.iter().map(|slot| slot.map_or(-1, |member| member.tid.raw()));
        writer
            .int(name.len() as i32)
            .str(name)
            .ints([self.len() as i32, room as i32])
            .ints(numbers.iter().copied())
            .ints(slots.chain(std::iter::repeat(-1)).take(room))
    }

    /// The view for a task, which is told when it changes if it is a member. `None` if the task has to wait for it.
    pub fn view(&mut self, by: Tid) -> Option<View> {
        if let Some(closing) = &mut self.agreed.closing {
            closing.asked.insert(by);
            return None;
        }
        if self.has(by) {
            self.holders.insert(by);
        }
        let barriers = self.barriers_by_members();
        self.agreed.is_open |= barriers;
        let members = self.slots.iter().enumerate();
        let members = members.filter_map(|(at, slot)| slot.map(|member| (at as i32, member.tid)));
        Some(View {
            members: members.collect(),
            epoch: self.epoch,
            turn: self.turn,
            ours: self.foreign == 0,
            barriers,
            settled: self.settled,
            settlers: self.settlers.clone(),
            arrived: self.arrived().to_vec(),
        })
    }

    /// The member's daemon can read how many barriers it passes. Returns whether members may agree on barriers from now on.
    pub fn note_ledger(&mut self, tid: Tid) -> bool {
        let before = self.barriers_by_members();
        let slot = self.instances.get(&tid).and_then(|&instance| self.slots[instance].as_mut());
        if let Some(member) = slot.filter(|member| !member.has_ledger) {
            member.has_ledger = true;
            self.ledgers += 1;
        }
        self.barriers_by_members() != before
    }

    /// Those who wait at a barrier for all others, if it is the first of all since a change.
    pub fn arrived(&self) -> &[Tid] {
        let open = self.barrier.as_ref().filter(|_| self.meeting == Meeting::Missing);
        let of_all = |open: &&Gathering| {
            open.count.is_none_or(|count| open.reached + self.missing(Gathered::Barrier) <= count)
        };
        open.filter(of_all).map_or(&[], |open| &open.waiting)
    }

    /// Whether members may agree on barriers among themselves.
    pub fn barriers_by_members(&self) -> bool {
        let undisturbed = self.foreign == 0 && !self.by_keeper && self.phase != Phase::Dead;
        let all_have = self.ledgers == self.len() && self.len() > 1;
        undisturbed && self.meeting != Meeting::Missing && all_have
    }

    /// A barrier by way of the keeper begins or has ended.
    pub fn note_way(&mut self) {
        self.by_keeper = self.barrier.is_some();
    }

    /// The group has changed: the members to notify, as their views are out of date, and whether the keeper has to learn what they have
    /// passed.
    pub fn change(&mut self, epoch: i32) -> (Vec<Tid>, bool) {
        let before = std::mem::replace(&mut self.epoch, epoch);
        if self.meeting == Meeting::Fresh {
            (self.meeting, self.settled) = (Meeting::Known, epoch);
        }
        let holders = std::mem::take(&mut self.holders);
        let was_open = std::mem::take(&mut self.agreed.is_open);
        if was_open {
            let (pending, asked) = (holders.clone(), BTreeSet::new());
            self.agreed.closing = Some(Closing { epoch: before, pending, asked });
        } else if self.agreed.closing.is_none() {
            self.agreed.latest = None;
        }
        (holders.into_iter().collect(), was_open)
    }

    /// A member passes no barrier any more in the views from before the last change; what it had passed.
    pub fn note_passed(&mut self, tid: Tid, passed: Option<Passed>) {
        let agreed = &mut self.agreed;
        let epoch = match &mut agreed.closing {
            Some(closing) => {
                closing.pending.remove(&tid);
                closing.epoch
            }
            None => self.epoch,
        };
        if let Some(Passed { turn, .. }) = passed.filter(|passed| passed.epoch == epoch) {
            agreed.latest = Some(agreed.latest.map_or(turn, |latest| later_turn(latest, turn)));
        }
    }

    /// The tasks that wait for a view, once it is known what all members that live have passed.
    pub fn finish_closing(&mut self) -> BTreeSet<Tid> {
        let is_known =
            self.len() == 0 || self.agreed.closing.as_ref().is_some_and(|it| it.pending.is_empty());
        let closing = if is_known { self.agreed.closing.take() } else { None };
        let Some(closing) = closing else { return BTreeSet::new() };
        self.turn = self.agreed.latest.take().unwrap_or(self.turn);
        closing.asked
    }
}

/// What members gather for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gathered {
    Barrier,
    Freeze,
}
