//! Tables that can be sorted and filtered, and their text.

use std::cmp::Ordering;
use std::fmt::Write as _;

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its title.
    pub title: &'static str,
    /// Its width. Longer cells are cut on a screen; in a text they move what follows.
    pub width: u16,
    /// Whether larger values come first when the table is sorted by it: so it is with numbers.
    pub is_number: bool,
    /// What it shows, with the unit.
    pub about: &'static str,
}

/// A cell: what is shown, and what rows are sorted by.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// What is shown.
    pub text: String,
    /// A number's value; lowest for a number that is not known.
    key: Option<f64>,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// What its rows are.
    pub title: &'static str,
    /// Its columns.
    pub columns: &'static [Column],
    /// Its rows, with a cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

/// By which column a table is sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The column; `None`: as the machine lists the rows.
    pub column: Option<usize>,
    /// Whether the last comes first.
    pub is_reversed: bool,
}

/// A column of text.
pub const fn text(title: &'static str, width: u16, about: &'static str) -> Column {
    Column { title, width, is_number: false, about }
}

/// A column of numbers.
pub const fn number(title: &'static str, width: u16, about: &'static str) -> Column {
    Column { title, width, is_number: true, about }
}

impl Cell {
    /// A text. Control characters, which could be anything to a terminal, are replaced.
    pub fn text(text: &str) -> Self {
        let text = if text.is_empty() { "-" } else { text };
        Self { text: text.chars().map(|c| if c.is_control() { '?' } else { c }).collect(), key: None }
    }

    /// A number, and how it is shown.
    pub fn number(value: Option<f64>, show: impl Fn(f64) -> String) -> Self {
        Self {
            text: value.map_or_else(|| "-".to_owned(), show),
            key: Some(value.unwrap_or(f64::NEG_INFINITY)),
        }
    }

    /// A count.
    pub fn count(value: usize) -> Self {
        Self::number(Some(value as f64), |_| value.to_string())
    }

    /// A part, in thousandths, as percent.
    pub fn percent(thousandths: Option<u64>) -> Self {
        Self::number(thousandths.map(|value| value as f64 / 10.0), |value| format!("{value:.1}"))
    }

    /// A rate, or another number with one decimal place.
    pub fn rate(value: Option<f64>) -> Self {
        Self::number(value, |value| format!("{value:.1}"))
    }

    fn cmp(&self, other: &Self) -> Ordering {
        match (self.key, other.key) {
            // The greatest number first.
            (Some(one), Some(two)) => two.total_cmp(&one),
            _ => self.text.cmp(&other.text),
        }
    }
}

/// A large number in few characters: `950`, `12.3k`, `4.5M`.
pub fn short(value: f64) -> String {
    const UNITS: [&str; 6] = ["", "k", "M", "G", "T", "P"];
    let (mut value, mut unit) = (value, 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 || value >= 99.95 {
        format!("{value:.0}{}", UNITS[unit])
    } else {
        format!("{value:.1}{}", UNITS[unit])
    }
}

impl Table {
    /// The rows to show: those with the text in one of their cells, in this order.
    pub fn shown(&self, filter: &str, order: Order) -> Vec<&[Cell]> {
        let wanted = filter.to_lowercase();
        let has = |row: &&Vec<Cell>| {
            wanted.is_empty() || row.iter().any(|cell| cell.text.to_lowercase().contains(&wanted))
        };
        let mut rows: Vec<&[Cell]> = self.rows.iter().filter(has).map(Vec::as_slice).collect();
        if let Some(column) = order.column {
            // Rows that are equal in the column stay in the machine's order.
            rows.sort_by(|one, two| match (one.get(column), two.get(column)) {
                (Some(one), Some(two)) => one.cmp(two),
                _ => Ordering::Equal,
            });
        }
        if order.is_reversed {
            rows.reverse();
        }
        rows
    }

    /// The table as text: a line of titles, and one for each row.
    pub fn text(&self) -> String {
        let mut text = line(self.columns, self.columns.iter().map(|column| column.title));
        for row in &self.rows {
            text.push_str(&line(self.columns, row.iter().map(|cell| &*cell.text)));
        }
        text
    }
}

/// A line of a text. What comes last is not padded.
fn line<'a>(columns: &[Column], cells: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::new();
    for (column, cell) in columns.iter().zip(cells) {
        let width = usize::from(column.width);
        let _ =
            if column.is_number { write!(text, "{cell:>width$} ") } else { write!(text, "{cell:<width$} ") };
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[text("NAME", 6, "its name"), number("CPU%", 6, "its CPU time")];

    fn table() -> Table {
        let row = |name, cpu| vec![Cell::text(name), Cell::percent(cpu)];
        let rows =
            vec![row("bee", Some(5)), row("ant", Some(1005)), row("cow\x1b", None), row("asp", Some(5))];
        Table { title: "Animals", columns: COLUMNS, rows }
    }

    fn names(filter: &str, column: Option<usize>, is_reversed: bool) -> Vec<String> {
        let table = table();
        let rows = table.shown(filter, Order { column, is_reversed });
        rows.iter().map(|row| row[0].text.clone()).collect()
    }

    #[test]
    fn numbers_are_sorted_from_the_greatest_and_texts_from_a() {
        assert_eq!(names("", None, false), ["bee", "ant", "cow?", "asp"]);
        assert_eq!(names("", Some(0), false), ["ant", "asp", "bee", "cow?"]);
        assert_eq!(names("", Some(1), false), ["ant", "bee", "asp", "cow?"]);
        assert_eq!(names("", Some(1), true), ["cow?", "asp", "bee", "ant"]);
        assert_eq!(names("", Some(7), false).len(), 4, "no such column");
    }

    #[test]
    fn a_filter_looks_into_all_cells_and_ignores_case() {
        assert_eq!(names("A", None, false), ["ant", "asp"]);
        assert_eq!(names("100.5", None, false), ["ant"]);
        assert!(names("zebra", None, false).is_empty());
    }

    #[test]
    fn a_text_has_columns_of_at_least_their_width() {
        assert_eq!(
            table().text(),
            "NAME     CPU%\nbee       0.5\nant     100.5\ncow?        -\nasp       0.5\n"
        );
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 9.6, 999.0, 1000.0, 12_345.0, 99_960.0, 999_600.0, 4.5e6, 1e30];
        let texts = shown.map(short);
        assert_eq!(texts[..8], ["0", "10", "999", "1.0k", "12.3k", "100k", "1.0M", "4.5M"]);
        assert!(texts[8].ends_with('P'));
    }
}
