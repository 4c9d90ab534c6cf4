//! When parallel jobs end by the model of co-allocation, and what their runs teach for the next ones of the same program: how long it
//! runs, and what its tasks send each other.
//!
//! `T_0` is the run time in the fastest cluster, `T_C` what is added when a job spans clusters whose links are free. A job's own figure
//! takes precedence, then the mean of earlier runs of its program with as many tasks, then its time limit.

use super::Jobs;
use super::job::{Job, Run};
use pvm_sched::queues::Spread;
use pvm_wire::HostIndex;
use pvm_wire::jobs::{ClusterShare, JobId, JobSent, JobState, RunRecord, Tasks};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;

/// Programs whose run times are known, at most.
const PROGRAMS_MAX: usize = 10_000;
/// The mean is that of about this number of last runs.
const RUNS: u32 = 8;

/// What a run has taught, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Measured {
    /// `T_0`.
    run: Option<u64>,
    /// `T_C`.
    communication: Option<u64>,
    /// Bits per second between two tasks, of a run over several clusters.
    bandwidth: Option<u64>,
}

/// A mean of the last values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Mean {
    value: f64,
    count: u32,
}

impl Mean {
    fn add(&mut self, value: u64) {
        self.count = (self.count + 1).min(RUNS);
        self.value += (value as f64 - self.value) / f64::from(self.count);
    }

    fn get(&self) -> Option<u64> {
        (self.count > 0).then_some(self.value.round() as u64)
    }
}

/// A program, and with how many tasks it runs.
type Program = (OsString, u32);

/// What is known of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct RunTime {
    run: Mean,
    communication: Mean,
    bandwidth: Mean,
    /// When something was learnt last, counted in lessons.
    last: u64,
}

/// What is known of programs.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct RunTimes {
    known: BTreeMap<Program, RunTime>,
    lessons: u64,
}

impl RunTimes {
    fn learn(&mut self, program: Program, measured: Measured) {
        if measured == Measured::default() {
            return;
        }
        if self.known.len() >= PROGRAMS_MAX && !self.known.contains_key(&program) {
            let oldest =
                self.known.iter().min_by_key(|(_, time)| time.last).map(|(program, _)| program.clone());
            self.known.remove(&oldest.unwrap_or_default());
        }
        self.lessons += 1;
        let time = self.known.entry(program).or_default();
        time.last = self.lessons;
        measured.run.into_iter().for_each(|run| time.run.add(run));
        measured.communication.into_iter().for_each(|communication| time.communication.add(communication));
        measured.bandwidth.into_iter().for_each(|bandwidth| time.bandwidth.add(bandwidth));
    }

    /// Bits per second between two tasks, as earlier runs had them.
    fn bandwidth(&self, job: &Job) -> Option<u64> {
        self.known.get(&program(job))?.bandwidth.get()
    }

    /// `T_0` and `T_C`, as far as they are known.
    fn of(&self, job: &Job) -> (Option<u64>, Option<u64>) {
        let known = self.known.get(&program(job)).copied().unwrap_or_default();
        let own = job.request.expectation;
        (own.run.or(known.run.get()), own.communication.or(known.communication.get()))
    }

    /// What a run has taught that has lasted this long, in milliseconds.
    fn measure(&self, job: &Job, spread: &Spread, lasted: u64, now: u64) -> Measured {
        let (run, _) = self.of(job);
        let bandwidth = spread.measured(now);
        let Some(run) = run.filter(|_| spread.spans()) else {
            let run = Some((lasted as f64 / spread.factor).round() as u64);
            return Measured { run, communication: None, bandwidth };
        };
        // What is beyond the execution time was communication, on links that were as free as their mean flex factor says.
        let beyond = (lasted as f64 - run as f64 * spread.factor).max(0.0);
        let communication = Some((beyond * spread.mean_flex(now)).round() as u64);
        Measured { run: None, communication, bandwidth }
    }
}

fn program(job: &Job) -> Program {
    (job.request.program.file.clone(), job.request.tasks.count())
}

impl Jobs {
    /// A job has started: when it ends by the model, if its run time is known.
    pub(super) fn begin_run(&mut self, id: JobId) {
        let Some(job) = self.all.get_mut(&id) else { return };
        let Some(spread) = self.scheduler.spread(id.0) else { return };
        let shares = spread.shares.iter();
        let shares =
            shares.map(|(cluster, &tasks)| ClusterShare { cluster: cluster.clone(), tasks }).collect();
        job.run = Run { shares, ..Run::default() };
        let (run, communication) = self.run_times.of(job);
        // A limit is the only word on how long it may take.
        if let Some(run) = run.or(job.request.program.time) {
            self.scheduler.expect_run(id.0, run, communication.unwrap_or(0));
        }
        if let Some(bandwidth) = self.run_times.bandwidth(job) {
            self.scheduler.expect_bandwidth(id.0, bandwidth, self.now);
        }
    }

    /// Tasks of jobs on a host say what they have sent to others.
    pub fn note_sent(&mut self, host: HostIndex, sent: Vec<JobSent>) {
        for JobSent { job, to, bytes } in sent {
            self.scheduler.note_sent(job.0, (host, to), bytes);
        }
    }

    /// The last task of a job has ended, and the scheduler is to hear of it.
    pub(super) fn conclude_run(&mut self, id: JobId) {
        let predicted = self.all.get(&id).and_then(|job| self.predicted(job));
        let (Some(spread), Some(job)) = (self.scheduler.spread(id.0), self.all.get_mut(&id)) else { return };
        job.run.predicted = predicted;
        if job.state() == JobState::Done {
            let lasted = self.now.saturating_sub(spread.started);
            job.run.measured = self.run_times.measure(job, spread, lasted, self.now);
            self.run_times.learn(program(job), job.run.measured);
        }
    }

    /// When a job that runs ends: by the model, or at the latest by its limit.
    fn predicted(&self, job: &Job) -> Option<u64> {
        let spread = self.scheduler.spread(job.id.0)?;
        let limit = job.demand.time.map_or(u64::MAX, |time| spread.started.saturating_add(time));
        spread.end().map(|end| end.min(limit))
    }

    /// A job's run, as it is listed.
    pub(super) fn run_record(&self, job: &Job) -> RunRecord {
        if !matches!(job.request.tasks, Tasks::Rigid(_)) {
            return RunRecord::default();
        }
        let Run { shares, predicted, .. } = &job.run;
        let predicted = self.predicted(job).or(*predicted);
        let spread = self.scheduler.spread(job.id.0);
        let measured = spread.map_or(job.run.measured.bandwidth, |spread| spread.measured(self.now));
        let bandwidth = spread.map_or(job.demand.bandwidth, |spread| spread.bandwidth);
        RunRecord { clusters: shares.clone(), predicted, bandwidth, measured }
    }

    /// What the jobs that are on disk have taught.
    pub(super) fn recall_run_times(&mut self) {
        for job in self.ended.iter().filter_map(|id| self.all.get(id)) {
            self.run_times.learn(program(job), job.run.measured);
        }
    }
}

#[cfg(test)]
#[path = "forecast_tests.rs"]
mod tests;
