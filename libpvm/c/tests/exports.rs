//! No name is missing: what Debian's libraries export is exported here, or stands in a list with the reason, and every
//! function that a header or the Fortran library has is called by a program whose output is compared with the original's.

use pvm_tests::built::libraries;
use pvm_tests::peers::{self, Peer, unchecked};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Debian has the original libraries.
const ORIGINAL: &str = "/usr/lib/x86_64-linux-gnu";

/// Why names of the original's are not here. A name that ends with a star stands for all that begin so.
const NOT_HERE: &[(&str, &[&str])] = &[
    (
        "storage of the library's own; its header is not installed, and blocks it gives are no one else's to free",
        &["pvm_alloc", "pvm_realloc", "pvm_free"],
    ),
    (
        "descriptors and message handlers of the library itself, which a program that called them would break",
        &["pvm_fd_add", "pvm_fd_delete", "pvm_tc_*"],
    ),
    ("how the original's group server and its clients work inside; no header declares them", &["gs_*"]),
    (
        "the library's own variables; no header declares them, and none of Debian's programs reads them",
        &[
            "pvm_inprecv",
            "pvm_useruid",
            "pvmautoerr",
            "pvmdebmask",
            "pvmfrgsiz",
            "pvmmboxclasses",
            "pvmmidh*",
            "pvmmydsig",
            "pvmmyptid",
            "pvmmytaskname",
            "pvmmyupid",
            "pvmnoreset*",
            "pvmnsibs",
            "pvmrbuf",
            "pvmrescode",
            "pvmrouteopt",
            "pvmrxlist",
            "pvmsbuf",
            "pvmschedtid",
            "pvmshowtaskid",
            "pvmsibtids",
            "pvmudpmtu",
            "waitlist",
        ],
    ),
    (
        "where the original keeps an event while it is written; this library's events are whole before they leave",
        &["pvmtrcdesc", "pvmtrcmp", "pvmtrcsavekind", "pvmtrcsb*", "pvmtrctmp", "pvmtrcztv"],
    ),
    (
        "parts that the original's daemon and library share; its header is not installed",
        &[
            "pvmbailout",
            "pvmchkuid",
            "pvmcopyenv",
            "pvmdsockfile",
            "pvmenvinsert",
            "pvmfreeenv",
            "pvmgetpvmd",
            "pvmhdump",
            "pvmlogerror",
            "pvmlogperror",
            "pvmlogprintf",
            "pvmmatchstring",
            "pvmmcast",
            "pvmupkstralloc",
        ],
    ),
];

/// What `nm` lists of a library: the kind and name of each symbol that others can link.
fn symbols(library: &Path) -> BTreeSet<(char, String)> {
    let dynamic: &[&str] = if library.extension().is_some_and(|e| e == "a") { &[] } else { &["-D"] };
    let output = Command::new("nm").args(dynamic).arg("--defined-only").arg(library).output().expect("nm");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found: BTreeSet<_> = text
        .lines()
        .filter_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
            [_, kind, name] => Some((kind.chars().next()?, name.to_owned())),
            _ => None,
        })
        .filter(|(kind, _)| kind.is_ascii_uppercase())
        .collect();
    assert!(!found.is_empty(), "nm finds nothing in {}", library.display());
    found
}

/// Whether a program might use a symbol: it has one of PVM's prefixes, or is a variable.
fn looks_public((kind, name): &(char, String)) -> bool {
    *kind != 'T' || ["pvm", "Pvm", "gs_"].iter().any(|prefix| name.starts_with(prefix))
}

fn is_excused(name: &str) -> bool {
    let fits = |listed: &&str| match listed.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => *listed == name,
    };
    NOT_HERE.iter().any(|(_, names)| names.iter().any(fits))
}

/// The original's libraries, if they are installed.
fn originals() -> Vec<PathBuf> {
    if peers::require(&[Peer::OriginalPvm], "the names of the original's libraries").is_none() {
        return Vec::new();
    }
    ["libpvm3.so.3", "libgpvm3.so.3", "libpvm3.a", "libgpvm3.a", "libfpvm3.a"]
        .iter()
        .map(|name| Path::new(ORIGINAL).join(name))
        .collect()
}

