//! The generated parts of `docs/simulated-and-live.md`.

use crate::report::Computer;
use anyhow::{Context, Result, ensure};
use pvm_sim::report::Plot;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Below `docs`.
const PICTURES: &str = "docs/simulated-and-live";

/// A table, and the pictures that go with it.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// Its name: that of its file, and of its place on the page.
    pub name: &'static str,
    /// The measured quantity.
    pub title: &'static str,
    /// Of all values that have no unit of their own.
    pub unit: &'static str,
    /// The command that writes it.
    pub command: &'static str,
    /// Of what the values are medians, if not of all rounds.
    pub spread: Option<String>,
    /// The heads.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
    /// Pairs of columns whose quotient is shown.
    pub ratios: Vec<[&'static str; 2]>,
    /// A sentence below the table.
    pub note: String,
    /// The pictures.
    pub plots: Vec<Plot>,
}

/// Writes the data and the pictures of each table, a file each, and brings the pages up to date.
pub fn write(root: &Path, tables: &[Shown], computer: &Computer, rounds: usize) -> Result<()> {
    let run = format!(
        "machine = {:?}\ndate = {:?}\ncommit = {:?}\nspread = \"Medians of {rounds} rounds\"\n",
        computer.summary(),
        said(root, "date", &["+%F"])?,
        said(root, "git", &["rev-parse", "--short=7", "HEAD"])?,
    );
    for table in tables {
        let path = root.join(pvm_docs::measurements::FOLDER).join(table.name).with_extension("toml");
        put(&path, &data(table, &run))?;
        for plot in &table.plots {
            put(&root.join(PICTURES).join(&plot.name).with_extension("svg"), &plot.svg()?)?;
        }
    }
    for (page, text) in pvm_docs::measurements::pages(root)? {
        put(&root.join(page), &text)?;
    }
    Ok(())
}

/// A file of `docs/measurements`: Rust writes strings and lists of them as TOML does.
fn data(table: &Shown, run: &str) -> String {
    let Shown { name, title, unit, command, columns, ratios, note, .. } = table;
    let rows: Vec<String> = table.rows.iter().map(|row| format!("    {row:?},\n")).collect();
    let mut text = format!(
        "# Written by `{command}`.\n\n[run.live]\n{run}\n[[table]]\nid = {name:?}\ntitle = {title:?}\nunit = {unit:?}\n\
         command = {command:?}\nrun = \"live\"\n"
    );
    if let Some(spread) = &table.spread {
        let _ = writeln!(text, "spread = {spread:?}");
    }
    let rows = rows.concat();
    let _ = writeln!(text, "columns = {columns:?}\nratios = {ratios:?}\nrows = [\n{rows}]\nnote = {note:?}");
    text
}

fn put(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text).with_context(|| path.display().to_string())
}

/// The output of a command, one line.
fn said(root: &Path, program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).args(arguments).current_dir(root).output();
    let output = output.with_context(|| program.to_owned())?;
    ensure!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::comparison::{Comparison, Point};
    use super::*;

    #[test]
    fn written_values_are_shown_on_the_page() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        let place = "<!-- measured: live-x -->\n<!-- end of measured -->\n";
        put(&root.join("docs/page.md"), place).expect("written");
        put(&root.join("docs/measurements/none.toml"), "").expect("written");
        let git = Command::new("git").args(["init", "-q"]).current_dir(root).status().expect("git");
        let commit =
            ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"];
        let made = Command::new("git").args(commit).current_dir(root).status().expect("git");
        assert!(git.success() && made.success());
        let (live, simulated) = (vec![3.0, 4.0, 5.0], vec![2.0]);
        let point = Point { curve: "constant", x: 8.0, live, simulated, changed: vec![1.0] };
        let comparison = Comparison {
            name: "live-x",
            title: "Makespan",
            unit: "s",
            curve: "batch",
            x: "hosts",
            changes: vec!["starts cost nothing"],
            points: vec![point],
            costs: "A start takes 1 µs.".into(),
        };
        write(root, &[comparison.shown()], &Computer::here(), 3).expect("written");
        let page = fs::read_to_string(root.join("docs/page.md")).expect("there");
        let row = "| constant | 8 | 4.000 | 3.500 to 4.500 | 2.000 | 2.000 to 2.000 | 1.000 | 2.0 |";
        assert!(page.contains("Makespan, s:") && page.contains(row), "{page}");
        assert!(page.contains("A start takes 1 µs. More than 20 % apart (hosts): constant at 8."), "{page}");
        assert!(root.join(PICTURES).join("live-x.svg").exists());
    }
}
