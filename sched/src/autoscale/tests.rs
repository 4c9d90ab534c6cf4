use super::*;
use proptest::prelude::*;

const TERMS: Terms = Terms { min_nodes: 0, max_nodes: 3, backlog: 2, idle: 60_000, slots: Some(4) };

fn work(id: u64, tasks: u32) -> Work {
    Work { id, tasks, slots: 1, is_rigid: false }
}

fn node(job: u64, phase: Phase) -> Node {
    Node { job, phase, slots: Some(4) }
}

fn idle(job: u64) -> Node {
    node(job, Phase::Member { tasks: Some(0), free: 4 })
}

fn busy(job: u64) -> Node {
    node(job, Phase::Member { tasks: Some(4), free: 0 })
}

fn look(work: &[Work], nodes: &[Node]) -> Look {
    Look { work: work.to_vec(), nodes: nodes.to_vec(), others: Vec::new() }
}

#[test]
fn nodes_are_requested_for_work_within_the_limits() {
    let mut scaler = Autoscaler::new(TERMS);
    assert_eq!(scaler.decide(&look(&[], &[]), 0), []);
    assert_eq!(scaler.decide(&look(&[work(1, 4)], &[]), 0), [Decision::Request(1)]);
    assert_eq!(scaler.decide(&look(&[work(1, 99)], &[]), 0), [Decision::Request(2)]);
    let pending = node(1, Phase::Pending);
    assert_eq!(scaler.decide(&look(&[work(1, 4)], &[pending]), 0), []);
    assert_eq!(scaler.decide(&look(&[work(1, 5)], &[pending]), 0), [Decision::Request(1)]);
    let three = [busy(1), busy(2), node(3, Phase::Ending)];
    assert_eq!(scaler.decide(&look(&[work(1, 9)], &three), 0), [], "a job that is ending has its node");
    let given = [busy(1), node(2, Phase::Given)];
    assert_eq!(scaler.decide(&look(&[work(1, 4)], &given), 0), [Decision::Add(2)]);
}

#[test]
fn some_nodes_are_kept_without_work() {
    let mut scaler = Autoscaler::new(Terms { min_nodes: 1, ..TERMS });
    assert_eq!(scaler.decide(&look(&[], &[]), 0), [Decision::Request(1)]);
    for now in [0, 1_000_000] {
        assert_eq!(scaler.decide(&look(&[], &[idle(1)]), now), []);
    }
    let two = look(&[], &[idle(1), idle(2)]);
    assert_eq!(scaler.decide(&two, 1_000_000), [Decision::GiveBack(1)]);
}

#[test]
fn the_slots_of_a_node_are_learnt() {
    let mut scaler = Autoscaler::new(Terms { slots: None, backlog: 9, max_nodes: 9, ..TERMS });
    assert_eq!(scaler.decide(&look(&[work(1, 3)], &[]), 0), [Decision::Request(3)]);
    assert_eq!(scaler.decide(&look(&[work(1, 9)], &[busy(1)]), 0), [Decision::Request(3)]);
    assert_eq!(scaler.slots(), Some(4));
}

#[test]
fn idle_nodes_are_given_back_after_a_while() {
    let mut scaler = Autoscaler::new(TERMS);
    let all = [idle(1), busy(2)];
    assert_eq!(scaler.decide(&look(&[], &all), 0), []);
    assert_eq!(scaler.decide(&look(&[], &all), 59_999), []);
    assert_eq!(scaler.decide(&look(&[], &[busy(1), busy(2)]), 60_000), []);
    assert_eq!(scaler.decide(&look(&[], &all), 61_000), []);
    assert_eq!(scaler.decide(&look(&[], &all), 120_999), []);
    let unknown = node(1, Phase::Member { tasks: None, free: 4 });
    assert_eq!(scaler.decide(&look(&[], &[unknown]), 121_000), []);
    assert_eq!(scaler.decide(&look(&[], &all), 200_000), []);
    let new = [work(7, 1)];
    assert_eq!(scaler.decide(&look(&new, &all), 260_000), [], "it is about to start");
    assert_eq!(scaler.decide(&look(&[], &all), 261_000), [Decision::GiveBack(1)]);
}

#[test]
fn requests_that_are_not_needed_are_withdrawn() {
    let mut scaler = Autoscaler::new(TERMS);
    let two = [node(1, Phase::Pending), node(2, Phase::Pending)];
    assert_eq!(scaler.decide(&look(&[work(1, 1)], &two), 0), []);
    assert_eq!(scaler.decide(&look(&[work(1, 8)], &two), PATIENCE), []);
    assert_eq!(scaler.decide(&look(&[work(1, 1)], &two), PATIENCE + 1), []);
    assert_eq!(scaler.decide(&look(&[work(1, 1)], &two), 2 * PATIENCE + 1), [Decision::Withdraw(2)]);
}

#[test]
fn failures_have_pauses_that_grow() {
    let mut scaler = Autoscaler::new(TERMS);
    let wanted = look(&[work(1, 1)], &[]);
    assert_eq!(scaler.failed(0), 10_000);
    assert_eq!(scaler.decide(&wanted, 9_999), []);
    assert_eq!(scaler.decide(&wanted, 10_000), [Decision::Request(1)]);
    assert_eq!(scaler.failed(10_000), 30_000);
    for _ in 0..100 {
        scaler.failed(30_000);
    }
    assert_eq!(scaler.decide(&wanted, 629_999), []);
    scaler.succeeded();
    assert_eq!(scaler.decide(&wanted, 30_001), [Decision::Request(1)]);
}

