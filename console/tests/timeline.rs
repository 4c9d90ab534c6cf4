//! `pvm run --trace` with PVM programs: this very executable is all of them.
//!
//! It has no test harness, since it must know by its arguments which of them it is.

use pvm3::{Any, Pack, Task};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const WORK: i32 = 1;
const ANSWER: i32 = 2;
const WORKERS: usize = 4;
/// Enough for trees.
const MEMBERS: usize = 10;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    match args.get(1).map(String::as_str) {
        Some("master") => master(args[2].parse().unwrap()).unwrap(),
        Some("worker") => worker().unwrap(),
        Some("member") => member().unwrap(),
        Some("victim") => victim().unwrap(),
        Some("killer") => killer().unwrap(),
        Some("old") => old(&args[2]).unwrap(),
        Some("teams") => teams().unwrap(),
        Some("busy") => busy(),
        Some("uneven") => uneven().unwrap(),
        Some("part") => part(args[2].parse().unwrap()).unwrap(),
        // What a test harness is asked by others, such as --list.
        Some(option) if option.starts_with("--") => {}
        _ => {
            every_message_is_an_arrow_between_spans();
            ten_thousand_messages_are_all_there();
            group_calls_are_shown_as_spans();
            a_killed_task_has_its_row_to_its_end();
            programs_without_reports_have_rows();
            turns_of_teams_have_a_row();
            a_summary_names_the_slow_worker();
            a_trace_is_bounded_and_filtered();
            what_is_no_trace_is_not_summarized();
            a_file_that_cannot_be_written_stops_the_run_before_it_starts();
            println!("timeline: ok");
        }
    }
}

fn own_program() -> String {
    std::env::current_exe().unwrap().display().to_string()
}

/// Sends rounds of messages to its workers, one by one and to all at once, and takes an answer to each.
fn master(rounds: usize) -> pvm3::Result<()> {
    let mut task = Task::enrol()?;
    let workers = task.spawn(own_program()).arg("worker").count(WORKERS).start()?.tids;
    assert_eq!(workers.len(), WORKERS);
    for round in 0..rounds {
        let mut work = Pack::new();
        work.put_one(round as i32)?;
        if round % 2 == 0 {
            task.multicast(&workers, WORK, &work)?;
        } else {
            workers.iter().try_for_each(|&worker| task.send(worker, WORK, &work))?;
        }
        // The answers are taken in another order than they come in.
        for &worker in workers.iter().rev() {
            task.recv(worker, ANSWER)?;
        }
    }
    task.multicast(&workers, WORK, Pack::new().put_one(-1)?)?;
    task.exit()
}

/// Answers until it is told to end, which it does without a farewell.
fn worker() -> pvm3::Result<()> {
    let mut task = Task::enrol()?;
    while let mut work = task.recv(Any, WORK)?
        && work.get_one::<i32>()? >= 0
    {
        task.send(work.source(), ANSWER, &Pack::new())?;
    }
    Ok(())
}

/// The first spawns the others; then all meet, reduce, gather, scatter and hear a broadcast.
fn member() -> pvm3::Result<()> {
    let mut task = Task::enrol()?;
    if task.parent().is_none() {
        task.group("team").join()?;
        task.spawn(own_program()).arg("member").count(MEMBERS - 1).start()?;
    } else {
        task.group("team").join()?;
    }
    let mut group = task.group("team");
    group.barrier(MEMBERS)?;
    group.sum(1, 0, &mut [1])?;
    let all = group.gather(2, 0, &[1])?;
    group.scatter::<i32>(3, 0, all.as_deref(), 1)?;
    if all.is_some() {
        group.broadcast(4, &Pack::new())?;
    } else {
        task.recv(Any, 4)?;
    }
    task.group("team").barrier_of_all()?;
    task.exit()
}

/// Sends, waits a while in vain, and then for ever.
fn victim() -> pvm3::Result<()> {
    let mut task = Task::enrol()?;
    let parent = task.parent().unwrap();
    task.send(parent, ANSWER, &Pack::new())?;
    assert!(task.recv_timeout(Any, WORK, Duration::from_millis(150))?.is_none());
    task.send(parent, ANSWER, &Pack::new())?;
    task.recv(Any, WORK).map(drop)
}

