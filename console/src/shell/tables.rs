//! The console's tables: column for column those of PVM's console, which scripts read.

use pvm_wire::codes::task_flags;
use pvm_wire::coscheduling::TurnsReport;
use pvm3::{PvmError, Spawned, Tid};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// A host, as `conf` and `add` show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRow {
    /// Its name.
    pub name: String,
    /// Its tid.
    pub tid: i32,
    /// Its architecture.
    pub arch: String,
    /// Its speed.
    pub speed: i32,
    /// Its data signature.
    pub signature: u32,
}

/// A task, as `ps` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRow {
    /// The name of its host.
    pub host: String,
    /// Its tid.
    pub tid: i32,
    /// Its parent: 0 if none.
    pub parent: i32,
    /// Its process.
    pub pid: i32,
    /// [`task_flags`].
    pub flags: i32,
    /// Its program: empty if not known.
    pub command: String,
}

/// `1 host`, `2 hosts`.
pub fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The table of `conf`.
pub fn configuration(formats: usize, hosts: &[HostRow]) -> String {
    let mut text = format!("{}, {}\n", counted(hosts.len(), "host"), counted(formats, "data format"));
    let _ = writeln!(text, "{:>24} {:>8} {:>8} {:>7} {:>10}", "HOST", "DTID", "ARCH", "SPEED", "DSIG");
    for HostRow { name, tid, arch, speed, signature } in hosts {
        let _ = writeln!(text, "{name:>24} {tid:>8x} {arch:>8} {speed:>7} {signature:#010x}");
    }
    text
}

/// How teams take turns on each host, behind the table of `conf`; and for how long tasks and daemons spin, at most and now.
pub fn turns(rows: &[(String, TurnsReport)]) -> String {
    let mut text = format!(
        "{:>24} {:>10} {:>9} {:>9} {:>9} {:>9} {:>17} {:>10}\n",
        "HOST", "TURNS BY", "SLICE", "WAKE", "SPIN MAX", "FAR MAX", "TASKS SPIN NOW", "DAEMON NOW"
    );
    for (name, report) in rows {
        let TurnsReport { means, slice, wake, spin, far_spin, daemon_spin, teams, .. } = report;
        let slice = format!("{:?}", Duration::from_micros(*slice));
        let [wake, most, far, daemon] = [wake, spin, far_spin, daemon_spin].map(|&nanos| in_micros(nanos));
        let now: Vec<u64> = teams.iter().flat_map(|team| &team.tasks).filter_map(|task| task.spin).collect();
        let now = match (now.iter().min(), now.iter().max()) {
            (Some(least), Some(most)) if least < most => {
                format!("{}..{}", in_micros(*least), in_micros(*most))
            }
            (_, Some(all)) => in_micros(*all),
            _ => "-".to_owned(),
        };
        let _ = writeln!(
            text,
            "{name:>24} {means:>10} {slice:>9} {wake:>9} {most:>9} {far:>9} {now:>17} {daemon:>10}"
        );
    }
    text
}

