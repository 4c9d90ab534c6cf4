use super::super::{Demand, Host, Queue, Rules, Width};
use super::*;
use crate::coallocation::Strategy;

const MBIT: u64 = 1_000_000;

/// Hosts `a` and `b` with four slots each in clusters of their own, `b` half as fast, and `c` in none; links of 100 Mbit/s.
fn scheduler() -> Scheduler<char> {
    let queue = Queue { coallocation: Some(Strategy::Shfp), ..Queue::open("by") };
    let mut scheduler = Scheduler::new(vec![queue], Rules::default());
    for (host, capability, cluster) in
        [('a', 4000.0, Some("fast")), ('b', 2000.0, Some("slow")), ('c', 1000.0, None)]
    {
        let (name, arch, cluster) = (host.to_string(), "LINUX64".to_owned(), cluster.map(str::to_owned));
        scheduler.host_joined(host, Host { name, arch, capability, slots: 4, cluster });
    }
    let links = ["fast", "slow", "far"].map(|name| (name.to_owned(), (name != "far").then_some(100 * MBIT)));
    scheduler.set_links(links.into());
    scheduler
}

/// Starts a job with two tasks on each of two hosts, or all on one.
fn start(scheduler: &mut Scheduler<char>, id: u64, hosts: &[&str], bandwidth: u64, now: u64) {
    let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
    let slots = hosts.len() as u32;
    let demand =
        Demand { width: Width::Rigid(4), slots, time: None, memory: None, hosts, bandwidth, home: None };
    scheduler.submit(id, "by".to_owned(), "ann", demand, 4, now);
    assert_eq!(scheduler.next(now).len(), 1, "job {id}");
}

fn end(scheduler: &mut Scheduler<char>, id: u64, hosts: &[char], now: u64) {
    for &host in hosts {
        scheduler.task_ended(id, host, None, false, now);
    }
}

fn congestion(scheduler: &Scheduler<char>, name: &str) -> f64 {
    scheduler.congestion(Some(name))
}

#[test]
fn a_job_asks_of_the_links_what_crosses_them() {
    let mut scheduler = scheduler();
    start(&mut scheduler, 1, &["a"], 900 * MBIT, 0);
    assert!(congestion(&scheduler, "fast").is_infinite(), "nothing leaves the cluster");
    assert_eq!(scheduler.spread(1).map(Spread::spans), Some(false));
    end(&mut scheduler, 1, &['a'; 4], 1);
    // Two tasks on each side: 75 · 2 · 2 / 3.
    start(&mut scheduler, 2, &["a", "b"], 75 * MBIT, 1);
    let all = scheduler.clusters();
    let names: Vec<Option<&str>> = all.iter().map(|cluster| cluster.name.as_deref()).collect();
    assert_eq!(names, [None, Some("far"), Some("fast"), Some("slow")]);
    assert!(
        (all[2].demand - 1e8).abs() < 1.0
            && all[3].congestion.is_some_and(|factor| (factor - 1.0).abs() < 1e-9)
    );
    assert_eq!((all[0].slots, all[0].free, all[2].free, all[1].slots), (4, 4, 0, 0));
    assert_eq!((all[0].factor, all[2].factor, all[3].factor, all[1].bandwidth), (4.0, 1.0, 2.0, None));
    assert!(scheduler.has_cluster("far") && scheduler.has_cluster("slow") && !scheduler.has_cluster("near"));
    end(&mut scheduler, 2, &['a', 'a', 'b'], 2);
    assert!(!scheduler.link_demand.is_empty(), "one of its tasks runs");
    end(&mut scheduler, 2, &['b'], 3);
    assert!(congestion(&scheduler, "slow").is_infinite() && scheduler.spread(2).is_none());
}

#[test]
fn the_end_moves_with_the_congestion_of_the_links() {
    let mut scheduler = scheduler();
    for (host, cluster) in [('d', "fast"), ('e', "slow")] {
        let (name, arch) = (host.to_string(), "LINUX64".to_owned());
        let capability = if cluster == "fast" { 4000.0 } else { 2000.0 };
        scheduler
            .host_joined(host, Host { name, arch, capability, slots: 4, cluster: Some(cluster.to_owned()) });
    }
    start(&mut scheduler, 1, &["a", "b"], 75 * MBIT, 1000);
    assert_eq!(scheduler.spread(1).and_then(Spread::end), None, "its run time is not known");
    // 3 s on the fast cluster are 6 s on the slow one; 4 s of communication.
    scheduler.expect_run(1, 3000, 4000);
    let ends = |scheduler: &Scheduler<char>, id| scheduler.spread(id).and_then(Spread::end);
    assert_eq!(ends(&scheduler, 1), Some(11_000));
    // After half of it another job asks for as much again: the other 2 s of communication take 4.
    start(&mut scheduler, 2, &["d", "e"], 75 * MBIT, 6000);
    scheduler.expect_run(2, 1000, 1000);
    assert_eq!((ends(&scheduler, 1), ends(&scheduler, 2)), (Some(13_000), Some(6000 + 2000 + 2000)));
    // It ends earlier than it should: half of the rest, 7 s, is done, and the last 2 s of communication take 1.
    end(&mut scheduler, 2, &['d', 'd', 'e', 'e'], 9500);
    assert_eq!(ends(&scheduler, 1), Some(9500 + 1500 + 1000));
    let mean = scheduler.spread(1).map(|spread| spread.mean_flex(11_000)).expect("it runs");
    assert!((mean - (5.0 + 0.5 * 3.5 + 1.5) / 10.0).abs() < 1e-9, "{mean}");
}

