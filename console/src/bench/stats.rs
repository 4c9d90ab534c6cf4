//! From the values of the rounds to one value and its spread.

use pvm_sim::stats::quantile;

/// The value of several rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The median.
    pub median: f64,
    /// Half the distance between the quartiles.
    pub half: f64,
    /// Number of rounds.
    pub rounds: usize,
}

impl Summary {
    /// Of these values; of none there is none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let half = (quantile(&sorted, 0.75)? - quantile(&sorted, 0.25)?) / 2.0;
        Some(Self { median: quantile(&sorted, 0.5)?, half, rounds: sorted.len() })
    }

    /// Half the distance between the quartiles, as a percentage of the median.
    pub fn spread(&self) -> f64 {
        if self.median > 0.0 { self.half / self.median * 100.0 } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn the_median_and_half_the_distance_between_the_quartiles() {
        let odd = Summary::of([5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert!(near(odd.median, 3.0) && near(odd.half, 1.0) && near(odd.spread(), 100.0 / 3.0));
        assert_eq!(odd.rounds, 5);
        let even = Summary::of([4.0, 1.0, 2.0, 3.0]).unwrap();
        assert!(near(even.median, 2.5) && near(even.half, 0.75));
    }

    #[test]
    fn one_wild_value_changes_little() {
        let calm = Summary::of([1.0, 1.0, 1.0, 1.0, 1.0, 1000.0]).unwrap();
        assert!(near(calm.median, 1.0) && near(calm.spread(), 0.0));
    }

    #[test]
    fn one_value_has_no_spread_and_none_has_no_summary() {
        let one = Summary::of([7.0]).unwrap();
        assert!(near(one.median, 7.0) && near(one.spread(), 0.0));
        assert_eq!(Summary::of([]), None);
        assert!(near(Summary::of([0.0, 0.0]).unwrap().spread(), 0.0));
    }
}
