//! What is told while it runs: a line per event.

use jiff::Zoned;
use serde_json::{Value, json};
use std::io::Write as _;

/// Tells what happens on standard output.
#[derive(Debug)]
pub struct Events {
    /// As JSON, an object per line.
    pub is_json: bool,
}

impl Events {
    /// Something has happened, perhaps with a job of Slurm and its node.
    pub fn tell(&self, event: &str, job: Option<u64>, host: Option<&str>, text: &str) {
        let now = Zoned::now();
        let line =
            if self.is_json { json(&now, event, job, host, text).to_string() } else { plain(&now, text) };
        let mut out = std::io::stdout().lock();
        // It goes on without a reader: nodes have to be given back.
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }

    /// Something is wrong, and it goes on.
    pub fn warn(&self, job: Option<u64>, text: &str) {
        self.tell("trouble", job, None, text);
    }
}

fn plain(now: &Zoned, text: &str) -> String {
    format!("{} {text}", now.strftime("%H:%M:%S"))
}

fn json(now: &Zoned, event: &str, job: Option<u64>, host: Option<&str>, text: &str) -> Value {
    let time = now.timestamp().as_millisecond();
    json!({ "time_ms": time, "event": event, "job": job, "host": host, "text": text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_time() {
        let now: Zoned = "2026-03-01T04:05:06[UTC]".parse().unwrap();
        assert_eq!(plain(&now, "job 7 requested"), "04:05:06 job 7 requested");
        let value = json(&now, "requested", Some(7), None, "x");
        assert_eq!(
            (&value["event"], &value["job"], &value["host"]),
            (&json!("requested"), &json!(7), &Value::Null)
        );
    }
}
