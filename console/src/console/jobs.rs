//! Tasks whose output comes to the console.

use crate::lines::Lines;
use pvm3::{OutputEvent, Tid};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;

/// Where a job's output goes.
#[derive(Debug)]
pub enum Destination {
    /// To the console.
    Console,
    /// Into a file.
    File(File),
}

/// Which of the two events that complete a task's output have arrived; their order is not fixed.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    spawned: bool,
    ended: bool,
}

#[derive(Debug)]
struct Job {
    destination: Destination,
    is_traced: bool,
    tasks: BTreeMap<Tid, Seen>,
}

/// The jobs that are not finished.
#[derive(Debug, Default)]
pub struct Jobs {
    last: u32,
    running: BTreeMap<u32, Job>,
    lines: Lines,
}

impl Jobs {
    /// The number of the next job.
    pub fn next_number(&self) -> u32 {
        self.last + 1
    }

    /// Begins a job of these tasks.
    pub fn begin(&mut self, destination: Destination, is_traced: bool, tasks: &[Tid]) {
        self.last += 1;
        let tasks: BTreeMap<_, _> = tasks.iter().map(|&tid| (tid, Seen::default())).collect();
        if !tasks.is_empty() {
            self.running.insert(self.last, Job { destination, is_traced, tasks });
        }
    }

    /// A task's output went on. Returns what is to be printed.
    pub fn on_event(&mut self, tid: Tid, event: &OutputEvent) -> String {
        let parent = match event {
            OutputEvent::Spawned { parent } | OutputEvent::Started { parent } => Tid::from_raw(*parent),
            OutputEvent::Bytes(_) | OutputEvent::End => tid,
        };
        let related = |job: &Job| job.tasks.contains_key(&tid) || job.tasks.contains_key(&parent);
        let Some((&number, job)) = self.running.iter_mut().find(|(_, job)| related(job)) else {
            return String::new();
        };
        let seen = job.tasks.entry(tid).or_default();
        let mut text = String::new();
        match event {
            OutputEvent::Spawned { .. } => seen.spawned = true,
            OutputEvent::Started { .. } => {}
            OutputEvent::Bytes(bytes) => {
                self.lines.push(tid, bytes).iter().for_each(|line| line_of(&mut text, number, tid, line));
            }
            OutputEvent::End => {
                seen.ended = true;
                self.lines.end(tid).iter().for_each(|line| line_of(&mut text, number, tid, line));
                line_of(&mut text, number, tid, "EOF");
            }
        }
        if seen.spawned && seen.ended {
            job.tasks.remove(&tid);
        }
        let mut text = job.destination.deliver(text);
        if job.tasks.is_empty() {
            self.running.remove(&number);
            let _ = writeln!(text, "[{number}] finished");
        }
        text
    }

    /// Each job: its number, behind a `T` if it is traced, and its tasks.
    pub fn list(&self) -> impl Iterator<Item = (String, Vec<Tid>)> {
        self.running.iter().map(|(&number, job)| {
            let mark = if job.is_traced { 'T' } else { ' ' };
            (format!("{mark}{number}"), job.tasks.keys().copied().collect())
        })
    }
}

impl Destination {
    /// Writes the text to the file, or returns it.
    pub fn deliver(&mut self, text: String) -> String {
        match self {
            Self::Console => text,
            Self::File(file) => match file.write_all(text.as_bytes()) {
                Ok(()) => String::new(),
                Err(error) => {
                    *self = Self::Console;
                    format!("cannot write to the job's file: {error}\n{text}")
                }
            },
        }
    }
}

fn line_of(text: &mut String, number: u32, tid: Tid, line: &str) {
    let _ = writeln!(text, "[{number}:{tid}] {line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Tid = Tid::from_raw(0x40002);
    const B: Tid = Tid::from_raw(0x80001);
    const NOBODY: OutputEvent = OutputEvent::Spawned { parent: -35 };

    fn bytes(text: &'static str) -> OutputEvent {
        OutputEvent::Bytes(text.into())
    }

    #[test]
    fn a_job_is_finished_after_its_last_task() {
        let mut jobs = Jobs::default();
        assert_eq!(jobs.next_number(), 1);
        jobs.begin(Destination::Console, false, &[A, B]);
        assert_eq!(jobs.on_event(A, &NOBODY), "");
        assert_eq!(jobs.on_event(A, &bytes("one\ntw")), "[1:t40002] one\n");
        assert_eq!(jobs.on_event(B, &OutputEvent::End), "[1:t80001] EOF\n");
        assert_eq!(jobs.list().collect::<Vec<_>>(), [(" 1".to_owned(), vec![A, B])]);
        assert_eq!(jobs.on_event(A, &OutputEvent::End), "[1:t40002] tw\n[1:t40002] EOF\n");
        assert_eq!(jobs.on_event(B, &NOBODY), "[1] finished\n");
        assert_eq!(jobs.list().count(), 0);
        assert_eq!(jobs.next_number(), 2);
    }

    #[test]
    fn grandchildren_belong_to_the_job() {
        let mut jobs = Jobs::default();
        jobs.begin(Destination::Console, false, &[A]);
        assert_eq!(jobs.on_event(B, &bytes("stranger\n")), "");
        jobs.on_event(B, &OutputEvent::Started { parent: A.raw() });
        assert_eq!(jobs.on_event(B, &bytes("x\n")), "[1:t80001] x\n");
        jobs.on_event(A, &NOBODY);
        assert_eq!(jobs.on_event(A, &OutputEvent::End), "[1:t40002] EOF\n");
        jobs.on_event(B, &OutputEvent::End);
        assert_eq!(jobs.on_event(B, &OutputEvent::Spawned { parent: A.raw() }), "[1] finished\n");
    }

    #[test]
    fn a_file_takes_the_lines_and_the_console_the_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut jobs = Jobs::default();
        jobs.begin(Destination::File(file.reopen().unwrap()), false, &[A]);
        jobs.on_event(A, &NOBODY);
        assert_eq!(jobs.on_event(A, &bytes("zzz\n")), "");
        assert_eq!(jobs.on_event(A, &OutputEvent::End), "[1] finished\n");
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "[1:t40002] zzz\n[1:t40002] EOF\n");
    }

    #[test]
    fn a_job_of_nothing_is_none() {
        let mut jobs = Jobs::default();
        jobs.begin(Destination::Console, false, &[]);
        assert_eq!(jobs.list().count(), 0);
        assert_eq!(jobs.next_number(), 2);
    }
}
