use super::*;
use proptest::prelude::*;

const HOUR: u64 = 3_600_000;

/// Tasks of one slot each.
pub(super) fn array(count: u32) -> Demand {
    Demand {
        width: Width::Array { count, at_once: None },
        slots: 1,
        time: None,
        memory: None,
        hosts: Vec::new(),
        bandwidth: 0,
        home: None,
    }
}

fn rigid(width: u32, time: u64) -> Demand {
    Demand { width: Width::Rigid(width), time: Some(time), ..array(1) }
}

pub(super) fn a_host(name: &str, slots: u32) -> Host {
    Host { name: name.to_owned(), arch: "LINUX64".to_owned(), capability: 1000.0, slots, cluster: None }
}

/// Hosts `a` and `b` with 4 slots each, and three queues.
fn scheduler() -> Scheduler<char> {
    let short = Queue {
        priority: 10,
        limits: Limits { time: Some(HOUR), width: Some(4), ..Limits::default() },
        ..Queue::open("short")
    };
    let small = Limits { running: Some(3), waiting: Some(3), waiting_per_user: Some(2), ..Limits::default() };
    let small = Queue { limits: small, hosts: vec!["b".to_owned()], ..Queue::open("small") };
    let mut scheduler = Scheduler::new(vec![small, short, Queue::open("long")], Rules::default());
    for host in ['a', 'b'] {
        scheduler.host_joined(host, a_host(&host.to_string(), 4));
    }
    scheduler
}

pub(super) fn submit(scheduler: &mut Scheduler<char>, id: u64, queue: &str, user: &str, demand: &Demand) {
    let (queue, demand) = scheduler.admit(Some(queue), user, demand).expect("admitted");
    let pending = demand.tasks();
    scheduler.submit(id, queue, user, demand, pending, 0);
}

fn started(starts: &[Start<char>]) -> Vec<(u64, u32)> {
    let count = |start: &Start<char>| start.parts.iter().map(|(_, count)| count).sum();
    starts.iter().map(|start| (start.job, count(start))).collect()
}

/// When the first job starts that does not fit at first. Tasks that end at one time are told of together, or there are starts between them.
pub(super) fn start_of_first(scheduler: &mut Scheduler<char>, together: bool) -> Option<u64> {
    let (mut first, mut ends, mut now) = (None, Vec::new(), 0);
    loop {
        for Start { job, parts } in scheduler.next(now) {
            let end = now + scheduler.jobs[&job].demand.time.expect("all have one");
            ends.extend(parts.iter().flat_map(|&(host, count)| (0..count).map(move |_| (end, job, host))));
            if first.is_some_and(|first| first == job) {
                return Some(now);
            }
        }
        if first.is_none() {
            first = Some(*scheduler.waiting.values().next()?.first()?);
        }
        ends.sort_unstable();
        now = ends.first().expect("something runs").0;
        let ended = if together { ends.partition_point(|&(end, ..)| end == now) } else { 1 };
        for (_, job, host) in ends.drain(..ended) {
            scheduler.task_ended(job, host, None, false, now);
        }
    }
}

#[test]
fn a_job_that_can_never_run_is_refused_with_the_reason() {
    let mut scheduler = scheduler();
    let told = |scheduler: &Scheduler<char>, queue: Option<&str>, demand: Demand| {
        scheduler.admit(queue, "ann", &demand).expect_err("a refusal").to_string()
    };
    assert_eq!(told(&scheduler, Some("fast"), array(1)), "there is no queue fast");
    assert_eq!(
        told(&scheduler, Some("long"), rigid(9, 1)),
        "the job needs 9 slots at a time, the hosts it may run on have 8 (pvm conf, hosts of queue long)"
    );
    assert_eq!(
        told(&scheduler, Some("long"), Demand { slots: 5, ..array(1) }),
        "a task needs 5 slots, the largest host it may run on has 4 (pvm conf, hosts of queue long)"
    );
    // Two tasks of 3 slots do not fit on one host, so four never run at a time.
    assert!(scheduler.admit(Some("long"), "ann", &Demand { slots: 3, ..rigid(4, 1) }).is_err());
    let elsewhere = Demand { hosts: vec!["c*".to_owned()], ..array(1) };
    assert!(told(&scheduler, Some("long"), elsewhere).contains("the largest host it may run on has 0"));
    assert!(told(&scheduler, Some("short"), rigid(5, 1)).contains("queue short allows 4 (max-width)"));
    assert!(told(&scheduler, Some("long"), array(0)).contains("at least one task"));
    for id in 0..2 {
        submit(&mut scheduler, id, "small", "ann", &array(9));
    }
    assert!(told(&scheduler, Some("small"), array(1)).contains("max-waiting-per-user"));
    submit(&mut scheduler, 2, "small", "bob", &array(9));
    assert!(
        scheduler
            .admit(Some("small"), "eve", &array(1))
            .expect_err("full")
            .to_string()
            .contains("max-waiting)")
    );
    // Without a queue's name each refusal is said, unless one takes it.
    assert_eq!(scheduler.admit(None, "ann", &rigid(2, 1)).expect("short").0, "short");
    assert_eq!(scheduler.admit(None, "ann", &rigid(2, 2 * HOUR)).expect("long").0, "long");
    assert!(told(&scheduler, None, rigid(99, 1)).matches("queue").count() >= 3);
}

