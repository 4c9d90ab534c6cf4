//! Our `pvm3.h`, `pvmtev.h`, `pvmproto.h` and `fpvm3.h` against those of PVM 3.4.6: every constant, every structure's layout
//! and every prototype, as the compilers see them.

use pvm_tests::peers::{self, Peer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where Debian's `pvm-dev` puts the original headers.
const ORIGINAL: &str = "/usr/include";

/// The structures of `pvm3.h` and their members.
const STRUCTURES: &[(&str, &[&str])] = &[
    ("pvmhostinfo", &["hi_tid", "hi_name", "hi_arch", "hi_speed", "hi_dsig"]),
    ("pvmtaskinfo", &["ti_tid", "ti_ptid", "ti_host", "ti_flag", "ti_a_out", "ti_pid"]),
    ("pvmminfo", &["len", "ctx", "tag", "wid", "enc", "crc", "src", "dst"]),
    ("pvmmboxinfo", &["mi_name", "mi_nentries", "mi_indices", "mi_owners", "mi_flags"]),
];

/// The structures of `pvmtev.h` and their members.
const TRACE_STRUCTURES: &[(&str, &[&str])] = &[
    ("Pvmtevdid", &["did", "desc"]),
    ("Pvmtevinfo", &["name", "desc_status", "mark", "total", "count"]),
    ("Pvmtracer", &["trctid", "trcctx", "trctag", "outtid", "outctx", "outtag", "trcbuf", "trcopt", "tmask"]),
];

/// The original declares the result of `pvm_recvf` as a function that takes a function; its manual page and its
/// code say three integers. Ours declares what is true.
const DIFFERS_ON_PURPOSE: &str = "pvm_recvf";

/// What a comparison with the original's headers needs.
const COMPARED: &[Peer] = &[Peer::CCompiler, Peer::OriginalPvm];

/// Our include folder.
fn ours() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// A fresh folder for the programs of a test that needs these peers.
fn workshop(test: &str, peers: &[Peer], check: &str) -> Option<PathBuf> {
    peers::require(peers, check)?;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for the test's programs");
    Some(folder)
}

/// Runs a command that must succeed and returns its standard output.
fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("the command starts");
    assert!(status.success(), "{command:?}\n{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).expect("the output is text")
}

/// Compiles a C program and returns what it prints.
fn run_c(folder: &Path, name: &str, source: &str) -> String {
    let file = folder.join(name).with_extension("c");
    let program = folder.join(name);
    fs::write(&file, source).expect("the program is written");
    run(Command::new("cc").args(["-w", "-o"]).arg(&program).arg(&file));
    run(&mut Command::new(program))
}

/// The lines that bring a header in, by its full name: a search path might find another one first.
fn include(folder: &Path, headers: &[&str]) -> String {
    headers.iter().fold(String::from("#include <stdio.h>\n#include <stddef.h>\n"), |mut text, header| {
        let _ = writeln!(text, "#include \"{}\"", folder.join(header).display());
        text
    })
}

/// The macros without arguments that `source` leaves defined, with their replacements.
fn macros(folder: &Path, source: &str) -> BTreeMap<String, String> {
    let file = folder.join("macros.c");
    fs::write(&file, source).expect("the program is written");
    run(Command::new("cc").args(["-E", "-dM"]).arg(file))
        .lines()
        .filter_map(|line| line.strip_prefix("#define "))
        .map(|definition| definition.split_once(' ').unwrap_or((definition, "")))
        .filter(|(name, _)| !name.contains('('))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect()
}

/// The constants that a header adds to what the system's headers define: not its guard, not empty ones.
fn constants(folder: &Path, include_folder: &Path, headers: &[&str]) -> BTreeMap<String, String> {
    let system = macros(folder, &include(include_folder, &[]).replace("stddef.h", "sys/time.h"));
    let mut all = macros(folder, &include(include_folder, headers));
    all.retain(|name, value| !system.contains_key(name) && !value.is_empty() && !name.starts_with('_'));
    all
}

/// A program that prints each constant.
fn print_constants(include_folder: &Path, headers: &[&str], constants: &BTreeMap<String, String>) -> String {
    let mut source = include(include_folder, headers) + "int main(void) {\n";
    for (name, value) in constants {
        let (format, cast) = if value.starts_with('"') { ("%s", "") } else { ("%ld", "(long)") };
        let _ = writeln!(source, "printf(\"{name} = {format}\\n\", {cast}({name}));");
    }
    source + "return 0;\n}\n"
}

/// A program that prints the size of each structure and the place of each member.
fn print_layout(include_folder: &Path, headers: &[&str], structures: &[(&str, &[&str])]) -> String {
    let mut source = include(include_folder, headers) + "int main(void) {\n";
    for (name, members) in structures {
        let _ = writeln!(source, "printf(\"{name} %zu\\n\", sizeof(struct {name}));");
        for member in *members {
            let _ = writeln!(
                source,
                "printf(\"{name}.{member} %zu %zu\\n\", offsetof(struct {name}, {member}), \
                 sizeof(((struct {name} *)0)->{member}));"
            );
        }
    }
    source + "return 0;\n}\n"
}

/// The prototypes that a header declares, as the compiler repeats them, without parameter names.
fn prototypes(folder: &Path, include_folder: &Path, prelude: &str) -> BTreeSet<String> {
    let file = folder.join("prototypes.c");
    let listing = folder.join("prototypes.txt");
    let header = include_folder.join("pvm3.h");
    fs::write(&file, format!("{prelude}\n#include \"{}\"\n", header.display()))
        .expect("the program is written");
    run(Command::new("gcc").arg("-fsyntax-only").arg("-aux-info").arg(&listing).arg(file));
    fs::read_to_string(listing)
        .expect("the compiler's listing")
        .lines()
        .filter(|line| line.contains(&format!("{}:", header.display())))
        .filter_map(|line| line.split_once("*/ ").map(|(_, prototype)| prototype.to_owned()))
        .collect()
}

/// The named constants that a Fortran include file declares.
fn parameters(include_file: &Path) -> BTreeSet<String> {
    fs::read_to_string(include_file)
        .expect("the include file")
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("parameter"))
        .filter_map(|rest| rest.trim_start().strip_prefix('('))
        .filter_map(|rest| rest.split_once('='))
        .map(|(name, _)| name.trim().to_uppercase())
        .collect()
}

