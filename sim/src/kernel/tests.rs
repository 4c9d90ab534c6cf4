use super::*;
use crate::random::Random;

const MS: Nanos = 1_000_000;
const TICK: Nanos = 4 * MS;
const STEP: Nanos = MS / 20;

fn kernel(processors: usize) -> Kernel {
    Kernel::new(Setting { processors, tick: TICK, slice: Setting::base_slice(processors) })
}

/// Lets the time pass in steps, with ticks, and something done in each step.
fn pass(kernel: &mut Kernel, (from, to): (Nanos, Nanos), mut step: impl FnMut(&mut Kernel, Nanos)) {
    let mut now = from;
    while now < to {
        if now.is_multiple_of(TICK) {
            kernel.tick(now);
        }
        step(kernel, now);
        now += STEP;
    }
}

fn computing(kernel: &mut Kernel, count: usize) -> Vec<TaskId> {
    let tasks: Vec<TaskId> = (0..count).map(|_| kernel.add()).collect();
    for &id in &tasks {
        kernel.start(id, 0);
    }
    tasks
}

/// The parts of a processor that tasks had.
fn parts(kernel: &mut Kernel, tasks: &[TaskId], now: Nanos) -> Vec<f64> {
    tasks.iter().map(|&id| kernel.times(id, now).0 as f64 / now as f64).collect()
}

#[test]
fn time_is_shared_by_weights() {
    let mut kernel = kernel(1);
    let tasks = computing(&mut kernel, 3);
    kernel.favour(tasks[2], (2 * NORMAL, kernel.setting.slice), 0);
    let end = 4000 * MS;
    pass(&mut kernel, (0, end), |_, _| {});
    let parts = parts(&mut kernel, &tasks, end);
    for (part, expected) in parts.iter().zip([0.25, 0.25, 0.5]) {
        assert!((part - expected).abs() < 0.02, "{parts:?}");
    }
}

#[test]
fn a_slice_ends_at_a_tick() {
    let mut kernel = kernel(1);
    computing(&mut kernel, 2);
    let mut changes = Vec::new();
    let mut before = kernel.running(0);
    pass(&mut kernel, (0, 400 * MS), |kernel, now| {
        if kernel.running(0) != before {
            changes.push(now);
            before = kernel.running(0);
        }
    });
    assert!(changes.iter().all(|at| at.is_multiple_of(TICK)), "{changes:?}");
    assert!(changes.len() > 60, "a slice of 0.7 ms is shorter than a tick: {}", changes.len());
}

#[test]
fn a_sleeper_wakes_before_those_that_compute() {
    for processors in [1, 2] {
        let mut kernel = kernel(processors);
        computing(&mut kernel, 2 * processors);
        let sleeper = kernel.add();
        kernel.start(sleeper, 0);
        let (mut woken, mut late) = (None, Vec::new());
        pass(&mut kernel, (STEP, 2000 * MS), |kernel, now| {
            if let Some(cpu) = kernel.runs_on(sleeper) {
                if let Some(woken) = woken.take() {
                    late.push(now - woken);
                } else {
                    kernel.sleep(cpu, now);
                }
            } else if now.is_multiple_of(10 * MS) && woken.is_none() {
                woken = Some(now);
                kernel.wake(sleeper, None, now);
            }
        });
        late.sort_unstable();
        let most = late[late.len() * 9 / 10];
        assert!(late.len() > 150 && most <= STEP, "{processors}: {most} ns, {}", late.len());
    }
}

#[test]
fn one_task_more_than_processors() {
    for processors in [2, 4, 8] {
        let mut kernel = kernel(processors);
        let tasks = computing(&mut kernel, processors + 1);
        let end = 20_000 * MS;
        pass(&mut kernel, (0, end), |_, _| {});
        let parts = parts(&mut kernel, &tasks, end);
        let fair = processors as f64 / (processors + 1) as f64;
        // On many processors a task that shares one moves seldom.
        assert!(parts.iter().all(|part| (part - fair).abs() < 0.15), "{processors}: {parts:?}");
        assert!((parts.iter().sum::<f64>() - processors as f64).abs() < 1e-6, "{parts:?}");
    }
}

