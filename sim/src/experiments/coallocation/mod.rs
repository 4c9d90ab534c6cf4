//! `pvm sim coallocation`: figures 3 to 6 of the multi-cluster co-allocation paper.

pub mod model;

use super::dedicated::{Failures, Source};
use super::{Runs, cell, series, text};
use crate::report::{Mark, Plot, Report, Series, Table};
use crate::settings;
use crate::workload::{Job, Lublin, TraceError};
use model::{Cluster, Outcome, Setting, simulate};
use pvm_sched::coallocation::Strategy;
use std::path::Path;

/// The settings.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Jobs per simulation
    #[arg(long, default_value_t = 20_000)]
    pub jobs: usize,
    /// The clusters: nodes:factor, separated by commas
    #[arg(long, value_delimiter = ',', default_values = ["360:1", "128:2", "64:4"], value_parser = cluster)]
    pub clusters: Vec<(u32, f64)>,
    /// Bandwidth of each cluster's link, Mbit/s
    #[arg(long, default_value_t = 1000.0, value_parser = settings::positive)]
    pub link: f64,
    /// Mean width of the jobs
    #[arg(long, default_value_t = 40.0, value_parser = settings::positive)]
    pub width: f64,
    /// Bandwidths between two nodes to try, Mbit/s
    #[arg(long, value_delimiter = ',', default_values_t = [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 80.0, 120.0, 160.0, 200.0], value_parser = settings::positive)]
    pub bwbn: Vec<f64>,
    /// Communication time of a job that spans clusters on free links, as a part of its run time; not in the paper; this value puts the crossings with Idea where the paper has them
    #[arg(long, default_value_t = 0.7, value_parser = settings::not_negative)]
    pub communication: f64,
    /// Load of the jobs, as a part of the clusters' capacity
    #[arg(long, default_value_t = 1.5, value_parser = settings::positive)]
    pub load: f64,
    /// How nodes fail.
    #[command(flatten)]
    pub failures: Failures,
    /// Where jobs come from.
    #[command(flatten)]
    pub source: Source,
}