/// Compiles a Fortran program that prints the constants, and returns what it prints.
fn run_fortran(folder: &Path, include_folder: &Path, form: &str, names: &BTreeSet<String>) -> String {
    let mut source = String::from("      program values\n      implicit none\n      include 'fpvm3.h'\n");
    for name in names {
        let _ = writeln!(source, "      print *, '{name}', {name}");
    }
    source += "      end\n";
    let file = folder.join("values.f");
    let program = folder.join("values");
    fs::write(&file, source).expect("the program is written");
    run(Command::new("gfortran")
        .arg(format!("-f{form}-form"))
        .arg("-I")
        .arg(include_folder)
        .arg("-o")
        .arg(&program)
        .arg(file));
    run(&mut Command::new(program))
}

#[test]
fn compiles_without_warnings_in_every_dialect() {
    let Some(folder) =
        workshop("dialects", &[Peer::CCompiler, Peer::CppCompiler], "pvm3.h in the dialects of C and C++")
    else {
        return;
    };
    let dialects =
        [("c", "c89"), ("c", "gnu89"), ("c", "c99"), ("c", "gnu17"), ("c++", "c++98"), ("c++", "c++17")];
    for prelude in ["", "#include <stdio.h>\n", "#define NOTMPNAM\n#define PVM33COMPAT\n"] {
        let file = folder.join("dialect.c");
        let body = format!(
            "{prelude}#include \"pvm3.h\"\n#include \"pvmtev.h\"\n#include \"pvmproto.h\"\nint here = PvmOk;\n"
        );
        fs::write(&file, body).expect("the program is written");
        for (language, standard) in dialects {
            run(Command::new(if language == "c" { "gcc" } else { "g++" })
                .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I"])
                .arg(ours())
                .arg(format!("-std={standard}"))
                .args(["-x", language])
                .arg(&file));
        }
    }
}

#[test]
fn a_program_may_redeclare_the_error_variables() {
    let Some(folder) =
        workshop("redeclare", &[Peer::CCompiler], "pvm3.h beside a program's own declarations")
    else {
        return;
    };
    let file = folder.join("redeclare.c");
    // The original header leaves these to the program.
    let source =
        "#include \"pvm3.h\"\nextern int pvm_errno;\nextern char *pvm_errlist[];\nextern int pvm_nerr;\n";
    fs::write(&file, source).expect("the program is written");
    run(Command::new("cc").args(["-Wall", "-Werror", "-fsyntax-only", "-I"]).arg(ours()).arg(file));
}

#[test]
fn catchout_is_declared_only_after_stdio() {
    let Some(folder) = workshop("catchout", &[Peer::CCompiler], "when pvm3.h declares pvm_catchout") else {
        return;
    };
    let declared = |prelude: &str| {
        prototypes(&folder, &ours(), prelude).iter().any(|prototype| prototype.contains("pvm_catchout"))
    };
    assert!(declared("#include <stdio.h>"));
    assert!(!declared(""));
}

#[test]
fn constants_are_the_originals() {
    let Some(folder) = workshop("constants", COMPARED, "the constants of pvm3.h") else { return };
    let original = Path::new(ORIGINAL);
    let theirs = constants(&folder, original, &["pvm3.h"]);
    let mine = constants(&folder, &ours(), &["pvm3.h"]);
    assert!(theirs.len() > 120, "only {} constants were found", theirs.len());
    assert_eq!(theirs.keys().collect::<Vec<_>>(), mine.keys().collect::<Vec<_>>());
    assert_eq!(
        run_c(&folder, "theirs", &print_constants(original, &["pvm3.h"], &theirs)),
        run_c(&folder, "ours", &print_constants(&ours(), &["pvm3.h"], &theirs))
    );
}

