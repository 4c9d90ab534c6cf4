//! What Slurm's list and the machine's hosts mean together: how far each node is, and what has gone wrong.

use super::machine::Note;
use super::slurm::{SlurmJob, State, is_name};
use pvm_sched::autoscale::{Node, Phase};
use std::collections::{BTreeMap, BTreeSet};

/// How far a job was when it was seen last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It waited for a node.
    Pending,
    /// It had a node that was not in the machine.
    Given,
    /// Its node was in the machine.
    Member,
}

/// What is remembered from round to round.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Jobs, and how far they were.
    pub known: BTreeMap<u64, Known>,
    /// Jobs that are being ended.
    pub cancelled: BTreeSet<u64>,
}

/// The state of all nodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// As the decision needs them.
    pub nodes: Vec<Node>,
    /// Jobs whose node cannot be used, and why.
    pub bad: Vec<(u64, String)>,
    /// Jobs that have ended without being asked to, and how far they were.
    pub ended: Vec<(u64, Known)>,
    /// Jobs of an earlier start that were found.
    pub found: Vec<u64>,
}

/// The number of slots of a job's node.
pub fn slots_of(job: &SlurmJob, given: Option<u32>) -> u32 {
    given.unwrap_or(job.cores).clamp(1, 1_000_000)
}

/// Looks through Slurm's list. `hosts` says whether a host is in the machine, `used` what is known of one: its tasks and its free slots.
pub fn survey(
    jobs: &[SlurmJob],
    note: &Note,
    memory: &Memory,
    given: Option<u32>,
    is_host: impl Fn(&str) -> bool,
    mut used: impl FnMut(&str, u32) -> (Option<u32>, u32),
) -> Survey {
    let mut survey = Survey::default();
    for job in jobs {
        let slots = slots_of(job, given);
        let is_running = job.state == State::Running;
        let known = memory.known.get(&job.id);
        let phase = match job.state {
            _ if memory.cancelled.contains(&job.id) => Phase::Ending,
            State::Ending => Phase::Ending,
            State::Pending => Phase::Pending,
            State::Running => match place(job, note, known, is_host(&job.node)) {
                Ok(Known::Member) => {
                    let (tasks, free) = used(&job.node, slots);
                    Phase::Member { tasks, free }
                }
                Ok(_) => Phase::Given,
                Err(why) => {
                    survey.bad.push((job.id, why));
                    Phase::Ending
                }
            },
        };
        if known.is_none() && phase != Phase::Ending {
            survey.found.push(job.id);
        }
        survey.nodes.push(Node { job: job.id, phase, slots: is_running.then_some(slots) });
    }
    let goes_on = |id: u64| jobs.iter().any(|job| job.id == id && job.state != State::Ending);
    let gone = memory.known.iter().filter(|(id, _)| !goes_on(**id) && !memory.cancelled.contains(id));
    survey.ended = gone.map(|(&id, &known)| (id, known)).collect();
    survey
}

/// Where the node of a running job is, or why it is of no use.
fn place(job: &SlurmJob, note: &Note, known: Option<&Known>, is_host: bool) -> Result<Known, String> {
    let node = &job.node;
    if !is_name(node) {
        return Err(format!("has more than one node ({})", node.chars().take(40).collect::<String>()));
    }
    match (note.hosts.get(node), is_host) {
        (Some(of), true) if *of == job.id => Ok(Known::Member),
        (_, true) => Err(format!("has {node}, which is in the virtual machine already")),
        (_, false) if known == Some(&Known::Member) => {
            Err(format!("has {node}, which has left the virtual machine"))
        }
        (_, false) => Ok(Known::Given),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: u64, state: State, node: &str) -> SlurmJob {
        SlurmJob { id, state, cores: 4, node: node.to_owned(), reason: String::new() }
    }

    fn look(jobs: &[SlurmJob], memory: &Memory) -> Survey {
        let hosts = BTreeMap::from([("n1".to_owned(), 1), ("n4".to_owned(), 4)]);
        let note = Note { token: "1".to_owned(), hosts };
        survey(
            jobs,
            &note,
            memory,
            None,
            |name| ["login", "n1", "n2"].contains(&name),
            |_, slots| (Some(0), slots),
        )
    }

    fn phases(survey: &Survey) -> Vec<Phase> {
        survey.nodes.iter().map(|node| node.phase).collect()
    }

    #[test]
    fn nodes_are_where_slurm_and_the_machine_say() {
        let jobs = [
            job(1, State::Running, "n1"),
            job(2, State::Pending, ""),
            job(3, State::Running, "n3"),
            job(4, State::Running, "n4"),
            job(5, State::Ending, "n5"),
            job(6, State::Running, "n6"),
        ];
        let memory = Memory { known: BTreeMap::from([(3, Known::Given)]), cancelled: BTreeSet::from([6]) };
        let survey = look(&jobs, &memory);
        let member = Phase::Member { tasks: Some(0), free: 4 };
        let expected = [member, Phase::Pending, Phase::Given, Phase::Given, Phase::Ending, Phase::Ending];
        assert_eq!(phases(&survey), expected);
        assert_eq!((survey.found, survey.bad, survey.ended), (vec![1, 2, 4], vec![], vec![]));
    }

    #[test]
    fn what_is_of_no_use_is_named() {
        let jobs =
            [job(1, State::Running, "n[1-2]"), job(2, State::Running, "n2"), job(4, State::Running, "n4")];
        let known = BTreeMap::from([(4, Known::Member), (7, Known::Pending), (8, Known::Member)]);
        let survey = look(&jobs, &Memory { known, cancelled: BTreeSet::from([8]) });
        assert_eq!(phases(&survey), [Phase::Ending; 3]);
        let whys: Vec<&str> = survey.bad.iter().map(|(_, why)| why.as_str()).collect();
        assert!(whys[0].contains("more than one node") && whys[1].contains("n2, which is in"), "{whys:?}");
        assert!(whys[2].contains("n4, which has left"), "{whys:?}");
        assert_eq!(survey.ended, [(7, Known::Pending)]);
    }
}
