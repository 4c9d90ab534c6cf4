//! Bidding: processors have prices, and a process buys where it gets the best for its money.

use super::agent::{Agent, Event, Scene};
use super::census::Census;
use super::promises::Promises;
use super::till::Till;
use pvm_wire::daemon::Offer;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A processor's sale of its time: it collects bids and takes the highest.
#[derive(Clone, Debug, Default)]
struct Auction {
    bids: Vec<(Bidder, u64)>,
}

/// A home and its number of the request.
type Bidder = (usize, u64);

impl Auction {
    fn is_empty(&self) -> bool {
        self.bids.is_empty()
    }

    /// A process bids.
    fn bid(&mut self, bidder: Bidder, amount: u64) {
        self.bids.push((bidder, amount));
    }

    /// The bids, highest first, of equal ones the earliest.
    fn close(mut self) -> impl Iterator<Item = (Bidder, u64)> {
        self.bids.sort_by_key(|&(_, amount)| std::cmp::Reverse(amount));
        self.bids.into_iter()
    }

    /// A home is gone, and its processes with it.
    fn gone(&mut self, home: usize) {
        self.bids.retain(|&((of, _), _)| of != home);
    }
}

/// The price of a processor with one process, in the smallest unit. A host with `r` processors gets dearer by an `r`-th of it with each
/// process.
pub const RISE: u64 = 1000;
/// What a process can pay: it can afford a processor with seven others on it.
const BUDGET: u64 = 7 * RISE;
/// Bids are collected for this time, in milliseconds.
const AUCTION: u64 = 2;
/// Most offers that are read from the public list at once.
const OFFERS_MAX: usize = 256;

/// The policy. The centre keeps the public list of prices. A home reads it, and bids for its processes at the cheapest hosts that they can
/// afford. A host collects bids for a moment, sells to the highest ones as long as they are not below its price, which rises with each
/// sale, and publishes the new price. A process that has lost bids again; one that can afford no host waits until one is cheaper.
#[derive(Clone, Debug, Default)]
pub struct Bidding {
    /// Processes of this host that read the list, bid or wait, by request.
    buyers: BTreeMap<u64, u32>,
    /// Bids that have not been answered: host and request, and how many processes.
    bids: BTreeMap<(usize, u64), u32>,
    /// The price of this host that is on the list, if it was ever asked for.
    published: Option<u64>,
    /// Processes that have bought a place here and have not begun.
    sold: Promises,
    till: Till,
    /// What programs can read of this host.
    posted: Option<Offer>,
    /// The bids at this host.
    auction: Auction,
    board: Board,
}

/// The public list.
#[derive(Clone, Debug, Default)]
struct Board {
    hosts: Census<(u64, u64)>,
    /// Prices and their ages, cheapest first; of equal prices the oldest, so that not all buy from the same host.
    prices: BTreeSet<(u64, u64, usize)>,
    /// Changes so far.
    age: u64,
    /// Hosts that want to read it as soon as it is complete.
    readers: BTreeMap<usize, u32>,
    /// Hosts with processes that could afford nothing, in the order in which they said so.
    broke: VecDeque<usize>,
}

/// What hosts say to each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// To the list: what is cheapest?
    Read {
        /// The number of processes that are to be placed.
        count: u32,
    },
    /// By the list: hosts and prices, cheapest first.
    Offers(Vec<(usize, u64)>),
    /// To the list: processes here can afford nothing on it.
    Broke,
    /// By the list: say what your price is, and how it changes from now on.
    Quote,
    /// To the list: the price.
    Price(u64),
    /// A bid.
    Bid {
        /// The sender's number of the request.
        request: u64,
        /// What each of its processes bids, in descending order.
        amounts: Vec<u64>,
    },
    /// The end of an auction.
    Result {
        /// The receiver's number of the request.
        request: u64,
        /// Processes that have bought.
        won: u32,
    },
    /// A process that has bought does not come.
    Release,
}

impl Bidding {
    /// A policy under which nothing has happened.
    pub fn new() -> Self {
        Self::default()
    }

    /// The price of one more process here.
    fn price(&self, scene: &Scene<'_, Message>) -> u64 {
        let taken = u64::from(scene.load) + u64::from(self.sold.count(scene.now));
        taken * RISE / u64::from(scene.room)
    }

