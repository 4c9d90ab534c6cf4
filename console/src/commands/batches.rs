//! Batches of tasks: `batch`.

use super::{Report, host_names};
use crate::progress::Progress;
use crate::shell::batches;
use anyhow::{Result, bail};
use pvm3::{BatchDecision, BatchRecord, NodeTally, PolicyMessages, PolicyTally, PvmError, Task, Tid};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::thread;
use std::time::Duration;

/// Between two looks at a batch that is watched.
const TICK: Duration = Duration::from_millis(20);

/// `batch`: all batches; `long` adds what each node has been given.
pub fn batches(task: &mut Task, long: bool) -> Result<Report> {
    let batches = task.batches()?;
    let names = host_names(task)?;
    Ok(report(&batches, long, &names))
}

/// `batch ID`: these batches alone, each with what is known of its placement.
pub fn batches_of(task: &mut Task, ids: &[i32]) -> Result<Report> {
    let (all, names) = (task.batches()?, host_names(task)?);
    let (mut text, mut values, mut failed) = (String::new(), Vec::new(), false);
    for &id in ids {
        let Some(batch) = all.iter().find(|batch| batch.id == id) else {
            failed = true;
            let _ = writeln!(text, "{id:x}: no such batch, or it has completed and is no longer remembered");
            continue;
        };
        text.push_str(&batches::details(batch, &names));
        values.push(batch_json(batch, &names));
    }
    Ok(Report { text, json: json!({ "batches": values }), failed })
}

/// `batch -p`: what placement policies have cost.
pub fn policies(task: &mut Task) -> Result<Report> {
    let (tallies, names) = (task.policy_tallies()?, host_names(task)?);
    let of_host = |tally: &PolicyTally| {
        let PolicyTally { policy, batches, given, messages, .. } = tally;
        json!({
            "policy": policy, "host": name(tally.host.host_tid(), &names), "batches": batches, "given": given,
            "messages": messages_json(*messages),
        })
    };
    let values: Vec<Value> = tallies.iter().map(of_host).collect();
    Ok(Report::good(batches::policies(&tallies), json!({ "policies": values })))
}

fn name(host: Tid, names: &BTreeMap<Tid, String>) -> String {
    names.get(&host).cloned().unwrap_or_else(|| host.to_string())
}

fn messages_json(PolicyMessages { between_hosts, at_home }: PolicyMessages) -> Value {
    json!({ "between_hosts": between_hosts, "at_home": at_home })
}

fn report(batches: &[BatchRecord], long: bool, names: &BTreeMap<Tid, String>) -> Report {
    let values: Vec<Value> = batches.iter().map(|batch| batch_json(batch, names)).collect();
    Report::good(batches::table(batches, long, names), json!({ "batches": values }))
}

fn batch_json(batch: &BatchRecord, names: &BTreeMap<Tid, String>) -> Value {
    let BatchRecord { id, parent, file, policy, total, waiting, running, done, failed, .. } = batch;
    let node = |node: &NodeTally| {
        let host = node.host.host_tid();
        let last = node.last.map(|last| {
            json!({
                "p": last.p, "p_c": last.p_c, "n_a": last.n_a, "t_c": last.t_c, "n_c": last.n_c,
                "c_i": last.c_i, "c_a": last.c_a,
            })
        });
        json!({ "host": name(host, names), "exchanges": node.exchanges, "given": node.given, "last": last })
    };
    let decision = |decision: &BatchDecision| {
        let host = name(decision.host.host_tid(), names);
        json!({ "after": decision.after as f64 / 1e6, "host": host, "tasks": decision.count })
    };
    json!({
        // One that is not queued has no number.
        "id": (*id != 0).then(|| format!("{id:x}")),
        "parent": parent.to_string(), "program": file.display().to_string(), "policy": policy,
        "tasks": total, "waiting": waiting, "running": running, "done": done, "failed": failed,
        "cancelled": batch.cancelled, "restarts": batch.restarts,
        "nodes": batch.nodes.iter().map(node).collect::<Vec<_>>(),
        "messages": messages_json(batch.messages),
        "decisions": batch.decisions.iter().map(decision).collect::<Vec<_>>(),
    })
}

/// `batch -c`: waiting tasks are dropped, running ones killed.
pub fn cancel(task: &mut Task, ids: &[i32]) -> Result<Report> {
    let (mut text, mut cancelled) = (String::new(), Vec::new());
    for &id in ids {
        match task.cancel_batch(id) {
            Ok(()) => cancelled.push(format!("{id:x}")),
            Err(error) if error.code() == PvmError::NotFound => {
                let _ = writeln!(text, "{id:x}: no such batch, or it has completed");
            }
            Err(error) => return Err(error.into()),
        }
    }
    let failed = !text.is_empty();
    Ok(Report { text, json: json!({ "cancelled": cancelled }), failed })
}

/// `batch -w`: shows how far a batch is until it is over, or until it is to stop.
pub fn watch(task: &mut Task, id: i32, stop: impl Fn() -> bool) -> Result<Report> {
    if !task.batches()?.iter().any(|batch| batch.id == id) {
        bail!("batch: {id:x}: no such batch");
    }
    let mut progress = Progress::new(Some(id));
    while progress.look(task)? && !stop() {
        thread::sleep(TICK);
    }
    let batches = task.batches()?;
    let batch: Vec<_> = batches.into_iter().filter(|batch| batch.id == id).collect();
    Ok(report(&batch, false, &BTreeMap::new()))
}
