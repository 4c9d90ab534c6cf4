//! The model of U. Lublin and D. G. Feitelson, *The workload on parallel supercomputers: modeling the characteristics
//! of rigid jobs*, Journal of Parallel and Distributed Computing 63(11), 2003; the parameters are those for batch and
//! interactive jobs together. The daily cycle is left out: arrivals come at one rate all day.

use super::Job;
use crate::random::Random;

/// Part of the jobs that want one node.
const SERIAL: f64 = 0.244;
/// Part of the parallel jobs whose width is a power of two.
const POWER_OF_TWO: f64 = 0.576;
/// The logarithm of the width is uniform in two stages: from this,
const LOW: f64 = 0.8;
/// with this probability up to so much less than that of the machine's size,
const LOWER_STAGE: f64 = 0.86;
/// (that is the middle)
const MIDDLE_BELOW: f64 = 2.5;
/// The logarithm of the run time is one of two gammas: short jobs,
const SHORT: (f64, f64) = (4.2, 0.94);
/// and long ones,
const LONG: (f64, f64) = (312.0, 0.03);
/// short with a probability that falls with the width: slope and intercept.
const SHORT_CHANCE: (f64, f64) = (-0.0054, 0.78);
/// The logarithm of the time between arrivals is a gamma.
const BETWEEN: (f64, f64) = (10.2303, 0.4871);

/// Size of the sample from which the load is estimated.
const SAMPLE: usize = 2000;

/// An endless stream of jobs in the order of submission.
#[derive(Clone, Debug)]
pub struct Lublin {
    random: Random,
    nodes: u32,
    users: usize,
    /// What the model's time between arrivals, its width is multiplied with.
    stretch: f64,
    widen: f64,
    /// The greatest width.
    limit: u32,
    now: f64,
}

impl Lublin {
    /// Jobs for a machine of `nodes` nodes, submitted by `users` users, the k-th of them in proportion to 1/k.
    pub fn new(seed: u64, nodes: u32, users: usize) -> Self {
        let nodes = nodes.max(1);
        let users = users.max(1);
        Self { random: Random::part(seed, 1), nodes, users, stretch: 1.0, widen: 1.0, limit: nodes, now: 0.0 }
    }

    /// The same kind of jobs, of another seed: what was found by trial stays.
    #[must_use]
    pub fn seeded(mut self, seed: u64) -> Self {
        self.random = Random::part(seed, 1);
        self.now = 0.0;
        self
    }

    /// Changes the widths to this mean, up to `limit` nodes: each is multiplied and rounded. The factor is found by
    /// trial on a sample, as cutting off at the limit lowers the mean.
    #[must_use]
    pub fn widened(mut self, mean: f64, limit: u32) -> Self {
        self.limit = limit.max(1);
        let (mut low, mut high) = (0.0, f64::from(self.limit));
        for _ in 0..20 {
            self.widen = f64::midpoint(low, high);
            let sample = self.clone().take(SAMPLE);
            let is = sample.map(|job| f64::from(job.width)).sum::<f64>() / SAMPLE as f64;
            if is < mean { low = self.widen } else { high = self.widen }
        }
        self
    }

    /// Changes the times between arrivals so that the jobs ask for this part of `capacity` nodes of speed 1, on a sample.
    #[must_use]
    pub fn offering(mut self, load: f64, capacity: f64) -> Self {
        // Run times have a long tail: it takes more to see it.
        let sample: Vec<Job> = self.clone().take(5 * SAMPLE).collect();
        let work: f64 = sample.iter().map(|job| job.run * f64::from(job.width)).sum();
        let span = sample.last().map_or(1.0, |job| job.submit).max(1.0);
        let wanted = work / (load.max(1e-6) * capacity.max(1e-6));
        self.stretch *= wanted / span;
        self
    }

    fn width(&mut self) -> u32 {
        let size = if self.random.chance(SERIAL) {
            1.0
        } else {
            let top = libm::log2(f64::from(self.nodes)).max(LOW);
            let middle = (top - MIDDLE_BELOW).max(LOW);
            let exponent = if self.random.chance(LOWER_STAGE) {
                self.random.between(LOW, middle)
            } else {
                self.random.between(middle, top)
            };
            let exponent = if self.random.chance(POWER_OF_TWO) { libm::round(exponent) } else { exponent };
            libm::round(libm::exp2(exponent))
        };
        (libm::round(size * self.widen) as u32).clamp(1, self.limit)
    }

    fn run(&mut self, width: u32) -> f64 {
        let narrow = f64::from(width) / self.widen.max(1.0);
        let short = SHORT_CHANCE.0 * narrow + SHORT_CHANCE.1;
        let (alpha, beta) = if self.random.chance(short) { SHORT } else { LONG };
        // The model's logarithms are natural; nothing runs for less than a second or more than five days.
        libm::exp(self.random.gamma(alpha, beta)).clamp(1.0, 432_000.0)
    }
}

impl Iterator for Lublin {
    type Item = Job;

    fn next(&mut self) -> Option<Job> {
        // A gap of more than five days is the tail of the gamma, not of people.
        self.now += libm::exp(self.random.gamma(BETWEEN.0, BETWEEN.1)).min(432_000.0) * self.stretch;
        let width = self.width();
        let run = self.run(width);
        let estimate = run * self.random.between(1.0, 5.0);
        let user = self.random.zipf(self.users);
        Some(Job { submit: self.now, run, estimate, width, user })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_look_like_jobs() {
        let jobs: Vec<Job> = Lublin::new(3, 128, 10).take(5000).collect();
        assert!(jobs.windows(2).all(|pair| pair[0].submit <= pair[1].submit));
        assert!(
            jobs.iter()
                .all(|job| (1..=128).contains(&job.width) && job.run >= 1.0 && job.estimate >= job.run)
        );
        let serial = jobs.iter().filter(|job| job.width == 1).count() as f64 / 5000.0;
        assert!((0.2..0.35).contains(&serial), "{serial}");
        let powers = jobs.iter().filter(|job| job.width.is_power_of_two()).count();
        assert!(powers > 3000, "{powers}");
        assert!(jobs.iter().any(|job| job.user == 9));
    }

    #[test]
    fn width_and_load_can_be_set() {
        let jobs = Lublin::new(3, 128, 10).widened(40.0, 360).offering(1.5, 440.0);
        let jobs: Vec<Job> = jobs.take(10_000).collect();
        let mean = jobs.iter().map(|job| f64::from(job.width)).sum::<f64>() / 10_000.0;
        assert!((mean - 40.0).abs() < 3.0, "{mean}");
        let work: f64 = jobs.iter().map(|job| job.run * f64::from(job.width)).sum();
        let load = work / 440.0 / jobs.last().expect("jobs").submit;
        assert!((load - 1.5).abs() < 0.01, "{load}");
    }

    #[test]
    fn the_same_seed_gives_the_same_jobs() {
        let jobs = |seed| Lublin::new(seed, 64, 5).take(100).collect::<Vec<Job>>();
        assert_eq!(jobs(5), jobs(5));
        assert_ne!(jobs(5), jobs(6));
        assert!(Lublin::new(1, 1, 0).take(50).all(|job| job.width == 1 && job.user == 0));
        assert!(Lublin::new(1, 0, 0).take(50).all(|job| job.width == 1));
    }
}
