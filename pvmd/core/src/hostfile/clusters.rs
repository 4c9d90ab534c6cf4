//! Clusters of hosts, and the links by which they are joined: a star, as the models of co-allocation have it.

use super::values::shortened;
use super::{HostOptions, Hostfile, HostfileError};
use pvm_wire::daemon::ClusterName;
use pvm_wire::quantity;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Longest name of a cluster, bytes.
const NAME_MAX: usize = 64;
/// Clusters that a hostfile can have.
const CLUSTERS_MAX: usize = 1000;
/// The option of a line that is about a link.
const KEY: &str = "link";

/// `link=NAME [bw=BANDWIDTH] [domain=NAME]`: the link between a cluster and the centre of the star.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The cluster.
    pub cluster: String,
    /// Bits per second; `None`: they are to be measured.
    pub bandwidth: Option<u64>,
    /// The domain of clusters that the cluster belongs to.
    pub domain: Option<String>,
}

impl Link {
    /// The link that a line is about; `None`: it is about a host.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, String> {
        let mut words = text.split([' ', '\t']).filter(|word| !word.is_empty());
        let Some((KEY, name)) = words.next().and_then(|word| word.split_once('=')) else { return Ok(None) };
        let mut link = Self { cluster: cluster_name(KEY, name)?, bandwidth: None, domain: None };
        for word in words {
            let is_second = match word.split_once('=') {
                Some(("bw", value)) => link.bandwidth.replace(bandwidth(value)?).is_some(),
                Some((key @ "domain", value)) => link.domain.replace(cluster_name(key, value)?).is_some(),
                _ => {
                    let word = shortened(word);
                    return Err(format!(
                        "`{word}`: the line of a link has no options but `bw=` and `domain=`"
                    ));
                }
            };
            if is_second {
                return Err(format!("`{}`: the option is given twice", shortened(word)));
            }
        }
        Ok(Some(link))
    }
}

fn bandwidth(value: &str) -> Result<u64, String> {
    let reason = || format!("`bw={}`: a bandwidth is 500kbit, 40Mbit, 1Gbit or 2.5Gbit", shortened(value));
    quantity::bandwidth(value).map_err(|_| reason())
}

/// The name of a cluster or of a domain of clusters, the value of an option.
pub(super) fn cluster_name(key: &str, value: &str) -> Result<String, String> {
    let is_good = !value.is_empty()
        && value.len() <= NAME_MAX
        && value.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter));
    if is_good {
        return Ok(value.to_owned());
    }
    let what = if key == "domain" { "a domain" } else { "a cluster" };
    Err(format!(
        "`{key}={}`: the name of {what} is at most {NAME_MAX} letters, digits, `-`, `_` and `.`",
        shortened(value)
    ))
}

/// What the lines so far have said of clusters.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Those that hosts are in, or would be by a `*` line.
    clusters: BTreeSet<String>,
    /// The lines of links.
    lines: BTreeMap<String, usize>,
}

impl Found {
    /// A line names a cluster.
    pub fn note(&mut self, options: &HostOptions) -> Result<(), String> {
        self.clusters.extend(options.cluster.clone());
        if self.clusters.len() > CLUSTERS_MAX {
            return Err(format!("a hostfile has {CLUSTERS_MAX} clusters at most"));
        }
        Ok(())
    }

    /// A line is about a link.
    pub fn take(&mut self, links: &mut Vec<Link>, link: Link, line: usize) -> Result<(), String> {
        let first = *self.lines.entry(link.cluster.clone()).or_insert(line);
        if first != line {
            return Err(format!("the link of cluster {} is in line {first} already", link.cluster));
        }
        if links.len() >= CLUSTERS_MAX {
            return Err(format!("a hostfile has {CLUSTERS_MAX} links at most"));
        }
        links.push(link);
        Ok(())
    }

    /// Links of clusters that no host is in.
    pub fn mistakes(&self) -> impl Iterator<Item = HostfileError> {
        let without = self.lines.iter().filter(|(cluster, _)| !self.clusters.contains(*cluster));
        without.map(|(cluster, &line)| {
            let reason =
                format!("`link={cluster}`: no host is in that cluster (`cluster={cluster}` of a host)");
            HostfileError { line, reason }
        })
    }
}

impl Hostfile {
    /// The clusters that hosts are in, or would be if they were added, each with the bandwidth of its link in bits per second, if the
    /// file says it.
    pub fn clusters(&self) -> BTreeMap<String, Option<u64>> {
        let options = self.hosts.iter().map(|spec| &spec.options).chain([&self.defaults]);
        let named = options.filter_map(|options| options.cluster.clone()).map(|name| (name, None));
        let links = self.links.iter().map(|link| (link.cluster.clone(), link.bandwidth));
        named.chain(links).collect()
    }

