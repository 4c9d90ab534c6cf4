//! A summary as tables, and as JSON.

use super::critical::What;
use super::record::{Awaited, DOINGS, Doing, Moment, Record};
use super::summary::{Matrix, Summary, Times, Traffic, Waits};
use crate::jobs::tables::size;
use crate::shell::tables::counted;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// Rows of the largest matrix that is printed as a square; a larger one is printed as a list of pairs.
const MATRIX_MAX: usize = 12;

/// All tables, each with at most `lines` rows.
pub fn tables(record: &Record, summary: &Summary, lines: usize) -> String {
    let mut text = head(record, summary);
    text.push_str(&tasks(record, summary, lines));
    text.push_str(&waits(record, &summary.waits, lines));
    text.push_str(&path(record, summary, lines));
    text.push_str(&messages(record, summary, lines));
    text
}

fn head(record: &Record, summary: &Summary) -> String {
    let Traffic { messages, bytes } = summary.traffic;
    format!(
        "{} on {}, {}; {} received, {}\n",
        counted(record.tasks.len(), "task"),
        counted(record.hosts.len(), "host"),
        time(record.length()),
        counted(usize::try_from(messages).unwrap_or(usize::MAX), "message"),
        bytes_of(bytes),
    )
}

/// Times per task, the longest wait first.
fn tasks(record: &Record, summary: &Summary, lines: usize) -> String {
    let mut text = String::from("\nWhat tasks did, longest wait first\n");
    let _ = write!(text, "{:>10} {:>16} {:>16} {:>9}", "TASK", "HOST", "PROGRAM", "LIFE");
    text.push_str(&doing_columns(|doing| doing.name().to_uppercase()));
    let mut order: Vec<usize> = (0..record.tasks.len()).collect();
    order.sort_by_key(|&task| -summary.tasks[task].of(Doing::Waiting));
    for &number in order.iter().take(lines) {
        let (task, times) = (&record.tasks[number], &summary.tasks[number]);
        let (host, program) = (short(&record.hosts[task.host], 16), short(&task.program, 16));
        let _ = write!(text, "{:>10} {host:>16} {program:>16} {:>9}", task.id, time(task.end - task.begin));
        text.push_str(&doing_columns(|doing| share(times.of(doing), times.sum())));
    }
    text + &more(order.len(), lines)
}

fn waits(record: &Record, waits: &[Waits], lines: usize) -> String {
    let mut text = String::from("\nLongest waits, by task and cause\n");
    if waits.is_empty() {
        text.push_str("  none\n");
        return text;
    }
    let _ = writeln!(
        text,
        "{:>10} {:>24} {:>9} {:>9} {:>9}",
        "TASK", "WAITED FOR", "TIMES", "TOGETHER", "LONGEST"
    );
    for waits in waits.iter().take(lines) {
        let Waits { task, awaited, count, time: together, longest } = waits;
        let awaited = short(&name(awaited), 24);
        let (task, together, longest) = (&record.tasks[*task].id, time(*together), time(*longest));
        let _ = writeln!(text, "{task:>10} {awaited:>24} {count:>9} {together:>9} {longest:>9}");
    }
    text + &more(waits.len(), lines)
}

fn path(record: &Record, summary: &Summary, lines: usize) -> String {
    let length: Moment = summary.path.iter().map(|step| step.end - step.begin).sum();
    let mut text = format!(
        "\nCritical path: {}, in {} tasks; messages under way: {}, tasks being started: {}\n",
        time(length),
        summary.on_path.len(),
        share(summary.under_way, length),
        share(summary.starting, length),
    );
    let _ = write!(text, "{:>10} {:>16} {:>9} {:>9}", "TASK", "PROGRAM", "ON IT", "SHARE");
    text.push_str(&doing_columns(|doing| doing.name().to_uppercase()));
    for one in summary.on_path.iter().take(lines) {
        let (task, sum) = (&record.tasks[one.task], one.times.sum());
        let program = short(&task.program, 16);
        let _ = write!(text, "{:>10} {program:>16} {:>9} {:>9}", task.id, time(sum), share(sum, length));
        text.push_str(&doing_columns(|doing| share(one.times.of(doing), length)));
    }
    text + &more(summary.on_path.len(), lines)
}

