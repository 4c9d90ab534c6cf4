//! Parallel jobs over clusters of hosts, as their users meet them: which clusters a strategy takes, what is refused, how congested the
//! links are, and when jobs end by the model.

use pvm_tests::job_scene::JobScene;
use pvm_tests::machine::Plan;
use pvm_tests::{Installation, Network, process, wait};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

/// Slots of speed 1000, 500 and 250: h is 1, 2 and 4.
const HOSTS: &str = "* via=local ep=@PATH@\n\
    h1 cluster=east slots=4 sp=4000\n\
    h2 cluster=north slots=2 sp=1000\n\
    h3 cluster=south slots=2 sp=500\n\
    link=east bw=1Gbit\nlink=north bw=100Mbit\nlink=south bw=100Mbit\n";

const QUEUES: &str = "[[queue]]\nname = \"fill\"\n\n\
    [[queue]]\nname = \"bfnp\"\ncoallocation = \"bfnp\"\n\n\
    [[queue]]\nname = \"shfp\"\ncoallocation = \"shfp\"\n\n\
    [[queue]]\nname = \"scca\"\ncoallocation = \"scca\"\n\n\
    [[queue]]\nname = \"home\"\ncoallocation = \"no-share\"\nhosts = [\"@north\", \"@south\"]\n\n\
    [[cluster]]\nname = \"small\"\nhosts = [\"h2\", \"h3\"]\n";

/// Two tasks send each other a million bytes again and again, until there is a file `stop`.
const TALK: &str = r#"
#include <pvm3.h>
#include <stdlib.h>
#include <unistd.h>

int main(void) {
    static char bytes[1000000];
    char *group = getenv("PVM_JOB_GROUP");
    int me = pvm_getinst(group, pvm_mytid()), other, goes_on;
    while ((other = pvm_gettid(group, 1 - me)) < 0)
        usleep(20000);
    do {
        goes_on = access("stop", F_OK) != 0;
        for (int turn = 0; turn < 2; turn++) {
            if (turn == me) {
                pvm_initsend(PvmDataDefault);
                pvm_pkint(&goes_on, 1, 1);
                pvm_pkbyte(bytes, sizeof bytes, 1);
                pvm_send(other, 1);
            } else {
                pvm_recv(other, 1);
                if (me == 1)
                    pvm_upkint(&goes_on, 1, 1);
            }
        }
        usleep(20000);
    } while (goes_on);
    pvm_exit();
    return 0;
}
"#;

/// The clusters of a job that runs, and its tasks there.
#[track_caller]
fn clusters_of(scene: &JobScene, id: &str) -> Vec<(String, u64)> {
    wait::becomes_true("it runs", || scene.job(id)["state"] == "running");
    let record = scene.job(id);
    let share = |share: &Value| {
        let cluster = share["cluster"].as_str().unwrap_or("-").to_owned();
        (cluster, share["tasks"].as_u64().expect("a number"))
    };
    record["clusters"].as_array().expect("clusters").iter().map(share).collect()
}

/// Submits a job at a host; it is cancelled when its clusters are known.
#[track_caller]
fn taken(scene: &JobScene, host: &str, args: &str) -> Vec<(String, u64)> {
    let output = scene.at(host, &format!("submit {args} sleep 60"));
    assert!(output.status.success(), "{args}: {output:?}");
    let id = String::from_utf8(output.stdout).expect("text").trim().to_owned();
    let clusters = clusters_of(scene, &id);
    scene.good(&format!("cancel {id}"));
    wait::becomes_true("it has ended", || scene.job(&id)["state"] == "cancelled");
    clusters
}

fn shares(of: &[(&str, u64)]) -> Vec<(String, u64)> {
    of.iter().map(|&(cluster, tasks)| (cluster.to_owned(), tasks)).collect()
}

/// A cluster as `pvm clusters` shows it at a host.
fn cluster(scene: &JobScene, host: &str, name: &str) -> Option<Value> {
    let output = scene.at(host, "clusters --json");
    let list: Value = serde_json::from_slice(&output.stdout).ok()?;
    list["clusters"].as_array()?.iter().find(|cluster| cluster["name"] == name).cloned()
}

