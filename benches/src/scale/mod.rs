//! How the virtual machine grows with its hosts: what starting, idling, spawning and losing a host costs, with 8 to 256 hosts that
//! share this computer. The settings are the defaults; nothing is compared with peers.

mod hosts;
mod report;
pub(crate) mod usage;

pub use report::Growth;

use crate::lab::Trial;
use crate::part::numbers_of_hosts;
use anyhow::{Context, Result, ensure};
use hosts::{Changes, Hosts, Start};
use serde::Serialize;
use std::thread;
use std::time::Duration;
use usage::Idle;

/// The word by which this is chosen.
pub const NAME: &str = "scale";

/// Default number of rounds.
pub const ROUNDS: usize = 3;

/// Numbers of hosts.
const HOSTS: [usize; 5] = [8, 32, 64, 128, 256];
/// With less to do.
const FEW_HOSTS: [usize; 2] = [8, 32];

/// For how long the idle machine is measured, and how long before that nothing happens.
const IDLE: Duration = Duration::from_secs(10);
const SETTLE: Duration = Duration::from_secs(5);
/// With less to do.
const SHORT_IDLE: Duration = Duration::from_secs(2);
const SHORT_SETTLE: Duration = Duration::from_secs(1);

/// Reasons of failures that are reported for one start.
const REASONS: usize = 3;

/// The results of one virtual machine, as far as it was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Round {
    /// Hosts that came up, the master included.
    pub up: usize,
    /// Seconds until all were up; none if not all came up.
    pub start: Option<f64>,
    /// The daemons' use while the machine is idle.
    pub idle: Option<Idle>,
    /// Seconds of a spawn of a task per host: the first, and a second one.
    pub spawns: Option<[f64; 2]>,
    /// Seconds until the loss of a host was reported to a task.
    pub loss: Option<f64>,
    /// Changes of what the master keeps, and has to agree about with its deputies.
    pub changes: Option<Changes>,
    /// The same in a machine without deputies.
    pub alone: Option<Changes>,
    /// Seconds from the master's death until a request was answered.
    pub succession: Option<f64>,
}

/// All that was measured with this number of hosts.
#[derive(Clone, Debug, Serialize)]
pub struct Runs {
    /// Hosts, the master included.
    pub hosts: usize,
    /// The results of the rounds.
    pub rounds: Vec<Round>,
    /// Errors.
    pub failures: Vec<String>,
}

/// Whether one of these words chooses it.
pub fn is_chosen(words: &[String]) -> bool {
    words.iter().any(|word| word.split('-').next() == Some(NAME))
}

fn chosen(words: &[String], quick: bool) -> Vec<usize> {
    numbers_of_hosts((NAME, words), &HOSTS, if quick { &FEW_HOSTS } else { &HOSTS })
}

/// Measures what the words choose.
pub fn measure(trial: Trial, words: &[String]) -> Result<Growth> {
    let Trial { rounds, quick, session, .. } = trial;
    let counts = chosen(words, quick);
    ensure!(!counts.is_empty(), "{NAME} can be measured with these numbers of hosts: {HOSTS:?}");
    let none = |&hosts: &usize| Runs { hosts, rounds: Vec::new(), failures: Vec::new() };
    let mut runs: Vec<Runs> = counts.iter().map(none).collect();
    let progress = &session.progress;
    progress.set_length((counts.len() * rounds) as u64);
    for _ in 0..rounds {
        for runs in &mut runs {
            progress.set_message(format!("{NAME}: {} hosts", runs.hosts));
            runs.measure(trial)?;
            session.step()?;
        }
    }
    Ok(Growth { runs })
}

impl Runs {
    /// Another round, in a machine of its own.
    fn measure(&mut self, trial: Trial) -> Result<()> {
        let (ours, program) = (trial.ours, trial.programs.scale);
        let hosts = Hosts::start(ours, program, self.hosts, None)?;
        let mut round = Round::default();
        if let Err(error) = self.fill(&mut round, &hosts, trial.quick) {
            self.fail(&format!("{error:#}"));
        }
        drop(hosts);
        let alone = Hosts::start(ours, program, self.hosts, Some(1))?;
        match alone.await_start().and_then(|_| alone.change()) {
            Ok(changes) => round.alone = Some(changes),
            Err(error) => self.fail(&format!("without deputies: {error:#}")),
        }
        self.rounds.push(round);
        Ok(())
    }

