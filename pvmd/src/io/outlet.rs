//! The sending half of a link: what comes alone goes at once, by whoever has it, and spares the link's writer its turn.

use bytes::Bytes;
use pvm_wire::HostIndex;
use pvm_wire::copy::append;
use pvm_wire::daemon::DaemonMsg;
use pvm_wire::tuned::LINK_COPIED;
use quinn::SendStream;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use tokio::sync::Mutex;
use tracing::warn;

/// A message's bytes.
pub(super) type Frame = [Bytes; 2];

/// What a link's writer has to write.
#[derive(Debug)]
pub(super) enum Outgoing {
    /// A message.
    Message(DaemonMsg),
    /// The rest of a frame whose first part has been written, and the bytes of its data.
    Rest(Frame, usize),
}

/// Where all that goes by a link leaves.
#[derive(Debug)]
pub(super) struct Outlet {
    /// The writer holds it while it writes.
    pub(super) stream: Mutex<SendStream>,
    /// Messages that the writer has not written yet.
    pub(super) behind: AtomicUsize,
}

impl Outlet {
    pub(super) fn new(stream: SendStream) -> Self {
        Self { stream: Mutex::new(stream), behind: AtomicUsize::new(0) }
    }

    /// Sends a message if nothing is queued and there is room; what is left for the writer.
    pub(super) fn send_now(&self, host: HostIndex, message: DaemonMsg) -> Option<Outgoing> {
        if self.behind.load(Ordering::Acquire) > 0 {
            return Some(Outgoing::Message(message));
        }
        let Ok(mut stream) = self.stream.try_lock() else { return Some(Outgoing::Message(message)) };
        let mut frame = frame(host, &message);
        let written = pin!(stream.write_chunks(&mut frame)).poll(&mut Context::from_waker(Waker::noop()));
        match written {
            Poll::Ready(Ok(_)) if frame.iter().all(Bytes::is_empty) => None,
            Poll::Ready(Ok(_)) => Some(Outgoing::Rest(frame, message.data().len())),
            // Errors are the writer's business.
            Poll::Ready(Err(_)) | Poll::Pending => Some(Outgoing::Message(message)),
        }
    }
}

/// The frame of a message; none of one that cannot be sent. Long data are not copied.
pub(super) fn frame(host: HostIndex, message: &DaemonMsg) -> Frame {
    let head = message.frame_head().inspect_err(|error| warn!(%host, %error, "message cannot be sent"));
    match (head, message) {
        (Err(_), _) => Frame::default(),
        (Ok(head), DaemonMsg::Data { data, .. }) if data.len() > LINK_COPIED => [head.into(), data.clone()],
        (Ok(mut head), _) => {
            append(message.data(), &mut head);
            [head.into(), Bytes::new()]
        }
    }
}
