//! Where constants stand that were chosen by measurement: in the table of `wire/src/tuned.rs`.

use pvm_tests::install::workspace;
use std::fs;
use std::path::{Path, PathBuf};

/// The product's sources.
const PRODUCT: [&str; 12] = [
    "console/src",
    "files/src",
    "libpvm/c/src",
    "libpvm/engine/src",
    "libpvm/src",
    "pvmd/core/src",
    "pvmd/src",
    "sched/src",
    "shm/src",
    "sim/src",
    "task-manager/src",
    "wire/src",
];

/// The table.
const TUNED: &str = "wire/src/tuned.rs";

/// Literal durations that need no measurement, each with why.
const EXCEPTED: [(&str, &str, &str); 3] = [
    ("libpvm/c/src/lock.rs", "Duration::from_micros(1)", "the first of pauses that double"),
    ("libpvm/engine/src/route_ends.rs", "Duration::from_micros(50)", "the first of pauses that double"),
    ("pvmd/src/io/wake_time.rs", "Duration::from_micros(20)", "stands for a measurement that failed"),
];

/// The Rust files below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let below = |path: PathBuf| if path.is_dir() { sources(&path) } else { vec![path] };
    let mut files: Vec<PathBuf> = paths.flat_map(below).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    files
}

/// A file without the tests at its end; nothing of a file of tests.
fn product(path: &Path) -> String {
    if path.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("tests")) {
        return String::new();
    }
    let text = fs::read_to_string(path).expect("a source in UTF-8");
    let tests = text.match_indices("\n#[cfg(").map(|(at, _)| at).find(|&at| {
        let mut lines = text[at + 1..].lines();
        let is_of_tests = lines.next().is_some_and(|condition| condition.contains("test"));
        is_of_tests && lines.next().is_some_and(|item| item.starts_with("mod ") && item.ends_with('{'))
    });
    text[..tests.unwrap_or(text.len())].to_owned()
}

/// The literal durations of less than a millisecond in a text. A limit of time is longer: what is shorter makes the product faster or
/// slower, and nothing else.
fn short_durations(text: &str) -> Vec<&str> {
    let units = ["Duration::from_micros(", "Duration::from_nanos("];
    let found = units.iter().flat_map(|unit| text.match_indices(unit));
    let literal = |(at, unit): (usize, &str)| {
        let end = at + unit.len() + text[at + unit.len()..].find(')')?;
        let is_literal = text[at + unit.len()..end].trim().starts_with(|c: char| c.is_ascii_digit());
        is_literal.then(|| &text[at..=end])
    };
    found.filter_map(literal).collect()
}

#[test]
fn short_durations_are_found_if_they_are_literal() {
    let text = "Duration::from_micros(20) Duration::from_micros(n) Duration::from_millis(3) Duration::from_nanos( 1_000 )";
    assert_eq!(short_durations(text), ["Duration::from_micros(20)", "Duration::from_nanos( 1_000 )"]);
}

#[test]
fn durations_that_only_a_measurement_can_choose_stand_in_the_table() {
    let mut found = Vec::new();
    for path in PRODUCT.iter().flat_map(|folder| sources(&workspace().join(folder))) {
        let name = path.strip_prefix(workspace()).expect("a file of the workspace").display().to_string();
        if name != TUNED {
            let text = product(&path);
            found.extend(short_durations(&text).into_iter().map(|short| (name.clone(), short.to_owned())));
        }
    }
    found.sort();
    let excepted: Vec<_> =
        EXCEPTED.iter().map(|(file, short, _)| ((*file).to_owned(), (*short).to_owned())).collect();
    assert_eq!(
        found, excepted,
        "a constant that was measured belongs in {TUNED}; other short ones are listed here"
    );
}
