//! Members of groups on several hosts: real daemons and real processes.

use pvm_tests::Installation;
use pvm_tests::machine::Plan;
use pvm_tests::programs::{Linking, Programs};
use std::time::Duration;

const HOSTS: &str = "* via=local\nh1\nh2\nh3\nh4\n";
const MEMBERS: &str = "12";
const BARRIERS: &str = "2000";

#[test]
fn members_that_live_pass_the_same_barriers_while_others_die_leave_and_lose_their_host() {
    let Some(ours) = Installation::ours_only("members in lockstep") else { return };
    let Some(programs) = Programs::compile(&["lockstep"], &ours, Linking::Shared) else { return };
    for seed in ["1", "2", "3"] {
        let machine = Plan::of(&ours).name("h1").hostfile(HOSTS).path(programs.folder()).start();
        machine.console_with_hosts(4).quit();
        let table = programs.folder().join(format!("table-{seed}"));
        let arguments = [table.to_str().expect("UTF-8"), MEMBERS, BARRIERS, seed, "h4"];
        let ended =
            machine.program(programs.path("lockstep"), &arguments).end_within(Duration::from_secs(120));
        ended.expect_success();
        assert!(ended.stdout.contains("deleted\n") && !ended.stdout.contains("failed"), "{ended:?}");
        // Of twelve three are killed, three leave, and a quarter of the others was on the deleted host.
        let count: Option<u32> =
            ended.stdout.lines().last().and_then(|line| line.strip_suffix(" passed all")?.parse().ok());
        assert!(count.is_some_and(|count| (3..=6).contains(&count)), "{ended:?}");
        machine.finish();
    }
}
