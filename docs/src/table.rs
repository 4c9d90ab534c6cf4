//! The function tables of `docs/compatibility.md`.

use crate::functions::{Prototypes, as_item};
use crate::header::{self, EXTENSIONS};
use crate::source::{Area, Page, load};
use std::fmt::Write as _;
use std::path::Path;

/// The page with the tables.
pub const PAGE: &str = "docs/compatibility.md";
/// What stands before and after them.
const MARKS: (&str, &str) = (
    "<!-- functions: written by `cargo run -p pvm-docs -- compatibility` -->\n",
    "<!-- end of functions -->\n",
);

/// The page with the tables brought up to date.
pub fn compatibility(root: &Path) -> anyhow::Result<String> {
    let prototypes = header::prototypes(root)?;
    let tables: String = load(root)?.iter().map(|area| table(area, &prototypes)).collect();
    crate::replaced(root, PAGE, MARKS, &tables)
}

fn table(area: &Area, prototypes: &Prototypes) -> String {
    let mut out = format!("\n### {}\n\n| C | Fortran | what it does | |\n|---|---|---|---|\n", area.title);
    for page in &area.pages {
        if page.functions().is_empty() {
            let _ =
                writeln!(out, "| | `{0}` | {1} | {2} |", page.name, page.summary, compared(page, &page.name));
        }
        for function in page.functions() {
            let fortran = page.subroutine_of(&function.0).map_or(String::new(), |name| format!("`{name}`"));
            let is_new = prototypes.get(&function.0).is_some_and(|it| it.header == EXTENSIONS);
            let status = if is_new { "new" } else { compared(page, &function.0) };
            // Writing to a string cannot fail.
            let _ = writeln!(out, "| `{}` | {fortran} | {} | {status} |", function.0, function.1);
        }
    }
    let items: String = area.pages.iter().flat_map(items).collect();
    if items.is_empty() { out } else { format!("{out}\n{items}") }
}

fn compared(page: &Page, function: &str) -> &'static str {
    let subroutine = page.subroutine_of(function).unwrap_or_default();
    let differs =
        page.differences_of(function).next().is_some() || page.differences_of(subroutine).next().is_some();
    if differs { "differs" } else { "same" }
}

/// What differs, with the functions concerned.
fn items(page: &Page) -> Vec<String> {
    let functions: Vec<String> = page.functions().iter().map(|it| format!("`{}`", it.0)).collect();
    page.differences.iter().map(|difference| as_item(difference, &functions.join(", "))).collect()
}
