//! Real processes.

use super::*;
use crate::io::process::limit_of_locks;
use std::io::Read;
use std::time::Duration;

fn recipe(path: &str, args: &[&str]) -> Recipe {
    let line = [path].iter().chain(args).map(OsString::from).collect();
    Recipe::new(Path::new(path), line, vec!["A=b c".into()], None, Limits::current()).unwrap()
}

fn shell(script: &str) -> Recipe {
    recipe("/bin/sh", &["-c", script, "x", "y z"])
}

fn launch(recipe: &Recipe) -> io::Result<Launched> {
    Launcher::new().unwrap().launch(
        recipe,
        &Own { entries: &[c"OWN=1".into()], greeting: b"hello", mark: None, output: None, group: None },
    )
}

fn output(recipe: &Recipe) -> String {
    let (mut launched, mut said) = (launch(recipe).unwrap(), String::new());
    launched.output.read_to_string(&mut said).unwrap();
    assert!(end(&launched).exited());
    said
}

fn end(launched: &Launched) -> rustix::process::WaitIdStatus {
    let ended = rustix::process::waitid(WaitId::PidFd(launched.watch.as_fd()), WaitIdOptions::EXITED);
    ended.unwrap().expect("news of its end")
}

fn failure(recipe: &Recipe) -> Option<i32> {
    launch(recipe).unwrap_err().raw_os_error()
}

#[test]
fn a_child_gets_what_its_recipe_says() {
    let mut recipe = shell("echo \"$0 $1 $A $OWN $PWD\"; ulimit -n; ulimit -Sc; echo err >&2");
    recipe.directory = Some(c"/usr".into());
    recipe.limits.open_files.current = Some(77);
    recipe.limits.core.current = Some(0);
    assert_eq!(output(&recipe), "x y z b c 1 /usr\n77\n0\nerr\n");
}

#[test]
fn a_child_inherits_a_channel_in_which_its_greeting_lies() {
    let script = "echo $PVMCHANNEL $PPID $(stat -Lc %i /proc/$$/fd/3); head -c 5 <&3; printf answer >&3";
    let mut launched = launch(&shell(script)).unwrap();
    let mut said = String::new();
    launched.output.read_to_string(&mut said).unwrap();
    let (words, greeting) = said.split_once('\n').unwrap();
    let [told, parent, file] = words.split(' ').collect::<Vec<_>>()[..] else { panic!("{said}") };
    let (daemon, file) = (parent.parse().unwrap(), file.parse().unwrap());
    assert_eq!(Channel::decode(told), Some(Channel { descriptor: 3, file, daemon }));
    assert_eq!(greeting, "hello");
    let mut answer = String::new();
    launched.channel.set_nonblocking(false).unwrap();
    launched.channel.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "answer", "and then it ends with its process");
}

#[test]
fn a_child_gets_no_other_descriptor_of_ours_and_no_signal_blocked_or_pipe_ignored() {
    let inherited = std::fs::File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&inherited, rustix::io::FdFlags::empty()).unwrap();
    assert_eq!(output(&shell("ls /proc/$$/fd; true")), "0\n1\n2\n3\n");
    drop(inherited);
    let status =
        with_signals_blocked(&blocked_meanwhile(&[]), || output(&recipe("/bin/cat", &["/proc/self/status"])));
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect(name);
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    assert_eq!(mask("SigBlk:"), 0);
    assert_eq!(mask("SigCgt:"), 0);
    assert_eq!(mask("SigIgn:") & (1 << (libc::SIGPIPE - 1)), 0);
}

