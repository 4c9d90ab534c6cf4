//! Placement by the loads that the master sends (policy `lightly-loaded`).

use crate::loads::Loads;
use pvm_wire::HostIndex;
use pvm_wire::loads::LoadVector;
use std::collections::BTreeMap;

/// Tasks that this home has given to hosts since it last heard of their loads: without them all spawns between two vectors would go to
/// the same host.
#[derive(Debug, Default)]
pub(super) struct Lightly(BTreeMap<HostIndex, Given>);

#[derive(Debug)]
struct Given {
    tasks: u32,
    /// What was known of the host then.
    load: Option<LoadVector>,
}

impl Lightly {
    /// Processes that want to run on a host: the average over the last minute, and what was given since.
    pub fn run_queue(&self, host: HostIndex, loads: &Loads) -> f64 {
        let load = loads.get(host);
        let given = self.0.get(&host).filter(|given| given.load.as_ref() == load);
        let known = load.map_or(0.0, |load| f64::from(load.run_queue[0]) / 100.0);
        known + given.map_or(0.0, |given| given.tasks.into())
    }

    /// A host is given tasks.
    pub fn given(&mut self, host: HostIndex, tasks: u32, loads: &Loads) {
        let load = loads.get(host).copied();
        let given = self.0.entry(host).or_insert(Given { tasks: 0, load });
        if given.load != load {
            *given = Given { tasks: 0, load };
        }
        given.tasks = given.tasks.saturating_add(tasks);
    }

    pub fn host_gone(&mut self, host: HostIndex) {
        self.0.remove(&host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hundredths(lightly: &Lightly, loads: &Loads) -> u32 {
        (lightly.run_queue(HostIndex::MASTER, loads) * 100.0).round() as u32
    }

    #[test]
    fn what_was_given_counts_until_the_load_is_heard_again() {
        let (host, mut loads, mut lightly) =
            (HostIndex::MASTER, Loads::new(HostIndex::MASTER), Lightly::default());
        lightly.given(host, 2, &loads);
        lightly.given(host, 1, &loads);
        assert_eq!(hundredths(&lightly, &loads), 300);
        loads.heard(host, LoadVector { run_queue: [150; 3], ..LoadVector::default() });
        assert_eq!(hundredths(&lightly, &loads), 150);
        lightly.given(host, 1, &loads);
        assert_eq!(hundredths(&lightly, &loads), 250);
        lightly.host_gone(host);
        assert_eq!(hundredths(&lightly, &loads), 150);
    }
}
