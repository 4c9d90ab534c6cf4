//! Placement by active pulling: nodes ask, a manager hands out.
//!
//! Zhu Shijin, Li Yi, Zhou Mingtian, Wang Yue, *A PVM-Based Active Dynamic Task Scheduling Strategy*. PVM's own
//! placement pushes tasks to nodes whose load it does not know; here each node, which knows its load exactly, asks for
//! as many tasks as it has room for, and a manager per batch divides what there is. The symbols are the paper's:
//!
//! | symbol | meaning | section |
//! |---|---|---|
//! | `C_i` | processing capability of node i | 1 |
//! | `N_n` | nodes available now | 1 |
//! | `C_A` | mean capability, `(C_1 + … + C_n) / N_n` | 1 |
//! | `W` | `C_i / C_A` | 1 |
//! | `P`, `P_c` | a node's task threshold, and the tasks that it runs now | 1 |
//! | `N_a` | what a node may ask for, `P − P_c` | 1 |
//! | `T_c` | tasks still to be placed | 1 |
//! | `N_c` | nodes that have not applied in this round | 1 |
//! | `N_d` | the manager's part per node, `T_c / N_c` | 1 |
//! | `N` | tasks given, `min(N_a, N_d · W)` | 1 |
//!
//! (The paper's text once writes `N_a` for what its summary calls `N_d`; the summary is meant.)
//!
//! [`Manager`] is the paper's algorithm 1, section 2.1; [`Node`] its algorithm 2, section 2.2.

mod manager;
mod node;

pub use manager::{Decision, Manager};
pub use node::{Node, Step, Ticket};

pub use crate::placement::Candidate;
use crate::placement::sane_capability;

/// Bounds of the random time after which a node that has no room looks again, milliseconds.
pub const RETRY_MS: std::ops::Range<u64> = 20..80;

/// The quantities of the formula at one grant, for the trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// `N_a`, what the node asked for.
    pub n_a: i64,
    /// `T_c`, tasks still to be placed, before this grant.
    pub t_c: u64,
    /// `N_c`, nodes that had not applied in this round, the applicant included.
    pub n_c: u64,
    /// `C_i`, the node's capability.
    pub c_i: f64,
    /// `C_A`, the mean capability.
    pub c_a: f64,
    /// `N`, the tasks given.
    pub n: u64,
}

impl Terms {
    /// The formula: its result and its terms.
    pub fn new(n_a: i64, t_c: u64, n_c: u64, c_i: f64, c_a: f64) -> Self {
        Self { n_a, t_c, n_c, c_i, c_a, n: share(n_a, t_c, n_c, c_i, c_a) }
    }
}

/// `N_a = P − P_c`: what a node may ask for (section 1). 0 or less means that there is no room.
///
/// `p_c` counts everything that fills the node: the tasks that run, those promised to it by other batches (see
/// [`Node::promised`]) and, if the caller likes, load from outside.
pub fn application(p: u64, p_c: u64) -> i64 {
    if p >= p_c {
        i64::try_from(p - p_c).unwrap_or(i64::MAX)
    } else {
        i64::try_from(p_c - p).map_or(i64::MIN, |over| -over)
    }
}

/// `N = min(N_a, T_c / N_c · C_i / C_A)`: the tasks that a node is given (section 1).
///
/// Rounded down, but at least 1 if the node has room and there is a task, and never more than `T_c`. A capability that
/// is not a positive number counts as 1, an `N_c` of 0 as 1.
pub fn share(n_a: i64, t_c: u64, n_c: u64, c_i: f64, c_a: f64) -> u64 {
    let room = u64::try_from(n_a).unwrap_or(0);
    if room == 0 || t_c == 0 {
        return 0;
    }
    let exact = (t_c as f64 * sane_capability(c_i)) / (n_c.max(1) as f64 * sane_capability(c_a));
    // A whole number must not become the one below because C_A is not exact.
    let whole = (exact * (1.0 + 1e-12)).floor() as u64;
    whole.clamp(1, t_c).min(room)
}

