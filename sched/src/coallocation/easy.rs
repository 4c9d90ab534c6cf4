//! EASY backfilling, what batch systems do today: the first job in the queue has a reservation, and a later one may
//! start before it only if that does not delay it. Not from the paper: its reference point.

/// A job that waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waiting {
    /// Nodes it needs.
    pub width: u32,
    /// The user's estimate of its run time.
    pub estimate: f64,
}

/// Which of the waiting jobs start now: their places in `queue`, ascending.
///
/// `running` are the jobs that run, as (end by its estimate, nodes), in the order of their ends; at most `depth` jobs
/// behind the first that does not fit are looked at.
pub fn backfill(
    now: f64,
    free: u32,
    queue: impl IntoIterator<Item = Waiting>,
    running: impl IntoIterator<Item = (f64, u32)>,
    depth: usize,
) -> Vec<usize> {
    let mut free = free;
    let mut started = Vec::new();
    let mut ends: Vec<(f64, u32)> = Vec::new();
    let mut queue = queue.into_iter().enumerate();
    let head = loop {
        let Some((place, job)) = queue.next() else { return started };
        if job.width > free {
            break job;
        }
        free -= job.width;
        ends.push((now + job.estimate, job.width));
        started.push(place);
    };
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some((shadow, mut extra)) = reservation(head.width, free, merge(running.into_iter(), ends)) else {
        return started;
    };
    for (place, job) in queue.take(depth) {
        if free == 0 {
            break;
        }
        let ends_before = now + job.estimate <= shadow;
        if job.width <= free && (ends_before || job.width <= extra) {
            free -= job.width;
            if !ends_before {
                extra -= job.width;
            }
            started.push(place);
        }
    }
    started
}

/// When there will be `width` nodes, and how many more than that then. `None` if never.
fn reservation(width: u32, free: u32, ends: impl Iterator<Item = (f64, u32)>) -> Option<(f64, u32)> {
    let mut free = free;
    for (end, nodes) in ends {
        free = free.saturating_add(nodes);
        if free >= width {
            return Some((end, free - width));
        }
    }
    None
}

/// Two lists in the order of their ends, as one.
fn merge(
    a: impl Iterator<Item = (f64, u32)>,
    b: impl IntoIterator<Item = (f64, u32)>,
) -> impl Iterator<Item = (f64, u32)> {
    let (mut a, mut b) = (a.peekable(), b.into_iter().peekable());
    std::iter::from_fn(move || match (a.peek(), b.peek()) {
        (Some(x), Some(y)) if x.0 <= y.0 => a.next(),
        (_, Some(_)) => b.next(),
        (_, None) => a.next(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn job(width: u32, estimate: f64) -> Waiting {
        Waiting { width, estimate }
    }

    #[test]
    fn short_and_narrow_jobs_pass_the_first() {
        // Ten nodes, six busy until 100. The first needs eight.
        let running = [(100.0, 6)];
        assert_eq!(backfill(0.0, 4, [job(8, 50.0), job(4, 100.0)], running, 100), [1], "it ends in time");
        assert_eq!(
            backfill(0.0, 4, [job(8, 50.0), job(4, 101.0)], running, 100),
            [0; 0],
            "it would delay the first"
        );
        assert_eq!(
            backfill(0.0, 4, [job(8, 50.0), job(2, 1e9)], running, 100),
            [1],
            "the first leaves two over"
        );
        assert_eq!(backfill(0.0, 4, [job(8, 50.0), job(2, 1e9), job(1, 1e9)], running, 100), [1]);
        assert_eq!(backfill(0.0, 4, [job(1, 1e9), job(1, 1e9), job(8, 50.0)], running, 100), [0, 1]);
        assert_eq!(
            backfill(0.0, 4, [job(8, 50.0), job(5, 1.0), job(4, 1.0)], running, 1),
            [0; 0],
            "too far back"
        );
    }

    #[test]
    fn impossible_widths_hold_up_the_queue_but_start_nothing() {
        assert_eq!(backfill(0.0, 4, [job(1000, 50.0), job(1, 1.0)], [(100.0, 6)], 100), [0; 0]);
        assert_eq!(backfill(0.0, 4, [], [], 100), [0; 0]);
    }

    proptest! {
        /// Never more nodes than are free; and at the time reserved for the first that waits its nodes are there.
        #[test]
        fn the_first_is_not_delayed(
            free in 0..20_u32,
            mut running in proptest::collection::vec((1..100_u32, 1..10_u32), 0..10),
            queue in proptest::collection::vec((1..25_u32, 1..100_u32), 0..20),
        ) {
            running.sort_unstable();
            let running: Vec<(f64, u32)> = running.iter().map(|&(end, nodes)| (f64::from(end), nodes)).collect();
            let queue: Vec<Waiting> = queue.iter().map(|&(w, e)| job(w, f64::from(e))).collect();
            let started = backfill(0.0, free, queue.iter().copied(), running.iter().copied(), 100);
            prop_assert!(started.iter().map(|&place| queue[place].width).sum::<u32>() <= free);
            let fifo = started.iter().enumerate().take_while(|&(i, &place)| i == place).count();
            let Some(head) = queue.get(fifo) else { return Ok(()) };
            // When could the head start if no job had passed it, and can it still?
            let mut ends: Vec<(f64, u32)> = running.clone();
            ends.extend(started[..fifo].iter().map(|&place| (queue[place].estimate, queue[place].width)));
            ends.sort_by(|a, b| a.0.total_cmp(&b.0));
            let left = free - started[..fifo].iter().map(|&place| queue[place].width).sum::<u32>();
            let Some((shadow, _)) = reservation(head.width, left, ends.iter().copied()) else { return Ok(()) };
            let total = free + running.iter().map(|&(_, nodes)| nodes).sum::<u32>();
            let busy: u32 = running.iter().filter(|&&(end, _)| end > shadow).map(|&(_, nodes)| nodes).sum::<u32>()
                + started.iter().filter(|&&place| queue[place].estimate > shadow).map(|&place| queue[place].width).sum::<u32>();
            prop_assert!(total - busy >= head.width);
        }
    }
}
