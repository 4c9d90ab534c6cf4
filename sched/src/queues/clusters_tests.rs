use super::super::tests::{self, array, start_of_first};
use super::super::{Host, Queue, Reason, Rules, Scheduler, Start, Stop};
use super::*;
use crate::coallocation::Strategy;
use proptest::prelude::*;
use pvm_wire::tuned;

/// Host, its cluster, its slots, and the capability of each of them.
const HOSTS: [(char, &str, u32, f64); 5] = [
    ('a', "east", 3, 1000.0),
    ('b', "east", 1, 1000.0),
    ('c', "north", 6, 500.0),
    ('d', "south", 4, 250.0),
    ('e', "south", 4, 250.0),
];

fn demand(width: u32) -> Demand {
    Demand { width: Width::Rigid(width), ..array(1) }
}

fn at_home(width: u32, home: &str) -> Demand {
    Demand { home: Some(home.to_owned()), ..demand(width) }
}

fn cluster(host: char) -> &'static str {
    HOSTS.iter().find(|(name, ..)| *name == host).map_or("", |(_, cluster, ..)| cluster)
}

/// The hosts, a queue with a strategy, and one without that is more urgent.
fn scheduler(strategy: Strategy) -> Scheduler<char> {
    let by = Queue { coallocation: Some(strategy), ..Queue::open("by") };
    let first = Queue { priority: 1, ..Queue::open("first") };
    let mut scheduler = Scheduler::new(vec![by, first], Rules { is_fair: false, backfills: true });
    for (host, cluster, slots, each) in HOSTS {
        let (name, arch, cluster) = (host.to_string(), "LINUX64".to_owned(), Some(cluster.to_owned()));
        let capability = f64::from(slots) * each;
        scheduler.host_joined(host, Host { name, arch, capability, slots, cluster });
    }
    scheduler
}

fn submit(scheduler: &mut Scheduler<char>, id: u64, queue: &str, demand: &Demand) {
    tests::submit(scheduler, id, queue, "ann", demand);
}

/// What a job gets when only one slot of `b` is free in the east.
fn taken(strategy: Strategy, demand: &Demand) -> Vec<(char, u32)> {
    let mut scheduler = scheduler(strategy);
    submit(&mut scheduler, 1, "first", &Demand { hosts: vec!["a".to_owned()], ..self::demand(3) });
    submit(&mut scheduler, 2, "by", demand);
    let starts = scheduler.next(0);
    assert_eq!(starts[0], Start { job: 1, parts: vec![('a', 3)] });
    starts.get(1).map(|start| start.parts.clone()).unwrap_or_default()
}

#[test]
fn each_strategy_takes_the_clusters_in_its_order_and_few_hosts_of_each() {
    assert_eq!(taken(Strategy::Bfnp, &demand(3)), [('d', 3)], "the most free slots");
    assert_eq!(taken(Strategy::Shfnp, &demand(3)), [('c', 3)], "6 / 2 slots, not 8 / 4 or 1 / 1");
    assert_eq!(taken(Strategy::Shfp, &demand(3)), [('b', 1), ('c', 2)], "the fastest");
    assert_eq!(taken(Strategy::Bfnp, &demand(9)), [('d', 4), ('e', 4), ('c', 1)]);
    assert_eq!(taken(Strategy::Scca, &at_home(1, "east")), [('b', 1)], "it stays at home if it can");
    assert_eq!(taken(Strategy::Scca, &at_home(2, "east")), [('d', 2)], "another cluster, as a whole");
    assert_eq!(taken(Strategy::NoShare, &at_home(2, "east")), [], "it waits at home");
    assert_eq!(taken(Strategy::NoShare, &at_home(2, "north")), [('c', 2)]);
    // Two tasks of a host's four slots need two hosts of the cluster.
    assert_eq!(taken(Strategy::Scca, &Demand { slots: 4, ..demand(2) }), [('d', 1), ('e', 1)]);
}

#[test]
fn the_least_congested_link_comes_first() {
    let mut scheduler = scheduler(Strategy::Sncp);
    let links = [("east", 1), ("north", 40), ("south", 10)];
    scheduler.set_links(links.map(|(name, bits)| (name.to_owned(), Some(bits))).into());
    assert_eq!(
        scheduler.clusters().iter().map(|cluster| cluster.factor).collect::<Vec<_>>(),
        [1.0, 2.0, 4.0]
    );
    // It spans east and north, and asks 3 · 4 · 1 / 4 of each link.
    submit(&mut scheduler, 1, "by", &Demand { bandwidth: 3, ..demand(5) });
    let starts = scheduler.next(0);
    assert_eq!(starts, [Start { job: 1, parts: vec![('a', 3), ('b', 1), ('c', 1)] }], "all links are free");
    let congestion: Vec<Option<f64>> =
        scheduler.clusters().iter().map(|cluster| cluster.congestion).collect();
    assert_eq!(congestion, [Some(1.0 / 3.0), Some(40.0 / 3.0), None]);
    submit(&mut scheduler, 2, "by", &demand(9));
    assert_eq!(scheduler.next(0), [Start { job: 2, parts: vec![('d', 4), ('e', 4), ('c', 1)] }]);
}

