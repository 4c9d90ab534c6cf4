use super::*;
use crate::config::{Config, Saved, SavedJob};
use crate::effect::Effects;
use crate::hostfile::Hostfile;
use crate::master::Moment;
use pvm_sched::queues::Queue;
use pvm_wire::HostIndex;
use pvm_wire::codec;
use pvm_wire::daemon::{Blob, ClusterName, HostEntry};
use pvm_wire::jobs::{Expectation, JobRequest, TaskEvent, TaskReport};
use std::collections::BTreeSet;
use std::time::Duration;

const HOSTFILE: &str = "a cluster=east\nb cluster=west\nlink=east bw=1Gbit\nlink=west bw=1Gbit\n";

fn second() -> HostIndex {
    HostIndex::new(2).expect("an index")
}

fn entry(index: HostIndex, name: &str, capability: f64, cluster: &str) -> HostEntry {
    HostEntry {
        index,
        name: name.to_owned(),
        arch: "LINUX64".to_owned(),
        speed: capability as i32,
        capability,
        task_limit: 9,
        signature: 0,
        cluster: Some(ClusterName { name: cluster.to_owned(), domain: None }),
        address: None,
    }
}

fn config(queue: Queue) -> Config {
    let hostfile = Hostfile::parse(HOSTFILE).expect("a hostfile");
    Config { hostfile, queues: vec![queue].into(), ..Config::for_tests() }
}

/// Host `a` with four slots in cluster east, and `b` with four in west, half as fast.
fn jobs_of(config: &Config) -> Jobs {
    let mut jobs = Jobs::new(config, Duration::from_secs(1));
    for (index, name, capability, cluster) in
        [(HostIndex::MASTER, "a", 4000.0, "east"), (second(), "b", 2000.0, "west")]
    {
        jobs.note_slots(index, 4);
        jobs.host_joined(&entry(index, name, capability, cluster));
    }
    jobs
}

fn jobs() -> Jobs {
    jobs_of(&config(Queue::open("default")))
}

fn request(width: u32, hosts: &[&str]) -> JobRequest {
    let hosts = hosts.iter().map(|&host| host.to_owned()).collect();
    JobRequest { tasks: Tasks::Rigid(width), hosts, ..JobRequest::new("/bin/solve", "ann", "/") }
}

/// A job that is submitted at host `a` and has begun at this time.
fn begun(jobs: &mut Jobs, request: JobRequest, now: u64) -> JobId {
    let (queue, demand) = jobs.admit(&request, HostIndex::MASTER).expect("admitted");
    let id = JobId(jobs.next);
    jobs.next += 1;
    let job = Job::new(id, request, queue, demand);
    jobs.enqueue(&job, now);
    jobs.all.insert(id, job);
    step(jobs, now);
    id
}

fn step(jobs: &mut Jobs, now: u64) {
    jobs.advance(
        Moment { now, local_time: 0, loads: Vec::new(), owners: BTreeSet::new() },
        &mut Effects::default(),
    );
}

/// All its tasks end.
fn end(jobs: &mut Jobs, id: JobId, status: i32, now: u64) {
    for host in [HostIndex::MASTER, second()] {
        let tasks: Vec<u32> = jobs.all[&id].given_to(host).collect();
        let what = |_| TaskEvent::Ended { status, ran: 1, cpu: 1, memory: 1, limit: None };
        let reports = tasks.into_iter().map(|task| TaskReport { job: id, task, what: what(task) });
        jobs.note(host, reports.collect());
    }
    step(jobs, now);
    assert!(jobs.all[&id].ended.is_some(), "{:?}", jobs.all[&id]);
}

fn predicted(jobs: &Jobs, id: JobId) -> Option<u64> {
    jobs.run_record(&jobs.all[&id]).predicted
}