fn messages(record: &Record, summary: &Summary, lines: usize) -> String {
    if summary.traffic.messages == 0 {
        return "\nNo message was received.\n".to_owned();
    }
    let of_tasks = record.tasks.len() <= MATRIX_MAX;
    let (what, names, matrix): (_, Vec<&str>, _) = if of_tasks {
        ("tasks", record.tasks.iter().map(|task| &*task.id).collect(), &summary.tasks_matrix)
    } else {
        ("hosts", record.hosts.iter().map(|host| &**host).collect(), &summary.hosts_matrix)
    };
    let table = if names.len() <= MATRIX_MAX { square(&names, matrix) } else { pairs(&names, matrix, lines) };
    format!("\nMessages between {what}\n{table}")
}

/// Rows send, columns receive.
fn square(names: &[&str], matrix: &Matrix) -> String {
    let mut text = format!("{:>16}", "from \\ to");
    for name in names {
        let _ = write!(text, " {:>10}", short(name, 10));
    }
    text.push('\n');
    for (from, name) in names.iter().enumerate() {
        let _ = write!(text, "{:>16}", short(name, 16));
        for to in 0..names.len() {
            let count =
                matrix.get(&(from, to)).map_or_else(|| "-".to_owned(), |cell| cell.messages.to_string());
            let _ = write!(text, " {count:>10}");
        }
        text.push('\n');
    }
    text
}

fn pairs(names: &[&str], matrix: &Matrix, lines: usize) -> String {
    let mut text = format!("{:>16} {:>16} {:>10} {:>10}\n", "FROM", "TO", "MESSAGES", "BYTES");
    let mut order: Vec<_> = matrix.iter().collect();
    order.sort_by_key(|(_, traffic)| std::cmp::Reverse(traffic.messages));
    for &(&(from, to), traffic) in order.iter().take(lines) {
        let (from, to) = (short(names[from], 16), short(names[to], 16));
        let _ = writeln!(text, "{from:>16} {to:>16} {:>10} {:>10}", traffic.messages, size(traffic.bytes));
    }
    text + &more(order.len(), lines)
}

/// The end of a line: a column for each of what there is to do.
fn doing_columns(cell: impl Fn(Doing) -> String) -> String {
    let mut cells = String::new();
    for doing in DOINGS {
        let _ = write!(cells, " {:>9}", cell(doing));
    }
    cells + "\n"
}

/// How many lines a table does not show.
fn more(count: usize, lines: usize) -> String {
    if count > lines { format!("{:>10} more (--lines)\n", count - lines) } else { String::new() }
}

/// The cause of a wait, as tables name it.
pub fn name(awaited: &Awaited) -> String {
    match awaited {
        Awaited::Task(id) => id.clone(),
        Awaited::Group(call) => call.clone(),
        Awaited::Nothing => "nothing that came".to_owned(),
    }
}

/// The begin of a name that is too long for its column.
fn short(name: &str, width: usize) -> String {
    if name.chars().count() <= width {
        return name.to_owned();
    }
    name.chars().take(width - 1).chain(['…']).collect()
}

fn bytes_of(bytes: u64) -> String {
    if bytes < 1024 { format!("{bytes} bytes") } else { format!("{}B", size(bytes)) }
}

/// A time in the unit in which it has one to three digits before its point.
pub fn time(nanos: Moment) -> String {
    let nanos = nanos as f64;
    match nanos {
        ..1e6 => format!("{:.1}us", nanos / 1e3),
        ..1e9 => format!("{:.1}ms", nanos / 1e6),
        ..1e13 => format!("{:.2}s", nanos / 1e9),
        _ => format!("{:.1}h", nanos / 3.6e12),
    }
}

fn share(part: Moment, whole: Moment) -> String {
    if part == 0 { "-".to_owned() } else { format!("{:.1}%", 100.0 * part as f64 / whole.max(1) as f64) }
}

