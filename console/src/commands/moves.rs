//! `pvm move`: tasks that go on on another host.

use super::Report;
use anyhow::Result;
use pvm3::{Task, Tid};
use serde_json::json;

/// Moves a task to a host, or to the one that has most room, and waits until it lives there.
pub fn move_task(task: &mut Task, tid: Tid, name: Option<&str>) -> Result<Report> {
    let hosts = task.hosts()?;
    let wanted = match name.map(|name| hosts.iter().find(|host| host.name == name)) {
        Some(None) => {
            let text = format!("{}: no such host (\"pvm conf\" lists them)\n", name.unwrap_or_default());
            return Ok(Report {
                text,
                json: json!({ "tid": tid.to_string(), "error": "no such host" }),
                failed: true,
            });
        }
        found => found.flatten().map(|host| host.tid),
    };
    match task.move_task(tid, wanted) {
        Ok(at) => {
            let host = hosts
                .iter()
                .find(|host| host.tid == at)
                .map_or_else(|| at.to_string(), |host| host.name.clone());
            Ok(Report::good(format!("{tid} is on {host}\n"), json!({ "tid": tid.to_string(), "host": host })))
        }
        Err(error) => {
            let json =
                json!({ "tid": tid.to_string(), "error": error.to_string(), "code": error.code().name() });
            Ok(Report { text: format!("{error}\n"), json, failed: true })
        }
    }
}
