//! `pvm autoscale` with a real Slurm cluster: nodes come while jobs wait, and go.

use pvm_tests::program::{Ended, Program};
use pvm_tests::slurm::{Cluster, NODES};
use pvm_tests::{Installation, process, wait};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

/// What takes several rounds, and Slurm's own time.
const LONG: Duration = Duration::from_secs(60);

/// A virtual machine of one slot on the cluster's login node.
struct Login {
    cluster: Cluster,
    daemon: Option<Program>,
}

impl Login {
    fn start(check: &str) -> Option<Self> {
        let ours = Installation::ours_only(check)?;
        let cluster = Cluster::start(&ours, check)?;
        fs::write(cluster.path().join("hosts.pvm"), "login slots=1\n").unwrap();
        let mut login = Self { cluster, daemon: None };
        login.begin();
        Some(login)
    }

    fn begin(&mut self) {
        let daemon = Program::start(&mut self.cluster.at_login(&["daemon", "-nlogin", "hosts.pvm"]));
        daemon.await_line("the daemon's address", |line| (!line.is_empty()).then_some(()));
        self.daemon = Some(daemon);
    }

    fn pvm(&self, args: &[&str]) -> Ended {
        Program::run(&mut self.cluster.at_login(args))
    }

    fn submit(&self, args: &[&str]) -> String {
        let ended = self.pvm(&[&["submit"], args].concat());
        ended.expect_success();
        ended.stdout.trim().to_owned()
    }

    /// With rounds that are a second apart.
    fn autoscale(&self, args: &[&str]) -> Program {
        let usual = ["autoscale", "--interval", "1s", "--idle", "3s", "--orphan", "6s"];
        Program::start(&mut self.cluster.at_login(&[&usual, args].concat()))
    }

    fn hosts(&self) -> Vec<String> {
        let ended = self.pvm(&["conf", "--json"]);
        ended.expect_success();
        let conf: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        let hosts = conf["hosts"].as_array().unwrap();
        hosts.iter().map(|host| host["name"].as_str().unwrap().to_owned()).collect()
    }

    /// The jobs of Slurm that wait or run.
    fn slurm_jobs(&self) -> usize {
        let mut squeue = self.cluster.command("squeue");
        Program::run(squeue.args(["-h", "-t", "pending,running"])).stdout.lines().count()
    }

    #[track_caller]
    fn await_jobs(&self, count: usize) {
        let found = wait::until(LONG, || (self.slurm_jobs() == count).then_some(()));
        assert!(found.is_some(), "{} Slurm jobs, not {count}", self.slurm_jobs());
    }

    #[track_caller]
    fn await_hosts(&self, count: usize) {
        let found = wait::until(LONG, || (self.hosts().len() == count).then_some(()));
        assert!(found.is_some(), "{:?}, not {count}", self.hosts());
    }

    /// Where the tasks of a job say that they have run.
    fn places(&self, prefix: &str) -> BTreeSet<String> {
        let files = fs::read_dir(self.cluster.path()).unwrap().map(|entry| entry.unwrap().path());
        let outputs = files.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(prefix));
        let text: Vec<String> = outputs.map(|path| fs::read_to_string(path).unwrap()).collect();
        text.concat().lines().filter_map(|line| line.strip_prefix("at ")).map(str::to_owned).collect()
    }
}

const TELL: &str = "echo at ${SLURMD_NODENAME:-login}; sleep $0";

fn ends(mut scaler: Program, text: &str) {
    process::signal(scaler.pid(), Signal::TERM);
    assert!(wait::until(LONG, || scaler.has_ended().then_some(())).is_some(), "{}", scaler.stdout());
    let ended = scaler.end();
    ended.expect_success();
    assert!(ended.stdout.contains(text), "{text:?} in {}", ended.stdout);
}

#[test]
fn nodes_come_while_jobs_wait_and_go_when_they_are_idle() {
    let Some(login) = Login::start("pvm autoscale") else { return };
    let wide = ["-n", "5", "--output", "wide.%t", "sh", "-c", TELL, "1"];
    let refused = login.pvm(&[&["submit"], &wide[..]].concat());
    assert!(refused.stderr.contains("the job needs 5 slots"), "{refused:?}");
    let array = login.submit(&["--array", "1-12", "--output", "array.%t", "sh", "-c", TELL, "2"]);
    let scaler = login.autoscale(&["--max-nodes", "2"]);
    let line = |scaler: &Program, text: &str| {
        let found = wait::until(LONG, || scaler.stdout().contains(text).then_some(()));
        assert!(found.is_some(), "{text:?} in {}", scaler.stdout());
    };
    line(&scaler, "requested: ");
    let waits = ["wait", &array];
    let mut waiter = Program::start(&mut login.cluster.at_login(&waits));
    let mut most = 0;
    assert!(
        wait::until(LONG, || {
            most = most.max(login.slurm_jobs());
            waiter.has_ended().then_some(())
        })
        .is_some(),
        "{}",
        scaler.stdout()
    );
    waiter.end().expect_success();
    assert_eq!(most, 2, "{}", scaler.stdout());
    let places = login.places("array.");
    assert!(places.iter().filter(|place| NODES.contains(&place.as_str())).count() == 2, "{places:?}");
    login.await_jobs(0);
    login.await_hosts(1);
    // While nodes can be had, a parallel job is accepted that needs them.
    let wide = login.submit(&wide);
    login.pvm(&["wait", &wide]).expect_success();
    assert_eq!(login.places("wide.").len(), 3);
    login.submit(&["--array", "1-9", "--output", "none", "sleep", "1000"]);
    login.await_hosts(3);
    ends(scaler, "2 Slurm jobs cancelled");
    login.await_jobs(0);
    assert_eq!(login.hosts(), ["login"]);
    login.pvm(&["halt"]).expect_success();
    wait::becomes_true("the end of all processes", || login.cluster.left().is_empty());
}

