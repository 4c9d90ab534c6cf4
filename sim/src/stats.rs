//! From many numbers to few.

use crate::report::{Point, number};
use serde::Serialize;

/// Mean, spread and extremes of numbers, of which none is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    n: u64,
    mean: f64,
    /// The sum of squared differences from the mean (Welford).
    squares: f64,
    max: f64,
}

impl Summary {
    /// Another number.
    pub fn add(&mut self, value: f64) {
        self.n += 1;
        let before = value - self.mean;
        self.mean += before / self.n as f64;
        self.squares += before * (value - self.mean);
        self.max = if self.n == 1 { value } else { self.max.max(value) };
    }

    /// How many numbers there were.
    pub fn count(&self) -> u64 {
        self.n
    }

    /// Their mean; of none 0.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The greatest; of none 0.
    pub fn max(&self) -> f64 {
        self.max
    }

    /// Half the width of the 95 % confidence interval of the mean, by Student's t. Of fewer than two numbers 0.
    pub fn half_width(&self) -> f64 {
        if self.n < 2 {
            return 0.0;
        }
        let variance = self.squares / (self.n - 1) as f64;
        student(self.n - 1) * libm::sqrt(variance / self.n as f64)
    }
}

impl FromIterator<f64> for Summary {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut summary = Self::default();
        values.into_iter().for_each(|value| summary.add(value));
        summary
    }
}

/// The 97.5 % quantile of Student's t with `freedom` degrees of freedom.
fn student(freedom: u64) -> f64 {
    const TABLE: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    let n = freedom as f64;
    // Beyond the table the usual expansion is right to three digits.
    TABLE.get(freedom as usize - 1).copied().unwrap_or(1.96 + 2.372 / n + 2.823 / (n * n))
}

/// The value below which this part of the sorted values is, between two of them in proportion; `None` of no values.
pub fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let place = part * sorted.len().checked_sub(1)? as f64;
    let below = *sorted.get(place.floor() as usize)?;
    let above = *sorted.get(place.ceil() as usize)?;
    Some(below + (above - below) * place.fract())
}

/// A quantity that was measured in several rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// The median.
    pub median: f64,
    /// A quarter of the values is below this.
    pub low: f64,
    /// A quarter of the values is above this.
    pub high: f64,
    /// The values, in the order of the rounds.
    pub rounds: Vec<f64>,
}

impl Measured {
    /// Of these values; of none there is none.
    pub fn of(rounds: &[f64]) -> Option<Self> {
        let mut sorted = rounds.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            median: quantile(&sorted, 0.5)?,
            low: quantile(&sorted, 0.25)?,
            high: quantile(&sorted, 0.75)?,
            rounds: rounds.to_vec(),
        })
    }

    /// Half the distance between the quartiles.
    pub fn half(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// The same, as a part of the median.
    pub fn spread(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { self.half() / self.median.abs() }
    }

    /// The median and the spread, as tables have them.
    pub fn cell(&self) -> String {
        format!("{} ±{:.0}%", number(self.median), self.spread() * 100.0)
    }

    /// The median at `x`, with half the distance between the quartiles as its bar.
    pub fn point(&self, x: f64) -> Point {
        // On a logarithmic axis a bar must not reach 0.
        Point { x, y: self.median, half: self.half().min(self.median * 0.9) }
    }
}

/// The median of these values; 0 of none.
pub fn median(values: &[f64]) -> f64 {
    Measured::of(values).map_or(0.0, |measured| measured.median)
}

/// Jain's index of fairness: 1 if all are equal, 1/n if one has everything. Of nothing 1.
pub fn jain(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for value in values {
        n += 1.0;
        sum += value;
        squares += value * value;
    }
    if squares > 0.0 { sum * sum / (n * squares) } else { 1.0 }
}

/// Bounded slowdown: response over run time, where runs shorter than `bound` seconds count as that long; at least 1.
pub fn bounded_slowdown(wait: f64, run: f64, bound: f64) -> f64 {
    ((wait + run) / run.max(bound)).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-3
    }

    #[test]
    fn summary_of_four() {
        let summary: Summary = [2.0, 4.0, 4.0, 6.0].into_iter().collect();
        assert!(near(summary.mean(), 4.0) && near(summary.max(), 6.0));
        assert!(near(summary.half_width(), 3.182 * (8.0_f64 / 3.0 / 4.0).sqrt()));
        assert_eq!(summary.count(), 4);
        assert!(near(Summary::default().half_width(), 0.0));
        assert!(near([-3.0].into_iter().collect::<Summary>().max(), -3.0));
    }

    #[test]
    fn student_approaches_normal() {
        assert!(near(student(10), 2.228));
        assert!((student(30) - 2.042).abs() < 0.005);
        assert!((student(11) - 2.201).abs() < 0.005);
    }

    #[test]
    fn fairness_and_slowdown() {
        assert!(near(jain([3.0, 3.0, 3.0]), 1.0));
        assert!(near(jain([1.0, 0.0, 0.0, 0.0]), 0.25));
        assert!(near(jain([]), 1.0));
        assert!(near(bounded_slowdown(90.0, 10.0, 10.0), 10.0));
        assert!(near(bounded_slowdown(0.0, 1.0, 10.0), 1.0));
        assert!(near(bounded_slowdown(99.0, 1.0, 10.0), 10.0));
    }

    fn exact(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    #[test]
    fn of_an_odd_and_an_even_number_of_rounds() {
        let odd = Measured::of(&[5.0, 1.0, 4.0, 2.0, 3.0]).expect("values");
        assert!(exact(odd.median, 3.0) && exact(odd.low, 2.0) && exact(odd.high, 4.0));
        assert!(exact(odd.half(), 1.0) && exact(odd.spread(), 1.0 / 3.0));
        assert_eq!(odd.rounds, [5.0, 1.0, 4.0, 2.0, 3.0]);
        let even = Measured::of(&[4.0, 1.0, 2.0, 3.0]).expect("values");
        assert!(exact(even.median, 2.5) && exact(even.low, 1.75) && exact(even.high, 3.25));
    }

    #[test]
    fn one_wild_value_moves_nothing_much() {
        let calm = Measured::of(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1000.0]).expect("values");
        assert!(exact(calm.median, 1.0) && exact(calm.spread(), 0.0));
    }

    #[test]
    fn of_one_value_and_of_none() {
        let one = Measured::of(&[7.0]).expect("a value");
        assert!(exact(one.median, 7.0) && exact(one.spread(), 0.0));
        assert_eq!(Measured::of(&[]), None);
        assert!(exact(Measured::of(&[0.0]).expect("a value").spread(), 0.0));
    }
}
