//! Tables of measurements, written into the pages of `docs` from the data in `docs/measurements`.
//!
//! A page has a place for each table: a line that names it, and a line that ends it. What stands between them is written by
//! [`pages`].

use crate::files;
use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// The folder of the data.
pub const FOLDER: &str = "docs/measurements";
const END: &str = "<!-- end of measured -->\n";

/// A file of the folder.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    /// What the tables have in common: machine, date and so on, unless a table says otherwise.
    #[serde(default)]
    run: BTreeMap<String, Run>,
    #[serde(default, rename = "table")]
    tables: Vec<Table>,
}

/// Where, when and how often something was measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    /// Processor and system, and what else it did.
    machine: String,
    /// The day, as `2026-11-23`.
    date: String,
    /// The version that was measured.
    commit: String,
    /// Of what the values are medians, and how far these lie apart.
    spread: String,
}

/// Values in rows and columns.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// By which pages name it.
    id: String,
    /// What was measured.
    title: String,
    /// Of all values that have no unit of their own.
    #[serde(default)]
    unit: String,
    /// How to repeat it.
    command: String,
    /// Name of the run it is from.
    run: String,
    /// In place of the run's.
    spread: Option<String>,
    /// Headings; the first is that of the rows.
    columns: Vec<String>,
    /// Pairs of columns whose quotient is shown.
    #[serde(default)]
    ratios: Vec<(String, String)>,
    /// Values as they were printed, one for each column; `–` for none.
    rows: Vec<Vec<String>>,
    /// What a reader has to know besides.
    #[serde(default)]
    note: String,
}

/// The pages that have places for tables, each by its path below the root, with the tables brought up to date.
pub fn pages(root: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let tables = load(root)?;
    let mut placed = BTreeSet::new();
    let mut pages = Vec::new();
    for path in files(&root.join("docs"), "md")? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("docs/{name}");
        let text = crate::read(root, &name)?;
        let filled = fill(&text, &tables, &mut placed).with_context(|| name.clone())?;
        if let Some(filled) = filled {
            pages.push((name, filled));
        }
    }
    let unplaced: Vec<&String> = tables.keys().filter(|id| !placed.contains(*id)).collect();
    ensure!(unplaced.is_empty(), "{FOLDER}: on no page: {unplaced:?}");
    Ok(pages)
}

/// The page, in `docs`, on which each table is.
pub fn places(root: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut places = BTreeMap::new();
    for path in files(&root.join("docs"), "md")? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = crate::read(root, &format!("docs/{name}"))?;
        let marks = text.split("<!-- measured: ").skip(1).filter_map(|mark| mark.split_once(" -->"));
        places.extend(marks.map(|(id, _)| (id.to_owned(), name.clone())));
    }
    Ok(places)
}

/// The text of each table.
fn load(root: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut texts = BTreeMap::new();
    for path in files(&root.join(FOLDER), "toml")? {
        let shown = || path.display().to_string();
        let text = std::fs::read_to_string(&path).with_context(shown)?;
        let data: Data = toml::from_str(&text).with_context(shown)?;
        for table in data.tables {
            let text = data
                .run
                .get(&table.run)
                .with_context(|| format!("no run {}", table.run))
                .and_then(|run| show(&table, run))
                .with_context(|| format!("{}: {}", shown(), table.id))?;
            ensure!(texts.insert(table.id.clone(), text).is_none(), "two tables are called {}", table.id);
        }
    }
    Ok(texts)
}

/// A page with its tables; `None` if it has no place for any.
fn fill(
    page: &str,
    tables: &BTreeMap<String, String>,
    placed: &mut BTreeSet<String>,
) -> anyhow::Result<Option<String>> {
    let (mut out, mut rest, mut any) = (String::new(), page, false);
    while let Some((before, from_mark)) = rest.split_once("<!-- measured: ") {
        let (id, behind) = from_mark.split_once(" -->\n").context("a mark does not end")?;
        let table = tables.get(id).with_context(|| format!("there is no table {id}"))?;
        let (_, after) =
            behind.split_once(END).with_context(|| format!("the place for {id} does not end"))?;
        let _ = write!(out, "{before}<!-- measured: {id} -->\n{table}{END}");
        placed.insert(id.to_owned());
        (rest, any) = (after, true);
    }
    out.push_str(rest);
    Ok(any.then_some(out))
}

