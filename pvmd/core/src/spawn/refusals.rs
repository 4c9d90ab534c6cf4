//! Why tasks were not started: each reason once per host, with how many tasks it was the fate of.

use pvm_wire::limits::{REFUSAL_MAX, REFUSALS_MAX};
use pvm_wire::spawn::Refusal;
use pvm_wire::{HostIndex, PvmError};

/// The reasons of a spawn, or of what one host was to start of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusals(Vec<Refusal>);

impl Refusals {
    /// This number of tasks was not started.
    pub fn note(&mut self, host: Option<HostIndex>, code: PvmError, count: u32, reason: &str) {
        let host = host.map_or(0, |host| host.host_tid().raw());
        self.add(Refusal { host, code: code.code(), count, reason: reason.to_owned() });
    }

    /// What a host says of its part.
    pub fn add_from(&mut self, host: HostIndex, refusals: Vec<Refusal>) {
        for mut refusal in refusals {
            refusal.host = host.host_tid().raw();
            self.add(refusal);
        }
    }

    pub fn add(&mut self, mut refusal: Refusal) {
        // Not in the middle of a character.
        let mut end = refusal.reason.len().min(REFUSAL_MAX);
        while !refusal.reason.is_char_boundary(end) {
            end -= 1;
        }
        refusal.reason.truncate(end);
        let is_full = self.0.len() >= REFUSALS_MAX;
        let alike = |known: &&mut Refusal| {
            (known.host, known.code, &known.reason) == (refusal.host, refusal.code, &refusal.reason)
        };
        match self.0.iter_mut().find(alike) {
            Some(known) => known.count = known.count.saturating_add(refusal.count),
            None if is_full => {}
            None => self.0.push(refusal),
        }
    }

    /// All of them.
    pub fn into_list(self) -> Vec<Refusal> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_told_once_per_host_and_there_are_not_too_many() {
        let [one, two] = [1, 2].map(|index| HostIndex::new(index).unwrap());
        let mut refusals = Refusals::default();
        for _ in 0..3 {
            refusals.note(Some(one), PvmError::NoFile, 2, "x: no such file");
        }
        let mut far = Refusals::default();
        far.note(Some(one), PvmError::NoFile, 5, "x: no such file");
        refusals.add_from(two, far.into_list());
        let told: Vec<_> = refusals.0.iter().map(|refusal| (refusal.host, refusal.count)).collect();
        assert_eq!(told, [(one.host_tid().raw(), 6), (two.host_tid().raw(), 5)]);
        for number in 0..1000 {
            refusals.note(None, PvmError::NoFile, 1, &format!("{number}{}", "\u{e4}".repeat(REFUSAL_MAX)));
        }
        let list = refusals.into_list();
        assert_eq!(list.len(), REFUSALS_MAX);
        assert!(list.iter().all(|refusal| refusal.reason.len() <= REFUSAL_MAX));
    }
}