fn killer() -> pvm3::Result<()> {
    let mut task = Task::enrol()?;
    let victim = task.spawn(own_program()).arg("victim").start()?.tids[0];
    task.notify_exit(&[victim], WORK)?;
    for _ in 0..2 {
        task.recv(victim, ANSWER)?;
    }
    std::thread::sleep(Duration::from_millis(50));
    task.signal(victim, 9)?;
    task.recv(Any, WORK)?;
    task.exit()
}

/// Spawns programs that are no tasks, and waits until they have ended.
fn old(program: &str) -> pvm3::Result<()> {
    let mut task = Task::enrol()?;
    let tasks = task.spawn(program).arg("0.2").count(2).start()?.tids;
    task.notify_exit(&tasks, WORK)?;
    for _ in &tasks {
        task.recv(Any, WORK)?;
    }
    task.exit()
}

/// As many teams on a host as turns begin with, until the first two have had some.
fn teams() -> pvm3::Result<()> {
    let mut task = Task::enrol()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut all = Vec::new();
    for team in 0..cores.max(2) {
        let spawn = task.spawn(own_program()).arg("busy").count(2).team(&format!("team {team}"));
        all.extend(spawn.on_host("host2").start()?.tids);
    }
    let (host, end) = (all[0].to_host(), Instant::now() + Duration::from_secs(60));
    let mut had = BTreeSet::new();
    while !(had.contains("team 0") && had.contains("team 1")) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
        let history = task.turn_history(host, 0)?;
        had.extend(history.spans.into_iter().filter_map(|span| span.team));
    }
    task.notify_exit(&all, WORK)?;
    all.iter().try_for_each(|&tid| task.signal(tid, 9))?;
    for _ in &all {
        task.recv(Any, WORK)?;
    }
    task.exit()
}

/// Computes until it is killed, without a word to anybody.
fn busy() {
    loop {
        std::hint::spin_loop();
    }
}

/// Milliseconds of a short and of a long part.
const PARTS: [u64; 2] = [20, 300];

/// Waits for a short and for a long part of its work, and has something to do itself.
fn uneven() -> pvm3::Result<()> {
    let mut task = Task::enrol()?;
    let mut workers = Vec::new();
    for time in PARTS {
        let part = task.spawn(own_program()).arg("part").arg(time.to_string());
        workers.extend(part.start()?.tids);
    }
    for &worker in &workers {
        task.recv(worker, ANSWER)?;
    }
    // It ends last.
    std::thread::sleep(Duration::from_millis(100));
    task.exit()
}

fn part(time: u64) -> pvm3::Result<()> {
    let mut task = Task::enrol()?;
    std::thread::sleep(Duration::from_millis(time));
    task.send(task.parent().unwrap(), ANSWER, Pack::new().put(&[7_u8; 1000])?)?;
    task.exit()
}

fn run(folder: &Path, file: &str, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pvm"))
        .args(["run", "--hosts", "2", "--trace", file])
        .arg(own_program())
        .args(args)
        .current_dir(folder)
        .env("TMPDIR", folder)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// What a run's file says.
struct Picture(Vec<Value>);

/// A task: its host and its number there.
type Place = (i64, i64);

fn picture(args: &[&str]) -> Picture {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), "run.json", args);
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    let file = std::fs::read(folder.path().join("run.json")).unwrap();
    let mut picture: Value = serde_json::from_slice(&file).unwrap();
    let Value::Array(events) = picture["traceEvents"].take() else { panic!("no events") };
    Picture(events)
}

fn place(event: &Value) -> Place {
    (event["pid"].as_i64().unwrap(), event["tid"].as_i64().unwrap())
}

/// Begin and end in nanoseconds, so that they can be compared.
fn times(event: &Value) -> (i64, i64) {
    let nanos = |key: &str| (event[key].as_f64().unwrap_or(0.0) * 1000.0).round() as i64;
    (nanos("ts"), nanos("ts") + nanos("dur"))
}

