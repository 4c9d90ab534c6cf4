use super::*;
use crate::config::{Config, Saved, SavedJob, SavedState};
use pvm_sched::queues::Queue;
use pvm_wire::Tid;
use pvm_wire::codec;
use pvm_wire::daemon::{Blob, HostEntry};
use pvm_wire::jobs::{JobRequest, Stamp};
use pvm_wire::turn_rules::TurnRule;
use std::time::Duration;

fn host(index: u32, name: &str) -> HostEntry {
    let index = HostIndex::new(index).expect("an index");
    Config { index, name: name.to_owned(), ..Config::for_tests() }.entry()
}

/// Jobs, of which one waits in a queue, and a machine of these hosts.
fn waiting(request: JobRequest, queue: Queue, hosts: &[HostEntry]) -> Jobs {
    let demand = Job::demand(&request);
    let mut job = Job::new(JobId(1), request, "default".into(), demand);
    job.submitted = 5;
    let bytes = Blob(codec::encode(&job).expect("a job can be encoded").into());
    let stamp = Stamp { machine: 7, run: 3, reign: 1 };
    let state = SavedState { stamp, is_closed: true, deputies: vec!["a".into()] };
    let jobs = vec![SavedJob { bytes, is_doubtful: false }];
    let saved = Saved { jobs, state: Some(state), replaces: None };
    let config = Config { name: "a".into(), saved, queues: vec![queue].into(), ..Config::for_tests() };
    let mut jobs = Jobs::new(&config, Duration::from_secs(1));
    for host in hosts {
        jobs.note_slots(host.index, 2);
        jobs.host_joined(host);
    }
    jobs
}

fn moment(now: u64, owners: &[u32]) -> Moment {
    let owners = owners.iter().filter_map(|&index| HostIndex::new(index)).collect();
    Moment { now, local_time: 0, loads: Vec::new(), owners }
}

/// What hosts are ordered: tasks to run, and (below 0 for the host) to stop.
fn orders(out: Effects) -> Vec<(i32, Vec<u32>)> {
    let order = |effect| match effect {
        Effect::Order(host, FromMaster::RunTasks(order)) => {
            let ranges = order.tasks.iter().flat_map(|&(first, count)| first..first + count);
            Some((host.get().cast_signed(), ranges.collect()))
        }
        Effect::Order(host, FromMaster::StopTasks { tasks, .. }) => Some((-host.get().cast_signed(), tasks)),
        _ => None,
    };
    out.into_iter().filter_map(order).collect()
}

/// The orders when the owner of the first host is back, after one of the tasks there has begun.
fn orders_for_owner(restarts: u32, tasks: Tasks) -> (Vec<(i32, Vec<u32>)>, Jobs) {
    let (first, second) = (host(1, "a"), host(2, "b"));
    let mut request = JobRequest::new("true", "ann", "/");
    (request.tasks, request.restarts) = (tasks, restarts);
    let mut jobs = waiting(request, Queue::open("default"), std::slice::from_ref(&first));
    jobs.advance(moment(9, &[]), &mut Effects::default());
    let began =
        TaskReport { job: JobId(1), task: 0, what: TaskEvent::Started { tid: Tid::from_raw(0x4_0001) } };
    jobs.reports.push((first.index, began));
    jobs.note_slots(second.index, 2);
    jobs.host_joined(&second);
    let mut out = Effects::default();
    jobs.advance(moment(10, &[1]), &mut out);
    (orders(out), jobs)
}

#[test]
fn a_host_whose_owner_is_back_gives_back_what_has_not_begun_or_may_begin_again() {
    let array = Tasks::Array { first: 0, count: 2, at_once: None };
    let (orders_of_others, mut jobs) = orders_for_owner(0, array);
    assert_eq!(orders_of_others, [(-1, vec![1])]);
    // They are not told twice, and go elsewhere when they have been given back.
    let returned = TaskReport { job: JobId(1), task: 1, what: TaskEvent::Returned };
    jobs.reports.push((host(1, "a").index, returned));
    let mut out = Effects::default();
    jobs.advance(moment(11, &[1]), &mut out);
    assert_eq!(orders(out), [(2, vec![1])]);
    assert_eq!(orders_for_owner(1, array).0, [(-1, vec![0, 1])]);
    assert_eq!(orders_for_owner(1, Tasks::Rigid(2)).0, [(-1, vec![0, 1])]);
}

/// The environment of tasks that hosts are ordered to run.
fn ordered(out: Effects) -> Vec<OsString> {
    let ordered = |effect| match effect {
        Effect::Order(_, FromMaster::RunTasks(order)) => Some(order.program.env),
        _ => None,
    };
    out.into_iter().find_map(ordered).expect("the job starts")
}

/// The environment of the tasks of a job whose queue has this policy, and that was submitted with another.
fn environment(policy: Option<Policy>) -> Vec<OsString> {
    let mut request = JobRequest::new("true", "ann", "/");
    request.program.env = vec!["A=b".into(), entry(POLICY_VARIABLE, "local")];
    let queue = Queue { policy, ..Queue::open("default") };
    let mut jobs = waiting(request, queue, &[host(1, "a")]);
    let mut out = Effects::default();
    jobs.advance(moment(9, &[]), &mut out);
    ordered(out)
}

#[test]
fn tasks_of_a_queue_that_has_a_policy_find_it_in_their_environment() {
    let with = |name| vec![OsString::from("A=b"), entry(POLICY_VARIABLE, name)];
    assert_eq!(environment(Some(Policy::Bidding)), with("bidding"));
    assert_eq!(environment(None), with("local"), "what the job was submitted with stays");
}

#[test]
fn a_job_takes_turns_as_its_queue_said_when_it_began() {
    let queue = |turns| Queue { turns, ..Queue::open("default") };
    let with = |rule: Option<TurnRule>| {
        let mut env = vec![OsString::from("A=b")];
        TurnRule::set_in(rule, &mut env);
        env
    };
    for rule in TurnRule::ALL.map(Some).into_iter().chain([None]) {
        // A task of another job has submitted it.
        let mut request = JobRequest::new("true", "ann", "/");
        request.program.env = with(Some(TurnRule::None));
        request.tasks = Tasks::Array { first: 0, count: 3, at_once: None };
        let mut jobs = waiting(request, queue(rule), &[host(1, "a")]);
        let mut out = Effects::default();
        jobs.advance(moment(9, &[]), &mut out);
        assert_eq!(ordered(out), with(rule));
        assert_eq!(jobs.scheduler.wants_rows(), rule == Some(TurnRule::Rows));
        // The queue says something else, and another host has the rest of the job.
        jobs.configure(Ok(vec![queue(Some(TurnRule::Demand))].into()), &mut Effects::default());
        jobs.note_slots(host(2, "b").index, 2);
        jobs.host_joined(&host(2, "b"));
        let mut out = Effects::default();
        jobs.advance(moment(10, &[]), &mut out);
        assert_eq!(ordered(out), with(rule), "the job has begun");
    }
}