#[test]
fn the_next_run_of_a_program_is_expected_to_take_as_long_as_the_last() {
    let mut jobs = jobs();
    // Eight seconds in the slow cluster are four in the fast one.
    let first = begun(&mut jobs, request(4, &["@west"]), 1000);
    assert_eq!(predicted(&jobs, first), None, "nothing is known yet");
    end(&mut jobs, first, 0, 9000);
    let next = begun(&mut jobs, request(4, &["a"]), 10_000);
    assert_eq!(predicted(&jobs, next), Some(14_000));
    let record = jobs.run_record(&jobs.all[&next]);
    assert_eq!(record.clusters, [ClusterShare { cluster: Some("east".to_owned()), tasks: 4 }]);
    end(&mut jobs, next, 0, 16_000);
    assert_eq!(predicted(&jobs, next), Some(14_000), "it stands beside the real end");
    // The mean of 4 and 6 s, in both clusters: at the speed of the slow one.
    let wide = begun(&mut jobs, JobRequest { tasks: Tasks::Rigid(4), ..request(4, &["b"]) }, 20_000);
    assert_eq!(predicted(&jobs, wide), Some(30_000));
    // What fails teaches nothing, nor does another width.
    end(&mut jobs, wide, 256, 20_100);
    let again = begun(&mut jobs, request(4, &["b"]), 30_000);
    assert_eq!(predicted(&jobs, again), Some(40_000));
    end(&mut jobs, again, 0, 40_000);
    let other = begun(&mut jobs, request(3, &["a"]), 50_000);
    assert_eq!(predicted(&jobs, other), None);
}

#[test]
fn communication_is_what_a_run_over_clusters_takes_beyond_its_execution() {
    let mut jobs = jobs();
    let expectation = Expectation { bandwidth: 1_000_000, run: Some(2000), communication: None };
    let wide = || JobRequest { expectation, ..request(8, &[]) };
    let first = begun(&mut jobs, wide(), 0);
    assert_eq!(predicted(&jobs, first), Some(4000), "execution alone, at the speed of the slow cluster");
    end(&mut jobs, first, 0, 5000);
    let next = begun(&mut jobs, wide(), 10_000);
    assert_eq!(predicted(&jobs, next), Some(15_000));
    end(&mut jobs, next, 0, 15_000);
    // Its own word goes first; and a link that is four times too narrow stretches it: 16 · 4 / 7 · 4 per task.
    let slow = Expectation { bandwidth: 1_750_000_000, run: Some(1000), communication: Some(1000) };
    let congested = begun(&mut jobs, JobRequest { expectation: slow, ..request(8, &[]) }, 20_000);
    assert_eq!(predicted(&jobs, congested), Some(20_000 + 2000 + 4000));
    end(&mut jobs, congested, 0, 26_000);
}

#[test]
fn a_limit_is_a_prediction_if_there_is_no_other_and_bounds_all() {
    let mut jobs = jobs();
    let mut limited = request(4, &["b"]);
    limited.program.time = Some(3000);
    let id = begun(&mut jobs, limited.clone(), 0);
    assert_eq!(predicted(&jobs, id), Some(3000));
    end(&mut jobs, id, 0, 2000);
    let id = begun(&mut jobs, limited.clone(), 5000);
    assert_eq!(predicted(&jobs, id), Some(7000), "as long as the last one");
    end(&mut jobs, id, 0, 7000);
    limited.expectation.run = Some(60_000);
    let id = begun(&mut jobs, limited, 10_000);
    assert_eq!(predicted(&jobs, id), Some(13_000));
    end(&mut jobs, id, 0, 11_000);
}

#[test]
fn what_was_learnt_is_known_after_a_restart() {
    let config = config(Queue::open("default"));
    let mut jobs = jobs_of(&config);
    let first = begun(&mut jobs, request(4, &["a"]), 1000);
    end(&mut jobs, first, 0, 6000);
    let bytes = Blob(codec::encode(&jobs.all[&first]).expect("a job can be encoded").into());
    let saved = Saved { jobs: vec![SavedJob { bytes, is_doubtful: false }], ..Saved::default() };
    let mut jobs = jobs_of(&Config { saved, ..config });
    let next = begun(&mut jobs, request(4, &["a"]), 10_000);
    assert_eq!((predicted(&jobs, first), predicted(&jobs, next)), (None, Some(15_000)));
}

