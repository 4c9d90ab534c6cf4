//! `pvm top`: hosts, queues and tasks, their use of processors and their messages; how teams take turns.

mod app;
mod draw;
mod table;
mod tables;
mod terminal;

use crate::cli::TopArgs;
use crate::view::{Sampler, View};
use anyhow::{Context, Result, bail};
use pvm3::Task;
use std::io::{self, IsTerminal, Write as _};
use std::time::Duration;
use table::Table;

/// What is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Screen {
    /// Hosts, queues and tasks.
    #[default]
    Overview,
    /// How teams take turns.
    Coscheduling,
}

impl Screen {
    fn tables(self, view: &View) -> Vec<Table> {
        match self {
            Self::Overview => tables::overview(view),
            Self::Coscheduling => tables::coscheduling(view),
        }
    }
}

/// Runs until it is interrupted, or prints the tables once; returns the exit code.
pub fn run(args: &TopArgs) -> Result<u8> {
    let mut task = Task::enrol_as(Some("pvm top"), true).context("cannot join a virtual machine")?;
    if !task.daemon_is_ours() {
        bail!("the daemon here is that of PVM 3.4, which has no teams and no loads");
    }
    let screen = if args.coscheduling { Screen::Coscheduling } else { Screen::Overview };
    let interval = Duration::from_secs_f64(args.interval);
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    if args.once || is_dumb || !io::stdout().is_terminal() {
        print(&mut task, screen, interval, args.once)?;
        task.exit()?;
    } else {
        terminal::show(task, screen, interval)?;
    }
    Ok(0)
}

/// Prints the tables once, or again and again until they are no longer read.
fn print(task: &mut Task, screen: Screen, interval: Duration, once: bool) -> Result<()> {
    let mut sampler = Sampler::default();
    sampler.take(task, interval)?;
    loop {
        std::thread::sleep(interval);
        let view = sampler.take(task, interval)?;
        let tables = screen.tables(&view);
        let texts: Vec<String> = tables.iter().map(|table| format!("\n{}", table.text())).collect();
        let text = format!("{}\n{}\n", tables::summary(&view), texts.concat());
        match io::stdout().write_all(text.as_bytes()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            written => written.context("cannot write")?,
        }
        if once {
            return Ok(());
        }
    }
}
