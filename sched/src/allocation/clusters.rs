//! Which hosts belong together: clusters of hosts, and domains of clusters.

use std::collections::BTreeMap;

/// The clusters of hosts, and their domains. Hosts of no cluster are one cluster together, and clusters of no domain one domain.
///
/// # Examples
///
/// ```
/// use pvm_sched::allocation::Clusters;
///
/// let mut clusters = Clusters::default();
/// clusters.insert(4, "east", Some("campus"));
/// clusters.insert(5, "east", Some("campus"));
/// clusters.insert(6, "west", Some("campus"));
/// let hosts = [1, 4, 5, 6];
/// assert_eq!(clusters.head(5, &hosts), 4);
/// assert_eq!(clusters.heads_in_domain(6, &hosts), [4, 6]);
/// assert_eq!(clusters.scheduler(6, &hosts), 4);
/// assert_eq!(clusters.schedulers(&hosts), [1, 4]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Clusters {
    /// The numbers of each host's cluster and domain, by the host's number. Numbers are this table's own, and 0 stands for none. Policies
    /// go through all hosts for each request, so that a look must cost nothing.
    of: Vec<(u32, u32)>,
    names: BTreeMap<String, u32>,
    domains: BTreeMap<String, u32>,
}

impl Clusters {
    /// No clusters.
    pub(super) const NONE: Self = Self { of: Vec::new(), names: BTreeMap::new(), domains: BTreeMap::new() };

    /// A host is in this cluster, whose link is in this domain. The table has a place for each number up to the highest, so numbers are
    /// to be small, as those of hosts are (4095 at most).
    pub fn insert(&mut self, host: usize, cluster: &str, domain: Option<&str>) {
        let cluster = number(&mut self.names, cluster);
        let domain = domain.map_or(0, |domain| number(&mut self.domains, domain));
        if self.of.len() <= host {
            self.of.resize(host + 1, (0, 0));
        }
        self.of[host] = (cluster, domain);
    }

    /// Clusters of this number of hosts one after the other, the last perhaps smaller, and this number of clusters in each domain.
    pub fn blocks(hosts: usize, size: usize, clusters: usize) -> Self {
        let (size, clusters) = (size.max(1), clusters.max(1));
        let mut all = Self::default();
        for host in 0..hosts {
            let cluster = host / size;
            all.insert(host, &cluster.to_string(), Some(&(cluster / clusters).to_string()));
        }
        all
    }

    /// A host is gone.
    pub fn remove(&mut self, host: usize) {
        if let Some(place) = self.of.get_mut(host) {
            *place = (0, 0);
        }
    }

    fn cluster(&self, host: usize) -> u32 {
        self.of.get(host).map_or(0, |&(cluster, _)| cluster)
    }

    fn domain(&self, host: usize) -> u32 {
        self.of.get(host).map_or(0, |&(_, domain)| domain)
    }

    /// The head of a host's cluster: its first one of these hosts, which are in ascending order.
    pub fn head(&self, host: usize, hosts: &[usize]) -> usize {
        let cluster = self.cluster(host);
        hosts.iter().copied().find(|&other| self.cluster(other) == cluster).unwrap_or(host)
    }

    /// Those of these hosts that are in the cluster of a host.
    pub fn members(&self, host: usize, hosts: &[usize]) -> Vec<usize> {
        let cluster = self.cluster(host);
        hosts.iter().copied().filter(|&other| self.cluster(other) == cluster).collect()
    }

    /// The scheduler of a host's domain: its first one of these hosts.
    pub fn scheduler(&self, host: usize, hosts: &[usize]) -> usize {
        let domain = self.domain(host);
        hosts.iter().copied().find(|&other| self.domain(other) == domain).unwrap_or(host)
    }

    /// The heads of all clusters in the domain of a host.
    pub fn heads_in_domain(&self, host: usize, hosts: &[usize]) -> Vec<usize> {
        let domain = self.domain(host);
        first_of_each(hosts, |other| (self.domain(other) == domain).then(|| self.cluster(other)))
    }

    /// The heads of all clusters.
    pub fn heads(&self, hosts: &[usize]) -> Vec<usize> {
        first_of_each(hosts, |host| Some(self.cluster(host)))
    }

    /// The schedulers of all domains.
    pub fn schedulers(&self, hosts: &[usize]) -> Vec<usize> {
        first_of_each(hosts, |host| Some(self.domain(host)))
    }
}

fn number(names: &mut BTreeMap<String, u32>, name: &str) -> u32 {
    let next = names.len() as u32 + 1;
    *names.entry(name.to_owned()).or_insert(next)
}

/// The first host of each group.
fn first_of_each(hosts: &[usize], group: impl Fn(usize) -> Option<u32>) -> Vec<usize> {
    let mut first = BTreeMap::new();
    for &host in hosts {
        if let Some(group) = group(host) {
            first.entry(group).or_insert(host);
        }
    }
    let mut hosts: Vec<usize> = first.into_values().collect();
    hosts.sort_unstable();
    hosts
}
