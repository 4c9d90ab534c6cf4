//! Real children.

use super::sys::{class_and_flag, scheduling, set_scheduling};
use super::*;
use pvm_wire::tuned::{DAEMON_NICE, SHORT_TURN};
use std::time::Duration;

struct Nursery {
    processes: Processes,
    input: mpsc::Sender<Input>,
    events: mpsc::Receiver<Input>,
}

fn surroundings() -> Surroundings {
    Surroundings {
        search: vec!["/nowhere".into(), "/bin".into(), "/usr/bin".into()],
        directory: Some("/".into()),
        debugger: None,
        manager: vec!["/bin/echo".into(), "manager".into()],
        env: vec![("PVM_ARCH".into(), "LINUX64".into())],
        limits: Limits::current(),
        mark: Mark::own(),
        memory_limits: MemoryLimits::Auto,
        guardian: Vec::new(),
    }
}

impl Nursery {
    fn new() -> Self {
        let (input, events) = mpsc::channel(100);
        Self { processes: Processes::new(surroundings(), input.clone()).unwrap(), input, events }
    }

    async fn next(&mut self) -> Event {
        let input = tokio::time::timeout(Duration::from_secs(60), self.events.recv()).await;
        match input.expect("an event in time").expect("an event") {
            Input::Event(event) => event,
            Input::Started(started) => self.processes.take(started, &self.input).0,
            other => panic!("{other:?}"),
        }
    }

    fn start(&mut self, file: &str, args: &[&str]) {
        let args = args.iter().map(|&arg| arg.into()).collect();
        let program = Program { file: file.into(), args, env: vec!["A=b=c".into()], ..Program::default() };
        self.processes.start(vec![(Cookie(7), b"hello".to_vec())], program);
    }

    /// Runs until the child has ended and its output too.
    async fn finish(&mut self) -> (String, String) {
        let (mut output, mut status, mut ended) = (Vec::new(), None, false);
        while status.is_none() || !ended {
            match self.next().await {
                Event::ProcessOutput { data, .. } => output.extend_from_slice(&data),
                Event::ProcessOutputEnd { .. } => ended = true,
                Event::ProcessExited { status: said, .. } => status = Some(said.to_string()),
                Event::ProcessStarted { result, .. } => assert!(result.is_ok(), "{result:?}"),
                other => panic!("{other:?}"),
            }
        }
        (String::from_utf8(output).unwrap(), status.unwrap())
    }
}

#[tokio::test]
async fn a_child_gets_arguments_environment_directory_and_is_heard() {
    let mut nursery = Nursery::new();
    nursery.start("sh", &["-c", "echo $0 $1 $A $PVM_ARCH $PVMEPID $PWD; echo err >&2; exit 3", "x", "y z"]);
    let (output, status) = nursery.finish().await;
    assert_eq!((output.as_str(), status.as_str()), ("x y z b=c LINUX64 7 /\nerr\n", "exit status: 3"));
}

/// Why a file cannot be started.
async fn refusal(nursery: &mut Nursery, file: &str) -> String {
    nursery.start(file, &[]);
    match nursery.next().await {
        Event::ProcessStarted { result: Err((PvmError::NoFile, reason)), .. } => reason,
        other => panic!("{file}: {other:?}"),
    }
}

#[tokio::test]
async fn what_is_not_there_is_no_file() {
    let mut nursery = Nursery::new();
    for (file, expected) in [
        ("no-such-program", "no-such-program: not found in "),
        ("/etc/passwd", "/etc/passwd: permission denied: it is not executable"),
        ("/", "/: it is a directory"),
        ("/dev/null", "/dev/null: it is not a regular file"),
        ("a\0b", "no file can have such a name"),
        ("../../nowhere/x", "/nowhere/x: no such file"),
    ] {
        let reason = refusal(&mut nursery, file).await;
        assert!(reason.contains(expected), "{file}: {reason}");
    }
}