    /// The list hears of a new price, if it has asked once.
    fn publish(&mut self, scene: &mut Scene<'_, Message>) {
        let price = self.price(scene);
        if self.published.is_some_and(|published| published != price) {
            self.published = Some(price);
            scene.send(scene.centre, Message::Price(price));
        }
        self.post(scene);
    }

    /// Programs can read a new price or income, once the price was ever asked for.
    fn post(&mut self, scene: &mut Scene<'_, Message>) {
        let Some(price) = self.published else { return };
        let offer = self.till.offer(price);
        if self.posted != Some(offer) {
            self.posted = Some(offer);
            scene.post(offer);
        }
    }

    /// Processes of a request that have not bid.
    fn idle_buyers(&self) -> u32 {
        self.buyers.values().sum::<u32>().saturating_sub(self.bids.values().sum())
    }

    /// All processes that have not bid bid for what is cheapest: for each the first offer that it can afford, which it makes dearer.
    fn bid(&mut self, offers: Vec<(usize, u64)>, scene: &mut Scene<'_, Message>) {
        let mut offers: BTreeSet<(u64, usize)> =
            offers.into_iter().map(|(host, price)| (price, host)).collect();
        let mut broke = false;
        for (request, count) in self.buyers.clone() {
            let asked: u32 =
                self.bids.iter().filter(|((_, of), _)| *of == request).map(|(_, count)| count).sum();
            let mut amounts: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
            for _ in asked..count {
                let Some((price, host)) = offers.pop_first().filter(|&(price, _)| price <= BUDGET) else {
                    broke = true;
                    scene.no_room(request);
                    break;
                };
                amounts.entry(host).or_default().push(price);
                offers.insert((price + RISE, host));
            }
            for (host, mut amounts) in amounts {
                *self.bids.entry((host, request)).or_default() += amounts.len() as u32;
                amounts.reverse();
                scene.send(host, Message::Bid { request, amounts });
            }
        }
        if broke {
            scene.send(scene.centre, Message::Broke);
        }
    }

    fn read(&self, scene: &mut Scene<'_, Message>) {
        let count = self.idle_buyers();
        if count > 0 {
            scene.send(scene.centre, Message::Read { count });
        }
    }

    /// The auction here is over.
    fn sell(&mut self, scene: &mut Scene<'_, Message>) {
        let mut won: BTreeMap<(usize, u64), u32> = BTreeMap::new();
        for ((home, request), amount) in std::mem::take(&mut self.auction).close() {
            let sold = amount >= self.price(scene);
            *won.entry((home, request)).or_default() += u32::from(sold);
            if sold {
                self.sold.add(home, scene.now);
                self.till.sell(home, amount);
            }
        }
        // The list has the new price before a process that has lost reads it again.
        self.publish(scene);
        for ((home, request), won) in won {
            scene.send(home, Message::Result { request, won });
        }
    }

    fn result(&mut self, from: usize, request: u64, won: u32, scene: &mut Scene<'_, Message>) {
        let bid = self.bids.remove(&(from, request)).unwrap_or(0);
        // No more can have been bought than were bid for.
        let won = won.min(bid);
        let buyers = self.buyers.get_mut(&request);
        let bought = buyers.as_deref().map_or(0, |&buyers| buyers.min(won).min(bid));
        if let Some(buyers) = buyers {
            *buyers -= bought;
            if *buyers == 0 {
                self.buyers.remove(&request);
            }
        }
        scene.start(request, from, bought);
        for _ in bought..won {
            scene.send(from, Message::Release);
        }
        if bid > bought && self.buyers.contains_key(&request) {
            self.read(scene);
        }
    }

    fn heard(&mut self, from: usize, message: Message, scene: &mut Scene<'_, Message>) {
        match message {
            Message::Read { count } => self.board.read(from, count, scene),
            Message::Offers(offers) => self.bid(offers, scene),
            Message::Broke => {
                if !self.board.broke.contains(&from) {
                    self.board.broke.push_back(from);
                }
            }
            Message::Quote => {
                let price = self.price(scene);
                self.published = Some(price);
                scene.send(from, Message::Price(price));
                self.post(scene);
            }
            Message::Price(price) => self.board.priced(from, price, scene),
            Message::Bid { request, amounts } => {
                if self.auction.is_empty() {
                    scene.wake(AUCTION);
                }
                for amount in amounts {
                    self.auction.bid((from, request), amount);
                }
            }
            Message::Result { request, won } => self.result(from, request, won, scene),
            Message::Release => {
                self.sold.settle(from, 1);
                self.till.give_back(from);
                self.publish(scene);
            }
        }
    }