    /// One measurement after the other; the first that fails is the last.
    fn fill(&mut self, round: &mut Round, hosts: &Hosts, quick: bool) -> Result<()> {
        self.take_start(round, &hosts.await_start()?);
        ensure!(round.up > 1, "only the master is up");
        let (settle, time) = if quick { (SHORT_SETTLE, SHORT_IDLE) } else { (SETTLE, IDLE) };
        thread::sleep(settle);
        round.idle = Some(hosts.idle(time)?);
        let left = hosts.count()?;
        if left < round.up {
            self.fail(&format!("{} hosts were lost while the machine was idle", round.up - left));
        }
        let spawns = hosts.spawn(left)?;
        round.spawns = Some(spawns.map(|(_, seconds)| seconds));
        for (reached, _) in spawns.iter().filter(|(reached, _)| *reached < left) {
            self.fail(&format!("a spawn of {left} tasks used {reached} hosts"));
        }
        let notices = hosts.lose()?;
        round.loss = Some(*notices.first().context("the loss of a host was not reported")?);
        if notices.len() > 1 {
            self.fail(&format!("one daemon was killed, {} hosts were lost", notices.len()));
        }
        round.changes = Some(hosts.change()?);
        round.succession = Some(hosts.lose_master(round.up)?);
        Ok(())
    }

    fn take_start(&mut self, round: &mut Round, start: &Start) {
        round.up = start.up;
        if start.up == self.hosts {
            round.start = Some(start.seconds);
        } else {
            self.fail(&format!("{} came up, in {:.1} s", start.up, start.seconds));
        }
        start.reasons.iter().take(REASONS).for_each(|reason| self.fail(reason));
        if start.reasons.len() > REASONS {
            self.fail(&format!("and {} reasons more", start.reasons.len() - REASONS));
        }
    }

    fn fail(&mut self, what: &str) {
        let round = self.rounds.len() + 1;
        self.failures.push(format!("{} hosts, round {round}: {what}", self.hosts));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs() -> Runs {
        Runs { hosts: 8, rounds: Vec::new(), failures: Vec::new() }
    }

    #[test]
    fn a_start_of_all_hosts_has_a_time() {
        let (mut runs, mut round) = (runs(), Round::default());
        runs.take_start(&mut round, &Start { up: 8, seconds: 1.5, reasons: Vec::new() });
        assert_eq!(round, Round { up: 8, start: Some(1.5), ..Round::default() });
        assert!(runs.failures.is_empty());
    }

    #[test]
    fn a_start_of_some_hosts_has_their_number_and_the_first_reasons() {
        let (mut runs, mut round) = (runs(), Round::default());
        let reasons = (2..=6).map(|host| format!("h{host}: gone")).collect();
        runs.take_start(&mut round, &Start { up: 3, seconds: 61.26, reasons });
        assert_eq!(round, Round { up: 3, ..Round::default() });
        let expected = ["3 came up, in 61.3 s", "h2: gone", "h3: gone", "h4: gone", "and 2 reasons more"];
        assert_eq!(runs.failures, expected.map(|what| format!("8 hosts, round 1: {what}")));
    }

    #[test]
    fn it_is_measured_only_if_it_is_named() {
        assert!(!is_chosen(&[]) && !is_chosen(&["spawn".into()]));
        assert!(is_chosen(&["latency".into(), "scale".into()]) && is_chosen(&["scale-64".into()]));
    }

    #[test]
    fn a_word_chooses_all_numbers_of_hosts_or_one() {
        let counts = |words: &[&str], quick| {
            chosen(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>(), quick)
        };
        assert_eq!(
            (counts(&["scale"], false), counts(&["scale"], true)),
            (HOSTS.to_vec(), FEW_HOSTS.to_vec())
        );
        assert_eq!(counts(&["scale-64", "scale-8"], true), [8, 64]);
        assert!(counts(&["scale-7"], false).is_empty());
    }
}
