//! Queues with properties, as their users meet them: hours, idle hosts, preemption, clusters, a file that is read again; the loads of
//! hosts; the group of a parallel job.

use pvm_tests::job_scene::JobScene;
use pvm_tests::wait;
use serde_json::Value;

const FILE: &str = "[[cluster]]\nname = \"second\"\nhosts = [\"h2\"]\n\n\
    [[queue]]\nname = \"urgent\"\npriority = 10\npreempts = [\"long\"]\n\n\
    [[queue]]\nname = \"never\"\nhours = \"Mon 03:00-03:01\"\n\n\
    [[queue]]\nname = \"guest\"\nidle = \"10m\"\n\n\
    [[queue]]\nname = \"single\"\none-parallel-job-per-host = true\nhosts = [\"@second\"]\n\n\
    [[queue]]\nname = \"long\"\npriority = 5\n";

#[test]
fn jobs_wait_for_what_their_queues_want_and_the_file_can_be_changed() {
    let Some(scene) = JobScene::with_queues("properties of queues", FILE) else { return };
    let shown = scene.good("queues");
    assert!(shown.contains("hours=Mon 03:00-03:01") && shown.contains("idle=600s"), "{shown}");
    assert!(shown.contains("preempts=long") && shown.contains("\n@second: "), "{shown}");

    let reason = |id: &str| scene.job(id)["reason"].as_str().unwrap_or_default().to_owned();
    // In the one minute of the week in which it starts jobs, nothing can be said of it.
    let queues: Value = serde_json::from_str(&scene.good("queues --json")).expect("JSON");
    if queues["queues"][1]["open"] == false {
        let closed = scene.good("submit --queue never true");
        assert_eq!(reason(&closed), "queue never starts jobs Mon 03:00-03:01 (hours)");
        scene.good(&format!("cancel {closed}"));
    }

    // On a host with one parallel job the next waits; one that is not parallel does not.
    let first = scene.good("submit --queue single -n 1 sleep 60");
    wait::becomes_true("it runs", || scene.job(&first)["state"] == "running");
    let second = scene.good("submit --queue single -n 1 sleep 60");
    scene.good("submit --queue single --wait true");
    assert!(reason(&second).contains("without a parallel job"), "{}", reason(&second));
    assert_eq!(scene.job(&first)["hosts"].as_array().map(Vec::len), Some(1));

    // The same queue without that property: the job that waits starts.
    scene.write("queues.toml", &FILE.replace("one-parallel-job-per-host = true\n", ""));
    assert!(!scene.good("queues --reload").contains("one-parallel"));
    wait::becomes_true("it starts", || scene.job(&second)["state"] == "running");
    scene.good(&format!("cancel {first} {second}"));

    // A mistake changes nothing.
    scene.write("queues.toml", &FILE.replace("priority = 5", "priority = \"five\""));
    let refused = scene.refused("queues --reload");
    assert!(refused.contains("queues.toml: line ") && refused.contains("stay as they are"), "{refused}");
    assert!(scene.good("queues").contains("long"));
    // A queue that is gone keeps its jobs waiting.
    let waits = scene.good("submit --queue guest --hold true");
    scene.write("queues.toml", "[[queue]]\nname = \"long\"\n");
    scene.good("queues --reload");
    scene.good(&format!("release {waits}"));
    assert_eq!(reason(&waits), "queue guest does not exist any more");
    assert!(scene.refused("submit --queue guest true").contains("there is no queue guest"));
    assert!(scene.refused("submit --hosts @second true").contains("there is no cluster second"));
    scene.machine.finish();
}

