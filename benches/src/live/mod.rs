//! The same workload on daemons and in the simulator.
//!
//! What the simulator needs to know of the computer (what messages, starts and context switches cost) is measured first, each by
//! itself. Nothing is fitted to what is compared.

pub mod batch;
pub mod coallocation;
pub mod comparison;
pub mod cores;
pub mod jobs;
pub mod page;
pub mod policies;
pub mod pulling;
pub mod quotas;
pub mod record;
pub mod teams;
pub mod trace;

use crate::lab::Trial;
use anyhow::{Result, ensure};
use coallocation::Curves;
use comparison::Comparison;
use page::Shown;
use pvm_sim::report::Report;
use serde::Serialize;
use trace::Trace;

/// The word by which this is chosen.
pub const NAME: &str = "live";

/// Whether one of these words chooses it.
pub fn is_chosen(words: &[String]) -> bool {
    words.iter().any(|word| word.split('-').next() == Some(NAME))
}

/// All that was compared.
#[derive(Debug, Default, Serialize)]
pub struct Found {
    /// Values.
    pub comparisons: Vec<Comparison>,
    /// Jobs of workloads.
    pub traces: Vec<Trace>,
    /// Jobs over clusters.
    pub curves: Vec<Curves>,
}

impl Found {
    /// As it is printed, each with a sentence.
    pub fn reports(&self) -> Vec<(Report, String)> {
        let mut reports: Vec<_> = self.comparisons.iter().map(|of| (of.report(), of.apart())).collect();
        if !self.traces.is_empty() {
            reports.push((jobs::report(&self.traces), String::new()));
        }
        reports.extend(self.curves.iter().map(|curves| (curves.report(), String::new())));
        reports
    }

    /// As the page has it.
    pub fn shown(&self) -> Vec<Shown> {
        let traces = (!self.traces.is_empty()).then(|| jobs::shown(&self.traces));
        let curves = self.curves.iter().flat_map(Curves::shown);
        let together = policies::shown(&self.comparisons);
        self.comparisons.iter().map(Comparison::shown).chain(together).chain(traces).chain(curves).collect()
    }
}

/// Comparisons of values: the word by which each is chosen, and what measures it.
const COMPARISONS: [(&str, Compare); 4] = [
    (pulling::NAME, pulling::measure),
    (policies::NAME, policies::measure),
    (teams::NAME, teams::measure),
    (cores::NAME, cores::measure),
];

type Compare = fn(Trial) -> Result<Vec<Comparison>>;

/// Measures what the words choose.
pub fn measure(trial: Trial, words: &[String]) -> Result<Found> {
    let is_chosen = |name: &str| words.iter().any(|word| word == NAME || word == name);
    let mut all = Found::default();
    for (name, compare) in COMPARISONS {
        if is_chosen(name) {
            all.comparisons.extend(compare(trial)?);
        }
    }
    if is_chosen(jobs::NAME) {
        all.traces.extend(jobs::measure(trial)?);
    }
    if is_chosen(coallocation::NAME) {
        all.curves.extend(coallocation::measure(trial)?);
    }
    let names = COMPARISONS.map(|(name, _)| name).into_iter().chain([jobs::NAME, coallocation::NAME]);
    let names = names.collect::<Vec<_>>().join(", ");
    ensure!(
        !(all.comparisons.is_empty() && all.traces.is_empty() && all.curves.is_empty()),
        "nothing of {NAME} was measured; there are {names}"
    );
    Ok(all)
}
