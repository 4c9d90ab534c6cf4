//! What a test's thread logs.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tracing::Dispatch;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

/// What this thread logs while the guard lives.
#[derive(Clone, Default)]
pub struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl CapturedLog {
    /// Captures from now on.
    ///
    /// While a process has one subscriber only, `tracing` decides about a place that logs by the thread that comes there first: a place that
    /// another test reaches first, in a thread without a subscriber, would stay silent for all. With a second subscriber it asks all of them.
    pub fn start() -> (Self, DefaultGuard) {
        static SECOND: OnceLock<Dispatch> = OnceLock::new();
        SECOND.get_or_init(|| Dispatch::new(tracing_subscriber::fmt().with_writer(io::sink).finish()));
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// All of it.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// Whether this text is logged within `limit`.
    pub async fn has_within(&self, text: &str, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        while !self.text().contains(text) {
            if Instant::now() > end {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        true
    }
}

impl io::Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for CapturedLog {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[test]
fn a_place_that_another_thread_reaches_first_is_captured() {
    let say = || tracing::warn!("said");
    let (log, _guard) = CapturedLog::start();
    std::thread::spawn(say).join().unwrap();
    say();
    assert_eq!(log.text().matches("said").count(), 1, "{}", log.text());
}