    /// A cluster with what the file says of it.
    pub(crate) fn cluster(&self, name: String) -> ClusterName {
        let link = self.links.iter().find(|link| link.cluster == name);
        ClusterName { domain: link.and_then(|link| link.domain.clone()), name }
    }

    /// The clusters whose links are to be measured.
    pub fn unmeasured_links(&self) -> BTreeSet<String> {
        let unknown = self.links.iter().filter(|link| link.bandwidth.is_none());
        unknown.map(|link| link.cluster.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "link=fast bw=1Gbit\n* cluster=fast\nn1\nn2 cluster=slow sp=500\n* \n& n3\nlink=slow\tbw=40Mbit/s # far\n";

    #[test]
    fn hosts_are_in_clusters_that_have_links() {
        let hostfile = Hostfile::parse(FILE).expect("no mistakes");
        let of = |host: usize| hostfile.hosts[host].options.cluster.as_deref();
        assert_eq!((of(0), of(1), of(2)), (Some("fast"), Some("slow"), None));
        let expected = [("fast", Some(1_000_000_000)), ("slow", Some(40_000_000))];
        assert_eq!(hostfile.clusters(), expected.map(|(name, bits)| (name.to_owned(), bits)).into());
        let without = Hostfile::parse("n1 cluster=a\n").expect("no mistakes").clusters();
        assert_eq!(without, [("a".to_owned(), None)].into());
        assert!(hostfile.unmeasured_links().is_empty());
        let open = Hostfile::parse("n1 cluster=a\nlink=a domain=d # somewhere\n").expect("no mistakes");
        let name = |name: &str, domain: Option<&str>| ClusterName {
            name: name.to_owned(),
            domain: domain.map(str::to_owned),
        };
        assert_eq!(open.cluster("a".to_owned()), name("a", Some("d")));
        assert_eq!(hostfile.cluster("fast".to_owned()), name("fast", None));
        assert_eq!((open.clusters(), open.unmeasured_links()), (without, ["a".to_owned()].into()));
    }

    #[test]
    fn mistakes_are_told_with_their_lines() {
        let told = |from: &str, to: &str| {
            let mistakes = Hostfile::parse(FILE.replacen(from, to, 1)).expect_err("a mistake");
            mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(
            told("link=fast", "link=quick"),
            "line 1: `link=quick`: no host is in that cluster (`cluster=quick` of a host)"
        );
        assert_eq!(told("link=slow", "link=fast"), "line 7: the link of cluster fast is in line 1 already");
        assert_eq!(
            told("1Gbit", "1GB"),
            "line 1: `bw=1GB`: a bandwidth is 500kbit, 40Mbit, 1Gbit or 2.5Gbit"
        );
        assert_eq!(told("bw=1Gbit", "bw=1bit bw=2bit"), "line 1: `bw=2bit`: the option is given twice");
        assert_eq!(
            told("bw=1Gbit", "sp=9"),
            "line 1: `sp=9`: the line of a link has no options but `bw=` and `domain=`"
        );
        assert!(
            told("bw=1Gbit", "domain=a/b")
                .starts_with("line 1: `domain=a/b`: the name of a domain is at most")
        );
        assert_eq!(told("bw=1Gbit", "domain=a domain=a"), "line 1: `domain=a`: the option is given twice");
        assert!(told("sp=500", "domain=a").starts_with("line 4: `domain=` belongs to the line of a link"));
        assert!(
            told("cluster=slow", "cluster=a/b").starts_with("line 4: `cluster=a/b`: the name of a cluster")
        );
        assert!(told("cluster=slow", "cluster=").starts_with("line 4: `cluster=`: the name of a cluster"));
        assert!(told("link=fast", "link=").starts_with("line 1: `link=`: the name of a cluster"));
        assert!(told("link=fast", "& link=fast").starts_with("line 1: the host's name is missing"));
        assert!(told("sp=500", "bw=1Gbit").starts_with("line 4: `bw=` belongs to the line of a link"));
        let long = format!("cluster={}", "x".repeat(NAME_MAX + 1));
        assert!(told("cluster=slow", &long).contains("at most 64"));
        let many: Vec<String> = (0..=CLUSTERS_MAX).map(|n| format!("h{n} cluster=c{n}\n")).collect();
        let mistakes = Hostfile::parse(many.concat()).expect_err("too many");
        assert_eq!(mistakes[0].to_string(), "line 1001: a hostfile has 1000 clusters at most");
    }
}