#[test]
fn tasks_of_an_array_fill_the_hosts_and_no_more() {
    let mut scheduler = scheduler();
    submit(&mut scheduler, 1, "long", "ann", &array(100));
    assert_eq!(scheduler.next(0), [Start { job: 1, parts: vec![('a', 4), ('b', 4)] }]);
    assert_eq!(scheduler.next(1), []);
    scheduler.task_ended(1, 'b', Some(1000), false, 1000);
    assert_eq!(scheduler.next(1000), [Start { job: 1, parts: vec![('b', 1)] }]);
    assert_eq!(scheduler.reason(1, 0), Some(Reason::NoRoom { needs: 1, free: 0 }));
    // Tasks of 10 ms: a host is given as many more as it has done in 100.
    for now in 0..40 {
        scheduler.task_ended(1, 'a', Some(10), true, 2000 + now);
        scheduler.next(2000 + now);
    }
    assert!((30..=44).contains(&scheduler.hosts[&'a'].used), "{:?}", scheduler.hosts);
}

#[test]
fn an_array_keeps_to_its_own_limit_and_those_of_its_queue() {
    let mut scheduler = scheduler();
    let two = Demand { width: Width::Array { count: 9, at_once: Some(2) }, ..array(9) };
    submit(&mut scheduler, 1, "long", "ann", &two);
    assert_eq!(started(&scheduler.next(0)), [(1, 2)]);
    assert_eq!(scheduler.reason(1, 0), Some(Reason::AtOnce(2)));
    submit(&mut scheduler, 2, "small", "ann", &array(9));
    submit(&mut scheduler, 3, "small", "bob", &array(9));
    let starts = scheduler.next(0);
    assert_eq!(started(&starts).iter().map(|(_, count)| count).sum::<u32>(), 3, "max-running");
    assert!(starts.iter().flat_map(|start| &start.parts).all(|(host, _)| *host == 'b'), "{starts:?}");
    assert!(matches!(scheduler.reason(2, 0), Some(Reason::Running { allows: 3, .. })));
}

#[test]
fn priority_then_the_user_with_less_then_age() {
    let mut scheduler = scheduler();
    let one = || Demand { slots: 4, ..array(1) };
    for (id, user) in [(1, "ann"), (2, "ann"), (3, "ann"), (4, "bob")] {
        submit(&mut scheduler, id, "long", user, &one());
    }
    submit(&mut scheduler, 5, "short", "eve", &one());
    assert_eq!(started(&scheduler.next(1000)), [(5, 1), (1, 1)], "priority; nobody has used anything");
    assert_eq!(scheduler.reason(2, 0), Some(Reason::NoRoom { needs: 4, free: 0 }));
    scheduler.task_ended(5, 'a', None, false, 9000);
    assert_eq!(started(&scheduler.next(9000)), [(4, 1)], "bob has used less");
    assert!(scheduler.usage.score(scheduler.users["ann"], 9000) > 0);
    scheduler.task_ended(4, 'a', None, false, 9001);
    assert_eq!(started(&scheduler.next(9001)), [(2, 1)]);
}

#[test]
fn a_job_that_waits_gains_priority_where_the_queue_says_so() {
    let mut queues = vec![Queue::open("low"), Queue { priority: 2, ..Queue::open("high") }];
    queues[0].aging = Some(HOUR);
    let mut scheduler = Scheduler::new(queues, Rules::default());
    scheduler.host_joined('a', a_host("a", 1));
    submit(&mut scheduler, 1, "low", "ann", &array(1));
    submit(&mut scheduler, 2, "high", "ann", &array(1));
    let mut early = scheduler.clone();
    assert_eq!(started(&early.next(HOUR)), [(2, 1)]);
    assert_eq!(started(&scheduler.next(3 * HOUR)), [(1, 1)]);
}