#[test]
fn exports_of_the_originals_libraries_are_here_or_excused() {
    let shared = symbols(&libraries().join("libpvm3.so"));
    let archive = symbols(&libraries().join("libpvm3.a"));
    for library in originals() {
        for symbol in symbols(&library).iter().filter(|symbol| looks_public(symbol)) {
            let (_, name) = symbol;
            for (ours, which) in [(&shared, "libpvm3.so"), (&archive, "libpvm3.a")] {
                let here = ours.iter().any(|(_, ours)| ours == name);
                assert!(here || is_excused(name), "{} has {name}, {which} has not", library.display());
            }
        }
    }
}

#[test]
fn no_excuse_is_out_of_date() {
    let ours = symbols(&libraries().join("libpvm3.so"));
    let theirs: BTreeSet<String> =
        originals().iter().flat_map(|library| symbols(library)).map(|(_, name)| name).collect();
    for (_, names) in NOT_HERE {
        for name in *names {
            assert!(!ours.iter().any(|(_, ours)| ours == name), "{name} is here, so it needs no excuse");
            let exists = name.ends_with('*') || theirs.is_empty() || theirs.contains(*name);
            assert!(exists, "{name} is in none of the original's libraries");
        }
    }
}

/// Programs that run with this library only, so that they say nothing about the original.
const NOT_COMPARED: &[&str] = &[
    "churn.c",
    "lifetime.c",
    "lists.f90",
    "long_receivers.c",
    "longs.c",
    "many.c",
    "mistakes.f90",
    "misuse.c",
    "misuse_more.c",
    "misuse_extensions.c",
    "jobs.c",
    "nulls.c",
    "signals.c",
    "signals_group.c",
    "enrol.c",
    "queue.c",
    "team.c",
    "traced.c",
];
/// Calls that the original gets wrong or does not have; a program of `NOT_COMPARED` makes them.
const DIFFERS: &[&str] = &["pvmffreecontext", "pvmfgetmboxinfo"];
/// Two names of PVM 3.3 are declared for programs that define them themselves; no library has them.
const DECLARED_ONLY: &[&str] = &["pvm_getmwid", "pvm_setmwid"];

/// Programs that give calls what they should not be given.
const MISUSE: &[&str] = &["misuse.c", "misuse_more.c", "misuse_extensions.c"];
/// Calls with which nothing can be wrong: they take no argument, or end what the others need.
const NOTHING_TO_MISUSE: &[&str] = &[
    "pvm_halt",
    "pvm_newcontext",
    "pvm_reg_hoster",
    "pvm_reg_tasker",
    "pvm_version",
    "pvmgetrsh",
    "pvmgettmp",
];

/// The programs of `tests/c` in one language, without comments: those whose names are wanted.
fn programs(extension: &str, wanted: impl Fn(&str) -> bool) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    let mut text = String::new();
    for entry in fs::read_dir(folder).expect("the programs") {
        let path = entry.expect("a program").path();
        let name = path.file_name().expect("its name").to_string_lossy().into_owned();
        if path.extension().is_some_and(|e| e == extension) && wanted(&name) {
            text += &without_comments(&fs::read_to_string(&path).expect("its text"));
        }
    }
    text
}

fn is_compared(name: &str) -> bool {
    !NOT_COMPARED.contains(&name)
}

/// A C or Fortran text without its comments.
fn without_comments(text: &str) -> String {
    let mut out = String::new();
    for piece in text.split("/*") {
        out += piece.split_once("*/").map_or(piece, |(_, rest)| rest);
    }
    out.lines().filter(|line| !line.trim_start().starts_with('!')).collect::<Vec<_>>().join("\n")
}

/// Whether a text calls a function; in Fortran in any case of its letters.
fn calls(text: &str, name: &str) -> bool {
    let part_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        !before.ends_with(part_of_name) && !after.starts_with(part_of_name)
    })
}

/// The functions that a header declares.
fn declared(header: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include").join(header);
    let text = without_comments(&fs::read_to_string(path).expect("the header"));
    let words = text.split('(').filter_map(|before| {
        let word = before.trim_end().rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
        let is_type = word.is_empty() || before.lines().last().is_some_and(|line| line.starts_with('#'));
        (!is_type && word.to_lowercase().starts_with("pvm")).then(|| word.to_owned())
    });
    words.collect()
}

