//! Turns by the rows of a matrix ([`crate::dasic`]), which all hosts change at the same instants of an agreed clock.
//!
//! The slice number n of that clock is that of row n modulo the number of rows. It is also the count of the host's epoch, so what a team sends in its row is no
//! newer than what other hosts know, and brings no team out of its row; it does where the rows of a team differ between hosts, and where another
//! host's clock is ahead: then it brings the team of the next row a moment early.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A slice that ends within this part of its length has ended: timers and clocks are not exact.
const ROUNDED: u64 = 16;

/// The rows as one host needs them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows<T> {
    count: u32,
    slice: u64,
    /// Number of the first slice for which they count.
    first: u64,
    teams: BTreeMap<T, BTreeSet<u32>>,
    /// The row of all other teams, if they have one of their own.
    others: Option<u32>,
}

/// A slice of the agreed clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Its number.
    pub number: u64,
    /// The row that has it.
    pub row: u32,
    /// When it ends, from now on.
    pub left: Duration,
}

impl<T: Copy + Ord> Rows<T> {
    /// This number of rows of this slice, from the slice with the number `first` on, and the rows in which the host's teams have places. `None` if
    /// there is no row or no slice.
    pub fn new(count: u32, slice: Duration, first: u64, teams: BTreeMap<T, BTreeSet<u32>>) -> Option<Self> {
        let slice = u64::try_from(slice.as_nanos()).ok().filter(|&slice| slice > 0)?;
        (count > 0).then_some(Self { count, slice, first, teams, others: None })
    }

    /// The same, with a row for all teams that have no place in any.
    #[must_use]
    pub fn with_others(self, others: Option<u32>) -> Self {
        Self { others, ..self }
    }

    /// The slice at this time of the host's clock, with the agreed clock ahead of it by this number of nanoseconds.
    pub fn slice(&self, now: Duration, ahead: i64) -> Slice {
        let time = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX).saturating_add_signed(ahead);
        let number = time.saturating_add(self.slice / ROUNDED) / self.slice;
        let end = number.saturating_add(1).saturating_mul(self.slice);
        let row = (number % u64::from(self.count)) as u32;
        Slice { number, row, left: Duration::from_nanos(end.saturating_sub(time)) }
    }

    /// Whether they count in this slice.
    pub fn counts_in(&self, slice: Slice) -> bool {
        slice.number >= self.first
    }

    /// Whether a team has a place in a row. One that has none in any is in the row of other teams, or else in the first.
    pub fn has(&self, row: u32, team: T) -> bool {
        self.teams.get(&team).map_or(row == self.others.unwrap_or(0), |rows| rows.contains(&row))
    }
}

/// The rows of a host, and the one that has its slice.
#[derive(Clone, Debug)]
pub(super) struct Rotation<T> {
    rows: Option<Rows<T>>,
    /// Those that take their place in a later slice.
    next: Option<Rows<T>>,
    /// Nanoseconds by which the agreed clock is ahead of this host's.
    pub ahead: i64,
    /// The row that has its slice.
    pub row: Option<u32>,
    /// That row has no team here, or its teams wait: another team uses the slice.
    pub is_alternate: bool,
    /// The team that had the last slice of other teams.
    pub last_other: Option<T>,
}

impl<T> Default for Rotation<T> {
    fn default() -> Self {
        Self { rows: None, next: None, ahead: 0, row: None, is_alternate: false, last_other: None }
    }
}

impl<T: Copy + Ord> Rotation<T> {
    /// Rows that count from a slice on that they name; without any there are none from the next slice on.
    pub fn give(&mut self, rows: Option<Rows<T>>) {
        if rows.is_none() {
            self.rows = None;
        }
        self.next = rows;
    }

    /// The row that has its slice from now on, if there are rows.
    pub fn renew(&mut self, now: Duration) -> Option<Slice> {
        let ahead = self.ahead;
        if let Some(next) = self.next.take_if(|next| next.counts_in(next.slice(now, ahead))) {
            self.rows = Some(next);
        }
        self.is_alternate = false;
        let slice = self.slice(now);
        self.row = slice.map(|slice| slice.row);
        slice
    }

    /// The slice of the agreed clock, if there are rows.
    pub fn slice(&self, now: Duration) -> Option<Slice> {
        self.rows.as_ref().map(|rows| rows.slice(now, self.ahead))
    }

    /// Whether the slice is that of other teams. They do not have it together: it is as without rows.
    pub fn is_of_others(&self) -> bool {
        self.row.is_some() && self.rows.as_ref().is_some_and(|rows| rows.others == self.row)
    }

    /// Whether a team has a place in the row that has its slice.
    pub fn has_place(&self, team: T) -> bool {
        self.rows.as_ref().zip(self.row).is_some_and(|(rows, row)| rows.has(row, team))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: Duration = Duration::from_millis(50);

    fn rows(count: u32, first: u64) -> Rows<char> {
        let teams = [('A', BTreeSet::from([0])), ('B', BTreeSet::from([1, 2]))];
        Rows::new(count, SLICE, first, teams.into()).expect("rows")
    }

    #[test]
    fn hosts_whose_clocks_differ_change_rows_at_the_same_instants() {
        let rows = rows(3, 0);
        for instant in [0, 1, 24, 46, 49, 50, 110, 149, 151, 1_000_007] {
            let (here, there) = (Duration::from_millis(instant), Duration::from_millis(instant + 700));
            assert_eq!(rows.slice(here, 0), rows.slice(there, -700_000_000), "{instant}");
            assert_eq!(rows.slice(here + SLICE, 0).number, rows.slice(here, 0).number + 1);
        }
        let slice = rows.slice(SLICE * 4 + SLICE / 5, 0);
        assert_eq!((slice.number, slice.row, slice.left), (4, 1, SLICE * 4 / 5));
    }

    #[test]
    fn a_timer_that_is_early_begins_the_next_slice() {
        let slice = rows(3, 0).slice(SLICE * 139 / 20, 0);
        assert_eq!((slice.number, slice.row, slice.left), (7, 1, SLICE + SLICE / 20));
    }

    #[test]
    fn a_team_is_in_its_rows_or_else_in_the_first() {
        let rows = rows(3, 5);
        let of =
            |row: u32| ['A', 'B', 'C'].into_iter().filter(|&team| rows.has(row, team)).collect::<String>();
        assert_eq!([0, 1, 2].map(of), ["AC", "B", "B"]);
        assert!(!rows.counts_in(rows.slice(SLICE * 4, 0)) && rows.counts_in(rows.slice(SLICE * 5, 0)));
        let rows = rows.with_others(Some(2));
        let of =
            |row: u32| ['A', 'B', 'C'].into_iter().filter(|&team| rows.has(row, team)).collect::<String>();
        assert_eq!([0, 1, 2].map(of), ["A", "B", "BC"], "others have a row of their own");
    }

    #[test]
    fn no_numbers_make_it_panic() {
        assert!(Rows::<char>::new(0, SLICE, 0, BTreeMap::new()).is_none());
        assert!(Rows::<char>::new(1, Duration::ZERO, 0, BTreeMap::new()).is_none());
        assert!(Rows::<char>::new(1, Duration::MAX, 0, BTreeMap::new()).is_none());
        let rows =
            Rows::<char>::new(u32::MAX, Duration::from_nanos(1), u64::MAX, BTreeMap::new()).expect("rows");
        for ahead in [i64::MIN, 0, i64::MAX] {
            let _ = rows.slice(Duration::MAX, ahead);
            let _ = rows.slice(Duration::ZERO, ahead);
        }
    }
}
