//! The book: every page is in its table of contents, every link leads somewhere, every program on a page is a file that tests run.

use pvm_docs::reference::{self, anchor};
use pvm_docs::{read, root};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

const SUMMARY: &str = "SUMMARY.md";
/// What programs are written in, as fences name it.
const LANGUAGES: [&str; 5] = ["c", "cpp", "rust", "python", "fortran"];

fn docs() -> PathBuf {
    root().join("docs")
}

/// Every page of the book by its path in `docs`, the table of contents left out, and its text.
fn pages() -> BTreeMap<PathBuf, String> {
    let mut pages = BTreeMap::new();
    let mut folders = vec![docs()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                let text = std::fs::read_to_string(&path).unwrap();
                pages.insert(path.strip_prefix(docs()).unwrap().to_owned(), text);
            }
        }
    }
    pages.remove(Path::new(SUMMARY)).expect("the book has a table of contents");
    pages
}

/// A text without its fences, each with its language; and these.
fn without_fences(text: &str) -> (String, Vec<(&str, Vec<&str>)>) {
    let (mut rest, mut fences) = (String::new(), Vec::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            fences.push((language, lines.by_ref().take_while(|line| !line.starts_with("```")).collect()));
        } else {
            rest += line;
            rest.push('\n');
        }
    }
    (rest, fences)
}

/// The targets of the links and pictures in a text.
fn targets(text: &str) -> Vec<String> {
    let (text, _) = without_fences(text);
    // What is in code is no link.
    let text: String = text.split('`').step_by(2).collect();
    let ends = text.match_indices("](").map(|(index, mark)| index + mark.len());
    ends.map(|start| text[start..].split(')').next().unwrap_or_default().to_owned()).collect()
}

/// The path of a link's target in `docs`; `None` if it leads out of there.
fn resolved(page: &Path, target: &str) -> Option<PathBuf> {
    let mut path = page.parent().unwrap_or(Path::new("")).to_owned();
    for component in Path::new(target).components() {
        match component {
            Component::ParentDir if path.pop() => {}
            Component::Normal(name) => path.push(name),
            _ => return None,
        }
    }
    Some(path)
}

/// The names by which links lead to the headings of a page.
fn anchors(text: &str) -> BTreeSet<String> {
    let (text, _) = without_fences(text);
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

#[test]
fn every_page_is_in_the_table_of_contents_once() {
    let summary = read(&root(), "docs/SUMMARY.md").unwrap();
    let listed: Vec<PathBuf> = targets(&summary).into_iter().map(PathBuf::from).collect();
    let once: BTreeSet<&PathBuf> = listed.iter().collect();
    assert_eq!(once.len(), listed.len(), "a page is listed twice");
    let there = pages();
    assert_eq!(once, there.keys().collect());
}

#[test]
fn links_lead_to_pages_headings_and_files_below_docs() {
    let pages = pages();
    let mut followed = 0;
    for (page, text) in &pages {
        for target in targets(text).into_iter().filter(|target| !target.contains("://")) {
            let (file, heading) = target.split_once('#').unwrap_or((&target, ""));
            let path = if file.is_empty() { Some(page.clone()) } else { resolved(page, file) };
            let path = path.unwrap_or_else(|| panic!("{}: {target} leads out of docs", page.display()));
            assert!(docs().join(&path).is_file(), "{}: {target} leads nowhere", page.display());
            let is_there =
                heading.is_empty() || pages.get(&path).is_some_and(|text| anchors(text).contains(heading));
            assert!(is_there, "{}: {target}: no such heading", page.display());
            followed += 1;
        }
    }
    assert!(followed > 100, "only {followed} links: the test finds nothing");
}

/// The lines of a text, without indentation and empty ones.
fn bare<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    lines.map(str::trim).filter(|line| !line.is_empty()).collect()
}

/// What an `{{#include}}` takes: a file, and a part of it.
fn included(line: &str) -> Option<(&str, Option<&str>)> {
    let target = line.strip_prefix("{{#include ")?.strip_suffix("}}")?;
    Some(target.split_once(':').map_or((target, None), |(file, part)| (file, Some(part))))
}

