//! `pvm sim batch`: queues, admission control and fair share, with first come first served and EASY to compare with.

pub mod model;

use super::dedicated::{Failures, Source};
use super::{Runs, cell, series, text};
use crate::report::{Plot, Report, Table};
use crate::settings;
use crate::workload::{Job, Lublin, TraceError};
use model::{Outcome, Policy, Setting, simulate};
use std::path::Path;

/// The settings.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Jobs per simulation
    #[arg(long, default_value_t = 20_000)]
    pub jobs: usize,
    /// Nodes
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub nodes: u32,
    /// Users; the k-th submits in proportion to 1/k
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub users: u32,
    /// Loads to try, as parts of the nodes' capacity
    #[arg(long, value_delimiter = ',', default_values_t = [0.5, 0.6, 0.7, 0.8, 0.9], value_parser = settings::positive)]
    pub load: Vec<f64>,
    /// Only these policies: fcfs, easy, queues, fair-share
    #[arg(long, value_delimiter = ',', value_parser = policy)]
    pub policies: Vec<Policy>,
    /// Jobs of one user that may wait in a queue
    #[arg(long, default_value_t = 200)]
    pub per_user: usize,
    /// How nodes fail.
    #[command(flatten)]
    pub failures: Failures,
    /// Where jobs come from.
    #[command(flatten)]
    pub source: Source,
}

fn policy(name: &str) -> Result<Policy, String> {
    let found =
        Policy::ALL.into_iter().find(|policy| policy.name().replace(' ', "-").eq_ignore_ascii_case(name));
    found.ok_or_else(|| "unknown policy; choose one of fcfs, easy, queues, fair-share".to_owned())
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// There is nothing to run.
    #[error("the workload has no jobs that the machine could run")]
    Empty,
    /// No job gets to its end.
    #[error("nodes fail so often that no job ends: --mtbf is too short for these jobs")]
    Stuck,
}

/// A simulation.
#[derive(Clone, Debug)]
struct Case {
    load: f64,
    setting: Setting,
    model: Option<Lublin>,
}

/// Runs the experiment.
pub fn run(settings: &Settings, runs: &Runs) -> Result<Report, Error> {
    let notes =
        settings.source.trace.iter().map(|path| check(path, settings)).collect::<Result<Vec<_>, _>>()?;
    let cases = cases(settings);
    let outcomes = runs.all(&cases, |case, seed| {
        let model = case.model.clone().map(|model| model.seeded(seed).take(settings.jobs));
        let jobs = model.into_iter().flatten().chain(traced(settings));
        simulate(&case.setting, seed, jobs)
    });
    if outcomes.iter().flatten().any(|outcome| outcome.stuck) {
        return Err(Error::Stuck);
    } else if outcomes.iter().flatten().all(|outcome| outcome.ended == 0) {
        return Err(Error::Empty);
    }
    Ok(Report { notes: notes.into_iter().flatten().collect(), ..report(&cases, &outcomes) })
}

/// Reads a trace once, so that errors are reported before the simulation; returns a note on skipped lines.
fn check(path: &Path, settings: &Settings) -> Result<Option<String>, Error> {
    let fail = |source| TraceError { path: path.to_owned(), source };
    let mut reader = settings.source.open(path)?;
    reader.by_ref().take(settings.jobs).try_for_each(|job| job.map(drop)).map_err(fail)?;
    Ok(reader.note(path))
}

/// A trace's jobs as they are read: the trace is never in memory.
fn traced(settings: &Settings) -> impl Iterator<Item = Job> + use<> {
    let reader = settings.source.trace.as_ref().and_then(|path| settings.source.open(path).ok());
    reader.into_iter().flatten().take(settings.jobs).map_while(Result::ok)
}

fn cases(settings: &Settings) -> Vec<Case> {
    let policies =
        if settings.policies.is_empty() { Policy::ALL.to_vec() } else { settings.policies.clone() };
    let (mtbf, repair) = settings.failures.seconds();
    let models: Vec<(f64, Option<Lublin>)> = if settings.source.trace.is_some() {
        vec![(0.0, None)]
    } else {
        let model = Lublin::new(settings.jobs as u64, settings.nodes, settings.users as usize);
        let with = |&load: &f64| (load, Some(model.clone().offering(load, settings.nodes.into())));
        settings.load.iter().map(with).collect()
    };
    let mut cases = Vec::new();
    for policy in policies {
        let setting = Setting { policy, nodes: settings.nodes, mtbf, repair, per_user: settings.per_user };
        cases.extend(models.iter().map(|(load, model)| Case { load: *load, setting, model: model.clone() }));
    }
    cases
}