#[test]
fn a_rigid_job_starts_at_once_or_not_at_all_and_is_not_passed_to_its_harm() {
    let mut scheduler = scheduler();
    submit(&mut scheduler, 1, "long", "ann", &rigid(6, 1000));
    assert_eq!(scheduler.next(0), [Start { job: 1, parts: vec![('a', 4), ('b', 2)] }]);
    submit(&mut scheduler, 2, "long", "bob", &rigid(8, 1000));
    submit(&mut scheduler, 3, "long", "eve", &rigid(2, 1001));
    submit(&mut scheduler, 4, "long", "eve", &rigid(1, 1000));
    submit(&mut scheduler, 5, "long", "eve", &array(9));
    // 3 would end too late for 2, which has all slots from 1000 on, and the end of 5's tasks is not known.
    assert_eq!(started(&scheduler.next(0)), [(4, 1)]);
    assert_eq!(scheduler.reason(2, 0), Some(Reason::NoRoom { needs: 8, free: 1 }));
    for host in ['a', 'a', 'a', 'a', 'b', 'b'] {
        scheduler.task_ended(1, host, Some(900), false, 900);
    }
    assert_eq!(started(&scheduler.next(900)), [], "seven are free");
    scheduler.task_ended(4, 'b', Some(950), false, 950);
    assert_eq!(started(&scheduler.next(950)), [(2, 8)]);
}

#[test]
fn what_a_parallel_job_that_is_ending_still_holds_is_free_soon() {
    let mut scheduler = scheduler();
    submit(&mut scheduler, 1, "long", "ann", &rigid(8, 10_000));
    assert_eq!(started(&scheduler.next(0)), [(1, 8)]);
    submit(&mut scheduler, 2, "long", "bob", &rigid(8, 10_000));
    submit(&mut scheduler, 3, "long", "eve", &rigid(2, 1000));
    // The ends of its tasks are reported one by one. 3 would end before the last one must, and be in the way of 2.
    for host in ['a', 'a', 'b'] {
        scheduler.task_ended(1, host, Some(500), false, 500);
    }
    assert_eq!(started(&scheduler.next(500)), []);
    // The others run on.
    assert_eq!(started(&scheduler.next(1600)), [(3, 2)]);
    for host in ['a', 'a', 'b', 'b', 'b'] {
        scheduler.task_ended(1, host, Some(2000), false, 2000);
    }
    scheduler.task_ended(3, 'a', Some(1000), false, 2600);
    scheduler.task_ended(3, 'a', Some(1000), false, 2600);
    assert_eq!(started(&scheduler.next(2600)), [(2, 8)]);
    assert!(scheduler.ending.is_empty());
}

#[test]
fn jobs_that_are_held_cancelled_or_of_a_lost_queue_do_not_start() {
    let mut scheduler = scheduler();
    for id in 1..=3 {
        submit(&mut scheduler, id, "long", "ann", &array(1));
    }
    scheduler.hold(1, true);
    assert_eq!(scheduler.cancel(2), 1);
    assert_eq!((scheduler.cancel(2), scheduler.reason(1, 0)), (0, Some(Reason::Held)));
    assert_eq!(started(&scheduler.next(0)), [(3, 1)]);
    scheduler.hold(1, false);
    scheduler.configure(vec![Queue::open("other")]);
    assert_eq!(scheduler.reason(1, 0), Some(Reason::NoQueue("long".to_owned())));
    assert_eq!(scheduler.next(0), []);
    // What runs goes on, and counts when its queue is there again.
    scheduler.configure(vec![Queue {
        limits: Limits { running: Some(1), ..Limits::default() },
        ..Queue::open("long")
    }]);
    assert!(matches!(scheduler.reason(1, 0), Some(Reason::Running { .. })));
    scheduler.task_ended(3, 'a', None, false, 1);
    assert_eq!((started(&scheduler.next(1)), scheduler.len()), (vec![(1, 1)], 1));
}

