//! A batch without time: nodes ask in the order in which others did.

use super::parties::{Ask, Cause, Messages, Parties, number};
use super::{Handout, Workload};
use pvm_wire::batch::{Application, BatchMsg};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// What a node has said to the manager of a batch, and what the manager has handed out upon it.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// The node, from 0 on.
    pub host: usize,
    /// Its terms.
    pub terms: Application,
    /// Who got how many.
    pub handouts: Vec<Handout>,
}

/// Why nodes cannot have asked so.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("ask {number}, of host {host} with {said:?}: it {would:?}")]
pub struct Impossible {
    /// Which of the asks.
    pub number: usize,
    /// The node.
    pub host: usize,
    /// What it is to have said.
    pub said: Application,
    /// What it would have said.
    pub would: Option<Application>,
}

/// What nodes and the manager of the batch say if the nodes are heard in the order of these asks; and how many tasks' room other
/// programs have filled, in all asks together.
pub fn replay(
    workload: &Workload,
    asks: &[(usize, Application)],
) -> Result<(Vec<Exchange>, u64), Impossible> {
    let mut replay = Replay { parties: Parties::new(workload), heard: BTreeMap::new(), outside: 0 };
    let mut exchanges = Vec::new();
    for (number, &(host, said)) in asks.iter().enumerate() {
        let (ask, messages) = if number == 0 {
            replay.parties.fill(0, said.p_c);
            replay.outside = said.p_c;
            let (ask, messages) = replay.parties.place(workload.tasks, Duration::ZERO);
            (Some(ask), messages)
        } else {
            let ask = replay.next(host, said);
            (ask, ask.map(|ask| replay.parties.ask(&ask)).unwrap_or_default())
        };
        let would = ask.map(|ask| ask.terms);
        if ask.map(|ask| (ask.host, ask.terms)) != Some((host, said)) {
            return Err(Impossible { number, host, said, would });
        }
        exchanges.push(Exchange { host, terms: said, handouts: replay.deliver(messages) });
    }
    Ok((exchanges, replay.outside))
}

struct Replay {
    parties: Parties,
    /// What each node is to hear yet. That no tasks are left is no reason to ask.
    heard: BTreeMap<usize, VecDeque<Cause>>,
    outside: u64,
}

impl Replay {
    /// What a node asks next, if by then it may be as full as it has said: tasks have ended, or other programs fill it, which a
    /// node counts as at most one task less than it may run.
    fn next(&mut self, host: usize, said: Application) -> Option<Ask> {
        let mut cause = self.heard.entry(host).or_default().pop_front();
        let (running, ticket) = self.parties.at(host);
        let ended;
        if let Some(Cause::Given(n)) = &mut cause {
            // Some of them may have ended before the others run.
            let over = (running + *n).saturating_sub(said.p_c);
            ended = over.min(running);
            *n -= over - ended;
        } else {
            ended = running.saturating_sub(said.p_c);
        }
        let given = if let Some(Cause::Given(n)) = cause { n } else { 0 };
        let outside = said.p_c.checked_sub(running + given - ended)?;
        self.outside += outside;
        self.parties.fill(host, outside.min(said.p.saturating_sub(1)));
        let freed = self.parties.look(host, Cause::Ended(ended), Duration::ZERO);
        match (cause, freed) {
            // A node that waits for an answer says nothing of room.
            (Some(_), Some(_)) => None,
            (Some(cause), None) => self.parties.look(host, cause, Duration::ZERO),
            (None, None) => self.parties.look(host, Cause::Retry(ticket?), Duration::ZERO),
            (None, freed) => freed,
        }
    }

    /// Messages come to the nodes' inboxes; what is handed out.
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
            self.heard.entry(host).or_default().push_back(cause);
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
    fn what_a_node_would_not_say_is_found() {
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