fn report(cases: &[Case], outcomes: &[Vec<Outcome>]) -> Report {
    let mut table = Table::new(
        "batch",
        "Batch scheduling",
        &[
            "policy",
            "load",
            "utilisation %",
            "wait h",
            "slowdown",
            "bounded",
            "light users",
            "fairness",
            "refused",
            "restarts",
            "most active",
        ],
    );
    for (case, outcomes) in cases.iter().zip(outcomes) {
        table.row([
            text(&case.setting.policy.name()),
            text(&if case.model.is_some() { case.load.to_string() } else { "trace".to_owned() }),
            cell(outcomes, |o| o.utilisation * 100.0),
            cell(outcomes, |o| o.wait / 3600.0),
            cell(outcomes, |o| o.slowdown),
            cell(outcomes, |o| o.bounded),
            cell(outcomes, |o| o.light),
            cell(outcomes, |o| o.fairness),
            cell(outcomes, |o| o.refused as f64),
            cell(outcomes, |o| o.restarts as f64),
            cell(outcomes, |o| o.active as f64),
        ]);
    }
    let plot = |name: &str, title: &str, y: &str, log_y: bool, measure: fn(&Outcome) -> f64| {
        let curve = |policy: &Policy| {
            let place = |case: &Case| (case.setting.policy == *policy).then_some(case.load);
            series(policy.name(), cases, outcomes, place, measure)
        };
        let curves = Policy::ALL.iter().map(curve).filter(|curve| !curve.points.is_empty()).collect();
        Plot { log_y, ..Plot::new(name, title, ("load (part of what the nodes can do)", y), curves) }
    };
    let plots = vec![
        plot("batch-slowdown", "Bounded slowdown", "(wait + run) / run, runs of at least 10 s", true, |o| {
            o.bounded
        }),
        plot("batch-wait", "Waiting time", "mean wait (h)", true, |o| (o.wait / 3600.0).max(1e-3)),
        plot(
            "batch-light",
            "Bounded slowdown of light users",
            "bounded slowdown of the half that submits least",
            true,
            |o| o.light,
        ),
        plot("batch-fairness", "Fairness between users", "Jain's index of mean slowdowns", false, |o| {
            o.fairness
        }),
    ];
    Report { tables: vec![table], plots, ..Report::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn settings() -> Settings {
        let words = "--jobs 200 --nodes 64 --users 5 --load 0.5,0.8 --per-user 100 --mtbf 100";
        settings::parse(words.split(' ')).expect("arguments")
    }

    #[test]
    fn a_report() {
        let report = run(&settings(), &Runs::quiet(1, 2)).expect("no trace");
        assert_eq!(report.tables[0].rows.len(), 8);
        assert!(report.plots.iter().all(|plot| plot.svg().is_ok()));
    }

    #[test]
    fn a_trace() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.swf");
        std::fs::write(&path, "1 0 0 100 8 0 0 8 200 0 1 3\n2 1 0 50 80 0 0 8 200 0 1 3\n").expect("written");
        let with = |path: PathBuf| Settings {
            source: Source { trace: Some(path), lenient: false },
            policies: vec![Policy::Easy],
            ..settings()
        };
        let report = run(&with(path.clone()), &Runs::quiet(1, 1)).expect("a report");
        assert_eq!(report.tables[0].rows[0][..2], ["EASY", "trace"]);
        assert_eq!(report.tables[0].rows[0][8], "1.000", "one job is wider than the machine");
        let error = run(&with(folder.path().join("none")), &Runs::quiet(1, 1)).expect_err("no file");
        assert!(error.to_string().contains("none") && !error.to_string().contains("--lenient"));
        std::fs::write(&path, "1 0 0 hundred").expect("written");
        let error = run(&with(path), &Runs::quiet(1, 1)).expect_err("no number");
        assert!(error.to_string().contains("line 1: field 4 (run time) is \"hundred\""));
        assert!(error.to_string().contains("--lenient"));
    }

    #[test]
    fn nothing_to_run_and_nothing_that_ends() {
        let none = run(&Settings { jobs: 0, ..settings() }, &Runs::quiet(1, 1));
        assert!(matches!(none, Err(Error::Empty)));
        let failures = Failures { mtbf: 1e-3, repair: 4.0 };
        let often = run(&Settings { failures, jobs: 20, load: vec![0.5], ..settings() }, &Runs::quiet(1, 1));
        assert!(matches!(often, Err(Error::Stuck)));
    }

    #[test]
    fn skipped_lines_are_noted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.swf");
        std::fs::write(&path, "1 0 0 100 8 0 0 8 200 0 1 3\n2 1 0 50\n").expect("written");
        let source = Source { trace: Some(path), lenient: true };
        let settings = Settings { source, ..settings() };
        let report = run(&settings, &Runs::quiet(1, 1)).expect("a report");
        assert!(report.notes[0].ends_with("t.swf: 1 line with errors was passed over"), "{:?}", report.notes);
    }

    #[test]
    fn policies_by_name() {
        assert_eq!(policy("fair-share"), Ok(Policy::FairShare));
        assert_eq!(policy("EASY"), Ok(Policy::Easy));
        assert!(policy("best").is_err());
    }
}
