//! A batch without time: nodes apply in a recorded order.

use super::parties::{Ask, Cause, Messages, Parties, number};
use super::{Handout, Workload};
use pvm_sched::policy::Policy;
use pvm_wire::batch::{Application, BatchMsg};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A node's application to the manager of a batch, and the grants that follow.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// The node, from 0 on.
    pub host: usize,
    /// Its terms.
    pub terms: Application,
    /// The grants.
    pub handouts: Vec<Handout>,
}

/// Why nodes cannot have made the recorded applications.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("ask {number} of host {host}: recorded {recorded:?}, replayed {replayed:?}")]
pub struct Impossible {
    /// The number of the application.
    pub number: usize,
    /// The node.
    pub host: usize,
    /// The recorded application.
    pub recorded: Application,
    /// The application in the replay.
    pub replayed: Option<Application>,
}

/// Replays the applications in this order. Returns them with the grants, and the slots that other programs have used, as the sum
/// over all applications.
pub fn replay(
    workload: &Workload,
    asks: &[(usize, Application)],
) -> Result<(Vec<Exchange>, u64), Impossible> {
    let mut replay =
        Replay { parties: Parties::new(workload, Policy::ActivePulling), inbox: BTreeMap::new(), outside: 0 };
    let mut exchanges = Vec::new();
    for (number, &(host, recorded)) in asks.iter().enumerate() {
        let (ask, messages) = if number == 0 {
            replay.parties.fill(0, recorded.p_c);
            replay.outside = recorded.p_c;
            let (ask, messages) = replay.parties.place(workload.tasks, Duration::ZERO);
            (Some(ask), messages)
        } else {
            let ask = replay.next(host, recorded);
            (ask, ask.map(|ask| replay.parties.ask(&ask)).unwrap_or_default())
        };
        let replayed = ask.map(|ask| ask.terms);
        if ask.map(|ask| (ask.host, ask.terms)) != Some((host, recorded)) {
            return Err(Impossible { number, host, recorded, replayed });
        }
        exchanges.push(Exchange { host, terms: recorded, handouts: replay.deliver(messages) });
    }
    Ok((exchanges, replay.outside))
}

struct Replay {
    parties: Parties,
    /// Messages that each node has not handled yet, without those that no tasks are left, which are no reason to apply.
    inbox: BTreeMap<usize, VecDeque<Cause>>,
    outside: u64,
}

impl Replay {
    /// A node's next application, if the node may be as full as recorded: tasks have ended, or other programs use its slots, of which
    /// a node counts at most one less than it has.
    fn next(&mut self, host: usize, recorded: Application) -> Option<Ask> {
        let mut cause = self.inbox.entry(host).or_default().pop_front();
        let (running, ticket) = self.parties.at(host);
        let ended;
        if let Some(Cause::Given(n)) = &mut cause {
            // Some of them may have ended before the others run.
            let over = (running + *n).saturating_sub(recorded.p_c);
            ended = over.min(running);
            *n -= over - ended;
        } else {
            ended = running.saturating_sub(recorded.p_c);
        }
        let given = if let Some(Cause::Given(n)) = cause { n } else { 0 };
        let outside = recorded.p_c.checked_sub(running + given - ended)?;
        self.outside += outside;
        self.parties.fill(host, outside.min(recorded.p.saturating_sub(1)));
        let freed = self.parties.look(host, Cause::Ended(ended), Duration::ZERO);
        match (cause, freed) {
            // A node that waits for an answer does not apply because of room.
            (Some(_), Some(_)) => None,
            (Some(cause), None) => self.parties.look(host, cause, Duration::ZERO),
            (None, None) => self.parties.look(host, Cause::Retry(ticket?), Duration::ZERO),
            (None, freed) => freed,
        }
    }

    /// Puts messages into the nodes' inboxes; returns the grants.
    fn deliver(&mut self, messages: Messages) -> Vec<Handout> {
        let mut handouts = Vec::new();
        for (to, message) in messages {
            let (host, cause) = match message {
                BatchMsg::TasksHave { .. } => (to.host().map_or(0, number), Cause::TasksHave),
                BatchMsg::Grant { host, n, .. } => {
                    handouts.push(Handout { host: number(host), n });
                    (number(host), Cause::Given(n))
                }
                _ => continue,
            };
            self.inbox.entry(host).or_default().push_back(cause);
        }
        handouts
    }
}

#[cfg(test)]
mod tests {
    use super::super::Lengths;
    use super::*;

    fn workload() -> Workload {
        let (lengths, speeds) = (Lengths::Constant, vec![3000, 1000]);
        Workload { speeds, slots: 2, tasks: 9, lengths, mean: 1000, seed: 1 }
    }

    fn terms(p_c: u64) -> Application {
        Application { p: 2, p_c, n_a: 2 - p_c as i64 }
    }

    #[test]
    fn the_order_of_asks_decides_who_gets_how_many() {
        let asks = [(0, terms(0)), (0, terms(2)), (1, terms(0)), (0, terms(0)), (1, terms(1))];
        let (exchanges, outside) = replay(&workload(), &asks).expect("possible");
        let handouts: Vec<Vec<(usize, u64)>> = exchanges
            .iter()
            .map(|exchange| exchange.handouts.iter().map(|handout| (handout.host, handout.n)).collect())
            .collect();
        assert_eq!(handouts, [vec![(0, 2)], vec![], vec![(1, 2)], vec![(0, 2)], vec![(1, 1)]]);
        assert_eq!(outside, 0);
    }

    #[test]
    fn an_impossible_ask_is_found() {
        for wrong in [
            vec![(0, terms(0)), (0, terms(2)), (0, terms(2)), (0, Application { n_a: 1, ..terms(2) })],
            vec![(0, terms(0)), (1, terms(0)), (1, Application { p: 3, ..terms(2) })],
            vec![(0, terms(0)), (9, terms(0))],
            vec![(0, Application { p: 5, ..terms(0) })],
        ] {
            let error = replay(&workload(), &wrong).expect_err("impossible");
            assert_eq!(error.number, wrong.len() - 1, "{error}");
        }
    }

    #[test]
    fn other_programs_fill_a_node() {
        let asks = [(0, terms(1)), (0, terms(1)), (0, terms(1))];
        let (exchanges, outside) = replay(&workload(), &asks).expect("possible");
        assert_eq!(exchanges.iter().map(|exchange| exchange.handouts.len()).sum::<usize>(), 3);
        assert_eq!(outside, 1, "then tasks have ended");
        assert_eq!(replay(&workload(), &[(0, terms(0)), (1, terms(1))]).expect("possible").1, 1);
    }
}
