//! The virtual machine, as far as it matters here: what waits, the hosts, and a note in its mailbox of the nodes that were added.
//!
//! The note survives this program. It names the machine's Slurm jobs, and says which hosts belong to which of them; with it a later start
//! goes on. It ends with the machine, so jobs of an earlier machine are never taken for its own.

use anyhow::{Context, Result, bail};
use pvm_sched::autoscale::Work;
use pvm3::{ExpectedHosts, MailboxFlags, Pack, PvmError, Scope, Task, TaskInfo, Tid, WantedList};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Batches have numbers of their own.
const BATCH: u64 = 1 << 63;
/// The daemon's helper is a task that stays: it does not keep a node.
const HELPER: &str = "pvm-task-manager";

/// What a later start has to know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Is in the name of all Slurm jobs of this machine.
    pub token: String,
    /// The Slurm job of each host that was added, or was about to be.
    pub hosts: BTreeMap<String, u64>,
}

/// The machine that runs here.
pub struct Machine {
    task: Task,
    name: String,
    queue: Option<String>,
}

/// What the machine shows at a moment.
#[derive(Debug, Default)]
pub struct Shown {
    /// What waits.
    pub work: Vec<Work>,
    /// All hosts.
    pub hosts: BTreeMap<String, Tid>,
    free: HashMap<String, u32>,
}

impl Shown {
    /// The free slots of each host that is wanted.
    pub fn free_of(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<u32> {
        self.free.iter().filter(|(name, _)| is_wanted(name)).map(|(_, &free)| free).collect()
    }
}

impl Machine {
    /// Joins it. `name` is that of this program's jobs.
    pub fn join(name: &str, queue: Option<&str>) -> Result<Self> {
        let task = Task::enrol_as(Some("pvm autoscale"), true).context("cannot join a virtual machine")?;
        if !task.daemon_is_ours() {
            bail!("the daemon here is that of PVM 3.4, which has no queues");
        }
        Ok(Self { task, name: name.to_owned(), queue: queue.map(str::to_owned) })
    }

    fn entry(&self) -> String {
        format!("pvm:autoscale:{}", self.name)
    }

    /// Nobody else may do this under the same name while this program lives.
    pub fn lock(&mut self) -> Result<()> {
        let entry = format!("{}:runs", self.entry());
        match self.task.put_info(entry, &Pack::new(), MailboxFlags::default()) {
            Ok(_) => Ok(()),
            Err(error) if error.code() == PvmError::Denied => {
                bail!("it runs already for this virtual machine (--name has several of them)")
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The note of an earlier start; else a new one, which is not written yet.
    pub fn note(&mut self) -> Result<Note> {
        let found = self.task.recv_info(self.entry(), 0, MailboxFlags::default());
        let text = match found {
            Ok((_, mut entry)) => entry.get_str().unwrap_or_default(),
            Err(error) if error.code() == PvmError::NotFound => String::new(),
            Err(error) => return Err(error.into()),
        };
        let note: Note = serde_json::from_str(&text).unwrap_or_default();
        let is_good = !note.token.is_empty() && note.token.chars().all(|char| char.is_ascii_hexdigit());
        Ok(if is_good { note } else { Note { token: token(), hosts: BTreeMap::new() } })
    }

    /// Writes the note.
    pub fn keep(&mut self, note: &Note) -> Result<()> {
        let flags = MailboxFlags::PERSISTENT | MailboxFlags::OVERWRITABLE;
        let mut pack = Pack::new();
        pack.put_str(&serde_json::to_string(note)?)?;
        self.task.put_info(self.entry(), &pack, flags).context("the mailbox takes no note")?;
        Ok(())
    }

    /// Whether it is gone.
    pub fn has_ended(&mut self) -> bool {
        self.task.hosts().is_err()
    }

    /// What waits, and the hosts. `expected`: the number of hosts that can be had, and the slots of each.
    pub fn look(&mut self, expected: Option<(u32, Option<u32>)>) -> Result<Shown> {
        let by = self.entry();
        let expected = expected.map(|(hosts, slots)| ExpectedHosts { by, hosts, slots });
        let WantedList { jobs, free } = self.task.wanted_by_jobs(self.queue.as_deref(), expected)?;
        let mut work: Vec<Work> = jobs
            .iter()
            .map(|job| Work { id: job.job.0, tasks: job.tasks, slots: job.slots, is_rigid: job.is_rigid })
            .collect();
        if self.queue.is_none() {
            let batches = self.task.batches()?;
            // Those without an id are plain spawns, which do not wait.
            let queued = batches.iter().filter(|batch| batch.id != 0 && batch.waiting > 0);
            work.extend(queued.map(|batch| Work {
                id: BATCH | u64::from(batch.id.unsigned_abs()),
                tasks: batch.waiting,
                slots: 1,
                is_rigid: false,
            }));
        }
        let hosts = self.task.hosts()?.into_iter().map(|host| (host.name, host.tid)).collect();
        Ok(Shown { work, hosts, free: free.into_iter().collect() })
    }

    /// The tasks on a host, and its slots that none of them fills; how many tasks is not known if it does not answer.
    pub fn use_of(&mut self, shown: &Shown, name: &str, slots: u32) -> (Option<u32>, u32) {
        let tasks = shown.hosts.get(name).and_then(|&tid| self.task.tasks(Scope::Host(tid)).ok());
        let tasks = tasks.map(|tasks| tasks.iter().filter(|task| !is_helper(task)).count() as u32);
        // Tasks of programs fill slots, too, of which the queues do not know.
        let free = shown.free.get(name).copied().unwrap_or(0).min(slots.saturating_sub(tasks.unwrap_or(0)));
        (tasks, free)
    }

    /// Adds hosts; for each why it cannot be.
    pub fn add(&mut self, lines: &[String]) -> Result<Vec<Result<(), String>>, PvmError> {
        let results = self.task.add_hosts(lines).map_err(|error| error.code())?;
        Ok(results.into_iter().map(|result| result.map(drop).map_err(|failure| failure.reason)).collect())
    }

    /// Removes hosts, one after the other; one that is not there any more is no error.
    pub fn delete(&mut self, names: &[String]) -> Result<()> {
        for name in names {
            self.task.delete_hosts(&[name])?;
        }
        Ok(())
    }

    /// Says how many hosts can be had from now on, and the slots of each. The next look says it again, so a failure does not matter.
    pub fn expect(&mut self, hosts: u32, slots: Option<u32>) {
        let by = self.entry();
        let _ = self.task.wanted_by_jobs(None, Some(ExpectedHosts { by, hosts, slots }));
    }

    /// Nothing more is to be expected of this program.
    pub fn leave(mut self) {
        self.expect(0, None);
        let _ = self.task.exit();
    }
}

fn is_helper(task: &TaskInfo) -> bool {
    Path::new(&task.name).file_name().is_some_and(|name| name == HELPER)
}

/// Two machines of one user have different ones: it is enough that they were not drawn at the same moment by the same process.
fn token() -> String {
    format!("{:x}{:x}", crate::since_1970().as_micros(), std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let note = Note { token: token(), hosts: BTreeMap::from([("n1".to_owned(), 17)]) };
        let text = serde_json::to_string(&note).unwrap();
        assert_eq!(serde_json::from_str::<Note>(&text).unwrap(), note);
        assert!(note.token.chars().all(|char| char.is_ascii_hexdigit()));
    }
}
