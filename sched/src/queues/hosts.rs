//! The hosts that tasks run on: what they are, how busy, and which of them are meant by a name.

use super::Queue;
use pvm_wire::loads::LoadVector;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The part of its cores that others may keep busy on a host that counts as idle, in thousandths.
const IDLE_OTHERS: u16 = 250;

/// What a host is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its architecture.
    pub arch: String,
    /// `C_i`; 1000 is a reference core.
    pub capability: f64,
    /// `P`, in slots.
    pub slots: u32,
    /// The cluster that it belongs to, whose hosts share a link to all others.
    pub cluster: Option<String>,
}

/// A host, as the queues see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Node {
    pub host: Host,
    /// `P_c`: slots of tasks that it runs or has been given.
    pub used: u32,
    /// The last load that was heard.
    pub load: Option<LoadVector>,
    /// Rigid jobs that have tasks here.
    pub parallel: BTreeSet<u64>,
    /// Its owner is there: it is given nothing.
    pub is_with_owner: bool,
}

impl Node {
    pub fn new(host: Host) -> Self {
        Self { host, used: 0, load: None, parallel: BTreeSet::new(), is_with_owner: false }
    }

    pub fn free(&self) -> u32 {
        self.host.slots.saturating_sub(self.used)
    }

    /// How long a new task would take here, relative to others: the tasks that it was given, or what wants to run if that is more, and
    /// one more, per slot and speed.
    pub fn stretch(&self) -> f64 {
        let run_queue = self.load.map_or(0.0, |load| f64::from(load.run_queue[0]) / 100.0);
        let speed = self.host.capability.max(f64::MIN_POSITIVE) * f64::from(self.host.slots.max(1));
        (f64::from(self.used).max(run_queue) + 1.0) / speed
    }

    /// Whether the host is idle: its terminals have had no input for `seconds` seconds, and other programs keep at most a quarter of its
    /// cores busy. A host whose load is not known is not idle.
    pub fn is_idle(&self, seconds: u64, now: u64) -> bool {
        self.load.is_some_and(|load| {
            load.unused_for(now).is_none_or(|unused| unused >= seconds) && load.others[0] <= IDLE_OTHERS
        })
    }

    /// Whether others' work keeps less than this part of its cores busy, in thousandths, for long: batch decisions use the average over
    /// 15 minutes, except that a host that has just become busy counts as busy. A host whose load is not known may be.
    pub fn is_lighter_than(&self, thousandths: u16) -> bool {
        self.load.is_none_or(|load| load.others[0].max(load.others[2]) < thousandths)
    }
}

/// A named set of hosts, by their properties (a virtual cluster).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// Its name. `@name` stands for its hosts.
    pub name: String,
    /// Names of its hosts, `*` standing for any text; none: all.
    pub hosts: Vec<String>,
    /// Their architecture, if it matters.
    pub arch: Option<String>,
    /// The least capability.
    pub capability: Option<f64>,
    /// The least number of slots.
    pub slots: Option<u32>,
    /// The least memory, in bytes. A host whose memory is not known has not enough.
    pub memory: Option<u64>,
}

impl Cluster {
    pub(super) fn has(&self, node: &Node) -> bool {
        let Node { host, load, .. } = node;
        is_among(&self.hosts, &host.name)
            && self.arch.as_ref().is_none_or(|arch| *arch == host.arch)
            && self.capability.is_none_or(|least| host.capability >= least)
            && self.slots.is_none_or(|least| host.slots >= least)
            && self.memory.is_none_or(|least| load.is_some_and(|load| load.memory >= least))
    }
}

/// The queues and the clusters, as their file has them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    /// The queues.
    pub queues: Vec<Queue>,
    /// The clusters.
    pub clusters: Vec<Cluster>,
}

impl From<Vec<Queue>> for Configuration {
    fn from(queues: Vec<Queue>) -> Self {
        Self { queues, clusters: Vec::new() }
    }
}

