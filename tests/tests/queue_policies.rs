//! The policies of queues: each divides the arrays of its queue, and places what the tasks of its jobs spawn. A name that is none is told
//! with its line.

use pvm_tests::job_scene::JobScene;
use pvm_tests::machine::Plan;
use pvm_tests::{Installation, wait};
use serde_json::Value;
use std::fs;
use tempfile::TempDir;

/// Slots that are one, two and four times as fast.
const HOSTS: &str = "* via=local ep=@PATH@ slots=32\nh1 sp=1000\nh2 sp=2000\nh3 sp=4000\n";

const QUEUES: &str = "[[queue]]\nname = \"plain\"\n\n\
    [[queue]]\nname = \"pulling\"\npolicy = \"active-pulling\"\n\n\
    [[queue]]\nname = \"turns\"\npolicy = \"round-robin\"\n\n\
    [[queue]]\nname = \"parts\"\npolicy = \"proportional\"\n\n\
    [[queue]]\nname = \"light\"\npolicy = \"lightly-loaded\"\n\n\
    [[queue]]\nname = \"home\"\npolicy = \"local\"\n\n\
    [[queue]]\nname = \"agents\"\npolicy = \"hierarchical\"\n";

/// The queues of [`QUEUES`] with a policy.
const POLICIES: [(&str, &str); 6] = [
    ("pulling", "active-pulling"),
    ("turns", "round-robin"),
    ("parts", "proportional"),
    ("light", "lightly-loaded"),
    ("home", "local"),
    ("agents", "hierarchical"),
];

/// Has tasks spawned as a queued batch, by the policy that its argument names or by none, and receives the notices of them.
const SPAWNER: &str = r#"
#include <pvm3.h>
#include <pvm3x.h>

int main(int argc, char **argv) {
    char *arguments[] = { "1000", NULL };
    pvm_setopt(PvmBatchCode, 7);
    if (argc > 1 && pvm_setpolicy(argv[1]) < 0)
        return 3;
    if (pvm_spawn("/bin/sleep", arguments, PvmTaskDefault | PvmTaskQueued, "", 9, NULL) < 0)
        return 4;
    for (;;)
        pvm_recv(-1, 7);
}
"#;

/// A machine on whose three hosts jobs can run.
fn scene(check: &str) -> Option<JobScene> {
    let scene = JobScene::with_hostfile(check, QUEUES, HOSTS)?;
    wait::becomes_true("the queues know the slots of all hosts", || {
        scene.pvm("submit --queue plain -n 96 --wait true").status.success()
    });
    Some(scene)
}

fn json(scene: &JobScene, args: &str) -> Value {
    serde_json::from_str(&scene.good(args)).expect("JSON")
}

/// Tasks on h1, h2 and h3 that sleep.
fn sleepers(scene: &JobScene) -> [usize; 3] {
    ["h1", "h2", "h3"].map(|host| {
        let list = json(scene, &format!("ps -n {host} --json"));
        let tasks = list["tasks"].as_array().expect("tasks").iter();
        tasks
            .filter(|task| task["command"].as_str().is_some_and(|command| command.ends_with("sleep")))
            .count()
    })
}

/// Ends a job, and waits until as many tasks sleep as before it.
fn end(scene: &JobScene, id: &str, before: [usize; 3]) {
    scene.good(&format!("cancel {id}"));
    wait::becomes_true("its tasks have ended", || {
        scene.job(id)["state"] == "cancelled" && sleepers(scene) == before
    });
}

/// Where the tasks of an array are that is submitted now. It is cancelled then.
fn divided(scene: &JobScene, queue: &str, count: usize) -> [usize; 3] {
    let before = sleepers(scene);
    let id = scene.good(&format!("submit --queue {queue} --array 1-{count} --output none sleep 1000"));
    let new = || {
        let now = sleepers(scene);
        [0, 1, 2].map(|host| now[host] - before[host])
    };
    wait::becomes_true("all of its tasks run", || new().iter().sum::<usize>() == count);
    let (places, record) = (new(), scene.job(&id));
    assert_eq!((&record["queue"], &record["running"]), (&queue.into(), &count.into()), "{record}");
    let used = ["h1", "h2", "h3"].into_iter().zip(places).filter(|&(_, n)| n > 0).map(|(host, _)| host);
    assert_eq!(record["hosts"], Value::from(used.collect::<Vec<_>>()), "{record}");
    end(scene, &id, before);
    places
}

#[test]
fn arrays_are_divided_by_the_policies_of_their_queues() {
    let Some(scene) = scene("policies of queues for arrays") else { return };
    let shown = json(&scene, "queues --json");
    for (queue, policy) in POLICIES {
        let all = shown["queues"].as_array().expect("queues");
        let one = all.iter().find(|one| one["name"] == queue).expect("it is listed");
        assert_eq!(one["limits"]["policy"], policy, "{one}");
    }
    // Even blocks, whatever the speed, from the host on that follows the last one.
    for (count, places) in [(9, [3, 3, 3]), (4, [2, 1, 1]), (2, [1, 1, 0]), (2, [1, 0, 1])] {
        assert_eq!(divided(&scene, "turns", count), places);
    }
    assert_eq!(divided(&scene, "parts", 9), [1, 3, 5]);
    // In between an array of another queue: it has no part in the turns.
    assert_eq!(divided(&scene, "turns", 1), [0, 1, 0]);
    // The formula of active pulling is asked for the lightly loaded hosts first. What other programs do on this computer is load of all
    // hosts: it takes a quiet moment to see the rule. Policies of agents place spawns only, and a queue need not have one.
    for queue in ["pulling", "plain", "home", "agents"] {
        wait::becomes_true(queue, || divided(&scene, queue, 9) == [1, 2, 6]);
    }
    // With more than others do on this computer, the fastest host is the one on which a task takes longest.
    let busy = scene.good("submit --queue plain --hosts h3 --array 1-24 --output none sleep 1000");
    wait::becomes_true("the fastest host is busy", || sleepers(&scene) == [0, 0, 24]);
    assert_eq!(divided(&scene, "parts", 7), [1, 2, 4]);
    wait::becomes_true("the others have more", || {
        let [first, second, third] = divided(&scene, "light", 7);
        second > first && third < 4
    });
    end(&scene, &busy, [0; 3]);
    scene.machine.finish();
}