#[test]
fn a_lost_hosts_tasks_go_elsewhere() {
    let mut scheduler = scheduler();
    submit(&mut scheduler, 1, "long", "ann", &array(8));
    scheduler.next(0);
    scheduler.host_gone('a');
    for _ in 0..4 {
        scheduler.task_ended(1, 'a', None, true, 5);
    }
    assert_eq!(scheduler.next(5), []);
    scheduler.task_ended(1, 'b', None, false, 6);
    assert_eq!(scheduler.next(6), [Start { job: 1, parts: vec![('b', 1)] }]);
    scheduler.host_gone('b');
    assert_eq!(scheduler.reason(1, 0), Some(Reason::NoHosts));
}

/// A job as it is drawn: queue, user, width (rigid if not 0) or tasks, slots of each, seconds.
type Drawn = (usize, usize, u32, u32, u32, u64);

fn drawn() -> impl Strategy<Value = Vec<Drawn>> {
    proptest::collection::vec((0..3_usize, 0..3_usize, 0..9_u32, 1..20_u32, 1..4_u32, 1..50_u64), 0..40)
}

/// One queue with these properties on hosts `a` and `b`, and one of lower priority without any.
fn with_queue(queue: Queue) -> Scheduler<char> {
    let mut scheduler = scheduler();
    scheduler.configure(vec![Queue { priority: 5, ..queue }, Queue::open("long")]);
    scheduler
}

#[test]
fn a_queue_starts_jobs_in_its_hours_by_local_time() {
    let hours = Some("Thu 20:00-22:00".parse().unwrap());
    let mut scheduler = with_queue(Queue { hours, ..Queue::open("night") });
    submit(&mut scheduler, 1, "night", "ann", &array(1));
    assert_eq!(scheduler.next(19 * HOUR), []);
    let reason = scheduler.reason(1, 19 * HOUR).unwrap();
    assert_eq!(reason.to_string(), "queue night starts jobs Thu 20:00-22:00 (hours)");
    scheduler.set_local_time(3600);
    assert_eq!(started(&scheduler.next(19 * HOUR)), [(1, 1)]);
}

#[test]
fn a_queue_may_want_idle_or_lightly_loaded_hosts() {
    let when = HostState { idle: Some(600), load: Some(300), one_parallel: false };
    let mut scheduler = with_queue(Queue { when, ..Queue::open("guest") });
    submit(&mut scheduler, 1, "guest", "ann", &array(8));
    assert_eq!(scheduler.next(HOUR), [], "nothing is known");
    assert_eq!(
        scheduler.reason(1, HOUR).unwrap().to_string(),
        "no host that it may run on is idle, as queue guest wants it (idle)"
    );
    let load = LoadVector { input: Some(2000), ..LoadVector::default() };
    scheduler.set_load('a', load);
    scheduler.set_load('b', LoadVector { others: [0, 0, 400], ..load });
    assert_eq!(scheduler.next(2_500_000), [], "there was input 500 s ago");
    assert_eq!(scheduler.next(2_600_000), [Start { job: 1, parts: vec![('a', 4)] }]);
    // Of equal hosts the lightly loaded one is first.
    submit(&mut scheduler, 2, "long", "ann", &array(1));
    scheduler.configure(vec![Queue::open("long")]);
    scheduler.host_joined('c', a_host("c", 4));
    scheduler.set_load('b', LoadVector { run_queue: [200; 3], ..load });
    assert_eq!(scheduler.next(2_600_001), [Start { job: 2, parts: vec![('c', 1)] }]);
}

#[test]
fn a_host_may_have_one_parallel_job() {
    let when = HostState { one_parallel: true, ..HostState::default() };
    let mut scheduler = with_queue(Queue { when, ..Queue::open("parallel") });
    submit(&mut scheduler, 1, "parallel", "ann", &rigid(2, HOUR));
    submit(&mut scheduler, 2, "parallel", "ann", &rigid(2, HOUR));
    submit(&mut scheduler, 3, "parallel", "ann", &rigid(2, HOUR));
    submit(&mut scheduler, 4, "parallel", "ann", &array(1));
    assert_eq!(started(&scheduler.next(0)), [(1, 2), (2, 2), (4, 1)]);
    assert_eq!(
        scheduler.reason(3, 0).unwrap().to_string(),
        "no host that it may run on is without a parallel job, as queue parallel wants it (one-parallel-job-per-host)"
    );
    scheduler.task_ended(1, 'a', Some(5), false, 5);
    assert_eq!(scheduler.next(5), []);
    scheduler.task_ended(1, 'a', Some(6), false, 6);
    assert_eq!(scheduler.next(6), [Start { job: 3, parts: vec![('a', 2)] }]);
}

