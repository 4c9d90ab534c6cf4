//! The result as JSON. `docs/commands.toml` documents the fields, which are stable.

use super::args::Part;
use super::plan::Place;
use super::result::{Limit, Line, Note, Outcome};
use serde_json::{Value, json};

/// Everything that was measured.
pub fn value(outcome: &Outcome) -> Value {
    let host = |host: &super::result::HostLine| {
        json!({
            "name": host.name,
            "tid": host.tid,
            "arch": host.arch,
            "speed": host.speed,
            "processors": host.processors,
            "computer": host.computer,
        })
    };
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "complete": outcome.is_complete(),
        "rounds": outcome.rounds,
        "seconds": outcome.seconds,
        "hosts": outcome.hosts.iter().map(host).collect::<Vec<_>>(),
        "results": outcome.lines.iter().map(|line| result(line, outcome)).collect::<Vec<_>>(),
    })
}

/// The field of a part's values.
fn field(part: Part) -> &'static str {
    match part {
        Part::Spawn => "tasks_per_s",
        Part::Latency => "latency_us",
        Part::Bandwidth | Part::AllToAll => "bytes_per_s",
        Part::Rate => "messages_per_s",
    }
}

fn result(line: &Line, outcome: &Outcome) -> Value {
    let name = |host: usize| outcome.hosts.get(host).map_or("", |host| host.name.as_str());
    let (place, hosts) = match line.place {
        Place::Host(host) => ("host", vec![name(host)]),
        Place::Pair(a, b) => ("pair", vec![name(a), name(b)]),
        Place::All => ("all", (0..outcome.hosts.len()).map(name).collect()),
    };
    let mut value = json!({ "part": line.part.name(), "place": place, "hosts": hosts });
    if line.part == Part::Spawn {
        value["tasks"] = line.size.into();
    } else {
        value["route"] = if line.is_by_daemons { "daemons" } else { "default" }.into();
        value["message_bytes"] = line.size.into();
    }
    if let Some(measured) = &line.value {
        value[field(line.part)] = measured.median.into();
        if measured.rounds.len() > 1 {
            value["spread_percent"] = (measured.spread() * 100.0).into();
        }
    }
    value["rounds"] = line.value.as_ref().map_or(0, |measured| measured.rounds.len()).into();
    if let Some(busy) = line.busy {
        value["busy_percent"] = busy.into();
    }
    if let Some(limit) = &line.limit {
        value["limit"] = limit_value(line.part, limit);
    }
    match &line.note {
        Some(Note::LeftOut(reason)) => value["not_measured"] = reason.as_str().into(),
        Some(Note::Failed(reason)) => value["error"] = reason.as_str().into(),
        None => {}
    }
    value
}

fn limit_value(part: Part, limit: &Limit) -> Value {
    match limit {
        Limit::Measured { name, value, share } => {
            json!({ "name": name, field(part): value, "share_percent": share })
        }
        Limit::Missing { name, reason } => json!({ "name": name, "not_measured": reason }),
        Limit::Cores { processors, share } => {
            json!({ "name": "cores", "processors": processors, "share_percent": share })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::result::{HostLine, tests::host};
    use pvm_sim::stats::Measured;

    #[test]
    fn fields_have_their_units_in_their_names() {
        let host = host("a");
        let latency = Line {
            part: Part::Latency,
            place: Place::Pair(0, 1),
            is_by_daemons: true,
            size: 64,
            value: Measured::of(&[84.5, 63.375, 105.625, 50.0, 120.0]),
            limit: Some(Limit::Measured { name: "link", value: 66.0, share: 78.0 }),
            busy: Some(50.0),
            note: None,
        };
        let spawn = Line {
            part: Part::Spawn,
            place: Place::All,
            is_by_daemons: false,
            size: 1000,
            value: None,
            limit: Some(Limit::Missing { name: "exec", reason: "no".into() }),
            busy: None,
            note: Some(Note::Failed("b was lost".into())),
        };
        let hosts = vec![host.clone(), HostLine { name: "b".into(), processors: None, computer: 1, ..host }];
        let outcome = Outcome { hosts, rounds: 5, seconds: 25.0, lines: vec![latency, spawn] };
        let value = value(&outcome);
        assert_eq!(value["complete"], false);
        assert_eq!(
            value["hosts"][1],
            json!({
                "name": "b", "tid": "t40000", "arch": "LINUX64", "speed": 1000, "processors": null, "computer": 1
            })
        );
        assert_eq!(
            value["results"][0],
            json!({
                "part": "latency", "place": "pair", "hosts": ["a", "b"], "route": "daemons", "message_bytes": 64,
                "latency_us": 84.5, "spread_percent": 25.0, "rounds": 5, "busy_percent": 50.0,
                "limit": { "name": "link", "latency_us": 66.0, "share_percent": 78.0 }
            })
        );
        assert_eq!(
            value["results"][1],
            json!({
                "part": "spawn", "place": "all", "hosts": ["a", "b"], "tasks": 1000, "rounds": 0,
                "limit": { "name": "exec", "not_measured": "no" }, "error": "b was lost"
            })
        );
    }
}
