//! Jobs and queues, as tables and as JSON.

use super::clusters::{host_list, rate};
use pvm3::{ClusterRecord, ClusterShare, JobRecord, JobState, JobTasks, QueueRecord};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// The command of a job in a table is cut to this.
const COMMAND: usize = 40;

/// A line per job that has not ended; times are milliseconds since 1970.
pub fn jobs(jobs: &[JobRecord], now: u64) -> String {
    let mut text = format!(
        "{:>6} {:<12} {:<10} {:<10} {:<9} {:>13} {:>9}  {}\n",
        "JOB", "NAME", "USER", "QUEUE", "STATE", "TASKS", "TIME", "WAITS FOR, OR RUNS ON"
    );
    for job in jobs {
        let since = job.started.unwrap_or(job.submitted);
        let note = if job.reason.is_empty() { job.hosts.join(",") } else { job.reason.clone() };
        let _ = writeln!(
            text,
            "{:>6} {:<12} {:<10} {:<10} {:<9} {:>13} {:>9}  {note}",
            job.id,
            job.name,
            job.user,
            job.queue,
            job.state.name(),
            progress(job),
            duration(now.saturating_sub(since)),
        );
    }
    text
}

/// A line per job that has ended.
pub fn history(jobs: &[JobRecord]) -> String {
    let mut text = format!(
        "{:>6} {:<12} {:<10} {:<9} {:>9} {:>9} {:>9} {:>9}  {}\n",
        "JOB", "NAME", "USER", "STATE", "WAITED", "RAN", "CPU", "MEMORY", "COMMAND"
    );
    for job in jobs {
        let begun = job.started.or(job.ended).unwrap_or(job.submitted);
        let _ = writeln!(
            text,
            "{:>6} {:<12} {:<10} {:<9} {:>9} {:>9} {:>9} {:>9}  {}",
            job.id,
            job.name,
            job.user,
            job.state.name(),
            duration(begun.saturating_sub(job.submitted)),
            job.ended
                .filter(|_| job.started.is_some())
                .map_or_else(|| "-".to_owned(), |end| duration(end - begun.min(end))),
            duration(job.cpu / 1000),
            size(job.memory),
            command(job),
        );
    }
    text
}

/// All of a job, a line for each property.
pub fn job(job: &JobRecord) -> String {
    let time = |time: Option<u64>| time.map_or_else(|| "-".to_owned(), moment);
    let tasks = match job.tasks {
        JobTasks::Rigid(count) => format!("{count} at once"),
        JobTasks::Array { count: 1, .. } => "1".to_owned(),
        JobTasks::Array { first, count, at_once } => {
            let most = at_once.map(|most| format!(", {most} at a time")).unwrap_or_default();
            format!("{count}, numbers {first} to {}{most}", first + (count - 1))
        }
    };
    let rows = [
        ("job", job.id.to_string()),
        ("name", job.name.clone()),
        ("user", job.user.clone()),
        ("queue", job.queue.clone()),
        ("state", job.state.name().to_owned()),
        ("reason", job.reason.clone()),
        ("command", command_line(job)),
        ("folder", job.directory.display().to_string()),
        ("tasks", tasks),
        ("slots of each", job.slots.to_string()),
        ("waiting", job.waiting.to_string()),
        ("running", job.running.to_string()),
        ("done", job.done.to_string()),
        ("failed", job.failed.to_string()),
        ("cancelled", job.cancelled.to_string()),
        ("restarts", job.restarts.to_string()),
        ("hosts", job.hosts.join(", ")),
        ("clusters", shares(&job.run.clusters)),
        ("bandwidth", between_two(job.run.bandwidth)),
        ("measured", between_two(job.run.measured.unwrap_or(0))),
        ("submitted", time(Some(job.submitted))),
        ("started", time(job.started)),
        ("predicted end", job.run.predicted.map_or_else(String::new, moment)),
        ("ended", time(job.ended)),
        ("CPU time", duration(job.cpu / 1000)),
        ("memory", size(job.memory)),
    ];
    let shown = rows.into_iter().filter(|(_, value)| !value.is_empty());
    shown.fold(String::new(), |text, (name, value)| format!("{text}{name:<14} {value}\n"))
}

