//! The hosts of the machine: `conf`, `add`, `delete`.

use super::Report;
use crate::adding;
use crate::shell::tables::{self, HostRow};
use anyhow::Result;
use pvm_wire::coscheduling::TurnsReport;
use pvm3::{Task, Tid};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

/// In this time tasks that wait answer their daemon.
const ANSWER: Duration = Duration::from_millis(50);

/// The hosts, as tables show them.
pub fn host_rows(task: &mut Task) -> Result<Vec<HostRow>> {
    let row = |host: pvm3::HostInfo| HostRow {
        name: host.name,
        tid: host.tid.raw(),
        arch: host.arch,
        speed: host.speed,
        signature: host.signature,
    };
    Ok(task.hosts()?.into_iter().map(row).collect())
}

/// The name of each host.
pub fn host_names(task: &mut Task) -> Result<BTreeMap<Tid, String>> {
    let hosts = task.hosts()?;
    Ok(hosts.into_iter().map(|host| (host.tid, host.name)).collect())
}

/// `conf`: the hosts; `long` adds how teams take turns on each.
pub fn hosts(task: &mut Task, long: bool) -> Result<Report> {
    let hosts = host_rows(task)?;
    let mut formats: Vec<u32> = hosts.iter().map(|host| host.signature).collect();
    formats.sort_unstable();
    formats.dedup();
    let mut text = tables::configuration(formats.len(), &hosts);
    let mut turns = BTreeMap::new();
    if long {
        // At the first request a daemon asks its tasks, which answer at their next library call.
        self::turns(task, &hosts);
        thread::sleep(ANSWER);
        let reports = self::turns(task, &hosts);
        text.push_str(&tables::turns(&reports));
        turns.extend(reports);
    }
    let hosts: Vec<Value> = hosts.iter().map(|host| host_json(host, turns.get(&host.name))).collect();
    Ok(Report::good(text, json!({ "formats": formats.len(), "hosts": hosts })))
}

fn host_json(host: &HostRow, turns: Option<&TurnsReport>) -> Value {
    let HostRow { name, tid, arch, speed, signature } = host;
    let tid = Tid::from_raw(*tid).to_string();
    let mut value = json!({
        "name": name, "tid": tid, "arch": arch, "speed": speed, "signature": format!("{signature:#010x}"),
    });
    if let Some(turns) = turns {
        value["turns"] = json!({
            "means": turns.means, "slice_us": turns.slice, "wake_ns": turns.wake, "spin_ns": turns.spin,
            "far_spin_ns": turns.far_spin, "daemon_spin_ns": turns.daemon_spin,
        });
    }
    value
}

/// How teams take turns on these hosts; one that goes meanwhile is left out.
fn turns(task: &mut Task, hosts: &[HostRow]) -> Vec<(String, TurnsReport)> {
    let report = |host: &HostRow| {
        let report = task.turns(Tid::from_raw(host.tid)).ok()?;
        Some((host.name.clone(), report))
    };
    hosts.iter().filter_map(report).collect()
}

/// `add`: the result of each host, and the tids of the added ones.
pub fn add(task: &mut Task, hosts: &[String]) -> Result<(Report, Vec<i32>)> {
    let results = adding::shown(|| task.add_hosts(hosts))?;
    let mut rows = Vec::new();
    for (host, result) in hosts.iter().zip(results) {
        let name = host.split_whitespace().next().unwrap_or_default().to_owned();
        let result = result.map(|host| host.tid.raw()).map_err(|failure| {
            match failure.reason.strip_prefix(&format!("{name}: ")) {
                Some(reason) => reason.to_owned(),
                None => failure.reason,
            }
        });
        rows.push((name, result));
    }
    let added = rows.iter().filter_map(|(_, result)| result.as_ref().ok().copied()).collect();
    let values: Vec<Value> = rows
        .iter()
        .map(|(name, result)| match result {
            Ok(tid) => json!({ "name": name, "tid": Tid::from_raw(*tid).to_string() }),
            Err(reason) => json!({ "name": name, "error": reason }),
        })
        .collect();
    let failed = rows.iter().any(|(_, result)| result.is_err());
    Ok((Report { text: tables::added(&rows), json: json!({ "hosts": values }), failed }, added))
}

/// `delete`: what became of each host.
pub fn delete(task: &mut Task, hosts: &[String]) -> Result<Report> {
    let results = task.delete_hosts(hosts)?;
    let results = results.into_iter().map(|result| result.map_err(|error| error.to_string()));
    let rows: Vec<_> = hosts.iter().cloned().zip(results).collect();
    let values: Vec<Value> = rows
        .iter()
        .map(|(name, result)| match result {
            Ok(()) => json!({ "name": name }),
            Err(reason) => json!({ "name": name, "error": reason }),
        })
        .collect();
    let failed = rows.iter().any(|(_, result)| result.is_err());
    Ok(Report { text: tables::deleted(&rows), json: json!({ "hosts": values }), failed })
}
