//! `pvm run` and `pvm demo` as programs: what they print, how they end, and that nothing is left.

mod private;

use private::{assert_nothing_left, assert_nothing_left_but, files, program, pvm, run, with_command};
use pvm_tests::{process, wait};
use rustix::process::Signal;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

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
    for (signal, status) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let mut child = pvm(tmp.path(), &["run", "--hosts", "2", "sh", "-c", "echo up; exec sleep 1000"])
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
        assert_eq!(line, "up\n");
        assert!(process::signal(child.id() as i32, signal));
        assert_eq!(child.wait().unwrap().code(), Some(status));
        assert_nothing_left(tmp.path());
    }
}

/// Spawns a program on the second of two hosts and waits for a file, for a minute at most, or a run that hears of nothing would
/// never end; the console inside is as good a PVM program as any.
fn spawner(spawn: &str, until: &Path) -> String {
    let (pvm, until) = (env!("CARGO_BIN_EXE_pvm"), until.display());
    let wait = format!("n=0; until test -e {until} -o $n -ge 1200; do n=$((n+1)); sleep 0.05; done");
    format!("echo '{spawn}' | {pvm} >&2; echo spawned; {wait}; exit 3")
}

/// Starts it, and kills the second host's daemon when the program has spawned.
fn lose_a_host(tmp: &Path, options: &[&str], script: &str) -> std::process::Child {
    let mut command = pvm(tmp, &["run", "--hosts", "2"]);
    command.args(options).args(["sh", "-c", script]).env("PVM_HOST_TIMEOUT", "1");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.as_mut().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    assert_eq!(line, "spawned\n");
    let slaves = with_command(tmp, "daemon --slave-daemon");
    assert_eq!(slaves.len(), 1);
    assert!(process::signal(slaves[0], Signal::KILL));
    child
}

/// The logs that a run has kept, which it must have named; they are removed.
fn take_logs(tmp: &Path, stderr: &str) {
    let line = stderr.lines().find(|line| line.starts_with("pvm: the daemons' logs are kept: "));
    let line = line.unwrap_or_else(|| panic!("{stderr}"));
    let logs = files(tmp);
    assert!(!logs.is_empty(), "{stderr}");
    for log in logs {
        assert!(log.file_name().unwrap().to_str().unwrap().starts_with("pvml."), "{}", log.display());
        assert!(line.contains(log.to_str().unwrap()), "{}: {line}", log.display());
        std::fs::remove_file(log).unwrap();
    }
}

