//! Hosts whose clocks are hours apart: what programs are told of that, and that a trace shows what was at the same time
//! at the same place.

use pvm_tests::machine::Plan;
use pvm_tests::peers::{self, Peer};
use pvm_tests::program::Program;
use pvm_tests::programs::{Linking, Programs};
use pvm_tests::{Installation, Network};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How far the clocks of the second and the third host are ahead, microseconds.
const AHEAD: [i64; 2] = [3_600_007_000, -3_599_877_000];
/// Messages from each task to each other one, as in `programs/clocks.c`.
const ROUNDS: usize = 20;

/// A daemon's command for a host whose clock is ahead: its tasks inherit that from it.
fn daemon_ahead(folder: &Path, installation: &Installation, ahead: i64) -> PathBuf {
    let mut asked = Command::new("faketime");
    let library = Program::run(asked.args(["-f", "+0", "printenv", "LD_PRELOAD"]));
    library.expect_success();
    let sign = if ahead < 0 { '-' } else { '+' };
    let offset = format!("{sign}{}.{:06}", ahead.abs() / 1_000_000, ahead.abs() % 1_000_000);
    let path = folder.join(format!("pvmd{offset}"));
    let text = format!(
        "#!/bin/sh\nexport LD_PRELOAD='{}' FAKETIME={offset} FAKETIME_DONT_FAKE_MONOTONIC=1\nexec {} \"$@\"\n",
        library.stdout.trim(),
        installation.pvmd().display()
    );
    fs::write(&path, text).expect("the script can be written");
    fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("the script is ours");
    path
}

/// What `pvm_hostsync` says of each host, with the time that asking took.
fn compare(said: &str) {
    let lines: Vec<Vec<&str>> = said.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.len(), AHEAD.len(), "{said}");
    for (line, ahead) in lines.iter().zip(AHEAD) {
        let numbers: Vec<i64> = line[1..].iter().map(|word| word.parse().expect("a number")).collect();
        let [found, trip, task_behind] = numbers[..] else { panic!("{line:?}") };
        assert!((found + ahead).abs() <= trip / 2 + 1, "{line:?}: {ahead} was wanted");
        assert!((task_behind + ahead / 1_000_000).abs() < 60, "the task on {} has another clock", line[0]);
    }
}

/// The events of a trace.
struct Trace(Vec<Value>);

impl Trace {
    fn read(file: &Path) -> Self {
        let mut file: Value =
            serde_json::from_slice(&fs::read(file).expect("the trace")).expect("a trace is JSON");
        let Value::Array(events) = file["traceEvents"].take() else { panic!("a trace has no events") };
        Self(events)
    }

    fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.0.iter().filter(move |event| event["ph"] == kind)
    }

    /// By how many microseconds a host's clock may be wrong after it was set right, by the host's number.
    fn errors(&self) -> BTreeMap<i64, f64> {
        let clocks = self.of("M").filter(|event| event["name"] == "process_labels");
        let error = |event: &Value| {
            let label = event["args"]["labels"].as_str()?;
            let micros = label.rsplit_once('±')?.1.trim().strip_suffix(" ms")?.parse::<f64>().ok()?;
            Some((event["pid"].as_i64()?, micros * 1000.0))
        };
        clocks.filter_map(error).collect()
    }

    /// How long each message was under way, microseconds, by the numbers of the hosts.
    fn messages(&self) -> BTreeMap<(i64, i64), Vec<f64>> {
        let end =
            |event: &Value| (event["pid"].as_i64().expect("a host"), event["ts"].as_f64().expect("a time"));
        let heads: BTreeMap<i64, (i64, f64)> =
            self.of("f").map(|event| (event["id"].as_i64().expect("an id"), end(event))).collect();
        let mut messages: BTreeMap<_, Vec<f64>> = BTreeMap::new();
        for tail in self.of("s") {
            let (from, begin) = end(tail);
            let (to, end) = heads[&tail["id"].as_i64().expect("an id")];
            messages.entry((from, to)).or_default().push(end - begin);
        }
        messages
    }
}

#[test]
fn clocks_hours_apart_are_reported_and_corrected() {
    let check = "hosts whose clocks differ";
    let Some(()) = peers::require(&[Peer::FakeTime], check) else { return };
    let Some(installation) = Installation::ours_only(check) else { return };
    let Some(network) = Network::of(3, &installation, check) else { return };
    let Some(programs) = Programs::compile(&["clocks"], &installation, Linking::Shared) else { return };
    let line = |index: usize| {
        let daemon = daemon_ahead(programs.folder(), &installation, AHEAD[index - 1]);
        let plain = network.line(index, "");
        plain.replace(&format!("dx={}", installation.pvmd().display()), &format!("dx={}", daemon.display()))
    };
    let hostfile = format!("* ep=@PATH@\n{}\n{}\n", line(1), line(2));
    let plan = Plan::of(&installation).path(programs.folder()).name(&network.address(0)).hostfile(&hostfile);
    let machine = plan.network(&network).start();
    machine.console_with_hosts(3).quit();

    let file = machine.folder().join("trace.json");
    let mut run = machine.command(installation.pvm());
    run.args(["run", "--here", "--trace"]).arg(&file).arg(programs.path("clocks"));
    let ended = Program::run(&mut run);
    ended.expect_success();
    compare(&ended.stdout);

    let trace = Trace::read(&file);
    let (errors, messages) = (trace.errors(), trace.messages());
    assert_eq!(errors.len(), 3, "{errors:?}");
    let pairs: Vec<(i64, i64)> =
        (1..=3).flat_map(|from| (1..=3).map(move |to| (from, to))).filter(|(from, to)| from != to).collect();
    for pair in pairs {
        let times = messages.get(&pair).map_or(&[][..], Vec::as_slice);
        assert!(times.len() >= ROUNDS, "{} messages {pair:?}", times.len());
        let error = errors[&pair.0] + errors[&pair.1];
        let shortest = times.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(
            shortest >= -error,
            "a message {pair:?} comes {shortest} µs after it was sent, give or take {error}"
        );
        let longest = times.iter().copied().fold(0.0, f64::max);
        assert!(longest < 60e6, "a message {pair:?} takes {longest} µs");
    }
    machine.finish();
}
