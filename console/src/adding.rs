//! How far the hosts are that are being added: a bar on a terminal, else a line every now and then, on standard error.

use indicatif::{ProgressBar, ProgressStyle};
use pvm3::{Additions, Task};
use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Hosts that are added faster need no bar.
const PATIENCE: Duration = Duration::from_millis(700);
/// Between two looks where there is a terminal.
const LOOK: Duration = Duration::from_millis(200);
/// Between two lines where there is none.
const LINE: Duration = Duration::from_secs(5);
const TEMPLATE: &str = "adding hosts {bar:30} {msg}";

/// Shows how far the hosts are while `work` waits for them. What it waits with cannot ask meanwhile, so a task of its own does.
pub fn shown<T>(work: impl FnOnce() -> T) -> T {
    let (_done, is_done) = channel();
    thread::Builder::new().name("adding".into()).spawn(move || show(&is_done)).map(drop).unwrap_or_default();
    work()
}

/// Until the other end of the channel is dropped.
fn show(is_done: &Receiver<()>) {
    let waits = |time| is_done.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
    if !waits(PATIENCE) {
        return;
    }
    // Without it nothing is shown, and nothing else is missing.
    let Ok(mut task) = Task::enrol_as(Some("pvm"), true) else { return };
    let is_terminal = stderr().is_terminal();
    let bar = if is_terminal { bar() } else { ProgressBar::hidden() };
    while let Ok(additions @ Additions { total: 1.., .. }) = task.additions() {
        bar.set_length(additions.total.into());
        bar.set_position((additions.linked + additions.failed).into());
        bar.set_message(text(additions));
        if !is_terminal && additions.total > 1 {
            eprintln!("adding hosts: {}", text(additions));
        }
        if !waits(if is_terminal { LOOK } else { LINE }) {
            break;
        }
    }
    bar.finish_and_clear();
    let _ = task.exit();
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    // A template of ours that could not be read would be the default one.
    if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

fn text(Additions { total, linked, failed }: Additions) -> String {
    let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
    format!("{linked} of {total}{failed}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_can_be_read_and_failures_are_counted() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
        assert_eq!(text(Additions { total: 9, linked: 3, failed: 0 }), "3 of 9");
        assert_eq!(text(Additions { total: 9, linked: 3, failed: 2 }), "3 of 9, 2 failed");
    }

    #[test]
    fn what_is_waited_for_comes_back() {
        assert_eq!(shown(|| 7), 7);
    }
}