/// `C_A`: the mean of capabilities (section 1). Of none, 1.
pub fn mean_capability(capabilities: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, n_n) =
        capabilities.into_iter().fold((0.0, 0_u64), |(sum, n), c| (sum + sane_capability(c), n + 1));
    if n_n == 0 { 1.0 } else { sum / n_n as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_node_asks_for_its_room() {
        assert_eq!(application(8, 3), 5);
        assert_eq!(application(8, 8), 0);
        assert_eq!(application(8, 11), -3);
        assert_eq!(application(u64::MAX, 0), i64::MAX);
        assert_eq!(application(0, u64::MAX), i64::MIN);
    }

    #[test]
    fn equal_nodes_get_equal_parts_in_any_order() {
        // 256 tasks, four nodes: each application finds the same T_c / N_c.
        assert_eq!(share(1000, 256, 4, 1000.0, 1000.0), 64);
        assert_eq!(share(1000, 192, 3, 1000.0, 1000.0), 64);
        assert_eq!(share(1000, 128, 2, 1000.0, 1000.0), 64);
        assert_eq!(share(1000, 64, 1, 1000.0, 1000.0), 64);
    }

    #[test]
    fn the_first_to_ask_cannot_take_all() {
        assert_eq!(share(i64::MAX, 100, 10, 1000.0, 1000.0), 10);
    }

    #[test]
    fn a_fast_node_gets_more() {
        let c_a = mean_capability([3000.0, 1000.0]);
        assert_eq!(share(1000, 100, 2, 3000.0, c_a), 75);
        assert_eq!(share(1000, 100, 2, 1000.0, c_a), 25);
    }

    #[test]
    fn whole_parts_stay_whole() {
        // C_A of these is not representable; 30/3 · 2/2.33 and the like must not fall below by rounding.
        let c_a = mean_capability([1.0, 1.0, 5.0]);
        assert_eq!(share(1000, 70, 3, 1.0, c_a), 10);
        assert_eq!(share(1000, 70, 3, 5.0, c_a), 50);
    }

    #[test]
    fn a_node_over_its_threshold_gets_nothing() {
        assert_eq!(share(0, 100, 1, 1000.0, 1000.0), 0);
        assert_eq!(share(-3, 100, 1, 1000.0, 1000.0), 0);
        assert_eq!(share(i64::MIN, u64::MAX, 0, 1000.0, 1000.0), 0);
    }

    #[test]
    fn at_least_one_and_never_more_than_there_are() {
        assert_eq!(share(5, 1, 50, 1.0, 1e6), 1);
        assert_eq!(share(5, 3, 1, 1e6, 1.0), 3);
        assert_eq!(share(5, 0, 3, 1.0, 1.0), 0);
        assert_eq!(share(i64::MAX, u64::MAX, 1, 1e7, 1.0), i64::MAX as u64);
    }

    #[test]
    fn capabilities_that_make_no_sense_count_as_one() {
        for garbage in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(share(100, 100, 2, garbage, 1.0), 50);
            assert_eq!(share(100, 100, 2, 1.0, garbage), 50);
        }
        assert_eq!(mean_capability([f64::NAN, 3.0]).to_bits(), 2.0_f64.to_bits());
        assert_eq!(mean_capability([]).to_bits(), 1.0_f64.to_bits());
    }

    fn capability() -> impl Strategy<Value = f64> {
        prop_oneof![8 => 1.0..1e6_f64, 1 => proptest::num::f64::ANY]
    }

    proptest! {
        #[test]
        fn n_is_within_the_formula(n_a: i64, t_c: u64, n_c: u64, c_i in capability(), c_a in capability()) {
            let n = share(n_a, t_c, n_c, c_i, c_a);
            prop_assert!(n <= t_c);
            prop_assert!(i128::from(n) <= i128::from(n_a).max(0));
            prop_assert_eq!(n >= 1, n_a >= 1 && t_c >= 1);
            let n_d_w = t_c as f64 / n_c.max(1) as f64 * sane_capability(c_i) / sane_capability(c_a);
            prop_assert!(n <= 1 || n as f64 <= n_d_w * (1.0 + 1e-9));
            // And it falls short of the minimum by rounding only.
            let least = n_d_w.min(n_a.max(0) as f64).min(t_c as f64);
            prop_assert!(n as f64 > least * (1.0 - 1e-9) - 1.0);
        }

        #[test]
        fn more_capability_never_gives_less(n_a in 0..1000_i64, t_c in 0..10_000_u64, n_c in 1..50_u64, a in 1.0..1e6_f64, b in 1.0..1e6_f64, c_a in 1.0..1e6_f64) {
            let (slow, fast) = (a.min(b), a.max(b));
            prop_assert!(share(n_a, t_c, n_c, slow, c_a) <= share(n_a, t_c, n_c, fast, c_a));
        }

        #[test]
        fn with_room_shares_are_in_proportion(t_c in 10_000..1_000_000_u64, n_c in 2..20_u64, c in 1..10_u32, k in 1..10_u32) {
            let (c, k) = (f64::from(c), f64::from(k));
            let (one, times_k) = (share(i64::MAX, t_c, n_c, c, 10.0), share(i64::MAX, t_c, n_c, c * k, 10.0));
            prop_assert!(times_k == t_c || (times_k as f64 - one as f64 * k).abs() <= k);
        }

        #[test]
        fn applications_are_exact(p in 0..1_u64 << 40, p_c in 0..1_u64 << 40) {
            prop_assert_eq!(application(p, p_c), p as i64 - p_c as i64);
        }
    }
}
