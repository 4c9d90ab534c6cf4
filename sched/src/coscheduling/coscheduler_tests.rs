use super::*;
use proptest::prelude::*;

const SLICE: Duration = Duration::from_millis(50);

/// A node and its kernel: which processes run, what they have done, and the timers that are set.
struct World {
    scheduler: Coscheduler<char, u32>,
    now: Duration,
    runs: BTreeMap<ProcessId, bool>,
    work: BTreeMap<ProcessId, Work>,
    timers: Vec<(Duration, Timer)>,
    leaves_rest: bool,
    began: Vec<char>,
    shared: Vec<bool>,
}

impl World {
    fn new(cores: u32, leaves_rest: bool) -> Self {
        Self {
            scheduler: Coscheduler::new(Some(SLICE), cores, 1),
            now: Duration::ZERO,
            runs: BTreeMap::new(),
            work: BTreeMap::new(),
            timers: Vec::new(),
            leaves_rest,
            began: Vec::new(),
            shared: Vec::new(),
        }
    }

    /// Something happens at the scheduler, and its decisions are carried out.
    fn event(&mut self, event: impl FnOnce(&mut Coscheduler<char, u32>, Duration) -> Vec<Decision<char>>) {
        let mut decisions = event(&mut self.scheduler, self.now);
        while !decisions.is_empty() {
            let mut wanted = Vec::new();
            for decision in std::mem::take(&mut decisions) {
                match decision {
                    Decision::Dispatch { pid, runs } => {
                        assert_ne!(self.runs.insert(pid, runs), Some(runs), "said twice of {pid}");
                    }
                    Decision::Read { pids } => wanted.push(pids),
                    Decision::Timer { after, timer } => self.timers.push((self.now + after, timer)),
                    Decision::TurnBegan(team) => self.began.push(team),
                    Decision::Shared(shared) => self.shared.push(shared),
                    Decision::WantsSleeps => {}
                }
            }
            for pids in wanted {
                let done = |pid| self.work.get(pid).copied().unwrap_or_default();
                let work = pids.iter().map(done).collect();
                let reading = Reading { work, own: Duration::ZERO, leaves_rest: self.leaves_rest };
                decisions.extend(self.scheduler.read(reading, self.now));
            }
        }
        self.scheduler.check().unwrap();
        let held =
            self.scheduler.teams().flat_map(|(_, pids, runs)| pids.iter().map(move |&pid| (pid, runs)));
        assert!(held.into_iter().all(|(pid, runs)| self.runs.get(&pid) == Some(&runs)));
    }

    fn join(&mut self, team: char, pid: ProcessId) {
        self.runs.insert(pid, true);
        self.event(|scheduler, now| scheduler.join(team, pid, now));
    }

    fn leave(&mut self, team: char, pid: ProcessId) {
        self.event(|scheduler, now| scheduler.leave(team, pid, true, now));
        self.runs.remove(&pid);
    }

    fn message(&mut self, team: char, count: u64) {
        self.event(|scheduler, now| scheduler.arrived(Some(team), Epoch { count, origin: 2 }, now));
    }

    /// Time passes in which those that run work all the time; those that are held wait for a processor.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(&(when, timer)) = self.timers.iter().min_by_key(|(when, _)| *when)
            && when <= end
        {
            self.timers.retain(|&other| other != (when, timer));
            self.work_until(when);
            self.event(|scheduler, now| scheduler.timer(timer, now));
        }
        self.work_until(end);
    }

    fn work_until(&mut self, when: Duration) {
        let time = when.saturating_sub(self.now);
        self.now = when;
        for (&pid, &runs) in &self.runs {
            let work = self.work.entry(pid).or_default();
            if runs { work.time += time } else { work.waits += time }
        }
    }

    fn running(&self) -> Vec<ProcessId> {
        self.runs.iter().filter(|(_, runs)| **runs).map(|(&pid, _)| pid).collect()
    }
}

