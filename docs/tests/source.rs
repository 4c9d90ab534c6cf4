//! The source of the documentation against the headers, the library, and what is generated from it.

use pvm_docs::source::{Area, Page};
use pvm_docs::{constants, files, header, manual, measurements, read, root, source, table};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// Declared for programs that define PVM33COMPAT; no library has them, neither the original's nor this one.
const IN_NO_LIBRARY: [&str; 2] = ["pvm_getmwid", "pvm_setmwid"];

fn areas() -> Vec<Area> {
    source::load(&root()).unwrap()
}

fn pages(areas: &[Area]) -> impl Iterator<Item = &Page> {
    areas.iter().flat_map(|area| &area.pages)
}

/// The text of every source file of the library's C and Fortran interface.
fn library() -> String {
    let mut text = String::new();
    let mut folders = vec![root().join("libpvm/c/src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                text += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    text
}

/// Names in a text that begin with `start`, stop before `end`, and consist of letters, digits and underscores.
fn names<'a>(text: &'a str, start: &str, ends: &[&str]) -> BTreeSet<&'a str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let found = text.match_indices(start).filter_map(|(index, _)| {
        let before = text[..index].chars().next_back();
        let length = text[index..].find(|c| !is_part(c))?;
        let after = &text[index + length..];
        let whole = before.is_none_or(|c| !is_part(c)) && ends.iter().any(|end| after.starts_with(end));
        whole.then(|| &text[index..index + length])
    });
    found.collect()
}

#[test]
fn every_function_of_the_headers_has_one_entry_and_no_entry_is_for_nothing() {
    let areas = areas();
    let mut entries: Vec<String> =
        pages(&areas).flat_map(Page::functions).map(|function| function.0).collect();
    entries.sort();
    let mut declared: Vec<String> = header::prototypes(&root()).unwrap().into_keys().collect();
    declared.retain(|name| !IN_NO_LIBRARY.contains(&name.as_str()));
    assert_eq!(entries, declared);

    let library = library();
    for name in &entries {
        let defined = !names(&library, name, &["(", ":", ";", " "]).is_empty();
        assert!(defined, "{name} is documented, and the library has no such name");
    }
    for name in IN_NO_LIBRARY {
        assert!(!library.contains(name), "{name} is in the library now: it needs an entry");
    }
}

#[test]
fn every_fortran_subroutine_has_one_entry_and_no_entry_is_for_nothing() {
    let areas = areas();
    let mut entries: Vec<&str> = pages(&areas).flat_map(Page::subroutines).collect();
    entries.sort_unstable();
    let library = library();
    let defined: Vec<&str> =
        names(&library, "pvmf", &["(", " ="]).into_iter().filter_map(|name| name.strip_suffix('_')).collect();
    assert_eq!(entries, defined);
}

#[test]
fn subroutines_have_the_arguments_that_the_library_takes() {
    let areas = areas();
    let library = library();
    for call in pages(&areas).flat_map(|page| &page.fortran) {
        let (name, arguments) = call.strip_suffix(')').and_then(|call| call.split_once('(')).unwrap();
        let count = arguments.split(',').count();
        // Subroutines that macros make are checked by the tests of the library alone.
        let Some((_, definition)) = library.split_once(&format!("extern \"C\" fn {name}_(")) else {
            continue;
        };
        let list = definition.split_once(')').unwrap().0;
        let taken = list.split(',').filter(|argument| argument.contains(':') && !argument.contains("Length"));
        assert_eq!(count, taken.count(), "{call}");
    }
}

#[test]
fn pages_name_only_what_exists() {
    let areas = areas();
    let names: BTreeSet<&str> = pages(&areas).map(|page| page.name.as_str()).collect();
    assert_eq!(names.len(), pages(&areas).count(), "two pages of one name");
    let header = read(&root(), "libpvm/c/include/pvm3.h").unwrap();
    for page in pages(&areas) {
        let known: BTreeSet<String> = page.functions().into_iter().map(|function| function.0).collect();
        for name in &page.see {
            let there = pages(&areas).any(|other| other.functions().iter().any(|it| it.0 == *name));
            assert!(there || names.contains(name.as_str()), "{}: no page {name}", page.name);
        }
        for (code, _) in &page.errors {
            assert!(header.contains(&format!("#define {code} ")), "{}: no error {code}", page.name);
        }
        for name in page.differences.iter().flat_map(|difference| &difference.functions) {
            let there = known.contains(name) || page.subroutines().any(|it| it == name);
            assert!(there, "{}: {name} is not on this page", page.name);
        }
    }
}

#[test]
fn the_tables_are_up_to_date() {
    let page = read(&root(), table::PAGE).unwrap();
    assert!(
        page == table::compatibility(&root()).unwrap(),
        "{} is not what its source says: cargo run -p pvm-docs -- compatibility",
        table::PAGE
    );
}

#[test]
fn the_constants_are_up_to_date() {
    let text = constants::constants(&root()).unwrap();
    let page = read(&root(), constants::PAGE).unwrap();
    assert_eq!(text, page, "run `make docs`");
}

#[test]
fn the_measurements_are_up_to_date() {
    let pages = measurements::pages(&root()).unwrap();
    assert!(!pages.is_empty(), "no page shows a measurement");
    for (page, text) in pages {
        assert!(
            read(&root(), &page).unwrap() == text,
            "{page} is not what {} says: cargo run -p pvm-docs -- measurements",
            measurements::FOLDER
        );
    }
}

