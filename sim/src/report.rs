//! What an experiment gives: tables and plots, as text, CSV and SVG.

use crate::stats::Summary;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::FontTransform;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a report could not be written.
#[derive(Debug, Error)]
pub enum Error {
    /// A file cannot be written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A table cannot be written as CSV.
    #[error("{path}: {source}")]
    Csv {
        /// The file.
        path: PathBuf,
        /// Why.
        source: csv::Error,
    },
    /// A plot cannot be drawn.
    #[error("plot {name}: {reason}")]
    Plot {
        /// The plot.
        name: String,
        /// Why.
        reason: String,
    },
}

/// Everything that an experiment found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Its tables.
    pub tables: Vec<Table>,
    /// Its plots.
    pub plots: Vec<Plot>,
    /// What else whoever reads it should know, a line each.
    pub notes: Vec<String>,
}

impl Report {
    /// All tables as a person reads them.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for table in &self.tables {
            let _ = writeln!(text, "{}\n{}", table.title, table.text());
        }
        text
    }

    /// Makes the folder, and sees whether a file can be written there.
    pub fn prepare(folder: &Path) -> Result<(), Error> {
        let probe = folder.join(".pvm-sim");
        let made = std::fs::create_dir_all(folder).map_err(|source| (folder, source));
        let written = made.and_then(|()| std::fs::write(&probe, "").map_err(|source| (folder, source)));
        let removed = written.and_then(|()| std::fs::remove_file(&probe).map_err(|source| (folder, source)));
        removed.map_err(|(path, source)| Error::File { path: path.to_owned(), source })
    }

    /// Writes a CSV file per table and an SVG file per plot, and says which.
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, Error> {
        let file = |path: &Path, source| Error::File { path: path.to_owned(), source };
        std::fs::create_dir_all(folder).map_err(|source| file(folder, source))?;
        let mut written = Vec::new();
        for table in &self.tables {
            let path = folder.join(&table.name).with_extension("csv");
            let bytes = table.csv().map_err(|source| Error::Csv { path: path.clone(), source })?;
            std::fs::write(&path, bytes).map_err(|source| file(&path, source))?;
            written.push(path);
        }
        for plot in &self.plots {
            let path = folder.join(&plot.name).with_extension("svg");
            std::fs::write(&path, plot.svg()?).map_err(|source| file(&path, source))?;
            written.push(path);
        }
        Ok(written)
    }
}

/// What is in a table's cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A name, or a number that is as it is.
    Text(String),
    /// What was measured, over the seeds.
    Measured(Summary),
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Summary> for Cell {
    fn from(summary: Summary) -> Self {
        Self::Measured(summary)
    }
}

impl PartialEq<&str> for Cell {
    fn eq(&self, other: &&str) -> bool {
        let shown = self.to_string();
        shown == *other
    }
}

impl fmt::Display for Cell {
    /// As a person reads it: of what was measured the mean, and half its interval if there are seeds enough for one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Measured(summary) if summary.count() < 2 => f.write_str(&number(summary.mean())),
            Self::Measured(summary) => {
                write!(f, "{} ±{}", number(summary.mean()), number(summary.half_width()))
            }
        }
    }
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The name of its file.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// The columns' heads.
    pub head: Vec<String>,
    /// Its rows, as wide as the head.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    pub fn new(name: &str, title: &str, head: &[&str]) -> Self {
        let head = head.iter().map(|&head| head.to_owned()).collect();
        Self { name: name.to_owned(), title: title.to_owned(), head, rows: Vec::new() }
    }

    /// Another row.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    fn text(&self) -> String {
        let shown = self.rows.iter().map(|row| row.iter().map(Cell::to_string).collect());
        let all: Vec<Vec<String>> = std::iter::once(self.head.clone()).chain(shown).collect();
        let width = |column: usize| {
            all.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..self.head.len()).map(|column| width(column).unwrap_or(0)).collect();
        let mut text = String::new();
        for row in &all {
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                // Names to the left, numbers to the right.
                let _ = if column == 0 {
                    write!(text, "  {cell:<width$}")
                } else {
                    write!(text, "  {cell:>width$}")
                };
            }
            text.push('\n');
        }
        text
    }

    /// As programs read it: all digits, and if there are intervals their halves in columns of their own.
    fn csv(&self) -> Result<Vec<u8>, csv::Error> {
        let measured = |cell: &Cell| matches!(cell, Cell::Measured(summary) if summary.count() > 1);
        let with_half = |column| self.rows.iter().any(|row| row.get(column).is_some_and(measured));
        let halves: Vec<bool> = (0..self.head.len()).map(with_half).collect();
        let mut writer = csv::Writer::from_writer(Vec::new());
        for (name, &half) in self.head.iter().zip(&halves) {
            writer.write_field(name)?;
            if half {
                writer.write_field(format!("{name} ±"))?;
            }
        }
        writer.write_record(None::<&[u8]>)?;
        for row in &self.rows {
            for (cell, &half) in row.iter().zip(&halves) {
                let (value, spread) = match cell {
                    Cell::Text(text) => (text.clone(), String::new()),
                    Cell::Measured(summary) => (summary.mean().to_string(), summary.half_width().to_string()),
                };
                writer.write_field(value)?;
                if half {
                    writer.write_field(spread)?;
                }
            }
            writer.write_record(None::<&[u8]>)?;
        }
        writer.into_inner().map_err(|error| error.into_error().into())
    }
}

