//! Every placement policy on hosts that share this computer: how many tasks a second are spawned, how many messages that takes, and how
//! long a batch of unequal tasks takes on hosts of unequal speed.
//!
//! Each policy has a virtual machine of its own in each round. What a policy leaves behind, such as hosts that go on asking for tasks,
//! does not slow the others down.

mod report;

pub use report::Compared;

use crate::lab::Trial;
use crate::live::batch::{Hosts, Placed};
use crate::part::numbers_of_hosts;
use anyhow::{Context, Result, ensure};
use pvm_sched::policy::Policy;
use pvm_sim::pulling::{Lengths, Workload};
use serde::Serialize;

/// The word by which this is chosen.
pub const NAME: &str = "policies";

/// Default number of rounds.
pub const ROUNDS: usize = 3;

/// Numbers of hosts.
const HOSTS: [usize; 3] = [3, 8, 64];
/// With less to do.
const FEW_HOSTS: [usize; 2] = [3, 8];

/// Speeds of the hosts, again and again.
const SPEEDS: [u32; 4] = [4000, 2000, 1000, 1000];
/// Tasks for each host: of a plain spawn, and of a batch.
const SPAWNED: usize = 4;
const BATCHED: u64 = 8;

/// The results of one policy in one round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Round {
    /// Tasks that a plain spawn starts in a second.
    pub spawns: f64,
    /// A queued batch.
    pub batch: Placed,
}

/// All results of a policy with one number of hosts.
#[derive(Clone, Debug, Serialize)]
pub struct Runs {
    /// The policy.
    pub policy: Policy,
    /// The results of the rounds.
    pub rounds: Vec<Round>,
}

/// Whether one of these words chooses it.
pub fn is_chosen(words: &[String]) -> bool {
    words.iter().any(|word| word.split('-').next() == Some(NAME))
}

fn chosen(words: &[String], quick: bool) -> Vec<usize> {
    numbers_of_hosts((NAME, words), &HOSTS, if quick { &FEW_HOSTS } else { &HOSTS })
}

fn workload(hosts: usize, seed: u64) -> Workload {
    let speeds = SPEEDS.into_iter().cycle().take(hosts).collect();
    let tasks = BATCHED * hosts as u64;
    Workload { speeds, slots: 2, tasks, lengths: Lengths::Exponential, mean: 200_000, seed }
}

/// Measures what the words choose.
pub fn measure(trial: Trial, words: &[String]) -> Result<Vec<Compared>> {
    let Trial { rounds, quick, session, .. } = trial;
    let counts = chosen(words, quick);
    ensure!(!counts.is_empty(), "{NAME} can be measured with these numbers of hosts: {HOSTS:?}");
    let none = |&hosts: &usize| Compared {
        hosts,
        runs: Policy::ALL.map(|policy| Runs { policy, rounds: Vec::new() }).to_vec(),
    };
    let mut all: Vec<Compared> = counts.iter().map(none).collect();
    let progress = &session.progress;
    progress.set_length((counts.len() * rounds * Policy::ALL.len()) as u64);
    for round in 0..rounds {
        for compared in &mut all {
            let hosts = compared.hosts;
            // Each round begins with another policy.
            for turn in 0..compared.runs.len() {
                let at = (turn + round) % compared.runs.len();
                let runs = &mut compared.runs[at];
                progress.set_message(format!("{NAME}: {}, {hosts} hosts", runs.policy));
                let result = run(trial, runs.policy, &workload(hosts, round as u64 + 1));
                runs.rounds.push(result.with_context(|| format!("{}, {hosts} hosts", runs.policy))?);
                session.step()?;
            }
        }
    }
    Ok(all)
}

fn run(trial: Trial, policy: Policy, workload: &Workload) -> Result<Round> {
    let tasks = SPAWNED * workload.speeds.len();
    let hosts = Hosts::start_plain(trial.ours, trial.programs, workload, SPAWNED as u32)?;
    // The first one finds everything cold.
    hosts.spawn_by(policy, tasks)?;
    let seconds = hosts.spawn_by(policy, tasks)?;
    Ok(Round { spawns: tasks as f64 / seconds, batch: hosts.run_by(policy, workload)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_chooses_all_numbers_of_hosts_or_one() {
        let counts = |words: &[&str], quick| {
            chosen(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>(), quick)
        };
        assert_eq!((counts(&["policies"], false), counts(&["policies"], true)), (HOSTS.to_vec(), vec![3, 8]));
        assert_eq!(counts(&["policies-64"], true), [64]);
        assert!(counts(&["policies-7"], false).is_empty());
        assert!(!is_chosen(&[]) && is_chosen(&["rate".into(), "policies-8".into()]));
    }

    #[test]
    fn a_batch_has_tasks_and_hosts_of_every_speed() {
        let workload = workload(8, 1);
        assert_eq!((workload.speeds.len(), workload.tasks), (8, 64));
        assert!(SPEEDS.iter().all(|speed| workload.speeds.contains(speed)));
    }
}
