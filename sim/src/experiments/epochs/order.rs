//! The two ends of the scale to compare with: nodes that regard only themselves, and nodes that all run the same job.

use std::time::Duration;

/// Local scheduling: the ready job after the one that ran, in the order of the list, without regard to other nodes.
pub fn local_next<J: Copy + PartialEq>(jobs: &[J], ran: Option<J>, ready: impl Fn(J) -> bool) -> Option<J> {
    let start = ran.and_then(|ran| jobs.iter().position(|&job| job == ran)).map_or(0, |at| at + 1);
    (0..jobs.len()).map(|step| jobs[(start + step) % jobs.len()]).find(|&job| ready(job))
}

/// Gang scheduling: which of `rows` time slices all nodes run at `now`. `None` if there are none.
pub fn gang_slice(now: Duration, quantum: Duration, rows: usize) -> Option<usize> {
    let slice = now.as_nanos() / quantum.as_nanos().max(1);
    (rows > 0).then(|| (slice % rows as u128) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: Duration = Duration::from_millis(100);

    #[test]
    fn local_and_gang() {
        let jobs = ['A', 'B', 'C'];
        assert_eq!(local_next(&jobs, Some('A'), |_| true), Some('B'));
        assert_eq!(local_next(&jobs, Some('A'), |job| job != 'B'), Some('C'));
        assert_eq!(local_next(&jobs, Some('C'), |job| job == 'C'), Some('C'));
        assert_eq!(local_next(&jobs, None, |_| false), None);
        assert_eq!(local_next::<char>(&[], None, |_| true), None);
        assert_eq!(gang_slice(SLICE * 7, SLICE, 3), Some(1));
        assert_eq!(gang_slice(SLICE, SLICE, 0), None);
        assert_eq!(gang_slice(SLICE, Duration::ZERO, 2).map(|row| row < 2), Some(true));
    }
}