#[test]
fn each_strategy_takes_the_clusters_in_its_order() {
    let Some(scene) = JobScene::with_hostfile("co-allocation of jobs", QUEUES, HOSTS) else { return };
    let table = scene.good("clusters");
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("CLUSTER ") && lines.len() == 4, "{table}");
    assert!(
        lines[1].starts_with("east ") && lines[1].contains("1Gbit") && lines[1].ends_with("h1"),
        "{table}"
    );
    let south = cluster(&scene, "", "south").expect("a cluster");
    let expected = json!({
        "name": "south", "hosts": ["h3"], "slots": 2, "free": 2, "h": 4.0, "bandwidth_bps": 100_000_000,
        "bandwidth_is_measured": false,
        "demand_bps": 0.0, "measured_bps": 0.0, "congestion": null,
    });
    assert_eq!(south, expected);

    // One slot is free in the fastest cluster.
    let filler = scene.good("submit --queue fill --hosts @east -n 3 sleep 60");
    assert_eq!(clusters_of(&scene, &filler), shares(&[("east", 3)]));
    assert_eq!(taken(&scene, "", "--queue bfnp -n 3"), shares(&[("north", 2), ("south", 1)]));
    assert_eq!(taken(&scene, "", "--queue shfp -n 3"), shares(&[("east", 1), ("north", 2)]));
    assert_eq!(taken(&scene, "", "--queue scca -n 2"), shares(&[("north", 2)]));
    assert_eq!(taken(&scene, "", "--queue bfnp -n 5"), shares(&[("east", 1), ("north", 2), ("south", 2)]));
    assert_eq!(taken(&scene, "h3", "--queue home -n 2"), shares(&[("south", 2)]));
    assert_eq!(taken(&scene, "h2", "--queue home -n 1"), shares(&[("north", 1)]));

    // There is room in all clusters together, and in none alone.
    let waits = scene.good("submit --queue scca -n 3 sleep 60");
    let reason = || scene.job(&waits)["reason"].as_str().unwrap_or_default().to_owned();
    let expected = "it needs 3 slots in one cluster that it may run in, 2 are free there (coallocation)";
    wait::becomes_true("it says what it waits for", || reason() == expected);
    scene.good(&format!("cancel {filler}"));
    assert_eq!(clusters_of(&scene, &waits), shares(&[("east", 3)]));

    // What no cluster can hold is refused at once.
    let refused = scene.refused("submit --queue scca -n 5 true");
    assert!(
        refused.contains("needs 5 slots in one cluster, the largest that it may run on has 4"),
        "{refused}"
    );
    let refused = String::from_utf8(scene.at("h2", "submit --queue home -n 3 true").stderr).expect("text");
    assert!(refused.contains("needs 3 slots in cluster north, where it was submitted"), "{refused}");
    assert!(scene.refused("submit --hosts @west true").contains("there is no cluster west"));
    scene.good(&format!("cancel {waits}"));
    scene.machine.finish();
}

#[test]
fn links_are_as_congested_as_jobs_say_and_ends_are_predicted() {
    let Some(scene) = JobScene::with_hostfile("predicted ends of jobs", QUEUES, HOSTS) else { return };
    // Half a second of the fast cluster is one in north, and two in south.
    let first = scene.good("submit --queue bfnp -n 2 --hosts @north --output none sleep 1");
    scene.good(&format!("wait {first}"));
    let number = |id: &str, name: &str| scene.job(id)[name].as_u64();
    assert_eq!(number(&first, "predicted_end_ms"), None, "it was the first of its program");
    let ran = number(&first, "ended_ms").expect("an end") - number(&first, "started_ms").expect("a start");
    assert!(ran >= 1000, "{ran}");
    let second = scene.good("submit --queue bfnp -n 2 --hosts @south --output none sleep 1");
    scene.good(&format!("wait {second}"));
    let started = number(&second, "started_ms").expect("a start");
    let predicted = number(&second, "predicted_end_ms").expect("a prediction") - started;
    assert!(predicted.abs_diff(2 * ran) <= 4, "{predicted} ms, twice {ran} ms");
    let shown = scene.good(&format!("job {second}"));
    assert!(shown.contains("\npredicted end  2") && shown.contains("\nended          2"), "{shown}");

    // 40 · 4 · 1 / 4 Mbit/s leave the east, and come to the north.
    let told = "--expect 100s --communication 100s";
    let one =
        scene.good(&format!("submit --queue bfnp -n 5 --bandwidth 40Mbit {told} --output none sleep 60"));
    assert_eq!(clusters_of(&scene, &one), shares(&[("east", 4), ("north", 1)]));
    let north = cluster(&scene, "", "north").expect("a cluster");
    assert_eq!((&north["demand_bps"], &north["congestion"]), (&json!(4e7), &json!(2.5)));
    let end = |id: &str| {
        number(id, "predicted_end_ms").expect("a prediction") - number(id, "started_ms").expect("a start")
    };
    assert_eq!(end(&one), 300_000, "100 s at half the speed, and 100 s of communication");
    // Two tasks exchange 90 Mbit/s more over the north's link: 100 of 130 are left, for what remains.
    let two = scene
        .good("submit --queue bfnp -n 2 --bandwidth 90Mbit --hosts @small --cpus 1 --output none sleep 60");
    assert_eq!(clusters_of(&scene, &two), shares(&[("south", 2)]), "it needs no link");
    assert_eq!(end(&one), 300_000);
    scene.good(&format!("cancel {two}"));
    wait::becomes_true("there is room", || {
        cluster(&scene, "", "south").is_some_and(|south| south["free"] == 2)
    });
    let filler = scene.good("submit --queue fill -n 1 --hosts h3 --output none sleep 60");
    wait::becomes_true("it runs", || scene.job(&filler)["state"] == "running");
    let three = scene.good("submit --queue bfnp -n 2 --bandwidth 90Mbit --output none sleep 60");
    assert_eq!(clusters_of(&scene, &three), shares(&[("north", 1), ("south", 1)]));
    let stretched = end(&one);
    assert!((325_000..=330_000).contains(&stretched), "{stretched}");
    scene.good(&format!("cancel {three}"));
    wait::becomes_true("the link is free again", || end(&one) < 325_000);

    // The clusters are known to the next master.
    process::signal(scene.machine.daemon_pid(), Signal::KILL);
    let north = wait::eventually("another master", || cluster(&scene, "h2", "north"));
    assert_eq!((&north["hosts"], &north["bandwidth_bps"]), (&json!(["h2"]), &json!(100_000_000)));
    let east = cluster(&scene, "h2", "east").expect("its link is there still");
    assert_eq!((&east["hosts"], &east["slots"]), (&json!([]), &json!(0)));
    assert!(scene.at("h2", "halt").status.success());
    wait::becomes_true("nothing is left", || scene.machine.processes().is_empty());
}

