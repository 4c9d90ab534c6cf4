//! Members that agree on barriers among themselves while others die, and while a visitor joins and leaves. The keeper is the real one; members
//! and daemons are models of the library and the driver. Messages take any time. All members that live pass the same barriers, and no
//! member passes a barrier before all have arrived there.

use super::keeper::{Answer, Keeper};
use proptest::prelude::*;
use pvm_wire::body::BodyReader;
use pvm_wire::group::{Key, Notice, Passed, Request, View, next_turn, tag};
use pvm_wire::{PvmError, Tid};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;

/// Barriers that each member passes.
const BARRIERS: u32 = 12;

fn g() -> &'static OsStr {
    OsStr::new("g")
}

/// As in the shared memory of a task.
#[derive(Clone, Copy, Debug, Default)]
struct Ledger {
    notice: i32,
    opened: Option<(i32, i32)>,
    is_open: bool,
}

impl Ledger {
    fn open(&mut self, view: &View) -> bool {
        self.opened = Some((view.epoch, view.turn));
        self.is_open = self.notice <= view.epoch;
        self.is_open
    }

    fn pass(&mut self, turn: i32) -> bool {
        let passes = self.is_open && self.opened.is_some_and(|(_, at)| at == turn);
        if let (true, Some((_, at))) = (passes, &mut self.opened) {
            *at = next_turn(*at);
        }
        passes
    }

    fn close(&mut self, epoch: i32) {
        (self.notice, self.is_open) = (epoch, false);
    }

    fn passed(&self) -> Option<Passed> {
        self.opened.map(|(epoch, turn)| Passed { group: Key::of(g()), epoch, turn })
    }
}

/// What a member waits for in a barrier.
#[derive(Clone, Debug, PartialEq)]
enum Stage {
    Outside,
    View,
    /// A message of this round, from the member `2^round` places before.
    Round(u32),
    Keeper,
    Gone,
}

/// Between members: from whom, the epoch, the turn.
type Step = (Tid, i32, i32);

struct Member {
    tid: Tid,
    stage: Stage,
    view: Option<View>,
    waiting_for: Option<i32>,
    ledger: Ledger,
    arrived: u32,
    passed: u32,
    from_keeper: VecDeque<(i32, Vec<u8>)>,
    steps: Vec<Step>,
}

/// On its way.
enum Packet {
    ToKeeper(i32, Vec<u8>),
    ToDaemon(i32, Vec<u8>),
    Step(Step),
    /// The process has ended.
    End,
}

struct World {
    keeper: Keeper,
    members: BTreeMap<Tid, Member>,
    /// Messages by sender and receiver: those of one pair keep their order.
    ways: BTreeMap<(Tid, Tid), VecDeque<Packet>>,
    random: u64,
}

const KEEPER: Tid = Tid::NONE;

impl World {
    fn new(size: i32, seed: u64) -> Self {
        let mut keeper = Keeper::default();
        let tids: Vec<Tid> = (1..=size).map(|n| Tid::from_raw(0x40000 * n + 1)).collect();
        for &tid in &tids {
            keeper.handle(tid, tag::JOIN, &Request::Join(g(), true).encode());
        }
        let members = tids.into_iter().map(|tid| (tid, Self::member(tid))).collect();
        Self { keeper, members, ways: BTreeMap::new(), random: seed | 1 }
    }

    fn member(tid: Tid) -> Member {
        let (stage, from_keeper) = (Stage::Outside, VecDeque::new());
        let (view, waiting_for, ledger, steps) = (None, None, Ledger::default(), Vec::new());
        Member { tid, stage, view, waiting_for, ledger, arrived: 0, passed: 0, from_keeper, steps }
    }