#[tokio::test]
async fn what_the_system_does_not_run_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let mut nursery = Nursery::new();
    let mut elf = std::fs::read("/bin/true").unwrap();
    let loader = elf.windows(5).position(|bytes| bytes == b"/ld-l").unwrap();
    elf[loader + 1] = b'X';
    for (content, expected) in [
        (&b"#! /no/such/perl6 -w\nprint\n"[..], "its interpreter /no/such/perl6 does not exist"),
        (b"\x7fELF and no more", "it is not a program for this machine"),
        (b"echo no interpreter\n", "it is not a program for this machine, nor a script"),
        (&elf, "its dynamic loader does not exist"),
    ] {
        let (path, source) = (folder.path().join("program"), folder.path().join("source"));
        std::fs::write(&source, content).unwrap();
        // Not written by this process: a child that another test starts meanwhile would have it open, too.
        assert!(std::process::Command::new("cp").arg(&source).arg(&path).status().unwrap().success());
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let reason = refusal(&mut nursery, path.to_str().unwrap()).await;
        assert_eq!(reason.split_once(": ").unwrap().0, path.to_str().unwrap());
        assert!(reason.contains(expected) && !reason.contains("os error"), "{reason}");
    }
}

#[tokio::test]
async fn more_than_the_system_takes_is_said_and_others_start() {
    let mut nursery = Nursery::new();
    nursery.start("true", &[&"x".repeat(1 << 20)]);
    match nursery.next().await {
        Event::ProcessStarted { result: Err((PvmError::Overflow, reason)), .. } => {
            assert!(reason.contains("Argument list too long"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    nursery.start("true", &[&"x".repeat(100_000)]);
    assert!(matches!(nursery.next().await, Event::ProcessStarted { result: Ok(_), .. }));
}

#[tokio::test]
async fn nothing_is_kept_of_a_child_whichever_end_comes_first() {
    let go = "until [ -e $0 ]; do sleep 0.01; done";
    let (silent_first, over_first) = (format!("exec >&- 2>&-; {go}"), format!("({go}) & exit"));
    for script in [&silent_first, &over_first] {
        let (mut nursery, folder) = (Nursery::new(), tempfile::tempdir().unwrap());
        let goes = folder.path().join("goes");
        nursery.start("sh", &["-c", script, goes.to_str().unwrap()]);
        let mut ends = Vec::new();
        while ends.len() < 2 {
            match nursery.next().await {
                Event::ProcessOutputEnd { cookie } => {
                    nursery.processes.output_ended(cookie);
                    ends.push("output");
                }
                Event::ProcessExited { cookie, .. } => {
                    nursery.processes.exited(cookie);
                    ends.push("process");
                }
                _ => assert_eq!(nursery.processes.children.len(), 1),
            }
            // What comes second comes when the first has been seen.
            if ends.len() == 1 {
                std::fs::write(&goes, "").unwrap();
            }
        }
        assert_eq!(ends[0], if *script == silent_first { "output" } else { "process" });
        assert_eq!(nursery.processes.children.len(), 0, "{script}");
    }
}

#[tokio::test]
async fn a_failure_fails_the_rest() {
    let mut nursery = Nursery::new();
    let program = Program { file: "no-such-program".into(), ..Program::default() };
    nursery.processes.start(vec![(Cookie(1), Vec::new()), (Cookie(2), Vec::new())], program);
    for expected in [1, 2] {
        let Event::ProcessStarted { cookie, result } = nursery.next().await else { panic!() };
        assert_eq!((cookie, result.unwrap_err().0), (Cookie(expected), PvmError::NoFile));
    }
}

#[tokio::test]
async fn a_signal_ends_a_child() {
    let mut nursery = Nursery::new();
    nursery.start("sleep", &["1000"]);
    let Event::ProcessStarted { result: Ok((pid, path)), .. } = nursery.next().await else { panic!() };
    assert_eq!(path, "/bin/sleep");
    assert!(signal_process(pid, 0).is_ok());
    assert!(
        signal_process(pid, 9999).is_err() && signal_process(-1, 9).is_err() && signal_process(0, 9).is_err()
    );
    assert_eq!(nursery.processes.signal_all(Signal::TERM), 1);
    assert_eq!(nursery.finish().await.1, "signal: 15 (SIGTERM)");
}

#[tokio::test]
async fn output_waits_while_it_is_paused() {
    let mut nursery = Nursery::new();
    nursery.start("sh", &["-c", "sleep 0.3; echo late"]);
    assert!(matches!(nursery.next().await, Event::ProcessStarted { .. }));
    nursery.processes.pause(Cookie(7), true);
    assert!(matches!(nursery.next().await, Event::ProcessExited { .. }), "the end is seen, the output not");
    assert!(tokio::time::timeout(Duration::from_millis(100), nursery.events.recv()).await.is_err());
    nursery.processes.pause(Cookie(7), false);
    assert!(matches!(nursery.next().await, Event::ProcessOutput { .. }));
}

#[tokio::test]
async fn a_task_that_has_too_much_memory_is_told_before_its_end() {
    let mark = Mark::own();
    if let Err(reason) = MemoryGroups::delegated(mark.clone()) {
        return pvm_tests::peers::unchecked("limits of memory by control groups", &reason);
    }
    let mut nursery = Nursery::new();
    let limit = 20 << 20;
    // It keeps its last line, of 100 MB, in memory; the shell goes on, unless the system ends it, too.
    let script = "head -c 100000000 /dev/zero | tail -n 1 > /dev/null; exit 3";
    let (file, args) = ("sh".into(), ["-c", script].map(Into::into).to_vec());
    let program = Program { file, args, memory: Some(limit), ..Program::default() };
    nursery.processes.start(vec![(Cookie(7), Vec::new())], program);
    let mut told = false;
    loop {
        match nursery.next().await {
            Event::OverMemory { cookie, limit: said } => {
                assert_eq!((cookie, said), (Cookie(7), limit));
                told = true;
            }
            Event::ProcessExited { cookie, .. } => {
                nursery.processes.exited(cookie);
                break;
            }
            _ => {}
        }
    }
    assert!(told);
    let groups = MemoryGroups::delegated(mark).unwrap();
    drop(nursery);
    assert!(groups.remove_all() && groups.exceeded(Cookie(7)).is_none(), "the group is gone");
}

#[tokio::test]
async fn the_manager_is_where_the_driver_knows_it() {
    let mut nursery = Nursery::new();
    nursery.processes.start(vec![(Cookie(7), Vec::new())], Program { manager: true, ..Program::default() });
    assert_eq!(nursery.finish().await.0, "manager\n");
}

#[test]
fn cpu_time_is_told_exactly_of_a_process_that_is_there() {
    let pid = std::process::id() as i32;
    let before = cpu_time(pid);
    let mut value = 0_u64;
    while cpu_time(pid) < before + Duration::from_micros(500) {
        value = std::hint::black_box(value + 1);
    }
    assert!(cpu_time(pid) < before + Duration::from_secs(60), "{value}");
    for nobody in [0, -1, i32::MAX] {
        assert_eq!(cpu_time(nobody), Duration::ZERO);
    }
}

#[test]
fn it_is_told_how_often_a_process_sleeps() {
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "for i in 1 2 3 4 5; do sleep 0.01; done; read x"]);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while sleeps(child.id() as i32) < 6 {
        assert!(std::time::Instant::now() < end, "it has slept {} times", sleeps(child.id() as i32));
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(sleeps(child.id() as i32), 0);
}

/// What a process has chosen for its children is none of its class.
#[test]
fn who_hands_nothing_on_is_held_like_anybody() {
    if !may_change_class() {
        return eprintln!("classes cannot be taken back here");
    }
    let mut command = std::process::Command::new("chrt");
    let mut child = command.args(["--reset-on-fork", "--other", "0", "sleep", "1000"]).spawn().unwrap();
    let pid = child.id().cast_signed();
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while class_and_flag(pid) != Some(libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK) {
        assert!(std::time::Instant::now() < end, "it has {:?}", class_and_flag(pid));
        std::thread::sleep(Duration::from_millis(1));
    }
    set_idle_class(pid, true).unwrap();
    assert_eq!(class_and_flag(pid), Some(libc::SCHED_IDLE | libc::SCHED_RESET_ON_FORK));
    set_idle_class(pid, false).unwrap();
    assert_eq!(class_and_flag(pid), Some(libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK));
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Class, nice value and turns of who asks.
fn its_scheduling() -> (libc::c_int, i32, Option<u64>) {
    let shown = std::fs::read_to_string("/proc/thread-self/sched").unwrap_or_default();
    let line = shown.lines().find_map(|line| line.strip_prefix("se.slice"));
    let slice = line.and_then(|line| line.split(':').nth(1)?.trim().parse().ok());
    (class_of(0).unwrap(), scheduling().unwrap().sched_nice, slice)
}

fn in_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::spawn(work).join().unwrap()
}

#[test]
fn a_prompt_thread_is_ahead_and_has_short_turns() {
    let (before, during) = in_a_thread(|| {
        let before = its_scheduling();
        let prompt = Prompt::begin().unwrap();
        let during = its_scheduling();
        prompt.end().unwrap();
        assert_eq!(its_scheduling(), before);
        (before, during)
    });
    let (class, nice, slice) = during;
    assert_eq!(class, libc::SCHED_OTHER);
    if may_change_class() {
        assert_eq!((before.1, nice), (0, -DAEMON_NICE));
    }
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let version: Vec<u32> = release.split('.').take(2).filter_map(|part| part.parse().ok()).collect();
    if version < vec![6, 12] || slice.is_none() {
        return eprintln!("the kernel knows no short turns, or does not show them");
    }
    assert_eq!(slice, Some(SHORT_TURN.as_nanos() as u64));
}

#[test]
fn what_a_prompt_thread_starts_is_like_anybody() {
    let start = || {
        let mut command = std::process::Command::new("sh");
        let output = command.args(["-c", "nice; grep ^se.slice /proc/self/sched"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let chosen_nice = if may_change_class() { vec![0, 5, -5] } else { vec![0, 5] };
    for nice in chosen_nice {
        in_a_thread(move || {
            let mine = scheduling().unwrap();
            set_scheduling(&libc::sched_attr { sched_nice: nice, ..mine }).unwrap();
            let before = start();
            assert!(before.starts_with(&format!("{nice}\n")), "{before}");
            let prompt = Prompt::begin().unwrap();
            let during = start();
            prompt.end().unwrap();
            assert_eq!((start().as_str(), scheduling().unwrap().sched_nice), (before.as_str(), nice));
            if nice >= 0 {
                assert_eq!(during, before);
            } else {
                assert_eq!(during.lines().next(), before.lines().next());
            }
        });
    }
}

/// Two on one processor wait for each other half of the time.
#[test]
fn it_is_told_how_long_a_process_has_waited_for_a_processor() {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let number = (0..rustix::thread::CpuSet::MAX_CPU).find(|&number| allowed.is_set(number)).unwrap();
    let spin = || {
        let mut command = std::process::Command::new("taskset");
        command.args(["-c", &number.to_string(), "sh", "-c", "while :; do :; done"]).spawn().unwrap()
    };
    let mut two = [spin(), spin()];
    let end = std::time::Instant::now() + Duration::from_secs(60);
    let waited = loop {
        let (used, waited) = times(two[0].id() as i32);
        if used > Duration::from_millis(30) && waited > Duration::from_millis(20) {
            break true;
        }
        if std::time::Instant::now() > end {
            break false;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    for child in &mut two {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(waited || !Path::new("/proc/self/schedstat").exists());
    assert_eq!(times(0), (Duration::ZERO, Duration::ZERO));
}
