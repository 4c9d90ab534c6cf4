//! Random numbers that are the same everywhere.

use crate::engine::{Time, seconds};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, SeedableRng};

/// A generator and the distributions that the models need. Logarithms and powers are `libm`'s, which does not differ
/// from machine to machine as the system's may.
#[derive(Clone, Debug)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A generator for one part of a model, so that parts do not disturb each other's numbers.
    pub fn part(seed: u64, part: u64) -> Self {
        Self::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(part))
    }

    /// Uniform in 0 up to but not including 1.
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform between two bounds.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Uniform in 0 up to but not including `n`; 0 if `n` is.
    pub fn below(&mut self, n: usize) -> usize {
        // The high half of the product: biased by less than n in 2^64.
        ((u128::from(self.0.next_u64()) * n as u128) >> 64) as usize
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Exponential with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.unit())
    }

    /// The time until the next event, if events have this mean time between them, in seconds. `None` if that is infinite or not positive.
    pub fn until_next(&mut self, mean: f64) -> Option<Time> {
        (mean.is_finite() && mean > 0.0).then(|| seconds(self.exponential(mean)).max(1))
    }

    /// Standard normal, by Marsaglia's polar method.
    pub fn normal(&mut self) -> f64 {
        loop {
            let (u, v) = (self.between(-1.0, 1.0), self.between(-1.0, 1.0));
            let s = u * u + v * v;
            if s > 0.0 && s < 1.0 {
                return u * libm::sqrt(-2.0 * libm::log(s) / s);
            }
        }
    }

    /// Gamma with shape `alpha` and scale `beta` (mean `alpha · beta`), by Marsaglia and Tsang's method.
    pub fn gamma(&mut self, alpha: f64, beta: f64) -> f64 {
        if alpha < 1.0 {
            let boost = libm::pow(1.0 - self.unit(), 1.0 / alpha);
            return self.gamma(alpha + 1.0, beta) * boost;
        }
        let d = alpha - 1.0 / 3.0;
        let c = 1.0 / libm::sqrt(9.0 * d);
        loop {
            let x = self.normal();
            let v = 1.0 + c * x;
            if v > 0.0 {
                let v = v * v * v;
                if libm::log(1.0 - self.unit()) < 0.5 * x * x + d * (1.0 - v + libm::log(v)) {
                    return d * v * beta;
                }
            }
        }
    }

    /// A number from 0 up to but not including `n`, the k-th with probability in proportion to 1/(k + 1).
    pub fn zipf(&mut self, n: usize) -> usize {
        // The harmonic sum is near enough to a logarithm.
        let top = libm::log(n as f64 + 1.0);
        (libm::exp(self.unit() * top) as usize).saturating_sub(1).min(n.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(n: usize, mut f: impl FnMut() -> f64) -> f64 {
        (0..n).map(|_| f()).sum::<f64>() / n as f64
    }

    #[test]
    fn distributions_have_their_means() {
        let mut random = Random::new(1);
        assert!((mean(20_000, || random.unit()) - 0.5).abs() < 0.01);
        assert!((mean(20_000, || random.exponential(3.0)) - 3.0).abs() < 0.1);
        assert!(mean(20_000, || random.normal()).abs() < 0.03);
        assert!((mean(20_000, || random.gamma(4.2, 0.94)) - 3.948).abs() < 0.05);
        assert!((mean(20_000, || random.gamma(0.5, 2.0)) - 1.0).abs() < 0.05);
        assert!((mean(20_000, || random.below(11) as f64) - 5.0).abs() < 0.1);
        assert!((mean(20_000, || f64::from(u8::from(random.chance(0.3)))) - 0.3).abs() < 0.02);
        assert!((mean(20_000, || random.between(-1.0, 3.0)) - 1.0).abs() < 0.05);
        assert_eq!(random.below(0), 0);
        assert_eq!(random.zipf(0), 0);
        let firsts = mean(20_000, || f64::from(u8::from(random.zipf(100) == 0)));
        assert!(firsts > 0.1 && firsts < 0.3, "{firsts}");
    }

    #[test]
    fn a_seed_gives_these_numbers_everywhere() {
        let mut random = Random::part(7, 1);
        let first =
            (random.below(1 << 40), random.exponential(1.0).to_bits(), random.gamma(2.0, 1.0).to_bits());
        let mut again = Random::part(7, 1);
        assert_eq!(
            first,
            (again.below(1 << 40), again.exponential(1.0).to_bits(), again.gamma(2.0, 1.0).to_bits())
        );
        assert_ne!(first.0, Random::part(7, 2).below(1 << 40));
    }
}