#[test]
fn a_run_time_of_any_size_is_taken() {
    let mut scheduler = scheduler();
    start(&mut scheduler, 1, &["a", "b"], u64::MAX, 1000);
    scheduler.expect_run(1, u64::MAX, u64::MAX);
    assert_eq!(scheduler.spread(1).and_then(Spread::end), Some(u64::MAX));
    assert!(congestion(&scheduler, "fast") > 0.0);
    end(&mut scheduler, 1, &['a', 'a', 'b', 'b'], 1001);
    scheduler.expect_run(1, 1, 1);
}

/// The congestion factor of the link of cluster `fast`, in percent.
fn percent(scheduler: &Scheduler<char>) -> u64 {
    (100.0 * congestion(scheduler, "fast")).round() as u64
}

/// Both directions of a second in which two tasks on each side send each other this many bits.
fn talk(scheduler: &mut Scheduler<char>, id: u64, bits: u64) {
    for hosts in [('a', 'b'), ('b', 'a')] {
        scheduler.note_sent(id, hosts, bits / 8);
    }
}

#[test]
fn what_a_job_is_seen_to_send_counts_where_it_names_less() {
    let mut scheduler = scheduler();
    start(&mut scheduler, 1, &["a", "b"], 0, 0);
    assert!(scheduler.measures() && congestion(&scheduler, "fast").is_infinite());
    assert_eq!(scheduler.spread(1).and_then(|spread| spread.measured(0)), None);
    talk(&mut scheduler, 1, 5 * 50 * MBIT);
    scheduler.note_sent(1, ('a', 'a'), 1 << 40);
    scheduler.note_sent(1, ('a', 'z'), 1 << 40);
    scheduler.note_sent(2, ('a', 'b'), 1 << 40);
    assert_eq!(scheduler.next(4999).len(), 0);
    assert!(congestion(&scheduler, "fast").is_infinite(), "the window has not ended");
    scheduler.next(5000);
    assert_eq!((congestion(&scheduler, "fast"), congestion(&scheduler, "slow")), (2.0, 2.0));
    let link = scheduler.clusters().remove(2);
    assert_eq!((link.measured, link.demand, link.congestion), (50e6, 50e6, Some(2.0)));
    // 50 Mbit/s are 37.5 · 2 · 2 / 3 on each link.
    assert_eq!(scheduler.spread(1).and_then(|spread| spread.measured(5000)), Some(37_500_000));
    // It falls silent.
    scheduler.next(10_000);
    assert_eq!(percent(&scheduler), 400);
    end(&mut scheduler, 1, &['a', 'a', 'b', 'b'], 11_000);
    assert!(congestion(&scheduler, "fast").is_infinite() && !scheduler.measures());
    assert!(scheduler.clusters().remove(2).measured < 1.0);
}

#[test]
fn a_job_that_names_more_than_it_sends_is_taken_at_its_word() {
    let mut scheduler = scheduler();
    start(&mut scheduler, 1, &["a", "b"], 75 * MBIT, 0);
    talk(&mut scheduler, 1, 5 * 50 * MBIT);
    scheduler.next(5000);
    assert_eq!(percent(&scheduler), 100);
    talk(&mut scheduler, 1, 5 * 350 * MBIT);
    scheduler.next(10_000);
    assert_eq!(percent(&scheduler), 50, "200 Mbit/s on average");
    assert_eq!(scheduler.spread(1).map(|spread| spread.bandwidth), Some(75 * MBIT));
}

#[test]
fn the_bandwidth_of_earlier_runs_counts_until_this_one_is_measured() {
    let mut scheduler = scheduler();
    start(&mut scheduler, 1, &["a", "b"], 0, 0);
    scheduler.expect_run(1, 3000, 4000);
    scheduler.expect_bandwidth(1, 150 * MBIT, 0);
    assert_eq!(percent(&scheduler), 50);
    assert_eq!(scheduler.spread(1).and_then(Spread::end), Some(6000 + 8000));
    // What the job says itself takes precedence.
    end(&mut scheduler, 1, &['a', 'a', 'b', 'b'], 1);
    start(&mut scheduler, 2, &["a", "b"], 75 * MBIT, 1);
    scheduler.expect_bandwidth(2, 150 * MBIT, 1);
    assert_eq!(percent(&scheduler), 100);
}

#[test]
fn a_link_on_which_nothing_could_be_measured_is_only_very_narrow() {
    let mut scheduler = scheduler();
    start(&mut scheduler, 1, &["a", "b"], 75 * MBIT, 0);
    scheduler.expect_run(1, 3000, 4000);
    scheduler.note_bandwidth("fast", 0, 1000);
    let link = scheduler.clusters().remove(2);
    assert!((link.bandwidth, link.is_bandwidth_measured) == (Some(1), true));
    assert!(scheduler.spread(1).and_then(Spread::end) > Some(1_000_000));
}
