//! `pvm run` with a PVM program: this very executable is the master, and its own workers.
//!
//! It has no test harness, since it must know by its arguments which of them it is.

use pvm3::{Pack, Task, Tid};
use std::path::Path;
use std::process::{Command, Stdio};

const WORKERS: usize = 6;
const WORK: i32 = 1;
const ENDED: i32 = 2;

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("master") => master().unwrap(),
        Some("worker") => worker().unwrap(),
        Some("copy") => copy().unwrap(),
        Some("queue") => queue().unwrap(),
        // What a test harness is asked by others, such as --list.
        Some(option) if option.starts_with("--") => {}
        _ => {
            output_of_tasks_comes_out_marked();
            progress_of_queues_is_shown();
            copies_are_siblings_without_a_parent();
            println!("tasks: ok");
        }
    }
}

/// Runs this program in a role with `pvm run`, which must succeed: its standard output and its standard error.
fn run(tmp: &Path, options: &[&str], role: &str) -> (String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_pvm"))
        .arg("run")
        .args(options)
        .arg(std::env::current_exe().unwrap())
        .arg(role)
        .env("TMPDIR", tmp)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{stdout}{stderr}");
    (stdout, stderr)
}

/// Prints where its workers are; they print themselves.
fn master() -> pvm3::Result<()> {
    let mut task = Task::enrol()?;
    assert_eq!(task.parent(), None);
    let program = std::env::args().next().unwrap_or_default();
    let workers = task.spawn(&program).arg("worker").count(WORKERS).start()?.tids;
    task.notify_exit(&workers, ENDED)?;
    for (number, &worker) in workers.iter().enumerate() {
        task.send(worker, WORK, Pack::new().put_one(number as i32)?)?;
    }
    for _ in &workers {
        let ended = task.recv(Tid::MY_DAEMON, ENDED)?.get_tid()?;
        println!("{ended} ended");
    }
    task.exit()
}

fn worker() -> pvm3::Result<()> {
    let mut task = Task::enrol()?;
    let number: i32 = task.recv(pvm3::Any, WORK)?.get_one()?;
    println!("first line of {number}");
    print!("last words of {number}");
    task.exit()
}

/// Queues tasks that take two seconds on two cores.
fn queue() -> pvm3::Result<()> {
    let mut task = Task::enrol()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    task.spawn("/bin/sleep").arg("0.5").count(4 * cores).queued().notices(ENDED).start()?;
    loop {
        let (_, event) = task.recv(Tid::MY_DAEMON, ENDED)?.get_batch_event()?;
        if let pvm3::BatchEvent::Done { done, .. } = event {
            println!("{done} done");
            return task.exit();
        }
    }
}

/// One of a number of copies: a number goes from the first to the last, and each adds 1.
fn copy() -> pvm3::Result<()> {
    let mut task = Task::enrol()?;
    assert_eq!(task.parent(), None);
    let all = task.siblings()?;
    let own = all.iter().position(|&tid| tid == task.tid()).unwrap();
    let number: i32 = if own == 0 { 0 } else { task.recv(all[own - 1], WORK)?.get_one()? };
    println!("instance {own} of {} has {number}", all.len());
    if let Some(&next) = all.get(own + 1) {
        task.send(next, WORK, Pack::new().put_one(number + 1)?)?;
    }
    task.exit()
}

fn copies_are_siblings_without_a_parent() {
    let tmp = tempfile::tempdir().unwrap();
    let trace = tempfile::tempdir().unwrap();
    let file = trace.path().join("trace.json");
    let (stdout, stderr) =
        run(tmp.path(), &["--hosts", "2", "-n", "4", "--trace", file.to_str().unwrap()], "copy");
    let mut said: Vec<&str> =
        stdout.lines().filter_map(|line| line.split_once("] ").map(|(_, text)| text)).collect();
    said.sort_unstable();
    let expected: Vec<String> = (0..4).map(|copy| format!("instance {copy} of 4 has {copy}")).collect();
    assert_eq!(said, expected, "{stderr}");
    assert!(std::fs::read_to_string(file).unwrap().contains("\"receiving\""), "their calls are in the trace");
    assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 0);
}

fn progress_of_queues_is_shown() {
    let tmp = tempfile::tempdir().unwrap();
    let (stdout, stderr) = run(tmp.path(), &[], "queue");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    assert!(stdout.contains(&format!("{} done", 4 * cores)), "{stdout}{stderr}");
    let all = 4 * cores;
    let last = format!("batch 40001: {all} of {all} placed, 0 running, {all} done, 0 failed");
    assert!(stderr.contains(&last), "{stderr}");
}

fn output_of_tasks_comes_out_marked() {
    let tmp = tempfile::tempdir().unwrap();
    let (stdout, _) = run(tmp.path(), &["--hosts", "3"], "master");
    let mut ended: Vec<&str> = stdout.lines().filter_map(|line| line.strip_suffix(" ended")).collect();
    assert_eq!(ended.len(), WORKERS, "{stdout}");
    for text in ["first line of", "last words of"] {
        let said = |number: usize| {
            let end = format!("] {text} {number}");
            let line =
                stdout.lines().find(|line| line.ends_with(&end)).unwrap_or_else(|| panic!("{end}: {stdout}"));
            line[1..].split(']').next().unwrap()
        };
        let mut tids: Vec<&str> = (0..WORKERS).map(said).collect();
        tids.sort_unstable();
        ended.sort_unstable();
        assert_eq!(tids, ended);
    }
    assert_eq!(stdout.lines().count(), 3 * WORKERS, "{stdout}");
    assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 0);
}
