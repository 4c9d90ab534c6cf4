//! What ran when, in lanes: a bar for each time in which something ran, and a shade for each in which nothing may.

use super::Error;
use super::plot::{COLOURS, Drawing, DrawingError, LETTER, document};
use plotters::prelude::*;

/// A picture of lanes over time.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    /// The name of its file.
    pub name: String,
    /// Its title. Empty: none is drawn, for papers that have captions.
    pub title: String,
    /// The axis of time, with its unit.
    pub x: String,
    /// Where time begins and ends.
    pub from: f64,
    /// The same.
    pub to: f64,
    /// What runs: the names of the bars' colours.
    pub names: Vec<String>,
    /// What a shade means.
    pub shade: String,
    /// From top to bottom.
    pub lanes: Vec<Lane>,
}

/// A lane.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    /// Its name.
    pub name: String,
    /// From when until when something ran, and its place in the names.
    pub bars: Vec<(f64, f64, usize)>,
    /// From when until when nothing may.
    pub shades: Vec<(f64, f64)>,
}

/// Sizes in pixels: of the chart's width, of a lane, and of what is around.
const CHART: i32 = 760;
const LANE: i32 = 44;
const TOP: i32 = 44;
const BOTTOM: i32 = 56;
const LEFT: i32 = 130;
const RIGHT: i32 = 24;
/// Between a lane and its bars.
const EDGE: i32 = 6;
const SHADE: RGBColor = RGBColor(225, 225, 225);
/// The approximate number of labels at the axis.
const TICKS: f64 = 8.0;

impl Lanes {
    /// The picture as an SVG document.
    pub fn svg(&self) -> Result<String, Error> {
        let longest = self.names.iter().chain([&self.shade]).map(|name| name.chars().count()).max();
        let width = LEFT + CHART + RIGHT + 30 + LETTER * longest.unwrap_or(0) as i32;
        let height = TOP + LANE * self.lanes.len().max(self.names.len()) as i32 + BOTTOM;
        document(&self.name, (width.cast_unsigned(), height.cast_unsigned()), |area| self.draw(area))
    }

    /// Where a time is; those outside are at the edge.
    fn at(&self, time: f64) -> i32 {
        let part = (time - self.from) / (self.to - self.from).max(f64::MIN_POSITIVE);
        LEFT + (part.clamp(0.0, 1.0) * f64::from(CHART)).round() as i32
    }

    fn draw(&self, area: &Drawing<'_>) -> Result<(), DrawingError> {
        area.fill(&WHITE)?;
        area.draw(&Text::new(self.title.clone(), (LEFT, 12), ("sans-serif", 18)))?;
        let bottom = TOP + LANE * self.lanes.len() as i32;
        for (lane, y) in self.lanes.iter().zip((TOP..).step_by(LANE as usize)) {
            area.draw(&Text::new(lane.name.clone(), (12, y + LANE / 2 - 8), ("sans-serif", 14)))?;
            for &(from, to) in &lane.shades {
                area.draw(&rectangle((self.at(from), self.at(to)), (y, y + LANE), SHADE))?;
            }
            for &(from, to, name) in &lane.bars {
                let (left, right) = (self.at(from), self.at(to));
                if left < right {
                    let colour = COLOURS[name % COLOURS.len()];
                    area.draw(&rectangle((left, right), (y + EDGE, y + LANE - EDGE), colour))?;
                }
            }
            let line = vec![(LEFT, y + LANE), (LEFT + CHART, y + LANE)];
            area.draw(&PathElement::new(line, BLACK.mix(0.3).stroke_width(1)))?;
        }
        self.axis(area, bottom)?;
        self.legend(area)
    }

    fn axis(&self, area: &Drawing<'_>, y: i32) -> Result<(), DrawingError> {
        let step = round_step((self.to - self.from) / TICKS);
        let decimals = (-libm::floor(libm::log10(step))).max(0.0) as usize;
        let mut tick = libm::ceil(self.from / step);
        while tick * step <= self.to {
            let x = self.at(tick * step);
            area.draw(&PathElement::new(vec![(x, y), (x, y + 5)], BLACK.stroke_width(1)))?;
            let label = format!("{:.decimals$}", tick * step);
            area.draw(&Text::new(label, (x - 8, y + 8), ("sans-serif", 13)))?;
            tick += 1.0;
        }
        area.draw(&Text::new(self.x.clone(), (LEFT + CHART / 2 - 30, y + 30), ("sans-serif", 15)))
    }

    fn legend(&self, area: &Drawing<'_>) -> Result<(), DrawingError> {
        let shade = (!self.shade.is_empty()).then_some((SHADE, &self.shade));
        let names = self.names.iter().enumerate().map(|(at, name)| (COLOURS[at % COLOURS.len()], name));
        for ((colour, name), y) in names.chain(shade).zip((TOP + 8..).step_by(24)) {
            let x = LEFT + CHART + RIGHT;
            area.draw(&rectangle((x, x + 18), (y, y + 12), colour))?;
            area.draw(&Text::new(name.clone(), (x + 26, y - 2), ("sans-serif", 14)))?;
        }
        Ok(())
    }
}

fn rectangle(
    (left, right): (i32, i32),
    (top, bottom): (i32, i32),
    colour: RGBColor,
) -> Rectangle<(i32, i32)> {
    Rectangle::new([(left, top), (right, bottom)], colour.filled())
}

/// The least of 1, 2, 5, 10, … times a power of ten that is no less.
fn round_step(least: f64) -> f64 {
    let least = least.max(f64::MIN_POSITIVE);
    let power = libm::pow(10.0, libm::floor(libm::log10(least)));
    [1.0, 2.0, 5.0].map(|times| times * power).into_iter().find(|&step| step >= least).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes() -> Lanes {
        let lane =
            Lane { name: "h1".into(), bars: vec![(0.0, 0.5, 0), (0.5, 9.0, 1)], shades: vec![(1.0, 2.0)] };
        Lanes {
            name: "rows".into(),
            title: "Rows".into(),
            x: "time (s)".into(),
            from: 0.0,
            to: 4.0,
            names: vec!["team a".into(), "team b".into()],
            shade: "owner".into(),
            lanes: vec![lane, Lane { name: "h2".into(), ..Lane::default() }],
        }
    }

    #[test]
    fn lanes_have_names_times_and_a_legend() {
        let svg = lanes().svg().expect("drawn");
        for text in ["Rows", "h1", "h2", "time (s)", "team a", "team b", "owner", "0.5", "4.0"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        // Two bars, a shade, three signs of the legend; the paper below.
        assert_eq!(svg.matches("<rect").count(), 7, "{svg}");
        assert!(Lanes::default().svg().is_ok());
    }

    #[test]
    fn times_at_the_axis_are_round() {
        for (least, step) in [(0.3, 0.5), (0.5, 0.5), (0.6, 1.0), (14.0, 20.0)] {
            assert!((round_step(least) - step).abs() < 1e-9, "{least}");
        }
    }
}
