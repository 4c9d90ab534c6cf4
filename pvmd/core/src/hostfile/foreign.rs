//! What other systems' hostfiles say: Open MPI's `slots=`, MPICH's `node:4`, LAM's `cpu=`, Grid Engine's columns.

use super::values::{SLOTS, shortened};

/// Keys by which other systems give the number of slots.
pub const SLOTS_KEYS: [&str; 4] = ["slots", "cpu", "cpus", "np"];

/// `node:4`, the name and its number of slots. An address of IPv6 has no slots, since it has more colons.
pub fn split_slots(name: &str) -> Result<(&str, Option<&str>), String> {
    if name.ends_with(']') && name.find('[').is_some_and(|at| at > 0) {
        let name = shortened(name);
        return Err(format!(
            "`{name}` stands for several hosts: write one line for each (scontrol show hostnames)"
        ));
    }
    match name.split_once(':') {
        Some((host, slots)) if !host.is_empty() && !slots.contains(':') => Ok((host, Some(slots))),
        _ => Ok((name, None)),
    }
}

/// The number of slots and the options behind, if the words behind a name are Grid Engine's columns: slots, queue,
/// processors.
pub fn grid_engine<'a, 'w>(words: &'a [&'w str]) -> Option<(&'w str, &'a [&'w str])> {
    let slots = words.first().filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()))?;
    let columns = words.iter().take(3).take_while(|word| !word.contains('=')).count();
    Some((slots, &words[columns..]))
}

/// A number of slots.
pub fn slots(value: &str) -> Result<u32, String> {
    let slots = value.parse().ok().filter(|slots| SLOTS.contains(slots));
    slots.ok_or_else(|| {
        let (least, most) = (SLOTS.start(), SLOTS.end());
        format!("`{}`: the number of slots is from {least} to {most}", shortened(value))
    })
}

/// Why an option of another system is not taken.
pub fn refused(key: &str) -> Option<&'static str> {
    Some(match key {
        "max_slots" | "max-slots" => {
            "not supported: slots= is no firm limit here; PVM_TASK_LIMIT in that host's environment is one"
        }
        "ifname" | "hca" | "binding" | "rack" | "socket" | "weight" => {
            "not supported: an option of another system"
        }
        _ => return None,
    })
}
