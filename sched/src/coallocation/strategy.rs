//! Which nodes a job gets (algorithm 2), by the paper's four keys and its three baselines.

use crate::placement::{Portion, proportional};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// A cluster as the scheduler sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Site {
    /// Nodes that no job has.
    pub free: u32,
    /// `h`, its heterogeneity factor.
    pub factor: f64,
    /// `CF`, the congestion factor of its link: small is congested.
    pub congestion: f64,
}

/// So many nodes of one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The cluster's place in the list of sites.
    pub site: usize,
    /// Nodes of it, at least 1.
    pub nodes: u32,
}

/// A resource selection strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Strategy {
    /// Biggest free node priority: the cluster with the most free nodes first.
    Bfnp,
    /// Smallest network congestion priority: the cluster with the least congested link first.
    Sncp,
    /// Smallest heterogeneous factor priority: the fastest cluster first.
    Shfp,
    /// Smallest heterogeneous free node priority: most free nodes per heterogeneity factor first.
    Shfnp,
    /// Single-cluster co-allocation: a job may move to another cluster but not span clusters.
    Scca,
    /// A job runs where it was submitted.
    NoShare,
    /// As if all clusters were one: nodes are taken without regard to clusters, and the network is free.
    Idea,
}

impl Strategy {
    /// All of them, in the order of the paper's legends.
    pub const ALL: [Self; 7] =
        [Self::Bfnp, Self::Shfnp, Self::Shfp, Self::Sncp, Self::Scca, Self::Idea, Self::NoShare];

    /// Those that a real machine can follow: its network is not free.
    pub const REAL: [Self; 6] = [Self::Bfnp, Self::Sncp, Self::Shfp, Self::Shfnp, Self::Scca, Self::NoShare];

    /// Its name in the paper.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bfnp => "BFNP",
            Self::Sncp => "SNCP",
            Self::Shfp => "SHFP",
            Self::Shfnp => "SHFNP",
            Self::Scca => "SCCA",
            Self::NoShare => "No-Share",
            Self::Idea => "Idea",
        }
    }

    /// Whether a job may have nodes of several clusters.
    pub fn spans(self) -> bool {
        !matches!(self, Self::Scca | Self::NoShare)
    }

    /// Whether traffic between clusters takes time.
    pub fn has_network(self) -> bool {
        self != Self::Idea
    }

    /// The widest job submitted at `home` that could start now.
    pub fn reach(self, home: usize, sites: &[Site]) -> u32 {
        match self {
            Self::NoShare => sites.get(home).map_or(0, |site| site.free),
            Self::Scca => sites.iter().map(|site| site.free).max().unwrap_or(0),
            _ => sites.iter().fold(0, |sum, site| sum.saturating_add(site.free)),
        }
    }

    /// Nodes for a job of `width` submitted at `home`; `None` if it does not fit now, or has no width.
    pub fn allocate(self, width: u32, home: usize, sites: &[Site]) -> Option<Vec<Share>> {
        if width == 0 || width > self.reach(home, sites) {
            return None;
        }
        match self {
            Self::NoShare => Some(vec![Share { site: home, nodes: width }]),
            Self::Scca => Some(vec![Share { site: single(width, home, sites)?, nodes: width }]),
            Self::Idea => Some(mixed(width, sites)),
            _ => Some(greedy(width, sites, &self.order(sites))),
        }
    }

    /// The sites in the order in which the strategy takes them. Of equal ones the first comes first.
    fn order(self, sites: &[Site]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..sites.len()).collect();
        order.sort_by(|&a, &b| self.compare(&sites[a], &sites[b]));
        order
    }

    fn compare(self, a: &Site, b: &Site) -> Ordering {
        match self {
            Self::Sncp => b.congestion.total_cmp(&a.congestion),
            Self::Shfp => a.factor.total_cmp(&b.factor),
            Self::Shfnp => (f64::from(b.free) / b.factor).total_cmp(&(f64::from(a.free) / a.factor)),
            _ => b.free.cmp(&a.free),
        }
    }
}