impl Picture {
    fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.0.iter().filter(move |event| event["ph"] == kind)
    }

    fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Value> {
        self.of("X").filter(move |event| event["name"] == name)
    }

    fn lives(&self) -> BTreeMap<Place, &Value> {
        self.of("X").filter(|event| event["cat"] == "task").map(|event| (place(event), event)).collect()
    }

    /// Spans of a row lie within each other or apart, and within the life of its task.
    fn assert_nested(&self) {
        let mut open: BTreeMap<Place, Vec<(i64, i64)>> = BTreeMap::new();
        let mut spans: Vec<&Value> = self.of("X").collect();
        spans.sort_by_key(|event| (times(event).0, -times(event).1));
        for event in spans {
            let (begin, end) = times(event);
            let stack = open.entry(place(event)).or_default();
            while stack.len() > 1 && stack.last().is_some_and(|top| top.1 <= begin) {
                stack.pop();
            }
            if let Some(top) = stack.last() {
                assert!(top.0 <= begin && end <= top.1, "{event} is not within {top:?}");
            } else {
                assert_eq!(event["cat"], "task", "{event} lies before its task's life");
            }
            stack.push((begin, end));
        }
    }

    /// Each arrow begins in a span that sends and ends, not before that, on a span of its own in one that waits; returns how many there are.
    fn arrows(&self) -> usize {
        let spans = |name: &'static str| {
            let mut spans: BTreeMap<Place, BTreeSet<(i64, i64)>> = BTreeMap::new();
            for event in self.named(name) {
                spans.entry(place(event)).or_default().insert(times(event));
            }
            spans
        };
        let (sending, waiting, heads) = (spans("sending"), spans("waiting"), spans("receiving"));
        let hits = |spans: &BTreeMap<Place, BTreeSet<(i64, i64)>>, event: &Value| {
            let moment = times(event).0;
            let before = spans[&place(event)].range(..=(moment, i64::MAX)).next_back();
            before.is_some_and(|span| moment <= span.1)
        };
        let ends: BTreeMap<i64, &Value> =
            self.of("f").map(|event| (event["id"].as_i64().unwrap(), event)).collect();
        for begin in self.of("s") {
            let end = ends[&begin["id"].as_i64().unwrap()];
            assert!(hits(&sending, begin), "{begin}");
            assert!(hits(&waiting, end), "{end}");
            // Perfetto hangs it on the innermost span, and turns it round if that began before the sending.
            let head = heads[&place(end)].range((times(end).0, 0)..).next().unwrap();
            assert!(head.0 == times(end).0 && head.0 >= times(begin).0, "{begin} {end}");
            assert!(times(begin).0 <= times(end).0, "{begin} {end}");
        }
        assert_eq!(self.of("s").count(), ends.len());
        ends.len()
    }
}

