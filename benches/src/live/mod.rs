//! The same workload on daemons and in the simulator.
//!
//! What the simulator needs to know of the computer (what messages, starts and context switches cost) is measured first, each by
//! itself. Nothing is fitted to what is compared.

pub mod batch;
pub mod comparison;
pub mod page;
pub mod pulling;
pub mod record;
pub mod teams;

use crate::lab::Programs;
use crate::part::Session;
use anyhow::{Result, ensure};
use comparison::Comparison;
use pvm_tests::Installation;

/// The word by which this is chosen.
pub const NAME: &str = "live";

/// Whether one of these words chooses it.
pub fn is_chosen(words: &[String]) -> bool {
    words.iter().any(|word| word.split('-').next() == Some(NAME))
}

/// Measures what the words choose. `None` if it was interrupted.
pub fn measure(
    ours: &Installation,
    programs: Programs,
    words: &[String],
    (rounds, quick): (usize, bool),
    session: &Session,
) -> Result<Option<Vec<Comparison>>> {
    let is_chosen = |name: &str| words.iter().any(|word| word == NAME || word == name);
    let mut comparisons = Vec::new();
    if is_chosen(pulling::NAME) {
        let Some(found) = pulling::measure(ours, programs, (rounds, quick), session)? else {
            return Ok(None);
        };
        comparisons.extend(found);
    }
    if is_chosen(teams::NAME) {
        let Some(found) = teams::measure(ours, (rounds, quick), session)? else { return Ok(None) };
        comparisons.extend(found);
    }
    ensure!(!comparisons.is_empty(), "nothing of {NAME} was measured: {} or {}", pulling::NAME, teams::NAME);
    Ok(Some(comparisons))
}