#[test]
fn direct_index_macros_are_the_originals() {
    let Some(folder) = workshop("direct-index", COMPARED, "the mailbox macros of pvm3.h") else { return };
    let program = |include_folder: &Path| {
        include(include_folder, &["pvm3.h"])
            + "int main(void) {\n\
               int i, cases[] = { 0, 1, 511, 512, 2097151, 2097152, -1 };\n\
               for (i = 0; i < 7; i++) {\n\
               int flags = PvmMboxDirectIndex(cases[i]);\n\
               printf(\"%d %d\\n\", flags, PvmMboxDirectIndexOf(flags | PvmMboxPersistent));\n\
               }\n\
               return 0;\n}\n"
    };
    let theirs = run_c(&folder, "theirs", &program(Path::new(ORIGINAL)));
    assert_eq!(theirs, run_c(&folder, "ours", &program(&ours())));
}

#[test]
fn structures_have_the_originals_layout() {
    let Some(folder) = workshop("structures", COMPARED, "the structures of pvm3.h") else { return };
    assert_eq!(
        run_c(&folder, "theirs", &print_layout(Path::new(ORIGINAL), &["pvm3.h"], STRUCTURES)),
        run_c(&folder, "ours", &print_layout(&ours(), &["pvm3.h"], STRUCTURES))
    );
}

#[test]
fn functions_have_the_originals_prototypes() {
    let Some(folder) = workshop("prototypes", COMPARED, "the prototypes of pvm3.h") else { return };
    for prelude in ["", "#include <stdio.h>", "#define NOTMPNAM", "#define PVM33COMPAT"] {
        let mut theirs = prototypes(&folder, Path::new(ORIGINAL), prelude);
        let mut mine = prototypes(&folder, &ours(), prelude);
        theirs.retain(|prototype| !prototype.contains(DIFFERS_ON_PURPOSE));
        mine.retain(|prototype| !prototype.contains(DIFFERS_ON_PURPOSE));
        assert!(theirs.len() > 100, "only {} prototypes were found", theirs.len());
        assert_eq!(theirs, mine, "with {prelude:?}");
    }
}

#[test]
fn tracing_header_is_the_originals() {
    let Some(folder) = workshop("tracing", COMPARED, "pvmtev.h") else { return };
    let original = Path::new(ORIGINAL);
    let headers = &["pvm3.h", "pvmtev.h"];
    // Ours has its long lists as enumerations: the original tells the names.
    let names = constants(&folder, original, headers);
    assert!(names.len() > 380, "only {} constants were found", names.len());
    assert_eq!(
        run_c(&folder, "theirs", &print_constants(original, headers, &names)),
        run_c(&folder, "ours", &print_constants(&ours(), headers, &names))
    );
    assert_eq!(
        run_c(&folder, "their-layout", &print_layout(original, headers, TRACE_STRUCTURES)),
        run_c(&folder, "our-layout", &print_layout(&ours(), headers, TRACE_STRUCTURES))
    );
    let masks = |include_folder: &Path| {
        include(include_folder, headers)
            + "int main(void) {\n\
               Pvmtmask mask;\n\
               TEV_MASK_INIT(mask);\n\
               puts(mask);\n\
               TEV_MASK_SET(mask, TEV_SEND);\n\
               TEV_MASK_SET(mask, TEV_RECV);\n\
               TEV_MASK_UNSET(mask, TEV_RECV);\n\
               printf(\"%s %zu %d %d\\n\", mask, sizeof mask, !TEV_MASK_CHECK(mask, TEV_SEND),\n\
                   !TEV_MASK_CHECK(mask, TEV_RECV));\n\
               return 0;\n}\n"
    };
    assert_eq!(run_c(&folder, "their-masks", &masks(original)), run_c(&folder, "our-masks", &masks(&ours())));
}

#[test]
fn protocol_header_is_the_originals() {
    let Some(folder) = workshop("protocol", COMPARED, "pvmproto.h") else { return };
    let (original, headers) = (Path::new(ORIGINAL), &["pvm3.h", "pvmproto.h"]);
    let mut names = constants(&folder, original, headers);
    // What daemons say to each other is no program's business.
    let is_tasks =
        |name: &str| ["TM", "TC_", "SM_", "SYSCTX_T", "TDPROTOCOL"].iter().any(|p| name.starts_with(p));
    names.retain(|name, _| is_tasks(name));
    assert!(names.len() > 60, "only {} constants were found", names.len());
    assert_eq!(
        run_c(&folder, "theirs", &print_constants(original, headers, &names)),
        run_c(&folder, "ours", &print_constants(&ours(), headers, &names))
    );
}

#[test]
fn fortran_parameters_are_the_originals() {
    let Some(folder) = workshop("fortran", &[Peer::FortranCompiler, Peer::OriginalPvm], "fpvm3.h") else {
        return;
    };
    let original = Path::new(ORIGINAL);
    let names = parameters(&original.join("fpvm3.h"));
    assert!(names.len() > 100, "only {} constants were found", names.len());
    assert_eq!(names, parameters(&ours().join("fpvm3.h")));
    let theirs = run_fortran(&folder, original, "fixed", &names);
    for form in ["fixed", "free"] {
        assert_eq!(theirs, run_fortran(&folder, &ours(), form, &names), "in {form} form");
    }
}
