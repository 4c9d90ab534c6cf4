//! The tables of `docs/constants.md`: the constants that were chosen by measurement.

use anyhow::ensure;
use pvm_wire::tuned::{Constant, TABLE};
use std::fmt::Write as _;
use std::path::Path;

/// The page with the tables.
pub const PAGE: &str = "docs/constants.md";
/// What stands before and after them.
const MARKS: (&str, &str) =
    ("<!-- constants: written by `cargo run -p pvm-docs -- constants` -->\n", "<!-- end of constants -->\n");

/// The page with the tables brought up to date.
pub fn constants(root: &Path) -> anyhow::Result<String> {
    let measured = crate::measurements::places(root)?;
    let mut tables = String::new();
    for group in TABLE.chunk_by(|first, second| first.group == second.group) {
        let heading = group.first().map_or("", |constant| constant.group);
        // Writing to a string cannot fail.
        let _ = writeln!(
            tables,
            "\n## {heading}\n\n| constant | value | what it decides | trade | measured by |\n|---|---|---|---|---|"
        );
        for constant in group {
            ensure!(
                constant.table.is_empty() || measured.contains_key(constant.table),
                "{}: there is no measured table {}",
                constant.name,
                constant.table
            );
            let page = measured.get(constant.table).map(String::as_str);
            let _ = writeln!(tables, "{}", row(constant, page));
        }
    }
    crate::replaced(root, PAGE, MARKS, &tables)
}

fn row(constant: &Constant, page: Option<&str>) -> String {
    let Constant { name, default, unit, what, trade, part, table, .. } = constant;
    let measured = page.map_or(String::new(), |page| format!(", [{table}]({page})"));
    format!("| `{name}` | {default} {unit} | {what} | {trade} | `{part}`{measured} |")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_names_the_part_and_the_measured_table() {
        let constant = Constant {
            name: "N",
            group: "g",
            value: 3,
            default: 2,
            unit: "µs",
            what: "w",
            trade: "t",
            part: "rate",
            table: "many",
        };
        assert_eq!(row(&constant, None), "| `N` | 2 µs | w | t | `rate` |");
        let with_table = row(&constant, Some("measurements.md"));
        assert!(with_table.ends_with("| `rate`, [many](measurements.md) |"), "{with_table}");
    }
}
