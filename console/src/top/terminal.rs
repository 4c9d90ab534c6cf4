//! The screen on a terminal.

use super::Screen;
use super::app::{App, Wish};
use super::draw::draw;
use crate::view::{Sampler, View};
use anyhow::{Context, Result};
use pvm3::Task;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, getpid, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Why the screen is left although no key asks for it.
const ENDED: &str = "the virtual machine has ended";
/// Interval between two looks for news while no key is pressed.
const TICK: Duration = Duration::from_millis(50);
/// A machine that is halted ends its tasks by a signal first: for so long after one its end is waited for.
const HALT: Duration = Duration::from_millis(300);

/// Shows the screen until it is left, or the machine ends.
pub fn show(task: Task, screen: Screen, interval: Duration) -> Result<()> {
    let is_ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&is_ended)).context("cannot handle signals")?;
    }
    let (send, views) = sync_channel(1);
    let (hurry, hurried) = channel();
    // Hosts may take long to answer: keys do not wait for them.
    let sampler = thread::spawn(move || sample(task, interval, &send, &hurried));
    thread::spawn(end_with_the_terminal);
    let mut terminal = ratatui::try_init().context("cannot use the terminal")?;
    let shown = interact(&mut terminal, App::new(screen), (&views, &hurry), &is_ended);
    ratatui::restore();
    // The sampler may wait for room for a view, or for its end.
    drop((views, hurry));
    let _ = sampler.join();
    shown
}

/// Ends this process when its terminal is gone. The reader of keys does not notice that: it would read nothing for ever. SIGHUP, which
/// comes with it, may be ignored.
fn end_with_the_terminal() {
    let stdout = std::io::stdout();
    loop {
        let mut terminal = [PollFd::new(&stdout, PollFlags::empty())];
        if poll(&mut terminal, None).is_ok()
            && terminal[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
        {
            std::process::exit(1);
        }
    }
}

/// Takes views, one after each interval or when it is hurried, until the other ends of these channels are gone, or the daemon is.
fn sample(mut task: Task, interval: Duration, views: &SyncSender<Result<View>>, hurried: &Receiver<()>) {
    let mut sampler = Sampler::default();
    loop {
        let view = sampler.take(&mut task, interval / 2);
        let is_last = view.is_err();
        if views.send(view).is_err() || is_last {
            break;
        }
        if hurried.recv_timeout(interval) == Err(RecvTimeoutError::Disconnected) {
            break;
        }
    }
    // Without a daemon there is nothing to leave.
    let _ = task.exit();
}

fn interact(
    terminal: &mut DefaultTerminal,
    mut app: App,
    (views, hurry): (&Receiver<Result<View>>, &Sender<()>),
    is_ended: &AtomicBool,
) -> Result<()> {
    let mut is_changed = true;
    while !is_ended.load(Ordering::Relaxed) {
        if let Ok(view) = views.try_recv() {
            app.update(view.context(ENDED)?);
            is_changed = true;
        }
        if std::mem::take(&mut is_changed) {
            terminal.draw(|frame| draw(frame, &mut app)).context("cannot draw")?;
        }
        if !event::poll(TICK).context("cannot read keys")? {
            continue;
        }
        is_changed = true;
        if let Event::Key(key) = event::read().context("cannot read keys")? {
            match app.key(key) {
                Wish::None => {}
                Wish::Quit => return Ok(()),
                Wish::Suspend => suspend(terminal)?,
            }
        }
    }
    let signalled = Instant::now();
    while signalled.elapsed() < HALT {
        let _ = hurry.send(());
        if let Ok(view) = views.recv_timeout(TICK) {
            view.context(ENDED)?;
        }
    }
    Ok(())
}

/// Stops this process as the shell's Ctrl-Z does, with the terminal as the shell expects it.
fn suspend(terminal: &mut DefaultTerminal) -> Result<()> {
    ratatui::restore();
    kill_process(getpid(), Signal::TSTP).context("cannot stop")?;
    *terminal = ratatui::try_init().context("cannot use the terminal")?;
    Ok(())
}
