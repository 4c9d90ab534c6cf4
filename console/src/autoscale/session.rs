//! Round after round: what is decided is carried out and told.

use super::events::Events;
use super::machine::{Machine, Note, Shown};
use super::slurm::{Slurm, SlurmJob, State, cancel};
use super::survey::{Known, Memory, Survey, slots_of, survey};
use anyhow::Result;
use pvm_sched::autoscale::{Autoscaler, Decision, Look, Node, Phase, Terms, Work};
use pvm3::PvmError;
use std::fmt::Write as _;
use std::time::Instant;

/// How a round has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is a next one.
    GoesOn,
    /// There is no virtual machine any more.
    MachineEnded,
}

/// All that is known from one round to the next.
pub struct Session {
    terms: Terms,
    scaler: Autoscaler,
    machine: Machine,
    note: Note,
    slurm: Slurm,
    events: Events,
    memory: Memory,
    begun: Instant,
    /// What was told to be wrong, and is not over.
    trouble: Option<String>,
}

impl Session {
    /// Nothing has been looked at yet.
    pub fn new(terms: Terms, machine: Machine, note: Note, slurm: Slurm, events: Events) -> Self {
        let scaler = Autoscaler::new(terms);
        let (memory, begun) = (Memory::default(), Instant::now());
        Self { terms, scaler, machine, note, slurm, events, memory, begun, trouble: None }
    }

