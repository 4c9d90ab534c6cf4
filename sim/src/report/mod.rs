//! The report of an experiment: tables and plots, as text, CSV and SVG.

mod axis;
mod lanes;
mod plot;

pub use lanes::{Lane, Lanes};
pub use plot::{Bars, Mark, Plot, Point, Series};

use crate::stats::Summary;
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
    /// Its pictures of what ran when.
    pub lanes: Vec<Lanes>,
    /// Notes for the reader, a line each.
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

    /// Takes the titles off the plots.
    pub fn remove_titles(&mut self) {
        self.plots.iter_mut().for_each(|plot| plot.title.clear());
        self.lanes.iter_mut().for_each(|lanes| lanes.title.clear());
    }

    /// Makes the folder, and sees whether a file can be written there.
    pub fn prepare(folder: &Path) -> Result<(), Error> {
        let probe = folder.join(".pvm-sim");
        let made = std::fs::create_dir_all(folder).map_err(|source| (folder, source));
        let written = made.and_then(|()| std::fs::write(&probe, "").map_err(|source| (folder, source)));
        let removed = written.and_then(|()| match std::fs::remove_file(&probe) {
            // Another simulation that begins here has removed it.
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err((folder, source)),
            _ => Ok(()),
        });
        removed.map_err(|(path, source)| Error::File { path: path.to_owned(), source })
    }

    /// Writes a CSV file per table and an SVG file per picture, and returns their names.
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
        let plots = self.plots.iter().map(|plot| (&plot.name, plot.svg()));
        let lanes = self.lanes.iter().map(|lanes| (&lanes.name, lanes.svg()));
        for (name, svg) in plots.chain(lanes) {
            let path = folder.join(name).with_extension("svg");
            std::fs::write(&path, svg?).map_err(|source| file(&path, source))?;
            written.push(path);
        }
        Ok(written)
    }
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A name, or a number that is as it is.
    Text(String),
    /// Measured values, over the seeds.
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
    /// The cell as text: the mean of measured values, and half its interval if there are enough seeds.
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
    /// Its title.
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

    /// The table as CSV: all digits, and halves of intervals in columns of their own.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_may_write_to_one_folder_at_a_time() {
        let folder = tempfile::tempdir().expect("a folder");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..200).for_each(|_| Report::prepare(folder.path()).expect("prepared")));
            }
        });
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
        let report = Report { tables: vec![table], plots: vec![Plot::default()], ..Report::default() };
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
    }
}
