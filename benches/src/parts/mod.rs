//! The parts of the benchmark.

pub mod answers;
pub mod hosts;
pub mod jobs;
pub mod machine;
pub mod makespan;
pub mod many;
pub mod pairs;
pub mod spawning;

use crate::coscheduling;
use crate::dasic;
use crate::lab::{Lab, Needs};
use crate::live;
use crate::owner;
use crate::part::Part;
use crate::policies;
use crate::scale;
use crate::waiting;

/// The words by which parts are chosen, with what they are.
pub const CHOICES: [(&str, &str); 27] = [
    ("latency", "half a round trip between two tasks of one host, small messages"),
    ("bandwidth", "the same for large messages"),
    ("in-place", "the same for data that are sent without being packed"),
    ("rate", "64 messages one way, then an answer"),
    ("polls", "the same taken by pvm_nrecv, and polls that find nothing"),
    ("multicast", "one task to 15, until all have answered"),
    ("fanin", "15 tasks to one"),
    ("barrier", "a group of 2 to 64 tasks meets"),
    ("broadcast", "1 KiB to all members of a group"),
    ("reduce", "sum of 128 doubles over a group"),
    ("gather", "128 doubles of each member of a group to one"),
    ("scatter", "128 doubles of one to each member of a group"),
    ("crowd", "ping-pong of 8 pairs at once"),
    (
        hosts::NAME,
        "latency and bandwidth between two hosts, groups and multicasts on three, in network namespaces",
    ),
    (hosts::MOVES, "a task that moves between two hosts, and messages as long as its state"),
    ("spawn", "tasks started, heard from and ended, in batches of 1 to 4096, on one host and on three"),
    ("machine", "a virtual machine of one host, started and halted"),
    (makespan::NAME, "400 tasks of several lengths on three hosts of unequal speed"),
    ("answers", "latencies while batches are spawned: 99th percentiles"),
    (jobs::NAME, "tasks of arrays per second, and one job alone, with HyperQueue for comparison"),
    (waiting::NAME, "what many waiting jobs cost; only if named"),
    (coscheduling::NAME, "programs that share two hosts: -two, -four, -cpu, -alone, -flood; only if named"),
    (owner::NAME, "what a program of the owner loses on a host that was lent; only if named"),
    (dasic::NAME, "teams on four workstations that owners lend and take back; only if named"),
    (
        scale::NAME,
        "start, idle daemons, spawns and a loss with 8 to 256 hosts: -8, -32, -64, -128, -256; only if named",
    ),
    (policies::NAME, "all placement policies on 3, 8 and 64 local hosts: -3, -8, -64; only if named"),
    (
        live::NAME,
        "daemons beside the simulator: -pulling, -policies, -epochs, -jobs, -coallocation; only if named",
    ),
];

/// All parts that one of these words chooses; without a word, all.
pub fn chosen<'l>(lab: &'l Lab, words: &[String], quick: bool) -> Vec<Part<'l>> {
    let mut parts = pairs::parts(lab);
    parts.extend(many::parts(lab));
    parts.extend(hosts::parts(lab));
    parts.extend(spawning::parts(lab));
    parts.extend(machine::parts(lab));
    parts.extend(answers::parts(lab));
    parts.extend(makespan::parts(lab));
    parts.extend(jobs::parts(lab));
    parts.retain(|part| words.is_empty() || words.iter().any(|word| is_chosen(part.name, word)));
    if quick {
        parts.iter_mut().for_each(Part::shorten);
    }
    parts
}

/// The requirements of the chosen parts besides one host of each.
pub fn needs(words: &[String]) -> Needs {
    let begins = |name| words.iter().any(|word| word.split('-').next() == Some(name));
    let spawns = words.iter().any(|word| is_chosen(spawning::HOSTS, word));
    let all = words.is_empty();
    Needs {
        hosts: all || begins(hosts::NAME) || begins(hosts::MOVES) || spawns,
        uneven: all || begins(makespan::NAME),
        jobs: all || begins(jobs::NAME),
    }
}

fn is_chosen(name: &str, word: &str) -> bool {
    name == word || name.strip_prefix(word).is_some_and(|rest| rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_chooses_whole_names_and_their_beginnings() {
        assert!(is_chosen("latency-bytes", "latency"));
        assert!(is_chosen("latency-bytes", "latency-bytes"));
        assert!(!is_chosen("latency-bytes", "lat"));
        assert!(!is_chosen("latency-bytes", "bytes"));
    }

    #[test]
    fn hosts_are_made_only_for_parts_between_hosts() {
        let asked = |words: &[&str]| {
            let Needs { hosts, uneven, jobs } =
                needs(&words.iter().map(|&word| word.into()).collect::<Vec<_>>());
            (hosts, uneven, jobs)
        };
        assert_eq!((asked(&[]), asked(&["rate"])), ((true, true, true), (false, false, false)));
        for words in [&["rate", "remote-latency"][..], &["spawn"], &["spawn-hosts"]] {
            assert_eq!(asked(words), (true, false, false), "{words:?}");
        }
        assert_eq!(asked(&["makespan-heavy"]), (false, true, false));
        assert_eq!(asked(&["jobs-array"]), (false, false, true));
    }
}
