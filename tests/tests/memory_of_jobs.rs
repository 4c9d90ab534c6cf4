//! Limits of the memory of jobs: by control groups, and where none can be made.

use pvm_tests::control_groups::of_limited_tasks;
use pvm_tests::job_scene::JobScene;
use pvm_tests::{peers, wait};

/// It keeps its last line, of 200 MB, in memory, and reports what becomes of that.
const LARGE: &str = "head -c 200000000 /dev/zero | tail -n 1 > /dev/null";
/// Two processes that have 60 MB each.
const TWO: &str =
    "for i in 1 2; do (head -c 60000000 /dev/zero; sleep 1000) | tail -n 1 > /dev/null & done; wait";

#[test]
fn a_control_group_bounds_a_task_with_all_that_it_starts() {
    let check = "limits of memory by control groups";
    if of_limited_tasks().is_none() {
        return peers::unchecked(check, "no group has the controller \"memory\"");
    }
    let Some(scene) = JobScene::with_variable(check, "PVM_MEMORY_LIMITS", "group") else { return };
    scene.script("large.sh", LARGE);
    scene.script("two.sh", TWO);
    // The shell goes on when the system ends one of its processes: the task ends all the same.
    scene.script("stays.sh", &format!("{LARGE}; sleep 1000"));
    scene.good("submit --wait --mem 1G ./large.sh");
    for script in ["large.sh", "two.sh", "stays.sh"] {
        let said = scene.refused(&format!("submit --wait --mem 100M ./{script}"));
        assert!(said.contains("its processes had more than 100 MiB of memory (--mem"), "{script}: {said}");
    }
    // Addresses that are only reserved are no memory.
    scene.script("reserves.sh", "ulimit -d");
    scene.good("submit --wait --mem 1G --output reserves ./reserves.sh");
    assert_eq!(scene.read("reserves"), "unlimited\n");
    // The least that can be asked for: the program does not even begin, and the daemons are there still.
    scene.refused("submit --wait --mem 1 --array 1-20 true");
    scene.good("submit --wait --mem 1G --array 1-200 true");
    assert!(scene.good("conf").contains("3 hosts"));
    // Tasks that run until the end leave no group.
    let kept = scene.good("submit --mem 1G sleep 1000");
    wait::becomes_true("it runs", || scene.job(&kept)["running"] == 1);
    wait::becomes_true("only its group is left", || {
        of_limited_tasks().is_some_and(|groups| groups.len() == 1)
    });
    scene.machine.finish();
    assert_eq!(of_limited_tasks(), Some(Vec::new()));
}

#[test]
fn without_control_groups_each_process_has_a_limit_and_their_sum() {
    let check = "limits of memory by looking";
    let Some(scene) = JobScene::with_variable(check, "PVM_MEMORY_LIMITS", "process") else { return };
    scene.script("large.sh", LARGE);
    scene.script("two.sh", TWO);
    scene.good("submit --wait --mem 1G ./large.sh");
    assert!(scene.refused("submit --wait --mem 50M ./large.sh").contains("ended with exit code 1"));
    let both = scene.refused("submit --wait --mem 100M ./two.sh");
    assert!(both.contains("its processes had more than 100 MiB of memory (--mem"), "{both}");
    scene.machine.finish();
}
