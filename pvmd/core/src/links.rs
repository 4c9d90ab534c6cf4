//! Links to other daemons: made when there is something to say, left when nothing has been said for a while.
//!
//! The master keeps a link to each slave as long as both live. Two slaves have one while their tasks or daemons talk. Messages
//! between two hosts keep their order, whether they wait for a link, use it, or follow one that was left: a link is left when
//! its other end agrees, and that is the last thing that the other end says there.

use super::event::Now;
use super::spans;
use pvm_wire::daemon::DaemonMsg;
use pvm_wire::limits::REQUEST_MAX;
use pvm_wire::{HostIndex, Reassembler};
use std::time::Duration;

/// A link to another daemon, or what is to become one.
#[derive(Debug)]
pub(crate) struct Link {
    state: State,
    /// When a message last went or came.
    used: Now,
    /// Bytes of data on their way.
    pub queued: usize,
    /// Messages of its tasks to this daemon, cut into fragments.
    pub requests: Reassembler,
    /// What is logged on its account.
    pub span: tracing::Span,
}

#[derive(Debug)]
enum State {
    /// It is being made; these messages wait for it.
    Making(Vec<DaemonMsg>),
    Open,
    /// This daemon has asked to leave it; these messages wait for the answer.
    Leaving(Vec<DaemonMsg>),
}

impl Link {
    /// One that is being made.
    pub fn making(host: HostIndex, now: Now) -> Self {
        Self::new(host, State::Making(Vec::new()), now)
    }

    /// One that stands.
    pub fn open(host: HostIndex, now: Now) -> Self {
        Self::new(host, State::Open, now)
    }

    fn new(host: HostIndex, state: State, now: Now) -> Self {
        let requests = Reassembler::new(REQUEST_MAX);
        Self { state, used: now, queued: 0, requests, span: spans::of_peer(host) }
    }

    /// Whether messages can take it at once.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// How far it is, for people.
    pub fn stage(&self) -> &'static str {
        match self.state {
            State::Making(_) => "being linked",
            State::Open => "linked",
            State::Leaving(_) => "linked, and to be left",
        }
    }

    /// A message is to go: given back if it can go at once, else kept until it can.
    pub fn send(&mut self, message: DaemonMsg, now: Now) -> Option<DaemonMsg> {
        self.used = now;
        match &mut self.state {
            State::Open => Some(message),
            State::Making(waiting) | State::Leaving(waiting) => {
                waiting.push(message);
                None
            }
        }
    }

    /// A message has come.
    pub fn note_use(&mut self, now: Now) {
        self.used = now;
    }

    /// It stands, or is not left: the messages that have waited for that.
    pub fn stand(&mut self) -> Vec<DaemonMsg> {
        match std::mem::replace(&mut self.state, State::Open) {
            State::Making(waiting) | State::Leaving(waiting) => waiting,
            State::Open => Vec::new(),
        }
    }

    /// How long it has been idle, if it stands.
    pub fn idle(&self, now: Now) -> Option<Duration> {
        self.is_open().then(|| now.saturating_sub(self.used))
    }

    /// Whether nothing of it would be lost if it were left now: data that its writer has not taken, and pieces of requests.
    pub fn is_clear(&self) -> bool {
        self.queued == 0 && self.requests.is_empty()
    }

    /// This daemon asks to leave it.
    pub fn leave(&mut self) {
        self.state = State::Leaving(Vec::new());
    }

    /// Whether this daemon has asked to leave it.
    pub fn is_leaving(&self) -> bool {
        matches!(self.state, State::Leaving(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_while_a_link_is_made_or_left_waits_in_order() {
        let host = HostIndex::new(2).unwrap();
        let second = Duration::from_secs(1);
        let mut link = Link::making(host, second);
        assert_eq!(link.send(DaemonMsg::Bye, second), None);
        assert_eq!(link.send(DaemonMsg::Halt, second), None);
        assert_eq!((link.idle(second), link.stand()), (None, vec![DaemonMsg::Bye, DaemonMsg::Halt]));
        assert_eq!(link.send(DaemonMsg::Bye, second * 2), Some(DaemonMsg::Bye));
        assert_eq!(link.idle(second * 5), Some(second * 3));
        link.leave();
        assert!(link.is_leaving() && !link.is_open());
        assert_eq!(link.send(DaemonMsg::Halt, second * 6), None);
        assert_eq!(link.stand(), [DaemonMsg::Halt]);
        assert!(link.is_open() && link.is_clear());
    }
}
