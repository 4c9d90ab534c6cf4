//! The host to which a task goes that leaves another one.
//!
//! DASIC moves each process from a host whose owner is back to the processor that has fewest processes (*Shrinking*). Here a host has several
//! processors, and what counts is its tasks for each of them.

use pvm_wire::loads::LoadVector;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// How many tasks more, or fewer, hosts have than they have reported. Without that all tasks that leave a host would go to the same one.
///
/// ```
/// use pvm_sched::room::Room;
/// use pvm_wire::loads::LoadVector;
///
/// let (busy, idle) = (LoadVector { tasks: 2, cores: 1, ..LoadVector::default() }, LoadVector { cores: 1, ..LoadVector::default() });
/// let mut room = Room::default();
/// let mut choose = || room.choose("d", [("a", Some(&busy)), ("b", Some(&idle)), ("c", Some(&idle))]);
/// assert_eq!([choose(), choose(), choose()], [Some("b"), Some("c"), Some("b")]);
/// ```
#[derive(Clone, Debug)]
pub struct Room<H> {
    more: BTreeMap<H, i64>,
}

impl<H> Default for Room<H> {
    fn default() -> Self {
        Self { more: BTreeMap::new() }
    }
}

impl<H: Copy + Ord + Debug> Room<H> {
    /// The host for a task that leaves another one: that with the fewest tasks for each of its cores, and of equal ones that with the shortest
    /// run queue. A host whose load is unknown has no tasks.
    pub fn choose<'l>(
        &mut self,
        from: H,
        hosts: impl IntoIterator<Item = (H, Option<&'l LoadVector>)>,
    ) -> Option<H> {
        let crowd = |&(host, load): &(H, Option<&LoadVector>)| {
            let load = load.copied().unwrap_or_default();
            let tasks = i64::from(load.tasks) + self.more.get(&host).copied().unwrap_or(0);
            // In thousandths.
            (tasks.max(0) * 1000 / i64::from(load.cores.max(1)), load.run_queue[0], host)
        };
        let (host, _) = hosts.into_iter().min_by_key(crowd)?;
        *self.more.entry(host).or_insert(0) += 1;
        *self.more.entry(from).or_insert(0) -= 1;
        Some(host)
    }

    /// A host has reported its load, or is gone.
    pub fn heard(&mut self, host: H) {
        self.more.remove(&host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(tasks: u32, cores: u32, run_queue: u32) -> LoadVector {
        LoadVector { tasks, cores, run_queue: [run_queue; 3], ..LoadVector::default() }
    }

    #[test]
    fn tasks_count_by_cores_then_the_run_queue_then_the_name() {
        let (one, four, waiting) = (host(1, 1, 0), host(3, 4, 500), host(1, 1, 100));
        let choose = |hosts: &[(char, &LoadVector)]| {
            Room::default().choose('z', hosts.iter().map(|&(host, load)| (host, Some(load))))
        };
        assert_eq!(choose(&[('a', &one), ('b', &four)]), Some('b'));
        assert_eq!(choose(&[('a', &waiting), ('b', &one)]), Some('b'));
        assert_eq!(choose(&[('b', &one), ('a', &one)]), Some('a'));
        assert_eq!(choose(&[]), None);
        assert_eq!(Room::default().choose('z', [('a', Some(&one)), ('b', None)]), Some('b'));
    }

    #[test]
    fn what_comes_and_goes_counts_until_a_host_reports() {
        let (none, two) = (host(0, 1, 0), host(2, 1, 0));
        let loads = [('a', Some(&none)), ('b', Some(&two))];
        let mut room = Room::default();
        let given: String = (0..4).filter_map(|_| room.choose('c', loads)).collect();
        assert_eq!(given, "aaab");
        // Both tasks of this host are known to leave.
        let left: String = (0..2).filter_map(|_| room.choose('b', [loads[0]])).collect();
        assert_eq!(left, "aa");
        assert_eq!(room.choose('c', loads), Some('b'));
        room.heard('a');
        assert_eq!(room.choose('c', loads), Some('a'));
    }
}
