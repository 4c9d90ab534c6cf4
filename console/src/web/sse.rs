//! Server-Sent Events, as a browser's `EventSource` reads them.

use bytes::Bytes;

/// Milliseconds after which a browser connects again.
const RETRY: u32 = 1000;

/// An event. JSON has no line ends but those that it is written with, and here it is written without.
pub fn event(name: &str, json: &str) -> Bytes {
    format!("event: {name}\ndata: {json}\n\n").into()
}

/// When to connect again after a loss.
pub fn retry() -> Bytes {
    format!("retry: {RETRY}\n\n").into()
}
