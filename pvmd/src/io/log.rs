//! The log: one line per event, written by a thread of its own, so that a slow or full disk stops nobody.

use crate::io::local_time;
use crate::io::log_file::{self, LogFile, Store};
use crate::io::log_repeats::Repeats;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields, MakeWriter};
use tracing_subscriber::registry::{LookupSpan, Scope};

/// Lines that wait for the disk; more are counted and lost.
const QUEUE: usize = 4096;
/// How long the end of the daemon waits for the disk.
const FLUSH: Duration = Duration::from_millis(500);
/// What is logged if `PVM_LOG` does not say. quinn's endpoint tells of datagrams that are not of this machine.
const FILTER: &str = "info,quinn_proto=error,quinn_proto::endpoint=debug";

/// How often the log looks whether there is room on the disk again.
const ROOM_LOOK: Duration = Duration::from_secs(1);

/// The target of lines that show the daemon's state.
pub const STATE: &str = "pvmd::state";

enum Order {
    Line(Line),
    Flush(SyncSender<()>),
}

/// A line, when it was said, and whether it is counted if it repeats itself: what a task has written is not.
struct Line {
    time: String,
    text: String,
    is_counted: bool,
}

/// The log, to be cloned at will.
#[derive(Clone)]
pub struct Log {
    orders: SyncSender<Order>,
    lost: Arc<AtomicU64>,
    /// Its file, if it has one.
    path: Option<PathBuf>,
    discarded: Arc<AtomicBool>,
}

impl Log {
    /// Begins a log at this path and in the file before it ([`crate::io::log_file::before`]), at most `max` bytes long together. What was
    /// there before is overwritten. `daemon` is the bits of the daemon's task id, which begins each line.
    pub fn begin(path: &Path, daemon: u32, max: u64) -> io::Result<Self> {
        Ok(Self { path: Some(path.to_owned()), ..Self::into(LogFile::begin(path)?, daemon, max)? })
    }

    /// A log that nobody reads.
    pub fn nowhere(daemon: u32) -> io::Result<Self> {
        Self::into(io::sink(), daemon, 0)
    }

