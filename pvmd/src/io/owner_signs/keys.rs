//! Input at terminals: told at once where the kernel tells of reads (inotify(7)), else as their times of access show it.
//!
//! The kernel keeps the time of access of a terminal to about eight seconds only. Newer kernels tell nothing of reads of devices to what
//! watches their folder, so each terminal is watched by itself, which is not allowed with another user's. Older kernels tell of all
//! terminals of the folder.

use super::Signs;
use crate::io::process::watch_descriptor;
use crate::io::terminals;
use pvmd_core::event::OwnerSign;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::unix::AsyncFd;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tracing::{info, warn};

/// Between two looks at the times of access.
const LOOK: Duration = Duration::from_secs(1);
/// Input that goes on is told no more often than this; the first is told at once.
const APART: Duration = Duration::from_millis(500);
/// The folder of pseudoterminals.
const PSEUDO: &str = "/dev/pts";
/// The multiplexer there: what is read from it is output.
const MULTIPLEXER: &[u8] = b"ptmx";
/// Room for what the kernel tells at once, in bytes.
const ROOM: usize = 4096;

/// Tells of input for ever.
pub(super) async fn watch(signs: &Signs) {
    let reads = Reads::new();
    if let Err(error) = &reads {
        info!(%error, "input at terminals is noticed only every few seconds");
    }
    let reads = reads.ok();
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut latest, mut not_before) = (None, Instant::now());
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                let looked = spawn_blocking(|| terminals::counted().map(|(path, _, input)| (path, input)).collect());
                let Ok(found): Result<Vec<(PathBuf, u64)>, _> = looked.await else { return };
                let input = found.iter().map(|(_, input)| *input).max();
                if let Some(reads) = &reads {
                    reads.watch_all(found.iter().map(|(path, _)| path.as_path()));
                }
                if let Some(ago) = news(&mut latest, input, seconds_of_day()) {
                    signs.tell(OwnerSign::Input { ago }).await;
                }
            }
            () = input(reads.as_ref(), not_before) => {
                not_before = Instant::now() + APART;
                signs.tell(OwnerSign::Input { ago: Duration::ZERO }).await;
            }
        }
    }
}

/// Seconds since 1970.
fn seconds_of_day() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// How long ago there was input that has not been told of. A terminal that is no more makes it no older.
fn news(latest: &mut Option<u64>, input: Option<u64>, now: u64) -> Option<Duration> {
    let input = input.filter(|_| input > *latest)?;
    *latest = Some(input);
    Some(Duration::from_secs(now.saturating_sub(input)))
}

/// Comes back when a terminal is read from, or was since that was asked last, but not before a time.
async fn input(reads: Option<&Reads>, not_before: Instant) {
    sleep_until(not_before).await;
    match reads {
        Some(reads) => reads.next().await,
        None => std::future::pending().await,
    }
}

/// The kernel tells of reads of files.
struct Reads(AsyncFd<OwnedFd>);

impl Reads {
    fn new() -> io::Result<Self> {
        let reads = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        // Without it there are the files themselves.
        let _ = inotify::add_watch(&reads, PSEUDO, WatchFlags::ACCESS);
        Ok(Self(watch_descriptor(reads)?))
    }

    /// From now on of these, too. A file that is watched already stays so.
    fn watch_all<'a>(&self, files: impl Iterator<Item = &'a Path>) {
        for file in files {
            // Another user's cannot be watched.
            let _ = inotify::add_watch(self.0.get_ref(), file, WatchFlags::ACCESS);
        }
    }

    async fn next(&self) {
        loop {
            let Ok(mut ready) = self.0.readable().await else { return std::future::pending().await };
            match ready.try_io(|reads| take(reads.get_ref())) {
                Ok(Ok(())) => return,
                Ok(Err(error)) => {
                    warn!(%error, "input at terminals is noticed only every few seconds from now on");
                    return std::future::pending().await;
                }
                Err(_nothing) => {}
            }
        }
    }
}

/// Takes all that there is; the error `WouldBlock` if no terminal was read from.
fn take(reads: &impl AsFd) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); ROOM];
    let mut reader = Reader::new(reads.as_fd(), &mut room);
    let mut is_input = false;
    loop {
        match reader.next() {
            Ok(event) => {
                let is_output = event.file_name().is_some_and(|name| name.to_bytes() == MULTIPLEXER);
                is_input |= event.events().contains(ReadFlags::ACCESS) && !is_output;
            }
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if is_input => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::next;
    use super::*;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    use tokio::sync::mpsc;

    #[test]
    fn later_input_is_news() {
        let mut latest = None;
        assert_eq!(news(&mut latest, None, 100), None);
        assert_eq!(news(&mut latest, Some(90), 100), Some(Duration::from_secs(10)));
        assert_eq!(news(&mut latest, Some(90), 101), None);
        // That terminal is gone; later a clock is set back.
        assert_eq!(news(&mut latest, Some(80), 101), None);
        assert_eq!(news(&mut latest, Some(110), 102), Some(Duration::ZERO));
    }

    /// Both ends of a pseudoterminal, and its file.
    fn terminal() -> Option<(OwnedFd, OwnedFd, PathBuf)> {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).ok()?;
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let path = PathBuf::from(ptsname(&keyboard, Vec::new()).unwrap().into_string().unwrap());
        let program = std::fs::File::options().read(true).write(true).open(&path).unwrap();
        let mut modes = tcgetattr(&program).unwrap();
        modes.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&program, OptionalActions::Now, &modes).unwrap();
        Some((keyboard, program.into(), path))
    }

    fn type_line(keyboard: &OwnedFd, program: &OwnedFd) {
        rustix::io::write(keyboard, b"x\n").unwrap();
        rustix::io::read(program, &mut [0; 8]).unwrap();
    }

    fn is_read(reads: &Reads) -> bool {
        take(reads.0.get_ref()).is_ok()
    }

    #[tokio::test]
    async fn input_is_told_and_output_is_not() {
        let Some((keyboard, program, path)) = terminal() else { return };
        let reads = Reads(watch_descriptor(inotify::init(CreateFlags::NONBLOCK).unwrap()).unwrap());
        reads.watch_all([path.as_path()].into_iter());
        type_line(&keyboard, &program);
        assert!(is_read(&reads) && !is_read(&reads));
        rustix::io::write(&program, b"output\n").unwrap();
        rustix::io::read(&keyboard, &mut [0; 16]).unwrap();
        assert!(!is_read(&reads));
        type_line(&keyboard, &program);
        type_line(&keyboard, &program);
        // Once for both; not before the time.
        let begin = Instant::now();
        input(Some(&reads), begin + Duration::from_millis(50)).await;
        assert!(begin.elapsed() >= Duration::from_millis(50) && !is_read(&reads));
    }

    #[tokio::test]
    async fn typing_is_told_at_once_and_then_seldom() {
        let Some((keyboard, program, _)) = terminal() else { return };
        let (input, mut signs) = mpsc::channel(64);
        let watching = tokio::spawn(async move { watch(&Signs(input)).await });
        // That of the first look; the new terminal is watched then.
        assert!(matches!(next(&mut signs).await, OwnerSign::Input { .. }));
        let begin = Instant::now();
        let mut told = 0;
        while begin.elapsed() < 3 * APART {
            type_line(&keyboard, &program);
            tokio::time::sleep(Duration::from_millis(10)).await;
            while signs.try_recv().is_ok() {
                told += 1;
            }
        }
        // Other terminals may have input, too, and the times of access tell as well.
        assert!((1..=8).contains(&told), "{told}");
        watching.abort();
    }
}
