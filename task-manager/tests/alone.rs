//! The program where there is nothing for it to do.

use std::process::Command;

#[test]
fn without_a_daemon_it_says_so_and_ends() {
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
