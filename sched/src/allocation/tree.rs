//! The tree over hosts' numbers in which managers are found.

/// A part of the tree: at level 0 one host, above it `fan_out` parts of the level below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub level: u32,
    /// From 0 on, in the order of the hosts' numbers.
    pub number: usize,
}

/// The tree as it is with these hosts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tree<'a> {
    /// Those that are present, in ascending order.
    pub hosts: &'a [usize],
    /// At least 2.
    pub fan_out: usize,
    /// The most parts at the top, at least 1.
    pub committee: usize,
}

impl<'a> Tree<'a> {
    /// The highest level, at least 1: the lowest at which there are not more parts than the committee may have members.
    pub fn top(&self) -> u32 {
        let last = self.hosts.last().copied().unwrap_or(0);
        let is_top = |&level: &u32| last / self.span(level) < self.committee;
        (1..=usize::BITS).find(is_top).unwrap_or(usize::BITS)
    }

    /// The part of a level that a host is in.
    pub fn part(&self, level: u32, host: usize) -> Part {
        Part { level, number: host / self.span(level) }
    }

    /// The part of the next level that a part is in.
    pub fn above(&self, part: Part) -> Part {
        Part { level: part.level.saturating_add(1), number: part.number / self.fan_out }
    }

    /// The manager of a part: its first host that is present; of a single host, itself.
    pub fn manager(&self, part: Part) -> Option<usize> {
        self.within(part).first().copied()
    }

    /// Hosts in a part that are present.
    pub fn count(&self, part: Part) -> usize {
        self.within(part).len()
    }

    /// The parts right below one that have hosts.
    pub fn below(self, part: Part) -> impl Iterator<Item = Part> + use<'a> {
        let level = part.level.saturating_sub(1);
        let first = part.number.saturating_mul(self.fan_out);
        let parts = (first..first.saturating_add(self.fan_out)).map(move |number| Part { level, number });
        parts.filter(move |&part| self.count(part) > 0)
    }

    /// The parts at the top that have hosts.
    pub fn top_parts(self) -> impl Iterator<Item = Part> + use<'a> {
        let level = self.top();
        let parts = (0..self.committee).map(move |number| Part { level, number });
        parts.filter(move |&part| self.count(part) > 0)
    }

    /// Numbers of hosts in a part of this level.
    fn span(&self, level: u32) -> usize {
        self.fan_out.saturating_pow(level)
    }

    fn within(&self, part: Part) -> &'a [usize] {
        let span = self.span(part.level);
        let first = part.number.saturating_mul(span);
        &self.hosts[self.before(first)..self.before(first.saturating_add(span))]
    }

    /// Hosts with lower numbers.
    fn before(&self, number: usize) -> usize {
        // If none below is missing, the number is also its place.
        match self.hosts.get(number) {
            Some(&host) if host == number => number,
            _ => self.hosts.partition_point(|&host| host < number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_covers_all_hosts() {
        let hosts: Vec<usize> = (0..100).collect();
        let tree = |fan_out, committee| Tree { hosts: &hosts, fan_out, committee };
        assert_eq!([tree(4, 1).top(), tree(4, 2).top(), tree(4, 7).top(), tree(4, 25).top()], [4, 3, 2, 1]);
        assert_eq!([tree(16, 4).top(), tree(1000, 1).top()], [2, 1]);
        let tree = tree(4, 2);
        assert_eq!(tree.top_parts().map(|part| tree.count(part)).collect::<Vec<_>>(), [64, 36]);
        let below: Vec<usize> =
            tree.below(Part { level: 3, number: 1 }).map(|part| tree.count(part)).collect();
        assert_eq!(below, [16, 16, 4]);
        assert_eq!(tree.manager(tree.part(2, 99)), Some(96));
        assert_eq!(tree.above(tree.part(1, 99)), tree.part(2, 99));
    }

    #[test]
    fn a_part_without_its_first_host_has_another_manager() {
        let tree = Tree { hosts: &[3, 4, 9], fan_out: 4, committee: 1 };
        assert_eq!(tree.top(), 2);
        let managers = [0, 1, 2, 3].map(|number| tree.manager(Part { level: 1, number }));
        assert_eq!(managers, [Some(3), Some(4), Some(9), None]);
        assert_eq!(tree.manager(Part { level: 2, number: 0 }), Some(3));
        assert_eq!(tree.below(Part { level: 2, number: 0 }).count(), 3);
        assert_eq!(Tree { hosts: &[], ..tree }.top_parts().count(), 0);
    }
}