    fn into(store: impl Store, daemon: u32, max: u64) -> io::Result<Self> {
        let (orders, received) = sync_channel(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let keeper = Keeper {
            store,
            prefix: format!("[t{daemon:08x}] "),
            written: 0,
            max: max / 2,
            is_torn: false,
            lost: lost.clone(),
            repeats: Repeats::default(),
        };
        std::thread::Builder::new().name("log".into()).spawn(move || keeper.keep(&received))?;
        Ok(Self { orders, lost, path: None, discarded: Arc::default() })
    }

    /// Sends `tracing`'s events here.
    pub fn subscribe(&self, filter: Option<&str>) -> Result<(), String> {
        let filter = EnvFilter::try_new(filter.unwrap_or(FILTER)).map_err(|error| error.to_string())?;
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .event_format(Plain)
            .with_writer(self.clone())
            .try_init()
            .map_err(|error| error.to_string())
    }

    /// Writes a line, however often it is the same.
    pub fn line(&self, text: &str) {
        self.send(text, false);
    }

    fn send(&self, text: &str, is_counted: bool) {
        // One line is one line, whatever is in it.
        let line = Line { time: time(), text: text.replace('\n', " "), is_counted };
        if self.orders.try_send(Order::Line(line)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Nothing in it is wanted: [`Log::end`] is to remove it.
    pub fn discard(&self) {
        self.discarded.store(true, Ordering::Relaxed);
    }

    /// What has been written stays, unless the log was discarded.
    pub fn end(&self) {
        self.flush();
        if let Some(path) = self.path.as_ref().filter(|_| self.discarded.load(Ordering::Relaxed)) {
            // If it cannot be removed it stays, and does no harm.
            let _ = std::fs::remove_file(path);
            let _ = std::fs::remove_file(log_file::before(path));
        }
    }

    /// Waits, not for long, until all lines are written.
    pub fn flush(&self) {
        let (done, wait) = sync_channel(1);
        if self.orders.try_send(Order::Flush(done)).is_ok() {
            let _ = wait.recv_timeout(FLUSH);
        }
    }
}

fn time() -> String {
    local_time::now().strftime("%m/%d %H:%M:%S").to_string()
}

struct Keeper<S> {
    store: S,
    prefix: String,
    /// Bytes in the file, and how many may be.
    written: u64,
    max: u64,
    /// The last line in the file has no end.
    is_torn: bool,
    lost: Arc<AtomicU64>,
    repeats: Repeats,
}

impl<S: Store> Keeper<S> {
    fn keep(mut self, orders: &Receiver<Order>) {
        loop {
            let order = match self.wake() {
                Some(after) => orders.recv_timeout(after),
                None => orders.recv().map_err(RecvTimeoutError::from),
            };
            match order {
                Ok(Order::Line(line)) => self.take(&line),
                Ok(Order::Flush(done)) => {
                    self.report(true);
                    let _ = done.try_send(());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.report(false);
        }
    }

    /// How long nothing has to be said of what was lost or counted.
    fn wake(&self) -> Option<Duration> {
        let room = (self.lost.load(Ordering::Relaxed) > 0 && self.max > 0).then_some(ROOM_LOOK);
        let repeats = self.repeats.due().map(|due| due.saturating_duration_since(Instant::now()));
        room.into_iter().chain(repeats).min()
    }

    fn take(&mut self, line: &Line) {
        if !line.is_counted || self.repeats.admits(&line.text, Instant::now()) {
            self.write(&line.time, &line.text);
        }
    }

    /// Says what is due of lines that were counted, or all that there is to say.
    fn report(&mut self, all: bool) {
        let now = Instant::now();
        if all || self.repeats.due().is_some_and(|due| due <= now) {
            for text in self.repeats.take(now, all) {
                self.write(&time(), &text);
            }
        }
        self.report_lost();
    }

    /// A full disk loses lines, nothing else.
    fn write(&mut self, time: &str, text: &str) {
        self.report_lost();
        if self.lost.load(Ordering::Relaxed) > 0 || !self.append(time, text) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn report_lost(&mut self) {
        let lost = self.lost.load(Ordering::Relaxed);
        let text = format!("{lost} lines lost: the disk was full, or too slow");
        if lost > 0 && self.append(&time(), &text) {
            self.lost.fetch_sub(lost, Ordering::Relaxed);
        }
    }

    /// Writes a line; `false` if there is no room for it.
    fn append(&mut self, time: &str, text: &str) -> bool {
        if self.max == 0 {
            return true;
        }
        let mut line = format!("{}{time} {text}", self.prefix).into_bytes();
        line.truncate(usize::try_from(self.max.saturating_sub(2)).unwrap_or(usize::MAX));
        line.push(b'\n');
        if self.is_torn {
            line.insert(0, b'\n');
        }
        let length = line.len() as u64;
        if self.written + length > self.max {
            if self.store.rotate().is_err() {
                return false;
            }
            self.written = 0;
        }
        let done = write_what_fits(&mut self.store, &line);
        self.written += done as u64;
        if done > 0 {
            self.is_torn = done < line.len();
        }
        done == line.len()
    }
}

/// How many bytes could be written.
fn write_what_fits(store: &mut impl Write, bytes: &[u8]) -> usize {
    let mut done = 0;
    while done < bytes.len() {
        match store.write(&bytes[done..]) {
            Ok(0) => break,
            Ok(length) => done += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    done
}

/// An event's text on its way to the log.
pub struct LineWriter<'a> {
    log: &'a Log,
    text: Vec<u8>,
    is_counted: bool,
}

impl Write for LineWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for LineWriter<'_> {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.text);
        if !text.is_empty() {
            self.log.send(&pvm_wire::plain(text.trim_end()), self.is_counted);
        }
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        LineWriter { log: self, text: Vec::new(), is_counted: false }
    }

    /// What was asked for is written, however often: details (`PVM_LOG`), and the state.
    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Self::Writer {
        let is_counted = *metadata.level() <= Level::INFO && metadata.target() != STATE;
        LineWriter { log: self, text: Vec::new(), is_counted }
    }
}

/// Message and fields, after the level if it is worth a look.
struct Plain;

impl<S, N> FormatEvent<S, N> for Plain
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        match *event.metadata().level() {
            Level::ERROR => writer.write_str("error: ")?,
            Level::WARN => writer.write_str("warning: ")?,
            _ => {}
        }
        if !event.metadata().target().starts_with("pvm") {
            write!(writer, "{}: ", event.metadata().target())?;
        }
        // On whose account. Other crates' spans say nothing to people.
        for span in context.event_scope().into_iter().flat_map(Scope::from_root) {
            if span.metadata().target().starts_with("pvm") {
                let fields = span.extensions().get::<FormattedFields<N>>().map(ToString::to_string);
                write!(writer, "{}{{{}}}: ", span.name(), fields.unwrap_or_default())?;
            }
        }
        context.format_fields(writer, event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::log_file::before;
    use std::fs;

    #[test]
    fn lines_are_pvms_and_the_log_goes_on_in_two_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pvml");
        fs::write(&path, "old").unwrap();
        fs::write(before(&path), "older").unwrap();
        let log = Log::begin(&path, 0x8004_0000, 200).unwrap();
        for number in 0..10 {
            log.line(&format!("[t40002] hello\nthere {number}"));
        }
        log.flush();
        let (last, first) = (fs::read_to_string(&path).unwrap(), fs::read_to_string(before(&path)).unwrap());
        for text in [&first, &last] {
            assert!(text.starts_with("[t80040000] ") && text.len() <= 100, "{text}");
        }
        assert!(last.ends_with(" [t40002] hello there 9\n"), "{last}");
        assert!(!first.contains("old"), "{first}");
        // A line that is longer than a file is cut.
        log.line(&"x".repeat(1000));
        log.flush();
        assert_eq!(fs::read_to_string(&path).unwrap().len(), 99);
    }

    #[test]
    fn a_discarded_log_is_removed_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pvml");
        let log = Log::begin(&path, 1, 200).unwrap();
        for _ in 0..10 {
            log.line("x");
        }
        log.end();
        assert!(path.exists() && before(&path).exists());
        log.clone().discard();
        log.end();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_repeats_itself_is_counted_but_not_what_tasks_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pvml");
        let log = Log::begin(&path, 1, 1_000_000).unwrap();
        for _ in 0..1000 {
            log.line("output");
            log.send("trouble", true);
        }
        log.flush();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches("output").count(), 1000);
        assert_eq!(text.matches("trouble").count(), 6, "{text}");
        assert!(text.contains("message repeated 995 times more, the last: trouble"), "{text}");
    }

    /// A disk with room for this number of bytes, until more is made.
    struct Disk {
        room: Arc<AtomicU64>,
        written: Arc<std::sync::Mutex<Vec<u8>>>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let length = (self.room.load(Ordering::SeqCst) as usize).min(bytes.len());
            if length == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.room.fetch_sub(length as u64, Ordering::SeqCst);
            self.written.lock().unwrap().extend_from_slice(&bytes[..length]);
            Ok(length)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Store for Disk {
        fn rotate(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_loses_lines_and_says_how_many() {
        let (room, written) = (Arc::new(AtomicU64::new(100)), Arc::default());
        let disk = Disk { room: room.clone(), written: Arc::clone(&written) };
        let log = Log::into(disk, 1, 100_000).unwrap();
        for number in 0..10 {
            log.line(&format!("line {number}"));
        }
        log.flush();
        room.store(10_000, Ordering::SeqCst);
        log.flush();
        log.line("the last");
        log.flush();
        let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        let whole = text.lines().filter(|line| line.contains(" line ")).count();
        assert!(whole < 10 && text.lines().all(|line| line.starts_with("[t00000001] ")), "{text}");
        assert!(text.contains(" 8 lines lost") && text.ends_with(" the last\n"), "{text}");
        assert_eq!(log.lost.load(Ordering::Relaxed), 0);
    }
}
