//! Message contexts that this daemon has given to tasks.

use pvm_wire::{HostIndex, Tid};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::{self, Write};

/// Contexts of one daemon; those of others have another base.
const PER_DAEMON: i32 = 0x3fff5;

/// Which context belongs to which task.
#[derive(Debug)]
pub(crate) struct Contexts {
    base: i32,
    /// The one that was given last, from the base.
    last: i32,
    owners: BTreeMap<i32, Tid>,
}

impl Contexts {
    pub fn new(host: HostIndex) -> Self {
        Self { base: host.host_tid().raw(), last: 0, owners: BTreeMap::new() }
    }

    /// One that nobody has, if there is any.
    pub fn give(&mut self, owner: Tid) -> Option<i32> {
        (0..PER_DAEMON).find_map(|_| {
            self.last = self.last % PER_DAEMON + 1;
            let context = self.base + self.last;
            let Entry::Vacant(free) = self.owners.entry(context) else { return None };
            free.insert(owner);
            Some(context)
        })
    }

    /// Takes one back from its owner; whether it was that task's.
    pub fn take_back(&mut self, context: i32, owner: Tid) -> bool {
        let is_owned = self.owners.get(&context) == Some(&owner);
        if is_owned {
            self.owners.remove(&context);
        }
        is_owned
    }

    /// A task has left, and with it its contexts.
    pub fn forget(&mut self, owner: Tid) {
        self.owners.retain(|_, other| *other != owner);
    }

    pub fn len(&self) -> usize {
        self.owners.len()
    }

    /// A line for each, for people.
    pub fn write_state(&self, out: &mut String) -> fmt::Result {
        for (context, owner) in &self.owners {
            writeln!(out, "context {context:#x} of {owner}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_has_one_owner_and_is_given_again_late() {
        let (one, two) = (HostIndex::MASTER.task(1), HostIndex::MASTER.task(2));
        let mut contexts = Contexts::new(HostIndex::MASTER);
        let first = contexts.give(one).unwrap();
        assert!(!contexts.take_back(first, two), "it is another's");
        assert!(contexts.take_back(first, one) && !contexts.take_back(first, one));
        let second = contexts.give(two).unwrap();
        assert_ne!(second, first);
        assert!((1..PER_DAEMON).all(|_| contexts.give(one).is_some()));
        assert_eq!((contexts.give(one), contexts.len()), (None, PER_DAEMON as usize));
        contexts.forget(one);
        assert_eq!((contexts.give(one), contexts.len()), (Some(second + 1), 2));
    }
}
