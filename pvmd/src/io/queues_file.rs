//! The file of queues and clusters, in TOML. A mistake is reported with its line, and nothing of the file counts.

use crate::io::settings;
use pvm_sched::coallocation::Strategy;
use pvm_sched::policy::{Policy, UnknownPolicy};
use pvm_sched::queues::{Cluster, Configuration, HostState, Hours, Limits, Queue};
use pvm_wire::quantity;
use pvm_wire::turn_rules::{NoTurnRule, TurnRule};
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The queue of a machine without a file.
const DEFAULT: &str = "default";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    queue: Vec<Entry>,
    #[serde(default)]
    cluster: Vec<ClusterEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ClusterEntry {
    #[serde(deserialize_with = "name")]
    name: String,
    #[serde(default)]
    hosts: Vec<String>,
    arch: Option<String>,
    min_speed: Option<f64>,
    min_slots: Option<u32>,
    #[serde(default, deserialize_with = "size")]
    min_memory: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Entry {
    #[serde(deserialize_with = "name")]
    name: String,
    #[serde(default)]
    priority: i32,
    #[serde(default, deserialize_with = "time")]
    aging: Option<u64>,
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default, deserialize_with = "hours")]
    hours: Option<Hours>,
    #[serde(default, deserialize_with = "time")]
    idle: Option<u64>,
    #[serde(default, deserialize_with = "part")]
    max_load: Option<u16>,
    #[serde(default)]
    one_parallel_job_per_host: bool,
    #[serde(default)]
    preempts: Vec<String>,
    #[serde(default, deserialize_with = "strategy")]
    coallocation: Option<Strategy>,
    #[serde(default, deserialize_with = "time")]
    max_time: Option<u64>,
    #[serde(default, deserialize_with = "size")]
    max_memory: Option<u64>,
    max_width: Option<u32>,
    max_running: Option<u32>,
    max_running_per_user: Option<u32>,
    max_waiting: Option<usize>,
    max_waiting_per_user: Option<usize>,
    #[serde(default, deserialize_with = "policy")]
    policy: Option<Policy>,
    #[serde(default, deserialize_with = "turns")]
    turns: Option<TurnRule>,
}

fn name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    let is_good = !name.is_empty()
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter));
    if is_good { Ok(name) } else { Err(D::Error::custom("a name has letters, digits, -, _ and .")) }
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    quantity::time(&String::deserialize(from)?).map(Some).map_err(D::Error::custom)
}

fn size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    quantity::size(&String::deserialize(from)?).map(Some).map_err(D::Error::custom)
}

fn hours<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Hours>, D::Error> {
    String::deserialize(from)?.parse().map(Some).map_err(D::Error::custom)
}

fn strategy<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Strategy>, D::Error> {
    let text = String::deserialize(from)?;
    let named = Strategy::REAL.into_iter().find(|strategy| strategy.name().eq_ignore_ascii_case(&text));
    let known = || Strategy::REAL.map(|strategy| strategy.name().to_ascii_lowercase()).join(", ");
    let wrong =
        || D::Error::custom(format!("{text:?} is no strategy of co-allocation: there are {}", known()));
    named.map(Some).ok_or_else(wrong)
}

fn policy<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Policy>, D::Error> {
    let named = String::deserialize(from)?.parse().map(Some);
    named.map_err(|error: UnknownPolicy| D::Error::custom(format!("policy: {error}")))
}

fn turns<'de, D: Deserializer<'de>>(from: D) -> Result<Option<TurnRule>, D::Error> {
    let name = String::deserialize(from)?;
    name.parse().map(Some).map_err(|known: NoTurnRule| D::Error::custom(format!("turns: {name:?}: {known}")))
}

/// A part of all cores, as thousandths.
fn part<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u16>, D::Error> {
    let part = f64::deserialize(from)?;
    if (0.0..=1.0).contains(&part) {
        return Ok(Some((part * 1000.0).round() as u16));
    }
    Err(D::Error::custom(format!("{part} is no part of a host's cores: write a number from 0.0 to 1.0")))
}

impl From<ClusterEntry> for Cluster {
    fn from(entry: ClusterEntry) -> Self {
        let ClusterEntry { name, hosts, arch, min_speed, min_slots, min_memory } = entry;
        Self { name, hosts, arch, capability: min_speed, slots: min_slots, memory: min_memory }
    }
}

impl From<Entry> for Queue {
    fn from(entry: Entry) -> Self {
        let limits = Limits {
            time: entry.max_time,
            memory: entry.max_memory,
            width: entry.max_width,
            running: entry.max_running,
            running_per_user: entry.max_running_per_user,
            waiting: entry.max_waiting,
            waiting_per_user: entry.max_waiting_per_user,
        };
        let when = HostState {
            idle: entry.idle.map(|milliseconds| milliseconds / 1000),
            load: entry.max_load,
            one_parallel: entry.one_parallel_job_per_host,
        };
        let Entry { name, priority, aging, hosts, hours, preempts, coallocation, policy, turns, .. } = entry;
        Self { name, priority, aging, hosts, when, hours, preempts, coallocation, limits, policy, turns }
    }
}

