//! Batches placed by active pulling in a simulated machine, from many seeds: exactly once, by capability, within each
//! node's threshold, through deaths and arrivals.

mod simulation;

use simulation::{Item, Machine, Random, Setting};

/// A random machine of up to 20 nodes, of different capability and threshold.
fn setting(random: &mut Random, soft: bool) -> Setting {
    let nodes = 1 + random.below(20);
    let nodes = (0..nodes).map(|_| (250.0 * (1 + random.below(16)) as f64, 1 + random.below(12))).collect();
    let count = random.below(400);
    Setting { nodes, count, soft, task: 1..200_000, delay: 50..5_000, start: 300 }
}

fn check_placed_once(machine: &Machine, seed: u64) {
    for (item, (&state, &starts)) in machine.items.iter().zip(&machine.starts).enumerate() {
        assert!(matches!(state, Item::Started(_)), "seed {seed}: task {item} is {state:?}");
        assert_eq!(starts, 1, "seed {seed}: task {item} was started {starts} times");
    }
}

#[test]
fn firm_batches_are_placed_once_and_within_every_threshold() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let setting = setting(&mut random, false);
        let thresholds: Vec<u64> = setting.nodes.iter().map(|&(_, p)| p).collect();
        let mut machine = Machine::new(seed, setting);
        machine.run();
        check_placed_once(&machine, seed);
        machine.check_quiet();
        for (&host, &most) in &machine.most {
            let p = thresholds[host as usize - 1];
            assert!(most <= p, "seed {seed}: host {host} ran {most} tasks, its threshold is {p}");
        }
    }
}

#[test]
fn a_node_over_its_threshold_gets_nothing_until_it_drains() {
    for seed in 0..100 {
        let setting = Setting {
            nodes: vec![(1000.0, 4), (1000.0, 4)],
            count: 60,
            soft: false,
            task: 100_000..300_000,
            delay: 50..5_000,
            start: 300,
        };
        let mut machine = Machine::new(seed, setting);
        machine.occupy(1, 9);
        machine.run();
        check_placed_once(&machine, seed);
        // Six of its nine tasks had to end first; by then the other had been given its fill.
        let first = machine.grants.iter().position(|&(host, ..)| host == 1).expect("it drains in the end");
        let before: u64 = machine.grants[..first].iter().map(|&(_, n, _)| n).sum();
        assert!(before >= 4, "seed {seed}: {:?}", machine.grants);
        assert!(machine.grants.iter().all(|&(_, n, terms)| terms.is_some_and(|terms| n as i64 <= terms.n_a)));
        assert!(machine.most[&1] <= 4, "seed {seed}");
    }
}

#[test]
fn soft_batches_are_placed_at_once_and_in_proportion() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut setting = setting(&mut random, true);
        // No task ends while the batch is placed: nothing but the soft rule can place what is over the thresholds.
        setting.task = 1_000_000_000..2_000_000_000;
        let room: u64 = setting.nodes.iter().map(|&(_, p)| p).sum();
        setting.count += 20 * room;
        let (count, nodes) = (setting.count as f64, setting.nodes.clone());
        let sum: f64 = nodes.iter().map(|&(c, _)| c).sum();
        let mut machine = Machine::new(seed, setting);
        machine.run();
        check_placed_once(&machine, seed);
        machine.check_quiet();
        let placed = machine.placed();
        // Nobody got more than its share from the formula, so the totals are the division by largest remainder.
        let full = |(i, &(c, p)): (usize, &(f64, u64))| (i, count * c / sum, p as f64);
        if nodes.iter().enumerate().map(full).all(|(_, share, p)| share >= p) {
            for (i, share, _) in nodes.iter().enumerate().map(full) {
                let got = placed[&(i as u32 + 1)] as f64;
                assert!((got - share).abs() < 1.0, "seed {seed}: host {} got {got} of {share}", i + 1);
            }
        }
    }
}

#[test]
fn with_room_everywhere_shares_follow_capability() {
    let capabilities = [500.0, 1000.0, 1500.0, 3000.0];
    let count = 1200;
    let mut totals = [0.0; 4];
    let seeds = 200;
    for seed in 0..seeds {
        let setting = Setting {
            nodes: capabilities.iter().map(|&c| (c, 1_000_000)).collect(),
            count,
            soft: seed % 2 == 0,
            task: 1..200_000,
            delay: 50..5_000,
            start: 300,
        };
        let mut machine = Machine::new(seed, setting);
        machine.run();
        check_placed_once(&machine, seed);
        for (host, n) in machine.placed() {
            totals[host as usize - 1] += n as f64 / seeds as f64;
        }
    }
    println!("{totals:?}");
    let sum: f64 = capabilities.iter().sum();
    for (c, got) in capabilities.iter().zip(totals) {
        let share = count as f64 * c / sum;
        assert!((got - share).abs() <= 0.1 * share, "capability {c}: {got} tasks, its share is {share}");
    }
}

#[test]
fn batches_survive_nodes_that_die_and_join() {
    for seed in 0..600 {
        let mut random = Random::new(seed);
        let setting = setting(&mut random, seed % 2 == 0);
        let nodes = setting.nodes.len() as u32;
        let mut machine = Machine::new(seed, setting);
        // One of the first nodes stays, so that there is always somebody.
        for _ in 0..random.below(8) {
            let host = 1 + random.below(nodes.into()) as u32;
            if host > 1 {
                machine.dies(host, random.below(300_000));
            }
        }
        for new in 0..random.below(5) as u32 {
            let (c, p, at) =
                (100.0 * (1 + random.below(40)) as f64, 1 + random.below(9), random.below(300_000));
            machine.appears(100 + new, c, p, at);
            if random.below(3) == 0 {
                machine.dies(100 + new, at + random.below(100_000));
            }
        }
        machine.run();
        check_placed_once(&machine, seed);
        machine.check_quiet();
    }
}

#[test]
fn a_batch_whose_nodes_all_die_ends_too() {
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let setting = setting(&mut random, seed % 2 == 0);
        let nodes = setting.nodes.len() as u32;
        let mut machine = Machine::new(seed, setting);
        for host in 1..=nodes {
            machine.dies(host, random.below(60_000));
        }
        machine.run();
        machine.check_quiet();
        assert!(
            machine.items.iter().all(|item| matches!(item, Item::Started(_) | Item::Failed)),
            "seed {seed}"
        );
    }
}

#[test]
fn a_machine_without_nodes_and_a_batch_without_tasks() {
    let empty = |count, nodes: &[(f64, u64)]| Setting {
        nodes: nodes.to_vec(),
        count,
        soft: true,
        task: 1..10,
        delay: 1..10,
        start: 1,
    };
    let mut machine = Machine::new(1, empty(7, &[]));
    machine.run();
    machine.check_quiet();
    assert_eq!(machine.items, [Item::Failed; 7]);
    let mut machine = Machine::new(1, empty(0, &[(1.0, 1)]));
    machine.run();
    machine.check_quiet();
}