#[test]
fn a_childs_mark_outlives_environment_session_and_parent() {
    let mark = 5 << 32 | 7;
    let orphan = r"while [ -e /proc/$$ ]; do sleep 0.01; done; echo \$\$; exec sleep 1000";
    let script = format!("env -i setsid sh -c 'sh -c \"{orphan}\" & exit' & wait");
    let own = Own { entries: &[c"OWN=1".into()], greeting: b"", mark: Some(mark), output: None, group: None };
    let mut launched = Launcher::new().unwrap().launch(&shell(&script), &own).unwrap();
    let mut said = [0; 20];
    let length = launched.output.read(&mut said).unwrap();
    let orphan = std::str::from_utf8(&said[..length]).unwrap().trim().parse().unwrap();
    assert!(end(&launched).exited());
    assert_eq!(limit_of_locks(orphan), Some(mark));
    let environment = std::fs::read(format!("/proc/{orphan}/environ")).unwrap();
    assert!(!environment.windows(4).any(|entry| entry == b"OWN="), "{environment:?}");
    assert_ne!(limit_of_locks(std::process::id().cast_signed()), Some(mark), "this process has none of it");
    rustix::process::kill_process(Pid::from_raw(orphan).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn the_kernels_reason_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let noise = folder.path().join("noise");
    std::fs::write(&noise, "\0\0no program").unwrap();
    std::fs::set_permissions(&noise, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    assert_eq!(failure(&recipe("/no/such/file", &[])), Some(libc::ENOENT));
    assert_eq!(failure(&recipe("/etc/passwd", &[])), Some(libc::EACCES));
    assert_eq!(failure(&recipe(noise.to_str().unwrap(), &[])), Some(libc::ENOEXEC));
    assert_eq!(failure(&recipe("/bin/echo", &[&"x".repeat(8 << 20)])), Some(libc::E2BIG));
    let mut elsewhere = shell("true");
    elsewhere.directory = Some(c"/no/such/folder".into());
    assert_eq!(failure(&elsewhere), Some(libc::ENOENT));
    let nul = Recipe::new(Path::new("/bin/e\0cho"), Vec::new(), Vec::new(), None, Limits::current());
    assert_eq!(nul.unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

/// Processes, zombies too, that were made by a thread of this name and have not become a program.
fn left_by(thread: &str) -> usize {
    let names = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim() == thread).count()
}

#[test]
fn what_could_not_be_started_leaves_no_process() {
    let work = || {
        let (bad, mut launcher) = (recipe("/no/such/file", &[]), Launcher::new().unwrap());
        let own = Own { entries: &[], greeting: b"hello", mark: None, output: None, group: None };
        (0..200).filter(|_| launcher.launch(&bad, &own).is_err()).count()
    };
    let thread = std::thread::Builder::new().name("leaves-nothing".into()).spawn(work).unwrap();
    assert_eq!(thread.join().unwrap(), 200);
    assert_eq!(left_by("leaves-nothing"), 0);
}

#[test]
fn children_end_with_the_thread_that_started_them() {
    let launched = std::thread::spawn(|| launch(&recipe("/bin/sleep", &["1000"])).unwrap()).join().unwrap();
    let status = end(&launched);
    assert_eq!(status.terminating_signal(), Some(libc::SIGKILL));
}

#[test]
fn children_live_as_long_as_the_thread_that_started_them() {
    let launched = launch(&recipe("/bin/sleep", &["1000"])).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    assert!(rustix::process::waitid(WaitId::PidFd(launched.watch.as_fd()), options).unwrap().is_none());
    rustix::process::kill_process(Pid::from_raw(launched.pid).unwrap(), Signal::TERM).unwrap();
    assert_eq!(end(&launched).terminating_signal(), Some(libc::SIGTERM));
}

#[test]
fn descriptors_are_none_of_the_standard_ones() {
    // Whatever is given, what comes back will not be closed by the child's own redirections.
    let (reader, _writer) = io::pipe().unwrap();
    assert!(beyond_standard(reader.into()).unwrap().as_raw_fd() > 2);
}

#[test]
fn the_end_of_a_child_wakes_nobody_while_another_is_made() {
    // SAFETY: valid sets, which are only read.
    let is_in = |set: &libc::sigset_t, signal| unsafe { libc::sigismember(set, signal) } == 1;
    let during = |caught: &[c_int]| {
        with_signals_blocked(&blocked_meanwhile(caught), || {
            let now = set_mask(&empty_set());
            set_mask(&now);
            now
        })
    };
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGUSR1] {
        assert!(is_in(&during(&[]), signal));
    }
    assert!(!is_in(&during(&[]), libc::SIGCHLD));
    assert!(is_in(&during(&[libc::SIGCHLD]), libc::SIGCHLD), "a handler would run in the child");
}