/// The queues and clusters of a file; without a file one queue that takes everything. The names are those of clusters of hosts.
pub fn read(path: Option<&Path>, of_hosts: &BTreeSet<String>) -> Result<Configuration, String> {
    let Some(path) = path else { return Ok(vec![Queue::open(DEFAULT)].into()) };
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("{shown}: {}", pvm_wire::plain(&error)))?;
    parse(&text, of_hosts).map_err(|reason| format!("{shown}: {reason}"))
}

/// The same from where the settings say that the file is: the usual one may be there now that was not at the start.
pub fn read_again(of_hosts: &BTreeSet<String>) -> Result<Configuration, String> {
    let path = settings::queues().map_err(|error| error.to_string())?;
    read(path.as_deref(), of_hosts)
}

fn parse(text: &str, of_hosts: &BTreeSet<String>) -> Result<Configuration, String> {
    let File { queue, cluster } = toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
        format!("{line}{}", error.message())
    })?;
    if queue.is_empty() {
        return Err("it has no queue: write [[queue]] and name = \"…\"".to_owned());
    }
    let mut names = BTreeSet::new();
    if let Some(twice) = queue.iter().find(|entry| !names.insert(&entry.name)) {
        return Err(format!("there are two queues {}", twice.name));
    }
    names.clear();
    if let Some(twice) = cluster.iter().find(|entry| !names.insert(&entry.name)) {
        return Err(format!("there are two clusters {}", twice.name));
    }
    if let Some(both) = cluster.iter().find(|entry| of_hosts.contains(&entry.name)) {
        let name = &both.name;
        return Err(format!(
            "cluster {name}: hosts of the machine are in a cluster of this name (cluster={name} in the hostfile); give one of them another name"
        ));
    }
    let queues = queue.into_iter().map(Queue::from).collect();
    let all = Configuration { queues, clusters: cluster.into_iter().map(Cluster::from).collect() };
    all.queues.iter().try_for_each(|queue| check(queue, &all, of_hosts)).map(|()| all)
}

