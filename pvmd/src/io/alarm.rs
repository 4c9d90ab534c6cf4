//! The timers of links, which are set with every message and hardly ever go off.
//!
//! A link's deadline moves to and fro: an acknowledgement is due soon, then, once it has gone, a lost packet would be noticed later.
//! A timer that is set to an earlier time than before may call the system. So a timer here stays set to the earliest time that it was ever
//! given, and looks when it goes off what is still wanted of it.

use crate::io::clock::{Clock, Sleep};
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// By how much a timer may be late.
const LATENESS: Duration = Duration::from_millis(1);

/// A timer that may be set often.
#[derive(Debug)]
struct Alarm {
    due: Instant,
    /// Ends then, or before.
    sleep: Sleep,
}

impl Alarm {
    fn new(clock: &Clock, due: Instant) -> Self {
        Self { due, sleep: clock.sleep_until(due, LATENESS) }
    }
}

impl AsyncTimer for Alarm {
    fn reset(mut self: Pin<&mut Self>, due: Instant) {
        self.due = due;
        if due < self.sleep.deadline() {
            self.sleep.reset(due);
        }
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(Pin::new(&mut self.sleep).poll(cx));
            let due = self.due;
            if due <= Instant::now() {
                return Poll::Ready(());
            }
            self.sleep.reset(due);
        }
    }
}

/// tokio, as links use it, with timers of this clock.
#[derive(Debug)]
pub struct LinkRuntime(pub Clock);

impl Runtime for LinkRuntime {
    fn new_timer(&self, due: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(Alarm::new(&self.0, due))
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        TokioRuntime.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        TokioRuntime.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        TokioRuntime.now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    /// Longer than any test waits.
    const NEVER: Duration = Duration::from_secs(1000);
    const SOON: Duration = Duration::from_millis(5);
    const LATER: Duration = Duration::from_millis(40);

    fn set(alarm: &mut Alarm, due: Instant) {
        Pin::new(alarm).reset(due);
    }

    async fn wait(alarm: &mut Alarm) -> Instant {
        poll_fn(|cx| AsyncTimer::poll(Pin::new(alarm), cx)).await;
        Instant::now()
    }

    /// After what time it goes off if it is set to these, one after the other, and somebody waits for each.
    async fn goes_off(times: &[Duration]) -> Duration {
        let begin = Instant::now();
        let mut alarm = Alarm::new(&Clock::start().unwrap(), begin + NEVER);
        for &time in times {
            let waited = poll_fn(|cx| Poll::Ready(AsyncTimer::poll(Pin::new(&mut alarm), cx))).await;
            assert!(waited.is_pending());
            set(&mut alarm, begin + time);
        }
        wait(&mut alarm).await.duration_since(begin)
    }

    #[tokio::test]
    async fn it_goes_off_at_the_time_it_was_given_last() {
        for times in [&[SOON][..], &[LATER, SOON], &[NEVER, SOON, NEVER, LATER, SOON]] {
            assert!(goes_off(times).await >= SOON);
        }
        for times in [&[LATER][..], &[SOON, LATER], &[NEVER, SOON, NEVER, SOON, LATER]] {
            assert!(goes_off(times).await >= LATER);
        }
    }

    #[tokio::test]
    async fn it_can_be_set_again_after_it_went_off() {
        let mut alarm = Alarm::new(&Clock::start().unwrap(), Instant::now());
        wait(&mut alarm).await;
        for time in [LATER, SOON] {
            let due = Instant::now() + time;
            set(&mut alarm, due);
            assert!(wait(&mut alarm).await >= due);
        }
    }
}