#[test]
fn what_a_job_sends_between_clusters_is_measured() {
    let Some(scene) = JobScene::with_hostfile("traffic between clusters", QUEUES, HOSTS) else { return };
    let Some(()) = scene.compile_c("talk", TALK) else { return };
    let submit = || scene.good("submit --queue bfnp -n 2 --cpus 2 --hosts @small --output none ./talk");
    let first = submit();
    assert_eq!(clusters_of(&scene, &first), shares(&[("north", 1), ("south", 1)]));
    assert_eq!(scene.job(&first)["bandwidth_bps"], 0, "it says nothing of itself");
    // After a window of five seconds.
    let link = wait::eventually("the link's traffic", || {
        cluster(&scene, "", "north").filter(|link| link["measured_bps"].as_f64() > Some(0.0))
    });
    let number = |name: &str| link[name].as_f64().expect("a number");
    assert_eq!(link["demand_bps"], link["measured_bps"], "{link}");
    assert!((number("congestion") - 1e8 / number("demand_bps")).abs() < 1e-6, "{link}");
    // What goes one way over one link goes over the other one, too.
    let south = cluster(&scene, "", "south").expect("a cluster");
    assert!((south["measured_bps"].as_f64().expect("a number") / number("measured_bps") - 1.0).abs() < 0.5);
    let table = scene.good("clusters");
    assert!(table.lines().next().is_some_and(|line| line.contains(" MEASURED ")), "{table}");

    scene.write("stop", "");
    scene.good(&format!("wait {first}"));
    let measured = scene.job(&first)["measured_bps"].as_u64().expect("it has been measured");
    assert!(measured > 0, "{measured}");
    let shown = scene.good(&format!("job {first}"));
    assert!(shown.lines().any(|line| line.starts_with("measured  ")), "{shown}");
    let none = cluster(&scene, "", "north").expect("a cluster");
    assert_eq!((&none["measured_bps"], &none["demand_bps"]), (&json!(0.0), &json!(0.0)));

    // The next run of the program is taken to send as much.
    fs::remove_file(scene.folder.path().join("stop")).expect("the file is there");
    let next = submit();
    clusters_of(&scene, &next);
    let expected = scene.job(&next)["bandwidth_bps"].as_u64().expect("a number");
    assert!(expected.abs_diff(measured) <= 1, "{expected}, {measured}");
    let demand = cluster(&scene, "", "south").expect("a cluster")["demand_bps"].as_f64().expect("a number");
    assert!((demand - expected as f64).abs() < 1.0, "one task on each side: {demand}, {expected}");
    scene.write("stop", "");
    scene.good(&format!("wait {next}"));
    scene.machine.finish();
}

