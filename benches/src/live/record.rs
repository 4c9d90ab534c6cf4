//! A file with the messages that a task manager has received and sent.

use anyhow::{Context, Result, ensure};
use pvm_sim::pulling::{Exchange, Handout};
use pvm_wire::batch::{Application, BatchMsg};
use pvm_wire::{HostIndex, Tid};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, thread};

/// The variable with the name of the recording manager's file.
pub const VARIABLE: &str = "PVM_BENCH_RECORD";

/// Time limit for the message that the batch is done.
const LIMIT: Duration = Duration::from_secs(10);

/// A message, and the answers to it.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    received: BatchMsg,
    sent: Vec<BatchMsg>,
}

/// Writes the record.
#[derive(Debug)]
pub struct Recorder(File);

impl Recorder {
    /// Opens the file that the environment names, for appending.
    pub fn open() -> io::Result<Self> {
        let path = env::var_os(VARIABLE).ok_or_else(|| io::Error::other(format!("{VARIABLE} is not set")))?;
        Ok(Self(OpenOptions::new().append(true).create(true).open(path)?))
    }

    /// Writes a message and the answers to it.
    pub fn write(&mut self, received: &BatchMsg, sent: &[(Tid, BatchMsg)]) -> io::Result<()> {
        let sent = sent.iter().map(|(_, message)| message.clone()).collect();
        let mut line = serde_json::to_vec(&Line { received: received.clone(), sent })?;
        line.push(b'\n');
        self.0.write_all(&line)
    }
}

/// The record of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    /// Each application, and the grants that followed.
    pub exchanges: Vec<Exchange>,
    /// Messages between the manager and the nodes, and to the home.
    pub messages: u64,
}

impl Recorded {
    /// Reads the record of the one batch in the file, once it has the message that the batch is done.
    pub fn read(path: &Path) -> Result<Self> {
        let end = Instant::now() + LIMIT;
        loop {
            let lines = lines(&fs::read_to_string(path).unwrap_or_default())?;
            if lines.iter().any(|line| matches!(line.received, BatchMsg::Done { .. })) {
                return Ok(Self::of(&lines));
            }
            ensure!(Instant::now() < end, "the manager got no message that its batch is done");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn of(lines: &[Line]) -> Self {
        let mut recorded = Self::default();
        for line in lines {
            let asked = match &line.received {
                BatchMsg::Place { batch, own: Some(own), .. } => Some((batch.home, *own)),
                &BatchMsg::Apply { host, p, p_c, n_a, .. } => {
                    recorded.messages += 1;
                    Some((host, Application { p, p_c, n_a }))
                }
                _ => None,
            };
            recorded.messages += line.sent.len() as u64;
            let handouts = line.sent.iter().filter_map(handout).collect();
            recorded.exchanges.extend(asked.map(|(host, terms)| Exchange {
                host: place(host),
                terms,
                handouts,
            }));
        }
        recorded
    }
}

fn handout(message: &BatchMsg) -> Option<Handout> {
    let &BatchMsg::Grant { host, n, .. } = message else { return None };
    Some(Handout { host: place(host), n })
}

/// Hosts count from 0 in a simulation.
fn place(host: HostIndex) -> usize {
    host.get() as usize - 1
}

/// All whole lines.
fn lines(text: &str) -> Result<Vec<Line>> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvm_wire::batch::BatchId;

    #[test]
    fn asks_are_read_with_what_was_handed_out() {
        let batch = BatchId { home: HostIndex::MASTER, number: 7 };
        let own = Application { p: 2, p_c: 0, n_a: 2 };
        let (nodes, policy) = (Vec::new(), String::new());
        let place =
            BatchMsg::Place { batch, count: 3, nodes, soft: false, policy, last: batch.home, own: Some(own) };
        let apply = BatchMsg::Apply { batch, host: HostIndex::MASTER, p: 2, p_c: 2, n_a: 0, capability: 1.0 };
        let grant = BatchMsg::Grant { batch, host: HostIndex::MASTER, n: 2, terms: None };
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("record");
        let file = OpenOptions::new().append(true).create(true).open(&path).expect("made");
        let mut recorder = Recorder(file);
        let home = HostIndex::MASTER.daemon();
        recorder.write(&place, &[(home, grant)]).expect("written");
        recorder.write(&apply, &[]).expect("written");
        recorder.write(&BatchMsg::Done { batch }, &[(home, BatchMsg::TasksNo { batch })]).expect("written");
        let recorded = Recorded::read(&path).expect("read");
        assert_eq!(recorded.messages, 3);
        let full = Application { p_c: 2, n_a: 0, ..own };
        let exchange = |terms, handouts| Exchange { host: 0, terms, handouts };
        let given = vec![Handout { host: 0, n: 2 }];
        assert_eq!(recorded.exchanges, [exchange(own, given), exchange(full, vec![])]);
        assert!(lines("{}\n").is_err() && lines("{}").expect("not whole").is_empty());
    }
}