#[test]
fn the_idle_class_has_the_rest() {
    let mut kernel = kernel(1);
    let tasks = computing(&mut kernel, 2);
    kernel.set_idle(tasks[1], true, 0);
    let end = 2000 * MS;
    pass(&mut kernel, (0, end), |_, _| {});
    let held = parts(&mut kernel, &tasks, end)[1];
    assert!(held < 0.02, "{held}");
    // It is released, and the other one held: by the next tick it has the processor.
    kernel.set_idle(tasks[1], false, end);
    kernel.set_idle(tasks[0], true, end);
    pass(&mut kernel, (end, end + 2 * TICK), |_, _| {});
    assert_eq!(kernel.running(0), Some(tasks[1]));
    // When it sleeps the other one runs, and it is back at once.
    kernel.sleep(0, end + 2 * TICK);
    assert_eq!(kernel.running(0), Some(tasks[0]));
    kernel.wake(tasks[1], None, end + 2 * TICK + MS);
    assert_eq!(kernel.running(0), Some(tasks[1]));
}

#[test]
fn a_task_wakes_on_an_idle_processor_or_one_of_the_idle_class() {
    let mut kernel = kernel(3);
    let tasks = computing(&mut kernel, 3);
    let sleeper = kernel.add();
    kernel.set_idle(tasks[1], true, MS);
    kernel.wake(sleeper, Some(2), 2 * MS);
    assert_eq!(kernel.runs_on(sleeper), Some(1), "where the idle class is");
    kernel.sleep(1, 3 * MS);
    assert_eq!(kernel.runs_on(tasks[1]), Some(1));
    kernel.sleep(2, 3 * MS);
    kernel.wake(sleeper, Some(0), 4 * MS);
    assert_eq!(kernel.runs_on(sleeper), Some(1), "where it was, if it may");
    kernel.sleep(1, 5 * MS);
    kernel.set_idle(tasks[1], false, 5 * MS);
    // Another one, for the first owes time to its queue, and stays there.
    let other = kernel.add();
    kernel.wake(other, Some(0), 6 * MS);
    assert_eq!(kernel.runs_on(other), Some(2), "where nothing is");
}

/// Tasks that work and sleep by chance.
fn by_chance(seed: u64, mut seen: impl FnMut(&mut Kernel, Nanos)) {
    let mut random = Random::new(seed);
    let mut kernel = kernel(1 + random.below(4));
    let count = 1 + random.below(8);
    let tasks = computing(&mut kernel, count);
    let busy = random.between(0.0, 0.2);
    pass(&mut kernel, (0, 400 * MS), |kernel, now| {
        for &id in &tasks {
            match kernel.runs_on(id) {
                Some(cpu) if random.chance(busy) => kernel.sleep(cpu, now),
                Some(cpu) if random.chance(0.01) => kernel.yields(cpu, now),
                _ if random.chance(0.01) => kernel.set_idle(id, random.chance(0.5), now),
                None if random.chance(busy) => kernel.wake(id, Some(0), now),
                _ => {}
            }
        }
        seen(kernel, now);
    });
}

#[test]
fn no_processor_is_idle_for_long_while_a_task_waits() {
    for seed in 0..40 {
        let mut since = 0;
        by_chance(seed, |kernel, now| {
            let count = kernel.queues.len();
            let is_idle = (0..count).any(|cpu| kernel.running(cpu).is_none());
            let waits = |task: &Task| task.place == Place::Queued && now.saturating_sub(task.queued) > 0;
            let is_waiting = kernel
                .tasks
                .iter()
                .enumerate()
                .any(|(id, task)| waits(task) && kernel.queues[task.cpu].running != Some(id));
            if !(is_idle && is_waiting) {
                since = now;
            }
            // An idle processor balances every two milliseconds for each processor at most, at a tick; the third attempt takes
            // what has run a moment ago.
            let most = 3 * (2 * count as Nanos * MS + TICK);
            assert!(now - since <= most, "{seed}: for {} ms at {now}", (now - since) / MS);
        });
    }
}

#[test]
fn queues_are_consistent_and_repeat_themselves() {
    let run = |seed| {
        let mut log = Vec::new();
        by_chance(seed, |kernel, _| {
            let all: usize = kernel.queues.iter().map(|queue| queue.all.len()).sum();
            let queued = kernel.tasks.iter().filter(|task| task.place != Place::Away).count();
            assert_eq!(all, queued);
            for (cpu, queue) in kernel.queues.iter().enumerate() {
                assert!(queue.all.iter().all(|&id| kernel.tasks[id].cpu == cpu));
                assert!(queue.running.is_none_or(|id| queue.all.contains(&id)));
                assert!(queue.running.is_some() || queue.all.is_empty(), "a task waits for nothing");
                log.push(queue.running);
            }
        });
        log
    };
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed));
    }
}