#[test]
fn teams_take_turns_as_long_as_there_are_several() {
    for leaves_rest in [false, true] {
        let mut world = World::new(1, leaves_rest);
        world.join('A', 1);
        world.join('A', 2);
        assert!(!world.scheduler.is_shared() && world.timers.is_empty(), "one team has the host to itself");
        world.join('B', 3);
        world.pass(SLICE * 39 / 4);
        assert_eq!(world.shared, [true]);
        assert!(world.began.len() >= 9, "{:?}", world.began);
        let [one, other] = [1, 3].map(|pid| world.work[&pid].time);
        // By CPU time the team of two pays for two processes.
        let expected = if leaves_rest { other / 2 } else { other };
        assert!(one.abs_diff(expected) <= SLICE * 2, "{one:?} and {other:?}");
        world.leave('B', 3);
        assert_eq!((world.running(), world.shared), (vec![1, 2], vec![true, false]));
    }
}

#[test]
fn without_a_slice_nothing_is_decided() {
    let mut scheduler: Coscheduler<char, u32> = Coscheduler::new(None, 1, 1);
    for (team, pid) in [('A', 1), ('B', 2), ('C', 3)] {
        assert_eq!(scheduler.join(team, pid, SLICE), []);
    }
    assert_eq!((scheduler.turn(), scheduler.check()), (Turn::All, Ok(())));
}

#[test]
fn a_message_brings_its_team_with_a_greater_epoch_and_within_its_share() {
    let mut world = World::new(1, true);
    world.join('A', 1);
    world.join('B', 2);
    let (waiting, pid) = if world.runs[&1] { ('B', 2) } else { ('A', 1) };
    world.message(waiting, 0);
    assert_ne!(world.running(), [pid], "the epoch is old");
    world.message(waiting, 70);
    assert_eq!(world.running(), [pid]);
    assert!(world.scheduler.is_boosted() && world.scheduler.has_turn(Some(waiting)));
    let mut had = Duration::ZERO;
    for count in 71..20_000 {
        had += if world.runs[&pid] { Duration::from_millis(1) } else { Duration::ZERO };
        world.message(waiting, count * 10);
        world.pass(Duration::from_millis(1));
    }
    assert!(had < world.now / 2 + SLICE * 4, "a flood gains nothing: {had:?} of {:?}", world.now);
}

#[test]
fn a_look_and_the_end_of_the_slice_at_the_same_time_are_one_reading() {
    let mut scheduler: Coscheduler<char, u32> = Coscheduler::new(Some(SLICE), 1, 1);
    let _ = scheduler.join('A', 1, Duration::ZERO);
    let _ = scheduler.join('B', 2, Duration::ZERO);
    let reading = || Reading { work: vec![Work::default(); 2], own: Duration::ZERO, leaves_rest: false };
    let _ = scheduler.read(reading(), Duration::ZERO);
    assert_eq!(scheduler.timer(Timer::Look(1), SLICE), [Decision::Read { pids: vec![1, 2] }]);
    assert_eq!(scheduler.timer(Timer::SliceEnd(1), SLICE), [], "the answer is awaited");
    let decisions = scheduler.read(reading(), SLICE);
    let next = Decision::Timer { after: SLICE, timer: Timer::SliceEnd(2) };
    assert!(decisions.contains(&next), "{decisions:?}");
}