fn cluster(text: &str) -> Result<(u32, f64), String> {
    let parsed = text.split_once(':').and_then(|(nodes, h)| Some((nodes.parse().ok()?, h.parse().ok()?)));
    let (nodes, h): (u32, f64) = parsed.ok_or("it must be nodes:factor, such as 128:2")?;
    if nodes == 0 || !h.is_finite() || h <= 0.0 {
        Err("both must be more than 0".into())
    } else {
        Ok((nodes, h))
    }
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine cannot be.
    #[error(transparent)]
    Model(#[from] model::Error),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// There is nothing to run.
    #[error("the workload has no jobs that the clusters could run")]
    Empty,
    /// No job gets to its end.
    #[error("nodes fail so often that no job ends: --mtbf is too short for these jobs")]
    Stuck,
}

/// A simulation of one of the figures.
#[derive(Clone, Debug)]
struct Case {
    figure: Figure,
    width: f64,
    setting: Setting,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Figure {
    /// Figures 3 and 4: over BWBN.
    Bandwidth,
    /// Figure 5: over the variance of h.
    Variance(f64),
    /// Figure 6: over BWBN with wider jobs.
    Width,
}

/// By how much the jobs of figure 6 are wider.
const WIDER: f64 = 10.0;

/// The four that the paper proposes.
const HEURISTICS: [Strategy; 4] = [Strategy::Bfnp, Strategy::Shfnp, Strategy::Shfp, Strategy::Sncp];

/// Runs the experiment.
pub fn run(settings: &Settings, runs: &Runs) -> Result<Report, Error> {
    let trace = settings.source.trace.as_ref().map(|path| load(path, settings)).transpose()?;
    let (trace, note) = trace.map_or((None, None), |(jobs, note)| (Some(jobs), note));
    let cases = cases(settings);
    let models =
        [settings.width, settings.width + WIDER].map(|width| (width, workload_model(settings, width)));
    let outcomes = runs.all(&cases, |case, seed| {
        let traced = trace.as_ref().map(|jobs| widened(jobs, case.width, limit(settings)));
        let model = models.iter().find(|model| trace.is_none() && model.0.to_bits() == case.width.to_bits());
        let generated = model.map(|model| model.1.clone().seeded(seed).take(settings.jobs));
        let jobs = traced.into_iter().flatten().chain(generated.into_iter().flatten());
        simulate(&case.setting, seed, jobs)
    });
    let outcomes =
        outcomes.into_iter().map(|runs| runs.into_iter().collect()).collect::<Result<Vec<Vec<_>>, _>>()?;
    if outcomes.iter().flatten().any(|outcome| outcome.stuck) {
        return Err(Error::Stuck);
    } else if outcomes.iter().flatten().all(|outcome| outcome.jobs == 0) {
        return Err(Error::Empty);
    }
    let notes = note.into_iter().chain(too_wide(settings)).collect();
    Ok(Report { notes, ..report(&cases, &outcomes) })
}

/// No job is wider than the largest cluster, so that every strategy can run it.
fn limit(settings: &Settings) -> u32 {
    settings.clusters.iter().map(|cluster| cluster.0).max().unwrap_or(1)
}

/// Settings that cannot be met.
fn too_wide(settings: &Settings) -> Option<String> {
    let (limit, wanted) = (limit(settings), settings.width + WIDER);
    (wanted > f64::from(limit)).then(|| {
        format!(
            "no job is wider than the largest cluster ({limit}): a mean width of {wanted} is out of reach"
        )
    })
}

/// Jobs after the model, for a machine as large as the largest cluster.
fn workload_model(settings: &Settings, width: f64) -> Lublin {
    let capacity = settings.clusters.iter().map(|&(nodes, h)| f64::from(nodes) / h).sum();
    // The load is that of the default width; wider jobs come as often, and so ask for more.
    let base = Lublin::new(settings.jobs as u64, limit(settings), 1).widened(settings.width, limit(settings));
    let jobs = base.offering(settings.load, capacity);
    if width.to_bits() == settings.width.to_bits() { jobs } else { jobs.widened(width, limit(settings)) }
}

/// A trace's jobs, and a note on it.
fn load(path: &Path, settings: &Settings) -> Result<(Vec<Job>, Option<String>), Error> {
    let fail = |source| TraceError { path: path.to_owned(), source };
    let mut reader = settings.source.open(path)?;
    let jobs = reader.by_ref().take(settings.jobs).collect::<Result<_, _>>().map_err(fail)?;
    Ok((jobs, reader.note(path)))
}

/// A trace's jobs with widths multiplied so that their mean is as wanted.
fn widened(jobs: &[Job], width: f64, limit: u32) -> Vec<Job> {
    let mean = jobs.iter().map(|job| f64::from(job.width)).sum::<f64>() / jobs.len().max(1) as f64;
    let widen = |job: &Job| {
        let wide = libm::round(f64::from(job.width) * width / mean.max(1.0));
        Job { width: (wide as u32).clamp(1, limit), ..*job }
    };
    let mut jobs: Vec<Job> = jobs.iter().map(widen).collect();
    jobs.sort_by(|a, b| a.submit.total_cmp(&b.submit));
    jobs
}

fn cases(settings: &Settings) -> Vec<Case> {
    let clusters = |factors: &dyn Fn(usize, f64) -> f64| -> Vec<Cluster> {
        let each = settings.clusters.iter().enumerate();
        each.map(|(at, &(nodes, h))| Cluster { nodes, factor: factors(at, h), bandwidth: settings.link })
            .collect()
    };
    let (mtbf, repair) = settings.failures.seconds();
    let communication = settings.communication;
    let case = |figure, strategy, bwbn, width, clusters| Case {
        figure,
        width,
        setting: Setting { clusters, strategy, bwbn, communication, mtbf, repair },
    };
    let mut cases = Vec::new();
    for strategy in Strategy::ALL {
        // Where nothing crosses a link, or for nothing, one bandwidth is as good as another.
        let flat = !strategy.spans() || !strategy.has_network();
        let points = if flat { &settings.bwbn[..settings.bwbn.len().min(1)] } else { &settings.bwbn[..] };
        for &bwbn in points {
            cases.push(case(Figure::Bandwidth, strategy, bwbn, settings.width, clusters(&|_, h| h)));
        }
    }
    for strategy in HEURISTICS {
        for bwbn in [20.0, 50.0] {
            for variance in [0.0, 50.0, 100.0, 150.0, 200.0, 250.0] {
                // Equal steps from 1 on have this variance over three clusters.
                let step = libm::sqrt(1.5 * variance);
                let clusters = clusters(&|at, _| 1.0 + step * at as f64);
                cases.push(case(Figure::Variance(variance), strategy, bwbn, settings.width, clusters));
            }
        }
    }
    for &bwbn in &settings.bwbn {
        cases.push(case(Figure::Width, Strategy::Bfnp, bwbn, settings.width + WIDER, clusters(&|_, h| h)));
    }
    cases
}

fn report(cases: &[Case], outcomes: &[Vec<Outcome>]) -> Report {
    let mut table = Table::new(
        "coallocation",
        "Co-allocation over clusters",
        &[
            "figure",
            "strategy",
            "BWBN Mbit/s",
            "width",
            "var h",
            "makespan h",
            "utilisation %",
            "wait h",
            "slowdown",
            "spanning %",
            "restarts",
        ],
    );
    for (case, outcomes) in cases.iter().zip(outcomes) {
        let (figure, variance) = match case.figure {
            Figure::Bandwidth => ("3, 4", "-".to_owned()),
            Figure::Variance(variance) => ("5", variance.to_string()),
            Figure::Width => ("6", "-".to_owned()),
        };
        table.row([
            text(&figure),
            text(&case.setting.strategy),
            text(&case.setting.bwbn),
            text(&case.width),
            text(&variance),
            cell(outcomes, |o| o.makespan / 3600.0),
            cell(outcomes, |o| o.utilisation * 100.0),
            cell(outcomes, |o| o.wait / 3600.0),
            cell(outcomes, |o| o.slowdown),
            cell(outcomes, |o| o.spanning * 100.0),
            cell(outcomes, |o| o.restarts as f64),
        ]);
    }
    let hours = |o: &Outcome| o.makespan / 3600.0;
    let all = over_bandwidth(cases, outcomes, &Strategy::ALL, hours);
    let close = over_bandwidth(cases, outcomes, &Strategy::ALL[..6], hours);
    let used = over_bandwidth(cases, outcomes, &Strategy::ALL, |o: &Outcome| o.utilisation * 100.0);
    let plot = |name: &str, title: &str, y: &str, series| {
        Plot::new(name, title, ("bandwidth between two nodes, BWBN (Mbit/s)", y), series)
    };
    let mark = |label: &str, y| Mark { label: label.to_owned(), x: 100.0, y };
    let mut figure4 = plot("coallocation-figure4", "Utilisation (figure 4)", "mean utilisation (%)", used);
    figure4.marks = vec![
        mark("paper: No-Share 53.26", 53.26),
        mark("paper: SCCA 83.42", 83.42),
        mark("paper: the four > 97", 97.0),
    ];
    let mut plots = vec![
        plot("coallocation-figure3a", "Makespan (figure 3a)", "makespan (h)", all),
        plot("coallocation-figure3b", "Makespan without No-Share (figure 3b)", "makespan (h)", close),
        figure4,
    ];
    for (part, bwbn) in [("a", 20.0), ("b", 50.0)] {
        let curves = HEURISTICS.map(|strategy| over_variance(cases, outcomes, strategy, bwbn)).into();
        let name = format!("coallocation-figure5{part}");
        let title = format!("Makespan over heterogeneity, BWBN {bwbn} Mbit/s (figure 5{part})");
        plots.push(Plot {
            x: "variance of the heterogeneity factors".to_owned(),
            ..plot(&name, &title, "makespan (h)", curves)
        });
    }
    let wide = |case: &Case| (case.figure == Figure::Width).then_some(case.setting.bwbn);
    let mut curves = over_bandwidth(cases, outcomes, &[Strategy::Bfnp], hours);
    curves.push(series("BFNP, jobs wider by 10", cases, outcomes, wide, hours));
    plots.push(plot("coallocation-figure6", "Makespan of wider jobs (figure 6)", "makespan (h)", curves));
    Report { tables: vec![table], plots, ..Report::default() }
}

/// A curve per strategy; one that does not depend on the bandwidth is drawn all along the axis.
fn over_bandwidth(
    cases: &[Case],
    outcomes: &[Vec<Outcome>],
    strategies: &[Strategy],
    measure: impl Fn(&Outcome) -> f64,
) -> Vec<Series> {
    let end = cases.iter().map(|case| case.setting.bwbn).fold(0.0, f64::max);
    let curve = |&strategy: &Strategy| {
        let place = |case: &Case| {
            (case.figure == Figure::Bandwidth && case.setting.strategy == strategy)
                .then_some(case.setting.bwbn)
        };
        let mut curve = series(strategy.name(), cases, outcomes, place, &measure);
        if let &[only] = curve.points.as_slice() {
            curve.points.push(crate::report::Point { x: end, ..only });
        }
        curve
    };
    strategies.iter().map(curve).collect()
}

fn over_variance(cases: &[Case], outcomes: &[Vec<Outcome>], strategy: Strategy, bwbn: f64) -> Series {
    let place = |case: &Case| match case.figure {
        Figure::Variance(variance)
            if case.setting.strategy == strategy && (case.setting.bwbn - bwbn).abs() < 1e-9 =>
        {
            Some(variance)
        }
        _ => None,
    };
    series(strategy.name(), cases, outcomes, place, |o| o.makespan / 3600.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(args: &[&str]) -> Settings {
        settings::parse(args).expect("arguments")
    }

    #[test]
    fn all_figures_and_the_same_bytes_again() {
        let settings = settings(&["--jobs", "60", "--bwbn", "1,200"]);
        let folder = tempfile::tempdir().expect("a folder");
        let bytes = |name: &str| {
            let report = run(&settings, &Runs::quiet(1, 2)).expect("a report");
            let files = report.write(&folder.path().join(name)).expect("written");
            files.iter().map(|file| std::fs::read(file).expect("there")).collect::<Vec<_>>()
        };
        let first = bytes("a");
        assert_eq!(first.len(), 7);
        assert!(first == bytes("b"), "the same seed gives the same bytes");
    }

    #[test]
    fn impossible_widths_are_noted() {
        let notes = |args: &[&str]| {
            let settings = settings(&[&["--jobs", "20", "--bwbn", "1"], args].concat());
            run(&settings, &Runs::quiet(1, 1)).expect("a report").notes.join("; ")
        };
        assert_eq!(notes(&[]), "");
        assert!(notes(&["--width", "5000"]).contains("(360): a mean width of 5010 is out of reach"));
        assert!(notes(&["--clusters", "1:1,1:2"]).contains("(1): a mean width of 50 "));
    }

    #[test]
    fn the_order_is_the_papers() {
        let settings = settings(&["--jobs", "3000", "--bwbn", "100"]);
        let report = run(&settings, &Runs::quiet(1, 3)).expect("a report");
        let of = |plot: usize, strategy: Strategy| {
            let curves = &report.plots[plot].series;
            curves.iter().find(|curve| curve.name == strategy.name()).expect("a curve").points[0].y
        };
        let (makespan, utilisation) = (|strategy| of(0, strategy), |strategy| of(2, strategy));
        for strategy in [Strategy::Shfnp, Strategy::Shfp, Strategy::Sncp, Strategy::Idea] {
            assert!(makespan(Strategy::Bfnp) < makespan(strategy), "{strategy}");
        }
        assert!(utilisation(Strategy::NoShare) < utilisation(Strategy::Scca));
        for strategy in HEURISTICS {
            assert!(utilisation(Strategy::Scca) < utilisation(strategy), "{strategy}");
        }
    }

    #[test]
    fn wider_jobs_ask_for_more() {
        let settings = settings(&[]);
        let work = |width| {
            let jobs = workload_model(&settings, width).seeded(1).take(20_000);
            jobs.map(|job| job.run * f64::from(job.width)).sum::<f64>()
        };
        let ratio = work(settings.width + WIDER) / work(settings.width);
        assert!((1.1..1.4).contains(&ratio), "{ratio}");
    }

    #[test]
    fn traces_and_what_is_wrong_with_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.swf");
        std::fs::write(&path, "1 0 0 100 8 0 0 8 200 0 1 3\n2 x\n3 9 0 100 8 0 0 8 200 0 1 3\n")
            .expect("written");
        let name = path.to_str().expect("text");
        let error = run(&settings(&["--trace", name]), &Runs::quiet(1, 1)).expect_err("line 2");
        assert!(error.to_string().contains("line 2: field 2 (submit time) is \"x\""), "{error}");
        assert!(run(&settings(&["--trace", name, "--lenient"]), &Runs::quiet(1, 1)).is_ok());
        std::fs::write(&path, "").expect("written");
        assert!(matches!(run(&settings(&["--trace", name]), &Runs::quiet(1, 1)), Err(Error::Empty)));
    }

    #[test]
    fn nodes_that_fail_too_often() {
        let often = settings(&["--jobs", "20", "--bwbn", "10", "--mtbf", "0.001"]);
        assert!(matches!(run(&often, &Runs::quiet(1, 1)), Err(Error::Stuck)));
    }

    #[test]
    fn clusters_are_checked() {
        for wrong in ["8", "0:1", "8:0", "8:-1", "8:nan", "x:1"] {
            assert!(settings::parse::<Settings>(["--clusters", wrong]).is_err(), "{wrong}");
        }
        assert_eq!(settings(&["--clusters", "8:1,4:2.5"]).clusters, [(8, 1.0), (4, 2.5)]);
    }
}