#[test]
fn nodes_do_not_come_and_go_for_work_that_cannot_use_them() {
    let mut scaler = Autoscaler::new(TERMS);
    let vain = [work(1, 1)];
    assert_eq!(scaler.decide(&look(&vain, &[]), 0), [Decision::Request(1)]);
    assert_eq!(scaler.decide(&look(&vain, &[idle(1)]), 10_000), []);
    assert_eq!(scaler.decide(&look(&vain, &[idle(1)]), 70_000), [Decision::GiveBack(1)]);
    assert_eq!(scaler.decide(&look(&vain, &[]), 80_000), []);
    assert_eq!(scaler.decide(&look(&[work(1, 1), work(2, 1)], &[]), 80_000), [Decision::Request(1)]);
    assert_eq!(scaler.decide(&look(&[work(1, 2)], &[]), 90_000), [Decision::Request(1)], "it has changed");
}

#[test]
fn nodes_wait_for_the_rest_of_a_parallel_job() {
    let mut scaler = Autoscaler::new(TERMS);
    let wide = [Work { is_rigid: true, ..work(1, 8) }];
    let some = [idle(1), node(2, Phase::Pending)];
    assert_eq!(scaler.decide(&look(&wide, &some), 0), []);
    assert_eq!(scaler.decide(&look(&wide, &some), 1_000_000), []);
}

/// What happens between two looks in a made-up batch system.
#[derive(Clone, Debug)]
struct Step {
    pause: u64,
    submitted: u32,
    started: bool,
    fails: bool,
}

fn step() -> impl Strategy<Value = Step> {
    (1_u64..40_000, 0_u32..20, any::<bool>(), prop::bool::weighted(0.1))
        .prop_map(|(pause, submitted, started, fails)| Step { pause, submitted, started, fails })
}

/// A batch system that gives nodes at random, and a machine that runs every task for one step.
#[derive(Default)]
struct World {
    now: u64,
    next: u64,
    waiting: u32,
    nodes: Vec<Node>,
}

impl World {
    fn pass(&mut self, step: &Step) {
        self.now += step.pause;
        self.waiting += step.submitted;
        for node in &mut self.nodes {
            node.phase = match node.phase {
                Phase::Pending if step.started => Phase::Given,
                Phase::Member { .. } => {
                    let tasks = self.waiting.min(4);
                    self.waiting -= tasks;
                    Phase::Member { tasks: Some(tasks), free: 4 - tasks }
                }
                phase => phase,
            };
        }
        self.nodes.retain(|node| node.phase != Phase::Ending);
    }

    fn set(&mut self, job: u64, phase: Phase) {
        self.nodes.iter_mut().filter(|node| node.job == job).for_each(|node| node.phase = phase);
    }

    fn look(&self) -> Look {
        let work = (self.waiting > 0).then(|| work(1, self.waiting));
        Look { work: work.into_iter().collect(), nodes: self.nodes.clone(), others: Vec::new() }
    }

    /// Carries out the decisions, and checks each of them.
    fn carry_out(&mut self, terms: Terms, paused: bool, decisions: &[Decision], fails: bool) -> bool {
        let mut failed = false;
        for &decision in decisions {
            let phase = |job| self.nodes.iter().find(|node| node.job == job).map(|node| node.phase);
            match decision {
                Decision::Request(count) => {
                    assert!(!paused && count > 0 && (self.waiting > 0 || terms.min_nodes > 0));
                    failed |= fails;
                    for _ in 0..count * u32::from(!fails) {
                        self.next += 1;
                        self.nodes.push(node(self.next, Phase::Pending));
                    }
                }
                Decision::Add(job) => {
                    assert_eq!(phase(job), Some(Phase::Given));
                    self.set(job, Phase::Member { tasks: Some(0), free: 4 });
                }
                Decision::Withdraw(job) => {
                    assert_eq!(phase(job), Some(Phase::Pending));
                    self.set(job, Phase::Ending);
                }
                Decision::GiveBack(job) => {
                    assert!(matches!(phase(job), Some(Phase::Member { tasks: Some(0), .. })));
                    self.set(job, Phase::Ending);
                }
            }
        }
        failed
    }
}

proptest! {
    #[test]
    fn the_limits_hold_whatever_happens(steps in prop::collection::vec(step(), 1..80),
            min_nodes in 0_u32..3, more in 0_u32..4, backlog in 1_u32..4) {
        let terms = Terms { min_nodes, max_nodes: min_nodes + more, backlog, ..TERMS };
        let (mut scaler, mut world, mut not_before) = (Autoscaler::new(terms), World::default(), 0);
        let held = |world: &World| world.nodes.iter().filter(|node| node.is_held()).count() as u32;
        for step in &steps {
            world.pass(step);
            let before = held(&world);
            let decisions = scaler.decide(&world.look(), world.now);
            if world.carry_out(terms, world.now < not_before, &decisions, step.fails) {
                not_before = scaler.failed(world.now);
            }
            let pending = world.nodes.iter().filter(|node| node.phase == Phase::Pending).count() as u32;
            prop_assert!(world.nodes.len() as u32 <= terms.max_nodes);
            prop_assert!(pending <= terms.backlog);
            prop_assert!(held(&world) >= before.min(min_nodes), "{decisions:?}");
        }
        // When nothing more comes, all but the least are given back.
        world.waiting = 0;
        scaler.succeeded();
        for _ in 0..20 {
            world.pass(&Step { pause: 30_000, submitted: 0, started: true, fails: false });
            let decisions = scaler.decide(&world.look(), world.now);
            world.carry_out(terms, false, &decisions, false);
        }
        world.pass(&Step { pause: 1, submitted: 0, started: true, fails: false });
        prop_assert_eq!(held(&world), min_nodes);
    }
}
