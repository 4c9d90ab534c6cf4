//! The policy of spawns that name none: a task may have one of its own, as tasks of a queue's jobs do. It is in the task's environment
//! ([`POLICY_VARIABLE`]), and in that of what the task spawns.

use pvm_wire::spawn::{POLICY_VARIABLE, SpawnRequest, entry, split_entry};
use std::ffi::OsString;

/// Bytes of a policy's name that are kept; every policy's name is shorter.
const NAME_MAX: usize = 64;

/// The policy that an environment names, whether or not there is one of the name; empty if it names none.
pub(crate) fn named_in(env: &[OsString]) -> String {
    let mut values = env.iter().filter_map(|entry| split_entry(entry));
    let value = values.find(|(name, _)| *name == POLICY_VARIABLE).map(|(_, value)| value.to_string_lossy());
    value.map_or(String::new(), |value| value.chars().take(NAME_MAX).collect())
}

/// A task whose spawns have this policy, if they name none, spawns: so do the tasks that it spawns.
pub(crate) fn pass_on(preset: &str, request: &mut SpawnRequest) {
    if preset.is_empty() {
        return;
    }
    if request.policy.is_empty() {
        preset.clone_into(&mut request.policy);
    }
    if named_in(&request.env).is_empty() {
        request.env.push(entry(POLICY_VARIABLE, preset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spawn_that_names_none_has_the_policy_of_its_task() {
        let mut request = SpawnRequest::default();
        pass_on("", &mut request);
        assert_eq!(request, SpawnRequest::default());
        pass_on("bidding", &mut request);
        assert_eq!((&request.policy[..], named_in(&request.env)), ("bidding", "bidding".to_owned()));
        // What the spawn says takes precedence, for itself and for the tasks.
        let env = vec![entry(POLICY_VARIABLE, "local")];
        let mut own = SpawnRequest { policy: "round-robin".into(), env, ..SpawnRequest::default() };
        pass_on("bidding", &mut own);
        assert_eq!((&own.policy[..], named_in(&own.env)), ("round-robin", "local".to_owned()));
    }

    #[test]
    fn a_name_is_cut_off() {
        let long = vec![entry("A", "b"), entry(POLICY_VARIABLE, "x".repeat(1 << 20))];
        assert_eq!(named_in(&long), "x".repeat(NAME_MAX));
    }
}
