//! The performance model, `T = T_W + T_E + T_C`: one function per equation (section 3.1).

/// Equation 2: `T_E = T_0 · max(h_j, …, h_m) / h_0`. The slowest cluster decides. Without clusters, `t_0`.
pub fn execution_time(t_0: f64, h_0: f64, factors: impl IntoIterator<Item = f64>) -> f64 {
    factors.into_iter().reduce(f64::max).map_or(t_0, |slowest| t_0 * slowest / h_0)
}

/// Equation 4: `BW_k^j = BWBN · n_k^j · (n_t − n_k^j) / (n_t − 1)`, the bandwidth that a job of `n_t` nodes asks of the
/// link of a cluster that has `n_kj` of them. All nodes talk to all; what stays within the cluster is free.
pub fn link_demand(bwbn: f64, n_kj: u32, n_t: u32) -> f64 {
    if n_t <= 1 || n_kj >= n_t {
        return 0.0;
    }
    bwbn * f64::from(n_kj) * f64::from(n_t - n_kj) / f64::from(n_t - 1)
}

/// Equation 5: `CF^j = BW_const^j / Σ_k BW_k^j`. An unused link is infinitely free.
pub fn congestion_factor(bw_const: f64, demand: f64) -> f64 {
    if demand > 0.0 { bw_const / demand } else { f64::INFINITY }
}

/// Equation 6: 1 if no link of the job is congested, else the least congestion factor among its links.
pub fn flex_factor(congestion_factors: impl IntoIterator<Item = f64>) -> f64 {
    congestion_factors.into_iter().fold(1.0, f64::min)
}

/// Equation 7: `T_C^(Re,i) = (T_C^(Re,i−1) − ΔT_C^i) · FF_(i−1) · FF_i^(−1)`, the communication time that remains after
/// an event at which the flex factor changed from `ff_before` to `ff_now`; `spent` is what went by since the last one.
pub fn remaining_communication(before: f64, spent: f64, ff_before: f64, ff_now: f64) -> f64 {
    (before - spent).max(0.0) * ff_before / ff_now
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn same(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
    }

    #[test]
    fn the_slowest_cluster_decides() {
        assert!(same(execution_time(100.0, 1.0, [1.0, 4.0, 2.0]), 400.0));
        assert!(same(execution_time(100.0, 2.0, [1.0]), 50.0));
        assert!(same(execution_time(100.0, 2.0, []), 100.0));
    }

    #[test]
    fn a_link_carries_what_leaves_its_cluster() {
        // Ten nodes, four of them here: each of the four speaks to nine others, six of them outside.
        assert!(same(link_demand(9.0, 4, 10), 9.0 * 4.0 * 6.0 / 9.0));
        assert!(same(link_demand(9.0, 10, 10), 0.0));
        assert!(same(link_demand(9.0, 0, 10), 0.0));
        assert!(same(link_demand(9.0, 1, 1), 0.0));
        assert!(same(link_demand(9.0, 1, 0), 0.0));
    }

    #[test]
    fn congestion_stretches_by_the_worst_link() {
        assert!(congestion_factor(1000.0, 0.0).is_infinite());
        assert!(same(congestion_factor(1000.0, 4000.0), 0.25));
        assert!(same(flex_factor([2.0, f64::INFINITY]), 1.0));
        assert!(same(flex_factor([2.0, 0.5, 0.25]), 0.25));
        assert!(same(flex_factor([]), 1.0));
    }

    #[test]
    fn remaining_time_is_stretched_and_shrinks_back() {
        let congested = remaining_communication(100.0, 20.0, 1.0, 0.5);
        assert!(same(congested, 160.0));
        assert!(same(remaining_communication(congested, 60.0, 0.5, 1.0), 50.0));
        assert!(same(remaining_communication(10.0, 11.0, 1.0, 1.0), 0.0));
    }

    proptest! {
        /// Both ends of a job over two clusters load their links alike, and no split asks for more than an even one.
        #[test]
        fn demand_is_symmetric_and_highest_in_the_middle(n_t in 2..1000_u32, n in 0..1000_u32) {
            let n = n % (n_t + 1);
            prop_assert!(same(link_demand(1.0, n, n_t), link_demand(1.0, n_t - n, n_t)));
            prop_assert!(link_demand(1.0, n, n_t) <= link_demand(1.0, n_t / 2, n_t) + 1e-9);
        }

        /// Work does not depend on where the events fall: with FF fixed, two steps are one.
        #[test]
        fn events_that_change_nothing_change_nothing(t in 1.0..1e6_f64, a in 0.0..0.5_f64, b in 0.0..0.5_f64, ff in 0.01..1.0_f64) {
            let twice = remaining_communication(remaining_communication(t, a * t, ff, ff), b * t, ff, ff);
            prop_assert!(same(twice, remaining_communication(t, (a + b) * t, ff, ff)));
        }
    }
}
