//! Plots, as people would put them in a paper.

use super::Error;
use super::axis::{Axis, scaled};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::FontTransform;

/// A measured point, with half the length of its bar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Where.
    pub x: f64,
    /// The middle of what was measured there.
    pub y: f64,
    /// How far its bar reaches on both sides, 0 if there was one measurement.
    pub half: f64,
}

/// The meaning of bars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bars {
    /// The 95 % interval of the mean over the seeds.
    #[default]
    Confidence,
    /// Half the distance between the quartiles, on both sides of the median.
    Quartiles,
}

impl Bars {
    /// What the legend calls it.
    fn name(self) -> &'static str {
        match self {
            Self::Confidence => "95 % confidence",
            Self::Quartiles => "± half the quartile range",
        }
    }
}

/// A curve.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// What the legend calls it.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<Point>,
}

/// A value that the paper gives.
#[derive(Clone, Debug, Default)]
pub struct Mark {
    /// Its name.
    pub label: String,
    /// Where.
    pub x: f64,
    /// The paper's value.
    pub y: f64,
}

/// A plot of curves over a number.
#[derive(Clone, Debug, Default)]
pub struct Plot {
    /// The name of its file.
    pub name: String,
    /// Its title. Empty: none is drawn, for papers that have captions.
    pub title: String,
    /// The horizontal axis and its unit.
    pub x: String,
    /// The vertical axis and its unit.
    pub y: String,
    /// Whether the horizontal axis is logarithmic.
    pub log_x: bool,
    /// Whether the vertical axis is logarithmic.
    pub log_y: bool,
    /// The meaning of the bars at its points.
    pub bars: Bars,
    /// The curves.
    pub series: Vec<Series>,
    /// The paper's values.
    pub marks: Vec<Mark>,
}

/// Colours that can be distinguished, also by the colour-blind (Okabe and Ito's, two greys and a brown).
pub(super) const COLOURS: [RGBColor; 9] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(60, 60, 60),
    RGBColor(150, 150, 150),
    RGBColor(110, 60, 20),
];

/// The corners of the points' signs, in pixels; curves can be distinguished by them without colours.
const SIGNS: [&[(i32, i32)]; 4] = [
    &[(-2, -4), (2, -4), (4, -2), (4, 2), (2, 4), (-2, 4), (-4, 2), (-4, -2)],
    &[(-4, -4), (4, -4), (4, 4), (-4, 4)],
    &[(0, -5), (5, 4), (-5, 4)],
    &[(0, -6), (6, 0), (0, 6), (-6, 0)],
];

/// Width of the chart and height of everything, in pixels.
const CHART: i32 = 720;
const HEIGHT: u32 = 500;
/// Where names begin in the legend, its least width, and the width of a wide letter of it.
const NAMES: i32 = 34;
const LEGEND_MIN: i32 = 200;
pub(super) const LETTER: i32 = 9;

/// Bars may reach this many times the greatest value; the rest is not drawn.
const BARS_ROOM: f64 = 1.5;

pub(super) type Drawing<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type DrawingError = DrawingAreaErrorKind<std::io::Error>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;

/// How a curve is drawn.
#[derive(Clone, Copy)]
struct Look {
    colour: RGBColor,
    sign: &'static [(i32, i32)],
    /// Offset of its points, in pixels: bars at the same place must not hide each other.
    aside: i32,
}