    /// Xorshift.
    fn below(&mut self, end: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % end as u64) as usize
    }

    fn put(&mut self, from: Tid, to: Tid, packet: Packet) {
        self.ways.entry((from, to)).or_default().push_back(packet);
    }

    fn ask(&mut self, from: Tid, request: Request<'_>) {
        self.put(from, KEEPER, Packet::ToKeeper(request.tag(), request.encode()));
    }

    fn answer(&mut self, answers: Vec<Answer>) {
        for Answer { to, tag, body } in answers {
            for tid in to {
                self.put(KEEPER, tid, Packet::ToDaemon(tag, body.clone()));
            }
        }
    }

    /// The next message between these two arrives.
    fn carry(&mut self, way: (Tid, Tid)) {
        let Some(packet) = self.ways.get_mut(&way).and_then(VecDeque::pop_front) else { return };
        self.ways.retain(|_, way| !way.is_empty());
        match packet {
            Packet::ToKeeper(tag, body) => {
                let answers = self.keeper.handle(way.0, tag, &body);
                self.answer(answers);
            }
            Packet::End => {
                let answers = self.keeper.task_gone(way.0);
                self.answer(answers);
            }
            Packet::Step(step) => {
                if let Some(member) = self.members.get_mut(&way.1) {
                    member.steps.push(step);
                }
            }
            Packet::ToDaemon(tag, body) => self.deliver(way.1, tag, body),
        }
    }

    /// The daemon closes the ledger before it hands a notice over, and answers for the task.
    fn deliver(&mut self, to: Tid, tag: i32, body: Vec<u8>) {
        let Some(member) = self.members.get_mut(&to).filter(|member| member.stage != Stage::Gone) else {
            return;
        };
        let closes = if tag == tag::CHANGED { Notice::decode(&body).ok() } else { None };
        let closes = closes.filter(|notice| notice.is_closing).map(|notice| notice.epoch);
        let passed = closes.map(|epoch| {
            member.ledger.close(epoch);
            member.ledger.passed()
        });
        member.from_keeper.push_back((tag, body));
        if let Some(passed) = passed {
            self.ask(to, Request::Passed(Key::of(g()), passed));
        }
    }

    fn step_to(&mut self, own: Tid, round: u32) -> Result<(), TestCaseError> {
        let Some(member) = self.members.get_mut(&own) else { return Ok(()) };
        let view = member.view.clone().expect("a view");
        let places: Vec<Tid> = view.members.iter().map(|&(_, tid)| tid).collect();
        if 1 << round < places.len() {
            member.stage = Stage::Round(round);
            let place = places.iter().position(|&tid| tid == own).expect("a member");
            let next = places[(place + (1 << round)) % places.len()];
            self.put(own, next, Packet::Step((own, view.epoch, view.turn)));
            return Ok(());
        }
        if member.ledger.pass(view.turn) {
            if let Some(view) = &mut member.view {
                view.turn = next_turn(view.turn);
            }
            return self.passes(own);
        }
        self.seek_view(own);
        Ok(())
    }

    /// Looks for a view that is up to date.
    fn seek_view(&mut self, own: Tid) {
        let Some(member) = self.members.get_mut(&own) else { return };
        (member.view, member.stage) = (None, Stage::View);
        self.ask(own, Request::View(g(), true));
    }

    fn arrive(&mut self, own: Tid) -> Result<(), TestCaseError> {
        let Some(member) = self.members.get_mut(&own) else { return Ok(()) };
        let Some(view) = &member.view else {
            self.seek_view(own);
            return Ok(());
        };
        if member.waiting_for.is_some_and(|turn| view.turn != turn) {
            return self.passes(own);
        }
        if !view.barriers {
            member.stage = Stage::Keeper;
            self.ask(own, Request::Barrier(g(), -1));
            return Ok(());
        }
        member.waiting_for = Some(view.turn);
        self.step_to(own, 0)
    }

    fn passes(&mut self, own: Tid) -> Result<(), TestCaseError> {
        let Some(member) = self.members.get_mut(&own) else { return Ok(()) };
        (member.stage, member.waiting_for) = (Stage::Outside, None);
        member.passed += 1;
        let number = member.passed;
        for other in self.members.values().filter(|other| other.stage != Stage::Gone) {
            prop_assert!(
                other.arrived >= number,
                "{own} passes {number}, {} is at {}",
                other.tid,
                other.arrived
            );
        }
        Ok(())
    }

    /// A member does one thing, if there is anything for it to do.
    fn act(&mut self, own: Tid) -> Result<bool, TestCaseError> {
        let Some(member) = self.members.get_mut(&own) else { return Ok(false) };
        match member.stage.clone() {
            Stage::Outside if member.arrived < BARRIERS => {
                member.arrived += 1;
                self.take_notices(own);
                self.arrive(own)?;
            }
            Stage::Outside | Stage::Gone => return Ok(false),
            Stage::Round(round) => return self.wait_for_step(own, round),
            Stage::View => {
                let Some((tag, body)) = member.from_keeper.pop_front() else { return Ok(false) };
                if tag == tag::VIEW {
                    let view = View::decode(&body).expect("well-formed").expect("a view");
                    if view.barriers && !member.ledger.open(&view) {
                        self.seek_view(own);
                        return Ok(true);
                    }
                    member.view = Some(view);
                    self.take_notices(own);
                    self.arrive(own)?;
                }
            }
            Stage::Keeper => {
                let Some((tag, body)) = member.from_keeper.pop_front() else { return Ok(false) };
                if tag == tag::BARRIER {
                    prop_assert!(
                        BodyReader::new(&body).int().is_ok_and(|count| count > 0),
                        "{own}: {body:?}"
                    );
                    self.passes(own)?;
                } else {
                    Self::heed(self.members.get_mut(&own), &body);
                }
            }
        }
        Ok(true)
    }

    fn heed(member: Option<&mut Member>, body: &[u8]) {
        let (Some(member), Ok(notice)) = (member, Notice::decode(body)) else { return };
        if member.view.as_ref().is_some_and(|view| view.epoch < notice.epoch) {
            member.view = None;
        }
    }

    fn take_notices(&mut self, own: Tid) {
        let member = self.members.get_mut(&own);
        let notices = member.map(|member| std::mem::take(&mut member.from_keeper)).unwrap_or_default();
        for (_, body) in notices {
            Self::heed(self.members.get_mut(&own), &body);
        }
    }

    fn wait_for_step(&mut self, own: Tid, round: u32) -> Result<bool, TestCaseError> {
        let Some(member) = self.members.get_mut(&own) else { return Ok(false) };
        let view = member.view.clone().expect("a view");
        let places: Vec<Tid> = view.members.iter().map(|&(_, tid)| tid).collect();
        let place = places.iter().position(|&tid| tid == own).expect("a member");
        let previous = places[(place + places.len() - (1 << round)) % places.len()];
        let step = (previous, view.epoch, view.turn);
        if let Some(index) = member.steps.iter().position(|&it| it == step) {
            member.steps.remove(index);
            self.step_to(own, round + 1)?;
            return Ok(true);
        }
        let Some((_, body)) = member.from_keeper.pop_front() else { return Ok(false) };
        Self::heed(Some(member), &body);
        if member.view.is_none() {
            self.seek_view(own);
        }
        Ok(true)
    }

    /// A task ends; its daemon says what it has passed, unless its host has gone with it.
    fn end(&mut self, own: Tid, with_host: bool) {
        let Some(member) = self.members.get_mut(&own) else { return };
        member.stage = Stage::Gone;
        let passed = member.ledger.passed().filter(|_| !with_host);
        if let Some(passed) = passed {
            self.ask(own, Request::Passed(passed.group, Some(passed)));
        }
        if with_host {
            self.ways.retain(|&(from, to), _| from != own && to != own);
        }
        self.put(own, KEEPER, Packet::End);
    }

    /// A task that calls no barrier joins or leaves.
    fn visit(&mut self, visitor: Tid, joins: bool) {
        let request = if joins { Request::Join(g(), true) } else { Request::Leave(g()) };
        self.ask(visitor, request);
    }

    /// Carries messages and lets members act, in random order, until nothing is left to do.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        loop {
            let ways: Vec<(Tid, Tid)> = self.ways.keys().copied().collect();
            let tids: Vec<Tid> = self.members.keys().copied().collect();
            let chosen = self.below(ways.len() + tids.len());
            if let Some(&way) = ways.get(chosen) {
                self.carry(way);
            } else if !self.act(tids[chosen - ways.len()])? && ways.is_empty() {
                let mut has_acted = false;
                for tid in tids {
                    has_acted |= self.act(tid)?;
                }
                if !has_acted && self.ways.is_empty() {
                    return Ok(());
                }
            }
        }
    }

    /// The same, for a number of steps.
    fn go_on(&mut self, steps: usize) -> Result<(), TestCaseError> {
        for _ in 0..steps {
            let ways: Vec<(Tid, Tid)> = self.ways.keys().copied().collect();
            let tids: Vec<Tid> = self.members.keys().copied().collect();
            let chosen = self.below(ways.len() + tids.len());
            match ways.get(chosen) {
                Some(&way) => self.carry(way),
                None => drop(self.act(tids[chosen - ways.len()])?),
            }
        }
        Ok(())
    }
}