#[test]
fn a_job_may_preempt_tasks_of_lower_priority() {
    let preempts = vec!["long".to_owned()];
    let mut scheduler = with_queue(Queue { preempts, ..Queue::open("urgent") });
    submit(&mut scheduler, 1, "long", "ann", &array(6));
    submit(&mut scheduler, 2, "long", "ann", &array(9));
    assert_eq!(started(&scheduler.next(0)), [(1, 6), (2, 2)]);
    assert_eq!(scheduler.stops(0), []);
    submit(&mut scheduler, 3, "urgent", "bob", &rigid(3, HOUR));
    assert_eq!(scheduler.next(1), []);
    let stops = scheduler.stops(1);
    let count = |stop: &Stop<char>| stop.parts.iter().map(|(_, count)| count).sum::<u32>();
    assert_eq!(stops.iter().map(|stop| (stop.job, count(stop))).collect::<Vec<_>>(), [(1, 1), (2, 2)]);
    assert_eq!(scheduler.stops(2), [], "those are enough");
    assert_eq!(scheduler.reason(3, 2), Some(Reason::Stopping));
    // What is free meanwhile is kept for the job, even from jobs that are short.
    submit(&mut scheduler, 4, "long", "eve", &rigid(1, 1));
    let ends = stops.iter().flat_map(|stop| stop.parts.iter().map(move |part| (stop.job, part)));
    let mut starts = Vec::new();
    for (job, &(host, count)) in ends {
        for _ in 0..count {
            assert_eq!(starts, []);
            scheduler.task_ended(job, host, Some(3), true, 3);
            starts = scheduler.next(3);
        }
    }
    assert_eq!(started(&starts), [(3, 3)]);
    assert_eq!(scheduler.stops(4), []);
}

#[test]
fn a_parallel_job_is_preempted_as_a_whole_and_none_is_in_vain() {
    let preempts = vec!["long".to_owned()];
    let mut scheduler = with_queue(Queue { preempts, ..Queue::open("urgent") });
    submit(&mut scheduler, 1, "long", "ann", &rigid(6, HOUR));
    scheduler.next(0);
    let wide = Demand { hosts: vec!["a".to_owned()], slots: 3, ..rigid(2, HOUR) };
    let (queue, demand) = ("urgent".to_owned(), wide);
    scheduler.submit(2, queue, "bob", demand, 2, 1);
    assert_eq!((scheduler.next(1), scheduler.stops(1)), (vec![], vec![]), "a has four slots");
    submit(&mut scheduler, 3, "urgent", "bob", &array(4));
    assert_eq!(started(&scheduler.next(2)), [(3, 2)]);
    assert_eq!(scheduler.stops(2), [Stop { job: 1, parts: vec![('a', 4), ('b', 2)] }]);
}

#[test]
fn clusters_are_sets_of_hosts() {
    let mut scheduler = scheduler();
    scheduler.host_joined('c', a_host("c", 8));
    let large = Cluster { name: "large".to_owned(), slots: Some(8), ..Cluster::default() };
    let queue = Queue { hosts: vec!["@large".to_owned()], ..Queue::open("wide") };
    scheduler.configure(Configuration { queues: vec![queue, Queue::open("long")], clusters: vec![large] });
    submit(&mut scheduler, 1, "wide", "ann", &rigid(8, 1));
    assert_eq!(scheduler.next(0), [Start { job: 1, parts: vec![('c', 8)] }]);
    let on = |name: &str| Demand { hosts: vec![name.to_owned()], ..array(1) };
    let refused = scheduler.admit(None, "ann", &on("@small")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "there is no cluster small (pvm queues and pvm clusters show those that there are)"
    );
    assert_eq!(scheduler.admit(Some("long"), "ann", &on("@large")).unwrap().0, "long");
    assert_eq!(scheduler.hosts_of(&scheduler.configuration().clusters[0]), ["c"]);
}

