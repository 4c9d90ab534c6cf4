//! `pvm conf`, `pvm ps` and the others, as commands of the shell; and command lines with mistakes.

use crate::conversation::{self, Console, Folder};
use pvm_tests::Program;
use std::path::Path;
use std::process::Command;

/// What a command has printed, on standard output and error, and its exit status.
fn pvm(tmp: &Path, args: &[&str]) -> (String, String, i32) {
    let ended = Program::run(&mut conversation::pvm(tmp, args));
    (ended.stdout, ended.stderr, ended.status.code().unwrap_or(-1))
}

fn json(tmp: &Path, args: &[&str]) -> serde_json::Value {
    let (out, err, _) = pvm(tmp, args);
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{args:?}: {error}: {out}{err}"))
}

#[test]
fn the_machine_is_asked_and_changed_from_the_shell() {
    let tmp = Folder::new();
    let tmp = tmp.path();
    let mut console = Console::start(tmp, &["-nalpha"]);
    let spawned = console.ask("spawn -2 /bin/sleep 1000");
    let tids: Vec<&str> = spawned.lines().skip(1).collect();

    let (out, err, status) = pvm(tmp, &["add", "beta via=local sp=700", "gamma.invalid"]);
    assert_eq!((err.as_str(), status), ("", 1));
    assert!(out.starts_with("1 successful\n                    HOST     DTID\n"), "{out}");
    let hosts = json(tmp, &["conf", "--json"]);
    assert_eq!(hosts["hosts"][1]["name"], "beta via=local sp=700".split(' ').next().unwrap());
    assert_eq!((&hosts["hosts"][0]["tid"], &hosts["hosts"][1]["speed"]), (&"t40000".into(), &700.into()));
    // The shell's and the console's answers are one.
    assert_eq!(pvm(tmp, &["conf"]).0, console.ask("conf"));
    let of_tasks =
        |table: &str| table.lines().filter(|line| line.contains("sleep")).map(str::to_owned).collect();
    let (one, other): (Vec<String>, Vec<String>) =
        (of_tasks(&pvm(tmp, &["ps", "-a"]).0), of_tasks(&console.ask("ps -a")));
    assert_eq!((one.len(), &one), (2, &other));

    let tasks = json(tmp, &["ps", "--json"]);
    let tasks = tasks["tasks"].as_array().unwrap();
    let listed: Vec<&str> = tasks.iter().map(|task| task["tid"].as_str().unwrap()).collect();
    assert_eq!(listed, [&[console.ask("id").trim()], &tids[..]].concat());
    assert_eq!(tasks[1]["command"], "/bin/sleep");
    let killed = json(tmp, &["kill", "--json", tids[0], "t40fff"]);
    assert_eq!(killed["tasks"][0], serde_json::json!({ "tid": tids[0] }));
    assert_eq!(killed["tasks"][1], serde_json::json!({ "tid": "t40fff", "error": "no such task" }));
    assert_eq!(pvm(tmp, &["kill", "t40fff"]), ("t40fff: no such task\n".to_owned(), String::new(), 1));

    console.enter("spawn -3 -+ /bin/true");
    console.becomes("batch", |list| list.contains(" 3       0       0       3 "));
    assert_eq!(json(tmp, &["batch", "--json"])["batches"][0]["done"], 3);
    let batch = &json(tmp, &["batch", "40001", "--json"])["batches"][0];
    let decided =
        batch["decisions"].as_array().unwrap().iter().map(|decision| decision["tasks"].as_u64().unwrap());
    assert_eq!(decided.sum::<u64>(), 3, "{batch}");
    // It was placed, granted and done with at its home at least.
    assert!(batch["messages"]["at_home"].as_u64().unwrap() >= 3, "{batch}");
    let told = pvm(tmp, &["batch", "40001"]).0;
    assert!(told.contains(" for each task given\n") && told == console.ask("batch 40001"), "{told}");
    let policy = &json(tmp, &["batch", "--policies", "--json"])["policies"][0];
    // Two tasks have been spawned before.
    let tasks = (policy["batches"].as_u64(), policy["given"].as_u64());
    assert_eq!((&policy["policy"], tasks), (&"active-pulling".into(), (Some(2), Some(5))), "{policy}");
    let unknown = pvm(tmp, &["batch", "40009"]);
    assert_eq!((unknown.0.contains("no such batch"), unknown.2), (true, 1));
    assert_eq!(pvm(tmp, &["batch", "--watch", "40009"]).2, 1);
    assert!(pvm(tmp, &["dump"]).0.starts_with("daemon of host "));

    assert_eq!(pvm(tmp, &["delete", "beta"]).2, 0);
    assert_eq!(json(tmp, &["delete", "beta", "--json"])["hosts"][0]["error"], "No such host");
    assert_eq!(pvm(tmp, &["halt"]), (String::new(), String::new(), 0));
    drop(console.end());
    for command in
        [&["conf"][..], &["ps"], &["add", "x"], &["batch"], &["kill", "40001"], &["dump"], &["halt"]]
    {
        let (out, err, status) = pvm(tmp, command);
        assert_eq!((out.as_str(), status), ("", 1), "{command:?}");
        assert!(err.starts_with("pvm: no daemon runs here (no address file "), "{command:?}: {err}");
    }
}