#[test]
fn every_name_leads_to_a_page() {
    let pages: BTreeMap<String, String> =
        manual(&root()).unwrap().into_iter().map(|page| (page.path, page.text)).collect();
    for (path, text) in &pages {
        if let Some(target) = text.strip_prefix(".so ") {
            let page = pages.get(target.trim_end()).unwrap_or_else(|| panic!("{path}: no {target}"));
            assert!(page.starts_with(".\\\""), "{path} leads to a link");
        }
        assert!(!text.contains("\n\n"), "{path} has an empty line");
    }
    for path in [
        "man1/pvm.1",
        "man1/pvmd.1",
        "man1/pvm-run.1",
        "man3/pvm_intro.3",
        "man3/pvmfsend.3",
        "man3/PvmMax.3",
    ] {
        assert!(pages.contains_key(path), "{path}");
    }
    let subcommands = pvm_console::cli::command();
    for name in subcommands.get_subcommands().map(clap::Command::get_name).filter(|&name| name != "daemon") {
        assert!(pages.contains_key(&format!("man1/pvm-{name}.1")), "pvm {name}");
    }
}

#[test]
fn manual_pages_refer_to_manual_pages_that_exist() {
    let pages: BTreeMap<String, String> =
        manual(&root()).unwrap().into_iter().map(|page| (page.path, page.text)).collect();
    for (path, text) in &pages {
        for (at, mark) in text.match_indices("\\fP(") {
            let section = &text[at + mark.len()..][..1];
            let name = text[..at].rsplit("\\fB").next().unwrap_or_default().replace("\\-", "-");
            let there = pages.contains_key(&format!("man{section}/{name}.{section}"));
            assert!(there || !["1", "3"].contains(&section), "{path}: there is no {name}({section})");
        }
    }
}

/// What is not installed cannot be read.
#[test]
fn pages_cite_pages_and_installed_files_only() {
    let pages = manual(&root()).unwrap();
    let mut cited = 0;
    for page in &pages {
        let words = page.text.split(|c: char| c.is_whitespace() || "()\\,;".contains(c));
        for word in words.filter(|word| word.contains(".md")) {
            let file = word.trim_start_matches("fB").strip_prefix("@DOCS@/");
            let file = file.unwrap_or_else(|| panic!("{} cites {word}, which is not installed", page.path));
            assert!(root().join("docs").join(file).is_file(), "{} cites {word}: no such page", page.path);
            cited += 1;
        }
        assert!(!page.text.contains("docs/"), "{} cites a file of the sources", page.path);
    }
    assert!(cited > 0, "no page cites another: the test finds nothing");
}

/// Paths below a folder of the source tree, as pages write them.
fn source_paths(page: &str) -> BTreeSet<&str> {
    let words = page.split(|c: char| !(c.is_ascii_alphanumeric() || "/._-".contains(c)));
    let words = words.map(|word| word.trim_end_matches(['.', '/']));
    let is_source = |word: &&str| Path::new(word).extension().is_some_and(|extension| extension == "rs");
    // Links to the book's programs have a test of their own.
    let words = words.filter(|word| !word.starts_with("../"));
    words.filter(|word| word.contains("/src/") || word.contains('/') && is_source(word)).collect()
}

#[test]
fn pages_name_files_of_the_source_tree_that_exist() {
    let mut pages = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    for folder in ["docs", "docs/tutorial", "docs/guides"] {
        pages.extend(files(&root().join(folder), "md").unwrap());
    }
    let mut named = 0;
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for path in source_paths(&text) {
            assert!(root().join(path).exists(), "{} names {path}, which is not there", page.display());
            named += 1;
        }
    }
    assert!(named > 0, "no page names a file: the test finds nothing");
}

#[test]
fn the_readme_has_a_reason_for_every_dependency() {
    let manifest: toml::Table = read(&root(), "Cargo.toml").unwrap().parse().unwrap();
    let dependencies = manifest["workspace"]["dependencies"].as_table().unwrap();
    let others = dependencies.iter().filter(|(_, value)| value.get("path").is_none());
    let needed: BTreeSet<&str> = others.map(|(name, _)| name.as_str()).collect();

    let readme = read(&root(), "README.md").unwrap();
    let (_, section) = readme.split_once("\n## Dependencies\n").unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.split('|').next());
    // A cell names crates, some with a remark behind: "rustls (ring)", "bincode `=2.0.1`".
    let names =
        rows.skip(1).flat_map(|cell| cell.split(',')).filter_map(|name| name.split_whitespace().next());
    let named: BTreeSet<&str> = names.collect();
    assert_eq!(named, needed, "the README's table and the workspace's dependencies");
}

#[test]
fn examples_compile() {
    if Command::new("cc").arg("--version").output().is_err() {
        assert!(std::env::var_os("PVM_TEST_FULL").is_none(), "there is no C compiler");
        println!("not checked: examples (no C compiler)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for page in pages(&areas()).filter(|page| !page.example.is_empty()) {
        let mut program = "#include <stdio.h>\n#include <pvm3.h>\n#include <pvm3x.h>\n".to_owned();
        let is_function = page.example.contains("\n{");
        let body = if is_function {
            page.example.clone()
        } else {
            format!("int main(void) {{\n{}\nreturn 0;\n}}", page.example)
        };
        let _ = writeln!(program, "{body}");
        let file = folder.path().join(&page.name).with_extension("c");
        std::fs::write(&file, program).unwrap();
        let include = root().join("libpvm/c/include");
        let output = Command::new("cc")
            .args([
                "-fsyntax-only",
                "-Wall",
                "-Wextra",
                "-Wno-unused-but-set-variable",
                "-Wno-discarded-qualifiers",
                "-Werror",
                "-I",
            ])
            .arg(include)
            .arg(&file)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}: {}", page.name, String::from_utf8_lossy(&output.stderr));
    }
}