proptest! {
    /// Each task of each admitted job starts once, no host has more slots in use than it has, unless tasks are short, and a rigid
    /// job starts whole.
    #[test]
    fn all_that_is_admitted_runs_and_fits(jobs in drawn(), backfills: bool, is_fair: bool) {
        let mut scheduler = scheduler();
        scheduler.rules = Rules { is_fair, backfills };
        let mut left: BTreeMap<u64, u32> = BTreeMap::new();
        for (id, (queue, user, width, count, slots, seconds)) in (1..).zip(jobs) {
            let width = if width > 0 { Width::Rigid(width) } else { Width::Array { count, at_once: None } };
            let demand = Demand { width, slots, time: Some(seconds * 1000), ..array(1) };
            let (queue, user) = (["short", "small", "long"][queue], ["ann", "bob", "eve"][user]);
            if let Ok((queue, demand)) = scheduler.admit(Some(queue), user, &demand) {
                let pending = demand.tasks();
                left.insert(id, pending);
                scheduler.submit(id, queue, user, demand, pending, 0);
            }
        }
        let mut running: Vec<(u64, u64, char)> = Vec::new();
        let mut now = 0;
        while left.values().any(|&count| count > 0) || !running.is_empty() {
            for Start { job, parts } in scheduler.next(now) {
                let count: u32 = parts.iter().map(|(_, count)| count).sum();
                let demand = scheduler.jobs[&job].demand.clone();
                if let Width::Rigid(width) = demand.width {
                    prop_assert_eq!(count, width);
                }
                let rest = left.get_mut(&job).expect("a job");
                prop_assert!(*rest >= count);
                *rest -= count;
                let end = now + demand.time.expect("all have one");
                running.extend(parts.iter().flat_map(|&(host, count)| (0..count).map(move |_| (end, job, host))));
            }
            for node in scheduler.hosts.values() {
                prop_assert!(node.used <= node.host.slots, "{:?}", node);
            }
            running.sort_unstable();
            prop_assert!(!running.is_empty(), "nothing starts: {:?}", left);
            let (end, job, host) = running.remove(0);
            now = end;
            scheduler.task_ended(job, host, None, false, now);
        }
        prop_assert!(scheduler.is_empty() && scheduler.ends.is_empty() && scheduler.ends_of.is_empty());
        prop_assert!(scheduler.in_queue.values().chain(scheduler.in_use.values()).all(|&used| used == 0));
        prop_assert!(scheduler.hosts.values().all(|node| node.used == 0));
    }

    /// The first rigid job that does not fit starts no later than it would if nothing had passed it.
    #[test]
    fn backfilling_does_not_delay_the_first(jobs in drawn()) {
        let run = |backfills: bool| {
            let mut scheduler = Scheduler::new(vec![Queue::open("long")], Rules { is_fair: false, backfills });
            for host in ['a', 'b'] {
                scheduler.host_joined(host, a_host(&host.to_string(), 4));
            }
            for (id, &(_, _, width, _, _, seconds)) in (1..).zip(&jobs) {
                let demand = rigid(width.max(1), seconds * 1000);
                if let Ok((queue, demand)) = scheduler.admit(None, "ann", &demand) {
                    let pending = demand.tasks();
                    scheduler.submit(id, queue, "ann", demand, pending, 0);
                }
            }
            start_of_first(&mut scheduler, false)
        };
        prop_assert_eq!(run(true), run(false));
    }
}

#[test]
fn arrays_of_a_queue_are_divided_by_its_policy() {
    use crate::policy::Policy;
    let divided = |policy| {
        let queue = Queue { policy, ..Queue::open("q") };
        let mut scheduler = Scheduler::new(vec![queue], Rules::default());
        scheduler.host_joined('a', a_host("a", 8));
        scheduler.host_joined('b', Host { capability: 3000.0, ..a_host("b", 8) });
        scheduler.host_joined('c', a_host("c", 8));
        submit(&mut scheduler, 1, "q", "ann", &array(5));
        submit(&mut scheduler, 2, "q", "ann", &array(2));
        scheduler.next(0).into_iter().map(|start| start.parts).collect::<Vec<_>>()
    };
    // The second one begins where the first has stopped.
    let in_turn = [vec![('a', 2), ('b', 2), ('c', 1)], vec![('a', 1), ('b', 1)]];
    assert_eq!(divided(Some(Policy::RoundRobin)), in_turn);
    assert_eq!(divided(Some(Policy::Proportional))[0], [('a', 1), ('b', 3), ('c', 1)]);
    assert_eq!(divided(Some(Policy::LightlyLoaded))[0], [('a', 1), ('b', 3), ('c', 1)]);
    // A policy of agents divides nothing.
    assert_eq!(divided(Some(Policy::Bidding)), divided(None));
    assert_eq!(divided(Some(Policy::ActivePulling)), divided(None));
}
