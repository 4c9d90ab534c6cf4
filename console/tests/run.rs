//! `pvm run` and `pvm demo` as programs: what they print, how they end, and that nothing is left.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// `pvm`, with its temporary files in this folder.
fn pvm(tmp: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pvm"));
    command.args(args).current_dir(tmp).env("TMPDIR", tmp).env("PVM_TMP", tmp).stdin(Stdio::null());
    for name in ["PVM_VMID", "PVMSOCK", "PVMEPID", "PVM_PATH", "PVM_WD"] {
        command.env_remove(name);
    }
    command
}

fn run(tmp: &Path, args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = pvm(tmp, args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Processes that have this folder in their environment.
fn processes(tmp: &Path) -> usize {
    let marked = |pid: &Path| {
        let environment = std::fs::read(pid.join("environ")).unwrap_or_default();
        let mark = format!("TMPDIR={}\0", tmp.display());
        environment.windows(mark.len()).any(|window| window == mark.as_bytes())
    };
    files(Path::new("/proc")).iter().filter(|path| marked(path)).count()
}

fn assert_nothing_left(tmp: &Path) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while processes(tmp) > 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(processes(tmp), 0);
    assert_eq!(files(tmp), Vec::<PathBuf>::new());
}

#[test]
fn the_status_is_the_programs() {
    let tmp = tempfile::tempdir().unwrap();
    let cases = [
        (&["run", "sh", "-c", "exit 7"][..], 7),
        (&["run", "--hosts", "2", "sh", "-c", "exit 0"], 0),
        (&["run", "sh", "-c", "kill -9 $$"], 137),
        (&["run", "no-such-program"], 127),
        (&["run", "/etc/passwd"], 126),
    ];
    for (args, status) in cases {
        let (code, _, stderr) = run(tmp.path(), args);
        assert_eq!(code, status, "{args:?}: {stderr}");
    }
    assert_nothing_left(tmp.path());
}

#[test]
fn a_program_sees_its_machine_and_its_tasks_output_comes_out() {
    let tmp = tempfile::tempdir().unwrap();
    // The console, inside the machine, is as good a PVM program as any.
    let script = format!(
        "printf 'conf\\nspawn -3 /bin/echo hi\\n' | {} && sleep 0.2 && test -S \"$PVMSOCK\"",
        env!("CARGO_BIN_EXE_pvm")
    );
    let (code, stdout, stderr) = run(tmp.path(), &["run", "--hosts", "3", "sh", "-c", &script]);
    assert_eq!(code, 0, "{stdout}{stderr}");
    for expected in ["3 hosts, 1 data format", "host1", "host2", "host3", "3 successful"] {
        assert!(stdout.contains(expected), "{expected}: {stdout}");
    }
    assert_nothing_left(tmp.path());
}

#[test]
fn a_signal_ends_all_of_it() {
    let tmp = tempfile::tempdir().unwrap();
    for (signal, status) in [("-TERM", 143), ("-INT", 130)] {
        let mut child = pvm(tmp.path(), &["run", "--hosts", "2", "sh", "-c", "echo up; exec sleep 1000"])
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
        assert_eq!(line, "up\n");
        Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(status));
        assert_nothing_left(tmp.path());
    }
}

#[test]
fn a_host_that_cannot_be_started_ends_the_run_unless_it_may_be_missing() {
    let tmp = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let hostfile = folder.path().join("hosts");
    std::fs::write(&hostfile, "good via=local\nbad.invalid\n").unwrap();
    let hostfile = hostfile.to_str().unwrap();
    let (code, stdout, stderr) = run(tmp.path(), &["run", "--hostfile", hostfile, "echo", "ran"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("pvm: bad.invalid: "), "{stderr}");
    let args = ["run", "--hostfile", hostfile, "--allow-missing", "echo", "ran"];
    let (code, stdout, _) = run(tmp.path(), &args);
    assert_eq!((code, stdout.as_str()), (0, "ran\n"));
    std::fs::write(hostfile, "good zz=1\n").unwrap();
    let (code, _, stderr) = run(tmp.path(), &["run", "--hostfile", hostfile, "echo", "ran"]);
    assert_eq!(code, 1);
    assert!(stderr.contains(":1: "), "the line is named: {stderr}");
    assert_nothing_left(tmp.path());
}
