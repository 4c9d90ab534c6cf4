//! `pvm run` and `pvm demo` as programs: what they print, how they end, and that nothing is left.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// So long something may take on a machine that has much to do.
const LIMIT: Duration = Duration::from_secs(60);

/// `pvm`, with its temporary files in this folder.
fn pvm(tmp: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pvm"));
    command.args(args).current_dir(tmp).env("TMPDIR", tmp).env("PVM_TMP", tmp).stdin(Stdio::null());
    if !rustix::process::geteuid().is_root() {
        // Or tests could not see which daemons are left.
        command.env("PVM_DUMPABLE", "1");
    }
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
    let deadline = Instant::now() + LIMIT;
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
        assert!(self::signal(signal, &child.id().to_string()));
        assert_eq!(child.wait().unwrap().code(), Some(status));
        assert_nothing_left(tmp.path());
    }
}

#[test]
fn what_a_program_leaves_running_ends_with_the_machine() {
    let tmp = tempfile::tempdir().unwrap();
    let script = "trap '' TERM; (sleep 1000 & sleep 1001) & (trap '' TERM; exec sleep 1002) & echo started";
    let (code, stdout, _) = run(tmp.path(), &["run", "sh", "-c", script]);
    assert_eq!((code, stdout.as_str()), (0, "started\n"));
    assert_nothing_left(tmp.path());
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

#[test]
fn the_demo_draws_its_picture_though_tasks_are_killed() {
    let tmp = tempfile::tempdir().unwrap();
    let demo = pvm(tmp.path(), &["demo"]).stdout(Stdio::piped()).spawn().unwrap();
    let killed = kill_workers(tmp.path(), 5);
    let output = demo.wait_with_output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{stdout}");
    assert_eq!(killed, 5, "the demo was over too soon: {stdout}");
    for host in ["host1 ", "host2 ", "host3 ", "host4 "] {
        assert!(stdout.lines().any(|line| line.starts_with(host)), "{host}: {stdout}");
    }
    let total = stdout.lines().find(|line| line.starts_with("total ")).unwrap();
    assert!(total.contains(" 256 "), "{stdout}");
    let picture = tmp.path().join("mandelbrot.png");
    assert_eq!(files(tmp.path()), std::slice::from_ref(&picture));
    let file = std::io::BufReader::new(std::fs::File::open(&picture).unwrap());
    let mut reader = png::Decoder::new(file).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut pixels).unwrap();
    for tile in [0, 17, 136, 255] {
        let (left, top) = pvm_examples::fractal::origin(tile);
        let expected = pvm_examples::fractal::render(tile);
        let row = (top * pvm_examples::fractal::SIDE + left) * 3;
        let width = pvm_examples::fractal::TILE * 3;
        assert!(pixels[row..row + width] == expected[..width], "tile {tile} is in its place");
    }
    std::fs::remove_file(picture).unwrap();
    assert_nothing_left(tmp.path());
}

/// Kills so many of the demo's tasks, one after the other; returns how many it found. The first is stopped until the others
/// are dead: so long the demo cannot be over.
fn kill_workers(tmp: &Path, count: usize) -> usize {
    let mut victims: Vec<String> = Vec::new();
    let deadline = Instant::now() + LIMIT;
    while victims.len() < count && Instant::now() < deadline {
        // The youngest has its work still before it.
        let found = workers(tmp).into_iter().filter(|pid| !victims.contains(pid));
        if let Some(pid) = found.max_by_key(|pid| pid.parse::<u32>().unwrap())
            && signal(if victims.is_empty() { "-STOP" } else { "-KILL" }, &pid)
        {
            victims.push(pid);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(victims.first().is_some_and(|pid| signal("-KILL", pid)), "it waits to be killed");
    victims.len()
}

/// The process ids of the demo's tasks.
fn workers(tmp: &Path) -> Vec<String> {
    let mark = format!("TMPDIR={}\0", tmp.display());
    let holds = |file: PathBuf, text: &[u8]| {
        std::fs::read(file).unwrap_or_default().windows(text.len()).any(|window| window == text)
    };
    let is_worker = |path: &PathBuf| {
        holds(path.join("cmdline"), b"demo\0--worker\0") && holds(path.join("environ"), mark.as_bytes())
    };
    let found = files(Path::new("/proc")).into_iter().filter(is_worker);
    found.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

fn signal(signal: &str, pid: &str) -> bool {
    Command::new("kill").args([signal, pid]).stderr(Stdio::null()).status().unwrap().success()
}
