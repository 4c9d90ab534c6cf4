//! `pvm bench` as a program: what it measures, how it ends, and that nothing is left.

mod private;

use private::{assert_nothing_left, assert_nothing_left_but, files, pvm, run, with_command};
use pvm_tests::{process, wait};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::process::{Output, Stdio};

/// The fields of values, by part.
const FIELDS: [(&str, &str); 5] = [
    ("spawn", "tasks_per_s"),
    ("latency", "latency_us"),
    ("bandwidth", "bytes_per_s"),
    ("rate", "messages_per_s"),
    ("all-to-all", "bytes_per_s"),
];

fn results(value: &Value) -> &[Value] {
    value["results"].as_array().map_or(&[], Vec::as_slice)
}

/// Waits until workers of the run in this folder are there; returns their process ids.
fn workers(tmp: &Path) -> Vec<i32> {
    wait::eventually("workers", || {
        Some(with_command(tmp, "bench --worker serve")).filter(|pids| pids.len() >= 2)
    })
}

#[test]
fn all_parts_are_measured_on_two_hosts() {
    let (tmp, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let svg = folder.path().join("bench.svg");
    let args =
        ["bench", "--hosts", "2", "--quick", "--max-tasks", "10", "--json", "--plot", svg.to_str().unwrap()];
    let (code, stdout, stderr) = run(tmp.path(), &args);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    let value: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(value["complete"], true);
    assert_eq!(value["hosts"].as_array().unwrap().len(), 2);
    assert_eq!(value["hosts"][0]["computer"], value["hosts"][1]["computer"]);
    for (part, field) in FIELDS {
        let lines: Vec<&Value> = results(&value).iter().filter(|line| line["part"] == part).collect();
        // On a busy computer the greatest sizes may be left out.
        let is_short = |line: &&&Value| {
            let reason = line["not_measured"].as_str();
            reason.is_none_or(|reason| !reason.starts_with("one run would take about "))
        };
        assert!(lines.iter().filter(is_short).count() * 2 > lines.len(), "{part}: {stdout}");
        for line in lines.iter().filter(is_short) {
            let is_positive = |value: &Value| value.as_f64().is_some_and(|value| value > 0.0);
            assert!(is_positive(&line[field]), "{line}");
            assert!((1..=3).contains(&line["rounds"].as_u64().unwrap()), "{line}");
            let limit = &line["limit"];
            assert!(is_positive(&limit["share_percent"]), "{line}");
            let name = limit["name"].as_str().unwrap();
            assert!(["exec", "cores", "memory", "link"].contains(&name), "{line}");
            assert!(is_positive(&limit[field]) || limit["processors"].as_u64() > Some(0), "{line}");
        }
    }
    let is_there = |part: &str, place: &str, route: &str| {
        let is_it = |line: &Value| line["part"] == part && line["place"] == place && line["route"] == route;
        assert!(results(&value).iter().any(is_it), "{part} {place} {route}: {stdout}");
    };
    for part in ["latency", "bandwidth", "rate"] {
        is_there(part, "host", "default");
        is_there(part, "pair", "default");
        is_there(part, "pair", "daemons");
    }
    let svg = std::fs::read_to_string(svg).unwrap();
    for text in [
        "half a round trip, µs",
        "MB/s",
        "tasks per second",
        "host1 to host2, by daemons",
        "link, host1 to host2",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    assert_nothing_left(tmp.path());
}

#[test]
fn a_table_has_the_chosen_parts_and_a_closed_output_is_no_error() {
    let tmp = tempfile::tempdir().unwrap();
    let args =
        ["bench", "--hosts", "1", "--quick", "--seconds", "1", "--rounds", "2", "all-to-all", "latency"];
    let (code, stdout, stderr) = run(tmp.path(), &args);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    let lines: Vec<&str> = stdout.lines().collect();
    assert!(
        lines[0].starts_with("medians of up to 2 rounds") && lines[3].starts_with("MEASURED "),
        "{stdout}"
    );
    assert!(lines[4].starts_with("latency     within host1 "), "{stdout}");
    assert!(lines.last().unwrap().ends_with("not measured: the virtual machine has one host"), "{stdout}");
    let mut child = pvm(tmp.path(), &args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    assert_eq!((status.code(), stderr.as_slice()), (Some(0), &[][..]));
    assert_nothing_left(tmp.path());
}

#[test]
fn mistakes_are_reported_before_anything_is_started() {
    let tmp = tempfile::tempdir().unwrap();
    for (args, status, expected) in [
        (&["bench", "spawns"][..], 2, "a similar value exists: 'spawn'"),
        (&["bench", "--rounds", "0"], 2, "0 is not in 1..=1000"),
        (&["bench", "--seconds", "none"], 2, "expected seconds, from 1 to 86400"),
        (&["bench", "--max-tasks", "0"], 2, "0 is not in 1..=10000"),
        (&["bench", "--here"], 1, "pvm: cannot join the virtual machine: no daemon runs here"),
        (&["bench", "--plot", "/no/such/folder/x.svg"], 1, "pvm: cannot write /no/such/folder/x.svg: "),
        (&["bench", "--worker"], 2, "\"pvm bench\" starts its workers itself"),
        (&["bench", "--worker", "serve"], 1, "no daemon runs here"),
    ] {
        let (code, stdout, stderr) = run(tmp.path(), args);
        assert_eq!((code, stdout.as_str()), (status, ""), "{args:?}: {stderr}");
        assert!(stderr.contains(expected), "{args:?}: {stderr}");
    }
    assert_nothing_left(tmp.path());
}

#[test]
fn a_host_that_is_killed_is_named_and_the_rest_is_measured() {
    let tmp = tempfile::tempdir().unwrap();
    let args = ["bench", "--hosts", "2", "--quick", "--json", "latency", "rate"];
    let mut command = pvm(tmp.path(), &args);
    command.env("PVM_HOST_TIMEOUT", "1").stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    workers(tmp.path());
    // A process that it is about to start looks like the daemon for a moment.
    let daemon = wait::eventually("the daemon of host2", || {
        let slaves = with_command(tmp.path(), "daemon --slave-daemon");
        Some(slaves).filter(|slaves| slaves.len() == 1)
    });
    assert!(process::signal(daemon[0], Signal::KILL));
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
    assert_eq!(status.code(), Some(1), "{stderr}{stdout}");
    assert!(stderr.contains("pvm: host host2 (t80000) was lost: "), "{stderr}");
    let value: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(value["complete"], false);
    for line in results(&value) {
        let is_of_host2 = line["hosts"].as_array().unwrap().iter().any(|host| host == "host2");
        let error = line["error"].as_str();
        assert_eq!(error.is_some_and(|error| error.contains("host2")), is_of_host2, "{line}");
        let is_measured = line["rounds"].as_u64() > Some(0);
        assert!(is_of_host2 || is_measured, "{line}");
    }
    assert!(stderr.contains("pvm: the daemons' logs are kept: "), "{stderr}");
    assert_nothing_left_but(tmp.path(), &files(tmp.path()));
}

#[test]
fn a_signal_ends_the_workers() {
    let tmp = tempfile::tempdir().unwrap();
    for (signal, status) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let mut command = pvm(tmp.path(), &["bench", "--hosts", "2", "--seconds", "60", "--rounds", "100"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        workers(tmp.path());
        assert!(process::signal(child.id() as i32, signal));
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{}", String::from_utf8_lossy(&output.stderr));
        assert_nothing_left(tmp.path());
    }
}

/// A virtual machine in a folder, which ends with this value.
struct Running<'a>(&'a Path);

impl<'a> Running<'a> {
    fn start(tmp: &'a Path) -> Self {
        assert!(pvm(tmp, &["-nalpha"]).output().unwrap().status.success());
        Self(tmp)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let _ = pvm(self.0, &["halt"]).status();
    }
}

#[test]
fn workers_end_with_a_parent_that_is_killed_and_the_machine_stays() {
    let tmp = tempfile::tempdir().unwrap();
    let _machine = Running::start(tmp.path());
    let (code, _, stderr) = run(tmp.path(), &["add", "beta via=local"]);
    assert_eq!(code, 0, "{stderr}");
    let mut command = pvm(tmp.path(), &["bench", "--here", "--seconds", "60", "--rounds", "100"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    workers(tmp.path());
    child.kill().unwrap();
    child.wait().unwrap();
    wait::becomes_true("the end of all workers", || with_command(tmp.path(), "bench --worker").is_empty());
    let args = ["bench", "--here", "--quick", "--seconds", "1", "--first", "1", "--json", "rate"];
    let (code, stdout, stderr) = run(tmp.path(), &args);
    assert_eq!(code, 0, "{stderr}");
    let value: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((value["hosts"].as_array().unwrap().len(), results(&value).len()), (2, 1));
    let (code, stdout, _) = run(tmp.path(), &["ps", "-a", "--json"]);
    assert_eq!(code, 0);
    let left: Value = serde_json::from_str(&stdout).unwrap();
    let is_worker = |task: &Value| task.to_string().contains("bench");
    assert!(!left["tasks"].as_array().unwrap().iter().any(is_worker), "{stdout}");
}