#[derive(Clone, Debug)]
enum Step {
    Join(char, ProcessId),
    Leave(char, ProcessId),
    Message(Option<char>, u64),
    Sleep(char, ProcessId, bool),
    Heard(char, u32),
    Carried(char, usize),
    Forget(char),
    Pass(u64),
    Late(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let team = || prop::sample::select(vec!['A', 'B', 'C', 'D']);
    prop_oneof![
        (team(), 0..3).prop_map(|(team, n)| Step::Join(team, team as i32 * 10 + n)),
        (team(), 0..3).prop_map(|(team, n)| Step::Leave(team, team as i32 * 10 + n)),
        (prop::option::of(team()), 0..60_u64).prop_map(|(team, count)| Step::Message(team, count)),
        (team(), 0..3, any::<bool>()).prop_map(|(team, n, sleeps)| Step::Sleep(
            team,
            team as i32 * 10 + n,
            sleeps
        )),
        (team(), 1..4_u32).prop_map(|(team, from)| Step::Heard(team, from)),
        (team(), 0..100_000_usize).prop_map(|(team, bytes)| Step::Carried(team, bytes)),
        team().prop_map(Step::Forget),
        (0..120_u64).prop_map(Step::Pass),
        (0..500_u64).prop_map(Step::Late),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever happens in whatever order: the state agrees with itself, epochs never fall, and nobody stays held without turns.
    #[test]
    fn the_state_agrees_with_itself(
        cores in 1..4_u32, leaves_rest in any::<bool>(), steps in proptest::collection::vec(step(), 0..120),
    ) {
        let mut world = World::new(cores, leaves_rest);
        for step in steps {
            let epoch = world.scheduler.epoch();
            match step {
                Step::Join(team, pid) if !world.runs.contains_key(&pid) => world.join(team, pid),
                Step::Join(..) => {}
                Step::Leave(team, pid) => world.leave(team, pid),
                Step::Message(team, count) => {
                    world.event(|scheduler, now| scheduler.arrived(team, Epoch { count, origin: 2 }, now));
                }
                Step::Sleep(team, pid, sleeps) => world.event(|scheduler, now| scheduler.slept(team, pid, sleeps, now)),
                Step::Heard(team, from) => world.scheduler.heard(team, from),
                Step::Carried(team, bytes) => world.scheduler.carried(Some(team), bytes),
                Step::Forget(team) => world.scheduler.forget(team),
                Step::Pass(time) => world.pass(Duration::from_millis(time)),
                // The daemon was not run for a while: all timers are late.
                Step::Late(time) => {
                    let when = world.now + Duration::from_millis(time);
                    world.work_until(when);
                    world.pass(Duration::ZERO);
                }
            }
            prop_assert!(!epoch.is_after(world.scheduler.epoch()));
            prop_assert!(world.scheduler.is_shared() || world.running().len() == world.runs.len());
        }
    }
}

/// Rows of this number from the first slice on, and the rows in which each team has places.
fn rows(count: u32, teams: &[(char, &[u32])]) -> Option<Rows<char>> {
    let teams = teams.iter().map(|&(team, rows)| (team, rows.iter().copied().collect())).collect();
    Rows::new(count, SLICE, 0, teams)
}

/// A host with one core, teams A, B and C of a process each, 1 to 3, and rows; its clock is a third of a slice behind the agreed one.
fn world_of_rows(leaves_rest: bool) -> World {
    let mut world = World::new(1, leaves_rest);
    world.scheduler.give_rows(rows(4, &[('A', &[0]), ('B', &[1, 2]), ('C', &[2])]));
    world.scheduler.set_clock((SLICE / 3).as_nanos() as i64);
    ('A'..='C').zip(1..).for_each(|(team, pid)| world.join(team, pid));
    world.pass((SLICE * 4).saturating_sub(SLICE / 3));
    world
}

#[test]
fn the_teams_of_a_row_have_its_slice_by_the_agreed_clock() {
    for leaves_rest in [false, true] {
        let mut world = world_of_rows(leaves_rest);
        for round in 0..3 {
            for (row, pids) in [(0, vec![1]), (1, vec![2]), (2, vec![2, 3])] {
                assert_eq!(world.running(), pids, "row {row}");
                assert_eq!(
                    world.scheduler.epoch(),
                    Epoch { count: 4 + round * 4 + u64::from(row), origin: 1 }
                );
                assert_eq!((world.scheduler.row(), world.scheduler.why()), (Some(row), Why::ByRows));
                assert!(
                    pids.iter().all(|pid| world.scheduler.has_turn(Some(['A', 'B', 'C'][*pid as usize - 1])))
                );
                world.pass(SLICE);
            }
            // The fourth row has no team here: the one with the least account uses its slice, and brings no team onto a processor elsewhere.
            assert_eq!((world.running().len(), world.scheduler.turn()), (1, Turn::Nobody));
            assert!(!('A'..='C').any(|team| world.scheduler.has_turn(Some(team))));
            world.pass(SLICE);
        }
    }
}

#[test]
fn a_message_brings_its_team_until_the_slice_ends() {
    let mut world = world_of_rows(true);
    world.message('B', 4);
    assert_eq!(world.running(), [2], "equally many slices, and a host with a higher number");
    world.message('A', 4);
    assert_eq!(world.running(), [2], "no newer");
    world.pass(SLICE);
    assert_eq!((world.running(), world.scheduler.row()), (vec![2], Some(1)));
    world.message('B', 9);
    assert_eq!(
        (world.scheduler.counters().adopted, world.scheduler.is_boosted()),
        (2, false),
        "it has the turn"
    );
    world.pass(SLICE);
    world.message('A', 6);
    assert_eq!(world.running(), [1]);
    world.pass(SLICE * 2);
    assert_eq!((world.running(), world.scheduler.row()), (vec![1], Some(0)), "in step again");
}

#[test]
fn new_rows_count_from_their_slice_on_and_without_rows_accounts_do() {
    let mut world = world_of_rows(true);
    let teams = [('A', BTreeSet::from([1])), ('B', BTreeSet::from([0])), ('C', BTreeSet::from([0]))];
    world.scheduler.give_rows(Rows::new(2, SLICE, 6, teams.into()));
    world.pass(SLICE);
    assert_eq!((world.running(), world.scheduler.row()), (vec![2], Some(1)), "not yet");
    world.pass(SLICE);
    assert_eq!((world.running(), world.scheduler.row()), (vec![2, 3], Some(0)));
    world.join('D', 4);
    assert_eq!(world.running(), [2, 3, 4], "a team without a place is in the first row");
    world.pass(SLICE);
    assert_eq!(world.running(), [1]);
    world.scheduler.give_rows(None);
    world.pass(SLICE);
    assert_eq!(
        (world.running().len(), world.scheduler.row(), world.scheduler.why()),
        (1, None, Why::ByAccounts)
    );
}

#[test]
fn teams_without_a_row_share_one_by_their_accounts_and_messages() {
    let mut world = World::new(1, true);
    let rows = rows(2, &[('A', &[0])]).expect("rows").with_others(Some(1));
    world.scheduler.give_rows(Some(rows));
    ('A'..='C').zip(1..).for_each(|(team, pid)| world.join(team, pid));
    world.pass(SLICE * 4);
    let mut had = Vec::new();
    // Team A has so much more that the savings of the others are limited, again and again.
    for _ in 0..40 {
        assert_eq!((world.running(), world.scheduler.row()), (vec![1], Some(0)));
        world.pass(SLICE);
        assert_eq!((world.running().len(), world.scheduler.row()), (1, Some(1)));
        let running = ['A', 'B', 'C'][world.running()[0] as usize - 1];
        let others = ['B', 'C'].map(|team| world.scheduler.has_turn(Some(team)));
        assert_eq!(others, ['B', 'C'].map(|team| team == running), "one has the turn");
        had.push(running);
        world.pass(SLICE);
    }
    assert_ne!(had[0], 'A');
    assert!(
        had.windows(2).all(|slices| slices[0] != slices[1]),
        "each has every second of their slices: {had:?}"
    );
    world.pass(SLICE);
    let (waits, count) = (if world.running() == [2] { 'C' } else { 'B' }, world.scheduler.epoch().count);
    world.message(waits, count - 1);
    assert!(!world.scheduler.has_turn(Some(waits)), "of an earlier slice");
    world.message(waits, count);
    assert!(world.scheduler.has_turn(Some(waits)), "of the same slice, and a host with a higher number");
}

#[test]
fn where_cores_suffice_rows_hold_no_process() {
    let mut world = World::new(2, true);
    world.scheduler.give_rows(rows(2, &[('A', &[0]), ('B', &[1])]));
    world.join('A', 1);
    assert_eq!(world.scheduler.why(), Why::OneTeam);
    world.join('B', 2);
    world.pass(SLICE * 3);
    assert_eq!((world.running(), world.scheduler.why()), (vec![1, 2], Why::CoresSuffice));
    assert!(world.timers.is_empty());
}
