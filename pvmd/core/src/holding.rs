//! What this host keeps for tasks that move, until they are where they go, or stay.

use bytes::Bytes;
use pvm_wire::daemon::{Attempt, DaemonMsg};
use pvm_wire::{HostIndex, Tid};
use std::collections::{BTreeMap, VecDeque};

/// A piece of a message on its way.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub src: Tid,
    pub flags: u8,
    pub data: Bytes,
}

impl Piece {
    /// The piece as the daemon of these receivers gets it.
    pub fn to(self, dsts: Vec<Tid>) -> DaemonMsg {
        DaemonMsg::Data { src: self.src, dsts, flags: self.flags, data: self.data }
    }
}

/// What is kept for one task.
#[derive(Debug)]
pub(crate) struct Kept {
    pub attempt: Attempt,
    pub to: HostIndex,
    pub pieces: VecDeque<Piece>,
    bytes: usize,
    /// The task stays on the host that it was to leave, and this host has not heard that it is there.
    is_released: bool,
    /// What the task itself has said on the next host, which this host has not heard of.
    pub said: Vec<Said>,
}

/// A piece of a message of a task that has moved, to tasks of this host.
#[derive(Debug)]
pub(crate) struct Said {
    pub from: HostIndex,
    pub dsts: Vec<Tid>,
    pub flags: u8,
    pub data: Bytes,
}

/// What is kept, by task.
#[derive(Debug, Default)]
pub(crate) struct Holding(BTreeMap<Tid, Kept>);

impl Holding {
    /// From now on everything for this task is kept.
    pub fn hold(&mut self, attempt: Attempt, to: HostIndex) {
        let kept =
            Kept { attempt, to, pieces: VecDeque::new(), bytes: 0, is_released: false, said: Vec::new() };
        let kept = self.0.entry(attempt.tid).or_insert(kept);
        (kept.attempt, kept.to, kept.is_released) = (attempt, to, false);
    }

    /// The attempt for which everything for a task is kept.
    pub fn attempt(&self, tid: Tid) -> Option<Attempt> {
        self.0.get(&tid).map(|kept| kept.attempt)
    }

    /// A message of this task has come from another host: the task has moved there, and this host has not heard of it. Until then the message
    /// waits, as tasks here have to know where the other lives; whether it does.
    pub fn keep_said(&mut self, src: Tid, said: Said) -> bool {
        let kept = self.0.get_mut(&src).filter(|kept| kept.to == said.from);
        kept.map(|kept| kept.said.push(said)).is_some()
    }

    /// What a task has said on a host, when this host knows that it is there.
    pub fn take_said(&mut self, tid: Tid, host: HostIndex) -> Vec<Said> {
        let kept = self.0.get_mut(&tid);
        kept.map(|kept| kept.said.extract_if(.., |said| said.from == host).collect()).unwrap_or_default()
    }

    /// Whether something is kept that this task has sent.
    pub fn has_sent(&self, src: Tid) -> bool {
        self.0.values().any(|kept| kept.pieces.iter().any(|piece| piece.src == src))
    }

    /// Keeps a piece; the bytes that are kept for the task now, or the piece if nothing is.
    pub fn keep(&mut self, dst: Tid, piece: Piece) -> Result<usize, Piece> {
        let Some(kept) = self.0.get_mut(&dst) else { return Err(piece) };
        kept.bytes += piece.data.len();
        kept.pieces.push_back(piece);
        Ok(kept.bytes)
    }

    /// The task stays on a host on which it is not known to be: what is kept goes there when it is.
    pub fn release_later(&mut self, attempt: Attempt) {
        if let Some(kept) = self.0.get_mut(&attempt.tid).filter(|kept| kept.attempt == attempt) {
            kept.is_released = true;
        }
    }

    /// The attempt that is over of a task that stays on this host, where it is known to be now.
    pub fn released_at(&self, tid: Tid, host: HostIndex) -> Option<Attempt> {
        let kept = self.0.get(&tid).filter(|kept| kept.is_released && kept.attempt.from == host)?;
        Some(kept.attempt)
    }

    /// Nothing is kept any more for a task; what was.
    pub fn release(&mut self, tid: Tid) -> Option<Kept> {
        self.0.remove(&tid)
    }

    /// The tasks that are to leave this host, or to come there.
    pub fn concerning(&self, host: HostIndex) -> Vec<Attempt> {
        let its = self.0.values().filter(|kept| kept.attempt.from == host || kept.to == host);
        its.map(|kept| kept.attempt).collect()
    }

    /// Tasks for which something may be kept.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_for_a_task_that_moves_is_kept_in_order() {
        let [from, to] = [1, 2].map(|index| HostIndex::new(index).unwrap());
        let attempt = Attempt { tid: from.task(1), from, number: 1 };
        let piece = |byte: u8| Piece { src: to.task(9), flags: 3, data: vec![byte].into() };
        let mut holding = Holding::default();
        assert!(holding.keep(attempt.tid, piece(0)).is_err(), "it does not move");
        holding.hold(attempt, to);
        assert_eq!(holding.keep(attempt.tid, piece(1)).ok(), Some(1));
        let again = Attempt { number: 2, ..attempt };
        holding.hold(again, to);
        assert_eq!(holding.keep(attempt.tid, piece(2)).ok(), Some(2));
        let said = |from| Said { from, dsts: vec![to.task(9)], flags: 3, data: Bytes::new() };
        assert!(holding.keep_said(attempt.tid, said(to)) && !holding.keep_said(attempt.tid, said(from)));
        assert_eq!(
            (holding.take_said(attempt.tid, from).len(), holding.take_said(attempt.tid, to).len()),
            (0, 1)
        );
        assert!(holding.has_sent(to.task(9)) && !holding.has_sent(attempt.tid));
        assert_eq!(holding.concerning(to), [again]);
        assert_eq!(holding.released_at(attempt.tid, from), None);
        holding.release_later(again);
        assert_eq!(
            (holding.released_at(attempt.tid, from), holding.released_at(attempt.tid, to)),
            (Some(again), None)
        );
        let kept = holding.release(attempt.tid).unwrap();
        assert_eq!(kept.pieces.iter().map(|piece| piece.data[0]).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(holding.len(), 0);
    }
}