#[test]
fn programs_on_pages_are_those_that_are_tested() {
    let folder = docs().join("programs");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let programs: BTreeMap<PathBuf, String> =
        files.map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect();
    let mut shown = BTreeSet::new();
    // Of the reference, `examples_compile` has compiled the programs.
    for (page, text) in pages().iter().filter(|(page, _)| !page.starts_with("reference")) {
        for (language, lines) in without_fences(text).1 {
            let includes: Vec<_> = lines.iter().filter_map(|line| included(line)).collect();
            for (file, part) in &includes {
                let path =
                    docs().join(resolved(page, file).unwrap_or_else(|| panic!("{}: {file}", page.display())));
                let program =
                    programs.get(&path).unwrap_or_else(|| panic!("{}: {file} is no program", page.display()));
                let marks = part.map(|part| [format!("ANCHOR: {part}"), format!("ANCHOR_END: {part}")]);
                let is_there =
                    |mark: &String| program.lines().any(|line| line.trim_end_matches(" */").ends_with(mark));
                assert!(marks.iter().flatten().all(is_there), "{}: {file} has no {part:?}", page.display());
                shown.insert(path);
            }
            if includes.is_empty() && LANGUAGES.contains(&language) {
                let lines = bare(lines.into_iter());
                let has_it =
                    |program: &String| bare(program.lines()).windows(lines.len()).any(|some| some == lines);
                let found = programs.iter().find(|(_, program)| has_it(program));
                let (path, _) =
                    found.unwrap_or_else(|| panic!("{}: in no program: {lines:#?}", page.display()));
                shown.insert(path.clone());
            } else if LANGUAGES.contains(&language) {
                let others: Vec<_> =
                    lines.iter().filter(|line| !line.is_empty() && included(line).is_none()).collect();
                assert!(others.is_empty(), "{}: beside what is included: {others:?}", page.display());
            }
        }
    }
    assert_eq!(shown, programs.keys().cloned().collect(), "programs on pages, and in docs/programs");
}

#[test]
fn the_reference_is_up_to_date() {
    let written = reference::pages(&root()).unwrap();
    for (file, text) in &written {
        let path = Path::new(reference::FOLDER).join(file);
        let is_same = std::fs::read_to_string(root().join(&path)).is_ok_and(|page| page == *text);
        assert!(
            is_same,
            "{} is not what its source says: cargo run -p pvm-docs -- reference",
            path.display()
        );
    }
    let there = std::fs::read_dir(root().join(reference::FOLDER)).unwrap().count();
    assert_eq!(there, written.len(), "pages of {}", reference::FOLDER);
}

/// The comments above a line, and the attributes between them.
fn comments(lines: &[&str], line: usize) -> String {
    let above = lines[..line].iter().rev();
    above
        .take_while(|line| line.starts_with("///") || line.starts_with("#["))
        .copied()
        .collect::<Vec<_>>()
        .join("\n")
}

/// The names in a `pub use` statement, as users of the crate see them.
fn exported(statement: &str) -> Vec<&str> {
    let names = statement.trim_end_matches(';').rsplit("::").next().unwrap_or_default();
    // In braces stand names only, which may have new ones.
    let names = statement.split_once('{').map_or(names, |(_, names)| names.trim_end_matches("};"));
    names.split(',').filter_map(|name| name.split(" as ").last()).map(str::trim).collect()
}

#[test]
fn public_types_of_the_rust_api_have_examples() {
    let source = |file: &str| read(&root(), &format!("libpvm/src/{file}")).unwrap();
    let library = source("lib.rs");
    let lines: Vec<&str> = library.lines().collect();
    let mut without = Vec::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.starts_with("pub use ")) {
        for name in exported(line).into_iter().filter(|name| name.starts_with(char::is_uppercase)) {
            let module = line.trim_start_matches("pub use ").split("::").next().unwrap_or_default();
            let defined =
                if module.starts_with("pvm_") { String::new() } else { source(&format!("{module}.rs")) };
            let defined: Vec<&str> = defined.lines().collect();
            let starts = ["struct", "enum", "trait"].map(|kind| format!("pub {kind} {name}"));
            let is_definition = |line: &&str| {
                let rest = starts.iter().find_map(|start| line.strip_prefix(start.as_str()));
                rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
            };
            let own = defined.iter().position(is_definition).map(|at| comments(&defined, at));
            let has_example = format!("{}{}", comments(&lines, at), own.unwrap_or_default()).contains("```");
            // An alias of the standard library's.
            if !has_example && name != "Result" {
                without.push(name);
            }
        }
    }
    assert!(without.is_empty(), "no example: {without:?}");
}

#[test]
fn the_book_can_be_built() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("mdbook");
    command.args(["build", "--dest-dir"]).arg(folder.path()).arg(docs());
    let Ok(output) = command.output() else {
        assert!(std::env::var_os("PVM_TEST_FULL").is_none(), "there is no mdbook");
        println!("not checked: the book (mdbook is missing)");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(!["WARN", "ERROR"].iter().any(|level| said.contains(level)), "{said}");
    for page in pages().keys().filter(|page| !page.ends_with("README.md")) {
        let file = folder.path().join(page.with_extension("html"));
        let text =
            std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(!text.contains("{{#include"), "{}: something is not included", page.display());
    }
}

#[test]
fn links_and_fences_are_found() {
    let text = "[a](b.md#c) `[x](y)` ![d](e.svg)\n```c\n[f](g)\n```\n## T it's\n";
    assert_eq!(targets(text), ["b.md#c", "e.svg"]);
    assert_eq!(without_fences(text).1, [("c", vec!["[f](g)"])]);
    assert_eq!(anchors(text), BTreeSet::from(["t-its".to_owned()]));
    assert_eq!(resolved(Path::new("a/b.md"), "../c/d.md"), Some("c/d.md".into()));
    assert_eq!(resolved(Path::new("b.md"), "../README.md"), None);
    assert_eq!(included("{{#include ../a.c:b}}"), Some(("../a.c", Some("b"))));
}
