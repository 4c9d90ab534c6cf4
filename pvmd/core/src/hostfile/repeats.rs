//! Names that stand in a hostfile several times: batch systems write a line per slot.

use super::{HostOptions, HostSpec};
use std::collections::BTreeMap;

/// The lines of the names so far.
#[derive(Debug, Default)]
pub struct Repeats {
    lines: BTreeMap<String, (usize, usize)>,
}

impl Repeats {
    /// Appends a host, or gives the one of this name that is there more slots. `own` is what its line says itself.
    pub fn take(
        &mut self,
        hosts: &mut Vec<HostSpec>,
        spec: HostSpec,
        own: &HostOptions,
        line: usize,
    ) -> Result<(), String> {
        let (index, first_line) = *self.lines.entry(spec.name.clone()).or_insert((hosts.len(), line));
        let Some(first) = hosts.get_mut(index) else {
            hosts.push(spec);
            return Ok(());
        };
        if !first.repeats_with(&spec, own) {
            return Err(format!("{} is in line {first_line} already, with other options", spec.name));
        }
        first.add_slots(&spec);
        Ok(())
    }
}

impl HostSpec {
    /// Adds a further line's slots; a line that names none is one.
    pub fn add_slots(&mut self, further: &Self) {
        let slots = |spec: &Self| spec.options.slots.unwrap_or(1);
        self.options.slots = Some(slots(self).saturating_add(slots(further)));
    }

    /// Whether a further line says of this host what its first one says, or nothing.
    pub fn repeats(&self, further: &Self) -> bool {
        self.repeats_with(further, &further.options)
    }

    fn repeats_with(&self, further: &Self, own: &HostOptions) -> bool {
        let without = |options: &HostOptions| HostOptions { slots: None, ..options.clone() };
        let marks = |spec: &Self| (spec.start, spec.shared_address);
        let says_nothing = without(own) == HostOptions::default();
        marks(self) == marks(further) && (says_nothing || without(&self.options) == without(&further.options))
    }
}
