//! Placement policies of agents on real daemons: where tasks go, that all of them start, and that batches of them end whatever dies.

use pvm_tests::console::Console;
use pvm_tests::install::workspace;
use pvm_tests::machine::Plan;
use pvm_tests::process::Process;
use pvm_tests::programs::{Linking, Programs};
use pvm_tests::{AGENT_POLICIES, Installation, Machine, process, wait};
use rustix::process::Signal;
use std::path::{Path, PathBuf};

fn docs() -> PathBuf {
    workspace().join("docs")
}

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
        // All at once, on as few hosts as can be.
        "coallocation" => {
            let mut places = [home, second, third];
            places.sort_unstable();
            places == [1, 4, 4]
        }
        // The others divide what has no room at home.
        _ => home == 4 && others <= 4,
    }
}

#[test]
fn each_policy_places_by_its_rule() {
    let Some(ours) = Installation::ours_only("policies of agents") else { return };
    let machine = machine(&ours);
    let mut console = machine.console_with_hosts(3);
    for policy in AGENT_POLICIES {
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
    for policy in AGENT_POLICIES {
        spawn(&mut console, policy, 40);
    }
    // Tasks that are confined to a host are there.
    for policy in AGENT_POLICIES {
        console.spawn(&format!("-3 -h2 -%{policy} /bin/sleep 1000"));
    }
    assert_eq!(per_host(&mut console), [0, 3 * AGENT_POLICIES.len(), 0]);
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

/// What the book's program says of the price of a place on each host, and of the places sold.
fn prices(machine: &Machine, program: &Path) -> Vec<(String, u64, u64)> {
    let ended = machine.program::<&str>(program, &[]).end();
    let number = |words: &[&str], after: &str| {
        let at = words.iter().position(|word| *word == after)?;
        words.get(at + 1)?.trim_end_matches([',', ';']).parse::<u64>().ok()
    };
    let price = |line: &str| {
        let (host, rest) = line.split_once(": the next place ")?;
        let words: Vec<&str> = rest.split(' ').collect();
        let next = words.first()?.trim_end_matches(',').parse().ok()?;
        let sold = words.iter().position(|word| *word == "sold")?;
        assert!(number(&words, "for")? >= number(&words, "one")?, "{line}");
        Some((host.to_owned(), next, words[sold - 1].parse().ok()?))
    };
    ended.stdout.lines().filter_map(price).collect()
}

#[test]
fn what_places_cost_is_public() {
    let Some(ours) = Installation::ours_only("prices of places") else { return };
    let source = docs().join("programs/prices.c");
    let Some(programs) = Programs::of_files(&[source], &ours, Linking::Shared) else { return };
    let program = programs.path("prices");
    let machine = machine(&ours);
    let mut console = machine.console_with_hosts(3);
    assert_eq!(prices(&machine, &program), [], "nothing was ever for sale");
    let mut bought = 0;
    // What other programs do on this computer is load of all hosts, which they measure at times of their own: it makes some dearer.
    wait::becomes_true("each host sells two of six places", || {
        no_task_is_left(&mut console);
        console.spawn("-6 -%bidding /bin/sleep 1000");
        bought += 6;
        per_host(&mut console) == [2, 2, 2]
    });
    wait::becomes_true("two tasks on each host have made it dearer", || {
        let prices = prices(&machine, &program);
        let hosts: Vec<&str> = prices.iter().map(|(host, ..)| host.as_str()).collect();
        hosts == ["h1", "h2", "h3"]
            && prices.iter().all(|&(_, price, _)| price > 0)
            && prices.iter().map(|&(_, _, sold)| sold).sum::<u64>() == bought
    });
    no_task_is_left(&mut console);
    wait::becomes_true("places are cheaper, and what was earned stays", || {
        let prices = prices(&machine, &program);
        prices.iter().any(|&(_, price, _)| price == 0)
            && prices.iter().map(|&(_, _, sold)| sold).sum::<u64>() == bought
    });
    console.delete(&["h3"]);
    wait::becomes_true("a host takes its entry with it", || prices(&machine, &program).len() == 2);
    console.quit();
}

/// A host alone, and two clusters of two hosts in domains of their own; two slots on each of these.
const CLUSTERS: &str = "* via=local sp=1000 ep=@PATH@\nh1 slots=1\n\
    h2 cluster=east slots=2\nh3 cluster=east slots=2\nh4 cluster=west slots=2\nh5 cluster=west slots=2\n\
    link=east bw=1Gbit domain=north\nlink=west bw=1Gbit domain=south\n";

/// Spawns tasks by co-allocation; how many are on h1, in east and in west.
fn coallocated(console: &mut Console, count: usize) -> [usize; 3] {
    let before: Vec<_> = console.tasks();
    let spawned = console.spawn(&format!("-{count} -%coallocation /bin/sleep 1000"));
    assert!(spawned.tasks.iter().all(Result::is_ok), "{spawned:?}");
    let now = console.tasks();
    let new: Vec<&str> = now
        .iter()
        .filter(|task| before.iter().all(|old| old.tid != task.tid))
        .map(|task| task.host.as_str())
        .collect();
    assert_eq!(new.len(), count);
    [["h1", "-"], ["h2", "h3"], ["h4", "h5"]].map(|of| new.iter().filter(|host| of.contains(host)).count())
}

fn no_task_is_left(console: &mut Console) {
    console.command("reset");
    wait::becomes_true("no task is left", || console.tasks().is_empty());
}

#[test]
fn coallocation_takes_whole_clusters_and_outlives_their_heads() {
    let Some(ours) = Installation::ours_only("co-allocation of spawns") else { return };
    let machine = Plan::of(&ours).name("h1").hostfile(CLUSTERS).start();
    let mut console = machine.console_with_hosts(5);
    // What other programs do on this computer is load of all hosts: it takes a quiet moment to see the rule.
    wait::becomes_true("each spawn has a cluster of its own", || {
        no_task_is_left(&mut console);
        let mut places = [coallocated(&mut console, 4), coallocated(&mut console, 4)];
        places.sort_unstable();
        places == [[0, 0, 4], [0, 4, 0]]
    });
    // The head of a cluster, which is the scheduler of its domain.
    let task = console.tasks().into_iter().find(|task| task.host == "h2").expect("a task on h2");
    let has_task = |daemon: &Process| process::children(daemon.pid).iter().any(|child| child.pid == task.pid);
    let head = machine.slave_daemons().into_iter().find(has_task).expect("the daemon of h2");
    assert!(process::signal(head.pid, Signal::KILL));
    wait::becomes_true("it is out", || console.conf().len() == 4);
    wait::becomes_true("what is left of the cluster has another head", || {
        no_task_is_left(&mut console);
        coallocated(&mut console, 6) == [0, 2, 4]
    });
    no_task_is_left(&mut console);
    let all = coallocated(&mut console, 14);
    assert!(all.iter().all(|&count| count > 0), "more than there are slots: {all:?}");
    console.quit();
}

/// Whether a line of `batch` is that of a batch of this number of tasks, all of which have been done or lost.
fn is_over(line: &str, count: u32) -> bool {
    let number = |word: &str| word.parse().unwrap_or(0);
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, _, tasks, "0", "0", done, failed, ..] = words[..] else { return false };
    number(tasks) == count && number(done) > 0 && number(done) + number(failed) == count
}

/// Ends the daemons of these hosts at once, found by a task of each.
fn kill_daemons(machine: &Machine, console: &mut Console, hosts: [&str; 2]) {
    let tasks = console.tasks();
    let daemons = machine.slave_daemons();
    let of = |host: &str| {
        let task = tasks.iter().find(|task| task.host == host).expect("a task there");
        let has_task =
            |daemon: &&Process| process::children(daemon.pid).iter().any(|child| child.pid == task.pid);
        daemons.iter().find(has_task).expect("its daemon").pid
    };
    for pid in hosts.map(of) {
        assert!(process::signal(pid, Signal::KILL));
    }
    wait::becomes_true("they are out", || {
        hosts.iter().all(|host| console.conf().iter().all(|row| row.name != *host))
    });
}

#[test]
fn spawns_go_on_when_all_heads_die_at_once() {
    let Some(ours) = Installation::ours_only("heads that all die") else { return };
    let machine = Plan::of(&ours).name("h1").hostfile(CLUSTERS).start();
    let mut console = machine.console_with_hosts(5);
    // The first hosts of the clusters are their heads and schedule for their domains; when they are gone the others do.
    for (rounds, heads) in [(1, ["h2", "h4"]), (2, ["h3", "h5"])] {
        for policy in ["hierarchical", "coallocation"] {
            let spawned = console.spawn(&format!("-12 -%{policy} /bin/sleep 1000"));
            assert!(spawned.tasks.iter().all(Result::is_ok), "{policy}: {spawned:?}");
            // Tasks of a batch wait for the heads' answers when these die.
            console.command(&format!("spawn -+ -12 -%{policy} /bin/sleep 0.1"));
        }
        kill_daemons(&machine, &mut console, heads);
        for policy in ["hierarchical", "coallocation"] {
            let spawned = console.spawn(&format!("-8 -%{policy} /bin/sleep 1000"));
            assert!(spawned.tasks.iter().all(Result::is_ok), "{policy}: {spawned:?}");
        }
        no_task_is_left(&mut console);
        wait::becomes_true("both batches are over", || {
            console.command("batch").iter().filter(|line| is_over(line, 12)).count() == 2 * rounds
        });
        let [home, east, west] = coallocated(&mut console, 4);
        assert_eq!(home == 4, rounds == 2, "{home} at home, {east} in one cluster, {west} in the other");
        no_task_is_left(&mut console);
    }
    console.quit();
}

#[test]
fn batches_end_although_hosts_die() {
    let Some(ours) = Installation::ours_only("policies of agents") else { return };
    let machine = machine(&ours);
    let mut console = machine.console_with_hosts(3);
    for policy in AGENT_POLICIES {
        console.command(&format!("spawn -+ -60 -%{policy} /bin/sleep 0.2"));
    }
    wait::becomes_true("tasks run on two hosts", || {
        per_host(&mut console).iter().filter(|&&count| count > 0).count() > 1
    });
    let daemon = machine.slave_daemons().into_iter().next().expect("there are two");
    assert!(process::signal(daemon.pid, Signal::KILL));
    // All have been done, or lost with the host: by bidding, a third of a batch runs on it at once.
    let mut listed = Vec::new();
    let over = wait::until(wait::PATIENCE, || {
        listed = console.command("batch");
        (listed.iter().filter(|line| is_over(line, 60)).count() == AGENT_POLICIES.len()).then_some(())
    });
    assert_eq!(over, Some(()), "{listed:#?}");
    console.quit();
}