#[test]
fn every_c_function_is_compared_with_the_original() {
    let programs = programs("c", is_compared);
    for (header, at_least) in [("pvm3.h", 100), ("pvmtev.h", 2)] {
        let mut names = declared(header);
        names.retain(|name| !DECLARED_ONLY.contains(&&**name));
        assert!(names.len() >= at_least, "only {names:?} were found in {header}");
        let missing: Vec<_> = names.iter().filter(|name| !calls(&programs, name)).collect();
        assert!(missing.is_empty(), "no compared program calls {missing:?} of {header}");
    }
}

#[test]
fn every_c_function_is_misused() {
    let programs = programs("c", |name| MISUSE.contains(&name));
    for header in ["pvm3.h", "pvm3x.h", "pvmtev.h"] {
        let harmless = |name: &str| DECLARED_ONLY.contains(&name) || NOTHING_TO_MISUSE.contains(&name);
        let missing: Vec<_> =
            declared(header).into_iter().filter(|name| !harmless(name) && !calls(&programs, name)).collect();
        assert!(missing.is_empty(), "no program misuses {missing:?} of {header}");
    }
}

#[test]
fn every_function_of_the_headers_is_exported() {
    let ours = symbols(&libraries().join("libpvm3.so"));
    for name in ["pvm3.h", "pvm3x.h", "pvmtev.h"].into_iter().flat_map(declared) {
        let here = ours.iter().any(|(_, ours)| *ours == name);
        assert!(here || DECLARED_ONLY.contains(&&*name), "{name} is declared, but not there");
    }
}

/// A second library would take each task a tenth of its start (`build.rs`).
#[test]
fn the_library_unwinds_by_itself() {
    let archive = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output().expect("cc").stdout;
    let archive = String::from_utf8_lossy(&archive).into_owned();
    if !Path::new(archive.trim()).is_absolute() {
        return unchecked("what the library unwinds by", "libgcc_eh.a is missing");
    }
    let library = libraries().join("libpvm3.so");
    let output = Command::new("nm").args(["-D", "--undefined-only"]).arg(library).output().expect("nm");
    let wanted = String::from_utf8_lossy(&output.stdout).into_owned();
    let unwinding: Vec<_> = wanted.lines().filter(|line| line.contains("_Unwind_")).collect();
    assert!(wanted.contains("GLIBC"), "nm finds nothing");
    assert!(unwinding.is_empty(), "{unwinding:#?}");
}

#[test]
fn every_fortran_subroutine_is_given_null() {
    let text = programs("c", |name| name == "nulls.c");
    let ours = symbols(&libraries().join("libpvm3.so"));
    let names =
        ours.iter().map(|(_, name)| name).filter(|name| name.starts_with("pvm") && name.ends_with('_'));
    // Its one argument is where the result goes, and it would end the machine.
    let missing: Vec<_> = names.filter(|name| *name != "pvmfhalt_" && !calls(&text, name)).collect();
    assert!(missing.is_empty(), "no program gives {missing:?} null pointers");
}

#[test]
fn every_fortran_subroutine_is_compared_with_the_original() {
    let Some(()) = peers::require(&[Peer::OriginalPvm], "the subroutines of the original libfpvm3.a") else {
        return;
    };
    let library = Path::new(ORIGINAL).join("libfpvm3.a");
    let (compared, all) =
        (programs("f90", is_compared).to_ascii_lowercase(), programs("f90", |_| true).to_ascii_lowercase());
    let names: Vec<String> =
        symbols(&library).iter().filter_map(|(_, name)| Some(name.strip_suffix('_')?.to_owned())).collect();
    assert!(names.len() > 60, "only {names:?} were found");
    let tried = |name: &str| calls(if DIFFERS.contains(&name) { &all } else { &compared }, name);
    let missing: Vec<_> = names.iter().filter(|name| !tried(name)).collect();
    assert!(missing.is_empty(), "no compared program calls {missing:?}");
}