/// All of it, times in nanoseconds.
pub fn json(record: &Record, summary: &Summary) -> Value {
    let tasks = record.tasks.iter().zip(&summary.tasks).map(|(task, times)| {
        let mut value = json!({
            "task": task.id, "host": record.hosts[task.host], "program": task.program,
            "begin_ns": task.begin, "end_ns": task.end,
        });
        if let Value::Object(value) = &mut value {
            value.extend(of_times(times));
        }
        value
    });
    let waits = summary.waits.iter().map(|waits| {
        let (kind, name) = match &waits.awaited {
            Awaited::Task(id) => ("task", Some(id)),
            Awaited::Group(call) => ("group", Some(call)),
            Awaited::Nothing => ("nothing", None),
        };
        json!({
            "task": record.tasks[waits.task].id, "kind": kind, "for": name, "count": waits.count,
            "ns": waits.time, "longest_ns": waits.longest,
        })
    });
    let path = summary.path.iter().map(|step| match step.what {
        What::Task(task) => json!({ "task": record.tasks[task].id, "begin_ns": step.begin, "end_ns": step.end }),
        What::Start(task) => json!({ "start": record.tasks[task].id, "begin_ns": step.begin, "end_ns": step.end }),
        What::Message { from, to } => json!({
            "from": record.tasks[from].id, "to": record.tasks[to].id, "begin_ns": step.begin, "end_ns": step.end,
        }),
    });
    let task_names: Vec<&str> = record.tasks.iter().map(|task| &*task.id).collect();
    let host_names: Vec<&str> = record.hosts.iter().map(|host| &**host).collect();
    json!({
        "length_ns": record.length(),
        "tasks": tasks.collect::<Vec<_>>(),
        "waits": waits.collect::<Vec<_>>(),
        "critical_path": path.collect::<Vec<_>>(),
        "messages": of_matrix(&task_names, &summary.tasks_matrix),
        "messages_between_hosts": of_matrix(&host_names, &summary.hosts_matrix),
    })
}

fn of_times(times: &Times) -> Map<String, Value> {
    DOINGS.iter().map(|&doing| (format!("{}_ns", doing.name()), json!(times.of(doing)))).collect()
}

fn of_matrix(names: &[&str], matrix: &Matrix) -> Vec<Value> {
    let cell = |(&(from, to), traffic): (&(usize, usize), &Traffic)| {
        json!({
            "from": names[from], "to": names[to], "messages": traffic.messages, "bytes": traffic.bytes,
        })
    };
    matrix.iter().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::file;
    use crate::trace::summary::tests::FARM;

    #[test]
    fn tables_are_bounded_and_say_what_is_left_out() {
        let record = file::read(FARM.as_bytes()).unwrap();
        let summary = Summary::of(&record);
        let text = tables(&record, &summary, 10);
        assert!(text.starts_with("3 tasks on 2 hosts, 100.0ms; 2 messages received, 300 bytes\n"), "{text}");
        for line in [
            "    t40001            node1             farm   100.0ms     10.0%     87.0%         -      2.0%      1.0%",
            "    t40001                   t80002         1    70.0ms    70.0ms",
            "Critical path: 100.0ms, in 2 tasks; messages under way: 2.0%, tasks being started: -",
            "    t80002             work    86.0ms     86.0%     86.0%         -         -         -         -",
            "          t80001          1          -          -",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        let shortened = tables(&record, &summary, 1);
        assert_eq!(shortened.matches("more (--lines)").count(), 3, "{shortened}");
        assert!(shortened.contains("         2 more (--lines)"), "{shortened}");
    }

    #[test]
    fn json_has_all_times_in_nanoseconds() {
        let record = file::read(FARM.as_bytes()).unwrap();
        let value = json(&record, &Summary::of(&record));
        assert_eq!(value["length_ns"], 100_000_000);
        assert_eq!(value["tasks"][0]["waiting_ns"], 87_000_000);
        assert_eq!(value["waits"][0]["for"], "t80002");
        assert_eq!(value["critical_path"][2]["from"], "t80002");
        assert_eq!(value["messages_between_hosts"][0]["bytes"], 300);
    }

    #[test]
    fn times_have_units() {
        let told = [0, 1_500, 2_000_000, 1_234_000_000, 100_000_000_000_000].map(time);
        assert_eq!(told, ["0.0us", "1.5us", "2.0ms", "1.23s", "27.8h"]);
    }
}
