//! Epochs: how nodes agree which of their context switches prevails.

/// A node's epoch: the number of spontaneous context switches behind its present order, and the node of the last one.
///
/// Two nodes may make the same count of two different switches at the same time. Of two equal counts the one of the higher node is
/// greater, so no two switches have the same epoch, and of all orders exactly one prevails. Counts are compared by their
/// distance: after the greatest number comes zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Epoch {
    /// Spontaneous switches.
    pub count: u64,
    /// The node that made the last of them; 0 if nodes have no names, and equal counts are equal.
    pub origin: u32,
}

impl Epoch {
    /// An epoch of nodes without names.
    pub fn new(count: u64) -> Self {
        Self { count, origin: 0 }
    }

    /// Whether this is greater.
    pub fn is_after(self, other: Self) -> bool {
        let distance = self.count.wrapping_sub(other.count).cast_signed();
        distance > 0 || distance == 0 && self.origin > other.origin
    }

    /// The epoch of this node after one more switch of its own.
    #[must_use]
    pub fn next(self, origin: u32) -> Self {
        Self { count: self.count.wrapping_add(1), origin }
    }
}
