//! Who is next on a link: what different tasks send takes turns, piece by piece, so that a small message does not wait until a
//! large one of others has gone. What one task sends stays in order, and whatever else daemons say to each other comes
//! behind all that was queued before it and before all that is queued after: a notice of an end behind last words.

use pvm_wire::Tid;
use pvm_wire::daemon::DaemonMsg;
use std::collections::{HashMap, VecDeque};

/// Messages that wait for a link.
#[derive(Debug, Default)]
pub(super) struct FairQueue {
    sections: VecDeque<Section>,
}

/// What may change places.
#[derive(Debug, Default)]
struct Section {
    /// Whose turn it is, and whose then.
    order: VecDeque<Tid>,
    waiting: HashMap<Tid, VecDeque<DaemonMsg>>,
    /// What comes behind all of them.
    end: Option<DaemonMsg>,
}

impl FairQueue {
    /// One more.
    pub(super) fn push(&mut self, message: DaemonMsg) {
        if self.sections.back().is_none_or(|section| section.end.is_some()) {
            self.sections.push_back(Section::default());
        }
        let Some(section) = self.sections.back_mut() else { return };
        let DaemonMsg::Data { src, .. } = message else {
            section.end = Some(message);
            return;
        };
        let queue = section.waiting.entry(src).or_default();
        if queue.is_empty() {
            section.order.push_back(src);
        }
        queue.push_back(message);
    }

    /// The next one.
    pub(super) fn pop(&mut self) -> Option<DaemonMsg> {
        loop {
            let section = self.sections.front_mut()?;
            if let Some(message) = section.next() {
                return Some(message);
            }
            let end = section.end.take();
            self.sections.pop_front();
            if end.is_some() {
                return end;
            }
        }
    }
}

impl Section {
    fn next(&mut self) -> Option<DaemonMsg> {
        let src = self.order.pop_front()?;
        let queue = self.waiting.get_mut(&src)?;
        let message = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&src);
        } else {
            self.order.push_back(src);
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn data(src: u32, number: u8) -> DaemonMsg {
        let data = vec![number].into();
        DaemonMsg::Data { src: Tid::from_bits(src), dsts: vec![Tid::from_bits(9)], flags: 0, data }
    }

    fn control(number: u32) -> DaemonMsg {
        DaemonMsg::WatchTask { tid: Tid::from_bits(number) }
    }

    fn all(queue: &mut FairQueue) -> Vec<DaemonMsg> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn a_small_message_does_not_wait_for_all_of_a_large_one() {
        let mut queue = FairQueue::default();
        (0..50).for_each(|piece| queue.push(data(1, piece)));
        assert_eq!(queue.pop(), Some(data(1, 0)));
        queue.push(data(2, 7));
        assert_eq!([queue.pop(), queue.pop()], [Some(data(1, 1)), Some(data(2, 7))]);
        assert_eq!(all(&mut queue).len(), 48);
        assert_eq!(queue.pop(), None);
    }

    proptest! {
        /// Nothing is lost; what one task sends, and what daemons say, is where it was among its own.
        #[test]
        fn the_order_that_matters_is_kept(steps in prop::collection::vec((0..5_u32, 0..3_u8), 0..200)) {
            let (mut queue, mut pushed, mut popped) = (FairQueue::default(), Vec::new(), Vec::new());
            for (number, &(kind, pops)) in steps.iter().enumerate() {
                let message = if kind == 0 { control(number as u32) } else { data(kind, number as u8) };
                pushed.push(message.clone());
                queue.push(message);
                popped.extend((0..pops).filter_map(|_| queue.pop()));
            }
            popped.extend(all(&mut queue));
            prop_assert_eq!(pushed.len(), popped.len());
            for kind in 0..5 {
                let of = |messages: &[DaemonMsg]| -> Vec<DaemonMsg> {
                    let is = |message: &DaemonMsg| match message {
                        DaemonMsg::Data { src, .. } => *src == Tid::from_bits(kind),
                        _ => kind == 0,
                    };
                    messages.iter().filter(|message| is(message)).cloned().collect()
                };
                prop_assert_eq!(of(&pushed), of(&popped));
            }
            // Of each task the same is before and behind each word of a daemon.
            let place = |messages: &[DaemonMsg], which: &DaemonMsg| messages.iter().position(|m| m == which);
            for (at, word) in pushed.iter().enumerate().filter(|(_, m)| !matches!(m, DaemonMsg::Data { .. })) {
                prop_assert_eq!(place(&popped, word), Some(at));
            }
        }
    }
}
