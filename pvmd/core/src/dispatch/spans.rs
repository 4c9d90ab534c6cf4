//! On whose account an event is handled.

use crate::Core;
use crate::event::{ConnId, Event};
use pvm_wire::HostIndex;
use pvm_wire::daemon::DaemonMsg;
use tracing::Span;

impl Core {
    /// On whose account an event is handled. What only passes through is left out: nothing is said of it, and it is to be
    /// fast.
    pub(crate) fn span_of(&self, event: &Event) -> Span {
        let span = match event {
            Event::Fragment { conn, header, .. } if header.dst.is_daemon() => self.span_of_conn(*conn),
            Event::AuthOpened { conn, .. }
            | Event::AuthChecked { conn, .. }
            | Event::TaskClosed { conn, .. } => self.span_of_conn(*conn),
            Event::PeerMessage { message: DaemonMsg::Data { .. }, .. } => None,
            Event::PeerMessage { host, .. } | Event::PeerLost { host, .. } => self.span_of_peer(*host),
            _ => None,
        };
        span.cloned().unwrap_or_else(Span::none)
    }

    fn span_of_conn(&self, conn: ConnId) -> Option<&Span> {
        self.tasks.conns.get(&conn).map(|conn| &conn.span)
    }

    fn span_of_peer(&self, host: HostIndex) -> Option<&Span> {
        self.hosts.links.get(&host).map(|link| &link.span)
    }
}