/// Tasks by cluster; nothing if they have only hosts without one.
fn shares(clusters: &[ClusterShare]) -> String {
    if clusters.iter().all(|share| share.cluster.is_none()) {
        return String::new();
    }
    let text = |share: &ClusterShare| format!("{} {}", share.cluster.as_deref().unwrap_or("-"), share.tasks);
    clusters.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn between_two(bits: u64) -> String {
    if bits == 0 { String::new() } else { format!("{}/s between two tasks", rate(bits as f64)) }
}

/// A line per queue.
pub fn queues(queues: &[QueueRecord]) -> String {
    let mut text =
        format!("{:<12} {:>8} {:>7} {:>7}  {}\n", "QUEUE", "PRIORITY", "WAITING", "SLOTS", "PROPERTIES");
    for queue in queues {
        let limits = queue.limits.iter().map(|(name, value)| format!("{name}={value}"));
        let hosts = (!queue.hosts.is_empty()).then(|| format!("hosts={}", queue.hosts.join(",")));
        let closed = (!queue.is_open).then(|| "(starts nothing now)".to_owned());
        let notes: Vec<String> = limits.chain(hosts).chain(closed).collect();
        let QueueRecord { name, priority, waiting, running, .. } = queue;
        let _ = writeln!(text, "{name:<12} {priority:>8} {waiting:>7} {running:>7}  {}", notes.join(" "));
    }
    text
}

/// A line per cluster, below those of the queues; nothing if there are none.
pub fn clusters(clusters: &[ClusterRecord]) -> String {
    let mut text = String::new();
    for cluster in clusters {
        let _ = writeln!(text, "@{}: {}", cluster.name, host_list(&cluster.hosts));
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

/// As programs read it.
pub fn cluster_json(cluster: &ClusterRecord) -> Value {
    json!({ "name": cluster.name, "hosts": cluster.hosts })
}

/// As programs read it.
pub fn job_json(job: &JobRecord) -> Value {
    let (first, at_once, rigid) = match job.tasks {
        JobTasks::Array { first, at_once, .. } => (first, at_once, false),
        JobTasks::Rigid(_) => (0, None, true),
    };
    let command: Vec<String> = job.command.iter().map(|word| word.display().to_string()).collect();
    let share = |share: &ClusterShare| json!({ "cluster": share.cluster, "tasks": share.tasks });
    json!({
        "id": job.id.0, "name": job.name, "user": job.user, "queue": job.queue, "state": job.state.name(),
        "reason": job.reason, "command": command, "directory": job.directory.display().to_string(),
        "tasks": job.tasks.count(), "first": first, "at_once": at_once, "rigid": rigid, "slots": job.slots,
        "waiting": job.waiting, "running": job.running, "done": job.done, "failed": job.failed,
        "cancelled": job.cancelled, "restarts": job.restarts, "hosts": job.hosts,
        "submitted_ms": job.submitted, "started_ms": job.started, "ended_ms": job.ended,
        "cpu_us": job.cpu, "memory_bytes": job.memory, "status": job.status,
        "clusters": job.run.clusters.iter().map(share).collect::<Vec<_>>(),
        "predicted_end_ms": job.run.predicted, "bandwidth_bps": job.run.bandwidth,
        "measured_bps": job.run.measured,
    })
}

/// As programs read it.
pub fn queue_json(queue: &QueueRecord) -> Value {
    let limits: serde_json::Map<String, Value> =
        queue.limits.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({
        "name": queue.name, "priority": queue.priority, "hosts": queue.hosts, "limits": limits,
        "open": queue.is_open, "waiting": queue.waiting, "running": queue.running,
    })
}

fn progress(job: &JobRecord) -> String {
    let ended = job.done + job.failed + job.cancelled;
    match job.tasks {
        JobTasks::Rigid(count) => format!("{count} at once"),
        JobTasks::Array { count: 1, .. } => "1".to_owned(),
        JobTasks::Array { count, .. } => format!("{ended} of {count}"),
    }
}

fn command(job: &JobRecord) -> String {
    let program =
        job.command.first().map(|file| Path::new(file).file_name().unwrap_or(file).display().to_string());
    let args = job.command.iter().skip(1).map(|word| word.display().to_string());
    let line: Vec<String> = program.into_iter().chain(args).collect();
    let line = line.join(" ");
    match line.char_indices().nth(COMMAND) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn command_line(job: &JobRecord) -> String {
    let words: Vec<String> = job.command.iter().map(|word| word.display().to_string()).collect();
    words.join(" ")
}

/// A time span, from milliseconds.
pub fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        0..60 => format!("{seconds}.{}s", milliseconds % 1000 / 100),
        60..86_400 => format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60),
        _ => format!("{}d {:02}:{:02}", seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60),
    }
}

/// Bytes, in powers of 1024.
pub fn size(bytes: u64) -> String {
    let units = ["K", "M", "G", "T"];
    let exponent = (bytes.max(1).ilog2() / 10).min(4) as usize;
    match exponent {
        0 if bytes == 0 => "-".to_owned(),
        0 => format!("{bytes}"),
        exponent => format!("{:.1}{}", bytes as f64 / (1_u64 << (10 * exponent)) as f64, units[exponent - 1]),
    }
}

/// A moment in local time, from milliseconds since 1970.
fn moment(milliseconds: u64) -> String {
    let time = jiff::Timestamp::from_millisecond(i64::try_from(milliseconds).unwrap_or(i64::MAX));
    let local = time.map(|time| time.to_zoned(jiff::tz::TimeZone::system()));
    local.map_or_else(|_| milliseconds.to_string(), |time| time.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// Whether all tasks of a job have ended well.
pub fn is_good(job: &JobRecord) -> bool {
    job.state == JobState::Done
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvm3::{JobId, RunRecord};

    fn record() -> JobRecord {
        JobRecord {
            id: JobId(17),
            name: "sweep".into(),
            user: "ann".into(),
            queue: "short".into(),
            state: JobState::Running,
            reason: String::new(),
            tasks: JobTasks::Array { first: 1, count: 200, at_once: Some(10) },
            slots: 1,
            command: vec!["/home/ann/run.sh".into(), "-v".into()],
            directory: "/home/ann".into(),
            waiting: 100,
            running: 10,
            done: 88,
            failed: 2,
            cancelled: 0,
            restarts: 0,
            hosts: vec!["a".into(), "b".into()],
            submitted: 1000,
            started: Some(5000),
            ended: None,
            cpu: 3_723_000_000,
            memory: 3 << 20,
            status: 0,
            lent: None,
            origin: None,
            may_be_lent: false,
            run: RunRecord::default(),
        }
    }

    #[test]
    fn a_job_is_a_line() {
        let table = jobs(&[record()], 70_000);
        let line = table.lines().nth(1).unwrap();
        assert_eq!(line, "    17 sweep        ann        short      running       90 of 200   0:01:05  a,b");
        let ended = JobRecord { ended: Some(9500), state: JobState::Failed, ..record() };
        let line = history(&[ended]).lines().nth(1).unwrap().to_owned();
        assert_eq!(
            line,
            "    17 sweep        ann        failed         4.0s      4.5s   1:02:03      3.0M  run.sh -v"
        );
    }

    #[test]
    fn all_of_a_job() {
        let text = job(&record());
        assert!(text.contains("tasks          200, numbers 1 to 200, 10 at a time\n"), "{text}");
        assert!(text.contains("command        /home/ann/run.sh -v\n") && !text.contains("reason"), "{text}");
        let json = job_json(&record());
        assert_eq!(
            (&json["id"], &json["state"], &json["at_once"]),
            (&json!(17), &json!("running"), &json!(10))
        );
    }

    #[test]
    fn a_parallel_job_over_clusters_has_a_predicted_end() {
        let share =
            |cluster: Option<&str>, tasks| ClusterShare { cluster: cluster.map(str::to_owned), tasks };
        let clusters = vec![share(None, 1), share(Some("east"), 3)];
        let run =
            RunRecord { clusters, predicted: Some(90_000), bandwidth: 40_000_000, measured: Some(1_500_000) };
        let record = JobRecord { tasks: JobTasks::Rigid(4), run, ..record() };
        let text = job(&record);
        assert!(text.contains("clusters       - 1, east 3\n"), "{text}");
        assert!(text.contains("bandwidth      40Mbit/s between two tasks\n"), "{text}");
        assert!(text.contains("measured       1.5Mbit/s between two tasks\n"), "{text}");
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("end")).collect();
        assert!(
            lines[0].starts_with("predicted end  ") && lines[1].starts_with("ended          -"),
            "{text}"
        );
        let json = job_json(&record);
        assert_eq!(
            (&json["predicted_end_ms"], &json["measured_bps"], &json["clusters"][1]["tasks"]),
            (&json!(90_000), &json!(1_500_000), &json!(3))
        );
        let plain = RunRecord { clusters: vec![share(None, 4)], ..RunRecord::default() };
        let plain = job(&JobRecord { run: plain, ..record });
        assert!(!plain.contains("clusters") && !plain.contains("predicted"), "{plain}");
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(
            [0, 59_999, 3_600_000, 90_000_000].map(duration),
            ["0.0s", "59.9s", "1:00:00", "1d 01:00"]
        );
        assert_eq!([0, 512, 2048, 5 << 30].map(size), ["-", "512", "2.0K", "5.0G"]);
        let limits = vec![("max-time".to_owned(), "3600s".to_owned())];
        let queue = QueueRecord {
            name: "short".into(),
            priority: 10,
            hosts: vec!["n*".into()],
            limits,
            is_open: true,
            waiting: 3,
            running: 8,
        };
        assert!(
            queues(&[queue]).ends_with("short              10       3       8  max-time=3600s hosts=n*\n")
        );
    }
}
