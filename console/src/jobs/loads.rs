//! The loads of hosts, as a table and as JSON.

use super::tables::{duration, size};
use pvm3::LoadRecord;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// A line per host; `now` is in seconds since 1970.
pub fn table(loads: &[LoadRecord], now: u64) -> String {
    let mut text = format!(
        "{:<16} {:>6} {:>6} {:>6} {:>5} {:>7} {:>8} {:>8} {:>6} {:>10} {:>6}\n",
        "HOST", "1 MIN", "5 MIN", "15 MIN", "CPU", "OTHERS", "FREE", "MEMORY", "USERS", "UNUSED", "TASKS"
    );
    for LoadRecord { host, load } in loads {
        let Some(load) = load else {
            let _ = writeln!(text, "{host:<16} nothing has been heard of it yet");
            continue;
        };
        let [one, five, fifteen] = load.run_queue.map(|mean| f64::from(mean) / 100.0);
        let percent = |part: u16| format!("{:.0}%", f64::from(part) / 10.0);
        let unused = load
            .unused_for(now)
            .map_or_else(|| "-".to_owned(), |seconds| duration(seconds.saturating_mul(1000)));
        let _ = writeln!(
            text,
            "{host:<16} {one:>6.2} {five:>6.2} {fifteen:>6.2} {:>5} {:>7} {:>8} {:>8} {:>6} {unused:>10} {:>6}",
            percent(load.cpu[0]),
            percent(load.others[0]),
            size(load.free),
            size(load.memory),
            load.users,
            load.tasks,
        );
    }
    text
}

/// As programs read it.
pub fn json(loads: &[LoadRecord]) -> Value {
    let parts = |of: [u16; 3]| of.map(|part| f64::from(part) / 1000.0);
    let one = |LoadRecord { host, load }: &LoadRecord| {
        let Some(load) = load else { return json!({ "host": host, "known": false }) };
        json!({
            "host": host, "known": true, "run_queue": load.run_queue.map(|mean| f64::from(mean) / 100.0),
            "cpu": parts(load.cpu), "others": parts(load.others), "memory_bytes": load.memory,
            "free_bytes": load.free, "users": load.users, "input_s": load.input,
            "tasks": load.tasks, "cores": load.cores,
        })
    };
    json!({ "hosts": loads.iter().map(one).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvm3::LoadVector;

    #[test]
    fn a_host_is_a_line() {
        let load = LoadVector {
            run_queue: [150, 100, 25],
            cpu: [755, 500, 100],
            others: [250, 0, 0],
            memory: 16 << 30,
            free: 4 << 30,
            users: 2,
            input: Some(1000),
            tasks: 3,
            cores: 2,
        };
        let known = LoadRecord { host: "node1".into(), load: Some(load) };
        let loads = [known, LoadRecord { host: "node2".into(), load: None }];
        let text = table(&loads, 1090);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1],
            "node1              1.50   1.00   0.25   76%     25%     4.0G    16.0G      2    0:01:30      3"
        );
        assert_eq!(lines[2], "node2            nothing has been heard of it yet");
        let json = json(&loads);
        assert_eq!(
            (&json["hosts"][0]["run_queue"][0], &json["hosts"][0]["tasks"], &json["hosts"][1]["known"]),
            (&json!(1.5), &json!(3), &json!(false))
        );
    }
}