#[test]
fn halt_is_not_misled_by_the_address_file_of_another_machine() {
    let (tmp, other) = (Folder::new(), tempfile::tempdir().unwrap());
    let console = Console::start(tmp.path(), &[]);
    console.expect_output("pvm> ");
    let address = std::fs::read_to_string(tmp.address_file()).unwrap();
    let file = other.path().join(tmp.address_file().file_name().unwrap());
    std::fs::write(&file, "/nowhere/else").unwrap();
    let mut command = conversation::pvm(other.path(), &["halt"]);
    command.env("PVMSOCK", address.trim_end());
    assert!(command.status().unwrap().success());
    drop(console.end());
    assert!(file.exists());
}

#[test]
fn shells_can_complete_the_commands() {
    let tmp = Folder::new();
    let (script, _, status) = pvm(tmp.path(), &["completions", "bash"]);
    assert_eq!(status, 0);
    // As bash does it for "pvm hal" and the tab key.
    let ask = "COMP_WORDS=(pvm hal); COMP_CWORD=1; _pvm pvm hal pvm; echo \"${COMPREPLY[@]}\"";
    let output = Command::new("bash").args(["-c", &format!("{script}\n{ask}")]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "halt\n");
    for shell in ["zsh", "fish"] {
        assert!(pvm(tmp.path(), &["completions", shell]).0.contains("batch"), "{shell}");
    }
    assert_eq!(pvm(tmp.path(), &["completions", "tcsh"]).2, 2);
}

#[test]
fn mistakes_in_a_command_line_are_named() {
    let tmp = Folder::new();
    std::fs::write(tmp.path().join("hosts"), "alpha\n").unwrap();
    for (args, expected) in [
        (&["runn"][..], "pvm: unknown command or hostfile 'runn' (did you mean 'run'?)\n"),
        (&["runn", "--help"], "pvm: unknown command or hostfile 'runn' (did you mean 'run'?)\n"),
        (&["xyzzy"], "pvm: unknown command or hostfile 'xyzzy' (\"pvm --help\" lists the commands)\n"),
        (&["-nx", "nowhere"], "pvm: no hostfile 'nowhere'\n"),
        (&["-x"], "error: unexpected argument '-x' found\n"),
        (&["-dzz"], "error: invalid value 'zz' for '-d <MASK>': expected a number, octal with 0"),
        (&["hosts", "--bogus"], "error: unexpected argument '--bogus' found\n"),
        (&["conf", "x"], "error: unexpected argument 'x' found\n\nUsage: pvm conf "),
        (&["kill"], "error: the following required arguments were not provided:\n  <TID>..."),
        (&["kill", "zz"], "error: invalid value 'zz' for '<TID>...': expected the id of a task"),
        (
            &["batch", "-c", "zz"],
            "error: invalid value 'zz' for '--cancel <ID>...': expected the id of a batch",
        ),
    ] {
        let (out, err, status) = pvm(tmp.path(), args);
        assert_eq!((out.as_str(), status), ("", 2), "{args:?}: {err}");
        assert!(err.starts_with(expected), "{args:?}: {err}");
        assert!(!err.contains(" argument") || err.contains("\nUsage: pvm "), "{err}");
    }
    // The address of a daemon that is no more: the reason is told once, and without a number.
    std::fs::write(tmp.address_file(), tmp.path().join("nobody").to_str().unwrap()).unwrap();
    let (_, err, status) = pvm(tmp.path(), &["conf"]);
    assert_eq!(
        (status, err.matches("No such file").count(), err.contains("os error")),
        (1, 1, false),
        "{err}"
    );
    std::fs::remove_file(tmp.address_file()).unwrap();
    let (out, _, status) = pvm(tmp.path(), &["dump", "--help"]);
    assert!(status == 0 && out.contains("Usage: pvm dump"), "{out}");
    assert!(!tmp.address_file().exists(), "something was started");
}