#[test]
fn a_dry_run_does_nothing_and_mistakes_are_named() {
    let Some(login) = Login::start("pvm autoscale --dry-run") else { return };
    login.submit(&["--array", "1-3", "--output", "none", "sleep", "1000"]);
    let dry = login.pvm(&["autoscale", "--max-nodes", "2", "--time", "1h", "--dry-run", "--", "-p", "all"]);
    dry.expect_success();
    for text in ["2 tasks wait", "would request 1 now", "sbatch --parsable", "--time=1:00:00 -p all <<'END'"]
    {
        assert!(dry.stdout.contains(text), "{text:?} in {}", dry.stdout);
    }
    assert_eq!((login.slurm_jobs(), login.hosts()), (0, vec!["login".to_owned()]));
    let scaler = login.autoscale(&["--max-nodes", "1", "--min-nodes", "1"]);
    login.await_hosts(2);
    for (args, status, text) in [
        (&["--max-nodes", "2", "--", "-p", "nope"][..], 1, "it runs already"),
        (
            &["--max-nodes", "2", "--name", "b", "--", "-p", "nope"],
            1,
            "sbatch: invalid partition specified: nope",
        ),
        (&["--max-nodes", "2", "--name", "b", "--queue", "no"], 1, "there is no queue no"),
        (&["--max-nodes", "1", "--name", "b", "--min-nodes", "2"], 1, "--min-nodes is more than --max-nodes"),
        (&["--max-nodes", "0"], 2, "--max-nodes"),
        (&[], 2, "--max-nodes"),
    ] {
        let ended = login.pvm(&[&["autoscale"], args].concat());
        assert_eq!(ended.status.code(), Some(status), "{ended:?}");
        assert!(ended.stderr.contains(text), "{text:?} in {}", ended.stderr);
    }
    // A node whose daemon cannot be started is cancelled, and nothing is requested for a while.
    ends(scaler, "1 Slurm jobs cancelled");
    fs::write(login.cluster.daemon(), "#!/bin/sh\necho no daemon today >&2\nexit 1\n").unwrap();
    let scaler = login.autoscale(&["--max-nodes", "1"]);
    let told = wait::until(LONG, || scaler.stdout().contains("nothing is requested for").then_some(()));
    assert!(told.is_some() && scaler.stdout().contains("no daemon today"), "{}", scaler.stdout());
    login.await_jobs(0);
    ends(scaler, "0 Slurm jobs cancelled");
}

#[test]
fn nodes_outlive_neither_the_machine_nor_a_killed_command_for_long() {
    let Some(mut login) = Login::start("the end of pvm autoscale") else { return };
    login.submit(&["--array", "1-9", "--output", "none", "sleep", "1000"]);
    let scaler = login.autoscale(&["--max-nodes", "2"]);
    login.await_hosts(3);
    process::signal(scaler.pid(), Signal::KILL);
    assert!(!scaler.end().status.success());
    // Another start goes on with the same nodes, and gives them back when the machine ends.
    let mut scaler = login.autoscale(&["--max-nodes", "2"]);
    let found = wait::until(LONG, || {
        (scaler.stdout().matches("of an earlier start found").count() == 2).then_some(())
    });
    assert!(found.is_some() && login.slurm_jobs() == 2, "{}", scaler.stdout());
    login.pvm(&["halt"]).expect_success();
    assert!(wait::until(LONG, || scaler.has_ended().then_some(())).is_some(), "{}", scaler.stdout());
    let ended = scaler.end();
    ended.expect_success();
    assert!(
        ended.stdout.contains("the virtual machine has ended; 2 Slurm jobs cancelled"),
        "{}",
        ended.stdout
    );
    login.await_jobs(0);
    // Nobody is left to cancel the job: it ends by itself.
    login.daemon.take().unwrap().end();
    login.begin();
    let scaler = login.autoscale(&["--max-nodes", "1", "--min-nodes", "1"]);
    login.await_hosts(2);
    process::signal(scaler.pid(), Signal::KILL);
    scaler.end();
    login.pvm(&["halt"]).expect_success();
    login.await_jobs(0);
    wait::becomes_true("the end of all processes", || login.cluster.left().is_empty());
}
