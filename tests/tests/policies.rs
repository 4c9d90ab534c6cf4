//! Placement policies of agents on real daemons: where tasks go, that all of them start, and that batches of them end whatever dies.

use pvm_tests::console::Console;
use pvm_tests::machine::Plan;
use pvm_tests::{Installation, Machine, process, wait};
use rustix::process::Signal;

const POLICIES: [&str; 7] = [
    "local",
    "sender-initiated",
    "receiver-initiated",
    "bidding",
    "up-down",
    "hierarchical",
    "graph-theoretic",
];

/// Three hosts with four slots each.
fn machine(installation: &Installation) -> Machine {
    let hostfile = "* via=local sp=1000 ep=@PATH@ slots=4\nh1\nh2\nh3\n";
    Plan::of(installation).name("h1").hostfile(hostfile).start()
}

/// Tasks on h1, h2 and h3.
fn per_host(console: &mut Console) -> [usize; 3] {
    let tasks = console.tasks();
    ["h1", "h2", "h3"].map(|host| tasks.iter().filter(|task| task.host == host).count())
}

/// Starts this many tasks that sleep; where they are.
fn spawn(console: &mut Console, policy: &str, count: usize) -> [usize; 3] {
    let spawned = console.spawn(&format!("-{count} -%{policy} /bin/sleep 1000"));
    assert!(spawned.tasks.iter().all(Result::is_ok), "{policy}: {spawned:?}");
    assert_eq!(spawned.tasks.len(), count, "{policy}");
    let places = per_host(console);
    assert_eq!(places.iter().sum::<usize>(), count, "{policy}");
    console.command("reset");
    wait::becomes_true("no task is left", || console.tasks().is_empty());
    places
}

/// Whether a policy should have placed nine tasks like this.
fn is_by_rule(policy: &str, [home, second, third]: [usize; 3]) -> bool {
    let others = second.max(third);
    match policy {
        "local" => home == 9,
        "sender-initiated" => home >= 4 && (1..=4).contains(&others),
        "bidding" => [home, second, third] == [3, 3, 3],
        // The first nine of the ten that were reserved, in proportion to room.
        "hierarchical" => [home, second, third].iter().all(|count| (2..=4).contains(count)),
        // A ring of nine is cut into three parts anywhere.
        "graph-theoretic" => home.max(others) <= 4,
        // The others divide what has no room at home.
        _ => home == 4 && others <= 4,
    }
}

#[test]
fn each_policy_places_by_its_rule() {
    let Some(ours) = Installation::ours_only("policies of agents") else { return };
    let machine = machine(&ours);
    let mut console = machine.console_with_hosts(3);
    for policy in POLICIES {
        // What other programs do on this computer is load of all hosts: it takes a quiet moment to see the rule.
        wait::becomes_true(policy, || is_by_rule(policy, spawn(&mut console, policy, 9)));
    }
    console.quit();
}

#[test]
fn what_no_host_has_room_for_starts_all_the_same_unless_it_is_queued() {
    let Some(ours) = Installation::ours_only("policies of agents") else { return };
    let machine = machine(&ours);
    let mut console = machine.console_with_hosts(3);
    for policy in POLICIES {
        spawn(&mut console, policy, 40);
    }
    // Tasks that are confined to a host are there.
    for policy in POLICIES {
        console.spawn(&format!("-3 -h2 -%{policy} /bin/sleep 1000"));
    }
    assert_eq!(per_host(&mut console), [0, 3 * POLICIES.len(), 0]);
    console.command("reset");
    wait::becomes_true("no task is left", || console.tasks().is_empty());
    // Of a queued batch no more run than there are slots.
    console.command("spawn -+ -30 -%up-down /bin/sleep 1000");
    wait::becomes_true("some run", || per_host(&mut console).iter().sum::<usize>() > 0);
    assert!(wait::holds(|| per_host(&mut console).iter().all(|&count| count <= 4)));
    let listed = console.command("batch");
    assert!(listed.iter().any(|line| line.contains("up-down")), "{listed:#?}");
    console.quit();
}

#[test]
fn batches_end_although_hosts_die() {
    let Some(ours) = Installation::ours_only("policies of agents") else { return };
    let machine = machine(&ours);
    let mut console = machine.console_with_hosts(3);
    for policy in POLICIES {
        console.command(&format!("spawn -+ -60 -%{policy} /bin/sleep 0.2"));
    }
    wait::becomes_true("tasks run on two hosts", || {
        per_host(&mut console).iter().filter(|&&count| count > 0).count() > 1
    });
    let daemon = machine.slave_daemons().into_iter().next().expect("there are two");
    assert!(process::signal(daemon.pid, Signal::KILL));
    // All have been done, or lost with the host: by bidding, a third of a batch runs on it at once.
    let is_over = |line: &&String| {
        let number = |word: &str| word.parse().unwrap_or(0);
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, _, "60", "0", "0", done, failed, ..] = words[..] else { return false };
        number(done) > 0_u32 && number(done) + number(failed) == 60
    };
    let mut listed = Vec::new();
    let over = wait::until(wait::PATIENCE, || {
        listed = console.command("batch");
        (listed.iter().filter(is_over).count() == POLICIES.len()).then_some(())
    });
    assert_eq!(over, Some(()), "{listed:#?}");
    console.quit();
}
