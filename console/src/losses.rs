//! Incidents in words: hosts that are lost, tasks that signals end.

use pvm3::{Incident, Tid, signal_of};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Ids shown of one program's tasks; of more, their number is.
const IDS_MAX: usize = 20;

/// An incident as a line of text; `None` for a normal exit.
pub fn describe(incident: &Incident) -> Option<String> {
    match incident {
        Incident::HostLost { host, name, reason, tasks } => {
            Some(format!("host {name} ({host}) was lost: {reason}; {}", inventory(tasks)))
        }
        Incident::TaskEnded { tid, name, status, intended: false } => {
            signal_of(*status).map(|signal| format!("[{tid}] {name} was killed by {}", signal_text(signal)))
        }
        Incident::TaskEnded { .. } => None,
    }
}

/// A signal's number and what it means.
pub fn signal_text(signal: i32) -> String {
    match meaning(signal).or_else(|| signal_hook::low_level::signal_name(signal)) {
        Some(meaning) => format!("signal {signal} ({meaning})"),
        None => format!("signal {signal}"),
    }
}

/// The meaning of the signals that usually end programs, in the words of shells.
fn meaning(signal: i32) -> Option<&'static str> {
    use signal_hook::consts as sig;
    Some(match signal {
        sig::SIGHUP => "Hangup",
        sig::SIGINT => "Interrupt",
        sig::SIGQUIT => "Quit",
        sig::SIGILL => "Illegal instruction",
        sig::SIGTRAP => "Trace/breakpoint trap",
        sig::SIGABRT => "Aborted",
        sig::SIGBUS => "Bus error",
        sig::SIGFPE => "Floating point exception",
        sig::SIGKILL => "Killed",
        sig::SIGSEGV => "Segmentation fault",
        sig::SIGPIPE => "Broken pipe",
        sig::SIGALRM => "Alarm clock",
        sig::SIGTERM => "Terminated",
        sig::SIGXCPU => "CPU time limit exceeded",
        sig::SIGXFSZ => "File size limit exceeded",
        _ => return None,
    })
}

/// The tasks of a host, by program.
fn inventory(tasks: &[(Tid, String)]) -> String {
    let mut programs: BTreeMap<&str, Vec<Tid>> = BTreeMap::new();
    for (tid, name) in tasks {
        programs.entry(name).or_default().push(*tid);
    }
    let mut text = match tasks.len() {
        0 => return "no task ran there".to_owned(),
        1 => "1 task ran there:".to_owned(),
        count => format!("{count} tasks ran there:"),
    };
    for (number, (name, tids)) in programs.into_iter().enumerate() {
        let separator = if number > 0 { "," } else { "" };
        let _ = write!(text, "{separator} {name}");
        for tid in tids.iter().take(IDS_MAX) {
            let _ = write!(text, " {tid}");
        }
        if tids.len() > IDS_MAX {
            let _ = write!(text, " and {} more", tids.len() - IDS_MAX);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(local: i32, name: &str) -> (Tid, String) {
        (Tid::from_raw(0x80000 + local), name.to_owned())
    }

    fn lost(tasks: Vec<(Tid, String)>) -> Incident {
        let host = Tid::from_raw(0x80000);
        Incident::HostLost { host, name: "node2".into(), reason: "no word for 3s".into(), tasks }
    }

    #[test]
    fn a_lost_hosts_tasks_are_named_by_program() {
        let tasks = vec![task(1, "worker"), task(2, "master"), task(3, "worker")];
        let expected = "host node2 (t80000) was lost: no word for 3s; \
                        3 tasks ran there: master t80002, worker t80001 t80003";
        assert_eq!(describe(&lost(tasks)).as_deref(), Some(expected));
        assert!(describe(&lost(vec![])).unwrap().ends_with("; no task ran there"));
        let many = (1..=50).map(|local| task(local, "w")).collect();
        assert!(describe(&lost(many)).unwrap().ends_with(" t80014 and 30 more"));
    }

    #[test]
    fn only_an_end_by_an_unsent_signal_is_a_loss() {
        let ended = |status, intended| {
            let (tid, name) = task(3, "./worker");
            describe(&Incident::TaskEnded { tid, name, status, intended })
        };
        let expected = "[t80003] ./worker was killed by signal 11 (Segmentation fault)";
        assert_eq!(ended(0x8b, false).as_deref(), Some(expected));
        assert_eq!(ended(15, true), None);
        assert_eq!(ended(0x300, false), None);
        assert_eq!(signal_text(10), "signal 10 (SIGUSR1)");
        assert_eq!(signal_text(99), "signal 99");
    }
}