/// A number with four significant digits, for a table.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if !(1e-9..1000.0).contains(&size) => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        size if size >= 1.0 => 3,
        _ => 4,
    };
    format!("{value:.digits$}")
}

/// A measured point, with half the width of its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Where.
    pub x: f64,
    /// The mean over the seeds.
    pub y: f64,
    /// Half of the 95 % interval, 0 with one seed.
    pub half: f64,
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
#[derive(Clone, Debug)]
pub struct Mark {
    /// What it is.
    pub label: String,
    /// Where.
    pub x: f64,
    /// What the paper says.
    pub y: f64,
}

/// A plot of curves over a number.
#[derive(Clone, Debug, Default)]
pub struct Plot {
    /// The name of its file.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// The horizontal axis and its unit.
    pub x: String,
    /// The vertical axis and its unit.
    pub y: String,
    /// Whether the horizontal axis is logarithmic.
    pub log_x: bool,
    /// Whether the vertical axis is logarithmic.
    pub log_y: bool,
    /// The curves.
    pub series: Vec<Series>,
    /// The paper's values.
    pub marks: Vec<Mark>,
}

/// Colours that can be told apart, also by the colour-blind (Okabe and Ito's, and grey).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(60, 60, 60),
    RGBColor(150, 150, 150),
];

impl Plot {
    /// The plot as an SVG document.
    pub fn svg(&self) -> Result<String, Error> {
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, (920, 500)).into_drawing_area();
            self.draw(&area)
                .and_then(|()| area.present())
                .map_err(|error| Error::Plot { name: self.name.clone(), reason: error.to_string() })?;
        }
        Ok(text)
    }

    /// What is drawn of a value: its logarithm on a logarithmic axis.
    fn scaled(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        let scale = |value: f64, log: bool| if log { libm::log10(value) } else { value };
        let point = (scale(x, self.log_x), scale(y, self.log_y));
        (point.0.is_finite() && point.1.is_finite()).then_some(point)
    }

    fn range(&self, log: bool, pick: impl Fn((f64, f64)) -> f64) -> std::ops::Range<f64> {
        let points = self.series.iter().flat_map(|series| &series.points).map(|point| (point.x, point.y));
        let all = points.chain(self.marks.iter().map(|mark| (mark.x, mark.y)));
        let values = all.filter_map(|(x, y)| self.scaled(x, y)).map(pick);
        let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
        if low > high {
            return 0.0..1.0;
        }
        let space = ((high - low) * 0.05).max(1e-3);
        // A linear axis of positive values begins at 0.
        let low = if !log && low >= 0.0 { 0.0 } else { low - space };
        low..high + space
    }

    fn draw(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
    ) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
        area.fill(&WHITE)?;
        let (left, right) = area.split_horizontally(740);
        let mut chart = ChartBuilder::on(&left)
            .caption(&self.title, ("sans-serif", 18))
            .margin(12)
            .margin_right(24)
            .x_label_area_size(42)
            .y_label_area_size(70)
            .build_cartesian_2d(self.range(self.log_x, |p| p.0), self.range(self.log_y, |p| p.1))?;
        let label =
            |log: bool| move |value: &f64| number_short(if log { libm::pow(10.0, *value) } else { *value });
        chart
            .configure_mesh()
            .x_desc(&self.x)
            .y_desc(&self.y)
            .x_label_formatter(&label(self.log_x))
            .y_label_formatter(&label(self.log_y))
            .axis_desc_style(("sans-serif", 15))
            .y_label_style(("sans-serif", 13).into_font().transform(FontTransform::None))
            .light_line_style(WHITE)
            .draw()?;
        for (series, colour) in self.series.iter().zip(COLOURS.iter().cycle()) {
            let points = series.points.iter().filter_map(|point| self.scaled(point.x, point.y));
            chart.draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(3))?;
            let bars = series.points.iter().filter(|point| point.half > 0.0).filter_map(|point| {
                let (x, low) = self.scaled(point.x, point.y - point.half)?;
                Some(PathElement::new(vec![(x, low), self.scaled(point.x, point.y + point.half)?], *colour))
            });
            chart.draw_series(bars)?;
        }
        let marks = self.marks.iter().filter_map(|mark| Some((self.scaled(mark.x, mark.y)?, mark)));
        for (at, mark) in marks {
            let cross = EmptyElement::at(at) + Cross::new((0, 0), 6, BLACK.stroke_width(2));
            chart.draw_series([cross + Text::new(mark.label.clone(), (8, -14), ("sans-serif", 13))])?;
        }
        self.legend(&right)
    }

    /// Names beside the plot, where they cover nothing.
    fn legend(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
    ) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
        for (line, (series, colour)) in (0..).zip(self.series.iter().zip(COLOURS.iter().cycle())) {
            let y = 60 + 24 * line;
            area.draw(&PathElement::new(vec![(0, y), (22, y)], colour.stroke_width(3)))?;
            area.draw(&Text::new(series.name.clone(), (30, y - 7), ("sans-serif", 14)))?;
        }
        Ok(())
    }
}

