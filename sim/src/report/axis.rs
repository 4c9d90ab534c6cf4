//! Axes with round numbers on them, also logarithmic ones.

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::Ranged;
use std::ops::Range;

/// An axis. A logarithmic one has the decimal logarithms of what it shows.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    range: Range<f64>,
    log: bool,
}

/// Divisions of a decade, from the coarsest to the finest.
const DIVISIONS: [&[f64]; 4] =
    [&[1.0], &[1.0, 3.0], &[1.0, 2.0, 5.0], &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0]];

/// Number of marks at which an axis is easy to read.
const ENOUGH: usize = 4;

impl Axis {
    /// An axis with room for all of these values, and some more.
    pub(super) fn over(values: impl Iterator<Item = f64>, log: bool, from_zero: bool) -> Self {
        let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
        if low > high {
            return Self { range: 0.0..1.0, log };
        }
        let distance = high - low;
        let space = if distance > 1e-9 * high.abs() {
            distance * 0.05
        } else if log || high == 0.0 {
            // One value: enough around it for round numbers.
            0.5
        } else {
            high.abs() * 0.5
        };
        // A linear axis of positive values begins at 0, unless most of it were empty.
        let at_zero = !log && low >= 0.0 && (from_zero || low < high / 2.0);
        let low = if at_zero { 0.0 } else { low - space };
        Self { range: low..high + space, log }
    }

    /// The value on the axis; `None` if there is no place for it.
    pub(super) fn scaled(&self, value: f64) -> Option<f64> {
        let scaled = scaled(value, self.log);
        scaled.is_finite().then_some(scaled)
    }

    /// The value on the axis, or the end of the axis if it is beyond that.
    pub(super) fn clipped(&self, value: f64) -> f64 {
        let scaled = scaled(value, self.log);
        // The logarithm of what is not positive is below everything.
        if scaled.is_nan() { self.range.start } else { scaled.clamp(self.range.start, self.range.end) }
    }

    /// How long it is.
    pub(super) fn length(&self) -> f64 {
        self.range.end - self.range.start
    }

    /// The label of a place on the axis.
    pub(super) fn label(&self, at: f64) -> String {
        number_short(if self.log { libm::pow(10.0, at) } else { at })
    }

    fn round_numbers(&self) -> Vec<f64> {
        let decades = libm::floor(self.range.start) as i32..=libm::floor(self.range.end) as i32;
        let divided = |division: &[f64]| -> Vec<f64> {
            let all = decades
                .clone()
                .flat_map(|decade| division.iter().map(move |&part| f64::from(decade) + libm::log10(part)));
            all.filter(|at| self.range.contains(at)).collect()
        };
        let mut marks = DIVISIONS.iter().map(|division| divided(division));
        let finest = divided(DIVISIONS[DIVISIONS.len() - 1]);
        marks.find(|marks| marks.len() >= ENOUGH).unwrap_or(finest)
    }
}

/// A value, or its logarithm.
pub(super) fn scaled(value: f64, log: bool) -> f64 {
    if log { libm::log10(value) } else { value }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        RangedCoordf64::from(self.range.clone()).map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if self.log {
            self.round_numbers()
        } else {
            RangedCoordf64::from(self.range.clone()).key_points(hint)
        }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// A number for an axis.
fn number_short(value: f64) -> String {
    match value.abs() {
        size if size >= 0.999e6 => format!("{}M", trimmed(value / 1e6)),
        size if size >= 0.999e4 => format!("{}k", trimmed(value / 1e3)),
        size if size >= 10.0 => format!("{value:.0}"),
        size if !(1e-12..0.01).contains(&size) => trimmed(value),
        _ => format!("{value:.1e}"),
    }
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(low: f64, high: f64) -> Vec<String> {
        let axis = Axis::over([low, high].into_iter().map(libm::log10), true, false);
        axis.round_numbers().into_iter().map(|at| axis.label(at)).collect()
    }

    #[test]
    fn logarithmic_axes_have_round_numbers() {
        assert_eq!(labels(10.0, 100_000.0), ["10", "100", "1000", "10k", "100k"]);
        assert_eq!(labels(250.0, 16_000.0), ["300", "1000", "3000", "10k"]);
        assert_eq!(labels(0.1, 300.0), ["0.1", "1", "10", "100"]);
        assert_eq!(labels(0.7, 0.7), ["0.25", "0.3", "0.4", "0.5", "0.6", "0.8", "1", "1.2", "1.5", "2"]);
        assert_eq!(labels(1.0, 4.5), ["1", "1.2", "1.5", "2", "2.5", "3", "4"]);
    }

    #[test]
    fn an_axis_has_room_for_its_values() {
        let from = |values: &[f64]| Axis::over(values.iter().copied(), false, false).range;
        assert_eq!(from(&[]), 0.0..1.0);
        assert_eq!(from(&[2.0, 10.0]), 0.0..10.4);
        assert!((from(&[0.5, 0.9]).start - 0.48).abs() < 1e-9, "nothing is there below");
        let log = Axis::over([0.0, 2.0].into_iter(), true, false);
        assert_eq!((from(&[4.0]), from(&[0.0]), from(&[-2.0])), (2.0..6.0, -0.5..0.5, -3.0..-1.0));
        assert!(from(&[1e-6, 2e-6]).end < 2.1e-6, "small ones, too");
        assert_eq!(log.scaled(0.0), None);
        assert!((log.clipped(0.0) + 0.1).abs() < 1e-9 && (log.clipped(1e9) - 2.1).abs() < 1e-9);
        assert!((log.clipped(-1.0) + 0.1).abs() < 1e-9);
    }

    #[test]
    fn numbers() {
        assert_eq!(
            [0.0, 0.25, 2.0, 20.0, 20_000.0, 2e6, 1e-4, 9_999.999_999].map(number_short),
            ["0", "0.25", "2", "20", "20k", "2M", "1.0e-4", "10k"]
        );
    }
}
