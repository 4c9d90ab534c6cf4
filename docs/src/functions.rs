//! Manual pages of functions, section 3.

use crate::ManualPage;
use crate::header::{EXTENSIONS, Prototype};
use crate::roff::Roff;
use crate::sheet::Sheet;
use crate::source::{Area, Difference, Page};
use anyhow::Context;
use std::collections::{BTreeMap, BTreeSet};

/// The declaration of each function.
pub type Prototypes = BTreeMap<String, Prototype>;

/// The page of each function; a function that has no page of its own leads to the one it is on.
pub fn pages(areas: &[Area], prototypes: &Prototypes) -> anyhow::Result<Vec<ManualPage>> {
    let mut all = vec![overview(areas)];
    for (area, page) in areas.iter().flat_map(|area| area.pages.iter().map(move |page| (area, page))) {
        let text = manual_page(area, page, prototypes).with_context(|| page.name.clone())?;
        all.push(ManualPage { path: path(&page.name), text });
        let functions = page.functions();
        let names = functions.iter().map(|function| function.0.as_str()).chain(page.subroutines());
        for name in names.filter(|&name| name != page.name).collect::<BTreeSet<_>>() {
            all.push(ManualPage { path: path(name), text: format!(".so {}\n", path(&page.name)) });
        }
    }
    Ok(all)
}

fn path(name: &str) -> String {
    format!("man3/{name}.3")
}

fn manual_page(area: &Area, page: &Page, prototypes: &Prototypes) -> anyhow::Result<String> {
    let mut out = Roff::new(&page.name, 3, &page.summary);
    describe(&mut out, area, page, prototypes)?;
    Ok(out.finish())
}

/// Writes what is known of the functions of a page.
pub fn describe(
    out: &mut impl Sheet,
    area: &Area,
    page: &Page,
    prototypes: &Prototypes,
) -> anyhow::Result<()> {
    synopsis(out, page, prototypes)?;
    out.text_section("description", &page.text);
    pairs(out, "arguments", &page.arguments);
    out.text_section("return value", &page.result);
    pairs(out, "errors", &page.errors);
    if !page.example.is_empty() {
        out.section("example");
        out.example(page.example.trim_matches('\n').lines());
    }
    if !page.differences.is_empty() {
        let text: String = page.differences.iter().map(|it| as_item(it, "")).collect();
        out.part("differences from PVM 3.4", "compatibility.md", &area.title, &text);
    }
    out.see_also(page.see.iter().map(|name| (name.as_str(), 3)).chain([("pvm_intro", 3)]));
    Ok(())
}

fn synopsis(out: &mut impl Sheet, page: &Page, prototypes: &Prototypes) -> anyhow::Result<()> {
    let functions = page.functions();
    let declared = functions
        .iter()
        .map(|it| prototypes.get(&it.0).with_context(|| format!("{}: in no header", it.0)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut headers: BTreeSet<&str> = declared.iter().map(|prototype| prototype.header).collect();
    if headers.contains(EXTENSIONS) {
        headers.insert("pvm3.h");
    }
    out.section("synopsis");
    if !declared.is_empty() {
        let headers: Vec<String> = headers.iter().map(|header| format!("#include <{header}>")).collect();
        out.literal(headers.iter().map(String::as_str));
        out.literal(declared.iter().map(|prototype| prototype.text.as_str()));
    }
    if !page.fortran.is_empty() {
        let calls: Vec<String> = page.fortran.iter().map(|call| format!("call {call}")).collect();
        out.literal(["include 'fpvm3.h'"]);
        out.literal(calls.iter().map(String::as_str));
    }
    Ok(())
}

fn pairs(out: &mut impl Sheet, title: &str, pairs: &[(String, String)]) {
    if pairs.is_empty() {
        return;
    }
    out.section(title);
    for (term, text) in pairs {
        out.terms([(format!("`{term}`").as_str(), text.as_str())]);
    }
}

/// A difference as an item of a list, which begins with the functions concerned; `all` if it is all of the page.
pub fn as_item(difference: &Difference, all: &str) -> String {
    let Difference { functions, here, there, why } = difference;
    let names: Vec<String> = functions.iter().map(|name| format!("`{name}`")).collect();
    let whose = if names.is_empty() { all } else { &names.join(", ") };
    let colon = if whose.is_empty() { "" } else { ": " };
    format!("- {whose}{colon}{} **PVM 3.4**: {there} **Why**: {why}\n", sentence(here, whose.is_empty()))
}

/// A sentence, with or without a capital.
fn sentence(text: &str, capital: bool) -> String {
    match text.chars().next() {
        Some(first) if capital => first.to_uppercase().chain(text.chars().skip(1)).collect(),
        _ => text.to_owned(),
    }
}

/// The page about all of them.
fn overview(areas: &[Area]) -> ManualPage {
    let mut out = Roff::new("pvm_intro", 3, "the functions of PVM");
    out.text_section("description", INTRODUCTION);
    for area in areas {
        out.section(&area.title);
        for page in &area.pages {
            for function in page.functions() {
                out.terms([(format!("`{}`(3)", function.0).as_str(), function.1.as_str())]);
            }
        }
    }
    out.see_also([("pvm", 1), ("pvmd", 1), ("pvm-run", 1)]);
    ManualPage { path: path("pvm_intro"), text: out.finish() }
}

const INTRODUCTION: &str = "\
A process becomes a task of the virtual machine with its first call, which connects to the daemon of its host. From then
on it has a task id, or tid, by which other tasks address it.

A C program includes `pvm3.h`, a Fortran program `fpvm3.h`. Both link with:

```
cc program.c $(pkg-config --cflags --libs pvm3)
gfortran program.f90 $(pkg-config --cflags --libs pvm3)
```

Group calls are in `libgpvm3`, Fortran calls in `libfpvm3`; `pkg-config` names both. Most functions return a negative code when they
fail, set `pvm_errno` and print a line (see `pvm_perror`(3) and `PvmAutoErr` in `pvm_setopt`(3)). Functions that need
the daemon return `PvmSysErr` if there is none, or if the connection to it is lost. In Fortran the code is
the last argument.

Memory that the library returns by pointer belongs to the library, and is valid until the next call of the same function.

The library is made for programs with one thread. Calls of several threads are serialised; only one thread
may receive.";
