//! From the rounds' values to one value and its spread.

use pvm_sim::report::{Point, number};
use pvm_sim::stats::quantile;
use serde::Serialize;

/// The results of several rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The median.
    pub median: f64,
    /// A quarter of the values is below this.
    pub low: f64,
    /// A quarter of the values is above this.
    pub high: f64,
    /// The values, in the order of the rounds.
    pub rounds: Vec<f64>,
}

impl Summary {
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

    /// Half the distance between the quartiles, as a part of the median.
    pub fn spread(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.high - self.low) / 2.0 / self.median.abs() }
    }

    /// The median and the spread, as tables have them.
    pub fn cell(&self) -> String {
        format!("{} ±{:.0}%", number(self.median), self.spread() * 100.0)
    }

    /// The median at `x`, with half the distance between the quartiles as its bar.
    pub fn point(&self, x: f64) -> Point {
        let half = (self.high - self.low) / 2.0;
        // On a logarithmic axis a bar must not reach 0.
        Point { x, y: self.median, half: half.min(self.median * 0.9) }
    }
}

/// The median of these values; 0 of none.
pub fn median(values: &[f64]) -> f64 {
    Summary::of(values).map_or(0.0, |summary| summary.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    #[test]
    fn of_an_odd_and_an_even_number_of_rounds() {
        let odd = Summary::of(&[5.0, 1.0, 4.0, 2.0, 3.0]).expect("values");
        assert!(near(odd.median, 3.0) && near(odd.low, 2.0) && near(odd.high, 4.0));
        assert!(near(odd.spread(), 1.0 / 3.0));
        assert_eq!(odd.rounds, [5.0, 1.0, 4.0, 2.0, 3.0]);
        let even = Summary::of(&[4.0, 1.0, 2.0, 3.0]).expect("values");
        assert!(near(even.median, 2.5) && near(even.low, 1.75) && near(even.high, 3.25));
    }

    #[test]
    fn one_wild_value_moves_nothing_much() {
        let calm = Summary::of(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1000.0]).expect("values");
        assert!(near(calm.median, 1.0) && near(calm.spread(), 0.0));
    }

    #[test]
    fn of_one_value_and_of_none() {
        let one = Summary::of(&[7.0]).expect("a value");
        assert!(near(one.median, 7.0) && near(one.spread(), 0.0));
        assert_eq!(Summary::of(&[]), None);
        assert!(near(Summary::of(&[0.0]).expect("a value").spread(), 0.0));
    }
}
