//! Bidding: processors have prices, and a process buys where it gets the best for its money.

use super::{Machines, Policy, Request, Step};
use std::collections::{BTreeSet, VecDeque};

/// A processor's public offer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offer {
    /// The processor.
    pub host: usize,
    /// The last price paid; a fair estimate of the next.
    pub price: f64,
    /// Its value: speed, memory and the like as one number, more is better.
    pub quality: f64,
}

/// The offer that a process with this budget picks: of those that it can afford the best, of equal ones the cheapest.
pub fn choose(budget: f64, offers: &[Offer]) -> Option<Offer> {
    let affordable = offers.iter().filter(|offer| offer.price <= budget);
    affordable.copied().max_by(|a, b| {
        a.quality.total_cmp(&b.quality).then(b.price.total_cmp(&a.price)).then(b.host.cmp(&a.host))
    })
}

/// A processor's sale of its time: it collects bids and takes the highest.
#[derive(Clone, Debug, Default)]
pub struct Auction {
    bids: Vec<(u64, f64)>,
}

/// How an auction ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Award {
    /// The process with the highest bid, of equal ones the earliest.
    pub winner: u64,
    /// The price paid: the processor's published price from now on.
    pub price: f64,
}

impl Auction {
    /// A process bids.
    pub fn bid(&mut self, process: u64, amount: f64) {
        self.bids.push((process, amount));
    }

    /// The highest bid wins. `None` without bids.
    pub fn close(self) -> Option<Award> {
        let mut best = *self.bids.first()?;
        for &bid in &self.bids {
            if bid.1 > best.1 {
                best = bid;
            }
        }
        Some(Award { winner: best.0, price: best.1 })
    }
}

/// The policy, for hosts of equal quality. In each round all processes that are to be placed read the public list, bid
/// for the cheapest host, and one of them gets it; the others have lost and bid again. A process that can afford none waits.
///
/// The price paid is the published one; each process on a host makes it dearer by [`RISE`], and one that ends, cheaper.
#[derive(Clone, Debug)]
pub struct Bidding {
    /// The public list, cheapest first; of equal prices the oldest, so that not all buy from host 0.
    board: BTreeSet<(u64, u64, usize)>,
    /// Each host's entry there: price and age.
    entries: Vec<(u64, u64)>,
    budget: u64,
    /// Processes that could not afford any host.
    broke: VecDeque<u64>,
    published: u64,
}

/// The increase of a host's price by each process on it.
pub const RISE: u64 = 10;

impl Bidding {
    /// Hosts that have not been paid yet, and processes that can afford a host with seven others on it.
    pub fn new(hosts: usize) -> Self {
        let board = (0..hosts).map(|host| (0, 0, host)).collect();
        Self { board, entries: vec![(0, 0); hosts], budget: 7 * RISE, broke: VecDeque::new(), published: 0 }
    }

    /// The published price of a host.
    pub fn price(&self, host: usize) -> Option<u64> {
        self.entries.get(host).map(|entry| entry.0)
    }

    fn publish(&mut self, host: usize, price: u64, machines: &mut dyn Machines) {
        let Some(entry) = self.entries.get_mut(host) else { return };
        machines.send(1);
        self.board.remove(&(entry.0, entry.1, host));
        self.published += 1;
        *entry = (price, self.published);
        self.board.insert((price, self.published, host));
    }

    /// One round: these processes bid, and the cheapest host decides. `None` if it is too dear.
    fn round(&mut self, bidders: &[u64], machines: &mut dyn Machines) -> Option<Step> {
        let &(price, _, host) = self.board.first()?;
        let offer = Offer { host, price: price as f64, quality: 1.0 };
        // Each reads the list, bids, and gets the result.
        machines.send(4 * bidders.len() as u64);
        let choice = choose(self.budget as f64, &[offer])?;
        let mut auction = Auction::default();
        for &bidder in bidders {
            auction.bid(bidder, choice.price);
        }
        let award = auction.close()?;
        self.publish(host, price + RISE, machines);
        Some(Step::Start { request: award.winner, host })
    }
}