fn show(table: &Table, run: &Run) -> anyhow::Result<String> {
    let column = |name: &String| {
        let found = table.columns.iter().position(|column| column == name);
        found.with_context(|| format!("there is no column {name}"))
    };
    let pairs = table.ratios.iter().map(|(a, b)| Ok((column(a)?, column(b)?)));
    let pairs = pairs.collect::<anyhow::Result<Vec<_>>>()?;
    let named = table.ratios.iter().map(|(a, b)| format!("{a}:{b}"));
    let headings: Vec<String> = table.columns.iter().cloned().chain(named).collect();

    let unit = if table.unit.is_empty() { String::new() } else { format!(", {}", table.unit) };
    let mut out = format!("{}{unit}:\n\n", table.title);
    let _ = writeln!(out, "| {} |\n|{}", headings.join(" | "), "---|".repeat(headings.len()));
    for row in &table.rows {
        ensure!(row.len() == table.columns.len(), "{row:?} has not one value per column");
        let ratios = pairs.iter().map(|&(a, b)| ratio(&row[a], &row[b]));
        let ratios = ratios.collect::<anyhow::Result<Vec<_>>>()?;
        let cells: Vec<&str> = row.iter().chain(&ratios).map(String::as_str).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    let spread = table.spread.as_ref().unwrap_or(&run.spread);
    let note = if table.note.is_empty() { String::new() } else { format!("{}\n\n", table.note) };
    let (command, machine, date, commit) = (&table.command, &run.machine, &run.date, &run.commit);
    let _ = writeln!(out, "\n{note}<sub>{spread}. `{command}`, {date}, version {commit}, {machine}.</sub>\n");
    Ok(out)
}

/// One value over another, with two or three digits that mean something.
fn ratio(a: &str, b: &str) -> anyhow::Result<String> {
    let (Some(a), Some(b)) = (number(a)?, number(b)?) else { return Ok("–".to_owned()) };
    let ratio = match b {
        // Two that are 0 are alike.
        0.0 if a == 0.0 => 1.0,
        0.0 => return Ok("–".to_owned()),
        b => a / b,
    };
    let digits = match ratio {
        ..0.095 => 3,
        ..1.995 => 2,
        ..9.95 => 1,
        _ => 0,
    };
    Ok(format!("{ratio:.digits$}"))
}

fn number(text: &str) -> anyhow::Result<Option<f64>> {
    if text == "–" {
        return Ok(None);
    }
    match text.replace(',', "").parse() {
        Ok(number) if number >= 0.0 => Ok(Some(number)),
        _ => bail!("{text} is no number"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[[&str; 3]]) -> Table {
        Table {
            id: "t".into(),
            title: "Time".into(),
            unit: "µs".into(),
            command: "measure it".into(),
            run: "r".into(),
            spread: None,
            columns: ["size", "ours", "theirs"].map(str::to_owned).into(),
            ratios: vec![("ours".into(), "theirs".into())],
            rows: rows.iter().map(|row| row.map(str::to_owned).into()).collect(),
            note: String::new(),
        }
    }

    fn run() -> Run {
        let text = |text: &str| text.to_owned();
        Run { machine: text("m"), date: text("d"), commit: text("c"), spread: text("s") }
    }

    #[test]
    fn ratios_are_computed_and_missing_values_have_none() {
        let shown = show(&table(&[["1 B", "0.2", "1,000"], ["2 B", "3", "–"]]), &run()).unwrap();
        assert!(
            shown.starts_with("Time, µs:\n\n| size | ours | theirs | ours:theirs |\n|---|---|---|---|\n")
        );
        assert!(shown.contains("| 1 B | 0.2 | 1,000 | 0.000 |\n| 2 B | 3 | – | – |\n"), "{shown}");
        assert!(shown.contains("<sub>s. `measure it`, d, version c, m.</sub>"), "{shown}");
        let ratios = [("1", "2"), ("3", "2"), ("5", "2"), ("50", "2")].map(|(a, b)| ratio(a, b).unwrap());
        assert_eq!(ratios, ["0.50", "1.50", "2.5", "25"]);
        assert_eq!([ratio("0", "0").unwrap(), ratio("1", "0").unwrap()], ["1.00", "–"]);
    }

    #[test]
    fn combinations_that_cannot_be_shown_are_refused() {
        assert!(show(&table(&[["1 B", "fast", "1"]]), &run()).is_err());
        let short = Table { rows: vec![vec!["1 B".into()]], ..table(&[]) };
        assert!(show(&short, &run()).is_err());
        let unknown = Table { ratios: vec![("ours".into(), "who".into())], ..table(&[]) };
        assert!(show(&unknown, &run()).is_err());
    }

    #[test]
    fn places_are_filled_and_the_rest_stays() {
        let tables = BTreeMap::from([("t".to_owned(), "new\n".to_owned())]);
        let mut placed = BTreeSet::new();
        let page = format!("a\n<!-- measured: t -->\nold\n{END}b\n");
        let filled = fill(&page, &tables, &mut placed).unwrap().unwrap();
        assert_eq!(filled, page.replace("old", "new"));
        assert!(placed.contains("t"));
        assert_eq!(fill("no place", &tables, &mut placed).unwrap(), None);
        assert!(fill("<!-- measured: u -->\n", &tables, &mut placed).is_err());
        assert!(fill("<!-- measured: t -->\nno end\n", &tables, &mut placed).is_err());
    }
}
