//! A batch and its hosts, as daemons and the simulator are given them.

use crate::random::Random;
use clap::ValueEnum;
use std::time::Duration;

/// The longest task of a batch of exponential lengths, over the mean.
const LONGEST: f64 = 5.0;

/// A queued batch, and the hosts that pull its tasks.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct Workload {
    /// Speeds of the hosts (`sp=` of the hostfile); the batch is spawned on the first
    #[arg(long, value_delimiter = ',', required = true, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub speeds: Vec<u32>,
    /// Tasks that each host runs at a time (`slots=` of the hostfile)
    #[arg(long, default_value_t = 2)]
    pub slots: u32,
    /// Tasks of the batch
    #[arg(long, default_value_t = 96)]
    pub tasks: u64,
    /// How unequal the tasks are
    #[arg(long, value_enum, default_value_t = Lengths::Constant)]
    pub lengths: Lengths,
    /// Mean time of a task on a host of speed 1000, µs
    #[arg(long, default_value_t = 100_000)]
    pub mean: u64,
    /// Seed of the lengths
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// How the lengths of the tasks are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Lengths {
    /// All alike.
    Constant,
    /// Exponential, cut off at five times the mean.
    Exponential,
}

impl Workload {
    /// The speed at which a task takes its length.
    pub const REFERENCE: u32 = 1000;

    /// How long a task runs on a host. Tasks are numbered in the order in which they start, hosts from 0 on.
    pub fn time(&self, number: u64, host: usize) -> Duration {
        let speed = self.speeds.get(host).copied().unwrap_or(Self::REFERENCE);
        self.length(number).mul_f64(f64::from(Self::REFERENCE) / f64::from(speed))
    }

    /// How long it runs on a host of speed 1000.
    pub fn length(&self, number: u64) -> Duration {
        let part = match self.lengths {
            Lengths::Constant => 1.0,
            Lengths::Exponential => Random::part(self.seed, number).exponential(1.0).min(LONGEST),
        };
        Duration::from_secs_f64(self.mean as f64 * 1e-6 * part)
    }

    /// The hostfile's lines of the hosts, which are called `h1`, `h2` and so on.
    pub fn hostfile(&self) -> String {
        let line = |(number, speed): (usize, &u32)| format!("h{number} sp={speed} slots={}\n", self.slots);
        (1..).zip(&self.speeds).map(line).collect()
    }

    /// Arguments from which a program parses it again.
    pub fn arguments(&self) -> Vec<String> {
        let speeds: Vec<String> = self.speeds.iter().map(u32::to_string).collect();
        let lengths =
            self.lengths.to_possible_value().map_or_else(String::new, |name| name.get_name().into());
        vec![
            format!("--speeds={}", speeds.join(",")),
            format!("--slots={}", self.slots),
            format!("--tasks={}", self.tasks),
            format!("--lengths={lengths}"),
            format!("--mean={}", self.mean),
            format!("--seed={}", self.seed),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        workload: Workload,
    }

    #[test]
    fn both_sides_read_the_same_batch() {
        for lengths in [Lengths::Constant, Lengths::Exponential] {
            let workload =
                Workload { speeds: vec![4000, 500], slots: 3, tasks: 7, lengths, mean: 2500, seed: 9 };
            let words = std::iter::once("program".to_owned()).chain(workload.arguments());
            assert_eq!(Line::try_parse_from(words).expect("parsed").workload, workload);
        }
    }

    #[test]
    fn lengths_have_their_mean_and_hosts_their_speed() {
        let exponential = Workload {
            speeds: vec![1000, 4000],
            slots: 1,
            tasks: 1,
            lengths: Lengths::Exponential,
            mean: 1000,
            seed: 3,
        };
        let mean = (0..4000).map(|number| exponential.time(number, 0).as_secs_f64()).sum::<f64>() / 4000.0;
        assert!((mean - 0.001).abs() < 0.000_05, "{mean}");
        assert_eq!(exponential.time(7, 0).as_nanos() / 40, exponential.time(7, 1).as_nanos() / 10);
        let constant = Workload { lengths: Lengths::Constant, ..exponential };
        assert_eq!(constant.time(7, 1), Duration::from_micros(250));
        assert_eq!(constant.hostfile(), "h1 sp=1000 slots=1\nh2 sp=4000 slots=1\n");
    }
}