/// The batch that a job of this queue has spawned, once all of it runs, and where its tasks are.
fn spawned(scene: &JobScene, queue: &str, args: &str) -> (Value, [usize; 3]) {
    let id = scene.good(&format!("submit --queue {queue} --hosts h1 --output none {args}"));
    let batch = wait::eventually("a batch runs", || {
        let list = json(scene, "batch --json");
        list["batches"].as_array()?.iter().find(|batch| batch["running"] == 9).cloned()
    });
    let number = batch["id"].as_str().expect("a queued batch has a number").to_owned();
    let table = scene.good(&format!("batch {number}"));
    let batch = json(scene, &format!("batch {number} --json"))["batches"][0].clone();
    assert!(table.contains(batch["policy"].as_str().expect("a name")), "{table}");
    let places = sleepers(scene);
    scene.good(&format!("batch --cancel {number}"));
    end(scene, &id, [0; 3]);
    (batch, places)
}

/// Tasks on h1, h2 and h3 by the decisions that a batch shows.
fn decided(batch: &Value) -> [u64; 3] {
    let all = batch["decisions"].as_array().expect("decisions");
    ["h1", "h2", "h3"].map(|host| {
        let of_host = all.iter().filter(|decision| decision["host"] == host);
        of_host.map(|decision| decision["tasks"].as_u64().expect("a number")).sum()
    })
}

/// Whether a policy should have placed nine tasks like this, which were spawned on h1.
fn is_by_rule(policy: &str, places: [usize; 3]) -> bool {
    match policy {
        "round-robin" => places == [3, 3, 3],
        "proportional" => places == [1, 3, 5],
        "local" => places == [9, 0, 0],
        // In proportion to room.
        "hierarchical" => places.iter().all(|count| (2..=4).contains(count)),
        // A task takes longer on a slower host, whatever else runs on this computer.
        "lightly-loaded" => places.is_sorted(),
        // Hosts are given tasks as they ask for some: it depends on this computer which one asks first, and how often before the others.
        _ => true,
    }
}

#[test]
fn what_jobs_spawn_is_placed_by_the_policies_of_their_queues() {
    let Some(scene) = scene("policies of queues for spawns") else { return };
    let Some(()) = scene.compile_c("spawner", SPAWNER) else { return };
    let expect = |queue: &str, policy: &str, args: &str| {
        wait::becomes_true(policy, || {
            let (batch, places) = spawned(&scene, queue, args);
            assert_eq!(batch["policy"], policy, "{batch}");
            assert_eq!(decided(&batch).map(|n| n as usize), places, "{batch}");
            is_by_rule(policy, places)
        });
    };
    for (queue, policy) in POLICIES {
        expect(queue, policy, "./spawner");
    }
    // A spawn that names a policy has that one, and a queue without one leaves it to the machine's.
    expect("turns", "local", "./spawner local");
    expect("plain", "active-pulling", "./spawner");
    let costs = json(&scene, "batch --policies --json");
    for (_, policy) in POLICIES {
        let one = costs["policies"].as_array().and_then(|all| all.iter().find(|one| one["policy"] == policy));
        let given = one.and_then(|one| one["given"].as_u64());
        assert!(given.is_some_and(|given| given >= 9 && given % 9 == 0), "{policy}: {costs}");
    }
    scene.machine.finish();
}

#[test]
fn a_policy_that_is_none_is_told_with_its_line() {
    let check = "mistakes in policies of queues";
    let Some(ours) = Installation::ours_only(check) else { return };
    let told = "line 10: policy: unknown policy \"fifo\"; choose one of active-pulling, ";
    let wrong = QUEUES.replace("\"round-robin\"", "\"fifo\"");
    let folder = TempDir::with_prefix("pvm-queues-").expect("a folder");
    let queues = folder.path().join("queues.toml");
    fs::write(&queues, &wrong).expect("a file of queues");
    let plan = Plan::of(&ours).name("h1").variable("PVM_QUEUES", &queues);
    let Err(refused) = plan.try_start() else { panic!("the daemon started") };
    assert_eq!(refused.ended.status.code(), Some(2), "{refused:#?}");
    assert!(refused.ended.stderr.contains(&format!("queues.toml: {told}")), "{refused:#?}");

    // Where there are queues already, they stay.
    let Some(scene) = JobScene::with_queues(check, QUEUES) else { return };
    scene.write("queues.toml", &wrong);
    let refused = scene.refused("queues --reload");
    assert!(refused.contains(&format!("queues.toml: {told}")) && refused.contains("stay as they are"));
    assert!(scene.good("queues").contains("policy=round-robin"));
    scene.write("queues.toml", &QUEUES.replace("\"round-robin\"", "\"proportional\""));
    assert!(!scene.good("queues --reload").contains("policy=round-robin"));
    scene.machine.finish();
}