/// A number for an axis.
fn number_short(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{}M", trimmed(value / 1e6)),
        size if size >= 1e4 => format!("{}k", trimmed(value / 1e3)),
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
        for text in ["A title", "load (jobs/s)", "time (s)", "first", "paper"] {
            assert!(svg.contains(text), "{text}");
        }
        assert_eq!(svg, plot().svg().expect("drawn"));
    }

    #[test]
    fn nothing_and_nonsense_can_be_drawn() {
        let mut empty = Plot { log_y: true, ..plot() };
        empty.series[0].points =
            vec![Point { x: 0.0, y: f64::NAN, half: 0.0 }, Point { x: 1.0, y: -1.0, half: 9.0 }];
        empty.marks.clear();
        assert!(empty.svg().is_ok());
        assert!(Plot::default().svg().is_ok());
    }

    #[test]
    fn tables_as_text_and_csv() {
        let mut table = Table::new("t", "Title", &["name", "value"]);
        table.row(["a, b".to_owned(), number(2.71928)]);
        assert_eq!(table.text(), "  name  value\n  a, b  2.719\n");
        assert_eq!(table.csv().expect("written"), b"name,value\n\"a, b\",2.719\n");
        let one: Summary = [2.71928].into_iter().collect();
        let two: Summary = [1.0, 2.0].into_iter().collect();
        let mut measured = Table::new("m", "Title", &["name", "value"]);
        measured.row([Cell::Text("a".to_owned()), one.into()]);
        assert_eq!(measured.csv().expect("written"), b"name,value\na,2.71928\n", "all digits");
        measured.row([Cell::Text("b".to_owned()), two.into()]);
        assert_eq!(measured.rows[1][1], "1.500 ±6.353");
        let text = String::from_utf8(measured.csv().expect("written")).expect("text");
        assert_eq!(
            text, "name,value,value ±\na,2.71928,0\nb,1.5,6.353\n",
            "for those who draw it themselves"
        );
        let folder = tempfile::tempdir().expect("a folder");
        let report = Report { tables: vec![table], plots: vec![plot()], notes: Vec::new() };
        assert_eq!(report.write(&folder.path().join("new")).expect("written").len(), 2);
        assert!(report.text().starts_with("Title\n"));
        assert!(Report::prepare(&folder.path().join("another")).is_ok());
        assert_eq!(std::fs::read_dir(folder.path().join("another")).expect("made").count(), 0);
        let early = Report::prepare(Path::new("/dev/null/x")).expect_err("no folder");
        let error = report.write(Path::new("/dev/null/x")).expect_err("no folder");
        assert_eq!(early.to_string(), error.to_string());
        assert!(error.to_string().contains("/dev/null/x"));
    }

    #[test]
    fn numbers() {
        assert_eq!(
            [0.0, 0.12345, 12.3456, 123.456, 12345.6].map(number),
            ["0", "0.1235", "12.35", "123.5", "12346"]
        );
        assert_eq!(
            [0.0, 0.25, 2.0, 20.0, 20_000.0, 2e6, 1e-4].map(number_short),
            ["0", "0.25", "2", "20", "20k", "2M", "1.0e-4"]
        );
    }
}
