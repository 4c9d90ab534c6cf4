//! On whose account something is logged: one span per task's connection, one per peer.

use super::event::ConnId;
use pvm_wire::HostIndex;
use tracing::{Span, field, info_span};

/// The span of a connection. The task is recorded when it enrols.
pub(crate) fn of_conn(conn: ConnId) -> Span {
    info_span!(parent: None, "task", conn = conn.0, tid = field::Empty, pid = field::Empty)
}

/// The span of another daemon.
pub(crate) fn of_peer(host: HostIndex) -> Span {
    info_span!(parent: None, "peer", %host)
}