    fn gone(&mut self, host: usize, scene: &mut Scene<'_, Message>) {
        self.sold.gone(host);
        self.till.gone(host);
        self.auction.gone(host);
        self.bids.retain(|&(at, _), _| at != host);
        self.board.gone(host, scene);
        self.publish(scene);
        self.read(scene);
    }
}

impl Board {
    fn read(&mut self, reader: usize, count: u32, scene: &mut Scene<'_, Message>) {
        self.hosts.take(|| Message::Quote, scene);
        if self.hosts.is_complete() {
            self.tell(reader, count, scene);
        } else {
            let wanted = self.readers.entry(reader).or_default();
            *wanted = wanted.saturating_add(count);
        }
    }

    fn tell(&self, reader: usize, count: u32, scene: &mut Scene<'_, Message>) {
        let most = (count as usize).min(OFFERS_MAX);
        let offers = self.prices.iter().take(most).map(|&(price, _, host)| (host, price)).collect();
        scene.send(reader, Message::Offers(offers));
    }

    fn priced(&mut self, host: usize, price: u64, scene: &mut Scene<'_, Message>) {
        self.age += 1;
        if let Some((price, age)) = self.hosts.answered(host, (price, self.age)) {
            self.prices.remove(&(price, age, host));
        }
        self.prices.insert((price, self.age, host));
        self.tell_readers(scene);
        if price <= BUDGET
            && let Some(broke) = self.broke.pop_front()
        {
            self.tell(broke, 1, scene);
        }
    }

    fn tell_readers(&mut self, scene: &mut Scene<'_, Message>) {
        if self.hosts.is_complete() {
            for (reader, count) in std::mem::take(&mut self.readers) {
                self.tell(reader, count, scene);
            }
        }
    }

    fn gone(&mut self, host: usize, scene: &mut Scene<'_, Message>) {
        if let Some((price, age)) = self.hosts.gone(host) {
            self.prices.remove(&(price, age, host));
        }
        self.readers.remove(&host);
        self.broke.retain(|&other| other != host);
        self.tell_readers(scene);
    }
}

impl Agent for Bidding {
    type Message = Message;

