//! The log: one line per event, written by a thread of its own, so that a slow or full disk stops nobody.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use tracing::{Event, Level, Subscriber};
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

enum Order {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// The log, to be cloned at will.
#[derive(Clone)]
pub struct Log {
    orders: SyncSender<Order>,
    lost: Arc<AtomicU64>,
    prefix: Arc<str>,
}

impl Log {
    /// Begins a log at this path, at most `max` bytes long. What was there before is overwritten. `daemon` is the bits of
    /// the daemon's task id, which begins each line.
    pub fn begin(path: &Path, daemon: u32, max: u64) -> io::Result<Self> {
        // Neither through a link nor into somebody else's file: the folder may be everybody's.
        let file = pvm_files::create(path).map_err(io::Error::other)?;
        file.set_len(0)?;
        Self::into(file, daemon, max)
    }

    /// A log that nobody reads.
    pub fn nowhere(daemon: u32) -> io::Result<Self> {
        Self::into(io::sink(), daemon, 0)
    }

    fn into(file: impl Write + Send + 'static, daemon: u32, max: u64) -> io::Result<Self> {
        let (orders, received) = sync_channel(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let keeper = Keeper { file, written: 0, max, lost: lost.clone() };
        std::thread::Builder::new().name("log".into()).spawn(move || keeper.keep(&received))?;
        Ok(Self { orders, lost, prefix: format!("[t{daemon:08x}] ").into() })
    }

    /// Sends `tracing`'s events here.
    pub fn subscribe(&self, filter: Option<&str>) -> Result<(), String> {
        let filter =
            EnvFilter::try_new(filter.unwrap_or(FILTER)).map_err(|error| format!("PVM_LOG: {error}"))?;
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .event_format(Plain)
            .with_writer(self.clone())
            .try_init()
            .map_err(|error| error.to_string())
    }

    /// Writes a line.
    pub fn line(&self, text: &str) {
        let now = jiff::Zoned::now().strftime("%m/%d %H:%M:%S").to_string();
        let mut line = format!("{}{now} ", self.prefix).into_bytes();
        // One line is one line, whatever is in it.
        line.extend(text.bytes().map(|byte| if byte == b'\n' { b' ' } else { byte }));
        line.push(b'\n');
        if self.orders.try_send(Order::Line(line)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
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

struct Keeper<W> {
    file: W,
    written: u64,
    max: u64,
    lost: Arc<AtomicU64>,
}

impl<W: Write> Keeper<W> {
    fn keep(mut self, orders: &Receiver<Order>) {
        for order in orders {
            match order {
                Order::Line(line) => self.line(&line),
                Order::Flush(done) => drop(done.try_send(())),
            }
        }
    }

    fn line(&mut self, line: &[u8]) {
        if self.written >= self.max {
            return;
        }
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 && self.file.write_all(format!("{lost} lines lost\n").as_bytes()).is_err() {
            self.lost.fetch_add(lost, Ordering::Relaxed);
        }
        // A full disk loses lines, nothing else.
        if self.file.write_all(line).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.written += line.len() as u64;
        if self.written >= self.max {
            let _ = writeln!(self.file, "*** log truncated after {} bytes (PVMDLOGMAX) ***", self.written);
        }
    }
}

/// An event's text on its way to the log.
pub struct LineWriter<'a> {
    log: &'a Log,
    text: Vec<u8>,
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
            self.log.line(text.trim_end());
        }
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        LineWriter { log: self, text: Vec::new() }
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

    #[test]
    fn lines_are_pvms_and_the_log_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pvml");
        std::fs::write(&path, "old").unwrap();
        let log = Log::begin(&path, 0x8004_0000, 100).unwrap();
        for _ in 0..10 {
            log.line("[t40002] hello\nthere");
        }
        log.flush();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("[t80040000] "), "{text}");
        assert!(text.lines().next().unwrap().ends_with(" [t40002] hello there"), "{text}");
        assert_eq!(text.matches("hello").count(), 3, "{text}");
        assert!(text.lines().last().unwrap().contains("PVMDLOGMAX"), "{text}");
    }

    #[test]
    fn a_full_disk_is_no_reason_to_stop() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let log = Log::into(full, 1, 1000).unwrap();
        for _ in 0..10 * QUEUE {
            log.line("x");
        }
        log.flush();
        assert!(log.lost.load(Ordering::Relaxed) > 0);
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("precious");
        std::fs::write(&target, "precious").unwrap();
        let path = folder.path().join("pvml");
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert!(Log::begin(&path, 1, 1000).is_err());
        assert_eq!(std::fs::read_to_string(target).unwrap(), "precious");
    }
}
