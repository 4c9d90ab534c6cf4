//! How far queued batches are: a bar each on a terminal, else a line every now and then, on standard error.

use crate::shell::batches::{line, over};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use pvm3::{BatchRecord, Task};
use std::collections::BTreeMap;
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);
/// Between two lines where there is no terminal.
const LINE: Duration = Duration::from_secs(5);
const TEMPLATE: &str = "batch {prefix} {bar:30} {msg}";

/// The batches that are watched.
#[derive(Debug)]
pub struct Progress {
    bars: MultiProgress,
    terminal: bool,
    /// The one that is wanted, or all.
    only: Option<i32>,
    seen: BTreeMap<i32, Seen>,
    looked: Option<Instant>,
}

/// A batch that has been seen.
#[derive(Debug)]
struct Seen {
    bar: ProgressBar,
    since: Instant,
    /// Tasks that had come to their end then.
    before: u32,
    /// When the last line was written.
    written: Instant,
    finished: bool,
}

impl Progress {
    /// Watches one batch, or all.
    pub fn new(only: Option<i32>) -> Self {
        Self {
            bars: MultiProgress::new(),
            terminal: stderr().is_terminal(),
            only,
            seen: BTreeMap::new(),
            looked: None,
        }
    }

    /// Where the bars are drawn: what else is written to the terminal must not run into them.
    pub fn bars(&self) -> MultiProgress {
        self.bars.clone()
    }

    /// Looks at the batches, if it is time to. Whether some that are watched go on.
    pub fn look(&mut self, task: &mut Task) -> pvm3::Result<bool> {
        let now = Instant::now();
        if self.looked.is_some_and(|looked| now < looked + LOOK) {
            return Ok(true);
        }
        self.looked = Some(now);
        self.look_now(task, now)
    }

    /// Updates the bars a last time, so that completed batches are shown as such.
    pub fn finish(&mut self, task: &mut Task) -> pvm3::Result<bool> {
        self.look_now(task, Instant::now())
    }

    fn look_now(&mut self, task: &mut Task, now: Instant) -> pvm3::Result<bool> {
        let mut batches = task.batches()?;
        batches.retain(|batch| batch.id != 0 && self.only.is_none_or(|only| only == batch.id));
        for batch in &batches {
            if let Some(text) = self.show(batch, now) {
                eprintln!("{text}");
            }
        }
        Ok(batches.iter().any(|batch| over(batch) < batch.total))
    }

    /// Brings a batch's bar up to date; without a terminal, the line to be written if it is time for one.
    fn show(&mut self, batch: &BatchRecord, now: Instant) -> Option<String> {
        let (bars, terminal) = (&self.bars, self.terminal);
        let seen =
            self.seen.entry(batch.id).or_insert_with(|| Seen::new(batch, now, terminal.then_some(bars)));
        if seen.finished {
            return None;
        }
        let text =
            line(batch, over(batch).saturating_sub(seen.before), now.saturating_duration_since(seen.since));
        seen.finished = over(batch) == batch.total;
        if terminal {
            seen.bar.set_position(over(batch).into());
            seen.bar.set_message(text);
            if seen.finished {
                seen.bar.abandon();
            }
            return None;
        }
        if !seen.finished && now < seen.written + LINE {
            return None;
        }
        seen.written = now;
        Some(format!("batch {:x}: {text}", batch.id))
    }
}

impl Seen {
    fn new(batch: &BatchRecord, now: Instant, bars: Option<&MultiProgress>) -> Self {
        let bar = ProgressBar::new(batch.total.into());
        let bar = match bars {
            Some(bars) => bars.add(bar),
            None => ProgressBar::hidden(),
        };
        // A template of ours that could not be read would be the default one.
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(format!("{:x}", batch.id));
        Self { bar, since: now, before: over(batch), written: now, finished: over(batch) == batch.total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvm3::{PolicyMessages, Tid};

    fn batch(done: u32) -> BatchRecord {
        BatchRecord {
            id: 0x40001,
            parent: Tid::NONE,
            file: "worker".into(),
            policy: String::new(),
            total: 10,
            waiting: 0,
            running: 10 - done,
            done,
            failed: 0,
            cancelled: 0,
            restarts: 0,
            nodes: Vec::new(),
            messages: PolicyMessages::default(),
            decisions: Vec::new(),
        }
    }

    #[test]
    fn the_template_can_be_read() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }

    #[test]
    fn without_a_terminal_there_is_a_line_now_and_then_and_one_at_the_end() {
        let mut progress = Progress { terminal: false, ..Progress::new(None) };
        let start = Instant::now();
        let second = Duration::from_secs(1);
        assert_eq!(progress.show(&batch(2), start), None);
        assert_eq!(progress.show(&batch(3), start + second), None);
        let line = "batch 40001: 10 of 10 placed, 3 running, 7 done, 0 failed, 1.0/s, 3 s left";
        assert_eq!(progress.show(&batch(7), start + 5 * second), Some(line.to_owned()));
        assert_eq!(progress.show(&batch(8), start + 6 * second), None);
        let last = "batch 40001: 10 of 10 placed, 0 running, 10 done, 0 failed, 1.0/s";
        assert_eq!(progress.show(&batch(10), start + 8 * second), Some(last.to_owned()));
        assert_eq!(progress.show(&batch(10), start + 20 * second), None);
    }
}
