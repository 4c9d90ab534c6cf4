use pvm_sched::divided::Divided;
use pvm_sched::placement::{Candidate, Placement};
use pvm_sched::policy::Handout;
use pvm_sched::pulling::Decision;
use std::fmt::Debug;

// ANCHOR: policy
/// Fills the fastest node up to its limit, then the next.
#[derive(Clone, Copy, Debug, Default)]
struct FastestFirst;

impl<H: Copy + Ord + Debug> Placement<H> for FastestFirst {
    fn name(&self) -> &'static str {
        "fastest-first"
    }

    fn place(&mut self, count: u64, candidates: &[Candidate<H>]) -> Vec<(H, u64)> {
        let mut nodes = candidates.to_vec();
        nodes.sort_by(|one, other| other.capability.total_cmp(&one.capability).then(one.host.cmp(&other.host)));
        let mut left = count;
        let share = |node: Candidate<H>| {
            let n = left.min(node.limit);
            left -= n;
            (node.host, n)
        };
        nodes.into_iter().map(share).filter(|&(_, n)| n > 0).collect()
    }
}
// ANCHOR_END: policy

// ANCHOR: main
fn main() {
    let node = |host, capability| Candidate { host, capability, limit: 4 };
    let nodes = vec![node("a", 500.0), node("b", 2000.0), node("c", 1000.0)];
    let mut handout = Divided::new(FastestFirst);
    for decision in handout.place(10, nodes, true) {
        match decision {
            Decision::Grant { host, n, .. } => println!("{n} tasks for {host}"),
            Decision::NoNodes { rest } => println!("{rest} tasks for nobody"),
            Decision::TasksHave(host) | Decision::TasksNo(host) => println!("a message to {host}"),
        }
    }
}
// ANCHOR_END: main