#[test]
fn a_lost_host_is_reported_at_once_with_its_tasks() {
    let (tmp, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let go = folder.path().join("go");
    let mut child = lose_a_host(tmp.path(), &[], &spawner("spawn -host2 /bin/sleep 1000", &go));
    let mut stderr = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("was lost") {
        assert!(std::io::BufRead::read_line(&mut stderr, &mut said).unwrap() > 0, "{said}");
    }
    let line = said.lines().last().unwrap();
    assert!(line.starts_with("pvm: host host2 (t80000) was lost: "), "{said}");
    assert!(line.ends_with("; 1 task ran there: /bin/sleep t80001"), "{said}");
    assert_eq!(child.try_wait().unwrap(), None, "the run goes on");
    std::fs::write(go, "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3), "the status is the program's");
    std::io::Read::read_to_string(&mut stderr, &mut said).unwrap();
    take_logs(tmp.path(), &said);
    assert_nothing_left(tmp.path());
}

#[test]
fn a_lost_host_stops_a_run_that_is_to_stop() {
    let tmp = tempfile::tempdir().unwrap();
    let script = spawner("spawn -host2 /bin/sleep 1000", Path::new("/no/such/file"));
    let child = lose_a_host(tmp.path(), &["--on-failure", "stop"], &script);
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("pvm: host host2 (t80000) was lost: "), "{stderr}");
    assert!(stderr.contains("pvm: stopping (--on-failure stop)\n"), "{stderr}");
    take_logs(tmp.path(), &stderr);
    assert_nothing_left(tmp.path());
}

#[test]
fn a_task_that_a_signal_ends_is_named_with_the_signal() {
    let (tmp, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let crash = folder.path().join("crash");
    std::fs::write(&crash, "#!/bin/sh\nkill -SEGV $$\n").unwrap();
    std::fs::set_permissions(&crash, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let crash = crash.display();
    let said = format!("] {crash} was killed by signal 11 (Segmentation fault)\n");
    for (options, status) in [(&["run", "--hosts", "2"][..], 0), (&["run", "--on-failure=stop"], 125)] {
        let script = format!(
            "echo 'spawn -3 {crash}' | {} && sleep {}",
            env!("CARGO_BIN_EXE_pvm"),
            if status == 0 { 1 } else { 1000 }
        );
        let (code, _, stderr) = run(tmp.path(), &[options, &["sh", "-c", &script]].concat());
        assert_eq!(code, status, "{stderr}");
        // Stopped, it may have heard of the first only.
        let expected = if status == 0 { 3 } else { 1 };
        assert!(stderr.matches(&said).count() >= expected, "{stderr}");
        take_logs(tmp.path(), &stderr);
    }
    let (code, _, stderr) = run(tmp.path(), &["run", "sh", "-c", "kill -SEGV $$"]);
    assert_eq!(code, 139);
    assert!(stderr.ends_with("sh was killed by signal 11 (Segmentation fault)\n"), "{stderr}");
    // What a program ends on purpose is no loss.
    let pvm = env!("CARGO_BIN_EXE_pvm");
    let script = format!("task=$(echo spawn /bin/sleep 1000 | {pvm} | grep ^t) && echo kill $task | {pvm}");
    let (code, _, stderr) = run(tmp.path(), &["run", "sh", "-c", &script]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_nothing_left(tmp.path());
}

#[test]
fn copies_of_a_program_end_with_the_status_of_the_first_that_fails() {
    let tmp = tempfile::tempdir().unwrap();
    let (code, stdout, stderr) = run(tmp.path(), &["run", "-n", "5", "--hosts", "2", "/bin/echo", "hello"]);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(stdout.lines().filter(|line| line.ends_with("] hello")).count(), 5, "{stdout}");
    let (code, _, stderr) = run(tmp.path(), &["run", "-n", "2", "/bin/sh", "-c", "exit 9"]);
    assert_eq!(code, 9, "{stderr}");
    assert_eq!(stderr.matches("] ended with status 9\n").count(), 2, "{stderr}");
    let (code, _, stderr) = run(tmp.path(), &["run", "-n", "1", "/bin/sh", "-c", "kill -ABRT $$"]);
    assert_eq!(code, 134, "{stderr}");
    assert!(stderr.contains("] /bin/sh was killed by signal 6 (Aborted)\n"), "{stderr}");
    take_logs(tmp.path(), &stderr);
    let (code, _, stderr) = run(tmp.path(), &["run", "-n2", "/etc/passwd"]);
    assert!([126, 127].contains(&code), "{code} {stderr}");
    assert!(stderr.contains("pvm: 2 of 2 copies of /etc/passwd did not start: "), "{stderr}");
    assert_nothing_left(tmp.path());
}

#[test]
fn a_failing_copy_or_a_signal_stops_the_others() {
    let tmp = tempfile::tempdir().unwrap();
    let lock = tempfile::tempdir().unwrap();
    let first = lock.path().join("first");
    // One of them fails, the others would go on for ever.
    let script = format!("mkdir {} && exit 4; exec sleep 1000", first.display());
    let (code, _, stderr) = run(tmp.path(), &["run", "--on-failure=stop", "-n3", "/bin/sh", "-c", &script]);
    assert_eq!(code, 4, "{stderr}");
    let mut child = pvm(tmp.path(), &["run", "-n3", "/bin/sh", "-c", "echo up; exec sleep 1000"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    assert!(line.ends_with("] up\n"), "{line}");
    assert!(process::signal(child.id() as i32, Signal::TERM));
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert_nothing_left(tmp.path());
}

#[test]
fn logs_on_other_hosts_go_unless_something_was_lost() {
    let (tmp, folder, far) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // In place of ssh, a script that runs the daemon here, with a temporary folder of its own.
    let [hostfile, rsh] = ["hosts", "rsh"].map(|name| folder.path().join(name));
    std::fs::write(&hostfile, "far ip=127.0.0.9\n").unwrap();
    let (pvm, elsewhere) = (env!("CARGO_BIN_EXE_pvm"), far.path().display());
    std::fs::write(&rsh, format!("#!/bin/sh\nexec env PVM_TMP={elsewhere} {pvm} daemon --slave\n")).unwrap();
    std::fs::set_permissions(&rsh, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let run = |script: &str| {
        let mut command = self::pvm(tmp.path(), &["run", "--hostfile", hostfile.to_str().unwrap()]);
        let script = format!("printf 'conf\\n{script}' | {pvm}; sleep 0.5; exit 5");
        let output = command.args(["sh", "-c", &script]).env("PVM_RSH", &rsh).output().unwrap();
        let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert_eq!(output.status.code(), Some(5), "{stdout}{stderr}");
        assert!(stdout.contains("2 hosts"), "{stdout}{stderr}");
        assert_nothing_left_but(tmp.path(), &files(tmp.path()));
        stderr
    };
    run("spawn -far /bin/true\\n");
    assert_eq!(files(far.path()), Vec::<PathBuf>::new());
    assert_eq!(files(tmp.path()), Vec::<PathBuf>::new());
    let stderr = run("spawn -far /bin/sh -c \"kill -SEGV \\$\\$\"\\n");
    let logs = files(far.path());
    assert_eq!(logs.len(), 1, "{stderr}");
    assert!(stderr.contains(" in the temporary folder of far\n"), "{stderr}");
    let log = logs[0].file_name().unwrap().to_str().unwrap().to_owned();
    assert!(log.starts_with("pvml.") && stderr.contains(log.rsplit('.').next().unwrap()), "{log}: {stderr}");
    take_logs(tmp.path(), &stderr);
}

#[test]
fn a_name_that_is_not_found_is_explained() {
    let tmp = tempfile::tempdir().unwrap();
    let hello = tmp.path().join("hello");
    std::fs::write(&hello, "#!/bin/sh\n").unwrap();
    let (code, _, stderr) = run(tmp.path(), &["run", "hello"]);
    assert_eq!(code, 127);
    let begin = "pvm: hello: not found in the folders of $PATH, nor in ";
    assert!(stderr.starts_with(begin), "{stderr}");
    assert!(stderr.ends_with("; use ./hello for the one in this folder\n"), "{stderr}");
    std::fs::remove_file(hello).unwrap();
    let (code, _, stderr) = run(tmp.path(), &["run", "./hello"]);
    assert_eq!((code, stderr.as_str()), (127, "pvm: cannot run ./hello: no such file\n"));
    assert_nothing_left(tmp.path());
}

#[test]
fn a_trace_that_cannot_be_written_leaves_the_one_before() {
    let tmp = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.json");
    let file = trace.to_str().unwrap();
    let (code, _, _) = run(tmp.path(), &["run", "--trace", file, "no-such-program"]);
    assert_eq!(code, 127);
    assert_eq!(files(folder.path()), Vec::<PathBuf>::new(), "no file of a run that did not begin");
    std::fs::write(&trace, "the one before").unwrap();
    // The limit of file sizes, in blocks, is enough for the logs but not for the trace.
    let pvm = env!("CARGO_BIN_EXE_pvm");
    let script = format!("trap '' XFSZ; ulimit -f 32; exec {pvm} run --trace {file} -n 200 /bin/true");
    let output = program(Path::new("sh"), tmp.path(), &["-c", &script]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(&format!("cannot write {file}: ")), "{stderr}");
    assert_eq!(std::fs::read_to_string(&trace).unwrap(), "the one before");
    assert_eq!(files(folder.path()), [trace]);
    assert_nothing_left(tmp.path());
}

#[test]
fn processes_that_a_program_leaves_end_with_the_machine() {
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
    take_logs(tmp.path(), &stderr);
    let args = ["run", "--hostfile", hostfile, "--allow-missing", "echo", "ran"];
    let (code, stdout, _) = run(tmp.path(), &args);
    assert_eq!((code, stdout.as_str()), (0, "ran\n"));
    std::fs::write(hostfile, "good zz=1\n").unwrap();
    let (code, _, stderr) = run(tmp.path(), &["run", "--hostfile", hostfile, "echo", "ran"]);
    assert_eq!(code, 1);
    assert!(stderr.contains(":1: "), "the line is named: {stderr}");
    assert_nothing_left(tmp.path());
}

/// What the console inside a machine of this hostfile says to these commands, without its prompts.
fn converse(tmp: &Path, hostfile: &str, commands: &str) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hosts");
    std::fs::write(&path, hostfile).unwrap();
    let script = format!("printf '{commands}' | {}", env!("CARGO_BIN_EXE_pvm"));
    run(tmp, &["run", "--hostfile", path.to_str().unwrap(), "sh", "-c", &script])
}

#[test]
fn a_hostfile_may_have_this_host_under_any_of_its_names() {
    let tmp = tempfile::tempdir().unwrap();
    let name = Command::new("hostname").output().unwrap().stdout;
    let name = String::from_utf8(name).unwrap();
    let name = name.trim();
    let hostfile = format!("localhost\n127.0.0.1\n{name}.no-such-domain.invalid\n{name}\n");
    let (code, stdout, stderr) = converse(tmp.path(), &hostfile, "conf\\n");
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert!(stdout.contains("1 host, 1 data format"), "{stdout}{stderr}");
    let (code, _, stderr) = converse(tmp.path(), "localhost sp=1\n127.0.0.1 sp=2\n", "conf\\n");
    assert_eq!(code, 1);
    assert!(stderr.contains("127.0.0.1: this host is in another line with other options"), "{stderr}");
    assert_nothing_left(tmp.path());
}

#[test]
fn slots_of_a_hostfile_say_how_many_queued_tasks_a_host_runs() {
    let tmp = tempfile::tempdir().unwrap();
    // As batch systems write it: a line per slot.
    let hostfile = "localhost slots=1\n* via=local\ntwo:2\nthree\nthree\nthree\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hosts");
    std::fs::write(&path, hostfile).unwrap();
    let pvm = env!("CARGO_BIN_EXE_pvm");
    // The batch would end with the console that has spawned it.
    let script = format!(
        "{{ echo 'spawn -+ -10 /bin/sleep 1000'; n=0; while test $n -lt 200; do n=$((n+1)); sleep 0.05; \
         echo 'ps -a' | {pvm} | test $(grep -c /bin/sleep) -ge 6 && break; done; echo 'ps -a'; }} | {pvm}"
    );
    let (code, stdout, stderr) =
        run(tmp.path(), &["run", "--hostfile", path.to_str().unwrap(), "sh", "-c", &script]);
    assert_eq!(code, 0, "{stdout}{stderr}");
    let on = |host: &str| {
        let is_task = |line: &&str| line.trim_start().starts_with(host) && line.contains("/bin/sleep");
        stdout.lines().filter(is_task).count()
    };
    let own = on("") - on("two ") - on("three ") - on("pvm> ");
    assert_eq!((own, on("two "), on("three ")), (1, 2, 3), "{stdout}{stderr}");
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

/// Kills this many of the demo's tasks, one after the other; returns how many it found. The first is stopped until the others
/// are dead: so long the demo cannot be over.
fn kill_workers(tmp: &Path, count: usize) -> usize {
    let mut victims: Vec<i32> = Vec::new();
    wait::holds(|| {
        // The youngest has its work still before it.
        let found = with_command(tmp, "demo --worker").into_iter().filter(|pid| !victims.contains(pid));
        if let Some(pid) = found.max()
            && process::signal(pid, if victims.is_empty() { Signal::STOP } else { Signal::KILL })
        {
            victims.push(pid);
        }
        victims.len() == count
    });
    assert!(victims.first().is_some_and(|&pid| process::signal(pid, Signal::KILL)), "it waits to be killed");
    victims.len()
}
