//! `pvm demo`: four hosts, 256 tasks, a picture, and the hosts' shares of it.

use crate::cli::DemoArgs;
use crate::inside;
use crate::machine::{Hosts, run_inside, settle_logs};
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use pvm_examples::fractal::TILES;
use pvm_examples::mandelbrot::{Finished, Workers, master, worker};
use pvm3::{HostInfo, Task, Tid};
use pvmd::allocation::HostsFrom;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// The picture's file, in the current folder.
const PICTURE: &str = "mandelbrot.png";
/// Capabilities of the demo's hosts.
const SPEEDS: [u32; 4] = [500, 1000, 1500, 2000];

/// Runs the demo; returns the exit code.
pub fn run(args: &DemoArgs) -> Result<u8> {
    if args.worker {
        let mut task = Task::enrol_as(Some("mandelbrot"), false)?;
        worker(&mut task)?;
        task.exit()?;
        return Ok(0);
    }
    if args.machine.here {
        here(args)?;
        return Ok(0);
    }
    let hosts = Hosts::chosen(&args.machine, HostsFrom::None, Hosts::Local(4, SPEEDS.to_vec()));
    let mut inside: Vec<OsString> = vec!["demo".into(), "--here".into(), "--private".into()];
    if args.machine.allow_missing {
        inside.push("--allow-missing".into());
    }
    run_inside(&hosts, None, &inside)
}

/// Draws the picture on the machine here.
fn here(args: &DemoArgs) -> Result<()> {
    let mut task = inside::enrol("pvm demo", &args.machine)?;
    let mut shares: Vec<Share> = task.hosts()?.into_iter().map(Share::new).collect();
    let program = std::env::current_exe().context("cannot find out which program this is")?;
    let workers = Workers {
        program: program.display().to_string(),
        args: vec!["demo".to_owned(), "--worker".to_owned()],
    };
    show(&format!("{TILES} tasks on {} hosts draw {PICTURE}\n", shares.len()));
    let (start, bar) = (Instant::now(), progress_bar()?);
    let picture = master(&mut task, &workers, |tile| {
        credit(&mut shares, &tile);
        bar.inc(1);
    })?;
    bar.finish_and_clear();
    let elapsed = start.elapsed();
    picture.save(Path::new(PICTURE)).with_context(|| format!("cannot write {PICTURE}"))?;
    show(&table(&shares, elapsed));
    if args.machine.private {
        settle_logs(&mut task, true);
    }
    task.exit()?;
    Ok(())
}

/// Prints, and ignores a closed standard output: the picture is the result.
fn show(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}

fn progress_bar() -> Result<ProgressBar> {
    let style = ProgressStyle::with_template("{bar:50.cyan/blue} {pos}/{len} tiles, {rate}/s, {elapsed}")?
        .with_key("rate", |state: &ProgressState, text: &mut dyn std::fmt::Write| {
            let _ = write!(text, "{:.1}", state.per_sec());
        });
    Ok(ProgressBar::new(TILES as u64).with_style(style))
}

/// The work of one host.
#[derive(Clone, Debug)]
struct Share {
    tid: Tid,
    name: String,
    capability: i32,
    tasks: usize,
    busy: Duration,
}

impl Share {
    fn new(host: HostInfo) -> Self {
        Self { tid: host.tid, name: host.name, capability: host.speed, tasks: 0, busy: Duration::ZERO }
    }
}

fn credit(shares: &mut [Share], tile: &Finished) {
    if let Some(share) = shares.iter_mut().find(|share| share.tid == tile.host) {
        share.tasks += 1;
        share.busy += tile.busy;
    }
}

/// The expected and the actual shares of the hosts.
fn table(shares: &[Share], elapsed: Duration) -> String {
    let width = shares.iter().map(|share| share.name.len()).max().unwrap_or(0).max(5);
    let whole = f64::from(shares.iter().map(|share| share.capability).sum::<i32>().max(1));
    let tasks: usize = shares.iter().map(|share| share.tasks).sum();
    let busy: Duration = shares.iter().map(|share| share.busy).sum();
    let mut text = format!(
        "{:width$}  {:>6}  {:>8}  {:>5}  {:>6}  {:>8}\n",
        "host", "C (sp)", "expected", "tasks", "share", "busy"
    );
    let mut row = |name: &str, capability: f64, tasks: usize, busy: Duration| {
        let expected = capability / whole * TILES as f64;
        let share = tasks as f64 / TILES as f64 * 100.0;
        let _ = writeln!(
            text,
            "{name:width$}  {capability:>6}  {expected:>8.1}  {tasks:>5}  {share:>5.1}%  {:>6.1} s",
            busy.as_secs_f64()
        );
    };
    for share in shares {
        row(&share.name, f64::from(share.capability), share.tasks, share.busy);
    }
    row("total", whole, tasks, busy);
    let rate = tasks as f64 / elapsed.as_secs_f64().max(0.001);
    let _ = writeln!(text, "{tasks} tiles in {:.1} s ({rate:.1}/s): {PICTURE}", elapsed.as_secs_f64());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_compares_expected_and_actual_shares() {
        let host = |number: i32, capability| {
            let tid = Tid::from_raw(number << 18);
            Share { tid, name: format!("host{number}"), capability, tasks: 0, busy: Duration::ZERO }
        };
        let mut shares = vec![host(1, 1000), host(2, 3000)];
        for tile in 0..256 {
            let host = Tid::from_raw(if tile < 64 { 1 } else { 2 } << 18);
            credit(&mut shares, &Finished { host, busy: Duration::from_millis(100) });
        }
        let expected = "\
host   C (sp)  expected  tasks   share      busy
host1    1000      64.0     64   25.0%     6.4 s
host2    3000     192.0    192   75.0%    19.2 s
total    4000     256.0    256  100.0%    25.6 s
256 tiles in 12.8 s (20.0/s): mandelbrot.png
";
        assert_eq!(table(&shares, Duration::from_millis(12_800)), expected);
    }
}