    fn on(&mut self, event: Event<Message>, scene: &mut Scene<'_, Message>) {
        match event {
            Event::Created { request, count } => {
                *self.buyers.entry(request).or_default() += count;
                self.read(scene);
            }
            Event::Dropped { request } => {
                self.buyers.remove(&request);
            }
            Event::Heard { from, message } => self.heard(from, message, scene),
            Event::Began { home, count, placed, .. } => {
                if placed {
                    self.sold.settle(home, count);
                    self.till.begun(home, count);
                }
                self.publish(scene);
            }
            Event::Ended { .. } | Event::Load => self.publish(scene),
            Event::Woken => self.sell(scene),
            Event::Joined(_) if scene.own == scene.centre && !self.board.broke.is_empty() => {
                self.board.hosts.take(|| Message::Quote, scene);
            }
            Event::Gone(host) => self.gone(host, scene),
            Event::Centre => {
                if self.published.take().is_some() {
                    let price = self.price(scene);
                    self.published = Some(price);
                    scene.send(scene.centre, Message::Price(price));
                }
                if scene.own != scene.centre {
                    self.board = Board::default();
                }
                self.read(scene);
            }
            Event::Known { .. } | Event::Joined(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::agent::Action;
    use super::super::simulated::{Agents, Step};
    use super::super::testing::{self, Bench};
    use super::*;

    fn policy(hosts: usize) -> Agents<Bidding> {
        Agents::new("bidding", hosts, None, Bidding::new)
    }

    #[test]
    fn the_highest_bids_win_and_of_equal_ones_the_earliest() {
        let mut auction = Auction::default();
        for (request, amount) in [(1, 5), (2, 7), (3, 7), (4, 6)] {
            auction.bid((0, request), amount);
        }
        let order: Vec<u64> = auction.close().map(|((_, request), _)| request).collect();
        assert_eq!(order, [2, 3, 4, 1]);
    }

    #[test]
    fn each_sale_makes_a_host_dearer_and_those_that_are_broke_wait() {
        let mut policy = policy(2);
        let mut bench = Bench::new(&[0, 0]);
        let mut hosts = bench.create(&mut policy, 1, 0, 2);
        hosts.sort_unstable();
        assert_eq!(hosts, [0, 1]);
        assert_eq!(bench.create(&mut policy, 2, 0, 100).len(), 14, "up to eight on each");
        let steps = bench.end(&mut policy, 1);
        assert!(matches!(steps[..], [Step { request: 2, host: 1, .. }]), "{steps:?}");
    }

    #[test]
    fn an_absent_host_sells_nothing() {
        let mut policy = policy(2);
        let mut bench = Bench::new(&[0, 0]);
        bench.leave(&mut policy, 0);
        assert_eq!(bench.create(&mut policy, 1, 1, 2), [1, 1]);
        assert_eq!(bench.create(&mut policy, 2, 1, 8).len(), 6);
        let steps = bench.come_back(&mut policy, 0);
        assert!(matches!(steps[..], [Step { host: 0, .. }, ..]), "{steps:?}");
    }

    #[test]
    fn two_that_bid_the_same_for_one_place_do_not_both_get_it() {
        let mut seller = Bidding::new();
        let mut hear = |event| testing::hear(&mut seller, (0, 0), (0, 1), &[0, 1, 2], 0, event);
        let bid = |from| Event::Heard { from, message: Message::Bid { request: 1, amounts: vec![0] } };
        assert_eq!(hear(bid(1)), [Action::Wake(AUCTION)]);
        assert_eq!(hear(bid(2)), []);
        let result = |to, won| Action::Send { to, message: Message::Result { request: 1, won } };
        assert_eq!(hear(Event::Woken), [result(1, 1), result(2, 0)]);
    }

    #[test]
    fn the_list_hears_of_a_sale_before_those_who_have_lost() {
        let mut seller = Bidding::new();
        let mut hear = |message| {
            let actions = testing::hear(&mut seller, (1, 0), (0, 1), &[0, 1], 0, message);
            let sent = |action| match action {
                Action::Send { message, .. } => Some(message),
                _ => None,
            };
            actions.into_iter().filter_map(sent).collect::<Vec<_>>()
        };
        let says = |message| Event::Heard { from: 0, message };
        assert_eq!(hear(says(Message::Quote)), [Message::Price(0)]);
        assert_eq!(hear(says(Message::Bid { request: 1, amounts: vec![0, 0] })), []);
        assert_eq!(hear(Event::Woken), [Message::Price(RISE), Message::Result { request: 1, won: 1 }]);
    }

    #[test]
    fn a_host_posts_what_it_asks_and_has_earned() {
        let mut seller = Bidding::new();
        let mut hear = |load, event| {
            let actions = testing::hear(&mut seller, (1, 0), (load, 2), &[0, 1, 2], 0, event);
            let posted = |action| match action {
                Action::Post(offer) => Some(offer),
                _ => None,
            };
            actions.into_iter().filter_map(posted).collect::<Vec<_>>()
        };
        let says = |message| Event::Heard { from: 2, message };
        assert_eq!(hear(1, Event::Load), [], "its price was never asked for");
        let first = Offer { price: 500, ..Offer::default() };
        assert_eq!(hear(1, Event::Heard { from: 0, message: Message::Quote }), [first]);
        assert_eq!(hear(1, says(Message::Bid { request: 1, amounts: vec![1500, 500] })), []);
        // The second bid is below the price that the first sale has led to.
        let sold = Offer { price: 1000, last: 1500, sold: 1, income: 1500 };
        assert_eq!(hear(1, Event::Woken), [sold]);
        assert_eq!(hear(1, says(Message::Release)), [Offer { price: 500, sold: 0, income: 0, ..sold }]);
        assert_eq!(hear(2, Event::Load), [Offer { price: 1000, sold: 0, income: 0, ..sold }]);
        assert_eq!(hear(2, Event::Load), [], "nothing has changed");
    }
}