#[test]
fn no_more_programs_are_kept_than_may_be() {
    let mut times = RunTimes::default();
    let measured = Measured { run: Some(7), ..Measured::default() };
    for n in 0..PROGRAMS_MAX as u32 + 3 {
        times.learn(("/bin/solve".into(), n), measured);
        times.learn(("/bin/solve".into(), 0), measured);
        times.learn(("/bin/nothing".into(), n), Measured::default());
    }
    assert_eq!(times.known.len(), PROGRAMS_MAX);
    assert!(times.known.contains_key(&("/bin/solve".into(), 0)), "it was seen last");
    assert!(!times.known.contains_key(&("/bin/solve".into(), 1)));
}

#[test]
fn a_job_runs_in_the_cluster_of_the_host_where_it_is_submitted() {
    let queue =
        Queue { coallocation: Some(pvm_sched::coallocation::Strategy::NoShare), ..Queue::open("default") };
    let mut jobs = jobs_of(&config(queue));
    let refused = jobs.admit(&request(5, &[]), second()).expect_err("a refusal");
    assert!(
        refused.starts_with("the job needs 5 slots in cluster west, where it was submitted"),
        "{refused}"
    );
    let id = begun(&mut jobs, request(3, &[]), 0);
    assert_eq!(jobs.run_record(&jobs.all[&id]).clusters[0].cluster.as_deref(), Some("east"));
}

#[test]
fn expectations_of_arrays_and_impossible_bandwidths_are_refused() {
    let jobs = jobs();
    let expectation = Expectation { bandwidth: 5, ..Expectation::default() };
    let array = JobRequest { expectation, ..JobRequest::new("true", "ann", "/") };
    let told = jobs.admit(&array, HostIndex::MASTER).expect_err("a refusal");
    assert!(told.contains("are of parallel programs"), "{told}");
    let expectation = Expectation { bandwidth: u64::MAX, ..Expectation::default() };
    let told = jobs.admit(&JobRequest { expectation, ..request(2, &[]) }, second()).expect_err("a refusal");
    assert!(told.contains("1000000000000 bit/s at most"), "{told}");
}

#[test]
fn what_tasks_were_measured_to_send_is_kept_for_the_next_run() {
    let mut jobs = jobs();
    let first = begun(&mut jobs, request(8, &[]), 1000);
    let run = |jobs: &Jobs, id| jobs.run_record(&jobs.all[&id]);
    assert_eq!((run(&jobs, first).bandwidth, run(&jobs, first).clusters.len()), (0, 2));
    // In 10 s 200 Mbit between the clusters, each of which has half of the 8 tasks: 2 · 4 · 4 / 7 pairs.
    for (host, to) in [(HostIndex::MASTER, second()), (second(), HostIndex::MASTER)] {
        jobs.note_sent(host, vec![JobSent { job: first, to, bytes: 12_500_000 }]);
    }
    end(&mut jobs, first, 0, 11_000);
    assert_eq!(run(&jobs, first).measured, Some(4_375_000));
    let next = begun(&mut jobs, request(8, &[]), 20_000);
    assert_eq!((run(&jobs, next).bandwidth, run(&jobs, next).measured), (4_375_000, None));
    end(&mut jobs, next, 256, 21_000);
    let expectation = Expectation { bandwidth: 40_000_000, ..Expectation::default() };
    let told = begun(&mut jobs, JobRequest { expectation, ..request(8, &[]) }, 30_000);
    assert_eq!(run(&jobs, told).bandwidth, 40_000_000, "its own word takes precedence");
}