/// What disturbs the members.
#[derive(Clone, Copy, Debug)]
enum Change {
    Ends,
    EndsWithHost,
    Visits,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn all_that_live_pass_the_same_barriers(
        size in 2..7_i32,
        seed in any::<u64>(),
        changes in prop::collection::vec(
            (0..400_usize, prop_oneof![Just(Change::Ends), Just(Change::EndsWithHost), Just(Change::Visits)]),
            0..6,
        ),
    ) {
        let mut world = World::new(size, seed);
        let visitor = Tid::from_raw(0x40000 * 9 + 1);
        for (steps, change) in changes {
            world.go_on(steps)?;
            let alive: Vec<Tid> =
                world.members.values().filter(|member| member.stage != Stage::Gone).map(|member| member.tid).collect();
            match change {
                Change::Visits => {
                    world.visit(visitor, true);
                    let stay = world.below(60);
                    world.go_on(stay)?;
                    world.visit(visitor, false);
                }
                Change::Ends | Change::EndsWithHost if alive.len() > 1 => {
                    let chosen = alive[world.below(alive.len())];
                    world.end(chosen, matches!(change, Change::EndsWithHost));
                }
                Change::Ends | Change::EndsWithHost => {}
            }
        }
        world.settle()?;
        for member in world.members.values().filter(|member| member.stage != Stage::Gone) {
            prop_assert_eq!((member.passed, &member.stage), (BARRIERS, &Stage::Outside), "{} is stuck", member.tid);
        }
        let size = world.keeper.handle(visitor, tag::GSIZE, &Request::GSize(g()).encode());
        prop_assert_ne!(BodyReader::new(&size[0].body).int(), Ok(PvmError::NoGroup.code()));
    }
}