/// What a queue says of other queues and of clusters.
fn check(queue: &Queue, all: &Configuration, of_hosts: &BTreeSet<String>) -> Result<(), String> {
    let name = &queue.name;
    if let Some(cluster) = all.unknown_cluster(&queue.hosts, |name| of_hosts.contains(name)) {
        return Err(format!("queue {name}, hosts: there is no cluster {cluster}"));
    }
    for other in &queue.preempts {
        match all.queues.iter().find(|queue| queue.name == *other) {
            None => return Err(format!("queue {name}, preempts: there is no queue {other}")),
            Some(found) if found.priority >= queue.priority => {
                return Err(format!("queue {name}, preempts: the priority of queue {other} is not lower"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Configuration, String> {
        super::parse(text, &BTreeSet::from(["east".to_owned()]))
    }

    const FILE: &str = "# Short jobs first.\n[[queue]]\nname = \"short\"\npriority = 10\nmax-time = \"1h\"\n\
        max-memory = \"4G\"\nhosts = [\"node*\"]\naging = \"2h\"\n\n[[queue]]\nname = \"long\"\nmax-running = 8\n";

    #[test]
    fn queues_have_what_the_file_says() {
        let queues = parse(FILE).unwrap().queues;
        let [short, long] = &queues[..] else { panic!("{queues:?}") };
        assert_eq!(
            (short.priority, short.limits.time, short.limits.memory),
            (10, Some(3_600_000), Some(4 << 30))
        );
        assert_eq!((short.aging, &short.hosts[..]), (Some(7_200_000), &["node*".to_owned()][..]));
        assert_eq!((long.name.as_str(), long.limits.running, long.hosts.len()), ("long", Some(8), 0));
        assert_eq!(read(None, &BTreeSet::new()).unwrap().queues, [Queue::open("default")]);
    }

    const HOSTS: &str = "[[cluster]]\nname = \"strong\"\nmin-speed = 900.0\nmin-memory = \"8G\"\n\n\
        [[queue]]\nname = \"guest\"\npriority = 1\nhosts = [\"@strong\"]\nhours = \"Mon-Fri 18:00-08:00\"\n\
        idle = \"10m\"\nmax-load = 0.3\none-parallel-job-per-host = true\npreempts = [\"rest\"]\n\n\
        [[queue]]\nname = \"rest\"\n";

    #[test]
    fn queues_choose_hosts() {
        let Configuration { queues, clusters } = parse(HOSTS).unwrap();
        assert_eq!(queues[0].when, HostState { idle: Some(600), load: Some(300), one_parallel: true });
        assert_eq!((clusters[0].capability, clusters[0].memory), (Some(900.0), Some(8 << 30)));
        let told = |from: &str, to: &str| parse(&HOSTS.replacen(from, to, 1)).expect_err("a mistake");
        assert_eq!(told("@strong", "@weak"), "queue guest, hosts: there is no cluster weak");
        assert_eq!(told("[\"rest", "[\"all"), "queue guest, preempts: there is no queue all");
        assert_eq!(
            told("priority = 1", ""),
            "queue guest, preempts: the priority of queue rest is not lower"
        );
        assert!(told("Mon-Fri 18", "Mon-Fr 18").starts_with("line 10: \"Mon-Fr 18:00-08:00\" is no hours"));
        assert!(told("0.3", "30.0").starts_with("line 12: 30 is no part of a host's cores"));
        assert!(told("min-speed", "speed").contains("unknown field `speed`"));
        assert!(
            told("[[queue]]\nname = \"rest\"", "[[cluster]]\nname = \"strong\"\n[[queue]]\nname = \"rest\"")
                .contains("two clusters")
        );
    }

    #[test]
    fn queues_place_parallel_jobs_over_clusters_of_hosts() {
        let text = "[[queue]]\nname = \"wide\"\nhosts = [\"@east\"]\ncoallocation = \"no-share\"\n";
        assert_eq!(parse(text).unwrap().queues[0].coallocation, Some(Strategy::NoShare));
        assert_eq!(parse(FILE).unwrap().queues[0].coallocation, None);
        for strategy in Strategy::REAL {
            let name = strategy.name().to_ascii_lowercase();
            assert_eq!(
                parse(&text.replace("no-share", &name)).unwrap().queues[0].coallocation,
                Some(strategy)
            );
        }
        for wrong in ["idea", "best", ""] {
            let told = parse(&text.replace("no-share", wrong)).expect_err("no strategy");
            let known = "there are bfnp, sncp, shfp, shfnp, scca, no-share";
            assert_eq!(told, format!("line 4: {wrong:?} is no strategy of co-allocation: {known}"));
        }
        assert_eq!(
            parse(&text.replace("@east", "@west")).expect_err("no cluster"),
            "queue wide, hosts: there is no cluster west"
        );
        let clash = parse(&format!("[[cluster]]\nname = \"east\"\n{text}")).expect_err("two of a name");
        assert!(
            clash.starts_with("cluster east: hosts of the machine are in a cluster of this name"),
            "{clash}"
        );
    }

    #[test]
    fn a_queue_may_name_any_policy() {
        for policy in Policy::ALL {
            let queues =
                parse(&FILE.replace("priority = 10", &format!("policy = \"{policy}\""))).unwrap().queues;
            assert_eq!((queues[0].policy, queues[1].policy), (Some(policy), None));
        }
    }

    #[test]
    fn a_queue_says_how_teams_of_its_jobs_take_turns() {
        let with = |line: &str| parse(&FILE.replace("priority = 10", line));
        for rule in TurnRule::ALL {
            let queues = with(&format!("turns = \"{}\"", rule.name())).unwrap().queues;
            assert_eq!((queues[0].turns, queues[1].turns), (Some(rule), None));
        }
        assert_eq!(
            with("turns = \"dasic\"").expect_err("no rule"),
            "line 4: turns: \"dasic\": teams take turns by \"rows\", by \"demand\" or not at all, \"none\""
        );
        for wrong in ["turns = \"\"", "turns = true", "turns = [\"rows\"]", "turn = \"rows\""] {
            assert!(with(wrong).expect_err("a mistake").starts_with("line 4: "), "{wrong}");
        }
    }

    #[test]
    fn mistakes_are_named_with_their_lines() {
        let told = |from: &str, to: &str| parse(&FILE.replace(from, to)).expect_err("a mistake");
        let policy = told("priority = 10", "policy = \"fifo\"");
        assert!(
            policy.starts_with("line 4: policy: unknown policy \"fifo\"; choose one of active-"),
            "{policy}"
        );
        assert!(told("priority = 10", "policy = 3").starts_with("line 4: "));
        assert!(told("max-running", "max-runing").contains("line 12: unknown field `max-runing`"));
        assert_eq!(
            told("\"1h\"", "\"1x\""),
            "line 5: \"1x\" is no time: write 90s, 15m, 1h30m, 2d or 1:30:00"
        );
        assert!(told("priority = 10", "priority = \"high\"").starts_with("line 4: "));
        assert!(told("\"long\"", "\"short\"").contains("two queues short"));
        assert!(told("name = \"long\"\n", "").contains("missing field `name`"));
        assert!(told("\"long\"", "\"a b\"").starts_with("line 11: a name has"));
        assert!(told("[[queue]]\nname = \"long\"", "[[queue]\nname = \"long\"").starts_with("line 10: "));
        assert!(parse("").expect_err("no queue").contains("no queue"));
        assert!(
            read(Some(Path::new("/no/file")), &BTreeSet::new()).expect_err("no file").contains("/no/file: ")
        );
    }
}