#[test]
fn urgent_jobs_end_tasks_of_others_which_begin_again() {
    let Some(scene) = JobScene::with_queues("preemption", FILE) else { return };
    scene.script("count.sh", "echo begun >> $PVM_JOB_TASK.begun; sleep 3; echo $PVM_JOB_TASK >> ended");
    let long = scene.good("submit --queue long --array 1-6 --output none ./count.sh");
    let begun = || (1..=6).map(|task| scene.read(&format!("{task}.begun")).lines().count()).sum::<usize>();
    wait::becomes_true("all slots are in use", || scene.job(&long)["running"] == 6 && begun() == 6);
    let before = std::time::Instant::now();
    let urgent = scene.good("submit --queue urgent -n 3 --output none sleep 0.2");
    scene.good(&format!("wait {urgent}"));
    assert!(before.elapsed().as_secs() < 3, "it waited for the others' end: {:?}", before.elapsed());
    scene.good(&format!("wait {long}"));
    let record = scene.job(&long);
    assert_eq!(record["state"], "done", "{record}");
    assert_eq!(
        ["done", "failed", "restarts"].map(|name| record[name].as_u64()),
        [Some(6), Some(0), Some(3)],
        "{record}"
    );
    let mut ended: Vec<String> = scene.read("ended").lines().map(str::to_owned).collect();
    ended.sort();
    assert_eq!(ended, ["1", "2", "3", "4", "5", "6"]);
    assert_eq!(begun(), 9);
    scene.machine.finish();
}

#[test]
fn the_loads_of_all_hosts_are_known_on_each() {
    let Some(scene) = JobScene::with_queues("loads", FILE) else { return };
    let loads = |vmid: &str| -> Vec<Value> {
        let output = scene.at(vmid, "load --json");
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        json["hosts"].as_array().expect("hosts").clone()
    };
    for vmid in ["", "h2"] {
        wait::becomes_true("all loads are known", || loads(vmid).iter().all(|host| host["known"] == true));
        let all = loads(vmid);
        assert_eq!(all.len(), 3, "{all:?}");
        for host in &all {
            assert!(host["memory_bytes"].as_u64() > host["free_bytes"].as_u64(), "{host}");
            assert!(host["run_queue"][2].is_f64() && host["cpu"][0].is_f64(), "{host}");
        }
    }
    let table = scene.good("load");
    assert!(table.starts_with("HOST ") && table.lines().count() == 4, "{table}");
    scene.machine.finish();
}

const TEAM: &str = r#"#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    char *group = getenv("PVM_JOB_GROUP");
    int count = atoi(getenv("PVM_JOB_TASKS")), task = atoi(getenv("PVM_JOB_TASK"));
    int tid = pvm_mytid(), own = pvm_getinst(group, tid), sum = task, i, one;

    if (own != task || pvm_barrier(group, count) < 0 || pvm_gsize(group) != count)
        return 3;
    for (i = 0; i < count; i++)
        if (pvm_gettid(group, i) < 0)
            return 4;
    if (pvm_reduce(PvmSum, &sum, 1, PVM_INT, 7, group, 0) < 0)
        return 5;
    if (task == 0)
        printf("%s: %d\n", group, sum);
    for (i = 0; i < 100; i++)
        if (pvm_barrier(group, count) < 0)
            return 6;
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&sum, 1, 1);
    if (task == 0)
        pvm_bcast(group, 8);
    else if (pvm_recv(-1, 8) < 0 || pvm_upkint(&one, 1, 1) < 0 || one != count * (count - 1) / 2)
        return 7;
    pvm_barrier(group, count);
    pvm_exit();
    return 0;
}
"#;

#[test]
fn the_tasks_of_a_parallel_job_are_a_group_from_the_start() {
    let Some(scene) = JobScene::with_queues("the group of a job", FILE) else { return };
    let Some(()) = scene.compile_c("team", TEAM) else { return };
    for _ in 0..5 {
        let id = scene.good("submit -n 5 --output team.%j ./team");
        let output = scene.pvm(&format!("wait {id}"));
        assert!(
            output.status.success(),
            "{output:?}\n{}\n{}",
            scene.read(&format!("team.{id}")),
            scene.machine.log()
        );
        assert_eq!(scene.read(&format!("team.{id}")), format!("job.{id}: 10\n"));
    }
    // The tasks of an array are no group.
    scene.script("none.sh", "test -z \"$PVM_JOB_GROUP\"");
    scene.good("submit --array 1-2 --wait ./none.sh");
    scene.machine.finish();
}
