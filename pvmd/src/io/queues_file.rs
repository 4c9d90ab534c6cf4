//! The file of queues, in TOML. A mistake is reported with its line, and nothing of the file counts.

use pvm_sched::queues::{Limits, Queue};
use pvm_wire::quantity;
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
    #[serde(default, deserialize_with = "time")]
    max_time: Option<u64>,
    #[serde(default, deserialize_with = "size")]
    max_memory: Option<u64>,
    max_width: Option<u32>,
    max_running: Option<u32>,
    max_running_per_user: Option<u32>,
    max_waiting: Option<usize>,
    max_waiting_per_user: Option<usize>,
}

fn name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    let is_good = !name.is_empty()
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter));
    if is_good { Ok(name) } else { Err(D::Error::custom("a queue's name has letters, digits, -, _ and .")) }
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    quantity::time(&String::deserialize(from)?).map(Some).map_err(D::Error::custom)
}

fn size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    quantity::size(&String::deserialize(from)?).map(Some).map_err(D::Error::custom)
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
        let Entry { name, priority, aging, hosts, .. } = entry;
        Self { name, priority, aging, hosts, limits }
    }
}

/// The queues of a file; without a file one that takes everything.
pub fn read(path: Option<&Path>) -> Result<Vec<Queue>, String> {
    let Some(path) = path else { return Ok(vec![Queue::open(DEFAULT)]) };
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("{shown}: {}", pvm_wire::plain(&error)))?;
    parse(&text).map_err(|reason| format!("{shown}: {reason}"))
}

fn parse(text: &str) -> Result<Vec<Queue>, String> {
    let File { queue } = toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
        format!("{line}{}", error.message())
    })?;
    if queue.is_empty() {
        return Err("it has no queue: write [[queue]] and name = \"…\"".to_owned());
    }
    let mut names = BTreeSet::new();
    match queue.iter().find(|entry| !names.insert(&entry.name)) {
        Some(twice) => Err(format!("there are two queues {}", twice.name)),
        None => Ok(queue.into_iter().map(Queue::from).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# Short jobs first.\n[[queue]]\nname = \"short\"\npriority = 10\nmax-time = \"1h\"\n\
        max-memory = \"4G\"\nhosts = [\"node*\"]\naging = \"2h\"\n\n[[queue]]\nname = \"long\"\nmax-running = 8\n";

    #[test]
    fn queues_have_what_the_file_says() {
        let queues = parse(FILE).unwrap();
        let [short, long] = &queues[..] else { panic!("{queues:?}") };
        assert_eq!(
            (short.priority, short.limits.time, short.limits.memory),
            (10, Some(3_600_000), Some(4 << 30))
        );
        assert_eq!(
            (short.aging, short.has_host("node7"), short.has_host("a")),
            (Some(7_200_000), true, false)
        );
        assert_eq!((long.name.as_str(), long.limits.running, long.has_host("a")), ("long", Some(8), true));
        assert_eq!(read(None).unwrap(), [Queue::open("default")]);
    }

    #[test]
    fn mistakes_are_named_with_their_lines() {
        let told = |from: &str, to: &str| parse(&FILE.replace(from, to)).expect_err("a mistake");
        assert!(told("max-running", "max-runing").contains("line 12: unknown field `max-runing`"));
        assert_eq!(
            told("\"1h\"", "\"1x\""),
            "line 5: \"1x\" is no time: write 90s, 15m, 1h30m, 2d or 1:30:00"
        );
        assert!(told("priority = 10", "priority = \"high\"").starts_with("line 4: "));
        assert!(told("\"long\"", "\"short\"").contains("two queues short"));
        assert!(told("name = \"long\"\n", "").contains("missing field `name`"));
        assert!(told("\"long\"", "\"a b\"").starts_with("line 11: a queue's name"));
        assert!(told("[[queue]]\nname = \"long\"", "[[queue]\nname = \"long\"").starts_with("line 10: "));
        assert!(parse("").expect_err("no queue").contains("no queue"));
        assert!(read(Some(Path::new("/no/file"))).expect_err("no file").contains("/no/file: "));
    }
}
