//! What daemons remember of turns, as it happens.
//!
//! `turns HOST…` prints a line for each change on one of these hosts, and for each message that was refused, until its standard output
//! is closed:
//!
//! ```text
//! HOST TEAM COUNT ORIGIN BOOSTED REFUSED-AS-OLD REFUSED-AS-UNFAIR
//! ```
//!
//! TEAM is `-` while all teams run, COUNT and ORIGIN are the epoch. `turns note TID…` sends each of these tasks a message by the daemons: it
//! takes no turns itself, and a task that has got a message from another host does not count as one that waits for an answer.

use pvm3::{Pack, Result, Routing, Task, Tid};
use std::io::{self, Write};
use std::thread;
use std::time::Duration;

/// A tag that no task receives.
const NOTE: i32 = 9;
const EVERY: Duration = Duration::from_millis(15);

/// A host, the number of the next span, and what was printed last.
struct Watched {
    name: String,
    tid: Tid,
    next: u64,
    last: String,
}

impl Watched {
    /// Prints what is new; whether anything can read it.
    fn print(&mut self, task: &mut Task) -> Result<io::Result<()>> {
        let history = task.turn_history(self.tid, self.next)?;
        self.next = history.next;
        for span in history.spans {
            let team = span.team.as_deref().unwrap_or("-");
            let state = format!("{} {team} {} {} {}", self.name, span.epoch, span.origin, span.is_boosted);
            if state == self.last && span.old + span.unfair == 0 {
                continue;
            }
            let written = writeln!(io::stdout(), "{state} {} {}", span.old, span.unfair);
            if written.is_err() {
                return Ok(written);
            }
            self.last = state;
        }
        Ok(Ok(()))
    }
}

fn watch(task: &mut Task, names: &[String]) -> Result<()> {
    let hosts = task.hosts()?;
    let watched = names.iter().map(|name| {
        let host = hosts.iter().find(|host| host.name == *name).expect("a host of the machine");
        Watched { name: name.clone(), tid: host.tid, next: 0, last: String::new() }
    });
    let mut watched: Vec<Watched> = watched.collect();
    loop {
        for host in &mut watched {
            if host.print(task)?.is_err() {
                return Ok(());
            }
        }
        thread::sleep(EVERY);
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut task = Task::enrol()?;
    task.set_routing(Routing::ByDaemon);
    match arguments.split_first() {
        Some((first, tids)) if first == "note" => {
            for tid in tids {
                let tid = Tid::from_raw(tid.parse().expect("a task's id"));
                task.send(tid, NOTE, &Pack::new())?;
            }
        }
        _ => watch(&mut task, &arguments)?,
    }
    task.exit()
}