fn every_message_is_an_arrow_between_spans() {
    let picture = picture(&["master", "10"]);
    picture.assert_nested();
    let hosts = picture.of("M").filter(|event| event["name"] == "process_name");
    assert_eq!(
        hosts.map(|event| event["args"]["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["host1", "host2"]
    );
    let lives = picture.lives();
    assert_eq!(lives.len(), 1 + WORKERS);
    for (place, life) in &lives {
        assert_eq!(life["args"].get("note"), None, "{life}");
        let label =
            picture.of("M").find(|event| event["name"] == "thread_name" && self::place(event) == *place);
        let name = label.unwrap()["args"]["name"].as_str().unwrap();
        assert!(
            name.starts_with(life["args"]["task"].as_str().unwrap()) && name.contains(" timeline"),
            "{name}"
        );
    }
    assert_eq!(picture.arrows(), 2 * 10 * WORKERS + WORKERS);
    assert_eq!(picture.named("spawn").count(), 1);
    assert!(picture.named("computing").count() > WORKERS);
}

fn ten_thousand_messages_are_all_there() {
    let rounds = 10_000 / (2 * WORKERS);
    let picture = picture(&["master", &rounds.to_string()]);
    picture.assert_nested();
    assert_eq!(picture.arrows(), 2 * rounds * WORKERS + WORKERS);
}

fn group_calls_are_shown_as_spans() {
    let picture = picture(&["member"]);
    picture.assert_nested();
    let count = |name| {
        let spans = picture.named(name).inspect(|span| assert_eq!(span["args"]["group"], "team", "{span}"));
        spans.count()
    };
    assert_eq!(["joingroup", "reduce", "gather", "scatter"].map(count), [MEMBERS; 4]);
    assert_eq!((count("barrier"), count("bcast")), (2 * MEMBERS, 1));
    // What is reduced, gathered, scattered and broadcast, and the last barrier up the tree. Its way down is cut short
    // where the keeper has told that somebody has left by then.
    let arrows = picture.arrows();
    assert!((5 * (MEMBERS - 1)..=6 * (MEMBERS - 1)).contains(&arrows), "{arrows} arrows");
}

fn a_killed_task_has_its_row_to_its_end() {
    let picture = picture(&["killer"]);
    picture.assert_nested();
    let lives = picture.lives();
    assert_eq!(lives.len(), 2);
    let (victim, life) = lives.iter().find(|(_, life)| life["args"].get("note").is_some()).unwrap();
    let (begin, end) = times(life);
    assert!(end - begin >= 200_000_000, "it waits twice before it is killed: {life}");
    // What it has not reported is not known; what it did longer ago than 0.1 s is.
    let known: Vec<&Value> = picture.of("X").filter(|event| place(event) == *victim).collect();
    assert!(known.iter().any(|event| event["name"] == "sending"), "{known:?}");
    let waited = known.iter().find(|event| event["name"] == "waiting").unwrap();
    assert!(times(waited).1 - times(waited).0 >= 150_000_000, "{waited}");
    assert!(picture.arrows() >= 1);
}

fn programs_without_reports_have_rows() {
    let begun = Instant::now();
    let picture = picture(&["old", "/bin/sleep"]);
    let most = begun.elapsed().as_nanos() as i64;
    picture.assert_nested();
    let lives = picture.lives();
    let silent: Vec<&&Value> = lives.values().filter(|life| life["name"] == "sleep").collect();
    assert_eq!(silent.len(), 2, "{lives:?}");
    for life in silent {
        let (begin, end) = times(life);
        assert!((150_000_000..most).contains(&(end - begin)), "{life}");
    }
}

fn turns_of_teams_have_a_row() {
    let picture = picture(&["teams"]);
    let turns: Vec<&Value> = picture.of("X").filter(|event| event["cat"] == "turn").collect();
    assert!(turns.iter().all(|turn| place(turn) == (2, 0)), "only there somebody takes turns: {turns:?}");
    let had: BTreeSet<&str> = turns.iter().filter_map(|turn| turn["name"].as_str()).collect();
    assert!(had.contains("team 0") && had.contains("team 1"), "{had:?}");
    let mut last = (i64::MIN, 0);
    for turn in turns {
        let (epoch, (begin, end)) = (turn["args"]["epoch"].as_i64().unwrap(), times(turn));
        assert!(last.0 <= begin && begin < end && last.1 <= epoch, "{turn} after {last:?}");
        last = (end, epoch);
    }
    let label = picture.of("M").find(|event| event["name"] == "thread_name" && place(event) == (2, 0));
    assert_eq!(label.unwrap()["args"]["name"], "turns");
    // Both compute, so they share what there is, and each waits for what the other has.
    let curve = |name: &str| {
        let points = picture.of("C").filter(|event| event["name"] == name);
        let points = points.map(|point| {
            assert_eq!(place(point), (2, 0), "only there somebody takes turns");
            let values = point["args"].as_object().expect("values of teams").values();
            values.map(|value| value.as_f64().expect("a number")).collect::<Vec<_>>()
        });
        points.collect::<Vec<_>>()
    };
    let (shares, slowdowns) = (curve("teams' shares of what all had, %"), curve("teams' slowdowns"));
    assert_eq!(shares.len(), slowdowns.len());
    let sums = || shares.iter().map(|values| values.iter().sum::<f64>());
    assert!(sums().all(|sum| sum == 0.0 || (sum - 100.0).abs() < 0.01), "{shares:?}");
    assert!(sums().any(|sum| sum > 0.0) && sums().next_back() == Some(0.0), "{shares:?}");
    assert!(slowdowns.iter().flatten().all(|&slowdown| slowdown == 0.0 || slowdown >= 1.0), "{slowdowns:?}");
    assert!(slowdowns.iter().flatten().any(|&slowdown| slowdown > 1.0), "{slowdowns:?}");
}

fn summary(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pvm"));
    command.args(["trace", "summary"]).args(args).current_dir(folder).output().unwrap()
}

fn a_summary_names_the_slow_worker() {
    let folder = tempfile::tempdir().unwrap();
    assert!(run(folder.path(), "run.json", &["uneven"]).status.success());
    let output = summary(folder.path(), &["run.json", "--json", "--svg", "run.svg"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let tasks = told["tasks"].as_array().unwrap();
    let slow = tasks.iter().max_by_key(|task| task["computing_ns"].as_i64()).unwrap();
    let (master, wait) = (&tasks[0]["task"], &told["waits"][0]);
    assert_eq!((&wait["task"], &wait["for"], &wait["count"]), (master, &slow["task"], &1.into()), "{told:#}");
    let nanos = |value: &Value, key: &str| value[key].as_i64().unwrap();
    // It may have begun before the master waited.
    assert!(nanos(wait, "ns") > 100_000_000 && nanos(slow, "computing_ns") >= 299_000_000, "{told:#}");
    let path = told["critical_path"].as_array().unwrap();
    let length: i64 = path.iter().map(|step| nanos(step, "end_ns") - nanos(step, "begin_ns")).sum();
    assert_eq!(length, nanos(&told, "length_ns"), "{told:#}");
    let on_it: Vec<_> = path.iter().map(|step| &step["task"]).filter(|task| !task.is_null()).collect();
    assert_eq!(on_it, [master, &slow["task"], master], "{told:#}");
    let from_slow = told["messages"].as_array().unwrap().iter().find(|cell| cell["from"] == slow["task"]);
    assert_eq!(from_slow.map(|cell| (&cell["messages"], &cell["bytes"])), Some((&1.into(), &1000.into())));
    let picture = std::fs::read_to_string(folder.path().join("run.svg")).unwrap();
    assert!(picture.contains(slow["task"].as_str().unwrap()) && picture.ends_with("</svg>\n"));

    let text = String::from_utf8(summary(folder.path(), &["run.json", "--lines", "2"]).stdout).unwrap();
    assert!(
        text.starts_with("3 tasks on 2 hosts, ") && text.contains("2 messages received, 2.0KB\n"),
        "{text}"
    );
    assert!(text.contains("\n         1 more (--lines)\n"), "{text}");
}

fn a_trace_is_bounded_and_filtered() {
    let folder = tempfile::tempdir().unwrap();
    let traced = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pvm"));
        command.args(["run", "--trace", "run.json"]).args(options).arg(own_program()).args(["master", "10"]);
        let output = command.current_dir(folder.path()).env("TMPDIR", folder.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let summary = summary(folder.path(), &["run.json", "--json"]);
        let told: Value = serde_json::from_slice(&summary.stdout).unwrap();
        (String::from_utf8(output.stderr).unwrap(), told)
    };
    let count = |told: &Value| told["messages"].as_array().unwrap().len();
    let (said, told) = traced(&["--trace-calls", "30"]);
    assert!(said.starts_with("pvm: ") && said.contains(" is incomplete: "), "{said}");
    assert_eq!(told["tasks"].as_array().unwrap().len(), 1 + WORKERS);
    let (said, told) = traced(&["--trace-program", "another"]);
    assert_eq!((&*said, count(&told)), ("", 0));
    assert!(told["tasks"].as_array().unwrap().iter().all(|task| task["waiting_ns"] == 0), "{told:#}");
    let (said, told) = traced(&["--trace-program", "another", "--trace-program", &own_program()]);
    assert_eq!((&*said, count(&told)), ("", 2 * WORKERS));
    let wrong =
        [&["run", "--trace-calls", "5", "true"][..], &["run", "--trace", "x", "--trace-calls", "0", "true"]];
    for args in wrong {
        let output = Command::new(env!("CARGO_BIN_EXE_pvm")).args(args).current_dir(folder.path()).output();
        assert_eq!(output.unwrap().status.code(), Some(2), "{args:?}");
    }
}

fn what_is_no_trace_is_not_summarized() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("half.json"), "{\"traceEvents\":[").unwrap();
    std::fs::write(folder.path().join("run.json"), "{\"traceEvents\":[]}").unwrap();
    for (args, reason) in [
        (&["none.json"][..], "pvm: cannot open none.json: No such file or directory\n"),
        (&["half.json"], "pvm: cannot summarize half.json: it is not a trace of \"pvm run --trace\": EOF"),
        (&["run.json"], "pvm: cannot summarize run.json: it has no task\n"),
        (&["run.json", "--svg", "no/run.svg"], "pvm: cannot write no/run.svg: No such file or directory"),
        (&["."], "pvm: cannot summarize .: it is not a trace of \"pvm run --trace\": Is a directory"),
    ] {
        let output = summary(folder.path(), args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && said.starts_with(reason), "{args:?}: {said}");
    }
    for args in [&[][..], &["run.json", "--lines", "-1"], &["run.json", "more.json"]] {
        assert_eq!(summary(folder.path(), args).status.code(), Some(2), "{args:?}");
    }
}

fn a_file_that_cannot_be_written_stops_the_run_before_it_starts() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("started");
    let output = Command::new(env!("CARGO_BIN_EXE_pvm"))
        .args(["run", "--trace", "no/such/folder/run.json", "touch"])
        .arg(&mark)
        .current_dir(folder.path())
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.starts_with("pvm: cannot write no/such/folder/run.json"), "{stderr}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was started");
}
