//! What a host has earned by selling places.

use super::promises::take_first;
use pvm_wire::daemon::Offer;
use std::collections::{BTreeMap, VecDeque};

/// Payments, and those that are given back if the process does not come.
#[derive(Clone, Debug, Default)]
pub(super) struct Till {
    sold: u64,
    last: u64,
    income: u64,
    /// Paid for processes that have not begun, by their home.
    open: BTreeMap<usize, VecDeque<u64>>,
}

impl Till {
    /// A process of this home has bought a place.
    pub fn sell(&mut self, home: usize, paid: u64) {
        self.sold += 1;
        self.last = paid;
        self.income = self.income.saturating_add(paid);
        self.open.entry(home).or_default().push_back(paid);
    }

    /// Processes of this home have begun: what they have paid stays.
    pub fn begun(&mut self, home: usize, count: u32) {
        take_first(&mut self.open, home, count);
    }

    /// A process of this home does not come: what it has paid is given back.
    pub fn give_back(&mut self, home: usize) {
        if let Some(paid) = self.open.get_mut(&home).and_then(VecDeque::pop_back) {
            self.sold -= 1;
            self.income -= paid;
        }
        self.begun(home, 0);
    }

    /// A home is gone, with its processes. What they have paid stays.
    pub fn gone(&mut self, home: usize) {
        self.open.remove(&home);
    }

    /// The entry of the list, with the price of the next place.
    pub fn offer(&self, price: u64) -> Offer {
        Offer { price, last: self.last, sold: self.sold, income: self.income }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_come_gets_its_money_back() {
        let mut till = Till::default();
        till.sell(1, 10);
        till.sell(1, 20);
        till.sell(2, 30);
        assert_eq!(till.offer(5), Offer { price: 5, last: 30, sold: 3, income: 60 });
        till.begun(1, 1);
        till.give_back(1);
        assert_eq!(till.offer(5), Offer { price: 5, last: 30, sold: 2, income: 40 });
        till.give_back(1);
        till.gone(2);
        till.give_back(2);
        till.begun(2, 9);
        assert_eq!(till.offer(6), Offer { price: 6, last: 30, sold: 2, income: 40 }, "nothing is open");
    }
}