#[test]
fn what_no_cluster_can_hold_is_refused_at_once() {
    let told = |strategy, demand: &Demand| {
        scheduler(strategy).admit(Some("by"), "ann", demand).expect_err("a refusal").to_string()
    };
    assert_eq!(
        told(Strategy::Scca, &demand(9)),
        "the job needs 9 slots in one cluster, the largest that it may run on has 8 (pvm clusters; coallocation of queue by)"
    );
    assert_eq!(
        told(Strategy::NoShare, &at_home(5, "east")),
        "the job needs 5 slots in cluster east, where it was submitted and has to run; there are 4 (pvm clusters; coallocation of \
         queue by)"
    );
    assert!(told(Strategy::NoShare, &demand(1)).contains("in the hosts without a cluster, where"));
    let few = Demand { hosts: vec!["@north".to_owned(), "d".to_owned()], ..demand(7) };
    assert!(told(Strategy::Scca, &few).contains("the largest that it may run on has 6"));
    assert!(
        told(Strategy::Scca, &Demand { hosts: vec!["@west".to_owned()], ..few }).contains("no cluster west")
    );
    for strategy in [Strategy::Bfnp, Strategy::Sncp, Strategy::Shfp, Strategy::Shfnp] {
        assert!(scheduler(strategy).admit(Some("by"), "ann", &demand(18)).is_ok(), "{strategy}");
    }
    // Hosts that can be had may be of one cluster.
    let mut scheduler = scheduler(Strategy::Scca);
    scheduler.expect("slurm".to_owned(), 1, Some(1));
    assert!(scheduler.admit(Some("by"), "ann", &demand(9)).is_ok());
    assert!(scheduler.admit(Some("by"), "ann", &demand(10)).is_err());
}

#[test]
fn a_job_waits_for_room_in_one_cluster_and_says_so() {
    let mut scheduler = scheduler(Strategy::Scca);
    for (id, host, width) in [(1, "c", 3), (2, "d", 4)] {
        submit(&mut scheduler, id, "first", &Demand { hosts: vec![host.to_owned()], ..demand(width) });
    }
    submit(&mut scheduler, 3, "by", &demand(5));
    assert_eq!(scheduler.next(0).len(), 2);
    let reason = scheduler.reason(3, 0).expect("it waits");
    assert_eq!(reason, Reason::NoCluster { needs: 5, free: 4 });
    assert!(reason.to_string().contains("needs 5 slots in one cluster"));
    for _ in 0..4 {
        scheduler.task_ended(2, 'd', None, false, 9);
    }
    assert_eq!(scheduler.next(9), [Start { job: 3, parts: vec![('d', 4), ('e', 1)] }]);
}

#[test]
fn tasks_end_for_a_job_in_one_cluster_only() {
    let mut scheduler = scheduler(Strategy::Scca);
    let urgent = Queue {
        priority: 5,
        preempts: vec!["first".to_owned()],
        coallocation: Some(Strategy::Scca),
        ..Queue::open("urgent")
    };
    let queues = [scheduler.configuration().queues.clone(), vec![urgent]].concat();
    scheduler.configure(queues);
    let all = Demand { width: Width::Array { count: 18, at_once: None }, ..demand(18) };
    submit(&mut scheduler, 1, "first", &all);
    assert_eq!(scheduler.next(0).len(), 1);
    submit(&mut scheduler, 2, "urgent", &demand(5));
    assert_eq!(scheduler.next(1), []);
    let stops = scheduler.stops(1);
    let [Stop { job: 1, parts }] = &stops[..] else { panic!("{stops:?}") };
    let clusters: BTreeSet<&str> = parts.iter().map(|(host, _)| cluster(*host)).collect();
    assert_eq!((clusters.len(), parts.iter().map(|(_, count)| count).sum::<u32>()), (1, 5), "{parts:?}");
}

fn drawn() -> impl proptest::strategy::Strategy<Value = Vec<(u32, u32, u64, usize)>> {
    proptest::collection::vec((1..12_u32, 1..3_u32, 1..60_u64, 0..4_usize), 1..30)
}

fn of(&(width, slots, seconds, home): &(u32, u32, u64, usize)) -> Demand {
    let home = ["east", "north", "south"].get(home).map(|&home| home.to_owned());
    Demand { slots, time: Some(seconds * 1000), home, bandwidth: seconds, ..demand(width) }
}

