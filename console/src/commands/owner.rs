//! `pvm owner`: whether the owners of hosts are there.

use super::Report;
use crate::shell::tables;
use anyhow::Result;
use pvm_wire::owner::{OwnerSaid, OwnerState};
use pvm3::Task;
use serde_json::{Value, json};

/// The owner of one host, about which something may be said first, or of all.
pub fn owner(task: &mut Task, name: Option<&str>, said: Option<OwnerSaid>) -> Result<Report> {
    let hosts = task.hosts()?;
    let asked: Vec<_> = hosts.into_iter().filter(|host| name.is_none_or(|name| name == host.name)).collect();
    if let (Some(name), true) = (name, asked.is_empty()) {
        let text = format!("{name}: no such host (\"pvm conf\" lists them)\n");
        return Ok(Report { text, json: json!({ "owners": [], "error": "no such host" }), failed: true });
    }
    // A host may be lost meanwhile.
    let states: Vec<(String, Option<OwnerState>)> =
        asked.into_iter().map(|host| (host.name, task.owner(host.tid, said).ok())).collect();
    let failed = states.iter().any(|(_, state)| state.is_none());
    let json = json!({ "owners": states.iter().map(json_of).collect::<Vec<_>>() });
    Ok(Report { text: table(&states), json, failed })
}

/// Whether the owner is there, in a word.
fn word(state: &OwnerState) -> &'static str {
    if state.is_here { "here" } else { "gone" }
}

fn table(states: &[(String, Option<OwnerState>)]) -> String {
    let mut lines = vec![["HOST", "OWNER", "BY", "RULE", "HELD", "TASKS"].map(str::to_owned).to_vec()];
    for (host, state) in states {
        lines.push(match state {
            None => [host, "lost", "-", "-", "-", "-"].map(str::to_owned).to_vec(),
            Some(state) => vec![
                host.clone(),
                word(state).to_owned(),
                if state.is_said { "hand" } else { "rule" }.to_owned(),
                state.ownership.rule.to_string(),
                state.ownership.held.name().to_owned(),
                state.tasks.to_string(),
            ],
        });
    }
    tables::columns(&lines)
}

fn json_of((host, state): &(String, Option<OwnerState>)) -> Value {
    let Some(state) = state else { return json!({ "host": host, "lost": true }) };
    json!({
        "host": host, "here": state.is_here, "by_hand": state.is_said, "rule": state.ownership.rule.to_string(),
        "held": state.ownership.held.name(), "tasks": state.tasks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvm_wire::owner::{Held, OwnerRule, Ownership};

    #[test]
    fn a_host_is_a_line() {
        let ownership = Ownership { rule: OwnerRule::Idle(600), held: Held::Least };
        let state = OwnerState { is_here: true, is_said: true, ownership, tasks: 3 };
        let states = [("a".to_owned(), Some(state)), ("bc".to_owned(), None)];
        let expected = "HOST  OWNER  BY    RULE      HELD   TASKS\na     here   hand  idle:10m  least  3\nbc    lost   -     -         -      -\n";
        assert_eq!(table(&states), expected);
        assert_eq!(json_of(&states[0])["rule"], json!("idle:10m"));
        assert_eq!(json_of(&states[1]), json!({ "host": "bc", "lost": true }));
    }
}