/// Algorithm 2: free nodes of one site after the other until there are enough.
fn greedy(width: u32, sites: &[Site], order: &[usize]) -> Vec<Share> {
    let mut left = width;
    let mut shares = Vec::new();
    for &site in order {
        let nodes = sites[site].free.min(left);
        if nodes > 0 {
            shares.push(Share { site, nodes });
            left -= nodes;
        }
        if left == 0 {
            break;
        }
    }
    shares
}

/// The cluster of a job that may move but not span: its own if it fits there, else the one with most free nodes.
fn single(width: u32, home: usize, sites: &[Site]) -> Option<usize> {
    if sites.get(home).is_some_and(|site| site.free >= width) {
        return Some(home);
    }
    (0..sites.len())
        .filter(|&site| sites[site].free >= width)
        .min_by_key(|&site| (u32::MAX - sites[site].free, site))
}

/// Nodes without regard to clusters: what blind choice gives on average, each cluster in proportion to its free nodes.
fn mixed(width: u32, sites: &[Site]) -> Vec<Share> {
    let portions: Vec<Portion> = sites
        .iter()
        .map(|site| Portion { capability: f64::from(site.free), has: 0, limit: u64::from(site.free) })
        .collect();
    let nodes = proportional(u64::from(width), &portions);
    let shares = nodes.iter().enumerate().map(|(site, &nodes)| Share { site, nodes: nodes as u32 });
    shares.filter(|share| share.nodes > 0).collect()
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Strategy {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|strategy| strategy.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| format!("no strategy is called {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::{Site, Strategy};
    use proptest::prelude::*;

    fn sites() -> Vec<Site> {
        vec![
            Site { free: 30, factor: 2.0, congestion: 0.5 },
            Site { free: 40, factor: 4.0, congestion: 3.0 },
            Site { free: 10, factor: 1.0, congestion: 1.0 },
        ]
    }

    fn taken(strategy: Strategy, width: u32, home: usize) -> Vec<(usize, u32)> {
        let shares = strategy.allocate(width, home, &sites()).unwrap_or_default();
        shares.into_iter().map(|share| (share.site, share.nodes)).collect()
    }

    #[test]
    fn each_key_sorts_by_its_own_measure() {
        assert_eq!(taken(Strategy::Bfnp, 50, 0), [(1, 40), (0, 10)]);
        assert_eq!(taken(Strategy::Sncp, 55, 0), [(1, 40), (2, 10), (0, 5)]);
        assert_eq!(taken(Strategy::Shfp, 15, 0), [(2, 10), (0, 5)]);
        // 15, 10 and 10 nodes per factor; of equal ones the first.
        assert_eq!(taken(Strategy::Shfnp, 50, 0), [(0, 30), (1, 20)]);
    }

    #[test]
    fn baselines_stay_within_one_cluster_or_see_none() {
        assert_eq!(taken(Strategy::Scca, 20, 0), [(0, 20)]);
        assert_eq!(taken(Strategy::Scca, 20, 2), [(1, 20)], "it does not fit at home");
        assert_eq!(taken(Strategy::Scca, 41, 1), []);
        assert_eq!(taken(Strategy::NoShare, 20, 2), []);
        assert_eq!(taken(Strategy::NoShare, 10, 2), [(2, 10)]);
        assert_eq!(taken(Strategy::NoShare, 1, 9), [], "no such cluster");
        assert_eq!(taken(Strategy::Idea, 8, 0), [(0, 3), (1, 4), (2, 1)]);
    }

    #[test]
    fn widths_that_cannot_be() {
        for strategy in Strategy::ALL {
            assert_eq!(strategy.allocate(0, 0, &sites()), None);
            assert_eq!(strategy.allocate(81, 0, &sites()), None);
            assert_eq!(strategy.allocate(u32::MAX, 0, &sites()), None);
            assert_eq!(strategy.allocate(1, 0, &[]), None);
            assert_eq!(strategy.name().parse(), Ok(strategy));
        }
        let thousand = vec![Site { free: 1, factor: 1.0, congestion: f64::INFINITY }; 1000];
        assert_eq!(Strategy::Bfnp.allocate(1000, 0, &thousand).map(|shares| shares.len()), Some(1000));
    }

    type Worth = fn(&Site) -> f64;

    /// The value of a cluster's node by each key.
    const KEYS: [(Strategy, Worth); 4] = [
        (Strategy::Bfnp, |site| f64::from(site.free)),
        (Strategy::Sncp, |site| site.congestion),
        (Strategy::Shfp, |site| -site.factor),
        (Strategy::Shfnp, |site| f64::from(site.free) / site.factor),
    ];

    /// The most that `width` nodes can be worth, by trying every number of each cluster.
    fn most_worth(width: u32, sites: &[Site], worth: Worth) -> Option<f64> {
        let Some((site, rest)) = sites.split_first() else { return (width == 0).then_some(0.0) };
        let with = |nodes| Some(f64::from(nodes) * worth(site) + most_worth(width - nodes, rest, worth)?);
        (0..=site.free.min(width)).filter_map(with).max_by(f64::total_cmp)
    }

    proptest! {
        /// Exactly the width, never more of a cluster than is free, no cluster twice; and every width within reach fits.
        #[test]
        fn allocations_fit(free in proptest::collection::vec((0..50_u32, 1..9_u32, 0..300_u32), 1..8), width in 1..200_u32, home in 0..8_usize) {
            let sites: Vec<Site> = free.iter().map(|&(free, h, cf)| Site {
                free, factor: f64::from(h), congestion: f64::from(cf) / 100.0,
            }).collect();
            for strategy in Strategy::ALL {
                let shares = strategy.allocate(width, home, &sites);
                prop_assert_eq!(shares.is_some(), width <= strategy.reach(home, &sites));
                let Some(shares) = shares else { continue };
                prop_assert_eq!(shares.iter().map(|share| share.nodes).sum::<u32>(), width);
                let mut seen: Vec<usize> = shares.iter().map(|share| share.site).collect();
                seen.sort_unstable();
                seen.dedup();
                prop_assert_eq!(seen.len(), shares.len());
                prop_assert!(shares.iter().all(|share| share.nodes >= 1 && share.nodes <= sites[share.site].free));
                prop_assert!(strategy.spans() || shares.len() == 1);
            }
        }

        /// The biggest cluster first is the split over the fewest clusters there is.
        #[test]
        fn bfnp_spans_as_few_clusters_as_can_be(free in proptest::collection::vec(0..20_u32, 1..7), width in 1..80_u32) {
            let sites: Vec<Site> = free.iter().map(|&free| Site { free, factor: 1.0, congestion: 1.0 }).collect();
            let Some(shares) = Strategy::Bfnp.allocate(width, 0, &sites) else { return Ok(()) };
            let best = (0..1_u32 << free.len())
                .filter(|set| (0..free.len()).filter(|i| set >> i & 1 == 1).map(|i| free[i]).sum::<u32>() >= width)
                .map(u32::count_ones)
                .min();
            prop_assert_eq!(Some(shares.len() as u32), best);
        }

        /// No other choice of this many nodes has more of what the key counts; all are tried.
        #[test]
        fn a_key_gets_the_most_of_what_it_counts(
            free in proptest::collection::vec((0..6_u32, 1..5_u32, 0..300_u32), 1..5),
            width in 1..20_u32,
        ) {
            let sites: Vec<Site> = free.iter().map(|&(free, h, cf)| Site {
                free, factor: f64::from(h), congestion: f64::from(cf) / 100.0,
            }).collect();
            for (strategy, worth) in KEYS {
                let Some(shares) = strategy.allocate(width, 0, &sites) else { continue };
                let sum: f64 = shares.iter().map(|share| f64::from(share.nodes) * worth(&sites[share.site])).sum();
                let most = most_worth(width, &sites, worth).expect("it fits");
                prop_assert!((sum - most).abs() < 1e-9, "{} takes {} of {}", strategy, sum, most);
            }
        }
    }
}
