//! The program where there is nothing for it to do.

use std::process::Command;

fn run(word: &str) -> (Option<i32>, String) {
    let ended = Command::new(env!("CARGO_BIN_EXE_pvm-task-manager")).arg(word).output().unwrap();
    (ended.status.code(), String::from_utf8([ended.stdout, ended.stderr].concat()).unwrap())
}

#[test]
fn it_says_what_it_is() {
    let (status, said) = run("--help");
    assert!(
        status == Some(0) && said.contains("Usage: pvm-task-manager") && said.contains("Examples:"),
        "{said}"
    );
    let (status, said) = run("--nonsense");
    assert!(status == Some(2) && said.contains("--nonsense"), "{said}");
}

#[test]
fn without_a_daemon_it_reports_that_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    let ended = Command::new(env!("CARGO_BIN_EXE_pvm-task-manager"))
        .env("PVM_TMP", folder.path())
        .env_remove("PVM_VMID")
        .env_remove("PVMSOCK")
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.starts_with("pvm-task-manager: ") && said.lines().count() == 1, "{said}");
}
