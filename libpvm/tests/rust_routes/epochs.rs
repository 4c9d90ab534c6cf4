//! Hosts on which teams take turns, and epochs on direct routes from there.

use super::{DONE, WORK, direct, me};
use pvm3::{Any, Pack, Routing, Task, Tid};
use std::thread;
use std::time::{Duration, Instant};

/// How long the other host may take to hear of some slices.
const LIMIT: Duration = Duration::from_secs(40);

/// Computes for ever.
pub fn busy() {
    let _task = Task::enrol().unwrap();
    loop {
        std::hint::spin_loop();
    }
}

/// Sends on a direct route again and again, and never waits: its daemon hears nothing of it.
pub fn talker() {
    let mut task = direct();
    let parent = task.parent().unwrap();
    let listener = task.recv(parent, WORK).unwrap().get_tid().unwrap();
    task.send(listener, WORK, &Pack::new()).unwrap();
    assert_eq!(task.direct_routes(), [listener]);
    // A route to the parent would have to be waited for, and whoever waits tells its daemon to whom it has sent.
    task.set_routing(Routing::AllowDirect);
    task.send(parent, DONE, &Pack::new()).unwrap();
    loop {
        task.send(listener, WORK, &Pack::new()).unwrap();
        assert!(task.try_recv(Any, DONE).unwrap().is_none());
        let end = Instant::now() + Duration::from_micros(200);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
    }
}

/// Hears what it is sent.
pub fn listener() {
    let mut task = Task::enrol().unwrap();
    while task.recv(Any, WORK).is_ok() {}
}

fn start(task: &mut Task, role: &str, count: usize, team: &str, host: &str) -> Vec<Tid> {
    let spawn = task.spawn(me()).args(["role", role]).count(count).team(team).on_host(host);
    let spawned = spawn.start().unwrap();
    assert_eq!(spawned.tids.len(), count);
    spawned.tids
}

pub fn epochs_arrive() {
    let mut task = Task::enrol().unwrap();
    if !task.daemon_is_ours() {
        println!("epochs are not tried with the original daemon, which has none");
        return;
    }
    task.add_hosts(&["far via=local"]).unwrap().into_iter().for_each(|host| drop(host.unwrap()));
    let far = task.hosts().unwrap().into_iter().find(|host| host.name == "far").unwrap().tid;
    let listener = start(&mut task, "listener", 1, "talks", "far")[0];
    let talker = start(&mut task, "talker", 1, "talks", "localhost")[0];
    let cores = thread::available_parallelism().map_or(1, usize::from);
    for team in 1..cores.max(2) {
        let _ = start(&mut task, "busy", 2, &team.to_string(), "localhost");
    }
    let mut whom = Pack::new();
    whom.put_tid(listener).unwrap();
    task.send(talker, WORK, &whom).unwrap();
    task.recv(talker, DONE).unwrap();
    // What has gone by the daemons by now has brought an epoch; slices that begin later are only known on the route.
    let before = task.turns(far).unwrap();
    let end = Instant::now() + LIMIT;
    loop {
        let now = task.turns(far).unwrap();
        assert!(!now.is_shared, "one task has the other host to itself");
        if now.adopted >= before.adopted + 3 && now.epoch > before.epoch {
            return;
        }
        assert!(Instant::now() < end, "{} epochs adopted, then {}", before.adopted, now.adopted);
        thread::sleep(Duration::from_millis(50));
    }
}