/// Lines of cells, each column as wide as its widest cell. A line may have fewer cells than others.
pub fn columns(lines: &[Vec<String>]) -> String {
    let mut widths = Vec::new();
    for line in lines {
        widths.resize(widths.len().max(line.len()), 0);
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}

/// Nanoseconds for people: `4.2us`.
pub fn in_micros(nanos: u64) -> String {
    format!("{:.1}us", nanos as f64 / 1000.0)
}

/// The text when another task has added hosts.
pub fn newcomers(hosts: &[HostRow]) -> String {
    let mut text = format!("\nConsole: {} added\n", counted(hosts.len(), "new host"));
    let _ = writeln!(text, "{:>24} {:>8} {:>8} {:>7}", "HOST", "DTID", "ARCH", "SPEED");
    for HostRow { name, tid, arch, speed, .. } in hosts {
        let _ = writeln!(text, "{name:>24} {tid:>8x} {arch:>8} {speed:>7}");
    }
    text
}

/// The results of `add`: each host's tid, or the reason of its failure.
pub fn added(results: &[(String, Result<i32, String>)]) -> String {
    let good = results.iter().filter(|(_, result)| result.is_ok()).count();
    let mut text = format!("{good} successful\n{:>24} {:>8}\n", "HOST", "DTID");
    for (name, result) in results {
        let _ = match result {
            Ok(tid) => writeln!(text, "{name:>24} {tid:>8x}"),
            Err(reason) => writeln!(text, "{name:>24} {reason}"),
        };
    }
    text
}

/// The results of `delete`.
pub fn deleted(results: &[(String, Result<(), String>)]) -> String {
    let good = results.iter().filter(|(_, result)| result.is_ok()).count();
    let mut text = format!("{good} successful\n{:>24}  STATUS\n", "HOST");
    for (name, result) in results {
        text.push_str(&host_status(name, result.as_ref().map_or_else(String::as_str, |()| "deleted")));
    }
    text
}

/// The result of a spawn: the tasks, then why others were not started, once per reason and host.
pub fn spawned(spawned: &Spawned, hosts: &BTreeMap<Tid, String>) -> String {
    let mut text = format!("{} successful\n", spawned.tids.len());
    for tid in &spawned.tids {
        let _ = writeln!(text, "{tid}");
    }
    let mut untold: BTreeMap<PvmError, usize> = BTreeMap::new();
    for error in &spawned.failed {
        *untold.entry(*error).or_default() += 1;
    }
    for refused in &spawned.reasons {
        let count = refused.count as usize;
        if let Some(left) = untold.get_mut(&refused.code) {
            *left = left.saturating_sub(count);
        }
        if let Some(host) = refused.host {
            let _ = write!(text, "{}: ", hosts.get(&host).map_or_else(|| host.to_string(), String::clone));
        }
        let _ = writeln!(text, "{}{}", refused.reason, several(count));
    }
    for (error, count) in untold.into_iter().filter(|(_, count)| *count > 0) {
        let _ = writeln!(text, "{error}{}", several(count));
    }
    text
}

fn several(count: usize) -> String {
    if count == 1 { String::new() } else { format!(" ({count} tasks)") }
}

/// One line of `mstat`.
pub fn host_status(name: &str, status: &str) -> String {
    format!("{name:>24}  {status}\n")
}

/// One line of `pstat`.
pub fn task_status(tid: i32, status: &str) -> String {
    format!("t{tid:>8x}  {status}\n")
}

/// The table of `ps`; `long` adds parent and process, `own` is shown as the console.
pub fn tasks(rows: &[TaskRow], long: bool, own: i32) -> String {
    task_head(long) + &task_lines(rows, long, own)
}

/// Its first line.
pub fn task_head(long: bool) -> String {
    let more = if long { format!(" {:>8} {:>6}", "PTID", "PID") } else { String::new() };
    format!("{:>24} {:>8}{more}   FLAG 0x COMMAND\n", "HOST", "TID")
}

/// Its other lines.
pub fn task_lines(rows: &[TaskRow], long: bool, own: i32) -> String {
    let mut text = String::new();
    for row in rows {
        let tid = if row.tid == own { "(cons)".to_owned() } else { format!("{:x}", row.tid) };
        let _ = write!(text, "{:>24} {tid:>8}", row.host);
        if long {
            let parent = if row.parent == 0 { "-".to_owned() } else { format!("{:x}", row.parent) };
            let _ = write!(text, " {parent:>8} {:>6}", row.pid);
        }
        let command = if row.command.is_empty() { "-" } else { &row.command };
        let _ = writeln!(text, " {:>9} {command:<12}", flags(row.flags));
    }
    text
}

/// A task's flags: the number, and a letter for each that is known.
fn flags(bits: i32) -> String {
    const LETTERS: [(i32, &str); 4] = [
        (task_flags::AUTH, "a"),
        (task_flags::CONNECTED, "c"),
        (task_flags::FORKED, "f"),
        (task_flags::CLOSING, "o"),
    ];
    let letters: Vec<&str> = LETTERS.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, l)| *l).collect();
    format!("{bits:x}/{}", letters.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvm_wire::coscheduling::{Sent, TaskReport, TeamReport};
    use pvm3::Refused;

    fn vm() -> HostRow {
        let (name, arch) = ("vm".into(), "LINUX64".into());
        HostRow { name, tid: 0x40000, arch, speed: 1000, signature: 0x0040_8c41 }
    }

    // The expected lines are those that PVM 3.4.6's console printed.
    #[test]
    fn conf_is_pvms() {
        let expected = "1 host, 1 data format\n                    HOST     DTID     ARCH   SPEED       DSIG\n                      vm    40000  LINUX64    1000 0x00408c41\n";
        assert_eq!(configuration(1, &[vm()]), expected);
        assert!(configuration(2, &[vm(), vm()]).starts_with("2 hosts, 2 data formats\n"));
    }

    #[test]
    fn turns_have_a_line_per_host() {
        let report = TurnsReport {
            means: "priorities".into(),
            slice: 50_000,
            wake: 4200,
            spin: 21_000,
            far_spin: 105_000,
            daemon_spin: 5250,
            ..TurnsReport::default()
        };
        let told = |spins: &[Option<u64>]| {
            let tid = Tid::from_bits(0x40002);
            let tasks =
                spins.iter().map(|&spin| TaskReport { tid, used: 0, spin, sent: Sent::default() }).collect();
            let report =
                TurnsReport { teams: vec![TeamReport { tasks, ..TeamReport::default() }], ..report.clone() };
            turns(&[("vm".to_owned(), report)])
        };
        let head = "                    HOST   TURNS BY     SLICE      WAKE  SPIN MAX   FAR MAX    TASKS SPIN NOW DAEMON NOW\n";
        let host = "                      vm priorities      50ms     4.2us    21.0us   105.0us";
        assert_eq!(told(&[]), format!("{head}{host}                 -      5.2us\n"));
        assert_eq!(told(&[None, Some(1300)]), format!("{head}{host}             1.3us      5.2us\n"));
        let some = told(&[Some(105_000), None, Some(1300)]);
        assert_eq!(some, format!("{head}{host}    1.3us..105.0us      5.2us\n"));
    }

    #[test]
    fn ps_is_pvms() {
        let cons = TaskRow {
            host: "vm".into(),
            tid: 0x40001,
            parent: 0,
            pid: 7215,
            flags: 4,
            command: String::new(),
        };
        let task = TaskRow {
            tid: 0x40002,
            parent: -35,
            pid: 7220,
            flags: 6,
            command: "/usr/bin/pvmgs".into(),
            ..cons.clone()
        };
        let short = "                    HOST      TID   FLAG 0x COMMAND\n                      vm   (cons)       4/c -           \n                      vm    40002     6/c,f /usr/bin/pvmgs\n";
        assert_eq!(tasks(&[cons.clone(), task.clone()], false, 0x40001), short);
        let long = "                    HOST      TID     PTID    PID   FLAG 0x COMMAND\n                      vm   (cons)        -   7215       4/c -           \n                      vm    40002 ffffffdd   7220     6/c,f /usr/bin/pvmgs\n";
        assert_eq!(tasks(&[cons, task], true, 0x40001), long);
    }

    #[test]
    fn add_and_delete_are_pvms() {
        let results = [("h1".to_owned(), Ok(0x80000)), ("h2".to_owned(), Err("No such host".to_owned()))];
        let expected = "1 successful\n                    HOST     DTID\n                      h1    80000\n                      h2 No such host\n";
        assert_eq!(added(&results), expected);
        let results = [("foo".to_owned(), Err("No such host".to_owned())), ("h".to_owned(), Ok(()))];
        let expected = "1 successful\n                    HOST  STATUS\n                     foo  No such host\n                       h  deleted\n";
        assert_eq!(deleted(&results), expected);
    }

    #[test]
    fn a_spawn_prints_each_reason_once() {
        let [vm, far] = [0x40000, 0x80000].map(Tid::from_raw);
        let refused = |host, count, reason: &str| Refused {
            host,
            code: PvmError::NoFile,
            count,
            reason: reason.to_owned(),
        };
        let result = Spawned {
            tids: vec![Tid::from_raw(0x40002)],
            failed: [vec![PvmError::NoFile; 5], vec![PvmError::DSysErr; 2]].concat(),
            reasons: vec![refused(Some(vm), 3, "./x: no such file"), refused(Some(far), 1, "./x: bad")],
            ..Spawned::default()
        };
        let hosts = BTreeMap::from([(vm, "vm".to_owned())]);
        let expected = "1 successful\nt40002\nvm: ./x: no such file (3 tasks)\nt80000: ./x: bad\nPvmd system error (2 tasks)\nNo such file\n";
        assert_eq!(spawned(&result, &hosts), expected);
    }

    #[test]
    fn status_lines_are_pvms() {
        assert_eq!(host_status(".", "ok"), "                       .  ok\n");
        assert_eq!(task_status(0x40001, "run"), "t   40001  run\n");
    }

    #[test]
    fn newcomers_are_shown_after_an_empty_line() {
        let text = newcomers(&[vm()]);
        assert!(text.starts_with(
            "\nConsole: 1 new host added\n                    HOST     DTID     ARCH   SPEED\n"
        ));
        assert!(text.ends_with("                      vm    40000  LINUX64    1000\n"));
    }
}