impl Policy for Bidding {
    fn name(&self) -> &'static str {
        "bidding"
    }

    fn created(&mut self, request: Request, machines: &mut dyn Machines) -> Vec<Step> {
        let mut bidders = vec![request.id; request.count as usize];
        let mut steps = Vec::new();
        while !bidders.is_empty() {
            let Some(step) = self.round(&bidders, machines) else {
                self.broke.extend(&bidders);
                break;
            };
            steps.push(step);
            bidders.pop();
        }
        steps
    }

    fn ended(&mut self, host: usize, machines: &mut dyn Machines) -> Vec<Step> {
        let price = self.price(host).unwrap_or(0);
        self.publish(host, price.saturating_sub(RISE), machines);
        self.sell(machines)
    }

    fn left(&mut self, host: usize, _: &mut dyn Machines) {
        if let Some(&(price, age)) = self.entries.get(host) {
            self.board.remove(&(price, age, host));
        }
    }

    fn returned(&mut self, host: usize, machines: &mut dyn Machines) -> Vec<Step> {
        self.publish(host, 0, machines);
        self.sell(machines)
    }
}

impl Bidding {
    /// A host has become cheaper: perhaps the process that has waited longest can afford it.
    fn sell(&mut self, machines: &mut dyn Machines) -> Vec<Step> {
        let Some(&waiting) = self.broke.front() else { return Vec::new() };
        let step = self.round(&[waiting], machines);
        if step.is_some() {
            self.broke.pop_front();
        }
        step.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::*;

    fn offer(host: usize, price: f64, quality: f64) -> Offer {
        Offer { host, price, quality }
    }

    #[test]
    fn the_best_that_one_can_afford() {
        let offers = [offer(0, 5.0, 1.0), offer(1, 9.0, 3.0), offer(2, 8.0, 3.0), offer(3, 99.0, 9.0)];
        assert_eq!(choose(10.0, &offers).map(|offer| offer.host), Some(2));
        assert_eq!(choose(6.0, &offers).map(|offer| offer.host), Some(0));
        assert_eq!(choose(100.0, &offers).map(|offer| offer.host), Some(3));
        assert_eq!(choose(4.0, &offers), None);
        assert_eq!(choose(f64::NAN, &offers), None);
    }

    #[test]
    fn the_highest_bid_wins_and_of_equal_ones_the_earliest() {
        let mut auction = Auction::default();
        for (process, amount) in [(1, 5.0), (2, 7.0), (3, 7.0), (4, 6.0)] {
            auction.bid(process, amount);
        }
        assert_eq!(auction.close(), Some(Award { winner: 2, price: 7.0 }));
        assert_eq!(Auction::default().close(), None);
    }

    #[test]
    fn prices_follow_what_was_paid_and_who_is_broke_waits() {
        let mut policy = Bidding::new(2);
        let mut bench = Bench::new(&[0, 0]);
        let mut hosts = bench.create(&mut policy, 1, 0, 2);
        hosts.sort_unstable();
        assert_eq!(hosts, [0, 1], "each host gets dearer when it is bought");
        assert_eq!((policy.price(0), policy.price(1), policy.price(2)), (Some(RISE), Some(RISE), None));
        assert_eq!(bench.create(&mut policy, 2, 0, 100).len(), 14, "up to eight on each");
        let steps = bench.end(&mut policy, 1);
        assert_eq!(steps, [Step::Start { request: 2, host: 1 }]);
    }

    #[test]
    fn an_absent_host_sells_nothing() {
        let mut policy = Bidding::new(2);
        let mut bench = Bench::new(&[0, 0]);
        assert_eq!(bench.leave(&mut policy, 0), 0);
        assert_eq!(bench.create(&mut policy, 1, 1, 2), [1, 1]);
        bench.leave(&mut policy, 1);
        assert_eq!(bench.create(&mut policy, 2, 1, 1), [0; 0], "nobody sells");
        assert_eq!(bench.come_back(&mut policy, 0), [Step::Start { request: 2, host: 0 }]);
    }
}