/// Draws on an area of this size, in pixels, and returns the SVG document. An error contains the name.
pub(super) fn document(
    name: &str,
    size: (u32, u32),
    draw: impl FnOnce(&Drawing<'_>) -> Result<(), DrawingError>,
) -> Result<String, Error> {
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
    let drawn = draw(&area).and_then(|()| area.present());
    drop(area);
    drawn.map_err(|error| Error::Plot { name: name.to_owned(), reason: error.to_string() })?;
    Ok(text)
}

impl Plot {
    /// Curves over linear axes, which are named with their units: the horizontal one first.
    pub fn new(name: &str, title: &str, (x, y): (&str, &str), series: Vec<Series>) -> Self {
        let [name, title, x, y] = [name, title, x, y].map(str::to_owned);
        Self { name, title, x, y, series, ..Self::default() }
    }

    /// Medians of repeated measurements over logarithmic axes, with the quartiles as bars.
    pub fn measured(name: &str, title: &str, axes: (&str, &str), series: Vec<Series>) -> Self {
        Self { log_x: true, log_y: true, bars: Bars::Quartiles, ..Self::new(name, title, axes, series) }
    }

    /// The plot as an SVG document.
    pub fn svg(&self) -> Result<String, Error> {
        let size = ((CHART + self.legend_width()).cast_unsigned(), HEIGHT);
        document(&self.name, size, |area| self.draw(area))
    }

    /// Room for the longest name. How wide it is depends on the viewer's font, so letters count as wide ones.
    fn legend_width(&self) -> i32 {
        let names = self.series.iter().map(|series| series.name.chars().count() + ": 0".len());
        let longest = names.max().unwrap_or(0) as i32;
        (NAMES + LETTER * longest).max(LEGEND_MIN)
    }

    /// The curves and how they are drawn.
    fn curves(&self) -> impl Iterator<Item = (&Series, Look)> {
        let middle = self.series.len() as i32 - 1;
        let apart = if self.has_bars() { 16 / (middle + 1).max(3) } else { 0 };
        self.series.iter().enumerate().map(move |(number, series)| {
            let (colour, sign) = (COLOURS[number % COLOURS.len()], SIGNS[number % SIGNS.len()]);
            (series, Look { colour, sign, aside: (2 * number as i32 - middle) * apart / 2 })
        })
    }

    fn has_bars(&self) -> bool {
        self.points().any(|point| point.half > 0.0)
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        self.series.iter().flat_map(|series| &series.points)
    }

    fn x_axis(&self) -> Axis {
        let all = self.points().map(|point| point.x).chain(self.marks.iter().map(|mark| mark.x));
        Axis::over(scaled_all(all, self.log_x), self.log_x, false)
    }

    /// With room for the bars upwards, unless they are so long that the curves would be flat below them.
    fn y_axis(&self) -> Axis {
        let all = || self.points().map(|point| point.y).chain(self.marks.iter().map(|mark| mark.y));
        let room = BARS_ROOM * all().fold(0.0, f64::max);
        let bars = self.points().map(|point| (point.y + point.half).min(room.max(point.y)));
        Axis::over(scaled_all(all().chain(bars), self.log_y), self.log_y, true)
    }

    fn draw(&self, area: &Drawing<'_>) -> Result<(), DrawingError> {
        area.fill(&WHITE)?;
        let (left, right) = area.split_horizontally(CHART);
        let (x, y) = (self.x_axis(), self.y_axis());
        let mut builder = ChartBuilder::on(&left);
        if !self.title.is_empty() {
            builder.caption(&self.title, ("sans-serif", 18));
        }
        let mut chart = builder
            .margin(12)
            .margin_right(24)
            .x_label_area_size(46)
            .y_label_area_size(70)
            .build_cartesian_2d(x.clone(), y.clone())?;
        chart
            .configure_mesh()
            .x_desc(&self.x)
            .y_desc(&self.y)
            .x_label_formatter(&|at| x.label(*at))
            .y_label_formatter(&|at| y.label(*at))
            .axis_desc_style(("sans-serif", 15))
            .x_label_style(("sans-serif", 13))
            .y_label_style(("sans-serif", 13).into_font().transform(FontTransform::None))
            .light_line_style(WHITE)
            .bold_line_style(BLACK.mix(0.12))
            .draw()?;
        for (series, look) in self.curves() {
            bars(&mut chart, &series.points, look, (&x, &y))?;
            curve(&mut chart, &series.points, look, (&x, &y))?;
        }
        for mark in &self.marks {
            let (Some(at_x), Some(at_y)) = (x.scaled(mark.x), y.scaled(mark.y)) else { continue };
            let cross = EmptyElement::at((at_x, at_y)) + Cross::new((0, 0), 6, BLACK.stroke_width(2));
            chart.draw_series([cross + Text::new(mark.label.clone(), (9, -6), ("sans-serif", 13))])?;
        }
        self.legend(&right)
    }

    /// Names next to the plot, where they cover nothing.
    fn legend(&self, area: &Drawing<'_>) -> Result<(), DrawingError> {
        let mut y = 60;
        for (series, Look { colour, sign, .. }) in self.curves() {
            let nothing = self.log_y && series.points.iter().all(|point| point.y <= 0.0);
            let name = if nothing { format!("{}: 0", series.name) } else { series.name.clone() };
            area.draw(&PathElement::new(vec![(0, y), (26, y)], colour.stroke_width(2)))?;
            area.draw(&(EmptyElement::at((13, y)) + Polygon::new(sign.to_vec(), colour.filled())))?;
            area.draw(&Text::new(name, (NAMES, y - 7), ("sans-serif", 14)))?;
            y += 24;
        }
        if self.has_bars() {
            let meaning = format!("bars: {}", self.bars.name());
            area.draw(&Text::new(meaning, (0, y + 6), ("sans-serif", 12)))?;
        }
        Ok(())
    }
}

/// The values that have a place on an axis.
fn scaled_all(values: impl Iterator<Item = f64>, log: bool) -> impl Iterator<Item = f64> {
    values.map(move |value| scaled(value, log)).filter(|value| value.is_finite())
}

/// Where a point is drawn, with its offset; `None` if it is outside the axes.
fn place(chart: &Chart<'_, '_>, point: Point, look: Look, axes: (&Axis, &Axis)) -> Option<(f64, f64)> {
    let pixel = axes.0.length() / f64::from(chart.plotting_area().dim_in_pixel().0.max(1));
    Some((axes.0.scaled(point.x)? + f64::from(look.aside) * pixel, axes.1.scaled(point.y)?))
}

fn curve(
    chart: &mut Chart<'_, '_>,
    points: &[Point],
    look: Look,
    axes: (&Axis, &Axis),
) -> Result<(), DrawingError> {
    let places: Vec<(f64, f64)> =
        points.iter().filter_map(|&point| place(chart, point, look, axes)).collect();
    chart.draw_series(LineSeries::new(places.iter().copied(), look.colour.stroke_width(2)))?;
    let sign = |at| EmptyElement::at(at) + Polygon::new(look.sign.to_vec(), look.colour.filled());
    chart.draw_series(places.into_iter().map(sign))?;
    Ok(())
}

/// The intervals, as far as they are within the axes. An end that is not drawn is beyond them.
fn bars(
    chart: &mut Chart<'_, '_>,
    points: &[Point],
    look: Look,
    axes: (&Axis, &Axis),
) -> Result<(), DrawingError> {
    let style = look.colour.mix(0.7).stroke_width(1);
    for &point in points.iter().filter(|point| point.half > 0.0) {
        let Some((x, _)) = place(chart, point, look, axes) else { continue };
        let ends = [point.y - point.half, point.y + point.half];
        let [low, high] = ends.map(|value| (x, axes.1.clipped(value)));
        chart.draw_series([PathElement::new(vec![low, high], style)])?;
        for value in ends {
            let Some(y) = axes.1.scaled(value).filter(|&y| (y - axes.1.clipped(value)).abs() < 1e-12) else {
                continue;
            };
            let cap = EmptyElement::at((x, y)) + PathElement::new(vec![(-3, 0), (3, 0)], style);
            chart.draw_series([cap])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot() -> Plot {
        let points = [(1.0, 10.0), (10.0, 100.0)].map(|(x, y)| Point { x, y, half: 1.0 }).to_vec();
        Plot {
            name: "p".into(),
            title: "A title".into(),
            x: "load (jobs/s)".into(),
            y: "time (s)".into(),
            log_x: true,
            series: vec![Series { name: "first".into(), points }],
            marks: vec![Mark { label: "paper".into(), x: 5.0, y: 50.0 }],
            ..Plot::default()
        }
    }

    #[test]
    fn a_plot_has_all_that_a_paper_needs() {
        let svg = plot().svg().expect("drawn");
        for text in ["A title", "load (jobs/s)", "time (s)", "first", "paper", "95 % confidence"] {
            assert!(svg.contains(text), "{text}");
        }
        assert_eq!(svg, plot().svg().expect("drawn"));
    }

    #[test]
    fn a_plot_without_a_title_has_none_and_a_long_name_has_room() {
        let mut plot = Plot { title: String::new(), ..plot() };
        let svg = plot.svg().expect("drawn");
        assert!(!svg.contains("A title") && svg.contains("<svg width=\"920\""), "{svg:.200}");
        plot.series[0].name = "hierarchical, a committee of several on top".into();
        let svg = plot.svg().expect("drawn");
        assert!(svg.contains("<svg width=\"1168\""), "{svg:.200}");
    }

    #[test]
    fn a_plot_explains_its_bars() {
        let svg = Plot { bars: Bars::Quartiles, ..plot() }.svg().expect("drawn");
        assert!(svg.contains("bars: ± half the quartile range") && !svg.contains("confidence"));
    }

    #[test]
    fn as_many_curves_as_a_benchmark_has_differ_in_colour() {
        let curves = vec![Series::default(); 9];
        let plot = Plot { series: curves, ..plot() };
        let mut colours: Vec<_> = plot.curves().map(|(_, look)| look.colour.rgb()).collect();
        colours.sort_unstable();
        colours.dedup();
        assert_eq!(colours.len(), 9);
    }

    #[test]
    fn bars_that_reach_below_a_logarithmic_axis_end_there() {
        let lines = |half: f64| {
            let mut plot = Plot { log_y: true, ..plot() };
            plot.series[0].points[0].half = half;
            plot.svg().expect("drawn").matches("<polyline").count()
        };
        assert_eq!(lines(0.5) - lines(0.0), 3, "a line and its two ends");
        assert_eq!(lines(50.0) - lines(0.0), 2, "the lower end is nowhere");
    }

    #[test]
    fn bars_are_drawn_to_their_ends_unless_these_are_far_away() {
        let end = |half: f64| {
            let mut plot = plot();
            plot.series[0].points[1].half = half;
            plot.y_axis().clipped(f64::MAX)
        };
        assert!(end(1.0) < 110.0, "{}", end(1.0));
        assert!(end(40.0) > 140.0 && end(40.0) < 150.0, "{}", end(40.0));
        assert!(end(1e6) > 150.0 && end(1e6) < 160.0, "{}", end(1e6));
    }

    #[test]
    fn nothing_and_nonsense_can_be_drawn() {
        let mut empty = Plot { log_y: true, ..plot() };
        empty.series[0].points =
            vec![Point { x: 0.0, y: f64::NAN, half: 0.0 }, Point { x: 1.0, y: -1.0, half: 9.0 }];
        empty.marks.clear();
        assert!(empty.svg().is_ok());
        assert!(Plot::default().svg().is_ok());
        empty.series[0].points = vec![Point { x: 1.0, y: 0.0, half: 0.0 }];
        assert!(empty.svg().expect("drawn").contains("first: 0"), "what cannot be on the axis is said");
    }
}