proptest! {
    /// A job has exactly its width, no host more tasks than it has free slots, and a job that spans no clusters has one; each runs.
    #[test]
    fn all_that_is_admitted_runs_where_its_strategy_allows(jobs in drawn(), strategy in 0..6_usize) {
        let strategy = Strategy::REAL[strategy];
        let mut scheduler = scheduler(strategy);
        let mut demands = BTreeMap::new();
        for (id, job) in (1_u64..).zip(&jobs) {
            if let Ok((queue, demand)) = scheduler.admit(Some("by"), "ann", &of(job)) {
                let pending = demand.tasks();
                scheduler.submit(id, queue, "ann", demand.clone(), pending, 0);
                demands.insert(id, demand);
            }
        }
        let (mut running, mut now, mut waits): (Vec<(u64, u64, char)>, u64, usize) = (Vec::new(), 0, demands.len());
        while waits > 0 || !running.is_empty() {
            let mut free: BTreeMap<char, u32> = scheduler.hosts.iter().map(|(&host, node)| (host, node.free())).collect();
            for Start { job, parts } in scheduler.next(now) {
                let demand = &demands[&job];
                prop_assert_eq!(parts.iter().map(|(_, count)| count).sum::<u32>(), demand.tasks());
                for &(host, count) in &parts {
                    let left = free[&host].checked_sub(count * demand.slots);
                    prop_assert!(left.is_some(), "{} has no room", host);
                    free.insert(host, left.unwrap_or(0));
                }
                let clusters: BTreeSet<&str> = parts.iter().map(|&(host, _)| cluster(host)).collect();
                prop_assert!(strategy.spans() || clusters.len() == 1, "{:?}", parts);
                prop_assert!(strategy != Strategy::NoShare || demand.home.as_deref() == clusters.first().copied());
                let end = now + demand.time.unwrap_or(0);
                running.extend(parts.iter().flat_map(|&(host, count)| (0..count).map(move |_| (end, job, host))));
                waits -= 1;
            }
            running.sort_unstable();
            prop_assert!(!running.is_empty(), "nothing starts");
            let (end, job, host) = running.remove(0);
            now = end;
            scheduler.task_ended(job, host, None, false, now);
        }
        prop_assert!(scheduler.is_empty() && scheduler.spreads.is_empty() && scheduler.link_demand.is_empty());
    }

    /// The first job that does not fit starts no later than it would if nothing had passed it.
    #[test]
    fn backfilling_does_not_delay_the_first(jobs in drawn(), strategy in 0..6_usize) {
        let run = |backfills: bool| {
            let mut scheduler = scheduler(Strategy::REAL[strategy]);
            scheduler.rules.backfills = backfills;
            for (id, job) in (1..).zip(&jobs) {
                if let Ok((queue, demand)) = scheduler.admit(Some("by"), "ann", &of(job)) {
                    let pending = demand.tasks();
                    scheduler.submit(id, queue, "ann", demand, pending, 0);
                }
            }
            start_of_first(&mut scheduler, true)
        };
        prop_assert_eq!(run(true), run(false));
    }
}

#[test]
fn a_job_that_would_span_clusters_waits_for_one_that_is_ending() {
    let mut scheduler = scheduler(Strategy::Bfnp);
    for (id, width) in [(1, 8), (2, 6), (3, 4), (4, 8)] {
        submit(&mut scheduler, id, "by", &demand(width));
    }
    assert_eq!(scheduler.next(0).len(), 3, "each has a cluster");
    let mut end = |id, host, count, now| {
        let mut started = Vec::new();
        for _ in 0..count {
            assert!(started.is_empty(), "{started:?}");
            scheduler.task_ended(id, host, None, false, now);
            started = scheduler.next(now);
        }
        started
    };
    assert_eq!(end(2, 'c', 6, 1000), []);
    // Its other tasks in the south are about to end.
    assert_eq!(end(1, 'd', 4, 2000), []);
    assert_eq!(end(1, 'e', 4, 2005), [Start { job: 4, parts: vec![('d', 4), ('e', 4)] }]);
}

#[test]
fn it_does_not_wait_for_tasks_that_do_not_end() {
    let mut scheduler = scheduler(Strategy::Bfnp);
    for (id, width) in [(1, 8), (2, 6), (3, 4), (4, 8)] {
        submit(&mut scheduler, id, "by", &demand(width));
    }
    scheduler.next(0);
    for (id, host, count) in [(2, 'c', 6), (1, 'd', 2)] {
        for _ in 0..count {
            scheduler.task_ended(id, host, None, false, 1000);
        }
    }
    let within = tuned::JOB_ENDING.as_millis() as u64;
    assert!(scheduler.next(1000).is_empty() && scheduler.is_any_ending(1000));
    assert!(scheduler.next(999 + within).is_empty());
    assert!(!scheduler.is_any_ending(1000 + within));
    assert_eq!(scheduler.next(1000 + within), [Start { job: 4, parts: vec![('c', 6), ('d', 2)] }]);
}