    /// Writes the note, without which no job is requested.
    pub fn begin(&mut self) -> Result<()> {
        self.machine.keep(&self.note)?;
        let (least, most, name) = (self.terms.min_nodes, self.terms.max_nodes, &self.slurm.name);
        let text = format!("{least} to {most} nodes; their Slurm jobs are named {name}");
        self.events.tell("begun", None, None, &text);
        Ok(())
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Nodes that are not in the machine and may be.
    fn absent(&self) -> u32 {
        let members = self.memory.known.values().filter(|known| **known == Known::Member).count() as u32;
        self.terms.max_nodes.saturating_sub(members)
    }

    /// One round.
    pub fn round(&mut self) -> Outcome {
        let jobs = self.slurm.jobs();
        let expected = self.absent();
        let shown = self.machine.look(Some((expected, self.scaler.slots())));
        let (jobs, mut shown) = match (jobs, shown) {
            (Ok(jobs), Ok(shown)) => (jobs, shown),
            (_, Err(_)) if self.machine.has_ended() => return Outcome::MachineEnded,
            (Err(error), _) | (_, Err(error)) => {
                self.say_once(format!("{error:#}; it is asked again"));
                return Outcome::GoesOn;
            }
        };
        if self.trouble.take().is_some() {
            self.events.tell("recovered", None, None, "it answers again");
        }
        let survey = self.survey(&jobs, &shown);
        self.note_survey(&survey, &jobs);
        let look = self.look(&mut shown, survey.nodes);
        let mut added = Vec::new();
        for decision in self.scaler.decide(&look, self.now()) {
            match decision {
                Decision::Request(count) => self.request(count, &look.work),
                Decision::Add(job) => added.extend(jobs.iter().find(|other| other.id == job)),
                Decision::Withdraw(job) => self.withdraw(job),
                Decision::GiveBack(job) => self.give_back(job),
            }
        }
        self.add(&added);
        Outcome::GoesOn
    }

    fn survey(&mut self, jobs: &[SlurmJob], shown: &Shown) -> Survey {
        let (machine, note, memory) = (&mut self.machine, &self.note, &self.memory);
        let is_host = |name: &str| shown.hosts.contains_key(name);
        survey(jobs, note, memory, self.terms.slots, is_host, |name, slots| {
            machine.use_of(shown, name, slots)
        })
    }

    /// What the decision needs of both.
    fn look(&self, shown: &mut Shown, nodes: Vec<Node>) -> Look {
        let others = shown.free_of(|name| !self.note.hosts.contains_key(name));
        Look { work: std::mem::take(&mut shown.work), nodes, others }
    }

    fn say_once(&mut self, text: String) {
        if self.trouble.as_ref() != Some(&text) {
            self.events.warn(None, &text);
            self.trouble = Some(text);
        }
    }

    /// Tells what has changed without this program, and remembers how far the jobs are.
    fn note_survey(&mut self, survey: &Survey, jobs: &[SlurmJob]) {
        for &id in &survey.found {
            self.events.tell("found", Some(id), None, &format!("job {id} of an earlier start found"));
        }
        for &(id, known) in &survey.ended {
            let host = self.forget(id);
            let of = host.as_ref().map(|host| format!(" ({host})")).unwrap_or_default();
            let text = format!("job {id}{of} has ended: its time is over, or it was cancelled");
            self.events.tell("ended", Some(id), host.as_deref(), &text);
            if known != Known::Member {
                self.pause();
            }
        }
        for (id, why) in &survey.bad {
            self.discard(*id, why);
        }
        self.memory.known.retain(|id, _| !survey.ended.iter().any(|(ended, _)| ended == id));
        self.memory.cancelled.retain(|id| jobs.iter().any(|job| job.id == *id));
        for node in &survey.nodes {
            let known = match node.phase {
                Phase::Pending => Known::Pending,
                Phase::Given => Known::Given,
                Phase::Member { .. } => Known::Member,
                Phase::Ending => {
                    self.memory.known.remove(&node.job);
                    continue;
                }
            };
            self.memory.known.insert(node.job, known);
        }
    }

    fn request(&mut self, count: u32, work: &[Work]) {
        for _ in 0..count {
            match self.slurm.submit() {
                Ok(id) => {
                    self.memory.known.insert(id, Known::Pending);
                    let text = format!("job {id} requested: {}", waiting(work));
                    self.events.tell("requested", Some(id), None, &text);
                }
                Err(error) => {
                    self.events.warn(None, &format!("no node: {error:#}"));
                    return self.pause();
                }
            }
        }
    }

    /// Has the master start daemons on nodes that Slurm has given.
    fn add(&mut self, jobs: &[&SlurmJob]) {
        let mut lines = Vec::new();
        let mut added: Vec<&SlurmJob> = Vec::new();
        for job in jobs {
            if added.iter().any(|other| other.node == job.node) {
                self.discard(job.id, &format!("has {}, as another job has", job.node));
                continue;
            }
            let slots = slots_of(job, self.terms.slots);
            lines.push(format!("{} via=srun job={} slots={slots}", job.node, job.id));
            // Before it is there: a later start has to know whose it is.
            self.note.hosts.insert(job.node.clone(), job.id);
            added.push(job);
        }
        if added.is_empty() {
            return;
        }
        if let Err(error) = self.machine.keep(&self.note) {
            return self.say_once(format!("{error:#}"));
        }
        let results = match self.machine.add(&lines) {
            Ok(results) => results,
            // Another task is adding hosts: the next round tries again.
            Err(PvmError::Already) => return,
            Err(error) => return self.say_once(format!("hosts cannot be added: {error}")),
        };
        for (job, result) in added.into_iter().zip(results) {
            match result {
                Ok(()) => {
                    self.scaler.succeeded();
                    self.memory.known.insert(job.id, Known::Member);
                    let slots = slots_of(job, self.terms.slots);
                    let text = format!("{} added, with {slots} slots (job {})", job.node, job.id);
                    self.events.tell("added", Some(job.id), Some(&job.node), &text);
                }
                Err(why) => {
                    let why = why.strip_prefix(&format!("{}: ", job.node)).unwrap_or(&why).to_owned();
                    self.discard(job.id, &format!("has {}, which cannot be added: {why}", job.node));
                }
            }
        }
    }

    fn withdraw(&mut self, id: u64) {
        self.cancel(&[id]);
        self.events.tell(
            "withdrawn",
            Some(id),
            None,
            &format!("job {id} withdrawn: it is not needed any more"),
        );
    }

    fn give_back(&mut self, id: u64) {
        let Some(host) = self.forget(id) else { return };
        // Before it has gone: no job that it would hold is refused meanwhile.
        self.memory.known.remove(&id);
        self.machine.expect(self.absent(), self.scaler.slots());
        if let Err(error) = self.machine.delete(std::slice::from_ref(&host)) {
            self.events.warn(Some(id), &format!("{host} cannot be removed: {error:#}"));
        }
        self.cancel(&[id]);
        let text = format!("{host} given back: no task for a while (job {id})");
        self.events.tell("given back", Some(id), Some(&host), &text);
    }

    /// A node is of no use.
    fn discard(&mut self, id: u64, why: &str) {
        let host = self.forget(id);
        self.events.tell("failed", Some(id), host.as_deref(), &format!("job {id} {why}; it is cancelled"));
        self.cancel(&[id]);
        self.pause();
    }

    /// After a failure.
    fn pause(&mut self) {
        let now = self.now();
        let seconds = self.scaler.failed(now).saturating_sub(now) / 1000;
        self.events.tell("pause", None, None, &format!("nothing is requested for {seconds} s"));
    }

    /// The host of a job does not belong to it any more: its name.
    fn forget(&mut self, id: u64) -> Option<String> {
        let host = self.note.hosts.iter().find(|(_, of)| **of == id).map(|(name, _)| name.clone())?;
        self.note.hosts.remove(&host);
        // If the mailbox cannot be reached, the next note has it.
        let _ = self.machine.keep(&self.note);
        Some(host)
    }

    fn cancel(&mut self, ids: &[u64]) {
        match cancel(ids) {
            Ok(()) => {
                self.memory.cancelled.extend(ids);
                self.memory.known.retain(|id, _| !ids.contains(id));
            }
            // They stay in the list, and the next round decides again; without a daemon they end by themselves.
            Err(error) => self.events.warn(ids.first().copied(), &format!("{error:#}")),
        }
    }

    /// Gives everything back, or leaves it.
    pub fn end(mut self, outcome: Outcome, keep: bool) {
        let listed = self.slurm.jobs().map(|jobs| {
            jobs.iter().filter(|job| job.state != State::Ending).map(|job| job.id).collect::<Vec<u64>>()
        });
        let ids = listed.unwrap_or_else(|_| self.memory.known.keys().copied().collect());
        let count = ids.len();
        // The signal may be that of a machine that ends.
        let mut is_there = outcome == Outcome::GoesOn && !self.machine.has_ended();
        if is_there && keep {
            self.events.tell("end", None, None, &format!("ends, and leaves {count} Slurm jobs"));
            return self.machine.leave();
        }
        let hosts: Vec<String> = self.note.hosts.keys().cloned().collect();
        self.note.hosts.clear();
        if is_there
            && let Err(error) = self.machine.delete(&hosts).and_then(|()| self.machine.keep(&self.note))
        {
            is_there = !self.machine.has_ended();
            if is_there {
                self.events.warn(None, &format!("hosts cannot be removed: {error:#}"));
            }
        }
        self.cancel(&ids);
        let why = if is_there { "ends" } else { "the virtual machine has ended" };
        self.events.tell("end", None, None, &format!("{why}; {count} Slurm jobs cancelled"));
        self.machine.leave();
    }

    /// What a round would do, as text. Nothing is done.
    pub fn rehearse(&mut self) -> Result<String> {
        let jobs = self.slurm.jobs()?;
        let mut shown = self.machine.look(None)?;
        let survey = self.survey(&jobs, &shown);
        let look = self.look(&mut shown, survey.nodes);
        let mut text =
            format!("{}; {} Slurm jobs of this virtual machine\n", waiting(&look.work), jobs.len());
        for (job, why) in &survey.bad {
            let _ = writeln!(text, "would cancel job {job}: it {why}");
        }
        let decisions = self.scaler.decide(&look, self.now());
        for decision in &decisions {
            let _ = match decision {
                Decision::Request(count) => {
                    writeln!(text, "would request {count} now, each by the command below")
                }
                Decision::Withdraw(job) => writeln!(text, "would withdraw job {job}"),
                Decision::Add(job) => writeln!(text, "would add the node of job {job}"),
                Decision::GiveBack(job) => writeln!(text, "would give back the node of job {job}"),
            };
        }
        if decisions.is_empty() && survey.bad.is_empty() {
            text.push_str("would do nothing now; a request is the command below\n");
        }
        let words: Vec<String> = self.slurm.request().iter().map(|word| quoted(word)).collect();
        let _ = write!(text, "\n{} <<'END'\n{}END\n", words.join(" "), self.slurm.script());
        Ok(text)
    }
}

/// How much waits, for people.
fn waiting(work: &[Work]) -> String {
    let tasks: u64 = work.iter().map(|work| u64::from(work.tasks)).sum();
    match tasks {
        0 => "nothing waits".to_owned(),
        1 => "1 task waits".to_owned(),
        tasks => format!("{tasks} tasks wait"),
    }
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_=./:,%+@".contains(char);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_people_and_shells() {
        let work = |tasks| Work { id: 1, tasks, slots: 1, is_rigid: false };
        assert_eq!(waiting(&[]), "nothing waits");
        assert_eq!(
            (waiting(&[work(1)]), waiting(&[work(1), work(2)])),
            ("1 task waits".to_owned(), "3 tasks wait".to_owned())
        );
        assert_eq!(
            (quoted("--time=1:00:00"), quoted("it's"), quoted("")),
            ("--time=1:00:00".to_owned(), "'it'\\''s'".to_owned(), "''".to_owned())
        );
    }
}