impl Configuration {
    /// The first name of a cluster among these that is none, neither one of the file nor, as the function says, one of hosts.
    pub fn unknown_cluster<'a>(
        &self,
        names: &'a [String],
        is_of_hosts: impl Fn(&str) -> bool,
    ) -> Option<&'a str> {
        let mut clusters = names.iter().filter_map(|name| name.strip_prefix('@'));
        clusters.find(|name| !self.has_cluster(name) && !is_of_hosts(name))
    }

    /// Whether a cluster of the file has this name.
    pub fn has_cluster(&self, name: &str) -> bool {
        self.clusters.iter().any(|cluster| cluster.name == name)
    }

    /// Whether a host is meant by one of these: a name in which `*` stands for any text, or `@cluster`, which is one of the file or the
    /// host's own. Without any, all are.
    pub(super) fn are_for(&self, names: &[String], node: &Node) -> bool {
        let is_meant = |name: &String| match name.strip_prefix('@') {
            None => matches(name.as_bytes(), node.host.name.as_bytes()),
            Some(cluster) => {
                node.host.cluster.as_deref() == Some(cluster)
                    || self.clusters.iter().any(|other| other.name == cluster && other.has(node))
            }
        };
        names.is_empty() || names.iter().any(is_meant)
    }
}

fn is_among(patterns: &[String], name: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern.as_bytes(), name.as_bytes()))
}

/// Each `*` takes as little as it can, and more when the rest does not match: never more steps than the product of both lengths.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut in_name, mut star) = (0, 0, None);
    while in_name < name.len() {
        match (pattern.get(at), star) {
            (Some(b'*'), _) => {
                star = Some((at, in_name));
                at += 1;
            }
            (Some(byte), _) if *byte == name[in_name] => {
                at += 1;
                in_name += 1;
            }
            (_, Some((before, taken))) => {
                (at, in_name) = (before + 1, taken + 1);
                star = Some((before, taken + 1));
            }
            (_, None) => return false,
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> Node {
        Node::new(super::super::tests::a_host(name, 4))
    }

    fn names(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn patterns() {
        let among = |patterns: &[&str], name| is_among(&names(patterns), name);
        assert!(among(&[], "node1") && among(&["node*"], "node1") && among(&["a", "n*1"], "node1"));
        assert!(among(&["*"], "") && among(&["*e*1"], "node1") && among(&["node1"], "node1"));
        let (stars, name) = ("*a".repeat(100), "a".repeat(5000) + "b");
        assert!(!among(&[&stars], &name) && among(&[&format!("{stars}*")], &name));
        assert!(!among(&["node"], "node1") && !among(&["node*2"], "node1") && !among(&[""], "node1"));
    }

    #[test]
    fn a_cluster_has_the_hosts_of_its_properties() {
        let strong = Cluster {
            name: "strong".to_owned(),
            slots: Some(4),
            capability: Some(900.0),
            ..Cluster::default()
        };
        let large = Cluster {
            name: "large".to_owned(),
            hosts: names(&["n*"]),
            memory: Some(8 << 30),
            ..Cluster::default()
        };
        let with = Configuration { queues: Vec::new(), clusters: vec![strong, large] };
        let mut host = node("n1");
        assert!(with.are_for(&names(&["x", "@strong"]), &host) && !with.are_for(&names(&["@large"]), &host));
        host.load = Some(LoadVector { memory: 9 << 30, ..LoadVector::default() });
        assert!(with.are_for(&names(&["@large"]), &host) && with.are_for(&[], &host));
        host.host.capability = 800.0;
        assert!(!with.are_for(&names(&["@strong"]), &host) && !with.are_for(&names(&["@none"]), &host));
        let asked = names(&["n1", "@strong", "@none"]);
        assert_eq!(with.unknown_cluster(&asked, |_| false), Some("none"));
        assert_eq!(with.unknown_cluster(&asked, |name| name == "none"), None);
        host.host.cluster = Some("none".to_owned());
        assert!(with.are_for(&names(&["@none"]), &host));
    }

    #[test]
    fn idle_and_lightly_loaded_hosts() {
        let mut host = node("a");
        assert!(!host.is_idle(0, 0) && host.is_lighter_than(300), "nothing is known");
        let load = LoadVector { input: Some(1000), others: [100, 0, 200], ..LoadVector::default() };
        host.load = Some(load);
        assert!(!host.is_idle(600, 1599) && host.is_idle(600, 1600));
        assert!(host.is_lighter_than(201) && !host.is_lighter_than(200));
        host.load = Some(LoadVector { input: None, others: [900, 0, 0], ..load });
        assert!(!host.is_idle(600, 9999) && !host.is_lighter_than(300));
        let (idle, busy) =
            (node("b"), Node { load: Some(LoadVector { run_queue: [300; 3], ..load }), ..node("c") });
        assert!(
            idle.stretch() < busy.stretch() && busy.stretch() < Node { used: 4, ..busy.clone() }.stretch()
        );
    }
}