#[test]
fn links_without_a_bandwidth_are_measured() {
    let check = "bandwidths of links between clusters";
    let Some(ours) = Installation::ours_only(check) else { return };
    let Some(network) = Network::of(3, &ours, check) else { return };
    network.limit(1, "20mbit");
    network.limit(2, "60mbit");
    let hostfile = format!(
        "{}\n{}\nlink=narrow\nlink=wide\n",
        network.line(1, "cluster=narrow"),
        network.line(2, "cluster=wide")
    );
    let plan = Plan::of(&ours).name(&network.address(0)).hostfile(&hostfile).network(&network);
    let machine = plan.start();
    machine.console_with_hosts(3).quit();
    let clusters = || {
        let output = machine.command(machine.installation().pvm()).args(["clusters", "--json"]).output();
        let output = output.expect("pvm runs");
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")["clusters"].clone()
    };
    let all = wait::eventually("all links are measured", || {
        Some(clusters()).filter(|all| all[1]["bandwidth_bps"].is_u64() && all[2]["bandwidth_bps"].is_u64())
    });
    assert_eq!((&all[1]["name"], &all[2]["name"]), (&json!("narrow"), &json!("wide")));
    // Headers take a few percent, and the links' own control of congestion what it takes.
    for (link, limit) in [(1, 20e6), (2, 60e6)] {
        assert_eq!(all[link]["bandwidth_is_measured"], true);
        let share = all[link]["bandwidth_bps"].as_f64().expect("a number") / limit;
        assert!((0.5..=1.05).contains(&share), "{all:#}");
    }
    let table = machine.command(machine.installation().pvm()).arg("clusters").output().expect("pvm runs");
    let table = String::from_utf8(table.stdout).expect("text");
    assert!(
        table.lines().filter(|line| line.contains(" ~") && line.contains("Mbit")).count() == 2,
        "{table}"
    );
    machine.finish();
}

#[test]
fn clusters_that_cannot_be_are_refused_with_the_reason() {
    let check = "mistakes in clusters";
    let Some(ours) = Installation::ours_only(check) else { return };
    let folder = TempDir::with_prefix("pvm-clusters-").expect("a folder");
    let queues = folder.path().join("queues.toml");
    fs::write(&queues, QUEUES).expect("a file of queues");
    let told = |hostfile: &str| {
        let plan = Plan::of(&ours).name("h1").hostfile(hostfile).variable("PVM_QUEUES", &queues);
        let Err(refused) = plan.try_start() else { panic!("the daemon started with {hostfile}") };
        assert_eq!(refused.ended.status.code(), Some(2), "{refused:#?}");
        refused.ended.stderr
    };
    let stderr = told(&HOSTS.replace("link=south", "link=west"));
    assert!(stderr.contains("hosts:7: `link=west`: no host is in that cluster"), "{stderr}");
    assert!(told(&HOSTS.replace("100Mbit", "100")).contains("hosts:6: `bw=100`: a bandwidth is"));
    assert!(
        told(&HOSTS.replace("=south", "=small")).contains("cluster small: hosts of the machine are in a")
    );
    assert!(
        told(&HOSTS.replace("=north", "=center")).contains("queue home, hosts: there is no cluster north")
    );

    let Some(scene) = JobScene::with_hostfile(check, QUEUES, HOSTS) else { return };
    let mut console = scene.machine.console();
    let answers = console.add(&["h4 via=local cluster=small", "h5 via=local cluster=a/b"]);
    let reasons: Vec<String> =
        answers.into_iter().map(|(_, result)| result.expect_err("a refusal")).collect();
    assert!(reasons[0].contains("the file of queues has a cluster of this name"), "{reasons:?}");
    assert!(reasons[1].contains("`cluster=a/b`: the name of a cluster"), "{reasons:?}");
    assert!(console.add(&["h6 via=local cluster=far slots=1"])[0].1.is_ok());
    console.quit();
    assert_eq!(taken(&scene, "", "--queue bfnp -n 1 --hosts @far"), shares(&[("far", 1)]));
    // The file of queues must not take a name that hosts have now.
    scene.write("queues.toml", &QUEUES.replace("\"small\"", "\"far\""));
    let refused = scene.refused("queues --reload");
    assert!(
        refused.contains("cluster far: hosts of the machine") && refused.contains("stay as they are"),
        "{refused}"
    );
    for wrong in
        ["--bandwidth 40 -n 2", "--bandwidth 40Mbit", "--expect 5s --array 1-3", "--bandwidth -1Mbit -n 2"]
    {
        let output = scene.pvm(&format!("submit {wrong} true"));
        assert_eq!(output.status.code(), Some(2), "{wrong}: {output:?}");
    }
    scene.machine.finish();
}
