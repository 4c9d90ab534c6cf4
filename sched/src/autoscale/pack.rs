//! How many nodes the work that waits would fill.

use super::{Look, Node, Phase, Work};

/// The nodes that work needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Of those that are requested.
    pub pending: u32,
    /// Beside all that are there or on their way.
    pub more: u32,
}

/// Room on one node.
#[derive(Clone, Copy, Debug)]
struct Bin {
    free: u32,
    is_used: bool,
}

impl Plan {
    /// Packs tasks into nodes: first into those that are there, then into those on their way, then into further ones of `slots` slots,
    /// up to `most` in all. While the slots of a node are not known, it is taken to have room for one task.
    pub fn new(work: &[Work], look: &Look, slots: Option<u32>, most: u32) -> Self {
        let (nodes, size) = (&look.nodes, slots.unwrap_or(1));
        let bins = |is: &dyn Fn(&Node) -> Option<u32>| {
            let free = nodes.iter().filter_map(is);
            free.map(|free| Bin { free, is_used: false }).collect::<Vec<_>>()
        };
        let there = bins(&|node| match node.phase {
            Phase::Member { free, .. } => Some(free),
            Phase::Given => Some(node.slots.unwrap_or(size)),
            Phase::Pending | Phase::Ending => None,
        });
        let pending = bins(&|node| (node.phase == Phase::Pending).then_some(size));
        let more = (most as usize).saturating_sub(nodes.len());
        let mut all: Vec<Bin> = look.others.iter().map(|&free| Bin { free, is_used: false }).collect();
        let own = all.len();
        let (first, second) = (own + there.len(), own + there.len() + pending.len());
        all.extend(there.into_iter().chain(pending));
        all.resize(second + more, Bin { free: size, is_used: false });
        for work in work {
            let each = match slots {
                Some(slots) if work.slots > slots => continue,
                Some(_) => work.slots.max(1),
                // Whatever a task needs, a node is for one.
                None => work.slots.clamp(1, size),
            };
            if !work.is_rigid {
                fill(&mut all[own..], work.tasks, each);
                continue;
            }
            let elsewhere: u32 = look.others.iter().map(|free| free / each).sum();
            let all_together = (size / each).saturating_mul(most).saturating_add(elsewhere);
            // Else all nodes are too few, now and later.
            if slots.is_none() || work.tasks <= all_together {
                fill(&mut all, work.tasks, each);
            }
        }
        let used = |bins: &[Bin]| bins.iter().filter(|bin| bin.is_used).count() as u32;
        Self { pending: used(&all[first..second]), more: used(&all[second..]) }
    }
}

fn fill(bins: &mut [Bin], mut tasks: u32, each: u32) {
    for bin in bins {
        let taken = (bin.free / each).min(tasks);
        if taken > 0 {
            (bin.free, bin.is_used) = (bin.free - taken * each, true);
            tasks -= taken;
        }
        if tasks == 0 {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(tasks: u32, slots: u32) -> Work {
        Work { id: 1, tasks, slots, is_rigid: false }
    }

    fn node(job: u64, phase: Phase) -> Node {
        Node { job, phase, slots: Some(4) }
    }

    fn more(work: &[Work], slots: Option<u32>) -> u32 {
        Plan::new(work, &Look::default(), slots, 10).more
    }

    #[test]
    fn tasks_fill_nodes() {
        assert_eq!(more(&[work(9, 1)], Some(4)), 3);
        assert_eq!(more(&[work(3, 3), work(3, 1)], Some(4)), 3, "small tasks go beside large ones");
        assert_eq!(more(&[work(1, 5)], Some(4)), 0, "no node is large enough");
        assert_eq!((more(&[work(9, 5)], None), more(&[work(99, 1)], None)), (9, 10));
        let wide = |tasks| Work { is_rigid: true, ..work(tasks, 1) };
        assert_eq!((more(&[wide(40)], Some(4)), more(&[wide(41)], Some(4))), (10, 0));
    }

    #[test]
    fn nodes_that_are_there_or_coming_are_filled_first() {
        let member = node(1, Phase::Member { tasks: Some(2), free: 2 });
        let nodes = [member, node(2, Phase::Given), node(3, Phase::Pending), node(4, Phase::Pending)];
        let look = Look { nodes: nodes.to_vec(), ..Look::default() };
        let plan = |tasks| Plan::new(&[work(tasks, 1)], &look, Some(4), 10);
        assert_eq!(plan(6), Plan { pending: 0, more: 0 });
        assert_eq!(plan(7), Plan { pending: 1, more: 0 });
        assert_eq!(plan(15), Plan { pending: 2, more: 1 });
    }

    #[test]
    fn parallel_jobs_use_other_hosts_too() {
        let look = Look { others: vec![3, 1], ..Look::default() };
        let plan = |tasks, is_rigid| Plan::new(&[Work { is_rigid, ..work(tasks, 1) }], &look, Some(4), 2);
        assert_eq!((plan(8, true).more, plan(12, true).more, plan(13, true).more), (1, 2, 0));
        assert_eq!(plan(8, false).more, 2);
        let wide = Work { is_rigid: true, ..work(99, 1) };
        assert_eq!(Plan::new(&[wide], &look, None, 2).more, 2, "nodes may be large enough");
    }
}
