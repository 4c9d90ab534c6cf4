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

use crate::lab::Programs;
use crate::part::Session;
use anyhow::{Result, ensure};
use coallocation::Curves;
use comparison::Comparison;
use page::Shown;
use pvm_sim::report::Report;
use pvm_tests::Installation;
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

/// Measures what the words choose.
pub fn measure(
    ours: &Installation,
    programs: Programs,
    words: &[String],
    (rounds, quick): (usize, bool),
    session: &Session,
) -> Result<Found> {
    let is_chosen = |name: &str| words.iter().any(|word| word == NAME || word == name);
    let mut all = Found::default();
    if is_chosen(pulling::NAME) {
        all.comparisons.extend(pulling::measure(ours, programs, (rounds, quick), session)?);
    }
    if is_chosen(policies::NAME) {
        all.comparisons.extend(policies::measure(ours, programs, (rounds, quick), session)?);
    }
    if is_chosen(teams::NAME) {
        all.comparisons.extend(teams::measure(ours, (rounds, quick), session)?);
    }
    if is_chosen(cores::NAME) {
        all.comparisons.extend(cores::measure(ours, (rounds, quick), session)?);
    }
    if is_chosen(jobs::NAME) {
        all.traces.extend(jobs::measure(ours, programs, (rounds, quick), session)?);
    }
    if is_chosen(coallocation::NAME) {
        all.curves.extend(coallocation::measure(ours, programs, (rounds, quick), session)?);
    }
    let names =
        [pulling::NAME, policies::NAME, teams::NAME, cores::NAME, jobs::NAME, coallocation::NAME].join(", ");
    ensure!(
        !(all.comparisons.is_empty() && all.traces.is_empty() && all.curves.is_empty()),
        "nothing of {NAME} was measured; there are {names}"
    );
    Ok(all)
}
